//! Programs under pressure: each is run with a collection at every allocation, in both formats of slots, and its result is the
//! same as without.

mod assembly;

use gleaner::{Heap, References};
use gleaner_wasm::{
    Engine, Extern, Function, InstanceId, InstantiateError, Signature, Trap, TrapKind, ValType,
    Value,
};

use assembly::assemble;

const PRESSURE: &str = "stress=1,verify=edges,poison=on";

fn engine(references: References, options: &str) -> Engine {
    let heap = Heap::builder()
        .limit(32 << 20)
        .references(references)
        .options(options)
        .unwrap();
    Engine::new(heap, true).unwrap()
}

/// A host function `host.collect`, which collects everything.
fn collector(engine: &mut Engine) -> Function {
    let signature = Signature {
        params: Vec::new(),
        results: Vec::new(),
    };
    let collect = |engine: &mut Engine, _: &[Value]| {
        engine.collect();
        Ok(Vec::new())
    };
    engine.host_function(signature, collect).unwrap()
}

fn instance(engine: &mut Engine, text: &str) -> InstanceId {
    let collect = collector(engine);
    let module = engine.load(&assemble(text)).unwrap();
    let host = move |module: &str, name: &str| {
        assert_eq!((module, name), ("host", "collect"));
        Some(Extern::Function(collect))
    };
    engine.instantiate(&module, &host).unwrap()
}

fn function(engine: &mut Engine, of: InstanceId, name: &str) -> Function {
    match engine.export(of, name) {
        Some(Extern::Function(function)) => function,
        other => panic!("{name} is {other:?}"),
    }
}

fn call(engine: &mut Engine, of: InstanceId, name: &str, argument: i32) -> Result<i32, Trap> {
    let function = function(engine, of, name);
    match engine.call(function, &[Value::I32(argument)])?[..] {
        [Value::I32(result)] => Ok(result),
        ref other => panic!("{name} returned {other:?}"),
    }
}

/// Runs function `run` of a program with an argument, in both formats, without pressure and with it.
fn expect(text: &str, argument: i32, expected: i32) {
    for references in [References::Wide, References::Compressed] {
        for options in ["", PRESSURE] {
            let mut engine = engine(references, options);
            let instance = instance(&mut engine, text);
            let result = call(&mut engine, instance, "run", argument).unwrap();
            assert_eq!(result, expected, "{references:?} {options}");
        }
    }
}

#[test]
fn trees_live_across_calls() {
    let text = r#"(module
        (type $node (struct (field $left (ref null $node)) (field $right (ref null $node)) (field $value i32)))
        (func $build (param $depth i32) (result (ref $node))
            (if (result (ref $node)) (local.get $depth)
                (then (struct.new $node
                    (call $build (i32.sub (local.get $depth) (i32.const 1)))
                    (call $build (i32.sub (local.get $depth) (i32.const 1)))
                    (local.get $depth)))
                (else (struct.new $node (ref.null $node) (ref.null $node) (i32.const 1)))))
        (func $sum (param $tree (ref null $node)) (result i32)
            (if (result i32) (ref.is_null (local.get $tree))
                (then (i32.const 0))
                (else (i32.add (struct.get $node $value (local.get $tree))
                    (i32.add (call $sum (struct.get $node $left (local.get $tree)))
                        (call $sum (struct.get $node $right (local.get $tree))))))))
        (func (export "run") (param i32) (result i32) (call $sum (call $build (local.get 0)))))"#;
    // 2^6 leaves of 1, and 2^(6 - d) inner nodes of each depth d.
    expect(
        text,
        6,
        64 + (1..=6).map(|depth| depth << (6 - depth)).sum::<i32>(),
    );
}

