//! Roots of a heap, pins, and conservative roots: what `gleaner_roots.h` declares.

use std::ffi::c_char;

use gleaner::raw::{
    Address, HeapRootVisitor, Record, RootRange, RootWidth, Value, Visitor, WordRange,
};

use crate::{mutator, say};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_add_root_range(
    record: *mut Record,
    start: *mut u8,
    slots: usize,
    width: u32,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    let added = root_width(width).and_then(|width| {
        let start = Address::of(start);
        let range = RootRange {
            start,
            slots,
            width,
        };
        // SAFETY: the calling thread's mutator, and slots with valid values, as gleaner_roots.h asks.
        let added = unsafe { mutator(record, "a root range is added").add_root_range(range) };
        added.map_err(|error| error.to_string())
    });
    if let Err(why) = &added {
        // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner_roots.h asks.
        unsafe { say(why, message, message_bytes) };
    }
    added.is_ok()
}

/// The values of `enum gleaner_root_width`.
fn root_width(value: u32) -> Result<RootWidth, String> {
    [RootWidth::Values, RootWidth::Slots]
        .into_iter()
        .find(|&width| width as u32 == value)
        .ok_or_else(|| {
            format!(
                "the width of a root range is {value}, which is none of enum gleaner_root_width"
            )
        })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_remove_root_range(record: *mut Record, start: *mut u8) -> bool {
    // SAFETY: the calling thread's mutator.
    let removed =
        unsafe { mutator(record, "a root range is removed") }.remove_root_range(Address::of(start));
    removed.is_ok()
}

type VisitPart = unsafe extern "C" fn(*mut (), usize, *mut Visitor);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_heap_root_visitor(
    record: *mut Record,
    parts: usize,
    visit: Option<VisitPart>,
    data: *mut (),
) {
    let visitor = visit.map(|function| HeapRootVisitor {
        function,
        parts,
        data,
    });
    // SAFETY: the calling thread's mutator; gleaner_roots.h says what the function promises.
    unsafe { mutator(record, "a root visitor is set").set_heap_root_visitor(visitor) };
}

/// Whether something was done; otherwise `message` says why not.
///
/// # Safety
/// `message` is null or has `message_bytes` bytes.
unsafe fn is_done<T>(
    done: Result<T, impl std::fmt::Display>,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    if let Err(why) = &done {
        // SAFETY: as the caller promises.
        unsafe { say(&why.to_string(), message, message_bytes) };
    }
    done.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_pin(
    record: *mut Record,
    value: u64,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    // SAFETY: the calling thread's mutator, and a value of its heap, or none of a heap, as gleaner_roots.h asks.
    unsafe {
        let pinned = mutator(record, "an object is pinned").pin_raw(Value::from_bits(value));
        is_done(pinned, message, message_bytes)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_unpin(
    record: *mut Record,
    value: u64,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    // SAFETY: the calling thread's mutator, and a value of its heap, or none of a heap, as gleaner_roots.h asks.
    unsafe {
        let unpinned = mutator(record, "an object is unpinned").unpin_raw(Value::from_bits(value));
        is_done(unpinned, message, message_bytes)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_add_words(
    record: *mut Record,
    start: *const u8,
    words: usize,
    lowest: *const u8,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    let range = WordRange {
        start: Address::of(start),
        words,
        lowest: Address::of(lowest),
    };
    // SAFETY: the calling thread's mutator, and words that can be read, as gleaner_roots.h asks.
    unsafe {
        let added = mutator(record, "a range of words is added").add_words(range);
        is_done(added, message, message_bytes)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_remove_words(record: *mut Record, start: *const u8) -> bool {
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "a range of words is removed") };
    mutator.remove_words(Address::of(start)).is_ok()
}
