//! `zeroing`: how fast memory can be zeroed, the limit study of OOPSLA 2011, section 4.2 and Figure 3.
//!
//! Each thread zeroes a buffer of its own again and again, in a tight loop. A round measures every combination of
//! kernel, size and number of threads once, and the kernels one directly after the other, so that what else the machine
//! does falls on all of them; every other round goes backwards. What a kernel finds in a large cache is what the one
//! before it left there, for many passes over the buffer. So each measurement begins with as much work that does not
//! count.

use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner_mem::Address;
use gleaner_mem::zero::{Choice, Kernel, Processor, choose};
use gleaner_os::topology::Topology;
use gleaner_os::{hugepages, memory};
use serde::Serialize;

use crate::progress;
use crate::quantities::{Spread, shown, size};
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `zeroing`.
#[derive(Args)]
pub struct Zeroing {
    /// The kernels, by the names that the option zeroing-kernel has; all that this processor has unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = kernel_named)]
    pub kernels: Vec<Kernel>,
    /// Sizes of the buffer that each thread has, with a suffix k, m or g
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        value_parser = size,
        default_value = "256k,1m,4m,32m,128m"
    )]
    pub buffers: Vec<usize>,
    /// Numbers of threads; from one to as many as there are processors unless given
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Vec<u32>,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Each thread zeroes at least this many bytes in one measurement, after as many that do not count
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1g")]
    pub work: usize,
    /// Prints a line of JSON for each combination, not a table
    #[arg(long)]
    pub json: bool,
}

fn kernel_named(name: &str) -> std::result::Result<Kernel, String> {
    let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
    found.ok_or_else(|| {
        format!(
            "the kernels are {}",
            Kernel::ALL.map(Kernel::name).join(", ")
        )
    })
}

/// Memory of one thread.
struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the buffer is nobody else's, and a thread that borrows it is the only one.
unsafe impl Send for Buffer {}

/// What a huge page is, and what buffers are aligned to.
const HUGE: usize = 2 << 20;

impl Buffer {
    /// A buffer in huge pages, if the system has some: stores are to be measured, not walks of page tables.
    fn new(bytes: usize) -> Result<Buffer> {
        let failed = || Failure::new(format!("no memory for a buffer of {bytes} bytes"));
        let bytes = bytes.next_multiple_of(HUGE);
        let start = memory::reserve(bytes, HUGE).ok_or_else(failed)?;
        let buffer = Buffer { start, bytes };
        // SAFETY: the reservation is the buffer's; advice about huge pages changes nothing in it.
        unsafe {
            if !memory::commit(start, bytes) {
                return Err(failed());
            }
            hugepages::advise(start, bytes);
        }
        Ok(buffer)
    }

