//! The words of the command line, with all that `--help` says. The manual pages and the completion of shells are made
//! from these definitions, too (`examples/pages`), so nothing else of the command is named here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "wasm")]
use clap::builder::PossibleValuesParser;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueHint};
#[cfg(feature = "wasm")]
use gleaner_wasm::Compile;

/// Run programs that use Boehm's libgc on Gleaner, without rebuilding them.
#[derive(Parser)]
#[command(
    name = "gleaner",
    version,
    after_help = "\
Examples:
  gleaner exec -- guile script.scm           run a Guile program on Gleaner
  gleaner exec --stats -- w3m -dump page.html
  gleaner compare -- guile script.scm        how much time and memory that takes, beside libgc
  gleaner doctor -- guile                    does it use libgc, and will exec reach it?
  gleaner report gc.jsonl                    a page of what the collector did, from 'exec --log gc.jsonl'
  gleaner heap app.heap                      what lives and what keeps it, from 'exec --snapshot app.heap'
  gleaner options                            the options, and their values
  gleaner bench gc_bench --opt sweep=eager   one measured run; --json for programs
  gleaner place --stats -- java -jar app.jar where its threads run, and what they use

Try 'gleaner exec --help', 'gleaner compare --help', 'gleaner doctor --help', 'gleaner report --help', 'gleaner heap --help',
'gleaner place --help' and 'gleaner options --help'."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What the command is to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    Exec(ExecArgs),
    Compare(CompareArgs),
    Doctor(DoctorArgs),
    Report(ReportArgs),
    Heap(HeapArgs),
    Options(OptionsArgs),
    Bench(BenchArgs),
    Place(PlaceArgs),
    #[cfg(feature = "wasm")]
    Run(RunArgs),
    // What was left out is to be said, whatever its arguments are.
    /// Run a WebAssembly program: left out of this build, which has no engine for WebAssembly; on x86-64, build it with
    /// 'cargo build --release -p gleaner-cli --features wasm'
    #[cfg(not(feature = "wasm"))]
    #[command(hide = true, disable_help_flag = true)]
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _program: Vec<OsString>,
    },
    #[command(hide = true)]
    PlaceGuard(GuardArgs),
}

/// Run a program that uses libgc on Gleaner
///
/// Starts the program with Gleaner's libgc.so.1 preloaded. This library takes the place of the libgc against which the program
/// was linked, or which it opens by that name. A program that opens a libgc by a path with a slash gets that file, and cannot
/// run on Gleaner this way. The command becomes the program: process number, terminal, signals and exit status are the
/// program's own. Programs that it starts run on Gleaner too if they use libgc, and are not disturbed if they do not.
#[derive(Args)]
#[command(
    override_usage = "gleaner exec [OPTIONS] -- PROGRAM [ARGS]...",
    after_help = "\
Examples:
  gleaner exec -- guile script.scm
  gleaner exec --stats -- nix-instantiate --eval expression.nix
  gleaner exec --opt heap-limit=2g --opt markers=4 --log gc.jsonl -- guile script.scm
  gleaner exec --snapshot gc.heap -- guile script.scm && gleaner heap gc.heap
  gleaner exec --any -- make check           make does not use libgc, but starts programs that do
  gleaner exec --dry-run -- guile            show what would be done

Environment:
  GLEANER_OPTIONS  options as name=value,...; --opt overrides them
  GLEANER_LIBGC    the library to preload, instead of the one installed with this command
  LD_PRELOAD       kept, after Gleaner's library
  ASAN_OPTIONS     verify_asan_link_order=0 is put in front, for programs built with AddressSanitizer

Exit status: that of PROGRAM; or 2 for a wrong option, 125 if Gleaner cannot be used with PROGRAM,
126 if PROGRAM cannot be executed, 127 if it is not found."
)]
pub(crate) struct ExecArgs {
    /// Set an option; may be repeated (see 'gleaner options')
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Print one block of statistics when the program ends (as --opt stats=on)
    #[arg(long)]
    pub(crate) stats: bool,
    /// Append one JSON line per phase of each collection to FILE; 'gleaner report FILE' makes a page of it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Write what lives in the heap at its peak to FILE (another moment: --opt snapshot-at=...); 'gleaner heap FILE' reads it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) snapshot: Option<PathBuf>,
    /// Do not check that the program uses libgc: for shells and the like, which start programs that do. Static programs and
    /// those with raised privileges are still refused, because the loader preloads nothing into them
    #[arg(long)]
    pub(crate) any: bool,
    /// Check everything and print what would be run, but do not run it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) program: Vec<OsString>,
}

