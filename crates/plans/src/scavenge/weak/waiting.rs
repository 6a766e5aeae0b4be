//! Ephemerons that wait for their keys, found by the key when it is reached: so chains are followed in linear time in
//! whatever order they lie.
//!
//! A hash table over the addresses of keys: a list of entries a bucket. Once all strong references were followed, each
//! ephemeron that the trace has reached is looked at. If its key lives as far as was traced, its value is traced; else it
//! is [registered](Waiting::register). A worker that reaches an object looks up which entries wait for it
//! ([`Watch::won`]); their values are traced and lead to more keys and to more ephemerons, which are looked at at once.
//! When nothing is grey any more, each entry that was registered meanwhile is looked at once more; that is repeated as
//! long as more are registered.
//!
//! No entry is missed. A worker registers an entry and another reaches its key: if the second does not find the entry
//! in its bucket, it has won the key before the end of the phase, so the second look sees that. It may be found in both
//! ways, and both make the same value live, which happens once. The second look makes a full fence at each object
//! unnecessary; `tests/loom_ephemerons.rs` has both.
//!
//! The work is linear: an ephemeron is looked at when it is reached, when it is registered, found and settled. The table
//! has room for all ephemerons that the trace knows when it begins. When it is full, the leader
//! [grows](Waiting::grow) it between two phases to twice as many as are known by then, and each ephemeron is looked at
//! anew: as many times as their number doubles.
//!
//! What was found waits in a list of the worker's own until its stack is empty: a chain takes no stack of calls.
//!
//! # Invariants
//! - Key and value of an entry are written by the worker that registers it, and `next` before the bucket leads there;
//!   so who finds it in a bucket sees all three. The second look reads them in a later phase.
//! - `found` of an entry belongs to the worker that won the key.
//! - The leader changes the table between phases.

use core::mem;
use core::ops::Range;
use core::ptr::NonNull;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, UnsafeCell, model_size};
use gleaner_mem::Address;
use gleaner_mem::object_model::LEAST_BYTES;
use gleaner_os::memory;

use crate::scavenge::trace::WorkerState;

/// Values that are traced before other work is looked at: enough to share with other workers.
const BATCH: usize = 64;
/// Entries that a worker takes at once.
pub const TAKEN: usize = model_size(64, 1);
/// How many entries the table has room for at least.
const LEAST_ENTRIES: usize = 1024;

/// The keys in a chunk of this many bytes have neighbouring buckets.
const CHUNK_BYTES: usize = 512;
/// Each object there has one of its own.
const CHUNK_BUCKETS: usize = CHUNK_BYTES / LEAST_BYTES;
/// Buckets for each entry.
const SPARSE: usize = 2;

/// An entry; see the invariants. Key and value are those of the ephemeron: here they need one look at memory, not two.
#[derive(Default, Debug)]
pub struct Entry {
    /// In its bucket: 0 at the end of a list, or a number more than the next one's.
    next: AtomicU32,
    /// In the list of what a worker found: 0 at its end, or a number more than the next one's.
    found: AtomicU32,
    /// 0 if the entry is not in use.
    key: AtomicUsize,
    /// 0 if the value is no object.
    value: AtomicUsize,
}

/// Where buckets and entries are.
#[derive(Clone, Copy)]
struct Table {
    /// A power of two of them. 0 for an empty list, or a number more than its first entry's.
    buckets: NonNull<[AtomicU32]>,
    entries: NonNull<[Entry]>,
}

/// The table of one heap.
pub struct Waiting {
    table: UnsafeCell<Table>,
    /// Entries that were handed out; may be more than there are.
    taken: AtomicUsize,
    /// Whether some entry is in the table. Set by any worker.
    any: AtomicBool,
    /// Whether some ephemeron found no room. Set by any worker, read by the leader between phases.
    full: AtomicBool,
    /// What the system gave, if that is where the table lies: for so many entries.
    memory: UnsafeCell<Option<(NonNull<u8>, usize)>>,
}

// SAFETY: the table is changed by the leader alone, while no worker is in a phase; all in it is atomics.
unsafe impl Sync for Waiting {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Waiting {}

impl Default for Waiting {
    /// Without room for any entry.
    fn default() -> Waiting {
        Waiting::over(&[], &[])
    }
}

impl Waiting {
    /// Nothing waits: the buckets, a power of two, are 0.
    pub fn over(buckets: &'static [AtomicU32], entries: &'static [Entry]) -> Waiting {
        let (buckets, entries) = (NonNull::from(buckets), NonNull::from(entries));
        Waiting {
            table: UnsafeCell::new(Table { buckets, entries }),
            taken: AtomicUsize::new(0),
            any: AtomicBool::new(false),
            full: AtomicBool::new(false),
            memory: UnsafeCell::new(None),
        }
    }

