//! Linear memories.
//!
//! An access is compared with the memory's bytes before it is made: `index + offset + size`, in 64 bits, cannot wrap around.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use wasmparser::{MemArg, MemArgTarget, Operator};

use super::{Translator, trusted};
use crate::builtin::Builtin;
use crate::context::MemoryRecord;
use crate::error::TrapKind;

/// The memory of a program: not aligned.
fn untrusted() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

impl Translator<'_> {
    pub(super) fn memory_operator(&mut self, operator: &Operator<'_>) -> bool {
        self.load_operator(operator)
            || self.store_operator(operator)
            || self.bulk_memory_operator(operator)
    }

    /// The address of an access of `bytes` bytes that lies in the memory.
    fn address(&mut self, index: Value, at: &MemArg, bytes: u64) -> Value {
        let MemArgTarget::Memory(memory) = at.target else {
            unreachable!("validation refuses accesses to arrays")
        };
        let memory = self.context_word(self.environment.context.memory(memory));
        let index = self.widen(index);
        let length = self
            .builder
            .ins()
            .load(types::I64, trusted(), memory, MemoryRecord::BYTES);
        let end = self
            .builder
            .ins()
            .iadd_imm_u(index, (at.offset + bytes) as i64);
        let is_beyond = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedGreaterThan, end, length);
        self.trap_if(TrapKind::MemoryBounds, is_beyond);
        let base = self
            .builder
            .ins()
            .load(types::I64, trusted(), memory, MemoryRecord::BASE);
        let start = self.builder.ins().iadd(base, index);
        self.builder.ins().iadd_imm_u(start, at.offset as i64)
    }

    fn load(&mut self, at: &MemArg, ty: Type) {
        let index = self.pop();
        let address = self.address(index, at, ty.bytes().into());
        let value = self.builder.ins().load(ty, untrusted(), address, 0);
        self.push(value);
    }

    fn load_extended(&mut self, at: &MemArg, from: Type, to: Type, is_signed: bool) {
        self.load(at, from);
        let value = self.pop();
        let value = match is_signed {
            true => self.builder.ins().sextend(to, value),
            false => self.builder.ins().uextend(to, value),
        };
        self.push(value);
    }

    fn store(&mut self, at: &MemArg, as_type: Type) {
        let (index, value) = self.pop2();
        let address = self.address(index, at, as_type.bytes().into());
        let value = match self.builder.func.dfg.value_type(value) {
            ty if ty == as_type => value,
            _ => self.builder.ins().ireduce(as_type, value),
        };
        self.builder.ins().store(untrusted(), value, address, 0);
    }

    fn load_operator(&mut self, operator: &Operator<'_>) -> bool {
        use types::{F32, F64, I8, I16, I32, I64};
        match operator {
            Operator::I32Load { memarg } => self.load(memarg, I32),
            Operator::I64Load { memarg } => self.load(memarg, I64),
            Operator::F32Load { memarg } => self.load(memarg, F32),
            Operator::F64Load { memarg } => self.load(memarg, F64),
            Operator::I32Load8S { memarg } => self.load_extended(memarg, I8, I32, true),
            Operator::I32Load8U { memarg } => self.load_extended(memarg, I8, I32, false),
            Operator::I32Load16S { memarg } => self.load_extended(memarg, I16, I32, true),
            Operator::I32Load16U { memarg } => self.load_extended(memarg, I16, I32, false),
            Operator::I64Load8S { memarg } => self.load_extended(memarg, I8, I64, true),
            Operator::I64Load8U { memarg } => self.load_extended(memarg, I8, I64, false),
            Operator::I64Load16S { memarg } => self.load_extended(memarg, I16, I64, true),
            Operator::I64Load16U { memarg } => self.load_extended(memarg, I16, I64, false),
            Operator::I64Load32S { memarg } => self.load_extended(memarg, I32, I64, true),
            Operator::I64Load32U { memarg } => self.load_extended(memarg, I32, I64, false),
            _ => return false,
        }
        true
    }

    fn store_operator(&mut self, operator: &Operator<'_>) -> bool {
        use types::{F32, F64, I8, I16, I32, I64};
        match operator {
            Operator::I32Store { memarg } | Operator::I64Store32 { memarg } => {
                self.store(memarg, I32)
            }
            Operator::I64Store { memarg } => self.store(memarg, I64),
            Operator::F32Store { memarg } => self.store(memarg, F32),
            Operator::F64Store { memarg } => self.store(memarg, F64),
            Operator::I32Store8 { memarg } | Operator::I64Store8 { memarg } => {
                self.store(memarg, I8)
            }
            Operator::I32Store16 { memarg } | Operator::I64Store16 { memarg } => {
                self.store(memarg, I16)
            }
            _ => return false,
        }
        true
    }

    fn bulk_memory_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::MemorySize { mem } => {
                let memory = self.context_word(self.environment.context.memory(mem));
                let bytes =
                    self.builder
                        .ins()
                        .load(types::I64, trusted(), memory, MemoryRecord::BYTES);
                let pages = self.builder.ins().ushr_imm_u(bytes, 16);
                let pages = self.builder.ins().ireduce(types::I32, pages);
                self.push(pages);
            }
            Operator::MemoryGrow { mem } => {
                let pages = self.pop();
                let mem = self.int(mem);
                let before = self.call_builtin(Builtin::MemoryGrow, &[mem, pages]);
                self.push(before.expect("it returns the size"));
            }
            Operator::MemoryFill { mem } => {
                let (at, byte, count) = self.pop3();
                let mem = self.int(mem);
                self.call_builtin(Builtin::MemoryFill, &[mem, at, byte, count]);
            }
            Operator::MemoryCopy { dst_mem, src_mem } => {
                let (to, from, count) = self.pop3();
                let (dst_mem, src_mem) = (self.int(dst_mem), self.int(src_mem));
                self.call_builtin(Builtin::MemoryCopy, &[dst_mem, to, src_mem, from, count]);
            }
            Operator::MemoryInit { data_index, mem } => {
                let (to, from, count) = self.pop3();
                let (mem, data) = (self.int(mem), self.int(data_index));
                self.call_builtin(Builtin::MemoryInit, &[mem, data, to, from, count]);
            }
            Operator::DataDrop { data_index } => {
                let data = self.int(data_index);
                self.call_builtin(Builtin::DataDrop, &[data]);
            }
            _ => return false,
        }
        true
    }
}
