//! Under `nursery=in-place`: whether new objects are collected by themselves, or everything is each time.
//!
//! Behind a collection of everything there is room for so many bytes, and the next such collection comes when they are taken.
//! Collections of new objects in between put it off: each takes some time, and gives some bytes back. They pay as long as a
//! byte costs less that way than by one more collection of everything, which gives the whole room again. Where much of what is new
//! lives, they do not: what one marks is marked again soon, and little is given back.
//!
//! Before the first collection of everything, that is a guess: half of what is in use lives, and each byte of it takes as long as in
//! a collection of new objects. A program that has just built what it works on
//! has had one or two collections in which all lived: three in a row must not pay. While everything is collected each time, the
//! lines of new blocks tell how much of what is new lives. As far as that promises more, new objects are collected by
//! themselves again. Lines count more than lives there, and what lives when all is taken is not what lives earlier; so a
//! promise that was not kept is believed again only after several collections of everything, each time after twice as many.

/// What is known after a collection. Sizes are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// Whether this collection was of everything.
    pub was_full: bool,
    /// How long it stopped the program, in nanoseconds.
    pub took_ns: u64,
    /// What was allocated between the collection before and this one.
    pub allocated: usize,
    /// How many bytes fewer than those are in use more than after the collection before.
    pub given_back: usize,
    /// What all spaces hold now, holes left out.
    pub filled: usize,
    /// What new objects may take until everything is collected.
    pub room: usize,
    /// Of new blocks that a collection of everything has swept, the share that something lives in, in thousandths; `None` if
    /// it found none.
    pub lines_lived: Option<usize>,
}

/// What is remembered from one collection to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Whether new objects are collected by themselves.
    is_alone: bool,
    /// What the last collection of everything took, in nanoseconds, and the room that it left; 0 before the first.
    full: (u64, usize),
    /// What collections of new objects since then took and gave back.
    new: (u64, usize),
    /// How many collections of new objects in a row did not pay, before the first of everything.
    unpaid: u32,
    /// How many collections of everything there were since new objects are not collected by themselves.
    without: u32,
    /// After how many of them a promise is believed.
    patience: u32,
}

impl Memory {
    /// Nothing was collected yet.
    pub const NEW: Memory = Memory {
        is_alone: true,
        full: (0, 0),
        new: (0, 0),
        unpaid: 0,
        without: 0,
        patience: FIRST_PATIENCE,
    };

    /// It is known from elsewhere that much of what is new lives: everything is collected each time from now on.
    pub fn leave_out_at_first(&mut self) {
        (self.is_alone, self.without) = (false, 0);
    }

    /// What was decided last.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }
}

const FIRST_PATIENCE: u32 = 1;
const LONGEST_PATIENCE: u32 = 1 << 10;
/// A promise is believed at once if it holds though so many times as much lives.
const MUCH: usize = 8;
/// Where nothing tells what lives of new objects, it is tried after so many collections of everything.
const UNTOLD_PATIENCE: u32 = 8;
/// Before the first collection of everything, so many of new objects in a row must not pay.
const UNPAID: u32 = 3;
/// A byte must cost so many tenths of what it costs by a collection of everything before new objects are not collected alone.
const TENTHS: u128 = 12;

/// Decides whether the next collection is of new objects alone, as far as it is for that to say.
pub fn decide(memory: &mut Memory, found: &Measurements) -> bool {
    match (found.was_full, memory.is_alone) {
        (false, true) => leave_out(memory, found),
        (false, false) => {}
        (true, was_alone) => {
            memory.full = (found.took_ns, found.room);
            let cycle = core::mem::take(&mut memory.new);
            match was_alone {
                true => look_back(memory, found, cycle),
                false => bring_back(memory, found),
            }
        }
    }
    memory.is_alone
}

fn leave_out(memory: &mut Memory, found: &Measurements) {
    memory.new.0 += found.took_ns;
    memory.new.1 += found.given_back;
    let pays = match memory.full {
        (0, _) => {
            let pays = is_cheaper((found.took_ns, found.given_back), guess(found));
            memory.unpaid = if pays { 0 } else { memory.unpaid + 1 };
            memory.unpaid < UNPAID
        }
        full => is_cheaper(memory.new, full),
    };
    if !pays {
        (memory.is_alone, memory.without) = (false, 0);
    }
}

