//! Arrays. Each lies in one piece: its type is registered so, whatever the heap's options say.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use wasmparser::Operator;

use super::objects::{Extension, Slowly};
use super::{Translator, trusted};
use crate::builtin::Builtin;
use crate::error::TrapKind;
use crate::layout::{Cell, Layout};
use crate::types::{Composite, Number, Storage};

/// An array whose elements are not written yet. Nothing may be called until they are.
struct ShortArray {
    cell: Cell,
    log2: u32,
    start: Value,
    elements: Value,
    /// Behind the last element.
    elements_end: Value,
    /// Behind the last word.
    end: Value,
}

/// Longer arrays of listed elements are allocated by a call: their elements are written one by one.
const LONGEST_INLINE: u32 = 256;

/// Arrays with more bytes of elements are allocated by a call, which is short beside filling them.
const MOST_INLINE_BYTES: u32 = 128;

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
                Some(self.new_array(number, Some(value), length))
            }
            Operator::ArrayNewDefault { array_type_index } => {
                let length = self.pop();
                Some(self.new_array(self.type_number(array_type_index), None, length))
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

    /// An array of so many elements, each with this value, or with zero or null. A short one is taken from the mutator's
    /// buffer.
    fn new_array(&mut self, number: Number, value: Option<Value>, length: Value) -> Value {
        let (slow, done) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(slow);
        let array = self.builder.append_block_param(done, types::I64);
        let short = self.short_array_or(slow, number, length);
        self.fill_short_array(&short, value);
        self.builder.ins().jump(done, &[short.start.into()]);
        self.builder.seal_block(slow);
        self.builder.switch_to_block(slow);
        let bits = value.map(|value| self.bits(short.cell, value));
        let number = self.int(number);
        let fresh = match bits {
            Some(bits) => self.call_builtin(Builtin::ArrayNew, &[number, bits, length]),
            None => self.call_builtin(Builtin::ArrayNewDefault, &[number, length]),
        };
        let fresh = fresh.expect("it returns the array");
        self.builder.ins().jump(done, &[fresh.into()]);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        self.fresh.push(array);
        array
    }

    /// Takes memory for an array from the mutator's buffer and writes its header and length. Goes to `slow` if it is long,
    /// or the buffer has no room.
    fn short_array_or(&mut self, slow: Block, number: Number, length: Value) -> ShortArray {
        let fast = self.fast();
        let (cell, log2) = self.array_cell(number);
        let first = i64::from(fast.elements_offset);
        let most = fast.whole_bytes.saturating_sub(fast.elements_offset);
        let most = i64::from(most.min(MOST_INLINE_BYTES) >> log2);
        let ins = self.builder.ins();
        let is_long = ins.icmp_imm_u(IntCC::UnsignedGreaterThan, length, most);
        self.go_on_unless(is_long, slow);
        let count = self.widen(length);
        let bytes = self.builder.ins().ishl_imm_u(count, i64::from(log2));
        let granule = i64::from(fast.granule);
        let padded = self.builder.ins().iadd_imm_u(bytes, first + granule - 1);
        let all = self.builder.ins().band_imm_s(padded, -granule);
        let mutator = self.mutator();
        let mut word = |offset: u32| {
            let ins = self.builder.ins();
            ins.load(types::I64, trusted(), mutator, offset as i32)
        };
        let (start, limit) = (word(fast.cursor_offset), word(fast.limit_offset));
        let left = self.builder.ins().isub(limit, start);
        let is_short = self.builder.ins().icmp(IntCC::UnsignedLessThan, left, all);
        self.go_on_unless(is_short, slow);
        let end = self.builder.ins().iadd(start, all);
        let cursor = fast.cursor_offset as i32;
        self.builder.ins().store(trusted(), end, mutator, cursor);
        // What is behind the last element. Where there is none, it is the word of the length.
        let zero = self.word(0);
        self.builder.ins().store(trusted(), zero, end, -8);
        let header = self.word(fast.header(self.registry().get(number).heap()) as i64);
        self.builder.ins().store(trusted(), header, start, 0);
        let place = fast.length_offset as i32;
        self.builder.ins().store(trusted(), length, start, place);
        let elements = self.builder.ins().iadd_imm_u(start, first);
        let elements_end = self.builder.ins().iadd(elements, bytes);
        ShortArray {
            cell,
            log2,
            start,
            elements,
            elements_end,
            end,
        }
    }

    fn fill_short_array(&mut self, array: &ShortArray, value: Option<Value>) {
        // Zeros are written by words.
        let (end, step) = match value {
            Some(_) => (array.elements_end, 1 << array.log2),
            None => (array.end, 8),
        };
        let (head, body, behind) = (
            self.builder.create_block(),
            self.builder.create_block(),
            self.builder.create_block(),
        );
        let at = self.builder.append_block_param(head, types::I64);
        self.builder.ins().jump(head, &[array.elements.into()]);
        self.builder.switch_to_block(head);
        let is_done = self.builder.ins().icmp(IntCC::Equal, at, end);
        self.builder.ins().brif(is_done, behind, &[], body, &[]);
        self.builder.seal_block(body);
        self.builder.switch_to_block(body);
        match value {
            Some(value) => self.store_cell(at, 0, array.cell, value),
            None => self.zero(at, [0]),
        }
        let next = self.builder.ins().iadd_imm_u(at, step);
        self.builder.ins().jump(head, &[next.into()]);
        self.builder.seal_block(head);
        self.builder.seal_block(behind);
        self.builder.switch_to_block(behind);
    }

    /// Goes to `elsewhere` if the condition holds, and on in a new block otherwise.
    fn go_on_unless(&mut self, condition: Value, elsewhere: Block) {
        let next = self.builder.create_block();
        self.builder
            .ins()
            .brif(condition, elsewhere, &[], next, &[]);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
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

    /// The address of an element, less the offset of the first one. The array is the operand at this depth.
    fn element(&mut self, array: Value, depth: usize, index: Value, log2: u32) -> Value {
        self.trap_if_operand_is_null(array, depth);
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
        let at = self.element(array, 1, index, log2);
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
                let at = self.element(array, 2, index, log2);
                let first = self.fast().elements_offset;
                self.store_cell_with_barrier(array, (at, first), cell, value);
            }
            Operator::ArrayLen => {
                let array = self.pop();
                self.trap_if_operand_is_null(array, 0);
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