#[test]
fn fields_of_vectors_are_copied_beside_others() {
    let text = r#"(module
        (type $box (struct (field i32)))
        (type $wide (struct
            (field (mut i32)) (field (mut v128)) (field (mut (ref null $box))) (field (mut v128)) (field (mut i64))))
        (func $new (param i32) (result (ref $wide))
            (local $wide (ref $wide))
            (local.set $wide (struct.new_default $wide))
            (struct.set $wide 0 (local.get $wide) (local.get 0))
            (struct.set $wide 2 (local.get $wide) (struct.new $box (local.get 0)))
            (struct.set $wide 4 (local.get $wide) (i64.extend_i32_u (local.get 0)))
            (local.get $wide))
        (func $sum (param (ref $wide)) (result i32)
            (i32.add (struct.get $wide 0 (local.get 0))
                (i32.add (struct.get $box 0 (struct.get $wide 2 (local.get 0)))
                    (i32.wrap_i64 (struct.get $wide 4 (local.get 0))))))
        (func (export "run") (param i32) (result i32)
            (local $from (ref $wide)) (local $to (ref $wide))
            (local.set $from (call $new (local.get 0)))
            (local.set $to (call $new (i32.const 100)))
            (struct.set $wide 1 (local.get $to) (struct.get $wide 3 (local.get $from)))
            (struct.set $wide 3 (local.get $to) (struct.get $wide 1 (local.get $from)))
            (local.set $to (struct.new $wide
                (struct.get $wide 0 (local.get $to)) (struct.get $wide 3 (local.get $from))
                (struct.get $wide 2 (local.get $to)) (struct.get $wide 1 (local.get $to))
                (struct.get $wide 4 (local.get $to))))
            (i32.add (call $sum (local.get $from)) (call $sum (local.get $to)))))"#;
    expect(text, 7, 321);
}

