//! Calls: direct, through a table, through a reference, and in tail position.
//!
//! A function reference is the address of a [`FuncRecord`]: a call through it loads code and context, and calls. Where
//! functions are compiled when they are first called, a direct call loads the address of the code from the context.

use cranelift_codegen::ir::{
    BlockArg, ExceptionTableData, ExceptionTableItem, ExtFuncData, ExternalName, FuncRef, Inst,
    InstBuilder, SigRef, UserExternalName, Value, types,
};
use wasmparser::Operator;

use super::{FUNCTIONS, Translator, fixed, machine_signature, trusted};
use crate::context::FuncRecord;
use crate::error::TrapKind;
use crate::types::{Number, ValType};

/// What is called.
enum Callee {
    /// A function of the module, in the same context.
    Own(FuncRef),
    /// Code at an address.
    Code(Value),
}

impl Translator<'_> {
    pub(super) fn call_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::Call { function_index } => {
                let (number, callee, context) = self.direct(function_index);
                self.call(number, &callee, context);
            }
            Operator::ReturnCall { function_index } => {
                let (number, callee, context) = self.direct(function_index);
                self.return_call(number, &callee, context);
            }
            Operator::CallIndirect {
                type_index,
                table_index,
            } => {
                let record = self.indirect(type_index, table_index);
                self.call_record(type_index, record);
            }
            Operator::ReturnCallIndirect {
                type_index,
                table_index,
            } => {
                let record = self.indirect(type_index, table_index);
                self.return_call_record(type_index, record);
            }
            Operator::CallRef { type_index } => {
                let record = self.pop();
                self.trap_if_operand_is_null(record, 0);
                self.call_record(type_index, record);
            }
            Operator::ReturnCallRef { type_index } => {
                let record = self.pop();
                self.trap_if_operand_is_null(record, 0);
                self.return_call_record(type_index, record);
            }
            _ => return false,
        }
        true
    }

    /// Type, code and context of a function of the module.
    fn direct(&mut self, index: u32) -> (Number, Callee, Value) {
        let number = self.environment.declarations.funcs[index as usize];
        if (index as usize) < self.environment.declarations.imported_funcs {
            let record = self.context_word(self.environment.context.function(index));
            let (code, context) = self.code_of(record);
            return (number, code, context);
        }
        let callee = match self.environment.context.code(index) {
            Some(offset) => Callee::Code(self.code_at(self.context, offset as i32)),
            None => Callee::Own(self.own_function(index, number)),
        };
        (number, callee, self.context)
    }

    /// The address of code, which may change whenever a function is called.
    fn code_at(&mut self, base: Value, offset: i32) -> Value {
        let ins = self.builder.ins();
        ins.load(types::I64, trusted(), base, offset)
    }

    fn own_function(&mut self, index: u32, number: Number) -> FuncRef {
        let signature = self.signature_of(number);
        let builder = &mut self.builder;
        *self.functions.entry(index).or_insert_with(|| {
            let name = UserExternalName {
                namespace: FUNCTIONS,
                index,
            };
            let name = ExternalName::user(builder.func.declare_imported_user_function(name));
            builder.import_function(ExtFuncData {
                name,
                signature,
                colocated: true,
                patchable: false,
            })
        })
    }

    fn signature_of(&mut self, number: Number) -> SigRef {
        let (registry, builder) = (self.environment.registry, &mut self.builder);
        *self.signatures.entry(number).or_insert_with(|| {
            builder.import_signature(machine_signature(registry.get(number).signature()))
        })
    }

    fn code_of(&mut self, record: Value) -> (Callee, Value) {
        let code = self.code_at(record, FuncRecord::CODE);
        let context = self
            .builder
            .ins()
            .load(types::I64, fixed(), record, FuncRecord::CONTEXT);
        (Callee::Code(code), context)
    }

    /// The function in a table at the index on the stack, of the type that is asked for.
    fn indirect(&mut self, type_index: u32, table: u32) -> Value {
        let index = self.pop();
        let place = self.table_element(table, index, TrapKind::UndefinedElement);
        let record = self.builder.ins().load(types::I64, trusted(), place, 0);
        self.trap_if_null(record, TrapKind::UninitializedElement);
        let number = self.type_number(type_index);
        let has_type = self.function_has_type(record, number);
        let has_not = self.builder.ins().bxor_imm_u(has_type, 1);
        self.trap_if(TrapKind::IndirectCallType, has_not);
        record
    }

    fn call_record(&mut self, type_index: u32, record: Value) {
        let (callee, context) = self.code_of(record);
        self.call(self.type_number(type_index), &callee, context);
    }

    fn return_call_record(&mut self, type_index: u32, record: Value) {
        let (callee, context) = self.code_of(record);
        self.return_call(self.type_number(type_index), &callee, context);
    }

    /// The context and the operands on the stack.
    fn arguments(&mut self, number: Number, context: Value) -> Vec<Value> {
        let count = self.registry().get(number).signature().params.len();
        let mut arguments = vec![context];
        arguments.extend(self.pop_many(count));
        arguments
    }

    fn call(&mut self, number: Number, callee: &Callee, context: Value) {
        let arguments = self.arguments(number, context);
        let results = self.registry().get(number).signature().results.clone();
        let signature = self.signature_of(number);
        self.fresh.clear();
        if self.handlers.is_empty() {
            let call = match *callee {
                Callee::Own(function) => self.builder.ins().call(function, &arguments),
                Callee::Code(code) => self
                    .builder
                    .ins()
                    .call_indirect(signature, code, &arguments),
            };
            self.push_results(&results, call);
        } else {
            self.call_in_handler(callee, signature, &results, &arguments);
        }
    }

    fn push_results(&mut self, results: &[ValType], call: Inst) {
        let values = self.builder.inst_results(call).to_vec();
        for (&ty, value) in results.iter().zip(values) {
            self.push_typed(ty, value);
        }
    }

    /// A call whose exceptions go to the innermost handler.
    fn call_in_handler(
        &mut self,
        callee: &Callee,
        signature: SigRef,
        results: &[ValType],
        arguments: &[Value],
    ) {
        let landing = *self.handlers.last().expect("a handler is open");
        let normal = self.block_with(results);
        let caught = self.builder.create_block();
        self.builder.set_cold_block(caught);
        let exception = self.builder.append_block_param(caught, types::I64);
        self.note_reference(exception);
        let returned: Vec<BlockArg> = (0..results.len() as u32)
            .map(BlockArg::TryCallRet)
            .collect();
        let dfg = &mut self.builder.func.dfg;
        let normal_call = dfg.block_call(normal, &returned);
        let caught_call = dfg.block_call(caught, &[BlockArg::TryCallExn(0)]);
        let table = ExceptionTableData::new(
            signature,
            normal_call,
            [ExceptionTableItem::Default(caught_call)],
        );
        let table = dfg.exception_tables.push(table);
        match *callee {
            Callee::Own(function) => self.builder.ins().try_call(function, arguments, table),
            Callee::Code(code) => self.builder.ins().try_call_indirect(code, arguments, table),
        };
        self.builder.seal_block(caught);
        self.builder.switch_to_block(caught);
        self.builder.ins().jump(landing, &[exception.into()]);
        self.builder.seal_block(normal);
        self.builder.switch_to_block(normal);
        self.stack
            .extend_from_slice(self.builder.block_params(normal));
    }

    fn return_call(&mut self, number: Number, callee: &Callee, context: Value) {
        let arguments = self.arguments(number, context);
        let signature = self.signature_of(number);
        match *callee {
            Callee::Own(function) => self.builder.ins().return_call(function, &arguments),
            Callee::Code(code) => self
                .builder
                .ins()
                .return_call_indirect(signature, code, &arguments),
        };
        self.reachable = false;
    }
}
