//! What is imported and what is there, in words: for messages.

use crate::instance::Extern;
use crate::module::{GlobalType, ItemType, Limits, TableType};
use crate::state::State;
use crate::types::{HeapType, Number, RefType, ValType};

impl State {
    /// What an import asks for.
    pub(crate) fn wanted_in_words(&self, ty: ItemType) -> String {
        match ty {
            ItemType::Func(number) => self.function_in_words(number),
            ItemType::Table(table) => self.table_in_words(table),
            ItemType::Memory(limits) => format!("a memory of {}", limits_in_words(limits, "pages")),
            ItemType::Global(global) => self.global_in_words(global),
            ItemType::Tag(number) => format!("a tag with {}", self.values_in_words(number, true)),
        }
    }

    /// What the host has.
    pub(crate) fn found_in_words(&self, item: Extern) -> String {
        self.wanted_in_words(match item {
            Extern::Function(function) => ItemType::Func(function.record(self.id).number),
            Extern::Table(table) => ItemType::Table(self.tables[table].ty()),
            Extern::Memory(memory) => ItemType::Memory(self.memories[memory].limits()),
            Extern::Global(global) => ItemType::Global(self.globals[global].ty),
            Extern::Tag(tag) => ItemType::Tag(self.tags[tag]),
        })
    }

    fn function_in_words(&self, number: Number) -> String {
        format!(
            "a function {} -> {}",
            self.values_in_words(number, true),
            self.values_in_words(number, false)
        )
    }

    fn table_in_words(&self, table: TableType) -> String {
        let limits = limits_in_words(table.limits, "elements");
        format!(
            "a table of {limits}, {}",
            self.reference_in_words(table.element)
        )
    }

    fn global_in_words(&self, global: GlobalType) -> String {
        let kind = if global.mutable {
            "a global that changes"
        } else {
            "a constant global"
        };
        format!("{kind}, {}", self.value_in_words(global.content))
    }

    /// The parameters of a function type, or its results.
    fn values_in_words(&self, number: Number, params: bool) -> String {
        let signature = self.registry.get(number).signature();
        let values = if params {
            &signature.params
        } else {
            &signature.results
        };
        let words: Vec<String> = values.iter().map(|&ty| self.value_in_words(ty)).collect();
        format!("({})", words.join(" "))
    }

    fn value_in_words(&self, ty: ValType) -> String {
        match ty {
            ValType::I32 => "i32".into(),
            ValType::I64 => "i64".into(),
            ValType::F32 => "f32".into(),
            ValType::F64 => "f64".into(),
            ValType::Ref(of) => self.reference_in_words(of),
        }
    }

    fn reference_in_words(&self, of: RefType) -> String {
        let heap = match of.heap {
            HeapType::Any => "any",
            HeapType::Eq => "eq",
            HeapType::I31 => "i31",
            HeapType::Struct => "struct",
            HeapType::Array => "array",
            HeapType::None => "none",
            HeapType::Func => "func",
            HeapType::NoFunc => "nofunc",
            HeapType::Extern => "extern",
            HeapType::NoExtern => "noextern",
            HeapType::Exn => "exn",
            HeapType::NoExn => "noexn",
            // Not what it takes and gives: that may be functions of its own type.
            HeapType::Concrete(_) if self.registry.is_function(of.heap) => {
                "a function type of the module"
            }
            HeapType::Concrete(_) => "a type of the module",
        };
        let null = if of.nullable { "null " } else { "" };
        format!("(ref {null}{heap})")
    }
}

fn limits_in_words(limits: Limits, of: &str) -> String {
    match limits.most {
        Some(most) => format!("{} to {most} {of}", limits.least),
        None => format!("at least {} {of}", limits.least),
    }
}
