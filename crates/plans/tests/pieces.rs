//! A heap that starts under an address limit, which holds for the whole process: hence a program of its own.

#![cfg(not(loom))]

mod harness;

use core::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use gleaner_os::memory;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::view::SpaceView;
use harness::Bench;

unsafe extern "C" {
    fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    fn setrlimit(resource: c_int, limits: *const [u64; 2]) -> c_int;
}
const RLIMIT_AS: c_int = 9;

/// A child has no thread but the one that forked: who read cells in the parent then reads none in the child, and never says so.
#[test]
fn a_child_gives_addresses_back_that_a_thread_of_its_parent_read() {
    let mut limits = [0; 2];
    // SAFETY: a place for two numbers.
    assert_eq!(unsafe { getrlimit(RLIMIT_AS, &mut limits) }, 0);
    limits[0] = limits[0].min(2 << 30);
    // SAFETY: two numbers.
    assert_eq!(unsafe { setrlimit(RLIMIT_AS, &limits) }, 0);
    let mut bench = Bench::new("reserve=2g");
    assert!(bench.heap.space.layout.is_in_pieces());
    let objects = [(); 100].map(|()| bench.allocate(NORMAL, 4096).unwrap());
    let object = objects[0];
    bench.collect();
    // SAFETY: the space stays where it is.
    let view = unsafe { SpaceView::new(&raw const bench.heap.space) };
    let reader = || view.while_reading(|| resume_unwind(Box::new("lost by the fork")));
    assert!(catch_unwind(AssertUnwindSafe(reader)).is_err());
    bench.heap.space.give_back_between();
    assert!(memory::is_readable(object.word(), 4096));
    bench.heap.begin_in_child();
    assert!(bench.heap.space.give_back_between());
    assert!(!memory::is_readable(object.word(), 4096));
}
