//! About which pages the kernel is asked, and in how many calls: one reaches over blocks of no interest that lie between others, as
//! long as they are few. It does not where a later question trusts that a block was never asked about.
#![cfg(not(loom))]

mod support;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use gleaner_mem::Address;
use gleaner_os::written::{KernelModel, Mechanism, PAGE_BYTES, Reason, Watch};
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, BlockIndex, FRESH, State, WATCHED};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use gleaner_spaces::mark_sweep::scan::MarkContext;
use gleaner_spaces::mark_sweep::sticky::Asked;
use gleaner_spaces::mark_sweep::{MarkSweep, SweepMode};
use support::Space;

const CLASS: usize = 3;
/// Bytes of blocks of no interest that a call reaches over at most.
const MOST: BlockIndex = (256 << 10) / BLOCK_BYTES as BlockIndex;
const PAGES: usize = BLOCK_BYTES / PAGE_BYTES;

/// What the kernel is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Take,
    Begin,
    Read,
    Finish,
}

/// It says that all was written about which it is asked, and remembers what that was.
#[derive(Default)]
struct Kernel(Mutex<Vec<(Call, Range<usize>)>>);

impl Kernel {
    fn note(&self, call: Call, range: Range<usize>) -> Result<(), Reason> {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push((call, range));
        Ok(())
    }
}

impl KernelModel for Kernel {
    fn take(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        visit(low, high);
        self.note(Call::Take, low..high)
    }

    fn begin(&self, low: usize, high: usize) -> Result<(), Reason> {
        self.note(Call::Begin, low..high)
    }

    fn read(
        &self,
        low: usize,
        high: usize,
        visit: &mut dyn FnMut(usize, usize),
    ) -> Result<(), Reason> {
        visit(low, high);
        self.note(Call::Read, low..high)
    }

    fn finish(&self) -> Result<(), Reason> {
        self.note(Call::Finish, 0..0)
    }

    fn release(&self, _: usize, _: usize) {}
}

/// A space whose pages the model watches.
struct Watched {
    space: Space,
    context: Box<MarkContext>,
    kernel: &'static Kernel,
    next: BlockIndex,
    /// The blocks about which it was asked.
    asked: RefCell<BTreeSet<BlockIndex>>,
}

impl Watched {
    fn new() -> Watched {
        let mut space = Space::new(SweepMode::Lazy, false);
        let kernel: &'static Kernel = Box::leak(Box::default());
        let model = |_: &[Range<usize>]| Ok(Watch::modelled(Mechanism::PageScan, kernel));
        space.0.watch_by(model).unwrap();
        let context = Box::new(support::context(&space));
        Watched {
            space,
            context,
            kernel,
            next: 0,
            asked: RefCell::default(),
        }
    }

    /// Adds blocks of a kind, each behind the one before; an object of each.
    fn add(&mut self, kind: usize, blocks: BlockIndex) -> Vec<Address> {
        let add = |_| {
            let list = self.space.0.take_cells(kind, CLASS).unwrap();
            assert_eq!(list.block, self.next);
            self.next += 1;
            list.head
        };
        (0..blocks).map(add).collect()
    }

    fn start(&self, block: BlockIndex) -> usize {
        self.space.0.start(block).word()
    }

    /// Asks in a stop; how many pages of old objects are said to be written, and the calls: of each but the last the blocks.
    fn ask(&self, asked: Asked) -> (usize, Vec<(Call, Range<BlockIndex>)>) {
        let pages = self.space.0.ask_written(&self.context, asked).unwrap();
        (pages, self.calls())
    }

    fn calls(&self) -> Vec<(Call, Range<BlockIndex>)> {
        let heap = self.start(0);
        let calls = std::mem::take(&mut *self.kernel.0.lock().unwrap());
        let blocks = |(call, range): (Call, Range<usize>)| match call {
            Call::Finish => (call, 0..0),
            _ => {
                let index = |at: usize| ((at - heap) / BLOCK_BYTES) as BlockIndex;
                (call, index(range.start)..index(range.end))
            }
        };
        let calls: Vec<(Call, Range<BlockIndex>)> = calls.into_iter().map(blocks).collect();
        let mut asked = self.asked.borrow_mut();
        calls
            .iter()
            .for_each(|(_, blocks)| asked.extend(blocks.clone()));
        for block in 0..self.next {
            // SAFETY: a block of the test's own heap.
            let found = unsafe { &*self.space.0.layout.table.block(block) };
            // Those that a call ran over as well: their watch ends when they become free.
            assert!(
                found.has_flag(WATCHED) || !asked.contains(&block),
                "{block}"
            );
        }
        calls
    }

    /// Asks ahead of a stop.
    fn ask_ahead(&self, asked: Asked) -> Vec<(Call, Range<BlockIndex>)> {
        let answer = self.space.0.ask_ahead(&self.context, asked, 0).unwrap();
        assert!(answer.is_none_or(|next| next >= self.next));
        self.calls()
    }
}

fn finished(calls: &[(Call, Range<BlockIndex>)]) -> Vec<(Call, Range<BlockIndex>)> {
    let end = [(Call::Finish, 0..0)];
    calls.iter().chain(&end).cloned().collect()
}

#[test]
fn what_a_question_ahead_runs_over_is_watched() {
    for asked in [Asked::Begun, Asked::Old] {
        let mut watched = Watched::new();
        watched.add(NORMAL, 1);
        watched.add(PTRFREE, 2);
        watched.add(NORMAL, 1);
        watched.space.0.forget_fresh();
        let calls = watched.ask_ahead(asked);
        assert_eq!(calls[0].1, 0..4);
    }
}