    fn table(&self) -> (&[AtomicU32], &[Entry]) {
        // SAFETY: the leader changes the table between phases, when nobody has what this answers; the memory was given to
        // this value, or is static.
        self.table.with(|table| unsafe {
            let Table { buckets, entries } = *table;
            (buckets.as_ref(), entries.as_ref())
        })
    }

    /// Keys that lie side by side have buckets that do: as a rule they are reached one after the other.
    #[inline]
    fn bucket(buckets: &[AtomicU32], key: Address) -> &AtomicU32 {
        // Fibonacci hashing: the high bits of the product depend on all bits of the factor.
        let mixed = (key.word() / CHUNK_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chunk = mixed.rotate_left(buckets.len().trailing_zeros());
        let within = (key.word() / LEAST_BYTES) ^ mixed;
        let index = (chunk & !(CHUNK_BUCKETS - 1)) | (within & (CHUNK_BUCKETS - 1));
        &buckets[index & (buckets.len() - 1)]
    }

    /// The worker takes entries, which nobody uses yet; whether there were any.
    fn take(&self, numbers: &mut Range<u32>) -> bool {
        let (_, entries) = self.table();
        let start = self.taken.fetch_add(TAKEN, Ordering::Relaxed);
        let end = (start + TAKEN).min(entries.len());
        if start >= end {
            self.full.store(true, Ordering::Relaxed);
            return false;
        }
        for entry in &entries[start..end] {
            entry.key.store(0, Ordering::Relaxed);
        }
        *numbers = start as u32..end as u32;
        true
    }

    /// A worker that has found the key not to live: the value waits for it. It uses an entry of those that it has taken;
    /// whether there was room.
    pub fn register(&self, numbers: &mut Range<u32>, key: Address, value: Address) -> bool {
        if numbers.start == numbers.end && !self.take(numbers) {
            return false;
        }
        let number = numbers.start;
        numbers.start += 1;
        let (buckets, entries) = self.table();
        let entry = &entries[number as usize];
        entry.key.store(key.word(), Ordering::Relaxed);
        entry.value.store(value.word(), Ordering::Relaxed);
        let bucket = Waiting::bucket(buckets, key);
        let mut first = bucket.load(Ordering::Relaxed);
        loop {
            entry.next.store(first, Ordering::Relaxed);
            // Release partners Acquire in `look_up`.
            let (ok, relaxed) = (Ordering::Release, Ordering::Relaxed);
            match bucket.compare_exchange_weak(first, number + 1, ok, relaxed) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        // Others read its cache line.
        if !self.any.load(Ordering::Relaxed) {
            self.any.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Leader, between phases: entries below this number may have been registered.
    pub fn registered(&self) -> usize {
        self.taken.load(Ordering::Relaxed).min(self.table().1.len())
    }

    /// Between phases: the values of those of these entries whose key lives and did not find them, since the worker that won
    /// it did not see yet that something waited. How many entries it looked at.
    pub fn look_again(
        &self,
        numbers: Range<usize>,
        lives: impl Fn(Address) -> bool,
        mut keep: impl FnMut(Address),
    ) -> u64 {
        let mut looks = 0;
        for entry in &self.table().1[numbers] {
            let key = entry.key.load(Ordering::Relaxed);
            // A worker took it and registered nothing there.
            if key == 0 {
                continue;
            }
            looks += 1;
            let value = Address::new(entry.value.load(Ordering::Relaxed));
            if value != Address::NULL && lives(Address::new(key)) {
                keep(value);
            }
        }
        looks
    }

    /// Whether anything waits. A worker may not see yet that it does; the second look sees to that.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The worker that has won `object`: puts the entries that wait for it into its own list, of which `found` is the
    /// first. How many entries it looked at.
    #[inline]
    pub fn look_up(&self, object: Address, found: &mut u32) -> u64 {
        let (buckets, entries) = self.table();
        let mut next = Waiting::bucket(buckets, object).load(Ordering::Acquire);
        let mut looks = 0;
        while let Some(number) = next.checked_sub(1) {
            looks += 1;
            let entry = &entries[number as usize];
            if entry.key.load(Ordering::Relaxed) == object.word() {
                // The value is the next to be reached, and as a rule to be looked up.
                let value = Address::new(entry.value.load(Ordering::Relaxed));
                value.prefetch();
                Address::of(Waiting::bucket(buckets, value)).prefetch();
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
        let number = found.checked_sub(1)?;
        let entry = &self.table().1[number as usize];
        *found = entry.found.load(Ordering::Relaxed);
        Some(Address::new(entry.value.load(Ordering::Relaxed)))
    }

    /// Leader, before a trace: an empty table with room for at least `entries` entries; `None` when the system gives no memory.
    pub fn begin(&mut self, entries: usize) -> Option<&Waiting> {
        if faults::armed(FaultPoint::EphemeronTable) {
            return None;
        }
        // SAFETY: nobody else has the table.
        unsafe { self.grow(entries) }.then_some(self)
    }

    /// Whether some ephemeron found no room.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Leader: an empty table with room for at least `entries` entries; whether the system gave the memory.
    ///
    /// # Safety
    /// No worker is in a phase. Workers forget the entries that they have taken.
    pub unsafe fn grow(&self, entries: usize) -> bool {
        let wanted = entries.max(LEAST_ENTRIES).next_power_of_two();
        // SAFETY: no worker is in a phase, as asked, so the leader alone has the table and its memory.
        let start = self.memory.with_mut(|memory| unsafe {
            if (*memory).is_none_or(|(_, room)| room < wanted) {
                release(&mut *memory);
                *memory = memory::map(bytes(wanted)).map(|start| (start, wanted));
            }
            *memory
        });
        let Some((start, room)) = start else {
            // What was there is unmapped.
            self.set(Table {
                buckets: NonNull::from(&[]),
                entries: NonNull::from(&[]),
            });
            return false;
        };
        // SAFETY: the mapping has room for `room` entries and for the buckets behind them, and `wanted` is no more.
        // Whatever the memory holds, it is atomics.
        self.set(unsafe {
            let all = start.cast::<Entry>();
            let buckets = all.add(room).cast::<AtomicU32>();
            buckets.write_bytes(0, SPARSE * wanted);
            Table {
                buckets: NonNull::slice_from_raw_parts(buckets, SPARSE * wanted),
                entries: NonNull::slice_from_raw_parts(all, wanted),
            }
        });
        true
    }

    fn set(&self, table: Table) {
        // SAFETY: the callers have the table to themselves.
        self.table.with_mut(|place| unsafe { *place = table });
        self.taken.store(0, Ordering::Relaxed);
        self.any.store(false, Ordering::Relaxed);
        self.full.store(false, Ordering::Relaxed);
    }
}

/// The bytes of a table for so many entries.
fn bytes(entries: usize) -> usize {
    entries * (SPARSE * size_of::<AtomicU32>() + size_of::<Entry>())
}

fn release(memory: &mut Option<(NonNull<u8>, usize)>) {
    if let Some((start, entries)) = memory.take() {
        // SAFETY: `grow` mapped room for `entries` entries and their buckets, and no table leads there any more.
        unsafe { memory::unmap(start, bytes(entries)) };
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: nobody else has the table any more.
        self.memory
            .with_mut(|memory| release(unsafe { &mut *memory }));
    }
}

/// What a trace does beside when it reaches an object.
pub trait Watch: Sync {
    /// The worker has won the object, which lay at `object` so far.
    fn won(&self, local: &mut WorkerState, object: Address);
    /// The worker's stack may be empty: values that became live meanwhile, at most a batch; whether there were any.
    fn found(&self, local: &mut WorkerState, keep: impl FnMut(&mut WorkerState, Address)) -> bool;
    /// Where ephemerons wait that the trace reaches now, if they are looked at.
    fn waiting(&self) -> Option<&Waiting>;
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
    #[inline(always)]
    fn waiting(&self) -> Option<&Waiting> {
        None
    }
}

/// A trace that looks up which entries wait for an object, in a table if there is one.
#[derive(Clone, Copy)]
pub struct Keys<'a>(pub Option<&'a Waiting>);

impl Watch for Keys<'_> {
    #[inline]
    fn won(&self, local: &mut WorkerState, object: Address) {
        if let Some(waiting) = self.0
            && waiting.any()
        {
            local.weak.looks += waiting.look_up(object, &mut local.weak.found);
        }
    }

    fn found(
        &self,
        local: &mut WorkerState,
        mut keep: impl FnMut(&mut WorkerState, Address),
    ) -> bool {
        let Some(waiting) = self.0 else { return false };
        if local.weak.found == 0 || local.has_items() {
            return false;
        }
        for _ in 0..BATCH {
            match waiting.take_found(&mut local.weak.found) {
                Some(Address::NULL) => {}
                Some(value) => keep(local, value),
                None => break,
            }
        }
        true
    }

    fn waiting(&self) -> Option<&Waiting> {
        self.0
    }
}
