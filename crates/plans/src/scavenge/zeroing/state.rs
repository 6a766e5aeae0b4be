//! How eden is to be zeroed, and what that came to.

use alloc::vec::Vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::Zeroing as Policy;
use gleaner_base::options::ZeroingKernel;
use gleaner_base::sync::{AtomicU8, AtomicU64, Ordering};
use gleaner_mem::Address;
use gleaner_mem::zero::Choice;
use gleaner_mem::zero::kernels::Kernel;
use gleaner_mem::zero::{self, Processor};
use gleaner_os::{clock, contention};
use gleaner_spaces::precise::fragmented::Fragmented;

use super::ahead::{Ahead, Design};
use super::calibration::calibration;
use super::fragment::ZeroingFragment;
use super::time::{Whose, zero_timed};
use super::zeroed::Zeroed;
use crate::scavenge::Config;
use crate::scavenge::decide::zeroing::Mode;
use crate::scavenge::mutator::Mutator;
use crate::shared::record::Record;

/// Rounds of spinning, 10 to 50 microseconds, in which mutators take another buffer or will not soon: a sleep, with the
/// call that ends it, costs as much.
pub(super) const SPINS: u32 = 500;
/// How often at most the system is asked who waits for processors, in nanoseconds.
pub(super) const CONTENTION_INTERVAL: u64 = 100_000_000;

/// Whether others want the processors. The collector's, in stopped worlds.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::scavenge) struct Contention {
    /// When the system was asked last, and what it said.
    pub(super) asked_ns: u64,
    pub(super) waited_ns: u64,
    pub(super) high: bool,
}

impl Contention {
    /// What is looked at is opened now, for a program may not open files later.
    pub(in crate::scavenge) fn new(config: &Config) -> Contention {
        if config.options.zeroing == Policy::Auto {
            contention::watch_waiting();
        }
        Contention::default()
    }