/// Run a WebAssembly program on Gleaner's precise heap
///
/// Compiles a module that uses garbage collection, such as Kotlin's compiler (target wasm-wasi) and wasm_of_ocaml make, and runs
/// it. The program gets WASI preview 1: arguments, the variables and directories that are named here, clocks, random bytes and
/// the standard streams. It sees no other file and no other variable: no path and no link leads out of a directory.
#[cfg(feature = "wasm")]
#[derive(Args)]
#[command(
    override_usage = "gleaner run [OPTIONS] MODULE [ARGS]...",
    after_help = "\
Examples:
  gleaner run app.wasm
  gleaner run --stats app.wasm --its-own-option words.txt
  gleaner run --dir . app.wasm input.txt     it may read and write below the current directory
  gleaner run --dir /srv/data::/data --env LANG=C.UTF-8 app.wasm
  gleaner run --opt heap-limit=256m --opt refs=compressed app.wasm
  gleaner run --opt log=gc.jsonl app.wasm && gleaner report gc.jsonl

The module is one of WebAssembly 3.0 without vectors, 64-bit memories and threads. A component (WASI 0.2) is refused. The
program cannot set flags of files or use sockets: a module that imports such functions is refused, and all are named.

Environment:
  GLEANER_OPTIONS  options as name=value,...; --opt overrides them

Exit status: that of the program, without what exceeds eight bits; 134 if it trapped or an exception was not caught, with a message;
2 for a wrong option, 125 if the module cannot be run, 127 if it is not found."
)]
pub(crate) struct RunArgs {
    /// Set an option of the precise heap; may be repeated (see 'gleaner options')
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Let the program use the files below a directory, which it calls GUEST, or HOST where that is left out; may be repeated
    #[arg(long = "dir", value_name = "HOST[::GUEST]", value_hint = ValueHint::DirPath)]
    pub(crate) directories: Vec<String>,
    /// Set a variable of the program's environment, which is empty otherwise; may be repeated
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<OsString>,
    /// When to compile: each function when it is first called, or all of them before the program starts
    #[arg(
        long, value_name = "WHEN", default_value = "lazy",
        value_parser = PossibleValuesParser::new(["lazy", "eager"]).map(|when| match &*when {
            "eager" => Compile::Eager,
            _ => Compile::Lazy,
        })
    )]
    pub(crate) compile: Compile,
    /// Say at the end how many functions were compiled, how long it took to compile, to run and to collect, the longest stop,
    /// and the peak of memory
    #[arg(long)]
    pub(crate) stats: bool,
    /// The module and the program's arguments
    #[arg(
        value_name = "MODULE",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) program: Vec<OsString>,
}

/// Compare a program on Gleaner with the same program on libgc
///
/// Runs the program on both sides in turns, in random order, until a verdict or the end of the budget. Then it prints one
/// paragraph: which side is faster and by how much, pauses, memory, how noisy the machine was, and what to switch on; and the
/// numbers below. A ratio is that of Gleaner to the other side, the median over the rounds, with an interval that
/// holds the true one in 95 % of all comparisons, however often the command looked. 'The same' means within 2 %.
///
/// What the program writes is not shown; the command tells whether both sides wrote the same to standard output. Standard input is empty. The
/// first run of each side is not timed: the collector logs its pauses there.
#[derive(Args)]
#[command(
    override_usage = "gleaner compare [OPTIONS] -- PROGRAM [ARGS]...",
    after_help = "\
Examples:
  gleaner compare -- guile script.scm        Gleaner against the libgc that guile uses by itself
  gleaner compare --budget 10m -- guile script.scm
  gleaner compare --opt initial-heap=256m -- guile script.scm
  gleaner compare --against '' --opt markers=1 -- guile script.scm
                                             Gleaner with an option, against Gleaner without
  gleaner compare --prepare 'rm -rf cache' --input words.txt -- ./app
  gleaner compare --rounds 20 --json runs.json -- ./app

Environment:
  GLEANER_OPTIONS  options as name=value,... for both sides, if both are Gleaner; --opt and --against override them
  GLEANER_LIBGC    the library of Gleaner's side, instead of the one installed with this command

