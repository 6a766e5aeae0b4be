//! Snapshots of the heap: what lives, and what keeps it alive, as a text that `gleaner heap` reads (`snapshot=FILE`).
//!
//! A snapshot is written at the end of a collection's stop, when everything that can be reached is marked: first the roots
//! with the objects that they lead to, then each marked object with those that it refers to, by the same rules by which they
//! are marked. It goes to a file of another name first, so that there is never half of one under the name that was asked for.
//!
//! Runs on the collecting thread under the allocator lock. Nothing here allocates but [`Snapshots::from_options`], which the
//! heap calls as it starts (I1).

use alloc::boxed::Box;
use core::ffi::{CStr, c_char};
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use gleaner_base::events::{LineBuffer, Phase};
use gleaner_base::options::{FilePath, Options, SnapshotAt};
use gleaner_mem::Address;
use gleaner_os::output::{self, Fd, Present};
use gleaner_os::threads;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::allocate::is_freed;
use gleaner_spaces::mark_sweep::block::Resolved;
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, MAX_KINDS, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor,
};
use gleaner_spaces::mark_sweep::scan::{FROM_HEAP, FROM_STACK};

use crate::mark_sweep::collect::{Client, Request};
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

/// The version of the format.
const VERSION: u32 = 1;
/// Bytes that are written at once.
const BUFFER: usize = 64 << 10;
/// Bytes of a path with its number and its end.
const PATH: usize = 512;

/// What writes the snapshots of a heap.
pub struct Snapshots {
    path: FilePath,
    /// Where that is, if it does not say it: the directory of the process as the heap started.
    directory: LineBuffer<256>,
    /// The process whose snapshots have that name.
    owner: i32,
    at: SnapshotAt,
    /// How many were written.
    written: u32,
    /// Bytes of the marked objects in the last one.
    live: usize,
    /// References that the one being written does not have.
    missing: usize,
    news: Option<News>,
    out: Writer,
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
    process: i32,
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
struct Writer {
    file: Option<Fd>,
    failed: bool,
    /// Bytes that the file may still have.
    room: u64,
    length: usize,
    buffer: [u8; BUFFER],
}

/// Places inside of objects to which words of roots lead, and whether an object holds the same address.
struct Places {
    addresses: [usize; Places::MOST],
    is_held: [bool; Places::MOST],
    count: usize,
}

impl Places {
    /// There are few such words; those beyond count as held by none.
    const MOST: usize = 256;

    fn new() -> Places {
        Places {
            addresses: [0; Places::MOST],
            is_held: [false; Places::MOST],
            count: 0,
        }
    }

    fn add(&mut self, found: &Resolved) {
        let address = found.base.word() + found.displacement;
        let is_known = self.addresses[..self.count].contains(&address);
        if found.displacement > 0 && !is_known && self.count < Places::MOST {
            self.addresses[self.count] = address;
            self.count += 1;
        }
    }

    /// Puts them in order: from now on none is added.
    fn sort(&mut self) {
        self.addresses[..self.count].sort_unstable();
    }

