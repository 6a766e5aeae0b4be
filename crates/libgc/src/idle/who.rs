//! Who may collect in idle time.
//!
//! A collection has to stop threads, and a signal ends `poll`, `select`, `epoll_wait` and `nanosleep` with `EINTR`. A program of one
//! thread never sees that under libgc. So the watcher collects programs whose threads collections have interrupted before, or need
//! not interrupt since all wait in blocking regions; and others only where the option asks for it. Nothing of the program's runs on
//! the watcher: what has callbacks, other roots, mark or disclaim procedures is collected by the program's next call. So is a program
//! of which one thread runs, since that interrupts nobody.

use gleaner_plans::mark_sweep::Heap;

use super::state;
use crate::callbacks::CALLBACKS;
use crate::settings::CLIENT;
use crate::variables::{GC_dont_gc, GC_on_heap_resize};

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who {
    /// The thread that watches.
    Watcher,
    /// The program's next call that takes the allocator lock.
    Program,
    /// Nobody, as long as the program is idle.
    Nobody,
}

/// Whether the heap is collected without being asked.
pub fn is_collected_by_itself() -> bool {
    GC_dont_gc.get() == 0 && CLIENT.no_automatic.get() == 0
}

/// Who may collect. Under the lock.
pub fn may_collect(heap: &Heap, has_other_roots: bool) -> Who {
    if !is_collected_by_itself() {
        return Who::Nobody;
    }
    let may_stop = may_be_stopped(heap);
    match runs_client_code(heap, has_other_roots) {
        false if may_stop => Who::Watcher,
        _ if may_stop || heap.mutators.running() <= 1 => Who::Program,
        _ => Who::Nobody,
    }
}

/// Whether the calling thread may stop the others in idle time. Under the lock.
pub fn may_be_stopped(heap: &Heap) -> bool {
    heap.may_be_stopped_in_idle_time(state::asks_to_collect())
}

/// Whether a collection might run something of the program's, or what may be asked for on its threads only: a search for stacks and a
/// snapshot open files. Under the lock.
pub fn runs_client_code(heap: &Heap, has_other_roots: bool) -> bool {
    let kinds = &heap.space.kinds;
    has_other_roots
        || has_callbacks()
        || GC_on_heap_resize.get().is_some()
        || heap.context.has_client_procs()
        || (0..kinds.count()).any(|kind| kinds.get(kind).is_some_and(|it| it.disclaim.is_some()))
        || heap.has_unknown_stacks()
        || heap.snapshots.is_some()
}

fn has_callbacks() -> bool {
    CALLBACKS.start.get().is_some()
        || CALLBACKS.collection_event.get().is_some()
        || CALLBACKS.thread_event.get().is_some()
        || CALLBACKS.sp_corrector.get().is_some()
        || CALLBACKS.stop.get().is_some()
        || CALLBACKS.await_finalize.get().is_some()
        || CALLBACKS.toggle.get().is_some()
        || CALLBACKS.has_roots.get().is_some()
}
