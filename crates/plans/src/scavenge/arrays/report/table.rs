//! The report on arrays in the figures of the paper's tables, and as a table for people.

use core::fmt::{self, Write};

use gleaner_base::events::LineBuffer;

use super::{ArrayReport, ArrayType, Living};
use crate::scavenge::tally::ByPosition;
use gleaner_base::options::Size;

/// Table 1 of PLDI 2010. Shares are between 0 and 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Composition {
    /// Bytes that were allocated, of all objects.
    pub allocated: u64,
    /// Of these, the share of arrays.
    pub arrays_allocated: f64,
    /// Of these, the share of arrays without references.
    pub numbers_allocated: f64,
    /// Bytes that lived, in the mean of the censuses.
    pub heap: f64,
    /// Of these, the share of arrays.
    pub arrays_in_heap: f64,
    /// Elements that were read or written by code that counts.
    pub accesses: u64,
    /// The share of the accesses that were stores within the first N bytes.
    pub stores_within: f64,
    /// The share that were stores beyond them.
    pub stores_beyond: f64,
    /// The share that were loads within the first N bytes.
    pub loads_within: f64,
    /// The share that were loads beyond them.
    pub loads_beyond: f64,
    /// Bytes that copies from array to array wrote.
    pub copied: u64,
    /// Of these, the share beyond the first N bytes.
    pub copied_beyond: f64,
}

/// Table 4 of PLDI 2010. Shares are between 0 and 1; where nothing is known they are `None`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Savings {
    /// The share of arrays of more than N bytes in the bytes of arrays that were allocated.
    pub large_allocated: f64,
    /// What of the bytes of these was never allocated, thanks to lazy allocation: where arrays are cut. What is written
    /// again after zero compression counts as another arraylet, so without that it is exact.
    pub lazy: Option<f64>,
    /// The share of the arraylets that take memory, or would, that hold nothing but zeros.
    pub zero: f64,
    /// The share of the bytes copied beyond the first N that is shared instead; where arrays are in one piece, that can be.
    pub copy_on_write: f64,
    /// The share of what lives that lies beyond the first N bytes of arrays.
    pub beyond: f64,
    /// The share of what lives that is saved in all; where arrays are in one piece, that lazy allocation and zero
    /// compression would save. Below 0 where pointers take more than is saved.
    pub saved: f64,
}

/// A share; of nothing it is 0.
fn share(part: u64, all: u64) -> f64 {
    if all == 0 {
        0.0
    } else {
        part as f64 / all as f64
    }
}

impl ArrayReport {
    /// What Table 1 says.
    pub fn composition(&self) -> Composition {
        let first_n = self.geometry.first_n;
        let arrays = self.allocated_of(|_| true).bytes;
        let numbers = self.allocated_of(|of| !of.references).bytes;
        let (loads, stores) = (&self.tally.loads, &self.tally.stores);
        let accesses = loads.total() + stores.total();
        let within = |numbers: &ByPosition| share(numbers.below(first_n), accesses);
        let beyond =
            |numbers: &ByPosition| share(numbers.total() - numbers.below(first_n), accesses);
        let copied = &self.tally.copied;
        Composition {
            allocated: self.allocated,
            arrays_allocated: share(arrays, self.allocated),
            numbers_allocated: share(numbers, self.allocated),
            heap: share(self.sum.bytes, self.censuses),
            arrays_in_heap: share(self.living_of(|_| true).bytes, self.sum.bytes),
            accesses,
            stores_within: within(stores),
            stores_beyond: beyond(stores),
            loads_within: within(loads),
            loads_beyond: beyond(loads),
            copied: copied.total(),
            copied_beyond: share(copied.total() - copied.below(first_n), copied.total()),
        }
    }

    /// What Table 4 says.
    pub fn savings(&self) -> Savings {
        let (geometry, counts) = (&self.geometry, &self.counts);
        let bytes = |arraylets: u64| arraylets << geometry.arraylet_shift;
        let allocated = self.allocated_of(|_| true);
        let living = self.living_of(|_| true);
        let never = counts.parts.saturating_sub(counts.touched);
        let copied = &self.tally.copied;
        let (shared, copied_beyond, taken) = if geometry.is_made {
            let shared = bytes(counts.shared);
            (shared, shared + counts.copied_bytes, self.sum.taken)
        } else {
            let beyond = copied.total() - copied.below(geometry.first_n);
            let pieces = living.spines + bytes(living.arraylets - living.zero);
            let taken = self.sum.bytes + pieces - living.large_bytes;
            (self.tally.shareable, beyond, taken)
        };
        Savings {
            large_allocated: share(allocated.large_bytes, allocated.bytes),
            lazy: geometry
                .is_made
                .then(|| share(bytes(never), allocated.large_bytes)),
            zero: share(
                living.zero - living.absent,
                living.arraylets - living.absent,
            ),
            copy_on_write: share(shared, copied_beyond),
            beyond: share(living.beyond, self.sum.bytes),
            saved: (self.sum.bytes as f64 - taken as f64) / self.sum.bytes.max(1) as f64,
        }
    }
}

