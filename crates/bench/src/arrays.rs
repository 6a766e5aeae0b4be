//! What became of arrays, as JSON. The savings of lazy allocation, zero compression and copy-on-write are computed from
//! it (PLDI 2010, section 7.2.1 and Table 4). Beside that, the report of option `array-report`, with the columns of
//! Tables 1 and 4, and the accesses of Figure 2.

use gleaner::report::{ArrayType, ByPosition, Living};
use gleaner::{ArrayCounts, ArrayReport};
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
    /// Of a heap with `first_n` bytes of an array in its spine, and arraylets of `arraylet` bytes, that counted
    /// `counts`.
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

/// The report of one run. [`gleaner::report`] says what its values are; shares are between 0 and 1.
#[derive(Serialize)]
pub struct Report {
    first_n: usize,
    arraylet: usize,
    is_cut: bool,
    censuses: u64,
    allocated_bytes: u64,
    arrays_allocated: f64,
    numbers_allocated: f64,
    /// In the mean of the censuses, as are the bytes that follow.
    heap_bytes: f64,
    /// As they lie.
    taken_bytes: f64,
    arrays_in_heap: f64,
    accesses: u64,
    stores_within: f64,
    stores_beyond: f64,
    loads_within: f64,
    loads_beyond: f64,
    copied_bytes: u64,
    copied_beyond: f64,
    large_allocated: f64,
    lazy: Option<f64>,
    zero: f64,
    copy_on_write: f64,
    beyond: f64,
    saved: f64,
    /// Accesses by position: at offset 0, at 1, at 2 and 3, at 4 to 7, and so on.
    positions: Vec<u64>,
    types: Vec<OfType>,
}

/// One type of arrays.
#[derive(Serialize)]
struct OfType {
    id: u32,
    element_bytes: usize,
    references: bool,
    allocated: u64,
    allocated_bytes: u64,
    large_allocated: u64,
    large_allocated_bytes: u64,
    /// In the mean of the censuses.
    arrays: f64,
    bytes: f64,
    large: f64,
    large_bytes: f64,
    beyond_bytes: f64,
    arraylets: f64,
    zero: f64,
    absent: f64,
    shared: f64,
}

impl Report {
    /// Of a report.
    pub fn new(report: &ArrayReport) -> Report {
        let (composition, savings) = (report.composition(), report.savings());
        let tally = &report.tally;
        let numbers = |of: &ByPosition| of.numbers().to_vec();
        let pairs = numbers(&tally.loads)
            .into_iter()
            .zip(numbers(&tally.stores));
        Report {
            first_n: report.geometry.first_n,
            arraylet: 1 << report.geometry.arraylet_shift,
            is_cut: report.geometry.is_made,
            censuses: report.censuses,
            allocated_bytes: composition.allocated,
            arrays_allocated: composition.arrays_allocated,
            numbers_allocated: composition.numbers_allocated,
            heap_bytes: composition.heap,
            taken_bytes: mean(report.sum.taken, report.censuses),
            arrays_in_heap: composition.arrays_in_heap,
            accesses: composition.accesses,
            stores_within: composition.stores_within,
            stores_beyond: composition.stores_beyond,
            loads_within: composition.loads_within,
            loads_beyond: composition.loads_beyond,
            copied_bytes: composition.copied,
            copied_beyond: composition.copied_beyond,
            large_allocated: savings.large_allocated,
            lazy: savings.lazy,
            zero: savings.zero,
            copy_on_write: savings.copy_on_write,
            beyond: savings.beyond,
            saved: savings.saved,
            positions: pairs.map(|(loads, stores)| loads + stores).collect(),
            types: report
                .types
                .iter()
                .map(|of| OfType::new(of, report.censuses))
                .collect(),
        }
    }
}

impl OfType {
    fn new(of: &ArrayType, censuses: u64) -> OfType {
        let mean = |which: fn(&Living) -> u64| mean(which(&of.sum), censuses);
        OfType {
            id: of.id.get(),
            element_bytes: of.element_bytes,
            references: of.references,
            allocated: of.allocated.arrays,
            allocated_bytes: of.allocated.bytes,
            large_allocated: of.allocated.large,
            large_allocated_bytes: of.allocated.large_bytes,
            arrays: mean(|living| living.arrays),
            bytes: mean(|living| living.bytes),
            large: mean(|living| living.large),
            large_bytes: mean(|living| living.large_bytes),
            beyond_bytes: mean(|living| living.beyond),
            arraylets: mean(|living| living.arraylets),
            zero: mean(|living| living.zero),
            absent: mean(|living| living.absent),
            shared: mean(|living| living.shared),
        }
    }
}

/// The mean of a sum over censuses.
fn mean(sum: u64, censuses: u64) -> f64 {
    sum as f64 / censuses.max(1) as f64
}
