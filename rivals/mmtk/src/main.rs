//! `mmtk`: the workloads of `gleaner-bench native` on MMTk's plans; one line of JSON at the end.
//!
//! It takes the same arguments, and `--plan`. MMTk reads its other options from the environment (`MMTK_NURSERY` and
//! the rest), as everywhere.

mod binding;
mod cipher;
mod context;
mod ephemerons;
#[path = "../../../crates/workloads/src/failure.rs"]
mod failure;
mod finalizers;
mod handles;
mod index;
mod jbb;
mod mutators;
mod object;
mod patterns;
mod records;
mod shared;
mod weak;
mod workloads;
mod world;
mod xml;

use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};
use mmtk::util::heap::vm_layout::VMLayout;
use mmtk::util::options::{GCTriggerSelector, PlanSelector};
use mmtk::util::{OpaquePointer, VMThread};
use mmtk::{MMTKBuilder, memory_manager};

use binding::Vm;
use context::{Alone, Bumping, Context, Generational, Listing, Mode};
use failure::Result;
use mutators::own;
use object::{Compressed, References, Wide};
use shared::Scale;
use shared::document::Document;

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
    /// Mutator threads; 1 unless given, but for workloads about many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    threads: Option<u32>,
    /// References of 4 bytes; the heap lies below 4 GB
    #[arg(long)]
    compressed: bool,
    /// Does a thousandth, for a test
    #[arg(long)]
    tiny: bool,
    /// Allocates all buffers and lists of a query anew: index
    #[arg(long)]
    wasteful: bool,
    /// What is read instead of Debian's files: index, a directory of texts; xml, a document
    #[arg(long, value_name = "PATH")]
    input: Option<PathBuf>,
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
    Ephemerons,
    Finalizers,
    Jbb,
    Index,
    Xml,
    Producer,
    Agents,
    Render,
    Cipher,
    Tiny,
}

impl Name {
    /// How many mutators it has unless told.
    fn threads(self) -> u32 {
        match self {
            Name::Jbb | Name::Index => 2,
            Name::Producer => 4,
            Name::Agents | Name::Tiny => 16,
            Name::Render => thread::available_parallelism().map_or(1, |count| count.get() as u32),
            _ => 1,
        }
    }
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

impl Arguments {
    /// An option that the workload has no use for.
    fn refused(&self) -> Option<&'static str> {
        match self.name {
            Name::Index => None,
            _ if self.wasteful => Some("--wasteful is for index"),
            Name::Xml => None,
            _ => self.input.as_ref().map(|_| "--input is for index and xml"),
        }
    }
}

fn main() {
    let chosen = Arguments::parse();
    if let Some(why) = chosen.refused() {
        let mut command = Arguments::command();
        command.error(ErrorKind::ArgumentConflict, why).exit();
    }
    let done = if chosen.compressed {
        with_references::<Compressed>(&chosen)
    } else {
        with_references::<Wide>(&chosen)
    };
    if let Err(failure) = done {
        eprintln!("{failure}");
        std::process::exit(2);
    }
    // The workers wait for work that does not come.
    std::process::exit(0);
}

fn with_references<R: References>(chosen: &Arguments) -> Result<()> {
    match chosen.plan {
        Plan::StickyImmix | Plan::GenImmix | Plan::GenCopy => in_mode::<R, Generational>(chosen),
        Plan::SemiSpace | Plan::Immix => in_mode::<R, Bumping>(chosen),
        Plan::MarkSweep => in_mode::<R, Listing>(chosen),
    }
}

