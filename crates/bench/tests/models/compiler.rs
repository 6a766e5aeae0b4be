//! The workload `compiler`, at the scale of `--tiny`: programs are parsed into boxes, evaluated as they were written,
//! and translated with the constants folded, for their code alone.

use std::collections::HashMap;
use std::rc::Rc;

use gleaner_workloads::program::Programs;

use super::random::{Random, chained, hash_of, scattered};

const UNITS: u64 = 40;
const FUNCTIONS: u64 = 6;
const KEPT: usize = 4;

/// A variable has the register that the compiler gives it.
enum Expression {
    Number(u32),
    Read(u32),
    Binary(char, Box<Expression>, Box<Expression>),
    Call(Rc<Function>, Vec<Expression>),
}

enum Statement {
    Set(u32, Expression),
    If(Expression, [Vec<Statement>; 2]),
    For(u32, Expression, Vec<Statement>),
    Return(Expression),
}

struct Function {
    name: String,
    parameters: u32,
    /// Names with their registers.
    symbols: Vec<(String, u32)>,
    body: Vec<Statement>,
}

pub fn compiler(thread: u32) -> u64 {
    let random = Random::new(21_000 + u64::from(thread));
    let mut programs = Programs::new(random, FUNCTIONS as usize, KEPT);
    let mut known = HashMap::new();
    let mut sum = 0;
    for unit in 0..UNITS {
        let text = programs.unit();
        let mut parser = Parser::new(&text, &mut known);
        let functions: Vec<_> = (0..FUNCTIONS).map(|_| parser.function()).collect();
        assert!(parser.tokens.is_empty());
        let hash = functions.iter().fold(0, |sum, function| {
            let sum = chained(sum, hash_of(function.name.as_bytes()));
            let symbols = function
                .symbols
                .iter()
                .map(|(name, register)| scattered(hash_of(name.as_bytes()) ^ u64::from(*register)));
            let sum = chained(sum, symbols.fold(0, u64::wrapping_add));
            Translation::of(function).into_iter().fold(sum, chained)
        });
        let returned = functions.iter().zip(0..).fold(0, |sum, (function, index)| {
            let drawn = scattered(unit * FUNCTIONS + index);
            let arguments = [drawn as u32, (drawn >> 32) as u32, index as u32];
            let count = function.parameters as usize;
            chained(sum, u64::from(function.call(&arguments[..count])))
        });
        sum = chained(chained(sum, hash), returned);
    }
    sum
}

