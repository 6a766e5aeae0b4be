//! The safety check: no reference, and nothing derived from one, lives across a call outside of a slot of a stack map.
//!
//! It looks at the CLIF of a function after references were spilled around calls. Values that the translator calls
//! references are *tainted*, and so is what is read from a slot of a stack map, computed from tainted values as an address
//! is, or passed on as a block's parameter. A tainted value that is live across a call would be stale behind it, since the
//! call may collect. Liveness is computed backwards over the blocks to a fixed point.

use std::collections::HashSet;

use cranelift_codegen::ir::instructions::InstructionData;
use cranelift_codegen::ir::{Block, BlockArg, Function, Inst, Opcode, Value, ValueDef, types};

/// A value that lives across a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unsafe {
    /// The value.
    pub(crate) value: Value,
    /// The call.
    pub(crate) call: Inst,
}

/// All values that break the rule. `references` are those that the translator knows.
pub(crate) fn check(function: &Function, references: &[Value]) -> Vec<Unsafe> {
    let tainted = taint(function, references);
    live_across_calls(function, &tainted)
}

/// Whether the result of an instruction leads into an object if an operand does.
fn derives(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::Iadd
            | Opcode::Isub
            | Opcode::Select
            | Opcode::SelectSpectreGuard
            | Opcode::Bor
            | Opcode::Bxor
    )
}

fn is_tainted(function: &Function, tainted: &HashSet<Value>, value: Value) -> bool {
    tainted.contains(&function.dfg.resolve_aliases(value))
}

fn slots_of_maps(function: &Function) -> HashSet<cranelift_codegen::ir::StackSlot> {
    let calls = function
        .layout
        .blocks()
        .flat_map(|block| function.layout.block_insts(block));
    let maps = calls.filter_map(|call| function.dfg.user_stack_map_entries(call));
    maps.flatten().map(|entry| entry.slot).collect()
}

/// Values that are references or were derived from them.
fn taint(function: &Function, references: &[Value]) -> HashSet<Value> {
    let dfg = &function.dfg;
    let mut tainted: HashSet<Value> = references
        .iter()
        .map(|&value| dfg.resolve_aliases(value))
        .collect();
    let slots = slots_of_maps(function);
    loop {
        let before = tainted.len();
        for block in function.layout.blocks() {
            for inst in function.layout.block_insts(block) {
                if result_is_tainted(function, &tainted, &slots, inst) {
                    tainted.extend(
                        dfg.inst_results(inst)
                            .iter()
                            .filter(|&&value| dfg.value_type(value) == types::I64),
                    );
                }
                for call in
                    dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables)
                {
                    let params = dfg.block_params(call.block(&dfg.value_lists));
                    for (&param, argument) in params.iter().zip(call.args(&dfg.value_lists)) {
                        if matches!(argument, BlockArg::Value(value) if is_tainted(function, &tainted, value))
                        {
                            tainted.insert(param);
                        }
                    }
                }
            }
        }
        if tainted.len() == before {
            return tainted;
        }
    }
}

fn result_is_tainted(
    function: &Function,
    tainted: &HashSet<Value>,
    slots: &HashSet<cranelift_codegen::ir::StackSlot>,
    inst: Inst,
) -> bool {
    let dfg = &function.dfg;
    let data = &dfg.insts[inst];
    if let InstructionData::Load {
        opcode: Opcode::Load,
        arg,
        ..
    } = *data
    {
        // A reload from a slot of a stack map.
        let ValueDef::Result(address, _) = dfg.value_def(dfg.resolve_aliases(arg)) else {
            return false;
        };
        return matches!(dfg.insts[address], InstructionData::StackAddr { stack_slot, .. } if slots.contains(&stack_slot));
    }
    derives(data.opcode())
        && dfg
            .inst_args(inst)
            .iter()
            .any(|&value| is_tainted(function, tainted, value))
}

/// Whether other code runs, and may collect, before the next instruction does.
fn may_collect(opcode: Opcode) -> bool {
    opcode.is_call() && !matches!(opcode, Opcode::ReturnCall | Opcode::ReturnCallIndirect)
}

