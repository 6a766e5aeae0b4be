//! Code: trees are folded, folded trees are translated to instructions of three addresses, and those are run.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Mutator, OutOfMemory};

use super::syntax::{kind, node};
use super::{Compiler, Done, function};
use crate::objects::{Allocated, Code, frame, object, value};
use crate::random::chained;

/// What an instruction does; that of an operator is its sign.
mod operation {
    /// To the first, the number that the second is.
    pub const NUMBER: u32 = 0;
    /// To the first, what is in the second.
    pub const MOVE: u32 = 1;
    /// On to the instruction that the first is.
    pub const JUMP: u32 = 2;
    /// On to the instruction that the first is, if zero is in the second.
    pub const JUMP_IF_ZERO: u32 = 3;
    /// To the first, what the function returns for what is in the second and those behind it.
    pub const CALL: u32 = 4;
    /// Returns what is in the second.
    pub const RETURN: u32 = 5;
}

/// An operator's result.
fn operate(sign: u32, left: u32, right: u32) -> u32 {
    match sign as u8 {
        b'+' => left.wrapping_add(right),
        b'-' => left.wrapping_sub(right),
        b'*' => left.wrapping_mul(right),
        b'^' => left ^ right,
        b'&' => left & right,
        _ => u32::from(left < right),
    }
}

/// Folding: each tree is made anew, without what is known before it runs.
impl<F: Code> Compiler<F> {
    pub fn folded_list(&self, mutator: &mut Mutator, list: Address) -> Allocated {
        frame(mutator, [Address::NULL; 2], |mutator, [first, last]| {
            self.for_each(mutator, list, |mutator, node| {
                let folded = self.folded(mutator, node)?;
                self.append(mutator, first, last, folded);
                Ok(())
            })?;
            Ok(object(first))
        })
    }

    fn folded(&self, mutator: &mut Mutator, node: Address) -> Allocated {
        let roots = [node, Address::NULL, Address::NULL];
        frame(mutator, roots, |mutator, [node, left, right]| {
            let of = |mutator: &Mutator, index| self.node.get(mutator, object(node), index);
            let (kind, number) = (
                self.kind_of(object(node)),
                self.node.number(object(node), 1),
            );
            let old_left = of(mutator, node::LEFT);
            left.set(value(match kind {
                kind::NUMBER | kind::READ => Address::NULL,
                kind::CALL | kind::BLOCK => self.folded_list(mutator, old_left)?,
                kind::FUNCTION => old_left,
                _ => self.folded(mutator, old_left)?,
            }));
            let old_right = of(mutator, node::RIGHT);
            if kind == kind::IF {
                if let Some(known) = self.literal(object(left)) {
                    let other = self.node.get(mutator, old_right, node::NEXT);
                    return self.folded(mutator, if known == 0 { other } else { old_right });
                }
                right.set(value(self.folded_list(mutator, old_right)?));
            } else if old_right != Address::NULL {
                right.set(value(self.folded(mutator, old_right)?));
            }
            if kind == kind::BINARY {
                let (one, other) = (self.literal(object(left)), self.literal(object(right)));
                match (number as u8, one, other) {
                    (_, Some(one), Some(other)) => {
                        let known = operate(number, one, other);
                        return self.node(mutator, (kind::NUMBER, known), [Address::NULL; 3]);
                    }
                    (b'+' | b'-' | b'^', _, Some(0)) | (b'*', _, Some(1)) => {
                        return Ok(object(left));
                    }
                    (b'*' | b'&', _, Some(0)) => return Ok(object(right)),
                    _ => {}
                }
            }
            let references = [of(mutator, node::NAME), object(left), object(right)];
            self.node(mutator, (kind, number), references)
        })
    }

    /// The number that a node is, if it is one.
    fn literal(&self, node: Address) -> Option<u32> {
        (self.kind_of(node) == kind::NUMBER).then(|| self.node.number(node, 1))
    }
}

/// The code of one function while it is made.
struct Translating<'a> {
    /// The list of instructions.
    code: &'a Cell<Value>,
    /// Registers so far.
    registers: Cell<u32>,
}

impl Translating<'_> {
    /// Makes `count` fresh registers, one behind the other; gives the first.
    fn fresh(&self, count: u32) -> u32 {
        let first = self.registers.get();
        self.registers.set(first + count);
        first
    }
}

