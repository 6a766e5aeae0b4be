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
        // However long that takes here, what is not begun in steps is marked in the stop.
        bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
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

/// A program whose roots are replaced before each collection.
struct Program {
    heap: Watched,
    all: Address,
    old: usize,
}

impl Program {
    /// With `old` old objects that live for good.
    fn new(mode: &str, old: usize) -> Program {
        let mut heap = Watched::new(&format!("generations={mode}"));
        let all = heap.bench.allocate(NORMAL, 64 << 10).unwrap();
        heap.bench.keep(all);
        let mut program = Program { heap, all, old: 0 };
        program.add_old(old);
        program
    }

    fn add_old(&mut self, objects: usize) {
        for number in self.old..self.old + objects {
            let object = self.heap.bench.allocate(NORMAL, 2000).unwrap();
            // SAFETY: a word of the array.
            unsafe { self.all.add(number * 8).store(object.word()) };
        }
        self.old += objects;
    }

    /// How many of `collections` collections kept marks, and how many questions were asked. Before each, 64 new objects
    /// of `bytes` bytes take the place of those before. One in `writes` of the old objects is written; none if it is 0.
    fn run(&mut self, collections: usize, bytes: usize, writes: usize) -> (usize, usize) {
        let (mut kept, asked) = (0, *self.heap.kernel.rounds.lock().unwrap());
        for _ in 0..collections {
            self.heap.bench.roots.fill(0);
            for number in 0..64 {
                let object = self.heap.bench.allocate(NORMAL, bytes).unwrap();
                self.heap.bench.roots[number] = object.word();
            }
            for number in (0..self.old).filter(|number| writes != 0 && number % writes == 0) {
                // SAFETY: a word of the array.
                let object = unsafe { self.all.add(number * 8).load() };
                self.heap.kernel.watched().remove(&(object / PAGE_BYTES));
            }
            self.heap.collect_new();
            kept += usize::from(self.heap.bench.kept_marks());
        }
        (kept, *self.heap.kernel.rounds.lock().unwrap() - asked)
    }
}

#[test]
fn marks_are_kept_where_that_pays() {
    for mode in ["sticky", "incremental"] {
        // What is new dies after it was marked once: collections of new objects mark as much, and leave what is dead.
        let (kept, asked) = Program::new(mode, 0).run(60, 64 << 10, 0);
        assert!((1..=8).contains(&kept), "{mode}: {kept} of 60 kept marks");
        assert!(asked <= kept + 8, "{mode}: {asked} questions, {kept} kept");
        // Most of what lives is old.
        let (kept, asked) = Program::new(mode, 4000).run(60, 64, 0);
        assert!(kept >= 50, "{mode}: {kept} of 60 kept marks");
        assert_eq!(asked, 60);
        // A fifth of its pages is written each time, or half of them: these are scanned, and each has taken a fault.
        let (kept, _) = Program::new(mode, 4000).run(60, 64, 10);
        assert!(kept >= 40, "{mode}: {kept} of 60 kept marks");
        let (kept, _) = Program::new(mode, 4000).run(60, 64, 4);
        assert!(kept < 40, "{mode}: {kept} of 60 kept marks");
    }
}

#[test]
fn marks_are_kept_again_when_much_more_lives() {
    let mut program = Program::new("sticky", 0);
    // A long rest has just begun.
    program.run(20, 64 << 10, 0);
    program.add_old(8000);
    let (kept, _) = program.run(12, 64, 0);
    assert!(kept >= 8, "{kept} of 12 kept marks");
}
