//! The procedures that the program finds defined.

use std::ops::Range;

use gleaner::{Local, Registered, Scope};

use crate::objects::{Done, Failure, Scheme};

pub struct Primitive {
    pub name: &'static str,
    least: usize,
    most: usize,
    pub body: Body,
}

impl Primitive {
    pub fn takes(&self, arguments: usize) -> bool {
        (self.least..=self.most).contains(&arguments)
    }
}

type ValueOf = fn(&Scheme<'_>, &mut Scope<'_>, &[Local<'_>], Local<'_>) -> Done;

pub enum Body {
    /// Computes a value.
    Value(ValueOf),
    /// Changes the registers of the machine.
    Control(Control),
}

pub enum Control {
    CallWithContinuation,
    Try,
}

const ANY: usize = usize::MAX;

const fn value(name: &'static str, least: usize, most: usize, body: ValueOf) -> Primitive {
    let body = Body::Value(body);
    Primitive {
        name,
        least,
        most,
        body,
    }
}

const fn control(name: &'static str, arguments: usize, control: Control) -> Primitive {
    Primitive {
        name,
        least: arguments,
        most: arguments,
        body: Body::Control(control),
    }
}

pub static PRIMITIVES: [Primitive; 36] = [
    value("+", 0, ANY, |s, scope, all, into| {
        fold(s, scope, 0, all, into, i64::checked_add)
    }),
    value("*", 0, ANY, |s, scope, all, into| {
        fold(s, scope, 1, all, into, i64::checked_mul)
    }),
    value("-", 1, 2, subtract),
    value("quotient", 2, 2, |s, scope, all, into| {
        divide(s, scope, all, into, i64::checked_div)
    }),
    value("remainder", 2, 2, |s, scope, all, into| {
        divide(s, scope, all, into, i64::checked_rem)
    }),
    value("=", 2, 2, |s, scope, all, into| {
        compare(s, scope, all, into, i64::eq)
    }),
    value("<", 2, 2, |s, scope, all, into| {
        compare(s, scope, all, into, i64::lt)
    }),
    value("eq?", 2, 2, |s, scope, all, into| {
        let same = scope.same(all[0], all[1]);
        s.boolean(scope, same, into);
        Ok(())
    }),
    value("cons", 2, 2, |s, scope, all, into| {
        s.cons(scope, all[0], all[1], into)
    }),
    value("car", 1, 1, |s, scope, all, into| {
        s.car(scope, all[0], into)
    }),
    value("cdr", 1, 1, |s, scope, all, into| {
        s.cdr(scope, all[0], into)
    }),
    value("null?", 1, 1, |s, scope, all, into| {
        let holds = scope.is_null(all[0]);
        s.boolean(scope, holds, into);
        Ok(())
    }),
    value("number?", 1, 1, |s, scope, all, into| {
        let holds = s.as_integer(scope, all[0]).is_some();
        s.boolean(scope, holds, into);
        Ok(())
    }),
    value("pair?", 1, 1, |s, scope, all, into| {
        is(s, scope, all, s.types.pair, into)
    }),
    value("symbol?", 1, 1, |s, scope, all, into| {
        is(s, scope, all, s.types.symbol, into)
    }),
    value("string?", 1, 1, |s, scope, all, into| {
        is(s, scope, all, s.types.string, into)
    }),
    value("string-append", 0, ANY, string_append),
    value("string-length", 1, 1, |s, scope, all, into| {
        let length = string(s, scope, all[0])?;
        s.integer(scope, length as i64, into)
    }),
    value("substring", 3, 3, substring),
    value("string=?", 2, 2, |s, scope, all, into| {
        let (length, other) = (string(s, scope, all[0])?, string(s, scope, all[1])?);
        let same = length == other
            && scope
                .compare_elements(all[0], 0..length, all[1], 0)
                .is_none();
        s.boolean(scope, same, into);
        Ok(())
    }),
    value("number->string", 1, 1, |s, scope, all, into| {
        let number = number(s, scope, all[0])?;
        s.string(scope, &number.to_string(), into)
    }),
    value("string->symbol", 1, 1, |s, scope, all, into| {
        string(s, scope, all[0])?;
        let name = s.text(scope, all[0]);
        s.intern(scope, &name, into)
    }),
    value("make-vector", 2, 2, make_vector),
    value("vector-length", 1, 1, |s, scope, all, into| {
        let length = vector(s, scope, all[0])?;
        s.integer(scope, length as i64, into)
    }),
    value("vector-ref", 2, 2, |s, scope, all, into| {
        let index = element(s, scope, all)?;
        scope.load(all[0], index, into);
        Ok(())
    }),
    value("vector-set!", 3, 3, |s, scope, all, into| {
        let index = element(s, scope, all)?;
        scope.set(all[0], index, all[2])?;
        scope.assign(into, s.unspecified);
        Ok(())
    }),
    // (vector-swap! VECTOR INDEX OLD NEW): stores NEW if OLD is there, in one step; whether it did.
    value("vector-swap!", 4, 4, |s, scope, all, into| {
        let index = element(s, scope, all)?;
        let done = scope.compare_exchange(all[0], index, all[2], all[3])?;
        s.boolean(scope, done, into);
        Ok(())
    }),
    value("display", 1, 1, |s, scope, all, into| {
        let text = s.show(scope, all[0])?;
        // A thread that holds the lock of standard output neither allocates nor polls.
        print!("{text}");
        scope.assign(into, s.unspecified);
        Ok(())
    }),
    value("error", 1, ANY, |s, scope, all, _| {
        let texts: Result<Vec<String>, Failure> =
            all.iter().map(|value| s.show(scope, *value)).collect();
        Err(Failure(texts?.join(" ")))
    }),
    value("collect", 0, 0, |s, scope, _, into| {
        scope.collect(true);
        scope.assign(into, s.unspecified);
        Ok(())
    }),
    control("call/cc", 1, Control::CallWithContinuation),
    control("try", 2, Control::Try),
    value("spawn", 1, 1, |s, scope, all, into| {
        crate::threads::spawn(s, scope, all[0], into)
    }),
    value("join", 1, 1, |s, scope, all, into| {
        crate::threads::join(s, scope, all[0], into)
    }),
    value("make-weak-table", 0, 0, |s, scope, _, into| {
        crate::weak_tables::make(s, scope, into)
    }),
    value("weak-table", 2, 4, crate::weak_tables::apply),
];

/// Gives each primitive its name.
pub fn define(scheme: &Scheme<'_>, scope: &mut Scope<'_>) -> Done {
    PRIMITIVES
        .iter()
        .enumerate()
        .try_for_each(|(number, primitive)| {
            scope.nested(|scope| {
                let (name, made) = (scope.null(), scope.null());
                scheme.intern(scope, primitive.name, name)?;
                let of = scheme.types.primitive;
                scheme.make(scope, of, [], &[number as u64], made)?;
                Ok(scope.set(name, 1, made)?)
            })
        })
}

fn is(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    all: &[Local<'_>],
    of: impl Registered,
    into: Local<'_>,
) -> Done {
    let holds = scope.is_a(all[0], of);
    s.boolean(scope, holds, into);
    Ok(())
}

// ---- numbers ----

fn number(s: &Scheme<'_>, scope: &Scope<'_>, value: Local<'_>) -> Result<i64, Failure> {
    let number = s.as_integer(scope, value);
    number.ok_or_else(|| "arithmetic on what is no number".into())
}

type Checked = fn(i64, i64) -> Option<i64>;

fn result(s: &Scheme<'_>, scope: &mut Scope<'_>, number: Option<i64>, into: Local<'_>) -> Done {
    s.integer(scope, number.ok_or("a number is too large")?, into)
}

fn fold(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    first: i64,
    all: &[Local<'_>],
    into: Local<'_>,
    operation: Checked,
) -> Done {
    let mut sum = Some(first);
    for value in all {
        let number = number(s, scope, *value)?;
        sum = sum.and_then(|sum| operation(sum, number));
    }
    result(s, scope, sum, into)
}

fn subtract(s: &Scheme<'_>, scope: &mut Scope<'_>, all: &[Local<'_>], into: Local<'_>) -> Done {
    let first = number(s, scope, all[0])?;
    let difference = match all.get(1) {
        Some(second) => first.checked_sub(number(s, scope, *second)?),
        None => first.checked_neg(),
    };
    result(s, scope, difference, into)
}

fn divide(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    all: &[Local<'_>],
    into: Local<'_>,
    operation: Checked,
) -> Done {
    let (one, other) = (number(s, scope, all[0])?, number(s, scope, all[1])?);
    if other == 0 {
        return Err("a division by zero".into());
    }
    result(s, scope, operation(one, other), into)
}

fn compare(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    all: &[Local<'_>],
    into: Local<'_>,
    holds: fn(&i64, &i64) -> bool,
) -> Done {
    let (one, other) = (number(s, scope, all[0])?, number(s, scope, all[1])?);
    s.boolean(scope, holds(&one, &other), into);
    Ok(())
}

/// A number that is not negative, and less than `end`.
fn index(
    s: &Scheme<'_>,
    scope: &Scope<'_>,
    value: Local<'_>,
    end: usize,
) -> Result<usize, Failure> {
    let index = usize::try_from(number(s, scope, value)?);
    let index = index.ok().filter(|&index| index < end);
    index.ok_or_else(|| "an index is out of range".into())
}

// ---- strings ----

/// The length of a string.
fn string(s: &Scheme<'_>, scope: &Scope<'_>, value: Local<'_>) -> Result<usize, Failure> {
    s.expect(
        scope,
        value,
        s.types.string,
        "what should be a string is none",
    )?;
    Ok(scope.length(value) as usize)
}

/// A string of these ranges of strings.
fn copied(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    parts: Vec<(Local<'_>, Range<usize>)>,
    into: Local<'_>,
) -> Done {
    let total = parts.iter().map(|(_, range)| range.len()).sum::<usize>();
    let total = u32::try_from(total).map_err(|_| Failure::from("a string is too long"))?;
    let made = scope.allocate_array(s.types.string, total)?;
    let mut end = 0;
    for (part, range) in parts {
        let length = range.len();
        scope.copy_elements(part, range, made, end)?;
        end += length;
    }
    scope.assign(into, made);
    Ok(())
}

fn string_append(
    s: &Scheme<'_>,
    scope: &mut Scope<'_>,
    all: &[Local<'_>],
    into: Local<'_>,
) -> Done {
    let mut parts = Vec::new();
    for value in all {
        parts.push((*value, 0..string(s, scope, *value)?));
    }
    copied(s, scope, parts, into)
}

fn substring(s: &Scheme<'_>, scope: &mut Scope<'_>, all: &[Local<'_>], into: Local<'_>) -> Done {
    let length = string(s, scope, all[0])?;
    let end = index(s, scope, all[2], length + 1)?;
    let start = index(s, scope, all[1], end + 1)?;
    copied(s, scope, vec![(all[0], start..end)], into)
}

// ---- vectors ----

fn make_vector(s: &Scheme<'_>, scope: &mut Scope<'_>, all: &[Local<'_>], into: Local<'_>) -> Done {
    let length = index(s, scope, all[0], u32::MAX as usize)?;
    let made = scope.allocate_references(s.types.vector, length as u32)?;
    scope.fill(made, 0, length, all[1])?;
    scope.assign(into, made);
    Ok(())
}

/// The length of a vector.
fn vector(s: &Scheme<'_>, scope: &Scope<'_>, value: Local<'_>) -> Result<usize, Failure> {
    s.expect(
        scope,
        value,
        s.types.vector,
        "what should be a vector is none",
    )?;
    Ok(scope.length(value) as usize)
}

/// The index of an element: the first two arguments are a vector and its index.
fn element(s: &Scheme<'_>, scope: &Scope<'_>, all: &[Local<'_>]) -> Result<usize, Failure> {
    let length = vector(s, scope, all[0])?;
    index(s, scope, all[1], length)
}
