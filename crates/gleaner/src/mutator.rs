//! A thread that uses a heap.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleaner_plans::scavenge::Totals;
use gleaner_plans::scavenge::mutator::Mutator as Record;

use crate::heap::{Heap, Kind, Shared, with_heap};
use crate::scope::Scope;

/// A thread's use of a heap. It stays on the thread that attached it, and detaches when it is dropped.
///
/// It keeps the heap: if all [`Heap`]s were dropped, it goes on, and the heap ends with it.
pub struct Mutator {
    pub(crate) shared: Arc<Shared>,
    /// What the collector sees of it. No Rust reference to it is held over a call that may collect.
    record: NonNull<Record>,
    pub(crate) compressed: bool,
    hash_state: u64,
    /// Whether it is outside of the gate.
    outside: bool,
    not_send: PhantomData<*mut ()>,
}

impl fmt::Debug for Mutator {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Mutator")
            .field("number", &self.record().number)
            .finish_non_exhaustive()
    }
}

impl Mutator {
    pub(crate) fn new(shared: Arc<Shared>, record: NonNull<Record>) -> Mutator {
        shared.mutators.fetch_add(1, Ordering::Relaxed);
        Mutator {
            compressed: matches!(shared.kind, Kind::Compressed(_)),
            // SAFETY: just attached.
            hash_state: u64::from(unsafe { record.as_ref() }.number) << 32,
            shared,
            record,
            outside: false,
            not_send: PhantomData,
        }
    }

    /// The record, for a moment.
    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: it exists as long as this; the collector changes it only while this thread is in one of its calls.
        unsafe { self.record.as_ref() }
    }

    /// The record, to be changed, for a moment.
    #[inline(always)]
    pub(crate) fn record_mut(&mut self) -> &mut Record {
        // SAFETY: as above.
        unsafe { self.record.as_mut() }
    }

    /// Where the record lies.
    #[inline(always)]
    pub(crate) fn record_place(&self) -> NonNull<Record> {
        self.record
    }

    /// The heap.
    pub fn heap(&self) -> Heap {
        Heap {
            shared: self.shared.clone(),
        }
    }

    /// Runs `body` with references that live as long as it runs.
    pub fn scope<R>(&mut self, body: impl for<'s> FnOnce(&mut Scope<'s>) -> R) -> R {
        Scope::enter(self, body)
    }

    /// It leaves the gate: a blocking region of the raw layer begins.
    pub(crate) fn leave(&mut self) {
        debug_assert!(!self.outside, "a blocking region inside a blocking region");
        self.outside = true;
        with_heap!(&self.shared.kind, heap => heap.gate.leave());
    }

    /// It goes into the gate again.
    pub(crate) fn enter(&mut self) {
        with_heap!(&self.shared.kind, heap => heap.gate.enter());
        self.outside = false;
    }

    /// Nothing but its drop follows: it is outside of the gate then, without roots.
    pub(crate) fn leave_for_good(&mut self) {
        if !self.outside {
            self.outside = true;
            let record = self.record;
            // SAFETY: the heap gave the record, which is not used again but to detach it.
            with_heap!(&self.shared.kind, heap => unsafe { heap.leave_for_good(record) });
        }
    }

    /// Runs `body`, which may block and must not use the heap, while collections go on without this thread.
    pub fn blocking<R>(&mut self, body: impl FnOnce() -> R) -> R {
        struct Outside<'a>(&'a Shared);
        impl Drop for Outside<'_> {
            fn drop(&mut self) {
                with_heap!(&self.0.kind, heap => heap.gate.enter());
            }
        }
        with_heap!(&self.shared.kind, heap => heap.gate.leave());
        let outside = Outside(&self.shared);
        let result = body();
        drop(outside);
        result
    }

    /// What collections did so far. A poll: others may collect meanwhile.
    pub fn totals(&mut self) -> Totals {
        let heap = self.heap();
        self.blocking(|| heap.totals())
    }

    /// Bytes that this mutator has allocated.
    pub fn allocated_bytes(&self) -> u64 {
        self.record().allocated_bytes - self.record().tlab_left() as u64
    }

    /// The next number of a sequence that is this mutator's (splitmix64).
    pub(crate) fn next_hash(&mut self) -> u32 {
        self.hash_state = self.hash_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.hash_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u32
    }
}

impl Drop for Mutator {
    fn drop(&mut self) {
        self.leave_for_good();
        let record = self.record;
        // SAFETY: the heap gave the record, and nobody uses it after this.
        with_heap!(&self.shared.kind, heap => unsafe { heap.detach(record) });
        self.shared.mutators.fetch_sub(1, Ordering::Relaxed);
    }
}
