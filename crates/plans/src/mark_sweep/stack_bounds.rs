//! Where stacks begin and end, as far as it is known.

use gleaner_mem::Address;
use gleaner_os::memory;

/// Memory below a cold end that was found readable. It is probed downwards, so that each page is asked about once: a
/// stack pointer on another stack costs a look at the page below, where this one ended before.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProbedStack {
    pub(super) low: Address,
    pub(super) base: Address,
}

/// The most that a thread's stack is believed to have.
pub(super) const MOST_KNOWN: usize = 1 << 30;
/// The most that is scanned of a foreign stack: its memory may be a piece of something larger.
pub(super) const MOST_FOREIGN: usize = 8 << 20;

impl ProbedStack {
    /// Whether all memory from `pointer` to `base` can be read.
    pub(super) fn reaches(&mut self, pointer: Address, base: Address) -> bool {
        if self.base != base {
            *self = ProbedStack { low: base, base };
        }
        let near = pointer < base && base.offset_from(pointer) <= MOST_KNOWN;
        near && self.probe(pointer) <= pointer
    }

    /// Forgets what was found: another stack may have joined this one, and be gone.
    pub(super) fn forget(&mut self) {
        *self = ProbedStack::default();
    }

    /// The lowest address that is known to reach the cold end, after a look as far down as `most`.
    pub(super) fn probe(&mut self, most: Address) -> Address {
        if most < self.low {
            self.low = Address::new(memory::readable_start(most.word(), self.low.word()));
        }
        self.low
    }
}

/// A part of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Where it lies.
    pub at: Address,
    /// Where its words are read: in their place, or in a copy that is the collector's.
    pub low: Address,
    pub high: Address,
}

impl Part {
    pub(super) fn in_its_place(low: Address, high: Address) -> Part {
        Part { at: low, low, high }
    }

    pub(crate) fn copied(at: usize, words: &[usize]) -> Part {
        let low = Address::of(words.as_ptr());
        Part {
            at: Address::new(at),
            low,
            high: low.add(size_of_val(words)),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.high.offset_from(self.low)
    }
}

/// The stack that the collection itself runs on, while roots are pushed.
#[derive(Clone, Copy, Debug)]
pub struct LeaderStack {
    /// Where the scan of it starts.
    pub(crate) pointer: Address,
    /// Bytes of all stacks, once they were scanned.
    pub(crate) scanned: Option<usize>,
}
