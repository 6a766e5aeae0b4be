//! A collection of new objects: what lives is marked, and lines in which nothing new lives are free.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::clock;

use super::NEW_OBJECTS;
use crate::scavenge::old::Swept;
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};
use crate::shared::record::Record;

impl<F: SlotFormat> Scavenge<F> {
    /// Collects new objects. It needs no room, so everything that is collected after it was to be collected anyway.
    pub(in crate::scavenge) fn collect_new(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        record: &mut Record,
    ) {
        let lines = self.lines();
        let lines = lines.expect("the old space has lines where new objects lie in it");
        self.note_old_top();
        record.step(Phase::Mark, |event| {
            let started = clock::monotonic_ns();
            state.crew_sizes.begin(false);
            self.mark_new(state, world, lines);
            let took = clock::monotonic_ns() - started;
            let (mut bytes, mut objects) = (0, 0);
            for local in state.engine.worker_states() {
                bytes += core::mem::take(&mut local.promoted);
                objects += core::mem::take(&mut local.objects);
            }
            state.totals.promoted_bytes += bytes as u64;
            state.lately.note_copied(0, bytes, 0, took);
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
}
