//! Ephemerons that wait for their keys, found by the key when it is reached: so chains are followed in linear time in
//! whatever order they lie in the table.
//!
//! A hash table over the addresses of keys, in memory beside the table of ephemerons: a list of entries a bucket. It is
//! filled and asked in two phases, with the end of the first between them:
//!
//! 1. Each entry is looked at once. If its key lives as far as was traced, its value is traced; else it is
//!    [registered](Waiting::register). Nobody looks anything up, so a key may be reached after its entry was
//!    registered.
//! 2. The table is [complete](Waiting::complete). The registered entries are looked at once more; and a worker that
//!    reaches an object from now on, in this phase or in a later one, looks up which entries wait for it
//!    ([`Watch::won`]). Their values are traced and lead to more keys, until nothing is left.
//!
//! No entry is missed. If its key was reached before phase 2 began, the second look sees that, since the end of a phase
//! is ordered before the next one. If not, then one worker wins the key later (I4), and finds the entry, since
//! registering had ended. It may be found in both ways, and both make the same value live, which happens once. In a
//! single phase the worker that registers and the one that reaches the key would each have to write first and then
//! read, with a full fence at each object that is reached; `tests/loom_ephemerons.rs` has both.
//!
//! What was found waits in a list of the worker's own until its stack is empty: a chain takes no stack of calls.
//!
//! # Invariants
//! - Key, value and `next` of an entry are written by the worker that has the entry's task, in phase 1; they are read
//!   in later phases.
//! - `found` of an entry belongs to the worker that won the key.

use core::mem;
use core::ptr::NonNull;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::object_model::LEAST_BYTES;
use gleaner_os::memory;

use crate::scavenge::trace::WorkerState;

/// Values that are traced before other work is looked at: enough to share with other workers.
const BATCH: usize = 64;
/// How many entries the table has room for at least.
const LEAST_ENTRIES: usize = 1024;

/// The keys in a chunk of this many bytes have neighbouring buckets.
const CHUNK_BYTES: usize = 512;
/// Each object there has one of its own.
const CHUNK_BUCKETS: usize = CHUNK_BYTES / LEAST_BYTES;
/// Buckets for each entry.
const SPARSE: usize = 2;

/// `next` of an entry that waits for nothing. Otherwise 0 at the end of a list, or a number more than the next one's.
const DOES_NOT_WAIT: u32 = u32::MAX;

/// An entry as far as it waits; see the invariants. Key and value are those of the table of ephemerons: here they need
/// one look at memory, not two.
#[derive(Default, Debug)]
pub struct Entry {
    /// In its bucket.
    next: AtomicU32,
    /// In the list of what a worker found: 0 at its end, or a number more than the next one's.
    found: AtomicU32,
    key: AtomicUsize,
    /// 0 if the value is no object.
    value: AtomicUsize,
}

/// The table during one trace.
pub struct Waiting<'a> {
    /// A power of two of them. 0 for an empty list, or a number more than its first entry's.
    buckets: &'a [AtomicU32],
    entries: &'a [Entry],
    /// Whether some entry is in the table. Set by any worker in phase 1, read by the leader.
    any: AtomicBool,
    /// Whether phase 1 is over. Written by the leader between phases.
    complete: AtomicBool,
}

impl<'a> Waiting<'a> {
    /// Nothing waits: the buckets, a power of two, are 0. There is an entry for each ephemeron.
    pub fn new(buckets: &'a [AtomicU32], entries: &'a [Entry]) -> Waiting<'a> {
        debug_assert!(buckets.len().is_power_of_two());
        Waiting {
            buckets,
            entries,
            any: AtomicBool::new(false),
            complete: AtomicBool::new(false),
        }
    }

    /// Keys that lie side by side have buckets that do: as a rule they are reached one after the other.
    #[inline]
    fn bucket(&self, key: Address) -> &AtomicU32 {
        // Fibonacci hashing: the high bits of the product depend on all bits of the factor.
        let mixed = (key.word() / CHUNK_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chunk = mixed.rotate_left(self.buckets.len().trailing_zeros());
        let within = (key.word() / LEAST_BYTES) ^ mixed;
        let index = (chunk & !(CHUNK_BUCKETS - 1)) | (within & (CHUNK_BUCKETS - 1));
        &self.buckets[index & (self.buckets.len() - 1)]
    }

    /// Phase 1, the worker that has the entry: it waits for `key`.
    pub fn register(&self, number: u32, key: Address, value: Address) {
        // Relaxed: lists are read in later phases, and here only by a worker that puts an entry before the first.
        let first = self.bucket(key).swap(number + 1, Ordering::Relaxed);
        let entry = &self.entries[number as usize];
        entry.next.store(first, Ordering::Relaxed);
        entry.key.store(key.word(), Ordering::Relaxed);
        entry.value.store(value.word(), Ordering::Relaxed);
        // Others read its cache line.
        if !self.any.load(Ordering::Relaxed) {
            self.any.store(true, Ordering::Relaxed);
        }
    }

    /// Phase 1, the worker that has the entry: it does not wait.
    pub fn pass_by(&self, number: u32) {
        let entry = &self.entries[number as usize];
        entry.next.store(DOES_NOT_WAIT, Ordering::Relaxed);
    }

    /// Leader, after phase 1: keys that are reached from now on are looked up.
    pub fn complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// Whether an entry was registered; after phase 1.
    pub fn waits(&self, number: u32) -> bool {
        let entry = &self.entries[number as usize];
        entry.next.load(Ordering::Relaxed) != DOES_NOT_WAIT
    }

    /// Whether any was.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The worker that has won `object`, after phase 1: puts the entries that wait for it into its own list, of which
    /// `found` is the first. How many entries it looked at.
    #[inline]
    pub fn look_up(&self, object: Address, found: &mut u32) -> u64 {
        let mut next = self.bucket(object).load(Ordering::Relaxed);
        let mut looks = 0;
        while let Some(number) = next.checked_sub(1) {
            looks += 1;
            let entry = &self.entries[number as usize];
            if entry.key.load(Ordering::Relaxed) == object.word() {
                // The value is the next to be reached, and as a rule to be looked up.
                let value = Address::new(entry.value.load(Ordering::Relaxed));
                value.prefetch();
                Address::of(self.bucket(value)).prefetch();
                entry
                    .found
                    .store(mem::replace(found, next), Ordering::Relaxed);
            }
            next = entry.next.load(Ordering::Relaxed);
        }
        looks
    }

    /// The worker itself: takes an entry from its list; its value, or NULL if that is no object.
    pub fn take_found(&self, found: &mut u32) -> Option<Address> {
        let entry = &self.entries[found.checked_sub(1)? as usize];
        *found = entry.found.load(Ordering::Relaxed);
        Some(Address::new(entry.value.load(Ordering::Relaxed)))
    }
}

