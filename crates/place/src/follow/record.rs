//! What is to be put back of the processors that threads may run on, in a small file: for the guard, and for the next
//! start if the guard was killed, too.
//!
//! # Invariants
//!
//! - A thread is placed only where it ran on all processors that its program may use, or on a set that a thread of its
//!   program was given, which it inherited. So all that were placed go back to the former set, which is written first.
//! - A set is in the file before a thread is given it, and so is each process that was found. A thread that runs on
//!   another set, or that is written down as one that was left alone, has it from its program, and keeps it.
//! - The file goes when all is put back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::descent::tree;
use super::tasks::{affinity, set_affinity, set_of, tasks};
use crate::files::Files;
use crate::speed::{append, believed, directories};
use crate::usage::Stat;
use crate::{Processors, ThreadId, Writer};

/// By how many bytes the file grows before what has ended is left out of it.
const LONG: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    /// Written since it was left out last.
    bytes: usize,
}

impl Record {
    /// A new one, in the first directory that lets it.
    pub(super) fn start(files: &Files, writer: Writer) -> Result<Record, String> {
        let mut problem = String::new();
        for directory in directories(files) {
            let path = directory.join(file_name(writer));
            match append(&path, "", true) {
                Ok(()) => return Ok(Record { path, bytes: 0 }),
                Err(error) => problem = format!("{}: {error}", directory.display()),
            }
        }
        Err(problem)
    }

    pub(super) fn add(&mut self, line: &str) -> std::io::Result<()> {
        self.bytes += line.len();
        append(&self.path, line, false)
    }

    pub(super) fn is_long(&self) -> bool {
        self.bytes > LONG
    }

    /// Replaces all that is in it.
    pub(super) fn rewrite(&mut self, text: &str) -> std::io::Result<()> {
        self.bytes = 0;
        let new = self.path.with_extension("new");
        let written = append(&new, text, true).and_then(|()| fs::rename(&new, &self.path));
        if written.is_err() {
            // It would be in the way of the next.
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// The program has ended in order. Where a record is dropped otherwise, its file stays for the guard.
    pub(super) fn remove(self) {
        // The next start puts back nothing of a program that is gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Lines of the file.
pub(super) fn usual_line(processors: &Processors) -> String {
    format!("usual {processors}\n")
}

pub(super) fn given_line(processors: &Processors) -> String {
    format!("given {processors}\n")
}

pub(super) fn process_line(process: u32, started: u64) -> String {
    format!("process {process} {started}\n")
}

pub(super) fn own_line(id: ThreadId) -> String {
    format!("own {} {}\n", id.number, id.started)
}

/// One that was left alone is placed after all.
pub(super) fn placed_line(id: ThreadId) -> String {
    format!("placed {} {}\n", id.number, id.started)
}

fn file_name(writer: Writer) -> String {
    format!("{}.placed", writer.name())
}

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Entries {
    usual: Option<Processors>,
    given: Vec<Processors>,
    processes: Vec<(u32, u64)>,
    /// Left alone, with the time at which they started.
    own: BTreeMap<u32, u64>,
}

impl Entries {
    /// Lines that make no sense are left out.
    fn parse(text: &str) -> Entries {
        let mut entries = Entries::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
            let processors = || rest.parse::<Processors>().ok();
            let pair = || {
                let (number, started) = rest.split_once(' ')?;
                Some((number.parse().ok()?, started.parse().ok()?))
            };
            match kind {
                "usual" => entries.usual = processors().or(entries.usual),
                "given" => entries.given.extend(processors()),
                "process" => entries.processes.extend(pair()),
                "own" => entries.own.extend(pair()),
                "placed" => {
                    if let Some((thread, _)) = pair() {
                        entries.own.remove(&thread);
                    }
                }
                _ => {}
            }
        }
        entries
    }

    /// Lets the threads that were placed run where they could before. Gives how many these were.
    fn undo(&self) -> usize {
        let Some(usual) = &self.usual else { return 0 };
        let usual = set_of(usual);
        let given: Vec<_> = self.given.iter().map(set_of).collect();
        let started = |directory: String| Stat::read(&directory).map(|stat| stat.started);
        let is_there =
            |&&(process, then): &&(u32, u64)| started(format!("/proc/{process}")) == Some(then);
        let roots: Vec<u32> = self
            .processes
            .iter()
            .filter(is_there)
            .map(|it| it.0)
            .collect();
        let mut placed = 0;
        // A thread that was not put back yet may have started others meanwhile.
        for _ in 0..8 {
            let mut news = 0;
            let processes: BTreeSet<u32> = roots.iter().copied().chain(tree(&roots)).collect();
            for process in processes {
                for task in tasks(process) {
                    let path = || format!("/proc/{process}/task/{task}");
                    let is_own = self
                        .own
                        .get(&task)
                        .is_some_and(|&then| started(path()) == Some(then));
                    let is_placed =
                        affinity(task).is_ok_and(|set| set != usual && given.contains(&set));
                    if is_placed && !is_own {
                        news += usize::from(set_affinity(task, &usual).is_ok());
                    }
                }
            }
            placed += news;
            if news == 0 {
                break;
            }
        }
        placed
    }
}

/// Lets the threads that `writer` has placed run where they could before. `None`: nothing was written down.
pub fn put_back_threads(files: &Files, writer: Writer) -> Option<usize> {
    let paths = directories(files)
        .into_iter()
        .map(|it| it.join(file_name(writer)));
    let found: Vec<_> = paths
        .filter_map(|path| {
            let placed = Entries::parse(&believed(&path)?).undo();
            // The next start would put back nothing more.
            let _ = fs::remove_file(&path);
            Some(placed)
        })
        .collect();
    (!found.is_empty()).then(|| found.into_iter().sum())
}

/// Puts back the threads of all placers that are gone. Gives a message for each placer that has left threads.
pub fn put_back_threads_left(files: &Files) -> Vec<String> {
    let names = directories(files).into_iter().flat_map(|directory| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok())
    });
    let writers = names.filter_map(|name| Writer::parse(name.strip_suffix(".placed")?));
    let undone = writers
        .filter(Writer::is_gone)
        .filter_map(|writer| put_back_threads(files, writer));
    let message = |count| {
        format!("{count} threads that an earlier start had placed run where they could before")
    };
    undone.filter(|&count| count > 0).map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let set = |text: &str| text.parse::<Processors>().unwrap();
        let id = ThreadId {
            number: 7,
            started: 8,
        };
        let lines = [
            usual_line(&set("0-3")),
            given_line(&set("0")),
            given_line(&set("2-3")),
            process_line(5, 6),
            own_line(ThreadId { number: 9, ..id }),
            own_line(id),
            placed_line(ThreadId { number: 9, ..id }),
        ];
        let expected = Entries {
            usual: Some(set("0-3")),
            given: vec![set("0"), set("2-3")],
            processes: vec![(5, 6)],
            own: BTreeMap::from([(7, 8)]),
        };
        let text = lines.concat() + "given x\nprocess 5\nowned 1 2\nusual 3-1\n";
        assert_eq!(Entries::parse(&text), expected);
        assert_eq!(Entries::parse("").undo(), 0);
    }
}
