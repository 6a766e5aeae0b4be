//! Forking: the child has the heap as it was, with the mutators of the thread that forked, and works on.
//!
//! A child says by its exit status that all it did went well. One that hangs is ended by the alarm that it sets first.
#![cfg(not(loom))]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gleaner::raw::{Address, Fresh, NewObject, Shape, TypeId, Value};
use gleaner::{
    Array, Builder, Elements, Heap, Local, Mutator, Parking, References, Scope, Structure, Type,
    Zeroing,
};

#[path = "harness/asleep.rs"]
mod asleep;
#[path = "fork/lines.rs"]
mod lines;
use asleep::wait_until_asleep;

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn alarm(seconds: u32) -> u32;
    fn gettid() -> i32;
    fn _exit(code: i32) -> !;
}

/// The tests look at the threads of the process, and forks wait for each other: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks, runs `body` in the child, and fails unless that comes to its end.
fn in_child(what: &str, body: impl FnOnce()) {
    // SAFETY: the child runs `body` alone, and ends without running what the parent's other threads left behind.
    let process = unsafe { fork() };
    if process == 0 {
        // SAFETY: a system call without pointers.
        unsafe { alarm(300) };
        let done = catch_unwind(AssertUnwindSafe(body)).is_ok();
        // SAFETY: the child ends at once: nothing that the parent's other threads left behind runs.
        unsafe { _exit(if done { 0 } else { 1 }) };
    }
    assert!(process > 0, "no fork");
    let mut status = -1;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { waitpid(process, &mut status, 0) }, process);
    assert_eq!(status, 0, "{what}: 14 is the alarm of a child that hangs");
}

fn builder() -> Builder {
    Heap::builder()
        .limit(32 << 20)
        .young(4 << 20)
        .workers(3)
        .crew(gleaner::Crew::All)
        .verify(true)
}

const NODE: Structure = Structure {
    references: 2,
    bytes: 8,
};

/// A list of so many nodes, numbered from the last.
fn list<'s>(scope: &mut Scope<'s>, node: Type, count: u64) -> Local<'s> {
    let list = scope.null();
    for number in 0..count {
        scope.nested(|scope| {
            let head = scope.allocate(node).unwrap();
            scope.set(head, 0, list).unwrap();
            scope.write_u64(head, 0, number).unwrap();
            scope.assign(list, head);
        });
    }
    list
}

fn check(scope: &mut Scope<'_>, list: Local<'_>, count: u64) {
    scope.nested(|scope| {
        let at = scope.null();
        scope.assign(at, list);
        for number in (0..count).rev() {
            assert_eq!(scope.read_u64(at, 0), number);
            scope.load(at, 0, at);
        }
        assert!(scope.is_null(at));
    });
}

fn allocate_much(scope: &mut Scope<'_>, bytes: Array) {
    for _ in 0..6000 {
        scope.nested(|scope| {
            scope.allocate_array(bytes, 2000).unwrap();
        });
    }
}

/// How many threads of heaps the process has.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("gleaner-")).count()
}

/// Waits for so many: one has its name a little later than it is listed.
fn wait_for_threads(count: usize) {
    while threads() != count {
        std::thread::yield_now();
    }
}