#[test]
fn arrays_of_any_length_hold_what_they_are_made_of() {
    // Lengths around those that compiled code allocates by itself, each array between two that must stay what they are.
    let text = r#"(module
        (type $box (struct (field i32)))
        (type $bytes (array (mut i8)))
        (type $longs (array (mut i64)))
        (type $boxes (array (mut (ref null $box))))
        (func $byte_sum (param $of (ref $bytes)) (result i32) (local $i i32) (local $sum i32)
            (block $end (loop $more
                (br_if $end (i32.ge_u (local.get $i) (array.len (local.get $of))))
                (local.set $sum (i32.add (local.get $sum) (array.get_u $bytes (local.get $of) (local.get $i))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $more)))
            (local.get $sum))
        (func $long_sum (param $of (ref $longs)) (result i32) (local $i i32) (local $sum i64)
            (block $end (loop $more
                (br_if $end (i32.ge_u (local.get $i) (array.len (local.get $of))))
                (local.set $sum (i64.add (local.get $sum) (array.get $longs (local.get $of) (local.get $i))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $more)))
            (i32.wrap_i64 (local.get $sum)))
        (func $box_sum (param $of (ref $boxes)) (result i32) (local $i i32) (local $sum i32)
            (block $end (loop $more
                (br_if $end (i32.ge_u (local.get $i) (array.len (local.get $of))))
                (if (i32.eqz (ref.is_null (array.get $boxes (local.get $of) (local.get $i))))
                    (then (local.set $sum (i32.add (local.get $sum)
                        (struct.get $box 0 (array.get $boxes (local.get $of) (local.get $i)))))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br $more)))
            (local.get $sum))
        (func $of_length (param $n i32) (result i32)
            (local $a (ref $bytes)) (local $b (ref $longs)) (local $c (ref $boxes))
            (local $d (ref $bytes)) (local $e (ref $longs)) (local $f (ref $boxes))
            (local.set $a (array.new $bytes (i32.const 3) (local.get $n)))
            (local.set $d (array.new_default $bytes (local.get $n)))
            (local.set $b (array.new $longs (i64.const 5) (local.get $n)))
            (local.set $e (array.new_default $longs (local.get $n)))
            (local.set $c (array.new $boxes (struct.new $box (i32.const 7)) (local.get $n)))
            (local.set $f (array.new_default $boxes (local.get $n)))
            (i32.add (i32.add (call $byte_sum (local.get $a)) (call $byte_sum (local.get $d)))
                (i32.add (i32.add (call $long_sum (local.get $b)) (call $long_sum (local.get $e)))
                    (i32.add (call $box_sum (local.get $c)) (call $box_sum (local.get $f))))))
        (func (export "run") (param $most i32) (result i32) (local $n i32) (local $wrong i32)
            (loop $more
                (if (i32.ne (call $of_length (local.get $n)) (i32.mul (i32.const 15) (local.get $n)))
                    (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1)))))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $more (i32.le_u (local.get $n) (local.get $most))))
            (local.get $wrong)))"#;
    for references in [References::Wide, References::Compressed] {
        // A small heap fills its buffers with what died before.
        for (options, most) in [("heap-limit=1m,poison=on", 700), (PRESSURE, 40)] {
            let mut engine = engine(references, options);
            let instance = instance(&mut engine, text);
            let wrong = call(&mut engine, instance, "run", most).unwrap();
            assert_eq!(wrong, 0, "{references:?} {options}");
        }
    }
    let endless = r#"(module (type $longs (array i64))
        (func (export "run") (param i32) (result i32) (array.len (array.new_default $longs (local.get 0)))))"#;
    let mut engine = engine(References::Wide, "");
    let instance = instance(&mut engine, endless);
    assert_eq!(call(&mut engine, instance, "run", 9).unwrap(), 9);
    for length in [-1, i32::MIN] {
        match call(&mut engine, instance, "run", length) {
            Err(Trap::Program {
                kind: TrapKind::OutOfMemory,
                ..
            }) => {}
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[test]
fn frames_without_references_are_walked_over() {
    let text = r#"(module
        (import "host" "collect" (func $collect))
        (type $box (struct (field i32)))
        (func $inner (param i32) (result i32) (call $collect) (local.get 0))
        (func $middle (param i32) (result i32) (i32.add (call $inner (local.get 0)) (i32.const 1)))
        (func (export "run") (param i32) (result i32)
            (local $kept (ref $box))
            (local.set $kept (struct.new $box (i32.const 40)))
            (i32.add (call $middle (local.get 0)) (struct.get $box 0 (local.get $kept)))))"#;
    expect(text, 1, 42);
}

#[test]
fn what_is_on_the_stack_of_operands_lives_across_calls() {
    let text = r#"(module
        (import "host" "collect" (func $collect))
        (type $box (struct (field i32)))
        (type $pair (struct (field (ref null $box)) (field anyref)))
        (type $boxes (array (ref null $box)))
        (global $global (mut (ref null $box)) (ref.null $box))
        (table $table 1 (ref null $box))
        (func $new (param i32) (result (ref $box)) (struct.new $box (local.get 0)))
        (func (export "run") (param i32) (result i32)
            (local $pair (ref $pair)) (local $array (ref $boxes))
            (local.set $array (array.new_fixed $boxes 1 (call $new (i32.const 1))))
            (local.set $pair (struct.new $pair (call $new (i32.const 2)) (call $new (i32.const 4))))
            (global.set $global (call $new (i32.const 8)))
            (table.set $table (i32.const 0) (call $new (i32.const 16)))
            (array.get $boxes (local.get $array) (i32.const 0))
            (struct.get $pair 0 (local.get $pair))
            (struct.get $pair 1 (local.get $pair))
            (global.get $global)
            (table.get $table (i32.const 0))
            (call $new (i32.const 32))
            (select (result (ref $box)) (call $new (i32.const 64)) (call $new (i32.const 0)) (local.get 0))
            (call $collect)
            (drop (call $new (i32.const -1)))
            (struct.get $box 0)
            (local.set 0)
            (struct.get $box 0) (i32.add (local.get 0)) (local.set 0)
            (struct.get $box 0) (i32.add (local.get 0)) (local.set 0)
            (struct.get $box 0) (i32.add (local.get 0)) (local.set 0)
            (ref.cast (ref $box)) (struct.get $box 0) (i32.add (local.get 0)) (local.set 0)
            (struct.get $box 0) (i32.add (local.get 0)) (local.set 0)
            (struct.get $box 0) (i32.add (local.get 0))))"#;
    expect(text, 1, 127);
}

#[test]
fn stretches_of_frames_below_host_functions_are_walked() {
    for references in [References::Wide, References::Compressed] {
        let mut engine = engine(references, PRESSURE);
        let signature = Signature {
            params: vec![ValType::I32],
            results: vec![ValType::I32],
        };
        // It calls compiled code, which collects while the frames of both stretches are active.
        let back = engine.host_function(signature, |engine, arguments| {
            let text = r#"(module
                (import "host" "collect" (func $collect))
                (type $box (struct (field i32)))
                (func (export "run") (param i32) (result i32)
                    (local $kept (ref $box))
                    (local.set $kept (struct.new $box (local.get 0)))
                    (call $collect)
                    (drop (struct.new $box (i32.const -1)))
                    (struct.get $box 0 (local.get $kept))))"#;
            let inner = instance(engine, text);
            let run = function(engine, inner, "run");
            engine.call(run, arguments)
        });
        let back = back.unwrap();
        let module = engine.load(&assemble(
            r#"(module (import "host" "back" (func $back (param i32) (result i32)))
                (type $box (struct (field i32)))
                (func (export "run") (param i32) (result i32)
                    (local $kept (ref $box))
                    (local.set $kept (struct.new $box (i32.const 30)))
                    (i32.add (call $back (local.get 0)) (struct.get $box 0 (local.get $kept)))))"#,
        ));
        let outer = engine
            .instantiate(&module.unwrap(), &|_, _| Some(Extern::Function(back)))
            .unwrap();
        assert_eq!(call(&mut engine, outer, "run", 12).unwrap(), 42);
    }
}