fn in_mode<R: References, M: Mode>(chosen: &Arguments) -> Result<()> {
    match chosen.threads.unwrap_or_else(|| chosen.name.threads()) {
        1 => run::<R, Alone<M>>(chosen, 1),
        threads => run::<R, M>(chosen, threads),
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

/// What a run comes to: its result, and what the line says beside the fields of all workloads.
struct Outcome {
    result: u64,
    facts: String,
}

impl From<u64> for Outcome {
    fn from(result: u64) -> Outcome {
        let facts = String::new();
        Outcome { result, facts }
    }
}

/// A workload that is ready to run.
type Workload<R, M> = Box<dyn Fn(&mut Context<R, M>) -> Outcome>;

/// The workload with its input, which is read here.
fn prepare<R: References, M: Mode>(chosen: &Arguments, threads: u32) -> Result<Workload<R, M>> {
    use workloads::{gcbench, quads, queue, refarray};
    let (tiny, wasteful) = (chosen.tiny, chosen.wasteful);
    let scale = Scale {
        tiny,
        input: chosen.input.clone(),
    };
    Ok(match chosen.name {
        Name::Gcbench => {
            Box::new(move |it| own(it, threads, |it, _| gcbench(it, tiny, false)).into())
        }
        Name::Holes => Box::new(move |it| own(it, threads, |it, _| gcbench(it, tiny, true)).into()),
        Name::Queue => Box::new(move |it| own(it, threads, |it, _| queue(it, tiny)).into()),
        Name::Refarray => {
            Box::new(move |it| own(it, threads, |it, own| refarray(it, tiny, own)).into())
        }
        Name::Quads => Box::new(move |it| own(it, threads, |it, _| quads(it, tiny)).into()),
        Name::Cipher => {
            Box::new(move |it| own(it, threads, |it, own| cipher::cipher(it, tiny, own)).into())
        }
        Name::Ephemerons => Box::new(move |it| ephemerons::ephemerons(it, threads, &scale).into()),
        Name::Finalizers => Box::new(move |it| finalizers::finalizers(it, threads, &scale).into()),
        Name::Jbb => Box::new(move |it| {
            let (result, transactions, per_s) = jbb::jbb(it, threads, &scale);
            let facts =
                format!(",\"transactions\":{transactions},\"transactions_per_s\":{per_s:.3}");
            Outcome { result, facts }
        }),
        Name::Index => {
            let input = index::Input::read(&scale)?;
            Box::new(move |it| {
                let (result, per_s) = index::index(it, threads, &input, wasteful);
                let facts = format!(",\"queries_per_s\":{per_s:.3}");
                Outcome { result, facts }
            })
        }
        Name::Xml => {
            let document = Document::read(&scale)?;
            Box::new(move |it| xml::xml(it, threads, &document, &scale).into())
        }
        Name::Producer => Box::new(move |it| patterns::producer(it, threads, &scale).into()),
        Name::Agents => Box::new(move |it| patterns::agents(it, threads, &scale).into()),
        Name::Render => Box::new(move |it| patterns::render(it, threads, &scale).into()),
        Name::Tiny => Box::new(move |it| patterns::tiny(it, threads, &scale).into()),
    })
}

fn run<R: References, M: Mode>(chosen: &Arguments, threads: u32) -> Result<()> {
    let workload = prepare::<R, M>(chosen, threads)?;
    let context = &mut *start::<R, M>(chosen);
    let (mut outcome, mut iterations) = (Outcome::from(0), Vec::new());
    let whole = Times::start();
    for _ in 0..chosen.iterations {
        let times = Times::start();
        outcome = workload(context);
        iterations.push(format!("{{{}}}", times.shown()));
    }
    let times = whole.shown();
    let Outcome { result, facts } = outcome;
    let pauses = world::pauses();
    let name = format!("{:?}", chosen.name).to_lowercase();
    let list = if iterations.len() > 1 {
        format!(",\"iterations\":[{}]", iterations.join(","))
    } else {
        String::new()
    };
    println!(
        "{{\"benchmark\":\"{name}\",\"result\":\"{result:016x}\",{times},\"peak_kb\":{},\
         \"collections\":{},\"total_pause_s\":{:.6},\"longest_pause_s\":{:.6},\
         \"mutators\":{threads}{facts}{list}}}",
        peak_kb(),
        pauses.collections,
        pauses.total.as_secs_f64(),
        pauses.longest.as_secs_f64(),
    );
    Ok(())
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
