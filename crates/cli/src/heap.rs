//! `gleaner heap`: what lives in a program's heap and what keeps it, from the snapshot that `gleaner exec --snapshot` had
//! the program write.
//!
//! The snapshot is read whole, since what keeps an object may be anywhere in it; a million objects take about a hundred
//! megabytes. Nothing is printed or written before all is known.

mod devtools;
mod facts;
mod growth;
mod json;
mod names;
mod page;
mod trail;

use std::io::{BufReader, Write as _};
use std::path::Path;

use gleaner_heapgraph::{Ending, ReadError, Snapshot};

use crate::arguments::{HeapArgs, STANDARD_INPUT};
use crate::failure::Failure;
use crate::inputs::Input;
use crate::options::print;
use crate::place;
use crate::progress::Progress;
use crate::words::{counted, shown};
use facts::Facts;

/// What is read.
const SNAPSHOT: Input = Input {
    name: "snapshot",
    option: "--snapshot",
    example: "app.heap",
};

/// Reads the snapshot, and answers what was asked.
pub(crate) fn run(args: HeapArgs) -> Result<(), Failure> {
    let address = args.path.as_deref().map(trail::address).transpose()?;
    let path = &args.snapshot;
    let is_input = |path: &Path| path == Path::new(STANDARD_INPUT);
    if is_input(path) && args.since.as_deref().is_some_and(is_input) {
        return Err(Failure::usage(
            "standard input cannot be both snapshots: name a file for one of them",
        ));
    }
    let progress = Progress::new();
    let snapshot = open_and_read(path, args.devtools.as_deref(), &progress)?;
    let older = match &args.since {
        Some(since) => Some((since, open_and_read(since, None, &progress)?)),
        None => None,
    };
    if let Some(output) = &args.devtools {
        progress.say("writing");
        let written = devtools::write(&snapshot, output);
        drop(progress);
        say_notes(&snapshot, path);
        return print(&written?);
    }
    progress.say("finding out what keeps what");
    let facts = Facts::new(&snapshot);
    let text = match (address, &older) {
        (Some(address), _) if args.json => json::path(&facts, address),
        (Some(address), _) => trail::text(&facts, address),
        (None, Some((_, older))) => {
            let older = Facts::new(older);
            Ok(if args.json {
                json::growth(&older, &facts)
            } else {
                growth::text(&older, &facts)
            })
        }
        (None, None) if args.json => Ok(json::page(&facts)),
        (None, None) => Ok(page::text(&facts, path)),
    };
    drop(progress);
    say_notes(&snapshot, path);
    if let Some((since, older)) = &older {
        say_notes(older, since);
        growth::say_differences(older, &snapshot);
    }
    print(&text?)
}

/// Reads a snapshot that `output` must not replace.
fn open_and_read(
    path: &Path,
    output: Option<&Path>,
    progress: &Progress,
) -> Result<Snapshot, Failure> {
    let (file, kind) = SNAPSHOT.open(path)?;
    if let Some(output) = output {
        SNAPSHOT.keep(path, &kind, output, "the file", "--devtools FILE")?;
    }
    let file = progress.watch(file, kind.len());
    let snapshot = gleaner_heapgraph::read(BufReader::with_capacity(1 << 20, file));
    snapshot.map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: ReadError) -> Failure {
    let path = path.display();
    const MAKE: &str = "'gleaner exec --snapshot FILE -- PROGRAM' writes a snapshot";
    match error {
        ReadError::Io(error) => {
            Failure::usage(format_args!("the snapshot {path} cannot be read: {error}"))
        }
        ReadError::Empty => Failure::usage(format_args!(
            "{path} is empty: its program has not written a snapshot yet, or was killed before it did, or the disk was \
             full. {MAKE}"
        )),
        ReadError::CutEarly { line } => Failure::usage(format_args!(
            "{path} is cut off in or after line {line}, before its first object, so there is nothing to show: its program was killed \
             while it wrote it, or is still writing, or the disk was full. {MAKE}"
        )),
        ReadError::EventLog(line) if place::log::is_line(&line) => Failure::usage(format_args!(
            "{path} is no heap snapshot but {}. {MAKE}",
            place::log::OTHER
        )),
        ReadError::EventLog(_) => Failure::usage(format_args!(
            "{path} is no heap snapshot but the log of what the collector did. 'gleaner report {path}' reads it; {MAKE}"
        )),
        ReadError::NoSnapshot => Failure::usage(format_args!(
            "{path} is no heap snapshot: line 1 does not say 'gleaner-heap' and a version. {MAKE}"
        )),
        ReadError::Version(version) => Failure::usage(format_args!(
            "{path} is a heap snapshot of version {}, and this command reads version 1. The 'gleaner' that made it reads \
             it, too",
            shown(&version)
        )),
        ReadError::Broken { line, why } => Failure::usage(format_args!(
            "{path}, line {line} is broken: {}. A program writes no such line; was the file changed, or written by two \
             programs at once? {MAKE}",
            shown(&why)
        )),
        ReadError::TooMany(what) => Failure::usage(format_args!(
            "{path} has more than four thousand million {what}, which is more than this command can number"
        )),
    }
}

/// What a reader has to know of the file.
fn say_notes(snapshot: &Snapshot, path: &Path) {
    let say = |note: String| {
        // Where nobody can be told, the numbers are still those of what is there.
        let _ = writeln!(std::io::stderr(), "gleaner: {}: {note}", path.display());
    };
    let found = format!(
        "{} and {}",
        counted(u64::from(snapshot.count()), "object"),
        counted(snapshot.edge_count() + snapshot.lost_edges, "reference")
    );
    match snapshot.ending {
        Ending::Whole => {}
        Ending::Cut { line } => say(format!(
            "it is cut off in or after line {line}: the program was killed while it wrote it, or is still writing, or the \
             disk was full. What comes before is shown, {found}; objects whose roots or holders are missing seem to be \
             kept by nothing"
        )),
        Ending::Differs { objects, edges } => say(format!(
            "it says at its end that it has {} and {}, and has {found}: some lines are missing or were added. What is \
             there is shown",
            counted(objects, "object"),
            counted(edges, "reference")
        )),
    }
    let lost = |count, what| {
        if count > 0 {
            say(format!(
                "{} {} to objects that are not in the snapshot and were passed over",
                counted(count, what),
                if count == 1 { "leads" } else { "lead" }
            ));
        }
    };
    lost(snapshot.lost_words, "root word");
    lost(snapshot.lost_edges, "reference");
    if snapshot.repeated > 0 {
        say(format!(
            "{} at an address that another one has; only one of them can be found by it",
            counted(snapshot.repeated, "object")
        ));
    }
}
