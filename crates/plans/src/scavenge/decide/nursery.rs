//! Under `nursery=auto`: whether new objects have a space of their own, from which what lives is copied, or lie in free lines of
//! the old space, where it stays.
//!
//! Copies cost what lives, and room for them; in return what dies after its second collection never becomes old, and
//! mutators allocate side by side. Which of this weighs more depends on how much survives, how old that grows, how the free
//! lines lie, and how much room there is; and each is known of the present place alone. So both are compared by what
//! they come to: the processor time of the process for each byte that is allocated, in windows of a few collections from one of
//! everything to another; where everything is collected each time, two such collections tell as much. The other
//! place is tried for a window where collections take much of the time, but not behind the first window, in which the program has
//! built what it works on. It
//! stays where it saves; where it does not, the place before comes back, and the next trial is put off for twice as long. A
//! program may have begun something else meanwhile. So the place that comes back has to show in its next window that it
//! costs less now, or the other one comes again.
//!
//! A window of a trial begins behind a collection of everything, or behind some others if none comes: what a collection of new objects
//! leaves is paid for by the next one of everything, so what was allocated before both counts, or neither.
//!
//! Where scavenges were just left out, since much of what is new lives, the other place is tried at once: collections of everything
//! slide what lives in the present one, and that costs as much again as to mark it, which is all that they do in the other. Nothing
//! is young then, so the trial begins at once. It is measured by what the scavenges cost.
//!
//! Where a space of its own has no room, new objects lie in the old one at once. They come back as far as there is room again.

/// What is known after a collection. Times are in nanoseconds, sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// Whether new objects lie in the old space.
    pub in_place: bool,
    /// Whether this collection was of everything.
    pub was_full: bool,
    /// What was allocated between the collection before and this one.
    pub allocated: usize,
    /// What all threads of the process took since the collection before, this one among it, of processor time.
    pub cpu_ns: u64,
    /// Of that, what this collection took.
    pub collecting_ns: u64,
    /// What all spaces leave of the limit, free lines left out: what a space for new objects may have.
    pub room: usize,
    /// What is to be allocated between two collections.
    pub young: usize,
    /// The least of that which makes sense.
    pub least_young: usize,
    /// Whether everything is collected each time, since the young generation by itself would cost more.
    pub left_out: bool,
    /// Whether the place changes whenever it can, to test that: under `stress`.
    pub always: bool,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Whether new objects are to lie in the old space, as soon as nothing is young.
    pub in_place: bool,
    /// Why.
    pub reason: &'static str,
}

/// Some collections in one place.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Window {
    collections: u32,
    /// How many of them were of everything.
    full: u32,
    cpu_ns: u64,
    collecting_ns: u64,
    allocated: u64,
    /// Whether the last one was of everything.
    was_full: bool,
}

/// What is remembered from one collection to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Where new objects are to lie, and why.
    decision: Decision,
    /// Whether everything was collected each time.
    left_out: bool,
    /// How many collections yet count for nothing, unless one of everything comes before. Behind a change the first one clears up
    /// what was before, and what a collection of new objects leaves is paid for by the next one of everything.
    passed: u32,
    window: Window,
    /// In a trial, what the place before came to, in nanoseconds for each MB that was allocated.
    before: Option<u64>,
    /// What the last trial came to, while the place before shows what it comes to now.
    left: Option<u64>,
    /// For how many windows no other place is tried.
    wait: u32,
    /// What `wait` will be behind the next trial that did not save.
    patience: u32,
}

/// A window ends with a collection of everything behind so many.
const LEAST: u32 = 8;
/// A trial is over with any behind so many.
const MOST: u32 = 64;
/// Or with so many of everything.
const FULL: u32 = 2;
/// Behind a change the window begins with any collection behind so many.
const PASSED: u32 = 4;
/// Another place is tried where collections take as many thousandths of the time.
const MUCH: u64 = 200;
/// A trial is over behind so many collections if it costs as many thousandths of what the place before did.
const HOPELESS: (u32, u64) = (8, 1500);
/// Another place stays if it saves as many thousandths.
const SAVED: u64 = 50;
/// For so many windows nothing is tried at first.
const FIRST_WAIT: u32 = 1;
const FIRST_PATIENCE: u32 = 4;
const LONGEST_PATIENCE: u32 = 1 << 16;
/// In a larger multiple of the young generation that is wanted new objects come back to a space of their own.
const ROOMY: usize = 2;

