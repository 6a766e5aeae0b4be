//! Zeroing fresh memory of eden (OOPSLA 2011): by each allocation, by whoever takes a buffer, or by threads of their own.
//!
//! After each collection a [`Mode`] is chosen, for the nursery until the next. A mutator that takes a buffer prepares it
//! as the mode says; its record tells it whether it has to zero each object itself. Zeroing threads work through the
//! blocks of eden from its start; a mutator that needs a block to which they have not come zeroes it itself.
//!
//! # Invariants
//! - What is handed out reads as zero, or the mutator's `zeroes` is not 0 (I2). Under [`Mode::Window`] that holds up to
//!   the limit of its buffer.
//! - Eden at and above `virgin` was never written to since the system gave it: it reads as zero.
//! - A zeroing thread is inside the gate while it zeroes a block, as a mutator is; so a stopped world has none, and
//!   nobody zeroes after a collection what was begun before it. It holds no lock.
//! - A block is zeroed by whoever has claimed it, before anything in it is used (`gleaner_work::claims`).

use core::ptr::NonNull;

use gleaner_base::events::Phase;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Zeroing as Policy;
use gleaner_base::options::ZeroingKernel;
use gleaner_base::sync::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero::Choice;
use gleaner_mem::zero::kernels::Kernel;
use gleaner_mem::zero::processor::{self, Processor};
use gleaner_os::{clock, contention, memory, threads, topology};
use gleaner_work::{Claims, Cursor, Done, Drowsy, Lead, Rounds, Turn};

use super::allocate::Fresh;
use super::calibration::calibration;
use super::mutator::Mutator;
use super::resize::Collection;
use super::{Config, Scavenge, State};
use crate::decide::zeroing::{self as decide, Mode, Nursery};
use crate::record::Record;
use crate::stop::poll::PollGate;

/// Bytes of a block that is zeroed at once: as many as a TLAB has, unless told otherwise.
pub const BLOCK: usize = 32 << 10;
/// Rounds of spinning, some microseconds, that a zeroing thread is given to come to a block.
const PATIENCE: u32 = 60;
/// One of so many windows is timed.
const TIMED_WINDOWS: u64 = 64;
/// How often at most the system is asked who waits for processors, in nanoseconds.
const CONTENTION_INTERVAL: u64 = 100_000_000;

/// What zeroing came to. What each allocation zeroes by itself is not counted: that would take longer than zeroing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Zeroed {
    /// Bytes that mutators zeroed in blocks, buffers and windows.
    pub bytes: u64,
    /// Bytes that zeroing threads zeroed.
    pub ahead_bytes: u64,
    /// The time of mutators for that; its share of the processor time is DirectZeroingCost (OOPSLA 2011, section 4.3). In
    /// ticks of the time-stamp counter, or in nanoseconds where totals are given out; a window in 64 is timed.
    pub time: u64,
    /// The time of zeroing threads.
    pub ahead_time: u64,
    /// How long mutators waited for zeroing threads.
    pub stalled_time: u64,
    /// How often they did.
    pub stalls: u64,
}

impl Zeroed {
    /// With times as `convert` says.
    fn with_times(self, convert: impl Fn(u64) -> u64) -> Zeroed {
        Zeroed {
            time: convert(self.time),
            ahead_time: convert(self.ahead_time),
            stalled_time: convert(self.stalled_time),
            ..self
        }
    }

    /// Adds what came since.
    pub fn add(&mut self, more: Zeroed) {
        self.bytes += more.bytes;
        self.ahead_bytes += more.ahead_bytes;
        self.time += more.time;
        self.ahead_time += more.ahead_time;
        self.stalled_time += more.stalled_time;
        self.stalls += more.stalls;
    }
}

/// Whether others want the processors. The collector's, in stopped worlds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Contention {
    /// When the system was asked last, and what it said.
    asked_ns: u64,
    waited_ns: u64,
    high: bool,
}

