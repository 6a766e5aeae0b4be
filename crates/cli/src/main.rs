//! The command `gleaner`: shows the options, and runs programs that use libgc on Gleaner's heap.
//!
//! Everything here happens before the program starts; afterwards this process *is* the program. So the command's work
//! is to find out what would go wrong and to say it clearly.
#![deny(unsafe_code)]

mod bench;
mod contents;
mod exec;
mod failure;
mod inherited;
mod inspect;
mod library;
mod loader;
mod options;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use failure::Failure;

/// Run programs that use Boehm's libgc on Gleaner, without rebuilding them.
#[derive(Parser)]
#[command(
    name = "gleaner",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  gleaner exec -- guile script.scm           run a Guile program on Gleaner
  gleaner exec --stats -- w3m -dump page.html
  gleaner options                            what can be set, and to what it is set
  gleaner bench gc_bench --opt sweep=eager   one measured run; --json for programs

Try 'gleaner exec --help' and 'gleaner options --help'."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Exec(ExecArgs),
    Options(OptionsArgs),
    Bench(BenchArgs),
}

/// Run a program that uses libgc on Gleaner
///
/// The program is started with Gleaner's libgc.so.1 preloaded, so it takes the place of the one that the program was
/// linked against, whichever way the program finds it. The command then becomes the program: process number, terminal,
/// signals and exit status are the program's own. Programs that it starts run on Gleaner too if they use libgc, and
/// are not disturbed if they do not.
#[derive(Args)]
#[command(
    override_usage = "gleaner exec [OPTIONS] -- PROGRAM [ARGS]...",
    after_help = "\
Examples:
  gleaner exec -- guile script.scm
  gleaner exec --stats -- nix-instantiate --eval expression.nix
  gleaner exec --opt heap-limit=2g --opt markers=4 --log gc.jsonl -- guile script.scm
  gleaner exec --any -- make check           make does not use libgc, what it starts does
  gleaner exec --dry-run -- guile            show what would be done

Environment:
  GLEANER_OPTIONS  options as name=value,...; --opt is added to them and wins
  GLEANER_LIBGC    the library to preload, instead of the one installed with this command
  LD_PRELOAD       kept, after Gleaner's library

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
    /// Append one JSON line per phase of each collection to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Do not check that the program uses libgc: for shells and the like, which start programs that do
    #[arg(long)]
    pub(crate) any: bool,
    /// Check everything and print what would be run, but do not run it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    pub(crate) program: Vec<OsString>,
}

/// Show every option with its effective value
///
/// The values are the defaults, changed by GLEANER_OPTIONS and then by --opt.
#[derive(Args)]
#[command(after_help = "\
Examples:
  gleaner options
  gleaner options --opt heap-limit=2g        check how a value is read
  GLEANER_OPTIONS=sweep=eager,markers=2 gleaner options

Sizes take the suffixes k, m, g and t, for powers of 1024. Exit status: 2 for a wrong option.")]
pub(crate) struct OptionsArgs {
    /// Set an option; may be repeated
    #[arg(long = "opt", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Print the reference page of the documentation, with the defaults
    #[arg(long)]
    pub(crate) markdown: bool,
}

/// Run a benchmark or another program once and print what it took
///
/// Wall and processor time, peak memory and, with --log, collections and pauses; with --json as one line of JSON. The words after `bench` are those of
/// `gleaner-bench run`; 'gleaner bench --help' shows them.
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

fn main() -> std::process::ExitCode {
    inherited::end_on_closed_pipe();
    let result = match Cli::parse().command {
        Command::Exec(args) => exec::run(args),
        Command::Options(args) => options::run(args),
        Command::Bench(args) => bench::run(args),
    };
    result.map_or_else(Failure::report, |()| std::process::ExitCode::SUCCESS)
}
