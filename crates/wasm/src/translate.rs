//! WebAssembly to CLIF: one function at a time, one file for each family of instructions.
//!
//! The module was validated, so the translator checks nothing: it keeps a stack of values and a stack of blocks. Code that
//! cannot be reached is skipped. A validator runs along, which knows the types of operands.
//!
//! # Invariants
//! - A reference to an object of the heap is a value of 8 bytes. Each one is declared where it is pushed, so that it is in a
//!   slot of a stack map across each call ([`Translator::push_typed`]). The safety check ([`crate::check`]) proves it.
//! - An address within an object is computed where it is used, and nothing is called between.
//! - Function references are addresses of records, which are no objects.

mod arrays;
mod block;
mod calls;
mod casts;
mod control;
mod exceptions;
mod memory;
mod numeric;
mod objects;
mod structures;
mod tables;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    self, AbiParam, Block, FuncRef, InstBuilder, MemFlagsData, SigRef, Signature, SourceLoc,
    TrapCode, Type, Value, types,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use gleaner::raw::{FastPaths, TypeId};
use wasmparser::{BinaryReader, FunctionBody, Operator, OperatorsReader, UnpackedIndex};

use crate::builtin::Builtin;
use crate::context::ContextLayout;
use crate::decode::{self, OperandTypes};
use crate::error::{LoadError, TrapKind};
use crate::layout::Layout;
use crate::module::Declarations;
use crate::registry::Registry;
use crate::types::{HeapType, Number, Signature as WasmSignature, Storage, ValType};

use block::Control;

/// What compiled code knows of the engine: numbers and addresses that hold as long as it does.
pub(crate) struct Target {
    pub(crate) fast: FastPaths,
    /// Where the lowest stack pointer is that a function may begin with.
    pub(crate) stack_limit: Box<usize>,
    /// Where the builtins lie, by their numbers.
    pub(crate) builtins: Vec<usize>,
}

/// The object that holds the payload of an exception.
pub(crate) struct ExceptionType {
    pub(crate) heap: TypeId,
    /// The first field is the tag, the others are the payload.
    pub(crate) layout: Layout,
}

/// What all functions of a module are translated with.
pub(crate) struct Environment<'a> {
    pub(crate) declarations: &'a Declarations,
    pub(crate) registry: &'a Registry,
    pub(crate) exceptions: &'a HashMap<Number, ExceptionType>,
    pub(crate) target: &'a Target,
    pub(crate) context: ContextLayout,
    pub(crate) frontend: TargetFrontendConfig,
}

/// The name space of a module's functions in relocations.
pub(crate) const FUNCTIONS: u32 = 0;

/// How a type of values is held.
pub(crate) fn machine_type(ty: ValType) -> Type {
    match ty {
        ValType::I32 => types::I32,
        ValType::I64 | ValType::Ref(_) => types::I64,
        ValType::F32 => types::F32,
        ValType::F64 => types::F64,
    }
}

/// How compiled functions of a type are called: the context first.
pub(crate) fn machine_signature(of: &WasmSignature) -> Signature {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::new(types::I64));
    signature
        .params
        .extend(of.params.iter().map(|&ty| AbiParam::new(machine_type(ty))));
    signature
        .returns
        .extend(of.results.iter().map(|&ty| AbiParam::new(machine_type(ty))));
    signature
}

/// Translates the function with an index into `into`, which is empty: its values that are references. Its body begins at
/// `start` in the module.
pub(crate) fn function(
    environment: &Environment<'_>,
    index: u32,
    (body, start): (&[u8], usize),
    into: &mut ir::Function,
    scratch: &mut FunctionBuilderContext,
) -> Result<Vec<Value>, LoadError> {
    let reader = BinaryReader::new_features(body, start as u64, decode::FEATURES);
    let body = FunctionBody::new(reader);
    let number = environment.declarations.funcs[index as usize];
    let signature = environment.registry.get(number).signature();
    let mut types = decode::operand_types(environment.declarations, index);
    types.read_locals(&mut body.get_binary_reader())?;
    let mut translator = Translator::new(environment, signature, types, into, scratch);
    for local in body.get_locals_reader()? {
        let (count, ty) = local?;
        let ty = decode::value(ty, &|index| translator.number(index));
        for _ in 0..count {
            translator.declare_local(ty);
        }
    }
    translator.body(body.get_operators_reader()?)
}

