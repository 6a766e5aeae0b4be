//! `gleaner-bench`: runs real clients of libgc on the installed library and on Gleaner's: one run, measured, or all,
//! compared.
//!
//! The parts, from below: [`process`] runs one program and measures it; [`events`] and [`stock_log`] read what a
//! library logged; [`catalogue`] is the list of clients, [`workshop`] makes them ready; [`side`] is a library with its
//! options; [`trial`] runs one client on one side; each subcommand is a file of its own. One thread throughout, beside
//! the watchdog of a running program and the threads of what runs in this process.

mod accesses;
mod arguments;
mod arrays;
mod bulk;
mod catalogue;
mod clients;
mod collections;
mod cursors;
mod events;
mod fragmentation;
mod kept;
mod locality;
mod native;
mod output;
mod pauses;
mod phases;
mod placement;
mod process;
mod progress;
mod quantities;
mod random;
mod run;
mod say;
mod side;
mod soak;
mod stock_log;
mod synchronisation;
mod trial;
mod workshop;
mod zeroing;

use std::io::Write as _;
use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::Parser;

fn main() -> ExitCode {
    end_on_closed_pipe();
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Command::Run(chosen) => run::run(chosen),
        Command::Native(chosen) => native::run(chosen),
        Command::Clients(chosen) => clients::run(chosen),
        Command::Soak(chosen) => soak::run(chosen),
        Command::Names(chosen) => run::names(chosen),
        Command::Phases(chosen) => phases::run(chosen),
        Command::Zeroing(chosen) => zeroing::run(chosen),
        Command::Accesses(chosen) => accesses::run(chosen),
        Command::Bulk(chosen) => bulk::run(chosen),
        Command::Cursors(chosen) => cursors::run(chosen),
        Command::Fragmentation(chosen) => fragmentation::run(chosen),
        Command::Pauses(chosen) => pauses::run(chosen),
        Command::Placement(chosen) => placement::run(chosen),
        Command::Random(chosen) => random::run(chosen),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            // Where nobody can be told, the status still says it.
            let _ = writeln!(std::io::stderr(), "gleaner-bench: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Ends this process without a word when nobody reads its output any more, as `head` does.
fn end_on_closed_pipe() {
    // SAFETY: a system call that takes no pointers.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
