//! The free runs of the large part and the free blocks of the small part, against plain models.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeMap;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, Block, BlockIndex, LARGE_BYTES, State};
use gleaner_spaces::mark_sweep::large_runs::{LargeSpace, Run, blocks_for};
use gleaner_spaces::mark_sweep::layout::Layout;
use gleaner_spaces::mark_sweep::pool::{Backing, FreePool};
use proptest::prelude::*;
use support::Reserved;

/// Runs of the model: first block to length, and whether used.
type Runs = BTreeMap<BlockIndex, (BlockIndex, bool)>;

#[derive(Clone, Debug)]
enum Step {
    Take(BlockIndex),
    Give(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![8 => 1..80u32, 2 => 80..600u32, 1 => 2000..2200u32];
    prop_oneof![
        6 => length.prop_map(Step::Take),
        5 => any::<usize>().prop_map(Step::Give),
        1 => (0..60usize).prop_map(Step::Release),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The model with neighbouring free runs joined, up to the frontier.
fn joined(
    used: &BTreeMap<BlockIndex, BlockIndex>,
    start: BlockIndex,
    frontier: BlockIndex,
) -> Runs {
    let (mut runs, mut at) = (Runs::new(), start);
    for (first, length) in used {
        if *first > at {
            runs.insert(at, (first - at, false));
        }
        runs.insert(*first, (*length, true));
        at = first + length;
    }
    if frontier > at {
        runs.insert(at, (frontier - at, false));
    }
    runs
}

/// The second word of each page of a run.
fn words(layout: &Layout, first: BlockIndex, blocks: BlockIndex) -> impl Iterator<Item = Address> {
    let start = layout.table.start(first);
    let bytes = layout.table.bytes_of(first, blocks);
    (8..bytes).step_by(4096).map(move |at| start.add(at))
}

fn write(layout: &Layout, first: BlockIndex, blocks: BlockIndex) {
    // SAFETY: the run was just taken, and is committed.
    words(layout, first, blocks).for_each(|word| unsafe { word.store(1) });
}

fn is_zero(layout: &Layout, first: BlockIndex, blocks: BlockIndex) -> bool {
    // SAFETY: the callers ask about a run that they have just taken, which is committed.
    words(layout, first, blocks).all(|word| unsafe { word.load() } == 0)
}

proptest! {
    #![proptest_config(config())]

    /// Runs tile the part, never overlap, join when free; clean ones read as zero; the counts are right.
    #[test]
    fn large_runs_match_an_interval_model(steps in prop::collection::vec(step(), 1..80)) {
        let mut reserved = Reserved::new();
        let layout = &mut reserved.0;
        let mut large = LargeSpace::new(layout);
        let start = layout.table.large_start;
        let mut used: BTreeMap<BlockIndex, BlockIndex> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Take(blocks) => {
                    let free = joined(&used, start, large.frontier());
                    let fits = free.values().any(|(length, used)| !used && *length >= blocks);
                    let room = layout.end() - large.frontier();
                    let found = large.take_free(layout, blocks);
                    prop_assert_eq!(found.is_some(), fits, "a free run is found if there is one");
                    let Some(run) = found.or_else(|| large.take_fresh(layout, blocks)) else {
                        prop_assert!(blocks > room);
                        continue;
                    };
                    let next = used.range(run.first..).next();
                    prop_assert!(next.is_none_or(|(first, _)| *first >= run.first + blocks), "overlaps the next");
                    let before = used.range(..run.first).next_back();
                    prop_assert!(before.is_none_or(|(first, length)| first + length <= run.first), "overlaps");
                    prop_assert!(run.first >= start && run.first + blocks <= large.frontier());
                    prop_assert!(!run.clean || is_zero(layout, run.first, blocks), "clean is zero");
                    write(layout, run.first, blocks);
                    describe(layout, run.first, blocks);
                    used.insert(run.first, blocks);
                }
                Step::Give(which) if !used.is_empty() => {
                    let (first, blocks) = used.iter().nth(which % used.len()).map(|(f, b)| (*f, *b)).unwrap();
                    used.remove(&first);
                    let run = Run { first, blocks, clean: false, torn: false };
                    large.give(layout, run);
                }
                Step::Give(_) => {}
                Step::Release(enough) => {
                    let (before, enough) = (large.dirty_bytes(), enough * LARGE_BYTES);
                    let released = large.release(layout, enough, |_, _| true);
                    prop_assert_eq!(large.dirty_bytes(), before - released);
                    prop_assert!(released >= enough.min(before));
                }
            }
            let mut seen = Runs::new();
            large.for_each_run(layout, |first| {
                // SAFETY: a run's head lies in the committed range.
                let block = unsafe { &*layout.table.block(first) };
                seen.insert(first, (block.next, block.state == State::LargeHead));
            });
            prop_assert_eq!(seen, joined(&used, start, large.frontier()));
        }
    }

    /// The pool hands out each block once, lowest addresses first after a rebuild, and clean ones read as zero.
    #[test]
    fn the_pool_hands_out_each_block_once(
        takes in 1..200u32,
        freed in prop::collection::vec((0..200u32, any::<bool>()), 0..200),
        enough in 0..100usize,
    ) {
        let mut reserved = Reserved::new();
        let layout = &mut reserved.0;
        let mut pool = FreePool::new();
        for number in 0..takes {
            let taken = pool.take_clean(layout, 0).unwrap();
            prop_assert_eq!((taken.index, taken.clean), (number, true));
            prop_assert!(is_zero(layout, number, 1));
            write(layout, number, 1);
        }
        let freed: BTreeMap<BlockIndex, bool> = freed.into_iter().filter(|(index, _)| *index < takes).collect();
        for (index, clean) in &freed {
            if *clean {
                layout.release(*index, 1);
            }
            pool.put(layout, *index, if *clean { Backing::Clean } else { Backing::Dirty });
        }
        let dirty = freed.values().filter(|clean| !**clean).count();
        prop_assert_eq!((pool.dirty(), pool.clean()), (dirty, freed.len() - dirty));
        let released = pool.release(layout, enough);
        prop_assert_eq!(released, enough.min(dirty));
        prop_assert_eq!((pool.dirty(), pool.clean()), (dirty - released, freed.len() - dirty + released));
        let (mut seen, mut last) = (Vec::new(), None);
        while let Some(taken) = pool.take_dirty(layout) {
            prop_assert!(!taken.clean && last < Some(taken.index), "in address order");
            last = Some(taken.index);
            seen.push(taken.index);
        }
        while pool.clean() > 0 {
            let taken = pool.take_clean(layout, 0).unwrap();
            prop_assert!(is_zero(layout, taken.index, 1), "clean is zero");
            seen.push(taken.index);
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, freed.keys().copied().collect::<Vec<_>>());
        prop_assert_eq!(pool.take_clean(layout, 0).unwrap().index, takes, "then the frontier moves");
    }
}

/// What the space above writes into the descriptors of a run that it uses.
fn describe(layout: &Layout, first: BlockIndex, blocks: BlockIndex) {
    for distance in 0..blocks {
        // SAFETY: blocks of a run that was just taken.
        let block = unsafe { &mut *layout.table.block(first + distance) };
        block.state = if distance == 0 {
            State::LargeHead
        } else {
            State::LargeRest
        };
        block.inverse = distance;
        block.next = if distance == 0 { blocks } else { 0 };
    }
}

/// Blocks from `first` on, up to the first page that no memory backs.
fn backed_from(layout: &Layout, first: BlockIndex) -> BlockIndex {
    let mut pages = [0u8; BLOCK_BYTES / 4096];
    let is_backed = |block: &BlockIndex| {
        let start = layout.table.start(*block).ptr();
        // SAFETY: as many bytes as the block has pages; the kernel refuses what is not mapped.
        let answer = unsafe { libc::mincore(start, BLOCK_BYTES, pages.as_mut_ptr()) };
        answer == 0 && pages.iter().all(|page| page & 1 == 1)
    };
    (first..).take_while(is_backed).count() as BlockIndex
}

#[test]
fn what_is_backed_is_a_little_ahead_of_what_was_taken() {
    const AHEAD: BlockIndex = 8;
    if !support::can_populate() {
        return;
    }
    for (populate_ahead, room) in [(0, 100), (AHEAD, 0), (AHEAD, 3), (AHEAD, 100)] {
        let mut reserved = Reserved::new();
        let layout = &mut reserved.0;
        let mut pool = FreePool::new();
        pool.populate_ahead = populate_ahead;
        let mut most = 0;
        for number in 0..900 {
            let taken = pool.take_clean(layout, room as usize).unwrap();
            assert_eq!((taken.index, taken.clean), (number, true));
            let allowed = (number / 64).min(room).clamp(1, AHEAD);
            let backed = backed_from(layout, number);
            assert!(
                backed <= allowed,
                "{backed} from {number} on, {room} allowed"
            );
            assert!(
                backed > 0 || populate_ahead == 0,
                "{number} was to be backed"
            );
            most = most.max(backed);
        }
        let expected = if populate_ahead == 0 {
            0
        } else {
            room.clamp(1, AHEAD)
        };
        assert_eq!(most, expected);
        pool.put(layout, 5, Backing::Clean);
        layout.release(5, 1);
        assert_eq!(pool.take_clean(layout, 0).unwrap().index, 5);
        assert_eq!(
            backed_from(layout, 5) > 0,
            populate_ahead > 0,
            "a released block comes back"
        );
    }
}

#[test]
fn a_long_free_run_gives_its_descriptors_back_and_can_be_used_again() {
    let mut reserved = Reserved::new();
    let layout = &mut reserved.0;
    let mut large = LargeSpace::new(layout);
    let blocks = (16 << 20) / LARGE_BYTES as BlockIndex;
    let first = layout.table.large_start;
    let state_of = |layout: &Layout, at: BlockIndex| {
        // SAFETY: the run was committed, and this test is alone.
        unsafe { &mut (*layout.table.block(first + at)).state }
    };
    for _ in 0..2 {
        let run = large
            .take_free(layout, blocks)
            .or_else(|| large.take_fresh(layout, blocks))
            .unwrap();
        assert_eq!((run.first, run.blocks, run.clean), (first, blocks, true));
        let head = layout.table.block(first);
        // SAFETY: the run was committed, and this test is alone.
        unsafe { (*head).next = blocks };
        *state_of(layout, 0) = State::LargeHead;
        for at in 1..blocks {
            *state_of(layout, at) = State::LargeRest;
        }
        large.give_used(layout, first);
        let released = large.release(layout, usize::MAX, |_, _| true);
        assert_eq!(released, 16 << 20);
        let unused = (1..blocks)
            .filter(|&at| *state_of(layout, at) == State::Unused)
            .count();
        let page = (4096 / size_of::<Block>()) as u32;
        assert!(unused as u32 > blocks - 3 * page, "{unused} of {blocks}");
        assert_eq!(*state_of(layout, 0), State::Free);
        assert_eq!(*state_of(layout, blocks - 1), State::Free);
        let table = &layout.table;
        let inside = table.start(first + blocks / 2).word();
        assert!(table.resolve_checked(inside).is_none());
    }
}

#[test]
fn the_number_of_blocks_is_rounded_up_and_does_not_overflow() {
    assert_eq!(blocks_for(1), Some(1));
    assert_eq!(blocks_for(LARGE_BYTES), Some(1));
    assert_eq!(blocks_for(LARGE_BYTES + 1), Some(2));
    assert_eq!(blocks_for(usize::MAX), None);
}
