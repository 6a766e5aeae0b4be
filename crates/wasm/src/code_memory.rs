//! Memory for code: chunks of pages, which are filled from their start.
//!
//! Functions are placed one by one, as the program first calls them, and many share a page. So the pages of a new function
//! may hold older ones, which are active while the new one is written.
//!
//! # Invariants
//! - A page can be written or executed, never both. [`Chunk::write`] alone changes what it is.
//! - No code of a chunk runs while it is written: an engine stays on one thread, and that thread is in [`Chunk::write`].

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;

use crate::error::LoadError;

/// Code begins at multiples of this.
pub(crate) const ALIGNMENT: usize = 16;

/// Between functions lies what traps (`int3`).
pub(crate) const FILLER: u8 = 0xcc;

const PAGE_BYTES: usize = 4096;

/// A chunk has so many bytes at least.
const CHUNK_BYTES: usize = 256 << 10;

/// Where the code of an engine lies.
pub(crate) struct CodeMemory {
    /// The last one has room, perhaps.
    chunks: Vec<Chunk>,
    taken: usize,
    limit: usize,
}

impl CodeMemory {
    /// Memory for so many bytes of code at most.
    pub(crate) fn new(limit: usize) -> CodeMemory {
        CodeMemory {
            chunks: Vec::new(),
            taken: 0,
            limit,
        }
    }

    /// Writes code where it can be executed: its address, a multiple of [`ALIGNMENT`]. What lies behind it traps.
    pub(crate) fn place(&mut self, code: &[u8]) -> Result<NonNull<u8>, LoadError> {
        let none = |reason: &dyn std::fmt::Display| {
            LoadError::TooLarge(format!("no memory for code: {reason}"))
        };
        let bytes = (code.len() + 1).next_multiple_of(ALIGNMENT);
        if bytes > self.limit - self.taken {
            return Err(none(&format_args!("the limit is {} bytes", self.limit)));
        }
        let last = self.chunks.last();
        if last.is_none_or(|chunk| chunk.bytes - chunk.used < bytes) {
            let chunk = Chunk::new(bytes).map_err(|error| none(&error))?;
            self.chunks.push(chunk);
        }
        let chunk = self.chunks.last_mut().expect("it has room");
        let place = chunk.write(code, bytes).map_err(|error| none(&error))?;
        self.taken += bytes;
        Ok(place)
    }
}

/// Addresses for code. Pages that are not used yet have no access.
struct Chunk {
    start: NonNull<u8>,
    bytes: usize,
    used: usize,
}

impl Chunk {
    fn new(least: usize) -> io::Result<Chunk> {
        let bytes = least.max(CHUNK_BYTES).next_multiple_of(PAGE_BYTES);
        // SAFETY: fresh pages wherever the system has room.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let none = std::ptr::null_mut();
            libc::mmap(none, bytes, libc::PROT_NONE, flags, -1, 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Chunk {
            start: NonNull::new(start.cast()).expect("the first page is never mapped"),
            bytes,
            used: 0,
        })
    }

    /// Takes `bytes` bytes, which the chunk has room for, and writes code there, with filler behind it.
    fn write(&mut self, code: &[u8], bytes: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: both lie in the chunk, which has room.
        let (place, page) = unsafe {
            let first_page = self.used / PAGE_BYTES * PAGE_BYTES;
            (self.start.add(self.used), self.start.add(first_page))
        };
        let of_pages = (self.used % PAGE_BYTES + bytes).next_multiple_of(PAGE_BYTES);
        protect(page, of_pages, libc::PROT_READ | libc::PROT_WRITE)?;
        // SAFETY: the pages can be written, nothing has used these bytes yet, and no code of the pages runs.
        unsafe {
            place.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len());
            place
                .add(code.len())
                .write_bytes(FILLER, bytes - code.len());
        }
        if let Err(error) = protect(page, of_pages, libc::PROT_READ | libc::PROT_EXEC) {
            // Functions that are active have lost their code.
            eprintln!("gleaner: code was written and cannot be executed: {error}");
            std::process::abort();
        }
        self.used += bytes;
        Ok(place)
    }
}

fn protect(page: NonNull<u8>, bytes: usize, access: c_int) -> io::Result<()> {
    // SAFETY: pages of a chunk, whose code does not run now.
    match unsafe { libc::mprotect(page.as_ptr().cast::<c_void>(), bytes, access) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped for this chunk, and its engine ends: no code of them runs.
        unsafe { libc::munmap(self.start.as_ptr().cast::<c_void>(), self.bytes) };
    }
}
