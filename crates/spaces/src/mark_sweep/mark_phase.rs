//! The work of one marking phase: what each worker does until nothing is grey (ISMM 2000, section 4).
//!
//! A worker drains its stack, through the queue of `prefetch=fifo` if that is chosen, then looks for entries: its own
//! deque, the leader's inbox, the deques of others, blocks to scan again; and offers to finish when it finds none.
//! The invariants are those of [`super::mark`].
//!
//! Runs on the collecting thread and the helpers, in a stopped world as `scan` means it; nothing here allocates (I1).

use core::sync::atomic::Ordering;

use gleaner_base::faults::{self, FaultPoint};
use gleaner_work::{Phase, Steal, Verdict, Worker};

use super::batches::{BATCH_ENTRIES, NO_BATCH};
use super::entry::Entry;
use super::mark_engine::{MAX_FIFO, MarkEngine, Own, Until};
use super::prefetch::{Plain, Policy, Prefetch};
use super::scan::{PIECE, Scanned};
use super::space::MarkSweep;
use crate::mark_sweep::block::BlockIndex;
use crate::mark_sweep::kinds::descriptor;

/// Small entries that a worker keeps for itself even while others wait.
const SHARE_ABOVE: usize = 16;
/// Bytes of longer ones that count as an entry when a worker looks about.
const ENTRY_BYTES: usize = 128;
const ENTRIES_BETWEEN_LOOKS: u32 = 32;
/// The same where another thread may be waiting meanwhile. Each takes up to a microsecond.
const ENTRIES_BETWEEN_URGENT_LOOKS: u32 = 8;
/// Entries from one look at the clock to the next: that may take as long as a few entries.
const ENTRIES_BETWEEN_TIMES: u32 = 128;

/// One phase of marking under a policy. Only the loop that looks at objects is compiled for each policy: it is called through
/// a pointer, once for many objects.
pub(super) struct MarkPhase<'a> {
    engine: &'a MarkEngine,
    space: &'a MarkSweep,
    /// When workers leave what is grey to the next step.
    until: Until<'a>,
    /// Whether the leader calls mark procedures, and takes what others left for it.
    calls_procs: bool,
    /// [`MarkPhase::drain_under`] of the policy.
    drain: fn(&MarkPhase, &mut Own, &Worker) -> bool,
}

// SAFETY: workers only share the engine's atomics and read the space.
unsafe impl Sync for MarkPhase<'_> {}

impl Phase for MarkPhase<'_> {
    fn work(&self, worker: &Worker) {
        // SAFETY: this is the worker with that index, and the phase takes no other reference to what it has for itself.
        let own = unsafe { self.engine.own(worker.index()) };
        loop {
            if self.drain(own, worker) || self.is_over() {
                own.scanner.check_all_edges::<Plain>();
                own.return_fifo();
                self.post_for_leader(own, worker);
                return;
            }
            if self.find_work(own, worker) {
                continue;
            }
            match worker.offer(|| self.work_seems_available(worker)) {
                Verdict::WorkAgain => {}
                Verdict::Finished | Verdict::StandBy => return,
            }
        }
    }
}

/// What a worker has to offer while others wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offer {
    Nothing,
    /// So many of the oldest entries.
    Oldest(usize),
    /// The end of the only entry, which is long.
    Part {
        kept: Entry,
        offered: Entry,
    },
}

/// What a worker with this stack, oldest entry first, has to offer: the oldest half, up to a batch, if it has many entries or long
/// ones. Of one that is alone and long it is half of that.
fn what_to_offer(stack: &[Entry]) -> Offer {
    let half = &stack[..(stack.len() / 2).min(BATCH_ENTRIES)];
    if stack.len() > SHARE_ABOVE
        || half.iter().map(|&entry| words_bytes(entry)).sum::<usize>() >= PIECE
    {
        return Offer::Oldest(half.len());
    }
    match *stack {
        [only] if words_bytes(only) > 2 * PIECE => {
            let kept = (only.descriptor / 2).next_multiple_of(PIECE);
            Offer::Part {
                kept: Entry {
                    start: only.start,
                    descriptor: kept,
                },
                offered: Entry {
                    start: only.start + kept,
                    descriptor: only.descriptor - kept,
                },
            }
        }
        _ => Offer::Nothing,
    }
}

