//! Trampolines between the host and compiled code: one for each type of function and direction. Values pass through a buffer
//! of 8 bytes for each.

use cranelift_codegen::ir::{
    self, AbiParam, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind, Value,
    types,
};
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::builtin::Builtin;
use crate::translate::{machine_signature, machine_type};
use crate::types::{Signature as WasmSignature, ValType};

fn load_values(builder: &mut FunctionBuilder<'_>, buffer: Value, of: &[ValType]) -> Vec<Value> {
    let load = |(index, &ty): (usize, &ValType)| {
        builder.ins().load(
            machine_type(ty),
            MemFlagsData::trusted(),
            buffer,
            8 * index as i32,
        )
    };
    of.iter().enumerate().map(load).collect()
}

fn store_values(builder: &mut FunctionBuilder<'_>, buffer: Value, values: &[Value]) {
    for (index, &value) in values.iter().enumerate() {
        builder
            .ins()
            .store(MemFlagsData::trusted(), value, buffer, 8 * index as i32);
    }
}

fn begin<'a>(
    into: &'a mut ir::Function,
    scratch: &'a mut FunctionBuilderContext,
) -> (FunctionBuilder<'a>, Vec<Value>) {
    let mut builder = FunctionBuilder::new(into, scratch);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let params = builder.block_params(entry).to_vec();
    (builder, params)
}

/// From the host: context, buffer, and the code that is called. No reference lives in its frame while that runs.
pub(crate) fn entry(
    of: &WasmSignature,
    frontend: TargetFrontendConfig,
    into: &mut ir::Function,
    scratch: &mut FunctionBuilderContext,
) -> Vec<Value> {
    into.signature = Signature::new(CallConv::SystemV);
    into.signature.params.extend([AbiParam::new(types::I64); 3]);
    let (mut builder, params) = begin(into, scratch);
    let (context, buffer, code) = (params[0], params[1], params[2]);
    let mut arguments = vec![context];
    arguments.extend(load_values(&mut builder, buffer, &of.params));
    let signature = builder.import_signature(machine_signature(of));
    let call = builder.ins().call_indirect(signature, code, &arguments);
    let results = builder.inst_results(call).to_vec();
    store_values(&mut builder, buffer, &results);
    builder.ins().return_(&[]);
    builder.finalize(frontend);
    Vec::new()
}

/// To the host: it is called as a compiled function is, with the context of a host function. The runtime reads the arguments
/// from the buffer before anything can move.
pub(crate) fn exit(
    of: &WasmSignature,
    call_host: usize,
    frontend: TargetFrontendConfig,
    into: &mut ir::Function,
    scratch: &mut FunctionBuilderContext,
) -> Vec<Value> {
    into.signature = machine_signature(of);
    let (mut builder, params) = begin(into, scratch);
    let words = of.params.len().max(of.results.len()).max(1) as u32;
    let slot = builder.create_sized_stack_slot(StackSlotData::new(
        StackSlotKind::ExplicitSlot,
        8 * words,
        3,
    ));
    let buffer = builder.ins().stack_addr(types::I64, slot, 0);
    store_values(&mut builder, buffer, &params[1..]);
    let signature = builder.import_signature(Builtin::CallHost.signature());
    let address = builder.ins().iconst(types::I64, call_host as i64);
    builder
        .ins()
        .call_indirect(signature, address, &[params[0], buffer]);
    let results = load_values(&mut builder, buffer, &of.results);
    builder.ins().return_(&results);
    builder.finalize(frontend);
    Vec::new()
}
