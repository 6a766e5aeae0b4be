//! What is to be put back, in a small file: for the guard, and for the next start if the guard was killed, too.
//!
//! # Invariants
//!
//! An entry is in the file before what it undoes is done, and the file goes when all is put back. Its name has the
//! process that wrote it and when that started, so it is known whether that process is still there. A file of another
//! owner, or one that others may write, is not believed; nor is an entry that names other files than those of the
//! processors' frequencies or a group of that name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::group::Group;
use super::writer::Writer;
use super::{group, maximum};
use crate::files::Files;

/// What is to be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The maximum frequency of a processor.
    Maximum { path: String, khz: u64 },
    /// A group whose threads go back to its parent; `enabled`: the controller of the parent's children goes, too.
    Group { group: Group, enabled: bool },
}

impl Entry {
    fn line(&self) -> String {
        match self {
            Entry::Maximum { path, khz } => format!("maximum {khz} {path}\n"),
            Entry::Group { group, enabled } => {
                let version = group.version.number();
                format!("group {version} {} {}\n", u8::from(*enabled), group.path)
            }
        }
    }

    fn parse(line: &str, writer: Writer) -> Option<Entry> {
        let (kind, rest) = line.split_once(' ')?;
        let (first, rest) = rest.split_once(' ')?;
        match kind {
            "maximum" if maximum::is_maximum(rest) => Some(Entry::Maximum {
                path: rest.into(),
                khz: first.parse().ok()?,
            }),
            "group" => {
                let (enabled, path) = rest.split_once(' ')?;
                let version = group::Version::of_number(first)?;
                let is_its = path.rsplit('/').next() == Some(&writer.name());
                is_its.then(|| Entry::Group {
                    group: Group {
                        version,
                        path: path.into(),
                    },
                    enabled: enabled == "1",
                })
            }
            _ => None,
        }
    }

    fn undo(&self, files: &Files) -> Result<(), String> {
        match self {
            Entry::Maximum { path, khz } => maximum::put_back(files, path, *khz),
            Entry::Group { group, enabled } => group.remove(files, *enabled),
        }
    }
}

/// The file of this process.
#[derive(Debug)]
pub(super) struct State {
    writer: Writer,
    entries: Vec<Entry>,
    directories: Vec<PathBuf>,
    path: Option<PathBuf>,
}

impl State {
    pub(super) fn new(files: &Files, writer: Writer) -> State {
        State {
            writer,
            entries: Vec::new(),
            directories: directories(files),
            path: None,
        }
    }

    /// Adds an entry, if it is not there yet.
    pub(super) fn add(&mut self, entry: Entry) -> Result<(), String> {
        if self.entries.contains(&entry) {
            return Ok(());
        }
        let line = entry.line();
        let written = match &self.path {
            Some(path) => append(path, &line, false),
            None => self.create(&line),
        };
        written.map_err(|error| {
            let names: Vec<_> = self
                .directories
                .iter()
                .map(|it| it.display().to_string())
                .collect();
            format!(
                "what is to be put back cannot be written down in any of {}: {error}",
                names.join(", ")
            )
        })?;
        self.entries.push(entry);
        Ok(())
    }

    /// In the first directory that lets it.
    fn create(&mut self, line: &str) -> io::Result<()> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for directory in &self.directories {
            let path = directory.join(file_name(self.writer));
            match append(&path, line, true) {
                Ok(()) => {
                    self.path = Some(path);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Puts everything back.
    pub(super) fn undo(&mut self, files: &Files) -> Vec<String> {
        let (entries, path) = (std::mem::take(&mut self.entries), self.path.take());
        undo(files, &entries, path.as_deref())
    }
}

fn file_name(writer: Writer) -> String {
    format!("{}.state", writer.name())
}

pub(crate) fn append(path: &Path, line: &str, is_new: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(is_new).mode(0o600);
    options.open(path)?.write_all(line.as_bytes())
}

/// Undoes the last first. The file stays if something could not be, for the next start.
fn undo(files: &Files, entries: &[Entry], path: Option<&Path>) -> Vec<String> {
    let undone = entries.iter().rev().map(|entry| entry.undo(files));
    let problems: Vec<_> = undone.filter_map(Result::err).collect();
    if let (true, Some(path)) = (problems.is_empty(), path) {
        // The next start will find nothing to put back in it.
        let _ = fs::remove_file(path);
    }
    problems
}

/// Where such files may be.
pub(crate) fn directories(files: &Files) -> Vec<PathBuf> {
    let own = std::env::var("XDG_RUNTIME_DIR").unwrap_or_default();
    let own = own.starts_with('/').then_some(own);
    let all = own.as_deref().into_iter().chain(["/run", "/tmp"]);
    all.map(|path| files.path(path)).collect()
}

/// Puts back what `writer` has changed, whether it is still there or not. Gives what went wrong.
pub fn put_back(files: &Files, writer: Writer) -> Vec<String> {
    let found = directories(files).into_iter().flat_map(|directory| {
        let path = directory.join(file_name(writer));
        let entries = read(&path, writer)?;
        Some(undo(files, &entries, Some(&path)))
    });
    found.flatten().collect()
}

/// Puts back what processes that are gone have left. Gives what was done and what went wrong.
pub fn put_back_left(files: &Files) -> Vec<String> {
    let mut messages = Vec::new();
    for directory in directories(files) {
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".state"));
            let writer = name.and_then(Writer::parse).filter(Writer::is_gone);
            let found = writer.and_then(|writer| read(&entry.path(), writer));
            if let Some(entries) = found {
                let problems = undo(files, &entries, Some(&entry.path()));
                if problems.is_empty() {
                    messages.push(format!(
                        "put back the speed of cores that an earlier start left ({})",
                        entry.path().display()
                    ));
                }
                messages.extend(problems);
            }
        }
    }
    messages
}

/// The maxima to be put back that any process has written down.
pub(super) fn maxima(files: &Files) -> impl Iterator<Item = (String, u64)> {
    let names = directories(files).into_iter().flat_map(|directory| {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    });
    let entries = names.filter_map(|path| {
        let name = path.file_name()?.to_str()?.strip_suffix(".state")?;
        read(&path, Writer::parse(name)?)
    });
    entries.flatten().filter_map(|entry| match entry {
        Entry::Maximum { path, khz } => Some((path, khz)),
        Entry::Group { .. } => None,
    })
}

/// The entries of a file that may be believed.
fn read(path: &Path, writer: Writer) -> Option<Vec<Entry>> {
    let text = believed(path)?;
    Some(
        text.lines()
            .filter_map(|line| Entry::parse(line, writer))
            .collect(),
    )
}

/// A file of this user's that no other may write.
pub(crate) fn believed(path: &Path) -> Option<String> {
    let about = fs::symlink_metadata(path).ok()?;
    let is_mine = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
    if !is_mine || about.mode() & 0o022 != 0 || about.nlink() != 1 {
        return None;
    }
    fs::read_to_string(path).ok()
}
