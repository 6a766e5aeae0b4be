//! Where snapshots are written, and what was written.

use alloc::boxed::Box;
use core::ffi::CStr;
use core::fmt::{self, Write};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::{FilePath, Options, SnapshotAt};
use gleaner_os::output::{self, Fd};
use gleaner_os::threads;
use gleaner_spaces::mark_sweep::block::Resolved;

/// The version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes that are written at once.
pub(super) const BUFFER: usize = 64 << 10;
/// Bytes of a path with its number and its end.
pub(super) const PATH: usize = 512;

/// What writes the snapshots of a heap.
pub struct Snapshots {
    pub(super) path: FilePath,
    /// Where that is, if it does not say it: the directory of the process as the heap started.
    pub(super) directory: LineBuffer<256>,
    /// The process whose snapshots have that name.
    pub(super) owner: i32,
    pub(super) at: SnapshotAt,
    /// How many were written.
    pub(super) written: u32,
    /// Bytes of the marked objects in the last one.
    pub(super) live: usize,
    /// References that the one being written does not have.
    pub(super) missing: usize,
    pub(super) news: Option<News>,
    pub(super) out: Writer,
}

impl Snapshots {
    /// This process was forked, and has written none.
    pub(crate) fn begin_in_child(&mut self) {
        self.written = 0;
        self.news = None;
    }
}

/// What became of a snapshot, for the user.
#[derive(Clone, Copy)]
pub struct News {
    /// The process that wrote it.
    pub(super) process: i32,
    /// How many it has written.
    pub written: u32,
    /// Where it was to go.
    pub path: LineBuffer<PATH>,
    /// Marked objects, and their bytes; `None` if the file could not be written.
    pub has: Option<(u64, usize)>,
    /// References that are not in it, since they found no room on a mark stack.
    pub missing: usize,
}

/// A file and what is on its way to it.
pub(super) struct Writer {
    pub(super) file: Option<Fd>,
    pub(super) failed: bool,
    /// Bytes that the file may still have.
    pub(super) room: u64,
    pub(super) length: usize,
    pub(super) buffer: [u8; BUFFER],
}

/// Places inside of objects to which words of roots lead, and whether an object holds the same address.
pub(super) struct Places {
    pub(super) addresses: [usize; Places::MOST],
    pub(super) is_held: [bool; Places::MOST],
    pub(super) count: usize,
}

impl Places {
    /// There are few such words; those beyond count as held by none.
    const MOST: usize = 256;

    pub(super) fn new() -> Places {
        Places {
            addresses: [0; Places::MOST],
            is_held: [false; Places::MOST],
            count: 0,
        }
    }

    pub(super) fn add(&mut self, found: &Resolved) {
        let address = found.base.word() + found.displacement;
        let is_known = self.addresses[..self.count].contains(&address);
        if found.displacement > 0 && !is_known && self.count < Places::MOST {
            self.addresses[self.count] = address;
            self.count += 1;
        }
    }

    /// Puts them in order: from now on none is added.
    pub(super) fn sort(&mut self) {
        self.addresses[..self.count].sort_unstable();
    }

    /// Notes what an object holds. Each word of each object comes here.
    pub(super) fn look_through(&mut self, words: &[usize]) {
        let known = &self.addresses[..self.count];
        let (Some(&low), Some(&high)) = (known.first(), known.last()) else {
            return;
        };
        for word in words.iter().filter(|word| (low..=high).contains(*word)) {
            if let Ok(index) = known.binary_search(word) {
                self.is_held[index] = true;
            }
        }
    }

    pub(super) fn held(&self) -> impl Iterator<Item = usize> {
        let both = self.addresses.iter().zip(&self.is_held).take(self.count);
        both.filter(|(_, is_held)| **is_held)
            .map(|(address, _)| *address)
    }
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
    pub(super) fn flush(&mut self) {
        let bytes = &self.buffer[..core::mem::take(&mut self.length)];
        let fits = bytes.len() as u64 <= self.room;
        self.room = self.room.saturating_sub(bytes.len() as u64);
        let write = || self.file.is_some_and(|file| file.write_all(bytes));
        self.failed = self.failed || !fits || !write();
    }

    /// A line; nothing can go wrong but the file, of which `failed` tells.
    pub(super) fn line(&mut self, text: fmt::Arguments<'_>) {
        let _ = self.write_fmt(text);
        let _ = self.write_str("\n");
    }
}

impl Snapshots {
    /// What the options ask for.
    pub fn from_options(options: &Options) -> Option<Box<Snapshots>> {
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
            at: options.snapshot_at,
            written: 0,
            live: 0,
            missing: 0,
            news: None,
            out: Writer {
                file: None,
                failed: false,
                room: 0,
                length: 0,
                buffer: [0; BUFFER],
            },
        }))
    }

    /// When they are written.
    pub fn at(&self) -> SnapshotAt {
        self.at
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
    pub(super) fn is_due(&self, live: usize) -> bool {
        match self.at {
            SnapshotAt::Collection => true,
            SnapshotAt::Peak => live >= self.live + self.live / 4,
            SnapshotAt::Exit | SnapshotAt::Signal => false,
        }
    }

    /// The path with its `%p` and `%n` replaced, and `end` behind it. The number of a process that is not the owner is in it in
    /// any case.
    pub(super) fn path(&self, end: &str) -> LineBuffer<PATH> {
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
        let _ = path.write_str(end);
        path
    }
}

/// `path` as the system reads it.
pub(super) fn with_end<const N: usize>(path: &mut LineBuffer<N>) -> Option<&CStr> {
    let _ = path.write_str("\0");
    CStr::from_bytes_until_nul(path.as_bytes()).ok()
}
