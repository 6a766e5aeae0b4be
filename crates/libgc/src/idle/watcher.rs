//! The thread that looks whether the program is idle.
//!
//! It is no thread of the heap's: it has no record, is never stopped, and allocates nothing. It never waits for the allocator lock:
//! where somebody has that, the program is not idle. Between two pieces it lets those go first who wait for the lock.

use core::ffi::c_void;
use core::ptr;

use gleaner_os::threads::{self, Placement, Role, Thread};
use gleaner_plans::mark_sweep::decide::idle::{Next, Watch};

use super::state::{WATCH, after_ns, note_watcher};
use crate::collect::through_gate;
use crate::state::{CREW, Started, started};

/// The time between two pieces.
const BETWEEN_PIECES_NS: u64 = 200_000;

/// Makes the watcher, if one is wanted and there is another thread of ours. Where the system refuses, calls go on looking, and
/// the next one tries again. Without the lock.
#[inline]
pub fn ensure() {
    if after_ns().is_some() && WATCH.is_absent() && CREW.helpers() > 0 {
        make();
    }
}

#[cold]
fn make() {
    if WATCH.claim() {
        note_watcher();
        let made = through_gate(|| {
            threads::spawn(Role::Watcher, Placement::Anywhere, watch, ptr::null_mut())
        });
        match made {
            Some(thread) => Thread::detach(thread),
            None => WATCH.abandon(),
        }
    }
}

/// What the watcher's thread runs.
extern "C" fn watch(_: *mut c_void) -> *mut c_void {
    Role::Watcher.name_current(1);
    if let (Some(heap), Some(after_ns)) = (started(), after_ns()) {
        watch_over(heap, Watch::new(after_ns));
    }
    ptr::null_mut()
}

/// Returns when the process ends.
fn watch_over(heap: Started, mut watch: Watch) {
    while WATCH.enter() {
        let next = look(heap, &mut watch);
        WATCH.leave();
        match next {
            Next::LookAfter(nanoseconds) => WATCH.sleep(nanoseconds),
            Next::GiveBack => WATCH.sleep(BETWEEN_PIECES_NS),
            Next::Rest => WATCH.rest(),
        }
    }
}

fn look(heap: Started, watch: &mut Watch) -> Next {
    let Some(mut heap) = heap.try_lock() else {
        watch.begin_anew();
        return Next::LookAfter(watch.period_ns());
    };
    let next = heap.look_for_idleness(watch);
    if next == Next::Rest {
        WATCH.begin_to_rest();
    }
    heap.unlock();
    next
}
