//! The work of one marking phase: what each worker does until nothing is grey (ISMM 2000, section 4).
//!
//! A worker drains its stack, through the queue of `prefetch=fifo` if that is chosen, then looks for entries: its own
//! deque, the leader's inbox, the deques of others, blocks to scan again; and offers to finish when it finds none.
//! The invariants are those of [`super::mark`].
//!
//! Runs on the collecting thread and the helpers, in the stopped world; nothing here allocates (I1).

use core::sync::atomic::Ordering;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_mem::Address;
use gleaner_work::{Phase, Steal, Verdict, Worker};

use super::mark::{BATCH_ENTRIES, BATCHES, MAX_FIFO, MarkEngine, Marker, NO_BATCH};
use super::prefetch::{Policy, Prefetch};
use super::scan::{Entry, Scanned};
use super::{MARKED, MarkSweep};
use crate::block::{Block, BlockIndex, RESCAN, State};

/// Entries that a worker keeps for itself even while others wait.
const SHARE_ABOVE: usize = 16;
const ENTRIES_BETWEEN_LOOKS: u32 = 32;

/// One phase of marking under a policy.
pub(super) struct MarkPhase<'a, P> {
    pub(super) engine: &'a MarkEngine,
    pub(super) space: &'a MarkSweep,
    pub(super) policy: core::marker::PhantomData<fn() -> P>,
}

// SAFETY: workers only share the engine's atomics and read the space.
unsafe impl<P> Sync for MarkPhase<'_, P> {}

impl<P: Policy> Phase for MarkPhase<'_, P> {
    fn work(&self, worker: &Worker) {
        // SAFETY: each worker uses the marker with its own index.
        let marker = unsafe { &mut *self.engine.markers[worker.index()] };
        loop {
            self.drain(marker, worker);
            if self.find_work(marker, worker) {
                continue;
            }
            match worker.offer(|| self.work_seems_available(worker)) {
                Verdict::WorkAgain => {}
                Verdict::Finished | Verdict::StandBy => return,
            }
        }
    }
}

