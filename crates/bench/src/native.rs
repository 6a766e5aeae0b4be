//! `native`: workloads on the precise heap, in this process; one line of JSON at the end.
//!
//! The workloads are those of the crate `gleaner-workloads`; docs/workloads.md says what each one does.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use gleaner::{Builder, Crew, Heap, OutsideLayout, References};
use gleaner_work::MAX_WORKERS;
use gleaner_workloads::{Entry, Extra, Facts, Mutators, Scale, TABLE, failed, find};
use serde::Serialize;

use crate::{arrays, locality, process, synchronisation};
use gleaner_workloads::failure::{Failure, Result};

/// Arguments of `native`.
#[derive(Args)]
pub struct Native {
    /// What runs
    #[arg(value_name = "NAME", value_parser = workloads())]
    pub workload: &'static Entry,
    /// Size of the heap in MB, about three times what lives unless given; 0 for a quarter of the memory, at most 8 GB
    #[arg(long, value_name = "MB")]
    pub heap: Option<usize>,
    /// Size of the young generation in MB; 0 for a third of the heap
    #[arg(long, value_name = "MB", default_value_t = 0)]
    pub young: usize,
    /// Threads that collect, all in each collection unless --opt crew=auto; 0 for as many as pay
    #[arg(long, default_value_t = 2, value_parser = RangedU64ValueParser::<usize>::new().range(0..=MAX_WORKERS as u64))]
    pub workers: usize,
    /// Mutator threads; 1 unless given, but for workloads about many
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub threads: Option<u32>,
    /// References of 4 bytes
    #[arg(long)]
    pub compressed: bool,
    /// Does a thousandth, for a test
    #[arg(long)]
    pub tiny: bool,
    /// Allocates as the program did that the workload follows: index, all buffers and lists of a query anew
    #[arg(long)]
    pub wasteful: bool,
    /// What is read instead of Debian's files: index, compress, strings, a directory of texts; xml, a document
    #[arg(long, value_name = "PATH")]
    pub input: Option<PathBuf>,
    /// What each mutator reads again and again while it allocates, in KB: initnone, initfresh, initstale
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    pub working_set: Option<u32>,
    /// Another sequence of random numbers: jbb
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// Transactions of each mutator, 500,000 unless given: jbb
    #[arg(long, value_name = "N")]
    pub transactions: Option<u32>,
    /// Runs the code that asks how arrays are cut, also where there is code for just that: to compare sizes of pieces
    #[arg(long)]
    pub any_arrays: bool,
    /// Options of the heap, as in GLEANER_OPTIONS, which weighs more; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Checks the heap before and after each collection
    #[arg(long)]
    pub verify: bool,
    /// Runs this many times in one process; the environment variable ITERATIONS says the same
    #[arg(long, env = "ITERATIONS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub iterations: u32,
}

/// The line. Times are in seconds.
#[derive(Serialize)]
struct Line {
    benchmark: &'static str,
    result: String,
    wall_s: f64,
    cpu_s: f64,
    peak_kb: u64,
    collections: u64,
    full_collections: u64,
    total_pause_s: f64,
    longest_pause_s: f64,
    /// The run without its pauses.
    mutator_s: f64,
    allocated_bytes: u64,
    promoted_bytes: u64,
    survived_bytes: u64,
    /// Bytes that mutators zeroed in blocks, buffers and windows, until the last collection.
    zeroed_bytes: u64,
    /// Bytes that zeroing threads zeroed.
    zeroed_ahead_bytes: u64,
    /// Processor time of mutators for theirs.
    zeroing_s: f64,
    /// Processor time of zeroing threads for theirs.
    zeroing_ahead_s: f64,
    /// How long mutators waited for zeroing threads, by the clock.
    stalled_s: f64,
    /// How often zeroing threads that keep a lead slept, and how often spinning spared them that.
    zeroing_sleeps: u64,
    zeroing_spared_sleeps: u64,
    /// Bytes allocated in each second of the run, in millions.
    allocation_mb_per_s: f64,
    /// The paper's CPUUtilization (OOPSLA 2011, section 4.3): processors that were busy on average.
    cpu_utilization: f64,
    /// Its DirectZeroingCost (4.3): the share of all processor time that zeroing blocks took, by any thread. Processor
    /// time over processor time: at most 1.
    direct_zeroing_cost: f64,
    /// Its ZeroingPerformance (5.4): bytes zeroed in each second of a processor's time, in thousand millions; 0 when
    /// none was timed.
    zeroing_gb_per_s: f64,
    heap_mb: usize,
    mutators: u32,
    /// What workers did on which memory node, on a synthetic machine of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    locality: Option<locality::Line>,
    /// What workers did with each other in all collections.
    synchronisation: synchronisation::Line,
    /// What became of arrays in pieces, where arrays are cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrays: Option<arrays::Line>,
    /// The report on arrays, where one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    array_report: Option<arrays::Report>,
    #[serde(flatten)]
    facts: Facts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    iterations: Vec<Iteration>,
}