impl Contention {
    /// Whether threads waited for a processor for more than a tenth of the time lately.
    fn is_high(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.asked_ns);
        if passed >= CONTENTION_INTERVAL
            && let Some(waited) = contention::waited_ns()
        {
            let lately = waited.saturating_sub(self.waited_ns);
            self.high = self.asked_ns > 0 && 10 * lately > passed;
            (self.asked_ns, self.waited_ns) = (now_ns, waited);
        }
        self.high
    }
}

/// How eden is zeroed.
pub struct Zeroing {
    policy: Policy,
    /// What zeroes memory that is used soon.
    soon: Choice,
    /// What zeroes past the caches.
    past: Choice,
    /// What zeroing threads use.
    ahead: Choice,
    /// How long `past` takes for a MB, in nanoseconds; 0 when it was not measured.
    past_ns: u64,
    window: usize,
    lead: usize,
    threads: usize,
    processors: usize,
    /// A [`Mode`], by its place in [`MODES`]. Written in stopped worlds, read by mutators and zeroing threads.
    mode: AtomicU8,
    /// An address. Written in stopped worlds.
    virgin: AtomicUsize,
    /// The first address of eden that is zeroed ahead in this round, and where that ends. Written in stopped worlds.
    range: [AtomicUsize; 2],
    /// What zeroing threads sleep on from one collection to the next. Rounds begin in stopped worlds.
    rounds: Rounds,
    /// Where the threads are. Rounds begin in stopped worlds.
    cursor: Cursor,
    /// Where threads that keep a bounded lead sleep until buffers are taken.
    taken: Lead,
    /// What zeroing threads did; each adds its own.
    did_ahead: (AtomicU64, AtomicU64),
    /// The time-stamp counter and the clock when the heap was made.
    began: (u64, u64),
    /// A state for each block of eden's range; none where no thread zeroes.
    states: Option<(NonNull<AtomicU8>, usize)>,
    eden: Address,
}

// SAFETY: the states are atomics in memory of this value's own.
unsafe impl Sync for Zeroing {}
// SAFETY: as above.
unsafe impl Send for Zeroing {}

const MODES: [Mode; 5] = [
    Mode::HotPath,
    Mode::Window,
    Mode::Bulk,
    Mode::NonTemporal,
    Mode::Concurrent,
];

/// How many zeroing threads a heap is to have.
pub fn wanted_threads(config: &Config) -> usize {
    match config.zeroing {
        Policy::HotPath | Policy::Window | Policy::Bulk | Policy::NonTemporal => 0,
        Policy::Concurrent | Policy::Adaptive | Policy::Auto => 1,
        Policy::ConcurrentStatic | Policy::ConcurrentRacing => config.zeroing_threads.max(1),
    }
}

impl Zeroing {
    /// For an eden of `bytes` bytes from `eden` on, none of which was touched; `None` when the system gives no memory.
    pub(super) fn new(config: &Config, eden: Address, bytes: usize) -> Option<Zeroing> {
        let processor = Processor::detect();
        let choose = |temporal| processor::choose(config.zeroing_kernel, temporal, &processor);
        let by_itself =
            config.zeroing == Policy::Auto && config.zeroing_kernel == ZeroingKernel::Auto;
        let measured = by_itself.then(calibration).flatten();
        let (soon, past, past_ns) = match measured {
            Some(found) => (found.soon, found.past, found.past_ns),
            None => (choose(true), choose(false), 0),
        };
        // What is zeroed a little ahead is used soon.
        let ahead = if config.zeroing_lead > 0 { soon } else { past };
        let threads = wanted_threads(config);
        let states = if threads > 0 {
            let count = bytes.div_ceil(BLOCK);
            Some((memory::map(count)?.cast(), count))
        } else {
            None
        };
        let first = match config.zeroing {
            Policy::HotPath | Policy::Auto => Mode::HotPath,
            Policy::Window => Mode::Window,
            Policy::Bulk => Mode::Bulk,
            Policy::NonTemporal => Mode::NonTemporal,
            _ => Mode::Concurrent,
        };
        Some(Zeroing {
            policy: config.zeroing,
            soon,
            past,
            ahead,
            past_ns,
            window: config.zeroing_window,
            lead: match config.zeroing_lead {
                0 => usize::MAX >> 1,
                lead => lead,
            },
            threads,
            // Nobody asks where the number of mutators decides nothing.
            processors: if threads > 0 {
                topology::processors()
            } else {
                1
            },
            mode: AtomicU8::new(place(first)),
            virgin: AtomicUsize::new(if config.poison {
                usize::MAX
            } else {
                eden.word()
            }),
            range: [eden, eden.add(bytes)].map(|at| AtomicUsize::new(at.word())),
            rounds: Rounds::new(),
            cursor: Cursor::new(),
            taken: Lead::new(),
            did_ahead: (AtomicU64::new(0), AtomicU64::new(0)),
            began: (clock::ticks(), clock::monotonic_ns()),
            states,
            eden,
        })
    }

