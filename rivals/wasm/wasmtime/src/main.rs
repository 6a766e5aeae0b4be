//! Runs a WebAssembly module on wasmtime, as `gleaner run` does on Gleaner (docs/wasm.md):
//!
//! ```text
//! wasmtime [--heap MB] [--collector copying|drc|null] [--dir HOST[::GUEST]]... MODULE [ARGUMENT]...
//! wasmtime --outcomes
//! ```
//!
//! The second form says what random modules do (`outcomes.rs`).

mod outcomes;

use std::env;
use std::process::ExitCode;

use wasmtime::{
    Collector, Config, Engine, Error, Linker, Module, Store, StoreLimits, StoreLimitsBuilder,
    ThrownException,
};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder};

/// Bytes of stack for compiled code: the main thread has 8 MB in all.
const STACK: usize = 6 << 20;
/// Exit statuses, as `gleaner run` has them.
const TRAPPED: u8 = 134;
const REFUSED: u8 = 125;
const WRONG: u8 = 2;

/// What a store has of its host.
struct Host {
    wasi: WasiP1Ctx,
    limits: StoreLimits,
}

/// What the command line asks for.
struct Arguments {
    collector: Collector,
    /// The most bytes of the heap, and of a linear memory.
    heap: Option<usize>,
    /// Directories of the host and how the program calls them.
    directories: Vec<(String, String)>,
    /// The module's file, and the program's arguments.
    program: Vec<String>,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let (mut collector, mut heap, mut directories) = (Collector::Copying, None, Vec::new());
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                let program = [word].into_iter().chain(words).collect();
                return Ok(Arguments {
                    collector,
                    heap,
                    directories,
                    program,
                });
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{word}: it needs a value, and then a module"))?;
            match word.as_str() {
                "--heap" => heap = Some(megabytes(&value)?),
                "--collector" => collector = collector_of(&value)?,
                "--dir" => {
                    let (host, guest) = value.split_once("::").unwrap_or((&value, &value));
                    directories.push((host.to_string(), guest.to_string()));
                }
                _ => {
                    return Err(format!(
                        "no option {word}: there are --heap, --collector, --dir and --outcomes"
                    ));
                }
            }
        }
        Err("no module is named".into())
    }
}

fn megabytes(text: &str) -> Result<usize, String> {
    match text.parse::<u32>() {
        Ok(number @ 1..) => Ok(number as usize * 1024 * 1024),
        _ => Err(format!("--heap {text}: expected a number of MB from 1 on")),
    }
}

fn collector_of(text: &str) -> Result<Collector, String> {
    match text {
        "copying" => Ok(Collector::Copying),
        "drc" => Ok(Collector::DeferredReferenceCounting),
        "null" => Ok(Collector::Null),
        _ => Err(format!(
            "--collector: '{text}' is none of copying, drc and null"
        )),
    }
}

/// An engine for all that WebAssembly 3.0 has and Gleaner runs.
fn engine(collector: Collector) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .collector(collector)
        .wasm_function_references(true)
        .wasm_gc(true)
        .wasm_exceptions(true)
        .wasm_tail_call(true)
        .max_wasm_stack(STACK)
        // Nothing is run asynchronously, but this may not be less.
        .async_stack_size(STACK + (1 << 20));
    Engine::new(&config)
}

fn main() -> ExitCode {
    let mut words = env::args().skip(1).peekable();
    if words.peek().is_some_and(|word| word == "--outcomes") {
        let served = engine(Collector::Copying).and_then(|engine| outcomes::serve(&engine));
        return ended(served.map(|()| 0), "--outcomes");
    }
    match Arguments::parse(words) {
        Ok(arguments) => ended(run(&arguments), &arguments.program[0]),
        Err(message) => {
            eprintln!("wasmtime: {message}");
            ExitCode::from(WRONG)
        }
    }
}

/// The exit status, after a message where there is something to say.
fn ended(result: wasmtime::Result<u8>, what: &str) -> ExitCode {
    ExitCode::from(result.unwrap_or_else(|error| {
        eprintln!("wasmtime: {what}: {error:#}");
        REFUSED
    }))
}

/// Runs a program; an error is about its module.
fn run(arguments: &Arguments) -> wasmtime::Result<u8> {
    let engine = engine(arguments.collector)?;
    let module = Module::from_file(&engine, &arguments.program[0])?;
    let mut linker = Linker::new(&engine);
    p1::add_to_linker_sync(&mut linker, |host: &mut Host| &mut host.wasi)?;
    let mut builder = WasiCtxBuilder::new();
    builder
        .inherit_stdio()
        .allow_blocking_current_thread(true)
        .args(&arguments.program);
    for (host, guest) in &arguments.directories {
        builder.preopened_dir(host, guest, FsPerms::ReadWrite)?;
    }
    let mut limits = StoreLimitsBuilder::new();
    if let Some(bytes) = arguments.heap {
        limits = limits.memory_size(bytes);
    }
    let host = Host {
        wasi: builder.build_p1(),
        limits: limits.build(),
    };
    let mut store = Store::new(&engine, host);
    store.limiter(|host| &mut host.limits);
    let instance = linker.instantiate(&mut store, &module)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    let ended = start.call(&mut store, ());
    Ok(ended.map_or_else(|error| status_of(&error, &arguments.program[0]), |()| 0))
}

/// The exit status of a program that did not return.
fn status_of(error: &Error, name: &str) -> u8 {
    if let Some(I32Exit(status)) = error.downcast_ref::<I32Exit>() {
        return *status as u8;
    }
    if error.is::<ThrownException>() {
        eprintln!("wasmtime: {name}: an exception that nothing caught");
    } else {
        // A trap, or a heap that is full.
        eprintln!("wasmtime: {name}: {error:#}");
    }
    TRAPPED
}
