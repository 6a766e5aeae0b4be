//! What programs can do, so that tests can say that they did.

use super::regions::Way;
use super::shapes::KINDS;

/// What programs did with shaped objects, with arrays, and in blocking regions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Did {
    /// Allocated one of this kind.
    Allocate(usize),
    /// Allocated one with pages of its own.
    Large,
    /// Allocated one that never moves.
    Pinned,
    /// Allocated one of which nothing was zeroed.
    Unwritten,
    /// Stored into one of this kind what is no null.
    Store(usize),
    /// Loaded from one of this kind what is no null.
    Load(usize),
    /// Copied slots of one to another.
    CopySlots,
    /// Copied elements of an array by the raw layer.
    CopyElements,
    /// Allocated an array of numbers that does not lie in one piece.
    LongArray,
    /// Wrote numbers to a range of an array,
    WriteNumbers,
    /// or the same number,
    FillNumbers,
    /// or one by a compare-and-swap,
    SwapNumbers,
    /// or some by the raw layer,
    RawNumbers,
    /// or those of another one or the same.
    CopyNumbers,
    /// Made an array of numbers that is like another one.
    Snapshot,
    /// Wrote the same to a range of a list.
    FillList,
    /// Found one through a weak reference.
    Upgrade,
    /// Found one dead through a weak reference.
    Clear,
    /// Found one through an ephemeron.
    Ephemeron,
    /// Found one dead through an ephemeron.
    ClearEphemeron,
    /// Got one that was to be finalized.
    Finalize,
    /// Asked one for its identity hash.
    Hash,
    /// Pinned one that may move, or not,
    Pin,
    /// or found it in its place, and took the pin back,
    Unpin,
    /// or let it live or die with its pin.
    LeavePinned,
    /// Had a word lead into one.
    Word,
    /// Was in a blocking region.
    Region(Way),
    /// Was in a blocking region while another mutator of the same thread was, too.
    Nested,
}

impl Did {
    /// All of them.
    #[allow(dead_code, reason = "not every test that shares this file needs it")]
    pub fn all() -> impl Iterator<Item = Did> {
        let kinds =
            (0..KINDS).flat_map(|kind| [Did::Allocate, Did::Store, Did::Load].map(|did| did(kind)));
        let others = [
            Did::Large,
            Did::Pinned,
            Did::Unwritten,
            Did::CopySlots,
            Did::CopyElements,
            Did::LongArray,
            Did::WriteNumbers,
            Did::FillNumbers,
            Did::SwapNumbers,
            Did::RawNumbers,
            Did::CopyNumbers,
            Did::Snapshot,
            Did::FillList,
            Did::Upgrade,
            Did::Clear,
            Did::Ephemeron,
            Did::ClearEphemeron,
            Did::Finalize,
            Did::Hash,
            Did::Pin,
            Did::Unpin,
            Did::LeavePinned,
            Did::Word,
            Did::Nested,
        ];
        kinds.chain(others).chain(Way::ALL.map(Did::Region))
    }
}