/// What a trace does beside when it reaches an object.
pub trait Watch: Sync {
    /// The worker has won the object, which lay at `object` so far.
    fn won(&self, local: &mut WorkerState, object: Address);
    /// The worker's stack may be empty: values that became live meanwhile, at most a batch; whether there were any.
    fn found(&self, local: &mut WorkerState, keep: impl FnMut(&mut WorkerState, Address)) -> bool;
}

/// A trace that looks nothing up: the ordinary one.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Watch for Nothing {
    #[inline(always)]
    fn won(&self, _: &mut WorkerState, _: Address) {}
    #[inline(always)]
    fn found(&self, _: &mut WorkerState, _: impl FnMut(&mut WorkerState, Address)) -> bool {
        false
    }
}

/// A trace that looks up which entries wait for an object, in a table if there is one.
#[derive(Clone, Copy)]
pub struct Keys<'a>(pub Option<&'a Waiting<'a>>);

impl Watch for Keys<'_> {
    #[inline]
    fn won(&self, local: &mut WorkerState, object: Address) {
        let Some(waiting) = self.0 else { return };
        if waiting.complete.load(Ordering::Relaxed) {
            local.looks += waiting.look_up(object, &mut local.found);
        }
    }

    fn found(
        &self,
        local: &mut WorkerState,
        mut keep: impl FnMut(&mut WorkerState, Address),
    ) -> bool {
        let Some(waiting) = self.0 else { return false };
        if local.found == 0 || local.has_items() {
            return false;
        }
        for _ in 0..BATCH {
            match waiting.take_found(&mut local.found) {
                Some(Address::NULL) => {}
                Some(value) => keep(local, value),
                None => break,
            }
        }
        true
    }
}

/// Memory of the table of one heap, for as many entries as there were at most.
#[derive(Default)]
pub struct Memory {
    start: Option<NonNull<u8>>,
    entries: usize,
}

// SAFETY: the memory is this value's own.
unsafe impl Send for Memory {}

impl Memory {
    fn bytes(entries: usize) -> usize {
        entries * (SPARSE * size_of::<AtomicU32>() + size_of::<Entry>())
    }

    /// Leader: an empty table for `entries` entries, or none when the system gives no memory.
    pub fn table(&mut self, entries: usize) -> Option<Waiting<'_>> {
        let wanted = entries.max(LEAST_ENTRIES).next_power_of_two();
        if self.entries < wanted {
            self.release();
            self.start = memory::map(Memory::bytes(wanted));
            self.entries = self.start.map_or(0, |_| wanted);
        }
        let start = self.start?;
        if faults::armed(FaultPoint::EphemeronTable) {
            return None;
        }
        // SAFETY: the mapping has room for `self.entries` entries and for the buckets after them, and neither `entries`
        // nor `wanted` is more. Whatever the memory holds, it is atomics. The table borrows this value, so nobody else
        // has them.
        let (all, buckets) = unsafe {
            let all = start.cast::<Entry>();
            let buckets = all.add(self.entries).cast::<AtomicU32>();
            buckets.write_bytes(0, SPARSE * wanted);
            (
                core::slice::from_raw_parts(all.as_ptr(), entries),
                core::slice::from_raw_parts(buckets.as_ptr(), SPARSE * wanted),
            )
        };
        Some(Waiting::new(buckets, all))
    }

    fn release(&mut self) {
        if let Some(start) = self.start.take() {
            // SAFETY: `table` mapped room for `entries` entries and their buckets, and no table borrows it.
            unsafe { memory::unmap(start, Memory::bytes(self.entries)) };
        }
        self.entries = 0;
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.release();
    }
}
