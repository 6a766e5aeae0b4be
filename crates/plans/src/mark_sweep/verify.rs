//! The verifier at the edges of phases (`verify=edges`): what the space knows of itself, and what threads and roots add.
//!
//! Runs on the collecting thread under the allocator lock, in the stopped world where it says so.

use core::sync::atomic::Ordering;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::Phase;
use gleaner_base::options::Verify;
use gleaner_mem::Address;
use gleaner_os::signals;
use gleaner_spaces::mark_sweep::WHITE;
use gleaner_spaces::mark_sweep::block::Resolved;
use gleaner_spaces::mark_sweep::scan::{FROM_HEAP, FROM_STACK};
use gleaner_spaces::mark_sweep::verify::Fault;

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::request::Client;
use crate::mark_sweep::unnamed_stacks::MOST_FRAMES;
use crate::shared::record::Record;

/// Roots are looked at in one of this many collections: in small programs they are most of what is marked.
const BETWEEN_ROOTS: u64 = 8;

impl Heap {
    /// Checks the space, what is marked, and the lists of threads, where the options want that.
    pub(crate) fn verify_marks(
        &mut self,
        record: &mut Record,
        world: &WorldStopped<'_>,
        stack_pointer: Address,
        client: &dyn Client,
    ) {
        if self.options.verify == Verify::Off {
            return;
        }
        record.step(Phase::Verify, |event| {
            event.reason = "after marking";
            let mut result = self
                .space
                .verify_structure()
                .and_then(|()| self.space.verify_marks(&self.context, stack_pointer))
                .and_then(|()| self.verify_roots(world, stack_pointer, client));
            self.mutators.for_each_stopped(world, |thread| {
                if result.is_ok() {
                    // SAFETY: the thread does not run, or is the calling one.
                    result = unsafe { self.space.verify_cache(&raw const (*thread).cache) };
                }
            });
            if let Err(fault) = result {
                panic!(
                    "verifier after marking: not so: {}; at {:?}, word {:#x}",
                    fault.rule, fault.address, fault.word
                );
            }
        });
    }

    /// The world runs again, so only what the lock guards can be checked.
    pub(crate) fn verify_structure(&self) {
        if self.options.verify == Verify::Edges
            && let Err(fault) = self.space.verify_structure()
        {
            panic!(
                "verifier after reclaiming: not so: {}; at {:?}, word {:#x}",
                fault.rule, fault.address, fault.word
            );
        }
    }

    /// Whether all that static data and stacks refer to is marked, now and then. Frames of the collector's, and of handlers that have interrupted
    /// it, have changed since; they may lie in static data.
    fn verify_roots(
        &self,
        world: &WorldStopped<'_>,
        stack_pointer: Address,
        client: &dyn Client,
    ) -> Result<(), Fault> {
        let mut result = Ok(());
        if !self.collections.is_multiple_of(BETWEEN_ROOTS) {
            return result;
        }
        let (low, high) = signals::alternate_stack();
        let is_own = |at: Address| {
            at < stack_pointer && stack_pointer.offset_from(at) <= MOST_FRAMES
                || (low..high).contains(&at.word())
        };
        let mut check = |low: Address, high: Address, lax: bool| {
            let mut look = |at: Address, found: Resolved| {
                // SAFETY: the mark of a resolved object. Relaxed: no marker runs.
                let is_marked = unsafe { &*found.mark }.load(Ordering::Relaxed) != WHITE;
                if result.is_ok() && !is_marked && !is_own(at) {
                    result = Err(Fault {
                        rule: "a root refers to marked objects",
                        address: at,
                        word: found.base.word() + found.displacement,
                    });
                }
            };
            // SAFETY: roots are readable in the stopped world, in their place or as a copy.
            unsafe { self.context.for_each_reference(low, high, lax, &mut look) };
        };
        self.roots
            .for_each(|range| check(range.low, range.high, FROM_HEAP));
        self.for_each_stack_part(world, stack_pointer, client, &mut |_, part| {
            check(part.low, part.high, FROM_STACK);
        });
        result
    }
}
