//! Which addresses are the collector's own: what it mapped, and its own image.
//!
//! A search of the process's memory for what the program keeps must leave these ranges out. Mark stacks and tables of
//! links are full of addresses that keep nothing alive. Places apart ([`memory::place_apart`](crate::memory::place_apart)) are not listed: nobody else's
//! memory lies among them.
//!
//! # Invariants
//! - A slot is free while its `start` is 0. It is claimed by compare-and-swap of `start`, and belongs to the thread that owns the
//!   range. The claim (Acquire) comes after all that the owner before wrote to the slot (Release of `start`).
//! - `end` is written last (Release) and cleared first. Then `turns` is raised (Release), and `start` cleared.
//! - A reader that finds the same `turns` before and after `end` and `start` (Acquire) has a range that somebody owned: the
//!   same addresses may come again, `turns` does not. What the reader owns itself nobody else changes.
//! - A range for which no slot is free is not listed. It counts as the program's: that keeps more alive, and loses nothing.
//!
//! Any thread, any state of the world; nothing here allocates or waits.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::places;

/// How many ranges are known at a time: arenas of 256 KB for the most part.
const SLOTS: usize = 1024;

/// A word that threads share. Those of the process are `core`'s, since loom's cannot stand in a static; models have loom's.
trait Word {
    fn load(&self, order: Ordering) -> usize;
    fn store(&self, value: usize, order: Ordering);
    fn fetch_max(&self, value: usize, order: Ordering) -> usize;
    /// Whether the word was 0, and is `value` now.
    fn claim(&self, value: usize, order: Ordering) -> bool;
}

impl Word for AtomicUsize {
    fn load(&self, order: Ordering) -> usize {
        self.load(order)
    }

    fn store(&self, value: usize, order: Ordering) {
        self.store(value, order);
    }

    fn fetch_max(&self, value: usize, order: Ordering) -> usize {
        self.fetch_max(value, order)
    }

    fn claim(&self, value: usize, order: Ordering) -> bool {
        self.compare_exchange(0, value, order, Ordering::Relaxed)
            .is_ok()
    }
}

struct Slot<W> {
    /// 0 while the slot is free.
    start: W,
    /// 0 while the slot is not complete.
    end: W,
    /// How often the slot was given back. Only its owner changes it.
    turns: W,
}

impl<W: Word> Slot<W> {
    /// The range, if it has one, that it had at a time while this looked.
    fn range(&self) -> Option<(usize, usize)> {
        let turns = self.turns.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        (start < end && self.turns.load(Ordering::Relaxed) == turns).then_some((start, end))
    }

    /// Makes it free. Only its owner may.
    fn give_back(&self) {
        self.end.store(0, Ordering::Relaxed);
        let turns = self.turns.load(Ordering::Relaxed);
        self.turns.store(turns.wrapping_add(1), Ordering::Release);
        self.start.store(0, Ordering::Release);
    }
}

struct Slots<W, const COUNT: usize> {
    slots: [Slot<W>; COUNT],
    /// One more than the last slot that was ever used.
    used: W,
}

static SLOTS_OF_THE_PROCESS: Slots<AtomicUsize, SLOTS> = Slots::new();

impl Slots<AtomicUsize, SLOTS> {
    const fn new() -> Self {
        Slots {
            slots: [const {
                Slot {
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    turns: AtomicUsize::new(0),
                }
            }; SLOTS],
            used: AtomicUsize::new(0),
        }
    }
}

impl<W: Word, const COUNT: usize> Slots<W, COUNT> {
    fn add(&self, start: usize, end: usize) {
        let free = self
            .slots
            .iter()
            .position(|slot| slot.start.claim(start, Ordering::Acquire));
        if let Some(at) = free {
            self.used.fetch_max(at + 1, Ordering::Relaxed);
            self.slots[at].end.store(end, Ordering::Release);
        }
    }