/// Memory of the engine: aligned, and there.
fn trusted() -> MemFlagsData {
    MemFlagsData::trusted()
}

/// Memory of the engine that is there, but may lie at any multiple of 8 bytes.
fn unaligned() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

/// Memory of the engine, never written while the function runs. It may not be read before it was found that it is there.
fn fixed() -> MemFlagsData {
    MemFlagsData::trusted().with_readonly()
}

struct Translator<'a> {
    builder: FunctionBuilder<'a>,
    environment: &'a Environment<'a>,
    /// The types of the operands on the stack, before the instruction that is translated.
    types: OperandTypes,
    context: Value,
    results: Vec<ValType>,
    stack: Vec<Value>,
    control: Vec<Control>,
    locals: Vec<(Variable, ValType)>,
    traps: HashMap<TrapKind, Block>,
    signatures: HashMap<Number, SigRef>,
    builtins: HashMap<Builtin, SigRef>,
    functions: HashMap<u32, FuncRef>,
    /// The landing blocks of the handlers that are open, innermost last: each has an exception as its parameter.
    handlers: Vec<Block>,
    reachable: bool,
    /// Objects that no collection has seen at this instruction: nothing was called since they were allocated. What runs
    /// between the allocation of an object and its use stands between the two in the module, but for loops. So the list is
    /// emptied where something is called, and where a loop begins.
    fresh: Vec<Value>,
    /// How many blocks were opened in code that cannot be reached.
    dead_blocks: usize,
    /// Of the instruction, in the module's bytes.
    offset: u32,
    references: Vec<Value>,
}

