//! Modules that are refused, and what the message says.

use gleaner::Heap;
use gleaner_wasm::{Engine, InstantiateError, LoadError};

fn assemble(text: &str) -> Vec<u8> {
    let buffer = wast::parser::ParseBuffer::new(text).unwrap();
    wast::parser::parse::<wast::Wat<'_>>(&buffer)
        .unwrap()
        .encode()
        .unwrap()
}

fn engine() -> Engine {
    Engine::new(Heap::builder().limit(4 << 20), true).unwrap()
}

#[test]
fn a_proposal_that_the_engine_has_not_is_named() {
    for (text, name) in [
        (
            "(module (func (drop (v128.const i64x2 0 0))))",
            "fixed-width SIMD",
        ),
        ("(module (memory i64 1))", "memory64"),
        ("(module (memory 1 1 shared))", "threads"),
        (
            "(module (func try catch_all end))",
            "legacy exception handling",
        ),
    ] {
        match engine().load(&assemble(text)) {
            Err(LoadError::Unsupported { proposal, offset }) => {
                assert!(proposal.starts_with(name), "{text}: {proposal}");
                assert!(offset > 8, "{text}: {offset}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn vectors_are_refused_wherever_they_would_be_held_or_made() {
    let refused = [
        "(func (param v128))",
        "(func (result v128) unreachable)",
        r#"(func (import "host" "f") (param v128))"#,
        r#"(global (import "host" "g") v128)"#,
        "(global (mut v128) (v128.const i64x2 0 0))",
        "(type (array v128))",
        "(tag (param v128))",
        "(func (local v128))",
        "(func (block (result v128) unreachable) drop)",
        "(func unreachable (select (result v128)) drop)",
        "(func (drop (i8x16.splat (i32.const 0))))",
        "(type $s (struct (field v128))) (func (drop (i8x16.neg (struct.get $s 0 (ref.null $s)))))",
        "(type $s (struct (field v128))) (global (ref $s) (struct.new $s (v128.const i64x2 0 0)))",
    ];
    for text in refused {
        match engine().load(&assemble(&format!("(module {text})"))) {
            Err(LoadError::Unsupported { proposal, .. }) => {
                assert_eq!(proposal, "fixed-width SIMD", "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn a_truncated_module_is_refused_wherever_it_ends() {
    let whole = assemble(
        r#"(module (type $box (struct (field i32))) (global (ref $box) (struct.new $box (i32.const 1)))
            (func (export "run") (result i32) (i32.const 1)))"#,
    );
    let mut engine = engine();
    engine.load(&whole).unwrap();
    let mut refused = 0;
    for end in 0..whole.len() {
        refused += usize::from(engine.load(&whole[..end]).is_err());
    }
    // Some prefixes that end between sections are modules.
    assert!(refused > whole.len() - 8, "{refused} of {}", whole.len());
}

#[test]
fn all_missing_imports_are_named_at_once() {
    let mut engine = engine();
    let imports: String = (0..50)
        .map(|number| format!("(import \"host\" \"missing{number}\" (func))"))
        .collect();
    let module = engine
        .load(&assemble(&format!("(module {imports})")))
        .unwrap();
    match engine.instantiate(&module, &|_, _| None) {
        Err(InstantiateError::Link(lines)) => {
            assert_eq!(lines.len(), 50);
            assert_eq!(lines[49], "host.missing49 is missing");
        }
        other => panic!("{other:?}"),
    }
}
