//! Functions that are compiled when they are first called: how many are, that all kinds of calls find them, and what becomes
//! of a call whose function cannot be compiled.

mod assembly;

use std::cell::Cell;
use std::rc::Rc;

use gleaner::{Heap, References};
use gleaner_wasm::{
    Compile, Engine, Extern, Function, InstanceId, Settings, Signature, Trap, TrapKind, ValType,
    Value,
};

use assembly::assemble;

const PRESSURE: &str = "stress=1,verify=edges,poison=on";

fn engine_with(references: References, options: &str, settings: Settings) -> Engine {
    let heap = Heap::builder().limit(32 << 20).references(references);
    Engine::with_settings(heap.options(options).unwrap(), settings).unwrap()
}

fn engine(compile: Compile) -> Engine {
    let settings = Settings {
        checks: true,
        compile,
        ..Settings::default()
    };
    engine_with(References::Wide, "", settings)
}

fn instance(engine: &mut Engine, text: &str) -> InstanceId {
    let module = engine.load(&assemble(text)).unwrap();
    engine.instantiate(&module, &|_, _| None).unwrap()
}

fn function(engine: &mut Engine, of: InstanceId, name: &str) -> Function {
    match engine.export(of, name) {
        Some(Extern::Function(function)) => function,
        other => panic!("{name} is {other:?}"),
    }
}

fn call(
    engine: &mut Engine,
    of: InstanceId,
    name: &str,
    arguments: &[i32],
) -> Result<Vec<i32>, Trap> {
    let function = function(engine, of, name);
    let arguments: Vec<Value> = arguments.iter().map(|&number| Value::I32(number)).collect();
    let results = engine.call(function, &arguments)?;
    let number = |value: &Value| match value {
        Value::I32(number) => *number,
        other => panic!("{name} returned {other:?}"),
    };
    Ok(results.iter().map(number).collect())
}

/// How many functions were compiled, of how many.
fn counts(engine: &Engine) -> (usize, usize) {
    let compilation = engine.compilation();
    (compilation.compiled, compilation.functions)
}

