//! Memory that the program decides on, and what there is of each type.

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gleaner::Heap;
use gleaner::raw::{Record, TypeId};

use crate::cells::Name;
use crate::checks::{check_type, heap_of};
use crate::{mutator, say};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_note_external(heap: Name<Heap>, change: isize) {
    // SAFETY: a heap of the caller's, or null.
    unsafe { heap_of(heap) }.note_external(change);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_external(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's, or null.
    unsafe { heap_of(heap) }.external()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_resident(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's, or null.
    unsafe { heap_of(heap) }.resident()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_constants_left(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's, or null.
    unsafe { heap_of(heap) }.constants_left()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_limit(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's, or null.
    unsafe { heap_of(heap) }.limit()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_limit(
    record: *mut Record,
    bytes: usize,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    // SAFETY: the calling thread's mutator.
    let set = unsafe { mutator(record, "a change of the limit") }.set_limit(bytes);
    if let Err(error) = set {
        // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner.h asks.
        unsafe { say(&error.to_string(), message, message_bytes) };
    }
    set.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_trim(record: *mut Record) -> usize {
    // SAFETY: the calling thread's mutator.
    unsafe { mutator(record, "giving memory back") }.trim()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_snapshot(
    record: *mut Record,
    path: *const c_char,
    message: *mut c_char,
    message_bytes: usize,
) -> bool {
    assert!(!path.is_null(), "gleaner_snapshot: the path is NULL");
    // SAFETY: not null, so a string that ends with 0, as gleaner.h asks.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    // SAFETY: the calling thread's mutator.
    let written = unsafe { mutator(record, "a snapshot") }.snapshot(path);
    if let Err(error) = written {
        // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner.h asks.
        unsafe {
            say(
                &format!("{}: {error}", path.display()),
                message,
                message_bytes,
            )
        };
    }
    written.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_name_type(heap: Name<Heap>, id: u32, name: *const c_char) {
    // SAFETY: a heap of the caller's, or null.
    let heap = unsafe { heap_of(heap) };
    check_type(id);
    assert!(!name.is_null(), "gleaner_name_type: the name is NULL");
    // SAFETY: not null, so a string that ends with 0, as gleaner.h asks.
    let name = unsafe { CStr::from_ptr(name) };
    heap.name_type(TypeId::new(id), &name.to_string_lossy());
}

/// `struct gleaner_type_count`.
#[repr(C)]
pub struct CTypeCount {
    id: u32,
    name: *const c_char,
    live_objects: u64,
    live_bytes: u64,
    allocated_objects: u64,
    allocated_bytes: u64,
}

type Visit = unsafe extern "C" fn(*mut c_void, *const CTypeCount);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_census(
    record: *mut Record,
    visit: Option<Visit>,
    data: *mut c_void,
) {
    let visit = visit.expect("gleaner_census: the function that visits is NULL");
    // SAFETY: the calling thread's mutator.
    for of in unsafe { mutator(record, "a census") }.census() {
        // Names come from strings of C, or from Rust, where they may have a byte 0.
        let name = CString::new(of.name).unwrap_or_default();
        let allocated = of.allocated.unwrap_or_default();
        let count = CTypeCount {
            id: of.id.get(),
            name: name.as_ptr(),
            live_objects: of.live.objects,
            live_bytes: of.live.bytes,
            allocated_objects: allocated.objects,
            allocated_bytes: allocated.bytes,
        };
        // SAFETY: the embedder's function, with a struct that lasts as long as the call.
        unsafe { visit(data, &count) };
    }
}
