//! `random`: random programs on the precise heap and, beside it, on an oracle that never frees; all policies mixed.
//! Some seeds are programs on the libgc heap, beside a model of what is reachable.
//!
//! The programs are those of the tests of crates `gleaner` and `plans`; here they are as many as one likes. A seed says
//! everything: the options of its heap, how many mutators run, what they do, which fault points fail ([`setup`]). The
//! seeds of a range run one after the other in a process of its own ([`child`]), which a fault ends: this one notes the
//! seed, and starts another process behind it. The log ([`report`]) says how far the range was run, so what is counted
//! was run.

mod child;
mod conservative;
#[path = "../../gleaner/tests/programs/mod.rs"]
#[allow(missing_docs, reason = "of the tests of another crate")]
mod programs;
mod report;
mod setup;

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use clap::Args;
use conservative::harness::rng as random;

use crate::progress;
use crate::say::say;
use gleaner_workloads::failure::{Failure, Result};
use report::{Counts, Line, Log};
use setup::GENERATOR;

/// Arguments of `random`.
#[derive(Args)]
pub struct Random {
    /// The seeds, from the first up to and without the last, as in 0..1000
    #[arg(long, value_name = "A..B", value_parser = range)]
    pub seeds: Range<u64>,
    /// Runs each seed this many times: what depends on the order of threads may take some tries
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: u64,
    /// Appends what was run, and each failing seed, to this file
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/random.jsonl"))]
    pub log: PathBuf,
    /// A seed that takes longer hangs
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Prints what each seed stands for, and runs nothing
    #[arg(long, conflicts_with = "in_process")]
    pub explain: bool,
    /// Runs the seeds in this process, so that a debugger sees what fails
    #[arg(long)]
    pub in_process: bool,
}

fn range(text: &str) -> std::result::Result<Range<u64>, String> {
    let number = |digits: &str| {
        let digits = digits.replace('_', "");
        digits.parse::<u64>().map_err(|error| error.to_string())
    };
    let (first, last) = text.split_once("..").ok_or("it is not of the form A..B")?;
    let range = number(first)?..number(last)?;
    if range.is_empty() {
        return Err("there is no seed in it".into());
    }
    Ok(range)
}

/// How many seeds share a line of the log.
const CHUNK: u64 = 50;

/// Runs the subcommand; false if a seed failed.
pub fn run(chosen: &Random) -> Result<bool> {
    if chosen.explain {
        for seed in chosen.seeds.clone() {
            say(format_args!("{seed}: {:?}", setup::Seed::of(seed)))?;
        }
        return Ok(true);
    }
    if chosen.in_process {
        return child::run(chosen.seeds.clone(), chosen.repeat);
    }
    let mut log = Log::open(&chosen.log)?;
    let (mut all, mut failures) = (Counts::default(), Vec::new());
    let bar = progress::bar((chosen.seeds.end - chosen.seeds.start) as usize);
    let mut from = chosen.seeds.start;
    while from < chosen.seeds.end {
        let to = chosen.seeds.end.min((from / CHUNK + 1) * CHUNK);
        let mut counts = Counts::default();
        let mut next = from;
        while next < to {
            let status = seeds(chosen, next..to, |seed, done| {
                counts.add(&done);
                next = seed + 1;
                bar.inc(1);
            })?;
            let Some(status) = status else { break };
            let command = format!("gleaner-bench random --seeds {next}..{}", next + 1);
            bar.suspend(|| say(format_args!("seed {next}: {status}; again: {command}")))?;
            log.write(&Line::Failure {
                seed: next,
                status: &status,
                command: &command,
            })?;
            failures.push(next);
            next += 1;
            bar.inc(1);
        }
        let counts = &counts;
        log.write(&Line::Range {
            generator: GENERATOR,
            from,
            to,
            counts,
        })?;
        all.add(counts);
        bar.set_message(format!("{} operations", all.operations));
        from = to;
    }
    bar.finish_and_clear();
    say(format_args!(
        "generator {GENERATOR}: {} programs, {} operations, {} collections, {} fault points fired, {} allocations \
         without memory",
        all.programs, all.operations, all.collections, all.faults, all.failed
    ))?;
    say(format_args!(
        "{} passed, {} failed",
        all.programs,
        failures.len()
    ))?;
    Ok(failures.is_empty())
}

/// Runs a range in a process of its own, and tells of each seed that went well. If one did not, how the process ended.
fn seeds(
    chosen: &Random,
    seeds: Range<u64>,
    mut told: impl FnMut(u64, Counts),
) -> Result<Option<String>> {
    let mut child = start(chosen, &seeds)?;
    let output = child.stdout.take().expect("a pipe");
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let limit = Duration::from_secs(chosen.limit.saturating_mul(chosen.repeat));
    let mut expected = seeds.start;
    let hangs = loop {
        match lines.recv_timeout(limit) {
            Ok(line) => match Counts::parse(&line) {
                Some((seed, counts)) if seed == expected => {
                    expected += 1;
                    told(seed, counts);
                }
                _ => return Err(Failure::new(format!("not a line of a seed: {line}"))),
            },
            Err(RecvTimeoutError::Timeout) => break true,
            Err(RecvTimeoutError::Disconnected) => break false,
        }
    };
    if hangs {
        // It may have ended by itself just now, and is not reaped yet in any case.
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(|error| Failure::new(error.to_string()))?;
    let _ = reader.join();
    Ok(match (hangs, status.success() && expected == seeds.end) {
        (true, _) => Some(format!("no end after {} seconds", limit.as_secs())),
        (false, true) => None,
        (false, false) => Some(name(status)),
    })
}

fn start(chosen: &Random, seeds: &Range<u64>) -> Result<Child> {
    let program = std::env::current_exe().map_err(|error| Failure::new(error.to_string()))?;
    Command::new(&program)
        .args(["random", "--in-process"])
        .args(["--seeds", &format!("{}..{}", seeds.start, seeds.end)])
        .args(["--repeat", &chosen.repeat.to_string()])
        .env_remove("GLEANER_OPTIONS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::at(&program, error))
}

fn name(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("ended by signal {signal}"),
        None => format!("{status}"),
    }
}