#[test]
fn payloads_of_exceptions_survive_collections() {
    let text = r#"(module
        (import "host" "collect" (func $collect))
        (type $box (struct (field i32)))
        (tag $failure (param (ref $box) i32))
        (func $throw (param $depth i32)
            (local $kept (ref $box))
            (local.set $kept (struct.new $box (local.get $depth)))
            (if (local.get $depth)
                (then (call $throw (i32.sub (local.get $depth) (i32.const 1))))
                (else (throw $failure (struct.new $box (i32.const 40)) (i32.const 1))))
            (drop (struct.get $box 0 (local.get $kept))))
        ;; Catches, collects, and throws the same again.
        (func $again (param $depth i32)
            (local $caught exnref)
            (block $handler (result exnref)
                (try_table (catch_all_ref $handler) (call $throw (local.get $depth)))
                (return))
            (local.set $caught)
            (call $collect)
            (throw_ref (local.get $caught)))
        (func (export "run") (param $depth i32) (result i32)
            (local $kept (ref $box))
            (local.set $kept (struct.new $box (i32.const 1)))
            (block $handler (result (ref $box) i32)
                (try_table (catch $failure $handler) (call $again (local.get $depth)))
                (return (i32.const -1)))
            (local.set $depth)
            (call $collect)
            (struct.get $box 0)
            (i32.add (local.get $depth))
            (i32.add (struct.get $box 0 (local.get $kept)))))"#;
    expect(text, 50, 42);
}

#[test]
fn globals_tables_and_segments_are_roots() {
    let text = r#"(module
        (import "host" "collect" (func $collect))
        (type $box (struct (field i32)))
        (type $boxes (array (mut (ref null $box))))
        (global $global (mut (ref null $box)) (struct.new $box (i32.const 1)))
        (table $table 2 (ref null $box))
        (elem $elements (ref null $box) (struct.new $box (i32.const 2)) (struct.new $box (i32.const 4)))
        (func (export "run") (param i32) (result i32)
            (local $array (ref $boxes))
            (table.set $table (i32.const 1) (struct.new $box (i32.const 8)))
            (drop (table.grow $table (ref.null $box) (i32.const 100)))
            (call $collect)
            (local.set $array (array.new_elem $boxes $elements (i32.const 0) (i32.const 2)))
            (call $collect)
            (i32.add
                (i32.add (struct.get $box 0 (global.get $global))
                    (struct.get $box 0 (table.get $table (i32.const 1))))
                (i32.add (struct.get $box 0 (array.get $boxes (local.get $array) (i32.const 0)))
                    (struct.get $box 0 (array.get $boxes (local.get $array) (i32.const 1)))))))"#;
    expect(text, 0, 15);
}