/// Translating.
impl<F: Code> Compiler<F> {
    /// Gives each function of a list its code.
    pub fn translate(&self, mutator: &mut Mutator, list: Address) -> Done {
        self.for_each(mutator, list, |mutator, node| {
            let made = self.node.get(mutator, node, node::NAME);
            let block = self.node.get(mutator, node, node::RIGHT);
            let roots = [made, block, Address::NULL];
            frame(mutator, roots, |mutator, [made, block, code]| {
                code.set(value(self.vector.fresh(mutator)?));
                let translating = &Translating {
                    code,
                    registers: Cell::new(self.function.number(object(made), 0)),
                };
                self.translate_statement(mutator, object(block), translating)?;
                // Of a function that does not return before.
                let zero = self.number(mutator, 0, translating)?;
                self.instruction(mutator, operation::RETURN, [0, zero, 0], translating)?;
                let registers = translating.registers.get();
                self.function.set_number(object(made), 0, registers);
                self.function
                    .set(mutator, object(made), function::CODE, object(code));
                Ok(())
            })
        })
    }

    /// Adds an instruction; its place.
    fn instruction(
        &self,
        mutator: &mut Mutator,
        operation: u32,
        operands: [u32; 3],
        translating: &Translating<'_>,
    ) -> Result<u32, OutOfMemory> {
        let instruction = self.instruction.fresh(mutator)?;
        self.instruction.set_number(instruction, 0, operation);
        for (index, operand) in operands.into_iter().enumerate() {
            self.instruction.set_number(instruction, 1 + index, operand);
        }
        self.vector.push(mutator, translating.code, instruction)?;
        Ok(self.place(translating) - 1)
    }

    /// Where the next instruction will be.
    fn place(&self, translating: &Translating<'_>) -> u32 {
        self.vector.length(object(translating.code)) as u32
    }

    /// Makes a jump go to the next instruction.
    fn land(&self, mutator: &Mutator, jump: u32, translating: &Translating<'_>) {
        let place = self.place(translating);
        let code = object(translating.code);
        let instruction = self.vector.get(mutator, code, jump as usize);
        self.instruction.set_number(instruction, 1, place);
    }

    /// A register with a number.
    fn number(
        &self,
        mutator: &mut Mutator,
        number: u32,
        translating: &Translating<'_>,
    ) -> Result<u32, OutOfMemory> {
        let to = translating.fresh(1);
        self.instruction(mutator, operation::NUMBER, [to, number, 0], translating)?;
        Ok(to)
    }

    fn translate_statement(
        &self,
        mutator: &mut Mutator,
        node: Address,
        translating: &Translating<'_>,
    ) -> Done {
        frame(mutator, [node], |mutator, [node]| {
            let left = self.node.get(mutator, object(node), node::LEFT);
            match self.kind_of(object(node)) {
                kind::LET | kind::ASSIGN => {
                    let from = self.value_of(mutator, left, translating)?;
                    let to = self.register(mutator, object(node));
                    self.instruction(mutator, operation::MOVE, [to, from, 0], translating)?;
                }
                kind::RETURN => {
                    let from = self.value_of(mutator, left, translating)?;
                    self.instruction(mutator, operation::RETURN, [0, from, 0], translating)?;
                }
                kind::IF => {
                    let condition = self.value_of(mutator, left, translating)?;
                    let skip = [0, condition, 0];
                    let skip =
                        self.instruction(mutator, operation::JUMP_IF_ZERO, skip, translating)?;
                    let block = self.node.get(mutator, object(node), node::RIGHT);
                    self.translate_statement(mutator, block, translating)?;
                    let end = self.instruction(mutator, operation::JUMP, [0; 3], translating)?;
                    self.land(mutator, skip, translating);
                    let block = self.node.get(mutator, object(node), node::RIGHT);
                    let other = self.node.get(mutator, block, node::NEXT);
                    self.translate_statement(mutator, other, translating)?;
                    self.land(mutator, end, translating);
                }
                kind::FOR => self.translate_loop(mutator, node, translating)?,
                _ => self.for_each(mutator, left, |mutator, node| {
                    self.translate_statement(mutator, node, translating)
                })?,
            }
            Ok(())
        })
    }

    fn translate_loop(
        &self,
        mutator: &mut Mutator,
        node: &Cell<Value>,
        translating: &Translating<'_>,
    ) -> Done {
        let rounds = self.node.get(mutator, object(node), node::LEFT);
        let rounds = self.value_of(mutator, rounds, translating)?;
        let one = self.number(mutator, 1, translating)?;
        let round = self.register(mutator, object(node));
        self.instruction(mutator, operation::NUMBER, [round, 0, 0], translating)?;
        let start = self.place(translating);
        let is_left = translating.fresh(1);
        let compare = [is_left, round, rounds];
        self.instruction(mutator, u32::from(b'<'), compare, translating)?;
        let end = [0, is_left, 0];
        let end = self.instruction(mutator, operation::JUMP_IF_ZERO, end, translating)?;
        let block = self.node.get(mutator, object(node), node::RIGHT);
        self.translate_statement(mutator, block, translating)?;
        let next = [round, round, one];
        self.instruction(mutator, u32::from(b'+'), next, translating)?;
        self.instruction(mutator, operation::JUMP, [start, 0, 0], translating)?;
        self.land(mutator, end, translating);
        Ok(())
    }

