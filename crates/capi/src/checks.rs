//! Mistakes of the caller's that are looked for: by every function that is slow anyway, and by the inline ones where
//! `GLEANER_DEBUG` is defined. Each ends the process with its message.

use gleaner::Heap;
use gleaner::raw::{Record, TypeId, Value};

use crate::mutator;
use crate::panics::install_hook;

/// The heap behind a pointer of the caller's, which may be null by mistake.
///
/// # Safety
/// Null, or a heap of the caller's that is used as long as it is there.
pub unsafe fn heap_of<'a>(heap: *const Heap) -> &'a Heap {
    if heap.is_null() {
        // Without a heap nobody has done so yet.
        install_hook();
        panic!("the heap is NULL: gleaner_heap_new failed, and its message says why");
    }
    // SAFETY: not null, so a heap of the caller's.
    unsafe { &*heap }
}

/// Ends the process for a type that no registration gave: under `stress` every allocation comes here.
pub fn check_type(id: u32) {
    assert!(
        !TypeId::new(id).is_filler(),
        "gleaner_allocate: {id} is no type; a registration that failed gives 0, and its message says why"
    );
}

/// A size that is asked for with `GLEANER_DEBUG`, by the inline functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_check_size(
    record: *mut Record,
    id: u32,
    has_length: bool,
    length: u32,
    bytes: usize,
) {
    check_type(id);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record) };
    mutator.check_size(TypeId::new(id), has_length.then_some(length), bytes);
}

/// The end of a process that was built with `GLEANER_DEBUG`: an integer that no slot of 4 bytes has room for.
#[unsafe(no_mangle)]
pub extern "C" fn gleaner_no_integer(value: u64) {
    let number = Value::from_bits(value).as_immediate();
    panic!(
        "the integer {} needs more than the 31 bits that slots with compressed references have",
        number.unwrap_or_default()
    );
}
