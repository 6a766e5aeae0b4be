//! Which parts of a thread's stack are scanned.
//!
//! As a rule the part from the stack pointer to the cold end, without what lies between a blocking region and the older
//! active section. A program may also run on a stack that the collector does not know (a coroutine's). That shows by
//! the memory between the stack pointer and the cold end: on the known stack all of it can be read, and no stack of
//! another kind is joined to it so. On such a foreign stack both are scanned as far as their memory reaches: the known
//! stack, which has somewhere the frames that switched away, and the foreign one from the stack pointer up. What the
//! program registered as roots is scanned anyway. From then on there may be stacks of coroutines that do not run: where the
//! program names none, all memory that may hold some is scanned (`unnamed_stacks`).
//!
//! Runs under the allocator lock; the thread is stopped, in a blocking region, or the calling one.

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_os::mappings::Copier;
use gleaner_os::threads::ThreadId;
use gleaner_os::{memory, threads};

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::mutator::Mutator;
use crate::mark_sweep::request::Client;
use crate::mark_sweep::stack_bounds::{LeaderStack, MOST_FOREIGN, MOST_KNOWN, Part};

impl Mutator {
    /// Whether `stack_pointer` lies on the stack whose cold end is `base`, or on the alternate one.
    pub fn is_on_known_stack(&mut self, stack_pointer: Address, base: Address) -> bool {
        self.probed.reaches(stack_pointer, base) || self.is_on_alt_stack(stack_pointer)
    }

    /// Calls `visit` with each part of the stack to scan, for a thread whose frames end at `stack_pointer` and whose
    /// stack has its cold end at `base`; whether it runs on another stack than that. Where some do (`some_unknown`), stacks are
    /// copied: what joins them may be unmapped meanwhile by a thread that the collector does not stop.
    ///
    /// # Safety
    /// The thread must be stopped, blocked, or the calling one.
    pub(crate) unsafe fn for_each_stack_part(
        &mut self,
        stack_pointer: Address,
        base: Address,
        some_unknown: bool,
        mut visit: impl FnMut(Part),
    ) -> bool {
        if some_unknown {
            self.probed.forget();
        }
        let mut part = |low: Address, high: Address| {
            if some_unknown {
                Copier::new().copy_all((low.word(), high.word()), &mut |at, words| {
                    visit(Part::copied(at, words));
                });
            } else if low < high {
                visit(Part::in_its_place(low, high));
            }
        };
        if stack_pointer != base && !self.is_on_known_stack(stack_pointer, base) {
            self.probed.forget();
            let most = base.word().saturating_sub(MOST_KNOWN);
            let low = memory::readable_start(most, base.word());
            let end = stack_pointer.word().saturating_add(MOST_FOREIGN);
            let mut copier = Copier::new();
            let mut copied = |at: usize, words: &[usize]| visit(Part::copied(at, words));
            copier.copy_all((low, base.word()), &mut copied);
            copier.copy_up((stack_pointer.word(), end), &mut copied);
            return true;
        }
        let mut low = stack_pointer;
        for section in self.active.iter().rev() {
            // A section below the stack pointer was left by longjmp or an exception.
            if section.frame >= low {
                part(low, section.frame);
                low = section.blocked_at;
            }
        }
        if self.is_on_alt_stack(low) {
            part(low, self.alt_stack.low.add(self.alt_stack.bytes));
            part(self.alt_stack.normal_low, base);
        } else {
            part(low, base);
        }
        false
    }

    fn is_on_alt_stack(&self, stack_pointer: Address) -> bool {
        self.alt_stack.bytes != 0
            && stack_pointer.offset_from(self.alt_stack.low) < self.alt_stack.bytes
    }
}

impl Heap {
    /// Scans the stacks of all threads, as the client says at this moment where they are; returns their bytes. Only
    /// while roots are pushed; at other times it does nothing.
    pub fn push_stacks(&mut self, client: &dyn Client) -> usize {
        let Some(leader) = self.leader_stack else {
            return 0;
        };
        // SAFETY: the heap has this while roots are pushed alone, so its world is stopped; that one is borrowed for reading.
        let world = &unsafe { WorldStopped::begin() };
        let mut bytes = 0;
        self.for_each_stack_part(world, leader.pointer, client, &mut |_, part| {
            bytes += part.bytes();
            // SAFETY: a part of the stack of a thread that is stopped, blocked, or the calling one.
            unsafe { self.engine.scan_stack(part.low, part.high) };
        });
        self.leader_stack = Some(LeaderStack {
            scanned: Some(leader.scanned.unwrap_or(0).max(bytes)),
            ..leader
        });
        bytes
    }

