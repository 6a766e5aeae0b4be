//! `native`: workloads on the precise heap, in this process; one line of JSON at the end.
//!
//! Each workload is written once, against the raw layer, as a compiler's code would be. What it comes to depends on
//! its scale alone, so that configurations and rivals can be compared by their results.

mod gcbench;
mod queue;
mod refarray;

use std::cell::Cell;
use std::time::Instant;

use clap::{Args, ValueEnum};
use gleaner::raw::{Address, ELEMENTS, FIELDS, Shape, TypeId, Value, array_bytes};
use gleaner::{Heap, Mutator, OutOfMemory, References, TypeError};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::process;

/// Arguments of `native`.
#[derive(Args)]
pub struct Native {
    /// What runs
    #[arg(value_enum)]
    pub name: Name,
    /// Size of the heap in MB; 0 for a quarter of the memory, at most 8 GB
    #[arg(long, value_name = "MB", default_value_t = 113)]
    pub heap: usize,
    /// Size of the young generation in MB; 0 for a third of the heap
    #[arg(long, value_name = "MB", default_value_t = 0)]
    pub young: usize,
    /// Threads that collect
    #[arg(long, default_value_t = 2)]
    pub workers: usize,
    /// References of 4 bytes
    #[arg(long)]
    pub compressed: bool,
    /// Does a thousandth, for a test
    #[arg(long)]
    pub tiny: bool,
    /// Checks the heap before and after each collection
    #[arg(long)]
    pub verify: bool,
    /// Runs so often in one process; the environment variable ITERATIONS says the same
    #[arg(long, env = "ITERATIONS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub iterations: u32,
}

/// The workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Name {
    /// Binary trees that come and go beside one that stays
    Gcbench,
    /// The same with dead objects between the live ones
    Holes,
    /// A list of a million nodes with sixteen million appends and pops
    Queue,
    /// A million references in one old array, replaced at random by fresh nodes
    Refarray,
}

/// The types that the workloads use, and where their fields lie.
#[derive(Clone, Copy)]
struct Types {
    /// Two references and two numbers of 4 bytes.
    node: TypeId,
    node_bytes: usize,
    /// Offset of the first of the two numbers.
    data: usize,
    array: TypeId,
    slot_bytes: usize,
    doubles: TypeId,
}

type Allocated = std::result::Result<Address, OutOfMemory>;

impl Types {
    fn register(heap: &Heap) -> std::result::Result<Types, TypeError> {
        let slot_bytes = match heap.references() {
            References::Wide => 8,
            References::Compressed => 4,
        };
        let data = FIELDS + 2 * slot_bytes;
        let references = [FIELDS as u32, (FIELDS + slot_bytes) as u32];
        let node = Shape::Structure {
            bytes: data + 8,
            references: &references,
        };
        Ok(Types {
            node: heap.register_raw(node)?,
            node_bytes: (data + 8).next_multiple_of(8),
            data,
            array: heap.register_raw(Shape::References)?,
            slot_bytes,
            doubles: heap.register_raw(Shape::Primitives { log2: 3 })?,
        })
    }

    /// A fresh node. Other references of the caller's are in frames.
    #[inline(always)]
    fn node(&self, mutator: &mut Mutator) -> Allocated {
        // SAFETY: the node's type and size.
        unsafe { mutator.allocate_raw(self.node, self.node_bytes) }
    }

    /// A fresh array of references.
    fn references(&self, mutator: &mut Mutator, length: u32) -> Allocated {
        let bytes = array_bytes(length, self.slot_bytes.trailing_zeros());
        // SAFETY: an array of references, of that size.
        unsafe { mutator.allocate_array_raw(self.array, length, bytes) }
    }

    /// Reference 0 or 1 of a node.
    #[inline(always)]
    fn get(&self, mutator: &Mutator, node: Address, side: usize) -> Value {
        // SAFETY: the workloads give valid nodes.
        unsafe { mutator.load_raw(node, FIELDS + side * self.slot_bytes) }
    }

    /// Sets reference 0 or 1 of a node.
    #[inline(always)]
    fn set(&self, mutator: &Mutator, node: Address, side: usize, value: Value) {
        // SAFETY: the workloads give valid nodes and values.
        unsafe { mutator.store_raw(node, FIELDS + side * self.slot_bytes, value) };
    }

