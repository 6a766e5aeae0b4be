//! The CLIF that some functions become: where the barrier is and where not, and what is tested of references.

use std::sync::Arc;

use cranelift_codegen::ir::instructions::InstructionData;
use cranelift_codegen::ir::{Function, Opcode, ValueDef, types};
use cranelift_frontend::FunctionBuilderContext;
use gleaner::{Heap, References};

use crate::decode;
use crate::state::Engine;
use crate::translate;

/// What all functions here can name.
const TYPES: &str = r#"
    (type $box (struct (field i32)))
    (type $pair (struct (field $one (mut (ref null $box))) (field $any (mut anyref))))
    (type $boxes (array (mut (ref null $box))))
    (type $final (sub final (struct (field i32))))
    (type $plain (func))
    (tag $tag)
    (func $other)"#;

/// The CLIF of a function whose parameters and body these are.
fn clif(references: References, text: &str) -> Function {
    let text = format!("(module {TYPES} (func $tested {text}))");
    let buffer = wast::parser::ParseBuffer::new(&text).unwrap();
    let module = wast::parser::parse::<wast::Wat<'_>>(&buffer)
        .unwrap()
        .encode();
    let bytes = module.unwrap();
    let heap = Heap::builder().limit(4 << 20).references(references);
    let mut engine = Engine::new(heap, true).unwrap();
    let state = engine.state();
    let declarations = decode::decode(&bytes, &mut |group| state.intern(group)).unwrap();
    state.exception_type(declarations.tags[0]).unwrap();
    let declarations = Arc::new(declarations);
    let range = declarations.bodies[1].clone();
    let start = range.start;
    let (_, environment) = state.compiler_of(&declarations);
    let mut into = Function::new();
    let mut scratch = FunctionBuilderContext::new();
    let body = (&bytes[range], start);
    translate::function(&environment, 1, body, &mut into, &mut scratch).unwrap();
    into
}

fn count(function: &Function, is_counted: impl Fn(&Function, &InstructionData) -> bool) -> usize {
    let blocks = function.layout.blocks();
    let instructions = blocks.flat_map(|block| function.layout.block_insts(block));
    instructions
        .filter(|&inst| is_counted(function, &function.dfg.insts[inst]))
        .count()
}

/// How many cards a function dirties: nothing else stores a value of 8 bits.
fn barriers(text: &str) -> usize {
    let counts = [References::Wide, References::Compressed].map(|references| {
        count(&clif(references, text), |function, data| {
            matches!(*data, InstructionData::Store { opcode: Opcode::Store, args, .. }
                if function.dfg.value_type(args[0]) == types::I8)
        })
    });
    assert_eq!(counts[0], counts[1], "{text}");
    counts[0]
}

/// How often a function looks for the mark of an integer in a wide reference.
fn integer_tests(text: &str) -> usize {
    count(&clif(References::Wide, text), |_, data| {
        data.opcode() == Opcode::Band
    })
}

#[test]
fn a_store_into_what_may_be_old_has_a_barrier() {
    for text in [
        "(param (ref $pair) (ref null $box)) (struct.set $pair $one (local.get 0) (local.get 1))",
        "(param (ref $pair) anyref) (struct.set $pair $any (local.get 0) (local.get 1))",
        "(param (ref $pair) eqref) (struct.set $pair $any (local.get 0) (local.get 1))",
        "(param (ref $boxes) (ref null $box)) (array.set $boxes (local.get 0) (i32.const 0) (local.get 1))",
        // Either of two values, one of which is null.
        "(param (ref $pair) (ref null $box) i32) (struct.set $pair $one (local.get 0)
            (select (result (ref null $box)) (local.get 1) (ref.null $box) (local.get 2)))",
    ] {
        assert_eq!(barriers(text), 1, "{text}");
    }
}

