//! `cursors`: real loops over arrays in pieces, beyond what lies in the spine, against the same loops over arrays in
//! one piece, both with cursors (PLDI 2010, section 5.1).
//!
//! Each loop is compiled for either layout and runs over the same content, so both give the same result. A round runs
//! each loop on both, and what comes first changes from round to round; the ratio of a round is that of the two times
//! beside each other.

use std::hint::black_box;
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner::raw::{Address, In, Layout, Number, WholeArrays};
use gleaner::{Mutator, OutOfMemory};
use gleaner_workloads::failed;
use gleaner_workloads::random::Random;
use serde::Serialize;

use crate::accesses::{ARRAYLET, Cut, FIRST_N, Ground, Measured, Rooted};
use crate::progress;
use crate::quantities::{Spread, array_size, size};
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `cursors`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner-bench cursors                            all loops
  gleaner-bench cursors --loops dot --json         one of them, as a line of JSON
  gleaner-bench cursors --bytes 32m                in arrays that no cache holds
  gleaner-bench cursors --scattered                no two arraylets of an array side by side")]
pub struct Cursors {
    /// The loops; all unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub loops: Vec<Loop>,
    /// Bytes of each array beyond its first 4 KB
    #[arg(long, value_name = "SIZE", value_parser = array_size, default_value = "64k")]
    pub bytes: usize,
    /// Each loop goes through at least this many bytes in a measurement, after one pass that does not count
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8m")]
    pub work: usize,
    /// Fills the two arrays of a loop in turns, so that no two arraylets of one lie side by side: else those of each do,
    /// and cursors go through them as one piece
    #[arg(long)]
    pub scattered: bool,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// Prints a line of JSON for each loop, not a table
    #[arg(long)]
    pub json: bool,
}

/// What is done with the elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loop {
    /// One addition for each u64
    Add,
    /// The sum of all f64, in order
    Sum,
    /// The dot product of two arrays of f64
    Dot,
    /// How often each u8 occurs
    Histogram,
    /// The Adler-32 checksum of bytes
    Checksum,
    /// A copy of an array of u32, each number scattered
    Transform,
}

/// The ranges that a loop goes through: elements beyond the first N bytes.
struct Task {
    from: Address,
    /// The second operand, or where results go.
    other: Address,
    bytes: usize,
    passes: usize,
}

/// A loop; what it comes to.
///
/// # Safety
/// The arrays of the task are valid ones of the elements that the loop is about, with the task's number of bytes beyond
/// the first N. They lie in a heap with the layout that the loop is compiled for. Nothing of `other` has to be
/// instantiated, so nothing collects.
type Kernel = unsafe fn(&mut Mutator, &Task) -> std::result::Result<u64, OutOfMemory>;

