//! Seeded programs over arrays of every kind, under every way to cut arrays: after each step an array is what a model
//! without a heap says, and at the end everything is what contiguous arrays would hold.
//!
//! The programs run in children of the tests, so that a run that ends the process is named, too. To repeat one, with
//! its steps:
//!
//! ```text
//! ARRAY_RUNS='layer=raw seed=7 steps=250 large=off options=arrays=zray,first-n=64,refs=compressed' ARRAY_STEPS=1 \
//!     cargo test --release -p gleaner --test arrays child -- --nocapture
//! ```

mod layer;
mod model;
mod raw;
mod runs;
mod safe;
mod script;
mod words;

use crate::again::path;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use model::{Kind, Model};
use runs::{FACTORS, Run, configurations, options, rows, run_of};
use script::{Cuts, Op, Script, Style, Through, Way};

/// The runs that a child makes, one a line.
const RUNS: &str = "ARRAY_RUNS";
/// Whether it prints each step.
const STEPS: &str = "ARRAY_STEPS";
/// What it prints when all is well.
const DONE: &str = "all runs are done";

/// Only a child does something here.
#[test]
fn child() {
    let Ok(lines) = std::env::var(RUNS) else {
        return;
    };
    let traces = std::env::var_os(STEPS).is_some();
    let mut contiguous: HashMap<String, u64> = HashMap::new();
    for line in lines.lines() {
        println!("\nrun: {line}");
        let run = Run::parse(line);
        let cuts = run.cuts();
        let left = run.execute(cuts, traces);
        let plain = run.contiguous();
        let expected = contiguous
            .entry(format!("{plain} {cuts:?}"))
            .or_insert_with(|| plain.execute(cuts, false));
        assert_eq!(left, *expected, "contiguous arrays hold something else");
    }
    println!("{DONE}");
}

/// What a child prints that makes these runs. What it says of errors is last.
fn printed(runs: &str, traces: bool) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &path(module_path!(), "child"), "--nocapture"]);
    command.env(RUNS, runs).env_remove(STEPS);
    // Steps and messages say more.
    command.env("RUST_BACKTRACE", "0");
    if traces {
        command.env(STEPS, "1");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut lines = Vec::new();
    std::thread::scope(|threads| {
        let errors = threads.spawn(move || {
            let mut errors = Vec::new();
            stderr.read_to_end(&mut errors).unwrap();
            String::from_utf8_lossy(&errors).into_owned()
        });
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap();
            if !traces {
                println!("{line}");
            }
            lines.push(line);
        }
        lines.extend(errors.join().unwrap().lines().map(String::from));
    });
    lines.push(format!("it ended with {}", child.wait().unwrap()));
    lines
}

/// Makes runs in a child. If one fails, it is made once more, with its steps.
fn in_a_child(runs: &[Run]) {
    assert!(!runs.is_empty());
    let lines: Vec<String> = runs.iter().map(Run::to_string).collect();
    let first = printed(&lines.join("\n"), false);
    if first.iter().any(|line| line == DONE) {
        return;
    }
    let mut named = first.iter().rev();
    let failed = named.find_map(|line| line.strip_prefix("run: "));
    let failed = failed.unwrap_or_else(|| panic!("no run began: {first:#?}"));
    let again = printed(failed, true);
    let begins = |line: &String| line.starts_with("step ");
    let steps = again.iter().rposition(begins).unwrap_or(0);
    let behind = first.iter().rposition(|line| line.starts_with("run: "));
    panic!(
        "{failed}\n{}\n\nmade once more, from five steps before its last:\n{}\n\nto repeat it:\n{RUNS}='{failed}' \
         {STEPS}=1 cargo test --release -p gleaner --test arrays child -- --nocapture\n",
        first[behind.unwrap() + 1..].join("\n"),
        again[steps.saturating_sub(5)..].join("\n")
    );
}

/// What differs from one configuration to the next, so that each meets all of it in the run of several seeds.
const TURNS: [&str; 4] = [
    "refs=wide,old=mark-compact,workers=1,poison=on",
    "refs=compressed,old=mark-sweep,workers=3,verify=edges",
    "refs=wide,old=mark-sweep,workers=3,verify=edges,tenure=0",
    "refs=compressed,old=mark-compact,workers=1,verify=edges,poison=on,young=1m",
];

/// Seeds for each configuration.
const SEEDS: usize = 3;

