//! What the host is told of an exception that nothing caught: the text that its payload leads to, and the functions that were active.

mod assembly;

use gleaner::{Heap, References};
use gleaner_wasm::{Engine, Extern, HeapType, RefType, Signature, Thrown, Trap, ValType, Value};

use assembly::assemble;

/// Throws in many ways: the parameter chooses.
const MODULE: &str = r#"(module
    (type $units (array (mut i16)))
    (type $bytes (array (mut i8)))
    (rec (type $text (sub final (struct
        (field $before (mut (ref null $text))) (field $length i32) (field $units (mut (ref null $units)))))))
    (type $other (struct (field i32) (field (ref null $bytes))))
    (type $error (sub (struct
        (field $other (ref null $other)) (field $any anyref) (field $message (ref null $text)) (field $cause (ref null $error)))))
    (type $special (sub $error (struct
        (field (ref null $other)) (field anyref) (field (ref null $text)) (field (ref null $error)) (field (ref null $text)))))
    (import "host" "call" (func $host (param funcref i32)))
    (tag $error (param (ref null $error)))
    (tag $number (param i32))
    (tag $two (param anyref (ref $special)))
    (tag $foreign (param externref))
    (tag $bare)

    (func $text (param $first i32) (param $length i32) (param $before (ref null $text)) (result (ref $text))
        (local $units (ref $units)) (local $i i32)
        (local.set $units (array.new_default $units (local.get $length)))
        (block $done (loop $more
            (br_if $done (i32.ge_u (local.get $i) (local.get $length)))
            (array.set $units (local.get $units) (local.get $i)
                (i32.add (local.get $first) (i32.rem_u (local.get $i) (i32.const 26))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br $more)))
        (struct.new $text (local.get $before) (local.get $length) (local.get $units)))
    (func $error (param $message (ref null $text)) (result (ref $error))
        (struct.new $error
            (struct.new $other (i32.const 1) (array.new_default $bytes (i32.const 4)))
            (ref.i31 (i32.const 3))
            (local.get $message)
            (struct.new $error (ref.null $other) (ref.null any)
                (call $text (i32.const 122) (i32.const 1) (ref.null $text)) (ref.null $error))))
    (func $cycle (result (ref $text)) (local $text (ref $text))
        (local.set $text (call $text (i32.const 97) (i32.const 1) (ref.null $text)))
        (struct.set $text $before (local.get $text) (local.get $text))
        (local.get $text))

    (func $fail (param $which i32)
        (block $8 (block $7 (block $6 (block $5 (block $4 (block $3 (block $2 (block $1 (block $0
            (br_table $0 $1 $2 $3 $4 $5 $6 $7 $8 (local.get $which)))
            ;; 0: a message
            (throw $error (call $error (call $text (i32.const 97) (i32.const 3) (ref.null $text)))))
            ;; 1: one of three parts, of which the second has nothing
            (throw $error (call $error (call $text (i32.const 103) (i32.const 2)
                (struct.new $text (call $text (i32.const 97) (i32.const 3) (ref.null $text)) (i32.const 0) (ref.null $units))))))
            ;; 2: none
            (throw $error (call $error (ref.null $text))))
            ;; 3: nothing at all
            (throw $error (ref.null $error)))
            ;; 4: a number
            (throw $number (i32.const 7)))
            ;; 5: the second of two payloads, of a subtype
            (throw $two (ref.i31 (i32.const 5)) (struct.new $special (ref.null $other) (ref.null any)
                (ref.null $text) (ref.null $error) (call $text (i32.const 0xe4) (i32.const 1) (ref.null $text)))))
            ;; 6: a very long one
            (throw $error (call $error (call $text (i32.const 97) (i32.const 100000) (ref.null $text)))))
            ;; 7: one without an end
            (throw $error (call $error (call $cycle))))
        ;; 8: a value of the host, or none
        (throw $foreign (ref.null extern)))
    (func $outer (export "run") (param $which i32) (call $fail (local.get $which)))
    (func $through (export "through") (param $which i32) (call $host (ref.func $outer) (local.get $which))))"#;

/// What is thrown by an export, in both formats of slots and with a collection at every allocation.
fn thrown(export: &str, which: i32) -> Thrown {
    let all: Vec<Thrown> = [References::Wide, References::Compressed]
        .into_iter()
        .map(|references| thrown_under(references, export, which))
        .collect();
    assert_eq!(all[0].text, all[1].text);
    assert_eq!(all[0].backtrace, all[1].backtrace);
    all.into_iter().next().unwrap()
}

fn thrown_under(references: References, export: &str, which: i32) -> Thrown {
    let heap = Heap::builder().limit(32 << 20).references(references);
    let heap = heap.options("stress=1,verify=edges,poison=on").unwrap();
    let mut engine = Engine::new(heap, true).unwrap();
    let functions = RefType {
        nullable: true,
        heap: HeapType::Func,
    };
    let signature = Signature {
        params: vec![ValType::Ref(functions), ValType::I32],
        results: Vec::new(),
    };
    // Calls what it is given.
    let call = |engine: &mut Engine, values: &[Value]| match values {
        [Value::Function(function), which] => engine.call(*function, std::slice::from_ref(which)),
        other => panic!("{other:?}"),
    };
    let host = engine.host_function(signature, call).unwrap();
    let module = engine.load(&assemble(MODULE)).unwrap();
    let instance = engine
        .instantiate(&module, &|_, _| Some(Extern::Function(host)))
        .unwrap();
    let Some(Extern::Function(function)) = engine.export(instance, export) else {
        panic!("{export} is exported");
    };
    match engine.call(function, &[Value::I32(which)]) {
        Err(Trap::Exception(thrown)) => thrown,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_text_of_an_exception_is_told() {
    let letters = ('a'..='z').cycle().take(2000).collect::<String>();
    let nothing = "a".repeat(1000);
    for (which, expected) in [
        (0, Some("abc")),
        (1, Some("abcgh")),
        (2, None),
        (3, None),
        (4, None),
        (5, Some("ä")),
        (6, Some(letters.as_str())),
        (7, Some(nothing.as_str())),
        (8, None),
    ] {
        assert_eq!(thrown("run", which).text.as_deref(), expected, "{which}");
    }
}

#[test]
fn the_functions_that_were_active_are_named() {
    let thrown = thrown("run", 0);
    assert_eq!(thrown.backtrace, ["fail", "outer"]);
    assert_eq!(
        Trap::Exception(thrown).to_string(),
        "an exception was not caught: abc\n    in fail\n    in outer"
    );
}

#[test]
fn an_exception_that_passes_a_host_function_keeps_its_text() {
    let thrown = thrown("through", 1);
    assert_eq!(thrown.text.as_deref(), Some("abcgh"));
    assert_eq!(thrown.backtrace, ["through"]);
}
