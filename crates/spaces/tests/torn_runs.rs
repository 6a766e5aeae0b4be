//! Where addresses are short, what no object needs is not mapped, and objects stay whole.

#![cfg(not(loom))]

mod support;

use std::collections::BTreeMap;

use gleaner_mem::Address;
use gleaner_os::memory;
use gleaner_spaces::mark_sweep::SweepMode;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, State};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use gleaner_spaces::mark_sweep::size_classes::{LARGEST_SMALL, class_of};
use gleaner_spaces::mark_sweep::view::SpaceView;
use proptest::prelude::*;
use support::Space;

const PAGE: usize = 4096;

#[derive(Clone, Debug)]
enum Step {
    Allocate(usize, bool),
    AllocateSmall(usize, bool),
    AllocateAligned(usize),
    Free(usize),
    Grow(usize, usize),
    Release,
    Collect(usize),
    GiveBack,
    GiveBackEnd,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![6 => 8_193..70_000usize, 1 => 70_000..900_000usize];
    prop_oneof![
        8 => (bytes, any::<bool>()).prop_map(|(bytes, clear)| Step::Allocate(bytes, clear)),
        6 => (16..8_000usize, any::<bool>()).prop_map(|(bytes, clear)| Step::AllocateSmall(bytes, clear)),
        1 => (8_193..40_000usize).prop_map(Step::AllocateAligned),
        5 => any::<usize>().prop_map(Step::Free),
        2 => (any::<usize>(), 16..60_000usize).prop_map(|(which, more)| Step::Grow(which, more)),
        1 => Just(Step::Release),
        1 => (1..5usize).prop_map(Step::Collect),
        3 => Just(Step::GiveBack),
        1 => Just(Step::GiveBackEnd),
    ]
}

/// Bytes of each object, by its base. Its words tell of its base.
type Objects = BTreeMap<usize, usize>;

fn fill(base: Address, bytes: usize) {
    for at in (0..bytes & !7).step_by(8) {
        // SAFETY: a word of an object of the test's.
        unsafe { base.add(at).store(base.word() ^ at) };
    }
}

fn is_whole(base: Address, bytes: usize) -> bool {
    // SAFETY: words of an object of the test's.
    (0..bytes & !7)
        .step_by(8)
        .all(|at| unsafe { base.add(at).load() } == base.word() ^ at)
}

fn is_zero(base: Address, bytes: usize) -> bool {
    // SAFETY: words of an object of the test's.
    (0..bytes & !7)
        .step_by(8)
        .all(|at| unsafe { base.add(at).load() } == 0)
}

fn nth(objects: &Objects, which: usize) -> Option<(Address, usize)> {
    let mut all = objects
        .iter()
        .map(|(base, bytes)| (Address::new(*base), *bytes));
    all.nth(which % objects.len().max(1))
}

