//! The threads of a heap: each runs a closure, and is joined before the heap ends.

use core::ffi::c_void;
use std::ptr;

use gleaner_os::threads::{Placement, Role, Thread, spawn};

use gleaner_plans::scavenge::Config;

use crate::guarded::Guarded;
use crate::members;

/// Threads that were started and are to be joined. Its holder waits for the system at most, which starts one.
pub(crate) type Threads = Guarded<Vec<Thread>>;

/// Starts a thread of a role; `None` when the system refuses. A panic in `body` ends the process.
fn start<B: FnOnce() + Send + 'static>(
    role: Role,
    placement: Placement<'_>,
    body: B,
) -> Option<Thread> {
    extern "C" fn run<B: FnOnce()>(body: *mut c_void) -> *mut c_void {
        // SAFETY: the box that `start` made for this thread alone.
        let body = unsafe { Box::from_raw(body.cast::<B>()) };
        body();
        ptr::null_mut()
    }
    let body = Box::into_raw(Box::new(body));
    let started = spawn(role, placement, run::<B>, body.cast());
    if started.is_none() {
        // SAFETY: made above, and there is no thread that has it.
        drop(unsafe { Box::from_raw(body) });
    }
    started
}

/// Starts thread `index` of a role, counted from 1, on the processors of a memory node, where the heap places threads
/// and the node has some.
pub(crate) fn start_on<B: FnOnce() + Send + 'static>(
    config: &Config,
    node: usize,
    (role, index): (Role, usize),
    body: B,
) -> Option<Thread> {
    let processors = config
        .places_threads()
        .then(|| config.topology.processors_of_node(node));
    let placement = match &processors {
        Some(processors) if !processors.is_empty() => Placement::On(processors),
        _ => Placement::Anywhere,
    };
    start(role, placement, move || {
        role.name_current(index);
        members::note_collector();
        body();
    })
}

/// Waits until all of them have ended.
pub(crate) fn join(threads: &Threads) {
    threads
        .with(std::mem::take)
        .into_iter()
        .for_each(Thread::join);
}
