//! `gleaner report`: one page of what the collector did, from the log that `gleaner exec --log` had a program write.
//!
//! The log is read as a stream; what is kept grows with the number of collections. The page is written when everything
//! is known, so that nothing is written where there is nothing to show.

mod cycles;
mod found;
mod page;
mod plots;
mod summary;

use std::fs::Metadata;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::arguments::{ReportArgs, STANDARD_INPUT};
use crate::failure::Failure;
use crate::inputs::Input;
use crate::options::print;
use crate::outputs;
use found::Found;

/// What is read.
const LOG: Input = Input {
    name: "log",
    option: "--log",
    example: "gc.jsonl",
};

/// Reads the log, writes the page, prints a summary.
pub(crate) fn run(args: ReportArgs) -> Result<(), Failure> {
    let log = &args.log;
    let (file, kind) = LOG.open(log)?;
    let output = output(&args, &kind)?;
    let found = Found::read(file, log)?;
    found.check(log)?;
    let html = page::page(&found, log)?;
    write(&output, &html)?;
    for note in found.notes() {
        // Where nobody can be told, the page says it.
        let _ = writeln!(std::io::stderr(), "gleaner: {}: {note}", log.display());
    }
    print(&summary::for_terminal(&found, &output))
}

/// Where the page goes. It must not be the log, under whatever name. Standard input has a name of its own even where it is a
/// file, and nothing lies beside that name.
fn output(args: &ReportArgs, log: &Metadata) -> Result<PathBuf, Failure> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None if log.is_file() && args.log != Path::new(STANDARD_INPUT) => {
            args.log.with_extension("html")
        }
        None => {
            return Err(Failure::usage(format_args!(
                "{} is no file that a page could lie beside: say where it goes with --output FILE",
                args.log.display()
            )));
        }
    };
    LOG.keep(&args.log, log, &output, "the page", "--output FILE")?;
    Ok(output)
}

fn write(output: &Path, html: &str) -> Result<(), Failure> {
    let written = outputs::write(output, |to| to.write_all(html.as_bytes()));
    written.map_err(|error| {
        Failure::usage(format_args!(
            "the page {} cannot be written: {error}. Name another file with --output FILE",
            output.display()
        ))
    })
}
