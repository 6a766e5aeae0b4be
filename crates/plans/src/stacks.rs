//! Which parts of a thread's stack are scanned.
//!
//! As a rule the part from the stack pointer to the cold end, without what lies between a blocking region and the older
//! active section. A program may also run on a stack that nobody told us of (a coroutine's). That shows by the memory
//! between the stack pointer and the cold end: on the known stack all of it can be read, and no stack of another kind
//! is joined to it so. On such a foreign stack both are scanned as far as their memory reaches: the known stack, which
//! has somewhere the frames that switched away, and the foreign one from the stack pointer up. What the program
//! registered as roots is scanned anyway. Stacks of coroutines that do not run are the program's to name.
//!
//! Runs under the allocator lock; the thread is stopped, in a blocking region, or the calling one.

use gleaner_mem::Address;
use gleaner_os::memory;

use crate::mutator::Mutator;

/// Memory below a cold end that was found readable. It is probed downwards, so that each page is asked about once: a
/// stack pointer on another stack costs a look at the page below, where this one ended before.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProbedStack {
    low: Address,
    base: Address,
}

/// The most that a thread's stack is believed to have.
const MOST_KNOWN: usize = 1 << 30;
/// The most that is scanned of a foreign stack: its memory may be a piece of something larger.
const MOST_FOREIGN: usize = 8 << 20;

impl ProbedStack {
    /// Whether all memory from `pointer` to `base` can be read.
    fn reaches(&mut self, pointer: Address, base: Address) -> bool {
        if self.base != base {
            *self = ProbedStack { low: base, base };
        }
        let near = pointer < base && base.offset_from(pointer) <= MOST_KNOWN;
        near && self.probe(pointer) <= pointer
    }

    /// The lowest address from which all memory up to the cold end can be read.
    fn lowest(&mut self) -> Address {
        self.probe(Address::new(self.base.word().saturating_sub(MOST_KNOWN)))
    }

    /// The lowest address that is known to reach the cold end, after a look as far down as `most`.
    fn probe(&mut self, most: Address) -> Address {
        if most < self.low {
            self.low = Address::new(memory::readable_start(most.word(), self.low.word()));
        }
        self.low
    }
}

impl Mutator {
    /// Whether `stack_pointer` lies on the stack whose cold end is `base`, or on the alternate one.
    pub fn is_on_known_stack(&mut self, stack_pointer: Address, base: Address) -> bool {
        self.probed.reaches(stack_pointer, base) || self.is_on_alt_stack(stack_pointer)
    }

    /// Calls `visit` with each part of the stack to scan, for a thread whose frames end at `stack_pointer` and whose
    /// stack has its cold end at `base`.
    ///
    /// # Safety
    /// The thread must be stopped, blocked, or the calling one.
    pub unsafe fn for_each_stack_part(
        &mut self,
        stack_pointer: Address,
        base: Address,
        mut visit: impl FnMut(Address, Address),
    ) {
        if stack_pointer != base && !self.is_on_known_stack(stack_pointer, base) {
            let most = stack_pointer.word().saturating_add(MOST_FOREIGN);
            let end = memory::readable_end(stack_pointer.word(), most);
            visit(stack_pointer, Address::new(end));
            visit(self.probed.lowest(), base);
            return;
        }
        let mut low = stack_pointer;
        for section in self.active.iter().rev() {
            // A section below the stack pointer was left by longjmp or an exception.
            if section.frame >= low {
                visit(low, section.frame);
                low = section.blocked_at;
            }
        }
        if self.is_on_alt_stack(low) {
            visit(low, self.alt_stack.low.add(self.alt_stack.bytes));
            visit(self.alt_stack.normal_low, base);
        } else {
            visit(low, base);
        }
    }

    fn is_on_alt_stack(&self, stack_pointer: Address) -> bool {
        self.alt_stack.bytes != 0
            && stack_pointer.offset_from(self.alt_stack.low) < self.alt_stack.bytes
    }
}
