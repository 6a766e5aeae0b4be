//! Large objects that come and go lie in memory that stays resident, also where the limit is near. A process of its own,
//! since it counts page faults.

use gleaner::{Elements, Heap};

/// Page faults of this process that needed no file.
fn faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn large_objects_that_come_and_go_are_not_faulted_in_again_and_again() {
    const LIMIT: usize = 32 << 20;
    const LARGE: u32 = 40_000;
    const TIMES: usize = 10_000;
    let heap = Heap::builder().limit(LIMIT).build().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let slots = heap.reference_array().unwrap();
    let mut mutator = heap.attach().unwrap();
    // A third of the heap stays, so that large objects and eden share the rest.
    let kept = mutator.scope(|scope| {
        let kept = scope.allocate_references(slots, 10_000).unwrap();
        for index in 0..10_000 {
            let small = scope.allocate_array(bytes, 1000).unwrap();
            scope.set(kept, index, small).unwrap();
        }
        scope.handle(kept).unwrap()
    });
    let round = |mutator: &mut gleaner::Mutator, times| {
        for _ in 0..times {
            mutator.scope(|scope| {
                scope.allocate_array(bytes, LARGE).unwrap();
                for _ in 0..10 {
                    scope.allocate_array(bytes, 1000).unwrap();
                }
            });
        }
    };
    round(&mut mutator, TIMES / 10);
    let (before, collections) = (faults(), mutator.totals().scavenges);
    round(&mut mutator, TIMES);
    let (more, collections) = (faults() - before, mutator.totals().scavenges - collections);
    let touched = TIMES * LARGE as usize / 4096;
    assert!(collections > 10, "{collections} scavenges");
    assert!(
        more < touched as u64 / 30,
        "{more} faults for {touched} pages of large objects in {collections} scavenges"
    );
    drop(kept);
}
