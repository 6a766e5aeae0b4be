//! Random programs on the libgc heap, against a model that knows what is reachable: those of the tests of `plans`.
//!
//! One mutator runs the program. Up to three more are threads that do nothing but stop, by signal, for each collection:
//! what lives is then as certain as the model needs it to be.

#[path = "../../../plans/tests/differential/compare.rs"]
mod compare;
#[path = "../../../plans/tests/harness/mod.rs"]
#[allow(missing_docs, reason = "of the tests of another crate")]
pub(super) mod harness;
#[path = "../../../plans/tests/differential/model.rs"]
#[allow(missing_docs, reason = "of the tests of another crate")]
mod model;
#[path = "../../../plans/tests/differential/program.rs"]
#[allow(missing_docs, reason = "of the tests of another crate")]
mod program;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_base::faults::{self, FaultPoint};
use gleaner_mem::Address;
use gleaner_os::{signals, threads};
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::stop::signal::on_suspend;

use super::report::Counts;
use super::setup::OfLibgc;
use harness::{Bench, crew, grow};
use program::Program;

/// Runs what a seed stands for.
pub fn run(seed: u64, setup: &OfLibgc) -> Counts {
    let crew = crew();
    faults::arm(
        FaultPoint::StartWorker,
        setup.faults.visit(FaultPoint::StartWorker),
    );
    grow(crew, setup.markers - 1);
    let mut bench = Bench::with_crew(&setup.options, crew);
    if setup.tiny_stacks {
        bench.shrink_mark_stacks();
    }
    for point in FaultPoint::ALL {
        if point != FaultPoint::StartWorker {
            faults::arm(point, setup.faults.visit(point));
        }
    }
    let others = Others::default();
    let mut program = Program::new(bench, seed, setup.options.clone());
    std::thread::scope(|threads| {
        for index in 1..setup.mutators {
            let (others, bench) = (&others, &raw mut program.bench as usize);
            threads.spawn(move || others.stop_when_told(bench as *mut Bench));
            // One after the other, and the program after all: nobody else has the heap meanwhile.
            while others.ready.load(Ordering::Acquire) < index {
                std::thread::yield_now();
            }
        }
        program.run(setup.steps);
        others.over.store(true, Ordering::Release);
    });
    let mut fired = 0;
    for point in FaultPoint::ALL {
        fired += u64::from(setup.faults.visit(point) != 0 && faults::left(point) == 0);
        faults::arm(point, 0);
    }
    let counts = Counts {
        programs: 1,
        operations: setup.steps as u64,
        collections: program.collections as u64,
        failed: 0,
        faults: fired,
    };
    drop(program);
    crew.dismiss();
    counts
}

/// The threads beside the one that runs the program.
#[derive(Default)]
struct Others {
    ready: AtomicUsize,
    over: AtomicBool,
}

/// A record of the calling thread, whose stack is not scanned. It is never freed: a stop may look at it at any time.
fn occupy(bench: &mut Bench) -> *mut Mutator {
    let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
    let (world, mutators) = (bench.heap.world, &mut bench.heap.mutators);
    // SAFETY: fresh memory that is never freed.
    unsafe {
        mutators.add(record);
        mutators.occupy(record, world, Address::NULL, false);
    }
    record
}

impl Others {
    /// A thread that can be stopped at any instruction, until the program is over.
    fn stop_when_told(&self, bench: *mut Bench) {
        // SAFETY: the program's thread waits until this one is ready, so nobody else has the heap.
        let record = occupy(unsafe { &mut *bench });
        assert!(signals::install_suspend_handler(
            signals::DEFAULT_SUSPEND,
            on_suspend
        ));
        threads::set_thread_word(record as usize);
        signals::unblock(signals::DEFAULT_SUSPEND);
        // Release: the record is there before the program goes on.
        self.ready.fetch_add(1, Ordering::Release);
        while !self.over.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        threads::set_thread_word(0);
    }
}
