//! Mutators, and what their inline functions call.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use gleaner::raw::{
    self, Address, Fresh, NewObject, Record, TypeId, array_bytes_of, offsets, whole_granules,
};
use gleaner::{Heap, Mutator, Role, Totals, set_thread_role};
use gleaner_os::memory;
use gleaner_os::output::STDERR;

use crate::cells::Name;
use crate::checks::{check_detach, check_type, heap_of};
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
pub unsafe extern "C" fn gleaner_attach_knowing(heap: Name<Heap>, first_n: usize) -> *mut Record {
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
    let heap = unsafe { mutator(record, "an access") }.heap();
    if let Some(why) = differently_cut(&heap, first_n) {
        panic!("{why}");
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_detach(record: *mut Record) {
    check_detach(record);
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
    unsafe { mutator(record, "a blocking region").blocking_begin() };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_blocking_end(record: *mut Record) {
    // SAFETY: the calling thread's mutator, whose region `gleaner_blocking_begin` began, as gleaner.h asks.
    unsafe { mutator(record, "the end of a blocking region").blocking_end() };
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

/// The mutator of a record, and an array of elements of so many bytes, to be allocated. Ends the process if arrays of its
/// type have others; `what` is done, for the message.
///
/// # Safety
/// What [`mutator()`] asks.
unsafe fn sized_array<'a>(
    record: *mut Record,
    what: &str,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> (&'a mut Mutator, NewObject) {
    let bytes = array_bytes_of(length, element_bytes);
    let new = array(id, length, bytes);
    // SAFETY: no other reference to the mutator is in use, as the caller promises.
    let mutator = unsafe { mutator(record, "an allocation") };
    mutator.check_size(what, TypeId::new(id), Some(length), bytes);
    (mutator, new)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_slowly(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    // SAFETY: the calling thread's mutator; type and size are the caller's promise.
    let object = unsafe {
        mutator(record, "an allocation").allocate_raw(structure(id, bytes), Fresh::Zeroed)
    };
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
    let array = unsafe {
        mutator(record, "an allocation").allocate_raw(array(id, length, bytes), Fresh::Zeroed)
    };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_pinned(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    let bytes = whole_granules(bytes);
    let new = structure(id, bytes);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "an allocation") };
    let what = "allocation of a pinned object";
    mutator.check_size(what, TypeId::new(id), None, bytes);
    // SAFETY: a type of its heap, whose objects have so many bytes, which was checked.
    pointer(unsafe { mutator.allocate_pinned_raw(new) }.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_pinned(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let what = "allocation of a pinned array";
    // SAFETY: the calling thread's mutator.
    let (mutator, array) = unsafe { sized_array(record, what, id, length, element_bytes) };
    // SAFETY: a type of its heap, as gleaner.h asks, whose objects with this length have these bytes.
    pointer(unsafe { mutator.allocate_pinned_raw(array) }.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_immortal(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let what = "allocation of an immortal array";
    // SAFETY: the calling thread's mutator.
    let (mutator, array) = unsafe { sized_array(record, what, id, length, element_bytes) };
    // SAFETY: a type of its heap, as gleaner.h asks, whose objects with this length have these bytes.
    pointer(unsafe { mutator.allocate_immortal_raw(array) }.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_constant(
    record: *mut Record,
    id: u32,
    bytes: usize,
) -> *mut u8 {
    let bytes = whole_granules(bytes);
    // SAFETY: the calling thread's mutator; type and size are checked.
    let object = unsafe {
        mutator(record, "a constant is allocated").allocate_constant_raw(structure(id, bytes))
    };
    pointer(object.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_allocate_array_constant(
    record: *mut Record,
    id: u32,
    length: u32,
    element_bytes: usize,
) -> *mut u8 {
    let array = array(id, length, array_bytes_of(length, element_bytes));
    // SAFETY: the calling thread's mutator; type, length and size are checked.
    let array = unsafe { mutator(record, "a constant is allocated").allocate_constant_raw(array) };
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
        mutator(record, "a walk").walk(&mut |found| visit(data, found.object.ptr(), found.bytes));
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
    let object = unsafe {
        mutator(record, "an allocation").allocate_raw(structure(id, bytes), Fresh::Unwritten)
    };
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
    let array = unsafe {
        mutator(record, "an allocation").allocate_raw(array(id, length, bytes), Fresh::Unwritten)
    };
    pointer(array.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_poll_slowly(record: *mut Record) {
    // SAFETY: the calling thread's mutator.
    if unsafe { mutator(record, "a poll") }.poll_for_interrupt() {
        deliver_interrupt(record);
    }
}

/// Calls the handler of interrupts of a mutator of the calling thread. One that is requested meanwhile waits for it.
fn deliver_interrupt(record: *mut Record) {
    let place = || threads::attached(record).map(NonNull::as_ptr);
    let Some(attached) = place() else { return };
    // SAFETY: in the list of this thread, so it exists; nothing else refers to it here.
    match unsafe { (*attached).on_interrupt.take() } {
        Some((handler, data)) => {
            // SAFETY: the embedder's function, with its data and a mutator of this thread.
            unsafe { handler(data, record) };
            if let Some(attached) = place() {
                // SAFETY: in the list still; a handler that the handler has set stays.
                unsafe { (*attached).on_interrupt.get_or_insert((handler, data)) };
            }
        }
        // The handler runs: the next poll behind it delivers this one.
        // SAFETY: the record of a mutator of this thread exists.
        None => unsafe { &*record }.request_interrupt(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_interrupt_handler(
    record: *mut Record,
    handler: Option<unsafe extern "C" fn(*mut c_void, *mut Record)>,
    data: *mut c_void,
) {
    let handler = handler.expect("gleaner_set_interrupt_handler: the handler is NULL");
    // SAFETY: the calling thread's mutator.
    unsafe { mutator(record, "a handler of interrupts is set") }.handle_interrupts();
    if let Some(mut attached) = threads::attached(record) {
        // SAFETY: in the list of this thread, so it exists; nothing else refers to it here.
        unsafe { attached.as_mut() }.on_interrupt = Some((handler, data));
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn gleaner_request_interrupt(record: *mut Record) -> bool {
    NonNull::new(record).is_some_and(raw::request_interrupt)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_stop_and_call(
    record: *mut Record,
    call: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) {
    let call = call.expect("gleaner_stop_and_call: the function to call is NULL");
    // SAFETY: the calling thread's mutator, and a function that the caller vouches for.
    unsafe { mutator(record, "a stop of all mutators").stop_and_call(|| call(data)) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_collect(record: *mut Record, everything: bool) {
    // SAFETY: the calling thread's mutator.
    unsafe { mutator(record, "a collection") }.collect(everything);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_identity_hash(record: *mut Record, object: *mut u8) -> u32 {
    let object = Address::of(object);
    // SAFETY: the calling thread's mutator.
    let mutator = unsafe { mutator(record, "an identity hash is asked for") };
    mutator.assert_holds(object, "an identity hash");
    // SAFETY: a valid reference, as gleaner.h asks.
    unsafe { mutator.identity_hash_raw(object) }
}

/// A function of the embedder's for each mutator, with its data.
struct ForEach(
    unsafe extern "C" fn(*mut c_void, *const Record),
    *mut c_void,
);

// SAFETY: the header says that the function runs on several threads.
unsafe impl Sync for ForEach {}

impl ForEach {
    fn call(&self, record: &Record) {
        // SAFETY: the embedder's function, with its data and a mutator at a safepoint.
        unsafe { (self.0)(self.1, record) };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handshake(
    record: *mut Record,
    call: Option<unsafe extern "C" fn(*mut c_void, *const Record)>,
    data: *mut c_void,
) {
    let call = call.expect("gleaner_handshake: the function to call is NULL");
    let each = ForEach(call, data);
    // SAFETY: the calling thread's mutator; the function reads the record that it is given, as gleaner.h asks.
    unsafe { mutator(record, "a handshake").handshake_raw(|record| each.call(record)) };
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
    stopping_ns: u64,
    longest_stopping_ns: u64,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_get_totals(record: *mut Record, into: *mut CTotals) {
    // SAFETY: the calling thread's mutator.
    let totals: Totals = unsafe { mutator(record, "a question for totals") }.totals();
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
        stopping_ns: totals.stopping_ns,
        longest_stopping_ns: totals.longest_stopping_ns,
    };
    // SAFETY: `into` is a struct of this version, as gleaner.h asks.
    unsafe { into.write(totals) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_print_array_report(record: *mut Record) -> bool {
    // SAFETY: the calling thread's mutator.
    let report = unsafe { mutator(record, "a question for a report") }.array_report();
    if let Some(report) = &report {
        eprint!("{report}");
    }
    report.is_some()
}
