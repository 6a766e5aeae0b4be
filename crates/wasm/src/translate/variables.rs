//! Local and global variables.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::Operator;

use super::{Translator, machine_type, trusted};
use crate::types::ValType;

impl Translator<'_> {
    /// A local that is zero or null.
    pub(super) fn declare_local(&mut self, ty: ValType) {
        let zero = match machine_type(ty) {
            types::F32 => self.builder.ins().f32const(0.0),
            types::F64 => self.builder.ins().f64const(0.0),
            integer => self.builder.ins().iconst(integer, 0),
        };
        self.declare_local_with(ty, zero);
    }

    pub(super) fn declare_local_with(&mut self, ty: ValType, value: Value) {
        let variable = self.builder.declare_var(machine_type(ty));
        if self.registry().is_managed(ty) {
            self.builder.declare_var_needs_stack_map(variable);
        }
        self.builder.def_var(variable, value);
        self.locals.push((variable, ty));
    }

    pub(super) fn variable_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::LocalGet { local_index } => {
                let (variable, ty) = self.locals[local_index as usize];
                let value = self.builder.use_var(variable);
                self.push_typed(ty, value);
            }
            Operator::LocalSet { local_index } => {
                let value = self.pop();
                self.builder
                    .def_var(self.locals[local_index as usize].0, value);
            }
            Operator::LocalTee { local_index } => {
                let value = *self.stack.last().expect("validation counts operands");
                self.builder
                    .def_var(self.locals[local_index as usize].0, value);
            }
            Operator::GlobalGet { global_index } => {
                let ty = self.environment.declarations.globals[global_index as usize].content;
                let place = self.global(global_index);
                let value = self
                    .builder
                    .ins()
                    .load(machine_type(ty), trusted(), place, 0);
                self.push_typed(ty, value);
            }
            Operator::GlobalSet { global_index } => {
                let value = self.pop();
                let place = self.global(global_index);
                self.builder.ins().store(trusted(), value, place, 0);
            }
            _ => return false,
        }
        true
    }

    /// Where a global lies: 8 bytes. Those that hold references are roots of the heap, so stores need no barrier.
    fn global(&mut self, index: u32) -> Value {
        self.context_word(self.environment.context.global(index))
    }
}
