//! What an embedder does with the threads of a heap: it interrupts one, stops all, and makes those of the heap itself.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use crate::setups::checked;
use gleaner::{Builder, Structure, Zeroing};

fn builder() -> Builder {
    checked(8 << 20)
}

#[test]
fn an_interrupt_is_delivered_by_a_poll_of_its_mutator_alone() {
    let heap = builder().build().unwrap();
    let node = Structure {
        references: 1,
        bytes: 8,
    };
    let node = heap.structure(node).unwrap();
    let mut mutator = heap.attach().unwrap();
    let interrupter = mutator.interrupter();
    assert!(!interrupter.request(), "without a handler");
    let count = Rc::new(Cell::new(0));
    let counts = count.clone();
    mutator.set_interrupt_handler(move |scope| {
        counts.set(counts.get() + 1);
        // The handler uses the heap, and an interrupt of now comes with a later poll.
        assert!(scope.allocate(node).is_ok());
        scope.collect(false);
        assert!(counts.get() > 1 || interrupter.request());
        scope.poll();
    });
    mutator.scope(|scope| {
        let kept = scope.allocate(node).unwrap();
        scope.write_u64(kept, 0, 7).unwrap();
        std::thread::scope(|threads| {
            threads.spawn(|| assert!(interrupter.request() && interrupter.request()));
        });
        // Neither an allocation nor a collection delivers it.
        (0..10_000).for_each(|_| scope.nested(|scope| assert!(scope.allocate(node).is_ok())));
        scope.collect(true);
        assert_eq!(count.get(), 0);
        scope.poll();
        assert_eq!(count.get(), 1);
        scope.poll();
        assert_eq!(count.get(), 2);
        scope.poll();
        assert_eq!(count.get(), 2);
        assert_eq!(scope.read_u64(kept, 0), 7);
    });
    // In a region it waits for a poll behind it.
    mutator.blocking(|| assert!(interrupter.request()));
    assert_eq!(count.get(), 2);
    mutator.poll();
    assert_eq!(count.get(), 3);
    drop(mutator);
    assert!(!interrupter.request(), "without a mutator");
    let other = heap.attach().unwrap();
    assert!(!interrupter.request(), "of another mutator");
    drop(other);
}

/// Interrupts are bits of the word by which collections stop mutators: neither loses the other.
#[test]
fn interrupts_and_collections_do_not_lose_each_other() {
    let heap = builder().build().unwrap();
    let (tell, told) = mpsc::channel();
    let ended = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            let (count, counts) = (Rc::new(Cell::new(0)), tell.clone());
            let seen = count.clone();
            mutator.set_interrupt_handler(move |_| {
                seen.set(seen.get() + 1);
                counts.send(seen.get()).unwrap();
            });
            tell.send(0).unwrap();
            let interrupter = mutator.interrupter();
            mutator.blocking(|| REQUESTS.lock().unwrap().push(interrupter));
            while !ended.load(Ordering::Relaxed) {
                mutator.poll();
            }
        });
        assert_eq!(told.recv(), Ok(0));
        let interrupter = loop {
            if let Some(interrupter) = REQUESTS.lock().unwrap().pop() {
                break interrupter;
            }
            std::thread::yield_now();
        };
        let mut mutator = heap.attach().unwrap();
        for count in 1..200 {
            assert!(interrupter.request());
            mutator.collect(count % 8 == 0);
            assert_eq!(mutator.blocking(|| told.recv()), Ok(count));
        }
        ended.store(true, Ordering::Relaxed);
        drop(mutator);
    });
}

#[test]
fn a_handler_that_panics_is_gone_and_one_that_is_interrupted_is_called_again() {
    let heap = builder().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    let interrupter = mutator.interrupter();
    assert!(!interrupter.request());
    mutator.set_interrupt_handler(|_| panic!("not now"));
    assert!(interrupter.request());
    let poll = std::panic::AssertUnwindSafe(|| mutator.poll());
    std::panic::catch_unwind(poll).unwrap_err();
    assert!(!interrupter.request());
    let calls = Rc::new(Cell::new(0));
    let count = calls.clone();
    mutator.set_interrupt_handler(move |_| {
        count.set(count.get() + 1);
        assert!(count.get() == 3 || interrupter.request());
    });
    assert!(interrupter.request());
    for expected in [1, 2, 3, 3] {
        mutator.poll();
        assert_eq!(calls.get(), expected);
    }
}

static REQUESTS: Mutex<Vec<gleaner::Interrupter>> = Mutex::new(Vec::new());

