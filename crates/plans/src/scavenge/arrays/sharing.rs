//! How copies share arraylets (PLDI 2010, section 4.7), also while several mutators run.
//!
//! A store looks at a pointer and then writes, and a cursor or a window writes for as long as it is open. If the pointer
//! became tainted in between, the store would reach all arrays that share the arraylet by then. No mutator polls between
//! the look and the store. So there are three ways to share, and what none of them covers is copied:
//!
//! 1. The calling mutator is the only one attached, and stays so ([`Scavenge::while_alone`]): it taints what it likes.
//! 2. A pointer that is tainted already has been so since a moment at which nobody was between the look and the store. What
//!    it leads to never changes, so another tainted pointer may be led to it at any time, by compare-and-swap
//!    ([`Scavenge::lead_to`]). So what was shared once, or is zero, is shared again without waiting for anybody.
//! 3. The others are stopped as for a collection ([`Scavenge::in_a_stop`]), and what no one else owns yet is tainted then.
//!    Everybody pays for the stop, so [`decide::sharing`](crate::scavenge::decide::sharing) says when it pays.
//!
//! # Invariants
//! - Pointers become tainted in ways 1 and 3 alone, or when a collection takes zeros back.
//! - A mutator that waits for the others to stop is outside of the gate: a collection may come first, or another mutator's
//!   stop. Then it has to begin again: its stock is gone, or what it counted.

use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::clock;
use gleaner_spaces::precise::arraylets::Contents;

use crate::scavenge::Scavenge;
use crate::scavenge::mutator::Mutator;

impl<F: SlotFormat> Scavenge<F> {
    /// Runs `body` if the calling mutator is the only one attached; none is attached meanwhile. Whether it ran.
    pub fn while_alone(&self, body: impl FnOnce()) -> bool {
        self.collecting
            .while_alone(|state| state.mutators.len(), body)
    }

    /// Whether `bytes` bytes of arraylets that one array has are to be shared in a stop. If not, they will be copied.
    pub fn stops_to_share(&self, bytes: usize) -> bool {
        // Under stress each use of a technique is one that tests it.
        let is_tested = bytes > 0 && self.config.options.stress > 0;
        let others = (self.gate.inside() as usize).saturating_sub(1);
        self.sharing_stops.decide(bytes, others) || is_tested
    }

    /// Runs `body` in a stopped world, unless a collection or another stop for sharing came first; whether it ran. The
    /// calling mutator is inside the gate, and is so again before anything else is collected: its stock is what it was if
    /// the body ran. As for [`Scavenge::collect`].
    pub fn in_a_stop(&self, mutator: &Mutator, body: impl FnOnce()) -> bool {
        let before = || (self.epoch(), self.sharing_stops.count());
        let (seen, asked) = (before(), clock::monotonic_ns());
        self.with_stopped_world(mutator, |state, world| {
            if before() != seen {
                return false;
            }
            body();
            // Since it was asked for: nobody else had the world stopped for long in between.
            let took = clock::monotonic_ns() - asked;
            self.sharing_stops.note(world, took);
            state.totals.stopped_ns += took;
            state.totals.longest_stop_ns = state.totals.longest_stop_ns.max(took);
            true
        })
    }

    /// Makes a part of one spine the same as one of another by sharing it; whether it was the zero arraylet, and is not
    /// any more.
    ///
    /// # Safety
    /// Both spines have these parts, of arraylets with these contents, and the closure that this is called from was given
    /// to [`Scavenge::while_alone`] or [`Scavenge::in_a_stop`].
    pub unsafe fn share(
        &self,
        (from, from_number): (Address, usize),
        (to, to_number): (Address, usize),
        contents: Contents,
    ) -> bool {
        let made_old = |arraylet| self.dirty_if_slots(arraylet, contents);
        let is_old = !self.is_young(to);
        let from = self.part(from, from_number);
        // SAFETY: both spines have these parts, and no other mutator runs, as asked.
        unsafe { self.part(to, to_number).share(from, is_old, made_old) }
    }

    /// Makes a part of a spine lead to an arraylet that is shared already; whether it was the zero arraylet, and is not
    /// any more. The error is where the part lies, if another mutator has made it writable.
    ///
    /// # Safety
    /// The spine has this part, of an arraylet with these contents. The caller is a mutator inside the gate, and has found a
    /// tainted pointer to the arraylet since it came in.
    pub unsafe fn lead_to(
        &self,
        arraylet: Address,
        (to, to_number): (Address, usize),
        contents: Contents,
    ) -> Result<bool, Address> {
        let made_old = |arraylet| self.dirty_if_slots(arraylet, contents);
        let is_old = !self.is_young(to);
        // SAFETY: the spine has this part, and the mutator has found the pointer inside the gate, as asked.
        unsafe { self.part(to, to_number).lead_to(arraylet, is_old, made_old) }
    }
}
