//! Blocks, loops, branches and returns.
//!
//! Each block of WebAssembly is a block of CLIF behind its end (for a loop also one at its start), whose parameters are
//! what a branch to it carries.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, JumpTableData, Value};
use wasmparser::{BlockType, BrTable, Operator};

use super::block::{Control, Opened};
use super::{Translator, machine_type};
use crate::decode;
use crate::error::TrapKind;
use crate::types::ValType;

fn arguments(values: &[Value]) -> Vec<BlockArg> {
    values.iter().map(|&value| value.into()).collect()
}

impl Translator<'_> {
    pub(super) fn control_operator(&mut self, operator: &Operator<'_>) -> bool {
        match *operator {
            Operator::Unreachable => self.trap_always(TrapKind::Unreachable),
            Operator::Nop => {}
            Operator::Block { blockty } => self.open_block(blockty),
            Operator::Loop { blockty } => self.open_loop(blockty),
            Operator::If { blockty } => self.open_if(blockty),
            Operator::Else => self.turn_to_else(),
            Operator::End => self.close(),
            Operator::Br { relative_depth } => self.branch(relative_depth),
            Operator::BrIf { relative_depth } => {
                let condition = self.pop();
                self.branch_if(condition, relative_depth);
            }
            Operator::BrTable { ref targets } => self.branch_table(targets),
            Operator::Return => self.return_now(),
            Operator::Drop => {
                self.pop();
            }
            Operator::Select => {
                let (one, other, condition) = self.pop3();
                let value = self.builder.ins().select(condition, one, other);
                self.push(value);
            }
            Operator::TypedSelect { ty } => {
                let ty = decode::value(ty, &|index| self.number(index));
                let (one, other, condition) = self.pop3();
                let value = self.builder.ins().select(condition, one, other);
                self.push_typed(ty, value);
            }
            Operator::BrOnNull { relative_depth } => {
                let reference = self.pop();
                let is_null = self.builder.ins().icmp_imm_u(IntCC::Equal, reference, 0);
                self.branch_if(is_null, relative_depth);
                self.push(reference);
            }
            Operator::BrOnNonNull { relative_depth } => {
                let reference = self.pop();
                self.push(reference);
                let is_there = self.builder.ins().icmp_imm_u(IntCC::NotEqual, reference, 0);
                self.branch_if(is_there, relative_depth);
                self.pop();
            }
            _ => return false,
        }
        true
    }

    /// In code that cannot be reached: only blocks are counted.
    pub(super) fn dead_operator(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. } => {
                self.dead_blocks += 1;
            }
            Operator::Else if self.dead_blocks == 0 => self.turn_to_else(),
            Operator::End if self.dead_blocks == 0 => self.close(),
            Operator::End => self.dead_blocks -= 1,
            _ => {}
        }
    }

    pub(super) fn block_type(&self, ty: BlockType) -> (Vec<ValType>, Vec<ValType>) {
        match ty {
            BlockType::Empty => (Vec::new(), Vec::new()),
            BlockType::Type(ty) => (
                Vec::new(),
                vec![decode::value(ty, &|index| self.number(index))],
            ),
            BlockType::FuncType(index) => {
                let signature = self.registry().get(self.type_number(index)).signature();
                (signature.params.clone(), signature.results.clone())
            }
        }
    }

    /// A block with parameters of these types.
    pub(super) fn block_with(&mut self, params: &[ValType]) -> Block {
        let block = self.builder.create_block();
        for &ty in params {
            let value = self.builder.append_block_param(block, machine_type(ty));
            self.note(ty, value);
        }
        block
    }

    pub(super) fn push_function_block(&mut self, results: &[ValType]) {
        self.push_control(Opened::Block, (Vec::new(), results.to_vec()));
    }

    fn push_control(&mut self, opened: Opened, (params, results): (Vec<ValType>, Vec<ValType>)) {
        let following = self.block_with(&results);
        let height = self.stack.len() - params.len();
        let handlers = self.handlers.len();
        let is_target = false;
        self.control.push(Control {
            opened,
            following,
            params,
            results,
            height,
            is_target,
            handlers,
        });
    }

    pub(super) fn open_block(&mut self, ty: BlockType) {
        let ty = self.block_type(ty);
        self.push_control(Opened::Block, ty);
    }

    fn open_loop(&mut self, ty: BlockType) {
        let ty = self.block_type(ty);
        let start = self.block_with(&ty.0);
        let values = self.pop_many(ty.0.len());
        self.builder.ins().jump(start, &arguments(&values));
        self.builder.switch_to_block(start);
        // What is called further down in the loop runs before this the next time.
        self.fresh.clear();
        self.stack
            .extend_from_slice(self.builder.block_params(start));
        self.push_control(Opened::Loop(start), ty);
    }

    fn open_if(&mut self, ty: BlockType) {
        let ty = self.block_type(ty);
        let condition = self.pop();
        let (then, other) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(condition, then, &[], other, &[]);
        self.builder.seal_block(then);
        self.builder.seal_block(other);
        self.builder.switch_to_block(then);
        // Both branches begin with the parameters, the second one when `else` or the end comes.
        let params = self.stack[self.stack.len() - ty.0.len()..].to_vec();
        self.push_control(Opened::If(Some((other, params))), ty);
    }

    /// Ends the first branch of an `if`.
    fn turn_to_else(&mut self) {
        self.leave_block();
        let control = self
            .control
            .last_mut()
            .expect("validation pairs if and else");
        let Opened::If(other) = &mut control.opened else {
            unreachable!("validation pairs if and else")
        };
        let (other, params) = other.take().expect("an if has one else");
        self.builder.switch_to_block(other);
        self.stack.truncate(control.height);
        self.stack.extend(params);
        self.reachable = true;
    }

    /// Goes to the end of the innermost block, if that can be reached.
    fn leave_block(&mut self) {
        if !self.reachable {
            return;
        }
        let count = self.control.last().expect("a block is open").results.len();
        let values = self.pop_many(count);
        let control = self.control.last_mut().expect("a block is open");
        control.is_target = true;
        self.builder
            .ins()
            .jump(control.following, &arguments(&values));
        self.reachable = false;
    }

    fn close(&mut self) {
        self.leave_block();
        let mut control = self
            .control
            .pop()
            .expect("validation pairs blocks and ends");
        match control.opened {
            Opened::Loop(start) => self.builder.seal_block(start),
            Opened::If(Some((other, ref params))) => {
                // Without an else the parameters are the results.
                self.builder.switch_to_block(other);
                self.builder
                    .ins()
                    .jump(control.following, &arguments(params));
                control.is_target = true;
            }
            Opened::If(None) => {}
            Opened::Block => {}
        }
        self.handlers.truncate(control.handlers);
        self.stack.truncate(control.height);
        self.builder.seal_block(control.following);
        if control.is_target {
            self.builder.switch_to_block(control.following);
            self.stack
                .extend_from_slice(self.builder.block_params(control.following));
            self.reachable = true;
        }
    }

    /// Where a branch goes, and how many values it carries.
    pub(super) fn label(&mut self, depth: u32) -> (Block, usize) {
        let index = self.control.len() - 1 - depth as usize;
        let control = &mut self.control[index];
        match control.opened {
            Opened::Loop(start) => (start, control.params.len()),
            _ => {
                control.is_target = true;
                (control.following, control.results.len())
            }
        }
    }

    fn top(&self, count: usize) -> Vec<BlockArg> {
        arguments(&self.stack[self.stack.len() - count..])
    }

    pub(super) fn branch(&mut self, depth: u32) {
        let (block, count) = self.label(depth);
        let values = self.top(count);
        self.builder.ins().jump(block, &values);
        self.reachable = false;
    }

    /// Branches if the condition is not zero. What the branch carries stays on the stack.
    pub(super) fn branch_if(&mut self, condition: Value, depth: u32) {
        let (block, count) = self.label(depth);
        let values = self.top(count);
        let next = self.builder.create_block();
        self.builder
            .ins()
            .brif(condition, block, &values, next, &[]);
        self.builder.seal_block(next);
        self.builder.switch_to_block(next);
    }

    fn branch_table(&mut self, targets: &BrTable<'_>) {
        let index = self.pop();
        let depths: Vec<u32> = targets
            .targets()
            .map(|depth| depth.expect("the body was validated"))
            .collect();
        let (block, count) = self.label(targets.default());
        let values = self.top(count);
        let default = self.builder.func.dfg.block_call(block, &values);
        let mut calls = Vec::with_capacity(depths.len());
        for depth in depths {
            let (block, _) = self.label(depth);
            calls.push(self.builder.func.dfg.block_call(block, &values));
        }
        let table = self
            .builder
            .create_jump_table(JumpTableData::new(default, &calls));
        self.builder.ins().br_table(index, table);
        self.reachable = false;
    }

    fn return_now(&mut self) {
        let values = self.pop_many(self.results.len());
        self.builder.ins().return_(&values);
        self.reachable = false;
    }
}
