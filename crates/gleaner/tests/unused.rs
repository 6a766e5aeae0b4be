//! Memory that nobody used is not touched, and memory that nobody uses any more is given back: a collection costs what the
//! heap holds, whatever its limit. A process of its own, since it looks at how much memory that has.
#![cfg(not(loom))]

use gleaner::{Array, Builder, Elements, Generations, Heap, Mutator, OldPolicy};

const MB: usize = 1 << 20;

/// Bytes of this process that are resident.
fn resident() -> usize {
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    sizes.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn more_than(before: usize) -> usize {
    resident().saturating_sub(before)
}

/// Arrays of `bytes` bytes in a list of handles, until there are so many bytes or no room.
fn fill(mutator: &mut Mutator, of: Array, bytes: u32, sum: usize) -> Vec<gleaner::Handle> {
    let mut kept = Vec::new();
    while kept.len() * (bytes as usize) < sum {
        let array = mutator.scope(|scope| {
            let array = scope.allocate_array(of, bytes).ok()?;
            scope.handle(array)
        });
        let Some(array) = array else { break };
        kept.push(array);
    }
    kept
}

#[test]
fn memory_is_touched_where_it_is_used() {
    large_heaps_with_little_in_them();
    what_pinned_objects_leave_is_given_back();
    what_is_needed_again_and_again_is_kept();
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        for (bytes, arrays) in [
            (1000, "contiguous"),
            (100_000, "contiguous"),
            (100_000, "zray"),
        ] {
            what_died_is_given_back(old, bytes, arrays);
        }
    }
}

/// Pages that this process has touched first, ever.
fn faults() -> usize {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    behind_name.split(' ').nth(8).unwrap().parse().unwrap()
}

/// New objects in place fill most of a heap between any two collections: now more of them are large, and now fewer. So memory moves
/// between the two kinds when that changes, and stays where it is otherwise.
fn what_is_needed_again_and_again_is_kept() {
    const LIMIT: usize = 32 * MB;
    let heap = Heap::builder()
        .limit(LIMIT)
        .young(28 * MB)
        .resize(false)
        .options("old=mark-region,nursery=in-place")
        .unwrap()
        .build()
        .unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let run = |mutator: &mut Mutator, sum: usize| {
        let (mut done, mut largest) = (0, 0);
        while done < sum {
            let small = [10, 30][done / (64 * MB) % 2];
            for (count, size) in [(small, 1000), (1, 20_000)] {
                for _ in 0..count {
                    mutator
                        .scope(|scope| scope.allocate_array(bytes, size).map(drop))
                        .unwrap();
                    done += size as usize;
                }
            }
            largest = largest.max(heap.resident());
        }
        largest
    };
    run(&mut mutator, 256 * MB);
    let (before, collections) = (faults(), mutator.totals().scavenges);
    let largest = run(&mut mutator, 512 * MB);
    let (more, collections) = (faults() - before, mutator.totals().scavenges - collections);
    assert!(collections > 10, "{collections}");
    assert!(largest <= LIMIT && largest > LIMIT / 10 * 9, "{largest}");
    // It changes eight times, each time by 3 MB or more.
    let moved = more * 4096 / MB;
    assert!(moved < 8 * 4, "{moved} MB in {collections} collections");
}

/// A heap that was full once and has little in it from then on.
fn what_died_is_given_back(old: OldPolicy, size: u32, arrays: &str) {
    const SUM: usize = 192 * MB;
    let before = resident();
    let heap = Heap::builder()
        .limit(256 * MB)
        .young(8 * MB)
        .resize(false)
        .old(old)
        .options(&std::format!("release-after=3,arrays={arrays}"))
        .unwrap()
        .build()
        .unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let kept = fill(&mut mutator, bytes, size, SUM);
    assert!(kept.len() * size as usize > SUM / 2);
    for handle in &kept {
        mutator.scope(|scope| {
            let array = scope.open(handle);
            for index in (0..size as usize).step_by(512) {
                scope.write_u8(array, index, 1).unwrap();
            }
        });
    }
    mutator.collect(true);
    let most = more_than(before);
    assert!(most > SUM / 2, "{most} bytes, {old:?}, {size}, {arrays}");
    drop(kept);
    // Of the first three, some found it in use.
    for _ in 0..6 {
        mutator.collect(true);
        fill(&mut mutator, bytes, 1000, MB);
    }
    let left = more_than(before);
    assert!(
        left < most / 3,
        "{left} of {most} bytes, {old:?}, {size}, {arrays}"
    );
}

fn large_heaps_with_little_in_them() {
    let setups: [fn(Builder) -> Builder; 5] = [
        |builder| builder,
        |builder| builder.old(OldPolicy::MarkSweep),
        |builder| builder.generations(Generations::Never),
        |builder| builder.poison(true),
        |builder| builder.poison(true).generations(Generations::Never),
    ];
    for (number, setup) in setups.into_iter().enumerate() {
        let before = resident();
        let heap = setup(Heap::builder().limit(6 << 30)).build().unwrap();
        let bytes = heap.array(Elements::Bytes).unwrap();
        let mut mutator = heap.attach().unwrap();
        let kept = fill(&mut mutator, bytes, 1000, MB);
        for everything in [true, false, true, false] {
            mutator.collect(everything);
        }
        let more = more_than(before);
        assert!(more < 8 * MB, "setup {number}: {more} bytes");
        drop(kept);
    }
}

/// Pinned objects fill a heap, and die; then large ones do.
fn what_pinned_objects_leave_is_given_back() {
    const LIMIT: usize = 64 * MB;
    let before = resident();
    let heap = Heap::builder().limit(LIMIT).build().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    let pinned = fill(&mut mutator, bytes.pinned(), 1000, LIMIT);
    assert!(pinned.len() * 1000 > LIMIT / 4, "{}", pinned.len());
    drop(pinned);
    mutator.collect(true);
    mutator.collect(true);
    let large = fill(&mut mutator, bytes, 100_000, LIMIT);
    let (held, more) = (large.len() * 100_000, more_than(before));
    assert!(held > LIMIT / 3, "{held}");
    // Its tables beside it.
    assert!(more < LIMIT + 2 * MB, "{more} bytes, for {held}");
}