    /// Offset of an element of an array of references.
    #[inline(always)]
    fn element(&self, index: usize) -> usize {
        ELEMENTS + index * self.slot_bytes
    }

    /// Number 0 or 1 of a node.
    #[inline(always)]
    fn number(&self, node: Address, which: usize) -> u32 {
        // SAFETY: the workloads give valid nodes.
        unsafe { node.add(self.data + 4 * which).ptr::<u32>().read() }
    }

    /// Sets number 0 or 1 of a node.
    #[inline(always)]
    fn set_number(&self, node: Address, which: usize, number: u32) {
        // SAFETY: the workloads give valid nodes.
        unsafe { node.add(self.data + 4 * which).ptr::<u32>().write(number) };
    }
}

/// The object that a root holds.
#[inline(always)]
fn object(root: &Cell<Value>) -> Address {
    root.get().as_object().unwrap_or(Address::NULL)
}

/// The line. Times are in seconds.
#[derive(Serialize)]
struct Line {
    benchmark: String,
    result: String,
    wall_s: f64,
    cpu_s: f64,
    peak_kb: u64,
    collections: u64,
    full_collections: u64,
    total_pause_s: f64,
    longest_pause_s: f64,
    allocated_bytes: u64,
    promoted_bytes: u64,
    survived_bytes: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    iterations: Vec<Iteration>,
}

#[derive(Serialize)]
struct Iteration {
    wall_s: f64,
    cpu_s: f64,
}

/// Runs it; false when it runs out of memory, which the line on standard error says.
pub fn run(chosen: &Native) -> Result<bool> {
    let heap = Heap::builder()
        .limit(chosen.heap << 20)
        .young(chosen.young << 20)
        .workers(chosen.workers)
        .verify(chosen.verify)
        .references(if chosen.compressed {
            References::Compressed
        } else {
            References::Wide
        })
        .build()
        .map_err(|error| Failure::new(error.to_string()))?;
    let types = Types::register(&heap).map_err(|error| Failure::new(error.to_string()))?;
    let mut mutator = heap
        .attach()
        .map_err(|error| Failure::new(error.to_string()))?;
    let (mut result, mut iterations) = (0, Vec::new());
    let (started, used) = (Instant::now(), process::own_cpu());
    for _ in 0..chosen.iterations {
        let (started, used) = (Instant::now(), process::own_cpu());
        let once = match chosen.name {
            Name::Gcbench => gcbench::run(&mut mutator, types, chosen.tiny, false),
            Name::Holes => gcbench::run(&mut mutator, types, chosen.tiny, true),
            Name::Queue => queue::run(&mut mutator, types, chosen.tiny),
            Name::Refarray => refarray::run(&mut mutator, types, chosen.tiny),
        };
        result = once.map_err(|full| Failure::new(format!("{:?}: {full}", chosen.name)))?;
        iterations.push(Iteration {
            wall_s: started.elapsed().as_secs_f64(),
            cpu_s: process::own_cpu() - used,
        });
    }
    let (wall_s, cpu_s) = (started.elapsed().as_secs_f64(), process::own_cpu() - used);
    let totals = mutator.totals();
    if iterations.len() == 1 {
        iterations.clear();
    }
    let line = Line {
        benchmark: format!("{:?}", chosen.name).to_lowercase(),
        result: format!("{result:016x}"),
        wall_s,
        cpu_s,
        peak_kb: gleaner_os::memory::peak_resident_bytes() / 1024,
        collections: totals.scavenges + totals.full_collections,
        full_collections: totals.full_collections,
        total_pause_s: totals.stopped_ns as f64 * 1e-9,
        longest_pause_s: totals.longest_stop_ns as f64 * 1e-9,
        allocated_bytes: mutator.allocated_bytes(),
        promoted_bytes: totals.promoted_bytes,
        survived_bytes: totals.survived_bytes,
        iterations,
    };
    let text = serde_json::to_string(&line).map_err(|error| Failure::new(error.to_string()))?;
    println!("{text}");
    Ok(true)
}
