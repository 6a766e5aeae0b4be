//! `placement`: how fast threads read memory, by the nodes that it lies on; Figure 3 of ASPLOS 2013, section 3.2.1.
//!
//! A fixed number of bytes is shared out among threads, each of which reads its part, in order and again and again, from
//! a buffer of its own that is larger than the caches. Threads are pinned to the nodes in turns. Where the buffers lie
//! is the placement; the kernel is asked afterwards where their pages are. On a machine with one memory node all
//! placements are the same and nothing is measured.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::{Barrier, OnceLock};
use std::time::Instant;

use clap::{Args, ValueEnum};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner_os::memory::{self, page_size};
use gleaner_os::threads::{self, Role, spawn};
use gleaner_os::topology::{Node, NodeNumber, Topology};
use gleaner_os::{hugepages, numa};
use serde::Serialize;

use crate::progress;
use crate::quantities::{Spread, shown, size};
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `placement`.
#[derive(Args)]
pub struct Placement {
    /// The placements; all of them unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_enum)]
    pub placements: Vec<Policy>,
    /// The buffer of each thread, with a suffix k, m or g; larger than its share of the caches
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64m")]
    pub buffer: usize,
    /// Numbers of threads; 1 and the multiples of the number of nodes up to that of processors unless given
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Vec<u32>,
    /// How often everything is measured
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// All threads together read this many bytes in one measurement
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "16g")]
    pub work: usize,
    /// Prints a line of JSON for each combination, not a table
    #[arg(long)]
    pub json: bool,
}

/// Where the buffers lie, and which threads take part. The names are the paper's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Policy {
    /// All buffers on the first node
    UnbalancedRemote,
    /// The pages of each buffer on all nodes in turns
    BalancedRemote,
    /// Each buffer on the node of its thread
    BalancedLocal,
    /// As many threads as the first node has processors, on it, with their buffers; further threads are left out
    UnbalancedLocal,
}

impl Policy {
    const fn name(self) -> &'static str {
        match self {
            Policy::UnbalancedRemote => "Unbalanced-Remote",
            Policy::BalancedRemote => "Balanced-Remote",
            Policy::BalancedLocal => "Balanced-Local",
            Policy::UnbalancedLocal => "Unbalanced-Local",
        }
    }

    /// For each thread that takes part, the indices among `nodes` of its own node and of its buffer's; none where the
    /// buffer lies on all.
    fn spread(self, threads: usize, nodes: &[Node]) -> Vec<(usize, Option<usize>)> {
        let in_turns = (0..threads).map(|thread| thread % nodes.len());
        match self {
            Policy::UnbalancedRemote => in_turns.map(|node| (node, Some(0))).collect(),
            Policy::BalancedRemote => in_turns.map(|node| (node, None)).collect(),
            Policy::BalancedLocal => in_turns.map(|node| (node, Some(node))).collect(),
            Policy::UnbalancedLocal => {
                let most = threads.min(nodes[0].processors.count());
                vec![(0, Some(0)); most]
            }
        }
    }
}

/// Memory that one thread reads.
struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

impl Buffer {
    /// A buffer on a node, or on all in turns, all of whose pages were touched. In small pages, so that turns are short.
    fn new(bytes: usize, node: Option<usize>, nodes: &[Node]) -> Result<Buffer> {
        let bytes = bytes.next_multiple_of(page_size());
        let start = memory::map(bytes)
            .ok_or_else(|| Failure::new(format!("no memory for a buffer of {bytes} bytes")))?;
        let buffer = Buffer { start, bytes };
        // SAFETY: the mapping is the buffer's, whole pages long; neither call changes what is in it.
        let placed = unsafe {
            hugepages::unadvise(start, bytes);
            match node {
                Some(node) => numa::bind(start, bytes, number_of(&nodes[node])?),
                None => {
                    let numbers = nodes.iter().map(number_of).collect::<Result<Vec<_>>>()?;
                    let all = numbers.iter().map(|number| usize::from(number.0)).collect();
                    numa::interleave(start, bytes, &all)
                }
            }
        };
        placed.map_err(|refusal| Failure::new(refusal.to_string()))?;
        // SAFETY: the mapping is the buffer's, `bytes` long, writable, and no thread has it yet.
        unsafe { start.write_bytes(1, bytes) };
        Ok(buffer)
    }

