//! An allocator that counts, and refuses on demand, per thread, so that a test can show that a call allocates nothing
//! or bears that nothing can be had.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Calls to the allocator by this thread, frees included.
    static CALLS: Cell<usize> = const { Cell::new(0) };

    /// Whether this thread's requests for memory fail.
    static REFUSING: Cell<bool> = const { Cell::new(false) };
}

/// The system's allocator, counted.
pub struct Counting;

/// Calls to the allocator by this thread so far.
pub fn calls() -> usize {
    CALLS.get()
}

/// Runs `act`, which must not panic, with no memory to be had.
pub fn without_memory<T>(act: impl FnOnce() -> T) -> T {
    REFUSING.set(true);
    let result = act();
    REFUSING.set(false);
    result
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: every call goes unchanged to the system's allocator or is refused as an allocator may; the thread's cells
// neither allocate nor have destructors.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        if REFUSING.get() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`: `layout` has a size.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc::dealloc`: `pointer` came from here with this layout,
        // since `alloc` passes it on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        if REFUSING.get() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `GlobalAlloc::realloc`: `pointer` came from here with this layout,
        // and `size` is not 0.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