#[test]
fn only_what_is_called_is_compiled() {
    let never = "(func (unreachable))".repeat(998);
    let text = format!(
        r#"(module {never}
            (func $inner (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
            (func (export "run") (param i32) (result i32) (call $inner (call $inner (local.get 0)))))"#
    );
    let mut lazy = engine(Compile::Lazy);
    let of = instance(&mut lazy, &text);
    assert_eq!(counts(&lazy), (0, 1000));
    for _ in 0..3 {
        assert_eq!(call(&mut lazy, of, "run", &[40]).unwrap(), [42]);
        assert_eq!(counts(&lazy), (2, 1000));
    }
    let mut eager = engine(Compile::Eager);
    let of = instance(&mut eager, &text);
    assert_eq!(counts(&eager), (1000, 1000));
    assert_eq!(call(&mut eager, of, "run", &[40]).unwrap(), [42]);
    assert!(eager.compilation().time > lazy.compilation().time);
}

/// Each function takes more than registers hold, of each kind, and objects among them; it returns more than registers hold.
const EVERY_CALL: &str = r#"(module
    (import "host" "collect" (func $collect))
    (type $box (struct (field i32)))
    (type $many (func
        (param (ref $box) i32 f64 i64 f32 (ref $box) i32 i32 i32 f64 f64 f64 f64 f64 f64 f64 f64 (ref $box) i64)
        (result i32 (ref $box) f64 i64 i32 i32 i32 i32 i32 i32 i32 i32)))
    (type $number (func (param i32) (result i32)))
    (tag $failure (param (ref $box)))
    (table $table 5 funcref)
    (elem (table $table) (i32.const 0) func $by_table $by_tail_table)
    (elem declare func $by_reference $by_tail_reference)
    (global $sum (mut i32) (i32.const 0))
    (func $new (param i32) (result (ref $box)) (struct.new $box (local.get 0)))
    (func $value (param (ref $box)) (result i32) (struct.get $box 0 (local.get 0)))
    BODIES
    (func $check (param i32 (ref $box) f64 i64 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
        (call $collect)
        (i32.add (i32.add (local.get 0) (call $value (local.get 1)))
            (i32.add (i32.add (i32.trunc_f64_s (local.get 2)) (i32.wrap_i64 (local.get 3)))
                (i32.add (local.get 4) (local.get 11)))))
    (func $tail (type $many) (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
        (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10) (local.get 11) (local.get 12) (local.get 13)
        (local.get 14) (local.get 15) (local.get 16) (local.get 17) (local.get 18) (return_call $by_tail))
    (func $tail_table (type $many) (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
        (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10) (local.get 11) (local.get 12) (local.get 13)
        (local.get 14) (local.get 15) (local.get 16) (local.get 17) (local.get 18)
        (return_call_indirect $table (type $many) (i32.const 1)))
    (func $tail_reference (type $many) (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
        (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10) (local.get 11) (local.get 12) (local.get 13)
        (local.get 14) (local.get 15) (local.get 16) (local.get 17) (local.get 18)
        (return_call_ref $many (ref.func $by_tail_reference)))
    (func $throw (param i32) (throw $failure (struct.new $box (local.get 0))))
    (func $deep (param i32 i32) (if (local.get 0)
        (then (call $deep (i32.sub (local.get 0) (i32.const 1)) (local.get 1)) (call $collect))
        (else (call $throw (local.get 1)))))
    (func $caught (param i32) (result i32)
        (block $handler (result (ref $box))
            (try_table (catch $failure $handler) (call $deep (i32.const 5) (local.get 0)))
            (unreachable))
        (call $collect)
        (struct.get $box 0))
    (func (export "run") (param i32) (result i32)
        (local $sum i32)
        CALLS
        (i32.add (local.get $sum) (call $caught (i32.const 10000)))))"#;

/// The sum of values, each times its weight.
fn weigh(ty: &str, values: &[(u32, &str)]) -> String {
    let none = format!("({ty}.const 0)");
    values.iter().fold(none, |sum, (weight, value)| {
        format!("({ty}.add {sum} ({ty}.mul ({ty}.const {weight}) {value}))")
    })
}

/// A program that makes each kind of call, and what it returns. Each argument has a value and a weight of its own.
fn every_call() -> (String, i32) {
    let functions = [
        "by_call",
        "by_table",
        "by_reference",
        "by_tail",
        "by_tail_table",
        "by_tail_reference",
    ];
    let bodies: String = functions
        .iter()
        .map(|name| {
            format!(
                r#"(func ${name} (type $many)
                (call $collect)
                {}
                (call $new {})
                {}
                {}
                {}
                (i32.const 1) (i32.const 2) (i32.const 3) (i32.const 4) (i32.const 5) (i32.const 6)
                {})"#,
                weigh(
                    "i32",
                    &[(3, "(local.get 1)"), (5, "(call $value (local.get 17))")]
                ),
                weigh(
                    "i32",
                    &[
                        (7, "(call $value (local.get 0))"),
                        (11, "(call $value (local.get 5))")
                    ]
                ),
                weigh(
                    "f64",
                    &[
                        (13, "(local.get 2)"),
                        (17, "(local.get 9)"),
                        (19, "(local.get 10)"),
                        (23, "(local.get 11)"),
                        (29, "(local.get 12)"),
                        (31, "(local.get 13)"),
                        (37, "(local.get 14)"),
                        (41, "(local.get 15)"),
                        (43, "(local.get 16)"),
                    ]
                ),
                weigh("i64", &[(47, "(local.get 3)"), (53, "(local.get 18)")]),
                weigh(
                    "i32",
                    &[
                        (59, "(local.get 6)"),
                        (61, "(i32.trunc_f32_s (local.get 4))")
                    ]
                ),
                weigh("i32", &[(67, "(local.get 7)"), (71, "(local.get 8)")]),
            )
        })
        .collect();
    let arguments = r#"(call $new (i32.const 1)) (i32.const 2) (f64.const 3) (i64.const 4) (f32.const 5)
        (call $new (i32.const 6)) (i32.const 7) (i32.const 8) (i32.const 9) (f64.const 10) (f64.const 11)
        (f64.const 12) (f64.const 13) (f64.const 14) (f64.const 15) (f64.const 16) (f64.const 17)
        (call $new (i32.const 18)) (i64.const 19)"#;
    let weights = [
        7, 3, 13, 47, 61, 11, 59, 67, 71, 17, 19, 23, 29, 31, 37, 41, 43, 5, 53,
    ];
    let of_one: i32 = (1..)
        .zip(weights)
        .map(|(value, weight)| value * weight)
        .sum();
    let calls: String = [
        "(call $by_call)",
        "(call_indirect $table (type $many) (i32.const 0))",
        "(call_ref $many (ref.func $by_reference))",
        "(call $tail)",
        "(call $tail_table)",
        "(call $tail_reference)",
    ]
    .iter()
    .map(|call| {
        format!("{arguments} {call} (call $check) (local.get $sum) (i32.add) (local.set $sum)")
    })
    .collect();
    let text = EVERY_CALL
        .replace("BODIES", &bodies)
        .replace("CALLS", &calls);
    (text, 6 * of_one + 10_000)
}

#[test]
fn every_kind_of_call_finds_a_function_that_was_not_compiled() {
    let (text, expected) = every_call();
    for references in [References::Wide, References::Compressed] {
        for (compile, options) in [
            (Compile::Lazy, ""),
            (Compile::Lazy, PRESSURE),
            (Compile::Eager, PRESSURE),
        ] {
            let settings = Settings {
                checks: true,
                compile,
                ..Settings::default()
            };
            let mut engine = engine_with(references, options, settings);
            let signature = Signature {
                params: Vec::new(),
                results: Vec::new(),
            };
            let collect = engine.host_function(signature, |engine, _| {
                engine.collect();
                Ok(Vec::new())
            });
            let collect = collect.unwrap();
            let module = engine.load(&assemble(&text)).unwrap();
            let of = engine
                .instantiate(&module, &|_, _| Some(Extern::Function(collect)))
                .unwrap();
            for _ in 0..2 {
                let result = call(&mut engine, of, "run", &[0]).unwrap();
                assert_eq!(result, [expected], "{references:?} {compile:?} {options}");
            }
            let (compiled, functions) = counts(&engine);
            assert_eq!(compiled, functions, "{compile:?}");
        }
    }
}

#[test]
fn start_functions_exports_and_references_that_were_kept_lead_to_the_code() {
    let text = r#"(module
        (type $number (func (param i32) (result i32)))
        (global $sum (mut i32) (i32.const 100))
        (global $kept (ref $number) (ref.func $add))
        (func $begin (global.set $sum (i32.add (global.get $sum) (i32.const 1))))
        (start $begin)
        (func $add (export "add") (param i32) (result i32)
            (global.set $sum (i32.add (global.get $sum) (local.get 0)))
            (global.get $sum))
        (func (export "by_global") (param i32) (result i32)
            (call_ref $number (local.get 0) (global.get $kept)))
        (func (export "twice") (param i32) (result i32)
            (drop (call $add (local.get 0)))
            (call $add (local.get 0))))"#;
    let mut engine = engine(Compile::Lazy);
    let module = engine.load(&assemble(text)).unwrap();
    let none = |_: &str, _: &str| None;
    let first = engine.instantiate(&module, &none).unwrap();
    let second = engine.instantiate(&module, &none).unwrap();
    assert_eq!(counts(&engine), (1, 4));
    let of_first = function(&mut engine, first, "add");
    assert_eq!(call(&mut engine, first, "by_global", &[1]).unwrap(), [102]);
    assert_eq!(call(&mut engine, second, "twice", &[10]).unwrap(), [121]);
    assert_eq!(counts(&engine), (4, 4));
    // An instance that is made when all is compiled.
    let third = engine.instantiate(&module, &none).unwrap();
    assert_eq!(call(&mut engine, third, "twice", &[1]).unwrap(), [103]);
    assert_eq!(call(&mut engine, second, "by_global", &[1]).unwrap(), [122]);
    // Another module calls the function of the first instance.
    let other = r#"(module (import "first" "add" (func $add (param i32) (result i32)))
        (func (export "run") (param i32) (result i32) (call $add (local.get 0))))"#;
    let other = engine.load(&assemble(other)).unwrap();
    let other = engine
        .instantiate(&other, &|_, _| Some(Extern::Function(of_first)))
        .unwrap();
    assert_eq!(call(&mut engine, other, "run", &[5]).unwrap(), [107]);
    assert_eq!(counts(&engine), (5, 5));
}

#[test]
fn a_module_that_nobody_holds_is_still_compiled_from() {
    let text = r#"(module
        (func $inner (param i32) (result i32) (i32.mul (local.get 0) (i32.const 3)))
        (func (export "run") (param i32) (result i32) (call $inner (local.get 0))))"#;
    let mut engine = engine(Compile::Lazy);
    let of = instance(&mut engine, text);
    // What lay where the module's text was is something else now.
    for _ in 0..10 {
        drop(engine.load(&assemble(text)).unwrap());
    }
    assert_eq!(call(&mut engine, of, "run", &[14]).unwrap(), [42]);
}

