//! The command `gleaner`: shows the options, runs programs that use libgc on Gleaner's heap, compares them there with
//! libgc, makes a page of what the
//! collector did to them, says what their heaps hold, and places the threads of managed programs on processors.
//!
//! `gleaner exec` happens before the program starts; afterwards this process *is* the program. So the command's work is
//! to find out what would go wrong and to say it clearly. `gleaner place` stays beside the program.
#![deny(unsafe_code)]

mod arguments;
mod bench;
mod compare;
mod contents;
mod doctor;
mod exec;
mod failure;
mod first_screen;
mod heap;
mod inherited;
mod inputs;
mod inspect;
mod launch;
mod library;
mod loader;
mod options;
mod outputs;
mod place;
mod progress;
mod report;
#[cfg(feature = "wasm")]
mod run;
mod uses;
mod words;

use clap::Parser;

use arguments::{Cli, Command};
use failure::Failure;

fn main() -> std::process::ExitCode {
    if std::env::args_os().len() <= 1 {
        first_screen::show();
        return std::process::ExitCode::from(2);
    }
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(said) => return options::print_help(&said),
    };
    // One that stays beside a program must not end because nobody reads what it says.
    let stays = match &command {
        Command::Place(args) => args.plan.is_none(),
        Command::PlaceGuard(_) => true,
        // The program is told that its output is closed.
        #[cfg(feature = "wasm")]
        Command::Run(_) => true,
        _ => false,
    };
    if !stays {
        inherited::end_on_closed_pipe();
    }
    if matches!(
        command,
        Command::Report(_) | Command::Heap(_) | Command::Compare(_)
    ) {
        // These say themselves what they cannot write.
        inherited::survive_file_limit();
    }
    let done = |()| std::process::ExitCode::SUCCESS;
    let result = match command {
        Command::Exec(args) => exec::run(args).map(done),
        Command::Compare(args) => compare::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Report(args) => report::run(args).map(done),
        Command::Heap(args) => heap::run(args).map(done),
        Command::Options(args) => options::run(args).map(done),
        Command::Bench(args) => bench::run(args).map(done),
        Command::Place(args) => place::run(args),
        #[cfg(feature = "wasm")]
        Command::Run(args) => run::run(args),
        #[cfg(not(feature = "wasm"))]
        Command::Run { .. } => Err(Failure::refused(
            "run: this build has no engine for WebAssembly; on x86-64, build it with \
             'cargo build --release -p gleaner-cli --features wasm'",
        )),
        Command::PlaceGuard(args) => place::run_guard(args),
    };
    result.unwrap_or_else(Failure::report)
}
