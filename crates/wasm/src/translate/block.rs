//! What the translator knows of a block that is open.

use cranelift_codegen::ir::{Block, Value};

use crate::types::ValType;

/// What a block was opened by.
pub(super) enum Opened {
    /// The function, `block` or `try_table`.
    Block,
    /// `loop`, which begins here.
    Loop(Block),
    /// `if`, with the block in which its other branch begins and its parameters, until `else` takes them.
    If(Option<(Block, Vec<Value>)>),
}

/// A block that is open.
pub(super) struct Control {
    pub(super) opened: Opened,
    /// Where code goes on behind it; its parameters are the results.
    pub(super) following: Block,
    pub(super) params: Vec<ValType>,
    pub(super) results: Vec<ValType>,
    /// Of the stack, below the parameters.
    pub(super) height: usize,
    /// Whether anything branches to `following`.
    pub(super) is_target: bool,
    /// How many handlers of exceptions were open before it.
    pub(super) handlers: usize,
}