/// Every page that no object reaches is without access, and so is every free block. Objects take all of their runs.
fn nothing_is_left(space: &Space) -> bool {
    let table = space.0.layout.table;
    let (mut run, mut nothing) = (table.large_start, true);
    for index in 0..space.0.small_frontier() {
        // SAFETY: a descriptor below the frontier.
        if unsafe { (*table.block(index)).state } == State::Free {
            nothing &= !memory::is_readable(table.start(index).word(), BLOCK_BYTES);
        }
    }
    while run < space.0.large_frontier() {
        // SAFETY: the first descriptor of a run.
        let block = unsafe { &*table.block(run) };
        let (start, bytes) = (table.start(run).word(), table.bytes_of(run, block.next));
        if block.state == State::LargeHead {
            nothing &= bytes == block.bytes.next_multiple_of(PAGE);
        } else {
            nothing &= (start..start + bytes)
                .step_by(PAGE)
                .all(|page| !memory::is_readable(page, PAGE));
        }
        run += block.next;
    }
    nothing
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn objects_stay_whole_and_pages_between_them_go(steps in prop::collection::vec(step(), 1..60)) {
        let mut space = Space::in_pieces();
        let mut objects = Objects::new();
        for step in steps {
            match step {
                Step::Allocate(bytes, clear) => {
                    let kind = if clear { NORMAL } else { PTRFREE };
                    if let Ok(base) = space.0.allocate_large(kind, bytes, 16, false) {
                        prop_assert!(!clear || is_zero(base, bytes), "{:?} of {} bytes", base, bytes);
                        fill(base, bytes);
                        objects.insert(base.word(), bytes);
                    }
                }
                // Blocks full of them.
                Step::AllocateSmall(bytes, clear) => {
                    let kind = if clear { NORMAL } else { PTRFREE };
                    for _ in 0..3 * BLOCK_BYTES / bytes {
                        let Ok(base) = space.0.allocate_small(kind, class_of(bytes)) else { break };
                        prop_assert!(!clear || is_zero(base, bytes), "{:?} of {} bytes", base, bytes);
                        fill(base, bytes);
                        objects.insert(base.word(), bytes);
                    }
                }
                Step::AllocateAligned(bytes) => {
                    if let Ok(base) = space.0.allocate_large(NORMAL, bytes, 1 << 17, false) {
                        prop_assert!(base.word().is_multiple_of(1 << 17) && is_zero(base, bytes));
                        fill(base, bytes);
                        objects.insert(base.word(), bytes);
                    }
                }
                Step::Free(which) => if let Some((base, _)) = nth(&objects, which) {
                    objects.remove(&base.word());
                    space.0.free(base).unwrap();
                },
                Step::Grow(which, more) => if let Some((base, bytes)) = nth(&objects, which) {
                    let wanted = bytes + more;
                    if bytes > LARGEST_SMALL && space.0.grow_large(base, wanted) {
                        prop_assert!(is_whole(base, bytes));
                        prop_assert!(space.0.object_at(base.word() + wanted - 1).is_some());
                        fill(base, wanted);
                        objects.insert(base.word(), wanted);
                    }
                },
                Step::Release => _ = space.0.release_dirty(usize::MAX),
                Step::Collect(nth) => {
                    let live: Vec<usize> = objects.keys().copied().step_by(nth).collect();
                    objects.retain(|base, _| live.contains(base));
                    space.collect(live.into_iter().map(Address::new));
                }
                Step::GiveBack => {
                    let any = space.0.give_back_between();
                    prop_assert!(nothing_is_left(&space));
                    prop_assert!(any || !space.0.give_back_between());
                }
                Step::GiveBackEnd => _ = space.0.give_back_end(),
            }
            space.verify();
            for (base, bytes) in &objects {
                prop_assert!(is_whole(Address::new(*base), *bytes), "{:#x} of {} bytes", base, bytes);
            }
        }
    }
}

#[test]
fn what_was_given_back_between_is_mapped_when_it_is_needed() {
    let mut space = Space::in_pieces();
    let bytes = BLOCK_BYTES + 100;
    let objects: Vec<Address> = (0..8).map(|_| space.large(NORMAL, bytes)).collect();
    let taken = bytes.next_multiple_of(PAGE);
    for (one, next) in objects.iter().zip(&objects[1..]) {
        assert_eq!(next.offset_from(*one), taken, "no page lies between them");
    }
    space.0.free(objects[3]).unwrap();
    assert!(space.0.give_back_between());
    assert!(!memory::is_readable(objects[3].word(), PAGE));
    assert!(memory::is_readable(objects[2].word(), taken));
    assert!(!space.0.give_back_between(), "nothing more");
    assert!(
        !space.0.grow_large(objects[2], bytes + PAGE),
        "pages that are not mapped"
    );
    // Of what is left of the place, a part is used, and the rest waits.
    let part = space.large(NORMAL, 2 * PAGE + 100);
    assert_eq!(part, objects[3]);
    assert!(memory::is_readable(part.word(), 3 * PAGE));
    assert!(!memory::is_readable(part.word() + 3 * PAGE, PAGE));
    space.0.free(part).unwrap();
    assert!(
        !memory::is_readable(part.word(), PAGE),
        "with its neighbour"
    );
    let again = space.large(NORMAL, bytes);
    assert_eq!(again, objects[3]);
    assert!(memory::is_readable(again.word(), taken));
    space.verify();
}