    /// The register in which an expression's value will be. Expressions change no names, so a name's own will do.
    fn value_of(
        &self,
        mutator: &mut Mutator,
        node: Address,
        translating: &Translating<'_>,
    ) -> Result<u32, OutOfMemory> {
        frame(mutator, [node], |mutator, [node]| {
            let number = self.node.number(object(node), 1);
            match self.kind_of(object(node)) {
                kind::NUMBER => self.number(mutator, number, translating),
                kind::READ => Ok(self.register(mutator, object(node))),
                kind::BINARY => {
                    let left = self.node.get(mutator, object(node), node::LEFT);
                    let left = self.value_of(mutator, left, translating)?;
                    let right = self.node.get(mutator, object(node), node::RIGHT);
                    let right = self.value_of(mutator, right, translating)?;
                    let to = translating.fresh(1);
                    self.instruction(mutator, number, [to, left, right], translating)?;
                    Ok(to)
                }
                _ => self.translate_call(mutator, node, translating),
            }
        })
    }

    fn translate_call(
        &self,
        mutator: &mut Mutator,
        node: &Cell<Value>,
        translating: &Translating<'_>,
    ) -> Result<u32, OutOfMemory> {
        let callee = self.node.get(mutator, object(node), node::NAME);
        let first = translating.fresh(self.function.number(callee, 1));
        let mut next = first;
        let arguments = self.node.get(mutator, object(node), node::LEFT);
        self.for_each(mutator, arguments, |mutator, argument| {
            let from = self.value_of(mutator, argument, translating)?;
            self.instruction(mutator, operation::MOVE, [next, from, 0], translating)?;
            next += 1;
            Ok(())
        })?;
        let to = translating.fresh(1);
        let place = self.instruction(mutator, operation::CALL, [to, first, 0], translating)?;
        let code = object(translating.code);
        let instruction = self.vector.get(mutator, code, place as usize);
        let callee = self.node.get(mutator, object(node), node::NAME);
        self.instruction.set(mutator, instruction, 0, callee);
        Ok(to)
    }

    /// One more function of a unit's number: its code.
    pub fn code_hash(&self, mutator: &Mutator, function: Address, mut sum: u64) -> u64 {
        let code = self.function.get(mutator, function, function::CODE);
        for index in 0..self.vector.length(code) {
            let instruction = self.vector.get(mutator, code, index);
            for number in 0..4 {
                sum = chained(sum, self.instruction.number(instruction, number).into());
            }
            let callee = self.instruction.get(mutator, instruction, 0);
            if callee != Address::NULL {
                let letters = self.function.get(mutator, callee, function::LETTERS);
                sum = chained(sum, self.bytes.hash(mutator, letters));
            }
        }
        sum
    }
}

/// Running.
impl<F: Code> Compiler<F> {
    /// What a function returns.
    pub fn call(
        &self,
        mutator: &mut Mutator,
        function: Address,
        arguments: &[u32],
    ) -> Result<u32, OutOfMemory> {
        let code = self.function.get(mutator, function, function::CODE);
        let count = self.function.number(function, 0) as usize;
        frame(
            mutator,
            [code, Address::NULL],
            |mutator, [code, registers]| {
                registers.set(value(self.registers.fresh(mutator, count)?));
                self.registers
                    .write(mutator, object(registers), 0, arguments)?;
                let mut place = 0;
                loop {
                    let instruction = self.vector.get(mutator, object(code), place);
                    place += 1;
                    let [operation, first, second, third] =
                        [0, 1, 2, 3].map(|index| self.instruction.number(instruction, index));
                    let read = |mutator: &Mutator, register: u32| {
                        self.registers
                            .get(mutator, object(registers), register as usize)
                    };
                    let result = match operation {
                        operation::NUMBER => second,
                        operation::MOVE => read(mutator, second),
                        operation::JUMP => {
                            mutator.poll();
                            place = first as usize;
                            continue;
                        }
                        operation::JUMP_IF_ZERO => {
                            if read(mutator, second) == 0 {
                                place = first as usize;
                            }
                            continue;
                        }
                        operation::CALL => {
                            let callee = self.instruction.get(mutator, instruction, 0);
                            let count = self.function.number(callee, 1);
                            let mut given = [0; super::PARAMETERS];
                            for (index, argument) in (0..count).zip(&mut given) {
                                *argument = read(mutator, second + index);
                            }
                            self.call(mutator, callee, &given[..count as usize])?
                        }
                        operation::RETURN => return Ok(read(mutator, second)),
                        sign => operate(sign, read(mutator, second), read(mutator, third)),
                    };
                    self.registers
                        .set(mutator, object(registers), first as usize, result)?;
                }
            },
        )
    }
}
