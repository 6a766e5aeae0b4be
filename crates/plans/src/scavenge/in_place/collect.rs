//! A collection of new objects: what lives is marked, and lines in which nothing new lives are free. Where little lives of a
//! block that had nothing old, that is copied together with others of its kind, as far as there are free blocks.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::clock;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::NEW_OBJECTS;
use crate::scavenge::decide::in_place::{self, New};
use crate::scavenge::old::Swept;
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// Collects new objects. It can do without room, so everything that is collected after it was to be collected anyway.
    pub(in crate::scavenge) fn collect_new(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) {
        let (lines, pieces) = (self.lines(), self.in_place());
        let pieces = pieces.expect("new objects lie in the old space");
        let lines = lines.expect("the old space has lines where new objects lie in it");
        self.note_old_top();
        record.step(Phase::Mark, |event| {
            let started = clock::monotonic_ns();
            state.crew_sizes.begin(false);
            match self.choose_new_blocks(state, world, lines) {
                false => _ = self.mark_new::<false>(state, world, lines),
                true => {
                    if self.mark_new::<true>(state, world, lines) {
                        self.end_forwarding(lines);
                    }
                    lines.end_evacuation_of_new(world, &self.old.region);
                    self.note_old_top();
                }
            }
            let took = clock::monotonic_ns() - started;
            let (mut bytes, mut objects) = (0, 0);
            for local in state.engine.worker_states() {
                bytes += core::mem::take(&mut local.promoted);
                objects += core::mem::take(&mut local.objects);
            }
            state.totals.promoted_bytes += bytes as u64;
            state.lately.note_copied(0, bytes, 0, took);
            state.growth.note_survival(bytes, pieces.taken());
            state.crew_sizes.end(false, bytes, took);
            event.bytes = bytes as u64;
            event.objects = objects as u64;
            event.workers = state.crew_sizes.workers as u32;
            event.reason = NEW_OBJECTS;
        });
        if self.pins.keeps() {
            let bits = self.bits();
            self.pins.retain(world, |object| bits.is_marked(object));
        }
        record.step(Phase::Reclaim, |event| {
            self.sweep_lines(state, world, lines, Swept::New);
            event.bytes = (self.old_space_room() + self.old.holes()) as u64;
        });
        state.totals.scavenges += 1;
        self.verify(state, world, record, Edge::Promoted);
    }

    /// Chooses blocks out of which new objects are copied, and reserves others for them, if that pays. Whether there are any.
    fn choose_new_blocks(
        &self,
        state: &State,
        world: &mut WorldStopped<'_>,
        lines: &MarkRegion,
    ) -> bool {
        if !state.evacuates {
            return false;
        }
        let region = &self.old.region;
        self.set_old_end(&mut world.allocator());
        let copies = in_place::copies(&New {
            blocks: lines.choose_new(world, region),
            survival: state.growth.survival,
            free: self.old_space_room() / BLOCK_BYTES,
            workers: state.crew_sizes.workers,
            always: self.config.options.stress > 0,
        });
        if copies == 0 {
            lines.end_evacuation_of_new(world, region);
            return false;
        }
        self.pins.for_each_kept(|object| {
            if region.contains(object) {
                lines.spare_new(world, object);
            }
        });
        lines.evacuate_new(world, copies);
        self.make_old_room(&mut world.allocator(), copies * BLOCK_BYTES);
        true
    }
}
