//! Blocking regions, and what a thread must not do in them or twice: it works, or is refused by name. Nothing hangs.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[cfg(debug_assertions)]
use gleaner::raw::Wide;
use gleaner::raw::{self, Address, Frame, Fresh, NewObject, Shape, TypeId, Value};
use gleaner::{Builder, Finalizing, Heap, Mutator, Structure, Zeroing};

use crate::again::path;
use crate::setups::checked;

fn builder() -> Builder {
    checked(8 << 20)
}

fn heap() -> Heap {
    builder().build().unwrap()
}

const BYTES: usize = 24;

fn register(heap: &Heap) -> TypeId {
    let shape = Shape::Structure {
        bytes: BYTES,
        references: &[8, 16],
    };
    heap.register_raw(shape).unwrap()
}

fn allocate(mutator: &mut Mutator, id: TypeId) -> Address {
    // SAFETY: a type of this heap with so many bytes; no reference is kept over an allocation.
    unsafe { mutator.allocate_raw(NewObject::structure(id, BYTES), Fresh::Zeroed) }.unwrap()
}

/// What `body` says when it panics.
fn refused(body: impl FnOnce()) -> String {
    let panicked = catch_unwind(AssertUnwindSafe(body)).expect_err("not refused");
    match panicked.downcast::<String>() {
        Ok(said) => *said,
        Err(other) => (*other.downcast::<&str>().unwrap()).into(),
    }
}

/// Another thread collects, which takes that this one is outside of the gate.
fn others_collect(heap: &Heap, times: u64) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut mutator = heap.attach().unwrap();
            for _ in 0..times {
                mutator.collect(true);
            }
        });
    });
}

#[test]
fn a_thread_attaches_once() {
    let heap = heap();
    let mut mutator = heap.attach().unwrap();
    let said = refused(|| drop(heap.attach()));
    assert!(
        said.starts_with("this thread is a mutator of this heap already"),
        "{said}"
    );
    // Nothing came of it: collections do not wait.
    mutator.collect(true);
    mutator.blocking(|| {
        let mut second = heap.attach().unwrap();
        second.collect(true);
        refused(|| drop(heap.attach()));
    });
    mutator.collect(true);
    // Another heap is another matter, and so is this one when the first is gone.
    let other = builder().build().unwrap();
    other.attach().unwrap().collect(true);
    drop(mutator);
    heap.attach().unwrap().collect(true);
}

#[test]
fn regions_nest() {
    let heap = heap();
    let id = register(&heap);
    let mut mutator = heap.attach().unwrap();
    let kept = allocate(&mut mutator, id);
    // SAFETY: valid, just allocated.
    let handle = unsafe { mutator.handle_raw(Value::reference(kept)) }.unwrap();
    for depth in 1..5 {
        // SAFETY: the mutator is used by functions that are refused there, or allowed.
        unsafe {
            (0..depth).for_each(|_| mutator.blocking_begin());
            for _ in 0..depth {
                others_collect(&heap, 1);
                mutator.blocking_end();
            }
        }
        mutator.collect(false);
        allocate(&mut mutator, id);
        let said = refused(|| {
            // SAFETY: the call panics before it changes anything, since no region was begun.
            unsafe { mutator.blocking_end() };
        });
        assert_eq!(said, "the end of a blocking region that was not begun");
    }
    // The totals are asked for in a region, too.
    // SAFETY: the mutator is only asked for its totals until the region ends, and the object is in a handle.
    unsafe { mutator.blocking_begin() };
    let before = mutator.totals().full_collections;
    others_collect(&heap, 1);
    assert_eq!(mutator.totals().full_collections, before + 1);
    // SAFETY: no reference from before the region is used again: the object is in a handle.
    unsafe { mutator.blocking_end() };
    assert!(handle.get_raw().as_object().is_some());
}