    /// How fresh memory is zeroed at the moment.
    pub fn mode(&self) -> Mode {
        MODES[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    /// Whether memory is zero before it is allocated whatever is decided.
    pub fn is_ahead(&self) -> bool {
        !matches!(self.policy, Policy::HotPath | Policy::Auto)
    }

    /// What zeroes a whole block or a large object at the moment.
    pub(super) fn kernel(&self) -> Kernel {
        match self.mode() {
            Mode::NonTemporal => self.past.kernel,
            _ => self.soon.kernel,
        }
    }

    /// With times in nanoseconds.
    pub(super) fn in_nanoseconds(&self, zeroed: Zeroed) -> Zeroed {
        zeroed.with_times(|ticks| self.nanoseconds(ticks))
    }

    /// Nanoseconds of so many ticks.
    fn nanoseconds(&self, ticks: u64) -> u64 {
        let passed = clock::ticks_since(self.began.0).max(1);
        let ns = clock::monotonic_ns() - self.began.1;
        (u128::from(ticks) * u128::from(ns) / u128::from(passed)) as u64
    }

    fn claims(&self) -> Claims<'_> {
        let states: &[AtomicU8] = match self.states {
            // SAFETY: `new` mapped so many, zero at first, and they last as long as this.
            Some((first, count)) => unsafe { core::slice::from_raw_parts(first.as_ptr(), count) },
            None => &[],
        };
        Claims::new(states)
    }

    fn block_of(&self, at: Address) -> usize {
        at.offset_from(self.eden) / BLOCK
    }

    /// The part of a block that is zeroed in this round, as (start, bytes).
    fn part(&self, block: usize) -> (Address, usize) {
        let start = self.eden.add(block * BLOCK);
        let from = start.max(Address::new(self.range[0].load(Ordering::Relaxed)));
        let end = Address::new(self.range[1].load(Ordering::Relaxed)).min(start.add(BLOCK));
        (from, end.offset_from(from))
    }

    fn virgin(&self) -> Address {
        Address::new(self.virgin.load(Ordering::Relaxed))
    }

    /// Memory of eden below was written to. In a stopped world.
    pub(super) fn note_top(&self, top: Address) {
        self.virgin.fetch_max(top.word(), Ordering::Relaxed);
    }

    /// Eden's memory from `end` on was given back. In a stopped world.
    pub(super) fn note_released(&self, end: Address) {
        if self.virgin() != Address::new(usize::MAX) {
            self.virgin.fetch_min(end.word(), Ordering::Relaxed);
        }
    }

    /// What the mode is from now on, and what lies free in eden. In a stopped world.
    pub(super) fn begin_round(&self, mode: Mode, top: Address, end: Address) {
        self.mode.store(place(mode), Ordering::Relaxed);
        let ahead = mode == Mode::Concurrent;
        if ahead {
            let end = end.min(self.virgin()).max(top);
            self.range[0].store(top.word(), Ordering::Relaxed);
            self.range[1].store(end.word(), Ordering::Relaxed);
            self.claims().open();
            self.cursor.begin(self.block_of(top));
        }
        self.rounds.begin(ahead);
    }

    /// Wakes the zeroing threads for the round; the world runs again.
    pub(super) fn wake(&self) {
        if self.threads > 0 && self.mode() == Mode::Concurrent {
            self.rounds.announce();
            self.note_taken();
        }
    }

    /// Zeroing threads end. Whoever calls this joins them.
    pub fn dismiss(&self) {
        self.rounds.dismiss();
        self.taken.dismiss();
    }

    /// A mutator has taken a buffer: threads that keep a lead may go on.
    fn note_taken(&self) {
        if self.lead < usize::MAX >> 1 {
            self.taken.step();
        }
    }

    /// What happened since the last collection, and what was decided. Without a choice and with nothing to count there is
    /// nothing to say.
    fn report(&self, record: &mut Record, zeroed: &Zeroed, reason: &'static str) {
        let mut say = |phase, bytes, objects, duration, reason| {
            record.step(phase, |event| {
                (event.bytes, event.objects, event.reason) = (bytes, objects, reason);
                event.workers = self.threads as u32;
            });
            record.set_last_duration(duration);
        };
        let is_first = self.rounds.is_first();
        let uses = |policies: &[Policy]| is_first && policies.contains(&self.policy);
        if is_first {
            say(Phase::ZeroingKernel, 0, 0, 0, self.soon.reason);
        }
        if uses(&[Policy::NonTemporal, Policy::Adaptive, Policy::Auto]) {
            say(Phase::ZeroingKernel, 0, 0, 0, self.past.reason);
        } else if is_first && self.threads > 0 && self.ahead != self.soon {
            say(Phase::ZeroingKernel, 0, 0, 0, self.ahead.reason);
        }
        if self.policy != Policy::HotPath || zeroed.bytes > 0 {
            say(Phase::Zeroing, zeroed.bytes, 0, zeroed.time, reason);
        }
        if self.threads > 0 {
            let (bytes, time) = (zeroed.ahead_bytes, zeroed.ahead_time);
            say(Phase::ZeroingAhead, bytes, 0, time, "");
            say(
                Phase::ZeroingStalls,
                0,
                zeroed.stalls,
                zeroed.stalled_time,
                "",
            );
        }
    }

    fn take_ahead(&self) -> (u64, u64) {
        let (bytes, ticks) = &self.did_ahead;
        (
            bytes.swap(0, Ordering::Relaxed),
            ticks.swap(0, Ordering::Relaxed),
        )
    }
}

fn place(mode: Mode) -> u8 {
    MODES.iter().position(|&one| one == mode).unwrap_or(0) as u8
}

impl Drop for Zeroing {
    fn drop(&mut self) {
        if let Some((states, count)) = self.states {
            // SAFETY: `new` mapped so many bytes.
            unsafe { memory::unmap(states.cast(), memory::whole_pages(count).unwrap_or(count)) };
        }
    }
}

/// What a zeroing thread does next.
enum Next<'a> {
    Block,
    /// It is far enough ahead.
    Sleep(Drowsy<'a>),
    Nothing,
}

/// A zeroing thread is inside the gate; it waited while the world was stopped.
struct Inside<'a>(&'a PollGate);