    /// Notes what an object holds. Each word of each object comes here.
    fn look_through(&mut self, words: &[usize]) {
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

    fn held(&self) -> impl Iterator<Item = usize> {
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
    fn flush(&mut self) {
        let bytes = &self.buffer[..core::mem::take(&mut self.length)];
        let fits = bytes.len() as u64 <= self.room;
        self.room = self.room.saturating_sub(bytes.len() as u64);
        let write = || self.file.is_some_and(|file| file.write_all(bytes));
        self.failed = self.failed || !fits || !write();
    }

    /// A line; nothing can go wrong but the file, of which `failed` tells.
    fn line(&mut self, text: fmt::Arguments<'_>) {
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

    /// Whether a collection that found so many bytes alive writes one.
    fn is_due(&self, live: usize) -> bool {
        match self.at {
            SnapshotAt::Collection => true,
            SnapshotAt::Peak => live >= self.live + self.live / 4,
            SnapshotAt::Exit | SnapshotAt::Signal => false,
        }
    }

    /// The path with its `%p` and `%n` replaced, and `end` behind it. The number of a process that is not the owner is in it in
    /// any case.
    fn path(&self, end: &str) -> LineBuffer<PATH> {
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
fn with_end<const N: usize>(path: &mut LineBuffer<N>) -> Option<&CStr> {
    let _ = path.write_str("\0");
    CStr::from_bytes_until_nul(path.as_bytes()).ok()
}

impl Heap {
    /// Writes a snapshot if one is due. Everything that can be reached must be marked, and nothing grey.
    pub(crate) fn take_snapshot(
        &mut self,
        record: &mut Record,
        request: &Request<'_>,
        client: &dyn Client,
    ) {
        let Some(mut snapshots) = self.snapshots.take() else {
            return;
        };
        let (mut objects, mut live) = (0, 0);
        self.space.for_each_marked(|object| {
            objects += 1;
            live += object.bytes;
        });
        if request.snapshot || snapshots.is_due(live) {
            record.step(Phase::Snapshot, |event| {
                event.objects = objects;
                event.bytes = live as u64;
                self.write_snapshot(&mut snapshots, request, client);
            });
            self.totals.snapshots_ns += record.duration(Phase::Snapshot);
            let path = snapshots.path("");
            let has = (!snapshots.out.failed).then_some((objects, live));
            let missing = snapshots.missing;
            snapshots.written += u32::from(has.is_some());
            snapshots.news = Some(News {
                process: threads::current_process(),
                written: snapshots.written,
                path,
                has,
                missing,
            });
            // Also where it failed: the next try is as far off.
            snapshots.live = live;
        }
        self.snapshots = Some(snapshots);
    }

    fn write_snapshot(
        &mut self,
        snapshots: &mut Snapshots,
        request: &Request<'_>,
        client: &dyn Client,
    ) {
        let mut temporary = snapshots.path(".new");
        let mut path = snapshots.path("");
        let out = &mut snapshots.out;
        out.failed = true;
        let (Some(temporary), Some(path)) = (with_end(&mut temporary), with_end(&mut path)) else {
            return;
        };
        // A device, a pipe or a link is written to; no file takes its place.
        let replaces = output::present(path) == Present::Replaceable;
        let name = if replaces { temporary } else { path };
        let Some(file) = output::create(name) else {
            return;
        };
        out.file = Some(file);
        out.failed = false;
        out.room = output::largest_file();
        self.context.observes = true;
        self.write_head(out, request);
        let mut places = Places::new();
        self.write_roots(out, &mut places, request.stack_pointer, client);
        places.sort();
        self.write_objects(out, &mut places, client);
        self.context.observes = false;
        // What was counted on the way is no marking.
        snapshots.missing = self.engine.finish(&self.context).dropped;
        out.flush();
        file.close();
        out.file = None;
        if replaces {
            out.failed = out.failed || !output::rename(temporary, path);
            if out.failed {
                output::remove(temporary);
            }
        }
    }

    fn write_head(&self, out: &mut Writer, request: &Request<'_>) {
        let process = threads::current_process();
        let mut name = [0; 17];
        let name = threads::name_of(threads::ThreadId(process), &mut name);
        out.line(format_args!("gleaner-heap {VERSION}"));
        out.line(format_args!("process {process} {name}"));
        let number = self.collections + 1;
        out.line(format_args!("when collection {number}: {}", request.reason));
        out.line(format_args!("heap {}", self.space.capacity));
        for number in 0..self.space.kinds.count().min(MAX_KINDS) {
            let Some(kind) = self.space.kinds.get(number) else {
                continue;
            };
            let procedure = kind.descriptor & descriptor::TAGS == descriptor::PROC;
            let name = match number {
                PTRFREE => "pointer-free",
                NORMAL => "normal",
                UNCOLLECTABLE => "uncollectable",
                ATOMIC_UNCOLLECTABLE => "uncollectable pointer-free",
                _ if procedure => "of the program, with a mark procedure",
                _ => "of the program",
            };
            out.line(format_args!("kind {number} {name}"));
        }
    }

    fn write_roots(
        &mut self,
        out: &mut Writer,
        places: &mut Places,
        stack_pointer: Address,
        client: &dyn Client,
    ) {
        let context = &*self.context;
        self.roots.for_each_named(|range, name| {
            let name = RangeName(range.low, name);
            out.line(format_args!(
                "root static {:x} {:x} {name}",
                range.low.word(),
                range.high.word()
            ));
            // SAFETY: data segments and registered ranges are readable; the world is stopped.
            unsafe {
                context.for_each_reference(range.low, range.high, FROM_HEAP, &mut |at, found| {
                    places.add(&found);
                    word(out, at, found);
                });
            }
        });
        self.for_each_stack_part(stack_pointer, client, &mut |tid, part| {
            let mut name = [0; 17];
            let name = threads::name_of(tid, &mut name);
            out.line(format_args!(
                "root stack {} {:x} {:x} {name}",
                tid.0,
                part.at.word(),
                part.at.word() + part.bytes()
            ));
            // SAFETY: a part of the stack of a thread that is stopped, blocked, or the calling one.
            unsafe {
                context.for_each_reference(part.low, part.high, FROM_STACK, &mut |at, found| {
                    places.add(&found);
                    word(out, part.at.add(at.offset_from(part.low)), found);
                });
            }
        });
        self.write_unnamed_stacks(out, places, stack_pointer);
        out.line(format_args!("root uncollectable"));
        self.space.for_each_inner_root(|start, _| {
            // SAFETY: a root is an object, or was one.
            if self.is_marked(start) && unsafe { !is_freed(start) } {
                target(out, start);
            }
        });
        // Such objects do not live for that, but what they refer to does.
        out.line(format_args!("root objects that wait to be disclaimed"));
        self.space.for_each_inner_root(|start, descriptor| {
            if !self.is_marked(start) {
                // SAFETY: the descriptor is that of the object's block, and the world is stopped.
                unsafe {
                    self.engine
                        .for_each_target(start, descriptor, &mut |base| target(out, base));
                }
            }
        });
        out.line(format_args!("root results of threads"));
        for (_, result) in &self.thread_results {
            self.write_target_of(out, result.word());
        }
        out.line(format_args!("root finalizers"));
        self.weak
            .for_each_root(&mut |root| self.write_target_of(out, root.word()));
        out.line(format_args!("root pushed by the program"));
        client.push_other_roots(self);
        // SAFETY: the client has just pushed what is readable, and the world is stopped.
        unsafe {
            self.engine.take_targets(&mut |base| target(out, base));
        }
    }

    /// What may be stacks is a root for each mapping in which something is found.
    fn write_unnamed_stacks(&self, out: &mut Writer, places: &mut Places, stack_pointer: Address) {
        let context = &*self.context;
        let mut last = (0, 0);
        self.for_each_unnamed_part(stack_pointer, &mut |mapping, part| {
            // SAFETY: a copy, of this thread's alone.
            unsafe {
                context.for_each_reference(part.low, part.high, FROM_STACK, &mut |at, found| {
                    if core::mem::replace(&mut last, mapping) != mapping {
                        let (low, high) = mapping;
                        out.line(format_args!(
                            "root static {low:x} {high:x} memory that may be a stack"
                        ));
                    }
                    places.add(&found);
                    word(out, part.at.add(at.offset_from(part.low)), found);
                });
            }
        });
    }

    fn is_marked(&self, object: Address) -> bool {
        self.space.object_at(object.word()).is_some_and(|found| {
            // SAFETY: the mark of a resolved object. Relaxed: the world is stopped.
            unsafe { (*found.mark).load(Ordering::Relaxed) == MARKED }
        })
    }

    fn write_target_of(&self, out: &mut Writer, word: usize) {
        // SAFETY: a resolved object.
        let lives = |found: &Resolved| unsafe { !is_freed(found.base) };
        if let Some(found) = self.space.object_at(word).filter(lives) {
            target(out, found.base);
        }
    }

    fn write_objects(&self, out: &mut Writer, places: &mut Places, client: &dyn Client) {
        let (mut objects, mut edges) = (0u64, 0u64);
        self.space.for_each_marked(|object| {
            objects += 1;
            let _ = write!(
                out,
                "o {:x} {} {}",
                object.base.word(),
                object.bytes,
                object.kind
            );
            if object.descriptor != 0 {
                // SAFETY: the descriptor is that of the object's block, and the world is stopped; all of the object is readable.
                unsafe {
                    self.engine
                        .for_each_target(object.base, object.descriptor, &mut |base| {
                            edges += 1;
                            let _ = write!(out, " {:x}", base.word());
                        });
                    let words = object.bytes / size_of::<usize>();
                    let start = object.base.ptr::<usize>().cast_const();
                    places.look_through(core::slice::from_raw_parts(start, words));
                }
            }
            let mut text = LineBuffer::<256>::new();
            if client.describe(&object, &mut text) {
                let text = text.as_str().lines().next().unwrap_or_default();
                let _ = write!(out, "\na {text}");
            }
            out.line(format_args!(""));
        });
        for address in places.held() {
            out.line(format_args!("held {address:x}"));
        }
        out.line(format_args!("end {objects} {edges}"));
    }
}

fn word(out: &mut Writer, at: Address, found: Resolved) {
    let (base, offset) = (found.base.word(), found.displacement);
    out.line(format_args!("w {:x} {base:x} {offset}", at.word()));
}

fn target(out: &mut Writer, base: Address) {
    out.line(format_args!("t {:x}", base.word()));
}

/// Whose a static range is, from where it starts and the path that the loader has.
struct RangeName(Address, *const c_char);

impl fmt::Display for RangeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RangeName(low, name) = *self;
        if name.is_null() {
            // Memory that the program registered has no name, unless a file is mapped there.
            threads::write_mapped_file(low.word(), out);
            return Ok(());
        }
        // SAFETY: the loader's string, which lives as long as the library is loaded; the world is stopped.
        match unsafe { CStr::from_ptr(name) }.to_str() {
            Ok("") => out.write_str("the program"),
            Ok(path) => out.write_str(path.lines().next().unwrap_or_default()),
            Err(_) => out.write_str("?"),
        }
    }
}