fn live_across_calls(function: &Function, tainted: &HashSet<Value>) -> Vec<Unsafe> {
    let dfg = &function.dfg;
    let blocks: Vec<Block> = function.layout.blocks().collect();
    let mut live_in: std::collections::HashMap<Block, HashSet<Value>> =
        std::collections::HashMap::new();
    loop {
        let mut changed = false;
        for &block in blocks.iter().rev() {
            let live = walk(function, tainted, &live_in, block, &mut |_, _| {});
            let known = live_in.entry(block).or_default();
            if live.len() != known.len() {
                *known = live;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let mut found = Vec::new();
    for &block in &blocks {
        walk(function, tainted, &live_in, block, &mut |call, live| {
            let results: &[Value] = dfg.inst_results(call);
            let across = live.iter().filter(|value| !results.contains(value));
            found.extend(across.map(|&value| Unsafe { value, call }));
        });
    }
    found
}

/// The tainted values that are live where a block begins. `at_call` is told of each call what is live behind it.
fn walk(
    function: &Function,
    tainted: &HashSet<Value>,
    live_in: &std::collections::HashMap<Block, HashSet<Value>>,
    block: Block,
    at_call: &mut dyn FnMut(Inst, &HashSet<Value>),
) -> HashSet<Value> {
    let dfg = &function.dfg;
    let mut live: HashSet<Value> = HashSet::new();
    if let Some(last) = function.layout.last_inst(block) {
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let target = call.block(&dfg.value_lists);
            let params = dfg.block_params(target);
            live.extend(
                live_in
                    .get(&target)
                    .into_iter()
                    .flatten()
                    .filter(|value| !params.contains(value)),
            );
            // What is passed on is used on the way to the target: behind a call that ends the block.
            live.extend(
                call.args(&dfg.value_lists)
                    .filter_map(|argument| match argument {
                        BlockArg::Value(value) => {
                            Some(dfg.resolve_aliases(value)).filter(|value| tainted.contains(value))
                        }
                        _ => None,
                    }),
            );
        }
    }
    let mut cursor = function.layout.last_inst(block);
    while let Some(inst) = cursor {
        if may_collect(dfg.insts[inst].opcode()) {
            at_call(inst, &live);
        }
        for result in dfg.inst_results(inst) {
            live.remove(result);
        }
        let operands = dfg
            .inst_args(inst)
            .iter()
            .map(|&value| dfg.resolve_aliases(value));
        live.extend(operands.filter(|value| tainted.contains(value)));
        cursor = function.layout.prev_inst(inst);
    }
    for param in dfg.block_params(block) {
        live.remove(param);
    }
    live
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature};
    use cranelift_codegen::isa::{CallConv, lookup_by_name};
    use cranelift_codegen::settings;
    use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

    use super::*;

    /// A function that takes a reference, uses it, calls, and uses what `body` says.
    fn function(
        body: impl FnOnce(&mut FunctionBuilder<'_>, Value, &mut dyn FnMut(&mut FunctionBuilder<'_>)),
    ) -> Function {
        let mut function = Function::new();
        function.signature = Signature::new(CallConv::Tail);
        function.signature.params.push(AbiParam::new(types::I64));
        let mut scratch = FunctionBuilderContext::new();
        let mut builder = FunctionBuilder::new(&mut function, &mut scratch);
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        builder.seal_block(entry);
        let reference = builder.block_params(entry)[0];
        let mut call = |builder: &mut FunctionBuilder<'_>| {
            let signature = builder.import_signature(Signature::new(CallConv::SystemV));
            let code = builder.ins().iconst(types::I64, 4096);
            builder.ins().call_indirect(signature, code, &[]);
        };
        body(&mut builder, reference, &mut call);
        builder.ins().return_(&[]);
        let isa = lookup_by_name("x86_64-unknown-linux-gnu").unwrap();
        let isa = isa
            .finish(settings::Flags::new(settings::builder()))
            .unwrap();
        builder.finalize(isa.frontend_config());
        function
    }

    fn load(builder: &mut FunctionBuilder<'_>, at: Value) {
        builder
            .ins()
            .load(types::I64, MemFlagsData::trusted(), at, 0);
    }

    fn reference_of(function: &Function) -> Value {
        let entry = function.layout.entry_block().unwrap();
        function.dfg.block_params(entry)[0]
    }

    #[test]
    fn a_declared_reference_is_safe() {
        let function = function(|builder, reference, call| {
            builder.declare_value_needs_stack_map(reference);
            call(builder);
            load(builder, reference);
        });
        assert_eq!(check(&function, &[reference_of(&function)]), []);
    }

    #[test]
    fn a_reference_that_is_not_declared_is_found() {
        let function = function(|builder, reference, call| {
            call(builder);
            load(builder, reference);
        });
        let found = check(&function, &[reference_of(&function)]);
        assert_eq!(
            found.iter().map(|found| found.value).collect::<Vec<_>>(),
            [reference_of(&function)]
        );
    }

    #[test]
    fn an_address_that_was_computed_before_a_call_is_found() {
        let function = function(|builder, reference, call| {
            builder.declare_value_needs_stack_map(reference);
            let field = builder.ins().iadd_imm_u(reference, 16);
            call(builder);
            load(builder, field);
        });
        assert_eq!(check(&function, &[reference_of(&function)]).len(), 1);
    }

    #[test]
    fn an_address_that_is_computed_after_the_call_is_safe() {
        let function = function(|builder, reference, call| {
            builder.declare_value_needs_stack_map(reference);
            call(builder);
            let field = builder.ins().iadd_imm_u(reference, 16);
            load(builder, field);
            call(builder);
        });
        assert_eq!(check(&function, &[reference_of(&function)]), []);
    }

    #[test]
    fn what_a_loop_carries_across_a_call_is_found() {
        let function = function(|builder, reference, call| {
            builder.declare_value_needs_stack_map(reference);
            let (body, end) = (builder.create_block(), builder.create_block());
            let field = builder.append_block_param(body, types::I64);
            let start = builder.ins().iadd_imm_u(reference, 16);
            builder.ins().jump(body, &[start.into()]);
            builder.switch_to_block(body);
            call(builder);
            load(builder, field);
            let next = builder.ins().iadd_imm_u(field, 8);
            builder.ins().brif(next, body, &[next.into()], end, &[]);
            builder.seal_block(body);
            builder.switch_to_block(end);
            builder.seal_block(end);
        });
        assert!(!check(&function, &[reference_of(&function)]).is_empty());
    }
}
