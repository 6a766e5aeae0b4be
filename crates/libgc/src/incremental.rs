//! Incremental mode (gc.h): on where the program asks for it and the kernel tells which pages were written, unless the
//! options say otherwise (`generations`). Nothing is protected that the program could notice, so no store must be
//! announced, no system call fails, and no handler of signals is installed.

use core::ffi::{c_int, c_void};

use gleaner_base::options::MarkGenerations;

use crate::collect;
use crate::environment::is_set;
use crate::message::say;
use crate::settings::{CLIENT, choose_time_limit};
use crate::start::with_heap;
use crate::variables::GC_find_leak;

/// As in gc.h: what is asked for while leaks are looked for, or where the options name another mode, is ignored.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_enable_incremental() {
    let ignored = GC_find_leak.get() != 0 || is_set(c"GC_DISABLE_INCREMENTAL");
    let enabled = with_heap(|heap| match ignored {
        true => Ok(false),
        false => heap.enable_incremental(),
    });
    match enabled {
        Ok(true) => choose_time_limit(),
        Ok(false) => {}
        Err(unavailable) => say(format_args!(
            "GC_enable_incremental: not possible here, so that every collection is finished in one stop: {unavailable}"
        )),
    }
}

/// As in gc.h: whether marks are kept from one collection to the next, since the program or the options asked for that.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_incremental_mode() -> c_int {
    let is_asked = |mode| mode != MarkGenerations::Auto;
    c_int::from(with_heap(|heap| {
        is_asked(heap.mode) && heap.space.written.is_some()
    }))
}

/// As in gc.h: `GC_PROTECTS_NONE`, since the kernel lets every write through and remembers it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// As in gc.h: begins a cycle, unless one is under way.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_incremental_collection() {
    let (possible, seen) = with_heap(|heap| {
        let possible = heap.mode == MarkGenerations::Incremental && heap.space.written.is_some();
        (possible && !heap.cycle.is_under_way(), heap.turns)
    });
    if possible {
        collect::begin_unless(seen, "GC_start_incremental_collection");
    }
}

/// As in gc.h: remembered.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_manual_vdb_allowed(value: c_int) {
    CLIENT.manual_dirty_bits.set(c_int::from(value != 0));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_manual_vdb_allowed() -> c_int {
    CLIENT.manual_dirty_bits.get()
}

/// As in gc.h: there are no dirty bits to set, since the kernel sees stores where they matter.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_end_stubborn_change(_object: *const c_void) {}

/// As in gc.h: nothing depends on an object being declared unchanging.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_change_stubborn(_object: *const c_void) {}

/// As in gc.h: an ordinary object.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_stubborn(bytes: usize) -> *mut c_void {
    crate::allocate::GC_malloc(bytes)
}

/// As in gc.h: only the store is left to do.
///
/// # Safety
/// `place` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_ptr_store_and_dirty(place: *mut c_void, value: *const c_void) {
    // SAFETY: `place` is writable, as asked.
    unsafe { place.cast::<*const c_void>().write_volatile(value) };
}
