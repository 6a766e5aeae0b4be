//! The machine that runs expanded forms: registers in locals, and its stack as frames in the heap.
//!
//! Since the stack is in the heap, a tail call pushes nothing, a continuation is a frame that somebody keeps, and a
//! recursion that is too deep fills the heap: that is an error which the program may handle, as any other.

use gleaner::{Local, Scope};

use crate::expander::{OPS, Op};
use crate::objects::{Done, Failure, Scheme};
use crate::primitives::{Body, Control, PRIMITIVES};

/// What a frame does with the value that it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Chooses from `(THEN . ELSE)`.
    Choose,
    /// Goes on with the forms of a body.
    Sequence,
    /// Binds a name.
    Define,
    /// Changes the value of a name.
    Set,
    /// Goes on with the forms of an `or`, unless the value is true.
    Or,
    /// Goes on with the other operands of a call; the second operand has the values, the last one first.
    Call,
    /// Passes the value on. An error calls the handler.
    Handler,
}

const KINDS: [Kind; 7] = [
    Kind::Choose,
    Kind::Sequence,
    Kind::Define,
    Kind::Set,
    Kind::Or,
    Kind::Call,
    Kind::Handler,
];

/// What the machine does next.
#[derive(Clone, Copy)]
enum Step {
    /// Evaluates the form in the environment.
    Evaluate,
    /// Calls the function with the arguments.
    Apply,
    /// Gives the value to the newest frame.
    Return,
    /// Has the value of all.
    Stop,
}

/// The locals of the machine are those of a scope, `'m`, and those of the Scheme of one around it, `'r`.
pub struct Machine<'s, 'r, 'm> {
    scheme: &'s Scheme<'r>,
    form: Local<'m>,
    /// Ribs, the innermost first: each is a list of (NAME . VALUE). The empty one stands for the global variables.
    environment: Local<'m>,
    value: Local<'m>,
    function: Local<'m>,
    arguments: Local<'m>,
    /// The newest frame.
    frame: Local<'m>,
}

