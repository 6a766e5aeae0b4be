//! `gleaner run`: compiles a WebAssembly module and runs it in this process.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use gleaner::{BuildError, Builder, Heap};
use gleaner_base::options::{HeapKind, TABLE};
use gleaner_wasm::wasi::{self, RunError, Setup};
use gleaner_wasm::{Compilation, Engine, EngineError, Settings, Trap};

use crate::arguments::RunArgs;
use crate::failure::Failure;
use crate::{options, words};

/// The exit status of a program that trapped: what shells say of one that aborted.
const TRAPPED: u8 = 134;

/// What `--stats` tells.
struct Times {
    /// Without compiling.
    loading: Duration,
    /// Without compiling.
    running: Duration,
    /// Whether each function was checked as it was compiled.
    with_checks: bool,
}

/// Runs `gleaner run`.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode, Failure> {
    let name = Path::new(&args.program[0]);
    let about = |failure: Failure| failure.context(name.display());
    let setup = setup(&args)?;
    let (heap, with_checks) = heap(&args.options)?;
    let bytes = read(name).map_err(about)?;
    let settings = Settings {
        checks: with_checks,
        compile: args.compile,
        ..Settings::default()
    };
    let mut engine = Engine::with_settings(heap, settings).map_err(|error| match error {
        EngineError::Heap(BuildError::Option(_)) => Failure::usage(error),
        _ => Failure::refused(error),
    })?;
    let start = Instant::now();
    let module = engine
        .load(&bytes)
        .map_err(|error| about(Failure::refused(error)))?;
    let compiling = engine.compilation().time;
    let loading = start.elapsed().saturating_sub(compiling);
    drop(bytes);
    let start = Instant::now();
    let ended = wasi::run(&mut engine, &module, setup);
    let running = start.elapsed() + compiling;
    let times = Times {
        loading,
        running: running.saturating_sub(engine.compilation().time),
        with_checks,
    };
    if args.stats {
        // Where nobody can be told, the status still says how it ended.
        let _ = std::io::stderr().write_all(stats(&mut engine, &times).as_bytes());
    }
    match ended {
        Ok(status) => Ok(ExitCode::from(status as u8)),
        // The module is at fault, or lacks something: it did nothing that traps.
        Err(RunError::Trap(trap @ Trap::Host(_))) => Err(about(Failure::refused(trap))),
        Err(RunError::Trap(trap)) => {
            let _ = writeln!(std::io::stderr(), "gleaner: {}: {trap}", name.display());
            Ok(ExitCode::from(TRAPPED))
        }
        Err(error) => Err(about(Failure::refused(error))),
    }
}

fn read(name: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(name).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::not_found("there is no such file"),
        _ => Failure::refused(error),
    })
}

/// What the program gets of this process.
fn setup(args: &RunArgs) -> Result<Setup, Failure> {
    let streams = |error| Failure::refused(format_args!("standard streams: {error}"));
    let mut setup = Setup::new().map_err(streams)?;
    for word in &args.program {
        // No word of a command line has a zero byte.
        setup
            .argument(word.clone().into_vec())
            .map_err(Failure::usage)?;
    }
    for variable in &args.variables {
        check_variable(variable)?;
        setup
            .variable(variable.clone().into_vec())
            .map_err(Failure::usage)?;
    }
    for directory in &args.directories {
        let (host, guest) = directory.split_once("::").unwrap_or((directory, directory));
        if host.is_empty() || guest.is_empty() {
            return Err(Failure::usage(format_args!(
                "--dir {directory}: write HOST, or HOST::GUEST"
            )));
        }
        setup
            .directory(Path::new(host), guest)
            .map_err(|error| Failure::usage(format_args!("--dir {directory}: {error}")))?;
    }
    Ok(setup)
}

fn check_variable(variable: &OsStr) -> Result<(), Failure> {
    match variable.as_bytes().iter().position(|&byte| byte == b'=') {
        Some(1..) => Ok(()),
        _ => Err(Failure::usage(format_args!(
            "--env {}: write NAME=VALUE",
            OsString::from(variable).display()
        ))),
    }
}

/// A heap with the options of the environment, then those of the command line. What of the environment is for heaps of libgc
/// alone is left out. And whether it is verified, so that what is compiled is to be, too.
fn heap(items: &[String]) -> Result<(Builder, bool), Failure> {
    let effective = options::effective(items, Some(HeapKind::Precise))?;
    let serves = |name: &str| {
        TABLE
            .iter()
            .any(|info| info.name == name && info.serves.includes(HeapKind::Precise))
    };
    let (mut heap, mut with_checks) = (Heap::builder().ignore_environment(), false);
    for item in effective.list.split(',') {
        if let Some((name, value)) = item.split_once('=')
            && serves(name.trim())
        {
            let (name, value) = (name.trim(), value.trim());
            heap = heap.option(name, value).map_err(Failure::usage)?;
            if name == "verify" {
                with_checks = value != "off";
            }
        }
    }
    Ok((heap, with_checks))
}

/// What the run took, in words.
fn stats(engine: &mut Engine, times: &Times) -> String {
    let totals = engine.totals();
    let Compilation {
        functions,
        compiled,
        time: compiling,
    } = engine.compilation();
    let time = |of: Duration| words::time(of.as_nanos() as u64);
    let collecting = Duration::from_nanos(totals.stopped_ns);
    let mut text = format!(
        "gleaner: loaded the module in {}, compiled {compiled} of {functions} functions{} in {}\n\
         gleaner: ran for {}, of which collections took {}\n",
        time(times.loading),
        if times.with_checks {
            " with checks"
        } else {
            ""
        },
        time(compiling),
        time(times.running),
        time(collecting)
    );
    let _ = match totals.scavenges + totals.full_collections {
        0 => writeln!(text, "gleaner: nothing was collected"),
        _ => writeln!(
            text,
            "gleaner: {} young and {} full collections; the longest stop was {}",
            totals.scavenges,
            totals.full_collections,
            words::time(totals.longest_stop_ns)
        ),
    };
    if let Some(peak) = peak_bytes() {
        let _ = writeln!(text, "gleaner: peak memory {}", words::size(peak));
    }
    text
}

/// The most memory that this process had, as the kernel counts it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}
