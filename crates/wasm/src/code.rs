//! What the runtime finds by an address in compiled code: stack maps, handlers, places in the module, and names.

use std::sync::Arc;

use crate::code_memory::{ALIGNMENT, CodeMemory, FILLER};
use crate::compile::{Compiled, Handler, StackMap};
use crate::error::LoadError;
use crate::module::Declarations;

/// Where a function of a block begins, and what it is.
struct Start {
    offset: u32,
    /// Its index in the module; `None` for trampolines.
    function: Option<u32>,
}

/// Functions that lie one behind the other.
pub(crate) struct CodeBlock {
    start: usize,
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
    fn new(
        memory: &mut CodeMemory,
        functions: &[(Option<u32>, Compiled)],
        declarations: Option<Arc<Declarations>>,
    ) -> Result<CodeBlock, LoadError> {
        let mut image: Vec<u8> = Vec::new();
        let (mut starts, mut maps, mut handlers, mut places) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut by_index = std::collections::HashMap::new();
        for &(function, ref compiled) in functions {
            image.resize(image.len().next_multiple_of(ALIGNMENT), FILLER);
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
        Ok(CodeBlock {
            start: memory.place(&image)?.addr().get(),
            bytes: image.len(),
            starts,
            maps,
            handlers,
            places,
            declarations,
        })
    }

    fn start(&self) -> usize {
        self.start
    }

    fn addresses(&self) -> Vec<*const u8> {
        let starts = self.starts.iter();
        starts
            .map(|start| (self.start + start.offset as usize) as *const u8)
            .collect()
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

/// All code of an engine, by address.
pub(crate) struct CodeMap {
    /// By ascending address.
    blocks: Vec<CodeBlock>,
    memory: CodeMemory,
}

impl CodeMap {
    pub(crate) fn new(memory: CodeMemory) -> CodeMap {
        CodeMap {
            blocks: Vec::new(),
            memory,
        }
    }

    /// Adds functions, with their indices in the module: where they lie. They call each other, by these indices, and no
    /// others. Functions without an index have no name.
    pub(crate) fn add(
        &mut self,
        functions: &[(Option<u32>, Compiled)],
        declarations: Option<&Arc<Declarations>>,
    ) -> Result<Vec<*const u8>, LoadError> {
        let block = CodeBlock::new(&mut self.memory, functions, declarations.cloned())?;
        let addresses = block.addresses();
        let at = self
            .blocks
            .partition_point(|other| other.start() < block.start());
        self.blocks.insert(at, block);
        Ok(addresses)
    }

    /// Adds code that never calls: where it lies.
    pub(crate) fn add_stubs(&mut self, image: &[u8]) -> Result<*const u8, LoadError> {
        let place = self.memory.place(image)?;
        Ok(place.as_ptr())
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
