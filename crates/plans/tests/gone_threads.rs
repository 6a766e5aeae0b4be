//! A thread that ended without a word: its free cells are used again, each once.

#![cfg(not(loom))]

mod harness;

use std::collections::BTreeSet;

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, class_of};
use harness::Bench;

/// Registers a thread of the heap that takes a list of free cells, uses some of them, and ends.
fn lose_a_thread(bench: &mut Bench, class: usize, used: usize) -> (*mut Mutator, Vec<Address>) {
    struct Lent<'a>(&'a mut Bench, *mut Mutator);
    // SAFETY: the thread that lends them waits until the other has ended.
    unsafe impl Send for Lent<'_> {}
    let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
    // SAFETY: fresh memory that lives as long as the heap.
    unsafe { bench.heap.mutators.add(record) };
    let lent = Lent(bench, record);
    let cells = std::thread::scope(|scope| {
        let lost = scope.spawn(move || {
            let Lent(bench, record) = { lent };
            let heap = &mut bench.heap;
            // SAFETY: this thread's own record from here on; a listed cell links to the next in its first word.
            unsafe {
                heap.mutators
                    .occupy(record, heap.world, Address::new(0x1000), false);
                let cache = &raw mut (*record).cache;
                heap.space.refill(cache, NORMAL, class).unwrap();
                (0..used)
                    .map(|_| {
                        let cell = (*cache).heads[NORMAL][class];
                        (*cache).heads[NORMAL][class] = Address::new(cell.load());
                        cell.store(0);
                        cell.word()
                    })
                    .collect::<Vec<usize>>()
            }
        });
        lost.join().unwrap()
    });
    (record, cells.into_iter().map(Address::new).collect())
}

#[test]
fn the_cells_of_a_lost_thread_are_used_once() {
    for sweep in ["sweep=lazy", "sweep=eager"] {
        for used in [0, 1, 40] {
            let mut bench = Bench::new(sweep);
            let class = class_of(128);
            let (record, cells) = lose_a_thread(&mut bench, class, used);
            let mut known = BTreeSet::new();
            if let Some(kept) = cells.first() {
                bench.keep(*kept);
                known.insert(*kept);
            }
            assert_eq!(bench.heap.mutators.count(), 2);
            bench.collect();
            assert_eq!(bench.heap.mutators.count(), 1, "the thread is forgotten");
            // SAFETY: records stay mapped.
            assert!(unsafe { !(*record).in_use });
            bench.verify();
            for _ in 0..1000 {
                let cell = bench.allocate(NORMAL, 128).unwrap();
                assert!(known.insert(cell), "{sweep}, {used} used: handed out twice");
                let words = usize::from(CELL_BYTES[class]) / 8;
                // SAFETY: the test's own object.
                assert!((0..words).all(|word| unsafe { cell.add(word * 8).load() } == 0));
                // SAFETY: `cell` was just handed out to this test, with `words` words.
                (0..words).for_each(|word| unsafe { cell.add(word * 8).store(5) });
            }
        }
    }
}
