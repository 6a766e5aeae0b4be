//! Arrays that shrink in place.

use gleaner::raw::{Address, Record};

use crate::mutator;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_shrink(record: *mut Record, array: *mut u8, length: u32) {
    // SAFETY: the calling thread's mutator, and a valid reference to what nobody uses beyond `length`, as gleaner.h asks.
    unsafe { mutator(record, "an array is shrunk").shrink_raw(Address::of(array), length) };
}
