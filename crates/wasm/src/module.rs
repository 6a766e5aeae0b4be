//! A module as it was decoded: what it declares, its types by their canonical numbers, and the bodies of its functions.

use std::sync::Arc;

use wasmparser::ValidatorResources;

use crate::types::{Number, RefType, ValType};

/// The limits of a memory, in pages, or of a table, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) least: u64,
    pub(crate) most: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableType {
    pub(crate) element: RefType,
    pub(crate) limits: Limits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GlobalType {
    pub(crate) content: ValType,
    pub(crate) mutable: bool,
}

/// What an import or export is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ItemType {
    Func(Number),
    Table(TableType),
    Memory(Limits),
    Global(GlobalType),
    Tag(Number),
}

#[derive(Clone, Debug)]
pub(crate) struct Import {
    pub(crate) module: String,
    pub(crate) name: String,
    pub(crate) ty: ItemType,
}

/// What an export leads to, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Item {
    Func(u32),
    Table(u32),
    Memory(u32),
    Global(u32),
    Tag(u32),
}

/// A constant expression: most are one instruction. The others are evaluated for each instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Constant {
    /// A number by its bits, or null.
    Bits(u64),
    /// The function with this index.
    Func(u32),
    /// The value of the global with this index.
    Global(u32),
    /// The value of the expression with this number.
    Expression(usize),
}

/// A constant expression of more than one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    /// Its instructions.
    pub(crate) body: Box<[u8]>,
    /// Where they begin in the module.
    pub(crate) start: usize,
}

/// Where the contents of a segment go at instantiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Passive,
    Active { index: u32, offset: Constant },
    Declared,
}

#[derive(Clone, Debug)]
pub(crate) struct Element {
    pub(crate) ty: RefType,
    pub(crate) mode: Mode,
    pub(crate) items: Vec<Constant>,
}

#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) mode: Mode,
    pub(crate) bytes: Arc<[u8]>,
}

#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub(crate) name: String,
    pub(crate) item: Item,
}

/// What a module declares. Imports come first in each index space.
#[derive(Default, Debug)]
pub(crate) struct Declarations {
    pub(crate) types: Vec<Number>,
    pub(crate) imports: Vec<Import>,
    pub(crate) funcs: Vec<Number>,
    pub(crate) imported_funcs: usize,
    pub(crate) tables: Vec<TableType>,
    /// Of the module's own tables, behind the imported ones.
    pub(crate) table_inits: Vec<Constant>,
    pub(crate) memories: Vec<Limits>,
    pub(crate) imported_memories: usize,
    pub(crate) globals: Vec<GlobalType>,
    /// Of the module's own globals, behind the imported ones.
    pub(crate) global_inits: Vec<Constant>,
    pub(crate) tags: Vec<Number>,
    pub(crate) imported_tags: usize,
    pub(crate) exports: Vec<Export>,
    pub(crate) start: Option<u32>,
    pub(crate) elements: Vec<Element>,
    pub(crate) datas: Vec<Data>,
    pub(crate) expressions: Vec<Expression>,
    /// Of the module's own functions, in the module's bytes.
    pub(crate) bodies: Vec<std::ops::Range<usize>>,
    /// What the validator knows of the module, if it has functions: the types of operands are found with it.
    pub(crate) validated: Option<ValidatorResources>,
    /// Names of functions by index, as the name section has them.
    pub(crate) names: std::collections::HashMap<u32, String>,
}

impl Declarations {
    pub(crate) fn imported_tables(&self) -> usize {
        self.tables.len() - self.table_inits.len()
    }

    pub(crate) fn imported_globals(&self) -> usize {
        self.globals.len() - self.global_inits.len()
    }

    /// What people call a function: its name, or its number.
    pub(crate) fn function_name(&self, index: u32) -> String {
        self.names
            .get(&index)
            .cloned()
            .unwrap_or_else(|| format!("function {index}"))
    }
}
