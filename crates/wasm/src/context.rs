//! What compiled code reads of an instance: its context, and the records of functions, memories and tables.
//!
//! A context is a list of words of 8 bytes, which compiled code finds by their offsets: the engine, the instance, and then a
//! word for each function, table, memory, global and tag of the module. All of them are numbers or addresses that do not
//! change as long as the instance exists; instances exist as long as their engine. Where functions are compiled when they
//! are first called, words with the addresses of the code of the module's own functions follow. These change, and so does
//! the address of the code in a record: both are written by [`crate::lazy`] alone, on the engine's thread.

use crate::module::Declarations;
use crate::settings::Compile;
use crate::types::Number;

/// A function: what a reference to it refers to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FuncRecord {
    pub(crate) code: *const u8,
    /// What the code takes first.
    pub(crate) context: *const u64,
    /// The canonical number of its type.
    pub(crate) number: Number,
    /// The description of its type.
    pub(crate) description: *const u32,
}

impl FuncRecord {
    pub(crate) const CODE: i32 = std::mem::offset_of!(FuncRecord, code) as i32;
    pub(crate) const CONTEXT: i32 = std::mem::offset_of!(FuncRecord, context) as i32;
    pub(crate) const NUMBER: i32 = std::mem::offset_of!(FuncRecord, number) as i32;
    pub(crate) const DESCRIPTION: i32 = std::mem::offset_of!(FuncRecord, description) as i32;
}

/// A linear memory as compiled code finds it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MemoryRecord {
    pub(crate) base: *mut u8,
    pub(crate) bytes: u64,
}

impl MemoryRecord {
    pub(crate) const BASE: i32 = std::mem::offset_of!(MemoryRecord, base) as i32;
    pub(crate) const BYTES: i32 = std::mem::offset_of!(MemoryRecord, bytes) as i32;
}

/// A table as compiled code finds it: elements of 8 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct TableRecord {
    pub(crate) base: *mut u64,
    pub(crate) length: u64,
}

impl TableRecord {
    pub(crate) const BASE: i32 = std::mem::offset_of!(TableRecord, base) as i32;
    pub(crate) const LENGTH: i32 = std::mem::offset_of!(TableRecord, length) as i32;
}

/// The words of a context before those of the module's index spaces.
const HEAD: u32 = 2;

/// The word of a context that leads to the engine.
pub(crate) const ENGINE: usize = 0;

/// The word of a context that is the number of the instance; of a host function's, the number of the function.
pub(crate) const INSTANCE: usize = 1;

/// Where the words of a context are, in bytes from its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextLayout {
    tables: u32,
    memories: u32,
    globals: u32,
    tags: u32,
    codes: u32,
    end: u32,
    imported_funcs: u32,
}

impl ContextLayout {
    pub(crate) fn new(of: &Declarations, compile: Compile) -> ContextLayout {
        let tables = HEAD + of.funcs.len() as u32;
        let memories = tables + of.tables.len() as u32;
        let globals = memories + of.memories.len() as u32;
        let tags = globals + of.globals.len() as u32;
        let codes = tags + of.tags.len() as u32;
        let end = match compile {
            Compile::Lazy => codes + of.bodies.len() as u32,
            Compile::Eager => codes,
        };
        ContextLayout {
            tables,
            memories,
            globals,
            tags,
            codes,
            end,
            imported_funcs: of.imported_funcs as u32,
        }
    }

    pub(crate) fn words(self) -> usize {
        self.end as usize
    }

    /// The word that leads to the record of a function.
    pub(crate) fn function(self, index: u32) -> u32 {
        8 * (HEAD + index)
    }

    /// The word that leads to the record of a table.
    pub(crate) fn table(self, index: u32) -> u32 {
        8 * (self.tables + index)
    }

    /// The word that leads to the record of a memory.
    pub(crate) fn memory(self, index: u32) -> u32 {
        8 * (self.memories + index)
    }

    /// The word that leads to a global.
    pub(crate) fn global(self, index: u32) -> u32 {
        8 * (self.globals + index)
    }

    /// The word that is the number of a tag in the engine.
    pub(crate) fn tag(self, index: u32) -> u32 {
        8 * (self.tags + index)
    }

    /// The word with the address of the code of one of the module's own functions, by its index among all functions; `None`
    /// where all are compiled when the module is loaded.
    pub(crate) fn code(self, index: u32) -> Option<u32> {
        let word = self.codes + (index - self.imported_funcs);
        (word < self.end).then_some(8 * word)
    }
}
