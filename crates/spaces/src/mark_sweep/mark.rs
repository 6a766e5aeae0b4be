//! Marking in parallel: one private mark stack per worker, batches of entries shared through deques.
//!
//! A worker pops and scans from its own contiguous stack. While others wait it moves the oldest half of a deep stack
//! into a buffer and offers that to the others; mark procedures that may only run on the collecting thread go to an
//! inbox of the leader (`batches`). When a stack is full the object's block is flagged instead, and after the
//! phase the marked objects of flagged blocks are scanned again, by all workers: marking stays parallel.
//!
//! # Invariants
//! - A worker offers to finish only with empty stack, queues, deque and inbox batch (I3).
//! - What a marker has for itself (`Own`) is touched by the worker with its index during a phase, by the collecting
//!   thread between phases; there is one reference to it at a time. Others see a marker's outbox only.
//! - Every dropped grey object is marked and its block flagged, so a re-scan finds it.
//!
//! The *collecting thread* is the one that holds the allocator lock: it collects, or makes a step. Or it is the helper that marks
//! beside the program, in a turn ([`super::beside`]). Runs on it and the helpers of the crew; nothing here allocates (I1).

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_base::sync::AtomicU32;
use gleaner_mem::Address;
use gleaner_os::memory;
use gleaner_work::{Crew, MAX_WORKERS};

use super::batches::{BATCH_ENTRIES, BATCHES, Batch, Inbox, NO_BATCH, Outbox};
use super::edge_queue::EdgeQueue;
use super::entry::{Entry, FROM_HEAP, FROM_STACK};
use super::mark_engine::{MAX_FIFO, Marker, Own};
pub use super::mark_engine::{MarkEngine, MarkOutcome, Until};
use super::mark_phase::MarkPhase;
use super::prefetch::{Plain, Prefetch, PrefetchSettings};
use super::scan::{MarkContext, Scanner};
use super::space::MarkSweep;
use crate::mark_sweep::block::{BLOCK_BYTES, BlockIndex, State};
use crate::mark_sweep::kinds::descriptor;
use crate::with_policy;

const KEPT_STACK_BYTES: usize = 256 << 10;
/// What a mark stack has at first, and the least by which it grows: until then it is addresses without memory, which no
/// limit on data counts.
const FIRST_STACK_BYTES: usize = 256 << 10;
impl MarkEngine {
    /// An engine without workers; `stack_bytes` is the mark stack of each worker.
    pub fn new(settings: PrefetchSettings, stack_bytes: usize) -> MarkEngine {
        MarkEngine {
            markers: [core::ptr::null(); MAX_WORKERS],
            ready: 0,
            stack_bytes: stack_bytes.max(memory::page_size()),
            settings,
            inbox: Inbox::new(),
            rescan_cursor: AtomicUsize::new(usize::MAX),
        }
    }

    /// Makes sure that `workers` workers have their stacks and buffers; returns how many have. Called outside of
    /// the stopped world, under the allocator lock.
    pub fn equip(&mut self, workers: usize, context: *const MarkContext) -> usize {
        while self.ready < workers.min(MAX_WORKERS) {
            let Some(marker) =
                Marker::create(self.ready, self.stack_bytes, context, &self.settings)
            else {
                break;
            };
            self.markers[self.ready] = marker;
            self.ready += 1;
        }
        self.ready
    }

    /// Gives the memory of all workers back, at the end of a heap that a model made.
    ///
    /// # Safety
    /// No phase is running, and nobody uses the engine any more.
    pub unsafe fn unmap(&mut self) {
        for index in 0..core::mem::take(&mut self.ready) {
            let marker = self.markers[index].cast_mut();
            if let Some(start) = core::ptr::NonNull::new(marker.cast::<u8>()) {
                // SAFETY: `create` mapped `mapped` bytes from there on, and nobody uses the engine any more, as asked.
                unsafe { memory::unmap(start, (*marker).mapped) };
            }
        }
    }

    /// When objects are prefetched.
    pub fn prefetch(&self) -> Prefetch {
        self.settings.prefetch
    }