struct Parser<'a> {
    /// From the last to the first.
    tokens: Vec<&'a str>,
    /// Functions of all units so far.
    known: &'a mut HashMap<String, Rc<Function>>,
    /// What is visible, the innermost last.
    visible: Vec<(String, u32)>,
    symbols: Vec<(String, u32)>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, known: &'a mut HashMap<String, Rc<Function>>) -> Parser<'a> {
        let words = text.split_inclusive(|sign: char| !sign.is_ascii_alphanumeric());
        let halves = words.flat_map(|word| {
            let sign = word.len() - usize::from(!word.ends_with(char::is_alphanumeric));
            [&word[..sign], word[sign..].trim()]
        });
        let mut tokens: Vec<_> = halves.filter(|token| !token.is_empty()).collect();
        tokens.reverse();
        Parser {
            tokens,
            known,
            visible: Vec::new(),
            symbols: Vec::new(),
        }
    }

    fn next(&mut self) -> &'a str {
        self.tokens.pop().unwrap()
    }

    fn take(&mut self, token: &str) {
        assert_eq!(self.next(), token);
    }

    /// Whether that was next, and is taken.
    fn took(&mut self, token: &str) -> bool {
        let is_next = self.tokens.last() == Some(&token);
        if is_next {
            self.tokens.pop();
        }
        is_next
    }

    fn declare(&mut self, name: &str) -> u32 {
        let register = self.symbols.len() as u32;
        self.symbols.push((name.to_string(), register));
        self.visible.push((name.to_string(), register));
        register
    }

    fn register(&self, name: &str) -> u32 {
        let mut found = self.visible.iter().rev();
        found.find(|(other, _)| other == name).unwrap().1
    }

    fn function(&mut self) -> Rc<Function> {
        self.visible.clear();
        self.symbols.clear();
        self.take("fn");
        let name = self.next().to_string();
        self.take("(");
        while !self.took(")") {
            let parameter = self.next();
            self.declare(parameter);
            self.took(",");
        }
        let parameters = self.symbols.len() as u32;
        let body = self.block();
        let function = Rc::new(Function {
            name: name.clone(),
            parameters,
            symbols: std::mem::take(&mut self.symbols),
            body,
        });
        self.known.insert(name, function.clone());
        function
    }

    fn block(&mut self) -> Vec<Statement> {
        let outside = self.visible.len();
        self.take("{");
        let mut statements = Vec::new();
        while !self.took("}") {
            statements.push(self.statement());
        }
        self.visible.truncate(outside);
        statements
    }

    fn statement(&mut self) -> Statement {
        let statement = match self.next() {
            "if" => {
                let condition = self.expression(1);
                let first = self.block();
                self.take("else");
                return Statement::If(condition, [first, self.block()]);
            }
            "for" => {
                let name = self.next();
                let rounds = self.expression(1);
                let register = self.declare(name);
                let block = self.block();
                self.visible.pop();
                return Statement::For(register, rounds, block);
            }
            "return" => Statement::Return(self.expression(1)),
            "let" => {
                let name = self.next();
                self.take("=");
                let given = self.expression(1);
                Statement::Set(self.declare(name), given)
            }
            name => {
                self.take("=");
                Statement::Set(self.register(name), self.expression(1))
            }
        };
        self.take(";");
        statement
    }

    fn expression(&mut self, least: usize) -> Expression {
        let mut left = self.operand();
        loop {
            let next = self.tokens.last().unwrap();
            let levels = ["<", "+-^", "*&"];
            let Some(level) = levels.iter().position(|signs| signs.contains(next)) else {
                return left;
            };
            if level + 1 < least {
                return left;
            }
            let sign = self.next().chars().next().unwrap();
            let right = self.expression(level + 2);
            left = Expression::Binary(sign, Box::new(left), Box::new(right));
        }
    }

    fn operand(&mut self) -> Expression {
        let token = self.next();
        if token == "(" {
            let inner = self.expression(1);
            self.take(")");
            return inner;
        }
        if let Ok(number) = token.parse() {
            return Expression::Number(number);
        }
        if !self.took("(") {
            return Expression::Read(self.register(token));
        }
        let mut arguments = Vec::new();
        while !self.took(")") {
            arguments.push(self.expression(1));
            self.took(",");
        }
        Expression::Call(self.known[token].clone(), arguments)
    }
}

fn operate(sign: char, left: u32, right: u32) -> u32 {
    match sign {
        '+' => left.wrapping_add(right),
        '-' => left.wrapping_sub(right),
        '*' => left.wrapping_mul(right),
        '^' => left ^ right,
        '&' => left & right,
        '<' => u32::from(left < right),
        _ => unreachable!("{sign} is no operator"),
    }
}

/// Evaluating what was written.
impl Function {
    fn call(&self, arguments: &[u32]) -> u32 {
        let mut values = arguments.to_vec();
        values.resize(self.symbols.len(), 0);
        run(&self.body, &mut values).unwrap_or(0)
    }
}

/// What is returned, if something is.
fn run(statements: &[Statement], values: &mut [u32]) -> Option<u32> {
    statements.iter().find_map(|statement| match statement {
        Statement::Set(register, given) => {
            values[*register as usize] = given.evaluate(values);
            None
        }
        Statement::If(condition, blocks) => {
            let other = usize::from(condition.evaluate(values) == 0);
            run(&blocks[other], values)
        }
        Statement::For(register, rounds, block) => (0..rounds.evaluate(values)).find_map(|round| {
            values[*register as usize] = round;
            run(block, values)
        }),
        Statement::Return(returned) => Some(returned.evaluate(values)),
    })
}

impl Expression {
    fn evaluate(&self, values: &[u32]) -> u32 {
        match self {
            Expression::Number(number) => *number,
            Expression::Read(register) => values[*register as usize],
            Expression::Binary(sign, left, right) => {
                operate(*sign, left.evaluate(values), right.evaluate(values))
            }
            Expression::Call(function, arguments) => {
                let given = arguments.iter().map(|argument| argument.evaluate(values));
                function.call(&given.collect::<Vec<_>>())
            }
        }
    }