#[test]
fn a_child_collects_under_every_policy_and_makes_threads_when_it_does() {
    let _alone = alone();
    for zeroing in [
        Zeroing::HotPath,
        Zeroing::Concurrent,
        Zeroing::ConcurrentStatic,
    ] {
        for parking in [Parking::Futex, Parking::Monitor] {
            for refs in [References::Wide, References::Compressed] {
                let heap = builder().zeroing(zeroing).parking(parking).references(refs);
                let heap = heap.options("zeroing-threads=2").unwrap().build().unwrap();
                let (node, bytes) = (
                    heap.structure(NODE).unwrap(),
                    heap.array(Elements::Bytes).unwrap(),
                );
                let expected = match zeroing {
                    Zeroing::HotPath => 2,
                    Zeroing::Concurrent => 3,
                    _ => 4,
                };
                wait_for_threads(expected);
                let mut mutator = heap.attach().unwrap();
                mutator.scope(|scope| {
                    let old = list(scope, node, 1000);
                    scope.collect(true);
                    let young = list(scope, node, 1000);
                    allocate_much(scope, bytes);
                    for _ in 0..3 {
                        in_child(&format!("{zeroing:?} {parking:?} {refs:?}"), || {
                            assert_eq!(threads(), 0, "not before a collection");
                            check(scope, young, 1000);
                            allocate_much(scope, bytes);
                            scope.collect(true);
                            wait_for_threads(expected);
                            check(scope, old, 1000);
                            check(scope, young, 1000);
                            let more = list(scope, node, 1000);
                            scope.collect(false);
                            check(scope, more, 1000);
                        });
                    }
                    check(scope, old, 1000);
                    scope.collect(true);
                    check(scope, young, 1000);
                });
            }
        }
    }
}

#[test]
fn a_child_ends_its_heaps() {
    let _alone = alone();
    let mut heap = builder().zeroing(Zeroing::Concurrent).build().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| allocate_much(scope, bytes));
    for collects in [false, true] {
        let mut child = Some((mutator, heap));
        in_child("the heap ends", || {
            let (mut mutator, heap) = child.take().unwrap();
            if collects {
                mutator.collect(true);
            }
            drop(mutator);
            heap.close().unwrap();
            wait_for_threads(0);
        });
        (mutator, heap) = child.unwrap();
    }
    drop(mutator);
    heap.close().unwrap();
}

#[test]
fn a_child_of_a_child_works_as_well() {
    let _alone = alone();
    let heap = builder().zeroing(Zeroing::Concurrent).build().unwrap();
    let (node, bytes) = (
        heap.structure(NODE).unwrap(),
        heap.array(Elements::Bytes).unwrap(),
    );
    heap.attach().unwrap().scope(|scope| {
        let kept = list(scope, node, 1000);
        in_child("a child", || {
            allocate_much(scope, bytes);
            scope.collect(true);
            in_child("its child", || {
                allocate_much(scope, bytes);
                scope.collect(true);
                check(scope, kept, 1000);
            });
            scope.collect(false);
            check(scope, kept, 1000);
        });
    });
}