/// What collections of new objects came to in a `cycle` that has ended: whether they are worth it for another one.
fn look_back(memory: &mut Memory, found: &Measurements, cycle: (u64, usize)) {
    let promising = found.lines_lived.is_none_or(|lived| promises(found, lived));
    match promising || is_cheaper(cycle, memory.full) {
        true => memory.patience = FIRST_PATIENCE,
        false => (memory.is_alone, memory.without) = (false, 0),
    }
}

/// Whether a byte that collections of new objects gave back costs no more than [`TENTHS`] of one in the room that a
/// collection of everything leaves: nanoseconds and bytes of both.
fn is_cheaper(new: (u64, usize), full: (u64, usize)) -> bool {
    let cost = u128::from(new.0) * full.1 as u128 * 10;
    cost <= u128::from(full.0) * new.1 as u128 * TENTHS
}

/// What a collection of everything would take, and the room that it would leave.
fn guess(found: &Measurements) -> (u64, usize) {
    let lived = found.allocated.saturating_sub(found.given_back).max(1);
    let half = found.filled / 2;
    let ns = u128::from(found.took_ns) * half as u128 / lived as u128;
    (u64::try_from(ns).unwrap_or(u64::MAX), found.room + half)
}

fn bring_back(memory: &mut Memory, found: &Measurements) {
    memory.without += 1;
    let (promises, patience) = match found.lines_lived {
        // Next to nothing lives: even half of that promise is worth a collection.
        Some(lived) if promises(found, MUCH * lived) => (true, FIRST_PATIENCE),
        Some(lived) => (promises(found, lived), memory.patience),
        None => (true, memory.patience.max(UNTOLD_PATIENCE)),
    };
    if promises && memory.without >= patience {
        memory.is_alone = true;
        memory.patience = (4 * memory.patience).min(LONGEST_PATIENCE);
    }
}