    /// Zeroes the first `bytes` bytes `times` times.
    fn zero(&mut self, kernel: Kernel, bytes: usize, times: usize) {
        assert!(bytes <= self.bytes);
        for _ in 0..times {
            // SAFETY: the range is in the buffer, and [`chosen_kernels`] asked the processor.
            unsafe { kernel.zero(Address::of(self.start.as_ptr()), bytes) };
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the reservation is the buffer's, which nobody uses any more.
        unsafe { memory::unmap(self.start, self.bytes) };
    }
}

/// One combination, and what it gave in each round.
struct Cell {
    kernel: Kernel,
    buffer: usize,
    threads: u32,
    gb_per_s: Vec<f64>,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line {
    kernel: &'static str,
    buffer_bytes: usize,
    threads: u32,
    /// All threads together, the median of the rounds. 1 GB is 10^9 bytes.
    gb_per_s: f64,
    least_gb_per_s: f64,
    most_gb_per_s: f64,
}

impl Cell {
    fn line(&self) -> Line {
        let rates = Spread::of(&self.gb_per_s);
        Line {
            kernel: self.kernel.name(),
            buffer_bytes: self.buffer,
            threads: self.threads,
            gb_per_s: rates.median,
            least_gb_per_s: rates.least,
            most_gb_per_s: rates.most,
        }
    }
}

/// Measures and prints; true, for nothing can turn out wrong.
pub fn run(chosen: &Zeroing) -> Result<bool> {
    let kernels = chosen_kernels(chosen)?;
    let threads = chosen_threads(chosen);
    let mut buffers = buffers(&chosen.buffers, &threads)?;
    let mut cells = combinations(&kernels, &chosen.buffers, &threads);
    let progress = progress::bar(cells.len() * chosen.rounds as usize);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    for _ in 0..chosen.rounds {
        for &index in &order {
            let cell = &mut cells[index];
            progress.set_message(format!("{} {}", cell.kernel.name(), shown(cell.buffer)));
            let times = chosen.work.div_ceil(cell.buffer);
            let buffers = &mut buffers[..cell.threads as usize];
            cell.gb_per_s
                .push(measure(cell.kernel, cell.buffer, times, buffers));
            progress.inc(1);
        }
        order.reverse();
    }
    progress.finish_and_clear();
    if chosen.json {
        for cell in &cells {
            let line = serde_json::to_string(&cell.line());
            say(line.map_err(|error| Failure::new(format!("JSON: {error}")))?)?;
        }
    } else {
        say(format_args!(
            "GB/s, all threads together, median of {} rounds",
            chosen.rounds
        ))?;
        say(table(&kernels, &cells))?;
    }
    Ok(true)
}

/// The kernels that were asked for, which the processor must have, or all that it has.
fn chosen_kernels(chosen: &Zeroing) -> Result<Vec<Kernel>> {
    let processor = Processor::detect();
    let choice = |kernel: Kernel| choose(kernel.option(), kernel.is_temporal(), &processor);
    let is_here = |kernel: Kernel| choice(kernel).kernel == kernel;
    if chosen.kernels.is_empty() {
        return Ok(Kernel::ALL
            .into_iter()
            .filter(|&kernel| is_here(kernel))
            .collect());
    }
    for &kernel in &chosen.kernels {
        if !is_here(kernel) {
            let Choice { reason, .. } = choice(kernel);
            return Err(Failure::new(format!("{}: {reason}", kernel.name())));
        }
    }
    Ok(chosen.kernels.clone())
}

fn chosen_threads(chosen: &Zeroing) -> Vec<u32> {
    if chosen.threads.is_empty() {
        return (1..=Topology::host().processors as u32).collect();
    }
    chosen.threads.clone()
}

/// A buffer of the largest size for each thread.
fn buffers(sizes: &[usize], threads: &[u32]) -> Result<Vec<Buffer>> {
    let bytes = sizes.iter().copied().max().unwrap_or(0);
    let count = threads.iter().copied().max().unwrap_or(0);
    let fits = bytes.checked_mul(count as usize);
    if fits.is_none_or(|bytes| bytes as u64 > memory::physical_memory()) {
        let size = shown(bytes);
        let message = format!(
            "{count} buffers of {size} are more than the memory; see --buffers and --threads"
        );
        return Err(Failure::new(message));
    }
    (0..count).map(|_| Buffer::new(bytes)).collect()
}

/// All combinations, the kernels of one size and number of threads beside each other.
fn combinations(kernels: &[Kernel], buffers: &[usize], threads: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &buffer in buffers {
        for &threads in threads {
            cells.extend(kernels.iter().map(|&kernel| Cell {
                kernel,
                buffer,
                threads,
                gb_per_s: Vec::new(),
            }));
        }
    }
    cells
}

/// Each thread zeroes `bytes` bytes of its buffer `times` times, and then does so again. Gives the GB/s of all threads
/// in the second part, from the first start to the last end.
fn measure(kernel: Kernel, bytes: usize, times: usize, buffers: &mut [Buffer]) -> f64 {
    let zeroed = (bytes * times * buffers.len()) as f64;
    let ready = Barrier::new(buffers.len());
    let one = |buffer: &mut Buffer| {
        buffer.zero(kernel, bytes, times);
        ready.wait();
        let start = Instant::now();
        buffer.zero(kernel, bytes, times);
        (start, Instant::now())
    };
    let spans: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = buffers
            .iter_mut()
            .map(|buffer| scope.spawn(|| one(buffer)))
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|span| span.expect("zeroing does not panic"))
            .collect()
    });
    let first = spans.iter().map(|span| span.0).min();
    let last = spans.iter().map(|span| span.1).max();
    let seconds = first
        .zip(last)
        .map_or(0.0, |(first, last)| (last - first).as_secs_f64());
    zeroed / seconds * 1e-9
}

/// The cells for people: a row for each size and number of threads, a column for each kernel.
fn table(kernels: &[Kernel], cells: &[Cell]) -> Table {
    let mut table = Table::new();
    let names = kernels.iter().map(|kernel| kernel.name());
    table
        .load_style(UTF8_FULL_CONDENSED)
        .set_header(["buffer", "threads"].into_iter().chain(names));
    for row in cells.chunks(kernels.len()) {
        let head = [shown(row[0].buffer), row[0].threads.to_string()];
        let medians = row
            .iter()
            .map(|cell| format!("{:.1}", cell.line().gb_per_s));
        table.add_row(head.into_iter().chain(medians));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_zeroed() {
        let mut buffers = [Buffer::new(4096).unwrap(), Buffer::new(4096).unwrap()];
        for buffer in &buffers {
            // SAFETY: the buffers are the test's.
            unsafe { buffer.start.write_bytes(0xff, 8192) };
        }
        assert!(measure(Kernel::Movntdq, 4096, 3, &mut buffers) > 0.0);
        for buffer in &buffers {
            // SAFETY: a buffer of this test has at least 8192 bytes, all written above, and `measure` has returned.
            let words = unsafe { buffer.start.cast::<[u8; 8192]>().as_ref() };
            assert!(words[..4096].iter().all(|&byte| byte == 0));
            assert!(words[4096..].iter().all(|&byte| byte == 0xff));
        }
    }
}