fn each_configuration(is_raw: bool) {
    let mut runs = Vec::new();
    for (number, configuration) in configurations().iter().enumerate() {
        for seed in number * SEEDS..(number + 1) * SEEDS {
            let options = format!("{configuration},{}", TURNS[seed % TURNS.len()]);
            // One in eleven: no divisor of how many configurations with the same sizes there are.
            runs.push(run_of(is_raw, seed as u64, seed % 11 == 10, &options));
        }
    }
    in_a_child(&runs);
}

#[test]
fn each_configuration_through_the_raw_layer() {
    each_configuration(true);
}

#[test]
fn each_configuration_through_the_safe_layer() {
    each_configuration(false);
}

fn pairs_of_options(is_raw: bool) {
    let mut runs = Vec::new();
    for (number, row) in rows().iter().enumerate() {
        for turn in 0..SEEDS {
            let seed = 1000 + number * SEEDS + turn;
            runs.push(run_of(is_raw, seed as u64, seed % 11 == 10, &options(row)));
        }
    }
    in_a_child(&runs);
}

#[test]
fn pairs_of_options_through_the_raw_layer() {
    pairs_of_options(true);
}

#[test]
fn pairs_of_options_through_the_safe_layer() {
    pairs_of_options(false);
}

/// A collection at every allocation, and at every store that allocates.
#[test]
fn each_policy_with_a_collection_at_every_step() {
    let mut runs = Vec::new();
    let policies = configurations();
    let named = policies.iter().filter(|policy| !policy.contains("first-n"));
    for (number, policy) in named.enumerate() {
        for is_raw in [true, false] {
            for refs in ["wide", "compressed"] {
                let options = format!("{policy},stress=1,verify=edges,poison=on,refs={refs}");
                runs.push(run_of(is_raw, 2000 + number as u64, false, &options));
            }
        }
    }
    in_a_child(&runs);
}

#[test]
fn each_pair_of_values_is_in_a_row() {
    let rows = rows();
    for (one, (name, values)) in FACTORS.iter().enumerate() {
        for (other, (second, others)) in FACTORS.iter().enumerate().skip(one + 1) {
            let pairs: HashSet<_> = rows.iter().map(|row| (row[one], row[other])).collect();
            assert_eq!(
                pairs.len(),
                values.len() * others.len(),
                "{name} and {second}"
            );
        }
    }
    let names: HashSet<_> = rows.iter().map(options).collect();
    assert!(names.len() < 80, "{} rows", names.len());
}

#[test]
fn a_run_is_read_as_it_is_written() {
    let run = run_of(true, 7, false, "arrays=naive,arraylet=256,refs=wide");
    assert_eq!(Run::parse(&run.to_string()), run);
    let expected = Cuts {
        first_n: 0,
        arraylet: 256,
    };
    assert_eq!(run.cuts(), expected);
}

