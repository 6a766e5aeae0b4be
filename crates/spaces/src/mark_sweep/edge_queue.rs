//! The memory of the queue of `prefetch=edges` ([`super::edges`]).

use core::sync::atomic::AtomicU8;

use gleaner_mem::address::CACHE_LINE;

use super::block::Resolved;
use super::marks::WHITE;

/// The longest queue.
pub const MAX_EDGES: usize = 64;

/// The bits that may be set in the descriptor of a small object: a length in words, less than two cache lines.
pub(super) const SMALL: usize = (2 * CACHE_LINE - 1) & !7;

/// Places of half a queue. It is full earlier, but the words of an object are looked at together.
pub(super) const PLACES: usize = MAX_EDGES / 2 + SMALL / 8;

/// An object that was found, with what it takes to grey it.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub(super) base: usize,
    pub(super) descriptor: usize,
    pub(super) mark: *const AtomicU8,
}

/// Words that were found in objects, and two halves of a queue of edges: one is filled while what is in the other, which is
/// older, waits.
pub struct EdgeQueue {
    /// Words in the span of the heap; one more place takes a word that is not.
    pub(super) words: [usize; PLACES + 1],
    /// How many words there are.
    pub(super) found: usize,
    pub(super) halves: [[Edge; PLACES]; 2],
    /// The half that is filled, and how many edges are in it.
    pub(super) filling: usize,
    pub(super) filled: usize,
    /// How many edges wait in the other half.
    pub(super) older: usize,
    /// How many words, or edges, are enough: a power of two up to half of [`MAX_EDGES`].
    pub(super) half: usize,
    /// Takes the store of a mark that was set already.
    pub(super) nowhere: AtomicU8,
}

impl EdgeQueue {
    /// An empty queue for `capacity` edges.
    pub fn new(capacity: usize) -> EdgeQueue {
        let none = Edge {
            base: 0,
            descriptor: 0,
            mark: core::ptr::null(),
        };
        EdgeQueue {
            words: [0; PLACES + 1],
            found: 0,
            halves: [[none; PLACES]; 2],
            filling: 0,
            filled: 0,
            older: 0,
            half: capacity.next_power_of_two().clamp(2, MAX_EDGES) / 2,
            nowhere: AtomicU8::new(WHITE),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.found == 0 && self.filled == 0 && self.older == 0
    }

    /// Where the half that is filled starts.
    #[inline(always)]
    pub(super) fn start(&mut self) -> *mut Edge {
        self.halves[self.filling & 1].as_mut_ptr()
    }

    #[inline(always)]
    pub(super) fn put(&mut self, found: Resolved, descriptor: usize) {
        self.halves[self.filling & 1][self.filled] = Edge {
            base: found.base.word(),
            descriptor,
            mark: found.mark,
        };
        self.filled += 1;
    }
}

/// Reads an edge by fields (see [`super::entry::read_halves`]).
///
/// # Safety
/// `edge` must be readable.
#[inline(always)]
pub(super) unsafe fn read_fields(edge: *const Edge) -> Edge {
    // SAFETY: `edge` is readable, as asked; volatile only so that the loads stay apart.
    unsafe {
        Edge {
            base: (&raw const (*edge).base).read_volatile(),
            descriptor: (&raw const (*edge).descriptor).read_volatile(),
            mark: (&raw const (*edge).mark).read_volatile(),
        }
    }
}
