//! What became of arrays in pieces, as JSON: what the savings of lazy allocation, zero compression and copy-on-write are
//! computed from (PLDI 2010, section 7.2.1 and Table 4).

use gleaner::ArrayCounts;
use serde::Serialize;

/// The counts of one run; [`ArrayCounts`] says what they are.
#[derive(Serialize)]
pub struct Line {
    first_n: usize,
    arraylet: usize,
    spines: u64,
    parts: u64,
    instantiated: u64,
    compressed: u64,
    shared: u64,
    copied_bytes: u64,
}

impl Line {
    /// Of a heap with so many bytes of an array in its spine, and arraylets of so many, that counted this.
    pub fn new((first_n, arraylet): (usize, usize), counts: &ArrayCounts) -> Line {
        Line {
            first_n,
            arraylet,
            spines: counts.spines,
            parts: counts.parts,
            instantiated: counts.instantiated,
            compressed: counts.compressed,
            shared: counts.shared,
            copied_bytes: counts.copied_bytes,
        }
    }
}
