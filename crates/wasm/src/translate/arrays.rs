//! Arrays. Each lies in one piece: its type is registered so, whatever the heap's options say.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::Operator;

use super::objects::{Extension, Slowly};
use super::{Translator, trusted};
use crate::builtin::Builtin;
use crate::error::TrapKind;
use crate::layout::{Cell, Layout};
use crate::types::{Composite, Number, Storage};

/// Longer arrays of listed elements are allocated by a call: their elements are written one by one.
const LONGEST_INLINE: u32 = 256;

impl Translator<'_> {
    pub(super) fn array_operator(&mut self, operator: &Operator<'_>) -> bool {
        self.new_array_operator(operator)
            || self.element_operator(operator)
            || self.bulk_array_operator(operator)
    }

    fn array_cell(&self, number: Number) -> (Cell, u32) {
        match *self.registry().get(number).layout() {
            Layout::Array { cell, log2 } => (cell, log2),
            Layout::Struct { .. } => unreachable!("validation asks for an array"),
        }
    }

    fn new_array_operator(&mut self, operator: &Operator<'_>) -> bool {
        let array = match *operator {
            Operator::ArrayNew { array_type_index } => {
                let number = self.type_number(array_type_index);
                let (value, length) = self.pop2();
                let bits = self.bits(self.array_cell(number).0, value);
                let number = self.int(number);
                self.call_builtin(Builtin::ArrayNew, &[number, bits, length])
            }
            Operator::ArrayNewDefault { array_type_index } => {
                let length = self.pop();
                let number = self.int(self.type_number(array_type_index));
                self.call_builtin(Builtin::ArrayNewDefault, &[number, length])
            }
            Operator::ArrayNewFixed {
                array_type_index,
                array_size,
            } => {
                let values = self.pop_many(array_size as usize);
                Some(self.new_fixed(self.type_number(array_type_index), &values))
            }
            Operator::ArrayNewData {
                array_type_index,
                array_data_index,
            } => {
                let (from, length) = self.pop2();
                let number = self.int(self.type_number(array_type_index));
                let data = self.int(array_data_index);
                self.call_builtin(Builtin::ArrayNewData, &[number, data, from, length])
            }
            Operator::ArrayNewElem {
                array_type_index,
                array_elem_index,
            } => {
                let (from, length) = self.pop2();
                let number = self.int(self.type_number(array_type_index));
                let element = self.int(array_elem_index);
                self.call_builtin(Builtin::ArrayNewElement, &[number, element, from, length])
            }
            _ => return false,
        };
        self.push_reference(array.expect("it returns the array"));
        true
    }

    /// An array of these elements. They are in the slots of the stack map while the array is allocated, and nothing is
    /// called until they are written.
    fn new_fixed(&mut self, number: Number, values: &[Value]) -> Value {
        let (cell, log2) = self.array_cell(number);
        let first = self.fast().elements_offset;
        let length = values.len() as u32;
        let bytes = (first + (length << log2)).next_multiple_of(self.fast().granule);
        let array = if length <= LONGEST_INLINE {
            let heap = self.registry().get(number).heap();
            let array = self.allocate(heap, bytes, &Slowly::Array { number, length });
            // The length, and the bytes behind the last element.
            self.zero(array, (bytes > first).then_some(bytes - 8));
            let length = self.int(length);
            let offset = self.fast().length_offset as i32;
            self.builder.ins().store(trusted(), length, array, offset);
            array
        } else {
            let (number, length) = (self.int(number), self.int(length));
            let array = self.call_builtin(Builtin::ArrayNewDefault, &[number, length]);
            array.expect("it returns the array")
        };
        for (index, &value) in values.iter().enumerate() {
            self.store_cell(array, first + ((index as u32) << log2), cell, value);
        }
        array
    }

    /// The address of an element, less the offset of the first one.
    fn element(&mut self, array: Value, index: Value, log2: u32) -> Value {
        self.trap_if_null(array, TrapKind::NullReference);
        let length = self.length(array);
        let is_beyond = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.trap_if(TrapKind::ArrayBounds, is_beyond);
        let index = self.widen(index);
        let offset = self.builder.ins().ishl_imm_u(index, i64::from(log2));
        self.builder.ins().iadd(array, offset)
    }

    fn length(&mut self, array: Value) -> Value {
        let offset = self.fast().length_offset as i32;
        self.builder
            .ins()
            .load(types::I32, trusted(), array, offset)
    }

    fn get_element(&mut self, index: u32, extension: Extension) {
        let number = self.type_number(index);
        let (cell, log2) = self.array_cell(number);
        let (array, index) = self.pop2();
        let at = self.element(array, index, log2);
        let value = self.load_cell(at, self.fast().elements_offset, cell, extension);
        let storage = self.element_storage(number);
        self.push_stored(storage, value);
    }

    fn element_storage(&self, number: Number) -> Storage {
        match &self.registry().get(number).sub.composite {
            Composite::Array(element) => element.storage,
            other => unreachable!("validation asks for an array, not {other:?}"),
        }
    }

    fn element_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::ArrayGet { array_type_index } | Operator::ArrayGetU { array_type_index } => {
                self.get_element(array_type_index, Extension::Unsigned);
            }
            Operator::ArrayGetS { array_type_index } => {
                self.get_element(array_type_index, Extension::Signed)
            }
            Operator::ArraySet { array_type_index } => {
                let (cell, log2) = self.array_cell(self.type_number(array_type_index));
                let (array, index, value) = self.pop3();
                let at = self.element(array, index, log2);
                self.store_cell_with_barrier(at, self.fast().elements_offset, cell, value);
            }
            Operator::ArrayLen => {
                let array = self.pop();
                self.trap_if_null(array, TrapKind::NullReference);
                let length = self.length(array);
                self.push(length);
            }
            _ => return false,
        }
        true
    }

    fn bulk_array_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::ArrayFill { array_type_index } => {
                let number = self.type_number(array_type_index);
                let count = self.pop();
                let (array, index, value) = self.pop3();
                let bits = self.bits(self.array_cell(number).0, value);
                let number = self.int(number);
                self.call_builtin(Builtin::ArrayFill, &[number, array, index, bits, count]);
            }
            Operator::ArrayCopy { .. } => {
                let (from, from_index, count) = self.pop3();
                let (to, to_index) = self.pop2();
                self.call_builtin(Builtin::ArrayCopy, &[to, to_index, from, from_index, count]);
            }
            Operator::ArrayInitData {
                array_type_index,
                array_data_index,
            } => {
                let (index, from, count) = self.pop3();
                let array = self.pop();
                let number = self.int(self.type_number(array_type_index));
                let data = self.int(array_data_index);
                self.call_builtin(
                    Builtin::ArrayInitData,
                    &[number, data, array, index, from, count],
                );
            }
            Operator::ArrayInitElem {
                array_type_index,
                array_elem_index,
            } => {
                let (index, from, count) = self.pop3();
                let array = self.pop();
                let number = self.int(self.type_number(array_type_index));
                let element = self.int(array_elem_index);
                self.call_builtin(
                    Builtin::ArrayInitElement,
                    &[number, element, array, index, from, count],
                );
            }
            _ => return false,
        }
        true
    }
}