#[test]
fn a_trap_below_functions_that_were_just_compiled_names_them() {
    let text = r#"(module
        (func $inner (param i32) (result i32) (i32.div_s (i32.const 1) (local.get 0)))
        (func $middle (param i32) (result i32) (i32.add (call $inner (local.get 0)) (i32.const 1)))
        (func $outer (export "run") (param i32) (result i32) (i32.add (call $middle (local.get 0)) (i32.const 1))))"#;
    let mut engine = engine(Compile::Lazy);
    let of = instance(&mut engine, text);
    for _ in 0..2 {
        match call(&mut engine, of, "run", &[0]) {
            Err(Trap::Program {
                kind: TrapKind::DivisionByZero,
                backtrace,
                offset: Some(_),
            }) => assert_eq!(backtrace, ["inner", "middle", "outer"]),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn where_there_is_no_more_memory_for_code_a_call_is_an_error() {
    // Each function is some hundred bytes of code.
    let adds =
        "(i64.store (local.get 0) (i64.mul (i64.load (local.get 0)) (i64.const 3)))".repeat(20);
    let functions: String = (0..200)
        .map(|number| {
            format!(r#"(func $f{number} (export "f{number}") (param i32) (result i32) {adds} (i32.const {number}))"#)
        })
        .collect();
    let text = format!(
        r#"(module (memory 1) {functions}
        (func (export "run") (param i32) (result i32) (i32.add (call $f0 (local.get 0)) (i32.const 7))))"#
    );
    let settings = Settings {
        checks: true,
        code_limit: 40_000,
        ..Settings::default()
    };
    let mut lazy = engine_with(References::Wide, "", settings);
    let of = instance(&mut lazy, &text);
    let mut fitted = 0;
    let message = loop {
        match call(&mut lazy, of, &format!("f{fitted}"), &[8]) {
            Ok(result) => assert_eq!(result, [fitted]),
            Err(Trap::Host(message)) => break message,
            Err(other) => panic!("{other}"),
        }
        fitted += 1;
    };
    assert!((5..150).contains(&fitted), "{fitted} functions");
    assert!(
        message.contains("no memory for code: the limit is 40000 bytes"),
        "{message}"
    );
    // What is there still runs, and what is not there fails again.
    for _ in 0..2 {
        assert_eq!(call(&mut lazy, of, "f1", &[8]).unwrap(), [1]);
        assert!(call(&mut lazy, of, &format!("f{fitted}"), &[8]).is_err());
    }
    let (compiled, functions) = counts(&lazy);
    assert!(compiled < functions);
    let eager = Settings {
        compile: Compile::Eager,
        ..settings
    };
    let refused = engine_with(References::Wide, "", eager).load(&assemble(&text));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("the limit is 40000 bytes"), "{message}");
}

#[test]
fn a_frame_that_is_too_large_is_an_error_of_the_call() {
    // Nine thousand values of 8 bytes live at a time.
    let results = " i64".repeat(1000);
    let constants = "(i64.const 1)".repeat(1000);
    let calls = "(call $many)".repeat(9);
    let sums = "i64.add ".repeat(8999);
    let text = format!(
        r#"(module (func $many (result{results}) {constants})
            (func $wide (export "wide") (result i32) {calls} {sums} i32.wrap_i64)
            (func (export "narrow") (result i32) (i32.const 7)))"#
    );
    let mut lazy = engine(Compile::Lazy);
    let of = instance(&mut lazy, &text);
    match call(&mut lazy, of, "wide", &[]) {
        Err(Trap::Host(message)) => assert!(message.contains("wide needs "), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(call(&mut lazy, of, "narrow", &[]).unwrap(), [7]);
}

#[test]
fn a_function_is_compiled_at_the_end_of_the_stack() {
    let leaves: String = (0..20)
        .map(|number| format!("(func $leaf{number} (result i32) (i32.const {number}))"))
        .collect();
    let names: String = (0..20).map(|number| format!(" $leaf{number}")).collect();
    let text = format!(
        r#"(module {leaves}
        (type $leaf (func (result i32)))
        (table $table 20 funcref)
        (elem (table $table) (i32.const 0) func{names})
        (func $dive (export "dive") (param $depth i32) (param $leaf i32) (result i32)
            (if (result i32) (local.get $depth)
                (then (i32.add (call $dive (i32.sub (local.get $depth) (i32.const 1)) (local.get $leaf)) (i32.const 0)))
                (else (call_indirect $table (type $leaf) (local.get $leaf))))))"#
    );
    let mut engine = engine(Compile::Lazy);
    let of = instance(&mut engine, &text);
    // The depth from which a leaf that was compiled can just be called.
    assert_eq!(call(&mut engine, of, "dive", &[0, 0]).unwrap(), [0]);
    let (mut fits, mut overflows) = (0, 1 << 24);
    while overflows - fits > 1 {
        let depth = i32::midpoint(fits, overflows);
        match call(&mut engine, of, "dive", &[depth, 0]) {
            Ok(result) => {
                assert_eq!(result, [0]);
                fits = depth;
            }
            Err(trap) => {
                assert_eq!(trap.kind(), Some(TrapKind::StackOverflow));
                overflows = depth;
            }
        }
    }
    for leaf in 1..20 {
        let depth = fits - leaf + 1;
        assert_eq!(
            call(&mut engine, of, "dive", &[depth, leaf]).unwrap(),
            [leaf]
        );
    }
    assert_eq!(counts(&engine), (21, 21));
}

#[test]
fn host_functions_may_call_what_was_not_compiled() {
    let text = r#"(module (import "host" "back" (func $back (param i32) (result i32)))
        (type $box (struct (field i32)))
        (func $inner (export "inner") (param i32) (result i32) (i32.add (local.get 0) (i32.const 2)))
        (func (export "run") (param i32) (result i32)
            (local $kept (ref $box))
            (local.set $kept (struct.new $box (i32.const 30)))
            (i32.add (call $back (local.get 0)) (struct.get $box 0 (local.get $kept)))))"#;
    let settings = Settings {
        checks: true,
        ..Settings::default()
    };
    let mut engine = engine_with(References::Compressed, PRESSURE, settings);
    let signature = Signature {
        params: vec![ValType::I32],
        results: vec![ValType::I32],
    };
    let known: Rc<Cell<Option<Function>>> = Rc::default();
    let inner = Rc::clone(&known);
    let back = engine.host_function(signature, move |engine, arguments| {
        engine.collect();
        engine.call(inner.get().unwrap(), arguments)
    });
    let back = back.unwrap();
    let module = engine.load(&assemble(text)).unwrap();
    let of = engine
        .instantiate(&module, &|_, _| Some(Extern::Function(back)))
        .unwrap();
    known.set(Some(function(&mut engine, of, "inner")));
    assert_eq!(call(&mut engine, of, "run", &[10]).unwrap(), [42]);
    assert_eq!(counts(&engine), (2, 2));
}

#[test]
fn no_page_can_be_written_and_executed() {
    let (text, _) = every_call();
    for compile in [Compile::Lazy, Compile::Eager] {
        let mut engine = engine(compile);
        let signature = Signature {
            params: Vec::new(),
            results: Vec::new(),
        };
        // The pages of the function that is active are looked at, too.
        let look = engine.host_function(signature, |_, _| {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let both = |line: &&str| {
                line.split_whitespace()
                    .nth(1)
                    .is_some_and(|access| access.contains("wx"))
            };
            assert_eq!(maps.lines().find(both), None);
            Ok(Vec::new())
        });
        let look = look.unwrap();
        let module = engine.load(&assemble(&text)).unwrap();
        let of = engine
            .instantiate(&module, &|_, _| Some(Extern::Function(look)))
            .unwrap();
        call(&mut engine, of, "run", &[0]).unwrap();
    }
}