const NO_ROOM: &str = "a space for new objects has no room";
const TRIAL: &str =
    "new objects are tried in another place, since collections take much of the time";
const MUCH_LIVES: &str =
    "new objects are tried in the old space, since scavenges would copy too much";
const SAVES: &str = "new objects stay in the place that was tried, since it saves time";
const AGAIN: &str =
    "new objects go to the place that was tried, since the one before takes more time by now";
const BACK: &str = "new objects go back to the place before the trial, which took less time";
const STAYS: &str = "new objects stay in their place";

impl Memory {
    /// Nothing is remembered, and new objects have a space of their own.
    pub const NEW: Memory = Memory {
        decision: Decision {
            in_place: false,
            reason: STAYS,
        },
        left_out: false,
        passed: 0,
        window: Window::NONE,
        before: None,
        left: None,
        wait: FIRST_WAIT,
        patience: FIRST_PATIENCE,
    };

    /// Whether new objects lie in the old space, or are to.
    pub fn goes_in_place(&self) -> bool {
        self.decision.in_place
    }

    fn change(&mut self, in_place: bool, reason: &'static str) -> Decision {
        self.decision = Decision { in_place, reason };
        (self.window, self.passed) = (Window::NONE, PASSED);
        self.decision
    }

    /// Whether a trial costs much more than the place before, though that was seen with a collection of everything.
    fn is_hopeless(&self) -> bool {
        let costs = |before| {
            u128::from(self.window.cost()) * 1000 > u128::from(before) * u128::from(HOPELESS.1)
        };
        self.window.collections >= HOPELESS.0 && self.before.is_some_and(costs)
    }

    /// The next trial is put off, each time for longer.
    fn put_off(&mut self) {
        (self.before, self.left) = (None, None);
        self.wait = self.patience;
        self.patience = (2 * self.patience).min(LONGEST_PATIENCE);
    }
}

impl Window {
    const NONE: Window = Window {
        collections: 0,
        full: 0,
        cpu_ns: 0,
        collecting_ns: 0,
        allocated: 0,
        was_full: false,
    };

    fn add(&mut self, found: &Measurements) {
        self.collections += 1;
        self.full += u32::from(found.was_full);
        self.cpu_ns += found.cpu_ns;
        self.collecting_ns += found.collecting_ns;
        self.allocated += found.allocated as u64;
        self.was_full = found.was_full;
    }

    fn is_over(&self, is_trial: bool) -> bool {
        let has_most = is_trial && self.collections >= MOST;
        self.was_full && self.collections >= LEAST || self.full >= FULL || has_most
    }

    /// Nanoseconds for each MB that was allocated.
    fn cost(&self) -> u64 {
        let megabytes = u128::from(self.allocated).max(1);
        (u128::from(self.cpu_ns) * (1 << 20) / megabytes) as u64
    }

    /// Whether collections take much, those of everything among them.
    fn is_costly(&self) -> bool {
        self.was_full && self.collecting_ns * 1000 >= self.cpu_ns * MUCH
    }
}

/// Decides where new objects lie from now on, or as soon as nothing is young.
pub fn decide(memory: &mut Memory, found: &Measurements) -> Decision {
    if found.always {
        return memory.change(
            !found.in_place,
            "under stress the place of new objects changes",
        );
    }
    if memory.decision.in_place != found.in_place {
        // As soon as it can be.
        return memory.decision;
    }
    if !found.in_place && found.room < least_room(found) {
        memory.put_off();
        return memory.change(true, NO_ROOM);
    }
    if memory.passed > 0 {
        memory.passed = match found.was_full {
            true => 0,
            false => memory.passed - 1,
        };
        return stays(found);
    }
    if !found.in_place && found.left_out != memory.left_out {
        return try_at_once(memory, found).unwrap_or_else(|| {
            // What was before says nothing of what comes.
            (memory.left_out, memory.window) = (found.left_out, Window::NONE);
            stays(found)
        });
    }
    memory.window.add(found);
    if !memory.window.is_over(memory.before.is_some()) && !memory.is_hopeless() {
        return stays(found);
    }
    let window = core::mem::replace(&mut memory.window, Window::NONE);
    match memory.before {
        Some(before) => judge(memory, found, window.cost(), before),
        None => try_other(memory, found, &window),
    }
}