    /// The same with less to do.
    fn folded(&self) -> Folded<'_> {
        let Expression::Binary(sign, left, right) = self else {
            return match self {
                Expression::Number(number) => Folded::Number(*number),
                other => Folded::Other(other),
            };
        };
        match (*sign, left.folded(), right.folded()) {
            (sign, Folded::Number(one), Folded::Number(other)) => {
                Folded::Number(operate(sign, one, other))
            }
            ('+' | '-' | '^', left, Folded::Number(0)) | ('*', left, Folded::Number(1)) => left,
            ('*' | '&', _, Folded::Number(0)) => Folded::Number(0),
            (sign, left, right) => Folded::Binary(sign, Box::new(left), Box::new(right)),
        }
    }
}

enum Folded<'a> {
    Number(u32),
    Binary(char, Box<Folded<'a>>, Box<Folded<'a>>),
    /// A name or a call.
    Other(&'a Expression),
}

/// The code of a function: four numbers for an instruction, and its callee's, if it has one.
struct Translation {
    code: Vec<([u32; 4], Option<u64>)>,
    registers: u32,
}

impl Translation {
    fn of(function: &Function) -> Vec<u64> {
        let mut translation = Translation {
            code: Vec::new(),
            registers: function.symbols.len() as u32,
        };
        translation.block(&function.body);
        let zero = translation.number(0);
        translation.add([5, 0, zero, 0]);
        let numbers = translation
            .code
            .into_iter()
            .flat_map(|(numbers, callee)| numbers.map(u64::from).into_iter().chain(callee));
        numbers.collect()
    }

    fn add(&mut self, numbers: [u32; 4]) -> usize {
        self.code.push((numbers, None));
        self.code.len() - 1
    }

    fn land(&mut self, jump: usize) {
        self.code[jump].0[1] = self.code.len() as u32;
    }

    fn fresh(&mut self, count: u32) -> u32 {
        self.registers += count;
        self.registers - count
    }

    fn number(&mut self, number: u32) -> u32 {
        let to = self.fresh(1);
        self.add([0, to, number, 0]);
        to
    }

    fn block(&mut self, statements: &[Statement]) {
        for statement in statements {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Set(register, given) => {
                let from = self.value(&given.folded());
                self.add([1, *register, from, 0]);
            }
            Statement::Return(returned) => {
                let from = self.value(&returned.folded());
                self.add([5, 0, from, 0]);
            }
            Statement::If(condition, [first, second]) => match condition.folded() {
                Folded::Number(0) => self.block(second),
                Folded::Number(_) => self.block(first),
                condition => {
                    let condition = self.value(&condition);
                    let skip = self.add([3, 0, condition, 0]);
                    self.block(first);
                    let end = self.add([2, 0, 0, 0]);
                    self.land(skip);
                    self.block(second);
                    self.land(end);
                }
            },
            Statement::For(register, rounds, block) => {
                let rounds = self.value(&rounds.folded());
                let one = self.number(1);
                self.add([0, *register, 0, 0]);
                let is_left = self.fresh(1);
                let start = self.add([u32::from('<'), is_left, *register, rounds]);
                let end = self.add([3, 0, is_left, 0]);
                self.block(block);
                self.add([u32::from('+'), *register, *register, one]);
                self.add([2, start as u32, 0, 0]);
                self.land(end);
            }
        }
    }

    fn value(&mut self, folded: &Folded<'_>) -> u32 {
        match folded {
            Folded::Number(number) => self.number(*number),
            Folded::Binary(sign, left, right) => {
                let (left, right) = (self.value(left), self.value(right));
                let to = self.fresh(1);
                self.add([u32::from(*sign), to, left, right]);
                to
            }
            Folded::Other(Expression::Call(function, arguments)) => {
                let first = self.fresh(function.parameters);
                for (argument, to) in arguments.iter().zip(first..) {
                    let from = self.value(&argument.folded());
                    self.add([1, to, from, 0]);
                }
                let to = self.fresh(1);
                let call = self.add([4, to, first, 0]);
                self.code[call].1 = Some(hash_of(function.name.as_bytes()));
                to
            }
            Folded::Other(Expression::Read(register)) => *register,
            Folded::Other(_) => unreachable!("numbers and operators fold"),
        }
    }
}
