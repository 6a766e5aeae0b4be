//! Objects of the heap: allocation, and how values lie in them.
//!
//! An allocation takes memory from the mutator's buffer, and calls only when that is used up. Its caller writes all of the
//! object before anything else is called, without a barrier. A later store of a reference dirties the card of its slot.
//!
//! The barrier is there for one thing: a collection of young objects must find what old objects refer to. So it is left out
//! where the store makes no old object refer to a young one ([`Translator::may_make_old_refer_to_young`]).

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::instructions::InstructionData;
use cranelift_codegen::ir::{InstBuilder, Opcode, Value, ValueDef, types};
use gleaner::raw::{Barrier, TypeId};

use super::{Translator, trusted, unaligned};
use crate::builtin::Builtin;
use crate::layout::Cell;

/// How a narrow integer is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    Signed,
    Unsigned,
}

/// What an allocation does when the mutator's buffer is used up.
pub(super) enum Slowly {
    /// It asks for a structure of so many bytes.
    Structure,
    /// It asks for an array of the type with this number, of so many elements.
    Array { number: u32, length: u32 },
}

impl Translator<'_> {
    /// A fresh object of `bytes` bytes, whose header is written. The caller writes all else before it calls anything.
    pub(super) fn allocate(&mut self, heap: TypeId, bytes: u32, slowly: &Slowly) -> Value {
        let fast = self.fast();
        let most = match slowly {
            Slowly::Structure => fast.large_bytes,
            Slowly::Array { .. } => fast.whole_bytes,
        };
        let done = self.builder.create_block();
        let object = self.builder.append_block_param(done, types::I64);
        if bytes <= most {
            self.allocate_in_buffer(heap, bytes, done);
        }
        let fresh = match *slowly {
            Slowly::Structure => {
                let (heap, bytes) = (self.int(heap.get()), self.int(bytes));
                self.call_builtin(Builtin::Allocate, &[heap, bytes])
            }
            Slowly::Array { number, length } => {
                let (number, length) = (self.int(number), self.int(length));
                self.call_builtin(Builtin::ArrayNewDefault, &[number, length])
            }
        };
        self.builder
            .ins()
            .jump(done, &[fresh.expect("it returns the object").into()]);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        self.note_reference(object);
        self.fresh.push(object);
        object
    }

    /// Goes to `done` with the object, or on in a block for what the buffer has no room for.
    fn allocate_in_buffer(&mut self, heap: TypeId, bytes: u32, done: cranelift_codegen::ir::Block) {
        let fast = self.fast();
        let mutator = self.mutator();
        let cursor =
            self.builder
                .ins()
                .load(types::I64, trusted(), mutator, fast.cursor_offset as i32);
        let limit =
            self.builder
                .ins()
                .load(types::I64, trusted(), mutator, fast.limit_offset as i32);
        let left = self.builder.ins().isub(limit, cursor);
        let is_short =
            self.builder
                .ins()
                .icmp_imm_u(IntCC::UnsignedLessThan, left, i64::from(bytes));
        let (slow, there) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(slow);
        self.builder.ins().brif(is_short, slow, &[], there, &[]);
        self.builder.seal_block(slow);
        self.builder.seal_block(there);
        self.builder.switch_to_block(there);
        let next = self.builder.ins().iadd_imm_u(cursor, i64::from(bytes));
        self.builder
            .ins()
            .store(trusted(), next, mutator, fast.cursor_offset as i32);
        let header = self.word(fast.header(heap) as i64);
        self.builder.ins().store(trusted(), header, cursor, 0);
        self.builder.ins().jump(done, &[cursor.into()]);
        self.builder.switch_to_block(slow);
    }

    /// Reads what lies at `offset` behind an address within an object.
    pub(super) fn load_cell(
        &mut self,
        at: Value,
        offset: u32,
        cell: Cell,
        extension: Extension,
    ) -> Value {
        let offset = offset as i32;
        let is_signed = extension == Extension::Signed;
        match cell {
            Cell::I8 if is_signed => self.builder.ins().sload8(types::I32, trusted(), at, offset),
            Cell::I8 => self.builder.ins().uload8(types::I32, trusted(), at, offset),
            Cell::I16 if is_signed => self
                .builder
                .ins()
                .sload16(types::I32, trusted(), at, offset),
            Cell::I16 => self
                .builder
                .ins()
                .uload16(types::I32, trusted(), at, offset),
            Cell::I32 => self.builder.ins().load(types::I32, trusted(), at, offset),
            Cell::F32 => self.builder.ins().load(types::F32, trusted(), at, offset),
            Cell::F64 => self.builder.ins().load(types::F64, trusted(), at, offset),
            Cell::V128 => self
                .builder
                .ins()
                .load(types::I8X16, unaligned(), at, offset),
            Cell::I64 | Cell::Function => {
                self.builder.ins().load(types::I64, trusted(), at, offset)
            }
            Cell::Slot { .. } if self.fast().slot_bytes == 8 => {
                self.builder.ins().load(types::I64, trusted(), at, offset)
            }
            Cell::Slot { immediate } => {
                let word = self.builder.ins().uload32(trusted(), at, offset);
                self.decode(word, immediate)
            }
        }
    }

    /// Writes a value where it lies in an object. The barrier is the caller's.
    pub(super) fn store_cell(&mut self, at: Value, offset: u32, cell: Cell, value: Value) {
        let offset = offset as i32;
        match cell {
            Cell::I8 => self.builder.ins().istore8(trusted(), value, at, offset),
            Cell::I16 => self.builder.ins().istore16(trusted(), value, at, offset),
            Cell::V128 => self.builder.ins().store(unaligned(), value, at, offset),
            Cell::Slot { immediate } if self.fast().slot_bytes == 4 => {
                let word = self.encode(value, immediate);
                self.builder.ins().store(trusted(), word, at, offset)
            }
            _ => self.builder.ins().store(trusted(), value, at, offset),
        };
    }

    /// Whether a store of the value on top of the stack into an object can make an old object refer to a young one. Null
    /// and integers are no objects. An object that no collection has seen is young, or the heap lets its slots be written
    /// without the barrier until the next allocation or poll; and between two calls there is neither.
    fn may_make_old_refer_to_young(&self, object: Value, value: Value) -> bool {
        // Another kind of barrier may be there for more.
        let Barrier::Cards = self.fast().barrier;
        let dfg = &self.builder.func.dfg;
        let object = dfg.resolve_aliases(object);
        let mut fresh = self.fresh.iter();
        !(self.is_never_object(0)
            || self.is_null(value)
            || fresh.any(|&fresh| dfg.resolve_aliases(fresh) == object))
    }

    /// Whether a reference is the constant null.
    fn is_null(&self, reference: Value) -> bool {
        let dfg = &self.builder.func.dfg;
        let ValueDef::Result(inst, _) = dfg.value_def(dfg.resolve_aliases(reference)) else {
            return false;
        };
        matches!(
            dfg.insts[inst],
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } if imm.bits() == 0
        )
    }

    /// As [`Translator::store_cell`], of the value on top of the stack into an object that may be old. `at` is an address
    /// within it.
    pub(super) fn store_cell_with_barrier(
        &mut self,
        object: Value,
        (at, offset): (Value, u32),
        cell: Cell,
        value: Value,
    ) {
        self.store_cell(at, offset, cell, value);
        if !matches!(cell, Cell::Slot { .. }) {
            return;
        }
        if !self.may_make_old_refer_to_young(object, value) {
            return;
        }
        let fast = self.fast();
        let slot = self.builder.ins().iadd_imm_u(at, i64::from(offset));
        let card = self
            .builder
            .ins()
            .ushr_imm_u(slot, i64::from(fast.card_shift));
        let base = self.word(fast.card_base as i64);
        let card = self.builder.ins().iadd(card, base);
        let dirty = self
            .builder
            .ins()
            .iconst(types::I8, i64::from(fast.card_dirty));
        self.builder.ins().store(trusted(), dirty, card, 0);
    }

    /// The reference of a compressed slot.
    fn decode(&mut self, word: Value, immediate: bool) -> Value {
        let fast = self.fast();
        let mut reference = self
            .builder
            .ins()
            .ishl_imm_u(word, i64::from(fast.slot_shift));
        if fast.slot_base != 0 {
            let base = self.word(fast.slot_base as i64);
            let object = self.builder.ins().iadd(reference, base);
            let is_null = self.builder.ins().icmp_imm_u(IntCC::Equal, word, 0);
            reference = self.builder.ins().select(is_null, word, object);
        }
        if !immediate {
            return reference;
        }
        let narrow = self.builder.ins().ireduce(types::I32, word);
        let integer = self.builder.ins().sextend(types::I64, narrow);
        let is_immediate = self.builder.ins().band_imm_u(word, 1);
        self.builder.ins().select(is_immediate, integer, reference)
    }

    /// What a compressed slot holds for a reference.
    fn encode(&mut self, reference: Value, immediate: bool) -> Value {
        let fast = self.fast();
        let mut word = reference;
        if fast.slot_base != 0 {
            let base = self.word(fast.slot_base as i64);
            let distance = self.builder.ins().isub(reference, base);
            let is_null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
            word = self.builder.ins().select(is_null, reference, distance);
        }
        word = self
            .builder
            .ins()
            .ushr_imm_u(word, i64::from(fast.slot_shift));
        if immediate {
            let is_immediate = self.builder.ins().band_imm_u(reference, 1);
            word = self.builder.ins().select(is_immediate, reference, word);
        }
        self.builder.ins().ireduce(types::I32, word)
    }
}