/// The first element and the number of elements of type `T` in the range.
fn range<T>(task: &Task) -> (usize, usize) {
    (FIRST_N / size_of::<T>(), task.bytes / size_of::<T>())
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn add<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    let ((first, count), mut sum) = (range::<u64>(task), 0_u64);
    for _ in 0..task.passes {
        // SAFETY: the range lies in the array ([`Kernel`]).
        for number in unsafe { mutator.cursor::<In<L, u64>>(black_box(task.from), first, count) } {
            sum = sum.wrapping_add(number);
        }
    }
    Ok(sum)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn sum<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    let ((first, count), mut sum) = (range::<f64>(task), 0.0);
    for _ in 0..task.passes {
        // SAFETY: the range lies in the array ([`Kernel`]).
        for number in unsafe { mutator.cursor::<In<L, f64>>(black_box(task.from), first, count) } {
            sum += number;
        }
    }
    Ok(sum.to_bits())
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn dot<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    let ((first, count), mut sum) = (range::<f64>(task), 0.0);
    for _ in 0..task.passes {
        let (one, other) = black_box((task.from, task.other));
        // SAFETY: the range lies in both arrays ([`Kernel`]).
        let [mut one, mut other] =
            unsafe { [one, other].map(|array| mutator.cursor::<In<L, f64>>(array, first, count)) };
        while let (Some(one), Some(other)) = (one.next(), other.next()) {
            sum += one * other;
        }
    }
    Ok(sum.to_bits())
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn histogram<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    let ((first, count), mut counts) = (range::<u8>(task), [0_u32; 256]);
    for _ in 0..task.passes {
        // SAFETY: the range lies in the array ([`Kernel`]).
        for byte in unsafe { mutator.cursor::<In<L, u8>>(black_box(task.from), first, count) } {
            counts[usize::from(byte)] += 1;
        }
    }
    let weighted = counts
        .iter()
        .zip(1..)
        .map(|(&count, weight)| u64::from(count) * weight);
    Ok(weighted.sum())
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn checksum<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    /// Bytes of which the sums fit 32 bits.
    const BLOCK: usize = 5552;
    const PRIME: u32 = 65521;
    let ((first, count), mut low, mut high) = (range::<u8>(task), 1_u32, 0_u32);
    for _ in 0..task.passes {
        // SAFETY: the range lies in the array ([`Kernel`]).
        let mut bytes = unsafe { mutator.cursor::<In<L, u8>>(black_box(task.from), first, count) };
        for start in (0..count).step_by(BLOCK) {
            for byte in bytes.by_ref().take(BLOCK.min(count - start)) {
                low += u32::from(byte);
                high += low;
            }
            (low, high) = (low % PRIME, high % PRIME);
        }
    }
    Ok(u64::from(high << 16 | low))
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
unsafe fn transform<L: Layout>(
    mutator: &mut Mutator,
    task: &Task,
) -> std::result::Result<u64, OutOfMemory> {
    let (first, count) = range::<u32>(task);
    for _ in 0..task.passes {
        let (from, to) = black_box((task.from, task.other));
        // SAFETY: the range lies in both arrays, and nothing collects ([`Kernel`]).
        unsafe {
            let mut results = mutator.cursor_mut::<In<L, u32>>(to, first, count)?;
            for number in results.mutator().cursor::<In<L, u32>>(from, first, count) {
                let stored = results.store(number.wrapping_mul(2_654_435_761) ^ (number >> 15));
                debug_assert!(stored, "both ranges are as long");
            }
        }
    }
    // SAFETY: the range lies in the array ([`Kernel`]).
    let results = unsafe { mutator.cursor::<In<L, u32>>(task.other, first, count) };
    Ok(results.fold(0, |sum, number| sum ^ u64::from(number)))
}

impl Loop {
    /// The loop for arrays in one piece, and that for arrays in pieces.
    fn kernels(self) -> [Kernel; 2] {
        match self {
            Loop::Add => [add::<WholeArrays>, add::<Cut>],
            Loop::Sum => [sum::<WholeArrays>, sum::<Cut>],
            Loop::Dot => [dot::<WholeArrays>, dot::<Cut>],
            Loop::Histogram => [histogram::<WholeArrays>, histogram::<Cut>],
            Loop::Checksum => [checksum::<WholeArrays>, checksum::<Cut>],
            Loop::Transform => [transform::<WholeArrays>, transform::<Cut>],
        }
    }

    /// Bytes of an element.
    fn element_bytes(self) -> usize {
        match self {
            Loop::Add | Loop::Sum | Loop::Dot => 8,
            Loop::Transform => 4,
            Loop::Histogram | Loop::Checksum => 1,
        }
    }

    /// Two arrays of a heap, each with the chosen number of bytes beyond the first N, and the same content in every
    /// heap.
    fn arrays(self, ground: &mut Ground, chosen: &Cursors) -> Result<[Rooted; 2]> {
        match self {
            Loop::Sum | Loop::Dot => filled(ground, chosen, |random| f64::from(random.draw())),
            Loop::Add => filled(ground, chosen, |random| u64::from(random.draw())),
            Loop::Transform => filled(ground, chosen, Random::draw),
            Loop::Histogram | Loop::Checksum => {
                filled(ground, chosen, |random| random.draw() as u8)
            }
        }
    }
}

/// Two arrays with random content, one written after the other or an arraylet of each in turns.
fn filled<T: Measured + Number>(
    ground: &mut Ground,
    chosen: &Cursors,
    mut draw: impl FnMut(&mut Random) -> T,
) -> Result<[Rooted; 2]> {
    let mut random = Random::new(chosen.bytes as u64);
    let length = (FIRST_N + chosen.bytes) / size_of::<T>();
    let arrays = [
        ground.array::<T>(length, false)?,
        ground.array::<T>(length, false)?,
    ];
    let step = match chosen.scattered {
        true => ARRAYLET / size_of::<T>(),
        false => length,
    };
    for first in (0..length).step_by(step) {
        for array in &arrays {
            let count = step.min(length - first);
            let content: Vec<T> = (0..count).map(|_| draw(&mut random)).collect();
            // SAFETY: the array has `length` elements; it is held by a handle, and its address is not used again.
            let written = unsafe {
                ground
                    .mutator
                    .write_elements(array.address(), first, &content)
            };
            written.map_err(failed)?;
        }
    }
    Ok(arrays)
}

/// A loop on one heap.
struct Side {
    kernel: Kernel,
    arrays: [Rooted; 2],
    task: Task,
}

impl Side {
    fn new(kernel: Kernel, arrays: [Rooted; 2], chosen: &Cursors) -> Side {
        Side {
            kernel,
            arrays,
            task: Task {
                from: Address::NULL,
                other: Address::NULL,
                bytes: chosen.bytes,
                passes: chosen.work.div_ceil(chosen.bytes),
            },
        }
    }

    /// Finds the arrays where they are from now on.
    fn settle(&mut self) {
        let [from, other] = self.arrays.each_ref().map(Rooted::address);
        (self.task.from, self.task.other) = (from, other);
    }

    /// Runs the loop; what it comes to and its seconds.
    fn run(&mut self, ground: &mut Ground) -> Result<(u64, f64)> {
        let passes = std::mem::replace(&mut self.task.passes, 1);
        // SAFETY: the arrays have the elements of the loop, and lie where they were when all had been made; their
        // content is random, so that no arraylet was left out as all zero.
        black_box(unsafe { (self.kernel)(&mut ground.mutator, &self.task) }.map_err(failed)?);
        self.task.passes = passes;
        let start = Instant::now();
        // SAFETY: the arrays have the elements of the loop, and the pass before, of this task, moved nothing.
        let result = unsafe { (self.kernel)(&mut ground.mutator, &self.task) }.map_err(failed)?;
        Ok((result, start.elapsed().as_secs_f64()))
    }
}

/// A loop on both heaps, and what it gave in each round.
struct Cell {
    one: Loop,
    sides: [Side; 2],
    ns: [Vec<f64>; 2],
    ratios: Vec<f64>,
}

/// A line of JSON. Times are in nanoseconds for an element, medians of the rounds.
#[derive(Serialize)]
struct Line {
    r#loop: Loop,
    contiguous_ns: f64,
    pieces_ns: f64,
    /// Arrays in pieces over arrays in one piece: the median of the rounds.
    ratio: f64,
    least_ratio: f64,
    most_ratio: f64,
    /// What the loop came to.
    result: String,
}

impl Cell {
    /// Measures both sides, the second one first if `turned`; the result, which must be that of both.
    fn round(&mut self, grounds: &mut [Ground; 2], turned: bool) -> Result<u64> {
        let mut found = [(0, 0.0); 2];
        for number in if turned { [1, 0] } else { [0, 1] } {
            found[number] = self.sides[number].run(&mut grounds[number])?;
        }
        let [(result, contiguous), (other, pieces)] = found;
        if result != other {
            let name = self.one;
            return Err(Failure::new(format!(
                "{name:?} comes to {result:x} in one piece and to {other:x} in pieces"
            )));
        }
        let task = &self.sides[0].task;
        let elements = (task.bytes / self.one.element_bytes() * task.passes) as f64;
        for (ns, seconds) in self.ns.iter_mut().zip([contiguous, pieces]) {
            ns.push(seconds * 1e9 / elements);
        }
        self.ratios.push(pieces / contiguous);
        Ok(result)
    }

    fn line(&self, result: u64) -> Line {
        let [contiguous_ns, pieces_ns] = self.ns.each_ref().map(|ns| Spread::of(ns).median);
        let ratio = Spread::of(&self.ratios);
        Line {
            r#loop: self.one,
            contiguous_ns,
            pieces_ns,
            ratio: ratio.median,
            least_ratio: ratio.least,
            most_ratio: ratio.most,
            result: format!("{result:016x}"),
        }
    }
}

/// Measures and prints; true, for a loop whose results differ is an error.
pub fn run(chosen: &Cursors) -> Result<bool> {
    let loops = match chosen.loops.as_slice() {
        [] => Loop::value_variants(),
        some => some,
    };
    let room = 2 * loops.len() * (chosen.bytes + FIRST_N);
    let mut grounds = [Ground::new(false, room)?, Ground::new(true, room)?];
    let mut cells = Vec::new();
    for &one in loops {
        let mut side = |number: usize| -> Result<Side> {
            let arrays = one.arrays(&mut grounds[number], chosen)?;
            Ok(Side::new(one.kernels()[number], arrays, chosen))
        };
        cells.push(Cell {
            one,
            sides: [side(0)?, side(1)?],
            ns: [Vec::new(), Vec::new()],
            ratios: Vec::new(),
        });
    }
    grounds.iter_mut().for_each(Ground::settle);
    for cell in &mut cells {
        cell.sides.iter_mut().for_each(Side::settle);
    }
    let progress = progress::bar(cells.len() * chosen.rounds as usize);
    let mut results = vec![0; cells.len()];
    for round in 0..chosen.rounds {
        for (cell, result) in cells.iter_mut().zip(&mut results) {
            *result = cell.round(&mut grounds, round % 2 == 1)?;
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let lines = cells
        .iter()
        .zip(results)
        .map(|(cell, result)| cell.line(result));
    if chosen.json {
        for line in lines {
            say(serde_json::to_string(&line).map_err(failed)?)?;
        }
    } else {
        say(format_args!(
            "ns for an element, and pieces over contiguous; medians of {} rounds",
            chosen.rounds
        ))?;
        say(table(lines))?;
    }
    Ok(true)
}

/// The lines for people.
fn table(lines: impl Iterator<Item = Line>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "loop",
        "contiguous",
        "in pieces",
        "ratio",
        "least",
        "most",
    ]);
    for line in lines {
        let name = line.r#loop.to_possible_value();
        let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
        let ns = [line.contiguous_ns, line.pieces_ns].map(|ns| format!("{ns:.2}"));
        let ratios =
            [line.ratio, line.least_ratio, line.most_ratio].map(|ratio| format!("{ratio:.3}"));
        table.add_row([name].into_iter().chain(ns).chain(ratios));
    }
    table
}