Exit status: 0 if one side is faster, or both are the same; 3 if that is undecided; 1 if the program failed or took longer
than --limit on a side; 2 for a wrong option; 125 if Gleaner cannot be used with PROGRAM, 126 if PROGRAM cannot be
executed, 127 if it is not found."
)]
pub(crate) struct CompareArgs {
    /// Set an option of Gleaner's side; may be repeated (see 'gleaner options')
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// The other side: stock, the libgc that the program uses by itself; or Gleaner with these options, NAME=VALUE,...
    #[arg(long, value_name = "stock|OPTIONS", default_value = "stock")]
    pub(crate) against: String,
    /// Stop after this time if nothing is decided before, such as 90s, 2m or 1h
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = time)]
    pub(crate) budget: Duration,
    /// Run both sides so often, and look once
    #[arg(long, value_name = "N", conflicts_with_all = ["budget", "min_rounds"], value_parser = rounds)]
    pub(crate) rounds: Option<u64>,
    /// Run both sides at least so often (5)
    #[arg(long, value_name = "N", value_parser = rounds)]
    pub(crate) min_rounds: Option<u64>,
    /// Runs of each side that are not timed, before all others; without any, pauses are not known
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warm_up: u32,
    /// A command for the shell before each run, which is not timed
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub(crate) prepare: Option<String>,
    /// A file for the program's standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) input: Option<PathBuf>,
    /// End a run that takes longer; the default is the budget
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) limit: Option<Duration>,
    /// Show what the program writes
    #[arg(long)]
    pub(crate) show_output: bool,
    /// Write every run to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) json: Option<PathBuf>,
    /// A number from which the order of the runs follows
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Do not check that the program uses libgc: for shells and the like, which start programs that do
    #[arg(long)]
    pub(crate) any: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) program: Vec<OsString>,
}

/// Say whether a program will run on Gleaner, and what will limit its heap
///
/// Looks at the program without running it: whether it uses libgc, which one and by which way, and whether 'gleaner exec'
/// reaches it. Then it looks at Gleaner's library, at the settings that the environment has, and at the limits of the system
/// that the heap will meet. Without a program it looks at the rest. Each line begins with ok, note or no; what to type is at the end.
#[derive(Args)]
#[command(
    override_usage = "gleaner doctor [-- PROGRAM [ARGS]...]",
    after_help = "\
Examples:
  gleaner doctor -- guile script.scm
  gleaner doctor                             this machine and the installation alone

Exit status: 0 if 'gleaner exec' would start the program on Gleaner, or else that of 'gleaner exec'."
)]
pub(crate) struct DoctorArgs {
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) program: Vec<OsString>,
}

/// Rounds that can be asked for, at least and at most.
const LEAST_ROUNDS: u64 = 3;
/// See [`LEAST_ROUNDS`].
const MOST_ROUNDS: u64 = 100_000;

/// A number of rounds.
fn rounds(text: &str) -> Result<u64, String> {
    let wrong = match text.parse() {
        Ok(..LEAST_ROUNDS) => "so few rounds decide nothing",
        Ok(rounds @ LEAST_ROUNDS..=MOST_ROUNDS) => return Ok(rounds),
        Ok(_) => "no comparison needs so many rounds",
        Err(_) => "that is no number of rounds",
    };
    Err(format!(
        "{wrong}: write a whole number from {LEAST_ROUNDS} to {MOST_ROUNDS}"
    ))
}

/// Seconds from which on a time is too long.
const TOO_LONG: f64 = (1u64 << 31) as f64;

/// A time: a number and its unit.
fn time(text: &str) -> Result<Duration, String> {
    const WRITE: &str = "a time is a number with s, m or h, such as 90s, 2m or 1h";
    let number = text.strip_suffix(['s', 'm', 'h']).ok_or_else(|| {
        let is_number = text.parse::<f64>().is_ok_and(|number| number > 0.0);
        match is_number {
            true => format!("a time has a unit: write {text}s, {text}m or {text}h"),
            false => WRITE.to_string(),
        }
    })?;
    let unit = match &text[number.len()..] {
        "h" => 3600.0,
        "m" => 60.0,
        _ => 1.0,
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * unit;
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let wrong = match seconds {
        _ if seconds.is_nan() => return Err(WRITE.into()),
        ..0.0 => "no time is negative",
        TOO_LONG.. => "it is longer than 68 years",
        _ if time.is_zero() => "nothing runs in no time",
        _ => return Ok(time),
    };
    Err(format!("{wrong}; {WRITE}"))
}

/// What the name - stands for.
pub(crate) const STANDARD_INPUT: &str = "/dev/stdin";

/// A file that is read; the name - stands for standard input.
fn input() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(|name| match name.to_str() {
        Some("-") => STANDARD_INPUT.into(),
        _ => name.into(),
    })
}

