//! What is in a log: its processes, the largest first, and what could not be read.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use gleaner_eventlog::{Line, Process, Reader, Unreadable, is_known};

use crate::failure::Failure;
use crate::place;
use crate::words::{counted, processes, shown};

/// Lines that are named one by one.
const MOST_NAMED: usize = 5;

/// A process, and which of its heaps, or 0.
type Heap = (u64, u64);

/// A process that collected, or one of its heaps.
pub(super) struct Named {
    /// Its number, and which of those that had it, if there were several.
    pub(super) name: String,
    pub(super) process: Process,
}

/// What is in a log.
#[derive(Default)]
pub(super) struct Found {
    /// The processes that collected: the one with the largest heap first.
    pub(super) processes: Vec<Named>,
    /// How many others there are.
    pub(super) idle: u64,
    pub(super) events: u64,
    /// Lines in the middle that are no events: the first ones, and how many.
    unreadable: Vec<Unreadable>,
    unreadable_count: u64,
    /// The last line, if it was cut off.
    cut: Option<Unreadable>,
    is_no_log: bool,
}

/// The most bytes that a process had, as far as its log tells.
pub(super) fn peak(points: &[(u64, u64)]) -> u64 {
    points.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

/// The name of the program that ran, if the log says it.
fn program(process: &Process) -> Option<String> {
    let first = process.head()?.command.split(' ').next()?;
    let name = first.rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(shown(name))
}

impl Found {
    /// Reads a log from its beginning to its end.
    pub(super) fn read(file: File, path: &Path) -> Result<Found, Failure> {
        let mut found = Found::default();
        let mut processes = BTreeMap::<(Heap, u64), Process>::new();
        // How often the number of a process was given to another one.
        let mut turns = BTreeMap::<Heap, u64>::new();
        let mut reader = Reader::new(BufReader::with_capacity(1 << 18, file));
        loop {
            let line = reader.next().map_err(|error| {
                Failure::usage(format_args!(
                    "the log {} cannot be read: {error}",
                    path.display()
                ))
            })?;
            match line {
                None => break,
                Some(Line::Event(event)) => {
                    let heap = (event.pid, event.heap);
                    let turn = turns.entry(heap).or_default();
                    let mut process = processes.entry((heap, *turn)).or_default();
                    if process.begins_anew(&event) {
                        *turn += 1;
                        process = processes.entry((heap, *turn)).or_default();
                    }
                    process.add(&event);
                }
                Some(Line::Unreadable(line)) => found.note_unreadable(line),
                Some(Line::NoLog) => found.is_no_log = true,
            }
        }
        found.events = reader.events();
        for ((heap, turn), process) in processes {
            if process.count() == 0 {
                found.idle += 1;
                continue;
            }
            let mut name = match heap {
                (pid, 0) => format!("process {pid}"),
                (pid, number) => format!("process {pid}, heap {number}"),
            };
            if turns[&heap] > 0 {
                let _ = write!(name, ", number {} of that name", turn + 1);
            }
            if let Some(program) = program(&process) {
                name = format!("{program}, {name}");
            }
            found.processes.push(Named { name, process });
        }
        found.processes.sort_by_cached_key(|named| {
            let process = &named.process;
            let heap = peak(process.capacity()).max(peak(process.live()));
            std::cmp::Reverse((heap, process.count()))
        });
        Ok(found)
    }

    fn note_unreadable(&mut self, line: Unreadable) {
        if line.is_cut {
            self.cut = Some(line);
            return;
        }
        self.unreadable_count += 1;
        if self.unreadable.len() < MOST_NAMED {
            self.unreadable.push(line);
        }
    }

    /// Refuses a log of which there is nothing to show, and says why that may be.
    pub(super) fn check(&self, path: &Path) -> Result<(), Failure> {
        let path = path.display();
        let first = self.unreadable.first().or(self.cut.as_ref());
        if self.events == 0 {
            let Some(line) = first else {
                return Err(Failure::usage(format_args!(
                    "{path} is empty: its program wrote no event. It needed no more memory than it began with, or did \
                     not use libgc, or has not begun yet"
                )));
            };
            if place::log::is_line(&line.beginning) {
                return Err(Failure::usage(format_args!(
                    "{path} is {}. 'gleaner exec --log FILE -- PROGRAM' writes one of what the collector did",
                    place::log::OTHER
                )));
            }
            if line.beginning.starts_with("gleaner-heap ") {
                return Err(Failure::usage(format_args!(
                    "{path} is a snapshot of a heap: 'gleaner heap {path}' shows it. 'gleaner exec --log FILE -- PROGRAM' writes a log \
                     of what the collector did"
                )));
            }
            let all = if self.is_no_log {
                "as are those after it; "
            } else {
                ""
            };
            return Err(Failure::usage(format_args!(
                "{path} is no event log: line {} is no event ({all}{}). 'gleaner exec --log FILE -- PROGRAM' writes a log",
                line.number, line.why
            )));
        }
        if self.processes.is_empty() {
            return Err(Failure::usage(format_args!(
                "{path} has no collection, so there is nothing to show: {} of {}, and none collected. A program collects \
                 once it has allocated enough: a short one ends before, or one that began with a large heap, as Nix does \
                 (GC_INITIAL_HEAP_SIZE); with GC_DONT_GC set or GC_disable called it never does; and one that was killed \
                 early had no time to",
                counted(self.events, "event"),
                processes(self.idle),
            )));
        }
        Ok(())
    }

    /// What a reader has to know of the log, a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for line in &self.unreadable {
            notes.push(format!(
                "line {} is no event and was passed over: {}",
                line.number, line.why
            ));
        }
        if self.unreadable_count > self.unreadable.len() as u64 {
            let more = self.unreadable_count - self.unreadable.len() as u64;
            notes.push(format!(
                "the same goes for {} after these",
                counted(more, "line")
            ));
        }
        if let Some(line) = &self.cut {
            notes.push(format!(
                "the last line, {}, is cut off: the program was killed while it wrote it, or is still running, or the disk \
                 was full. What comes before it is shown",
                line.number
            ));
        }
        let unknown = self.unknown();
        if !unknown.is_empty() {
            let count: u64 = unknown.values().sum();
            let names: Vec<_> = unknown
                .keys()
                .take(MOST_NAMED)
                .map(|name| shown(name))
                .collect();
            notes.push(format!(
                "{} of {} that this version of Gleaner does not know, and shows as they are: {}{}. Another version wrote the \
                 log",
                counted(count, "event"),
                counted(unknown.len() as u64, "kind"),
                names.join(", "),
                if unknown.len() > MOST_NAMED { " and others" } else { "" },
            ));
        }
        notes
    }

    /// The names of events that this version does not write, and how many there are.
    fn unknown(&self) -> BTreeMap<&str, u64> {
        let mut unknown = BTreeMap::new();
        for named in &self.processes {
            for (name, total) in named.process.phases() {
                if !is_known(name) {
                    *unknown.entry(name).or_default() += total.count;
                }
            }
        }
        unknown
    }
}
