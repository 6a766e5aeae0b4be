//! How mutators and zeroing threads zero eden.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Zeroing as Policy;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::{clock, threads};
use gleaner_work::{Claims, Done};

use super::ahead::{Blocks, Rests};
use super::fragment::ZeroingFragment;
use super::state::fragment_of;
use super::time::{Whose, zero_timed};
use super::zeroed::Zeroed;
use crate::scavenge::allocate::Fresh;
use crate::scavenge::decide::zeroing::{self as decide, Mode, Nursery};
use crate::scavenge::mutator::Mutator;
use crate::scavenge::resize::Collection;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

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
    pub(in crate::scavenge) fn refill(
        &self,
        mutator: &Mutator,
        piece: (Address, usize),
        unwritten: bool,
    ) {
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

    /// As [`Scavenge::refill`], with a piece of a gap: it lies below what is zeroed ahead, and was written to before.
    pub(in crate::scavenge) fn refill_gap(
        &self,
        mutator: &Mutator,
        piece: (Address, usize),
        unwritten: bool,
    ) {
        let (start, bytes) = piece;
        mutator.tlab.refill(piece);
        mutator.tlab_end.set(start.add(bytes));
        mutator.zeroes.set(0);
        if !unwritten {
            // SAFETY: the piece is this mutator's alone.
            let zero = || unsafe { self.zeroing.kernel().zero(start, bytes) };
            self.zeroing.zero_as_mutator(mutator, bytes, zero);
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
    pub(in crate::scavenge) fn next_window(
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
    pub(in crate::scavenge) fn decide_zeroing(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        collection: &Collection,
    ) {
        let zeroing = &self.zeroing;
        let (zeroed, active) = self.collect_zeroed(state, world);
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
        zeroing.begin_round(world, decision.mode, &self.nursery.eden);
    }

    /// What was zeroed since the last time, with times in nanoseconds, and how many mutators allocated meanwhile.
    fn collect_zeroed(&self, state: &mut State, world: &WorldStopped<'_>) -> (Zeroed, usize) {
        let mut zeroed = core::mem::take(&mut state.zeroed_by_others);
        let mut active = 0;
        for mutator in state.mutators.stopped(world).iter() {
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