impl<P: Policy> MarkPhase<'_, P> {
    /// Scans until the stack and the queue are empty.
    fn drain(&self, marker: &mut Marker, worker: &Worker) {
        let mut until_look = ENTRIES_BETWEEN_LOOKS;
        while let Some(entry) = self.next(marker) {
            // SAFETY: entries describe objects of the heap or root ranges; the world is stopped.
            let scanned = unsafe { marker.scanner.scan_entry::<P>(entry, worker.is_leader()) };
            if scanned == Scanned::NeedsLeader {
                self.keep_for_leader(marker, entry);
            }
            until_look -= 1;
            if until_look == 0 {
                until_look = ENTRIES_BETWEEN_LOOKS;
                if faults::armed(FaultPoint::MarkStackFull) {
                    marker.scanner.drop_newest();
                }
                if worker.anyone_waiting() && marker.scanner.depth() > SHARE_ABOVE {
                    self.share(marker, worker);
                }
            }
        }
    }

    #[inline(always)]
    fn next(&self, marker: &mut Marker) -> Option<Entry> {
        match P::PREFETCH {
            Prefetch::None | Prefetch::OnGrey => marker.scanner.pop(),
            Prefetch::Fifo => self.next_of_fifo(marker),
            Prefetch::Edges => loop {
                if let Some(entry) = marker.scanner.pop() {
                    break Some(entry);
                }
                if !marker.scanner.check_all_edges() {
                    break None;
                }
            },
        }
    }

    #[inline(always)]
    fn next_of_fifo(&self, marker: &mut Marker) -> Option<Entry> {
        let length = self.engine.settings.fifo_length;
        while marker.fifo_length < length {
            let Some(entry) = marker.scanner.pop() else {
                break;
            };
            P::touch(entry.start);
            marker.fifo[(marker.fifo_first + marker.fifo_length) & (MAX_FIFO - 1)] = entry;
            marker.fifo_length += 1;
        }
        if marker.fifo_length == 0 {
            return None;
        }
        let entry = marker.fifo[marker.fifo_first & (MAX_FIFO - 1)];
        marker.fifo_first = marker.fifo_first.wrapping_add(1);
        marker.fifo_length -= 1;
        Some(entry)
    }

    /// Publishes the oldest half of the stack, up to a batch.
    #[cold]
    fn share(&self, marker: &mut Marker, worker: &Worker) {
        let Some(slot) = marker.free_slot() else {
            return;
        };
        let length = (marker.scanner.depth() / 2).min(BATCH_ENTRIES);
        // SAFETY: the slot is ours until its number is published; `length` entries lie above `bottom`.
        unsafe {
            let batch = &*marker.batches.add(slot);
            let oldest = core::slice::from_raw_parts(marker.scanner.bottom, length);
            (&mut *batch.entries.get())[..length].copy_from_slice(oldest);
            *batch.length.get() = length;
            marker.scanner.bottom = marker.scanner.bottom.add(length);
        }
        // The deque has room for every buffer there is.
        let _ = marker.deque.push((worker.index() * BATCHES + slot) as u32);
        worker.announce();
    }

    /// Looks for entries: own deque, the leader's inbox, other deques, blocks to scan again.
    fn find_work(&self, marker: &mut Marker, worker: &Worker) -> bool {
        if let Some(number) = marker.deque.pop() {
            self.engine
                .unpack(worker.index(), self.engine.batch(number));
            return true;
        }
        self.post_for_leader(marker, worker);
        if worker.is_leader() && self.engine.take_inbox() {
            return true;
        }
        self.steal(worker) || self.rescan_some(marker, worker)
    }

    fn steal(&self, worker: &Worker) -> bool {
        let ready = self.engine.ready;
        for distance in 1..ready {
            let victim = (worker.index() + distance) % ready;
            // SAFETY: the victim's marker is equipped; only its deque is touched, which is made for thieves.
            let deque = unsafe { &(*self.engine.markers[victim]).deque };
            loop {
                match deque.steal() {
                    Steal::Taken(number) => {
                        self.engine
                            .unpack(worker.index(), self.engine.batch(number));
                        return true;
                    }
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        false
    }

    fn work_seems_available(&self, worker: &Worker) -> bool {
        // Relaxed hints: missing one costs parallelism, never work.
        let inbox = worker.is_leader() && self.engine.inbox.load(Ordering::Relaxed) != NO_BATCH;
        inbox
            || (0..self.engine.ready).any(|index| {
                // SAFETY: as in `steal`.
                index != worker.index()
                    && unsafe { !(*self.engine.markers[index]).deque.is_empty() }
            })
    }

    /// Puts an entry aside whose mark procedure only the collecting thread may call.
    #[cold]
    fn keep_for_leader(&self, marker: &mut Marker, entry: Entry) {
        if marker.for_leader == NO_BATCH {
            let Some(slot) = marker.free_slot() else {
                marker.scanner.drop_entry(entry);
                return;
            };
            // SAFETY: the slot is ours until it is posted.
            unsafe { *(*marker.batches.add(slot)).length.get() = 0 };
            marker.for_leader = slot as u32;
        }
        // SAFETY: as above.
        unsafe {
            let batch = &*marker.batches.add(marker.for_leader as usize);
            let length = &mut *batch.length.get();
            (*batch.entries.get())[*length] = entry;
            *length += 1;
            if *length < BATCH_ENTRIES {
                return;
            }
        }
        self.post_slot(marker);
    }

    fn post_for_leader(&self, marker: &mut Marker, worker: &Worker) {
        if marker.for_leader != NO_BATCH {
            self.post_slot(marker);
            worker.announce();
        }
    }

    fn post_slot(&self, marker: &mut Marker) {
        let slot = core::mem::replace(&mut marker.for_leader, NO_BATCH) as usize;
        // SAFETY: buffers lie in an array that starts at the owner's `batches`.
        let owner = (0..self.engine.ready)
            .find(|index| core::ptr::eq(self.engine.markers[*index], marker))
            .expect("the marker is one of the engine's");
        self.engine.post((owner * BATCHES + slot) as u32);
    }

    /// Takes some blocks of the re-scan and pushes the marked objects of those that are flagged.
    fn rescan_some(&self, marker: &mut Marker, worker: &Worker) -> bool {
        const BLOCKS: usize = 64;
        let end = self.space.large_frontier() as usize;
        if self.engine.rescan_cursor.load(Ordering::Relaxed) >= end {
            return false;
        }
        // Relaxed: the cursor only divides the blocks among workers.
        let first = self
            .engine
            .rescan_cursor
            .fetch_add(BLOCKS, Ordering::Relaxed);
        if first >= end {
            return false;
        }
        let first = self.skip_unused(first);
        for index in first..(first + BLOCKS).min(end) {
            self.rescan_block(marker, worker, index as BlockIndex);
        }
        // True even if nothing was flagged: what was scanned may have been published, so the worker must look again.
        true
    }

    /// Jumps from the end of the small part to the start of the large one.
    fn skip_unused(&self, first: usize) -> usize {
        let small_end = (self.space.small_frontier() as usize).next_multiple_of(64);
        let large_start = self.space.layout.table.large_start as usize;
        if first < small_end || first >= large_start {
            return first;
        }
        self.engine
            .rescan_cursor
            .fetch_max(large_start, Ordering::Relaxed);
        large_start.max(first)
    }

    fn rescan_block(&self, marker: &mut Marker, worker: &Worker, index: BlockIndex) {
        // SAFETY: the table covers the span; in the stopped world only flags and marks change.
        let block: &Block = unsafe { &*self.space.layout.table.block(index) };
        if !block.has_flag(RESCAN) {
            return;
        }
        block.clear_flag(RESCAN);
        match block.state {
            State::LargeHead => {
                self.rescan_object(marker, worker, self.space.start(index), block.descriptor)
            }
            State::Small => {
                for object in 0..usize::from(block.objects) {
                    // SAFETY: `object` is below the number of cells.
                    let mark = unsafe {
                        (*self.space.layout.table.marks_of(index).add(object))
                            .load(Ordering::Relaxed)
                    };
                    if mark == MARKED {
                        let base = self.space.start(index).add(object * block.bytes);
                        self.rescan_object(marker, worker, base, block.descriptor);
                    }
                }
            }
            _ => {}
        }
    }

    fn rescan_object(
        &self,
        marker: &mut Marker,
        worker: &Worker,
        base: Address,
        descriptor: usize,
    ) {
        if descriptor != 0 {
            marker.scanner.push(Entry {
                start: base.word(),
                descriptor,
            });
            self.drain(marker, worker);
        }
    }
}