#[test]
fn a_store_of_null_or_an_integer_has_none() {
    for text in [
        "(param (ref $pair)) (struct.set $pair $one (local.get 0) (ref.null $box))",
        "(param (ref $pair)) (struct.set $pair $any (local.get 0) (ref.null none))",
        "(param (ref $boxes)) (array.set $boxes (local.get 0) (i32.const 0) (ref.null $box))",
        "(param (ref $pair)) (local $null (ref null $box)) (struct.set $pair $one (local.get 0) (local.get $null))",
        "(param (ref $pair)) (struct.set $pair $any (local.get 0) (ref.i31 (i32.const 7)))",
        "(param (ref $pair) i31ref) (struct.set $pair $any (local.get 0) (local.get 1))",
        "(param (ref $pair) nullref) (struct.set $pair $one (local.get 0) (local.get 1))",
    ] {
        assert_eq!(barriers(text), 0, "{text}");
    }
}

#[test]
fn a_store_into_an_object_that_no_collection_saw_has_none() {
    for text in [
        "(param (ref $box)) (struct.set $pair $one (struct.new_default $pair) (local.get 0))",
        // A constructor: the fields are written one by one, and other things are done between.
        "(param (ref $box) i32) (result (ref $pair)) (local $new (ref $pair))
            (local.set $new (struct.new_default $pair))
            (struct.set $pair $one (local.get $new) (local.get 0))
            (if (local.get 1) (then (struct.set $pair $any (local.get $new) (local.get 0))))
            (local.get $new)",
        "(param (ref $box) i32) (local $new (ref $pair))
            (local.set $new (struct.new_default $pair))
            (if (local.get 1)
                (then (struct.set $pair $any (local.get $new) (local.get 0)))
                (else (struct.set $pair $one (local.get $new) (local.get 0))))
            (block $out (br_if $out (local.get 1)) (struct.set $pair $any (local.get $new) (local.get 0)))
            (struct.set $pair $one (local.get $new) (local.get 0))",
        "(param (ref $box)) (local $new (ref $pair))
            (local.set $new (struct.new $pair (local.get 0) (ref.null any)))
            (struct.set $pair $any (local.get $new) (ref.cast (ref $box) (struct.get $pair $any (local.get $new))))",
        "(param (ref $box)) (array.set $boxes (array.new_default $boxes (i32.const 4)) (i32.const 0) (local.get 0))",
        "(param (ref $box)) (array.set $boxes (array.new_fixed $boxes 1 (local.get 0)) (i32.const 0) (local.get 0))",
    ] {
        assert_eq!(barriers(text), 0, "{text}");
    }
}

#[test]
fn a_store_behind_what_may_collect_has_a_barrier() {
    let new = "(local $new (ref $pair)) (local.set $new (struct.new_default $pair))";
    let store = "(struct.set $pair $one (local.get $new) (local.get 0))";
    for between in [
        "(call $other)",
        "(drop (struct.new $box (i32.const 1)))",
        "(drop (array.new_default $boxes (i32.const 2)))",
        "(if (local.get 1) (then (call $other)))",
        "(if (local.get 1) (then (call $other)) (else))",
        "(if (local.get 1) (then) (else (call $other)))",
        "(block $out (br_if $out (local.get 1)) (call $other))",
        "(block $out (try_table (catch $tag $out) (call $other)))",
        "(block $out (try_table (catch $tag $out) (throw $tag)))",
    ] {
        let text = format!("(param (ref $box) i32) {new} {between} {store}");
        assert_eq!(barriers(&text), 1, "{between}");
    }
    // The loop comes back here with an older object.
    let text = format!(
        "(param (ref $box) i32) {new} (loop $more {store} (call $other) (br_if $more (local.get 1)))"
    );
    assert_eq!(barriers(&text), 1, "{text}");
    // The first branch of an if has called, and the second has not: nobody keeps the two apart.
    let text = format!(
        "(param (ref $box) i32) {new} (if (local.get 1) (then {store} (call $other) {store}) (else {store}))"
    );
    assert_eq!(barriers(&text), 2, "{text}");
    // The object that is new is another one.
    let text = format!(
        "(param (ref $box) (ref $pair)) {new} (struct.set $pair $one (local.get 1) (local.get 0))"
    );
    assert_eq!(barriers(&text), 1, "{text}");
}

