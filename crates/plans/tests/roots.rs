//! Ranges of roots against sets of bytes: what is scanned is what was added and not taken out.

#![cfg(not(loom))]

use std::collections::BTreeSet;

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::roots::{Range, Roots};
use proptest::prelude::*;

const SPACE: usize = 64;

#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Exclude(usize, usize),
    ClearExcluded,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let bounds = || (0..SPACE, 0..SPACE);
    prop_oneof![
        8 => bounds().prop_map(|(low, high)| Step::Add(low, high)),
        4 => bounds().prop_map(|(low, high)| Step::Exclude(low, high)),
        1 => Just(Step::ClearExcluded),
        1 => Just(Step::Clear),
    ]
}

fn range(low: usize, high: usize) -> Range {
    Range {
        low: Address::new(0x1000 + low * 8),
        high: Address::new(0x1000 + high * 8),
    }
}

/// The words that are visited; each once.
fn visited(roots: &Roots) -> Result<BTreeSet<usize>, TestCaseError> {
    let mut words = Vec::new();
    roots.for_each(|range| {
        assert!(range.low < range.high, "an empty range is not visited");
        words.extend(
            (range.low.word()..range.high.word())
                .step_by(8)
                .map(|word| (word - 0x1000) / 8),
        );
    });
    let set: BTreeSet<usize> = words.iter().copied().collect();
    prop_assert_eq!(set.len(), words.len(), "a word is visited twice");
    prop_assert_eq!(roots.bytes(), words.len() * 8);
    Ok(set)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_scanned_is_what_was_added_and_not_excluded(steps in prop::collection::vec(step(), 1..24)) {
        let mut roots = Roots::new();
        let (mut added, mut excluded) = (BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Add(low, high) => {
                    roots.add(range(low, high));
                    added.extend(low..high.max(low));
                }
                Step::Exclude(low, high) => {
                    roots.exclude(range(low, high));
                    excluded.extend(low..high.max(low));
                }
                Step::ClearExcluded => {
                    roots.clear_excluded();
                    excluded.clear();
                }
                Step::Clear => {
                    roots.clear();
                    added.clear();
                }
            }
            let expected: BTreeSet<usize> = added.difference(&excluded).copied().collect();
            prop_assert_eq!(visited(&roots)?, expected.clone());
            for word in 0..SPACE {
                let address = Address::new(0x1000 + word * 8);
                prop_assert_eq!(roots.contains(address), expected.contains(&word));
            }
        }
    }

    /// Only ranges that lie fully inside are removed; the rest stays whole.
    #[test]
    fn removal_takes_whole_ranges(
        bounds in prop::collection::vec((0..SPACE, 1..8usize), 1..12),
        (low, length) in (0..SPACE, 1..40usize),
    ) {
        let mut roots = Roots::new();
        bounds.iter().for_each(|(low, length)| roots.add(range(*low, low + length)));
        let mut before = Vec::new();
        roots.for_each(|range| before.push(range));
        let gone = range(low, low + length);
        roots.remove(gone);
        let mut after = Vec::new();
        roots.for_each(|range| after.push(range));
        before.retain(|old| !(gone.low <= old.low && old.high <= gone.high));
        before.sort_by_key(|range| range.low);
        after.sort_by_key(|range| range.low);
        prop_assert_eq!(before, after);
    }
}
