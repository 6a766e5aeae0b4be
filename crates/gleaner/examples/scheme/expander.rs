//! Turns what was read into what the machine runs: a list whose first element says what to do ([`Op`]).
//!
//! `cond`, `let`, `and` and the other derived forms become the few that the machine knows. A symbol that begins such a
//! form carries the number of its syntax, so that nothing is compared by name.

use gleaner::{Local, Scope};

use crate::objects::{Done, Failure, Scheme, check_depth};

/// The forms of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `(Quote . VALUE)`
    Quote,
    /// `(If TEST THEN . ELSE)`
    If,
    /// `(Define NAME . FORM)`
    Define,
    /// `(Set NAME . FORM)`
    Set,
    /// `(Lambda PARAMETERS . BODY)`
    Lambda,
    /// `(Begin . BODY)`
    Begin,
    /// `(Or . FORMS)`
    Or,
    /// `(Call FUNCTION . OPERANDS)`
    Call,
}

pub const OPS: [Op; 8] = [
    Op::Quote,
    Op::If,
    Op::Define,
    Op::Set,
    Op::Lambda,
    Op::Begin,
    Op::Or,
    Op::Call,
];

/// The names of syntax; the number of each is its place, counted from 1.
const SYNTAX: [&str; 10] = [
    "quote", "if", "define", "set!", "lambda", "begin", "or", "and", "let", "cond",
];

/// Makes the names of syntax known.
pub fn define_syntax(scheme: &Scheme<'_>, scope: &mut Scope<'_>) -> Done {
    SYNTAX.iter().enumerate().try_for_each(|(index, name)| {
        scope.nested(|scope| {
            let symbol = scope.null();
            scheme.intern(scope, name, symbol)?;
            Ok(scope.write_u64(symbol, 0, index as u64 + 1)?)
        })
    })
}

/// Expands `form` into `into`, which may be the same local.
pub fn expand(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    form: Local<'_>,
    into: Local<'_>,
) -> Done {
    Expander { scheme }.form(scope, form, into, 0)
}

struct Expander<'s, 'r> {
    scheme: &'s Scheme<'r>,
}

