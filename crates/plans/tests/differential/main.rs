//! One random program under every combination of policies, against a model that knows what is reachable, and what is
//! old where marks are kept.
//!
//! The policies change how the heap is marked and swept, never what is found: after each collection the marked objects
//! are exactly those that the model reaches, their contents are untouched, and what is allocated reads as zero.

#![cfg(not(loom))]

mod compare;
#[path = "../harness/mod.rs"]
mod harness;
mod model;
mod program;

use gleaner_base::events::Phase;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use harness::rng::at_length;
use harness::{Bench, crew, grow};
use program::{Program, store};

/// Stands for mark stacks of one page, smaller than the option allows.
const TINY: &str = "mark-arena=64k";

/// All combinations of the policies that change the marker's and the sweeper's code.
fn policies() -> Vec<String> {
    combined_at_length(&[
        &[
            "prefetch=none",
            "prefetch=on-grey",
            "prefetch=fifo",
            "prefetch=edges",
        ][..],
        &["prefetch-hint=t0", "prefetch-hint=nta"],
        &["push-order=natural", "push-order=permuted"],
        &["look-ahead=0", "look-ahead=2"],
        &[
            "sweep=lazy,sweep-ahead=64",
            "sweep=eager,sweep-ahead=0,populate-ahead=0",
        ],
        &["markers=1", "markers=3,freed-cells=shared"],
        &[
            "poison=off",
            "poison=off,zeroing-kernel=movntdq",
            "poison=on",
        ],
        &["", TINY],
    ])
}

/// Combinations of those among which keeping marks could make a difference.
fn sticky_policies() -> Vec<String> {
    combined(&[
        &["generations=sticky"],
        &["prefetch=none", "prefetch=fifo", "prefetch=auto"],
        &["sweep=lazy", "sweep=eager"],
        &["markers=1", "markers=3"],
        &["poison=off", "poison=on"],
        &["verify=edges", "verify=edges,mark-arena=64k"],
    ])
}

/// The same for marking in steps.
fn incremental_policies() -> Vec<String> {
    combined_at_length(&[
        &["generations=incremental"],
        &[
            "prefetch=none",
            "prefetch=on-grey",
            "prefetch=fifo",
            "prefetch=auto",
        ],
        &["sweep=lazy", "sweep=eager"],
        &["markers=1", "markers=3"],
        &["poison=off", "poison=on"],
        &["verify=edges", "verify=edges,mark-arena=64k"],
        // The steps of a heap under stress are short.
        &["", "stress=1000000"],
    ])
}

/// The same for cycles for which nobody has asked. Small heaps have some under stress.
fn auto_policies() -> Vec<String> {
    combined(&[
        &["generations=auto,cycle-helper=on,stress=1000000"],
        &["prefetch=none", "prefetch=auto"],
        &["sweep=lazy", "sweep=eager"],
        &["markers=1", "markers=3"],
        &["poison=off", "poison=on"],
        &["verify=off", "verify=edges", "verify=edges,mark-arena=64k"],
    ])
}

/// Rules by which collections come more or less often.
fn sizing_policies() -> Vec<String> {
    combined(&[
        &[
            "heap-sizing=divisor",
            "heap-sizing=balanced,heap-price=1",
            "heap-sizing=balanced,heap-price=1000000",
        ],
        &["free-space-divisor=3", "free-space-divisor=1000"],
        &["sweep=lazy", "sweep=eager"],
        &["generations=none", "generations=sticky"],
        &["heap-limit=0", "heap-limit=24m"],
    ])
}

/// Every choice of one of each.
fn combined(of: &[&[&str]]) -> Vec<String> {
    let all = numbered(of).into_iter();
    all.map(|(_, policy)| policy).collect()
}