    /// Reads `bytes` in order, from the start again after the end.
    fn read(&self, bytes: usize) {
        // SAFETY: the mapping is the buffer's, whole pages of bytes that were all written, and nobody writes now.
        let all = unsafe {
            std::slice::from_raw_parts(self.start.cast::<u64>().as_ptr(), self.bytes / 8)
        };
        let mut left = bytes / 8;
        while left > 0 {
            let words = &all[..left.min(all.len())];
            black_box(words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
            left -= words.len();
        }
    }

    /// Adds its pages to the counts by node.
    fn count_pages(&self, nodes: &[Node], pages: &mut [u64]) -> Result<()> {
        numa::nodes_of_range(self.start, self.bytes / page_size(), |_, on| {
            if let Some(node) = nodes
                .iter()
                .position(|node| on.is_some() && node.number == on)
            {
                pages[node] += 1;
            }
        })
        .map_err(|refusal| Failure::new(refusal.to_string()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is the buffer's, which nobody uses any more.
        unsafe { memory::unmap(self.start, self.bytes) };
    }
}

fn number_of(node: &Node) -> Result<NodeNumber> {
    let missing = || Failure::new("a synthetic machine has no memory to place");
    node.number.ok_or_else(missing)
}

/// What a reading thread gets, and what it leaves behind.
struct Reader<'a> {
    buffer: Buffer,
    bytes: usize,
    /// Whether all threads were started; else this one leaves at once.
    go: &'a OnceLock<bool>,
    ready: &'a Barrier,
    span: OnceLock<(Instant, Instant)>,
}

impl Reader<'_> {
    /// Reads the buffer once without the clock, then, together with the others, its part.
    fn run(&self) {
        if !self.go.wait() {
            return;
        }
        self.buffer.read(self.buffer.bytes);
        self.ready.wait();
        let start = Instant::now();
        self.buffer.read(self.bytes);
        // Nobody else sets it.
        let _ = self.span.set((start, Instant::now()));
    }
}

extern "C" fn enter(reader: *mut c_void) -> *mut c_void {
    // SAFETY: `measure` gives a reader that lives until it has joined the thread, and only lends it.
    let reader = unsafe { &*reader.cast::<Reader<'_>>() };
    reader.run();
    std::ptr::null_mut()
}

/// One measurement.
struct Measured {
    /// From the first start to the last end.
    seconds: f64,
    /// Of all buffers, by node.
    pages: Vec<u64>,
    /// Threads that the system did not pin.
    unpinned: usize,
}

/// Lets threads read `work` bytes together.
fn measure(
    policy: Policy,
    threads: usize,
    nodes: &[Node],
    bytes: usize,
    work: usize,
) -> Result<Measured> {
    let spread = policy.spread(threads, nodes);
    let (go, ready) = (OnceLock::new(), Barrier::new(spread.len()));
    let reader = |&(_, node): &(usize, Option<usize>)| {
        Ok(Reader {
            buffer: Buffer::new(bytes, node, nodes)?,
            bytes: work / spread.len(),
            go: &go,
            ready: &ready,
            span: OnceLock::new(),
        })
    };
    let readers = spread.iter().map(reader).collect::<Result<Vec<_>>>()?;
    let mut started = Vec::new();
    for (reader, (own, _)) in readers.iter().zip(&spread) {
        let placement = threads::Placement::On(&nodes[*own].processors);
        let argument = (&raw const *reader).cast_mut().cast();
        started.extend(spawn(Role::Worker, placement, enter, argument));
    }
    let are_all = started.len() == readers.len();
    // Nobody else sets it.
    let _ = go.set(are_all);
    let mut unpinned = 0;
    for thread in started {
        unpinned += usize::from(!thread.is_placed());
        thread.join();
    }
    if !are_all {
        let message = format!("the system does not start {} threads", readers.len());
        return Err(Failure::new(message));
    }
    let spans = || readers.iter().filter_map(|reader| reader.span.get());
    let first = spans().map(|span| span.0).min();
    let last = spans().map(|span| span.1).max();
    let mut pages = vec![0; nodes.len()];
    for reader in &readers {
        reader.buffer.count_pages(nodes, &mut pages)?;
    }
    Ok(Measured {
        seconds: first
            .zip(last)
            .map_or(0.0, |(first, last)| (last - first).as_secs_f64()),
        pages,
        unpinned,
    })
}

/// One combination, and what it gave in each round.
struct Cell {
    policy: Policy,
    threads: u32,
    seconds: Vec<f64>,
    pages: Vec<u64>,
    unpinned: usize,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    placement: &'static str,
    threads: u32,
    buffer_bytes: usize,
    work_bytes: usize,
    nodes: usize,
    /// The median of the rounds.
    seconds: f64,
    least_seconds: f64,
    most_seconds: f64,
    /// All threads together, of the median. 1 GB is 10^9 bytes.
    gb_per_s: f64,
    /// Of all buffers in the last round, by node, as the kernel says.
    pages: &'a [u64],
    /// Threads that the system did not pin to their nodes in the last round.
    unpinned_threads: usize,
}

impl Cell {
    fn line<'a>(&'a self, chosen: &Placement, nodes: usize) -> Line<'a> {
        let seconds = Spread::of(&self.seconds);
        Line {
            placement: self.policy.name(),
            threads: self.threads,
            buffer_bytes: chosen.buffer,
            work_bytes: chosen.work,
            nodes,
            seconds: seconds.median,
            least_seconds: seconds.least,
            most_seconds: seconds.most,
            gb_per_s: chosen.work as f64 / seconds.median * 1e-9,
            pages: &self.pages,
            unpinned_threads: self.unpinned,
        }
    }
}

