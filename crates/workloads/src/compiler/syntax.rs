//! From a text to a tree: tokens, and a parser that descends.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Mutator, OutOfMemory};

use super::Compiler;
use crate::objects::{Allocated, Code, copy, frame, object, value};

/// Kinds of tokens; that of a sign is its byte.
mod token {
    pub const END: u32 = 0;
    pub const NAME: u32 = 1;
    pub const NUMBER: u32 = 2;
    /// That of the first keyword.
    pub const KEYWORD: u32 = 3;
    pub const FUNCTION: u32 = KEYWORD;
    pub const LET: u32 = KEYWORD + 1;
    pub const IF: u32 = KEYWORD + 2;
    pub const ELSE: u32 = KEYWORD + 3;
    pub const FOR: u32 = KEYWORD + 4;
    pub const RETURN: u32 = KEYWORD + 5;
}

const KEYWORDS: [&[u8]; 6] = [b"fn", b"let", b"if", b"else", b"for", b"return"];

/// A node: its references, and the kinds of which its first number is one. The second is an operator or a number.
pub mod node {
    /// Letters of a name; when that is resolved, a symbol or a function.
    pub const NAME: usize = 0;
    pub const LEFT: usize = 1;
    pub const RIGHT: usize = 2;
    /// The next one of a list; of a conditional's first block, the second one.
    pub const NEXT: usize = 3;
}

/// Kinds of nodes.
pub mod kind {
    /// A literal.
    pub const NUMBER: u32 = 0;
    /// A name that is read.
    pub const READ: u32 = 1;
    /// An operator between left and right.
    pub const BINARY: u32 = 2;
    /// A name with a list of arguments (left).
    pub const CALL: u32 = 3;
    /// A name and its first value (left).
    pub const LET: u32 = 4;
    /// A name and its next value (left).
    pub const ASSIGN: u32 = 5;
    /// A condition (left) and two blocks (right, and the next of that).
    pub const IF: u32 = 6;
    /// A name, the number of rounds (left), a block (right).
    pub const FOR: u32 = 7;
    /// A value (left).
    pub const RETURN: u32 = 8;
    /// A list of statements (left).
    pub const BLOCK: u32 = 9;
    /// A name, a list of parameters (left), a block (right).
    pub const FUNCTION: u32 = 10;
}

/// How tightly an operator binds; 0 for what is none.
fn precedence(sign: u32) -> u32 {
    match u8::try_from(sign) {
        Ok(b'<') => 1,
        Ok(b'+' | b'-' | b'^') => 2,
        Ok(b'*' | b'&') => 3,
        _ => 0,
    }
}

/// A token of a text.
struct Scanned {
    kind: u32,
    number: u32,
    start: usize,
    end: usize,
}

/// The token at `at` or behind the blanks there.
fn scan(text: &[u8], at: usize) -> Scanned {
    let blanks = text[at..]
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace());
    let start = at + blanks.count();
    let letters = text[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric());
    let word = &text[start..][..letters.count()];
    let (kind, number, length) = match (word.first(), text.get(start)) {
        (Some(b'0'..=b'9'), _) => {
            let digits = word.iter().map(|digit| u32::from(digit - b'0'));
            (
                token::NUMBER,
                digits.fold(0, |sum, digit| 10 * sum + digit),
                word.len(),
            )
        }
        (Some(_), _) => {
            let keyword = KEYWORDS.iter().position(|keyword| *keyword == word);
            let kind = keyword.map_or(token::NAME, |index| token::KEYWORD + index as u32);
            (kind, 0, word.len())
        }
        (None, Some(&sign)) => (u32::from(sign), 0, 1),
        (None, None) => (token::END, 0, 0),
    };
    Scanned {
        kind,
        number,
        start,
        end: start + length,
    }
}

