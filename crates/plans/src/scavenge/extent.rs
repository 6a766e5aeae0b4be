//! What a collection of the precise heap is of: the young generation, everything, or everything slid together.

/// What is collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The young generation, and all of it if that is called for.
    Young,
    /// Everything.
    Full,
    /// Everything, and what lives is slid together whatever `old` says: the last resort.
    Compact,
}

impl Extent {
    /// What to try after a collection that did not make room. Sliding once more helps when the first time left objects
    /// in eden, and the old generation may grow by now.
    pub(super) fn harder(self) -> Option<Extent> {
        match self {
            Extent::Young => Some(Extent::Full),
            Extent::Full => Some(Extent::Compact),
            Extent::Compact => None,
        }
    }
}