#[test]
fn constant_expressions_have_every_instruction() {
    let text = r#"(module
        (type $box (struct (field $of i32)))
        (type $number (func (result i32)))
        (type $all (struct
            (field $byte i8) (field $any anyref) (field $short i16) (field $float f32) (field $double f64)
            (field $long i64) (field $function (ref null $number)) (field $box (ref $box)) (field $extern externref)))
        (type $bytes (array i8))
        (type $shorts (array (mut i16)))
        (type $doubles (array f64))
        (type $boxes (array (ref null $box)))
        (type $functions (array (ref null $number)))
        (func $seven (result i32) (i32.const 7))
        (global $one (ref $box) (struct.new $box (i32.const 1)))
        (global $three i32 (i32.const 3))
        (global $all (ref $all) (struct.new $all
            (i32.const -1)
            (ref.i31 (i32.sub (i32.const 2) (global.get $three)))
            (i32.mul (i32.const 1000) (i32.add (i32.const 60) (i32.const 1)))
            (f32.const 2.5) (f64.const -4.5)
            (i64.mul (i64.sub (i64.const 10) (i64.const 20)) (i64.add (i64.const 1) (i64.const 1)))
            (ref.func $seven)
            (struct.new $box (i32.const 100))
            (extern.convert_any (struct.new $box (i32.const 200)))))
        (global $again anyref (any.convert_extern (extern.convert_any (global.get $all))))
        (global $none (ref $all)
            (struct.new $all (i32.const 0) (ref.null any) (i32.const 0) (f32.const 0) (f64.const 0) (i64.const 0)
                (ref.null $number) (global.get $one) (ref.null extern)))
        (global $empty (ref $shorts) (array.new_default $shorts (i32.const 3)))
        (global $bytes (ref $bytes) (array.new $bytes (i32.const 5) (i32.const 11)))
        (global $doubles (ref $doubles) (array.new_fixed $doubles 2 (f64.const 1.5) (f64.const 2.5)))
        (global $boxes (ref $boxes) (array.new_fixed $boxes 3
            (struct.new $box (i32.const 300)) (ref.null $box) (global.get $one)))
        (global $same (ref $boxes) (array.new $boxes (struct.new $box (i32.const 400)) (i32.const 50)))
        (global $functions (ref $functions) (array.new_fixed $functions 2 (ref.null $number) (ref.func $seven)))
        (global $default (ref $box) (struct.new_default $box))
        (global $young (ref $box) (struct.new $box (i32.const 500)))
        (global $pair (ref $boxes) (array.new_fixed $boxes 2 (global.get $young) (struct.new $box (i32.const 600))))
        (func $is (param $number i32) (param $holds i32) (result i32)
            (if (result i32) (local.get $holds) (then (i32.const 0)) (else (local.get $number))))
        (func (export "run") (param i32) (result i32) (local $wrong i32)
            CHECKS
            (local.get $wrong)))"#;
    let checks = [
        "(i32.eq (struct.get_s $all $byte (global.get $all)) (i32.const -1))",
        "(i32.eq (i31.get_s (ref.cast (ref i31) (struct.get $all $any (global.get $all)))) (i32.const -1))",
        "(i32.eq (struct.get_u $all $short (global.get $all)) (i32.const 61000))",
        "(f32.eq (struct.get $all $float (global.get $all)) (f32.const 2.5))",
        "(f64.eq (struct.get $all $double (global.get $all)) (f64.const -4.5))",
        "(i64.eq (struct.get $all $long (global.get $all)) (i64.const -20))",
        "(i32.eq (call_ref $number (struct.get $all $function (global.get $all))) (i32.const 7))",
        "(i32.eq (struct.get $box 0 (struct.get $all $box (global.get $all))) (i32.const 100))",
        "(i32.eq (struct.get $box 0 (ref.cast (ref $box) (any.convert_extern
            (struct.get $all $extern (global.get $all))))) (i32.const 200))",
        "(ref.eq (ref.cast (ref $all) (global.get $again)) (global.get $all))",
        "(ref.eq (struct.get $all $box (global.get $none)) (global.get $one))",
        "(ref.is_null (struct.get $all $function (global.get $none)))",
        "(i32.eqz (array.get_u $shorts (global.get $empty) (i32.const 2)))",
        "(i32.eq (array.len (global.get $bytes)) (i32.const 11))",
        "(i32.eq (array.get_u $bytes (global.get $bytes) (i32.const 10)) (i32.const 5))",
        "(f64.eq (array.get $doubles (global.get $doubles) (i32.const 1)) (f64.const 2.5))",
        "(i32.eq (struct.get $box 0 (array.get $boxes (global.get $boxes) (i32.const 0))) (i32.const 300))",
        "(ref.is_null (array.get $boxes (global.get $boxes) (i32.const 1)))",
        "(ref.eq (array.get $boxes (global.get $boxes) (i32.const 2)) (global.get $one))",
        "(i32.eq (struct.get $box 0 (array.get $boxes (global.get $same) (i32.const 49))) (i32.const 400))",
        "(i32.eq (call_ref $number (array.get $functions (global.get $functions) (i32.const 1))) (i32.const 7))",
        "(i32.eqz (struct.get $box 0 (global.get $default)))",
        "(ref.eq (array.get $boxes (global.get $pair) (i32.const 0)) (global.get $young))",
        "(i32.eq (struct.get $box 0 (array.get $boxes (global.get $pair) (i32.const 0))) (i32.const 500))",
    ];
    let checks: String = (1..)
        .zip(checks)
        .map(|(number, check)| {
            format!(
                "(local.set $wrong (i32.or (local.get $wrong) (call $is (i32.const {number}) {check})))"
            )
        })
        .collect();
    expect(&text.replace("CHECKS", &checks), 0, 0);
}

