//! Structures.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::Operator;

use super::objects::{Extension, Slowly};
use super::{Translator, trusted};
use crate::layout::{Cell, Layout, Place};
use crate::types::{Composite, Storage};

impl Translator<'_> {
    pub(super) fn structure_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::StructNew { struct_type_index } => {
                let count = self.structure(struct_type_index).0.len();
                let values = self.pop_many(count);
                self.new_structure(struct_type_index, Some(&values));
            }
            Operator::StructNewDefault { struct_type_index } => {
                self.new_structure(struct_type_index, None)
            }
            Operator::StructGet {
                struct_type_index,
                field_index,
            } => {
                self.get_field(struct_type_index, field_index, Extension::Unsigned);
            }
            Operator::StructGetS {
                struct_type_index,
                field_index,
            } => {
                self.get_field(struct_type_index, field_index, Extension::Signed);
            }
            Operator::StructGetU {
                struct_type_index,
                field_index,
            } => {
                self.get_field(struct_type_index, field_index, Extension::Unsigned);
            }
            Operator::StructSet {
                struct_type_index,
                field_index,
            } => {
                let (object, value) = self.pop2();
                self.trap_if_operand_is_null(object, 1);
                let Place { offset, cell } =
                    self.structure(struct_type_index).0[field_index as usize];
                self.store_cell_with_barrier(object, (object, offset), cell, value);
            }
            _ => return false,
        }
        true
    }

    fn structure(&self, index: u32) -> (Vec<Place>, u32, Vec<u32>) {
        match self.registry().get(self.type_number(index)).layout() {
            Layout::Struct {
                places,
                bytes,
                gaps,
                ..
            } => (places.clone(), *bytes, gaps.clone()),
            Layout::Array { .. } => unreachable!("validation asks for a structure"),
        }
    }

    /// Allocates a structure and writes its fields; without values they are zero.
    fn new_structure(&mut self, index: u32, values: Option<&[Value]>) {
        let (places, bytes, gaps) = self.structure(index);
        let heap = self.registry().get(self.type_number(index)).heap();
        let object = self.allocate(heap, bytes, &Slowly::Structure);
        match values {
            Some(values) => {
                self.zero(object, gaps);
                self.write_fields(object, &places, values);
            }
            None => self.zero(object, (8..bytes).step_by(8)),
        }
        self.push(object);
    }

    pub(super) fn write_fields(&mut self, object: Value, places: &[Place], values: &[Value]) {
        for (place, &value) in places.iter().zip(values) {
            self.store_cell(object, place.offset, place.cell, value);
        }
    }

    /// Zeroes words of 8 bytes of a fresh object.
    pub(super) fn zero(&mut self, object: Value, offsets: impl IntoIterator<Item = u32>) {
        let zero = self.word(0);
        for offset in offsets {
            self.builder
                .ins()
                .store(trusted(), zero, object, offset as i32);
        }
    }

    fn get_field(&mut self, index: u32, field: u32, extension: Extension) {
        let object = self.pop();
        self.trap_if_operand_is_null(object, 0);
        let Place { offset, cell } = self.structure(index).0[field as usize];
        let value = self.load_cell(object, offset, cell, extension);
        let storage = self.field_storage(index, field);
        self.push_stored(storage, value);
    }

    fn field_storage(&self, index: u32, field: u32) -> Storage {
        match &self.registry().get(self.type_number(index)).sub.composite {
            Composite::Struct(fields) => fields[field as usize].storage,
            other => unreachable!("validation asks for a structure, not {other:?}"),
        }
    }

    /// What a builtin takes for a value of any type: its bits.
    pub(super) fn bits(&mut self, cell: Cell, value: Value) -> Value {
        let flags = cranelift_codegen::ir::MemFlagsData::new();
        match cell {
            Cell::F32 => {
                let bits = self.builder.ins().bitcast(types::I32, flags, value);
                self.widen(bits)
            }
            Cell::F64 => self.builder.ins().bitcast(types::I64, flags, value),
            Cell::I8 | Cell::I16 | Cell::I32 => self.widen(value),
            Cell::I64 | Cell::Function | Cell::Slot { .. } => value,
            Cell::V128 => unreachable!("no array has vectors"),
        }
    }
}