/// Threads that use a heap until this is dropped.
struct Others {
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Others {
    /// `work` is done again and again.
    fn new(
        count: usize,
        heap: &Heap,
        work: impl Fn(&Heap, &mut Mutator) + Clone + Send + 'static,
    ) -> Others {
        let (over, started) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let threads = (0..count)
            .map(|_| {
                let (heap, work) = (heap.clone(), work.clone());
                let (over, started) = (over.clone(), started.clone());
                std::thread::spawn(move || {
                    let mut mutator = heap.attach().unwrap();
                    drop(heap);
                    started.fetch_add(1, Ordering::Relaxed);
                    while !over.load(Ordering::Relaxed) {
                        let heap = mutator.heap();
                        work(&heap, &mut mutator);
                    }
                })
            })
            .collect();
        while started.load(Ordering::Relaxed) < count {
            std::thread::yield_now();
        }
        Others { over, threads }
    }

    /// The calling thread is no mutator inside the heap.
    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// What an embedder's compiled code has: the address of an object in a variable.
fn fresh(mutator: &mut Mutator, id: TypeId) -> Address {
    // SAFETY: a type of this heap with so many bytes; no reference is kept over the allocation.
    unsafe { mutator.allocate_raw(NewObject::structure(id, 24), Fresh::Zeroed) }.unwrap()
}

#[test]
fn nothing_moves_in_a_fork_while_others_allocate_and_collect() {
    let _alone = alone();
    for collects in [false, true] {
        let heap = builder().build().unwrap();
        let (node, bytes) = (
            heap.structure(NODE).unwrap(),
            heap.array(Elements::Bytes).unwrap(),
        );
        let shape = Shape::Structure {
            bytes: 24,
            references: &[8, 16],
        };
        let id = heap.register_raw(shape).unwrap();
        let others = Others::new(3, &heap, move |_, mutator| {
            mutator.scope(|scope| {
                let kept = list(scope, node, 50);
                for _ in 0..100 {
                    scope.nested(|scope| {
                        scope.allocate_array(bytes, 2000).unwrap();
                    });
                }
                if collects {
                    scope.collect(false);
                }
                check(scope, kept, 50);
            });
        });
        let mut mutator = heap.attach().unwrap();
        for round in 0..60 {
            let object = fresh(&mut mutator, id);
            // SAFETY: the object was just allocated, with 16 bytes of fields; nothing is allocated meanwhile.
            unsafe { object.add(8).ptr::<[u64; 2]>().write([0, 2 * round + 1]) };
            let read = || {
                // SAFETY: the object stays where it is: nobody collects over a fork. Its second slot has an immediate.
                unsafe { object.add(16).ptr::<u64>().read() }
            };
            in_child("others at work", || {
                assert_eq!(read(), 2 * round + 1);
                // SAFETY: the object is valid until the next allocation.
                let handle = unsafe { mutator.handle_raw(Value::reference(object)) }.unwrap();
                mutator.collect(round % 2 == 0);
                for _ in 0..10_000 {
                    fresh(&mut mutator, id);
                }
                mutator.collect(true);
                let moved = handle.get_raw().as_object().unwrap();
                // SAFETY: a valid reference from a handle.
                assert_eq!(unsafe { mutator.load_raw(moved, 16) }.bits(), 2 * round + 1);
                let mut objects = 0;
                mutator.walk(&mut |_| objects += 1);
                assert!(objects >= 1);
            });
            assert_eq!(read(), 2 * round + 1);
            mutator.collect(false);
        }
        drop(mutator);
        others.end();
    }
}

#[test]
fn mutators_of_other_threads_are_gone_and_no_obstacle() {
    let _alone = alone();
    let heap = builder().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let blocked = Others::new(2, &heap, |_, mutator| {
        mutator.blocking(|| std::thread::sleep(std::time::Duration::from_millis(1)));
    });
    let coming = Others::new(1, &heap, |heap, mutator| {
        mutator.blocking(|| drop(heap.attach().unwrap()));
    });
    let mut kept = Some(heap);
    for _ in 0..40 {
        in_child("others come and go", || {
            let heap = kept.take().unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let kept = list(scope, node, 2000);
                scope.collect(true);
                check(scope, kept, 2000);
            });
            drop(mutator);
            // The threads had clones of the heap at the moment, which are lost with all else that they had.
            match heap.close() {
                Ok(()) => wait_for_threads(0),
                Err(error) => assert!(error.mutators == 0 && error.others <= 3, "{error}"),
            }
        });
    }
    blocked.end();
    coming.end();
    kept.unwrap().close().unwrap();
}

