//! Objects that keep their places for a while, and conservative roots.

use std::ptr::NonNull;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::pins::errors::{PinError, WordRange, WordRangeError};

use crate::body::with_heap;
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

impl Scope<'_> {
    /// Pins an object: it keeps its place until it has been unpinned as often, for calls that need its address. The result
    /// is the address of its header. It is valid as long as the object is pinned and lives: a pin keeps the place of an object,
    /// and not its life.
    ///
    /// Any object can be pinned, but for arrays in pieces and under option `quarantine`. A young one stays in eden, where others
    /// are allocated around it; under `nursery=in-place` it stays in its lines, as all do. While anything is pinned, collections slide nothing together. So pins are for a while, and
    /// few; an object that is to stay for ever is allocated by a pinned [`Type`](crate::Type).
    ///
    /// ```
    /// # use gleaner::{Heap, PinError, Structure};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// # let node = heap.structure(Structure { references: 0, bytes: 8 }).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let buffer = scope.allocate(node).unwrap();
    ///     let place = scope.pin(buffer)?;
    ///     scope.collect(false);
    ///     assert_eq!(scope.pin(buffer), Ok(place));
    ///     scope.unpin(buffer)?;
    ///     scope.unpin(buffer)
    /// }).unwrap();
    /// ```
    pub fn pin(&mut self, local: Local<'_, impl Holds>) -> Result<NonNull<u8>, PinError> {
        let value = self.value(local);
        // SAFETY: locals hold valid values.
        let object = unsafe { self.mutator().pin_raw(value) }?;
        NonNull::new(object.ptr()).ok_or(PinError::NoObject)
    }

    /// Takes a pin of an object back. Of an object that never moves nobody counts the pins, and this does nothing.
    pub fn unpin(&mut self, local: Local<'_, impl Holds>) -> Result<(), PinError> {
        let value = self.value(local);
        // SAFETY: locals hold valid values.
        unsafe { self.mutator().unpin_raw(value) }
    }
}

impl Mutator {
    /// As [`Scope::pin`], for a value. What is null, an immediate or an address outside of the heap is refused. It neither
    /// collects nor polls.
    ///
    /// # Safety
    /// The value is valid, or is no address in this heap.
    pub unsafe fn pin_raw(&mut self, value: Value) -> Result<Address, PinError> {
        self.assert_inside("an object is pinned");
        // SAFETY: an object lies there if one of this heap can, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.pin(value) })
    }

    /// As [`Scope::unpin`], for a value.
    ///
    /// # Safety
    /// As for [`Mutator::pin_raw`].
    pub unsafe fn unpin_raw(&mut self, value: Value) -> Result<(), PinError> {
        self.assert_inside("an object is unpinned");
        // SAFETY: an object lies there if one of this heap can, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.unpin(value) })
    }

    /// Makes the words of a range conservative roots of the heap, until [`Mutator::remove_words`] or until the heap ends: a
    /// native stack, or registers that were saved. In each collection the objects that these words point to, or into,
    /// live and keep their places. Everything else moves as it would otherwise.
    ///
    /// It is refused under `quarantine`, and where the heap cuts arrays.
    ///
    /// # Safety
    /// As long as the words are roots they can be read at every poll and allocation of any mutator, and so can the place of
    /// the lowest one's address.
    pub unsafe fn add_words(&mut self, range: WordRange) -> Result<(), WordRangeError> {
        self.assert_inside("a range of words is registered");
        // SAFETY: such words can be read, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.add_words(range) })
    }

    /// The words of the range that begins at `start` are no roots any more. The result is the range.
    pub fn remove_words(&mut self, start: Address) -> Result<WordRange, WordRangeError> {
        self.assert_inside("a range of words is unregistered");
        with_heap!(&self.shared.kind, heap => heap.pins.remove_words(start))
    }
}