#[test]
fn a_cast_looks_for_integers_where_there_may_be_some() {
    for ty in ["anyref", "eqref", "(ref any)", "(ref null eq)"] {
        for test in [
            "(drop (ref.test (ref $final) (local.get 0)))",
            "(drop (ref.test (ref null $box) (local.get 0)))",
            "(drop (ref.cast (ref struct) (local.get 0)))",
            "(block $is (result (ref $box)) (drop (br_on_cast $is anyref (ref $box) (local.get 0))) (unreachable)) (drop)",
        ] {
            let text = format!("(param {ty}) {test}");
            assert_eq!(integer_tests(&text), 1, "{text}");
        }
    }
    for ty in [
        "structref",
        "arrayref",
        "(ref struct)",
        "(ref null $pair)",
        "(ref $boxes)",
        "nullref",
    ] {
        for test in [
            "(drop (ref.test (ref $final) (local.get 0)))",
            "(drop (ref.test (ref null $box) (local.get 0)))",
            "(drop (ref.cast (ref eq) (local.get 0)))",
            "(block $is (result eqref) (drop (br_on_cast_fail $is eqref (ref $box) (local.get 0))) (unreachable)) (drop)",
        ] {
            let text = format!("(param {ty}) {test}");
            assert_eq!(integer_tests(&text), 0, "{text}");
        }
    }
    // What a cast on one way has found does not hold on another one.
    let text = "(param anyref) (result i32)
        (block $not (result anyref)
            (br_on_cast_fail $not anyref (ref $pair) (local.get 0))
            (return (ref.test (ref $box))))
        (ref.test (ref $box))";
    assert_eq!(integer_tests(text), 2, "{text}");
}

/// How often a function compares something with zero, with wide references.
fn null_tests(text: &str) -> usize {
    count(
        &clif(References::Wide, text),
        |function, data| match *data {
            InstructionData::IntCompare {
                opcode: Opcode::Icmp,
                args,
                ..
            } => {
                let ValueDef::Result(inst, _) = function.dfg.value_def(args[1]) else {
                    return false;
                };
                matches!(function.dfg.insts[inst], InstructionData::UnaryImm { imm, .. } if imm.bits() == 0)
            }
            _ => false,
        },
    )
}

#[test]
fn an_operand_is_compared_with_null_where_its_type_has_null() {
    for (ty, uses) in [
        ("$box", "(drop (struct.get $box 0 (local.get 0)))"),
        (
            "$pair",
            "(struct.set $pair $one (local.get 0) (ref.null $box))",
        ),
        ("$boxes", "(drop (array.len (local.get 0)))"),
        (
            "$boxes",
            "(drop (array.get $boxes (local.get 0) (i32.const 1)))",
        ),
        (
            "$boxes",
            "(array.set $boxes (local.get 0) (i32.const 1) (ref.null $box))",
        ),
        ("$plain", "(call_ref $plain (local.get 0))"),
        ("$plain", "(return_call_ref $plain (local.get 0))"),
        ("i31", "(drop (i31.get_u (local.get 0)))"),
        ("any", "(drop (ref.as_non_null (local.get 0)))"),
        ("exn", "(throw_ref (local.get 0))"),
        ("struct", "(drop (ref.test (ref $final) (local.get 0)))"),
        ("struct", "(drop (ref.cast (ref null $box) (local.get 0)))"),
        ("i31", "(drop (ref.test (ref any) (local.get 0)))"),
    ] {
        let with_null = format!("(param (ref null {ty})) {uses}");
        let without = format!("(param (ref {ty})) {uses}");
        assert_eq!(
            null_tests(&with_null) - null_tests(&without),
            1,
            "{with_null}"
        );
    }
    // The operand that counts is the object, not what lies above it.
    for text in [
        "(param (ref null $pair) (ref $box)) (struct.set $pair $one (local.get 0) (local.get 1))",
        "(param (ref null $boxes) (ref $box)) (array.set $boxes (local.get 0) (i32.const 1) (local.get 1))",
    ] {
        let text = text.to_string();
        let without = text.replacen("null ", "", 1);
        assert_eq!(null_tests(&text) - null_tests(&without), 1, "{text}");
    }
}