#[test]
fn only_mutators_that_are_known_count_in_the_child() {
    let _alone = alone();
    let heap = builder().build().unwrap();
    // These keep no clone of the heap but their mutators.
    let over = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let (over, ready, heap) = (over.clone(), ready.clone(), heap.clone());
            std::thread::spawn(move || {
                let mut mutator = heap.attach().unwrap();
                drop(heap);
                ready.fetch_add(1, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    mutator.poll();
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    while ready.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    let mut heap = Some(heap);
    in_child("three mutators in the parent", || {
        heap.take().unwrap().close().unwrap();
    });
    let refused = heap.unwrap().close().unwrap_err();
    assert_eq!((refused.mutators, refused.others), (3, 0));
    over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A collector that has waited for long asks whether a thread still exists: the one that forked does, by another number.
#[test]
fn the_thread_that_forked_is_waited_for_in_the_child() {
    let _alone = alone();
    let heap = builder().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let kept = list(scope, node, 1000);
        in_child("a thread that computes while another collects", || {
            std::thread::scope(|threads| {
                let other = threads.spawn(|| heap.attach().unwrap().collect(true));
                // Some times as long as a collector waits before it asks.
                std::thread::sleep(Duration::from_millis(700));
                scope.blocking(|| other.join().unwrap());
            });
            check(scope, kept, 1000);
            scope.collect(true);
            check(scope, kept, 1000);
        });
    });
}

#[test]
fn several_heaps_and_several_threads_that_fork() {
    let _alone = alone();
    let heaps: Vec<Heap> = (0..3)
        .map(|_| builder().zeroing(Zeroing::Concurrent).build().unwrap())
        .collect();
    let nodes: Vec<Type> = heaps
        .iter()
        .map(|heap| heap.structure(NODE).unwrap())
        .collect();
    // Heaps come and go, types are registered, and one thread collects.
    let extra = Others::new(1, &heaps[2], |heap, mutator| {
        let other = Heap::builder().limit(1 << 20).workers(1).build().unwrap();
        other.attach().unwrap().collect(true);
        heap.array(Elements::Words).unwrap();
        mutator.collect(false);
    });
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (heaps, nodes) = (&heaps, &nodes);
            scope.spawn(move || {
                let mut first = heaps[0].attach().unwrap();
                for _ in 0..20 {
                    // In a blocking region of the first, inside the second, and no mutator of the third.
                    first.blocking(|| {
                        let mut second = heaps[1].attach().unwrap();
                        second.scope(|scope| {
                            let kept = list(scope, nodes[1], 500);
                            in_child("three heaps", || {
                                check(scope, kept, 500);
                                scope.collect(true);
                                check(scope, kept, 500);
                                heaps[2].attach().unwrap().scope(|scope| {
                                    let kept = list(scope, nodes[2], 500);
                                    scope.collect(true);
                                    check(scope, kept, 500);
                                });
                            });
                        });
                    });
                    first.scope(|scope| {
                        let kept = list(scope, nodes[0], 500);
                        in_child("inside the first", || {
                            scope.collect(true);
                            check(scope, kept, 500);
                        });
                    });
                }
            });
        }
    });
    extra.end();
}

#[test]
fn a_thread_that_ended_inside_the_gate_holds_up_no_fork() {
    let _alone = alone();
    // A fork that waits for ever is ended by the alarm.
    in_child("the parent of the forks", || {
        let lose = |heap: &Heap| {
            let heap = heap.clone();
            let lost = move || std::mem::forget(heap.attach().unwrap());
            std::thread::spawn(lost).join().unwrap();
        };
        let heap = builder().build().unwrap();
        let node = heap.structure(NODE).unwrap();
        lose(&heap);
        in_child("one that others have, too", || {
            heap.attach().unwrap().scope(|scope| {
                let kept = list(scope, node, 100);
                scope.collect(true);
                check(scope, kept, 100);
            });
        });
        heap.attach().unwrap().collect(true);
        heap.close().unwrap();
        let last = builder().zeroing(Zeroing::Concurrent).build().unwrap();
        lose(&last);
        drop(last);
        wait_for_threads(3);
        in_child("the last one of its heap", || assert_eq!(threads(), 0));
        wait_for_threads(0);
    });
}

/// How the thread waits that is inside the second heap.
#[derive(Clone, Copy, Debug)]
enum Waits {
    ForTheLock,
    AtTheGate,
}

#[test]
fn a_thread_inside_one_heap_that_waits_for_another_holds_up_no_fork() {
    let _alone = alone();
    for how in [Waits::ForTheLock, Waits::AtTheGate] {
        for swapped in [false, true] {
            in_child(&format!("{how:?}, {swapped}"), || {
                let mut heaps = [(); 2].map(|()| builder().build().unwrap());
                heaps.rotate_left(swapped.into());
                fork_in_a_cycle(&heaps, how);
            });
        }
    }
}