    /// Whether threads waited for a processor for more than a tenth of the time lately.
    pub(super) fn is_high(&mut self, now_ns: u64) -> bool {
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
    pub(super) policy: Policy,
    /// What zeroes memory that is used soon.
    pub(super) soon: Choice,
    /// What zeroes past the caches.
    pub(super) past: Choice,
    /// What zeroing threads use.
    pub(super) ahead: Choice,
    /// How long `past` takes for a MB, in nanoseconds; 0 when it was not measured.
    pub(super) past_ns: u64,
    pub(super) window: usize,
    pub(super) lead: usize,
    pub(super) processors: usize,
    /// A [`Mode`], by its place in [`MODES`]. Written in stopped worlds, read by mutators and zeroing threads.
    pub(super) mode: AtomicU8,
    /// What zeroing threads did, as [`Zeroed::ahead`]; each adds its own.
    pub(super) did_ahead: [AtomicU64; 5],
    /// The time-stamp counter and the clock when the heap was made.
    pub(super) began: (u64, u64),
    /// What is known of each fragment of eden.
    pub(super) fragments: Vec<ZeroingFragment>,
}

pub(super) const MODES: [Mode; 5] = [
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
pub(super) fn threads_of_each(policy: Policy, wanted: u32) -> usize {
    match policy {
        Policy::HotPath | Policy::Window | Policy::Bulk | Policy::NonTemporal => 0,
        Policy::Concurrent | Policy::Adaptive | Policy::Auto => 1,
        Policy::ConcurrentStatic | Policy::ConcurrentRacing => wanted.max(1) as usize,
    }
}

impl Zeroing {
    /// For an eden of `bytes` bytes from `eden` on, none of which was touched; `None` when the system gives no memory.
    pub(in crate::scavenge) fn new(
        config: &Config,
        eden: Address,
        bytes: usize,
    ) -> Option<Zeroing> {
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
    pub(in crate::scavenge) fn kernel(&self) -> Kernel {
        match self.mode() {
            Mode::NonTemporal => self.past.kernel,
            _ => self.soon.kernel,
        }
    }

    /// With all times in nanoseconds.
    pub(in crate::scavenge) fn in_nanoseconds(&self, zeroed: Zeroed) -> Zeroed {
        Zeroed {
            stalled_time: self.nanoseconds(zeroed.stalled_time),
            ..zeroed
        }
    }

    /// A mutator zeroes `bytes` bytes by `work`, which are counted and timed.
    pub(in crate::scavenge) fn zero_as_mutator(
        &self,
        mutator: &Mutator,
        bytes: usize,
        work: impl FnOnce(),
    ) {
        let nanoseconds = |ticks| self.nanoseconds(ticks);
        mutator.note_zeroed(|zeroed| {
            zero_timed(zeroed, Whose::Mutators, bytes, nanoseconds, work);
        });
    }

    /// Nanoseconds of `ticks` ticks.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        let passed = clock::ticks_since(self.began.0).max(1);
        let ns = clock::monotonic_ns() - self.began.1;
        (u128::from(ticks) * u128::from(ns) / u128::from(passed)) as u64
    }

    /// The memory of this node that mutators allocate in and zeroing threads zero.
    pub(super) fn fragment(&self, node: usize) -> &ZeroingFragment {
        &self.fragments[node]
    }

    /// Mutators have taken the fragments of eden up to their tops.
    pub(in crate::scavenge) fn note_taken(&self, world: &mut WorldStopped<'_>, eden: &Fragmented) {
        for (fragment, space) in self.fragments.iter().zip(eden.fragments()) {
            fragment.note_taken_up_to(world, space.top());
        }
    }

    /// The memory of eden's fragment of this node was given back from `end` on.
    pub(in crate::scavenge) fn note_released(
        &self,
        world: &mut WorldStopped<'_>,
        node: usize,
        end: Address,
    ) {
        self.fragments[node].note_released(world, end);
    }

    /// What the mode is from now on; what lies free in eden is zeroed in that mode.
    pub(super) fn begin_round(&self, world: &mut WorldStopped<'_>, mode: Mode, eden: &Fragmented) {
        self.mode.store(place(mode), Ordering::Relaxed);
        for (fragment, space) in self.fragments.iter().zip(eden.fragments()) {
            fragment.note_top(world, space.top());
            fragment.begin_round(world, mode == Mode::Concurrent, space.top(), space.end());
        }
    }

    /// Wakes the zeroing threads for the round; the world runs again.
    pub(in crate::scavenge) fn wake(&self) {
        if self.threads() > 0 && self.mode() == Mode::Concurrent {
            self.all_rounds().for_each(Ahead::wake);
        }
    }

    pub(super) fn threads(&self) -> usize {
        self.fragments[0].rounds.design().threads
    }

    pub(super) fn all_rounds(&self) -> impl Iterator<Item = &Ahead> {
        self.fragments.iter().map(|fragment| &fragment.rounds)
    }

    /// Zeroing threads end. The caller joins them.
    pub fn dismiss(&self) {
        self.all_rounds().for_each(Ahead::dismiss);
    }

    /// In a forked child.
    pub(in crate::scavenge) fn forget_threads_after_fork(&self) {
        self.all_rounds().for_each(Ahead::forget_threads_after_fork);
    }

    /// What happened since the last collection, and what was decided. Without a choice and with nothing to count there
    /// is nothing to say.
    pub(super) fn report(&self, record: &mut Record, zeroed: &Zeroed, reason: &'static str) {
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

    pub(super) fn take_ahead(&self, into: &mut Zeroed) {
        let [bytes, time, timed, sleeps, spared] = &self.did_ahead;
        into.ahead_bytes += bytes.swap(0, Ordering::Relaxed);
        into.ahead_time += time.swap(0, Ordering::Relaxed);
        into.ahead_timed += timed.swap(0, Ordering::Relaxed);
        into.sleeps += sleeps.swap(0, Ordering::Relaxed);
        into.spared_sleeps += spared.swap(0, Ordering::Relaxed);
    }

    /// Adds what a zeroing thread did since it last did so.
    pub(super) fn note_ahead(&self, own: &Zeroed, noted: &mut Zeroed) {
        let counts = own.ahead().into_iter().zip(noted.ahead());
        for (all, (now, before)) in self.did_ahead.iter().zip(counts) {
            if now != before {
                all.fetch_add(now - before, Ordering::Relaxed);
            }
        }
        *noted = *own;
    }
}

pub(super) fn place(mode: Mode) -> u8 {
    MODES.iter().position(|&one| one == mode).unwrap_or(0) as u8
}
