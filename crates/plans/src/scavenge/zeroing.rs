//! Zeroing fresh memory of eden (OOPSLA 2011): by each allocation, by the mutator that takes a buffer, or by threads of
//! their own.
//!
//! After each collection a [`Mode`] is chosen, for the nursery until the next. A mutator that takes a buffer prepares
//! it as the mode says; its record tells it whether it has to zero each object itself. Zeroing threads work through the
//! blocks of eden from its start; a mutator that needs a block to which they have not come zeroes it itself.
//!
//! # Invariants
//! - What is handed out reads as zero, or the mutator's `zeroes` is not 0 (I2). Under [`Mode::Window`] that holds up to
//!   the limit of its buffer.
//! - A fragment of eden at and above its `virgin` was never written to since the system gave it: it reads as zero
//!   (`zeroing_fragment`).
//! - [`super::ahead`] says which thread zeroes a block ahead, and which waits for that.

use alloc::vec::Vec;

use gleaner_base::events::Phase;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Zeroing as Policy;
use gleaner_base::options::ZeroingKernel;
use gleaner_base::sync::{AtomicU8, AtomicU64, Ordering};
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero::Choice;
use gleaner_mem::zero::kernels::Kernel;
use gleaner_mem::zero::{self, Processor};
use gleaner_os::{clock, contention, threads};
use gleaner_spaces::precise::fragmented::Fragmented;
use gleaner_work::{Claims, Done};

use super::ahead::{Ahead, Blocks, Design, Rests};
use super::allocate::Fresh;
use super::calibration::calibration;
use super::mutator::Mutator;
use super::resize::Collection;
use super::zeroing_fragment::ZeroingFragment;
use super::zeroing_time::{Whose, zero_timed};
use super::{Config, Scavenge, State};
use crate::scavenge::decide::zeroing::{self as decide, Mode, Nursery};
use crate::shared::record::Record;

/// Bytes of a block that is zeroed at once: as many as a TLAB has, unless told otherwise.
pub const BLOCK: usize = 32 << 10;
/// Rounds of spinning, 10 to 50 microseconds, in which mutators take another buffer or will not soon: a sleep, with the
/// call that ends it, costs as much.
const SPINS: u32 = 500;
/// How often at most the system is asked who waits for processors, in nanoseconds.
const CONTENTION_INTERVAL: u64 = 100_000_000;

/// What zeroing came to. What each allocation zeroes by itself is not counted: that would take longer than zeroing.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Zeroed {
    /// Bytes that mutators zeroed in blocks, buffers and windows.
    pub bytes: u64,
    /// Bytes that zeroing threads zeroed.
    pub ahead_bytes: u64,
    /// Processor time of mutators for that, in nanoseconds, sampled (`zeroing_time`); its share of all processor time
    /// is DirectZeroingCost (OOPSLA 2011, section 4.3).
    pub time: u64,
    /// Processor time of zeroing threads.
    pub ahead_time: u64,
    /// Bytes that `time` is of; the last of `bytes` may wait for the next sample.
    pub timed: u64,
    /// Bytes that `ahead_time` is of.
    pub ahead_timed: u64,
    /// How long mutators waited for zeroing threads, by the clock: in ticks of the time-stamp counter, or in
    /// nanoseconds where totals are given out.
    pub stalled_time: u64,
    /// How often they did.
    pub stalls: u64,
    /// How often zeroing threads that keep a bounded lead slept.
    pub sleeps: u64,
    /// How often a buffer was taken while they spun, so that they need not.
    pub spared_sleeps: u64,
}

impl Zeroed {
    /// What zeroing threads did.
    fn ahead(&self) -> [u64; 5] {
        [
            self.ahead_bytes,
            self.ahead_time,
            self.ahead_timed,
            self.sleeps,
            self.spared_sleeps,
        ]
    }

    /// The last pieces of a nursery were not timed: they took what the timed ones took.
    fn extend_to_all(&mut self) {
        let extend = |time: &mut u64, timed: &mut u64, bytes: u64| {
            if *timed > 0 {
                *time = (u128::from(*time) * u128::from(bytes) / u128::from(*timed)) as u64;
                *timed = bytes;
            }
        };
        extend(&mut self.time, &mut self.timed, self.bytes);
        extend(
            &mut self.ahead_time,
            &mut self.ahead_timed,
            self.ahead_bytes,
        );
    }

