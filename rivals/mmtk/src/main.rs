//! `mmtk`: the workloads of `gleaner-bench native` on MMTk's plans; one line of JSON at the end.
//!
//! It takes the same arguments, and `--plan`. MMTk reads its other options from the environment (`MMTK_NURSERY` and
//! the rest), as everywhere.

mod binding;
mod cipher;
mod context;
mod object;
mod workloads;

use std::time::Instant;

use clap::{Parser, ValueEnum};
use mmtk::util::heap::vm_layout::VMLayout;
use mmtk::util::options::{GCTriggerSelector, PlanSelector};
use mmtk::util::{OpaquePointer, VMThread};
use mmtk::{MMTKBuilder, memory_manager};

use binding::Vm;
use context::{Bumping, Context, Generational, Listing, Mode};
use object::{Compressed, References, Wide};

/// The workloads of gleaner-bench native on MMTk
#[derive(Parser)]
struct Arguments {
    /// What runs
    #[arg(value_enum)]
    name: Name,
    /// MMTk's plan
    #[arg(long, value_enum, ignore_case = true, default_value_t = Plan::StickyImmix)]
    plan: Plan,
    /// Size of the heap in MB
    #[arg(long, value_name = "MB", default_value_t = 113, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    heap: u64,
    /// Threads that collect
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1024))]
    workers: u64,
    /// References of 4 bytes; the heap lies below 4 GB
    #[arg(long)]
    compressed: bool,
    /// Does a thousandth, for a test
    #[arg(long)]
    tiny: bool,
    /// Runs so often in one process; the environment variable ITERATIONS says the same
    #[arg(long, env = "ITERATIONS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    iterations: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Name {
    Gcbench,
    Holes,
    Queue,
    Refarray,
    Quads,
    Cipher,
}

/// The plans. MarkCompact is not among them: it hides a header of its own before each object.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "verbatim")]
enum Plan {
    StickyImmix,
    GenImmix,
    GenCopy,
    SemiSpace,
    Immix,
    MarkSweep,
}

impl Plan {
    fn selector(self) -> PlanSelector {
        match self {
            Plan::StickyImmix => PlanSelector::StickyImmix,
            Plan::GenImmix => PlanSelector::GenImmix,
            Plan::GenCopy => PlanSelector::GenCopy,
            Plan::SemiSpace => PlanSelector::SemiSpace,
            Plan::Immix => PlanSelector::Immix,
            Plan::MarkSweep => PlanSelector::MarkSweep,
        }
    }
}

fn main() {
    let chosen = Arguments::parse();
    if chosen.compressed {
        with_references::<Compressed>(&chosen);
    } else {
        with_references::<Wide>(&chosen);
    }
    // The workers wait for work that does not come.
    std::process::exit(0);
}

fn with_references<R: References>(chosen: &Arguments) {
    match chosen.plan {
        Plan::StickyImmix | Plan::GenImmix | Plan::GenCopy => run::<R, Generational>(chosen),
        Plan::SemiSpace | Plan::Immix => run::<R, Bumping>(chosen),
        Plan::MarkSweep => run::<R, Listing>(chosen),
    }
}

fn start<R: References, M: Mode>(chosen: &Arguments) -> Box<Context<R, M>> {
    let mut builder = MMTKBuilder::new();
    let bytes = (chosen.heap as usize) << 20;
    let options = &mut builder.options;
    let valid = options.plan.set(chosen.plan.selector())
        && options.threads.set(chosen.workers as usize)
        && options
            .gc_trigger
            .set(GCTriggerSelector::FixedHeapSize(bytes));
    assert!(valid, "MMTk takes a plan, threads and a heap size");
    if chosen.compressed {
        builder.set_vm_layout(VMLayout::new_32bit());
    }
    let mmtk = Box::leak(memory_manager::mmtk_init::<Vm<R>>(&builder));
    binding::set_mmtk(mmtk);
    let here = VMThread(OpaquePointer::UNINITIALIZED);
    memory_manager::initialize_collection(mmtk, here);
    Context::bind(mmtk)
}

/// Wall and processor time since some moment.
struct Times {
    started: Instant,
    used: f64,
}

impl Times {
    fn start() -> Times {
        Times {
            started: Instant::now(),
            used: own_cpu(),
        }
    }

    /// The fields of the line.
    fn shown(&self) -> String {
        let (wall, cpu) = (self.started.elapsed().as_secs_f64(), own_cpu() - self.used);
        format!("\"wall_s\":{wall:.6},\"cpu_s\":{cpu:.6}")
    }
}

fn run<R: References, M: Mode>(chosen: &Arguments) {
    let context = &mut *start::<R, M>(chosen);
    let (mut result, mut iterations) = (0, Vec::new());
    let whole = Times::start();
    for _ in 0..chosen.iterations {
        let times = Times::start();
        result = match chosen.name {
            Name::Gcbench => workloads::gcbench(context, chosen.tiny, false),
            Name::Holes => workloads::gcbench(context, chosen.tiny, true),
            Name::Queue => workloads::queue(context, chosen.tiny),
            Name::Refarray => workloads::refarray(context, chosen.tiny),
            Name::Quads => workloads::quads(context, chosen.tiny),
            Name::Cipher => cipher::cipher(context, chosen.tiny),
        };
        iterations.push(format!("{{{}}}", times.shown()));
    }
    let times = whole.shown();
    let pauses = binding::pauses();
    let name = format!("{:?}", chosen.name).to_lowercase();
    let list = if iterations.len() > 1 {
        format!(",\"iterations\":[{}]", iterations.join(","))
    } else {
        String::new()
    };
    println!(
        "{{\"benchmark\":\"{name}\",\"result\":\"{result:016x}\",{times},\"peak_kb\":{},\
         \"collections\":{},\"total_pause_s\":{:.6},\"longest_pause_s\":{:.6}{list}}}",
        peak_kb(),
        pauses.collections,
        pauses.total.as_secs_f64(),
        pauses.longest.as_secs_f64(),
    );
}

/// Seconds of processor time that this process has used.
fn own_cpu() -> f64 {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the struct, which is valid when zero, too.
    let used = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr());
        used.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}

/// The most resident memory that this process had.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}