impl Expander<'_, '_> {
    /// The name of the syntax that a form begins with.
    fn syntax(&self, scope: &Scope<'_>, head: Local<'_>) -> Option<&'static str> {
        let is_symbol = scope.is_a(head, self.scheme.types.symbol);
        let number = is_symbol.then(|| scope.read_u64(head, 0) as usize)?;
        Some(SYNTAX[number.checked_sub(1)?])
    }

    fn form(&self, scope: &mut Scope<'_>, form: Local<'_>, into: Local<'_>, depth: usize) -> Done {
        check_depth(depth)?;
        if !self.scheme.is_pair(scope, form) {
            scope.assign(into, form);
            return Ok(());
        }
        scope.nested(|scope| {
            let (head, rest) = (scope.get(form, 0), scope.get(form, 1));
            match self.syntax(scope, head) {
                Some("quote") => {
                    self.scheme.car(scope, rest, rest)?;
                    self.put(scope, Op::Quote, rest, into)
                }
                Some("if") => self.conditional(scope, rest, into, depth),
                Some("define") => self.define(scope, rest, into, depth),
                Some("set!") => self.assignment(scope, Op::Set, rest, into, depth),
                Some("lambda") => self.lambda(scope, rest, into, depth),
                Some("begin") => self.all(scope, Op::Begin, rest, into, depth),
                Some("or") => self.all(scope, Op::Or, rest, into, depth),
                Some("and") => self.and(scope, rest, into, depth),
                Some("let") => self.bindings(scope, rest, into, depth),
                Some("cond") => self.clauses(scope, rest, into, depth),
                _ => self.all(scope, Op::Call, form, into, depth),
            }
        })
    }

    /// Puts an op before a list.
    fn put(&self, scope: &mut Scope<'_>, op: Op, rest: Local<'_>, into: Local<'_>) -> Done {
        scope.nested(|scope| {
            let op = scope.integer(op as i64).ok_or("no such op")?;
            self.scheme.cons(scope, op, rest, into)
        })
    }

    /// An op before the expansions of all forms of a list.
    fn all(
        &self,
        scope: &mut Scope<'_>,
        op: Op,
        forms: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        scope.nested(|scope| {
            let (rest, form, reversed) = (scope.null(), scope.null(), scope.null());
            scope.assign(rest, forms);
            while self.scheme.take(scope, rest, form) {
                self.form(scope, form, form, depth + 1)?;
                self.scheme.cons(scope, form, reversed, reversed)?;
            }
            if !scope.is_null(rest) {
                return Err("a form is no list".into());
            }
            self.scheme.reverse_onto(scope, reversed, rest)?;
            self.put(scope, op, rest, into)
        })
    }

    /// `(TEST THEN [ELSE])`
    fn conditional(
        &self,
        scope: &mut Scope<'_>,
        rest: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        let [test, then, otherwise] = [scope.null(), scope.null(), scope.null()];
        self.scheme.car(scope, rest, test)?;
        self.scheme.cdr(scope, rest, rest)?;
        self.scheme.car(scope, rest, then)?;
        self.scheme.cdr(scope, rest, rest)?;
        if !self.scheme.take(scope, rest, otherwise) {
            scope.assign(otherwise, self.scheme.unspecified);
        }
        for form in [test, then, otherwise] {
            self.form(scope, form, form, depth + 1)?;
        }
        self.choice(scope, test, then, otherwise, into)
    }

    /// The machine's `If` of what is expanded.
    fn choice(
        &self,
        scope: &mut Scope<'_>,
        test: Local<'_>,
        then: Local<'_>,
        otherwise: Local<'_>,
        into: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let list = scope.null();
            self.scheme.cons(scope, then, otherwise, list)?;
            self.scheme.cons(scope, test, list, list)?;
            self.put(scope, Op::If, list, into)
        })
    }

    /// `(NAME FORM)`, or `((NAME . PARAMETERS) . BODY)`
    fn define(
        &self,
        scope: &mut Scope<'_>,
        rest: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        let name = scope.null();
        self.scheme.car(scope, rest, name)?;
        if !self.scheme.is_pair(scope, name) {
            return self.assignment(scope, Op::Define, rest, into, depth);
        }
        let function = scope.null();
        self.scheme.cdr(scope, rest, rest)?;
        let parameters = scope.get(name, 1);
        self.scheme.cons(scope, parameters, rest, function)?;
        self.lambda(scope, function, function, depth)?;
        scope.load(name, 0, name);
        self.scheme.cons(scope, name, function, name)?;
        self.put(scope, Op::Define, name, into)
    }

    /// `(NAME FORM)`
    fn assignment(
        &self,
        scope: &mut Scope<'_>,
        op: Op,
        rest: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        let name = scope.null();
        self.scheme.car(scope, rest, name)?;
        let otherwise = "a variable is no symbol";
        self.scheme
            .expect(scope, name, self.scheme.types.symbol, otherwise)?;
        self.scheme.cdr(scope, rest, rest)?;
        self.scheme.car(scope, rest, rest)?;
        self.form(scope, rest, rest, depth + 1)?;
        self.scheme.cons(scope, name, rest, name)?;
        self.put(scope, op, name, into)
    }

    /// `(PARAMETERS . BODY)`
    fn lambda(
        &self,
        scope: &mut Scope<'_>,
        rest: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        scope.nested(|scope| {
            let (parameters, body) = (scope.null(), scope.null());
            self.scheme.car(scope, rest, parameters)?;
            self.scheme.cdr(scope, rest, body)?;
            self.all(scope, Op::Begin, body, body, depth)?;
            scope.load(body, 1, body);
            self.scheme.cons(scope, parameters, body, body)?;
            self.put(scope, Op::Lambda, body, into)
        })
    }

    /// `and` of these forms: all but the last are tests of an `If`.
    fn and(&self, scope: &mut Scope<'_>, forms: Local<'_>, into: Local<'_>, depth: usize) -> Done {
        check_depth(depth)?;
        scope.nested(|scope| {
            let (form, rest) = (scope.null(), scope.null());
            scope.assign(rest, forms);
            if !self.scheme.take(scope, rest, form) {
                scope.assign(into, self.scheme.truth);
                return Ok(());
            }
            self.form(scope, form, form, depth + 1)?;
            if scope.is_null(rest) {
                scope.assign(into, form);
                return Ok(());
            }
            self.and(scope, rest, rest, depth + 1)?;
            self.choice(scope, form, rest, self.scheme.falsity, into)
        })
    }

    /// The clauses of a `cond`.
    fn clauses(
        &self,
        scope: &mut Scope<'_>,
        clauses: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        check_depth(depth)?;
        scope.nested(|scope| {
            let (clause, rest, test) = (scope.null(), scope.null(), scope.null());
            scope.assign(rest, clauses);
            if !self.scheme.take(scope, rest, clause) {
                scope.assign(into, self.scheme.unspecified);
                return Ok(());
            }
            self.scheme.car(scope, clause, test)?;
            self.scheme.cdr(scope, clause, clause)?;
            if self.is_else(scope, test) {
                return self.all(scope, Op::Begin, clause, into, depth);
            }
            self.form(scope, test, test, depth + 1)?;
            self.clauses(scope, rest, rest, depth + 1)?;
            if scope.is_null(clause) {
                let nothing = scope.null();
                self.scheme.cons(scope, rest, nothing, rest)?;
                self.scheme.cons(scope, test, rest, rest)?;
                return self.put(scope, Op::Or, rest, into);
            }
            self.all(scope, Op::Begin, clause, clause, depth)?;
            self.choice(scope, test, clause, rest, into)
        })
    }

    fn is_else(&self, scope: &mut Scope<'_>, test: Local<'_>) -> bool {
        scope.is_a(test, self.scheme.types.symbol) && self.scheme.name(scope, test) == "else"
    }

    /// `(((NAME FORM) ...) . BODY)`: a call of a lambda. `(LOOP ((NAME FORM) ...) . BODY)`: a call of a lambda that a
    /// lambda without parameters binds to LOOP.
    fn bindings(
        &self,
        scope: &mut Scope<'_>,
        rest: Local<'_>,
        into: Local<'_>,
        depth: usize,
    ) -> Done {
        let (name, bindings) = (scope.null(), scope.null());
        let (names, forms, function) = (scope.null(), scope.null(), scope.null());
        self.scheme.car(scope, rest, bindings)?;
        self.scheme.cdr(scope, rest, rest)?;
        if scope.is_a(bindings, self.scheme.types.symbol) {
            scope.assign(name, bindings);
            self.scheme.car(scope, rest, bindings)?;
            self.scheme.cdr(scope, rest, rest)?;
        }
        self.split(scope, bindings, names, forms)?;
        self.scheme.cons(scope, names, rest, function)?;
        self.lambda(scope, function, function, depth)?;
        if !scope.is_null(name) {
            self.bind_loop(scope, name, function)?;
        }
        self.all(scope, Op::Call, forms, forms, depth)?;
        scope.load(forms, 1, forms);
        self.scheme.cons(scope, function, forms, forms)?;
        self.put(scope, Op::Call, forms, into)
    }

    /// Names and forms of `((NAME FORM) ...)`, in the order in which they stand.
    fn split(
        &self,
        scope: &mut Scope<'_>,
        bindings: Local<'_>,
        names: Local<'_>,
        forms: Local<'_>,
    ) -> Done {
        scope.nested(|scope| {
            let (binding, part, reversed) = (scope.null(), scope.null(), scope.null());
            self.scheme.reverse_onto(scope, bindings, reversed)?;
            while self.scheme.take(scope, reversed, binding) {
                self.scheme.car(scope, binding, part)?;
                self.scheme.cons(scope, part, names, names)?;
                self.scheme.cdr(scope, binding, binding)?;
                self.scheme.car(scope, binding, part)?;
                self.scheme.cons(scope, part, forms, forms)?;
            }
            Ok(())
        })
    }

    /// `function` becomes a call of `(lambda () (define NAME FUNCTION) NAME)`.
    fn bind_loop(
        &self,
        scope: &mut Scope<'_>,
        name: Local<'_>,
        function: Local<'_>,
    ) -> Result<(), Failure> {
        scope.nested(|scope| {
            let (nothing, body) = (scope.null(), scope.null());
            self.scheme.cons(scope, name, nothing, body)?;
            self.scheme.cons(scope, name, function, function)?;
            self.put(scope, Op::Define, function, function)?;
            self.scheme.cons(scope, function, body, body)?;
            self.scheme.cons(scope, nothing, body, body)?;
            self.put(scope, Op::Lambda, body, body)?;
            self.scheme.cons(scope, body, nothing, body)?;
            self.put(scope, Op::Call, body, function)
        })
    }
}
