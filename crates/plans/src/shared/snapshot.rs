//! The files of snapshots: where they go, when one is due, and what the user is told of them. What is in one is the
//! matter of each heap.
//!
//! A snapshot goes to a file of another name first, so that there is never half of one under the name that was asked
//! for. The leader of a collection writes it in a stopped world. Nothing here allocates but [`Snapshots::from_options`]
//! and [`Writer::new`] (I1).

use alloc::boxed::Box;
use core::ffi::CStr;
use core::fmt::{self, Write};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::{FilePath, Options, SnapshotAt};
use gleaner_mem::Address;
use gleaner_os::output::{self, Fd, Present};
use gleaner_os::threads;

/// The version of the format.
const VERSION: u32 = 1;
/// Bytes that are written at once.
const BUFFER: usize = 64 << 10;
/// Bytes of a path with its number and its end.
pub const PATH: usize = 512;

/// What writes the snapshots of a heap.
pub struct Snapshots {
    path: FilePath,
    /// Where that is, if it does not say it: the directory of the process as the heap started.
    directory: LineBuffer<256>,
    /// The process whose snapshots have that name.
    owner: i32,
    /// The number of the heap among those of the process, if others write snapshots, too.
    heap: u32,
    at: SnapshotAt,
    /// How many were written.
    written: u32,
    /// Bytes of the live objects in the last one.
    live: usize,
    news: Option<News>,
    out: Box<Writer>,
}

/// What became of a snapshot, for the user.
#[derive(Clone, Copy)]
pub struct News {
    /// The process that wrote it.
    process: i32,
    /// How many it has written.
    pub written: u32,
    /// Where it was to go.
    pub path: LineBuffer<PATH>,
    /// Live objects, and their bytes; `None` if the file could not be written.
    pub has: Option<(u64, usize)>,
    /// References that are not in it, since they found no room on a mark stack.
    pub missing: usize,
}

/// What to look at when a snapshot cannot be written.
pub const NOT_WRITTEN: &str =
    "is its directory there, writable and not full, and no limit on files (ulimit -f) too low?";

impl fmt::Display for News {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_str();
        let Some((objects, bytes)) = self.has else {
            return write!(out, "the snapshot {path} cannot be written: {NOT_WRITTEN}");
        };
        write!(out, "a snapshot of {objects} objects, {} KiB", bytes >> 10)?;
        if self.written > 1 {
            write!(out, ", the last of {}", self.written)?;
        }
        write!(out, ", is in {path}: gleaner heap {path}")
    }
}

/// A file and what is on its way to it.
pub struct Writer {
    file: Option<Fd>,
    failed: bool,
    /// Bytes that the file may still have.
    room: u64,
    length: usize,
    buffer: [u8; BUFFER],
}

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(BUFFER) {
            if piece.len() > BUFFER - self.length {
                self.flush();
            }
            self.buffer[self.length..][..piece.len()].copy_from_slice(piece);
            self.length += piece.len();
        }
        Ok(())
    }
}

impl Writer {
    /// Without a file.
    pub fn new() -> Box<Writer> {
        Box::new(Writer {
            file: None,
            failed: false,
            room: 0,
            length: 0,
            buffer: [0; BUFFER],
        })
    }

    fn flush(&mut self) {
        let bytes = &self.buffer[..core::mem::take(&mut self.length)];
        let fits = bytes.len() as u64 <= self.room;
        self.room = self.room.saturating_sub(bytes.len() as u64);
        let write = || self.file.is_some_and(|file| file.write_all(bytes));
        self.failed = self.failed || !fits || !write();
    }

    /// A line; nothing can go wrong but the file, of which `failed` tells.
    pub(crate) fn line(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.write_fmt(text);
        let _ = self.write_str("\n");
    }

    /// The lines with which each snapshot begins.
    pub(crate) fn head(&mut self, collection: u64, reason: &str, capacity: usize) {
        let process = threads::current_process();
        let mut name = [0; 17];
        let name = threads::name_of(threads::ThreadId(process), &mut name);
        self.line(format_args!("gleaner-heap {VERSION}"));
        self.line(format_args!("process {process} {name}"));
        self.line(format_args!("when collection {collection}: {reason}"));
        self.line(format_args!("heap {capacity}"));
    }

    /// A root, or a part of one, leads to an object.
    pub(crate) fn target(&mut self, base: Address) {
        self.line(format_args!("t {:x}", base.word()));
    }

    /// The line with which each snapshot ends.
    pub(crate) fn end(&mut self, objects: u64, edges: u64) {
        self.line(format_args!("end {objects} {edges}"));
    }