/// A thread inside the first heap forks, while one that collects it waits for that thread, and one inside the second
/// heap waits for that collection.
fn fork_in_a_cycle([first, second]: &[Heap; 2], how: Waits) {
    let (place, collects) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let mut own = first.attach().unwrap();
        let (place, collects) = (&place, &collects);
        scope.spawn(move || {
            let mut waiting = first.attach().unwrap();
            let inside = waiting.blocking(|| {
                let inside = second.attach().unwrap();
                // SAFETY: it only answers.
                let number = unsafe { gettid() };
                place.store(number as usize, Ordering::Release);
                while !collects.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                if let Waits::ForTheLock = how {
                    first.totals();
                }
                inside
            });
            drop(inside);
        });
        while place.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let collecting = scope.spawn(|| first.attach().unwrap().collect(true));
        // SAFETY: the record exists as long as the mutator; its poll word is an atomic.
        let poll = unsafe { &(*own.published()).poll };
        while poll.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        collects.store(true, Ordering::Release);
        wait_until_asleep(place.load(Ordering::Relaxed));
        in_child("the cycle", || own.collect(true));
        own.blocking(|| collecting.join().unwrap());
    });
}

/// The thread that asks waits for mutators, and the one that forks for it: while a mutator stands, it counts as outside.
#[test]
fn handshakes_and_forks_hold_up_neither() {
    let _alone = alone();
    in_child("handshakes and forks", || {
        let (heap, ended) = (builder().build().unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut mutator = heap.attach().unwrap();
                while !ended.load(Ordering::Relaxed) {
                    mutator.handshake(|_| ());
                }
            });
            let mut own = heap.attach().unwrap();
            for _ in 0..30 {
                in_child("a child of it", || {
                    let count = AtomicUsize::new(0);
                    own.handshake(|_| {
                        count.fetch_add(1, Ordering::Relaxed);
                    });
                    assert_eq!(count.into_inner(), 1);
                    own.collect(true);
                });
                own.poll();
            }
            ended.store(true, Ordering::Relaxed);
            drop(own);
        });
    });
}

#[test]
fn a_listener_may_fork() {
    let _alone = alone();
    let heap = builder().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let forks = Arc::new(AtomicUsize::new(0));
    let count = forks.clone();
    heap.add_collection_listener(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            in_child("a listener", || {});
        }
    });
    heap.attach().unwrap().scope(|scope| {
        let kept = list(scope, node, 100);
        scope.collect(true);
        scope.collect(true);
        check(scope, kept, 100);
    });
    assert_eq!(forks.load(Ordering::Relaxed), 2);
    // And its child goes on where the listener was called.
    let parent = std::process::id();
    let heap = builder().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    let child = Arc::new(AtomicUsize::new(usize::MAX));
    let told = child.clone();
    heap.add_collection_listener(move |_| {
        if told.load(Ordering::Relaxed) == usize::MAX {
            // SAFETY: the child ends below, without running what the parent's other threads left behind.
            let process = unsafe { fork() };
            told.store(process as usize, Ordering::Relaxed);
        }
    });
    let done = catch_unwind(AssertUnwindSafe(|| {
        heap.attach().unwrap().scope(|scope| {
            let kept = list(scope, node, 100);
            scope.collect(true);
            scope.collect(true);
            check(scope, kept, 100);
        });
    }));
    if std::process::id() != parent {
        // SAFETY: the child of the listener ends here.
        unsafe { _exit(if done.is_ok() { 0 } else { 1 }) };
    }
    done.unwrap();
    let (process, mut status) = (child.load(Ordering::Relaxed) as i32, -1);
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { waitpid(process, &mut status, 0) }, process);
    assert_eq!(status, 0);
}

#[test]
fn what_mutators_counted_that_the_child_has_lost_is_kept() {
    let _alone = alone();
    let heap = builder().options("arrays=zray").unwrap().build().unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let (is_ready, ends) = (AtomicBool::new(false), AtomicBool::new(false));
    let until = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                for _ in 0..5 {
                    scope.allocate_array(bytes, 10_000).unwrap();
                }
            });
            mutator.blocking(|| {
                is_ready.store(true, Ordering::Release);
                until(&ends);
            });
        });
        until(&is_ready);
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let mut mutator = heap.attach().unwrap();
            let before = mutator.array_counts();
            assert_eq!(before.spines, 5);
            in_child("counts", || assert_eq!(mutator.array_counts(), before));
        }));
        ends.store(true, Ordering::Release);
        checked.unwrap();
    });
}