/// Make a page of what the collector did to a program
///
/// Reads a log that 'gleaner exec --log FILE' has written, and writes one HTML page that needs nothing else. For each process
/// that collected, the page shows the size of its heap and of what lived, its stops and how long they were, the share of the
/// time that was left to the program, the phases, and the reasons for collections. The command also prints a summary.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner exec --log gc.jsonl -- guile script.scm
  gleaner report gc.jsonl                    writes gc.html
  gleaner report gc.jsonl --output page.html

A log may have several processes: programs that the program starts write to it, too, and so does the next run. Remove
it before a run that is to stand alone. Lines that are no events are named and passed over.

Exit status: 2 if there is no page; the message says why.")]
pub(crate) struct ReportArgs {
    /// The log; - for standard input
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath, value_parser = input())]
    pub(crate) log: PathBuf,
    /// Where to write the page; the default is the log's name with the ending html
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Show what lives in a program's heap, and what keeps it
///
/// Reads a snapshot that 'gleaner exec --snapshot FILE' has written, and prints how much lives, by kind and size and by where
/// it was allocated. It also prints which roots keep how much, and which of their words; what lives only because of words that
/// may be no pointers; and the objects that retain most. With an option it prints a path from a root to one object, or what
/// grew since an older snapshot, or writes a file for the developer tools of Chrome and Node.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner exec --snapshot app.heap -- ./app
  gleaner heap app.heap                      what lives, and what keeps it
  gleaner heap app.heap --path 7f3a10c04e40  why is this object alive?
  gleaner heap late.heap --since early.heap  what grew in between?
  gleaner heap app.heap --devtools app.heapsnapshot

The addresses are those that a debugger shows. An object or a word retains what would be garbage without it: each path
from a root goes through it.

Exit status: 2 if there is nothing to show; the message says why.")]
pub(crate) struct HeapArgs {
    /// The snapshot; - for standard input
    #[arg(value_name = "SNAPSHOT", value_hint = ValueHint::FilePath, value_parser = input())]
    pub(crate) snapshot: PathBuf,
    /// Print a shortest path from a root to the object at this address; an address inside the object works, too
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["since", "devtools"])]
    pub(crate) path: Option<String>,
    /// Print what grew since an older snapshot; - for standard input
    #[arg(
        long, value_name = "OLDER", conflicts_with = "devtools", value_hint = ValueHint::FilePath, value_parser = input()
    )]
    pub(crate) since: Option<PathBuf>,
    /// Write FILE for the developer tools of Chrome and Node (Memory, Load); its name should end with .heapsnapshot
    #[arg(long, value_name = "FILE", conflicts_with = "json", value_hint = ValueHint::FilePath)]
    pub(crate) devtools: Option<PathBuf>,
    /// Print the same as one line of JSON, with sizes in bytes
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the options with their effective values
///
/// The values are the defaults, changed by GLEANER_OPTIONS and then by --opt. The command shows the options for people who run
/// a program, and any option that is set.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner options
  gleaner options --all                      also those that repeat a paper, or find bugs
  gleaner options --opt heap-limit=2g        check how a value is read
  GLEANER_OPTIONS=sweep=eager,markers=2 gleaner options

Sizes take the suffixes k, m, g and t, for powers of 1024.

Exit status: 2 for a wrong option.")]
pub(crate) struct OptionsArgs {
    /// Set an option; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Show every option
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) all: bool,
    /// Print the reference page of the documentation, with the defaults
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Run a benchmark or another program once and print what it took; in a build tree alone
///
/// The program that measures, gleaner-bench, is made by `make build` and not installed. It prints wall and processor time, peak memory and, with --log, collections and pauses; with --json it prints one line of JSON.
/// The words after `bench` are those of `gleaner-bench run`; 'gleaner bench --help' shows them.
#[derive(Args)]
#[command(
    disable_help_flag = true,
    override_usage = "gleaner bench [OPTIONS] NAME\n       gleaner bench [OPTIONS] -- COMMAND [ARGS]..."
)]
pub(crate) struct BenchArgs {
    /// The words for `gleaner-bench run`
    #[arg(
        value_name = "WORD",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<OsString>,
}

