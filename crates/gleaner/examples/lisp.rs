//! A small Lisp on the safe layer of the precise heap: the same language as `examples/lisp.c`.
//!
//!     cargo run -p gleaner --example lisp -- [--stress] [--compressed] [FILE]
//!
//! It knows integers, symbols, pairs and functions; quote, if, define, lambda; + - * < = eq? cons car cdr null? display,
//! and (collect).
//!
//! The pattern that all of it follows: a function gets its results' place as a local of its caller, works in a scope of
//! its own, and puts the result there before the scope ends. So recursion holds no more roots than it needs.

use std::error::Error;
use std::io::Read;

use gleaner::{Array, Elements, Heap, Local, References, Scope, Structure, Type};

type Done = Result<(), Box<dyn Error>>;

const PRIMITIVES: [&str; 12] = [
    "+", "-", "*", "<", "=", "eq?", "cons", "car", "cdr", "null?", "display", "collect",
];

/// The interpreter: its types, and the roots of the whole program.
#[derive(Clone, Copy)]
struct Lisp<'r> {
    pair: Type,
    /// Name, next symbol.
    symbol: Type,
    /// Parameters, body, environment.
    closure: Type,
    /// The number of a primitive, in its bytes.
    primitive: Type,
    name: Array,
    symbols: Local<'r>,
    globals: Local<'r>,
    words: [Local<'r>; 5],
}

const QUOTE: usize = 0;
const IF: usize = 1;
const DEFINE: usize = 2;
const LAMBDA: usize = 3;
const TRUE: usize = 4;

