//! Windows on elements that do not lie behind the length of their array: where all of a range lies side by side, what is
//! shown is the elements, else a copy in memory of malloc's, where nothing moves.

use std::ptr;
use std::slice;

use gleaner::raw::{Address, Number, Record};

use crate::accessing;

/// `struct gleaner_window`.
#[repr(C)]
pub struct Window {
    /// What is shown.
    elements: *mut u8,
    /// The array, if that is a copy; else null.
    copied: *mut u8,
    index: u32,
    count: u32,
    element_bytes: u32,
    /// Whether a copy is written back.
    writes: bool,
}

impl Window {
    /// Bytes that are shown.
    fn bytes(&self) -> usize {
        self.count as usize * self.element_bytes as usize
    }

    /// The words of a copy.
    fn words(&self) -> usize {
        self.bytes().div_ceil(size_of::<u64>())
    }
}

/// Zeroed words of malloc's; null when the system has no memory.
fn words(count: usize) -> *mut u64 {
    let mut words: Vec<u64> = Vec::new();
    if words.try_reserve_exact(count).is_err() {
        return ptr::null_mut();
    }
    words.resize(count, 0);
    Box::into_raw(words.into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_begin_far_window(
    window: &mut Window,
    record: *mut Record,
    array: *mut u8,
    index: u32,
    count: u32,
    element_bytes: usize,
    writes: bool,
) -> bool {
    let mut array = Address::of(array);
    let (first, length) = (index as usize, count as usize);
    *window = Window {
        elements: ptr::null_mut(),
        copied: ptr::null_mut(),
        index,
        count,
        element_bytes: element_bytes as u32,
        writes,
    };
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { accessing(record) };
    if writes {
        // SAFETY: an array with elements of `element_bytes` bytes that has these, as gleaner_elements.h asks.
        match unsafe { mutator.fill_stock_raw(array, first, length, element_bytes) } {
            Ok(here) => array = here,
            Err(_) => return false,
        }
    }
    // SAFETY: such elements lie in the array.
    let piece = unsafe { mutator.piece_raw(array, first, length, element_bytes) };
    if piece.end.offset_from(piece.at) == window.bytes() {
        window.elements = if writes {
            // SAFETY: so they do; what this takes is there since `fill_stock_raw`, and nothing was stored meanwhile.
            let own =
                unsafe { mutator.piece_to_write_raw(array, first, length, element_bytes, false) };
            own.at.ptr()
        } else {
            piece.at.ptr()
        };
        return true;
    }
    let copy = words(window.words());
    if copy.is_null() {
        return false;
    }
    (window.elements, window.copied) = (copy.cast(), array.ptr());
    // SAFETY: the copy has room for `count` numbers of this array, aligned to 8 bytes, and no other thread writes them,
    // as gleaner_elements.h asks.
    with_number!(element_bytes, T => unsafe {
        let into = slice::from_raw_parts_mut(window.elements.cast::<T>(), length);
        mutator.read_elements(array, first, into);
    });
    true
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_end_far_window(window: &mut Window, record: *mut Record) {
    if window.writes {
        // SAFETY: a window for writing with a copy, which `gleaner_begin_far_window` made; since then nothing was stored
        // by another function, allocated or polled, as gleaner_elements.h asks.
        with_number!(window.element_bytes, T => unsafe { write_back::<T>(window, record) });
    }
    let copy = ptr::slice_from_raw_parts_mut(window.elements.cast::<u64>(), window.words());
    // SAFETY: made by `words` with as many words as the window has.
    drop(unsafe { Box::from_raw(copy) });
    window.copied = ptr::null_mut();
}

/// # Safety
/// A window of numbers of `T` for writing, with a copy; and since it was begun nothing was stored by another function,
/// allocated or polled.
unsafe fn write_back<T: Number>(window: &Window, record: *mut Record) {
    let (array, index) = (Address::of(window.copied), window.index as usize);
    // SAFETY: the copy has `window.count` numbers, for which the stock was filled when the window was begun; the array
    // is where it was, since nothing was collected.
    unsafe {
        let from = slice::from_raw_parts(window.elements.cast::<T>(), window.count as usize);
        accessing(record).write_stocked(array, index, from);
    }
}

/// The end of a process that begins to write in a window while it has another.
#[unsafe(no_mangle)]
pub extern "C" fn gleaner_second_window(_: *mut Record) {
    panic!("a window for writing inside a window, whose elements may move: end it first");
}
