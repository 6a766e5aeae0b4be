//! The policies of the old generation: what becomes of it when everything is collected, an implementation of
//! [`OldGeneration`] each.
//!
//! There are three. All mark the whole heap first. [`MarkCompact`] moves what lives, [`MarkSweep`] frees what does not,
//! [`MarkRegion`] frees lines and blocks, and moves what lives in sparse blocks while it marks. The space that scavenges
//! promote into is the same ([`Tenured`](gleaner_spaces::precise::tenured::Tenured)), with holes or without.
//!
//! Another policy is a file here, a value of `OldPolicy` in the option table, and an arm of [`policy`]. It marks
//! (`Scavenge::mark`), sweeps large objects and arraylets (`sweep_large`, `sweep_arraylets`), and says in `wants_full`
//! whether the next collection is of everything, too. When its phases are over:
//!
//! - the bits of the old space say where objects begin and where holes are, and those of the nursery are clear;
//! - a slot of an old object that refers to a young one lies on a dirty card (I5);
//! - each phase is an event, and the invariants were verified behind those that move or promote.
//!
//! Where it finds no room, everything is slid together after it, unless something keeps its place ([`pins`](super::pins)).
//! Then nothing slides, this policy is mark-sweep instead of mark-compact, and what found no room stays young. The deciders
//! of sizes ask [`OldGeneration::slides`], and whether anything is kept.

mod generation;
mod mark_compact;
mod mark_region;
mod mark_sweep;
mod sliding;

use gleaner_base::options::OldPolicy;
use gleaner_mem::slot::SlotFormat;

pub use self::generation::OldGeneration;
pub use self::mark_compact::MarkCompact;
pub use self::mark_region::MarkRegion;
pub(super) use self::mark_region::Swept;
pub(in crate::scavenge) use self::mark_region::tracing;
pub use self::mark_sweep::MarkSweep;

/// The policy of that name.
pub fn policy<F: SlotFormat>(name: OldPolicy) -> &'static dyn OldGeneration<F> {
    match name {
        OldPolicy::MarkCompact => &MarkCompact,
        OldPolicy::MarkSweep => &MarkSweep,
        OldPolicy::MarkRegion => &MarkRegion,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use gleaner_mem::slot::Wide;

    use super::*;

    #[test]
    fn only_what_slides_leaves_no_holes() {
        assert!(policy::<Wide>(OldPolicy::MarkCompact).slides());
        assert!(!policy::<Wide>(OldPolicy::MarkSweep).slides());
        assert!(!policy::<Wide>(OldPolicy::MarkRegion).slides());
    }
}
