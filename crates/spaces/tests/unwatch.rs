//! When a block is swept the watch of it ends, and that of neighbours that will be next; of no others.
#![cfg(not(loom))]

mod support;

use std::sync::Mutex;

use gleaner_mem::Address;
use gleaner_os::written::{KernelModel, Mechanism, Reason, Watch};
use gleaner_spaces::mark_sweep::block::{BlockIndex, WATCHED};
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::reclaim::Ageing;
use gleaner_spaces::mark_sweep::settle::Waiting;
use gleaner_spaces::mark_sweep::{MARKED, SweepMode};
use support::Space;

const CLASS: usize = 3;
const BLOCKS: BlockIndex = 40;
/// How many end at once.
const AT_ONCE: BlockIndex = 16;
/// Is not watched.
const UNWATCHED: BlockIndex = 20;
/// Nothing in it is dead.
const FULL: BlockIndex = 30;

/// What the kernel was told to watch no more.
struct Released(Mutex<Vec<(usize, usize)>>);

static RELEASED: Released = Released(Mutex::new(Vec::new()));

impl KernelModel for Released {
    fn take(&self, _: usize, _: usize, _: &mut dyn FnMut(usize, usize)) -> Result<(), Reason> {
        Ok(())
    }
    fn finish(&self) -> Result<(), Reason> {
        Ok(())
    }
    fn release(&self, low: usize, high: usize) {
        self.0.lock().unwrap().push((low, high));
    }
}

#[test]
fn blocks_that_are_swept_next_are_watched_no_more() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let model = |_: &[std::ops::Range<usize>]| Ok(Watch::modelled(Mechanism::PageScan, &RELEASED));
    space.0.watch_by(model).unwrap();
    let mut live = Vec::new();
    for index in 0..BLOCKS {
        let list = space.0.take_cells(NORMAL, CLASS).unwrap();
        assert_eq!(list.block, index);
        let (mut cell, mut lives) = (list.head, true);
        while !cell.is_null() {
            if lives || index == FULL {
                live.push(cell);
            }
            lives = !lives;
            // SAFETY: a listed cell links to the next in its first word.
            cell = unsafe { Address::new(cell.load()) };
        }
    }
    space.0.clear_marks(Waiting::TakenBack);
    live.iter()
        .for_each(|object| space.set_mark(*object, MARKED));
    space.0.reclaim(Ageing::ReleaseAfter(0));
    let table = space.0.layout.table;
    // SAFETY: a block of the test's own heap.
    let block = |index| unsafe { &*table.block(index) };
    (0..BLOCKS)
        .filter(|index| *index != UNWATCHED)
        .for_each(|index| block(index).set_flag(WATCHED));
    RELEASED.0.lock().unwrap().clear();
    let runs = [
        (0, AT_ONCE),
        (AT_ONCE, UNWATCHED),
        (UNWATCHED + 1, FULL),
        (FULL + 1, BLOCKS),
    ];
    for index in (0..BLOCKS).filter(|index| *index != FULL) {
        assert_eq!(space.0.take_cells(NORMAL, CLASS).unwrap().block, index);
        let released = std::mem::take(&mut *RELEASED.0.lock().unwrap());
        let expected: Vec<(usize, usize)> = runs
            .iter()
            .filter(|(first, _)| *first == index)
            .map(|(first, end)| (table.start(*first).word(), table.start(*end).word()))
            .collect();
        assert_eq!(released, expected, "block {index}");
        let run = runs.iter().rfind(|(first, _)| *first <= index);
        let end = run.map_or(0, |(_, end)| *end);
        for other in 0..BLOCKS {
            let is_watched = other == FULL || other >= end && other != UNWATCHED;
            assert_eq!(
                block(other).has_flag(WATCHED),
                is_watched,
                "{other} behind {index}"
            );
        }
    }
    space.verify();
}