#[test]
fn a_constant_that_the_heap_has_no_room_for_is_a_trap() {
    for constant in [
        "(array.new_default $longs (i32.const 0x7fffffff))",
        "(array.new $longs (i64.const 1) (i32.const 1000000))",
    ] {
        let text = format!("(module (type $longs (array i64)) (global (ref $longs) {constant}))");
        let mut engine = engine(References::Wide, "heap-limit=4m");
        let module = engine.load(&assemble(&text)).unwrap();
        match engine.instantiate(&module, &|_, _| None) {
            Err(InstantiateError::Trap(Trap::Program {
                kind: TrapKind::OutOfMemory,
                offset: Some(_),
                backtrace,
            })) => assert!(backtrace.is_empty()),
            other => panic!("{constant}: {other:?}"),
        }
    }
}

#[test]
fn stores_into_old_objects_have_a_barrier() {
    let text = r#"(module
        (import "host" "collect" (func $collect))
        (type $box (struct (field i32)))
        (type $pair (struct (field (mut (ref null $box))) (field (mut anyref))))
        (type $boxes (array (mut (ref null $box))))
        (func $churn (param $count i32)
            (loop $again
                (drop (array.new_default $boxes (i32.const 1000)))
                (br_if $again (local.tee $count (i32.sub (local.get $count) (i32.const 1))))))
        (func (export "run") (param i32) (result i32)
            (local $pair (ref $pair)) (local $array (ref $boxes))
            (local.set $pair (struct.new_default $pair))
            (local.set $array (array.new_default $boxes (i32.const 5000)))
            (call $collect) (call $collect) (call $collect)
            (struct.set $pair 0 (local.get $pair) (struct.new $box (i32.const 1)))
            (struct.set $pair 1 (local.get $pair) (struct.new $box (i32.const 2)))
            (array.set $boxes (local.get $array) (i32.const 4999) (struct.new $box (i32.const 4)))
            (array.fill $boxes (local.get $array) (i32.const 100) (struct.new $box (i32.const 8)) (i32.const 10))
            (array.copy $boxes $boxes (local.get $array) (i32.const 2000) (local.get $array) (i32.const 100) (i32.const 10))
            (call $churn (local.get 0))
            (i32.add
                (i32.add (struct.get $box 0 (struct.get $pair 0 (local.get $pair)))
                    (struct.get $box 0 (ref.cast (ref $box) (struct.get $pair 1 (local.get $pair)))))
                (i32.add (struct.get $box 0 (array.get $boxes (local.get $array) (i32.const 4999)))
                    (struct.get $box 0 (array.get $boxes (local.get $array) (i32.const 2009)))))))"#;
    // Without pressure, enough garbage for scavenges; with it, a few allocations.
    for references in [References::Wide, References::Compressed] {
        for (options, count) in [("generations=always", 20_000), (PRESSURE, 20)] {
            let mut engine = engine(references, options);
            let instance = instance(&mut engine, text);
            assert_eq!(
                call(&mut engine, instance, "run", count).unwrap(),
                15,
                "{references:?} {options}"
            );
        }
    }
}

#[test]
fn integers_of_31_bits_pass_through_slots() {
    let text = r#"(module
        (type $any (array (mut anyref)))
        (func (export "run") (param i32) (result i32)
            (local $array (ref $any))
            (local.set $array (array.new $any (ref.i31 (local.get 0)) (i32.const 3)))
            (drop (array.new_default $any (i32.const 3)))
            (i31.get_s (ref.cast (ref i31) (array.get $any (local.get $array) (i32.const 2))))))"#;
    for number in [0, 1, -1, (1 << 30) - 1, -(1 << 30)] {
        expect(text, number, number);
    }
    expect(text, 1 << 30, -(1 << 30));
}

