//! Texts of programs, made at random, that `compiler` compiles: the same for the same seed.
//!
//! A unit has functions of one to three parameters with nested blocks, loops of a few rounds and expressions over
//! numbers of 32 bits:
//!
//! ```text
//! fn bako7(defu, sopa) { let mila = defu * (sopa + 3); for i0 2 + 1 { mila = mila ^ i0; } return mila; }
//! ```
//!
//! Operators bind as `<`, then `+ - ^`, then `* &`, from loosest to tightest. Each program ends: a function calls those
//! before it alone, no loop variable is assigned, and what a call may cost is bounded. The first half of a unit's
//! functions may be called by later units, as long as [`Programs`] says; they call functions of their own unit alone.

use std::collections::VecDeque;
use std::fmt::Write;

use super::random::Random;

/// Most parameters of a function.
pub const PARAMETERS: usize = 3;
/// What a call of a function costs at most, in operands that are evaluated.
const MOST: u32 = 1500;
/// Blocks within blocks, and operators within operators.
const DEPTH: u32 = 3;
const SYLLABLES: &[u8; 32] = b"bakodelumirasotefinugahepivowyzu";
const OPERATORS: [char; 6] = ['+', '-', '^', '*', '&', '<'];

/// An endless sequence of units.
pub struct Programs {
    random: Random,
    /// Functions of each unit.
    functions: usize,
    /// Units before the present one whose functions it may call.
    reach: usize,
    /// How many functions there are so far, which makes their names unique.
    made: u32,
    /// The functions that later units may call.
    exported: VecDeque<Function>,
}

#[derive(Clone)]
struct Function {
    name: String,
    parameters: usize,
    cost: u32,
}

impl Programs {
    /// Units of `functions` functions, each of which may call functions of the `reach` units before its own.
    pub fn new(random: Random, functions: usize, reach: usize) -> Programs {
        Programs {
            random,
            functions,
            reach,
            made: 0,
            exported: VecDeque::new(),
        }
    }

    /// The text of the next unit.
    pub fn unit(&mut self) -> String {
        let (mut text, mut own) = (String::new(), Vec::new());
        let exports = self.functions / 2;
        for index in 0..self.functions {
            let mut callees = own.clone();
            if index >= exports {
                callees.extend(self.exported.iter().cloned());
            }
            let name = format!("{}{}", word(&mut self.random), self.made);
            self.made += 1;
            let mut writer = Writer {
                random: &mut self.random,
                text: &mut text,
                callees: &callees,
                names: Vec::new(),
                assignable: Vec::new(),
                loops: 0,
                times: 1,
                cost: 0,
            };
            let parameters = writer.function(&name);
            let cost = writer.cost;
            own.push(Function {
                name,
                parameters,
                cost,
            });
        }
        self.exported.extend(own.into_iter().take(exports));
        while self.exported.len() > exports * self.reach {
            self.exported.pop_front();
        }
        text
    }
}

/// Two syllables, which no keyword has.
fn word(random: &mut Random) -> String {
    let mut syllable = || SYLLABLES.as_chunks::<2>().0[random.below(16) as usize];
    [syllable(), syllable()]
        .as_flattened()
        .iter()
        .map(|&letter| char::from(letter))
        .collect()
}

/// Writes one function.
struct Writer<'a> {
    random: &'a mut Random,
    text: &'a mut String,
    callees: &'a [Function],
    /// What can be read here.
    names: Vec<String>,
    /// What can be assigned here.
    assignable: Vec<String>,
    /// Loops around this place, and how often it runs.
    loops: u32,
    times: u32,
    cost: u32,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// The whole function; how many parameters it has.
    fn function(&mut self, name: &str) -> usize {
        let parameters = 1 + self.random.below(PARAMETERS as u32) as usize;
        for _ in 0..parameters {
            let name = word(self.random);
            self.names.push(name.clone());
            self.assignable.push(name);
        }
        let list = self.names.join(", ");
        self.put(&format!("fn {name}({list}) "));
        self.block(DEPTH, true);
        self.put("\n");
        parameters
    }

    fn block(&mut self, depth: u32, returns: bool) {
        let known = (self.names.len(), self.assignable.len());
        self.put("{\n");
        for _ in 0..2 + self.random.below(4) {
            self.statement(depth);
        }
        if returns {
            self.put("return ");
            self.expression(DEPTH);
            self.put(";\n");
        }
        self.put("}\n");
        self.names.truncate(known.0);
        self.assignable.truncate(known.1);
    }

    fn statement(&mut self, depth: u32) {
        match self.random.below(10) {
            0..=2 => {
                let index = self.random.below(self.assignable.len() as u32) as usize;
                let name = self.assignable[index].clone();
                self.put(&format!("{name} = "));
                self.expression(DEPTH);
                self.put(";\n");
            }
            3 | 4 if depth > 0 => {
                self.put("if ");
                self.expression(1);
                self.put(" ");
                let returns = self.random.below(8) == 0;
                self.block(depth - 1, returns);
                self.put("else ");
                self.block(depth - 1, false);
            }
            5 if depth > 0 && self.loops < 2 => self.repetition(depth),
            _ => {
                let name = word(self.random);
                self.put(&format!("let {name} = "));
                self.expression(DEPTH);
                self.put(";\n");
                self.names.push(name.clone());
                self.assignable.push(name);
            }
        }
    }

    fn repetition(&mut self, depth: u32) {
        let (one, two) = (1 + self.random.below(3), self.random.below(3));
        let name = format!("i{}", self.loops);
        self.put(&format!("for {name} {one} + {two} "));
        let times = self.times;
        self.times *= one + two;
        self.loops += 1;
        self.names.push(name);
        self.block(depth - 1, false);
        self.names.pop();
        self.loops -= 1;
        self.times = times;
    }

    fn expression(&mut self, depth: u32) {
        if depth == 0 || self.random.below(4) == 0 {
            return self.operand();
        }
        match self.random.below(8) {
            0 if self.call(depth) => {}
            1 | 2 => {
                self.put("(");
                self.operation(depth);
                self.put(")");
            }
            _ => self.operation(depth),
        }
    }

    fn operation(&mut self, depth: u32) {
        self.expression(depth - 1);
        let operator = OPERATORS[self.random.below(OPERATORS.len() as u32) as usize];
        self.put(&format!(" {operator} "));
        self.expression(depth - 1);
    }

    /// A name or a number.
    fn operand(&mut self) {
        self.cost += self.times;
        if self.random.below(5) < 3 {
            let index = self.random.below(self.names.len() as u32) as usize;
            let name = self.names[index].clone();
            self.put(&name);
        } else {
            let number = self.random.below(12);
            write!(self.text, "{number}").expect("a string takes all");
        }
    }

    /// Writes a call, unless there is nothing to call or it costs too much.
    fn call(&mut self, depth: u32) -> bool {
        if self.callees.is_empty() {
            return false;
        }
        let callee = &self.callees[self.random.below(self.callees.len() as u32) as usize];
        let cost = self.cost + callee.cost * self.times;
        if cost > MOST {
            return false;
        }
        self.cost = cost;
        self.put(&format!("{}(", callee.name));
        for index in 0..callee.parameters {
            if index > 0 {
                self.put(", ");
            }
            self.expression(depth - 1);
        }
        self.put(")");
        true
    }
}
