//! Exceptions.
//!
//! The payload of an exception is an object of the heap: its first field is the tag, by its number in the engine, and the
//! parameters follow. `try_table` opens a handler with a landing block. A `throw` within the same function
//! jumps there. A call in a handler lands there when the runtime unwinds to it. The landing block compares the tag with that
//! of each clause, and goes on to the next handler outside if none fits.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{BlockArg, InstBuilder, TrapCode, Value, types};
use wasmparser::{Catch, Operator, TryTable};

use super::Translator;
use super::objects::{Extension, Slowly};
use crate::builtin::Builtin;
use crate::layout::{Layout, Place};

impl Translator<'_> {
    pub(super) fn exception_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::TryTable { ref try_table } => self.open_try(try_table),
            Operator::Throw { tag_index } => self.throw(tag_index),
            Operator::ThrowRef => {
                let exception = self.pop();
                self.trap_if_operand_is_null(exception, 0);
                self.throw_object(exception);
            }
            _ => return false,
        }
        true
    }

    fn open_try(&mut self, of: &TryTable) {
        let body = self.builder.create_block();
        self.builder.ins().jump(body, &[]);
        self.builder.seal_block(body);
        let landing = self.builder.create_block();
        self.builder.set_cold_block(landing);
        let exception = self.builder.append_block_param(landing, types::I64);
        self.note_reference(exception);
        self.builder.switch_to_block(landing);
        for clause in &of.catches {
            self.clause(exception, *clause);
        }
        if self.reachable {
            self.throw_object(exception);
        }
        self.reachable = true;
        self.builder.switch_to_block(body);
        self.open_block(of.ty);
        self.handlers.push(landing);
    }

    /// Goes to the label of a clause if it fits, with the payload and the exception as the clause asks.
    fn clause(&mut self, exception: Value, clause: Catch) {
        let (tag, label, with_reference) = match clause {
            _ if !self.reachable => return,
            Catch::One { tag, label } => (Some(tag), label, false),
            Catch::OneRef { tag, label } => (Some(tag), label, true),
            Catch::All { label } => (None, label, false),
            Catch::AllRef { label } => (None, label, true),
        };
        let Some(tag) = tag else {
            let (block, _) = self.label(label);
            let values: &[BlockArg] = if with_reference {
                &[exception.into()]
            } else {
                &[]
            };
            self.builder.ins().jump(block, values);
            self.reachable = false;
            return;
        };
        let places = self.payload(tag).0;
        let thrown = self.load_cell(
            exception,
            places[0].offset,
            places[0].cell,
            Extension::Unsigned,
        );
        let own = self.context_word(self.environment.context.tag(tag));
        let fits = self.builder.ins().icmp(IntCC::Equal, thrown, own);
        let (caught, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(fits, caught, &[], next, &[]);
        self.builder.seal_block(caught);
        self.builder.seal_block(next);
        self.builder.switch_to_block(caught);
        let mut values: Vec<BlockArg> = Vec::new();
        let params = self
            .registry()
            .get(self.environment.declarations.tags[tag as usize])
            .signature()
            .params
            .clone();
        for (place, ty) in places[1..].iter().zip(params) {
            let value = self.load_cell(exception, place.offset, place.cell, Extension::Unsigned);
            self.note(ty, value);
            values.push(value.into());
        }
        if with_reference {
            values.push(exception.into());
        }
        let (block, _) = self.label(label);
        self.builder.ins().jump(block, &values);
        self.builder.switch_to_block(next);
    }

    /// Where tag and payload of an exception lie, its bytes, and the words that no field fills.
    fn payload(&self, tag: u32) -> (Vec<Place>, u32, Vec<u32>) {
        let number = self.environment.declarations.tags[tag as usize];
        match &self.environment.exceptions[&number].layout {
            Layout::Struct {
                places,
                bytes,
                gaps,
                ..
            } => (places.clone(), *bytes, gaps.clone()),
            Layout::Array { .. } => unreachable!("payloads are structures"),
        }
    }

    fn throw(&mut self, tag: u32) {
        let (places, bytes, gaps) = self.payload(tag);
        let mut values = self.pop_many(places.len() - 1);
        let number = self.environment.declarations.tags[tag as usize];
        let object = self.allocate(
            self.environment.exceptions[&number].heap,
            bytes,
            &Slowly::Structure,
        );
        let identity = self.context_word(self.environment.context.tag(tag));
        values.insert(0, identity);
        self.zero(object, gaps);
        self.write_fields(object, &places, &values);
        self.throw_object(object);
    }

    fn throw_object(&mut self, exception: Value) {
        if let Some(&landing) = self.handlers.last() {
            self.builder.ins().jump(landing, &[exception.into()]);
        } else {
            self.call_builtin(Builtin::Throw, &[exception]);
            self.builder.ins().trap(TrapCode::unwrap_user(1));
        }
        self.reachable = false;
    }
}
