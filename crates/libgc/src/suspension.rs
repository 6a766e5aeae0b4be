//! Stopping threads at the client's wish: all of them (`gc.h`) or one (`javaxfc.h`).

use core::ffi::c_int;

use gleaner_os::threads;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::stop::signal::{here, hold_thread, stop_world};

use crate::collect::die_of_refusal;
use crate::lock::Section;
use crate::records::record_of;
use crate::start::{start, with_heap};
use crate::state::{Locked, WORLD};

/// As in gc.h: stops every other registered thread and keeps the allocator lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_stop_world_external() {
    let heap = start().lock();
    let signal = heap.settings.suspend_signal;
    // SAFETY: the lock is held and stays the client's until `GC_start_world_external`, which ends what the proof, not used
    // here, stands for.
    let stopped = unsafe { stop_world(heap.world, &heap.mutators, signal) };
    stopped
        .unwrap_or_else(|refused| die_of_refusal(refused))
        .end();
    heap.leave_to_client(Section::StoppedWorld);
}

/// As in gc.h: undoes `GC_stop_world_external`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_world_external() {
    // SAFETY: the calling thread holds the lock since `GC_stop_world_external`, in the section that this opened.
    let heap = unsafe { Locked::by_contract() };
    heap.world.resume();
    heap.end_of_client();
}

/// As in javaxfc.h: holds one thread until `GC_resume_thread`. Other threads allocate and collect meanwhile, so it is held
/// where it has no lock that they will want.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_suspend_thread(thread: usize) {
    if thread == threads::current_pthread().0 {
        return hold_this_thread();
    }
    let heap = start().lock_all();
    if let Some(record) = record_of(&heap, thread) {
        let signal = heap.settings.suspend_signal;
        // SAFETY: a record of the list, under the lock.
        let held = hold_thread(heap.world, unsafe { &*record }, signal);
        if let Err(refused) = held {
            crate::ARENA.unlock();
            die_of_refusal(refused);
        }
    }
    heap.unlock_all();
}

fn hold_this_thread() {
    let own = threads::current_pthread().0;
    let is_registered = with_heap(|heap| {
        let record = record_of(heap, own);
        if let Some(record) = record {
            // SAFETY: a record of the list, under the lock.
            unsafe { (*record).station.hold() };
        }
        record.is_some()
    });
    if is_registered {
        let record = Mutator::current();
        // SAFETY: the calling thread's own record; it sleeps here until it is resumed.
        unsafe { WORLD.stop_here(&(*record).station, here().word()) };
    }
}

/// As in javaxfc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_resume_thread(thread: usize) {
    with_heap(|heap| {
        if let Some(record) = record_of(heap, thread) {
            // SAFETY: a record of the list, under the lock.
            unsafe { (*record).station.release() };
        }
    });
}

/// As in javaxfc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_thread_suspended(thread: usize) -> c_int {
    with_heap(|heap| {
        record_of(heap, thread).map_or(0, |record| {
            // SAFETY: a record of the list, under the lock.
            c_int::from(unsafe { (*record).station.is_on_hold() })
        })
    })
}