impl Inside<'_> {
    fn new(gate: &PollGate) -> Inside<'_> {
        gate.enter();
        Inside(gate)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Gives a mutator a piece of eden to allocate in, and sees to it that it is zero, unless `unwritten`: an object that
    /// the caller writes takes all of it.
    pub(super) fn refill(&self, mutator: &mut Mutator, piece: (Address, usize), unwritten: bool) {
        let zeroing = &self.zeroing;
        let (start, bytes) = piece;
        let end = start.add(bytes);
        mutator.tlab.refill(piece);
        mutator.tlab_end = end;
        mutator.zeroes = 0;
        let stale = end.min(zeroing.virgin()).max(start).offset_from(start);
        if stale == 0 {
            return;
        }
        match zeroing.mode() {
            Mode::HotPath => mutator.zeroes = 1,
            Mode::Window => mutator.tlab.limit = start,
            Mode::Concurrent => self.ensure(mutator, start, stale),
            Mode::Bulk | Mode::NonTemporal if unwritten => {}
            Mode::Bulk | Mode::NonTemporal => {
                let ticks = clock::ticks();
                // SAFETY: the piece is this mutator's alone.
                unsafe { zeroing.kernel().zero(start, stale) };
                mutator.zeroed.time += clock::ticks_since(ticks);
                mutator.zeroed.bytes += stale as u64;
            }
        }
    }

    /// The blocks of a piece are zeroed when this returns.
    fn ensure(&self, mutator: &mut Mutator, start: Address, bytes: usize) {
        let zeroing = &self.zeroing;
        let (claims, kernel) = (zeroing.claims(), zeroing.soon.kernel);
        let last = zeroing.block_of(start.add(bytes - 1));
        for block in zeroing.block_of(start)..=last {
            if claims.is_done(block) {
                continue;
            }
            let began = clock::ticks();
            let mut own = 0;
            let how = claims.ensure(block, PATIENCE, || {
                let ticks = clock::ticks();
                let (from, bytes) = zeroing.part(block);
                // SAFETY: the block is claimed: nobody allocates in what was free of it when the round began.
                unsafe { kernel.zero(from, bytes) };
                own = clock::ticks_since(ticks);
                mutator.zeroed.bytes += bytes as u64;
            });
            mutator.zeroed.time += own;
            if how != Done::Before {
                mutator.zeroed.stalled_time += clock::ticks_since(began + own);
                mutator.zeroed.stalls += 1;
            }
        }
        zeroing.note_taken();
    }

    /// Room in the mutator's buffer beyond the window that is zero, under [`Mode::Window`]. An object that its caller
    /// writes is not zeroed first.
    #[inline]
    pub(super) fn next_window(
        &self,
        mutator: &mut Mutator,
        bytes: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        let (limit, end) = (mutator.tlab.limit, mutator.tlab_end);
        if limit == end || bytes > mutator.tlab_left() {
            return None;
        }
        let object_end = mutator.tlab.cursor.add(bytes);
        let next = object_end.max(limit.add(self.zeroing.window)).min(end);
        let from = match fresh {
            Fresh::Zeroed => limit,
            Fresh::Unwritten => limit.max(object_end),
        };
        let stale = next.offset_from(from);
        mutator.windows += 1;
        let timed = mutator.windows.is_multiple_of(TIMED_WINDOWS);
        let began = if timed { clock::ticks() } else { 0 };
        // SAFETY: the buffer is this mutator's, and nothing was allocated above its limit.
        unsafe { self.zeroing.soon.kernel.zero(from, stale) };
        if timed {
            mutator.zeroed.time += clock::ticks_since(began) * TIMED_WINDOWS;
        }
        mutator.zeroed.bytes += stale as u64;
        mutator.tlab.limit = next;
        mutator.tlab.allocate(bytes)
    }

    /// What a zeroing thread does as long as the heap exists: the `index`-th, from 0. Returns when they are dismissed.
    pub fn zeroing_thread(&self, index: usize) {
        let zeroing = &self.zeroing;
        let mut seen = None;
        while let Some(round) = zeroing.rounds.next(seen) {
            seen = Some(round);
            let inside = Inside::new(&self.gate);
            let mut turn = match zeroing.policy {
                Policy::ConcurrentStatic => zeroing.cursor.part(index, zeroing.threads),
                _ => Turn::Racing,
            };
            drop(inside);
            loop {
                let inside = Inside::new(&self.gate);
                let same = zeroing.rounds.is(round);
                let next = if same {
                    self.zero_next(&mut turn)
                } else {
                    Next::Nothing
                };
                drop(inside);
                match next {
                    Next::Block => {}
                    Next::Nothing => break,
                    Next::Sleep(drowsy) => drowsy.sleep(),
                }
            }
            if faults::armed(FaultPoint::ZeroingThread) {
                return;
            }
        }
    }

    /// Zeroes a block of the round, inside the gate.
    fn zero_next(&self, turn: &mut Turn) -> Next<'_> {
        let zeroing = &self.zeroing;
        let end = Address::new(zeroing.range[1].load(Ordering::Relaxed));
        let start = zeroing.eden.add(turn.peek(&zeroing.cursor) * BLOCK);
        if start >= end {
            return Next::Nothing;
        }
        let far = || start.offset_from(zeroing.eden) > self.nursery.eden.used() + zeroing.lead;
        if far() {
            let drowsy = zeroing.taken.drowse();
            if far() {
                return Next::Sleep(drowsy);
            }
        }
        let block = turn.take(&zeroing.cursor);
        if zeroing.eden.add(block * BLOCK) >= end {
            return Next::Nothing;
        }
        let Some(claim) = zeroing.claims().claim(block) else {
            return Next::Block;
        };
        if faults::armed(FaultPoint::ZeroingLate) {
            threads::sleep_ns(20_000_000);
            return Next::Block;
        }
        let (from, bytes) = zeroing.part(block);
        let ticks = clock::ticks();
        // SAFETY: the block is claimed: nobody allocates in what was free of it when the round began.
        unsafe { zeroing.ahead.kernel.zero(from, bytes) };
        claim.finish();
        let (all, took) = &zeroing.did_ahead;
        all.fetch_add(bytes as u64, Ordering::Relaxed);
        took.fetch_add(clock::ticks_since(ticks), Ordering::Relaxed);
        Next::Block
    }

    /// After a collection: how eden is zeroed until the next one.
    pub(super) fn decide_zeroing(
        &self,
        state: &mut State,
        record: &mut Record,
        collection: &Collection,
    ) {
        let zeroing = &self.zeroing;
        let (zeroed, active) = self.collect_zeroed(state);
        let processors = zeroing.processors;
        let decision = match zeroing.policy {
            Policy::Adaptive => decide::adaptive(active, processors),
            Policy::Auto => {
                let found = Nursery {
                    mode: zeroing.mode(),
                    mutator_ns: collection.mutator_ns,
                    stalled_ns: zeroed.stalled_time,
                    allocated: collection.allocated,
                    active,
                    processors,
                    contended: state.contention.is_high(collection.now_ns),
                    block_ns: (zeroed.time << 20).checked_div(zeroed.bytes).unwrap_or(0),
                    past_ns: zeroing.past_ns,
                };
                let decision;
                (state.zeroing_trials, decision) = decide::next(state.zeroing_trials, &found);
                decision
            }
            _ => decide::fixed(zeroing.mode()),
        };
        zeroing.report(record, &zeroed, decision.reason);
        let eden = &self.nursery.eden;
        zeroing.note_top(eden.top());
        zeroing.begin_round(decision.mode, eden.top(), eden.end());
    }

    /// What was zeroed since the last time, with times in nanoseconds, and how many mutators allocated meanwhile; in a
    /// stopped world.
    fn collect_zeroed(&self, state: &mut State) -> (Zeroed, usize) {
        let mut zeroed = core::mem::take(&mut state.zeroed_by_others);
        let mut active = 0;
        for mutator in &mut state.mutators {
            // SAFETY: attached mutators exist, and they are stopped.
            let mutator = unsafe { mutator.as_mut() };
            zeroed.add(core::mem::take(&mut mutator.zeroed));
            if mutator.allocated_bytes != mutator.allocated_before {
                mutator.allocated_before = mutator.allocated_bytes;
                active += 1;
            }
        }
        (zeroed.ahead_bytes, zeroed.ahead_time) = self.zeroing.take_ahead();
        state.zeroed.add(zeroed);
        (self.zeroing.in_nanoseconds(zeroed), active)
    }
}