/// Tokens.
impl<F: Code> Compiler<F> {
    /// The first of a text's tokens.
    pub fn tokens(&self, mutator: &mut Mutator, text: &Cell<Value>) -> Allocated {
        frame(
            mutator,
            [Address::NULL; 3],
            |mutator, [first, last, letters]| {
                let mut at = 0;
                loop {
                    let found = self
                        .bytes
                        .look(mutator, object(text), |text| scan(text, at));
                    at = found.end;
                    letters.set(Value::NULL);
                    if found.kind == token::NAME {
                        let length = found.end - found.start;
                        letters.set(value(self.bytes.fresh(mutator, length)?));
                        let (from, to) = ((object(text), found.start), (object(letters), 0));
                        copy(mutator, from, to, length)?;
                    }
                    let token = self.token.fresh(mutator)?;
                    self.token.initialize(mutator, token, 1, object(letters));
                    self.token.set_number(token, 0, found.kind);
                    self.token.set_number(token, 1, found.number);
                    if object(last) == Address::NULL {
                        first.set(value(token));
                    } else {
                        self.token.set(mutator, object(last), 0, token);
                    }
                    last.set(value(token));
                    if found.kind == token::END {
                        return Ok(object(first));
                    }
                }
            },
        )
    }

    fn kind(&self, at: &Cell<Value>) -> u32 {
        self.token.number(object(at), 0)
    }

    fn advance(&self, mutator: &Mutator, at: &Cell<Value>) {
        at.set(value(self.token.get(mutator, object(at), 0)));
    }

    fn take(&self, mutator: &Mutator, at: &Cell<Value>, kind: u32) {
        assert_eq!(self.kind(at), kind, "the text is well formed");
        self.advance(mutator, at);
    }

    fn take_name(&self, mutator: &Mutator, at: &Cell<Value>) -> Address {
        let letters = self.token.get(mutator, object(at), 1);
        self.take(mutator, at, token::NAME);
        letters
    }
}

/// Parsing. `at` is the next token.
impl<F: Code> Compiler<F> {
    /// A fresh node with these references; the last is null.
    pub fn node(
        &self,
        mutator: &mut Mutator,
        (kind, number): (u32, u32),
        references: [Address; 3],
    ) -> Allocated {
        frame(mutator, references, |mutator, references| {
            let node = self.node.fresh(mutator)?;
            for (index, reference) in references.iter().enumerate() {
                self.node
                    .initialize(mutator, node, index, object(reference));
            }
            self.node.set_number(node, 0, kind);
            self.node.set_number(node, 1, number);
            Ok(node)
        })
    }

    /// Adds a node to the end of a list.
    pub fn append(
        &self,
        mutator: &Mutator,
        first: &Cell<Value>,
        last: &Cell<Value>,
        node: Address,
    ) {
        if object(last) == Address::NULL {
            first.set(value(node));
        } else {
            self.node.set(mutator, object(last), node::NEXT, node);
        }
        last.set(value(node));
    }

    /// The list of a text's functions.
    pub fn parsed(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        self.list(mutator, at, token::END, Self::function)
    }

    /// A list of what `one` parses, and the token behind it.
    fn list(
        &self,
        mutator: &mut Mutator,
        at: &Cell<Value>,
        until: u32,
        one: fn(&Self, &mut Mutator, &Cell<Value>) -> Allocated,
    ) -> Allocated {
        frame(mutator, [Address::NULL; 2], |mutator, [first, last]| {
            while self.kind(at) != until {
                let node = one(self, mutator, at)?;
                self.append(mutator, first, last, node);
                if self.kind(at) == u32::from(b',') {
                    self.advance(mutator, at);
                }
            }
            self.advance(mutator, at);
            Ok(object(first))
        })
    }

    fn function(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        self.take(mutator, at, token::FUNCTION);
        let letters = self.take_name(mutator, at);
        self.take(mutator, at, u32::from(b'('));
        let roots = [letters, Address::NULL];
        frame(mutator, roots, |mutator, [letters, parameters]| {
            let list = self.list(mutator, at, u32::from(b')'), Self::parameter)?;
            parameters.set(value(list));
            let block = self.block(mutator, at)?;
            let references = [object(letters), object(parameters), block];
            self.node(mutator, (kind::FUNCTION, 0), references)
        })
    }

    fn parameter(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        let letters = self.take_name(mutator, at);
        let references = [letters, Address::NULL, Address::NULL];
        self.node(mutator, (kind::READ, 0), references)
    }

    fn block(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        self.take(mutator, at, u32::from(b'{'));
        let list = self.list(mutator, at, u32::from(b'}'), Self::statement)?;
        let references = [Address::NULL, list, Address::NULL];
        self.node(mutator, (kind::BLOCK, 0), references)
    }

