//! Mutators, and what their inline functions call.

use std::ffi::c_void;
use std::ptr;

use gleaner::raw::{
    Address, Fresh, NewObject, Record, TypeId, array_bytes_of, offsets, whole_granules,
};
use gleaner::{Heap, Role, Totals, set_thread_role};
use gleaner_os::memory;
use gleaner_os::output::STDERR;

use crate::checks::{check_type, heap_of};
use crate::heaps::differently_cut;
use crate::{mutator, pointer, threads};

/// The header has these numbers in the order of its fields.
const _: () = assert!(offsets::CURSOR == 0 && offsets::LIMIT == 8 && offsets::POLL == 16);
const _: () = assert!(offsets::SLOT_BYTES == 20 && offsets::BASE == 24 && offsets::CARDS == 32);
const _: () = assert!(offsets::FRAMES == 40 && offsets::ANCHOR == 48 && offsets::EMBEDDER == 72);
const _: () = assert!(offsets::ZEROES == 80 && offsets::WINDOWS == 84 && offsets::FIRST_N == 88);
const _: () = assert!(offsets::ARRAYLET_SHIFT == 96 && offsets::POINTER_SHIFT == 100);
const _: () = assert!(offsets::POINTER_BASE == 104 && offsets::WHOLE_BYTES == 120);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_attach_knowing(heap: *const Heap, first_n: usize) -> *mut Record {
    // SAFETY: a heap of the caller's, or null.
    let heap = unsafe { heap_of(heap) };
    if let Some(why) = differently_cut(heap, first_n) {
        panic!("{why}");
    }
    if !threads::will_be_noticed() {
        return ptr::null_mut();
    }
    let Ok(mutator) = heap.attach() else {
        let why = memory::refusal().text();
        let line =
            format!("gleaner: the system gives no memory for the roots of a mutator: {why}\n");
        STDERR.write_all(line.as_bytes());
        return ptr::null_mut();
    };
    threads::add(mutator)
}

