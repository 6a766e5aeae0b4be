//! Incremental mode (gc.h): accepted and ignored. Every collection stops the world and finishes before the program
//! goes on, and the getters say that the mode is off. Which pages were written matters under `generations=sticky` alone,
//! and there the kernel tells it: nothing is protected that the program could notice, and no store must be announced.

use core::ffi::{c_int, c_void};

use crate::settings::CLIENT;
use crate::start::start;

/// As in gc.h, except that the mode stays off: only starts the heap.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_enable_incremental() {
    start();
}

/// As in gc.h: always off.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_incremental_mode() -> c_int {
    0
}

/// As in gc.h: nothing is ever write-protected.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_incremental_protection_needs() -> c_int {
    0
}

/// As in gc.h: nothing to do unless the mode is on.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_incremental_collection() {}

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
