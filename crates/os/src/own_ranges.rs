//! Which addresses are the collector's own: what it mapped, and its own image.
//!
//! A search of the process's memory for what the program keeps must leave these ranges out. Mark stacks and tables of
//! links are full of addresses that keep nothing alive. Places apart ([`memory::place_apart`]) are not listed: nobody else's
//! memory lies among them.
//!
//! # Invariants
//! - A slot is free while its `start` is 0. It is claimed by compare-and-swap of `start`, and belongs to whoever owns the
//!   range.
//! - `end` is written last (Release) and cleared first. A reader that finds the same `end` before and after `start`
//!   (Acquire) has a range that somebody owned. What the reader owns itself nobody else changes.
//! - A range for which no slot is free is not listed. It counts as the program's: that keeps more alive, and loses nothing.
//!
//! Any thread, any state of the world; nothing here allocates or waits.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::memory;

/// How many ranges are known at a time: arenas of 256 KB for the most part.
const SLOTS: usize = 1024;

struct Slot {
    /// 0 while the slot is free.
    start: AtomicUsize,
    /// 0 while the slot is not complete.
    end: AtomicUsize,
}

impl Slot {
    /// The range, if it has one, that it had for as long as this looked.
    fn range(&self) -> Option<(usize, usize)> {
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        (start < end && self.end.load(Ordering::Relaxed) == end).then_some((start, end))
    }
}

struct Slots {
    slots: [Slot; SLOTS],
    /// One more than the last slot that was ever used.
    used: AtomicUsize,
}

static SLOTS_OF_THE_PROCESS: Slots = Slots::new();

impl Slots {
    const fn new() -> Slots {
        Slots {
            slots: [const {
                Slot {
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                }
            }; SLOTS],
            used: AtomicUsize::new(0),
        }
    }

    fn add(&self, start: usize, end: usize) {
        let is_claimed = |slot: &Slot| {
            let claim = slot
                .start
                .compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
            claim.is_ok()
        };
        if let Some(at) = self.slots.iter().position(is_claimed) {
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
            slot.end.store(0, Ordering::Relaxed);
            slot.start.store(0, Ordering::Release);
            if low < start {
                self.add(low, start);
            }
            if end < high {
                self.add(end, high);
            }
        }
    }

    fn in_use(&self) -> &[Slot] {
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
    let apart = memory::places_apart();
    let apart = (apart.1 > address).then_some(apart);
    let listed = SLOTS_OF_THE_PROCESS.first_above(address);
    listed.into_iter().chain(apart).min_by_key(|&(_, end)| end)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    fn all(slots: &Slots) -> Vec<(usize, usize)> {
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