#[test]
fn many_values_are_returned_and_passed() {
    let text = r#"(module
        (type $box (struct (field i32)))
        (func $many (param i32 (ref $box) i64 f64 (ref $box) i32 i32 i32 i32)
            (result (ref $box) i32 i64 f64 (ref $box) i32)
            (struct.new $box (i32.const 1)) (local.get 0) (local.get 2) (local.get 3) (local.get 4) (local.get 8))
        (func $tail (param i32) (result (ref $box) i32 i64 f64 (ref $box) i32)
            (return_call $many (local.get 0) (struct.new $box (i32.const 2)) (i64.const 3) (f64.const 4)
                (struct.new $box (i32.const 5)) (i32.const 6) (i32.const 7) (i32.const 8) (i32.const 9)))
        (func (export "run") (param i32) (result i32)
            (local $last i32) (local $box (ref $box)) (local $double f64) (local $long i64) (local $int i32)
            (call $tail (local.get 0))
            (local.set $last) (local.set $box) (local.set $double) (local.set $long) (local.set $int)
            (struct.get $box 0)
            (i32.add (local.get $int)) (i32.add (i32.wrap_i64 (local.get $long)))
            (i32.add (i32.trunc_f64_s (local.get $double)))
            (i32.add (struct.get $box 0 (local.get $box))) (i32.add (local.get $last))))"#;
    expect(text, 20, 1 + 20 + 3 + 4 + 5 + 9);
}

#[test]
fn a_full_heap_and_a_full_stack_are_traps_that_the_engine_survives() {
    let text = r#"(module $named
        (import "host" "collect" (func $collect))
        (type $list (struct (field (ref null $list)) (field i64)))
        (func $endless (export "endless") (param i32) (result i32)
            (i32.add (call $endless (local.get 0)) (i32.const 1)))
        (func $fill (export "fill") (param i32) (result i32)
            (local $list (ref null $list))
            (loop $again (local.set $list (struct.new $list (local.get $list) (i64.const 0))) (br $again))
            (unreachable))
        (func (export "run") (param i32) (result i32)
            (i32.wrap_i64 (struct.get $list 1 (struct.new $list (ref.null $list) (i64.extend_i32_s (local.get 0)))))))"#;
    for references in [References::Wide, References::Compressed] {
        let mut engine = engine(references, "heap-limit=4m");
        let instance = instance(&mut engine, text);
        for _ in 0..3 {
            let trap = call(&mut engine, instance, "endless", 0).unwrap_err();
            assert_eq!(trap.kind(), Some(TrapKind::StackOverflow));
            let Trap::Program { offset: begin, .. } = trap else {
                panic!("{trap}")
            };
            assert!(begin > Some(0), "where the function's instructions begin");
            let trap = call(&mut engine, instance, "fill", 0).unwrap_err();
            assert_eq!(trap.kind(), Some(TrapKind::OutOfMemory));
            let Trap::Program {
                offset, backtrace, ..
            } = trap
            else {
                panic!("{trap}")
            };
            assert!(offset.is_some());
            assert_eq!(backtrace, ["fill"]);
            assert_eq!(call(&mut engine, instance, "run", 7).unwrap(), 7);
        }
    }
}

#[test]
fn what_a_host_function_does_wrong_reaches_the_host() {
    let mut engine = engine(References::Wide, "");
    let signature = || Signature {
        params: vec![ValType::I32],
        results: vec![ValType::I32],
    };
    let text = r#"(module (import "host" "function" (func $host (param i32) (result i32)))
        (func (export "run") (param i32) (result i32) (call $host (local.get 0))))"#;
    let module = engine.load(&assemble(text)).unwrap();
    let link = |engine: &mut Engine, host: Function| {
        engine
            .instantiate(&module, &|_, _| Some(Extern::Function(host)))
            .unwrap()
    };
    let fails = engine
        .host_function(signature(), |_, _| Err(Trap::Host("no such file".into())))
        .unwrap();
    let instance = link(&mut engine, fails);
    assert_eq!(
        call(&mut engine, instance, "run", 0)
            .unwrap_err()
            .to_string(),
        "no such file"
    );
    let wrong = engine
        .host_function(signature(), |_, _| Ok(vec![Value::I64(1)]))
        .unwrap();
    let instance = link(&mut engine, wrong);
    let message = call(&mut engine, instance, "run", 0)
        .unwrap_err()
        .to_string();
    assert!(message.contains("I32 is wanted"), "{message}");
    let panics = engine
        .host_function(signature(), |_, _| panic!("out of cheese"))
        .unwrap();
    let instance = link(&mut engine, panics);
    let call = std::panic::AssertUnwindSafe(|| call(&mut engine, instance, "run", 0));
    let payload = std::panic::catch_unwind(call).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"out of cheese"));
}