    /// Calls `visit` with each part of a stack that is scanned, and its thread; the calling thread's stack from
    /// `stack_pointer` on. Notes which threads run on a stack that is not known.
    pub(crate) fn for_each_stack_part(
        &self,
        world: &WorldStopped<'_>,
        stack_pointer: Address,
        client: &dyn Client,
        visit: &mut dyn FnMut(ThreadId, Part),
    ) {
        let some_unknown = self.has_unknown_stacks();
        let own = threads::current_tid();
        self.mutators.for_each_stopped(world, |thread| {
            // SAFETY: records stay mapped, the lock guards these fields, and this is the one reference to the record.
            let thread = unsafe { &mut *thread };
            if thread.gone {
                return;
            }
            let tid = thread.tid;
            let found = match () {
                () if tid == own => stack_pointer,
                () if thread.is_blocked() => thread.blocked_at,
                () => Address::new(thread.station.stack_pointer()),
            };
            let (from, base) = client.stack_of(thread, found);
            // SAFETY: the thread is stopped, blocked, or the calling one.
            thread.shows_unknown |= unsafe {
                thread.for_each_stack_part(from, base, some_unknown, |part| visit(tid, part))
            };
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::mutator::{ActiveSection, AltStack, Mutators};
    use crate::mark_sweep::stack_bounds::ProbedStack;
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
            thread.for_each_stack_part(at(stack_pointer), at(WORDS), false, |part| {
                assert_eq!(part.at, part.low);
                found.push((word(part.low), word(part.high)));
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

    /// Here a page that was asked about goes: nobody sees it until what was found is forgotten.
    #[test]
    fn each_page_of_a_stack_is_asked_about_once() {
        let bytes = memory::page_size();
        const PAGES: usize = 16;
        let mapped = memory::map(PAGES * bytes).unwrap();
        let low = Address::of(mapped.as_ptr());
        let page = |number: usize| low.add(number * bytes);
        let mut probed = ProbedStack::default();
        assert!(probed.reaches(page(8), page(PAGES)));
        // SAFETY: pages of this test, which are not used.
        assert!(unsafe { memory::forbid(mapped.add(12 * bytes), bytes) });
        for pointer in [page(8), page(4), page(14), low] {
            assert!(probed.reaches(pointer, page(PAGES)), "{pointer:?}");
        }
        assert!(probed.reaches(page(4), page(12)), "another stack");
        assert!(!probed.reaches(page(8), page(PAGES)), "found anew");
        assert!(probed.reaches(page(13), page(PAGES)));
        // SAFETY: mapped above, and used no more.
        assert!(unsafe { memory::unmap(mapped, PAGES * bytes) });
    }

    /// Another thread may unmap what joins a stack while it is scanned: here pages go when the first part has been seen.
    #[test]
    fn stacks_are_copied_where_one_is_unknown() {
        let bytes = memory::page_size();
        const PAGES: usize = 200;
        const GONE: (usize, usize) = (100, 120);
        let mapped = memory::map(PAGES * bytes).unwrap();
        let low = Address::of(mapped.as_ptr());
        let page = |number: usize| low.add(number * bytes);
        // SAFETY: mapped above.
        (0..PAGES).for_each(|number| unsafe { page(number).store(number) });
        let mut record = Box::<Mutator>::new_uninit();
        // SAFETY: the list is dropped before the memory, and nobody else reads it.
        let thread = unsafe {
            Mutators::new().add(record.as_mut_ptr());
            record.assume_init_mut()
        };
        let mut seen = Vec::new();
        let mut visit = |part: Part| {
            assert!(part.high <= low || part.low >= page(PAGES), "a copy");
            if seen.is_empty() {
                // SAFETY: pages of this test, which are not used again.
                assert!(unsafe {
                    memory::forbid(mapped.add(GONE.0 * bytes), (GONE.1 - GONE.0) * bytes)
                });
            }
            let first = part.at.offset_from(low) / bytes;
            for number in 0..part.bytes() / bytes {
                // SAFETY: a word of the part.
                let word = unsafe { part.low.add(number * bytes).load() };
                assert_eq!(word, first + number);
                seen.push(first + number);
            }
        };
        // SAFETY: there is no such thread.
        let is_foreign = unsafe { thread.for_each_stack_part(low, page(PAGES), true, &mut visit) };
        assert!(!is_foreign);
        let expected: Vec<usize> = (0..GONE.0).chain(GONE.1..PAGES).collect();
        assert_eq!(seen, expected);
        // SAFETY: mapped above, and used no more; the record was made above.
        unsafe {
            assert!(memory::unmap(mapped, PAGES * bytes));
            record.assume_init_drop();
        }
    }
}
