//! What changes of speed are told by.

/// A change of speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// `frequency`, `bandwidth`, or `none`.
    pub by: &'static str,
    /// Which processors or threads.
    pub what: String,
    /// What they have now.
    pub value: String,
    /// Why.
    pub reason: String,
}