#[derive(Serialize)]
struct Iteration {
    wall_s: f64,
    cpu_s: f64,
}

/// Seconds of wall time and of processor time.
struct Clock(Instant, f64);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now(), process::own_cpu())
    }

    fn read(&self) -> Iteration {
        Iteration {
            wall_s: self.0.elapsed().as_secs_f64(),
            cpu_s: process::own_cpu() - self.1,
        }
    }
}

fn build(chosen: &Native, mb: usize) -> Result<Heap> {
    let references = if chosen.compressed {
        References::Compressed
    } else {
        References::Wide
    };
    let builder = Heap::builder()
        .limit(mb.saturating_mul(1 << 20))
        .young(chosen.young.saturating_mul(1 << 20))
        .workers(chosen.workers)
        .crew(crew_of(chosen.workers))
        .verify(chosen.verify)
        .references(references)
        .outside_layout(OutsideLayout::Followed);
    let mut lists = chosen.options.iter();
    lists
        .try_fold(builder, |builder, list| builder.options(list))
        .and_then(Builder::build)
        .map_err(failed)
}

/// All of `workers` workers take part, unless their number is left open by a 0.
pub fn crew_of(workers: usize) -> Crew {
    match workers {
        0 => Crew::Auto,
        _ => Crew::All,
    }
}

/// The names of the table with their help, and what a name stands for.
fn workloads() -> impl TypedValueParser<Value = &'static Entry> {
    let names = TABLE
        .iter()
        .map(|entry| PossibleValue::new(entry.name).help(entry.about));
    PossibleValuesParser::new(names).map(|name| find(&name).expect("a name of the table"))
}

/// An option that would change nothing is a mistake.
fn refuse_what_is_not_used(chosen: &Native) -> Result<()> {
    let extras = [
        ("--wasteful", Extra::Wasteful, chosen.wasteful),
        ("--input", Extra::Input, chosen.input.is_some()),
        (
            "--working-set",
            Extra::WorkingSet,
            chosen.working_set.is_some(),
        ),
        ("--seed", Extra::Seed, chosen.seed.is_some()),
        (
            "--transactions",
            Extra::Transactions,
            chosen.transactions.is_some(),
        ),
    ];
    for (option, extra, is_given) in extras {
        if is_given && !chosen.workload.takes(extra) {
            let users = TABLE.iter().filter(|entry| entry.takes(extra));
            let users: Vec<_> = users.map(|entry| entry.name).collect();
            return Err(Failure::new(format!(
                "{} has no use for {option}, which is for {}",
                chosen.workload.name,
                users.join(", ")
            )));
        }
    }
    Ok(())
}

/// Whether this program has the place of one that measures.
fn lies_among_releases() -> bool {
    let program = std::env::current_exe();
    program.is_ok_and(|program| {
        program
            .parent()
            .is_some_and(|folder| folder.ends_with("release"))
    })
}

