//! Modules that are refused, and what the message says.

mod assembly;

use gleaner::Heap;
use gleaner_wasm::{Engine, InstantiateError, LoadError};

use assembly::assemble;

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

#[test]
fn an_import_of_another_type_is_told_in_words() {
    let mut engine = engine();
    let host = r#"(module (func (export "f") (param i32 f64) (result i64) unreachable) (memory (export "m") 2)
        (table (export "t") 3 7 funcref) (global (export "g") (mut externref) (ref.null extern)) (tag (export "e") (param i31ref)))"#;
    let host = engine.load(&assemble(host)).unwrap();
    let host = engine.instantiate(&host, &|_, _| None).unwrap();
    let exports = engine.exports(host);
    for (import, found, wanted) in [
        (
            "f\" (func (result (ref any)))",
            "a function (i32 f64) -> (i64)",
            "a function () -> ((ref any))",
        ),
        (
            "m\" (func)",
            "a memory of at least 2 pages",
            "a function () -> ()",
        ),
        (
            "m\" (memory 3 4)",
            "a memory of at least 2 pages",
            "a memory of 3 to 4 pages",
        ),
        (
            "t\" (table 4 funcref)",
            "a table of 3 to 7 elements, (ref null func)",
            "a table of at least 4 elements, (ref null func)",
        ),
        (
            "g\" (global i32)",
            "a global that changes, (ref null extern)",
            "a constant global, i32",
        ),
        (
            "e\" (tag (param f32))",
            "a tag with ((ref null i31))",
            "a tag with (f32)",
        ),
        // A type whose functions take and give functions of that type.
        (
            "f\" (func (type $r))",
            "a function (i32 f64) -> (i64)",
            "a function ((ref null a function type of the module)) -> ((ref a function type of the module))",
        ),
    ] {
        let types = "(type $r (func (param (ref null $r)) (result (ref $r))))";
        let text = format!("(module {types} (import \"host\" \"{import}))");
        let module = engine.load(&assemble(&text)).unwrap();
        let resolve = |_: &str, name: &str| {
            let mut exports = exports.iter();
            exports
                .find(|(known, _)| known == name)
                .map(|(_, item)| *item)
        };
        let error = engine.instantiate(&module, &resolve).unwrap_err();
        let name = &import[..1];
        assert_eq!(
            error.to_string(),
            format!("imports do not fit: host.{name} is {found}, where the module wants {wanted}")
        );
    }
}

#[test]
fn what_exceeds_a_limit_is_told_with_the_limit() {
    // One function that does nothing, eight million times.
    let mut body = vec![1; 8_000_000];
    body[0] = 0;
    body.extend([0x0b]);
    // A length in four bytes of seven bits each.
    let length = |of: usize| {
        [0, 7, 14, 21].map(|shift| (of >> shift) as u8 & 0x7f | if shift < 21 { 0x80 } else { 0 })
    };
    let mut bytes = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x0a".to_vec();
    bytes.extend(length(body.len() + 5));
    bytes.push(1);
    bytes.extend(length(body.len()));
    bytes.extend(body);
    let error = engine().load(&bytes).unwrap_err();
    assert!(matches!(error, LoadError::TooLarge(_)), "{error}");
    assert!(
        error
            .to_string()
            .contains("exceeds limit of 7654321 (at offset "),
        "{error}"
    );
    let mut engine = engine();
    let table = engine
        .load(&assemble("(module (table 10000001 funcref))"))
        .unwrap();
    let error = engine.instantiate(&table, &|_, _| None).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("10000000 is the most that this engine's tables have"),
        "{error}"
    );
}
