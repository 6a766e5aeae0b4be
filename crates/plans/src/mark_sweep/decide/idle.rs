//! When a program is idle, and when unused memory goes back to the system for that. Whether a collection pays then is
//! [`super::idle_collection`]'s to say.
//!
//! There are two ways to see it. A [`Watch`] looks from outside, from time to time: it wants to see that nothing was allocated or freed
//! for as long as the option says. Where no thread looks, the program's own calls do ([`Fading`]): after a time in which much was
//! allocated comes one in which little is. A call after a time without any says nothing: it may be the first of many.
//!
//! Where memory is short, an eighth of that time is enough ([`Strain`]): others wait for what is unused here.
//!
//! A look that comes much later than it was to come says nothing either: the process was stopped meanwhile, or had no processor.
//! Clocks do not matter otherwise: times are differences of one that never goes back.
//!
//! Memory that goes back leaves the heap's capacity as it is, so that the next collections come when they would have come. What
//! is not used again for as many collections as it would have taken without idle time is taken off the capacity then
//! ([`Unlowered`]).

/// Less than this is not worth the trouble: of unused memory, and of what was allocated before calls became rare.
pub const LEAST_WORTH: usize = 1 << 20;
/// Looks in the time without allocations after which the program is idle.
const LOOKS: u64 = 2;
/// Where memory is short, this part of the time is enough.
const SHORT_PART: u64 = 8;
/// Memory is short if threads wait for it in this part of the time, or if less than this part of what the heap holds is left.
const WAITED_PART: u64 = 100;
const LEFT_PART: usize = 4;
/// A look is late if it comes after this many times as long as it was to come, or so much later than that.
const LATE: u64 = 4;
const LATE_NS: u64 = 10_000_000_000;
/// An allocation rate has faded when it is this part of what it was.
const FADED: usize = 16;

/// What a look finds.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// The time, by a clock that never goes back.
    pub now_ns: u64,
    /// A number that changes when something is allocated, freed or collected.
    pub activity: u64,
    /// Bytes that might go back.
    pub unused: usize,
    /// Whether memory is short.
    pub is_short: bool,
}

/// What to do after a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// To look again after this many nanoseconds.
    LookAfter(u64),
    /// To give a piece of the unused memory back, and look again at once.
    GiveBack,
    /// To consider whether a collection pays, and look again at once.
    Consider,
    /// Nothing until the program allocates again.
    Rest,
}

/// Sees from outside whether a program is idle.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// How long nothing is to be allocated.
    after_ns: u64,
    /// When it looked last, and what the activity was.
    last: Option<(u64, u64)>,
    /// For how long the activity has been the same.
    quiet_ns: u64,
    /// Whether some of what is unused went back, so that the rest is to follow however little it is.
    is_giving: bool,
    /// Whether all that is unused went back since the program was active.
    is_done: bool,
    /// Whether a collection was considered since then.
    is_considered: bool,
    /// Whether memory was short at the last look.
    is_short: bool,
}

impl Watch {
    /// A program is idle that has not allocated for `after_ns` nanoseconds.
    pub const fn new(after_ns: u64) -> Watch {
        Watch {
            after_ns,
            last: None,
            quiet_ns: 0,
            is_giving: false,
            is_done: false,
            is_considered: false,
            is_short: false,
        }
    }

    /// For how long nothing is to be allocated.
    fn enough_ns(&self) -> u64 {
        match self.is_short {
            true => self.after_ns / SHORT_PART,
            false => self.after_ns,
        }
    }

    /// The time from one look to the next.
    pub fn period_ns(&self) -> u64 {
        self.enough_ns() / LOOKS
    }

    /// Nothing is left to be given back.
    pub fn note_all_is_back(&mut self) {
        self.is_giving = false;
        self.is_done = true;
    }

    /// The heap was collected for the idle time that was seen, which goes on: what is unused now may go back.
    pub fn note_collected(&mut self, now_ns: u64, activity: u64) {
        self.last = Some((now_ns, activity));
        self.is_done = false;
    }