impl<'r> Lisp<'r> {
    fn new(heap: &Heap, scope: &mut Scope<'r>) -> Result<Lisp<'r>, Box<dyn Error>> {
        let structure = |references, bytes| heap.structure(Structure { references, bytes });
        let lisp = Lisp {
            pair: structure(2, 0)?,
            symbol: structure(2, 0)?,
            closure: structure(3, 0)?,
            primitive: structure(0, 8)?,
            name: heap.array(Elements::Bytes)?,
            symbols: scope.null(),
            globals: scope.null(),
            words: std::array::from_fn(|_| scope.null()),
        };
        for (word, name) in lisp
            .words
            .iter()
            .zip(["quote", "if", "define", "lambda", "t"])
        {
            lisp.intern(scope, name, *word)?;
        }
        lisp.bind_global(scope, lisp.words[TRUE], lisp.words[TRUE])?;
        for (number, name) in PRIMITIVES.iter().enumerate() {
            scope.nested(|scope| -> Done {
                let symbol = scope.null();
                lisp.intern(scope, name, symbol)?;
                let function = scope.allocate(lisp.primitive)?;
                scope.write_u64(function, 0, number as u64)?;
                lisp.bind_global(scope, symbol, function)
            })?;
        }
        Ok(lisp)
    }

    fn cons(&self, scope: &mut Scope<'_>, car: Local<'_>, cdr: Local<'_>, into: Local<'_>) -> Done {
        scope.nested(|scope| {
            let pair = scope.allocate(self.pair)?;
            scope.set(pair, 0, car)?;
            scope.set(pair, 1, cdr)?;
            scope.assign(into, pair);
            Ok(())
        })
    }

    fn car(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        if !scope.is_a(pair, self.pair) {
            return Err("car of what is no pair".into());
        }
        scope.load(pair, 0, into);
        Ok(())
    }

    fn cdr(&self, scope: &mut Scope<'_>, pair: Local<'_>, into: Local<'_>) -> Done {
        if !scope.is_a(pair, self.pair) {
            return Err("cdr of what is no pair".into());
        }
        scope.load(pair, 1, into);
        Ok(())
    }

    /// The symbol of that name: symbols are made once.
    fn intern(&self, scope: &mut Scope<'_>, text: &str, into: Local<'_>) -> Done {
        scope.nested(|scope| {
            let (found, name) = (scope.null(), scope.null());
            scope.assign(found, self.symbols);
            while !scope.is_null(found) {
                scope.load(found, 0, name);
                if self.text(scope, name) == text {
                    scope.assign(into, found);
                    return Ok(());
                }
                scope.load(found, 1, found);
            }
            let characters = scope.allocate_array(self.name, text.len() as u32)?;
            scope.write_elements(characters, 0, text.as_bytes())?;
            let symbol = scope.allocate(self.symbol)?;
            scope.set(symbol, 0, characters)?;
            scope.set(symbol, 1, self.symbols)?;
            scope.assign(self.symbols, symbol);
            scope.assign(into, symbol);
            Ok(())
        })
    }

    fn text(&self, scope: &Scope<'_>, name: Local<'_>) -> String {
        let mut bytes = vec![0; scope.length(name) as usize];
        scope.read_elements(name, 0, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn bind_global(&self, scope: &mut Scope<'_>, name: Local<'_>, value: Local<'_>) -> Done {
        scope.nested(|scope| {
            let binding = scope.null();
            self.cons(scope, name, value, binding)?;
            self.cons(scope, binding, self.globals, self.globals)
        })
    }

    // ---- reading ----

    /// Reads a value from the words of a program; false at its end.
    fn read(
        &self,
        scope: &mut Scope<'_>,
        words: &mut &[String],
        into: Local<'_>,
    ) -> Result<bool, Box<dyn Error>> {
        let Some((word, rest)) = words.split_first() else {
            return Ok(false);
        };
        *words = rest;
        match word.as_str() {
            "(" => self.read_list(scope, words, into)?,
            ")" => return Err("a ) too many".into()),
            "'" => scope.nested(|scope| -> Done {
                let quoted = scope.null();
                let nothing = scope.null();
                self.read_inside(scope, words, quoted)?;
                self.cons(scope, quoted, nothing, quoted)?;
                self.cons(scope, self.words[QUOTE], quoted, into)
            })?,
            word => match word.parse() {
                Ok(number) => scope.nested(|scope| -> Done {
                    let integer = scope.integer(number).ok_or("a number is too large")?;
                    scope.assign(into, integer);
                    Ok(())
                })?,
                Err(_) => self.intern(scope, word, into)?,
            },
        }
        Ok(true)
    }

    fn read_inside(&self, scope: &mut Scope<'_>, words: &mut &[String], into: Local<'_>) -> Done {
        if self.read(scope, words, into)? {
            Ok(())
        } else {
            Err("the program ends inside a list".into())
        }
    }

    fn read_list(&self, scope: &mut Scope<'_>, words: &mut &[String], into: Local<'_>) -> Done {
        if words.first().is_some_and(|word| word == ")") {
            *words = &words[1..];
            let nothing = scope.null();
            scope.assign(into, nothing);
            return Ok(());
        }
        scope.nested(|scope| {
            let (first, rest) = (scope.null(), scope.null());
            self.read_inside(scope, words, first)?;
            self.read_list(scope, words, rest)?;
            self.cons(scope, first, rest, into)
        })
    }

    // ---- writing ----

    fn show(&self, scope: &mut Scope<'_>, value: Local<'_>) -> String {
        if scope.is_null(value) {
            return "()".into();
        }
        if let Some(number) = scope.as_integer(value) {
            return number.to_string();
        }
        scope.nested(|scope| {
            let part = scope.null();
            if scope.is_a(value, self.symbol) {
                scope.load(value, 0, part);
                return self.text(scope, part);
            }
            if !scope.is_a(value, self.pair) {
                return "#<function>".into();
            }
            let rest = scope.null();
            scope.load(value, 0, part);
            let mut text = format!("({}", self.show(scope, part));
            scope.load(value, 1, rest);
            while scope.is_a(rest, self.pair) {
                scope.load(rest, 0, part);
                text += &format!(" {}", self.show(scope, part));
                scope.load(rest, 1, rest);
            }
            if !scope.is_null(rest) {
                text += &format!(" . {}", self.show(scope, rest));
            }
            text + ")"
        })
    }

    // ---- evaluating ----

    /// The pair of a name and its value.
    fn lookup(
        &self,
        scope: &mut Scope<'_>,
        name: Local<'_>,
        environment: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let (bindings, bound) = (scope.null(), scope.null());
            for start in [environment, self.globals] {
                scope.assign(bindings, start);
                while !scope.is_null(bindings) {
                    scope.load(bindings, 0, into);
                    scope.load(into, 0, bound);
                    if scope.same(bound, name) {
                        return Ok(());
                    }
                    scope.load(bindings, 1, bindings);
                }
            }
            Err("a name without a value".into())
        })
    }

    /// Evaluates in a scope of its own; a tail call goes round the loop.
    fn evaluate(
        &self,
        scope: &mut Scope<'_>,
        form: Local<'_>,
        environment: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let (now, place, head, rest) = (scope.null(), scope.null(), scope.null(), scope.null());
            let (function, arguments) = (scope.null(), scope.null());
            scope.assign(now, form);
            scope.assign(place, environment);
            loop {
                if scope.is_a(now, self.symbol) {
                    self.lookup(scope, now, place, rest)?;
                    scope.load(rest, 1, into);
                    return Ok(());
                }
                if !scope.is_a(now, self.pair) {
                    scope.assign(into, now);
                    return Ok(());
                }
                self.car(scope, now, head)?;
                self.cdr(scope, now, rest)?;
                if scope.same(head, self.words[QUOTE]) {
                    return self.car(scope, rest, into);
                }
                if scope.same(head, self.words[IF]) {
                    self.car(scope, rest, now)?;
                    self.evaluate(scope, now, place, head)?;
                    self.cdr(scope, rest, rest)?;
                    if scope.is_null(head) {
                        self.cdr(scope, rest, rest)?;
                    }
                    if scope.is_null(rest) {
                        scope.assign(now, rest);
                    } else {
                        self.car(scope, rest, now)?;
                    }
                    continue;
                }
                if scope.same(head, self.words[DEFINE]) {
                    self.define(scope, rest, place)?;
                    let nothing = scope.null();
                    scope.assign(into, nothing);
                    return Ok(());
                }
                if scope.same(head, self.words[LAMBDA]) {
                    self.car(scope, rest, head)?;
                    self.cdr(scope, rest, rest)?;
                    return self.close(scope, head, rest, place, into);
                }
                self.evaluate(scope, head, place, function)?;
                self.evaluate_all(scope, rest, place, arguments)?;
                if scope.is_a(function, self.primitive) {
                    let number = scope.read_u64(function, 0) as usize;
                    return self.apply(scope, PRIMITIVES[number], arguments, into);
                }
                if !scope.is_a(function, self.closure) {
                    return Err("a call of what is no function".into());
                }
                scope.load(function, 2, place);
                scope.load(function, 0, rest);
                while !scope.is_null(rest) {
                    self.car(scope, rest, head)?;
                    self.car(scope, arguments, now)?;
                    self.cons(scope, head, now, head)?;
                    self.cons(scope, head, place, place)?;
                    self.cdr(scope, rest, rest)?;
                    self.cdr(scope, arguments, arguments)?;
                }
                scope.load(function, 1, rest);
                loop {
                    self.car(scope, rest, now)?;
                    self.cdr(scope, rest, rest)?;
                    if scope.is_null(rest) {
                        break;
                    }
                    self.evaluate(scope, now, place, head)?;
                }
            }
        })
    }

    fn evaluate_all(
        &self,
        scope: &mut Scope<'_>,
        forms: Local<'_>,
        environment: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        if scope.is_null(forms) {
            scope.assign(into, forms);
            return Ok(());
        }
        scope.nested(|scope| {
            let (value, rest) = (scope.null(), scope.null());
            self.car(scope, forms, value)?;
            self.evaluate(scope, value, environment, value)?;
            self.cdr(scope, forms, rest)?;
            self.evaluate_all(scope, rest, environment, rest)?;
            self.cons(scope, value, rest, into)
        })
    }

    fn close(
        &self,
        scope: &mut Scope<'_>,
        parameters: Local<'_>,
        body: Local<'_>,
        environment: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let closure = scope.allocate(self.closure)?;
            for (index, part) in [parameters, body, environment].into_iter().enumerate() {
                scope.set(closure, index, part)?;
            }
            scope.assign(into, closure);
            Ok(())
        })
    }

    /// `rest` is (NAME FORM), or ((NAME PARAMETERS ...) FORMS ...).
    fn define(&self, scope: &mut Scope<'_>, rest: Local<'_>, environment: Local<'_>) -> Done {
        scope.nested(|scope| {
            let (name, body, value) = (scope.null(), scope.null(), scope.null());
            self.car(scope, rest, name)?;
            self.cdr(scope, rest, body)?;
            if scope.is_a(name, self.pair) {
                self.cdr(scope, name, value)?;
                self.close(scope, value, body, environment, value)?;
                self.car(scope, name, name)?;
            } else {
                self.car(scope, body, value)?;
                self.evaluate(scope, value, environment, value)?;
            }
            self.bind_global(scope, name, value)
        })
    }

    fn apply(
        &self,
        scope: &mut Scope<'_>,
        name: &str,
        arguments: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let (one, two, rest) = (scope.null(), scope.null(), scope.null());
            if !scope.is_null(arguments) {
                self.car(scope, arguments, one)?;
                self.cdr(scope, arguments, rest)?;
                if !scope.is_null(rest) {
                    self.car(scope, rest, two)?;
                }
            }
            let number = |scope: &Scope<'_>, value| {
                let number: Result<i64, Box<dyn Error>> = scope
                    .as_integer(value)
                    .ok_or("arithmetic on what is no integer".into());
                number
            };
            let holds = match name {
                "cons" => return self.cons(scope, one, two, into),
                "car" => return self.car(scope, one, into),
                "cdr" => return self.cdr(scope, one, into),
                "display" => {
                    println!("{}", self.show(scope, one));
                    scope.assign(into, one);
                    return Ok(());
                }
                "collect" => {
                    scope.collect(true);
                    false
                }
                "null?" => scope.is_null(one),
                "eq?" => scope.same(one, two),
                _ => {
                    let (left, right) = (number(scope, one)?, number(scope, two)?);
                    let result = match name {
                        "+" => left + right,
                        "-" => left - right,
                        "*" => left * right,
                        _ => {
                            let holds = if name == "<" {
                                left < right
                            } else {
                                left == right
                            };
                            let truth = if holds { self.words[TRUE] } else { rest };
                            let nothing = scope.null();
                            scope.assign(rest, nothing);
                            scope.assign(into, truth);
                            return Ok(());
                        }
                    };
                    let result = scope.integer(result).ok_or("a number is too large")?;
                    scope.assign(into, result);
                    return Ok(());
                }
            };
            let nothing = scope.null();
            scope.assign(into, if holds { self.words[TRUE] } else { nothing });
            Ok(())
        })
    }
}

