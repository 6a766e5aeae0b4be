//! Pinned objects in the order of their addresses, each with how many pins it has.
//!
//! Runs of at most [`MOST`] objects, so that one more moves few of the others, wherever it lies.
//!
//! # Invariants
//! - Runs of `runs[..used]` are not empty. What one run names lies below what the next one names.
//! - Those behind are empty, and their memory is for later ones: in a stopped world nothing is freed (I1).

use alloc::vec::Vec;

use gleaner_mem::Address;

/// A pinned object, and how many pins it has: 1 at least.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pinned {
    object: Address,
    pins: usize,
}

/// Objects of a run, at most.
const MOST: usize = 512;

/// Pinned objects, sorted.
#[derive(Default)]
pub(super) struct Sorted {
    runs: Vec<Vec<Pinned>>,
    used: usize,
    length: usize,
}

impl Sorted {
    /// How many objects are pinned.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// What is pinned, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Address> {
        self.runs.iter().flatten().map(|pin| pin.object)
    }

    /// In which run an object is, or would be, and where.
    fn place(&self, object: Address) -> (usize, Result<usize, usize>) {
        let begin = |run: &Vec<Pinned>| run.first().is_some_and(|first| first.object <= object);
        let number = self.runs[..self.used]
            .partition_point(begin)
            .saturating_sub(1);
        let run = self.runs.get(number).map_or(&[][..], Vec::as_slice);
        (number, run.binary_search_by_key(&object, |pin| pin.object))
    }

    /// An object has one pin more. `None` if the system gives no memory for it: then nothing has changed.
    pub(super) fn pin(&mut self, object: Address) -> Option<()> {
        let (mut number, place) = self.place(object);
        let mut place = match place {
            Ok(place) => {
                self.runs[number][place].pins += 1;
                return Some(());
            }
            Err(place) => place,
        };
        if number >= self.used {
            self.begin_run(number)?;
        } else if self.runs[number].len() == MOST {
            self.begin_run(number + 1)?;
            let (low, high) = self.runs.split_at_mut(number + 1);
            high[0].extend_from_slice(&low[number][MOST / 2..]);
            low[number].truncate(MOST / 2);
            if place > MOST / 2 {
                (number, place) = (number + 1, place - MOST / 2);
            }
        }
        self.runs[number].insert(place, Pinned { object, pins: 1 });
        self.length += 1;
        Some(())
    }

    /// An empty run, with room for all it may have, is at place `number` from now on.
    fn begin_run(&mut self, number: usize) -> Option<()> {
        if self.used == self.runs.len() {
            let mut run = Vec::new();
            run.try_reserve_exact(MOST).ok()?;
            self.runs.try_reserve(1).ok()?;
            self.runs.push(run);
        }
        self.runs[number..=self.used].rotate_right(1);
        self.used += 1;
        Some(())
    }

    /// An object has one pin less. `None` if it has none.
    pub(super) fn unpin(&mut self, object: Address) -> Option<()> {
        let (number, place) = self.place(object);
        let run = self.runs.get_mut(number)?;
        let place = place.ok()?;
        run[place].pins -= 1;
        if run[place].pins == 0 {
            run.remove(place);
            self.length -= 1;
            if run.is_empty() {
                self.runs[number..self.used].rotate_left(1);
                self.used -= 1;
            }
        }
        Some(())
    }

    /// Objects that `lives` says no of are not pinned any more. No memory is taken or freed.
    pub(super) fn retain(&mut self, lives: impl Fn(Address) -> bool) {
        let (mut kept, mut length) = (0, 0);
        for number in 0..self.used {
            let run = &mut self.runs[number];
            run.retain(|pin| lives(pin.object));
            length += run.len();
            if !run.is_empty() {
                self.runs.swap(kept, number);
                kept += 1;
            }
        }
        (self.used, self.length) = (kept, length);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    const fn at(number: usize) -> Address {
        Address::new(8 * (number + 1))
    }

    fn check(sorted: &Sorted, model: &BTreeMap<Address, usize>) {
        assert!(sorted.iter().eq(model.keys().copied()));
        assert_eq!(sorted.len(), model.len());
        assert!(
            sorted.runs[..sorted.used]
                .iter()
                .all(|run| (1..=MOST).contains(&run.len()))
        );
        assert!(sorted.runs[sorted.used..].iter().all(Vec::is_empty));
    }

    #[test]
    fn pins_are_counted_and_sorted_in_whatever_order_they_come() {
        let (mut sorted, mut model) = (Sorted::default(), BTreeMap::new());
        let mut state = 1_u64;
        for step in 0..60_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (object, choice) = (at((state >> 33) as usize % 4000), (state >> 20) % 8);
            if choice < if step < 30_000 { 6 } else { 2 } {
                sorted.pin(object).unwrap();
                *model.entry(object).or_insert(0) += 1;
            } else {
                let pins = model.get_mut(&object);
                assert_eq!(sorted.unpin(object).is_some(), pins.is_some());
                if let Some(pins) = pins {
                    *pins -= 1;
                    model.retain(|_, pins| *pins > 0);
                }
            }
            if step % 1000 == 0 {
                check(&sorted, &model);
            }
        }
        check(&sorted, &model);
    }

    #[test]
    fn one_more_below_all_others_moves_no_more_than_a_run() {
        let mut sorted = Sorted::default();
        for number in (0..20 * MOST).rev() {
            sorted.pin(at(number)).unwrap();
        }
        assert!((20..=40).contains(&sorted.used), "{}", sorted.used);
        assert!(sorted.runs.iter().all(|run| run.capacity() == MOST));
        for number in 0..20 * MOST {
            sorted.unpin(at(number)).unwrap();
        }
        assert_eq!((sorted.len(), sorted.used), (0, 0));
    }

    #[test]
    fn runs_whose_objects_have_died_are_used_again() {
        let mut sorted = Sorted::default();
        let mut model = BTreeMap::new();
        for number in 0..10 * MOST {
            sorted.pin(at(number)).unwrap();
            model.insert(at(number), 1);
        }
        let memory = sorted.runs.len();
        let lives = |object: Address| object >= at(9 * MOST) || object == at(3);
        sorted.retain(lives);
        model.retain(|&object, _| lives(object));
        check(&sorted, &model);
        assert_eq!(sorted.runs.len(), memory, "nothing is freed");
        for number in 0..8 * MOST {
            sorted.pin(at(number)).unwrap();
            *model.entry(at(number)).or_insert(0) += 1;
        }
        check(&sorted, &model);
        assert_eq!(sorted.runs.len(), memory);
        assert_eq!(sorted.unpin(at(3)), Some(()));
        assert_eq!(sorted.unpin(at(3)), Some(()), "it had been pinned before");
        assert_eq!(sorted.unpin(at(3)), None);
    }
}
