//! Roots inside the space: uncollectable objects, and objects that a disclaim procedure must still find whole.
//!
//! Runs on the collecting thread in the stopped world.

use core::sync::atomic::Ordering;

use gleaner_mem::Address;

use super::{FREE, MARKED, MarkSweep};
use crate::mark_sweep::block::{Block, BlockIndex, FREED, State};
use crate::mark_sweep::kinds::Kind;

impl MarkSweep {
    /// Calls `visit` with address and descriptor of every object that is scanned whether marked or not, except those that
    /// were freed and wait for a cycle to end.
    pub fn for_each_inner_root(&self, mut visit: impl FnMut(Address, usize)) {
        let wanted = |kind: u8| {
            self.kinds
                .get(usize::from(kind))
                .filter(|kind| kind.uncollectable || kind.mark_unconditionally)
        };
        for index in 0..self.pool.frontier() {
            let block = self.block(index);
            if block.state == State::Small
                && block.descriptor != 0
                && let Some(kind) = wanted(block.kind)
            {
                self.visit_cells(index, block, kind, &mut visit);
            }
        }
        self.for_each_large(|index, block| {
            if block.descriptor != 0 && !block.has_flag(FREED) && wanted(block.kind).is_some() {
                visit(self.start(index), block.descriptor);
            }
        });
    }

    fn visit_cells(
        &self,
        index: BlockIndex,
        block: &Block,
        kind: &Kind,
        visit: &mut impl FnMut(Address, usize),
    ) {
        let marks = self.layout.table.marks_of(index);
        for object in 0..usize::from(block.objects) {
            // SAFETY: `object` is below the number of cells.
            let mark = unsafe { (*marks.add(object)).load(Ordering::Relaxed) };
            if mark == MARKED || (!kind.uncollectable && mark != FREE) {
                visit(
                    self.start(index).add(object * block.bytes),
                    block.descriptor,
                );
            }
        }
    }
}
