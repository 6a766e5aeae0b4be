//! Where everything is collected each time, eden leaves room for what was held beside it lately and is not now: large
//! objects and arraylets that come and go keep their memory. When they stay away, eden gets it little by little.

use std::fs;
use std::path::Path;

use gleaner::{Elements, Heap};

const LIMIT: usize = 32 << 20;
/// Bytes that are held beside eden for a while.
const HELD: usize = 8 << 20;

/// What the young generation had behind each collection.
fn sizes(log: &Path) -> Vec<usize> {
    let text = fs::read_to_string(log).unwrap();
    let resized = text
        .lines()
        .filter(|line| line.contains(r#""event":"resize""#));
    let bytes = |line: &str| {
        let (_, rest) = line.split_once(r#""bytes":"#)?;
        rest.split(',').next()?.parse().ok()
    };
    resized.filter_map(bytes).collect()
}

#[test]
fn eden_leaves_what_was_held_beside_it_lately_and_takes_it_little_by_little() {
    for arrays in ["contiguous", "zray"] {
        let log = std::env::temp_dir().join(format!(
            "gleaner-comes-and-goes-{arrays}-{}.jsonl",
            std::process::id()
        ));
        let builder = Heap::builder().limit(LIMIT).workers(1).ignore_environment();
        let options = format!(
            "arrays={arrays},generations=never,log={}",
            log.to_str().unwrap()
        );
        let heap = builder.options(&options).unwrap().build().unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        mutator.scope(|scope| {
            // Collections before, while, behind, and long behind.
            scope.collect(true);
            scope.nested(|scope| {
                let array = scope.allocate_array(bytes, HELD as u32).unwrap();
                scope.fill_numbers(array, 0, HELD, 1_u8).unwrap();
                (0..10).for_each(|_| scope.collect(true));
            });
            (0..20).for_each(|_| scope.collect(true));
        });
        drop(mutator);
        heap.close().unwrap();
        let sizes = sizes(&log);
        fs::remove_file(&log).unwrap();
        // The array itself may have asked for one more.
        let at = sizes.len() - 20;
        let (before, held, behind) = (sizes[0], sizes[at - 1], &sizes[at..]);
        // What is there is not left for twice: an eighth more is for what slides.
        let left = before - held;
        assert!(
            (HELD / 2..HELD / 4 * 5).contains(&left),
            "{arrays}: {sizes:?}"
        );
        // Not at once, but a few collections later.
        assert!(behind[0] + HELD / 2 <= before, "{arrays}: {sizes:?}");
        assert!(behind.is_sorted(), "{arrays}: {sizes:?}");
        let half = behind.iter().position(|&size| size + HELD / 4 >= before);
        assert!(
            half.is_some_and(|it| (2..=5).contains(&it)),
            "{arrays}: {sizes:?}"
        );
        assert!(before - behind[19] < 1 << 20, "{arrays}: {sizes:?}");
    }
}