/// The bytes of words that an entry says are to be scanned; 0 where it has something else scanned.
#[inline(always)]
fn words_bytes(entry: Entry) -> usize {
    match entry.descriptor & descriptor::TAGS {
        descriptor::LENGTH => entry.descriptor,
        _ => 0,
    }
}

/// As how many small entries one counts until the next look.
#[inline(always)]
fn looks_like(entry: Entry) -> u32 {
    1 + (words_bytes(entry).min(PIECE) / ENTRY_BYTES) as u32
}

/// Entries of objects that are looked at again, pushed before they are scanned. Fewer than the smallest mark stack holds.
const ENTRIES_AGAIN: usize = 64;

impl<'a> MarkPhase<'a> {
    /// A phase under policy `P`, `until` its time is over.
    pub(super) fn new<P: Policy>(
        engine: &'a MarkEngine,
        space: &'a MarkSweep,
        until: Until<'a>,
        calls_procs: bool,
    ) -> MarkPhase<'a> {
        MarkPhase {
            engine,
            space,
            until,
            calls_procs,
            drain: |phase, own, worker| phase.drain_under::<P>(own, worker),
        }
    }

    /// Whether this step has had its time.
    #[inline]
    fn is_over(&self) -> bool {
        self.until.is_over()
    }

    /// Entries that a worker scans from one look at the time to the next.
    #[inline]
    fn between_looks(&self) -> u32 {
        match self.until.is_urgent() {
            true => ENTRIES_BETWEEN_URGENT_LOOKS,
            false => ENTRIES_BETWEEN_LOOKS,
        }
    }

    /// Scans until the stack and the queue are empty, or time is over; whether it is.
    fn drain(&self, own: &mut Own, worker: &Worker) -> bool {
        (self.drain)(self, own, worker)
    }

    // Not inline: in the closure that leads here, its loop takes an instruction more for each object.
    #[inline(never)]
    fn drain_under<P: Policy>(&self, own: &mut Own, worker: &Worker) -> bool {
        let (mut until_look, mut until_time) = (self.between_looks(), ENTRIES_BETWEEN_TIMES);
        loop {
            // SAFETY: entries describe objects of the heap or root ranges; the world is stopped.
            until_look -= unsafe { own.scanner.scan_small::<P>(until_look) };
            if until_look > 0 {
                let Some(entry) = self.next::<P>(own) else {
                    return false;
                };
                // SAFETY: the entry describes an object of the heap or a root range; the world is stopped.
                let scanned = unsafe { own.scanner.scan_entry::<P>(entry, worker.is_leader()) };
                if scanned == Scanned::NeedsLeader {
                    self.keep_for_leader(own, worker, entry);
                }
                until_look = until_look.saturating_sub(looks_like(entry));
            }
            if until_look == 0 {
                until_look = self.between_looks();
                if own.scanner.depth() > 0 && faults::armed(FaultPoint::MarkStackFull) {
                    own.scanner.drop_newest();
                }
                if worker.anyone_waiting() && own.scanner.depth() > 0 {
                    self.share(own, worker);
                }
                until_time = until_time.saturating_sub(until_look);
                if until_time == 0 {
                    until_time = ENTRIES_BETWEEN_TIMES;
                    if self.is_over() {
                        return true;
                    }
                } else if self.until.is_wanted() {
                    return true;
                }
            }
        }
    }

    #[inline(always)]
    fn next<P: Policy>(&self, own: &mut Own) -> Option<Entry> {
        match P::PREFETCH {
            Prefetch::None | Prefetch::OnGrey => own.scanner.pop(),
            Prefetch::Fifo => self.next_of_fifo::<P>(own),
            Prefetch::Edges => loop {
                if let Some(entry) = own.scanner.pop() {
                    break Some(entry);
                }
                if !own.scanner.check_all_edges::<P>() {
                    break None;
                }
            },
        }
    }

    #[inline(always)]
    fn next_of_fifo<P: Policy>(&self, own: &mut Own) -> Option<Entry> {
        let length = self.engine.settings.fifo_length;
        while own.fifo_length < length {
            let Some(entry) = own.scanner.pop() else {
                break;
            };
            P::touch(entry.start);
            own.fifo[(own.fifo_first + own.fifo_length) & (MAX_FIFO - 1)] = entry;
            own.fifo_length += 1;
        }
        if own.fifo_length == 0 {
            return None;
        }
        let entry = own.fifo[own.fifo_first & (MAX_FIFO - 1)];
        own.fifo_first = own.fifo_first.wrapping_add(1);
        own.fifo_length -= 1;
        Some(entry)
    }

    /// Offers the oldest of the stack to the others, as far as [`what_to_offer`] says.
    #[cold]
    fn share(&self, own: &mut Own, worker: &Worker) {
        let bottom = own.scanner.bottom;
        // SAFETY: as many entries lie above `bottom`, and the stack is this worker's.
        let stack = unsafe { core::slice::from_raw_parts(bottom, own.scanner.depth()) };
        let offer = what_to_offer(stack);
        if offer == Offer::Nothing {
            return;
        }
        let outbox = self.engine.outbox(worker.index());
        let Some(number) = outbox.reserve() else {
            return;
        };
        match offer {
            Offer::Nothing => {}
            Offer::Oldest(length) => {
                outbox.append(number, &stack[..length]);
                own.scanner.bottom = bottom.wrapping_add(length);
            }
            Offer::Part { kept, offered } => {
                outbox.append(number, &[offered]);
                // SAFETY: the oldest entry of a stack that is not empty, and this worker's.
                unsafe { bottom.write(kept) };
            }
        }
        outbox.offer(number);
        worker.announce();
    }

    /// Looks for entries: own deque, the leader's inbox, other deques, blocks to scan again.
    fn find_work(&self, own: &mut Own, worker: &Worker) -> bool {
        if let Some(number) = self.engine.outbox(worker.index()).take_back() {
            self.engine.unpack(number, &mut own.scanner);
            return true;
        }
        self.post_for_leader(own, worker);
        if self.takes_inbox(worker) && self.engine.take_inbox(&mut own.scanner) {
            return true;
        }
        self.steal(own, worker) || self.rescan_some(own, worker)
    }

    fn steal(&self, own: &mut Own, worker: &Worker) -> bool {
        let ready = self.engine.ready;
        for distance in 1..ready {
            let victim = self.engine.outbox((worker.index() + distance) % ready);
            loop {
                match victim.steal() {
                    Steal::Taken(number) => {
                        self.engine.unpack(number, &mut own.scanner);
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
        // Hints: missing one costs parallelism, never work.
        let inbox = self.takes_inbox(worker) && self.engine.inbox.seems_filled();
        inbox
            || (0..self.engine.ready)
                .any(|index| index != worker.index() && !self.engine.outbox(index).is_empty())
    }

    fn takes_inbox(&self, worker: &Worker) -> bool {
        worker.is_leader() && self.calls_procs
    }

    /// Puts an entry aside whose mark procedure only the collecting thread may call.
    #[cold]
    fn keep_for_leader(&self, own: &mut Own, worker: &Worker, entry: Entry) {
        let outbox = self.engine.outbox(worker.index());
        if own.for_leader == NO_BATCH {
            let Some(number) = outbox.reserve() else {
                own.scanner.drop_entry(entry);
                return;
            };
            own.for_leader = number;
        }
        if outbox.append(own.for_leader, &[entry]) == BATCH_ENTRIES {
            self.post(own, worker);
        }
    }

    fn post_for_leader(&self, own: &mut Own, worker: &Worker) {
        if own.for_leader != NO_BATCH {
            self.post(own, worker);
            worker.announce();
        }
    }

    fn post(&self, own: &mut Own, worker: &Worker) {
        let number = core::mem::replace(&mut own.for_leader, NO_BATCH);
        let outbox = self.engine.outbox(worker.index());
        self.engine.inbox.post(outbox, number);
    }

    /// Takes some blocks of the round and scans those of their marked objects that have to be scanned again.
    fn rescan_some(&self, own: &mut Own, worker: &Worker) -> bool {
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
        let (mut next, end) = (first as BlockIndex, (first + BLOCKS).min(end) as BlockIndex);
        while next < end {
            let index = next;
            next = self.space.next_to_look_at(index);
            if !self.space.is_to_be_looked_at(index) {
                continue;
            }
            if self.is_over() {
                // Blocks keep what says that they are to be looked at; it is done in another round. One without such
                // blocks is the last, however many steps it takes.
                own.scanner
                    .context()
                    .overflowed
                    .store(true, Ordering::Relaxed);
                break;
            }
            self.look_again(own, worker, index);
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

    fn look_again(&self, own: &mut Own, worker: &Worker, index: BlockIndex) {
        let context = own.scanner.context;
        // SAFETY: set up by the collector before any worker runs; the context outlives the collection.
        let context = unsafe { &*context };
        let mut waiting = 0;
        self.space.visit_again(index, context, |start, descriptor| {
            let entry = Entry {
                start: start.word(),
                descriptor,
            };
            // Few at a time: what was dropped finds room now, unless time is over and the stack not empty.
            if !own.scanner.push(entry) {
                own.scanner.drop_entry(entry);
            }
            waiting += 1;
            if waiting == ENTRIES_AGAIN {
                waiting = 0;
                self.drain_unless_over(own, worker);
            }
        });
        self.drain_unless_over(own, worker);
    }

    fn drain_unless_over(&self, own: &mut Own, worker: &Worker) {
        if !self.is_over() {
            self.drain(own, worker);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::SweepMode;
    use crate::mark_sweep::block::BLOCK_BYTES;
    use crate::mark_sweep::layout::Layout;
    use crate::mark_sweep::object_descriptors::ObjectDescriptors;
    use crate::mark_sweep::prefetch::PrefetchSettings;
    use crate::mark_sweep::scan::{MAX_PROCS, MarkContext, MarkMode};
    use core::cell::Cell;
    use core::sync::atomic::{AtomicBool, AtomicUsize};
    use gleaner_work::{Crew, Steal};
    use std::boxed::Box;
    use std::vec::Vec;

    fn words(start: usize, bytes: usize) -> Entry {
        Entry {
            start,
            descriptor: bytes,
        }
    }

    #[test]
    fn many_entries_or_long_ones_are_offered() {
        let small: Vec<Entry> = (0..1000).map(|at| words(at * 16, 16)).collect();
        let few = |count| what_to_offer(&small[..count]);
        assert_eq!(
            (few(0), few(1), few(16)),
            (Offer::Nothing, Offer::Nothing, Offer::Nothing)
        );
        assert_eq!(
            (few(17), few(1000)),
            (Offer::Oldest(8), Offer::Oldest(BATCH_ENTRIES))
        );
        let long = words(1 << 20, PIECE);
        assert_eq!(what_to_offer(&[long, small[0]]), Offer::Oldest(1));
        assert_eq!(
            what_to_offer(&[small[0], long]),
            Offer::Nothing,
            "the oldest is small"
        );
        assert_eq!(what_to_offer(&[long]), Offer::Nothing);
        let proc = words(1 << 20, 1 << 20 | descriptor::PROC);
        assert_eq!(
            what_to_offer(&[proc, proc]),
            Offer::Nothing,
            "nobody knows how long that takes"
        );
        assert_eq!(what_to_offer(&[proc]), Offer::Nothing);
    }

    #[test]
    fn of_a_long_entry_each_has_half() {
        for bytes in [2 * PIECE + 8, 3 * PIECE, 1 << 20, (1 << 20) + 24] {
            let Offer::Part { kept, offered } = what_to_offer(&[words(1 << 30, bytes)]) else {
                panic!("{bytes} bytes are long");
            };
            assert_eq!(
                (kept.start, offered.start),
                (1 << 30, kept.start + kept.descriptor)
            );
            assert_eq!(kept.descriptor + offered.descriptor, bytes);
            assert!(kept.descriptor.abs_diff(offered.descriptor) <= 2 * PIECE);
            assert!(kept.descriptor.is_multiple_of(PIECE) && offered.descriptor > 0);
        }
    }

    /// The leader scans a range while another worker waits.
    struct Alone<'a> {
        engine: &'a MarkEngine,
        space: &'a MarkSweep,
        range: Entry,
        offered: Cell<usize>,
        scanned: Cell<usize>,
    }

    // SAFETY: the leader runs alone.
    unsafe impl Sync for Alone<'_> {}

    impl Phase for Alone<'_> {
        fn work(&self, worker: &Worker<'_>) {
            let phase =
                MarkPhase::new::<Plain>(self.engine, self.space, Until::NOTHING_IS_GREY, true);
            // SAFETY: the leader runs alone, and has no other reference.
            let own = unsafe { self.engine.own(0) };
            assert!(own.scanner.push(self.range));
            worker.stand_in(1).set_waiting(true);
            assert!(!phase.drain(own, worker), "there is no deadline");
            self.scanned.set(own.scanner.scanned_bytes);
            while let Steal::Taken(number) = self.engine.outbox(0).steal() {
                let outbox = self.engine.outbox(0);
                outbox.unpack(number, |entry| {
                    self.offered.set(self.offered.get() + entry.descriptor);
                });
            }
            let _ = worker.offer(|| false);
        }
    }

    /// A worker that scans a large object looks about after each piece.
    #[test]
    fn who_waits_gets_a_part_of_a_large_object() {
        let crew = Box::leak(Box::new(Crew::new()));
        let layout = Layout::reserve(32 << 20, false).unwrap();
        let space = MarkSweep::new(layout, SweepMode::Lazy, false);
        let context = Box::leak(Box::new(MarkContext {
            table: space.layout.table,
            all_interior: true,
            displacements: [false; BLOCK_BYTES / 2],
            procs: [None; MAX_PROCS],
            procs_on_helpers: false,
            mode: MarkMode::Whole,
            observes: false,
            poison: false,
            own_procs: 0,
            overflowed: AtomicBool::new(false),
            dropped: AtomicUsize::new(0),
            disturbed: AtomicBool::new(false),
            descriptors: ObjectDescriptors::new(),
        }));
        let settings = PrefetchSettings {
            prefetch: Prefetch::None,
            non_temporal: false,
            permuted: false,
            look_ahead: 0,
            fifo_length: 16,
            edges_length: 64,
        };
        let mut engine = MarkEngine::new(settings, 1 << 20);
        assert_eq!(engine.equip(2, context), 2);
        let memory = std::vec![0usize; 8 * PIECE];
        let range = words(memory.as_ptr().addr(), 8 * PIECE);
        let alone = Alone {
            engine: &engine,
            space: &space,
            range,
            offered: Cell::new(0),
            scanned: Cell::new(0),
        };
        crew.run_alone(2, &alone);
        let (scanned, offered) = (alone.scanned.get(), alone.offered.get());
        assert_eq!(scanned + offered, range.descriptor);
        assert!(offered >= 3 * PIECE, "{offered} bytes");
    }
}