impl<'a> Translator<'a> {
    fn new(
        environment: &'a Environment<'a>,
        signature: &WasmSignature,
        types: OperandTypes,
        into: &'a mut ir::Function,
        scratch: &'a mut FunctionBuilderContext,
    ) -> Translator<'a> {
        into.signature = machine_signature(signature);
        let mut builder = FunctionBuilder::new(into, scratch);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        builder.seal_block(entry);
        let params = builder.block_params(entry).to_vec();
        let mut translator = Translator {
            builder,
            environment,
            types,
            context: params[0],
            results: signature.results.clone(),
            stack: Vec::new(),
            control: Vec::new(),
            locals: Vec::new(),
            traps: HashMap::new(),
            signatures: HashMap::new(),
            builtins: HashMap::new(),
            functions: HashMap::new(),
            handlers: Vec::new(),
            reachable: true,
            fresh: Vec::new(),
            dead_blocks: 0,
            offset: 0,
            references: Vec::new(),
        };
        for (&ty, &value) in signature.params.iter().zip(&params[1..]) {
            translator.note(ty, value);
            translator.declare_local_with(ty, value);
        }
        translator
    }

    /// Translates the instructions behind the declarations of locals.
    fn body(mut self, mut operators: OperatorsReader<'_>) -> Result<Vec<Value>, LoadError> {
        // A stack that is used up is told of where the instructions begin.
        self.offset = operators.original_position() as u32;
        self.check_stack();
        let results = self.results.clone();
        self.push_function_block(&results);
        while !operators.eof() {
            let (operator, offset) = operators.read_with_offset()?;
            self.offset = offset as u32;
            self.builder.set_srcloc(SourceLoc::new(self.offset));
            self.operator(&operator);
            self.types.op(offset, &operator)?;
        }
        if self.reachable {
            let values = std::mem::take(&mut self.stack);
            self.builder.ins().return_(&values);
        }
        self.finish_traps();
        self.builder.seal_all_blocks();
        let references = self.references;
        self.builder.finalize(self.environment.frontend);
        Ok(references)
    }

    fn operator(&mut self, operator: &Operator<'_>) {
        if !self.reachable {
            self.dead_operator(operator);
            return;
        }
        let is_translated = self.control_operator(operator)
            || self.numeric_operator(operator)
            || self.variable_operator(operator)
            || self.memory_operator(operator)
            || self.call_operator(operator)
            || self.structure_operator(operator)
            || self.array_operator(operator)
            || self.cast_operator(operator)
            || self.table_operator(operator)
            || self.exception_operator(operator);
        assert!(is_translated, "validation refuses {operator:?}");
    }

    // --- types -----------------------------------------------------------------------------------------------------

    fn registry(&self) -> &'a Registry {
        self.environment.registry
    }

    fn fast(&self) -> &'a FastPaths {
        &self.environment.target.fast
    }

    /// The canonical number of a type of the module.
    fn type_number(&self, index: u32) -> Number {
        self.environment.declarations.types[index as usize]
    }

    fn number(&self, index: UnpackedIndex) -> Number {
        self.type_number(
            index
                .as_module_index()
                .expect("a function's body names types of its module"),
        )
    }

    fn heap_type(&self, ty: wasmparser::HeapType) -> HeapType {
        decode::heap(ty, &|index| self.number(index))
    }

    /// What the reference at a depth of the stack, from the top, can refer to. `None` if nobody knows.
    fn operand_heap(&self, depth: usize) -> Option<wasmparser::HeapType> {
        match self.types.get_operand_type(depth)?? {
            wasmparser::ValType::Ref(of) => Some(of.heap_type()),
            _ => None,
        }
    }

    /// Whether a reference on the stack is no integer of 31 bits.
    fn is_never_integer(&self, depth: usize) -> bool {
        use wasmparser::{AbstractHeapType as Abstract, HeapType};
        self.operand_heap(depth).is_some_and(|heap| match heap {
            HeapType::Concrete(_) | HeapType::Exact(_) => true,
            HeapType::Abstract { ty, .. } => {
                matches!(ty, Abstract::Struct | Abstract::Array | Abstract::None)
            }
        })
    }

    /// Whether a reference on the stack is null or an integer of 31 bits.
    fn is_never_object(&self, depth: usize) -> bool {
        use wasmparser::{AbstractHeapType as Abstract, HeapType};
        let heap = self.operand_heap(depth);
        let Some(HeapType::Abstract { ty, .. }) = heap else {
            return false;
        };
        matches!(
            ty,
            Abstract::I31 | Abstract::None | Abstract::NoExtern | Abstract::NoExn
        )
    }

    /// Whether the type of an operand at a depth of the stack excludes null.
    fn is_never_null(&self, depth: usize) -> bool {
        match self.types.get_operand_type(depth) {
            Some(Some(wasmparser::ValType::Ref(of))) => !of.is_nullable(),
            _ => false,
        }
    }

    // --- the stack -------------------------------------------------------------------------------------------------

    fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    /// Pushes a value of a type, which may be a reference that the collector must find.
    fn push_typed(&mut self, ty: ValType, value: Value) {
        self.note(ty, value);
        self.stack.push(value);
    }

    /// Pushes what was read from a field or an element.
    fn push_stored(&mut self, storage: Storage, value: Value) {
        match storage {
            Storage::Val(ty) => self.push_typed(ty, value),
            Storage::I8 | Storage::I16 | Storage::V128 => self.push(value),
        }
    }

    /// Pushes a reference to an object.
    fn push_reference(&mut self, value: Value) {
        self.note_reference(value);
        self.stack.push(value);
    }

    fn note(&mut self, ty: ValType, value: Value) {
        if self.registry().is_managed(ty) {
            self.note_reference(value);
        }
    }

    /// The value is a reference to an object: it lives in a slot of a stack map across calls.
    fn note_reference(&mut self, value: Value) {
        self.references.push(value);
        self.builder.declare_value_needs_stack_map(value);
    }

    fn pop(&mut self) -> Value {
        self.stack.pop().expect("validation counts operands")
    }

    fn pop2(&mut self) -> (Value, Value) {
        let second = self.pop();
        (self.pop(), second)
    }

    fn pop3(&mut self) -> (Value, Value, Value) {
        let third = self.pop();
        let (first, second) = self.pop2();
        (first, second, third)
    }

    fn pop_many(&mut self, count: usize) -> Vec<Value> {
        self.stack.split_off(self.stack.len() - count)
    }

    // --- small pieces of code --------------------------------------------------------------------------------------

    fn word(&mut self, number: i64) -> Value {
        self.builder.ins().iconst(types::I64, number)
    }

    fn int(&mut self, number: u32) -> Value {
        self.builder.ins().iconst(types::I32, i64::from(number))
    }

    /// An unsigned integer of 32 bits as a word.
    fn widen(&mut self, value: Value) -> Value {
        self.builder.ins().uextend(types::I64, value)
    }

    /// A word of the context that never changes.
    fn context_word(&mut self, offset: u32) -> Value {
        let context = self.context;
        self.builder
            .ins()
            .load(types::I64, fixed().with_can_move(), context, offset as i32)
    }

    /// The record of the mutator that runs this.
    fn mutator(&mut self) -> Value {
        self.builder.ins().get_pinned_reg(types::I64)
    }

    /// Goes on in a new block if `condition` is zero, and traps otherwise.
    fn trap_if(&mut self, kind: TrapKind, condition: Value) {
        let trap = self.trap_block(kind);
        let next = self.builder.create_block();
        let offset = self.int(self.offset);
        self.builder
            .ins()
            .brif(condition, trap, &[offset.into()], next, &[]);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    fn trap_if_null(&mut self, reference: Value, kind: TrapKind) {
        let is_null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
        self.trap_if(kind, is_null);
    }

    /// Traps if the operand of the instruction at this depth of the stack is null, unless its type excludes that.
    fn trap_if_operand_is_null(&mut self, reference: Value, depth: usize) {
        if !self.is_never_null(depth) {
            self.trap_if_null(reference, TrapKind::NullReference);
        }
    }

    fn trap_always(&mut self, kind: TrapKind) {
        let trap = self.trap_block(kind);
        let offset = self.int(self.offset);
        self.builder.ins().jump(trap, &[offset.into()]);
        self.reachable = false;
    }

    fn trap_block(&mut self, kind: TrapKind) -> Block {
        let builder = &mut self.builder;
        *self.traps.entry(kind).or_insert_with(|| {
            let block = builder.create_block();
            builder.set_cold_block(block);
            builder.append_block_param(block, types::I32);
            block
        })
    }

    /// The blocks in which traps end: one for each kind, which is told where the trap was.
    fn finish_traps(&mut self) {
        let mut traps: Vec<(TrapKind, Block)> = self.traps.drain().collect();
        traps.sort_unstable_by_key(|&(kind, _)| kind as u32);
        for (kind, block) in traps {
            self.builder.switch_to_block(block);
            let offset = self.builder.block_params(block)[0];
            let kind = self.int(kind as u32);
            self.call_builtin(Builtin::Trap, &[kind, offset]);
            self.builder.ins().trap(TrapCode::unwrap_user(1));
        }
    }

    /// Traps if the function begins below the limit of the stack.
    fn check_stack(&mut self) {
        let limit = self.word(&raw const *self.environment.target.stack_limit as i64);
        let limit = self.builder.ins().load(types::I64, trusted(), limit, 0);
        let here = self.builder.ins().get_stack_pointer(types::I64);
        let is_below = self
            .builder
            .ins()
            .icmp(IntCC::UnsignedLessThan, here, limit);
        self.trap_if(TrapKind::StackOverflow, is_below);
    }

    /// Calls a function of the runtime, which is given the context first: its result, if it has one.
    fn call_builtin(&mut self, builtin: Builtin, arguments: &[Value]) -> Option<Value> {
        let builder = &mut self.builder;
        let signature = *self
            .builtins
            .entry(builtin)
            .or_insert_with(|| builder.import_signature(builtin.signature()));
        self.fresh.clear();
        let address = self.word(self.environment.target.builtins[builtin as usize] as i64);
        let mut all = vec![self.context];
        all.extend_from_slice(arguments);
        let call = self.builder.ins().call_indirect(signature, address, &all);
        self.builder.inst_results(call).first().copied()
    }
}
