//! Stacks of coroutines that do not run, in a program that names none.
//!
//! Such a program shows itself by a thread that is stopped on a stack that is not known (`stacks`), also after it was asked for
//! its other roots. From then on, unless it names a stack after all, each collection scans all memory in which the program may
//! have put one ([`mappings`]), without what the collector has for itself. Whatever else lies there keeps objects alive, too; so do
//! frames that were left. Where the system does not say what is mapped, collections are abandoned before anything is freed.
//! Stock libgc does not collect at all while such a stack runs.
//!
//! The collecting thread runs it in the stopped world, under the allocator lock.

use gleaner_mem::Address;
use gleaner_os::mappings::{self, Range};

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::stack_bounds::Part;

/// The most that the collecting thread's own frames take.
pub(super) const MOST_FRAMES: usize = 64 << 10;

impl Heap {
    /// Whether there may be stacks that nobody has named: a thread has shown one, and the program has named none of its since. What
    /// such a thread leaves when it ends may run on others.
    pub fn has_unknown_stacks(&self) -> bool {
        self.unknown_remain || self.mutators.find(|thread| thread.shows_unknown).is_some()
    }

    /// Whether there may be some and the system does not say what is mapped.
    pub(crate) fn has_hidden_stacks(&self) -> bool {
        self.has_unknown_stacks() && !mappings::can_be_read()
    }

    /// Scans what may be stacks, if there may be some that nobody has named; returns its bytes. Where the system does not say what is
    /// mapped, the collection is to be abandoned: `stacks_were_hidden`.
    #[inline(never)]
    pub(crate) fn push_unnamed_stacks(&mut self, stack_pointer: Address) -> usize {
        let mut bytes = 0;
        let is_told = self.for_each_unnamed_part(stack_pointer, &mut |_, part| {
            bytes += part.bytes();
            // SAFETY: a copy, of this thread's alone.
            unsafe { self.engine.scan_stack(part.low, part.high) };
        });
        self.stacks_were_hidden = !is_told;
        bytes
    }

    /// Calls `visit` with the bounds of a mapping, and with each part of it that may belong to a stack nobody has named. The
    /// collecting thread's frames above this one are left out; below it may lie another stack. False where there may be some and the system does not say what is mapped.
    pub(crate) fn for_each_unnamed_part(
        &self,
        stack_pointer: Address,
        visit: &mut dyn FnMut(Range, Part),
    ) -> bool {
        if !self.has_unknown_stacks() {
            return true;
        }
        let here = 0usize;
        let frames = ((&raw const here).addr(), stack_pointer.word());
        let is_below = frames.0 < frames.1 && frames.1 - frames.0 <= MOST_FRAMES;
        let hidden = if is_below { frames } else { (0, 0) };
        mappings::for_each_piece(hidden, &mut |mapping, address, words| {
            visit(mapping, Part::copied(address, words));
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::stop::protocol::World;
    use gleaner_base::options::Options;
    use gleaner_os::topology::Topology;
    use gleaner_work::Crew;
    use std::boxed::Box;
    use std::vec::Vec;

    const WORDS: usize = 64;

    /// A heap outside of the stack: there it would take more than frames of the collector may.
    #[inline(never)]
    fn heap() -> Box<Heap> {
        let options = Options {
            reserve: 32 << 20,
            ..Options::DEFAULT
        };
        let (crew, world) = (Box::new(Crew::new()), Box::new(World::new()));
        let (crew, world) = (Box::leak(crew), Box::leak(world));
        Box::new(Heap::new(&options, false, Topology::host(), crew, world).unwrap())
    }

    /// Which words of a frame are looked at when the collector's frames end at `stack_pointer`.
    #[inline(never)]
    fn searched(heap: &Heap, frame: &[usize; WORDS], stack_pointer: Address) -> Vec<usize> {
        let low = Address::of(frame.as_ptr());
        let mut found = Vec::with_capacity(WORDS);
        let is_told = heap.for_each_unnamed_part(stack_pointer, &mut |_, part| {
            let words = (0..WORDS).filter(|word| {
                let at = low.add(word * 8);
                at >= part.at && at < part.at.add(part.bytes())
            });
            found.extend(words);
        });
        assert!(is_told);
        found
    }

    /// What lies on another stack hides nothing, nor does one that is too far for frames of the collector.
    #[test]
    fn frames_of_the_collector_are_no_stack_of_the_program() {
        let mut heap = heap();
        let frame = core::hint::black_box([1; WORDS]);
        let low = Address::of(frame.as_ptr());
        let all: Vec<usize> = (0..WORDS).collect();
        assert_eq!(searched(&heap, &frame, low), [], "no stack is unknown");
        heap.unknown_remain = true;
        assert_eq!(searched(&heap, &frame, low), all);
        assert_eq!(
            searched(&heap, &frame, low.add(WORDS / 4 * 8)),
            all[WORDS / 4..]
        );
        let elsewhere = Address::of(&raw const *heap.context);
        assert_eq!(searched(&heap, &frame, elsewhere), all);
        assert_eq!(searched(&heap, &frame, low.add(2 * MOST_FRAMES)), all);
    }
}
