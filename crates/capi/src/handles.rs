//! Handles, weak references, ephemerons, finalizers.

use std::ptr;

use gleaner::raw::{Address, Record, Value};
use gleaner::{Ephemeron, Handle, Weak};

use crate::{mutator, pointer};

fn boxed<T>(made: Option<T>) -> *mut T {
    made.map_or(ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// # Safety
/// Null, or made by [`boxed`] and given up by the caller.
unsafe fn free<T>(made: *mut T) {
    if !made.is_null() {
        // SAFETY: made by `boxed`, not null, and given up, as the caller promises.
        drop(unsafe { Box::from_raw(made) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_new(record: *mut Record, value: u64) -> *mut Handle {
    // SAFETY: the calling thread's mutator, and a valid value.
    boxed(unsafe { mutator(record).handle_raw(Value::from_bits(value)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_get(handle: *const Handle) -> u64 {
    // SAFETY: a handle of the caller's.
    unsafe { &*handle }.get_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_set(
    record: *mut Record,
    handle: *const Handle,
    value: u64,
) {
    // SAFETY: the calling thread's mutator, a handle of the caller's, and a valid value.
    unsafe { mutator(record).set_handle_raw(&*handle, Value::from_bits(value)) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_free(handle: *mut Handle) {
    // SAFETY: a handle of the caller's, or null.
    unsafe { free(handle) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_new(record: *mut Record, object: *mut u8) -> *mut Weak {
    // SAFETY: the calling thread's mutator, and a valid reference.
    boxed(unsafe { mutator(record).weak_raw(Address::of(object)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_get(weak: *const Weak) -> u64 {
    // SAFETY: a weak reference of the caller's.
    unsafe { &*weak }.get_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_free(weak: *mut Weak) {
    // SAFETY: a weak reference of the caller's, or null.
    unsafe { free(weak) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_new(
    record: *mut Record,
    key: *mut u8,
    value: *mut u8,
) -> *mut Ephemeron {
    // SAFETY: the calling thread's mutator, and valid references.
    boxed(unsafe { mutator(record).ephemeron_raw(Address::of(key), Address::of(value)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_key(ephemeron: *const Ephemeron) -> u64 {
    // SAFETY: an ephemeron of the caller's.
    unsafe { &*ephemeron }.key_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_value(ephemeron: *const Ephemeron) -> u64 {
    // SAFETY: an ephemeron of the caller's.
    unsafe { &*ephemeron }.value_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_free(ephemeron: *mut Ephemeron) {
    // SAFETY: an ephemeron of the caller's, or null.
    unsafe { free(ephemeron) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_add_finalizer(record: *mut Record, object: *mut u8) -> bool {
    // SAFETY: the calling thread's mutator, and a valid reference.
    unsafe { mutator(record).add_finalizer_raw(Address::of(object)) }.is_some()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_next_finalizable(record: *mut Record) -> *mut u8 {
    // SAFETY: the calling thread's mutator.
    pointer(unsafe { mutator(record) }.next_finalizable_raw())
}
