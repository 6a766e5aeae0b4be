//! Tests and casts of references, and integers of 31 bits.
//!
//! The type of an object stands in its header. A final type is found by one comparison. For others the heap's word of the
//! type leads to a description with the display, and a type is a subtype of another if the other one's number is at its
//! place there. Null and an integer of 31 bits have no header: they are looked for first, unless the type of the operand
//! excludes them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use wasmparser::Operator;

use super::{Translator, fixed, trusted};
use crate::context::FuncRecord;
use crate::error::TrapKind;
use crate::registry::{Kind, description};
use crate::types::{HeapType, Number, RefType};

impl Translator<'_> {
    pub(super) fn cast_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::RefTestNonNull { hty } => self.test(hty, false),
            Operator::RefTestNullable { hty } => self.test(hty, true),
            Operator::RefCastNonNull { hty } => self.cast(hty, false),
            Operator::RefCastNullable { hty } => self.cast(hty, true),
            Operator::BrOnCast {
                relative_depth,
                to_ref_type,
                ..
            } => {
                let has_type = self.top_has(to_ref_type);
                self.branch_if(has_type, relative_depth);
            }
            Operator::BrOnCastFail {
                relative_depth,
                to_ref_type,
                ..
            } => {
                let has_type = self.top_has(to_ref_type);
                let has_not = self.builder.ins().icmp_imm_u(IntCC::Equal, has_type, 0);
                self.branch_if(has_not, relative_depth);
            }
            Operator::RefEq => {
                let (one, other) = self.pop2();
                let flag = self.builder.ins().icmp(IntCC::Equal, one, other);
                self.push_flag(flag);
            }
            // Values of the host and of the program are held alike.
            Operator::AnyConvertExtern | Operator::ExternConvertAny => {}
            Operator::RefI31 => {
                let integer = self.pop();
                let shifted = self.builder.ins().ishl_imm_u(integer, 1);
                let marked = self.builder.ins().bor_imm_u(shifted, 1);
                let reference = self.builder.ins().sextend(types::I64, marked);
                self.push_reference(reference);
            }
            Operator::I31GetS => {
                let marked = self.integer();
                let integer = self.builder.ins().sshr_imm_u(marked, 1);
                self.push(integer);
            }
            Operator::I31GetU => {
                let marked = self.integer();
                let integer = self.builder.ins().ushr_imm_u(marked, 1);
                self.push(integer);
            }
            _ => return false,
        }
        true
    }

    /// The integer on the stack, with its mark.
    fn integer(&mut self) -> Value {
        let reference = self.pop();
        self.trap_if_operand_is_null(reference, 0);
        self.builder.ins().ireduce(types::I32, reference)
    }

    fn test(&mut self, ty: wasmparser::HeapType, nullable: bool) {
        let heap = self.heap_type(ty);
        let reference = self.pop();
        let flag = self.has_type(reference, RefType { nullable, heap });
        self.push_flag(flag);
    }

    fn cast(&mut self, ty: wasmparser::HeapType, nullable: bool) {
        let heap = self.heap_type(ty);
        let reference = *self.stack.last().expect("validation counts operands");
        let flag = self.has_type(reference, RefType { nullable, heap });
        let has_not = self.builder.ins().icmp_imm_u(IntCC::Equal, flag, 0);
        self.trap_if(TrapKind::CastFailure, has_not);
    }

    /// Whether the reference on the stack, which stays there, has the type.
    fn top_has(&mut self, ty: wasmparser::RefType) -> Value {
        let heap = self.heap_type(ty.heap_type());
        let reference = *self.stack.last().expect("validation counts operands");
        self.has_type(
            reference,
            RefType {
                nullable: ty.is_nullable(),
                heap,
            },
        )
    }

    fn flag(&mut self, value: bool) -> Value {
        self.builder.ins().iconst(types::I8, i64::from(value))
    }

    /// Whether a reference, the operand on top of the stack, has the type: 8 bits.
    fn has_type(&mut self, reference: Value, ty: RefType) -> Value {
        let how = match ty.heap {
            HeapType::None | HeapType::NoFunc | HeapType::NoExtern | HeapType::NoExn
                if ty.nullable =>
            {
                IntCC::Equal
            }
            HeapType::None | HeapType::NoFunc | HeapType::NoExtern | HeapType::NoExn => {
                return self.flag(false);
            }
            HeapType::Any | HeapType::Func | HeapType::Extern | HeapType::Exn
                if ty.nullable || self.is_never_null(0) =>
            {
                return self.flag(true);
            }
            HeapType::Any | HeapType::Func | HeapType::Extern | HeapType::Exn => IntCC::NotEqual,
            _ => return self.has_defined_type(reference, ty),
        };
        self.builder.ins().icmp_imm_u(how, reference, 0)
    }

    fn has_defined_type(&mut self, reference: Value, ty: RefType) -> Value {
        let done = self.builder.create_block();
        let flag = self.builder.append_block_param(done, types::I8);
        if !self.is_never_null(0) {
            let is_null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
            self.decide_if(is_null, ty.nullable, done);
        }
        let found = match ty.heap {
            HeapType::Concrete(number) if self.registry().is_function(ty.heap) => {
                self.function_has_type(reference, number)
            }
            HeapType::I31 => {
                let mark = self.builder.ins().band_imm_u(reference, 1);
                self.builder.ins().icmp_imm_u(IntCC::NotEqual, mark, 0)
            }
            heap => {
                if !self.is_never_integer(0) {
                    let mark = self.builder.ins().band_imm_u(reference, 1);
                    self.decide_if(mark, heap == HeapType::Eq, done);
                }
                self.object_has_type(reference, heap)
            }
        };
        self.builder.ins().jump(done, &[found.into()]);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        flag
    }

    /// Goes to `done` with `answer` if the condition holds.
    fn decide_if(&mut self, condition: Value, answer: bool, done: Block) {
        let next = self.builder.create_block();
        let answer = self.flag(answer);
        self.builder
            .ins()
            .brif(condition, done, &[answer.into()], next, &[]);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
    }

    /// Whether an object has the type, which is a structure or an array.
    fn object_has_type(&mut self, object: Value, heap: HeapType) -> Value {
        let fast = self.fast();
        let header = self.builder.ins().load(types::I64, trusted(), object, 0);
        let found = self
            .builder
            .ins()
            .ushr_imm_u(header, i64::from(fast.type_shift));
        if let HeapType::Concrete(number) = heap {
            let entry = self.registry().get(number);
            if entry.sub.is_final {
                return self.builder.ins().icmp_imm_u(
                    IntCC::Equal,
                    found,
                    i64::from(entry.heap().get()),
                );
            }
        }
        let scaled = self.builder.ins().ishl_imm_u(found, 3);
        let words = self.word(fast.type_data as i64);
        let word = self.builder.ins().iadd(words, scaled);
        let described = self.builder.ins().load(types::I64, trusted(), word, 0);
        if let HeapType::Concrete(number) = heap {
            return self.display_has(described, number);
        }
        let kind =
            self.builder
                .ins()
                .load(types::I32, fixed(), described, description::KIND as i32);
        let mut is = |of: Kind| {
            self.builder
                .ins()
                .icmp_imm_u(IntCC::Equal, kind, i64::from(of as u32))
        };
        match heap {
            HeapType::Struct => is(Kind::Struct),
            HeapType::Array => is(Kind::Array),
            _ => {
                let (structure, array) = (is(Kind::Struct), is(Kind::Array));
                self.builder.ins().bor(structure, array)
            }
        }
    }

    /// Whether a function has the type with this number, or a subtype.
    pub(super) fn function_has_type(&mut self, record: Value, number: Number) -> Value {
        if self.registry().get(number).sub.is_final {
            let found = self
                .builder
                .ins()
                .load(types::I32, fixed(), record, FuncRecord::NUMBER);
            return self
                .builder
                .ins()
                .icmp_imm_u(IntCC::Equal, found, i64::from(number));
        }
        let described =
            self.builder
                .ins()
                .load(types::I64, fixed(), record, FuncRecord::DESCRIPTION);
        self.display_has(described, number)
    }

    /// Whether the type with this number stands at its place in the display of a description.
    fn display_has(&mut self, described: Value, number: Number) -> Value {
        let depth = self.registry().get(number).display.len() - 1;
        let done = self.builder.create_block();
        let flag = self.builder.append_block_param(done, types::I8);
        if depth >= description::PLACES {
            let length =
                self.builder
                    .ins()
                    .load(types::I32, fixed(), described, description::DEPTH as i32);
            let is_short =
                self.builder
                    .ins()
                    .icmp_imm_u(IntCC::UnsignedLessThanOrEqual, length, depth as i64);
            self.decide_if(is_short, false, done);
        }
        let place = description::DISPLAY as i32 + 4 * depth as i32;
        let found = self
            .builder
            .ins()
            .load(types::I32, fixed(), described, place);
        let found = self
            .builder
            .ins()
            .icmp_imm_u(IntCC::Equal, found, i64::from(number));
        self.builder.ins().jump(done, &[found.into()]);
        self.builder.seal_block(done);
        self.builder.switch_to_block(done);
        flag
    }
}