    /// Has objects prefetched in another way from now on, in a stop in which no roots were searched yet.
    pub fn set_prefetch(&mut self, prefetch: Prefetch) {
        for index in 0..self.ready {
            // SAFETY: no phase is running, and this is the collecting thread.
            let own = unsafe { self.own(index) };
            assert!(
                own.scanner.edges.is_empty() && own.fifo_length == 0,
                "what waits in a queue would be lost"
            );
        }
        self.settings.prefetch = prefetch;
    }

    fn marker(&self, index: usize) -> &Marker {
        assert!(index < self.ready);
        // SAFETY: markers below `ready` were created, and stay mapped.
        unsafe { &*self.markers[index] }
    }

    /// The outbox of a worker.
    pub(super) fn outbox(&self, index: usize) -> &Outbox<'static> {
        &self.marker(index).outbox
    }

    /// What the worker `index` has for itself.
    ///
    /// # Safety
    /// The caller is that worker, or the collecting thread between phases, and has no other reference to it.
    #[allow(
        clippy::mut_from_ref,
        reason = "the caller promises that there is one at a time"
    )]
    pub(super) unsafe fn own(&self, index: usize) -> &mut Own {
        // SAFETY: this worker alone, or the collecting thread between phases, has a reference, and only this one, as
        // asked.
        unsafe { &mut *self.marker(index).own.get() }
    }

    /// Lends the collecting thread's scanner, between phases. At least one worker must be equipped. What `body` calls
    /// uses this scanner and not the engine.
    pub(super) fn lead<R>(&self, body: impl FnOnce(&mut Scanner) -> R) -> R {
        // SAFETY: only the collecting thread calls the functions that lead here, and between phases. No reference to
        // the scanner outlives the call, and no caller's body leads here again.
        body(unsafe { &mut self.own(0).scanner })
    }

    /// Pushes an entry on the leader's stack; false if that is full.
    pub fn push(&self, entry: Entry) -> bool {
        self.lead(|leader| leader.push(entry))
    }

    /// Pushes an entry for an object on the leader's stack; where that is full, the object's block is looked through later.
    pub fn push_or_drop(&self, entry: Entry) {
        self.lead(|leader| {
            if !leader.push(entry) {
                leader.drop_entry(entry);
            }
        });
    }

    /// Greys and pushes at once what `word` refers to under the lax rule, if it is an address of the heap at all.
    pub fn visit_any(&self, word: usize) {
        self.lead(|leader| leader.visit_any(word));
    }

    /// Visits the words of a stack at once, under the lax rule.
    ///
    /// # Safety
    /// The range must be readable; the world must be stopped.
    pub unsafe fn scan_stack(&self, low: Address, high: Address) {
        if self.observes() {
            return self.keep_range(low, high, FROM_STACK);
        }
        // SAFETY: `low..high` is readable and the world is stopped, as asked; rounding shrinks it.
        unsafe { self.scan_at_once(low.align_up(8), high.align_down(8), FROM_STACK) };
    }

    /// Visits the words of `low..high`, both 8-aligned, under the heap's prefetch policy.
    ///
    /// # Safety
    /// As for [`MarkEngine::scan_stack`].
    unsafe fn scan_at_once(&self, low: Address, high: Address, lax: bool) {
        // SAFETY: `low..high` is readable and the world is stopped, as asked.
        with_policy!(self.settings, P => self.lead(|leader| unsafe { leader.scan_words::<P>(low, high, lax) }));
    }

    /// Pushes a root range under the rule of the heap.
    ///
    /// # Safety
    /// As for [`MarkEngine::scan_stack`].
    pub unsafe fn push_range(&self, low: Address, high: Address) {
        if self.observes() {
            return self.keep_range(low, high, FROM_HEAP);
        }
        let (low, high) = (low.align_up(8), high.align_down(8));
        if !self.lead(|leader| leader.push_range(low, high)) {
            // SAFETY: `low..high` is readable and the world is stopped, as asked; rounding shrinks it.
            unsafe { self.scan_at_once(low, high, FROM_HEAP) };
        }
    }

    /// Visits the words of one object at once, greying and pushing what they refer to.
    ///
    /// # Safety
    /// The descriptor must be the object's; the world must be stopped.
    pub unsafe fn scan_now(&self, object: Address, descriptor: usize) {
        let start = object.word();
        self.lead(|leader| {
            if descriptor & descriptor::TAGS == descriptor::LENGTH {
                // SAFETY: the descriptor is the object's, as asked: the length of its readable words.
                unsafe {
                    leader.scan_words::<Plain>(object, object.add(descriptor & !7), FROM_HEAP)
                };
            } else {
                // SAFETY: the descriptor is the object's and the world is stopped, as asked.
                unsafe { leader.scan_entry::<Plain>(Entry { start, descriptor }, true) };
            }
        });
    }

    /// Scans what an entry describes at once; what that makes grey waits for [`MarkEngine::drain`].
    ///
    /// # Safety
    /// The entry must describe readable memory; the world must be stopped.
    pub unsafe fn scan_entry(&self, entry: Entry) {
        // SAFETY: the entry describes readable memory and the world is stopped, as asked.
        self.lead(|leader| unsafe { leader.scan_entry::<Plain>(entry, true) });
    }

    /// Whether anything was pushed since the last phase, where that has come to its end. What found no room was dropped from a
    /// full stack.
    pub fn has_grey(&self) -> bool {
        self.lead(|leader| leader.depth() > 0)
    }

    /// Workers that are equipped.
    pub fn ready(&self) -> usize {
        self.ready
    }

    /// Has the next phase look through all blocks for marked objects that were written, or dropped.
    pub fn look_again(&self) {
        // Relaxed: no phase is running.
        self.rescan_cursor.store(0, Ordering::Relaxed);
    }

    /// Marks everything reachable from what lies on the leader's stack, with up to `workers` workers.
    pub fn drain(&self, crew: &Crew, workers: usize, space: &MarkSweep, context: &MarkContext) {
        let workers = workers.clamp(1, self.ready);
        loop {
            self.run(crew, workers, space, Until::NOTHING_IS_GREY, true);
            // SAFETY: the phase is over, and this is the collecting thread.
            if self.take_inbox(unsafe { &mut self.own(0).scanner }) {
                continue;
            }
            // Relaxed: `run` has ended, which orders the workers' stores.
            if !context.overflowed.swap(false, Ordering::Relaxed) {
                self.rescan_cursor.store(usize::MAX, Ordering::Relaxed);
                return;
            }
            self.look_again();
        }
    }

    /// Marks as [`MarkEngine::drain`] does, if the world is stopped or not, no longer than `until` says; whether everything
    /// reachable from what was pushed is marked. What is still grey waits for the next call,
    /// of this or of `drain`.
    pub fn mark_until(
        &self,
        until: Until<'_>,
        crew: &Crew,
        workers: usize,
        space: &MarkSweep,
        context: &MarkContext,
    ) -> bool {
        let workers = workers.clamp(1, self.ready);
        self.lead(|leader| leader.check_all_edges::<Plain>());
        loop {
            if until.is_over() {
                return false;
            }
            let calls_procs = !context.mode.leaves_procs();
            self.run(crew, workers, space, until, calls_procs);
            if self.gather(space) || calls_procs && self.inbox.seems_filled() {
                continue;
            }
            // What found no room in the inbox is looked for again behind a phase that has emptied that.
            let is_full = !calls_procs && (0..workers).any(|index| !self.outbox(index).has_room());
            // Relaxed: `run` has ended, which orders the workers' stores.
            if is_full || !context.overflowed.swap(false, Ordering::Relaxed) {
                self.rescan_cursor.store(usize::MAX, Ordering::Relaxed);
                return true;
            }
            self.look_again();
        }
    }

    /// Whether entries wait for a phase that calls mark procedures, as they do where [`MarkEngine::mark_until`] has marked everything
    /// else in the mode that leaves them.
    pub fn has_left_procs(&self) -> bool {
        self.inbox.seems_filled()
    }

    /// Moves what helpers left on their stacks to the leader's, since there may be fewer of them in the next phase; whether
    /// anything is grey.
    fn gather(&self, space: &MarkSweep) -> bool {
        for index in 1..self.ready {
            // SAFETY: no phase is running, and this is the collecting thread.
            while let Some(entry) = unsafe { self.own(index) }.scanner.pop() {
                // SAFETY: no phase is running, and this is the collecting thread. It is another worker's scanner.
                let leader = unsafe { &mut self.own(0).scanner };
                if !leader.push(entry) {
                    leader.drop_entry(entry);
                }
            }
        }
        let shared = (0..self.ready).any(|index| !self.outbox(index).is_empty());
        let cursor = self.rescan_cursor.load(Ordering::Relaxed);
        shared || cursor < space.large_frontier() as usize || self.lead(|leader| leader.depth() > 0)
    }

    /// Forgets what is grey. Marks that were made stay.
    pub fn forget_grey(&self, context: &MarkContext) {
        for index in 0..self.ready {
            // SAFETY: no phase is running, and this is the collecting thread.
            let own = unsafe { self.own(index) };
            own.scanner.check_all_edges::<Plain>();
            own.return_fifo();
            while own.scanner.pop().is_some() {}
        }
        // SAFETY: no phase is running, and this is the collecting thread. No other reference to the part is in use.
        let leader = unsafe { &mut self.own(0).scanner };
        for index in 0..self.ready {
            while let Some(number) = self.outbox(index).take_back() {
                self.unpack(number, leader);
                while leader.pop().is_some() {}
            }
        }
        while self.take_inbox(leader) {
            while leader.pop().is_some() {}
        }
        context.overflowed.store(false, Ordering::Relaxed);
        self.rescan_cursor.store(usize::MAX, Ordering::Relaxed);
    }

    fn run(
        &self,
        crew: &Crew,
        workers: usize,
        space: &MarkSweep,
        until: Until<'_>,
        calls_procs: bool,
    ) {
        with_policy!(self.settings, P => {
            crew.run(workers, &MarkPhase::new::<P>(self, space, until, calls_procs));
        });
    }

    /// Moves one batch of what helpers left for the leader to its stack, which must be empty so that nothing is
    /// dropped; false if there was none.
    pub(super) fn take_inbox(&self, leader: &mut Scanner) -> bool {
        let taken = self.inbox.take(|index| self.outbox(index));
        if let Some(number) = taken {
            self.unpack(number, leader);
        }
        taken.is_some()
    }

    /// Copies a batch that the caller took to its empty stack, where it fits, and frees the buffer.
    pub(super) fn unpack(&self, number: u32, scanner: &mut Scanner) {
        self.outbox(Outbox::owner_of(number))
            .unpack(number, |entry| {
                assert!(
                    scanner.push(entry),
                    "a batch found no room on an empty mark stack"
                );
            });
    }

    /// Sums up and resets the counters of all workers.
    pub fn finish(&self, context: &MarkContext) -> MarkOutcome {
        let mut outcome = MarkOutcome {
            workers: self.ready,
            ..MarkOutcome::default()
        };
        for index in 0..self.ready {
            // SAFETY: this is the collecting thread, and no phase is running.
            let scanner = unsafe { &mut self.own(index).scanner };
            outcome.scanned += core::mem::take(&mut scanner.scanned);
            outcome.scanned_bytes += core::mem::take(&mut scanner.scanned_bytes);
            outcome.passed_over += core::mem::take(&mut scanner.passed_over);
        }
        outcome.dropped = context.dropped.swap(0, Ordering::Relaxed);
        outcome
    }

    /// Gives the memory of stacks that grew deep back to the system.
    pub fn release_stacks(&self) {
        for index in 0..self.ready {
            // SAFETY: this is the collecting thread, and no phase is running; the stacks are empty.
            unsafe {
                let scanner = &self.own(index).scanner;
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

impl Own {
    /// Puts what waits in the queue of `prefetch=fifo` back on the stack.
    pub(super) fn return_fifo(&mut self) {
        while self.fifo_length > 0 {
            let entry = self.fifo[self.fifo_first & (MAX_FIFO - 1)];
            self.fifo_first = self.fifo_first.wrapping_add(1);
            self.fifo_length -= 1;
            if !self.scanner.push(entry) {
                self.scanner.drop_entry(entry);
            }
        }
    }
}

impl Marker {
    fn create(
        index: usize,
        stack_bytes: usize,
        context: *const MarkContext,
        settings: &PrefetchSettings,
    ) -> Option<*const Marker> {
        let page = memory::page_size();
        let own = size_of::<Marker>().next_multiple_of(64);
        let heads = (BATCHES * size_of::<Batch>()).next_multiple_of(64);
        let ring = BATCHES * size_of::<AtomicU32>();
        let batches = (own + heads + ring).next_multiple_of(page);
        let stack = (batches + BATCHES * BATCH_ENTRIES * size_of::<Entry>()).next_multiple_of(page);
        let stack_bytes = stack_bytes.next_multiple_of(page);
        let first = stack_bytes.min(FIRST_STACK_BYTES);
        let reserved = memory::reserve(stack + stack_bytes, page)?;
        // SAFETY: our own reservation, which nobody knows yet; whole pages.
        unsafe {
            if !memory::commit(reserved, stack + first) {
                memory::unmap(reserved, stack + stack_bytes);
                return None;
            }
        }
        let memory = reserved.as_ptr();
        // SAFETY: all parts lie in the mapping, which is never given back, and none overlaps another; they are aligned
        // as their elements ask. Buffers are written before they are referred to, as the ring's cells are; entries need
        // no first value.
        unsafe {
            let entries = memory.add(batches).cast::<Entry>();
            let buffers = memory.add(own).cast::<Batch>();
            let cells = memory.add(own + heads).cast::<AtomicU32>();
            for slot in 0..BATCHES {
                let buffer = Batch::new(entries.add(slot * BATCH_ENTRIES));
                buffers.add(slot).write(buffer);
                cells.add(slot).write(AtomicU32::new(0));
            }
            let bottom = memory.add(stack).cast::<Entry>();
            let marker = memory.cast::<Marker>();
            marker.write(Marker {
                own: UnsafeCell::new(Own {
                    scanner: Scanner {
                        context,
                        bottom,
                        top: bottom,
                        base: bottom,
                        limit: bottom.add(first / size_of::<Entry>()),
                        end: bottom.add(stack_bytes / size_of::<Entry>()),
                        edges: EdgeQueue::new(settings.edges_length),
                        look_ahead: settings.look_ahead,
                        scanned: 0,
                        scanned_bytes: 0,
                        passed_over: 0,
                    },
                    fifo: [Entry {
                        start: 0,
                        descriptor: 0,
                    }; MAX_FIFO],
                    fifo_first: 0,
                    fifo_length: 0,
                    for_leader: NO_BATCH,
                }),
                outbox: Outbox::new(
                    index,
                    core::slice::from_raw_parts(buffers, BATCHES),
                    core::slice::from_raw_parts(cells, BATCHES),
                ),
                mapped: stack + stack_bytes,
            });
            Some(marker)
        }
    }
}

impl Scanner {
    /// Makes more of a stack that is full usable; false if there is no more, or the system refuses.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self) -> bool {
        let have = self.limit as usize - self.base as usize;
        let left = self.end as usize - self.limit as usize;
        let more = have.max(FIRST_STACK_BYTES).min(left);
        let Some(start) = core::ptr::NonNull::new(self.limit.cast::<u8>()) else {
            return false;
        };
        // SAFETY: the reserved rest of this worker's own stack; whole pages.
        if more == 0 || !unsafe { memory::commit(start, more) } {
            self.end = self.limit;
            return false;
        }
        self.limit = self.limit.wrapping_byte_add(more);
        true
    }

    /// Entries that fit on the stack as it is.
    #[inline(always)]
    pub(super) fn room(&self) -> usize {
        (self.limit as usize - self.top as usize) / size_of::<Entry>()
    }

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

    /// Forgets an entry that finds no room; the objects in its range were or will be found through their blocks.
    #[cold]
    pub(super) fn drop_entry(&self, entry: Entry) {
        // SAFETY: the context outlives the collection.
        let context = unsafe { &*self.context };
        assert!(
            context.table.contains(entry.start),
            "a root range was dropped: {:#x} for {:#x} bytes",
            entry.start,
            entry.descriptor
        );
        // Also a piece of a large object whose interior counts for nothing.
        let index = context.table.index_of(Address::new(entry.start));
        // SAFETY: what is scanned lies in blocks of the table, in use.
        let block = unsafe { &*context.table.block(index) };
        let head = match block.state {
            State::LargeRest => index - block.inverse,
            _ => index,
        };
        context.drop_grey(context.table.start(head));
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
