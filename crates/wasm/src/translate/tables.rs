//! Tables, and references to functions.
//!
//! A table has 8 bytes for each element, outside of the heap. Tables of references to objects are roots of the heap, so
//! stores need no barrier.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::Operator;

use super::{Translator, trusted};
use crate::builtin::Builtin;
use crate::context::TableRecord;
use crate::error::TrapKind;
use crate::types::ValType;

impl Translator<'_> {
    /// Where an element of a table lies; `trap` says what becomes of an index beyond its end.
    pub(super) fn table_element(&mut self, table: u32, index: Value, trap: TrapKind) -> Value {
        let record = self.context_word(self.environment.context.table(table));
        let index = self.widen(index);
        let length = self
            .builder
            .ins()
            .load(types::I64, trusted(), record, TableRecord::LENGTH);
        let is_beyond = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
        self.trap_if(trap, is_beyond);
        let base = self
            .builder
            .ins()
            .load(types::I64, trusted(), record, TableRecord::BASE);
        let offset = self.builder.ins().ishl_imm_u(index, 3);
        self.builder.ins().iadd(base, offset)
    }

    pub(super) fn table_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::RefNull { .. } => {
                let null = self.word(0);
                self.push(null);
            }
            Operator::RefIsNull => {
                let reference = self.pop();
                let flag = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
                self.push_flag(flag);
            }
            Operator::RefAsNonNull => {
                let reference = self.pop();
                self.trap_if_operand_is_null(reference, 0);
                self.push(reference);
            }
            Operator::RefFunc { function_index } => {
                let record = self.context_word(self.environment.context.function(function_index));
                self.push(record);
            }
            Operator::TableGet { table } => {
                let index = self.pop();
                let place = self.table_element(table, index, TrapKind::TableBounds);
                let value = self.builder.ins().load(types::I64, trusted(), place, 0);
                let ty = ValType::Ref(self.environment.declarations.tables[table as usize].element);
                self.push_typed(ty, value);
            }
            Operator::TableSet { table } => {
                let (index, value) = self.pop2();
                let place = self.table_element(table, index, TrapKind::TableBounds);
                self.builder.ins().store(trusted(), value, place, 0);
            }
            Operator::TableSize { table } => {
                let record = self.context_word(self.environment.context.table(table));
                let length =
                    self.builder
                        .ins()
                        .load(types::I64, trusted(), record, TableRecord::LENGTH);
                let length = self.builder.ins().ireduce(types::I32, length);
                self.push(length);
            }
            Operator::TableGrow { table } => {
                let (value, count) = self.pop2();
                let table = self.int(table);
                let before = self.call_builtin(Builtin::TableGrow, &[table, value, count]);
                self.push(before.expect("it returns the size"));
            }
            Operator::TableFill { table } => {
                let (at, value, count) = self.pop3();
                let table = self.int(table);
                self.call_builtin(Builtin::TableFill, &[table, at, value, count]);
            }
            Operator::TableCopy {
                dst_table,
                src_table,
            } => {
                let (to, from, count) = self.pop3();
                let (dst_table, src_table) = (self.int(dst_table), self.int(src_table));
                self.call_builtin(Builtin::TableCopy, &[dst_table, to, src_table, from, count]);
            }
            Operator::TableInit { elem_index, table } => {
                let (to, from, count) = self.pop3();
                let (table, element) = (self.int(table), self.int(elem_index));
                self.call_builtin(Builtin::TableInit, &[table, element, to, from, count]);
            }
            Operator::ElemDrop { elem_index } => {
                let element = self.int(elem_index);
                self.call_builtin(Builtin::ElementDrop, &[element]);
            }
            _ => return false,
        }
        true
    }
}
