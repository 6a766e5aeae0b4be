//! Fork: the child has one thread, a whole heap, and no helpers until it needs them.
//!
//! Before the fork the gate is closed through which threads pass when they take the loader's lock, which the child
//! could never release. Other code takes that lock without the gate: so a child asks the loader only if the list of
//! libraries is not the one of the last collection any more. Then the allocator lock is taken, so that no collection is
//! in progress and the heap is consistent; then the arena's lock. All are released in the opposite order on both sides.
//! This is the only registry of hooks.
//!
//! No hook runs where the program forks by a system call of its own. Such a child makes the heap whole when it takes the allocator
//! lock for the first time, or is about to collect ([`crate::state::notice_fork`]). Nobody has waited for other threads there: if one
//! was inside the library, the process ends with a message. If the helper marked, the cycle is given up.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use gleaner_os::{fork, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::Mutator;

use crate::start::start;
use crate::state::{CREW, LOADER_GATE, Locked, MAIN_THREAD, is_ready, notice_fork};
use crate::variables::GC_parallel;

/// What `GC_set_handle_fork` said: 1 by hooks, -1 by hand, 0 not at all.
static MODE: AtomicI32 = AtomicI32::new(1);

/// Whether this process was forked since the library started. Written by its only thread then.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether the loader's lock may be one that nobody can release. That libraries came or went shows that it is not.
pub fn is_child() -> bool {
    notice_fork();
    IS_CHILD.load(Ordering::Relaxed)
}

/// Whether forks are told to the library, by hooks or by hand.
pub fn is_handled() -> bool {
    MODE.load(Ordering::Relaxed) != 0
}

/// Installs the hooks if the client wants them. A child where none runs is told by a page, if the kernel can do that.
pub fn install_hooks() {
    fork::mark_process();
    if MODE.load(Ordering::Relaxed) == 1 && !fork::register(before, after_in_parent, after_in_child)
    {
        crate::message::die(format_args!("cannot install fork handlers"));
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_handle_fork(value: c_int) {
    if !is_ready() {
        MODE.store(
            if value == -1 {
                -1
            } else {
                c_int::from(value != 0)
            },
            Ordering::Relaxed,
        );
    }
}

extern "C" fn before() {
    start().lock_all().keep();
}

/// The heap again, in the functions that follow `before`.
fn held() -> Locked {
    // SAFETY: the calling thread took the lock in `before`, and has no reference to the heap since.
    unsafe { Locked::by_contract() }
}

extern "C" fn after_in_parent() {
    held().unlock_all();
}

extern "C" fn after_in_child() {
    crate::ARENA.unlock();
    let mut heap = held();
    begin_in_child(&mut heap);
    heap.unlock();
}

/// Makes the heap whole in a child, which has one thread. That is the calling one, and holds the allocator lock.
pub fn begin_in_child(heap: &mut Heap) {
    fork::mark_process();
    CREW.forget_helpers_after_fork();
    threads::forget_markers_after_fork();
    crate::idle::state::WATCH.forget_after_fork();
    crate::cycle_helper::state::forget_after_fork();
    GC_parallel.set(0);
    keep_only_this_thread(heap);
    IS_CHILD.store(true, Ordering::Relaxed);
    heap.begin_in_child();
    LOADER_GATE.open();
}

/// The other threads do not exist in the child; their cells become free, their stacks are no roots.
fn keep_only_this_thread(heap: &mut Heap) {
    let own = Mutator::current();
    while let Some(other) = heap.mutators.find(|record| !core::ptr::eq(record, own)) {
        // SAFETY: the record comes from the list; its thread does not exist in this process.
        unsafe { heap.retire(other) };
    }
    crate::non_gc_bytes::sync_variables(heap);
    if own.is_null() {
        return;
    }
    // SAFETY: the calling thread's own record, under the lock.
    unsafe { (*own).tid = threads::current_tid() };
    if MAIN_THREAD.load(Ordering::Relaxed) != own {
        MAIN_THREAD.store(core::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_atfork_prepare() {
    start();
    if MODE.load(Ordering::Relaxed) == -1 {
        before();
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_atfork_parent() {
    if MODE.load(Ordering::Relaxed) == -1 {
        after_in_parent();
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_atfork_child() {
    if MODE.load(Ordering::Relaxed) == -1 {
        after_in_child();
    }
}