/// Runs it; an error when it runs out of memory.
pub fn run(chosen: &Native) -> Result<bool> {
    refuse_what_is_not_used(chosen)?;
    if cfg!(debug_assertions) && lies_among_releases() {
        eprintln!(
            "gleaner-bench: `make test` left this one here, whose workloads take longer than those that `make build` compiles"
        );
    }
    let scale = Scale {
        tiny: chosen.tiny,
        wasteful: chosen.wasteful,
        input: chosen.input.clone(),
        working_set: chosen.working_set.unwrap_or(0) as usize,
        seed: u64::from(chosen.seed.unwrap_or(0)),
        transactions: chosen.transactions,
        any_arrays: chosen.any_arrays,
    };
    let mutators = Mutators::new(chosen.threads.unwrap_or_else(|| chosen.workload.threads()));
    let usual = || chosen.workload.heap_mb(mutators.threads, scale.working_set);
    let heap = build(chosen, chosen.heap.unwrap_or_else(usual))?;
    let workload = chosen.workload.prepare(&heap, &scale)?;
    let mut mutator = heap.attach().map_err(failed)?;
    let (mut result, mut iterations, mut facts) = (0, Vec::new(), Facts::new());
    let before = mutator.totals();
    let whole = Clock::start();
    for _ in 0..chosen.iterations {
        let clock = Clock::start();
        let once = workload.run(&mut mutator, &mutators, &mut facts);
        result = once.map_err(|full| Failure::new(format!("{}: {full}", chosen.workload.name)))?;
        iterations.push(clock.read());
    }
    let Iteration { wall_s, cpu_s } = whole.read();
    let totals = mutator.totals();
    let (counted, synchronisation) = mutator.blocking(|| (heap.locality(), heap.synchronisation()));
    if iterations.len() == 1 {
        iterations.clear();
    }
    let allocated = mutator.allocated_bytes() + mutators.allocated.load(Ordering::Relaxed);
    let zeroed = totals.zeroed;
    let took = zeroed.time + zeroed.ahead_time;
    // What was zeroed for the workload's own preparation is not in `cpu_s` either.
    let zeroing_ns = took.saturating_sub(before.zeroed.time + before.zeroed.ahead_time) as f64;
    let timed = (zeroed.timed + zeroed.ahead_timed) as f64;
    let total_pause_s = totals.stopped_ns as f64 * 1e-9;
    let line = Line {
        benchmark: chosen.workload.name,
        result: format!("{result:016x}"),
        wall_s,
        cpu_s,
        peak_kb: gleaner_os::memory::peak_resident_bytes() / 1024,
        collections: totals.scavenges + totals.full_collections,
        full_collections: totals.full_collections,
        total_pause_s,
        longest_pause_s: totals.longest_stop_ns as f64 * 1e-9,
        mutator_s: wall_s - (totals.stopped_ns - before.stopped_ns) as f64 * 1e-9,
        allocated_bytes: allocated,
        promoted_bytes: totals.promoted_bytes,
        survived_bytes: totals.survived_bytes,
        zeroed_bytes: zeroed.bytes,
        zeroed_ahead_bytes: zeroed.ahead_bytes,
        zeroing_s: zeroed.time as f64 * 1e-9,
        zeroing_ahead_s: zeroed.ahead_time as f64 * 1e-9,
        zeroing_sleeps: zeroed.sleeps,
        zeroing_spared_sleeps: zeroed.spared_sleeps,
        stalled_s: zeroed.stalled_time as f64 * 1e-9,
        allocation_mb_per_s: allocated as f64 * 1e-6 / wall_s,
        cpu_utilization: cpu_s / wall_s,
        direct_zeroing_cost: zeroing_ns * 1e-9 / cpu_s,
        zeroing_gb_per_s: if took > 0 { timed / took as f64 } else { 0.0 },
        heap_mb: heap.limit() >> 20,
        mutators: mutators.threads,
        locality: counted.map(|counted| locality::Line::new(&counted, heap.workers())),
        synchronisation: synchronisation::Line::new(&synchronisation),
        arrays: heap
            .cut_arrays()
            .map(|cut| arrays::Line::new(cut, &mutator.array_counts())),
        array_report: mutator.array_report().as_ref().map(arrays::Report::new),
        facts,
        iterations,
    };
    crate::say::say(serde_json::to_string(&line).map_err(failed)?)?;
    Ok(true)
}