#[test]
fn what_uses_the_heap_in_a_region_is_refused_by_name() {
    for zeroing in [Zeroing::HotPath, Zeroing::Window, Zeroing::Bulk] {
        let heap = builder().zeroing(zeroing).build().unwrap();
        let id = register(&heap);
        let mut mutator = heap.attach().unwrap();
        let object = allocate(&mut mutator, id);
        // There is room in the buffer: it is not by a lack of room that the allocation is noticed.
        let before = mutator.allocated_bytes();
        type Use = (&'static str, fn(&mut Mutator, TypeId, Address));
        let uses: [Use; 10] = [
            ("an allocation", |mutator, id, _| {
                allocate(mutator, id);
            }),
            ("an allocation", |mutator, id, _| {
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe {
                    mutator.allocate_raw(NewObject::structure(id, BYTES), Fresh::Unwritten)
                };
            }),
            ("an allocation", |mutator, id, _| {
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe { mutator.allocate_pinned_raw(NewObject::structure(id, BYTES)) };
            }),
            ("a collection", |mutator, _, _| mutator.collect(false)),
            ("a walk", |mutator, _, _| mutator.walk(&mut |_| ())),
            ("a handle is made", |mutator, _, object| {
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe { mutator.handle_raw(Value::reference(object)) };
            }),
            ("a weak reference is made", |mutator, _, object| {
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe { mutator.weak_raw(object) };
            }),
            ("an ephemeron is made", |mutator, _, object| {
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe { mutator.ephemeron_raw(object, object) };
            }),
            ("a finalizer is made", |mutator, _, object| {
                let finalizing = Finalizing::default();
                // SAFETY: in the region the call panics before it touches the heap.
                let _ = unsafe { mutator.finalizer_raw(object, Value::NULL, finalizing) };
            }),
            ("a finalizer is taken", |mutator, _, _| {
                mutator.next_finalizer_raw();
            }),
        ];
        for (what, used) in uses {
            // SAFETY: what is done in the region is refused.
            unsafe { mutator.blocking_begin() };
            let said = refused(|| used(&mut mutator, id, object));
            // SAFETY: the region began in this round, and nobody collected in it.
            unsafe { mutator.blocking_end() };
            assert_eq!(
                said,
                format!(
                    "{what} inside a blocking region, or by a mutator that was detached: collections do not \
                     wait for this thread there; end the region first"
                )
            );
        }
        // The buffer is what it was: nobody collected, so it has not been lost either.
        assert_eq!(mutator.allocated_bytes(), before);
        allocate(&mut mutator, id);
        assert_eq!(mutator.allocated_bytes(), before + BYTES as u64);
        // And if somebody collects meanwhile, there is a new one.
        // SAFETY: nothing is used in the region.
        unsafe { mutator.blocking_begin() };
        others_collect(&heap, 1);
        // SAFETY: the region was begun before the others collected; no reference from before it is used again.
        unsafe { mutator.blocking_end() };
        for _ in 0..100_000 {
            allocate(&mut mutator, id);
        }
    }
}

#[test]
fn what_uses_the_heap_in_a_walk_or_a_listener_is_refused_by_name() {
    let heap = heap();
    let id = register(&heap);
    let place = Arc::new(Mutex::new(None::<usize>));
    let (told, found) = (place.clone(), Arc::new(Mutex::new(Vec::new())));
    let messages = found.clone();
    heap.add_collection_listener(move |_| {
        if let Some(place) = *told.lock().unwrap() {
            // SAFETY: the mutator of this thread, which leads. It breaks the rules of listeners, which is refused.
            let mutator = unsafe { &mut *(place as *mut Mutator) };
            messages
                .lock()
                .unwrap()
                .push(refused(|| mutator.collect(false)));
        }
    });
    let mut mutator = heap.attach().unwrap();
    allocate(&mut mutator, id);
    *place.lock().unwrap() = Some(&raw mut mutator as usize);
    mutator.collect(true);
    *place.lock().unwrap() = None;
    assert_eq!(found.lock().unwrap().len(), 1);
    assert!(found.lock().unwrap()[0].starts_with("a collection by a listener: "));
    allocate(&mut mutator, id);
    let own = &raw mut mutator;
    let mut said = Vec::new();
    mutator.walk(&mut |_| {
        // SAFETY: the mutator of this thread. This breaks the rules of walks, which is refused.
        said.push(refused(|| unsafe { &mut *own }.collect(true)));
    });
    assert_eq!(
        said,
        ["a collection by a function that visits all objects: the heap is stopped there"]
    );
    mutator.collect(true);
}

/// What `body` says on standard error in a child, which is this test binary with the same test.
fn said_by_child(test: &str, body: impl FnOnce()) -> Option<String> {
    if std::env::var_os(CASE).is_some() {
        body();
        return None;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &path(module_path!(), test), "--nocapture"])
        .env(CASE, test)
        .output()
        .unwrap();
    Some(String::from_utf8_lossy(&child.stderr).into_owned())
}

