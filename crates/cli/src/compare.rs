//! `gleaner compare`: runs a program on Gleaner and on libgc in turns, until it is known which is faster, and says so in one
//! paragraph.
//!
//! The parts, from below: [`process`] is one run of a program, [`pauses`] what its log tells; [`rounds`] makes the runs, which
//! [`found`] keeps; [`statistics`] and [`sequential`] say what follows from them, and [`paragraph`], [`table`] and [`json`]
//! put it in words and numbers.

mod found;
mod json;
mod paragraph;
mod pauses;
mod process;
mod rounds;
mod sequential;
mod side;
mod signals;
mod statistics;
mod table;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::arguments::CompareArgs;
use crate::failure::Failure;
use crate::inherited;
use crate::launch::Launch;
use crate::options::print;
use crate::outputs;
use rounds::Comparison;
use sequential::{FIRST_LOOK, Looks, Verdict};
use signals::Signals;

/// The status of a comparison that decided nothing.
const UNDECIDED: u8 = 3;

/// Compares, and says what was found.
pub(crate) fn run(args: CompareArgs) -> Result<ExitCode, Failure> {
    let sides = side::sides(&args)?;
    check_files(&args)?;
    let launch = Launch::check(&args.program, args.any)?;
    inherited::wait_for_children();
    let signals = Signals::new()
        .map_err(|error| Failure::refused(format_args!("signals cannot be waited for: {error}")))?;
    let found = Comparison::new(&args, sides, looks(&args), launch, signals).make()?;
    let parts = [
        paragraph::text(&found),
        table::text(&found),
        paragraph::commands(&found, &typed(), &args.program),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    print(&parts.join("\n"))?;
    if let Some(path) = &args.json {
        json::write(&found, &args.program, path)?;
    }
    Ok(match found.verdict() {
        Verdict::Undecided => ExitCode::from(UNDECIDED),
        Verdict::Faster | Verdict::Slower | Verdict::Same => ExitCode::SUCCESS,
    })
}

/// This command as the user typed it, which is not in each shell's path: what is printed can be typed, too.
fn typed() -> OsString {
    std::env::args_os().next().unwrap_or("gleaner".into())
}

fn looks(args: &CompareArgs) -> Looks {
    match args.rounds {
        Some(rounds) => Looks::Once {
            rounds: rounds as usize,
        },
        None => Looks::UntilDecided {
            first: args.min_rounds.unwrap_or(FIRST_LOOK as u64) as usize,
        },
    }
}

/// Refuses an input that cannot be read, and a file that could not be written after all the work.
fn check_files(args: &CompareArgs) -> Result<(), Failure> {
    if let Some(input) = &args.input {
        let opened = match input.is_dir() {
            true => Err(std::io::ErrorKind::IsADirectory.into()),
            false => std::fs::File::open(input),
        };
        opened.map_err(|error| {
            Failure::usage(format_args!(
                "the input {} cannot be read: {error}. Name another file with --input FILE",
                input.display()
            ))
        })?;
    }
    match &args.json {
        Some(path) => outputs::check(path, "the file", "--json"),
        None => Ok(()),
    }
}
