//! `gleaner run`: programs in WebAssembly, what they get, and how they end.

#[allow(dead_code)]
mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use support::*;

const EXIT: &str = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;
const WRITE: &str = r#"(import "wasi_snapshot_preview1" "fd_write"
    (func $write (param i32 i32 i32 i32) (result i32)))"#;

/// A module from its text, in a file of its own.
fn module(name: &str, text: &str) -> PathBuf {
    let buffer = wast::parser::ParseBuffer::new(text).unwrap();
    let bytes = wast::parser::parse::<wast::Wat<'_>>(&buffer)
        .unwrap()
        .encode()
        .unwrap();
    file(&format!("{name}.wasm"), &bytes)
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{name}"));
    fs::write(&path, bytes).unwrap();
    path
}

fn run_module(options: &[&str], module: &PathBuf, arguments: &[&str]) -> Output {
    command(options, module, arguments).output().unwrap()
}

fn command(options: &[&str], module: &PathBuf, arguments: &[&str]) -> Command {
    let mut command = gleaner();
    command.arg("run").args(options).arg(module).args(arguments);
    command
}

/// Writes its arguments from the second on, its environment and the name of its directory, each with a zero byte or line
/// behind it, as one write to standard output; the status is the error number.
const TELL: &str = r#"
    (import "wasi_snapshot_preview1" "args_get" (func $args_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $dir_name (param i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start")
        (drop (call $args_sizes (i32.const 0) (i32.const 104)))
        (drop (call $args_get (i32.const 1000) (i32.const 2000)))
        ;; Without the first, which is the module's path.
        (i32.store (i32.const 100) (i32.load (i32.const 1004)))
        (i32.store (i32.const 104) (i32.sub (i32.load (i32.const 104))
            (i32.sub (i32.load (i32.const 1004)) (i32.load (i32.const 1000)))))
        (drop (call $environ_sizes (i32.const 0) (i32.const 112)))
        (drop (call $environ_get (i32.const 1000) (i32.const 4000)))
        (i32.store (i32.const 108) (i32.const 4000))
        (drop (call $prestat (i32.const 3) (i32.const 200)))
        (drop (call $dir_name (i32.const 3) (i32.const 5000) (i32.load (i32.const 204))))
        (i32.store (i32.const 116) (i32.const 5000))
        (i32.store (i32.const 120) (i32.load (i32.const 204)))
        (call $exit (call $write (i32.const 1) (i32.const 100) (i32.const 3) (i32.const 300))))"#;

#[test]
fn the_program_gets_arguments_variables_and_directories() {
    let tell = module("tell", &format!("(module {EXIT} {WRITE} {TELL})"));
    let directory = format!("{}::/data", env!("CARGO_TARGET_TMPDIR"));
    let options = ["--dir", &directory, "--env", "A=1", "--env", "B=x=y"];
    let output = run_module(&options, &tell, &["--stats", "two words"]);
    assert_eq!(
        assert_succeeds(&output),
        "--stats\0two words\0A=1\0B=x=y\0/data"
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn the_status_is_that_of_the_program() {
    for (status, seen) in [(0, 0), (3, 3), (134, 134), (259, 3)] {
        let text = format!(
            r#"(module {EXIT} (func (export "_start") (call $exit (i32.const {status}))))"#
        );
        let output = run_module(&[], &module(&format!("exit{status}"), &text), &[]);
        assert_eq!(output.status.code(), Some(seen));
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn a_memory_takes_what_addresses_the_process_may_have() {
    let limited = |module: &PathBuf| {
        let script = r#"ulimit -v 2500000; exec "$@""#;
        let run = command(&["--opt", "heap-limit=16m"], module, &[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(run.get_program());
        shell.args(run.get_args()).output().unwrap()
    };
    // It may have 4 GiB, grows as far as it can, and can be used to its end.
    let text = r#"(module (memory (export "memory") 1) (func (export "_start")
        (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1))))
        (if (i32.lt_u (memory.size) (i32.const 4096)) (then unreachable))
        (if (i32.eq (memory.size) (i32.const 65536)) (then unreachable))
        (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (i32.const 1))))"#;
    let output = limited(&module("few-addresses", text));
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
    let text = r#"(module (memory 65000) (func (export "_start")))"#;
    let output = limited(&module("too-few-addresses", text));
    assert_eq!(output.status.code(), Some(125));
    let said = stderr(&output);
    assert!(
        said.contains("a memory of 65000 pages") && said.contains("ulimit -v"),
        "{said}"
    );
}

#[test]
fn a_trap_has_a_status_and_a_backtrace_of_names() {
    let text =
        r#"(module (func $inner (unreachable)) (func $main (export "_start") (call $inner)))"#;
    let output = run_module(&[], &module("trap", text), &[]);
    assert_eq!(output.status.code(), Some(134));
    let said = stderr(&output);
    assert!(said.contains("trap: unreachable (at offset 0x"), "{said}");
    assert!(said.ends_with("\n    in inner\n    in main\n"), "{said}");
    let deep =
        r#"(module (func $down (call $down) (call $down)) (func (export "_start") (call $down)))"#;
    let output = run_module(&[], &module("deep", deep), &[]);
    assert_eq!(output.status.code(), Some(134));
    // Where the instructions of the function begin, and not of the file.
    let said = stderr(&output);
    let place = said
        .split("trap: call stack exhausted (at offset 0x")
        .nth(1);
    let place = place.unwrap_or_else(|| panic!("{said}"));
    assert!(!place.starts_with("0)"), "{said}");
    let thrown = r#"(module (tag $t) (func (export "_start") (throw $t)))"#;
    let output = run_module(&[], &module("thrown", thrown), &[]);
    assert_eq!(output.status.code(), Some(134));
    let said = stderr(&output);
    assert!(
        said.ends_with(": an exception was not caught\n    in function 0\n"),
        "{said}"
    );
}

#[test]
fn the_heap_has_the_options_and_says_what_it_took() {
    // A list of a thousand nodes that lives, and a million that do not.
    let text = r#"(module (type $node (struct (field (ref null $node))))
        (global $list (mut (ref null $node)) (ref.null $node))
        (func (export "_start") (local $i i32)
            (loop $more
                (if (i32.lt_u (local.get $i) (i32.const 1000))
                    (then (global.set $list (struct.new $node (global.get $list))))
                    (else (drop (struct.new $node (ref.null $node)))))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $i) (i32.const 1000000))))))"#;
    let lists = module("lists", text);
    let output = run_module(&["--stats", "--opt", "heap-limit=4m"], &lists, &[]);
    assert_succeeds(&output);
    let said = stderr(&output);
    for part in [
        "gleaner: loaded the module in ",
        ", compiled 1 of 1 functions in ",
        "gleaner: ran for ",
        ", of which collections took ",
        " full collections; the longest stop was ",
        "gleaner: peak memory ",
    ] {
        assert!(said.contains(part), "no '{part}' in {said}");
    }
    assert!(!said.contains(" 0 young"), "{said}");
    let options = ["--stats", "--opt", "heap-limit=4m,verify=edges"];
    let checked = stderr(&run_module(&options, &lists, &[]));
    assert!(
        checked.contains(", compiled 1 of 1 functions with checks in "),
        "{checked}"
    );
    let limited = r#"(module (type $node (struct (field (ref null $node))))
        (func $grow (export "_start") (local $list (ref null $node))
            (loop $more (local.set $list (struct.new $node (local.get $list))) (br $more))))"#;
    let output = run_module(&["--opt", "heap-limit=4m"], &module("full", limited), &[]);
    assert_eq!(output.status.code(), Some(134));
    assert!(stderr(&output).contains("trap: out of memory"));
}

