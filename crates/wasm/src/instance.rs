//! Instances: what an engine has of each.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::context::{ContextLayout, FuncRecord};
use crate::module::{Declarations, Item};
use crate::storage::Segment;
use crate::values::{EngineId, Function};

/// What one module exports and another imports. It belongs to its engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extern {
    /// A function.
    Function(Function),
    /// A table, by its number in the engine.
    Table(usize),
    /// A memory, by its number in the engine.
    Memory(usize),
    /// A global, by its number in the engine.
    Global(usize),
    /// A tag, by its number in the engine.
    Tag(usize),
}

/// An instance, by its number in the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstanceId(pub(crate) usize);

/// What an engine has of an instance.
pub(crate) struct Instance {
    pub(crate) declarations: Arc<Declarations>,
    pub(crate) layout: ContextLayout,
    /// What compiled code takes first.
    pub(crate) context: Box<[u64]>,
    /// Of all functions, imported ones first.
    pub(crate) functions: Vec<NonNull<FuncRecord>>,
    /// Of the module's own functions.
    pub(crate) records: Box<[FuncRecord]>,
    /// Numbers in the engine, by the module's indices.
    pub(crate) tables: Vec<usize>,
    pub(crate) memories: Vec<usize>,
    pub(crate) globals: Vec<usize>,
    pub(crate) tags: Vec<usize>,
    pub(crate) elements: Vec<Segment>,
    pub(crate) datas: Vec<Arc<[u8]>>,
}

impl Instance {
    /// What an export leads to. The instance is one of the engine `owner`.
    pub(crate) fn item(&self, item: Item, owner: EngineId) -> Extern {
        match item {
            Item::Func(index) => Extern::Function(Function {
                place: self.functions[index as usize],
                owner,
            }),
            Item::Table(index) => Extern::Table(self.tables[index as usize]),
            Item::Memory(index) => Extern::Memory(self.memories[index as usize]),
            Item::Global(index) => Extern::Global(self.globals[index as usize]),
            Item::Tag(index) => Extern::Tag(self.tags[index as usize]),
        }
    }
}
