//! How long a heap lives: as long as anything of it does, whatever is dropped first and wherever; then its threads are
//! gone and its memory is free.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc};

use gleaner::raw::{Address, Fresh, NewObject, Shape, TypeId, Value};
use gleaner::{Generations, Heap, Mutator};
use gleaner_os::threads::current_tid;

#[path = "harness/asleep.rs"]
mod asleep;

/// The tests look at the threads of the process: one has heaps at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const BYTES: usize = 24;
/// As much of the spaces behind an object as is looked at. No mapping that comes to lie there is so large.
const LOOKED_AT: usize = 96 << 20;

/// A heap with two helpers and a zeroing thread. What the deciders make of the time that its collections take changes
/// nothing: how often [`work`] collects is certain.
fn heap() -> (Heap, TypeId) {
    let heap = Heap::builder()
        .limit(256 << 20)
        .young(8 << 20)
        .resize(false)
        .generations(Generations::Always)
        .workers(3)
        .crew(gleaner::Crew::All)
        .options("zeroing=concurrent")
        .unwrap()
        .build()
        .unwrap();
    let shape = Shape::Structure {
        bytes: BYTES,
        references: &[],
    };
    let id = heap.register_raw(shape).unwrap();
    (heap, id)
}

fn allocate(mutator: &mut Mutator, id: TypeId) -> Address {
    // SAFETY: a type of this heap and its bytes; no reference is kept over an allocation.
    unsafe { mutator.allocate_raw(NewObject::structure(id, BYTES), Fresh::Zeroed) }.unwrap()
}

/// Uses the heap: buffers are taken, and collections run.
fn work(mutator: &mut Mutator, id: TypeId) -> Address {
    let before = mutator.totals();
    for _ in 0..(24 << 20) / BYTES {
        allocate(mutator, id);
    }
    mutator.collect(true);
    let after = mutator.totals();
    assert!(after.scavenges > before.scavenges && after.full_collections > before.full_collections);
    allocate(mutator, id)
}

/// How many threads of heaps there are.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("gleaner-")).count()
}

/// Waits for so many: a thread is listed a little longer than it is joined.
fn wait_for_threads(count: usize) {
    while threads() != count {
        std::thread::yield_now();
    }
}

/// Whether all of the memory behind an object is mapped.
fn is_mapped(object: Address) -> bool {
    let (mut at, end) = (object.word(), object.word() + LOOKED_AT);
    for line in fs::read_to_string("/proc/self/maps").unwrap().lines() {
        let (low, high) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |digits| usize::from_str_radix(digits, 16).unwrap();
        if number(low) <= at && at < number(high) {
            at = number(high);
        }
    }
    at >= end
}

#[test]
fn the_last_mutator_ends_a_heap_that_was_dropped() {
    let _alone = alone();
    let (heap, id) = heap();
    let mut first = heap.attach().unwrap();
    let (tell, told) = mpsc::channel();
    drop(heap);
    let heap = first.heap();
    std::thread::scope(|scope| {
        first.blocking(|| {
            scope.spawn(move || {
                let mut second = heap.attach().unwrap();
                drop(heap);
                work(&mut second, id);
                tell.send(()).unwrap();
            });
            told.recv().unwrap();
        });
    });
    let object = work(&mut first, id);
    wait_for_threads(3);
    assert!(is_mapped(object));
    drop(first);
    wait_for_threads(0);
    assert!(!is_mapped(object));
}

#[test]
fn a_heap_may_end_on_another_thread_than_it_was_made_on() {
    let _alone = alone();
    let (heap, id) = heap();
    let (attached, go) = (mpsc::channel(), mpsc::channel());
    let mutator = std::thread::spawn(move || {
        let mut mutator = heap.attach().unwrap();
        attached.0.send(heap).unwrap();
        mutator.blocking(|| go.1.recv().unwrap());
        let object = work(&mut mutator, id);
        assert!(is_mapped(object));
        wait_for_threads(3);
        object
    });
    drop(attached.1.recv().unwrap());
    go.0.send(()).unwrap();
    let object = mutator.join().unwrap();
    wait_for_threads(0);
    assert!(!is_mapped(object));
}

