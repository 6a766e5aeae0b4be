//! What objects and roots refer to, without marking anything: for a snapshot of the heap.
//!
//! The scanner's own rules are used under a policy that greys nothing (`Observing`): each object that a word, a bitmap or a
//! mark procedure leads to comes onto the leader's stack, white or not, and is taken off it here.
//!
//! Runs on the collecting thread in the stopped world, when nothing is grey.

use core::sync::atomic::Ordering;

use gleaner_mem::Address;

use super::MARKED;
use super::allocate::is_freed;
use super::mark::MarkEngine;
use super::prefetch::{Policy, Prefetch};
use super::scan::{Entry, MarkContext, Scanner};
use super::space::MarkSweep;
use crate::mark_sweep::block::Resolved;

/// The policy that greys nothing.
struct Observing;

impl Policy for Observing {
    const PREFETCH: Prefetch = Prefetch::None;
    const PERMUTED: bool = false;
    const OBSERVES: bool = true;

    #[inline(always)]
    fn touch(_: usize) {}
}

/// In the start of an entry, which is a multiple of 8: it is a range whose words are roots,
const RANGE: usize = 1;
/// under the lax rule.
const LAX: usize = 2;

impl MarkContext {
    /// Calls `visit` with each word of `low..high` that leads to an object, under the rule of the heap or the `lax` one of
    /// stacks: where it is, and the object.
    ///
    /// # Safety
    /// The range must be readable.
    pub unsafe fn for_each_reference(
        &self,
        low: Address,
        high: Address,
        lax: bool,
        visit: &mut dyn FnMut(Address, Resolved),
    ) {
        let (mut at, high) = (low.align_up(8), high.align_down(8));
        while at < high {
            // SAFETY: `low..high` is readable, as asked.
            let word = unsafe { at.load_shared() };
            if self.table.contains(word)
                && let Some(found) = self.find(word, lax)
                // SAFETY: a resolved object.
                && unsafe { !is_freed(found.base) }
            {
                visit(at, found);
            }
            at = at.add(8);
        }
    }

    /// Counts a target that found no room on the mark stack.
    #[cold]
    pub(super) fn miss_target(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl Scanner {
    /// Pushes what `word` refers to.
    pub(super) fn observe(&mut self, word: usize, lax: bool) {
        let Some(found) = self.context().find(word, lax) else {
            return;
        };
        // SAFETY: a resolved object.
        if unsafe { is_freed(found.base) } {
            return;
        }
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        let start = found.base.word();
        if !self.push(Entry { start, descriptor }) {
            self.context().miss_target();
        }
    }
}

impl MarkEngine {
    pub(super) fn observes(&self) -> bool {
        self.lead(|leader| leader.context().observes)
    }

    /// Keeps a range whose words are roots until [`MarkEngine::take_targets`]: they may be more than the mark stack holds.
    pub(super) fn keep_range(&self, low: Address, high: Address, lax: bool) {
        let (low, high) = (low.align_up(8), high.align_down(8));
        if low >= high {
            return;
        }
        let tag = if lax { RANGE | LAX } else { RANGE };
        let entry = Entry {
            start: low.word() | tag,
            descriptor: high.offset_from(low),
        };
        self.lead(|leader| {
            if !leader.push(entry) {
                leader.context().miss_target();
            }
        });
    }

    /// Calls `visit` with each object that an object refers to, as often as it does. The context must observe, and the stack be
    /// empty.
    ///
    /// # Safety
    /// The descriptor must be the object's; the world must be stopped.
    pub unsafe fn for_each_target(
        &self,
        object: Address,
        descriptor: usize,
        visit: &mut dyn FnMut(Address),
    ) {
        let mut entry = Entry {
            start: object.word(),
            descriptor,
        };
        self.lead(|leader| {
            loop {
                // SAFETY: the descriptor is the object's, or what was pushed describes readable memory; the world is
                // stopped, as asked.
                unsafe { leader.follow::<Observing>(entry, true, false) };
                // The rest of what is being looked at lies below what was found in it, so the stack stays small.
                loop {
                    match leader.pop() {
                        None => return,
                        Some(found) if leader.context().is_object(found) => {
                            visit(Address::new(found.start));
                        }
                        Some(rest) => {
                            entry = rest;
                            break;
                        }
                    }
                }
            }
        });
    }

    /// Takes the roots that were observed since the last call, and calls `visit` with each object that they lead to.
    ///
    /// # Safety
    /// What was observed must be readable still; the world must be stopped.
    pub unsafe fn take_targets(&self, visit: &mut dyn FnMut(Address)) {
        self.lead(|leader| {
            while let Some(entry) = leader.pop() {
                if entry.start & RANGE == 0 {
                    visit(Address::new(entry.start));
                    continue;
                }
                let low = Address::new(entry.start & !(RANGE | LAX));
                let high = low.add(entry.descriptor);
                let lax = entry.start & LAX != 0;
                // SAFETY: the range is readable, as asked.
                unsafe {
                    leader
                        .context()
                        .for_each_reference(low, high, lax, &mut |_, found| visit(found.base));
                }
            }
        });
    }
}

/// An object that is marked.
#[derive(Clone, Copy, Debug)]
pub struct MarkedObject {
    /// Its first byte.
    pub base: Address,
    /// Bytes of its cell.
    pub bytes: usize,
    /// Its kind.
    pub kind: usize,
    /// How it is scanned; 0 for not at all.
    pub descriptor: usize,
}

impl MarkSweep {
    /// Calls `visit` with each marked object, small ones first, in address order. Those that were freed are none, though
    /// what threads hold of them is marked; free cells that were never freed explicitly may be among them.
    pub fn for_each_marked(&self, mut visit: impl FnMut(MarkedObject)) {
        self.for_each_small_block(|index, block| {
            let marks = self.layout.table.marks_of(index);
            for object in 0..usize::from(block.objects) {
                // SAFETY: `object` is below the number of cells.
                let mark = unsafe { (*marks.add(object)).load(Ordering::Relaxed) };
                let base = self.start(index).add(object * block.bytes);
                // SAFETY: a cell of a block in use.
                if mark == MARKED && unsafe { !is_freed(base) } {
                    visit(MarkedObject {
                        base,
                        bytes: block.bytes,
                        kind: block.kind.into(),
                        descriptor: block.descriptor,
                    });
                }
            }
        });
        self.for_each_large(|index, block| {
            let base = self.start(index);
            // SAFETY: a large object.
            if block.large_mark.load(Ordering::Relaxed) == MARKED && unsafe { !is_freed(base) } {
                visit(MarkedObject {
                    base,
                    bytes: block.bytes,
                    kind: block.kind.into(),
                    descriptor: block.descriptor,
                });
            }
        });
    }
}
