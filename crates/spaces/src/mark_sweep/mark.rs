//! Marking in parallel: one private mark stack a worker, batches of entries shared through deques.
//!
//! A worker pops and scans from its own contiguous stack. While others wait it moves the oldest half of a deep stack
//! into a batch buffer of its own and publishes the buffer's number on its deque; a thief copies the entries out and
//! frees the buffer. Mark procedures that may only run on the collecting thread go to an inbox of the leader. When a
//! stack is full the object's block is flagged instead, and after the phase the marked objects of flagged blocks are
//! scanned again, by all workers: marking stays parallel.
//!
//! # Invariants
//! - A worker offers to finish only with empty stack, queues, deque and inbox batch (I3).
//! - A buffer is written by its owner while it is free, read by one thief, then free again.
//! - Every dropped grey object is marked and its block flagged, so a re-scan finds it.
//!
//! Runs in the stopped world on the collecting thread and the helpers of the crew; nothing here allocates (I1).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_base::sync::AtomicU32;
use gleaner_mem::Address;
use gleaner_os::memory;
use gleaner_work::{Crew, Deque, MAX_WORKERS};

use super::MarkSweep;
use super::edges::EdgeQueue;
use super::mark_phase::MarkPhase;
use super::prefetch::PrefetchSettings;
use super::scan::{Entry, FROM_HEAP, MarkContext, Scanner};
use crate::block::{BLOCK_BYTES, BlockIndex};
use crate::kinds::descriptor;
use crate::with_policy;

pub(super) const BATCH_ENTRIES: usize = 256;
pub(super) const BATCHES: usize = 64;
pub(super) const MAX_FIFO: usize = 64;
pub(super) const NO_BATCH: u32 = u32::MAX;
const KEPT_STACK_BYTES: usize = 256 << 10;

/// A buffer that carries entries from one worker to another.
pub(super) struct Batch {
    /// Set by the owner when it fills the buffer, cleared by the thief when it has copied the entries (Release,
    /// partner of the owner's Acquire).
    in_use: AtomicBool,
    /// Next batch in the leader's inbox.
    next: AtomicU32,
    pub(super) length: UnsafeCell<usize>,
    pub(super) entries: UnsafeCell<[Entry; BATCH_ENTRIES]>,
}

/// One worker's part of the marking engine, in mapped memory.
pub(super) struct Marker {
    pub(super) scanner: Scanner,
    pub(super) fifo: [Entry; MAX_FIFO],
    pub(super) fifo_first: usize,
    pub(super) fifo_length: usize,
    pub(super) deque: Deque<'static, AtomicU32>,
    pub(super) batches: *mut Batch,
    /// Entries for the leader, collected until there is a batch of them.
    pub(super) for_leader: u32,
}

/// The marking engine of a heap.
pub struct MarkEngine {
    pub(super) markers: [*mut Marker; MAX_WORKERS],
    pub(super) ready: usize,
    stack_bytes: usize,
    pub(super) settings: PrefetchSettings,
    /// Batches for the leader: a stack linked through `Batch::next`. Helpers push, the leader takes all.
    pub(super) inbox: AtomicU32,
    /// The batches that the leader took from its inbox and has not unpacked. Touched by the leader only.
    taken: AtomicU32,
    /// First block that no worker has looked at in the current re-scan.
    pub(super) rescan_cursor: AtomicUsize,
}

// SAFETY: each marker is used by the worker with its index; what is shared is atomic.
unsafe impl Sync for MarkEngine {}
// SAFETY: as above.
unsafe impl Send for MarkEngine {}

/// What a collection's marking did.
#[derive(Clone, Copy, Default, Debug)]
pub struct MarkOutcome {
    /// Entries scanned.
    pub scanned: usize,
    /// Bytes scanned.
    pub scanned_bytes: usize,
    /// Entries dropped because a stack was full.
    pub dropped: usize,
    /// Workers that could take part.
    pub workers: usize,
}

impl MarkEngine {
    /// An engine without workers; `stack_bytes` is the mark stack of each worker.
    pub fn new(settings: PrefetchSettings, stack_bytes: usize) -> MarkEngine {
        MarkEngine {
            markers: [core::ptr::null_mut(); MAX_WORKERS],
            ready: 0,
            stack_bytes: stack_bytes.max(memory::page_size()),
            settings,
            inbox: AtomicU32::new(NO_BATCH),
            taken: AtomicU32::new(NO_BATCH),
            rescan_cursor: AtomicUsize::new(usize::MAX),
        }
    }

    /// Makes sure that `workers` workers have their stacks and buffers; returns how many have. Called outside of
    /// the stopped world, under the allocator lock.
    pub fn equip(&mut self, workers: usize, context: *const MarkContext) -> usize {
        while self.ready < workers.min(MAX_WORKERS) {
            let Some(marker) = Marker::create(self.stack_bytes, context, &self.settings) else {
                break;
            };
            self.markers[self.ready] = marker;
            self.ready += 1;
        }
        self.ready
    }

