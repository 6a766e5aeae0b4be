//! The process in which the programs run: one seed after the other, a line for each that went well.
//!
//! Fault points are the process's, so there is one heap at a time. What differs is a panic, and a panic of any thread
//! ends the process at once: the parent knows the seed, since it is the one after the last line.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gleaner::{BuildError, CreateError, Heap, Phase};
use gleaner_base::faults::{self, FaultPlan, FaultPoint};

use super::conservative;
use super::programs::{Outcome, Program, Types};
use super::random::Rng;
use super::report::Counts;
use super::setup::{Seed, Setup};
use gleaner_workloads::failure::{Failure, Result};

/// Runs these seeds, each `repeat` times, and prints a line for each.
pub fn run(seeds: std::ops::Range<u64>, repeat: u64) -> Result<bool> {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    let mut out = std::io::stdout().lock();
    for seed in seeds {
        let mut counts = Counts::default();
        for _ in 0..repeat {
            counts.add(&one(seed));
        }
        // The parent waits for each line.
        writeln!(out, "{seed} {counts}")
            .and_then(|()| out.flush())
            .map_err(|error| Failure::new(format!("standard output: {error}")))?;
    }
    Ok(true)
}

/// Points that only the making of a heap bears: afterwards the programs' own tables need memory, too.
const OF_MAKING: [FaultPoint; 3] = [
    FaultPoint::CommitMemory,
    FaultPoint::ReserveMemory,
    FaultPoint::StartWorker,
];

fn one(seed: u64) -> Counts {
    match Seed::of(seed) {
        Seed::Precise(setup) => precise(seed, &setup),
        Seed::Libgc(setup) => conservative::run(seed, &setup),
    }
}

fn precise(seed: u64, setup: &Setup) -> Counts {
    let heap = make(setup).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let mut fired = 0;
    for point in OF_MAKING {
        fired += fires(&setup.faults, point);
        faults::arm(point, 0);
    }
    let collections = Arc::new(AtomicU64::new(0));
    let counted = collections.clone();
    heap.add_listener(move |event| {
        if event.phase == Phase::End {
            counted.fetch_add(1, Ordering::Relaxed);
        }
    });
    let outcome = all_mutators(&heap, setup, seed);
    for point in FaultPoint::ALL {
        if !OF_MAKING.contains(&point) {
            fired += fires(&setup.faults, point);
            faults::arm(point, 0);
        }
    }
    Counts {
        programs: 1,
        operations: outcome.steps,
        collections: collections.load(Ordering::Relaxed),
        failed: outcome.failed as u64,
        faults: fired,
    }
}

/// The heap. It may be refused if the system refuses memory for the smallest tables; then it is made without faults.
fn make(setup: &Setup) -> std::result::Result<Heap, BuildError> {
    let builder = Heap::builder().options(&setup.options)?;
    for point in FaultPoint::ALL {
        faults::arm(point, setup.faults.visit(point));
    }
    let refusals = [FaultPoint::CommitMemory, FaultPoint::ReserveMemory];
    match builder.clone().build() {
        Err(BuildError::Create(CreateError::Memory(..)))
            if refusals
                .iter()
                .any(|&point| fires(&setup.faults, point) > 0) =>
        {
            for point in refusals {
                faults::arm(point, 0);
            }
            builder.build()
        }
        made => made,
    }
}

/// 1 if the point was armed and has failed.
fn fires(plan: &FaultPlan, point: FaultPoint) -> u64 {
    u64::from(plan.visit(point) != 0 && faults::left(point) == 0)
}

fn all_mutators(heap: &Heap, setup: &Setup, seed: u64) -> Outcome {
    let types = Types::register(heap);
    let mut all = Outcome::default();
    std::thread::scope(|threads| {
        let running: Vec<_> = (0..setup.mutators)
            .map(|index| {
                threads.spawn(move || {
                    let mut mutator = heap.attach().expect("memory for a mutator");
                    let rng = Rng::new(Rng::new(seed).next().wrapping_add(index as u64));
                    Program::from(rng, setup.roots).rarely(setup.rarely).run(
                        &mut mutator,
                        types,
                        setup.steps,
                    )
                })
            })
            .collect();
        for thread in running {
            all.add(thread.join().expect("a panic ends the process"));
        }
    });
    all
}