    /// Adds what came since.
    pub fn add(&mut self, more: Zeroed) {
        self.bytes += more.bytes;
        self.ahead_bytes += more.ahead_bytes;
        self.time += more.time;
        self.ahead_time += more.ahead_time;
        self.timed += more.timed;
        self.ahead_timed += more.ahead_timed;
        self.stalled_time += more.stalled_time;
        self.stalls += more.stalls;
        self.sleeps += more.sleeps;
        self.spared_sleeps += more.spared_sleeps;
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
    /// What is looked at is opened now, for a program may not open files later.
    pub(super) fn new(config: &Config) -> Contention {
        if config.options.zeroing == Policy::Auto {
            contention::watch_waiting();
        }
        Contention::default()
    }

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
    processors: usize,
    /// A [`Mode`], by its place in [`MODES`]. Written in stopped worlds, read by mutators and zeroing threads.
    mode: AtomicU8,
    /// What zeroing threads did, as [`Zeroed::ahead`]; each adds its own.
    did_ahead: [AtomicU64; 5],
    /// The time-stamp counter and the clock when the heap was made.
    began: (u64, u64),
    /// What is known of each fragment of eden.
    fragments: Vec<ZeroingFragment>,
}

const MODES: [Mode; 5] = [
    Mode::HotPath,
    Mode::Window,
    Mode::Bulk,
    Mode::NonTemporal,
    Mode::Concurrent,
];

/// How many zeroing threads a heap is to have.
pub fn wanted_threads(config: &Config) -> usize {
    config.cut.nodes * threads_of_each(config.options.zeroing, config.options.zeroing_threads)
}

/// Which memory node's fragment of eden a zeroing thread works on: as many as the design has on the first, and so on.
pub fn fragment_of(config: &Config, thread: usize) -> usize {
    thread * config.cut.nodes / wanted_threads(config).max(1)
}

/// How many zeroing threads each fragment of eden has.
fn threads_of_each(policy: Policy, wanted: u32) -> usize {
    match policy {
        Policy::HotPath | Policy::Window | Policy::Bulk | Policy::NonTemporal => 0,
        Policy::Concurrent | Policy::Adaptive | Policy::Auto => 1,
        Policy::ConcurrentStatic | Policy::ConcurrentRacing => wanted.max(1) as usize,
    }
}

impl Zeroing {
    /// For an eden of `bytes` bytes from `eden` on, none of which was touched; `None` when the system gives no memory.
    pub(super) fn new(config: &Config, eden: Address, bytes: usize) -> Option<Zeroing> {
        let processor = Processor::detect();
        let choose = |temporal| zero::choose(config.options.zeroing_kernel, temporal, &processor);
        let by_itself = config.options.zeroing == Policy::Auto
            && config.options.zeroing_kernel == ZeroingKernel::Auto;
        let measured = by_itself.then(calibration).flatten();
        let (soon, past, past_ns) = match measured {
            Some(found) => (found.soon, found.past, found.past_ns),
            None => (choose(true), choose(false), 0),
        };
        // What is zeroed a little ahead is used soon.
        let ahead = if config.options.zeroing_lead > 0 {
            soon
        } else {
            past
        };
        let threads = threads_of_each(config.options.zeroing, config.options.zeroing_threads);
        let processors = config.topology.processors;
        let design = Design {
            threads,
            is_static: config.options.zeroing == Policy::ConcurrentStatic,
            has_lead: config.options.zeroing_lead > 0,
            // A single processor is what the others need.
            spins: if processors > 1 { SPINS } else { 0 },
        };
        let each = bytes / config.cut.nodes;
        let fragments = (0..config.cut.nodes)
            .map(|node| {
                ZeroingFragment::new(eden.add(node * each), each, config.options.poison, design)
            })
            .collect::<Option<_>>()?;
        let first = match config.options.zeroing {
            Policy::HotPath | Policy::Auto => Mode::HotPath,
            Policy::Window => Mode::Window,
            Policy::Bulk => Mode::Bulk,
            Policy::NonTemporal => Mode::NonTemporal,
            _ => Mode::Concurrent,
        };
        Some(Zeroing {
            policy: config.options.zeroing,
            soon,
            past,
            ahead,
            past_ns,
            window: config.options.zeroing_window,
            lead: match config.options.zeroing_lead {
                0 => usize::MAX >> 1,
                lead => lead,
            },
            processors,
            mode: AtomicU8::new(place(first)),
            did_ahead: core::array::from_fn(|_| AtomicU64::new(0)),
            began: (clock::ticks(), clock::monotonic_ns()),
            fragments,
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

    /// With all times in nanoseconds.
    pub(super) fn in_nanoseconds(&self, zeroed: Zeroed) -> Zeroed {
        Zeroed {
            stalled_time: self.nanoseconds(zeroed.stalled_time),
            ..zeroed
        }
    }

    /// A mutator zeroes `bytes` bytes by `work`, which are counted and timed.
    pub(super) fn zero_as_mutator(&self, mutator: &Mutator, bytes: usize, work: impl FnOnce()) {
        let nanoseconds = |ticks| self.nanoseconds(ticks);
        mutator.note_zeroed(|zeroed| {
            zero_timed(zeroed, Whose::Mutators, bytes, nanoseconds, work);
        });
    }

    /// Nanoseconds of so many ticks.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        let passed = clock::ticks_since(self.began.0).max(1);
        let ns = clock::monotonic_ns() - self.began.1;
        (u128::from(ticks) * u128::from(ns) / u128::from(passed)) as u64
    }

    /// The memory of this node that mutators allocate in and zeroing threads zero.
    fn fragment(&self, node: usize) -> &ZeroingFragment {
        &self.fragments[node]
    }

    /// Mutators have taken the fragments of eden up to their tops. In a stopped world.
    pub(super) fn note_taken(&self, eden: &Fragmented) {
        for (fragment, space) in self.fragments.iter().zip(eden.fragments()) {
            fragment.note_taken_up_to(space.top());
        }
    }

    /// The memory of eden's fragment of this node was given back from `end` on. In a stopped world.
    pub(super) fn note_released(&self, node: usize, end: Address) {
        self.fragments[node].note_released(end);
    }

    /// What the mode is from now on; what lies free in eden is zeroed in that mode. In a stopped world.
    pub(super) fn begin_round(&self, mode: Mode, eden: &Fragmented) {
        self.mode.store(place(mode), Ordering::Relaxed);
        for (fragment, space) in self.fragments.iter().zip(eden.fragments()) {
            fragment.note_top(space.top());
            fragment.begin_round(mode == Mode::Concurrent, space.top(), space.end());
        }
    }

    /// Wakes the zeroing threads for the round; the world runs again.
    pub(super) fn wake(&self) {
        if self.threads() > 0 && self.mode() == Mode::Concurrent {
            self.all_rounds().for_each(Ahead::wake);
        }
    }

    fn threads(&self) -> usize {
        self.fragments[0].rounds.design().threads
    }

    fn all_rounds(&self) -> impl Iterator<Item = &Ahead> {
        self.fragments.iter().map(|fragment| &fragment.rounds)
    }

    /// Zeroing threads end. The caller joins them.
    pub fn dismiss(&self) {
        self.all_rounds().for_each(Ahead::dismiss);
    }

    /// In a forked child.
    pub(super) fn forget_threads_after_fork(&self) {
        self.all_rounds().for_each(Ahead::forget_threads_after_fork);
    }

    /// What happened since the last collection, and what was decided. Without a choice and with nothing to count there
    /// is nothing to say.
    fn report(&self, record: &mut Record, zeroed: &Zeroed, reason: &'static str) {
        let mut say = |phase, bytes, objects, duration, reason| {
            record.step(phase, |event| {
                (event.bytes, event.objects, event.reason) = (bytes, objects, reason);
                event.workers = self.threads() as u32;
            });
            record.set_last_duration(duration);
        };
        let is_first = self.fragments[0].rounds.is_first();
        let uses = |policies: &[Policy]| is_first && policies.contains(&self.policy);
        if is_first {
            say(Phase::ZeroingKernel, 0, 0, 0, self.soon.reason);
        }
        if uses(&[Policy::NonTemporal, Policy::Adaptive, Policy::Auto]) {
            say(Phase::ZeroingKernel, 0, 0, 0, self.past.reason);
        } else if is_first && self.threads() > 0 && self.ahead != self.soon {
            say(Phase::ZeroingKernel, 0, 0, 0, self.ahead.reason);
        }
        if self.policy != Policy::HotPath || zeroed.bytes > 0 {
            say(Phase::Zeroing, zeroed.bytes, 0, zeroed.time, reason);
        }
        if self.threads() > 0 {
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

    fn take_ahead(&self, into: &mut Zeroed) {
        let [bytes, time, timed, sleeps, spared] = &self.did_ahead;
        into.ahead_bytes += bytes.swap(0, Ordering::Relaxed);
        into.ahead_time += time.swap(0, Ordering::Relaxed);
        into.ahead_timed += timed.swap(0, Ordering::Relaxed);
        into.sleeps += sleeps.swap(0, Ordering::Relaxed);
        into.spared_sleeps += spared.swap(0, Ordering::Relaxed);
    }

    /// Adds what a zeroing thread did since it last did so.
    fn note_ahead(&self, own: &Zeroed, noted: &mut Zeroed) {
        let counts = own.ahead().into_iter().zip(noted.ahead());
        for (all, (now, before)) in self.did_ahead.iter().zip(counts) {
            if now != before {
                all.fetch_add(now - before, Ordering::Relaxed);
            }
        }
        *noted = *own;
    }
}

fn place(mode: Mode) -> u8 {
    MODES.iter().position(|&one| one == mode).unwrap_or(0) as u8
}

/// The blocks of a fragment of eden, for a zeroing thread: what it did, and how much of that it has added to the heap's
/// counts.
struct Eden<'a, F: SlotFormat> {
    scavenge: &'a Scavenge<F>,
    node: usize,
    did: Zeroed,
    noted: Zeroed,
}

impl<F: SlotFormat> Blocks for Eden<'_, F> {
    fn is_far(&self, block: usize) -> bool {
        let taken = self.scavenge.nursery.eden.fragments()[self.node].top();
        let zeroing = &self.scavenge.zeroing;
        zeroing
            .fragment(self.node)
            .is_far(block, taken, zeroing.lead)
    }

    fn zero(&mut self, block: usize, rests: Rests) -> bool {
        if faults::armed(FaultPoint::ZeroingLate) {
            threads::sleep_ns(20_000_000);
            return false;
        }
        let zeroing = &self.scavenge.zeroing;
        let (from, bytes) = zeroing.fragment(self.node).part(block);
        // SAFETY: the block is claimed: nobody allocates in what was free of it when the round began.
        let zero = || unsafe { zeroing.ahead.kernel.zero(from, bytes) };
        let nanoseconds = |ticks| zeroing.nanoseconds(ticks);
        zero_timed(&mut self.did, Whose::Ahead, bytes, nanoseconds, zero);
        (self.did.sleeps, self.did.spared_sleeps) = (rests.sleeps, rests.spared);
        zeroing.note_ahead(&self.did, &mut self.noted);
        true
    }

    fn ends(&self) -> bool {
        faults::armed(FaultPoint::ZeroingThread)
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Gives a mutator a piece of eden to allocate in, and sees to it that it is zero, unless `unwritten`: an object
    /// that the caller writes takes all of it.
    pub(super) fn refill(&self, mutator: &Mutator, piece: (Address, usize), unwritten: bool) {
        let zeroing = &self.zeroing;
        let (start, bytes) = piece;
        let end = start.add(bytes);
        mutator.tlab.refill(piece);
        mutator.tlab_end.set(end);
        mutator.zeroes.set(0);
        let fragment = zeroing.fragment(self.nursery.eden.node_of(start));
        let stale = end.min(fragment.virgin()).max(start).offset_from(start);
        if stale == 0 {
            return;
        }
        match zeroing.mode() {
            Mode::HotPath => mutator.zeroes.set(1),
            Mode::Window => mutator.tlab.limit.set(start),
            Mode::Concurrent => {
                // Above the round lies memory that the fragment did not have when it began.
                let ahead = fragment.round_end().min(start.add(stale)).max(start);
                let (ahead, rest) = (
                    ahead.offset_from(start),
                    start.add(stale).offset_from(ahead),
                );
                if ahead > 0 {
                    self.ensure(mutator, fragment, start, ahead);
                }
                if rest > 0 {
                    // SAFETY: the piece is this mutator's alone, and no zeroing thread comes there in this round.
                    let zero = || unsafe { zeroing.soon.kernel.zero(start.add(ahead), rest) };
                    zeroing.zero_as_mutator(mutator, rest, zero);
                }
            }
            Mode::Bulk | Mode::NonTemporal if unwritten => {}
            Mode::Bulk | Mode::NonTemporal => {
                // SAFETY: the piece is this mutator's alone.
                let zero = || unsafe { zeroing.kernel().zero(start, stale) };
                zeroing.zero_as_mutator(mutator, stale, zero);
            }
        }
    }

    /// The blocks of a piece of the fragment are zeroed when this returns.
    fn ensure(&self, mutator: &Mutator, fragment: &ZeroingFragment, start: Address, bytes: usize) {
        let zeroing = &self.zeroing;
        let (states, kernel) = (fragment.states(), zeroing.soon.kernel);
        let last = fragment.block_of(start.add(bytes - 1));
        for block in fragment.block_of(start)..=last {
            if Claims::new(states).is_done(block) {
                continue;
            }
            let began = clock::ticks();
            let mut own = 0;
            let how = fragment.rounds.ensure(states, block, || {
                let ticks = clock::ticks();
                let (from, bytes) = fragment.part(block);
                // SAFETY: the block is claimed: nobody allocates in what was free of it when the round began.
                zeroing.zero_as_mutator(mutator, bytes, || unsafe { kernel.zero(from, bytes) });
                own = clock::ticks_since(ticks);
            });
            if how != Done::Before {
                mutator.note_zeroed(|zeroed| {
                    zeroed.stalled_time += clock::ticks_since(began + own);
                    zeroed.stalls += 1;
                });
            }
        }
        fragment.rounds.note_taken();
    }

    /// Room in the mutator's buffer beyond the window that is zero, under [`Mode::Window`]. An object that its caller
    /// writes is not zeroed first.
    #[inline]
    pub(super) fn next_window(
        &self,
        mutator: &Mutator,
        bytes: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        let (limit, end) = (mutator.tlab.limit.get(), mutator.tlab_end.get());
        if limit == end || bytes > mutator.tlab_left() {
            return None;
        }
        let object_end = mutator.tlab.cursor.get().add(bytes);
        let next = object_end.max(limit.add(self.zeroing.window)).min(end);
        let from = match fresh {
            Fresh::Zeroed => limit,
            Fresh::Unwritten => limit.max(object_end),
        };
        let stale = next.offset_from(from);
        // SAFETY: the buffer is this mutator's, and nothing was allocated above its limit.
        let zero = || unsafe { self.zeroing.soon.kernel.zero(from, stale) };
        self.zeroing.zero_as_mutator(mutator, stale, zero);
        mutator.tlab.limit.set(next);
        mutator.tlab.allocate(bytes)
    }

    /// What a zeroing thread does as long as the heap exists: the `index`-th, from 0, of its fragment
    /// ([`fragment_of`]). Returns when they are dismissed.
    pub fn zeroing_thread(&self, index: usize) {
        let node = fragment_of(&self.config, index);
        let index = index % self.zeroing.threads();
        let mut eden = Eden {
            scavenge: self,
            node,
            did: Zeroed::default(),
            noted: Zeroed::default(),
        };
        let fragment = self.zeroing.fragment(node);
        let (ahead, states) = (&fragment.rounds, fragment.states());
        ahead.run(&self.gate, states, index, &mut eden);
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
                    fresh: zeroing.fragments.iter().map(ZeroingFragment::fresh).sum(),
                    active,
                    processors,
                    contended: state.contention.is_high(collection.now_ns),
                    block_ns: (zeroed.time << 20).checked_div(zeroed.timed).unwrap_or(0),
                    past_ns: zeroing.past_ns,
                };
                let decision;
                (state.zeroing_trials, decision) = decide::next(state.zeroing_trials, &found);
                decision
            }
            _ => decide::fixed(zeroing.mode()),
        };
        zeroing.report(record, &zeroed, decision.reason);
        zeroing.begin_round(decision.mode, &self.nursery.eden);
    }

    /// What was zeroed since the last time, with times in nanoseconds, and how many mutators allocated meanwhile; in a
    /// stopped world.
    fn collect_zeroed(&self, state: &mut State) -> (Zeroed, usize) {
        let mut zeroed = core::mem::take(&mut state.zeroed_by_others);
        let mut active = 0;
        for mutator in &state.mutators {
            // SAFETY: attached mutators exist, and they are stopped.
            let mutator = unsafe { mutator.as_ref() };
            zeroed.add(mutator.zeroed.take());
            let allocated = mutator.allocated_bytes.get();
            if mutator.allocated_before.replace(allocated) != allocated {
                active += 1;
            }
        }
        self.zeroing.take_ahead(&mut zeroed);
        zeroed.extend_to_all();
        state.zeroed.add(zeroed);
        (self.zeroing.in_nanoseconds(zeroed), active)
    }
}