/// Bytes as MB.
fn mb(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// A number with `DIGITS` digits behind the point. (What the library has for that takes 18 KB of each embedder.)
struct Fixed<const DIGITS: usize>(f64);

impl<const DIGITS: usize> fmt::Display for Fixed<DIGITS> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u64.pow(DIGITS as u32);
        let scaled = (self.0.abs() * one as f64 + 0.5) as u64;
        let sign = if self.0 < 0.0 && scaled > 0 { "-" } else { "" };
        let mut line = LineBuffer::<32>::new();
        write!(line, "{sign}{}.{:0DIGITS$}", scaled / one, scaled % one)?;
        out.pad(line.as_str())
    }
}

/// A share as percent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} %", Fixed::<1>(100.0 * self.0))
    }
}

impl fmt::Display for ArrayReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (composition, savings) = (self.composition(), self.savings());
        let n = Size(self.geometry.first_n);
        let (are, save) = if self.geometry.is_made {
            ("are", "saves")
        } else {
            ("would be", "would save")
        };
        writeln!(
            out,
            "arrays of more than {n} {are} cut into arraylets of {}; censuses of what lives: {}",
            Size(1 << self.geometry.arraylet_shift),
            self.censuses
        )?;
        writeln!(
            out,
            "allocated:     {} MB, {} arrays, {} arrays of numbers; of the arrays {} are longer than {n}",
            Fixed::<1>(mb(composition.allocated as f64)),
            Percent(composition.arrays_allocated),
            Percent(composition.numbers_allocated),
            Percent(savings.large_allocated)
        )?;
        writeln!(
            out,
            "lives:         {} MB in the mean, {} arrays, {} bytes of arrays beyond {n}",
            Fixed::<1>(mb(composition.heap)),
            Percent(composition.arrays_in_heap),
            Percent(savings.beyond)
        )?;
        if composition.accesses > 0 {
            writeln!(
                out,
                "first-n:       {} of {} accesses are within {n}: loads {} and {} beyond, stores {} and {} beyond",
                Percent(composition.stores_within + composition.loads_within),
                composition.accesses,
                Percent(composition.loads_within),
                Percent(composition.loads_beyond),
                Percent(composition.stores_within),
                Percent(composition.stores_beyond)
            )?;
        }
        if let Some(lazy) = savings.lazy {
            let lazy = Percent(lazy);
            writeln!(
                out,
                "lazy:          {lazy} of the bytes of arrays longer than {n} never allocated"
            )?;
        }
        writeln!(
            out,
            "zeros:         {} of the arraylets hold nothing but zeros",
            Percent(savings.zero)
        )?;
        writeln!(
            out,
            "fast copy:     copies write {} MB, {} beyond {n}",
            Fixed::<1>(mb(composition.copied as f64)),
            Percent(composition.copied_beyond)
        )?;
        writeln!(
            out,
            "copy on write: {save} {} of the bytes copied beyond {n}",
            Percent(savings.copy_on_write)
        )?;
        writeln!(
            out,
            "in all:        {save} {} of what lives",
            Percent(savings.saved)
        )?;
        write_types(out, self)
    }
}

/// A row for each type, its living arrays in the mean of the censuses.
fn write_types(out: &mut fmt::Formatter<'_>, report: &ArrayReport) -> fmt::Result {
    writeln!(
        out,
        "  type elements      allocated         MB      live   live MB   longer  arraylets    zero  shared"
    )?;
    for of in &report.types {
        let ArrayType { allocated, sum, .. } = of;
        let mean = |number: u64| share(number, report.censuses);
        let percent = |which: fn(&Living) -> u64| 100.0 * share(which(sum), sum.arraylets);
        let elements = if of.references {
            "references"
        } else {
            ["1 byte", "2 bytes", "4 bytes", "8 bytes"][of.element_bytes.trailing_zeros() as usize]
        };
        writeln!(
            out,
            "{:>6} {elements:10} {:>12} {:>10} {:>9} {:>9} {:>8} {:>10} {:>5} % {:>5} %",
            of.id.get(),
            allocated.arrays,
            Fixed::<1>(mb(allocated.bytes as f64)),
            Fixed::<1>(mean(sum.arrays)),
            Fixed::<2>(mb(mean(sum.bytes))),
            Fixed::<1>(mean(sum.large)),
            Fixed::<1>(mean(sum.arraylets)),
            Fixed::<1>(percent(|living| living.zero)),
            Fixed::<1>(percent(|living| living.shared)),
        )?;
    }
    Ok(())
}
