//! Code memory: pages that hold compiled functions, and what the runtime finds by an address in them.
//!
//! Pages are written before anything runs there, and from then on they can be read and executed, but not written.

use std::ffi::c_void;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::compile::{Compiled, Handler, StackMap};
use crate::module::Declarations;

/// Functions begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Where a function of a block begins, and what it is.
struct Start {
    offset: u32,
    /// Its index in the module; `None` for initializers and trampolines.
    function: Option<u32>,
}

/// Pages with code.
pub(crate) struct CodeBlock {
    pages: NonNull<u8>,
    bytes: usize,
    starts: Vec<Start>,
    // By ascending offsets from the start of the block.
    maps: Vec<StackMap>,
    handlers: Vec<Handler>,
    places: Vec<(u32, u32)>,
    declarations: Option<Arc<Declarations>>,
}

impl CodeBlock {
    /// Places functions one behind the other. `indices` are those in the module; a call of index i leads to the function
    /// with that index among them.
    pub(crate) fn new(
        functions: &[(Option<u32>, Compiled)],
        declarations: Option<Arc<Declarations>>,
    ) -> io::Result<CodeBlock> {
        let mut image: Vec<u8> = Vec::new();
        let (mut starts, mut maps, mut handlers, mut places) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut by_index = std::collections::HashMap::new();
        for &(function, ref compiled) in functions {
            // Between functions lies what traps.
            image.resize(image.len().next_multiple_of(ALIGNMENT), 0xcc);
            let offset = image.len() as u32;
            starts.push(Start { offset, function });
            if let Some(index) = function {
                by_index.insert(index, offset);
            }
            image.extend_from_slice(&compiled.bytes);
            maps.extend(compiled.maps.iter().map(|map| StackMap {
                offset: offset + map.offset,
                ..map.clone()
            }));
            handlers.extend(compiled.handlers.iter().map(|handler| Handler {
                offset: offset + handler.offset,
                landing: offset + handler.landing,
                ..*handler
            }));
            places.extend(
                compiled
                    .places
                    .iter()
                    .map(|&(at, place)| (offset + at, place)),
            );
        }
        for (start, (_, compiled)) in starts.iter().zip(functions) {
            for &(at, index) in &compiled.calls {
                let at = (start.offset + at) as usize;
                // The distance counts from the end of the four bytes.
                let distance = by_index[&index].wrapping_sub(at as u32 + 4);
                image[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
        }
        let pages = map_code(&image)?;
        Ok(CodeBlock {
            pages,
            bytes: image.len().max(1),
            starts,
            maps,
            handlers,
            places,
            declarations,
        })
    }

    fn start(&self) -> usize {
        self.pages.as_ptr() as usize
    }

    /// The address of the function that was given at this position.
    pub(crate) fn address(&self, position: usize) -> *const u8 {
        (self.start() + self.starts[position].offset as usize) as *const u8
    }

    fn offset(&self, address: usize) -> u32 {
        (address - self.start()) as u32
    }

    /// The stack map of the call that returns to the address, if it has any reference.
    pub(crate) fn map(&self, return_address: usize) -> Option<&StackMap> {
        let offset = self.offset(return_address);
        let index = self
            .maps
            .binary_search_by_key(&offset, |map| map.offset)
            .ok()?;
        Some(&self.maps[index])
    }

    /// Where exceptions of the call that returns to the address are caught: the address of the code, and the bytes of the
    /// frame.
    pub(crate) fn handler(&self, return_address: usize) -> Option<(usize, usize)> {
        let offset = self.offset(return_address);
        let index = self
            .handlers
            .binary_search_by_key(&offset, |handler| handler.offset)
            .ok()?;
        let Handler {
            landing,
            frame_bytes,
            ..
        } = self.handlers[index];
        Some((self.start() + landing as usize, frame_bytes as usize))
    }

    /// From what place in the module the code before a return address was made.
    pub(crate) fn place(&self, return_address: usize) -> Option<u32> {
        let last = self.offset(return_address - 1);
        let index = self
            .places
            .partition_point(|&(start, _)| start <= last)
            .checked_sub(1)?;
        Some(self.places[index].1)
    }

    /// What people call the function at an address; `None` for trampolines.
    pub(crate) fn name(&self, return_address: usize) -> Option<String> {
        let last = self.offset(return_address - 1);
        let index = self
            .starts
            .partition_point(|start| start.offset <= last)
            .checked_sub(1)?;
        let function = self.starts[index].function?;
        Some(self.declarations.as_ref()?.function_name(function))
    }
}

impl Drop for CodeBlock {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped for this block, and its engine ends: no code of them runs.
        unsafe { libc::munmap(self.pages.as_ptr().cast::<c_void>(), self.bytes) };
    }
}

/// Maps pages with the image, to be executed.
fn map_code(image: &[u8]) -> io::Result<NonNull<u8>> {
    let bytes = image.len().max(1);
    // SAFETY: fresh pages wherever the system has room, which this function alone knows until it returns.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let pages = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        );
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        pages
            .cast::<u8>()
            .copy_from_nonoverlapping(image.as_ptr(), image.len());
        if libc::mprotect(pages, bytes, libc::PROT_READ | libc::PROT_EXEC) != 0 {
            let error = io::Error::last_os_error();
            libc::munmap(pages, bytes);
            return Err(error);
        }
        Ok(NonNull::new_unchecked(pages.cast()))
    }
}

/// All code of an engine, by address.
#[derive(Default)]
pub(crate) struct CodeMap {
    /// By ascending address.
    blocks: Vec<CodeBlock>,
}

impl CodeMap {
    pub(crate) fn add(&mut self, block: CodeBlock) {
        let at = self
            .blocks
            .partition_point(|other| other.start() < block.start());
        self.blocks.insert(at, block);
    }

    /// The block in which the address lies.
    pub(crate) fn find(&self, address: usize) -> Option<&CodeBlock> {
        let at = self
            .blocks
            .partition_point(|block| block.start() <= address)
            .checked_sub(1)?;
        let block = &self.blocks[at];
        (address - block.start() <= block.bytes).then_some(block)
    }
}