    fn statement(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        let first = self.kind(at);
        if first != token::NAME {
            self.advance(mutator, at);
        }
        match first {
            token::LET => self.named(mutator, at, kind::LET),
            token::IF => self.conditional(mutator, at),
            token::FOR => self.repetition(mutator, at),
            token::RETURN => {
                let returned = self.expression(mutator, at)?;
                self.take(mutator, at, u32::from(b';'));
                let references = [Address::NULL, returned, Address::NULL];
                self.node(mutator, (kind::RETURN, 0), references)
            }
            _ => self.named(mutator, at, kind::ASSIGN),
        }
    }

    /// A name that gets a value.
    fn named(&self, mutator: &mut Mutator, at: &Cell<Value>, kind: u32) -> Allocated {
        let letters = self.take_name(mutator, at);
        self.take(mutator, at, u32::from(b'='));
        frame(mutator, [letters], |mutator, [letters]| {
            let given = self.expression(mutator, at)?;
            self.take(mutator, at, u32::from(b';'));
            let references = [object(letters), given, Address::NULL];
            self.node(mutator, (kind, 0), references)
        })
    }

    fn conditional(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        frame(
            mutator,
            [Address::NULL; 2],
            |mutator, [condition, first]| {
                condition.set(value(self.expression(mutator, at)?));
                first.set(value(self.block(mutator, at)?));
                self.take(mutator, at, token::ELSE);
                let second = self.block(mutator, at)?;
                self.node.set(mutator, object(first), node::NEXT, second);
                let references = [Address::NULL, object(condition), object(first)];
                self.node(mutator, (kind::IF, 0), references)
            },
        )
    }

    fn repetition(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        let letters = self.take_name(mutator, at);
        frame(
            mutator,
            [letters, Address::NULL],
            |mutator, [letters, rounds]| {
                rounds.set(value(self.expression(mutator, at)?));
                let block = self.block(mutator, at)?;
                let references = [object(letters), object(rounds), block];
                self.node(mutator, (kind::FOR, 0), references)
            },
        )
    }

    fn expression(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        self.operation(mutator, at, 1)
    }

    /// Operands between operators that bind at least so tightly.
    fn operation(&self, mutator: &mut Mutator, at: &Cell<Value>, least: u32) -> Allocated {
        let left = self.operand(mutator, at)?;
        frame(mutator, [left], |mutator, [left]| {
            loop {
                let sign = self.kind(at);
                let binds = precedence(sign);
                if binds < least {
                    return Ok(object(left));
                }
                self.advance(mutator, at);
                let right = self.operation(mutator, at, binds + 1)?;
                let references = [Address::NULL, object(left), right];
                left.set(value(self.node(
                    mutator,
                    (kind::BINARY, sign),
                    references,
                )?));
            }
        })
    }

    fn operand(&self, mutator: &mut Mutator, at: &Cell<Value>) -> Allocated {
        match self.kind(at) {
            token::NUMBER => {
                let number = self.token.number(object(at), 1);
                self.advance(mutator, at);
                self.node(mutator, (kind::NUMBER, number), [Address::NULL; 3])
            }
            token::NAME => {
                let letters = self.take_name(mutator, at);
                if self.kind(at) != u32::from(b'(') {
                    let references = [letters, Address::NULL, Address::NULL];
                    return self.node(mutator, (kind::READ, 0), references);
                }
                self.advance(mutator, at);
                frame(mutator, [letters], |mutator, [letters]| {
                    let list = self.list(mutator, at, u32::from(b')'), Self::expression)?;
                    let references = [object(letters), list, Address::NULL];
                    self.node(mutator, (kind::CALL, 0), references)
                })
            }
            _ => {
                self.take(mutator, at, u32::from(b'('));
                let inner = self.expression(mutator, at)?;
                self.take(mutator, at, u32::from(b')'));
                Ok(inner)
            }
        }
    }
}

/// Reading a tree.
impl<F: Code> Compiler<F> {
    pub fn kind_of(&self, node: Address) -> u32 {
        self.node.number(node, 0)
    }

    /// Runs `each` on a list of nodes.
    pub fn for_each(
        &self,
        mutator: &mut Mutator,
        first: Address,
        mut each: impl FnMut(&mut Mutator, Address) -> Result<(), OutOfMemory>,
    ) -> Result<(), OutOfMemory> {
        frame(mutator, [first], |mutator, [node]| {
            while object(node) != Address::NULL {
                each(mutator, object(node))?;
                node.set(value(self.node.get(mutator, object(node), node::NEXT)));
            }
            Ok(())
        })
    }
}
