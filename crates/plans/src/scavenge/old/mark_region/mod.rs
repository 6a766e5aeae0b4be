//! Mark-region of the old generation (Immix, PLDI 2008): objects mark lines, and a sweep looks at lines alone. Marking
//! evacuates sparse blocks and promotes young objects, as far as blocks are free.
//!
//! Which blocks are evacuated, and how many blocks scavenges leave to the next evacuation, is decided by
//! [`evacuation`](crate::scavenge::decide::evacuation). What finds no block stays where it is. So an evacuation is never a
//! reason for another collection. Young objects that stayed are promoted into free lines behind the sweep. If these have
//! no room, or what is free is of no use otherwise, everything is slid together after all.

mod trace;
pub(in crate::scavenge) mod tracing;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::{Event, Phase};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::bump::{BumpRegion, LocalBuffer};
use gleaner_spaces::precise::large_objects::Generation;
use gleaner_spaces::precise::mark_region::MarkRegion as Lines;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::generation::{FRAGMENTED, NO_HOLES, OldGeneration};
use crate::scavenge::decide::evacuation::{self, Measurements};
use crate::scavenge::heap::NO_ROOM;
use crate::scavenge::trace::{Item, Trace, WorkerState};
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

/// Free lines are filled, and sparse blocks are evacuated.
pub struct MarkRegion;

impl<F: SlotFormat> OldGeneration<F> for MarkRegion {
    fn collect(
        &self,
        heap: &Scavenge<F>,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
        why: &'static str,
    ) -> Option<&'static str> {
        let lines = heap.mark_region.as_ref();
        let lines = lines.expect("a heap with this policy has lines");
        lines.hold(world, 0);
        lines.begin_marking(world, &heap.old.region);
        // What a scavenge has given up left headers that say of young objects that they stay. Around those that keep their
        // places a scavenge promotes the others.
        let emptied = why != NO_ROOM && !heap.keeps_young();
        let moves = record.step(Phase::Evacuation, |event| {
            heap.choose_candidates(state, world, (lines, emptied), event)
        });
        let all_promoted = record.step(Phase::Mark, |event| {
            let (objects, stayed) = match moves {
                false => heap.mark_lines::<false>(state, world, lines, false),
                true => heap.mark_lines::<true>(state, world, lines, emptied),
            };
            event.reason = why;
            event.objects = objects as u64;
            event.bytes = heap.finish_copying(state) as u64;
            event.workers = state.crew_sizes.workers as u32;
            // What stayed in the old space is old anyway.
            emptied && (moves && !stayed || heap.in_place().is_some())
        });
        heap.verify(state, world, record, Edge::Marked);
        record.step(Phase::Reclaim, |event| {
            heap.sweep_lines(state, world, lines, Swept::All);
            match all_promoted {
                true => heap.adopt_promoted(world),
                false => heap.reclaim_beside_old(world),
            }
            event.bytes = (heap.old_space_room() + heap.old.holes()) as u64;
        });
        if heap.in_place().is_some() {
            // Nothing is young.
            heap.clean_all_cards(world);
        }
        if all_promoted {
            heap.finish_promoting(state, world, record);
        } else {
            let (complete, promoted) = heap.promote_all(state, world, record);
            if !complete {
                return Some(NO_HOLES);
            }
            state.last_full.young_lived += promoted;
            state.last_full.old_lived += promoted;
        }
        let found = heap.measure_blocks(state, lines);
        lines.hold(world, evacuation::headroom(&found));
        let is_fragmented = heap.is_fragmented(state, world, lines, why == NO_ROOM);
        is_fragmented.then_some(FRAGMENTED)
    }

    fn slides(&self) -> bool {
        false
    }
}

/// What a sweep looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::scavenge) enum Swept {
    /// All blocks, after everything was marked.
    All,
    /// Blocks with new objects, after these were marked.
    New,
}

/// Sweeps strips of blocks: the tasks.
struct Sweeping<'a> {
    lines: &'a Lines,
    region: &'a BumpRegion,
    what: Swept,
}

impl Trace for Sweeping<'_> {
    fn task(&self, _: &mut WorkerState, task: usize) {
        match self.what {
            Swept::All => self.lines.sweep(self.region, task),
            Swept::New => self.lines.sweep_new(self.region, task),
        }
    }

    fn item(&self, _: &mut WorkerState, _: Item) {}
}