/// Set in the child of [`said_by_child`].
const CASE: &str = "GLEANER_TEST_REGIONS_CHILD";

#[test]
fn a_mutator_of_a_region_does_not_outlive_it() {
    let heap = heap();
    let mut mutator = heap.attach().unwrap();
    let outlives =
        "the end of a blocking region inside which this thread attached to the same heap again";
    for own_panic in [false, true] {
        let mut second = None;
        let said = refused(|| {
            mutator.blocking(|| {
                second = Some(heap.attach().unwrap());
                assert!(!own_panic, "a panic of the region's own");
            });
        });
        let expected = if own_panic { "a panic of" } else { outlives };
        assert!(said.starts_with(expected), "{said}");
        // The second one works; the first is where it was, in its region.
        second.as_mut().unwrap().collect(true);
        let said = refused(|| mutator.collect(true));
        assert!(
            said.starts_with("a collection inside a blocking region"),
            "{said}"
        );
        drop(second);
        // SAFETY: the region that was not ended; it had no references.
        unsafe { mutator.blocking_end() };
        mutator.collect(true);
    }
    // A second mutator in a region of its own is no mistake.
    let mut second = mutator.blocking(|| {
        let mut second = heap.attach().unwrap();
        // SAFETY: the mutator is not used until the region ends.
        unsafe { second.blocking_begin() };
        second
    });
    mutator.collect(true);
    // SAFETY: the call panics before it changes anything, since the first mutator is inside.
    let said = refused(|| unsafe { second.blocking_end() });
    assert!(said.starts_with(outlives), "{said}");
    drop(second);
    mutator.collect(true);
}

