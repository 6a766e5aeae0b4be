//! Which parts of a thread's stack are scanned.
//!
//! As a rule the part from the stack pointer to the cold end, without what lies between a blocking region and the older
//! active section. A program may also run on a stack that the collector does not know (a coroutine's). That shows by
//! the memory between the stack pointer and the cold end: on the known stack all of it can be read, and no stack of
//! another kind is joined to it so. On such a foreign stack both are scanned as far as their memory reaches: the known
//! stack, which has somewhere the frames that switched away, and the foreign one from the stack pointer up. What the
//! program registered as roots is scanned anyway. Stacks of coroutines that do not run are the program's to name.
//!
//! Runs under the allocator lock; the thread is stopped, in a blocking region, or the calling one.

use gleaner_mem::Address;
use gleaner_os::memory;

use crate::mark_sweep::mutator::Mutator;

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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::mutator::{ActiveSection, AltStack, Mutators};
    use std::boxed::Box;
    use std::vec::Vec;

    const WORDS: usize = 4096;

    /// A stack, and the parts of it that are scanned from the word `stack_pointer` on, as numbers of words. `prepare`
    /// gets the thread, and makes an address of such a number.
    fn parts(
        stack: &[u64; WORDS],
        stack_pointer: usize,
        prepare: impl FnOnce(&mut Mutator, &dyn Fn(usize) -> Address),
    ) -> Vec<(usize, usize)> {
        let at = |word: usize| Address::of(stack.as_ptr()).add(word * 8);
        let mut record = Box::<Mutator>::new_uninit();
        // SAFETY: the list is dropped before the memory, and nobody else reads it.
        let thread = unsafe {
            Mutators::new().add(record.as_mut_ptr());
            record.assume_init_mut()
        };
        prepare(thread, &at);
        let mut found = Vec::new();
        let word = |of: Address| of.offset_from(at(0)) / 8;
        // SAFETY: there is no such thread.
        unsafe {
            thread.for_each_stack_part(at(stack_pointer), at(WORDS), |low, high| {
                found.push((word(low), word(high)));
            });
            record.assume_init_drop();
        }
        found
    }

    fn stack() -> Box<[u64; WORDS]> {
        Box::new([0; WORDS])
    }

    #[test]
    fn all_of_a_stack_is_one_part() {
        assert_eq!(parts(&stack(), 100, |_, _| {}), [(100, WORDS)]);
    }

    /// Two regions, each with a section in it: what lies between a section and its region is nobody's.
    #[test]
    fn sections_of_frames_are_scanned_without_what_lies_between() {
        let sections = |thread: &mut Mutator, at: &dyn Fn(usize) -> Address| {
            thread.active = [(3000, 3100), (2000, 2100)]
                .map(|(frame, blocked_at)| ActiveSection {
                    frame: at(frame),
                    blocked_at: at(blocked_at),
                })
                .into();
        };
        assert_eq!(
            parts(&stack(), 100, sections),
            [(100, 2000), (2100, 3000), (3100, WORDS)]
        );
        // The newer one was left by longjmp.
        assert_eq!(
            parts(&stack(), 2500, sections),
            [(2500, 3000), (3100, WORDS)]
        );
    }

    /// In a handler on an alternate stack: that stack from the handler's frames up, and the whole normal one.
    #[test]
    fn an_alternate_stack_is_scanned_beside_the_normal_one() {
        let alternate = |thread: &mut Mutator, at: &dyn Fn(usize) -> Address| {
            thread.alt_stack = AltStack {
                normal_low: at(1000),
                low: at(50),
                bytes: 200 * 8,
            };
        };
        assert_eq!(parts(&stack(), 100, alternate), [(100, 250), (1000, WORDS)]);
        assert_eq!(parts(&stack(), 1500, alternate), [(1500, WORDS)]);
    }
}