/// Whether a collection of new objects, of which as many thousandths live, costs at most two thirds of what one of everything does
/// for a byte that it gives back, if each byte that lives costs the same in both.
fn promises(found: &Measurements, lived: usize) -> bool {
    let died = 1000 - lived.min(1000);
    3 * lived as u128 * found.room as u128 <= 2 * died as u128 * found.filled as u128
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;
    const MS: u64 = 1_000_000;

    /// A heap in which `live` MB are in use of `limit`, and collections take half a millisecond for each that lives.
    struct Heap {
        limit: usize,
        live: usize,
        /// What was left over by collections of new objects.
        floating: usize,
        memory: Memory,
    }

    impl Heap {
        fn of(live: usize, limit: usize) -> Heap {
            Heap {
                limit: limit * MB,
                live: live * MB,
                floating: 0,
                memory: Memory::NEW,
            }
        }

        fn room(&self) -> usize {
            self.limit - self.live - self.floating
        }

        fn ns(bytes: usize) -> u64 {
            bytes as u64 * MS / 2 / MB as u64
        }

        /// Allocates `part` of what is free, of which `survival` thousandths live when new objects are collected, and then die if
        /// they are more than are to live. What that costs.
        fn cycle(&mut self, young: usize, survival: usize) -> (u64, usize) {
            let alone = self.memory.is_alone;
            let room = self.room();
            let allocated = if alone { room.min(young) } else { room };
            let lived = allocated / 1000 * survival;
            let is_full = !alone || room < young / 4;
            let took_ns = match is_full {
                true => Heap::ns(self.live),
                false => Heap::ns(lived),
            };
            self.floating = if is_full { 0 } else { self.floating + lived };
            let found = Measurements {
                was_full: is_full,
                took_ns,
                allocated,
                given_back: allocated - lived,
                filled: self.live + self.floating,
                room: self.room(),
                lines_lived: is_full.then_some(survival),
            };
            decide(&mut self.memory, &found);
            (took_ns, allocated)
        }

        /// Nanoseconds for each MB that is allocated, and how many collections of new objects there were.
        fn run(&mut self, cycles: usize, young: usize, survival: usize) -> (u64, usize) {
            let (mut ns, mut allocated, mut new) = (0, 0, 0);
            for _ in 0..cycles {
                let floating = self.floating;
                let (took, bytes) = self.cycle(young, survival);
                new += usize::from(self.floating > floating);
                (ns, allocated) = (ns + took, allocated + bytes / MB);
            }
            (ns / allocated as u64, new)
        }
    }

    #[test]
    fn where_most_of_what_is_new_lives_everything_is_collected_each_time() {
        let mut heap = Heap::of(20, 65);
        let (cost, new) = heap.run(200, 32 * MB, 750);
        assert!(new <= 3, "{new} before the first of everything");
        let everything = Heap::ns(20 * MB) / 45;
        assert!(cost <= everything * 105 / 100, "{cost} {everything}");
    }

    #[test]
    fn where_most_of_what_is_new_dies_it_is_collected_alone() {
        let mut heap = Heap::of(20, 65);
        let (cost, new) = heap.run(200, 32 * MB, 50);
        assert!(new > 150, "{new}");
        assert!(cost < Heap::ns(20 * MB) / 45 / 4, "{cost}");
    }

    /// What the program begins with lives, and what comes then dies.
    #[test]
    fn a_program_that_has_built_what_it_works_on_goes_on_with_collections_of_what_is_new() {
        let mut heap = Heap::of(20, 80);
        heap.run(2, 8 * MB, 950);
        assert!(heap.memory.is_alone, "two collections tell nothing");
        heap.run(1, 8 * MB, 100);
        heap.run(2, 8 * MB, 950);
        assert!(heap.memory.is_alone, "nor do two here and there");
        heap.run(1, 8 * MB, 950);
        assert!(!heap.memory.is_alone);
        heap.run(1, 8 * MB, 100);
        assert!(heap.memory.is_alone, "one collection of everything told");
    }

    #[test]
    fn lines_promise_enough_where_a_byte_costs_two_thirds() {
        let of = |lived, room, filled| {
            let found = Measurements {
                was_full: true,
                took_ns: MS,
                allocated: MB,
                given_back: MB,
                filled: filled * MB,
                room: room * MB,
                lines_lived: Some(lived),
            };
            promises(&found, lived)
        };
        assert!(of(400, 10, 10) && !of(401, 10, 10));
        assert!(of(100, 60, 10) && !of(100, 61, 10));
        assert!(of(0, 1, 0) && !of(1000, 1, 1));
    }

    /// Twice as much lives when new objects are collected earlier than a collection of everything tells.
    #[test]
    fn a_promise_that_was_not_kept_is_believed_ever_more_rarely() {
        let mut memory = Memory::NEW;
        let full = Measurements {
            was_full: true,
            took_ns: 10 * MS,
            allocated: 40 * MB,
            given_back: 40 * MB,
            filled: 20 * MB,
            room: 40 * MB,
            lines_lived: Some(200),
        };
        let new = Measurements {
            was_full: false,
            took_ns: 10 * MS,
            given_back: 10 * MB,
            lines_lived: None,
            ..full
        };
        decide(&mut memory, &full);
        let trials = (0..1000).filter(|_| match memory.is_alone {
            true => !decide(&mut memory, &new),
            false => {
                decide(&mut memory, &full);
                false
            }
        });
        assert_eq!(trials.count(), 6, "after 1, 4, 16, 64 and 256");
    }

    /// A collection of everything that found these lines of new blocks in use.
    fn swept(lines_lived: Option<usize>) -> Measurements {
        Measurements {
            was_full: true,
            took_ns: MS,
            allocated: MB,
            given_back: MB,
            filled: MB,
            room: MB,
            lines_lived,
        }
    }

    /// What the program did before, when promises were broken, says nothing of what it does now.
    #[test]
    fn where_next_to_nothing_lives_that_is_believed_at_once() {
        let of = |lines_lived| {
            let mut memory = Memory {
                is_alone: false,
                patience: 1000,
                ..Memory::NEW
            };
            decide(&mut memory, &swept(Some(lines_lived)))
        };
        assert!(of(50) && !of(51));
    }

    #[test]
    fn where_nothing_tells_what_lives_it_is_tried_after_some_collections_of_everything() {
        let mut memory = Memory {
            is_alone: false,
            ..Memory::NEW
        };
        let tried = (1..100).find(|_| decide(&mut memory, &swept(None)));
        assert_eq!(tried, Some(UNTOLD_PATIENCE));
    }

    #[test]
    fn a_byte_may_cost_a_fifth_more_than_by_a_collection_of_everything() {
        let of = |took_ns, given_back| {
            let mut memory = Memory {
                full: (10 * MS, 40 * MB),
                ..Memory::NEW
            };
            let found = Measurements {
                was_full: false,
                took_ns,
                allocated: 40 * MB,
                given_back,
                filled: 20 * MB,
                room: 40 * MB,
                lines_lived: None,
            };
            decide(&mut memory, &found)
        };
        assert!(of(12 * MS, 40 * MB) && !of(12 * MS + 1, 40 * MB));
        assert!(of(3 * MS, 10 * MB) && !of(3 * MS + 1, 10 * MB));
        assert!(!of(1, 0), "nothing came back");
        assert!(of(0, 0));
    }

    #[test]
    fn before_everything_was_collected_half_of_what_is_in_use_counts_as_alive() {
        let of = |took_ns, given_back, room| {
            let found = Measurements {
                was_full: false,
                took_ns,
                allocated: 30 * MB,
                given_back,
                filled: 40 * MB,
                room,
                lines_lived: None,
            };
            let mut memory = Memory::NEW;
            (1..=UNPAID).all(|_| decide(&mut memory, &found))
        };
        // 10 MB have lived, and 20 would now, for 48 MB of room at most.
        assert!(of(MS, 20 * MB, 28 * MB) && !of(MS, 20 * MB, 29 * MB));
        // 20 have lived, and would now: they give more back.
        assert!(!of(MS, 10 * MB, 0));
    }

    /// The first collection of everything comes before two of new objects have told anything.
    #[test]
    fn a_cycle_that_did_not_pay_is_the_last_one_unless_lines_promise_more() {
        let of = |new_ns, lines_lived| {
            let mut memory = Memory {
                new: (new_ns, 10 * MB),
                ..Memory::NEW
            };
            let found = Measurements {
                was_full: true,
                took_ns: 10 * MS,
                allocated: 40 * MB,
                given_back: 40 * MB,
                filled: 20 * MB,
                room: 40 * MB,
                lines_lived,
            };
            decide(&mut memory, &found)
        };
        assert!(of(3 * MS, Some(900)) && !of(3 * MS + 1, Some(900)));
        assert!(of(30 * MS, Some(100)), "much dies by now");
        assert!(of(30 * MS, None), "nothing tells");
    }

    /// That most of what is new lives is known from elsewhere: no collection of new objects has to show it. Lines of new blocks tell
    /// when that is over.
    #[test]
    fn what_is_known_from_elsewhere_leaves_collections_of_new_objects_out_until_lines_tell() {
        let mut heap = Heap::of(30, 60);
        heap.memory.leave_out_at_first();
        let (_, new) = heap.run(20, 8 * MB, 900);
        assert_eq!(new, 0);
        let (_, new) = heap.run(20, 8 * MB, 20);
        assert!(new >= 10, "{new}");
    }

    /// Behind a collection of everything of 10 ms for 40 MB: one in which so many thousandths of lines live, or one of new
    /// objects that gives 10 MB back.
    fn told(was_full: bool, took_ns: u64, lived: usize) -> Measurements {
        Measurements {
            was_full,
            took_ns,
            allocated: 40 * MB,
            given_back: 10 * MB,
            filled: 20 * MB,
            room: 40 * MB,
            lines_lived: was_full.then_some(lived),
        }
    }

    const TOLD: Memory = Memory {
        full: (10 * MS, 40 * MB),
        ..Memory::NEW
    };

    #[test]
    fn a_cycle_is_compared_by_itself_with_the_last_collection_of_everything() {
        let mut memory = TOLD;
        for _ in 0..9 {
            assert!(decide(&mut memory, &told(false, MS, 0)));
        }
        assert!(decide(&mut memory, &told(true, 10 * MS, 900)));
        assert!(!decide(&mut memory, &told(false, 4 * MS, 0)), "cheap ones");
        let mut memory = TOLD;
        decide(&mut memory, &told(true, MS, 900));
        assert!(!decide(&mut memory, &told(false, 3 * MS, 0)), "a dear one");
    }

    #[test]
    fn each_time_that_new_objects_do_not_pay_patience_begins_anew_and_success_ends_it() {
        let impatient = Memory {
            without: 5,
            patience: 4,
            ..TOLD
        };
        for was_full in [false, true] {
            let mut memory = impatient;
            memory.new = (30 * MS, 10 * MB);
            assert!(!decide(&mut memory, &told(was_full, 10 * MS, 900)));
            let tried = (1..9).find(|_| decide(&mut memory, &told(true, 10 * MS, 200)));
            assert_eq!(tried, Some(4), "{was_full}");
        }
        let mut memory = impatient;
        memory.new = (MS, 10 * MB);
        assert!(decide(&mut memory, &told(true, 10 * MS, 900)));
        assert_eq!(memory.patience, FIRST_PATIENCE);
        let mut memory = Memory {
            is_alone: false,
            patience: 64,
            ..TOLD
        };
        let tried = (1..99).find(|_| decide(&mut memory, &swept(None)));
        assert_eq!(tried, Some(64), "nothing tells, and promises were broken");
    }
}