/// The words of a program: parentheses, quotes and what lies between blanks; no comments.
fn words(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for line in text.lines() {
        let code = line.split(';').next().unwrap_or_default();
        for character in code.chars() {
            match character {
                '(' | ')' | '\'' => spaced.extend([' ', character, ' ']),
                other => spaced.push(other),
            }
        }
        spaced.push(' ');
    }
    spaced.split_whitespace().map(String::from).collect()
}

fn main() -> Done {
    let mut builder = Heap::builder().limit(32 << 20);
    let mut text = None;
    for argument in std::env::args().skip(1) {
        builder = match argument.as_str() {
            "--stress" => builder
                .limit(2 << 20)
                .quarantine(8)
                .stress(1)
                .verify(true)
                .poison(true),
            "--compressed" => builder.references(References::Compressed),
            file => {
                text = Some(std::fs::read_to_string(file)?);
                builder
            }
        };
    }
    let text = match text {
        Some(text) => text,
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let heap = builder.build()?;
    let words = words(&text);
    heap.attach()?.scope(|scope| {
        let lisp = Lisp::new(&heap, scope)?;
        let (form, environment) = (scope.null(), scope.null());
        let mut words = words.as_slice();
        while lisp.read(scope, &mut words, form)? {
            lisp.evaluate(scope, form, environment, form)?;
        }
        Ok(())
    })
}
