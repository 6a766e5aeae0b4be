//! Stacks of coroutines that do not run, in a program that names none.
//!
//! Such a program shows itself by a thread that is stopped on a stack that is not known (`stacks`). From then on each collection
//! scans all memory in which the program may have put a stack: what can be written and no file on disk holds, without the heap,
//! what the collector has for itself, and what is known of threads' stacks. Whatever else lies there keeps objects alive, too, as
//! long as the program names no stack; stock libgc does not collect at all while such a stack runs.
//!
//! The collecting thread runs it in the stopped world, under the allocator lock.

use gleaner_mem::Address;
use gleaner_os::mappings::{self, Range};

use crate::mark_sweep::collect::Client;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::stacks::Part;

/// The most of the collecting thread's own frames that is left out.
const MOST_FRAMES: usize = 64 << 10;

impl Heap {
    /// Scans what may be stacks, if there may be some that nobody has named; returns its bytes.
    #[inline(never)]
    pub(crate) fn push_unnamed_stacks(&self, stack_pointer: Address, client: &dyn Client) -> usize {
        let mut bytes = 0;
        self.for_each_unnamed_part(stack_pointer, client, &mut |_, part| {
            bytes += part.bytes();
            // SAFETY: a copy, of this thread's alone.
            unsafe { self.engine.scan_stack(part.low, part.high) };
        });
        bytes
    }

    /// Calls `visit` with the bounds of a mapping, and with each part of it that may belong to a stack nobody has named.
    pub(crate) fn for_each_unnamed_part(
        &self,
        stack_pointer: Address,
        client: &dyn Client,
        visit: &mut dyn FnMut(Range, Part),
    ) {
        if !self.has_unknown_stacks || client.names_stacks() {
            return;
        }
        let here = 0usize;
        let frames = ((&raw const here).addr(), stack_pointer.word());
        let is_below = frames.0 < frames.1 && frames.1 - frames.0 <= MOST_FRAMES;
        let frames = is_below.then_some(frames);
        let mut hidden = |address: usize| {
            let mut first = frames.filter(|&(_, end)| end > address);
            self.mutators.for_each(|thread| {
                // SAFETY: records stay mapped, and the lock guards these fields.
                let known = unsafe { (*thread).known_stack() };
                let (low, end) = known;
                if low < end && end > address && first.is_none_or(|(_, before)| end < before) {
                    first = Some(known);
                }
            });
            first
        };
        // Where the system does not say what is mapped, the heap grows (`decide::heap_size`), unless it cannot: then what can be
        // found has to do.
        mappings::for_each_piece(&mut hidden, &mut |mapping, address, words| {
            visit(mapping, Part::copied(address, words));
        });
    }
}