impl<F: SlotFormat> Scavenge<F> {
    fn measure_blocks(&self, state: &State, lines: &Lines) -> Measurements {
        let region = &self.old.region;
        let found = lines.occupancy(region);
        Measurements {
            sparse: found.sparse,
            in_use: found.in_use,
            free: self.old_space_room() / BLOCK_BYTES,
            vacant: lines.vacant_bytes() / BLOCK_BYTES,
            holes: self.old.holes() / BLOCK_BYTES,
            workers: state.crew_sizes.workers,
            may_move: state.evacuates,
            always: self.config.options.stress > 0,
        }
    }

    /// Decides which blocks are evacuated, and reserves blocks for copies: those of young objects, too, if the nursery is `emptied`.
    /// Whether there are any.
    fn choose_candidates(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        (lines, emptied): (&Lines, bool),
        event: &mut Event,
    ) -> bool {
        let region = &self.old.region;
        self.set_old_end(&mut world.allocator());
        let found = self.measure_blocks(state, lines);
        let uses = &mut state.uses;
        uses.most_blocks = uses.most_blocks.max(found.in_use * BLOCK_BYTES);
        let decision = evacuation::candidates(&found);
        let young = match emptied {
            true => self.nursery.used().div_ceil(BLOCK_BYTES) + found.workers,
            false => 0,
        };
        let copies = decision.copies + evacuation::blocks_for_young(&found, &decision, young);
        lines.evacuate(world, region, decision.level, copies);
        self.pins.for_each_kept(|object| {
            if region.contains(object) {
                lines.spare(world, object);
            }
        });
        let bytes = copies * BLOCK_BYTES;
        self.make_old_room(&mut world.allocator(), bytes);
        event.objects = decision.blocks as u64;
        event.bytes = bytes as u64;
        event.reason = decision.reason;
        copies > 0
    }

    /// Behind marking: buffers for copies are given up, and what lives in the old space is summed up. How many bytes were
    /// evacuated.
    fn finish_copying(&self, state: &mut State) -> usize {
        let (mut evacuated, mut promoted, mut stayed) = (0, 0, 0);
        for local in state.engine.worker_states() {
            local.evacuation = LocalBuffer::default();
            evacuated += core::mem::take(&mut local.evacuated);
            promoted += core::mem::take(&mut local.promoted);
            stayed += core::mem::take(&mut local.lived);
        }
        state.last_full.young_lived = promoted;
        state.last_full.old_lived = evacuated + promoted + stayed;
        self.note_old_top();
        evacuated
    }

    /// What stayed where it was to be copied was forwarded to itself, and is normal from now on. The bits say what lives.
    pub(in crate::scavenge) fn end_forwarding(&self, lines: &Lines) {
        let bits = self.bits();
        let end = |low: Address, high: Address| {
            let words = bits.word_of(low)..bits.word_of(high);
            for object in words.flat_map(|word| bits.starts(word)) {
                // SAFETY: a marked object, in a stopped world between phases.
                unsafe {
                    let header = header::load(object, Ordering::Relaxed);
                    header::store(object, header.normal());
                }
            }
        };
        lines.for_each_candidate(&self.old.region, end);
        for region in self.nursery.regions().iter() {
            end(
                region.space.start(),
                region.space.top().align_up(WORD_BYTES),
            );
        }
    }

    /// Everything that was young was promoted by the marking. Large objects are old from now on, or free.
    fn adopt_promoted(&self, world: &mut WorldStopped<'_>) {
        self.sweep_large(world, Generation::Old);
        self.sweep_large(world, Generation::Young);
        self.sweep_arraylets(world, true);
    }

    /// Sweeps the old space by its lines, strip by strip.
    pub(in crate::scavenge) fn sweep_lines(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        lines: &Lines,
        what: Swept,
    ) {
        let region = &self.old.region;
        let sweeping = Sweeping {
            lines,
            region,
            what,
        };
        let strips = lines.strips(region);
        if strips > 0 {
            let workers = state.crew_sizes.workers.min(strips);
            state.engine.run(self.crew, workers, strips, &sweeping);
        }
        lines.finish_sweeping(world, &self.old);
        // Nobody has to look there for what cards say of the dead.
        lines.for_each_vacant(region, |low, high| self.cards.clean(world, low, high));
        if self.config.options.poison {
            lines.for_each_free(region, |start, bytes| self.poison(start, bytes));
        }
    }
}