#[test]
fn a_mutator_that_is_checked_is_not_dropped_inside_an_open_frame() {
    let plain = builder().verify(false).build().unwrap();
    for (heap, refuses) in [(heap(), true), (plain, false)] {
        let mut mutator = heap.attach().unwrap();
        let mut frame = Frame {
            previous: std::ptr::null_mut(),
            count: 0,
        };
        // SAFETY: the frame has no values, and lasts as long as the mutator.
        unsafe { mutator.set_frame(&raw mut frame) };
        if refuses {
            let said = refused(|| drop(mutator));
            assert!(said.starts_with("detaching inside an open frame"), "{said}");
        } else {
            drop(mutator);
        }
        // It is detached nevertheless, so nobody waits for it.
        heap.attach().unwrap().collect(true);
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_store_in_a_region_is_refused_in_debug_builds() {
    let heap = heap();
    let id = register(&heap);
    let numbers = Shape::Primitives { log2: 3 };
    let numbers = heap.register_raw(numbers).unwrap();
    let mut mutator = heap.attach().unwrap();
    let array = NewObject::array(numbers, 4, 48);
    // SAFETY: types of this heap with so many bytes; nothing collects between here and the region, in which stores are
    // refused.
    unsafe {
        let object = allocate(&mut mutator, id);
        let array = mutator.allocate_raw(array, Fresh::Zeroed).unwrap();
        mutator.store_raw(object, 8, Value::NULL);
        mutator.store_element_in::<u64>(array, 0, 7).unwrap();
        mutator.blocking_begin();
        let mut said = vec![refused(|| mutator.store_raw(object, 8, Value::NULL))];
        said.push(refused(|| {
            mutator.initialize_in::<Wide>(object, 8, Value::NULL)
        }));
        said.push(refused(|| {
            mutator.store_element_in::<u64>(array, 0, 7).unwrap()
        }));
        mutator.blocking_end();
        assert!(
            said.iter()
                .all(|said| said.starts_with("a store inside a blocking region")),
            "{said:?}"
        );
    }
}

#[test]
fn a_trace_function_that_uses_the_heap_ends_the_process_by_name() {
    /// # Safety
    /// `data` is a heap.
    unsafe extern "C" fn attach(data: *mut (), _: *mut u8, _: *mut raw::Visitor) {
        // SAFETY: the test passes a heap, which outlives its objects.
        let _ = unsafe { &*data.cast::<Heap>() }.attach();
    }
    let said = said_by_child(
        "a_trace_function_that_uses_the_heap_ends_the_process_by_name",
        || {
            let heap = heap();
            let trace = raw::Trace {
                function: attach,
                data: (&raw const heap).cast_mut().cast(),
            };
            let size = raw::Size::Fixed(BYTES);
            let id = heap.register_raw(Shape::Traced { size, trace }).unwrap();
            let mut mutator = heap.attach().unwrap();
            let object = allocate(&mut mutator, id);
            // SAFETY: valid, just allocated.
            let _kept = unsafe { mutator.handle_raw(Value::reference(object)) };
            mutator.collect(true);
        },
    );
    let expected = "attaching by a trace function, a size function or a root visitor: the heap is stopped there";
    assert!(said.is_none_or(|said| said.contains(expected)));
}

#[test]
fn a_listener_that_panics_is_named_and_the_others_are_told() {
    let said = said_by_child(
        "a_listener_that_panics_is_named_and_the_others_are_told",
        || {
            let heap = heap();
            heap.add_collection_listener(|_| panic!("as it likes"));
            let told = Arc::new(AtomicUsize::new(0));
            let count = told.clone();
            heap.add_collection_listener(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            let mut mutator = heap.attach().unwrap();
            assert_eq!(refused(|| mutator.collect(true)), "as it likes");
            assert_eq!(told.load(Ordering::Relaxed), 1);
            eprintln!("the second was told");
        },
    );
    let expected = "gleaner: a listener panicked when it was told of collection 1: as it likes; ";
    assert!(
        said.is_none_or(|said| said.contains(expected) && said.contains("the second was told"))
    );
}

#[test]
fn a_region_inside_a_scope_keeps_its_locals_and_holds_nobody_up() {
    let heap = heap();
    let node = heap
        .structure(Structure {
            references: 1,
            bytes: 8,
        })
        .unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let outer = scope.allocate(node).unwrap();
        scope.write_u64(outer, 0, 1).unwrap();
        scope.nested(|scope| {
            let inner = scope.allocate(node).unwrap();
            scope.write_u64(inner, 0, 2).unwrap();
            scope.set(outer, 0, inner).unwrap();
            let answer = scope.blocking(|| {
                others_collect(&heap, 3);
                42
            });
            assert_eq!(answer, 42);
            let found = scope.get(outer, 0);
            assert!(scope.same(found, inner));
            assert_eq!((scope.read_u64(outer, 0), scope.read_u64(inner, 0)), (1, 2));
        });
        // It ends when its body panics, too.
        refused(|| scope.blocking(|| panic!("in a region")));
        scope.collect(true);
        assert_eq!(scope.read_u64(outer, 0), 1);
    });
    assert_eq!(mutator.totals().full_collections, 4);
}

/// A thread loses its mutator, and ends; the embedder in C comes to that if it attaches in the last round of destructors.
#[test]
fn a_thread_that_ended_as_a_mutator_is_found() {
    let heap = heap();
    let id = register(&heap);
    let mut mutator = heap.attach().unwrap();
    for lost in 1..4 {
        let (heap, attached) = (&heap, AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..lost {
                scope.spawn(|| {
                    let mut mutator = heap.attach().unwrap();
                    allocate(&mut mutator, id);
                    attached.fetch_add(1, Ordering::Relaxed);
                    std::mem::forget(mutator);
                });
            }
            // Nobody ends a scope whose threads have not ended.
            while attached.load(Ordering::Relaxed) < lost {
                mutator.poll();
                std::thread::yield_now();
            }
        });
        mutator.collect(true);
        mutator.collect(false);
    }
    drop(mutator);
    heap.close().unwrap();
}
