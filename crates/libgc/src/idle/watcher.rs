//! The thread that looks whether the program is idle.
//!
//! It is no thread of the heap's: it has no record, is never stopped, and allocates nothing. It never waits for the allocator lock:
//! where somebody has that, it looks again later. Between two pieces it lets those go first who wait for the lock. Where it
//! collects, nothing of the program's runs; finalizers that become ready wait for the program's next call.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use gleaner_base::events::reasons::NOTHING_ALLOCATED;
use gleaner_os::threads::{self, Placement, Role, Thread};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::decide::idle::{Next, Watch};
use gleaner_plans::mark_sweep::decide::idle_collection::LEAST_USED;

use super::state::{self, WATCH, after_ns, note_watcher};
use super::who::Who;
use crate::collect::{self, through_gate};
use crate::state::{CREW, Started, started, view};

/// How many collections there had been when the system last refused the thread; `u64::MAX`: it has not. Relaxed: a hint.
static REFUSED_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// The time between two pieces.
const BETWEEN_PIECES_NS: u64 = 200_000;

/// Makes the watcher, if one is wanted and there is another thread of ours, or the option asks to collect a heap of this size. Where
/// the system refuses, calls go on looking, and one behind the next collection tries again. Without the lock.
#[inline]
pub fn ensure() {
    if after_ns().is_some() && WATCH.is_absent() {
        make_if_wanted();
    }
}

fn make_if_wanted() {
    let Some(view) = view() else { return };
    let is_large = || view.space().used_bytes() >= LEAST_USED;
    let is_wanted = CREW.helpers() > 0 || state::asks_to_collect() && is_large();
    let was_refused = REFUSED_AT.load(Ordering::Relaxed) == view.collections();
    if is_wanted && !was_refused && WATCH.claim() {
        note_watcher();
        let made = through_gate(|| {
            threads::spawn(Role::Watcher, Placement::Anywhere, watch, ptr::null_mut())
        });
        match made {
            Some(thread) => Thread::detach(thread),
            None => {
                REFUSED_AT.store(view.collections(), Ordering::Relaxed);
                WATCH.abandon();
            }
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
            Next::Consider => {}
            Next::Rest => WATCH.rest(),
        }
    }
}

fn look(heap: Started, watch: &mut Watch) -> Next {
    let Some(mut locked) = heap.try_lock() else {
        return Next::LookAfter(watch.period_ns());
    };
    let mut next = locked.look_for_idleness(watch);
    let mut collects = false;
    if next == Next::Consider {
        match consider(&mut locked) {
            Considered::Now => collects = true,
            Considered::Later => next = watch.consider_again(),
            Considered::Not => {}
        }
    }
    if next == Next::Rest {
        WATCH.begin_to_rest();
    }
    locked.unlock();
    if collects && collect::collect_beside(NOTHING_ALLOCATED) {
        go_on(heap, watch);
    }
    next
}

/// Whether the watcher is to collect.
enum Considered {
    Now,
    /// It will pay when the program has been idle for longer.
    Later,
    Not,
}

/// Whether a collection pays and the watcher may collect. Where the program has to do that, its next call will.
fn consider(heap: &mut Heap) -> Considered {
    let who = collect::who_collects_in_idle_time(heap);
    let holds_up = who == Who::Program;
    if who == Who::Nobody {
        Considered::Not
    } else if heap.calls_for_collection(holds_up) {
        if holds_up {
            state::call_on_program(heap);
            return Considered::Not;
        }
        Considered::Now
    } else if heap.will_call_for_collection(holds_up) {
        Considered::Later
    } else {
        Considered::Not
    }
}

/// Goes on where the collection has left the heap, unless somebody is there already.
fn go_on(heap: Started, watch: &mut Watch) {
    if let Some(locked) = heap.try_lock() {
        locked.go_on_watching(watch);
        locked.unlock();
    }
}
