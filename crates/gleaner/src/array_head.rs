//! What an allocator writes of an array before its elements.

use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{GRANULE, LEAST_BYTES, LENGTH};

/// Writes the header and the length of an array.
///
/// # Safety
/// Fresh memory with room for both lies at `object`.
#[inline(always)]
pub(crate) unsafe fn begin_array(object: Address, header: Header, length: u32) {
    // SAFETY: fresh memory with room for header and length lies there, as asked.
    unsafe {
        header::store(object, header);
        object.add(LENGTH).ptr::<u32>().write(length);
    }
}

/// Zeroes the last granule of an array that its allocator writes: it may have bytes behind the last element, which nobody
/// writes.
///
/// # Safety
/// Fresh memory of so many bytes lies at `object`.
#[inline(always)]
pub(crate) unsafe fn end_array(object: Address, bytes: usize) {
    if bytes > LEAST_BYTES {
        // SAFETY: inside the object, as asked.
        unsafe { object.add(bytes - GRANULE).ptr::<u64>().write(0) };
    }
}