impl<'s, 'r, 'm> Machine<'s, 'r, 'm> {
    pub fn new(scheme: &'s Scheme<'r>, scope: &mut Scope<'m>) -> Machine<'s, 'r, 'm> {
        Machine {
            scheme,
            form: scope.null(),
            environment: scope.null(),
            value: scope.null(),
            function: scope.null(),
            arguments: scope.null(),
            frame: scope.null(),
        }
    }

    /// Evaluates an expanded form of the top level.
    pub fn evaluate(&self, scope: &mut Scope<'_>, form: Local<'_>, into: Local<'_>) -> Done {
        self.reset(scope);
        scope.assign(self.form, form);
        self.run(scope, Step::Evaluate, into)
    }

    /// Calls a function without arguments.
    pub fn call(&self, scope: &mut Scope<'_>, function: Local<'_>, into: Local<'_>) -> Done {
        self.reset(scope);
        scope.assign(self.function, function);
        self.run(scope, Step::Apply, into)
    }

    fn reset(&self, scope: &mut Scope<'_>) {
        for register in [
            self.form,
            self.environment,
            self.value,
            self.function,
            self.arguments,
            self.frame,
        ] {
            scope.assign_null(register);
        }
    }

    fn run(&self, scope: &mut Scope<'_>, first: Step, into: Local<'_>) -> Done {
        let mut step = first;
        loop {
            let next = scope.nested(|scope| match step {
                Step::Evaluate => self.evaluate_form(scope),
                Step::Apply => self.apply(scope),
                Step::Return | Step::Stop => self.resume(scope),
            });
            step = match next {
                Ok(Step::Stop) => {
                    scope.assign(into, self.value);
                    return Ok(());
                }
                Ok(next) => next,
                Err(failure) => self.handle(scope, failure)?,
            };
        }
    }

    // ---- frames ----

    fn push(&self, scope: &mut Scope<'_>, kind: Kind, one: Local<'_>, two: Local<'_>) -> Done {
        let fields = [one, two, self.environment, self.frame];
        let of = self.scheme.types.frame;
        self.scheme
            .make(scope, of, fields, &[kind as u64], self.frame)
    }

    /// Takes the newest frame off; the answer is its kind.
    fn pop(&self, scope: &mut Scope<'_>, one: Local<'_>, two: Local<'_>) -> Kind {
        scope.nested(|scope| {
            let frame = scope.cast(self.frame, self.scheme.types.frame);
            let frame = frame.expect("the stack is made of frames");
            scope.load(frame, 0, one);
            scope.load(frame, 1, two);
            scope.load(frame, 2, self.environment);
            scope.load(frame, 3, self.frame);
            KINDS[scope.read_u64(frame, 0) as usize]
        })
    }

    fn resume(&self, scope: &mut Scope<'_>) -> Result<Step, Failure> {
        if scope.is_null(self.frame) {
            return Ok(Step::Stop);
        }
        let (one, two) = (scope.null(), scope.null());
        match self.pop(scope, one, two) {
            Kind::Choose => {
                let index = usize::from(!self.scheme.is_true(scope, self.value));
                scope.load(one, index, self.form);
                Ok(Step::Evaluate)
            }
            Kind::Sequence => self.sequence(scope, one),
            Kind::Define => self.define(scope, one),
            Kind::Set => self.set(scope, one),
            Kind::Or if self.scheme.is_true(scope, self.value) => Ok(Step::Return),
            Kind::Or => self.or(scope, one),
            Kind::Call => {
                self.scheme.cons(scope, self.value, two, two)?;
                self.operand(scope, one, two)
            }
            Kind::Handler => Ok(Step::Return),
        }
    }

    /// Drops frames down to the newest handler, and calls it; without one, the error is the caller's.
    fn handle(&self, scope: &mut Scope<'_>, failure: Failure) -> Result<Step, Failure> {
        let mut failure = failure;
        loop {
            let handled = scope.nested(|scope| {
                let (one, two) = (scope.null(), scope.null());
                loop {
                    if scope.is_null(self.frame) {
                        return Ok(false);
                    }
                    if self.pop(scope, one, two) == Kind::Handler {
                        break;
                    }
                }
                for register in [self.form, self.value, self.arguments] {
                    scope.assign(register, two);
                }
                scope.assign(self.function, one);
                self.scheme.string(scope, &failure.0, self.value)?;
                self.scheme
                    .cons(scope, self.value, self.arguments, self.arguments)?;
                Ok(true)
            });
            match handled {
                Ok(true) => return Ok(Step::Apply),
                Ok(false) => return Err(failure),
                Err(full) => failure = full,
            }
        }
    }

    // ---- forms ----

    fn evaluate_form(&self, scope: &mut Scope<'_>) -> Result<Step, Failure> {
        if scope.is_a(self.form, self.scheme.types.symbol) {
            self.look_up(scope)?;
            return Ok(Step::Return);
        }
        if !self.scheme.is_pair(scope, self.form) {
            scope.assign(self.value, self.form);
            return Ok(Step::Return);
        }
        let (head, rest) = (scope.get(self.form, 0), scope.get(self.form, 1));
        let number = scope
            .as_integer(head)
            .expect("what is run is expanded first");
        match OPS[number as usize] {
            Op::Quote => {
                scope.assign(self.value, rest);
                Ok(Step::Return)
            }
            Op::If => {
                let (test, branches) = (scope.get(rest, 0), scope.get(rest, 1));
                self.evaluate_for(scope, Kind::Choose, test, branches)
            }
            Op::Define => {
                let (name, form) = (scope.get(rest, 0), scope.get(rest, 1));
                self.evaluate_for(scope, Kind::Define, form, name)
            }
            Op::Set => {
                let (name, form) = (scope.get(rest, 0), scope.get(rest, 1));
                self.evaluate_for(scope, Kind::Set, form, name)
            }
            Op::Lambda => {
                let (parameters, body) = (scope.get(rest, 0), scope.get(rest, 1));
                let fields = [parameters, body, self.environment];
                let of = self.scheme.types.closure;
                self.scheme.make(scope, of, fields, &[], self.value)?;
                Ok(Step::Return)
            }
            Op::Begin => self.sequence(scope, rest),
            Op::Or => self.or(scope, rest),
            Op::Call => {
                let nothing = scope.null();
                self.operand(scope, rest, nothing)
            }
        }
    }

    /// Evaluates a form, for a frame of that kind and operand.
    fn evaluate_for(
        &self,
        scope: &mut Scope<'_>,
        kind: Kind,
        form: Local<'_>,
        operand: Local<'_>,
    ) -> Result<Step, Failure> {
        let nothing = scope.null();
        self.push(scope, kind, operand, nothing)?;
        scope.assign(self.form, form);
        Ok(Step::Evaluate)
    }

    /// Evaluates forms in their order. The last one is in the place of a tail: nothing is pushed for it.
    fn sequence(&self, scope: &mut Scope<'_>, forms: Local<'_>) -> Result<Step, Failure> {
        self.first_of(scope, Kind::Sequence, forms, self.scheme.unspecified)
    }

    fn or(&self, scope: &mut Scope<'_>, forms: Local<'_>) -> Result<Step, Failure> {
        self.first_of(scope, Kind::Or, forms, self.scheme.falsity)
    }

    fn first_of(
        &self,
        scope: &mut Scope<'_>,
        kind: Kind,
        forms: Local<'_>,
        otherwise: Local<'_>,
    ) -> Result<Step, Failure> {
        if scope.is_null(forms) {
            scope.assign(self.value, otherwise);
            return Ok(Step::Return);
        }
        let (form, rest) = (scope.get(forms, 0), scope.get(forms, 1));
        if !scope.is_null(rest) {
            return self.evaluate_for(scope, kind, form, rest);
        }
        scope.assign(self.form, form);
        Ok(Step::Evaluate)
    }

    /// Evaluates the next operand of a call. When there is none left, `values` has them, the last one first.
    fn operand(
        &self,
        scope: &mut Scope<'_>,
        operands: Local<'_>,
        values: Local<'_>,
    ) -> Result<Step, Failure> {
        if scope.is_null(operands) {
            let (rest, all) = (scope.null(), scope.null());
            scope.assign(rest, values);
            self.scheme.reverse_onto(scope, rest, all)?;
            if !self.scheme.take(scope, all, self.function) {
                return Err("a call of nothing".into());
            }
            scope.assign(self.arguments, all);
            return Ok(Step::Apply);
        }
        let (form, rest) = (scope.get(operands, 0), scope.get(operands, 1));
        self.push(scope, Kind::Call, rest, values)?;
        scope.assign(self.form, form);
        Ok(Step::Evaluate)
    }

    // ---- variables ----

    /// Sets `into` to the binding of a name; false if only a global variable may have that name.
    fn find(&self, scope: &mut Scope<'_>, name: Local<'_>, into: Local<'_>) -> bool {
        scope.nested(|scope| {
            let (ribs, bindings, bound) = (scope.null(), scope.null(), scope.null());
            scope.assign(ribs, self.environment);
            while self.scheme.take(scope, ribs, bindings) {
                while self.scheme.take(scope, bindings, into) {
                    scope.load(into, 0, bound);
                    if scope.same(bound, name) {
                        return true;
                    }
                }
            }
            false
        })
    }

    fn look_up(&self, scope: &mut Scope<'_>) -> Done {
        let binding = scope.null();
        let is_local = self.find(scope, self.form, binding);
        let place = if is_local { binding } else { self.form };
        scope.load(place, 1, self.value);
        if scope.same(self.value, self.scheme.unbound) {
            return self.no_value(scope, self.form);
        }
        Ok(())
    }

    fn no_value(&self, scope: &mut Scope<'_>, name: Local<'_>) -> Done {
        let name = self.scheme.name(scope, name);
        Err(Failure(format!("{name} has no value")))
    }

    fn define(&self, scope: &mut Scope<'_>, name: Local<'_>) -> Result<Step, Failure> {
        if scope.is_null(self.environment) {
            scope.set(name, 1, self.value)?;
        } else {
            let (binding, bindings) = (scope.null(), scope.get(self.environment, 0));
            self.scheme.cons(scope, name, self.value, binding)?;
            self.scheme.cons(scope, binding, bindings, bindings)?;
            scope.set(self.environment, 0, bindings)?;
        }
        scope.assign(self.value, self.scheme.unspecified);
        Ok(Step::Return)
    }

    fn set(&self, scope: &mut Scope<'_>, name: Local<'_>) -> Result<Step, Failure> {
        let (binding, before) = (scope.null(), scope.null());
        let is_local = self.find(scope, name, binding);
        let place = if is_local { binding } else { name };
        scope.load(place, 1, before);
        if scope.same(before, self.scheme.unbound) {
            self.no_value(scope, name)?;
        }
        scope.set(place, 1, self.value)?;
        scope.assign(self.value, self.scheme.unspecified);
        Ok(Step::Return)
    }

    // ---- calls ----

    fn apply(&self, scope: &mut Scope<'_>) -> Result<Step, Failure> {
        let types = &self.scheme.types;
        if scope.is_a(self.function, types.closure) {
            self.bind(scope)?;
            let body = scope.get(self.function, 1);
            return self.sequence(scope, body);
        }
        if scope.is_a(self.function, types.continuation) {
            self.scheme.car(scope, self.arguments, self.value)?;
            scope.load(self.function, 0, self.frame);
            return Ok(Step::Return);
        }
        let otherwise = "a call of what is no procedure";
        self.scheme
            .expect(scope, self.function, types.primitive, otherwise)?;
        self.apply_primitive(scope)
    }

    /// The environment becomes that of the closure, with a rib for its parameters.
    fn bind(&self, scope: &mut Scope<'_>) -> Done {
        let (parameters, rest) = (scope.get(self.function, 0), scope.null());
        let (name, value, rib) = (scope.null(), scope.null(), scope.null());
        scope.assign(rest, self.arguments);
        while self.scheme.take(scope, parameters, name) {
            if !self.scheme.take(scope, rest, value) {
                return Err("too few arguments".into());
            }
            self.scheme.cons(scope, name, value, value)?;
            self.scheme.cons(scope, value, rib, rib)?;
        }
        if !scope.is_null(parameters) {
            self.scheme.cons(scope, parameters, rest, rest)?;
            self.scheme.cons(scope, rest, rib, rib)?;
        } else if !scope.is_null(rest) {
            return Err("too many arguments".into());
        }
        scope.load(self.function, 2, self.environment);
        self.scheme
            .cons(scope, rib, self.environment, self.environment)
    }

    fn apply_primitive(&self, scope: &mut Scope<'_>) -> Result<Step, Failure> {
        let primitive = &PRIMITIVES[scope.read_u64(self.function, 0) as usize];
        let (rest, mut arguments) = (scope.null(), Vec::new());
        scope.assign(rest, self.arguments);
        while self.scheme.is_pair(scope, rest) {
            arguments.push(scope.get(rest, 0));
            scope.load(rest, 1, rest);
        }
        if !primitive.takes(arguments.len()) {
            return Err(Failure(format!(
                "{} with {} arguments",
                primitive.name,
                arguments.len()
            )));
        }
        match primitive.body {
            Body::Value(body) => {
                body(self.scheme, scope, &arguments, self.value)?;
                Ok(Step::Return)
            }
            Body::Control(Control::CallWithContinuation) => {
                let of = self.scheme.types.continuation;
                self.scheme.make(scope, of, [self.frame], &[], self.value)?;
                let nothing = scope.null();
                self.scheme
                    .cons(scope, self.value, nothing, self.arguments)?;
                scope.assign(self.function, arguments[0]);
                Ok(Step::Apply)
            }
            Body::Control(Control::Try) => {
                let nothing = scope.null();
                self.push(scope, Kind::Handler, arguments[1], nothing)?;
                scope.assign(self.arguments, nothing);
                scope.assign(self.function, arguments[0]);
                Ok(Step::Apply)
            }
        }
    }
}
