//! What is found on a walk over the heap, and when one is made.

use gleaner_mem::Address;
use gleaner_mem::header::Header;

/// When a heap is walked over. It says what objects there are, and what references lead to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::scavenge) enum Edge {
    /// For an embedder, between collections.
    Walk,
    /// When a collection begins.
    Before,
    /// After a complete scavenge, before eden and the from-space are emptied: nothing lives there any more.
    Copied,
    /// After a complete promotion of all that is young: nothing lives in the nursery.
    Promoted,
    /// After marking: what is marked lives.
    Marked,
    /// After sliding.
    Slid,
    /// When a collection is over.
    After,
}

impl Edge {
    /// For messages and events.
    pub(in crate::scavenge) fn when(self) -> &'static str {
        match self {
            Edge::Walk => "walking",
            Edge::Before => "before the collection",
            Edge::Copied => "after copying",
            Edge::Promoted => "after promoting",
            Edge::Marked => "after marking",
            Edge::Slid => "after sliding",
            Edge::After => "after the collection",
        }
    }
}

/// An object that was walked over.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The space that it lies in.
    pub space: &'static str,
    /// Where it begins.
    pub object: Address,
    /// Its header.
    pub header: Header,
    /// Its bytes.
    pub bytes: usize,
    /// Where its space ends at the moment.
    pub end: Address,
}