    /// The collection that was considered will pay later: it is considered again at the next look.
    pub fn consider_again(&mut self) -> Next {
        self.is_considered = false;
        Next::LookAfter(self.period_ns())
    }

    /// What to do, as a look finds the program.
    pub fn look(&mut self, look: &Look) -> Next {
        // What makes a look late is the time after which it was to come.
        let late_ns = (LATE * self.period_ns()).min(self.period_ns() + LATE_NS);
        self.is_short = look.is_short;
        let again = Next::LookAfter(self.period_ns());
        let before = self.last.replace((look.now_ns, look.activity));
        let Some((at, activity)) = before else {
            return again;
        };
        if activity != look.activity {
            self.quiet_ns = 0;
            self.is_giving = false;
            self.is_done = false;
            self.is_considered = false;
            return again;
        }
        let passed = look.now_ns.saturating_sub(at);
        if passed > late_ns {
            self.quiet_ns = 0;
            return again;
        }
        self.quiet_ns = self.quiet_ns.saturating_add(passed);
        if self.quiet_ns < self.enough_ns() {
            again
        } else if self.is_giving || !self.is_done && look.unused >= LEAST_WORTH {
            self.is_giving = true;
            Next::GiveBack
        } else if !core::mem::replace(&mut self.is_considered, true) {
            Next::Consider
        } else {
            Next::Rest
        }
    }
}

/// Sees whether memory is short.
#[derive(Clone, Copy, Debug)]
pub struct Strain {
    /// When it was asked last, and how long threads had waited for memory, in microseconds.
    last: Option<(u64, u64)>,
}

impl Strain {
    /// Before it was asked.
    pub const NONE: Strain = Strain { last: None };

    /// Whether memory is short, of a heap that holds `held` bytes. Threads have waited for `waited_us` microseconds in sum, and limits
    /// leave `left` bytes, as far as that is known.
    pub fn is_short(
        &mut self,
        now_ns: u64,
        waited_us: Option<u64>,
        left: Option<usize>,
        held: usize,
    ) -> bool {
        let before = self.last;
        self.last = waited_us.map(|waited| (now_ns, waited));
        let do_wait = match (before, waited_us) {
            (Some((at, had_waited)), Some(waited)) => {
                let waited_ns = waited.saturating_sub(had_waited).saturating_mul(1000);
                waited_ns > 0 && waited_ns >= now_ns.saturating_sub(at) / WAITED_PART
            }
            _ => false,
        };
        do_wait || left.is_some_and(|left| left < held / LEFT_PART)
    }
}

/// Sees from the program's own calls for memory that they become rare.
#[derive(Clone, Copy, Debug)]
pub struct Fading {
    /// The least time that is compared.
    window_ns: u64,
    /// When the time began that is looked at; `None` before the first call.
    since_ns: Option<u64>,
    /// Bytes that were allocated in it.
    bytes: usize,
    /// The most that was allocated in such a time since all unused memory went back.
    peak: usize,
    /// All that was allocated since.
    sum: usize,
    /// Whether the last such time had a small part of that.
    has_faded: bool,
    /// Whether a collection was considered since that is so.
    is_considered: bool,
}

impl Fading {
    /// Compares times of a quarter of `after_ns` nanoseconds and more.
    pub const fn new(after_ns: u64) -> Fading {
        Fading {
            window_ns: after_ns / 4,
            since_ns: None,
            bytes: 0,
            peak: 0,
            sum: 0,
            has_faded: false,
            is_considered: false,
        }
    }

    /// A call at `now_ns`, before which `bytes` bytes were allocated since the last one; whether such calls have become rare.
    pub fn call(&mut self, now_ns: u64, bytes: usize) -> bool {
        // What was allocated up to the last call belongs to the time before: this one may be the first of many.
        let since = *self.since_ns.get_or_insert(now_ns);
        if now_ns.saturating_sub(since) >= self.window_ns {
            self.has_faded = self.bytes < self.peak / FADED;
            self.peak = self.peak.max(self.bytes);
            self.bytes = 0;
            self.since_ns = Some(now_ns);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.sum = self.sum.saturating_add(bytes);
        self.has_faded &= self.bytes < self.peak / FADED && self.sum >= LEAST_WORTH;
        self.is_considered &= self.has_faded;
        self.has_faded
    }

    /// Whether a collection is to be considered, once each time that calls have become rare.
    pub fn considers(&mut self) -> bool {
        self.has_faded && !core::mem::replace(&mut self.is_considered, true)
    }

    /// Nothing is left to be done: what follows is compared with what is allocated from now on.
    pub fn note_all_is_done(&mut self) {
        self.peak = 0;
        self.sum = 0;
    }
}

/// Bytes that went back in idle time and are still in the heap's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlowered {
    bytes: usize,
    /// Collections since there are such bytes.
    collections: u8,
}

