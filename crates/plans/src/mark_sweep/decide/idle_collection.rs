//! Whether a collection in idle time pays: what it may bring, what it costs, and how many there were.
//!
//! Nothing tells how much died since the last collection, least of all where a program drops its data and then waits. But the program
//! has paid for each collection that its allocation called for, so one more for each of these costs no more than they did. A
//! collection in idle time uses that up. Another follows at once only if as much was allocated as half of what calls for a collection
//! by itself, and if a hundred times as long has passed as it takes; the program may wait until then. So a program is collected at
//! most twice as often as without idle time, and once more.
//!
//! One that brings little makes the next wait for twice as many others, up to 64.

/// A heap that holds less is left alone.
pub const LEAST_USED: usize = 4 << 20;
/// What a collection must bring: this part of what was used, and at least as many bytes.
const FRUITFUL_PART: usize = 8;
const FRUITFUL_BYTES: usize = 1 << 20;
/// Collections in idle time may take this part of the time, where nothing else speaks for them.
const COST_PART: u64 = 100;
/// How often the number of others is doubled that the next waits for.
const MOST_DOUBLED: u32 = 6;
/// Bytes of a marking that tells how long others take.
const WORTH_MEASURING: usize = 1 << 20;
/// The program's own threads collect only where this part of what is used was allocated since the last collection, or where what
/// lives has fallen to half.
const NEW_PART: usize = 4;

/// What there is to be collected.
#[derive(Clone, Copy, Debug)]
pub struct Prospect {
    /// The time, by a clock that never goes back.
    pub now_ns: u64,
    /// Bytes in use.
    pub used: usize,
    /// Bytes for which the program has asked. It is not to be held up before it uses them.
    pub initial: usize,
    /// Bytes that lived after the last collection.
    pub live: usize,
    /// Bytes allocated since.
    pub allocated: usize,
    /// Bytes that will be allocated before the next collection comes by itself: for the divisor, and for the capacity.
    pub least: usize,
    /// See `least`.
    pub free: usize,
    /// How long it would take to mark all that is used.
    pub cost_ns: u64,
}

/// What is known of collections in idle time.
#[derive(Clone, Copy, Debug)]
pub struct Collecting {
    /// Collections since the last in idle time.
    others: u32,
    /// How many in idle time brought little, one after the other.
    fruitless: u32,
    /// When the last one was.
    ended_ns: u64,
    /// The most that lived after a collection since then.
    peak: usize,
    /// Bytes in use when the one in idle time began that is going on.
    began_with: Option<usize>,
}

impl Collecting {
    /// Before any. The first may come without others.
    pub const fn new() -> Collecting {
        Collecting {
            others: 1,
            fruitless: 0,
            ended_ns: 0,
            peak: 0,
            began_with: None,
        }
    }

    /// Whether a collection pays in idle time.
    pub fn pays(&self, p: &Prospect) -> bool {
        if p.used < LEAST_USED {
            return false;
        }
        let others = 1 << self.fruitless.min(MOST_DOUBLED);
        if self.others >= others {
            return true;
        }
        let passed = p.now_ns.saturating_sub(self.ended_ns);
        passed / COST_PART >= p.cost_ns && self.will_pay(p)
    }

    /// Whether one pays once enough time has passed, if nothing is allocated until then.
    pub fn will_pay(&self, p: &Prospect) -> bool {
        let much = (p.least / 2).max(p.free).max(p.used / FRUITFUL_PART);
        p.used >= LEAST_USED && p.allocated >= much && self.fruitless == 0
    }

    /// Whether the collection that is going on is one in idle time.
    pub fn is_in_idle_time(&self) -> bool {
        self.began_with.is_some()
    }

    /// Whether one pays that holds up a thread of the program's.
    pub fn pays_a_thread(&self, p: &Prospect) -> bool {
        p.used > p.initial && self.pays(p)
    }

    /// As [`Collecting::pays_a_thread`], where it may be that more is allocated soon.
    pub fn pays_now(&self, p: &Prospect) -> bool {
        let has_fallen = p.live < self.peak / 2;
        (has_fallen || p.allocated >= p.used / NEW_PART) && self.pays_a_thread(p)
    }

    /// A collection begins: in idle time with so many bytes in use, or for another reason.
    pub fn begin(&mut self, used: Option<usize>) {
        self.began_with = used;
    }

    /// A collection was abandoned. One in idle time counts as one that brought nothing.
    pub fn note_abandoned(&mut self, now_ns: u64) {
        if self.began_with.take().is_some() {
            self.note_end(now_ns, false);
        }
    }

    /// A collection in idle time is over; whether it brought enough.
    fn note_end(&mut self, now_ns: u64, is_fruitful: bool) {
        self.fruitless = match is_fruitful {
            true => 0,
            false => (self.fruitless + 1).min(MOST_DOUBLED),
        };
        self.others = 0;
        self.ended_ns = now_ns;
    }

