//! Which object does a word point to: every word of every object leads to its base, every other word to nothing.
#![cfg(not(loom))]

mod support;

use std::collections::BTreeMap;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::SweepMode;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, FIRST_PAGE, State};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE, UNCOLLECTABLE};
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, LARGEST_SMALL, class_of};
use proptest::prelude::*;
use support::{SPAN, Space};

/// Where objects are and how far words lead to them.
type Known = BTreeMap<usize, usize>;

/// What the model says of a word.
fn expected(known: &Known, word: usize) -> Option<(usize, usize)> {
    let (base, reach) = known.range(..=word).next_back()?;
    (word - base < *reach).then_some((*base, word - base))
}

/// Where a word leads. The short way to the bases of small objects must lead there too, and nowhere else.
fn found(space: &Space, word: usize) -> Option<(usize, usize)> {
    let found = space.0.object_at(word);
    let table = &space.0.layout.table;
    if table.contains(word) {
        let base = found.filter(|found| {
            // SAFETY: a resolved object's block.
            found.displacement == 0 && unsafe { (*found.block).state } == State::Small
        });
        let short = table.resolve_base(word);
        assert_eq!(
            short,
            base.map(|found| (found.block, found.mark)),
            "{word:#x}"
        );
    }
    found.map(|found| (found.base.word(), found.displacement))
}

#[test]
fn every_word_of_a_small_block_leads_to_its_cell_or_to_nothing() {
    for (class, bytes) in CELL_BYTES.into_iter().map(usize::from).enumerate() {
        let mut space = Space::new(SweepMode::Lazy, false);
        let cells = BLOCK_BYTES / bytes;
        for _ in 0..cells {
            space.0.allocate_small(NORMAL, class).unwrap();
        }
        let start = space.0.layout.table.heap.word();
        for offset in 0..BLOCK_BYTES {
            let cell = offset / bytes;
            let expected = (cell < cells).then(|| (start + cell * bytes, offset % bytes));
            assert_eq!(
                found(&space, start + offset),
                expected,
                "class {class}, offset {offset}"
            );
        }
        assert_eq!(
            found(&space, start + BLOCK_BYTES),
            None,
            "the next block was never used"
        );
    }
}

#[test]
fn words_outside_of_the_span_lead_nowhere() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.allocate_small(NORMAL, 0).unwrap();
    space.large(NORMAL, 100_000);
    let (low, high) = (
        space.0.layout.table.heap.word(),
        space.0.layout.table.heap.word() + SPAN,
    );
    for word in [
        0,
        1,
        8,
        4096,
        low - 1,
        low - 8,
        high - 8,
        high - SPAN / 4,
        high,
        high + 1,
        high + BLOCK_BYTES,
        usize::MAX,
        usize::MAX / 2,
    ] {
        assert_eq!(found(&space, word), None, "{word:#x}");
    }
}

/// Pointers past the first page of such an object are ignored, also in a run that is longer than the object.
#[test]
fn only_the_first_page_of_an_off_page_object_counts() {
    let mut space = Space::new(SweepMode::Lazy, false);
    let object = space.0.allocate_large(NORMAL, 50_000, 16, true).unwrap();
    for displacement in (0..4 * BLOCK_BYTES).step_by(8) {
        let expected = (displacement < FIRST_PAGE).then_some((object.word(), displacement));
        assert_eq!(found(&space, object.word() + displacement), expected);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Allocate {
        kind: usize,
        bytes: usize,
        alignment: usize,
    },
    Free(usize),
    /// A collection that finds those objects alive whose number is no multiple of this.
    Collect(usize),
    ReleaseFree,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes =
        prop_oneof![6 => 1..600usize, 2 => 600..=LARGEST_SMALL, 3 => LARGEST_SMALL + 1..200_000];
    let kind = prop_oneof![Just(NORMAL), Just(PTRFREE), Just(UNCOLLECTABLE)];
    let alignment = prop_oneof![9 => Just(16usize), 1 => Just(4096), 1 => Just(4 * BLOCK_BYTES)];
    prop_oneof![
        12 => (kind, bytes, alignment)
            .prop_map(|(kind, bytes, alignment)| Step::Allocate { kind, bytes, alignment }),
        6 => any::<usize>().prop_map(Step::Free),
        1 => (2..6usize).prop_map(Step::Collect),
        1 => Just(Step::ReleaseFree),
    ]
}

fn allocate(space: &mut Space, kind: usize, bytes: usize, alignment: usize) -> (Address, usize) {
    if bytes <= LARGEST_SMALL && alignment <= 16 {
        let class = class_of(bytes);
        let object = space.0.allocate_small(kind, class).unwrap();
        return (object, usize::from(CELL_BYTES[class]));
    }
    let bytes = bytes.max(LARGEST_SMALL + 1);
    let object = space
        .0
        .allocate_large(kind, bytes, alignment, false)
        .unwrap();
    assert_eq!(object.word() % alignment, 0);
    (object, bytes.next_multiple_of(16))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Under a random program, large words lead exactly where the model says; small ones too, except that free cells
    /// of blocks in use still lead to themselves.
    #[test]
    fn words_lead_where_the_model_says(steps in prop::collection::vec(step(), 1..120), probe in any::<u64>()) {
        let mut space = Space::new(SweepMode::Lazy, false);
        let mut known = Known::new();
        let mut kinds = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Allocate { kind, bytes, alignment } => {
                    let (object, reach) = allocate(&mut space, kind, bytes, alignment);
                    prop_assert_eq!(expected(&known, object.word()), None, "the place was in use");
                    prop_assert_eq!(expected(&known, object.word() + reach - 1), None, "the place was in use");
                    known.insert(object.word(), reach);
                    kinds.insert(object.word(), kind);
                }
                Step::Free(which) if !known.is_empty() => {
                    let object = *known.keys().nth(which % known.len()).unwrap();
                    prop_assert!(space.0.free(Address::new(object)).is_ok());
                    known.remove(&object);
                    kinds.remove(&object);
                }
                Step::Free(_) => {}
                Step::Collect(keep) => {
                    let mut at = 0;
                    known.retain(|object, _| {
                        at += 1;
                        at % keep != 0 || kinds[object] == UNCOLLECTABLE
                    });
                    kinds.retain(|object, _| known.contains_key(object));
                    space.collect(known.keys().map(|object| Address::new(*object)));
                }
                Step::ReleaseFree => {
                    space.0.release_dirty(usize::MAX);
                }
            }
            space.verify();
            check_words(&space, &known, probe.wrapping_add(number as u64))?;
        }
    }
}

/// Looks at the edges of all objects, at random words near them, and across the large part.
fn check_words(space: &Space, known: &Known, mut probe: u64) -> Result<(), TestCaseError> {
    let large_start = space.0.start(space.0.layout.table.large_start).word();
    let mut words: Vec<usize> = (0..64)
        .map(|block| large_start + block * BLOCK_BYTES)
        .collect();
    for (base, reach) in known {
        probe = probe
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        words.extend([
            *base,
            base + reach - 1,
            base + reach,
            base + probe as usize % (reach + BLOCK_BYTES),
        ]);
    }
    for word in words {
        let expected = expected(known, word);
        let found = found(space, word);
        if expected.is_some() || word >= large_start {
            prop_assert_eq!(found, expected, "{:#x}", word);
        } else if let Some((base, _)) = found {
            prop_assert!(
                !known.contains_key(&base),
                "{:#x} is outside of that object",
                word
            );
        }
    }
    Ok(())
}