impl Unlowered {
    /// None.
    pub const NONE: Unlowered = Unlowered {
        bytes: 0,
        collections: 0,
    };

    /// `bytes` bytes went back.
    pub fn note(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// A collection began when the heap held `held` bytes of memory and might hold `capacity`. By how many bytes the capacity
    /// is to be lowered, if what was not used for `release_after` collections is to go, 0 meaning that nothing goes.
    pub fn after_collection(&mut self, capacity: usize, held: usize, release_after: u8) -> usize {
        // The rest was used again. A heap holds most as a collection begins.
        self.bytes = self.bytes.min(capacity.saturating_sub(held));
        self.collections = match self.bytes {
            0 => 0,
            _ => self.collections.saturating_add(1),
        };
        if release_after == 0 || self.collections < release_after {
            return 0;
        }
        core::mem::replace(self, Unlowered::NONE).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;
    const MB: usize = 1 << 20;

    /// A program whose activity changes at these times, and what a watch does for `until` nanoseconds. `unused` bytes
    /// are unused until they went back in pieces of 4 MB, and `more` pieces follow of what is not counted.
    struct Watched {
        watch: Watch,
        now: u64,
        unused: usize,
        more: usize,
        is_short: bool,
        looks: usize,
        /// How often a collection was considered.
        considered: usize,
        /// How often one is to be considered again.
        postponed: usize,
        /// When pieces went back.
        given: Vec<u64>,
    }

    impl Watched {
        fn new(unused: usize) -> Watched {
            Watched {
                watch: Watch::new(SECOND),
                now: 0,
                unused,
                more: 0,
                is_short: false,
                looks: 0,
                considered: 0,
                postponed: 0,
                given: Vec::new(),
            }
        }

        /// Runs until it rests or it is `until`; whether it rests.
        fn run(&mut self, until: u64, activity: impl Fn(u64) -> u64) -> bool {
            while self.now < until {
                self.looks += 1;
                let next = self.watch.look(&Look {
                    now_ns: self.now,
                    activity: activity(self.now),
                    unused: self.unused,
                    is_short: self.is_short,
                });
                match next {
                    Next::LookAfter(nanoseconds) => self.now += nanoseconds,
                    Next::GiveBack => {
                        self.given.push(self.now);
                        self.now += MS;
                        if self.unused == 0 {
                            self.more -= 1;
                        }
                        self.unused = self.unused.saturating_sub(4 * MB);
                        if self.unused + self.more == 0 {
                            self.watch.note_all_is_back();
                        }
                    }
                    Next::Consider => {
                        self.considered += 1;
                        if self.postponed > 0 {
                            self.postponed -= 1;
                            self.watch.consider_again();
                            self.now += self.watch.period_ns();
                        }
                    }
                    Next::Rest => return true,
                }
            }
            false
        }
    }

    #[test]
    fn memory_goes_back_once_when_nothing_was_allocated_for_the_time() {
        let mut watched = Watched::new(40 * MB);
        // The last allocation is at 3.2 seconds.
        let activity = |now: u64| now.min(3200 * MS);
        assert!(watched.run(60 * SECOND, activity), "it rests");
        assert_eq!((watched.given.len(), watched.considered), (10, 1));
        let first = watched.given[0];
        assert!((4200 * MS..=4700 * MS).contains(&first), "{first}");
        assert!(watched.looks < 25, "{} looks", watched.looks);
        // Waked for nothing, it does nothing.
        watched.unused = 40 * MB;
        watched.now += 10 * SECOND;
        assert!(watched.run(60 * SECOND, activity));
        assert_eq!((watched.given.len(), watched.considered), (10, 1));
        // After a burst it does it again.
        let began = watched.now;
        let activity = |now: u64| now.min(began + SECOND);
        assert!(watched.run(began + 60 * SECOND, activity));
        assert_eq!((watched.given.len(), watched.considered), (20, 2));
    }

    #[test]
    fn a_collection_that_pays_later_is_considered_again() {
        let mut watched = Watched::new(0);
        watched.postponed = 7;
        assert!(watched.run(60 * SECOND, |_| 1));
        assert_eq!(watched.considered, 8);
        // At each look, and no sooner.
        assert!(
            (4 * SECOND..6 * SECOND).contains(&watched.now),
            "{}",
            watched.now
        );
    }

    #[test]
    fn what_a_collection_frees_goes_back_in_the_same_idle_time() {
        let mut watched = Watched::new(0);
        assert!(watched.run(60 * SECOND, |_| 7));
        assert_eq!(watched.considered, 1);
        // It takes some time, and counts as no activity.
        watched.now += 10 * SECOND;
        watched.watch.note_collected(watched.now, 8);
        watched.unused = 40 * MB;
        let began = watched.now;
        assert!(watched.run(60 * SECOND, |_| 8));
        assert_eq!((watched.given.len(), watched.considered), (10, 1));
        assert!(watched.now < began + SECOND, "at once");
        // Also where some went back before the collection.
        watched.watch.note_collected(watched.now, 9);
        watched.unused = 40 * MB;
        assert!(watched.run(60 * SECOND, |_| 9));
        assert_eq!((watched.given.len(), watched.considered), (20, 1));
    }

    #[test]
    fn a_program_that_allocates_every_half_second_is_never_idle() {
        let mut watched = Watched::new(500 * MB);
        assert!(!watched.run(600 * SECOND, |now| now / (500 * MS)));
        assert_eq!(watched.given.len(), 0);
        assert!(watched.looks <= 1201, "{} looks", watched.looks);
    }

    #[test]
    fn what_is_hardly_worth_it_is_left() {
        let mut watched = Watched::new(LEAST_WORTH - 1);
        assert!(watched.run(60 * SECOND, |_| 0));
        assert_eq!(watched.given.len(), 0);
        let mut watched = Watched::new(LEAST_WORTH);
        assert!(watched.run(60 * SECOND, |_| 0));
        assert_eq!(watched.given.len(), 1);
    }

    #[test]
    fn what_was_begun_is_done_to_the_end() {
        let mut watched = Watched::new(8 * MB);
        watched.more = 3;
        assert!(watched.run(60 * SECOND, |_| 0));
        assert_eq!((watched.given.len(), watched.more), (5, 0));
    }

    #[test]
    fn pieces_end_when_the_program_goes_on() {
        let mut watched = Watched::new(400 * MB);
        let back = SECOND + 10 * MS;
        assert!(!watched.run(2 * SECOND, |now| u64::from(now >= back)));
        assert!(
            (5..15).contains(&watched.given.len()),
            "{:?}",
            watched.given
        );
        assert!(watched.given.iter().all(|&at| at < back));
        // What was begun then is begun no more.
        let given = watched.given.len();
        watched.unused = LEAST_WORTH - 1;
        assert!(watched.run(60 * SECOND, |_| 1));
        assert_eq!(watched.given.len(), given);
    }

    #[test]
    fn where_memory_is_short_an_eighth_of_the_time_is_enough() {
        let mut watched = Watched::new(40 * MB);
        watched.is_short = true;
        assert!(watched.run(60 * SECOND, |now| now.min(3200 * MS)));
        let first = watched.given[0];
        assert!((3325 * MS..=3400 * MS).contains(&first), "{first}");
        // A program that is not idle long enough yet is when memory becomes short.
        let mut watched = Watched::new(40 * MB);
        assert!(!watched.run(400 * MS, |_| 7));
        watched.is_short = true;
        let now = watched.now;
        assert!(watched.run(60 * SECOND, |_| 7));
        assert_eq!(watched.given[0], now);
    }

    #[test]
    fn memory_is_short_where_threads_wait_for_it_or_limits_leave_little() {
        let mut strain = Strain::NONE;
        let mut waits = |now, waited| strain.is_short(now, waited, None, 100 * MB);
        assert!(!waits(0, Some(500)), "nobody knows since when");
        assert!(!waits(SECOND, Some(500)));
        assert!(!waits(2 * SECOND, Some(500 + 9999)));
        assert!(waits(3 * SECOND, Some(10_499 + 10_000)));
        assert!(!waits(4 * SECOND, None));
        assert!(!waits(5 * SECOND, Some(1 << 40)), "anew");
        assert!(!waits(5 * SECOND, Some(1 << 40)), "at the same time");
        assert!(!waits(6 * SECOND, Some(7)), "a sum that has become less");
        let mut left = |left| strain.is_short(7 * SECOND, None, left, 100 * MB);
        assert!(!left(None) && !left(Some(25 * MB)));
        assert!(left(Some(25 * MB - 1)) && left(Some(0)));
    }

    /// A minute in which the process is stopped is no minute in which it allocates nothing; nor is one in which the watching thread
    /// gets no processor.
    #[test]
    fn a_late_look_says_nothing() {
        let mut watch = Watch::new(SECOND);
        let look = |now_ns| Look {
            now_ns,
            activity: 7,
            unused: 100 * MB,
            is_short: false,
        };
        let again = Next::LookAfter(SECOND / 2);
        assert_eq!(watch.look(&look(0)), again);
        assert_eq!(watch.look(&look(500 * MS)), again);
        assert_eq!(watch.look(&look(60 * SECOND)), again);
        assert_eq!(watch.look(&look(60 * SECOND + 600 * MS)), again);
        assert_eq!(watch.look(&look(61 * SECOND + 100 * MS)), Next::GiveBack);
        // Four times as long as it was to come is not late yet.
        let mut often = Watch::new(SECOND);
        assert_eq!(often.look(&look(0)), again);
        assert_eq!(often.look(&look(2 * SECOND + 1)), again);
        assert_eq!(often.look(&look(4 * SECOND + 1)), Next::GiveBack);
        // Nor if the time is as long as the stop.
        let mut slow = Watch::new(60 * SECOND);
        let again_later = Next::LookAfter(30 * SECOND);
        for at in [0, 30, 90, 120] {
            assert_eq!(slow.look(&look(at * SECOND)), again_later, "{at}");
        }
        assert_eq!(slow.look(&look(150 * SECOND)), Next::GiveBack);
        // A clock that goes back is taken for one that stands still.
        assert_eq!(watch.look(&look(SECOND)), Next::GiveBack);
    }

    /// The times at which calls give a piece back, of calls at these times for as many bytes.
    fn given(calls: impl IntoIterator<Item = (u64, usize)>) -> Vec<u64> {
        let mut fading = Fading::new(SECOND);
        calls
            .into_iter()
            .filter(|&(now, bytes)| fading.call(now, bytes))
            .map(|(now, _)| now)
            .collect()
    }

    /// Calls every `step` nanoseconds in a time, each for `bytes` bytes.
    fn calls(from: u64, to: u64, step: u64, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
        (from..to).step_by(step as usize).map(move |at| (at, bytes))
    }

    #[test]
    fn calls_that_become_rare_give_memory_back() {
        let burst = calls(0, 2 * SECOND, MS, 64 << 10);
        let after = calls(2 * SECOND, 6 * SECOND, 100 * MS, 16 << 10);
        let times = given(burst.chain(after));
        assert!(times.len() > 20, "{times:?}");
        let first = times[0];
        assert!((2250 * MS..=2600 * MS).contains(&first), "{first}");
        // When a time is over in which little was allocated, to the nanosecond.
        let three = [(0, 64 * MB), (250 * MS, 0), (500 * MS, 0)];
        assert_eq!(given(three), [500 * MS]);
        // However rare they are.
        let burst = calls(0, 2 * SECOND, MS, 64 << 10);
        let after = calls(5 * SECOND, 60 * SECOND, 3 * SECOND, 16 << 10);
        assert_eq!(
            given(burst.chain(after))[0],
            8 * SECOND,
            "the second of them"
        );
    }

    #[test]
    fn calls_that_go_on_give_nothing_back() {
        assert!(given(calls(0, 60 * SECOND, MS, 16 << 10)).is_empty());
        assert!(given(calls(0, 60 * SECOND, SECOND / 2, 16 << 10)).is_empty());
        // Bursts, between which there is nothing.
        let bursts =
            (0..20).flat_map(|n| calls(n * 3 * SECOND, n * 3 * SECOND + SECOND, MS, 64 << 10));
        assert!(given(bursts).is_empty());
        // Nor do calls become rare that never were for much.
        let little = calls(0, SECOND, 20 * MS, 16 << 10);
        let less = calls(SECOND, 9 * SECOND, SECOND, 16);
        assert!(given(little.chain(less)).is_empty());
    }

    #[test]
    fn a_burst_ends_the_pieces_and_all_of_them_end_when_nothing_is_left() {
        let mut fading = Fading::new(SECOND);
        let mut considered = 0;
        let mut rare = |fading: &mut Fading, from, to, step, bytes| {
            let rare = calls(from, to, step, bytes).filter(|&(now, bytes)| {
                let is_rare = fading.call(now, bytes);
                considered += usize::from(fading.considers());
                is_rare
            });
            (rare.count(), considered)
        };
        assert_eq!(rare(&mut fading, 0, SECOND, MS, 64 << 10), (0, 0));
        let (some, considered) = rare(&mut fading, SECOND, 3 * SECOND, 100 * MS, 16);
        assert!(some > 10 && considered == 1, "{some} {considered}");
        let (few, considered) = rare(&mut fading, 3 * SECOND, 4 * SECOND, MS, 64 << 10);
        assert!(few <= 16 && considered == 1, "{few} {considered}");
        let (some, considered) = rare(&mut fading, 4 * SECOND, 6 * SECOND, 100 * MS, 16);
        assert!(some > 10 && considered == 2, "{some} {considered}");
        fading.note_all_is_done();
        let again = rare(&mut fading, 6 * SECOND, 60 * SECOND, 100 * MS, 16);
        assert_eq!(again, (0, 2));
        // What was allocated before that counts no more.
        let (some, _) = rare(&mut fading, 60 * SECOND, 61 * SECOND, SECOND, 64 << 10);
        let (more, _) = rare(&mut fading, 61 * SECOND, 70 * SECOND, 100 * MS, 16);
        assert_eq!((some, more), (0, 0));
        let steady = rare(&mut fading, 70 * SECOND, 99 * SECOND, 100 * MS, 64 << 10);
        assert_eq!(steady, (0, 2));
    }

    #[test]
    fn the_capacity_follows_after_as_many_collections_as_without_idle_time() {
        let mut unlowered = Unlowered::NONE;
        assert_eq!(unlowered.after_collection(100, 100, 1), 0);
        unlowered.note(60);
        assert_eq!(unlowered.after_collection(100, 40, 3), 0);
        // 20 of them are used again, and go back again.
        assert_eq!(unlowered.after_collection(100, 60, 3), 0);
        unlowered.note(20);
        assert_eq!(unlowered.after_collection(100, 60, 3), 40);
        assert_eq!(unlowered, Unlowered::NONE);
        // Where all of them are used, the count begins anew.
        unlowered.note(60);
        assert_eq!(unlowered.after_collection(100, 40, 3), 0);
        assert_eq!(unlowered.after_collection(100, 100, 3), 0);
        unlowered.note(60);
        assert_eq!(unlowered.after_collection(100, 40, 3), 0);
        assert_eq!(unlowered.after_collection(100, 40, 3), 0);
        assert_eq!(unlowered.after_collection(100, 40, 3), 60);
        // What never goes back does not go here.
        unlowered.note(60);
        assert!((0..300).all(|_| unlowered.after_collection(100, 40, 0) == 0));
    }
}