    /// Has `body` write the file at `path`. Whether it is whole; if not, there is no file, or the former one.
    pub(crate) fn write_file(
        &mut self,
        path: &LineBuffer<PATH>,
        body: impl FnOnce(&mut Writer),
    ) -> bool {
        let (mut path, mut temporary) = (*path, *path);
        let _ = temporary.write_str(".new");
        let names = (with_end(&mut temporary), with_end(&mut path));
        let (Some(temporary), Some(path)) = names else {
            return false;
        };
        // A device, a pipe or a link is written to; no file takes its place.
        let replaces = output::present(path) == Present::Replaceable;
        let name = if replaces { temporary } else { path };
        let Some(file) = output::create(name) else {
            return false;
        };
        (self.file, self.failed, self.length) = (Some(file), false, 0);
        self.room = output::largest_file();
        body(self);
        self.flush();
        file.close();
        self.file = None;
        if replaces {
            self.failed = self.failed || !output::rename(temporary, path);
            if self.failed {
                output::remove(temporary);
            }
        }
        !self.failed
    }
}

impl Snapshots {
    /// What the options ask for, of the heap of that number in its process, counted from 0.
    pub fn from_options(options: &Options, heap: u32) -> Option<Box<Snapshots>> {
        let path = options.snapshot.as_str()?;
        let mut directory = LineBuffer::new();
        if !path.starts_with('/') && output::write_directory(&mut directory) {
            let _ = directory.write_str("/");
        }
        let owner = match options.snapshot_process {
            0 => threads::current_process(),
            process => process as i32,
        };
        Some(Box::new(Snapshots {
            path: options.snapshot,
            directory,
            owner,
            heap,
            at: options.snapshot_at,
            written: 0,
            live: 0,
            news: None,
            out: Writer::new(),
        }))
    }

    /// When they are written.
    pub fn at(&self) -> SnapshotAt {
        self.at
    }

    /// This process was forked, and has written none.
    pub(crate) fn begin_in_child(&mut self) {
        self.written = 0;
        self.news = None;
    }

    /// How many were written.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// Whether something is to be told.
    pub fn has_news(&self) -> bool {
        self.news.is_some()
    }

    /// What became of the last one, once; nothing if `is_wanted` does not want it yet, or if it was another process's.
    pub fn take_news(&mut self, is_wanted: impl FnOnce(&News) -> bool) -> Option<News> {
        let is_own = |news: &News| news.process == threads::current_process();
        self.news.take_if(|news| is_own(news) && is_wanted(news))
    }

    /// Whether a collection that found `live` bytes alive writes a snapshot.
    pub(crate) fn is_due(&self, live: usize) -> bool {
        match self.at {
            SnapshotAt::Collection => true,
            SnapshotAt::Peak => live >= self.live + self.live / 4,
            SnapshotAt::Exit | SnapshotAt::Signal => false,
        }
    }

    /// Has `body` write one of `live` bytes. It says how many objects there are, and how many references found no room on a
    /// mark stack.
    pub(crate) fn write(&mut self, live: usize, body: impl FnOnce(&mut Writer) -> (u64, usize)) {
        let path = self.path();
        let (mut objects, mut missing) = (0, 0);
        let is_whole = self
            .out
            .write_file(&path, |out| (objects, missing) = body(out));
        self.written += u32::from(is_whole);
        self.news = Some(News {
            process: threads::current_process(),
            written: self.written,
            path,
            has: is_whole.then_some((objects, live)),
            missing,
        });
        // Also where it failed: the next try is as far off.
        self.live = live;
    }

    /// The path with its `%p` and `%n` replaced. The number of a process that is not the owner is in it in any case, and so
    /// is that of a heap that is not the first.
    fn path(&self) -> LineBuffer<PATH> {
        let mut path = LineBuffer::new();
        let _ = path.write_str(self.directory.as_str());
        let process = threads::current_process();
        let mut rest = self.path.as_str().unwrap_or_default();
        let mut is_named = process == self.owner;
        while let Some(at) = rest.find('%') {
            let (before, sign) = (&rest[..at], rest.as_bytes().get(at + 1));
            let _ = path.write_str(before);
            let _ = match sign {
                Some(b'p') => write!(path, "{process}"),
                Some(b'n') => write!(path, "{}", self.written + 1),
                _ => path.write_str("%"),
            };
            is_named |= sign == Some(&b'p');
            let is_sign = matches!(sign, Some(b'p' | b'n' | b'%'));
            rest = &rest[at + 1 + usize::from(is_sign)..];
        }
        let _ = path.write_str(rest);
        if !is_named {
            let _ = write!(path, ".{process}");
        }
        if self.heap > 0 {
            let _ = write!(path, ".heap{}", self.heap);
        }
        path
    }
}

/// `path` as the system reads it.
fn with_end<const N: usize>(path: &mut LineBuffer<N>) -> Option<&CStr> {
    let _ = path.write_str("\0");
    CStr::from_bytes_until_nul(path.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_a_quarter_higher_than_the_last_one() {
        let mut options = Options::DEFAULT;
        let list = "snapshot=/dev/null,snapshot-at=peak";
        options.parse_list(list).unwrap();
        let mut snapshots = Snapshots::from_options(&options, 0).unwrap();
        let written = [400, 100, 400, 499, 500, 499, 624, 625].map(|live| {
            let is_due = snapshots.is_due(live);
            if is_due {
                snapshots.write(live, |_| (1, 0));
            }
            is_due
        });
        assert_eq!(
            written,
            [true, false, false, false, true, false, false, true]
        );
        assert_eq!(snapshots.written(), 3);
    }
}
