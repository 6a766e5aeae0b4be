//! Roots that the client names, and what is left out of scanning (gc.h).

use core::ffi::c_void;

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::roots::Range;

use crate::callbacks::{CALLBACKS, HasRootsFn};
use crate::start::with_heap;
use crate::state::address;

const WORD: usize = size_of::<usize>();

/// The words that lie fully inside the bytes from `low` to `high`.
fn whole_words(low: *const c_void, high: *const c_void) -> Range {
    let low = (low as usize).next_multiple_of(WORD);
    Range {
        low: Address::new(low),
        high: Address::new(high as usize & !(WORD - 1)),
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_add_roots(low: *mut c_void, high: *mut c_void) {
    with_heap(|heap| heap.roots.add(whole_words(low, high)));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_remove_roots(low: *mut c_void, high: *mut c_void) {
    with_heap(|heap| {
        heap.roots.remove(Range {
            low: address(low),
            high: address(high),
        })
    });
}

/// As in gc.h: forgets what was added. The data of loaded libraries is found anew by each collection, unless
/// `GC_no_dls` is set.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_clear_roots() {
    with_heap(|heap| heap.roots.clear());
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_exclude_static_roots(low: *mut c_void, high: *mut c_void) {
    let (low, high) = (
        low as usize & !(WORD - 1),
        (high as usize).next_multiple_of(WORD),
    );
    if low < high {
        with_heap(|heap| {
            heap.roots.exclude(Range {
                low: Address::new(low),
                high: Address::new(high),
            })
        });
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_clear_exclusion_table() {
    with_heap(|heap| heap.roots.clear_excluded());
}

/// As in gc.h: the function is asked, before each collection and without the lock, about each data segment of each
/// loaded library.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_has_static_roots_callback(function: Option<HasRootsFn>) {
    CALLBACKS.has_roots.set(function);
}