fn stays(found: &Measurements) -> Decision {
    Decision {
        in_place: found.in_place,
        reason: STAYS,
    }
}

/// Behind the window of a trial.
fn judge(memory: &mut Memory, found: &Measurements, cost: u64, before: u64) -> Decision {
    memory.put_off();
    if saves(cost, before) {
        return Decision {
            in_place: found.in_place,
            reason: SAVES,
        };
    }
    if found.in_place && !is_roomy(found) {
        return stays(found);
    }
    memory.left = Some(cost);
    memory.change(!found.in_place, BACK)
}

/// Whether a place with that cost saves, compared with another one.
fn saves(cost: u64, other: u64) -> bool {
    u128::from(cost) * 1000 <= u128::from(other) * u128::from(1000 - SAVED)
}

fn try_other(memory: &mut Memory, found: &Measurements, window: &Window) -> Decision {
    let may_leave = !found.in_place || is_roomy(found);
    if let Some(left) = memory.left.take()
        && saves(left, window.cost())
        && may_leave
    {
        return memory.change(!found.in_place, AGAIN);
    }
    if memory.wait > 0 {
        memory.wait -= 1;
        return stays(found);
    }
    if !window.is_costly() || !may_leave {
        return stays(found);
    }
    memory.before = Some(window.cost());
    memory.change(!found.in_place, TRIAL)
}

/// Behind the collection that has left scavenges out, unless trials are put off, or one goes on.
fn try_at_once(memory: &mut Memory, found: &Measurements) -> Option<Decision> {
    let mut window = memory.window;
    window.add(found);
    let is_put_off = memory.wait > 0 && memory.patience > FIRST_PATIENCE;
    let is_time = found.left_out && !is_put_off && memory.before.is_none();
    (is_time && window.is_costly()).then(|| {
        memory.left_out = true;
        memory.before = Some(window.cost());
        memory.change(true, MUCH_LIVES)
    })
}

/// With less room than this all that lives in the least young generation could not become old.
fn least_room(found: &Measurements) -> usize {
    2 * found.least_young
}