#[test]
fn free_blocks_of_small_objects_go_and_are_mapped_when_they_are_needed() {
    let mut space = Space::in_pieces();
    let class = class_of(4096);
    let fill = |space: &mut Space| -> Vec<Address> {
        (0..400)
            .map(|_| space.0.allocate_small(NORMAL, class).unwrap())
            .collect()
    };
    let first = fill(&mut space);
    let kept = first[200];
    space.collect([kept]);
    assert!(space.0.give_back_between());
    space.verify();
    let readable = |it: &&Address| memory::is_readable(it.word(), PAGE);
    assert_eq!(first.iter().filter(readable).count(), 4, "a block of four");
    assert!(!space.0.give_back_between(), "nothing more");
    space.collect([kept]);
    let again = fill(&mut space);
    assert!(again.iter().all(|it| is_zero(*it, 4096) && *it != kept));
    let mut places: Vec<_> = first.iter().map(|it| it.word() / BLOCK_BYTES).collect();
    places.dedup();
    let back = again
        .iter()
        .filter(|it| places.contains(&(it.word() / BLOCK_BYTES)));
    assert!(back.count() > 390, "the same places are used before others");
}

/// As where a limit leaves addresses for a few blocks only, or somebody else mapped something there.
#[test]
fn blocks_are_mapped_one_by_one_where_many_are_refused() {
    let mut space = Space::in_pieces();
    let class = class_of(4096);
    let block_of = |space: &mut Space| {
        let cells = [(); 4].map(|()| space.0.allocate_small(NORMAL, class).unwrap());
        cells[0].align_down(BLOCK_BYTES)
    };
    let blocks: Vec<Address> = (0..40).map(|_| block_of(&mut space)).collect();
    space.collect([]);
    assert!(space.0.give_back_between());
    let place = std::ptr::NonNull::new(blocks[3].ptr::<u8>()).unwrap();
    memory::map_at(place, PAGE, memory::Access::Read).unwrap();
    for block in &blocks[..3] {
        assert_eq!(block_of(&mut space), *block);
    }
    assert!(block_of(&mut space) > blocks[39], "one that was never used");
    // SAFETY: mapped above, and nobody has used it.
    unsafe { memory::unmap(place, PAGE) };
    for block in &blocks[3..] {
        assert_eq!(block_of(&mut space), *block);
    }
    space.verify();
}

/// Nor while somebody reads cells without the lock.
#[test]
fn free_blocks_stay_while_they_may_be_read() {
    let mut space = Space::in_pieces();
    let one = space.0.allocate_small(NORMAL, 0).unwrap();
    space.collect([]);
    // SAFETY: the space stays where it is.
    let view = unsafe { SpaceView::new(&raw const space.0) };
    let given_back = view.while_reading(|| space.0.give_back_between());
    assert_eq!(given_back, Some(false));
    assert!(memory::is_readable(one.word(), 16));
    assert!(space.0.give_back_between());
}

/// As where a limit leaves no addresses.
#[test]
fn a_run_that_cannot_be_mapped_waits_for_the_next_attempt() {
    let mut space = Space::in_pieces();
    let object = space.large(PTRFREE, 20_000);
    space.0.free(object).unwrap();
    assert!(space.0.give_back_between());
    let place = std::ptr::NonNull::new(object.ptr::<u8>()).unwrap();
    memory::map_at(place, PAGE, memory::Access::Read).unwrap();
    let refused = space.0.allocate_large(PTRFREE, 20_000, 16, false);
    assert_eq!(refused, Err(Shortage::System));
    space.verify();
    // SAFETY: mapped above, and nobody has used it.
    unsafe { memory::unmap(place, PAGE) };
    assert_eq!(space.large(PTRFREE, 20_000), object);
}

#[test]
fn a_heap_with_addresses_keeps_them() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let object = space.large(NORMAL, 20_000);
    assert!(!space.0.give_back_between());
    assert!(memory::is_readable(object.word() + 20_480, PAGE));
}
