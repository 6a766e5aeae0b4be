//! Random modules with garbage collection, exceptions and tail calls: whatever one does, it does under both formats of slots, with
//! a collection at every allocation, and however it is compiled. What it does is a few lines of text.
//!
//! The environment variable `SEEDS` has the modules to try, as in `0..1000`. If `RIVALS` names programs of `make rivals-wasm`
//! (`wasmtime` and `node`), with spaces between them, the lines must be those that they print, too. A module that makes a
//! difference is kept in `target/tmp/random`.

mod outcomes;
mod plan;
mod rival;
mod settings;
mod smith;

use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::{env, fs};

use outcomes::{Outcome, Setting, outcome};
use plan::Plan;
use rival::Rival;
use settings::SETTINGS;

/// What is tried unless `SEEDS` says otherwise.
const SEEDS: Range<u64> = 0..250;
/// The same where all of a test is asked for (`make test-rust-long`).
const LONG_SEEDS: Range<u64> = 0..1000;
/// Rivals are asked about the modules of so many numbers at once, so that nobody waits for each answer.
const BATCH: usize = 50;
/// After so many numbers a line says how many modules there were.
const PROGRESS: u64 = 5000;

/// A module's outcome under one setting; a panic is an outcome as well.
fn outcome_under(bytes: &[u8], plan: &Plan, setting: &Setting) -> Outcome {
    panic::catch_unwind(AssertUnwindSafe(|| outcome(bytes, plan, setting)))
        .unwrap_or_else(|_| vec!["a panic".into()])
}

/// The outcome, and which settings and rivals have another one; each with the first lines that differ.
/// The rivals were asked.
fn differences(bytes: &[u8], plan: &Plan, rivals: &mut [Rival]) -> (Outcome, Vec<String>) {
    let first = outcome_under(bytes, plan, &SETTINGS[0]);
    let mut found = Vec::new();
    if first == ["a panic"] {
        found.push("a panic".into());
    }
    let mut compare = |name: &str, other: &Outcome| {
        if let Some((ours, theirs)) = outcomes::difference(&first, other) {
            found.push(format!("{ours}, but {name}: {theirs}"));
        }
    };
    for setting in &SETTINGS[1..] {
        let other = outcome_under(bytes, plan, setting);
        compare(&format!("{setting:?}"), &other);
    }
    for rival in rivals {
        let theirs = rival.outcome();
        compare(&rival.name, &theirs);
    }
    (first, found)
}

fn seeds() -> Range<u64> {
    let Ok(text) = env::var("SEEDS") else {
        return match env::var_os("GLEANER_LONG") {
            Some(_) => LONG_SEEDS,
            None => SEEDS,
        };
    };
    let number = |text: &str| text.replace('_', "").parse().ok();
    let range = text
        .split_once("..")
        .and_then(|(from, to)| Some(number(from)?..number(to)?));
    range.unwrap_or_else(|| panic!("SEEDS={text}: write A..B"))
}

/// Where modules are kept that make a difference. The one that is tried lies there as well: it may end the process.
fn place(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("random");
    fs::create_dir_all(&directory).unwrap();
    directory.join(format!("{name}.wasm"))
}

#[test]
fn random_modules_do_the_same_under_all_settings() {
    let rivals = env::var_os("RIVALS").unwrap_or_default();
    let rivals = rivals.to_str().expect("RIVALS is text").split_whitespace();
    let mut rivals: Vec<Rival> = rivals
        .map(|program| Rival::start(program.as_ref()))
        .collect();
    let (mut tried, mut calls, mut returned, mut different) = (0, 0, 0, Vec::new());
    let mut features = smith::Features::default();
    let seeds = seeds();
    // Tests of other numbers may run at the same time.
    let now = place(&format!("now-{}", seeds.start));
    let numbers: Vec<u64> = seeds.collect();
    for batch in numbers.chunks(BATCH) {
        if batch[0] % PROGRESS < BATCH as u64 && tried > 0 {
            let differ = different.len();
            println!("up to {}: {tried} modules, {differ} that differ", batch[0]);
        }
        let modules: Vec<(u64, Vec<u8>, Plan)> = batch
            .iter()
            .filter_map(|&seed| {
                let bytes = smith::module(seed)?;
                let plan = plan::plan(&bytes);
                Some((seed, bytes, plan))
            })
            .collect();
        for rival in &rivals {
            for (_, bytes, plan) in &modules {
                rival.ask(bytes, plan);
            }
        }
        for (seed, bytes, plan) in &modules {
            features.count(bytes);
            fs::write(&now, bytes).unwrap();
            let (outcome, found) = differences(bytes, plan, &mut rivals);
            tried += 1;
            calls += outcome.len();
            returned += outcome
                .iter()
                .filter(|line| outcomes::is_return(line))
                .count();
            if !found.is_empty() {
                fs::write(place(&seed.to_string()), bytes).unwrap();
                println!("seed {seed}: {}", found.join("; "));
                different.push(*seed);
            }
        }
    }
    let _ = fs::remove_file(&now);
    println!("{tried} modules, {calls} calls, {returned} that returned, {features:?}");
    assert!(different.is_empty(), "modules that differ: {different:?}");
    // Few modules may lack something.
    if tried >= 200 {
        assert!(features.are_all_there(), "{features:?}");
        assert!(returned > 0, "no call returned");
    }
}