    /// The collecting thread's scanner, to push roots on. At least one worker must be equipped.
    #[allow(
        clippy::mut_from_ref,
        reason = "only the collecting thread asks, and between phases"
    )]
    pub fn leader(&self) -> &mut Scanner {
        // SAFETY: marker 0 was equipped, and no phase is running while the collecting thread pushes roots.
        unsafe { &mut (*self.markers[0]).scanner }
    }

    /// Calls `scan` on the leader's scanner with the heap's prefetch policy: `low..high` under the lax rule.
    ///
    /// # Safety
    /// The range must be readable; the world must be stopped.
    pub unsafe fn scan_stack(&self, low: Address, high: Address) {
        // SAFETY: the caller vouches for the range.
        with_policy!(self.settings, P => unsafe { self.leader().scan_stack_range::<P>(low, high) });
    }

    /// Pushes a root range under the rule of the heap.
    ///
    /// # Safety
    /// As for [`MarkEngine::scan_stack`].
    pub unsafe fn push_range(&self, low: Address, high: Address) {
        // SAFETY: the caller vouches for the range.
        with_policy!(self.settings, P => unsafe { self.leader().push_range::<P>(low, high) });
    }

    /// Visits the words of one object at once, greying and pushing what they refer to.
    ///
    /// # Safety
    /// The descriptor must be the object's; the world must be stopped.
    pub unsafe fn scan_now(&self, object: Address, descriptor: usize) {
        let leader = self.leader();
        with_policy!(self.settings, P => {
            if descriptor & descriptor::TAGS == descriptor::LENGTH {
                // SAFETY: the caller vouches for the object.
                unsafe { leader.scan_words::<P>(object, object.add(descriptor & !7), FROM_HEAP) };
            } else {
                // SAFETY: as above.
                unsafe { leader.scan_entry::<P>(Entry { start: object.word(), descriptor }, true) };
            }
            leader.check_all_edges();
        });
    }

    /// Workers that are equipped.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// Marks everything reachable from what lies on the leader's stack, with up to `workers` workers.
    pub fn drain(&self, crew: &Crew, workers: usize, space: &MarkSweep, context: &MarkContext) {
        let workers = workers.clamp(1, self.ready);
        self.rescan_cursor.store(usize::MAX, Ordering::Relaxed);
        loop {
            self.run(crew, workers, space);
            if self.take_inbox() {
                continue;
            }
            // Relaxed: `run` has ended, which orders the workers' stores.
            if !context.overflowed.swap(false, Ordering::Relaxed) {
                return;
            }
            self.rescan_cursor.store(0, Ordering::Relaxed);
        }
    }

    fn run(&self, crew: &Crew, workers: usize, space: &MarkSweep) {
        with_policy!(self.settings, P => {
            let phase = MarkPhase::<P> { engine: self, space, policy: core::marker::PhantomData };
            crew.run(workers, &phase);
        });
    }

    /// Moves one batch of what helpers left for the leader to its stack, which must be empty so that nothing is
    /// dropped; false if there was none.
    pub(super) fn take_inbox(&self) -> bool {
        let mut number = self.taken.load(Ordering::Relaxed);
        if number == NO_BATCH {
            // Acquire: partner of the Release in `post`.
            number = self.inbox.swap(NO_BATCH, Ordering::Acquire);
        }
        if number == NO_BATCH {
            return false;
        }
        let batch = self.batch(number);
        self.taken
            .store(batch.next.load(Ordering::Relaxed), Ordering::Relaxed);
        self.unpack(0, batch);
        true
    }

    pub(super) fn post(&self, number: u32) {
        let batch = self.batch(number);
        let mut first = self.inbox.load(Ordering::Relaxed);
        loop {
            batch.next.store(first, Ordering::Relaxed);
            // Release: partner of the Acquire in `take_inbox`. Only the leader takes, and it takes all, so no ABA.
            match self.inbox.compare_exchange_weak(
                first,
                number,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    pub(super) fn batch(&self, number: u32) -> &Batch {
        let owner = self.markers[number as usize / BATCHES];
        // SAFETY: numbers are made from equipped markers and slots below BATCHES.
        unsafe { &*(*owner).batches.add(number as usize % BATCHES) }
    }

    /// Copies a batch to the empty stack of worker `index`, where it fits, and frees the buffer.
    pub(super) fn unpack(&self, index: usize, batch: &Batch) {
        // SAFETY: the caller is worker `index` and took the batch's number, so it alone reads it.
        unsafe {
            let scanner = &mut (*self.markers[index]).scanner;
            let entries = &*batch.entries.get();
            for entry in &entries[..*batch.length.get()] {
                assert!(
                    scanner.push(*entry),
                    "a batch found no room on an empty mark stack"
                );
            }
        }
        // Release: partner of the owner's Acquire in `free_slot`.
        batch.in_use.store(false, Ordering::Release);
    }

    /// Sums up and resets the counters of all workers.
    pub fn finish(&self, context: &MarkContext) -> MarkOutcome {
        let mut outcome = MarkOutcome {
            workers: self.ready,
            ..MarkOutcome::default()
        };
        for marker in &self.markers[..self.ready] {
            // SAFETY: no phase is running.
            let scanner = unsafe { &mut (**marker).scanner };
            outcome.scanned += core::mem::take(&mut scanner.scanned);
            outcome.scanned_bytes += core::mem::take(&mut scanner.scanned_bytes);
        }
        outcome.dropped = context.dropped.swap(0, Ordering::Relaxed);
        outcome
    }

    /// Gives the memory of stacks that grew deep back to the system.
    pub fn release_stacks(&self) {
        for marker in &self.markers[..self.ready] {
            // SAFETY: no phase is running; the stacks are empty.
            unsafe {
                let scanner = &(**marker).scanner;
                let bytes = scanner.limit as usize - scanner.base as usize;
                let kept = scanner
                    .base
                    .cast::<u8>()
                    .wrapping_add(KEPT_STACK_BYTES.min(bytes));
                if let Some(rest) = core::ptr::NonNull::new(kept)
                    && bytes > KEPT_STACK_BYTES
                {
                    memory::release(rest, bytes - KEPT_STACK_BYTES);
                }
            }
        }
    }
}

impl Marker {
    fn create(
        stack_bytes: usize,
        context: *const MarkContext,
        settings: &PrefetchSettings,
    ) -> Option<*mut Marker> {
        let page = memory::page_size();
        let batches = (BATCHES * size_of::<Batch>()).next_multiple_of(page);
        let ring = (BATCHES * size_of::<AtomicU32>()).next_multiple_of(page);
        let own = size_of::<Marker>().next_multiple_of(page);
        let stack_bytes = stack_bytes.next_multiple_of(page);
        let memory = memory::map(own + ring + batches + stack_bytes)?.as_ptr();
        // SAFETY: all parts lie in the mapping, are page-aligned and read as zero, which is a valid value of
        // batches and ring cells.
        unsafe {
            let marker = memory.cast::<Marker>();
            let stack = memory.add(own + ring + batches).cast::<Entry>();
            marker.write(Marker {
                scanner: Scanner {
                    context,
                    bottom: stack,
                    top: stack,
                    base: stack,
                    limit: stack.add(stack_bytes / size_of::<Entry>()),
                    edges: EdgeQueue::new(settings.edges_length),
                    look_ahead: settings.look_ahead,
                    scanned: 0,
                    scanned_bytes: 0,
                },
                fifo: [Entry {
                    start: 0,
                    descriptor: 0,
                }; MAX_FIFO],
                fifo_first: 0,
                fifo_length: 0,
                deque: Deque::from_raw(memory.add(own).cast::<AtomicU32>(), BATCHES),
                batches: memory.add(own + ring).cast::<Batch>(),
                for_leader: NO_BATCH,
            });
            Some(marker)
        }
    }

    /// A free buffer's slot, now in use.
    pub(super) fn free_slot(&self) -> Option<usize> {
        (0..BATCHES).find(|slot| {
            // SAFETY: the slot is below BATCHES.
            let batch = unsafe { &*self.batches.add(*slot) };
            // Acquire: partner of the thief's Release.
            let free = !batch.in_use.load(Ordering::Acquire);
            if free {
                batch.in_use.store(true, Ordering::Relaxed);
            }
            free
        })
    }
}

impl Scanner {
    /// Behaves as if there had been no room for the newest entry (fault `mark-stack-full`). Root ranges stay: they are
    /// scanned at once when a stack is full.
    #[cold]
    pub(super) fn drop_newest(&mut self) {
        // SAFETY: the context outlives the collection.
        let context = unsafe { &*self.context };
        if let Some(entry) = self.pop() {
            match context.table.resolve_checked(entry.start) {
                Some(found) => context.drop_grey(found.base),
                None => _ = self.push(entry),
            }
        }
    }

    /// Forgets an entry for want of room; the objects in its range were or will be found through their blocks.
    #[cold]
    pub(super) fn drop_entry(&self, entry: Entry) {
        // SAFETY: the context outlives the collection.
        let context = unsafe { &*self.context };
        match context
            .table
            .contains(entry.start)
            .then(|| context.table.resolve(entry.start))
            .flatten()
        {
            Some(found) => context.drop_grey(found.base),
            None => panic!(
                "a root range was dropped: {:#x} for {:#x} bytes",
                entry.start, entry.descriptor
            ),
        }
    }
}

impl MarkSweep {
    /// The first block of the small part that was never used.
    pub fn small_frontier(&self) -> BlockIndex {
        self.pool.frontier()
    }

    /// The first block of the large part that was never used.
    pub fn large_frontier(&self) -> BlockIndex {
        self.large.frontier()
    }
}

const _: () = assert!(size_of::<Entry>() == 16 && BLOCK_BYTES.is_multiple_of(16));
