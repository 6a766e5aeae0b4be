//! Elements of arrays: what the accesses of `gleaner_elements.h` call where an element may lie beyond the first piece
//! of its array, and what they call anyway.

use std::ptr;
use std::slice;

use gleaner::raw::{Address, LENGTH, Piece, Record, Value, elements};

use crate::{accessing, mutator, pointer};

/// Runs a body with `$number` as the integers of `$bytes` bytes: 1, 2, 4 or 8.
macro_rules! with_number {
    ($bytes:expr, $number:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $number = u8;
                $body
            }
            2 => {
                type $number = u16;
                $body
            }
            4 => {
                type $number = u32;
                $body
            }
            _ => {
                type $number = u64;
                $body
            }
        }
    };
}

/// `enum gleaner_swapped`.
#[repr(C)]
pub enum Exchange {
    Done,
    Other,
    Full,
}

/// What became of a compare-and-swap; `expected` is told what the element is if it is another.
fn exchange<T: Into<u64>, E>(done: Result<Result<(), T>, E>, expected: &mut u64) -> Exchange {
    match done {
        Ok(Ok(())) => Exchange::Done,
        Ok(Err(found)) => {
            *expected = found.into();
            Exchange::Other
        }
        Err(_) => Exchange::Full,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_far_element(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    bytes: usize,
) -> usize {
    // SAFETY: the calling thread's mutator, and an array that has this element, as gleaner_elements.h asks.
    let piece =
        unsafe { accessing(record).piece_raw(Address::of(array), index as usize, 1, bytes) };
    piece.at.word()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_store_far_element(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    value: u64,
) -> bool {
    let (array, value) = (Address::of(array), Value::from_bits(value));
    // SAFETY: the calling thread's mutator, an array of slots that has this element, and a valid value, as
    // gleaner_elements.h asks.
    unsafe { accessing(record).store_element_raw(array, index as usize, value) }.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_swap_far_element(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    expected: &mut u64,
    value: u64,
) -> Exchange {
    let array = Address::of(array);
    let [was, new] = [*expected, value].map(Value::from_bits);
    // SAFETY: the calling thread's mutator, an array of slots that has this element, and valid values, as
    // gleaner_elements.h asks.
    let done =
        unsafe { accessing(record).compare_exchange_element_raw(array, index as usize, was, new) };
    exchange(done.map(|done| done.map_err(Value::bits)), expected)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_fill_far_elements(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    value: u64,
) -> bool {
    let (array, value) = (Address::of(array), Value::from_bits(value));
    let (index, count) = (index as usize, count as usize);
    // SAFETY: the calling thread's mutator, an array of slots that has these elements, and a valid value, as
    // gleaner_elements.h asks.
    unsafe { accessing(record).fill_elements_raw(array, index, count, value) }.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_store_far_number(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    bytes: usize,
    bits: u64,
) -> bool {
    let (array, index) = (Address::of(array), index as usize);
    // SAFETY: the calling thread's mutator, and an array of numbers of `bytes` bytes that has this element, as
    // gleaner_elements.h asks.
    with_number!(bytes, T => unsafe {
        accessing(record).store_element_in::<T>(array, index, bits as T).is_ok()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_swap_far_number(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    bytes: usize,
    expected: &mut u64,
    bits: u64,
) -> Exchange {
    let (array, index, was) = (Address::of(array), index as usize, *expected);
    // SAFETY: the calling thread's mutator, and an array of numbers of `bytes` bytes that has this element, as
    // gleaner_elements.h asks.
    with_number!(bytes, T => unsafe {
        let mutator = accessing(record);
        let done = mutator.compare_exchange_element_in::<T>(array, index, was as T, bits as T);
        exchange(done, expected)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_fill_far_numbers(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    bytes: usize,
    bits: u64,
) -> bool {
    let array = Address::of(array);
    let (index, count) = (index as usize, count as usize);
    // SAFETY: the calling thread's mutator, and an array of numbers of `bytes` bytes that has these elements, which no
    // other thread uses, as gleaner_elements.h asks.
    with_number!(bytes, T => unsafe {
        accessing(record).fill_elements_in::<T>(array, index, count, bits as T).is_ok()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_read_far_numbers(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    into: *mut u8,
    count: u32,
    bytes: usize,
) {
    // A buffer for nothing may be NULL.
    if count == 0 {
        return;
    }
    let (array, index) = (Address::of(array), index as usize);
    // SAFETY: the calling thread's mutator, an array of numbers of `bytes` bytes that has these elements, which no other
    // thread writes, and a buffer for them, as gleaner_elements.h asks.
    with_number!(bytes, T => unsafe {
        let into = slice::from_raw_parts_mut(into.cast::<T>(), count as usize);
        accessing(record).read_elements(array, index, into);
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_write_far_numbers(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    from: *const u8,
    count: u32,
    bytes: usize,
) -> bool {
    if count == 0 {
        return true;
    }
    let (array, index) = (Address::of(array), index as usize);
    // SAFETY: the calling thread's mutator, an array of numbers of `bytes` bytes that has these elements, which no other
    // thread uses, and as many numbers of the caller's, as gleaner_elements.h asks.
    with_number!(bytes, T => unsafe {
        let from = slice::from_raw_parts(from.cast::<T>(), count as usize);
        accessing(record).write_elements(array, index, from).is_ok()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_next_piece(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    bytes: usize,
) -> Piece {
    let array = Address::of(array);
    let (index, count) = (index as usize, count as usize);
    // SAFETY: the calling thread's mutator, and an array with elements of `bytes` bytes that has these, as a cursor's
    // range does.
    unsafe { accessing(record).piece_raw(array, index, count, bytes) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_take_for_writing(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    bytes: usize,
) -> *mut u8 {
    let array = Address::of(array);
    let (index, count) = (index as usize, count as usize);
    // SAFETY: the calling thread's mutator, and an array with elements of `bytes` bytes that has these, as
    // gleaner_elements.h asks.
    pointer(unsafe { accessing(record).fill_stock_raw(array, index, count, bytes) }.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_next_piece_to_write(
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    bytes: usize,
    zero: bool,
) -> Piece {
    let array = Address::of(array);
    let (index, count) = (index as usize, count as usize);
    // SAFETY: the calling thread's mutator, and an array with elements of `bytes` bytes that has these, for which
    // `gleaner_take_for_writing` was called when the cursor was made; since then the caller has stored by it alone.
    unsafe { accessing(record).piece_to_write_raw(array, index, count, bytes, zero) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_copy_elements(
    record: *mut Record,
    from: *const u8,
    from_index: u32,
    to: *mut u8,
    to_index: u32,
    count: u32,
) -> bool {
    let (from, to) = (Address::of(from.cast_mut()), Address::of(to));
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "a copy of elements") };
    for array in [from, to] {
        mutator.assert_holds(array, "a copy of elements");
    }
    // SAFETY: valid references, as gleaner_elements.h asks; what the arrays have is checked.
    unsafe { mutator.copy_elements_raw(from, from_index, to, to_index, count) }.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_compare_elements(
    record: *mut Record,
    one: *const u8,
    index: u32,
    other: *const u8,
    other_index: u32,
    count: u32,
) -> u32 {
    let one = (Address::of(one.cast_mut()), index as usize);
    let other = (Address::of(other.cast_mut()), other_index as usize);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "a comparison of elements") };
    for (array, _) in [one, other] {
        mutator.assert_holds(array, "a comparison of elements");
    }
    // SAFETY: valid references, as gleaner_elements.h asks; what the arrays have is checked.
    let differs = unsafe { mutator.compare_elements_raw(one, other, count as usize) };
    differs.map_or(count, |index| index as u32)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_pinned_elements(record: *mut Record, array: *mut u8) -> *mut u8 {
    let array = Address::of(array);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "the elements of a pinned array") };
    mutator.assert_holds(array, "the address of elements");
    // SAFETY: a valid reference, as gleaner_elements.h asks.
    let elements = unsafe { mutator.pinned_elements_raw(array) };
    elements.map_or(ptr::null_mut(), |(first, _)| first.as_ptr())
}

/// The end of a process that was built with `GLEANER_DEBUG`: a range that an array does not have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_no_elements(array: *const u8, index: u32, count: u32) {
    // SAFETY: an array of the caller's, and every array has its length there.
    let length = unsafe {
        Address::of(array.cast_mut())
            .add(LENGTH)
            .ptr::<u32>()
            .read()
    };
    panic!(
        "{} at {index} of an array of {length}",
        elements(count as usize)
    );
}

/// The end of a process that was built with `GLEANER_DEBUG`: a cursor that goes on at its end.
#[unsafe(no_mangle)]
pub extern "C" fn gleaner_cursor_ended(end: u32) {
    panic!("a cursor goes on behind its range, which ends at {end}");
}

/// The end of a process that was built with `GLEANER_DEBUG`: a store through a cursor that was begun to read.
#[unsafe(no_mangle)]
pub extern "C" fn gleaner_cursor_only_reads() {
    panic!("a store through a cursor that only reads: begin it with gleaner_cursor_begin_writing");
}