#[test]
fn a_handle_keeps_a_heap() {
    let _alone = alone();
    let (heap, id) = heap();
    let mut mutator = heap.attach().unwrap();
    let object = allocate(&mut mutator, id);
    // SAFETY: just allocated.
    let handle = unsafe { mutator.handle_raw(Value::reference(object)) }.unwrap();
    drop(mutator);
    drop(heap);
    assert!(is_mapped(object) && handle.get_raw().as_object() == Some(object));
    std::thread::spawn(move || drop(handle)).join().unwrap();
    wait_for_threads(0);
    assert!(!is_mapped(object));
}

#[test]
fn closing_a_heap_in_use_is_refused_with_the_numbers() {
    let _alone = alone();
    let (heap, id) = heap();
    let mut mutator = heap.attach().unwrap();
    let heap = heap.close().expect_err("a mutator");
    assert_eq!((heap.mutators, heap.others), (1, 0));
    let object = work(&mut mutator, id);
    // SAFETY: just allocated, and nothing is allocated until the last is made.
    let (handle, weak) = unsafe {
        let handle = mutator.handle_raw(Value::reference(object)).unwrap();
        (handle, mutator.weak_raw(object).unwrap())
    };
    let heap = heap.heap.close().expect_err("a mutator and more");
    assert_eq!((heap.mutators, heap.others), (1, 2));
    let said = heap.to_string();
    assert!(
        said.contains("mutators: 1;") && said.contains("clones of it: 2;"),
        "{said}"
    );
    drop(mutator);
    let heap = heap
        .heap
        .close()
        .expect_err("a handle and a weak reference");
    assert_eq!((heap.mutators, heap.others), (0, 2));
    drop((handle, weak));
    let heap = heap.heap;
    let clone = heap.clone();
    let heap = heap.close().expect_err("a clone");
    assert_eq!((heap.mutators, heap.others), (0, 1));
    drop(clone);
    assert!(is_mapped(object));
    heap.heap.close().unwrap();
    wait_for_threads(0);
    assert!(!is_mapped(object));
}

/// The signals that each thread of a heap blocks, as the kernel has them.
fn blocked_by_threads() -> Vec<u64> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok())
        .filter(|status| status.starts_with("Name:\tgleaner-"))
        .map(|status| {
            let line = status.lines().find(|line| line.starts_with("SigBlk:"));
            u64::from_str_radix(line.unwrap()[7..].trim(), 16).unwrap()
        })
        .collect()
}

#[test]
fn threads_of_a_heap_block_all_signals_but_faults() {
    let _alone = alone();
    let before = gleaner_os::signals::blocked();
    let (heap, _) = heap();
    wait_for_threads(3);
    // All but those of the C library, the two that nobody can block, and the two of faults: one that meets a stale
    // reference runs the handler that says so.
    let bit = |signal: u32| 1 << (signal - 1);
    let expected = !(bit(32) | bit(33) | bit(9) | bit(19) | bit(7) | bit(11));
    // The C library starts a thread with its own signals blocked, too.
    while blocked_by_threads().iter().any(|mask| mask & bit(32) != 0) {
        std::thread::yield_now();
    }
    assert_eq!(blocked_by_threads(), [expected; 3]);
    assert_eq!(gleaner_os::signals::blocked(), before);
    drop(heap);
    wait_for_threads(0);
}

/// A mutator is listed a little longer than its record exists, so requests are refused before that goes. This one waits
/// for the lock of the heap, under which it goes.
#[test]
fn no_interrupt_reaches_a_mutator_that_is_about_to_be_gone() {
    let _alone = alone();
    let (heap, _) = heap();
    let (ready, detaches) = (OnceLock::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut stops = heap.attach().unwrap();
        scope.spawn(|| {
            let mut leaves = heap.attach().unwrap();
            leaves.set_interrupt_handler(|_| ());
            let interrupter = leaves.interrupter();
            // SAFETY: only its drop follows.
            unsafe { leaves.blocking_begin() };
            ready.set((interrupter, current_tid().0)).unwrap();
            // Not asleep, so that it sleeps only where it waits for the lock.
            while !detaches.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            drop(leaves);
        });
        let (interrupter, thread) = stops.blocking(|| *ready.wait());
        let reached = stops.stop_and_call(|| {
            let before = interrupter.request();
            detaches.store(true, Ordering::Relaxed);
            asleep::wait_until_asleep(thread);
            (before, interrupter.request())
        });
        assert_eq!(reached, (true, false));
    });
}
