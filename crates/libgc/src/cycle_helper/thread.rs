//! The helper's thread.
//!
//! It is no thread of the heap's: it has no record, is never stopped, and allocates nothing. It never waits for the lock: the thread
//! that has it may be waiting for the helper at the end of the process. Nothing of the program's runs here.
//!
//! It is made behind the first helper that marks, so a program in which the collector has no thread gets none. Nor does one that
//! has asked that forks be left alone (`GC_set_handle_fork`): its child would find the lock held by a thread that it does not have.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use gleaner_base::sync::spin_hint;
use gleaner_os::threads::{self, Placement, Role, Thread};
use gleaner_plans::mark_sweep::cycle::Next;

use super::state::{self, WATCH};
use crate::collect::{is_enabled, through_gate};
use crate::fork;
use crate::state::{CREW, Started, is_unwanted, started, view, waiting};

/// How many collections there had been when the system last refused the thread; `u64::MAX`: it has not. Relaxed: a hint.
static REFUSED_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Rounds for which the thread spins while others have the lock: some tens of microseconds, in which most are done with it.
const SPINS: u32 = 1000;
/// For how long it sleeps where that was in vain, at first and at the most. Nanoseconds.
const SHORTEST_SLEEP_NS: u64 = 100_000;
const LONGEST_SLEEP_NS: u64 = 3_200_000;

/// Makes the helper, if there is to be one and there is another thread of ours. Where the system refuses, one behind the next
/// collection tries again. Without the lock.
#[inline]
pub fn ensure() {
    if state::is_missing() {
        make();
    }
}

#[cold]
fn make() {
    let Some(view) = view() else { return };
    let was_refused = REFUSED_AT.load(Ordering::Relaxed) == view.collections();
    let is_possible = CREW.helpers() > 0 && fork::is_handled();
    if is_possible && !was_refused && WATCH.claim() {
        state::note_helper();
        let made = through_gate(|| {
            threads::spawn(
                Role::CycleHelper,
                Placement::Anywhere,
                help,
                ptr::null_mut(),
            )
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

/// What the thread runs.
extern "C" fn help(_: *mut c_void) -> *mut c_void {
    Role::CycleHelper.name_current(1);
    if let Some(heap) = started() {
        mark_beside(heap);
    }
    ptr::null_mut()
}

/// Returns when the process ends.
fn mark_beside(heap: Started) {
    let mut sleep_ns = SHORTEST_SLEEP_NS;
    while WATCH.enter() {
        let next = turn(heap);
        if let Some(Next::Mark(turn)) = next {
            // SAFETY: this thread has begun the turn, and marks in it here alone.
            unsafe { turn.mark() };
        }
        WATCH.leave();
        match next {
            Some(next) => {
                sleep_ns = SHORTEST_SLEEP_NS;
                follow(next);
            }
            None if spin() => {}
            None => {
                WATCH.sleep(sleep_ns);
                sleep_ns = (sleep_ns * 2).min(LONGEST_SLEEP_NS);
            }
        }
    }
}

fn follow(next: Next) {
    match next {
        Next::GoOn | Next::Mark(_) => {}
        Next::ComeBack(nanoseconds) => WATCH.sleep(nanoseconds),
        Next::Rest => WATCH.rest(),
    }
}

/// Marks for a turn; nothing if others have the lock or want it. While collections are disabled it rests: the program's next
/// allocation gives the cycle up.
fn turn(heap: Started) -> Option<Next> {
    let mut locked = heap.try_lock_to_yield()?;
    let next = match is_enabled() {
        true => locked.mark_beside_program(waiting()),
        false => Next::Rest,
    };
    if next == Next::Rest {
        WATCH.begin_to_rest();
    }
    locked.unlock_yielding();
    Some(next)
}

/// Spins until nobody has the lock or wants it; whether that came soon.
fn spin() -> bool {
    for _ in 0..SPINS {
        if is_unwanted() {
            return true;
        }
        spin_hint();
    }
    false
}