    /// Takes a range out of those that the caller owns; what is left of them stays.
    fn remove(&self, start: usize, end: usize) {
        for slot in self.in_use() {
            let Some((low, high)) = slot
                .range()
                .filter(|&(low, high)| low < end && start < high)
            else {
                continue;
            };
            slot.give_back();
            if low < start {
                self.add(low, start);
            }
            if end < high {
                self.add(end, high);
            }
        }
    }

    fn in_use(&self) -> &[Slot<W>] {
        &self.slots[..self.used.load(Ordering::Relaxed)]
    }

    /// The range that ends first of those that end above `address`.
    fn first_above(&self, address: usize) -> Option<(usize, usize)> {
        self.in_use()
            .iter()
            .filter_map(Slot::range)
            .filter(|&(_, end)| end > address)
            .min_by_key(|&(_, end)| end)
    }
}

/// A range is the collector's from now on.
pub fn add(start: usize, bytes: usize) {
    SLOTS_OF_THE_PROCESS.add(start, start + bytes);
}

/// A range of the collector's is so no more: before it is given back. Of ranges that somebody else owns nothing may be named.
pub fn remove(start: usize, bytes: usize) {
    SLOTS_OF_THE_PROCESS.remove(start, start + bytes);
}

/// The range of the collector's that ends first of those that end above `address`.
pub fn first_above(address: usize) -> Option<(usize, usize)> {
    let apart = places::places_apart();
    let apart = (apart.1 > address).then_some(apart);
    let listed = SLOTS_OF_THE_PROCESS.first_above(address);
    listed.into_iter().chain(apart).min_by_key(|&(_, end)| end)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory;
    use core::sync::atomic::AtomicBool;

    fn all(slots: &Slots<AtomicUsize, SLOTS>) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(range) = slots.first_above(at) {
            found.push(range);
            at = range.1;
        }
        found
    }

    #[test]
    fn ranges_come_in_order_and_lose_what_is_removed() {
        let slots = Slots::new();
        slots.add(300, 400);
        slots.add(100, 200);
        assert_eq!(all(&slots), [(100, 200), (300, 400)]);
        slots.remove(100, 120);
        slots.remove(390, 400);
        slots.remove(330, 340);
        assert_eq!(all(&slots), [(120, 200), (300, 330), (340, 390)]);
        slots.remove(0, 1000);
        assert_eq!(all(&slots), []);
        slots.add(7, 8);
        assert_eq!(slots.in_use().len(), 3);
    }

    #[test]
    fn a_range_too_many_is_noticed() {
        let slots = Slots::new();
        for number in 1..=SLOTS {
            slots.add(number * 10, number * 10 + 5);
        }
        assert_eq!(all(&slots).len(), SLOTS);
        slots.add(1, 2);
        assert_eq!(all(&slots).len(), SLOTS);
        assert_eq!(slots.first_above(0), Some((10, 15)));
    }

    /// Each thread has ranges of its own; a reader never sees a range that nobody had.
    #[test]
    fn threads_add_and_remove_at_once() {
        let slots = Slots::new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=8usize)
                .map(|thread| {
                    let slots = &slots;
                    scope.spawn(move || {
                        for turn in 0..2000 {
                            let start = (thread << 32) + (turn % 16) * 4096;
                            slots.add(start, start + 4096);
                            slots.remove(start, start + 1024);
                            slots.remove(start + 1024, start + 4096);
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for (start, end) in all(&slots) {
                        assert!(end - start <= 4096 && start >> 32 == (end - 1) >> 32);
                    }
                }
            });
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(all(&slots), []);
    }

    #[test]
    fn what_is_mapped_is_known_until_it_is_unmapped() {
        let start = memory::map(8192).unwrap();
        let low = start.as_ptr() as usize;
        assert_eq!(first_above(low), Some((low, low + 8192)));
        // SAFETY: mapped above, and nobody uses it.
        assert!(unsafe { memory::unmap(start, 8192) });
        assert!(first_above(low).is_none_or(|(other, _)| other > low));
        let apart = memory::place_apart(4096).unwrap().as_ptr() as usize;
        let (start, end) = first_above(apart).unwrap();
        assert!(start <= apart && apart < end);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use gleaner_base::sync;
    use loom::thread;
    use std::sync::Arc;

    /// A word that also counts its accesses. Of each object loom remembers the last access alone: a load before a store hides
    /// those of other threads (its issue 166). Relaxed, so it orders nothing.
    struct Counted {
        value: sync::AtomicUsize,
        accesses: sync::AtomicUsize,
    }

    impl Counted {
        fn zero() -> Counted {
            Counted {
                value: sync::AtomicUsize::new(0),
                accesses: sync::AtomicUsize::new(0),
            }
        }

        fn access(&self) -> &sync::AtomicUsize {
            self.accesses.fetch_add(1, Ordering::Relaxed);
            &self.value
        }
    }

    impl Word for Counted {
        fn load(&self, order: Ordering) -> usize {
            self.access().load(order)
        }

        fn store(&self, value: usize, order: Ordering) {
            self.access().store(value, order);
        }

        fn fetch_max(&self, value: usize, order: Ordering) -> usize {
            self.access().fetch_max(value, order)
        }

        fn claim(&self, value: usize, order: Ordering) -> bool {
            self.access()
                .compare_exchange(0, value, order, Ordering::Relaxed)
                .is_ok()
        }
    }

    type Few = Slots<Counted, 2>;
    type Range = (usize, usize);

    fn slots(ranges: &[Range]) -> Arc<Few> {
        let slot = |_| Slot {
            start: Counted::zero(),
            end: Counted::zero(),
            turns: Counted::zero(),
        };
        let slots = Few {
            slots: core::array::from_fn(slot),
            used: Counted::zero(),
        };
        ranges.iter().for_each(|&(low, high)| slots.add(low, high));
        Arc::new(slots)
    }

    fn model(check: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(check);
    }

    /// Memory is often mapped where some was unmapped just before: a reader sees the range, or none.
    #[test]
    fn a_range_that_comes_again_is_seen_as_it_is_or_not_at_all() {
        model(|| {
            let slots = slots(&[(100, 200)]);
            let owner = {
                let slots = slots.clone();
                thread::spawn(move || {
                    slots.remove(100, 200);
                    slots.add(100, 200);
                })
            };
            let seen = slots.first_above(0);
            assert!(seen.is_none_or(|range| range == (100, 200)), "{seen:?}");
            owner.join().unwrap();
            assert_eq!(slots.first_above(0), Some((100, 200)));
        });
    }

    /// A slot has other ranges one after the other: a reader sees one of them, and no mixture.
    #[test]
    fn ranges_of_one_slot_are_not_mixed() {
        const RANGES: [Range; 3] = [(100, 200), (50, 80), (170, 200)];
        model(|| {
            let slots = slots(&RANGES[..1]);
            let owner = {
                let slots = slots.clone();
                thread::spawn(move || {
                    for [(low, high), (next_low, next_high)] in
                        [[RANGES[0], RANGES[1]], [RANGES[1], RANGES[2]]]
                    {
                        slots.remove(low, high);
                        slots.add(next_low, next_high);
                    }
                })
            };
            let seen = slots.first_above(0);
            assert!(seen.is_none_or(|range| RANGES.contains(&range)), "{seen:?}");
            owner.join().unwrap();
            assert_eq!(slots.first_above(0), Some(RANGES[2]));
        });
    }

    /// Two threads give back and get at once, and each may get the other's slot: both keep what they have.
    #[test]
    fn a_thread_does_not_touch_what_another_owns() {
        model(|| {
            let slots = slots(&[(100, 200), (300, 400)]);
            let owner = {
                let slots = slots.clone();
                thread::spawn(move || {
                    slots.remove(100, 200);
                    slots.add(100, 200);
                })
            };
            slots.remove(300, 400);
            slots.add(20, 40);
            owner.join().unwrap();
            assert_eq!(slots.first_above(0), Some((20, 40)));
            assert_eq!(slots.first_above(40), Some((100, 200)));
            assert_eq!(slots.first_above(200), None);
        });
    }
}
