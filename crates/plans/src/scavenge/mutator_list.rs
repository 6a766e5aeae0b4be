//! The mutators of a precise heap: those that a collection stops, and whose roots it visits.

use alloc::vec::Vec;
use core::ptr::NonNull;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::AtomicU32;

use super::mutator::Mutator;
use super::stop::handshake::Partner;
use super::stop::whereabouts::Whereabouts;

/// The attached mutators, in no order.
///
/// # Invariant
/// Each record was leaked by `attach`, and is freed when it was taken off the list: all that are in it exist.
#[derive(Default)]
pub struct MutatorList(Vec<NonNull<Mutator>>);

impl MutatorList {
    /// None is attached.
    pub const fn new() -> MutatorList {
        MutatorList(Vec::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// The record exists until it is taken off the list.
    pub unsafe fn push(&mut self, record: NonNull<Mutator>) {
        self.0.push(record);
    }

    /// Takes one off the list.
    pub fn remove(&mut self, record: NonNull<Mutator>) {
        self.0.retain(|&other| other != record);
    }

    /// Keeps those of which `is_kept` says so, and hands the others to `goes`.
    pub fn split(
        &mut self,
        is_kept: impl Fn(NonNull<Mutator>) -> bool,
        mut goes: impl FnMut(NonNull<Mutator>),
    ) {
        self.0.retain(|&record| {
            let stays = is_kept(record);
            if !stays {
                goes(record);
            }
            stays
        });
    }

    /// The words by which they are told to stop.
    pub fn polls(&self) -> impl Iterator<Item = &AtomicU32> {
        // SAFETY: what is in the list exists, and the word is atomic.
        self.0
            .iter()
            .map(|record| unsafe { &(*record.as_ptr()).poll })
    }

    /// Where they are, as far as that is known of mutators that run.
    pub fn whereabouts(&self) -> impl Iterator<Item = &Whereabouts> {
        // SAFETY: what is in the list exists, and the words are atomic.
        self.0
            .iter()
            .map(|record| unsafe { &(*record.as_ptr()).whereabouts })
    }

    /// What of each takes part in handshakes.
    pub fn partners(&self) -> impl Iterator<Item = Partner<'_>> {
        // SAFETY: what is in the list exists, and this looks at atomics alone.
        self.0
            .iter()
            .map(|record| unsafe { &*record.as_ptr() }.partner())
    }

    /// All of them, which do not run.
    pub fn stopped<'a>(&'a self, world: &'a WorldStopped<'_>) -> Stopped<'a> {
        Stopped {
            records: &self.0,
            _world: world,
        }
    }
}

/// Mutators that do not run. Not to be shared between workers without care: records have cells.
#[derive(Clone, Copy)]
pub struct Stopped<'a> {
    records: &'a [NonNull<Mutator>],
    _world: &'a WorldStopped<'a>,
}

impl<'a> Stopped<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The one at this place.
    pub fn get(&self, index: usize) -> Option<&'a Mutator> {
        let record = self.records.get(index)?;
        // SAFETY: what is in the list exists, and its owner does not run.
        Some(unsafe { record.as_ref() })
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = &'a Mutator> {
        (0..self.len()).filter_map(move |index| self.get(index))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn list(records: &[NonNull<Mutator>]) -> MutatorList {
        let mut list = MutatorList::new();
        for &record in records {
            // SAFETY: the tests look at no record.
            unsafe { list.push(record) };
        }
        list
    }

    fn records() -> [NonNull<Mutator>; 3] {
        [1, 2, 3].map(|number| {
            NonNull::new(core::ptr::without_provenance_mut(number << 12)).expect("not null")
        })
    }

    #[test]
    fn one_that_is_removed_is_gone_and_the_others_are_not() {
        let [first, second, third] = records();
        let mut list = list(&[first, second, third]);
        list.remove(second);
        list.remove(second);
        assert_eq!(list.0, [first, third]);
    }

    #[test]
    fn those_that_go_are_handed_out_and_gone() {
        let [first, second, third] = records();
        let mut list = list(&[first, second, third]);
        let mut gone = Vec::new();
        list.split(|record| record == second, |record| gone.push(record));
        assert_eq!((list.0, gone), (vec![second], vec![first, third]));
    }
}
