//! Which pages the kernel watches: those of blocks about which it was asked and which are still in use. What becomes free
//! is watched no longer, since each page of it would take a fault when it is handed out again.
//!
//! A model answers in the kernel's place, so this holds on every machine.

#![cfg(not(loom))]

mod harness;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gleaner_mem::Address;
use gleaner_os::written::{KernelModel, Mechanism, PAGE_BYTES, Reason, Watch};
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_spaces::mark_sweep::block::State;
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE, UNCOLLECTABLE};
use harness::Bench;

/// The pages that are watched, by their numbers. Nothing is ever written: the tests count protected pages alone.
#[derive(Default)]
struct Kernel {
    watched: Mutex<BTreeSet<usize>>,
    /// Pages that were released without being watched.
    in_vain: Mutex<usize>,
    /// Questions that were answered.
    rounds: Mutex<usize>,
}

impl Kernel {
    fn watched(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KernelModel for Kernel {
    fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        let mut watched = self.watched();
        for page in low / PAGE_BYTES..high / PAGE_BYTES {
            if watched.insert(page) {
                visit(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
            }
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Reason> {
        *self.rounds.lock().unwrap() += 1;
        Ok(())
    }

    fn release(&self, low: usize, high: usize) {
        let mut watched = self.watched();
        for page in low / PAGE_BYTES..high / PAGE_BYTES {
            if !watched.remove(&page) {
                *self.in_vain.lock().unwrap() += 1;
            }
        }
    }
}

/// A heap whose pages a model watches.
struct Watched {
    bench: Bench,
    kernel: &'static Kernel,
}

impl Watched {
    fn new(options: &str) -> Watched {
        let mut bench = Bench::new(&format!("initial-heap=16m,{options}"));
        bench.steps = false;
        let kernel: &'static Kernel = Box::leak(Box::default());
        let model = |_: &[Range<usize>]| Ok(Watch::modelled(Mechanism::PageScan, kernel));
        bench.heap.space.watch_by(model).unwrap();
        Watched { bench, kernel }
    }

    /// How many pages of `bytes` from `at` on are watched.
    fn count(&self, at: Address, bytes: usize) -> usize {
        let pages = at.word() / PAGE_BYTES..(at.word() + bytes).div_ceil(PAGE_BYTES);
        self.kernel.watched().range(pages).count()
    }

    fn collect_new(&mut self) {
        assert_eq!(self.bench.collect_new("new"), Outcome::Done);
        self.verify();
    }

    fn collect(&mut self) {
        self.bench.collect();
        self.verify();
    }

    /// What is watched is in use.
    fn verify(&self) {
        let space = &self.bench.heap.space;
        let pages: Vec<usize> = self.kernel.watched().iter().copied().collect();
        for page in pages {
            let at = Address::new(page * PAGE_BYTES);
            let index = space.layout.table.index_of(at);
            // SAFETY: a block of the heap, which is at rest.
            let state = unsafe { (*space.layout.table.block(index)).state };
            assert_ne!(state, State::Free, "{at:?} is free and watched");
        }
        assert_eq!(*self.kernel.in_vain.lock().unwrap(), 0);
    }
}

const LARGE: usize = 256 << 10;

/// Collections of everything, or a cycle's first stop, ask about blocks that survived one collection, or about all.
#[test]
fn what_dies_is_watched_no_longer() {
    for (mode, from) in [("sticky", 2), ("incremental", 2)] {
        let mut heap = Watched::new(&format!("generations={mode}"));
        let large = heap.bench.allocate(NORMAL, LARGE).unwrap();
        let neighbour = heap.bench.allocate(NORMAL, LARGE).unwrap();
        heap.bench.keep(large);
        let hidden = [!large.word(), !neighbour.word()];
        heap.bench.roots[0] = neighbour.word();
        let mut small = Vec::new();
        for number in 1..200 {
            let object = heap.bench.allocate(NORMAL, 2000).unwrap();
            heap.bench.roots[number] = object.word();
            small.push(!object.word());
        }
        let first_small = Address::new(!small[0]);
        for collection in 1..=3 {
            let before = heap.count(large, LARGE);
            let expected = match collection >= from {
                true => LARGE / PAGE_BYTES,
                false => 0,
            };
            heap.collect_new();
            let now = heap.count(large, LARGE);
            assert_eq!(now, expected, "{mode}: {before} before {collection}");
        }
        assert!(heap.count(first_small, 1000) > 0);
        heap.bench.replace_kept(first_small);
        heap.bench.roots.fill(0);
        heap.collect();
        // One block of small objects is left, and what its thread is allocating from.
        let left = heap.kernel.watched().len();
        assert!(left <= 8, "{left} pages are watched");
        let again = heap.bench.allocate(NORMAL, LARGE).unwrap();
        assert!(
            hidden.contains(&!again.word()),
            "the same place is used again"
        );
        assert_eq!(heap.count(again, LARGE), 0);
    }
}

#[test]
fn what_the_program_frees_is_watched_no_longer() {
    let mut heap = Watched::new("generations=sticky");
    for kind in [NORMAL, UNCOLLECTABLE, PTRFREE] {
        let large = heap.bench.allocate(kind, LARGE).unwrap();
        heap.bench.roots[0] = large.word();
        heap.collect_new();
        heap.collect_new();
        let expected = if kind == NORMAL { LARGE } else { 0 };
        assert_eq!(heap.count(large, LARGE), expected / PAGE_BYTES);
        heap.bench.roots[0] = 0;
        heap.bench.free(large);
        heap.verify();
        assert_eq!(heap.count(large, LARGE), 0);
    }
}

/// Where a cycle begins, what is new is asked about as well: most of it dies soon.
#[test]
fn what_dies_in_the_first_cycle_is_watched_no_longer() {
    let mut heap = Watched::new("generations=incremental");
    let large = heap.bench.allocate(NORMAL, LARGE).unwrap();
    heap.bench.roots[0] = large.word();
    for _ in 0..100 {
        heap.bench.allocate(NORMAL, 2000).unwrap();
    }
    assert_eq!(heap.bench.begin(), Outcome::Begun);
    assert_eq!(heap.count(large, LARGE), LARGE / PAGE_BYTES);
    while !heap.bench.heap.cycle.can_end() {
        heap.bench.heap.step();
    }
    heap.collect_new();
    heap.bench.roots[0] = 0;
    heap.collect();
    assert_eq!(heap.count(large, LARGE), 0);
}

/// Collections, of so many, that kept marks where each has 64 new objects of `bytes` bytes to mark, all that the one before
/// had marked is dead, and `old` objects live for good; and questions that were asked.
fn kept(mode: &str, bytes: usize, old: usize, collections: usize) -> (usize, usize) {
    let mut heap = Watched::new(&format!("generations={mode}"));
    let all = heap.bench.allocate(NORMAL, 8 * old.max(1)).unwrap();
    heap.bench.keep(all);
    for number in 0..old {
        let object = heap.bench.allocate(NORMAL, 2000).unwrap();
        // SAFETY: a word of the array.
        unsafe { all.add(number * 8).store(object.word()) };
    }
    let mut kept = 0;
    let asked = *heap.kernel.rounds.lock().unwrap();
    for _ in 0..collections {
        heap.bench.roots.fill(0);
        for number in 0..64 {
            heap.bench.roots[number] = heap.bench.allocate(NORMAL, bytes).unwrap().word();
        }
        heap.collect_new();
        kept += usize::from(heap.bench.kept_marks());
    }
    (kept, *heap.kernel.rounds.lock().unwrap() - asked)
}

#[test]
fn marks_are_kept_where_that_pays() {
    for mode in ["sticky", "incremental"] {
        // What is new dies after it was marked once: collections of new objects mark as much, and leave what is dead.
        let (new, asked) = kept(mode, 64 << 10, 0, 60);
        assert!((1..=8).contains(&new), "{mode}: {new} of 60 kept marks");
        assert!(
            asked <= new + 8,
            "{mode}: {asked} questions for {new} of 60"
        );
        // Most of what lives is old.
        let (new, asked) = kept(mode, 64, 4000, 60);
        assert!(new >= 50, "{mode}: {new} of 60 kept marks");
        assert_eq!(asked, 60);
    }
}
