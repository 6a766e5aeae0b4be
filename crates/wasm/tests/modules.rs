//! Programs that other compilers made, from Kotlin and OCaml: each prints what it prints elsewhere, while the heap collects at
//! every hundredth allocation. `tests/modules/README.md` says how they were made.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use gleaner::{Heap, References};
use gleaner_wasm::wasi::{self, RunError, Setup};
use gleaner_wasm::{Compilation, Compile, Engine, Settings, Trap};

const PRESSURE: &str = "stress=100,verify=edges,poison=on";

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("modules-{}", name.replace('/', "-")))
}

/// An empty file that is read and written.
fn file(path: &Path) -> File {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(true);
    options.open(path).unwrap()
}

fn committed(name: &str) -> PathBuf {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    modules.join(name)
}

/// Runs a module under pressure, with its standard output in a file: how it ended, what it printed, and how often the heap
/// was collected.
fn run(name: &str, references: References, setup: Setup) -> (Result<u32, RunError>, String, u64) {
    let (ended, text, collections, _) = run_compiled(name, references, Compile::Lazy, setup);
    (ended, text, collections)
}

/// As [`run`], with functions compiled when it is said; and what was compiled.
fn run_compiled(
    name: &str,
    references: References,
    compile: Compile,
    mut setup: Setup,
) -> (Result<u32, RunError>, String, u64, Compilation) {
    let heap = Heap::builder().limit(32 << 20).references(references);
    let settings = Settings {
        checks: true,
        compile,
        ..Settings::default()
    };
    let mut engine = Engine::with_settings(heap.options(PRESSURE).unwrap(), settings).unwrap();
    let bytes = fs::read(committed(&format!("{name}.wasm"))).unwrap();
    let module = engine.load(&bytes).unwrap();
    let path = scratch(&format!("{name}-{references:?}.out"));
    let mut output = file(&path);
    setup.stream(1, output.try_clone().unwrap().into());
    let ended = wasi::run(&mut engine, &module, setup);
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    let collections = engine.totals().full_collections;
    (ended, text, collections, engine.compilation())
}

fn expected(name: &str) -> String {
    fs::read_to_string(committed(&format!("{name}.expected"))).unwrap()
}

/// The program prints what is expected, with as many collections at least, and ends well.
fn check(name: &str, references: References, collections: u64) {
    let mut setup = Setup::new().unwrap();
    setup.argument(name).unwrap();
    let (ended, printed, collected) = run(name, references, setup);
    assert_eq!(printed, expected(name));
    assert!(matches!(ended, Ok(0)), "{ended:?}");
    assert!(collected >= collections, "{collected} collections");
}

#[test]
fn kotlin_hello_has_types_with_vectors() {
    check("kotlin/hello", References::Compressed, 0);
}

#[test]
fn a_program_compiles_what_it_calls() {
    for (name, most) in [("kotlin/hello", 50), ("kotlin/text", 80)] {
        let setup = Setup::new().unwrap();
        let (ended, printed, _, lazy) =
            run_compiled(name, References::Compressed, Compile::Lazy, setup);
        assert_eq!(printed, expected(name));
        assert!(matches!(ended, Ok(0)), "{ended:?}");
        let percent = 100 * lazy.compiled / lazy.functions;
        assert!((1..most).contains(&percent), "{name}: {lazy:?}");
    }
}

#[test]
fn a_program_whose_functions_were_all_compiled_before() {
    for name in ["kotlin/trees", "ocaml/exceptions"] {
        let setup = Setup::new().unwrap();
        let (ended, printed, _, eager) =
            run_compiled(name, References::Compressed, Compile::Eager, setup);
        assert_eq!(printed, expected(name));
        assert!(matches!(ended, Ok(0)), "{ended:?}");
        assert_eq!(eager.compiled, eager.functions);
    }
}

#[test]
fn kotlin_text() {
    check("kotlin/text", References::Wide, 10);
}

#[test]
fn kotlin_exceptions() {
    check("kotlin/exceptions", References::Compressed, 20);
}

#[test]
fn kotlin_trees() {
    check("kotlin/trees", References::Compressed, 50);
    check("kotlin/trees", References::Wide, 50);
}

#[test]
fn kotlin_interpreter() {
    check("kotlin/interpreter", References::Compressed, 100);
}

#[test]
fn an_exception_that_a_kotlin_program_does_not_catch() {
    let (ended, printed, _) = run(
        "kotlin/uncaught",
        References::Compressed,
        Setup::new().unwrap(),
    );
    assert_eq!(printed, expected("kotlin/uncaught"));
    assert!(
        matches!(ended, Err(RunError::Trap(Trap::Exception(_)))),
        "{ended:?}"
    );
}

#[test]
fn ocaml_text() {
    check("ocaml/text", References::Compressed, 10);
}

#[test]
fn ocaml_exceptions_and_tail_calls() {
    check("ocaml/exceptions", References::Wide, 10);
}

#[test]
fn ocaml_trees() {
    check("ocaml/trees", References::Compressed, 50);
    check("ocaml/trees", References::Wide, 50);
}

#[test]
fn ocaml_interpreter() {
    check("ocaml/interpreter", References::Compressed, 50);
}

#[test]
fn an_exception_that_an_ocaml_program_does_not_catch_has_a_status() {
    let mut errors = file(&scratch("errors"));
    let mut setup = Setup::new().unwrap();
    setup.stream(2, errors.try_clone().unwrap().into());
    let (ended, printed, _) = run("ocaml/uncaught", References::Compressed, setup);
    assert_eq!(printed, expected("ocaml/uncaught"));
    assert!(matches!(ended, Ok(2)), "{ended:?}");
    let mut said = String::new();
    errors.rewind().unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert!(
        said.contains("exception Uncaught.Unexpected(\"nothing catches this\", 7)"),
        "{said}"
    );
}

/// Runs a program with an empty directory `/d`, standard input from a file, and `/d` as its argument. It leaves the directory
/// empty.
fn check_with_directory(name: &str, status: u32) {
    let root = scratch(&format!("{name}-directory"));
    let _ = fs::remove_dir_all(&root);
    fs::create_dir(&root).unwrap();
    let mut input = file(&scratch(&format!("{name}-input")));
    input.write_all(b"one\ntwo\nthree").unwrap();
    input.rewind().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.argument(name).unwrap();
    setup.argument("/d").unwrap();
    setup.directory(&root, "/d").unwrap();
    setup.stream(0, input.into());
    let (ended, printed, _) = run(name, References::Compressed, setup);
    assert_eq!(printed, expected(name));
    assert!(matches!(ended, Ok(number) if number == status), "{ended:?}");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn ocaml_files_below_a_directory() {
    check_with_directory("ocaml/files", 3);
}

#[test]
fn ocaml_links_and_times() {
    check_with_directory("ocaml/system", 0);
}