/// The end of a process that was built with `GLEANER_DEBUG`: code for arrays that are cut otherwise than this heap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_cut_differently(record: *mut Record, first_n: usize) {
    // SAFETY: the calling thread's mutator.
    let heap = unsafe { mutator(record) }.heap();
    if let Some(why) = differently_cut(&heap, first_n) {
        panic!("{why}");
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_detach(record: *mut Record) {
    threads::detach(record);
}

#[unsafe(no_mangle)]
pub extern "C" fn gleaner_set_thread_role(role: u32) -> bool {
    let role = Role::ALL.get(role as usize).copied();
    role.map(set_thread_role).is_some()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_blocking_begin(record: *mut Record) {
    // SAFETY: the calling thread's mutator; the header says what the caller promises.
    unsafe { mutator(record).blocking_begin() };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_blocking_end(record: *mut Record) {
    // SAFETY: the calling thread's mutator, whose region `gleaner_blocking_begin` began, as gleaner.h asks.
    unsafe { mutator(record).blocking_end() };
}

/// A structure; ends the process if its type is none.
fn structure(id: u32, bytes: usize) -> NewObject {
    check_type(id);
    NewObject::structure(TypeId::new(id), bytes)
}

/// An array, or an object with a length; ends the process if its type is none.
fn array(id: u32, length: u32, bytes: usize) -> NewObject {
    check_type(id);
    NewObject::array(TypeId::new(id), length, bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_slowly(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the calling thread's mutator; type and size are the caller's promise.
    let object = unsafe { mutator(record).allocate_raw(structure(id, bytes), Fresh::Zeroed) };
    pointer(object.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_slowly(
    record: *mut Record,
    id: u32,
    length: u32,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the calling thread's mutator and a type of its heap, as gleaner.h asks; `bytes` are what its length
    // takes.
    let array = unsafe { mutator(record).allocate_raw(array(id, length, bytes), Fresh::Zeroed) };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_pinned(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    let bytes = whole_granules(bytes);
    // SAFETY: the calling thread's mutator and a type of its heap whose objects have `bytes` bytes, as gleaner.h asks.
    let object = unsafe { mutator(record).allocate_pinned_raw(structure(id, bytes)) };
    pointer(object.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_pinned(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let bytes = array_bytes_of(length, element_bytes);
    let new = array(id, length, bytes);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record) };
    mutator.check_size(TypeId::new(id), Some(length), bytes);
    // SAFETY: a type of its heap, as gleaner.h asks, whose objects with `length` elements have `bytes` bytes.
    let array = unsafe { mutator.allocate_pinned_raw(new) };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_immortal(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let bytes = array_bytes_of(length, element_bytes);
    let new = array(id, length, bytes);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record) };
    mutator.check_size(TypeId::new(id), Some(length), bytes);
    // SAFETY: a type of its heap, as gleaner.h asks, whose objects with `length` elements have `bytes` bytes.
    let array = unsafe { mutator.allocate_immortal_raw(new) };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_constant(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    let bytes = whole_granules(bytes);
    // SAFETY: the calling thread's mutator and a type of its heap whose objects have `bytes` bytes, as gleaner.h asks.
    let object = unsafe { mutator(record).allocate_constant_raw(structure(id, bytes)) };
    pointer(object.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_constant(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let bytes = array_bytes_of(length, element_bytes);
    let new = array(id, length, bytes);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record) };
    mutator.check_size(TypeId::new(id), Some(length), bytes);
    // SAFETY: a type of its heap, as gleaner.h asks, whose objects with `length` elements have `bytes` bytes.
    let array = unsafe { mutator.allocate_constant_raw(new) };
    pointer(array.ok())
}

/// What is called for each object of a heap.
type Visit = unsafe extern "C" fn(data: *mut c_void, object: *mut u8, bytes: usize);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_walk(
    record: *mut Record,
    visit: Option<Visit>,
    data: *mut c_void,
) {
    let visit = visit.expect("gleaner_walk: the function that visits is NULL");
    // SAFETY: a mutator of the caller's, and a function that the caller vouches for.
    unsafe {
        mutator(record).walk(&mut |found| visit(data, found.object.ptr(), found.bytes));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_initialized_slowly(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the calling thread's mutator and a type of its heap; every field is written before the next poll, as
    // gleaner.h asks.
    let object = unsafe { mutator(record).allocate_raw(structure(id, bytes), Fresh::Unwritten) };
    pointer(object.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_initialized_slowly(
    record: *mut Record,
    id: u32,
    length: u32,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the calling thread's mutator and an array type; every element is written before the next poll, as
    // gleaner.h asks.
    let array = unsafe { mutator(record).allocate_raw(array(id, length, bytes), Fresh::Unwritten) };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_poll_slowly(record: *mut Record) {
    // SAFETY: the calling thread's mutator.
    unsafe { mutator(record) }.poll_slowly();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_collect(record: *mut Record, everything: bool) {
    // SAFETY: the calling thread's mutator.
    unsafe { mutator(record) }.collect(everything);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_identity_hash(record: *mut Record, object: *mut u8) -> u32 {
    // SAFETY: the calling thread's mutator, and a valid reference.
    unsafe { mutator(record).identity_hash_raw(Address::of(object)) }
}

/// `struct gleaner_totals`.
#[repr(C)]
pub struct CTotals {
    scavenges: u64,
    full_collections: u64,
    stopped_ns: u64,
    longest_stop_ns: u64,
    survived_bytes: u64,
    promoted_bytes: u64,
    zeroed_bytes: u64,
    zeroed_ahead_bytes: u64,
    zeroing_ns: u64,
    zeroing_ahead_ns: u64,
    stalled_ns: u64,
    ephemeron_looks: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_get_totals(record: *mut Record, into: *mut CTotals) {
    // SAFETY: the calling thread's mutator.
    let totals: Totals = unsafe { mutator(record) }.totals();
    let totals = CTotals {
        scavenges: totals.scavenges,
        full_collections: totals.full_collections,
        stopped_ns: totals.stopped_ns,
        longest_stop_ns: totals.longest_stop_ns,
        survived_bytes: totals.survived_bytes,
        promoted_bytes: totals.promoted_bytes,
        zeroed_bytes: totals.zeroed.bytes,
        zeroed_ahead_bytes: totals.zeroed.ahead_bytes,
        zeroing_ns: totals.zeroed.time,
        zeroing_ahead_ns: totals.zeroed.ahead_time,
        stalled_ns: totals.zeroed.stalled_time,
        ephemeron_looks: totals.ephemeron_looks,
    };
    // SAFETY: `into` is a struct of this version, as gleaner.h asks.
    unsafe { into.write(totals) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_print_array_report(record: *mut Record) -> bool {
    // SAFETY: the calling thread's mutator.
    let report = unsafe { mutator(record) }.array_report();
    if let Some(report) = &report {
        eprint!("{report}");
    }
    report.is_some()
}