#[test]
fn all_mutators_stand_still_in_a_stop() {
    let heap = builder().build().unwrap();
    let (moves, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let mut mutator = heap.attach().unwrap();
                while !ended.load(Ordering::Relaxed) {
                    moves.fetch_add(1, Ordering::Relaxed);
                    mutator.poll();
                }
            });
        }
        let mut mutator = heap.attach().unwrap();
        while moves.load(Ordering::Relaxed) < 2 {
            mutator.poll();
        }
        for _ in 0..50 {
            let answer = mutator.stop_and_call(|| {
                let before = moves.load(Ordering::Relaxed);
                (0..100).for_each(|_| std::thread::yield_now());
                moves.load(Ordering::Relaxed) - before
            });
            assert_eq!(answer, 0);
            let before = moves.load(Ordering::Relaxed);
            while moves.load(Ordering::Relaxed) == before {
                mutator.poll();
            }
        }
        ended.store(true, Ordering::Relaxed);
        drop(mutator);
    });
}

#[test]
fn a_stop_in_which_the_heap_is_used_is_refused_and_goes_on_behind_a_panic() {
    let heap = builder().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    let attach = std::panic::AssertUnwindSafe(|| {
        mutator.stop_and_call(|| drop(heap.attach()));
    });
    let said = std::panic::catch_unwind(attach).unwrap_err();
    let said = said.downcast::<String>().unwrap();
    assert!(
        said.starts_with("attaching by a function for which mutators are stopped"),
        "{said}"
    );
    mutator.collect(true);
}

/// Threads that poll, that allocate and that block: each is asked once, the last by the thread that asks.
#[test]
fn a_handshake_asks_each_mutator_once_wherever_it_is() {
    let heap = builder().build().unwrap();
    let node = Structure {
        references: 1,
        bytes: 8,
    };
    let node = heap.structure(node).unwrap();
    let (ready, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (end, is_ended) = mpsc::channel::<()>();
    let blocks = Mutex::new(is_ended);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            ready.fetch_add(1, Ordering::Relaxed);
            while !ended.load(Ordering::Relaxed) {
                mutator.poll();
            }
        });
        threads.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            ready.fetch_add(1, Ordering::Relaxed);
            while !ended.load(Ordering::Relaxed) {
                mutator.scope(|scope| assert!(scope.allocate(node).is_ok()));
            }
        });
        threads.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            mutator.blocking(|| {
                ready.fetch_add(1, Ordering::Relaxed);
                let _ = blocks.lock().unwrap().recv();
            });
        });
        let mut mutator = heap.attach().unwrap();
        while ready.load(Ordering::Relaxed) < 3 {
            mutator.poll();
        }
        for round in 0..100 {
            let asked = Mutex::new(Vec::new());
            mutator.handshake(|of| asked.lock().unwrap().push(of));
            let asked = asked.into_inner().unwrap();
            let each: HashSet<_> = asked.iter().copied().collect();
            assert_eq!((asked.len(), each.len()), (4, 4));
            assert!(each.contains(&mutator.interrupter()));
            mutator.collect(round % 8 == 0);
        }
        ended.store(true, Ordering::Relaxed);
        drop(end);
        drop(mutator);
    });
}

/// A function that panics leaves no note behind; one that uses the heap is refused.
#[test]
fn a_handshake_whose_function_panics_is_over() {
    let heap = builder().build().unwrap();
    let mut mutator = heap.attach().unwrap();
    let attach = std::panic::AssertUnwindSafe(|| mutator.handshake(|_| drop(heap.attach())));
    let said = std::panic::catch_unwind(attach).unwrap_err();
    let said = said.downcast::<String>().unwrap();
    assert!(said.starts_with("attaching by a function for which mutators are stopped"));
    let count = AtomicUsize::new(0);
    mutator.poll();
    mutator.handshake(|_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    mutator.collect(true);
    assert_eq!(count.into_inner(), 1);
}

#[test]
fn a_factory_makes_all_threads_of_a_heap_and_waits_for_them() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let running = Arc::new(AtomicUsize::new(0));
    let (named, runs) = (names.clone(), running.clone());
    let heap = builder()
        .workers(3)
        .zeroing(Zeroing::Concurrent)
        .thread_factory(move |thread| {
            named.lock().unwrap().push(thread.name().to_owned());
            let runs = runs.clone();
            let started = std::thread::spawn(move || {
                runs.fetch_add(1, Ordering::Relaxed);
                thread.run();
                runs.fetch_sub(1, Ordering::Relaxed);
            });
            Some(Box::new(move || started.join().unwrap()))
        })
        .build()
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    (0..4).for_each(|number| mutator.collect(number % 2 == 0));
    drop(mutator);
    let mut made = names.lock().unwrap().clone();
    made.sort();
    assert_eq!(made, ["gleaner-1", "gleaner-2", "gleaner-zero-1"]);
    heap.close().unwrap();
    assert_eq!(running.load(Ordering::Relaxed), 0);
}

#[test]
fn a_heap_does_without_threads_that_its_factory_refuses() {
    let heap = builder()
        .workers(4)
        .zeroing(Zeroing::Concurrent)
        .thread_factory(|_| None)
        .build()
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.collect(true);
    mutator.collect(false);
}