    /// A collection has left `used` bytes in use, of which `live` live; whether it was one in idle time.
    pub fn note(&mut self, now_ns: u64, used: usize, live: usize) -> bool {
        let Some(before) = self.began_with.take() else {
            self.others = self.others.saturating_add(1);
            self.peak = self.peak.max(live);
            return false;
        };
        let freed = before.saturating_sub(used);
        self.note_end(
            now_ns,
            freed >= (before / FRUITFUL_PART).max(FRUITFUL_BYTES),
        );
        self.peak = live;
        true
    }
}

/// How long it takes to mark `used` bytes, where a marking has scanned `scanned` bytes in `took_ns` nanoseconds.
pub fn cost_ns(used: usize, scanned: usize, took_ns: u64) -> u64 {
    if scanned < WORTH_MEASURING {
        // What takes its time however little is marked says nothing of more. A byte in a nanosecond.
        return used as u64;
    }
    (used as f64 / scanned as f64 * took_ns as f64) as u64
}

impl Default for Collecting {
    fn default() -> Collecting {
        Collecting::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const MB: usize = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    /// A heap that has just been collected, and fills up to its capacity.
    const COLLECTED: Prospect = Prospect {
        now_ns: 100 * SECOND,
        used: 100 * MB,
        initial: 0,
        live: 100 * MB,
        allocated: 0,
        least: 60 * MB,
        free: 50 * MB,
        cost_ns: SECOND / 10,
    };

    fn collected(collecting: &mut Collecting, freed: usize) {
        collecting.begin(Some(100 * MB));
        assert!(collecting.is_in_idle_time());
        assert!(collecting.note(100 * SECOND, 100 * MB - freed, 50 * MB));
        assert!(!collecting.is_in_idle_time());
    }

    #[test]
    fn the_first_comes_whatever_was_allocated_and_then_each_has_another_before_it() {
        let mut collecting = Collecting::new();
        assert!(collecting.pays(&COLLECTED));
        collected(&mut collecting, 50 * MB);
        assert!(!collecting.pays(&COLLECTED), "nothing is new");
        assert!(!collecting.note(101 * SECOND, 100 * MB, 100 * MB));
        assert!(collecting.pays(&COLLECTED));
    }

    #[test]
    fn small_heaps_are_left_alone() {
        let small = Prospect {
            used: LEAST_USED - 1,
            ..COLLECTED
        };
        assert!(!Collecting::new().pays(&small));
        let least = Prospect {
            used: LEAST_USED,
            ..COLLECTED
        };
        assert!(Collecting::new().pays(&least));
    }

    #[test]
    fn threads_are_not_held_up_for_bytes_that_were_asked_for() {
        let collecting = Collecting::new();
        let initial = Prospect {
            initial: 100 * MB,
            allocated: 100 * MB,
            ..COLLECTED
        };
        assert!(collecting.pays(&initial));
        assert!(!collecting.pays_a_thread(&initial) && !collecting.pays_now(&initial));
        let beyond = Prospect {
            used: 100 * MB + 1,
            ..initial
        };
        assert!(collecting.pays_a_thread(&beyond) && collecting.pays_now(&beyond));
    }

    #[test]
    fn another_follows_when_half_of_what_calls_for_one_was_allocated_and_enough_time_has_passed() {
        let mut collecting = Collecting::new();
        collected(&mut collecting, 50 * MB);
        let later = Prospect {
            now_ns: 110 * SECOND,
            allocated: 50 * MB,
            ..COLLECTED
        };
        assert!(collecting.pays(&later));
        for not in [
            Prospect {
                now_ns: 109 * SECOND,
                ..later
            },
            Prospect {
                allocated: 50 * MB - 1,
                ..later
            },
            Prospect {
                least: 101 * MB,
                ..later
            },
            // A large heap in a small capacity.
            Prospect {
                used: 800 * MB,
                allocated: 100 * MB - 1,
                ..later
            },
            // A clock that has gone back.
            Prospect { now_ns: 0, ..later },
        ] {
            assert!(!collecting.pays(&not), "{not:?}");
            let is_early = not.allocated == later.allocated && not.least == later.least;
            assert_eq!(collecting.will_pay(&not), is_early, "{not:?}");
        }
        let small = Prospect {
            used: LEAST_USED - 1,
            ..later
        };
        assert!(!collecting.will_pay(&small));
        // Nor where the last one brought little.
        collected(&mut collecting, MB / 2);
        assert!(!collecting.will_pay(&later));
    }

    #[test]
    fn those_in_vain_wait_for_more_and_more_others() {
        let mut collecting = Collecting::new();
        let enough = Prospect {
            now_ns: 1000 * SECOND,
            allocated: 100 * MB,
            ..COLLECTED
        };
        let mut waits = Vec::new();
        for _ in 0..9 {
            let mut others = 0;
            while !collecting.pays(&enough) {
                others += 1;
                assert!(!collecting.note(0, 100 * MB, 100 * MB));
            }
            waits.push(others);
            collected(&mut collecting, MB - 1);
        }
        assert_eq!(waits, [0, 2, 4, 8, 16, 32, 64, 64, 64]);
        // One that brings much ends that.
        (0..64).for_each(|_| _ = collecting.note(0, 100 * MB, 100 * MB));
        collected(&mut collecting, 12 * MB);
        assert!(!collecting.note(0, 100 * MB, 100 * MB));
        assert!(!collecting.pays(&enough), "less than an eighth");
        (0..64).for_each(|_| _ = collecting.note(0, 100 * MB, 100 * MB));
        collected(&mut collecting, 13 * MB);
        assert!(!collecting.note(0, 100 * MB, 100 * MB));
        assert!(collecting.pays(&COLLECTED));
    }

    #[test]
    fn little_that_is_much_of_a_small_heap_is_little() {
        for (freed, is_fruitful) in [(MB - 1, false), (MB, true)] {
            let mut collecting = Collecting::new();
            collecting.begin(Some(4 * MB));
            assert!(collecting.note(SECOND, 4 * MB - freed, 0));
            assert!(!collecting.note(2 * SECOND, 4 * MB, 4 * MB));
            assert_eq!(collecting.pays(&COLLECTED), is_fruitful);
        }
    }

    #[test]
    fn the_cost_is_that_of_the_last_marking_which_tells_it() {
        assert_eq!(cost_ns(20 * MB, 0, 0), 20 << 20);
        assert_eq!(cost_ns(20 * MB, MB - 1, 7), 20 << 20);
        assert_eq!(cost_ns(20 * MB, MB, 7), 140);
        assert_eq!(cost_ns(20 * MB, 40 * MB, SECOND), SECOND / 2);
    }

    #[test]
    fn one_that_was_abandoned_counts_as_one_in_vain() {
        let mut collecting = Collecting::new();
        collecting.note_abandoned(SECOND);
        assert!(collecting.pays(&COLLECTED), "it was another one");
        collecting.begin(Some(100 * MB));
        collecting.note_abandoned(SECOND);
        // The next is none in idle time, and two are needed.
        for _ in 0..2 {
            assert!(!collecting.pays(&COLLECTED));
            assert!(!collecting.note(2 * SECOND, 100 * MB, 100 * MB));
        }
        assert!(collecting.pays(&COLLECTED));
    }

    /// Whatever it allocates and whenever it is idle, a program is collected at most twice as often, and once more.
    #[test]
    fn idle_time_at_most_doubles_the_number_of_collections() {
        for (idle_each, survives) in [
            (MB, 0),
            (7 * MB, 0),
            (33 * MB, 0),
            (200 * MB, 0),
            (7 * MB, 1),
        ] {
            let mut collecting = Collecting::new();
            let (mut others, mut idle) = (0, 0);
            let (mut allocated, mut without, mut since_idle) = (0, 0, 0);
            for step in 0..100_000u64 {
                allocated += MB;
                without += MB;
                since_idle += MB;
                // By itself after 50 MB.
                let used = 50 * MB + allocated;
                if allocated >= 50 * MB {
                    others += 1;
                    allocated = 0;
                    collecting.note(step * SECOND, 50 * MB, 50 * MB);
                }
                let prospect = Prospect {
                    now_ns: step * SECOND,
                    used,
                    initial: 0,
                    live: 50 * MB,
                    allocated,
                    least: 33 * MB,
                    free: (50 * MB).saturating_sub(allocated),
                    cost_ns: 1,
                };
                if since_idle >= idle_each {
                    since_idle = 0;
                    if collecting.pays(&prospect) {
                        idle += 1;
                        collecting.begin(Some(used));
                        collecting.note(step * SECOND, 50 * MB + survives * allocated, 50 * MB);
                        allocated = 0;
                    }
                }
            }
            let most = 2 * (without / (50 * MB)) + 1;
            assert!(idle + others <= most, "{idle} and {others} of {most}");
            assert!(idle > 0);
        }
    }

    #[test]
    fn a_thread_of_the_programs_collects_what_is_new_or_where_what_lives_has_fallen() {
        let mut collecting = Collecting::new();
        assert!(!collecting.pays_now(&COLLECTED));
        let new = Prospect {
            allocated: 25 * MB,
            ..COLLECTED
        };
        assert!(collecting.pays_now(&new));
        collecting.note(0, 100 * MB, 200 * MB);
        assert!(!collecting.pays_now(&COLLECTED));
        // The most that lived counts, not what lived last.
        collecting.note(0, 100 * MB, 202 * MB);
        collecting.note(0, 100 * MB, 100 * MB);
        assert!(collecting.pays_now(&COLLECTED));
        collected(&mut collecting, 50 * MB);
        assert!(!collecting.pays_now(&new), "as for any other");
        // The most that lived before that does not count any more.
        collecting.note(0, 100 * MB, 100 * MB);
        assert!(collecting.pays_now(&new) && !collecting.pays_now(&COLLECTED));
    }
}