/// Whether a space for new objects would have room.
fn is_roomy(found: &Measurements) -> bool {
    found.room >= ROOMY * least_room(found).max(found.young / 2)
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const MB: usize = 1 << 20;
    const MS: u64 = 1_000_000;

    /// A collection in a heap of 54 MB: what was allocated before it takes `mutator` milliseconds of processor time, and the
    /// collection `collecting`.
    fn found(in_place: bool, was_full: bool, mutator: u64, collecting: u64) -> Measurements {
        Measurements {
            in_place,
            was_full,
            allocated: 14 * MB,
            cpu_ns: (mutator + collecting) * MS,
            collecting_ns: collecting * MS,
            room: 40 * MB,
            young: 16 * MB,
            least_young: MB,
            left_out: false,
            always: false,
        }
    }

    /// New objects in one place after the other, as decided: what each collection takes is what `run` says of its number, and
    /// of the place. Where they lay, collection by collection.
    fn run(
        memory: &mut Memory,
        collections: u32,
        run: impl Fn(u32, bool) -> Measurements,
    ) -> Vec<bool> {
        let mut place = memory.goes_in_place();
        let mut places = Vec::new();
        for number in 1..=collections {
            places.push(place);
            place = decide(memory, &run(number, place)).in_place;
        }
        places
    }

    fn changes(places: &[bool]) -> usize {
        places.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    /// Every twelfth collection is of everything, and copies cost `copied` ms, marks in place `marked` ms.
    fn cycles(copied: u64, marked: u64) -> impl Fn(u32, bool) -> Measurements {
        move |number, in_place| {
            let full = number % 12 == 0;
            let each = if in_place { marked } else { copied };
            found(in_place, full, 3, if full { 20 } else { each })
        }
    }

    /// As `gcbench` in 1.5 times its smallest heap: copies and collections of everything take more than half of the time, and in place half as
    /// much.
    #[test]
    fn the_place_that_costs_less_is_found_and_kept() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 1200, cycles(5, 2));
        let copied = places.iter().filter(|&&in_place| !in_place).count();
        assert!(!places[23] && places[24..60].iter().all(|&in_place| in_place));
        assert!(
            copied < 120 && changes(&places) < 20,
            "{copied}, {}",
            changes(&places)
        );
    }

    /// As `xml`: most lives, and the third collection, of everything, shows it. Of those that follow, each is of everything.
    fn left_out(memory: &mut Memory, slid: u64, marked: u64) -> Vec<bool> {
        run(memory, 40, |number, in_place| Measurements {
            left_out: !in_place && number >= 3,
            ..match number {
                ..=3 => found(false, number == 3, 30, 40),
                _ => found(in_place, true, 30, if in_place { marked } else { slid }),
            }
        })
    }

    /// Marking costs less than scavenges did: the trial begins at once, and new objects stay.
    #[test]
    fn where_scavenges_are_left_out_the_other_place_is_tried_at_once() {
        let mut memory = Memory::NEW;
        let places = left_out(&mut memory, 30, 15);
        assert_eq!(places[..3], [false; 3]);
        // Each trial of copies behind that is over in three collections: one of the change, and two.
        let copied = places[3..].iter().filter(|&&in_place| !in_place).count();
        assert!(places[3..14].iter().all(|&in_place| in_place), "{places:?}");
        assert!(copied <= 6, "{places:?}");
    }

    /// Marking costs more than anything before it: the trial has one collection of the change, and two.
    #[test]
    fn a_trial_at_once_that_does_not_save_is_over_soon_and_not_repeated() {
        let mut memory = Memory::NEW;
        let places = left_out(&mut memory, 20, 60);
        assert_eq!(places[..3], [false; 3]);
        assert_eq!(places[3..6], [true; 3]);
        let again = places[6..].iter().filter(|&&in_place| in_place).count();
        assert!(!places[6..14].contains(&true) && again <= 6, "{places:?}");
    }

    /// What a log of events says of a collection: whether it was of everything, MB that were allocated before it, and milliseconds of
    /// processor time that these took, and it.
    type Logged = (bool, usize, u64, u64);

    /// One collection of a log after the other. Whether new objects are to lie in the old space behind each.
    fn follow(memory: &mut Memory, in_place: bool, log: &[Logged]) -> Vec<bool> {
        log.iter()
            .map(|&(was_full, megabytes, mutator, collecting)| {
                let found = Measurements {
                    allocated: megabytes * MB,
                    ..found(in_place, was_full, mutator, collecting)
                };
                decide(memory, &found).in_place
            })
            .collect()
    }

    /// As `gcbench` in 54 MB: the first collection in place is of new objects, gives little back, and leads to one of everything at
    /// once. What was allocated before both counts, or neither.
    #[test]
    fn a_trial_begins_behind_a_collection_of_everything() {
        const COPIED: [Logged; 10] = [
            (false, 13, 1, 2),
            (false, 13, 1, 2),
            (false, 12, 1, 3),
            (false, 12, 1, 2),
            (false, 13, 1, 2),
            (false, 13, 1, 2),
            (false, 11, 1, 10),
            (false, 11, 1, 4),
            (false, 4, 1, 20),
            (true, 7, 0, 80),
        ];
        const MARKED: [Logged; 7] = [
            (false, 19, 10, 12),
            (true, 1, 0, 21),
            (true, 19, 3, 15),
            (false, 28, 4, 15),
            (true, 1, 0, 18),
            (true, 22, 3, 11),
            (false, 34, 4, 11),
        ];
        let mut memory = Memory {
            wait: 0,
            ..Memory::NEW
        };
        assert_eq!(follow(&mut memory, false, &COPIED).last(), Some(&true));
        assert_eq!(follow(&mut memory, true, &MARKED), [true; 7]);
        assert_eq!(memory.before, None, "it was judged");
    }

    /// Scavenges that come back and are left out again bring no trial while these are put off.
    #[test]
    fn no_trial_begins_at_once_while_trials_are_put_off() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 24, |number, in_place| Measurements {
            left_out: !in_place && number % 2 == 1,
            ..found(in_place, true, 30, if in_place { 60 } else { 30 })
        });
        assert_eq!(changes(&places), 2, "{places:?}");
    }

    /// Scavenges that come back are no sign of anything: a window has to show that collections take much.
    #[test]
    fn no_trial_begins_at_once_when_scavenges_come_back() {
        let mut memory = Memory {
            left_out: true,
            ..Memory::NEW
        };
        assert!(!decide(&mut memory, &found(false, true, 30, 60)).in_place);
        assert!(!memory.left_out);
    }

    /// What a scavenge leaves is paid for by the next collection of everything.
    #[test]
    fn no_trial_begins_at_once_behind_a_scavenge() {
        for was_full in [false, true] {
            let mut memory = Memory::NEW;
            let last = Measurements {
                left_out: true,
                ..found(false, was_full, 30, 60)
            };
            assert_eq!(decide(&mut memory, &last).in_place, was_full);
        }
    }

    /// Where collections take little of the time, it does not matter that each is of everything.
    #[test]
    fn no_trial_begins_at_once_where_collections_take_little() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 24, |number, in_place| Measurements {
            left_out: number >= 3,
            ..found(in_place, number >= 3, 30, 3)
        });
        assert_eq!(changes(&places), 0, "{places:?}");
    }

    /// Two collections of everything tell as much as a window, where each is.
    #[test]
    fn where_everything_is_collected_each_time_a_few_collections_tell() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 24, |number, in_place| Measurements {
            left_out: !in_place && number >= 3,
            ..match number {
                // What was before scavenges were left out cost little.
                ..=3 => found(false, number == 3, 30, 3),
                _ => found(in_place, true, 30, if in_place { 30 } else { 20 }),
            }
        });
        // The change left out, twice two collections show what it costs; one is of the change, and two of the other place.
        assert_eq!(places[..7], [false; 7], "{places:?}");
        assert_eq!(places[7..10], [true; 3], "{places:?}");
        // Four windows later it is tried again.
        assert!(!places[10..18].contains(&true), "{places:?}");
    }

    /// As `gcbench` in 1.5 times its smallest heap: a trial begins just when the program begins something that costs more, wherever
    /// new objects lie.
    #[test]
    fn a_trial_in_another_phase_of_the_program_is_judged_again() {
        let of = |copied: u64, marked: u64| {
            let mut memory = Memory::NEW;
            run(&mut memory, 72, |number, in_place| {
                let full = number % 12 == 0;
                match (number, in_place) {
                    (..=24, _) => found(in_place, full, 3, if full { 20 } else { 2 }),
                    (_, false) => found(false, full, 3, copied),
                    (_, true) => found(true, full, 3, marked),
                }
            })
        };
        // Back behind the trial, since there was nothing like it before; and there again, since it is the same everywhere.
        let saves = of(20, 8);
        assert!(saves[24..36].iter().all(|&in_place| in_place), "{saves:?}");
        assert!(!saves[36..48].contains(&true), "{saves:?}");
        assert!(saves[48..].iter().all(|&in_place| in_place), "{saves:?}");
        let costs_more = of(8, 20);
        assert!(!costs_more[36..].contains(&true), "{costs_more:?}");
    }

    /// What a program begins with is no measure: nothing is tried behind the first window.
    #[test]
    fn nothing_is_tried_behind_the_first_window() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 30, cycles(5, 2));
        assert_eq!(places.iter().position(|&in_place| in_place), Some(24));
    }

    /// A window is from one collection of everything to another, however many are in between.
    #[test]
    fn a_window_has_its_whole_share_of_collections_of_everything() {
        // Copies cost 4 ms each and in place marks 4.2; every 30th collection takes 60. With windows of 16 collections,
        // those that end with it would have 14.
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 600, |number, in_place| {
            let full = number % 30 == 0;
            let each = if in_place { 42 } else { 40 };
            Measurements {
                cpu_ns: if full { 60 * MS } else { each * MS / 10 },
                ..found(in_place, full, 0, if full { 60 } else { 4 })
            }
        });
        let in_place = places.iter().filter(|&&in_place| in_place).count();
        assert!(in_place <= 3 * 30, "{in_place}");
    }

    /// As `jbb`: in place costs a little more.
    #[test]
    fn the_place_that_costs_more_is_left_and_tried_seldom() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 1200, cycles(4, 5));
        let in_place = places.iter().filter(|&&in_place| in_place).count();
        assert!((12..150).contains(&in_place), "{in_place}");
        // Eight times at most, there and back: each time twice as many windows pass.
        assert!(changes(&places) <= 12, "{}", changes(&places));
    }

    /// What costs much more is left before the next collection of everything.
    #[test]
    fn a_hopeless_trial_is_short() {
        let mut memory = Memory::NEW;
        // It does not wait for the next one of everything.
        let places = run(&mut memory, 110, |number, in_place| {
            let full = number % 40 == 0;
            let each = if in_place { 20 } else { 4 };
            found(in_place, full, 3, if full { 20 } else { each })
        });
        let in_place = places.iter().filter(|&&in_place| in_place).count();
        // Four that are passed by, and eight.
        assert_eq!(in_place, 12, "{places:?}");
    }

    #[test]
    fn nothing_is_tried_where_collections_take_little_or_none_is_of_everything() {
        for (each, full) in [(1, true), (9, false)] {
            let mut memory = Memory::NEW;
            let places = run(&mut memory, 500, |number, in_place| {
                let full = full && number % 40 == 0;
                found(in_place, full, 12, each)
            });
            assert_eq!(changes(&places), 0, "{each} ms");
        }
    }

    /// What differs by less than is worth a change changes nothing.
    #[test]
    fn a_small_difference_brings_the_place_before_back() {
        let mut memory = Memory::NEW;
        let places = run(&mut memory, 37, |number, in_place| Measurements {
            cpu_ns: if in_place { 7_700_000 } else { 8_000_000 },
            ..found(in_place, number % 12 == 0, 4, 4)
        });
        assert!(places[24] && places[35] && !places[36], "{places:?}");
    }

    #[test]
    fn without_room_new_objects_lie_in_the_old_space_at_once_and_while_there_is_little() {
        let mut memory = Memory::NEW;
        let tight = |in_place, room| Measurements {
            room,
            ..found(in_place, true, 1, 8)
        };
        let decision = decide(&mut memory, &tight(false, 2 * MB - 1));
        assert_eq!((decision.in_place, decision.reason), (true, NO_ROOM));
        let places = run(&mut memory, 500, |_, in_place| tight(in_place, 15 * MB));
        assert_eq!(changes(&places), 0);
        let places = run(&mut memory, 50, |_, in_place| tight(in_place, 16 * MB));
        assert!(changes(&places) > 0);
        let mut memory = Memory::NEW;
        assert!(!decide(&mut memory, &tight(false, 2 * MB)).in_place);
    }

    /// Until nothing is young the place is as before, and nothing of that counts.
    #[test]
    fn a_change_waits_until_it_can_be_made() {
        let mut memory = Memory::NEW;
        run(&mut memory, 24, cycles(5, 2));
        assert!(memory.goes_in_place());
        for _ in 0..100 {
            assert!(decide(&mut memory, &found(false, true, 3, 90)).in_place);
        }
        assert_eq!(memory.window, Window::NONE);
    }

    #[test]
    fn under_stress_it_changes_each_time() {
        let mut memory = Memory::NEW;
        for in_place in [false, true, false, true] {
            let found = Measurements {
                always: true,
                ..found(in_place, false, 1, 0)
            };
            assert_eq!(decide(&mut memory, &found).in_place, !in_place);
        }
    }

    /// Neither behind a trial that does not save, nor behind one that would by now; and a trial ends that has no room.
    #[test]
    fn without_room_no_trial_brings_a_space_of_its_own_back() {
        let full = |room| {
            move |_, in_place| Measurements {
                room,
                ..found(in_place, true, 3, 20)
            }
        };
        let in_place = Decision {
            in_place: true,
            reason: TRIAL,
        };
        let of = |before, left, room| {
            let mut memory = Memory {
                decision: in_place,
                before,
                left,
                ..Memory::NEW
            };
            run(&mut memory, 6, full(room))
        };
        assert!(of(Some(1), None, 0).iter().all(|&in_place| in_place));
        assert!(of(None, Some(1), 0).iter().all(|&in_place| in_place));
        assert_eq!(changes(&of(Some(1), None, 40 * MB)), 1);
        assert_eq!(changes(&of(None, Some(1), 40 * MB)), 1);
        let mut memory = Memory {
            before: Some(1),
            ..Memory::NEW
        };
        run(&mut memory, 1, full(0));
        assert!(memory.goes_in_place() && memory.before.is_none());
    }
}