/// By every question.
#[test]
fn one_call_reaches_over_few_blocks_without_pointers() {
    for (gap, is_one) in [(0, true), (1, true), (MOST, true), (MOST + 1, false)] {
        let mut watched = Watched::new();
        watched.add(NORMAL, 2);
        watched.add(PTRFREE, gap);
        watched.add(NORMAL, 3);
        // Of what follows nothing is of interest.
        watched.add(PTRFREE, 2);
        watched.space.0.forget_fresh();
        let (low, high) = match is_one {
            true => (0..5 + gap, None),
            false => (0..2, Some(2 + gap..5 + gap)),
        };
        let by = |call: Call| -> Vec<(Call, Range<BlockIndex>)> {
            let ranges = [low.clone()].into_iter().chain(high.clone());
            ranges.map(|range| (call, range)).collect()
        };
        // Those of blocks without pointers do not count.
        let pages = 5 * PAGES;
        assert_eq!(watched.ask(Asked::Begun), (0, finished(&by(Call::Begin))));
        assert_eq!(watched.ask_ahead(Asked::Begun), finished(&by(Call::Begin)));
        assert_eq!(watched.ask_ahead(Asked::Old), finished(&by(Call::Take)));
        assert_eq!(watched.ask(Asked::Old), (pages, finished(&by(Call::Take))));
        assert_eq!(watched.ask(Asked::All), (pages, finished(&by(Call::Take))));
        // Nobody is going to ask again: the round stays open.
        assert_eq!(watched.ask(Asked::Last), (pages, by(Call::Read)));
    }
}

#[test]
fn no_call_reaches_over_a_free_block() {
    let mut watched = Watched::new();
    let low = watched.add(NORMAL, 1);
    watched.add(NORMAL, 1);
    let high = watched.add(NORMAL, 1);
    watched.space.collect([low[0], high[0]]);
    let state = |space: &MarkSweep, block| {
        // SAFETY: a block of the test's own heap.
        unsafe { (*space.layout.table.block(block)).state }
    };
    assert!(state(&watched.space.0, 1) == State::Free);
    for asked in [Asked::Old, Asked::All] {
        let expected = [(Call::Take, 0..1), (Call::Take, 2..3)];
        assert_eq!(watched.ask(asked), (2 * PAGES, finished(&expected)));
        assert_eq!(watched.ask_ahead(asked), finished(&expected));
    }
    let expected = vec![(Call::Read, 0..1), (Call::Read, 2..3)];
    assert_eq!(watched.ask(Asked::Last), (2 * PAGES, expected));
    let expected = [(Call::Begin, 0..1), (Call::Begin, 2..3)];
    assert_eq!(watched.ask(Asked::Begun).1, finished(&expected));
}

/// As long as the question is not about those blocks, too, or nobody is going to ask again.
#[test]
fn no_call_reaches_over_a_block_that_was_handed_out_since() {
    let mut watched = Watched::new();
    watched.add(NORMAL, 2);
    watched.add(NORMAL, 1);
    watched.add(NORMAL, 2);
    watched.space.0.forget_fresh();
    // SAFETY: a block of the test's own heap.
    let fresh = unsafe { &*watched.space.0.layout.table.block(2) };
    fresh.set_flag(FRESH);
    let apart = [(Call::Take, 0..2), (Call::Take, 3..5)];
    assert_eq!(watched.ask_ahead(Asked::Old), finished(&apart));
    assert_eq!(watched.ask(Asked::Old), (4 * PAGES, finished(&apart)));
    assert!(!fresh.has_flag(WATCHED));
    let expected = vec![(Call::Read, 0..5)];
    assert_eq!(watched.ask(Asked::Last), (4 * PAGES, expected));
    let expected = [(Call::Begin, 0..5)];
    assert_eq!(watched.ask_ahead(Asked::Begun), finished(&expected));
    assert_eq!(watched.ask(Asked::Begun).1, finished(&expected));
    let expected = [(Call::Take, 0..5)];
    assert_eq!(watched.ask_ahead(Asked::All), finished(&expected));
    assert_eq!(watched.ask(Asked::All).1, finished(&expected));
}

/// The verifier wants to know what was written when.
#[test]
fn a_space_that_is_verified_is_told_of_what_was_written_before() {
    let mut watched = Watched::new();
    watched.space.0.verified = true;
    let kernel = watched.kernel;
    let model = |_: &[Range<usize>]| Ok(Watch::modelled(Mechanism::PageScan, kernel));
    watched.space.0.watch_by(model).unwrap();
    watched.add(NORMAL, 2);
    watched.space.0.forget_fresh();
    let expected = finished(&[(Call::Take, 0..2)]);
    assert_eq!(
        watched.ask(Asked::Begun),
        (2 * PAGES, finished(&[(Call::Take, 0..2)]))
    );
    assert_eq!(watched.ask_ahead(Asked::Begun), expected);
}

/// Behind small blocks, and never in one call with them.
#[test]
fn large_objects_are_asked_about_by_themselves() {
    let mut watched = Watched::new();
    watched.add(NORMAL, 1);
    let large = watched.space.large(NORMAL, 10 * PAGE_BYTES);
    watched.space.0.forget_fresh();
    let (low, high) = (large.word(), large.word() + 10 * PAGE_BYTES);
    for (asked, call) in [
        (Asked::Begun, Call::Begin),
        (Asked::Old, Call::Take),
        (Asked::Last, Call::Read),
    ] {
        watched
            .space
            .0
            .ask_written(&watched.context, asked)
            .unwrap();
        let mut calls = std::mem::take(&mut *watched.kernel.0.lock().unwrap());
        calls.retain(|(call, _)| *call != Call::Finish);
        let small = watched.start(0)..watched.start(1);
        assert_eq!(calls, [(call, small), (call, low..high)]);
    }
}