/// Measures and prints; true, for nothing can turn out wrong. On a machine with one node it says so and ends.
pub fn run(chosen: &Placement) -> Result<bool> {
    let topology = Topology::host();
    let nodes = host_nodes(&topology);
    if nodes.len() < 2 {
        eprintln!(
            "gleaner-bench: one memory node with processors: all placements are one column, and nothing is measured; \
             gleaner-lab model figure-3 has the modelled curves"
        );
        return Ok(true);
    }
    let policies = match &chosen.placements[..] {
        [] => Policy::value_variants(),
        given => given,
    };
    let threads = chosen_threads(chosen, nodes.len(), topology.processors as u32);
    check_memory(chosen, &threads)?;
    let mut cells = combinations(policies, &threads);
    let progress = progress::bar(cells.len() * chosen.rounds as usize);
    let mut order: Vec<usize> = (0..cells.len()).collect();
    for _ in 0..chosen.rounds {
        for &index in &order {
            let cell = &mut cells[index];
            progress.set_message(format!("{} {}", cell.policy.name(), cell.threads));
            let found = measure(
                cell.policy,
                cell.threads as usize,
                &nodes,
                chosen.buffer,
                chosen.work,
            )?;
            cell.seconds.push(found.seconds);
            (cell.pages, cell.unpinned) = (found.pages, found.unpinned);
            progress.inc(1);
        }
        order.reverse();
    }
    progress.finish_and_clear();
    print(chosen, nodes.len(), policies, &cells)
}

/// The nodes that have both memory and processors.
fn host_nodes(topology: &Topology) -> Vec<Node> {
    topology
        .usable_nodes()
        .filter(|node| !node.processors.is_empty())
        .collect()
}

/// 1 and the numbers that load all nodes alike, unless others are given.
fn chosen_threads(chosen: &Placement, nodes: usize, processors: u32) -> Vec<u32> {
    if !chosen.threads.is_empty() {
        return chosen.threads.clone();
    }
    let step = nodes as u32;
    std::iter::once(1)
        .chain((step..=processors).step_by(nodes))
        .collect()
}

fn check_memory(chosen: &Placement, threads: &[u32]) -> Result<()> {
    let count = threads.iter().copied().max().unwrap_or(0);
    let all = chosen.buffer.checked_mul(count as usize);
    if all.is_some_and(|bytes| bytes as u64 <= memory::physical_memory()) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{count} buffers of {} are more than the memory; see --buffer and --threads",
        shown(chosen.buffer)
    )))
}