/// Start a managed program and place its threads on the processors
///
/// Each thread has a role, which is recognised by its name: application, main, collector, zeroing, compiler, organizer,
/// profiler, timer, finalizer, vm. HotSpot, .NET, Gleaner and Boehm's collector give their threads such names. Go and older
/// versions of Node do not, and their threads run where they started; a line at the end says if nothing was placed. A policy
/// decides from the roles and the machine where each thread may run. Threads that come later, and processes that the program
/// starts, are placed, too. The program need not be changed; a JVM is told in JAVA_TOOL_OPTIONS how many processors it
/// would see without placement.
#[derive(Args)]
#[command(
    override_usage = "gleaner place [OPTIONS] -- PROGRAM [ARGS]...\n       gleaner place [OPTIONS] --plan THREADS",
    after_help = PLACE_HELP
)]
pub(crate) struct PlaceArgs {
    /// Set an option of placement; may be repeated (the list is below)
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Give threads of this name this role; a '*' at the end of the name stands for any rest
    #[arg(long = "role", value_name = "NAME=ROLE")]
    pub(crate) roles: Vec<String>,
    /// When the program has ended, print what the threads of each role have used, and what HotSpot decided by itself
    #[arg(long)]
    pub(crate) stats: bool,
    /// Append one JSON line per decision to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "plan", value_hint = ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,
    /// Start nothing; print what would be decided for these threads
    #[arg(long, value_name = "ROLE:N+ROLE:N", conflicts_with = "program")]
    pub(crate) plan: Option<String>,
    /// The machine of the plan, such as 2x4 (sockets x cores), instead of this one
    #[arg(long, value_name = "SHAPE")]
    pub(crate) machine: Option<String>,
    /// Where the kernel's files for speeds are, in tests
    #[arg(long, value_name = "DIRECTORY", default_value = "/", hide = true)]
    pub(crate) root: PathBuf,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "plan",
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) program: Vec<OsString>,
}

const PLACE_HELP: &str = "\
Options of placement (--opt):
  placement=POLICY       paper     everything on one socket; application and collector threads are pinned one to a
                                   core, the others are free on the socket (the default)
                         pinned    the roles of pin are pinned over the whole machine
                         isolated  the roles of isolate have a socket, a cluster or half of the cores to themselves
                         paired    an application and a collector thread make a pair; pairs spread over the sockets
                         auto      a thread is pinned when the kernel moves it often, and let go when it waits
                         none      the system decides, among processors and sockets; --stats works
  processors=LIST        use only these processors, such as 0-3+8; from its start the program sees no others
  sockets=N              use at most N sockets; 0: one for paper, all for the other policies
  pin=ROLE+ROLE          the roles to pin, or those that auto may pin (application+collector); none: no role
  first-core=N           the core of the first pinned thread, counted from 0
  isolate=ROLE+ROLE      the roles to set apart (collector); jvm: all but application; nongc: jvm without collector
  isolate-on=UNIT        what these roles get: socket, cluster, cores (half of them), or auto (the first that exists)
  collectors=N           ask HotSpot, Node, Gleaner and libgc for N collector threads; 0 leaves it to them
  effort=N               looking for threads takes at most N thousandths of one processor (4); with more, new threads
                         are found sooner where programs have thousands, or the machine is slow
  slow=ROLE+ROLE         the roles to slow down (none)
  speed=PERCENT          how fast they run: 1 to 100 percent of full speed (50)
  slow-by=MEANS          frequency: a lower maximum for processors that run only slow roles; bandwidth: a share of
                         processor time instead; auto: frequency if the kernel controls it (the default)
  slow-when=TIME         always; warm: after start-up; idle: except while these threads run, by frequency
  warm-after=SECONDS     how long start-up takes (10)

Examples:
  gleaner place --stats -- java -jar app.jar
  gleaner place --opt placement=isolated,isolate=collector+compiler -- java -jar app.jar
  gleaner place --opt placement=pinned,pin=collector,collectors=2 -- java -jar app.jar
  gleaner place --opt placement=isolated,isolate=compiler,slow=compiler --stats -- java -jar app.jar
  gleaner place --role 'worker-*=application' --log place.jsonl -- ./server
  gleaner place --opt placement=paired --plan application:4+collector:4 --machine 2x4

Exit status: that of PROGRAM; 128 plus the number of the signal that ended it; or as for 'gleaner exec'.";

/// Puts back what the process that placed threads could not: not for users
#[derive(Args)]
pub(crate) struct GuardArgs {
    /// The program
    pub(crate) program: u32,
    /// Where it could run before
    pub(crate) processors: String,
    /// Who has written down what speeds were
    pub(crate) writer: String,
    /// Where the kernel's files for speeds are
    pub(crate) root: PathBuf,
}