/// The same where all of a test is asked for (`make test-rust-long`). Else the half whose numbers add up to an even one: that has
/// every combination of all but one with two choices, whichever that is.
fn combined_at_length(of: &[&[&str]]) -> Vec<String> {
    let all = numbered(of).into_iter();
    all.filter(|(sum, _)| sum % at_length(2, 1) == 0)
        .map(|(_, policy)| policy)
        .collect()
}

/// Every choice of one of each, after the sum of the choices' numbers.
fn numbered(of: &[&[&str]]) -> Vec<(usize, String)> {
    let mut all = vec![(0, String::new())];
    for choices in of {
        all = all
            .iter()
            .flat_map(|(sum, begun)| {
                let of = choices.iter().enumerate();
                of.map(move |(number, choice)| (sum + number, format!("{begun}{choice},")))
            })
            .collect();
    }
    all
}

#[test]
fn every_policy_finds_what_the_model_reaches() {
    let crew = crew();
    let mut collections = 0;
    let mut several_dropped = 0;
    let policies = policies();
    let count = policies.len();
    for (number, policy) in policies.into_iter().enumerate() {
        if number % 2 == 0 && crew.helpers() < 2 {
            assert_eq!(grow(crew, 2), 2);
        }
        let mut bench = Bench::with_crew(&policy, crew);
        if policy.contains(TINY) {
            bench.shrink_mark_stacks();
        }
        let several = policy.contains("markers=3");
        let mut program = Program::new(bench, number as u64, policy.clone());
        program.run(250);
        collections += program.collections;
        let marks = program.bench.events(Phase::Mark);
        assert!(
            marks
                .iter()
                .any(|mark| mark.workers == if several { 3 } else { 1 }),
            "{policy}"
        );
        let dropped = program.bench.heap.totals.dropped_entries;
        // Workers that take work from each other early may never fill their small stacks.
        let certain = policy.contains(TINY) && !several;
        assert!(
            if certain {
                dropped > 0
            } else {
                dropped == 0 || policy.contains(TINY)
            },
            "{dropped} entries dropped: {policy}"
        );
        if several && dropped > 0 {
            several_dropped += 1;
        }
    }
    assert!(collections > count * 5 / 2, "{collections}");
    assert!(
        several_dropped > count / 40,
        "{several_dropped} of {}",
        count / 4
    );
    crew.dismiss();
}

/// What a stack refers to is not kept as a word first, as what objects and static data refer to may be.
#[test]
fn what_only_a_stack_refers_to_is_found() {
    let policies = combined(&[
        &[
            "prefetch=none",
            "prefetch=on-grey",
            "prefetch=fifo",
            "prefetch=edges",
        ],
        &["push-order=natural", "push-order=permuted"],
        &["look-ahead=0", "look-ahead=2"],
    ]);
    for policy in policies {
        // Fewer, as many, and more than wait for each other.
        for held in [1, 2, 31, 32, 33, 100] {
            let mut bench = Bench::new(&format!("markers=1,{policy}"));
            let all = bench.allocate(NORMAL, 8 * 200).unwrap();
            bench.keep(all);
            for word in 0..200 {
                let object = bench.allocate(NORMAL, 16).unwrap();
                store(all, word, object.word());
            }
            let on_stack: Vec<usize> = (0..held)
                .map(|_| bench.allocate(NORMAL, 48).unwrap().word())
                .collect();
            bench.client.stack = on_stack.clone();
            bench.collect();
            bench.verify_collected();
            let marked = bench.marked();
            assert_eq!(marked.len(), 201 + held, "{held} on the stack: {policy}");
            assert!(on_stack.iter().all(|object| marked.contains(object)));
        }
    }
}

#[test]
fn when_collections_come_does_not_change_what_they_find() {
    let crew = crew();
    let mut collections = 0;
    for (number, policy) in sizing_policies().into_iter().enumerate() {
        let bench = Bench::with_crew(&format!("markers=1,verify=edges,{policy}"), crew);
        let mut program = Program::new(bench, number as u64, policy.clone());
        program.run(500);
        collections += program.collections;
        let limit = program.bench.heap.options.heap_limit;
        assert!(limit == 0 || program.bench.heap.totals.peak_capacity <= limit);
    }
    assert!(collections > 48 * 5, "{collections}");
    crew.dismiss();
}