/// All combinations, the placements of one number of threads beside each other.
fn combinations(policies: &[Policy], threads: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &threads in threads {
        cells.extend(policies.iter().map(|&policy| Cell {
            policy,
            threads,
            seconds: Vec::new(),
            pages: Vec::new(),
            unpinned: 0,
        }));
    }
    cells
}

fn print(chosen: &Placement, nodes: usize, policies: &[Policy], cells: &[Cell]) -> Result<bool> {
    if chosen.json {
        for cell in cells {
            let line = serde_json::to_string(&cell.line(chosen, nodes));
            say(line.map_err(|error| Failure::new(format!("JSON: {error}")))?)?;
        }
    } else {
        say(format_args!(
            "GB/s, all threads together on {nodes} nodes, median of {} rounds",
            chosen.rounds
        ))?;
        let mut table = Table::new();
        let names = policies.iter().map(|policy| policy.name());
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header(["threads"].into_iter().chain(names));
        for row in cells.chunks(policies.len()) {
            let rate = |cell: &Cell| format!("{:.1}", cell.line(chosen, nodes).gb_per_s);
            table.add_row(std::iter::once(row[0].threads.to_string()).chain(row.iter().map(rate)));
        }
        say(table)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize, processors: usize) -> Vec<Node> {
        Topology::synthetic(count, processors)
            .usable_nodes()
            .collect()
    }

    #[test]
    fn threads_and_buffers_are_spread_as_the_placement_says() {
        let nodes = nodes(2, 3);
        let spread = |policy: Policy| policy.spread(5, &nodes);
        let own = [0, 1, 0, 1, 0];
        for (policy, buffers) in [
            (Policy::UnbalancedRemote, [Some(0); 5]),
            (Policy::BalancedRemote, [None; 5]),
            (Policy::BalancedLocal, own.map(Some)),
        ] {
            let expected: Vec<_> = own.into_iter().zip(buffers).collect();
            assert_eq!(spread(policy), expected, "{policy:?}");
        }
        // The first node has three processors; the other two threads are left out.
        assert_eq!(spread(Policy::UnbalancedLocal), [(0, Some(0)); 3]);
    }

    #[test]
    fn threads_load_all_nodes_alike_unless_given() {
        let mut chosen = Placement {
            placements: Vec::new(),
            buffer: 1 << 20,
            threads: Vec::new(),
            rounds: 1,
            work: 1 << 20,
            json: false,
        };
        assert_eq!(chosen_threads(&chosen, 8, 48), [1, 8, 16, 24, 32, 40, 48]);
        assert_eq!(chosen_threads(&chosen, 2, 3), [1, 2]);
        chosen.threads = vec![3, 5];
        assert_eq!(chosen_threads(&chosen, 8, 48), [3, 5]);
        chosen.buffer = usize::MAX / 2;
        assert!(check_memory(&chosen, &[3, 5]).is_err());
    }

    #[test]
    fn what_is_read_lies_where_it_was_placed() {
        const PAGES: usize = 64;
        let nodes = host_nodes(&Topology::host());
        if let Err(refusal) = numa::process_policy() {
            eprintln!("not tried: {refusal}");
            return;
        }
        let threads = 2 * nodes.len();
        for &policy in Policy::value_variants() {
            let found = measure(policy, threads, &nodes, PAGES * page_size(), 1 << 20).unwrap();
            let spread = policy.spread(threads, &nodes);
            let all = (PAGES * spread.len()) as u64;
            let mut expected = vec![0; nodes.len()];
            match policy {
                Policy::UnbalancedRemote | Policy::UnbalancedLocal => expected[0] = all,
                Policy::BalancedLocal => expected.fill(2 * PAGES as u64),
                Policy::BalancedRemote => expected.clone_from(&found.pages),
            }
            assert!(found.seconds > 0.0);
            assert_eq!((&found.pages, found.unpinned), (&expected, 0), "{policy:?}");
            assert_eq!(found.pages.iter().sum::<u64>(), all, "{policy:?}");
            // In turns by addresses: of each buffer, no node has a page more than another, but for the last turn.
            let even = (PAGES / nodes.len() * spread.len()) as u64;
            assert!(policy != Policy::BalancedRemote || found.pages.iter().all(|&own| own >= even));
        }
    }
}