/// What a program did, by name: the steps by the kinds of their arrays, and what is likely to go wrong.
fn did(op: &Op, model: &Model, cuts: Cuts, into: &mut HashSet<String>) {
    let mut note = |text: String| {
        into.insert(text);
    };
    let pieces = |kind: Kind| {
        let bytes = kind.bytes(model.slot_bytes);
        (cuts.first_n / bytes, cuts.arraylet / bytes)
    };
    match *op {
        Op::Allocate {
            kind,
            length,
            way,
            pattern,
            ..
        } => {
            note(format!("allocate {kind:?} {way:?}"));
            note(format!("pattern {:?}", pattern.style));
            let (first, piece) = pieces(kind);
            let behind = length.wrapping_sub(first) as isize;
            if (-1..=1).contains(&behind) {
                note(format!("length N{behind:+}"));
            }
            let over = behind % piece as isize;
            if behind > 2 && (over <= 1 || over == piece as isize - 1) {
                note(format!("length N+kA{:+}", if over > 1 { -1 } else { over }));
            }
            if length * kind.bytes(model.slot_bytes) > 200 << 10 {
                note("large".into());
            }
        }
        Op::Exchange { root, hits, .. } => {
            note(format!(
                "exchange {:?} {hits}",
                model.array(root).unwrap().kind
            ));
        }
        Op::Read { root, through, .. } => {
            note(format!(
                "read {:?} {through:?}",
                model.array(root).unwrap().kind
            ));
        }
        Op::Write { root, through, .. } => {
            note(format!(
                "write {:?} {through:?}",
                model.array(root).unwrap().kind
            ));
        }
        Op::Copy {
            from,
            from_index,
            to,
            to_index,
            count,
        } => {
            let [source, target] = [from, to].map(|root| model.array(root).unwrap());
            let (first, piece) = pieces(target.kind);
            let is_aligned = |index: usize| index >= first && (index - first).is_multiple_of(piece);
            let overlaps =
                model.roots[from] == model.roots[to] && from_index.abs_diff(to_index) < count;
            let aligned = is_aligned(from_index) && is_aligned(to_index) && count >= piece;
            let order = match from_index.cmp(&to_index) {
                _ if !overlaps => "apart",
                Ordering::Less => "up",
                Ordering::Equal => "onto itself",
                Ordering::Greater => "down",
            };
            note(format!("copy {:?} to {:?}", source.kind, target.kind));
            note(format!(
                "copy {} {order}",
                if aligned { "aligned" } else { "unaligned" }
            ));
        }
        Op::Store { root, .. } => note(format!("store {:?}", model.array(root).unwrap().kind)),
        Op::Fill { root, .. } => note(format!("fill {:?}", model.array(root).unwrap().kind)),
        Op::Snapshot { from, .. } => {
            note(format!("snapshot {:?}", model.array(from).unwrap().kind))
        }
        Op::Shrink { root, length } => {
            let array = model.array(root).unwrap();
            let (first, piece) = pieces(array.kind);
            // How many arraylets are full, and whether there is a remainder.
            let cut = |length: usize| {
                let beyond = length.saturating_sub(first);
                (beyond / piece, !beyond.is_multiple_of(piece))
            };
            let ((before, _), (after, has_rest)) = (cut(array.elements.len()), cut(length));
            let what = match (before.cmp(&after), after) {
                (_, 0) if length <= first => "to N or less",
                (Ordering::Equal, _) => "in the remainder",
                (_, _) if has_rest => "into an arraylet",
                _ => "to whole arraylets",
            };
            note(format!("shrink {:?}", array.kind));
            note(format!("shrink {what}"));
        }
        Op::LoadInto { .. } => note("load a reference".into()),
        Op::Unbox { .. } => note("unbox".into()),
        _ => {}
    }
}

/// The programs that are run here do all that they can do.
#[test]
fn the_programs_do_everything() {
    let mut done = HashSet::new();
    for seed in 0..100 {
        let run = run_of(true, seed, seed % 11 == 10, "arrays=zray,first-n=64");
        let cuts = run.cuts();
        let mut script = Script::new(seed, cuts, run.has_large, true);
        let mut model = Model::new(8);
        for step in 0..run.steps {
            let op = script.next(&model);
            did(&op, &model, cuts, &mut done);
            model.apply(&op);
            if step % 16 == 15 {
                model.trim();
            }
        }
    }
    let mut expected: Vec<String> = Vec::new();
    for kind in Kind::ALL {
        expected.extend(Way::ALL.map(|way| format!("allocate {kind:?} {way:?}")));
        expected.extend(Through::ALL.map(|through| format!("read {kind:?} {through:?}")));
        expected.extend(Through::ALL.map(|through| format!("write {kind:?} {through:?}")));
        expected.extend([true, false].map(|hits| format!("exchange {kind:?} {hits}")));
        expected
            .extend(["store", "fill", "snapshot", "shrink"].map(|name| format!("{name} {kind:?}")));
        expected.push(format!("copy {kind:?} to {kind:?}"));
    }
    expected.extend(["F32 to U32", "I64 to F64", "U8 to I8"].map(|kinds| format!("copy {kinds}")));
    for alignment in ["aligned", "unaligned"] {
        let orders = ["apart", "up", "onto itself", "down"];
        expected.extend(orders.map(|order| format!("copy {alignment} {order}")));
    }
    for style in [Style::Zero, Style::Sparse, Style::Mixed, Style::UpperBit] {
        expected.push(format!("pattern {style:?}"));
    }
    expected.extend(
        ["N-1", "N+0", "N+1", "N+kA-1", "N+kA+0", "N+kA+1"].map(|at| format!("length {at}")),
    );
    expected.extend(
        [
            "to N or less",
            "in the remainder",
            "into an arraylet",
            "to whole arraylets",
        ]
        .map(|what| format!("shrink {what}")),
    );
    expected.extend(["large", "load a reference", "unbox"].map(String::from));
    for name in expected {
        assert!(done.contains(&name), "no program does: {name}");
    }
}