/// What programs saw whose collections were marked in steps.
#[derive(Default)]
struct Seen {
    programs: usize,
    stepped: usize,
    stepped_new: usize,
    never_reached: usize,
    steps: u64,
    cut_short: u64,
    kept_marks: u64,
}

/// Runs a program under each of the policies; nothing where the kernel does not say what is written.
fn run_in_steps(policies: Vec<String>, first_seed: u64) -> Option<Seen> {
    let crew = crew();
    assert_eq!(grow(crew, 2), 2);
    let mut seen = Seen::default();
    for (number, policy) in policies.into_iter().enumerate() {
        let mut bench = Bench::with_crew(&policy, crew);
        bench.collect(); // Under `generations=auto` that has pages watched.
        if bench.heap.space.written.is_none() {
            eprintln!("the kernel does not say what is written: nothing was tested");
            return None;
        }
        if policy.contains(TINY) {
            bench.shrink_mark_stacks();
        }
        let mut program = Program::new(bench, number as u64 + first_seed, policy);
        program.run(1500);
        seen.programs += 1;
        seen.stepped += program.stepped;
        seen.stepped_new += program.stepped_new;
        seen.never_reached += program.never_reached;
        seen.steps += program.bench.heap.totals.steps;
        seen.cut_short += program.bench.heap.totals.cycles_cut_short;
        seen.kept_marks += program.bench.heap.totals.kept_marks;
    }
    crew.dismiss();
    Some(seen)
}

#[test]
fn marking_in_steps_finds_what_is_reachable_or_was_marked_by_a_step() {
    let Some(seen) = run_in_steps(incremental_policies(), 5000) else {
        return;
    };
    let (count, stepped) = (seen.programs, seen.stepped);
    assert!(stepped > count * 2, "{stepped}");
    let stepped_new = seen.stepped_new;
    assert!(stepped_new > count, "{stepped_new} of {stepped}");
    let cut_short = seen.cut_short;
    assert!(
        cut_short > 0 && cut_short < stepped as u64,
        "{cut_short} of {stepped}"
    );
    let steps = seen.steps;
    assert!(steps > stepped as u64, "{steps} for {stepped}");
    let never_reached = seen.never_reached;
    assert!(
        never_reached > stepped * 10,
        "{never_reached} never reached in {stepped}"
    );
}

#[test]
fn cycles_for_which_nobody_has_asked_find_what_is_reachable_or_was_marked_by_a_step() {
    let Some(seen) = run_in_steps(auto_policies(), 9000) else {
        return;
    };
    assert!(seen.stepped > seen.programs * 2, "{}", seen.stepped);
    assert!(seen.steps > seen.stepped as u64, "{}", seen.steps);
    assert_eq!((seen.stepped_new, seen.kept_marks), (0, 0));
}

#[test]
fn collections_that_keep_marks_find_what_is_reachable_or_old() {
    let crew = crew();
    assert_eq!(grow(crew, 2), 2);
    let (mut kept, mut collections) = (0, 0);
    for (number, policy) in sticky_policies().into_iter().enumerate() {
        let mut bench = Bench::with_crew(&policy, crew);
        if bench.heap.unwatched.is_some() {
            eprintln!("the kernel does not say what is written: nothing was tested");
            return;
        }
        if policy.contains(TINY) {
            bench.shrink_mark_stacks();
        }
        let mut program = Program::new(bench, number as u64 + 1000, policy);
        program.run(1500);
        collections += program.collections;
        kept += program.kept_marks;
    }
    // Without those that follow one that was given up, and a sixth that are asked for.
    assert!(collections > 48 * 15, "{collections}");
    assert!(
        kept > collections / 3,
        "{kept} of {collections} kept the marks"
    );
    crew.dismiss();
}
