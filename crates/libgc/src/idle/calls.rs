//! What the program's calls for memory do for idle time: they wake the watcher, look whether they become rare, and collect what the
//! watcher may not.

use gleaner_base::events::reasons::{HAD_BEEN_IDLE, LITTLE_ALLOCATED};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::Mutator;

use super::state::{self, WATCH, Why};
use super::who::{self, Who};
use crate::collect::{self, Order};
use crate::records;

/// The calling thread has got memory. Under the lock, perhaps in an inner section. Why it is to collect when it has given the lock
/// back, if it is.
#[inline]
pub fn note(heap: &mut Heap, inner: bool) -> Option<Why> {
    state::after_ns()?;
    note_while_asked(heap, inner)
}

fn note_while_asked(heap: &mut Heap, inner: bool) -> Option<Why> {
    let is_watched = !WATCH.is_absent();
    WATCH.stir();
    let are_rare = heap.note_call(is_watched);
    let may_collect = !inner
        && who::is_collected_by_itself()
        && !Mutator::current().is_null()
        && !records::is_on_foreign_stack();
    if !may_collect {
        return None;
    }
    if are_rare {
        let is_left = is_watched && collect::who_collects_in_idle_time(heap) == Who::Watcher;
        if !is_left && heap.calls_for_collection_by_program() {
            return Some(Why::CallsBecameRare);
        }
    }
    let why = state::take_call(heap)?;
    // Others may have begun to run since the watcher has seen that they do not.
    who::may_be_stopped(heap).then_some(why)
}

/// Collects. Without the lock.
#[cold]
pub fn collect_because(why: Why) {
    collect::collect(Order {
        reason: match why {
            Why::CallsBecameRare => LITTLE_ALLOCATED,
            Why::WasIdle => HAD_BEEN_IDLE,
        },
        unless_past: None,
        release_all: false,
        everything: true,
        in_steps: false,
        obeys_stop: true,
        asked: false,
        snapshot: false,
    });
}
