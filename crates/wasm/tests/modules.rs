//! Programs that other compilers made, from Kotlin and OCaml: each prints what it prints elsewhere, while the heap collects at
//! every hundredth allocation. `tests/modules/README.md` says how they were made.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use gleaner::{Heap, References};
use gleaner_wasm::wasi::{self, RunError, Setup};
use gleaner_wasm::{Compilation, Compile, Engine, Settings, Trap};
use gleaner_workloads::{Facts, Mutators, Scale};

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
    let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
    match name.strip_prefix("rivals/") {
        // Programs to measure with: little of each runs here.
        Some(name) => crate_root.join("../../rivals/wasm/programs").join(name),
        None => crate_root.join("tests/modules").join(name),
    }
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
fn kotlin_coroutines() {
    check("kotlin/coroutines", References::Compressed, 20);
}

#[test]
fn kotlin_arrays() {
    check("kotlin/arrays", References::Compressed, 20);
    check("kotlin/arrays", References::Wide, 20);
}

#[test]
fn an_exception_that_a_kotlin_program_does_not_catch() {
    for references in [References::Compressed, References::Wide] {
        let (ended, printed, _) = run("kotlin/uncaught", references, Setup::new().unwrap());
        assert_eq!(printed, expected("kotlin/uncaught"));
        let Err(RunError::Trap(Trap::Exception(thrown))) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(thrown.text.as_deref(), Some("nothing catches this"));
        assert!(!thrown.backtrace.is_empty(), "no function is named");
    }
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
fn ocaml_json() {
    check("ocaml/json", References::Wide, 50);
}

#[test]
fn ocaml_coroutines() {
    check("ocaml/coroutines", References::Compressed, 20);
}

#[test]
fn ocaml_arrays() {
    check("ocaml/arrays", References::Compressed, 20);
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

#[test]
fn programs_that_are_measured_print_what_they_print_elsewhere() {
    for (name, expected) in [
        (
            "kotlin/json",
            "turn 1: 2444 characters, hash 1059805491\nturn 2: 2451 characters, hash -107505513\n",
        ),
        (
            "kotlin/sorting",
            "25 names from name0 to name9, hashes 654022094 and 150422806\n",
        ),
        (
            "kotlin/graph",
            "188 reached, farthest 3041; 23 components, the largest of 178\n",
        ),
        (
            "kotlin/richards",
            "2 turns, each with 23246 packets and 9297 holds\n",
        ),
        (
            "ocaml/compiler",
            "5912 characters, 1330 instructions, hash -232015\n",
        ),
        (
            "ocaml/maps",
            "41 keys; versions have 462\n100 words, hash 299913\n79 keys, sum 5030\n",
        ),
        (
            "ocaml/lists",
            "10 boards of 5\n24 orders, hash 722602\n119 characters, from 4321\n",
        ),
    ] {
        let mut setup = Setup::new().unwrap();
        setup.argument(name).unwrap();
        setup.argument("--tiny").unwrap();
        let name = format!("rivals/{name}");
        let (ended, printed, collected) = run(&name, References::Compressed, setup);
        assert_eq!(printed, expected, "{name}");
        assert!(matches!(ended, Ok(0)), "{name}: {ended:?}");
        // The scheduler allocates little.
        assert!(collected >= 1, "{name}: {collected} collections");
    }
}

/// What a workload of `gleaner-bench native` comes to, little of it.
fn native_result(name: &str, input: &Path) -> u64 {
    let scale = Scale {
        tiny: true,
        wasteful: false,
        input: Some(input.to_path_buf()),
        working_set: 0,
        seed: 1,
        transactions: None,
        any_arrays: false,
    };
    let heap = Heap::builder().limit(32 << 20).build().unwrap();
    let workload = gleaner_workloads::find(name).unwrap();
    let prepared = workload.prepare(&heap, &scale).unwrap();
    let mut mutator = heap.attach().unwrap();
    let facts = &mut Facts::new();
    let result = prepared.run(&mut mutator, &Mutators::new(1), facts);
    result.unwrap()
}

#[test]
fn workloads_come_to_what_they_come_to_without_webassembly() {
    let document = committed("document.xml");
    for name in ["gcbench", "queue", "refarray", "quads", "xml"] {
        let expected = format!("{}\n", native_result(name, &document));
        for language in ["kotlin", "ocaml"] {
            let mut setup = Setup::new().unwrap();
            for word in ["workloads", name, "--tiny"] {
                setup.argument(word).unwrap();
            }
            setup.stream(0, File::open(&document).unwrap().into());
            let module = format!("{language}/workloads");
            let (ended, printed, collected) = run(&module, References::Compressed, setup);
            assert_eq!(printed, expected, "{module} {name}");
            assert!(matches!(ended, Ok(0)), "{module} {name}: {ended:?}");
            assert!(collected >= 20, "{module} {name}: {collected} collections");
        }
    }
}
