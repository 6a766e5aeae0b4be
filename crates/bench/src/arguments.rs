//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::accesses::Accesses;
use crate::bulk::Bulk;
use crate::catalogue::Size;
use crate::cursors::Cursors;
use crate::fragmentation::Fragmentation;
use crate::native::Native;
use crate::pauses::Pauses;
use crate::phases::Phases;
use crate::placement::Placement;
use crate::random::Random;
use crate::zeroing::Zeroing;

/// Runs real clients of libgc on the installed library and on Gleaner's.
#[derive(Parser)]
#[command(name = "gleaner-bench", version)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// One subcommand each.
#[derive(Subcommand)]
pub enum Command {
    /// One measured run of one program
    Run(Run),
    /// A workload on the precise heap, in this process, as one line of JSON
    Native(Native),
    /// Runs every client on both libraries; fails when exit status or output differ
    Clients(Clients),
    /// Runs each client for an hour under options that make bugs show, one set after the other
    Soak(Soak),
    /// The names of the programs that `run` knows, one a line
    Names(Names),
    /// What an empty parallel phase costs: each way to wait and to take tasks, by number of threads
    Phases(Phases),
    /// How fast memory is zeroed: each zeroing kernel, by size of the buffer and number of threads
    Zeroing(Zeroing),
    /// What one access to an element of an array costs, by the way that it takes
    Accesses(Accesses),
    /// Bytes of arrays in bulk through the safe layer of the crate against the C library
    Bulk(Bulk),
    /// Loops with cursors over arrays in pieces against the same loops over arrays in one piece
    Cursors(Cursors),
    /// How large an array can be in a heap full of holes, and how long what is done to it takes
    Fragmentation(Fragmentation),
    /// How long scavenges stop a program that has large arrays, old ones or young ones
    Pauses(Pauses),
    /// How fast threads read memory that is placed on the nodes in four ways; needs several memory nodes
    Placement(Placement),
    /// Random programs on the precise heap against an oracle, seed by seed; fails when they differ
    Random(Random),
}

/// Which programs, on which library. Shared by all subcommands.
#[derive(Args, Clone)]
pub struct Common {
    /// Gleaner's library; by default the one that was built beside this program
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,
    /// An option for Gleaner, as in GLEANER_OPTIONS; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    /// Environment of the program, which inherits none; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// The directory with clients.toml
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients"))]
    pub clients: PathBuf,
    /// The directory with the C benchmarks
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks"))]
    pub benchmarks: PathBuf,
    /// Scratch directory for what is built and written
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients"))]
    pub out: PathBuf,
    /// Clients that a compiler makes are made fast, and are slow: for tests, in a directory of their own
    #[arg(long)]
    pub unoptimised: bool,
    /// Ends a run that takes longer, as a failure
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
}

/// Which clients of the catalogue are run, and how much they do. Shared by the subcommands that run all.
#[derive(Args)]
pub struct Chosen {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: Common,
    /// Only clients whose name contains this; may be repeated
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// How much the clients do in a run
    #[arg(long, value_enum, default_value_t = Size::Ci)]
    pub size: Size,
    /// A client whose package is missing is a failure, not left out
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `clients`.
#[derive(Args)]
pub struct Clients {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub chosen: Chosen,
    /// Does not ask Gleaner for its event log, so collections are not counted
    #[arg(long, conflicts_with = "least_collections")]
    pub no_log: bool,
    /// Collects as often, counted in allocations, as the client's entry says, verifies each collection, overwrites what
    /// is freed
    #[arg(long)]
    pub pressure: bool,
    /// A run on Gleaner with fewer collections is a failure
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub least_collections: u64,
}

/// Arguments of `soak`.
#[derive(Args)]
pub struct Soak {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub chosen: Chosen,
    /// How long each client is run, over and over; once at least
    #[arg(long, value_name = "MINUTES", default_value_t = 60.0, value_parser = minutes)]
    pub minutes: f64,
}

/// Reads a number of minutes.
fn minutes(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    number
        .filter(|minutes| (0.0..=1e6).contains(minutes))
        .ok_or_else(|| "not a number of minutes between 0 and 1000000".into())
}

/// Arguments of `names`.
#[derive(Args)]
pub struct Names {
    /// The directory with clients.toml
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients"))]
    pub clients: PathBuf,
}

/// Which library a program runs on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Library {
    /// Gleaner's, preloaded
    Gleaner,
    /// The libgc that the system has installed
    Stock,
    /// Neither: the program is measured as it is, and no log is asked for
    None,
}

impl Library {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Library::Gleaner => "gleaner",
            Library::Stock => "stock",
            Library::None => "none",
        }
    }
}

/// Arguments of `run`.
#[derive(Args)]
pub struct Run {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub common: Common,
    /// A program of clients.toml
    #[arg(conflicts_with = "command", required_unless_present = "command")]
    pub name: Option<String>,
    /// The library that it runs on
    #[arg(long, value_enum, default_value_t = Library::Gleaner)]
    pub library: Library,
    /// How much a program of clients.toml does
    #[arg(long, value_enum, default_value_t = Size::Full)]
    pub size: Size,
    /// Marking threads (GC_MARKERS)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Asks the library for its log: collections, pauses and phases are known then, at some cost in time
    #[arg(long)]
    pub log: bool,
    /// Prints the result as one line of JSON, not as a table
    #[arg(long)]
    pub json: bool,
    /// Checks the words and runs nothing
    #[arg(long)]
    pub check: bool,
    /// A word put before the program, such as a profiler and its arguments; may be repeated
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub before: Vec<String>,
    /// Any other program with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