#[test]
fn what_is_not_called_is_compiled_if_that_is_asked_for() {
    let never = "(func (unreachable))".repeat(99);
    let text = format!(r#"(module {never} (func (export "_start")))"#);
    let mostly_idle = module("idle", &text);
    for (options, expected) in [
        (&["--stats"][..], "compiled 1 of 100 functions in "),
        (
            &["--stats", "--compile=lazy"],
            "compiled 1 of 100 functions in ",
        ),
        (
            &["--stats", "--compile", "eager"],
            "compiled 100 of 100 functions in ",
        ),
    ] {
        let output = run_module(options, &mostly_idle, &[]);
        assert_succeeds(&output);
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    let output = run_module(&["--compile", "never"], &mostly_idle, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("[possible values: lazy, eager]"));
}

#[test]
fn options_of_the_environment_are_followed_and_overridden() {
    let text = r#"(module (func (export "_start")))"#;
    let nothing = module("nothing", text);
    let with = |list: &str, options: &[&str]| {
        command(options, &nothing, &[])
            .env("GLEANER_OPTIONS", list)
            .output()
            .unwrap()
    };
    // For heaps of libgc alone: of no effect here.
    assert_succeeds(&with(
        "sweep=eager,heap-limit=8m",
        &["--opt", "heap-limit=16m"],
    ));
    let output = with("heap-limit=none-at-all", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("in GLEANER_OPTIONS: "));
    assert_eq!(
        run_module(&["--opt", "heap-limt=1g"], &nothing, &[])
            .status
            .code(),
        Some(2)
    );
    assert_eq!(
        run_module(&["--opt", "sweep=eager"], &nothing, &[])
            .status
            .code(),
        Some(2)
    );
}

#[test]
fn what_the_command_line_has_wrong_is_named() {
    let text = r#"(module (func (export "_start")))"#;
    let nothing = module("wrong-words", text);
    for (options, named) in [
        (
            ["--dir", "/no/such/directory"],
            "--dir /no/such/directory: ",
        ),
        (
            ["--dir", "::/data"],
            "--dir ::/data: write HOST, or HOST::GUEST",
        ),
        (["--env", "NAME"], "--env NAME: write NAME=VALUE"),
        (["--env", "=x"], "--env =x: write NAME=VALUE"),
    ] {
        let output = run_module(&options, &nothing, &[]);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason() {
    let missing = run(&["run", "/no/such/module.wasm"]);
    assert_eq!(missing.status.code(), Some(127));
    assert_eq!(
        stderr(&missing),
        "gleaner: /no/such/module.wasm: there is no such file\n"
    );
    let imports: String = (0..50)
        .map(|number| format!("(import \"env\" \"missing{number}\" (func))"))
        .collect();
    let imports = module(
        "imports",
        &format!("(module {imports} (func (export \"_start\")))"),
    );
    let library = module("library", r#"(module (func (export "other")))"#);
    let vectors = module("vectors", "(module (func (drop (v128.const i64x2 0 0))))");
    let parameter = module(
        "parameter",
        r#"(module (func (export "_start") (param i32)))"#,
    );
    let blind = r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (func (export "_start") (drop (call $yield))))"#;
    let blind = module("blind", blind);
    for (path, named) in [
        (
            &parameter,
            "_start is a function (i32) -> (), where a program has a function () -> ()",
        ),
        (&blind, "exports no memory by the name 'memory'"),
        (&imports, "env.missing0 is missing"),
        (
            &imports,
            "env.missing49 is missing; programs get WASI preview 1 alone (wasi_snapshot_preview1): compile for that\n",
        ),
        (&library, "exports neither _start nor _initialize"),
        (&vectors, "fixed-width SIMD"),
        (
            &file("component.wasm", b"\0asm\x0d\0\x01\0"),
            "it is a component (WASI 0.2)",
        ),
        (
            &file("text.wasm", b"(module)"),
            "not a valid WebAssembly module: it does not begin with 00 61 73 6d, as the binary form does (at offset 0x0); \
             compile it anew, or copy it whole\n",
        ),
        (&file("empty.wasm", b""), "not a valid WebAssembly module"),
    ] {
        let output = run_module(&[], path, &[]);
        assert_eq!(output.status.code(), Some(125), "{}", path.display());
        assert!(stderr(&output).contains(named), "{}", stderr(&output));
        assert!(stderr(&output).contains(path.to_str().unwrap()));
    }
}

#[test]
fn the_program_is_told_of_a_closed_pipe_and_a_full_disk() {
    let text = format!(
        r#"(module {EXIT} {WRITE} (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\06\00\00\00")
            (data (i32.const 16) "hello\0a")
            (func (export "_start") (call $exit (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    let hello = module("hello", &text);
    assert_eq!(assert_succeeds(&run_module(&[], &hello, &[])), "hello\n");
    let full = File::options().write(true).open("/dev/full").unwrap();
    let status = command(&[], &hello, &[]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(51));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command(&[], &hello, &[]).stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(64));
}

#[test]
fn standard_input_is_read() {
    let text = format!(
        r#"(module {EXIT} {WRITE}
            (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\64\00\00\00")
            (func (export "_start")
                (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 4)))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    let mut child = command(&[], &module("copy", &text), &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"copied\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(assert_succeeds(&output), "copied\n");
}
