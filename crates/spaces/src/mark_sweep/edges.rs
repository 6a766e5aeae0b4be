//! The edge queue of `prefetch=edges`: objects that were found wait here for their marks to be checked.
//!
//! While an object waits, its mark byte and its first line are on the way. This is edge enqueuing (Garner, Blackburn,
//! Frampton, "Effective prefetch for mark-sweep garbage collection", ISMM 2007), with marks at the side.
//!
//! The older policies check the mark of a candidate at once and wait for its cache line, or for a branch that the
//! processor guessed wrong because the line was not there. Here many marks are checked in a row, when their lines have
//! come, and without a branch on what they say.
//!
//! # Invariants
//! - What is in the queue is neither marked by being there nor lost: a worker is idle only when the queue is empty.
//! - The stack has room for a whole queue before marks are checked, else they are checked one by one.
//!
//! Used by the worker that owns it, in the stopped world.

use core::hint::select_unpredictable;
use core::sync::atomic::{AtomicU8, Ordering};

use gleaner_mem::Address;

use super::prefetch::Policy;
use super::scan::{Entry, Scanner};
use super::{MARKED, WHITE};
use crate::mark_sweep::block::Resolved;

/// The longest queue.
pub const MAX_EDGES: usize = 64;

/// An object that was found, with what it takes to grey it.
#[derive(Clone, Copy)]
struct Edge {
    base: usize,
    descriptor: usize,
    mark: *const AtomicU8,
}

/// A ring of edges.
pub struct EdgeQueue {
    edges: [Edge; MAX_EDGES],
    first: usize,
    length: usize,
    /// Most edges that wait: a power of two from 2 to [`MAX_EDGES`].
    capacity: usize,
    /// Takes the store of a mark that was set already.
    nowhere: AtomicU8,
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
            edges: [none; MAX_EDGES],
            first: 0,
            length: 0,
            capacity: capacity.next_power_of_two().clamp(2, MAX_EDGES),
            nowhere: AtomicU8::new(WHITE),
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    #[inline(always)]
    fn put(&mut self, edge: Edge) {
        self.edges[(self.first + self.length) & (MAX_EDGES - 1)] = edge;
        self.length += 1;
    }

    /// The edge `at` places behind the oldest, read by fields (see `read_halves` in [`super::scan`]).
    #[inline(always)]
    fn get(&self, at: usize) -> Edge {
        let edge = &raw const self.edges[(self.first + at) & (MAX_EDGES - 1)];
        // SAFETY: an element of the ring; volatile only so that the loads stay apart.
        unsafe {
            Edge {
                base: (&raw const (*edge).base).read_volatile(),
                descriptor: (&raw const (*edge).descriptor).read_volatile(),
                mark: (&raw const (*edge).mark).read_volatile(),
            }
        }
    }

    #[inline(always)]
    fn remove(&mut self, count: usize) {
        self.first = (self.first + count) & (MAX_EDGES - 1);
        self.length -= count;
    }
}

impl Scanner {
    /// Lets an object wait for its mark to be checked. If the queue is full, its older half is checked first.
    #[inline(always)]
    pub(super) fn enqueue<P: Policy>(&mut self, found: Resolved) {
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        P::touch_mark(found.mark as usize);
        if descriptor != 0 {
            P::touch(found.base.word());
        }
        if self.edges.length == self.edges.capacity {
            self.check_edges(self.edges.capacity / 2);
        }
        self.edges.put(Edge {
            base: found.base.word(),
            descriptor,
            mark: found.mark,
        });
    }

    /// Checks everything that waits; true if something did.
    #[inline(always)]
    pub(super) fn check_all_edges(&mut self) -> bool {
        let waiting = self.edges.length;
        if waiting != 0 {
            self.check_edges(waiting);
        }
        waiting != 0
    }

    /// Greys the `count` oldest edges that are white and pushes those that must be scanned.
    #[inline(always)]
    fn check_edges(&mut self, count: usize) {
        if self.room() < MAX_EDGES && !(self.grow() && self.room() >= MAX_EDGES) {
            self.check_edges_without_room(count);
            return;
        }
        let nowhere = &raw const self.edges.nowhere;
        let mut top = self.top;
        for at in 0..count {
            let edge = self.edges.get(at);
            // SAFETY: the mark of a resolved object.
            let white = unsafe { &*edge.mark }.load(Ordering::Relaxed) == WHITE;
            let mark = select_unpredictable(white, edge.mark, nowhere);
            let must_scan = white & (edge.descriptor != 0);
            // SAFETY: a mark or our own byte; the stack has room for the whole queue.
            unsafe {
                // Relaxed: two markers may both find it white; both push it (I4).
                (*mark).store(MARKED, Ordering::Relaxed);
                (&raw mut (*top).start).write(edge.base);
                (&raw mut (*top).descriptor).write(edge.descriptor);
                top = top.add(usize::from(must_scan));
            }
        }
        self.top = top;
        self.edges.remove(count);
    }

    #[cold]
    #[inline(never)]
    fn check_edges_without_room(&mut self, count: usize) {
        for at in 0..count {
            let edge = self.edges.get(at);
            // SAFETY: the mark of a resolved object.
            let mark = unsafe { &*edge.mark };
            if mark.load(Ordering::Relaxed) != WHITE {
                continue;
            }
            mark.store(MARKED, Ordering::Relaxed);
            let entry = Entry {
                start: edge.base,
                descriptor: edge.descriptor,
            };
            if edge.descriptor != 0 && !self.push(entry) {
                self.context().drop_grey(Address::new(edge.base));
            }
        }
        self.edges.remove(count);
    }
}