/// In a child what lives keeps its place in the old space, and with it the pages that it shares, unless an option has it
/// slid together.
#[test]
fn a_child_that_collects_everything_moves_what_lives_by_option_alone() {
    let _alone = alone();
    for (child_old, stays) in [
        ("mark-sweep", true),
        ("mark-region", true),
        ("mark-compact", false),
    ] {
        for generations in ["auto", "never"] {
            let options = format!("child-old={child_old},generations={generations}");
            let heap = builder().options(&options).unwrap().build().unwrap();
            let node = heap.structure(NODE).unwrap();
            let bytes = heap.array(Elements::Bytes).unwrap();
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| {
                let dead = list(scope, node, 10_000);
                let kept = list(scope, node, 10_000);
                // Both are old and lie side by side; then the lower one dies.
                scope.collect(true);
                scope.collect(true);
                let places = |scope: &mut Scope<'_>| {
                    scope.nested(|scope| {
                        let at = scope.null();
                        scope.assign(at, kept);
                        let mut places = Vec::new();
                        while !scope.is_null(at) {
                            places.push(scope.get_raw(at).as_object().unwrap());
                            scope.load(at, 0, at);
                        }
                        places
                    })
                };
                let before = places(scope);
                let null = scope.null();
                scope.assign(dead, null);
                in_child(child_old, || {
                    scope.collect(true);
                    assert_eq!(places(scope) == before, stays, "{options}");
                    // The child goes on: holes are filled, and what it makes dies.
                    for _ in 0..3 {
                        scope.nested(|scope| {
                            let own = list(scope, node, 20_000);
                            allocate_much(scope, bytes);
                            check(scope, own, 20_000);
                        });
                    }
                    scope.collect(true);
                    assert_eq!(places(scope) == before, stays, "{options}");
                    check(scope, kept, 10_000);
                    // What gives memory back slides nevertheless.
                    scope.trim();
                    assert_ne!(places(scope), before, "{options}");
                    check(scope, kept, 10_000);
                });
                // The parent slides as ever.
                scope.collect(true);
                assert_ne!(places(scope), before, "{options}");
                check(scope, kept, 10_000);
            });
        }
    }
}

/// Where something is pinned, a child that would slide frees in place: free lines, if the holes that it has are such. Otherwise it
/// would soon have no room.
#[test]
fn a_child_in_which_something_is_pinned_goes_on_with_free_lines() {
    let _alone = alone();
    let options = "old=mark-region,child-old=mark-compact,heap-limit=6m";
    let heap = builder().options(options).unwrap().build().unwrap();
    let node = heap.structure(NODE).unwrap();
    heap.attach().unwrap().scope(|scope| {
        let lists = [(); 16].map(|()| {
            let one = list(scope, node, 2000);
            scope.collect(true);
            one
        });
        let null = scope.null();
        lists
            .iter()
            .step_by(2)
            .for_each(|&dead| scope.assign(dead, null));
        scope.collect(true);
        in_child(options, || {
            let place = scope.pin(lists[1]).unwrap();
            let own = scope.null();
            for round in 0..60 {
                scope.nested(|scope| {
                    let next = list(scope, node, 5000);
                    scope.assign(own, next);
                });
                scope.collect(round % 2 == 0);
                scope.collect(true);
                check(scope, own, 5000);
                for &kept in lists.iter().skip(1).step_by(2) {
                    check(scope, kept, 2000);
                }
                scope.nested(|scope| {
                    let next = list(scope, node, 2000);
                    scope.assign(lists[round * 5 % 7 * 2 + 3], next);
                });
                assert_eq!(scope.pin(lists[1]), Ok(place));
            }
        });
    });
}
