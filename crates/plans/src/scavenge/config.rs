//! How a precise heap is set up, and why one cannot be made.

use core::fmt;

use gleaner_base::options::{
    Generations, HugePages, OldPolicy, Parking, Prefetch, TraceOrder, Verify,
};
use gleaner_base::options::{Zeroing as ZeroingPolicy, ZeroingKernel};
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_os::refusal::Limit;
use gleaner_os::topology::Topology;

/// Regions are multiples of this: whole pages, cards and words of mark bits.
pub const REGION_GRANULE: usize = 64 << 10;
/// The smallest heap.
pub const LEAST_LIMIT: usize = 1 << 20;
/// Larger objects have pages of their own and never move. Code that allocates from a TLAB compares with this first; a
/// larger object that was allocated there is collected correctly, but not promoted without sliding.
pub const LARGE_BYTES: usize = 16 << 10;

/// How a heap is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of all spaces together.
    pub limit: usize,
    /// Bytes of the young generation; 0 for a third of the limit, or less at first where sizes change.
    pub young: usize,
    /// The generations change their sizes as [`next_sizes`](crate::scavenge::decide::generation_sizes::next_sizes)
    /// decides.
    pub resize: bool,
    /// The machine, as of when the heap is made.
    pub topology: Topology,
    /// Workers that collect.
    pub workers: usize,
    /// How the workers wait; the crew is made so.
    pub parking: Parking,
    /// How many scavenges an object survives in the young generation: it is promoted by the next one.
    pub tenure: u32,
    /// Bytes of a TLAB.
    pub tlab: usize,
    /// Whether the system is asked for huge pages.
    pub huge_pages: HugePages,
    /// How the old space is collected.
    pub old: OldPolicy,
    /// Whether the young generation is collected by itself.
    pub generations: Generations,
    /// Which grey object is scanned next.
    pub trace_order: TraceOrder,
    /// Whether the collector prefetches: `None`, or `Edges`.
    pub prefetch: Prefetch,
    /// When fresh memory is zeroed, and by whom.
    pub zeroing: ZeroingPolicy,
    /// What zeroes blocks.
    pub zeroing_kernel: ZeroingKernel,
    /// Bytes of a window.
    pub zeroing_window: usize,
    /// Bytes that a zeroing thread keeps ahead at most; 0 for all of eden.
    pub zeroing_lead: usize,
    /// Zeroing threads of the designs that have several.
    pub zeroing_threads: usize,
    /// Checks the invariants at the edges of phases.
    pub verify: Verify,
    /// Collects at every n-th allocation; 0 for never.
    pub stress: u32,
    /// Overwrites what is freed.
    pub poison: bool,
    /// For how many memory nodes the nursery is cut into fragments: 1 unless a plan places memory.
    pub nodes: usize,
    /// How many collections pass before evacuated addresses of the nursery are used again; 0 for none, and no checks of
    /// allocations.
    pub quarantine: u32,
}

/// Why a heap cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateError {
    /// Less than [`LEAST_LIMIT`].
    TooSmall(usize),
    /// The references do not reach so far.
    Span {
        /// Bytes that the spaces need.
        asked: usize,
        /// Bytes that references reach.
        reach: usize,
    },
    /// The young generation leaves nothing for the old one.
    Young {
        /// Bytes of the young generation.
        young: usize,
        /// Bytes of the heap.
        limit: usize,
    },
    /// The system gives no memory for this, for that reason.
    Memory(&'static str, Limit),
}

impl fmt::Display for CreateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::TooSmall(limit) => write!(
                out,
                "a heap limit of {limit} bytes: the smallest is {LEAST_LIMIT}"
            ),
            CreateError::Span { asked, reach } => write!(
                out,
                "the heap needs {asked} bytes of addresses, and its references reach {reach}: choose a smaller limit{}",
                if *reach < Wide::SPAN {
                    ", or wide references"
                } else {
                    ""
                }
            ),
            CreateError::Young { young, limit } => write!(
                out,
                "a young generation of {young} bytes in a heap of {limit}: it takes at most nine tenths"
            ),
            CreateError::Memory(what, limit) => write!(
                out,
                "the system gives no memory for {what}: {}; or choose a smaller heap",
                limit.text()
            ),
        }
    }
}

impl core::error::Error for CreateError {}
