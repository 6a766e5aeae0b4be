//! Every fault point that a heap can meet fires, and the heap copes. Points are one for the whole process, so this is
//! one test after the other.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_base::faults::{FaultPoint, arm, armed};
use gleaner_base::options::Options;
use gleaner_mem::Address;
use gleaner_os::topology::Topology;
use gleaner_os::{signals, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::{Mutator, Mutators};
use gleaner_plans::mark_sweep::stop::protocol::World;
use gleaner_plans::mark_sweep::stop::signal::{on_suspend, resume_world, stop_world};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use harness::{Bench, Exhausted, crew, grow};

#[test]
fn every_point_fires_and_the_heap_copes() {
    commit_memory_fails();
    memory_is_exhausted_for_one_request_only();
    reserving_fails();
    a_worker_does_not_start();
    a_mark_stack_is_full();
    the_list_of_libraries_changed();
    a_thread_acknowledges_late();
}

/// The system refuses memory once: the heap collects and tries again.
fn commit_memory_fails() {
    for (kind, bytes) in [(NORMAL, 100), (NORMAL, 100_000), (PTRFREE, 3000)] {
        for visit in 1..=2 {
            let mut bench = Bench::new("");
            arm(FaultPoint::CommitMemory, visit);
            let kept = bench.allocate(kind, bytes).unwrap();
            bench.keep(kept);
            let second = bench.allocate(NORMAL, 200_000).unwrap();
            assert!(bench.heap.space.object_base(second.word()).is_some());
            // A visit that was not reached until here comes with the other part of the heap.
            bench.allocate(PTRFREE, 16).unwrap();
            assert!(!armed(FaultPoint::CommitMemory));
            arm(FaultPoint::CommitMemory, 0);
            assert!(bench.heap.collections >= 1, "{bytes} bytes, visit {visit}");
            bench.collect();
            assert!(bench.marked().contains(&kept.word()));
            bench.verify_collected();
        }
    }
}

/// A request that the range can never meet fails alone: the heap goes on as before, and collects as often as before.
fn memory_is_exhausted_for_one_request_only() {
    let mut bench = Bench::new("");
    let before = bench.heap.space.capacity;
    for bytes in [15 << 20, 17 << 20, 1 << 30, 1 << 45] {
        // The first fits the range when it is empty, not beside another of its size.
        if bytes == 15 << 20 {
            let big = bench.allocate(NORMAL, bytes).unwrap();
            bench.keep(big);
        }
        let refused = bench.allocate(NORMAL, bytes);
        assert_eq!(
            refused,
            Err(Exhausted(bench.heap.space.layout.used_up())),
            "{bytes:#x}"
        );
        let used = bench.heap.space.used_bytes();
        assert!(
            bench.heap.space.capacity <= used + before,
            "{} for {used}",
            bench.heap.space.capacity
        );
        assert!(bench.heap.space.capacity >= used);
        bench.allocate(NORMAL, 50_000).unwrap();
        bench.verify();
    }
}

fn reserving_fails() {
    let mut options = Options::DEFAULT;
    options.reserve = 64 << 20;
    let world: &'static World = Box::leak(Box::new(World::new()));
    // The first refusal halves the range.
    arm(FaultPoint::ReserveMemory, 1);
    let heap =
        Heap::new(&options, false, Topology::host(), crew(), world).expect("a smaller range");
    assert_eq!(heap.context.table.span, 32 << 20);
    // Without a mark stack there is no heap, be it addresses that are refused or memory.
    for (point, count) in [
        (FaultPoint::ReserveMemory, 2),
        (FaultPoint::CommitMemory, 1),
    ] {
        arm(point, count);
        let refused = Heap::new(&options, false, Topology::host(), crew(), world);
        assert!(refused.is_err_and(|error| error.asked >= 1 << 20));
    }
    // In the smallest range there is nothing to halve.
    options.reserve = 8 << 20;
    arm(FaultPoint::ReserveMemory, 1);
    assert!(
        Heap::new(&options, false, Topology::host(), crew(), world)
            .is_err_and(|error| error.asked >= 8 << 20)
    );
}

/// Marking goes on with the workers that there are.
fn a_worker_does_not_start() {
    let crew = crew();
    arm(FaultPoint::StartWorker, 2);
    assert_eq!(grow(crew, 3), 1);
    let mut bench = Bench::with_crew("markers=4", crew);
    let kept = bench.allocate(NORMAL, 2 << 20).unwrap();
    bench.keep(kept);
    bench.collect();
    bench.collect();
    assert_eq!(bench.events(Phase::Mark).last().unwrap().workers, 2);
    // A worker without a mark stack does not take part.
    assert_eq!(grow(crew, 3), 3);
    arm(FaultPoint::ReserveMemory, 1);
    bench.collect();
    assert_eq!(bench.events(Phase::Mark).last().unwrap().workers, 2);
    bench.collect();
    assert_eq!(bench.events(Phase::Mark).last().unwrap().workers, 4);
    crew.dismiss();
}

fn a_mark_stack_is_full() {
    for policy in [
        "prefetch=none",
        "prefetch=on-grey",
        "prefetch=fifo",
        "prefetch=edges",
    ] {
        let mut bench = Bench::new(policy);
        let tree = bench.allocate(NORMAL, 8000).unwrap();
        bench.keep(tree);
        for leaf in 0..1000 {
            let object = bench.allocate(NORMAL, 64).unwrap();
            let behind = bench.allocate(PTRFREE, 64).unwrap();
            // SAFETY: the test's own objects.
            unsafe {
                tree.add(leaf * 8).store(object.word());
                object.add(8).store(behind.word());
            }
        }
        arm(FaultPoint::MarkStackFull, 3);
        bench.collect();
        assert!(!armed(FaultPoint::MarkStackFull));
        let overflows = bench.events(Phase::Overflow);
        assert_eq!((overflows.len(), overflows[0].objects), (1, 1), "{policy}");
        assert_eq!(bench.marked().len(), 2001, "{policy}");
        bench.verify_collected();
    }
}

/// The list of libraries is read again, and the collection is run then.
fn the_list_of_libraries_changed() {
    let mut bench = Bench::new("");
    arm(FaultPoint::LibraryListChanged, 1);
    bench.collect();
    assert_eq!(bench.heap.collections, 1);
    assert_eq!(
        bench.events(Phase::StopWorld).len(),
        2,
        "the first stop was in vain"
    );
    assert_eq!(bench.events(Phase::Mark).len(), 1);
    assert!(!bench.heap.world.is_stopped());
}

/// A signal that seems lost is sent again; the stop waits for the thread nevertheless.
fn a_thread_acknowledges_late() {
    const SIGNAL: i32 = signals::DEFAULT_SUSPEND;
    assert!(signals::install_suspend_handler(SIGNAL, on_suspend));
    let world: &'static World = Box::leak(Box::new(World::new()));
    let mut mutators = Mutators::new();
    let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
    // SAFETY: fresh memory that is never freed; the thread puts its own number there.
    unsafe {
        mutators.add(record);
        mutators.occupy(record, world, Address::new(threads::stack_top()), false);
    }
    let (address, turn) = (record as usize, std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let (mutators, turn) = (&mutators, &turn);
        let thread = scope.spawn(move || {
            let record = address as *mut Mutator;
            // SAFETY: the stopper waits for the barrier before it looks.
            unsafe { (*record).tid = threads::current_tid() };
            threads::set_thread_word(address);
            signals::unblock(SIGNAL);
            turn.wait();
            turn.wait();
            threads::set_thread_word(0);
        });
        turn.wait();
        arm(FaultPoint::SuspendAckLate, 1);
        // SAFETY: this thread alone stops and resumes the world, and no record comes or goes.
        let stopped = unsafe { stop_world(world, mutators, SIGNAL) }.unwrap();
        assert!(!armed(FaultPoint::SuspendAckLate));
        // SAFETY: the record stays mapped.
        assert!(world.has_stopped(unsafe { &(*record).station }, world.epoch()));
        resume_world(world, stopped);
        turn.wait();
        thread.join().unwrap();
    });
}
