//! Where the parts of an object lie, and how many bytes it has.

use crate::Address;

/// Bytes of a granule: the alignment of objects.
pub const GRANULE: usize = 8;
/// The least size of an object.
pub const LEAST_BYTES: usize = 16;
/// Where fields begin.
pub const FIELDS: usize = 8;
/// Where the length of an array lies, 4 bytes.
pub const LENGTH: usize = 8;
/// Where the elements of an array begin.
pub const ELEMENTS: usize = 16;

/// `bytes` in whole granules. What no address reaches stays so: nothing wraps around.
pub const fn whole_granules(bytes: usize) -> usize {
    bytes.saturating_add(GRANULE - 1) & !(GRANULE - 1)
}

/// The size in bytes of an object with `length` elements of `element` bytes behind a head of `head` bytes. Where the
/// size does not fit into a word, it is larger than any heap.
pub const fn tailed_bytes(head: usize, length: u32, element: usize) -> usize {
    whole_granules(head.saturating_add((length as usize).saturating_mul(element)))
}

/// The size of an array in bytes, of elements of 2^`log2` bytes, at most 8.
pub const fn array_bytes(length: u32, log2: u32) -> usize {
    whole_granules(ELEMENTS + ((length as usize) << log2))
}

/// As [`array_bytes`], of elements of any size; as large as no heap is where that does not fit into a word.
pub const fn array_bytes_of(length: u32, element: usize) -> usize {
    tailed_bytes(ELEMENTS, length, element)
}

/// Where element `index` of an array lies, of elements of `bytes` bytes. Interfaces have accessors for elements and name no
/// address (invariant I10).
#[inline(always)]
pub const fn element(array: Address, index: usize, bytes: usize) -> Address {
    array.add(ELEMENTS + index * bytes)
}
