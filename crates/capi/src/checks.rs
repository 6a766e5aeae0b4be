//! Mistakes of the caller's that are looked for: by every function that is slow anyway, and by the inline ones where
//! `GLEANER_DEBUG` is defined. Each ends the process with its message.

use std::ffi::{CStr, c_char};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use gleaner::Heap;
use gleaner::raw::{self, Record, TypeId, Value};
use gleaner_os::threads::current_tid;

use crate::cells::Name;
use crate::panics::install_hook;
use crate::{mutator, threads};

/// The heap behind a pointer of the caller's, which may be null by mistake, or freed.
///
/// # Safety
/// Null, or a name of a heap; no other thread frees the heap while it is used.
pub unsafe fn heap_of<'a>(heap: Name<Heap>) -> &'a Heap {
    if heap.is_null() {
        // Without a heap nobody has done so yet.
        install_hook();
        panic!("the heap is NULL: gleaner_heap_new failed, and its message says why");
    }
    // SAFETY: not null, so the name of a heap, as the caller promises.
    unsafe { heap.get() }.unwrap_or_else(|| heap_is_freed())
}

/// The end of a process that uses a heap which `gleaner_heap_free` has ended.
pub fn heap_is_freed() -> ! {
    panic!(
        "the heap was freed already: gleaner_heap_free answered true, so keep no copy of its pointer"
    );
}

/// Ends the process for a record that is not that of a mutator of the calling thread's, which did `what` with it.
#[cold]
pub fn refuse_record(record: *mut Record, what: &str) -> ! {
    install_hook();
    raw::assert_no_collector(what);
    let Some(place) = NonNull::new(record) else {
        panic!(
            "{what} by a mutator that is NULL: gleaner_attach failed, and a line before says why"
        );
    };
    let Some(owner) = raw::thread_of(place) else {
        panic!(
            "{what} by a mutator that was detached, or that never was one: keep no copy of its pointer, and attach again \
             before the heap is used"
        );
    };
    panic!(
        "{what} by thread {} with the mutator of thread {owner}: a mutator is used by the thread alone that attached it, so \
         attach the calling thread, too",
        current_tid().0
    );
}

/// Whether code runs in this process that was compiled with `GLEANER_DEBUG`. Relaxed: it orders nothing else.
static DEBUGS: AtomicBool = AtomicBool::new(false);

/// Called by code that was compiled with `GLEANER_DEBUG`, before it uses a heap.
#[unsafe(no_mangle)]
pub extern "C" fn gleaner_check_calls() {
    DEBUGS.store(true, Ordering::Relaxed);
}

/// With `GLEANER_DEBUG`: a mutator is detached by its thread, when that has left all frames.
pub fn check_detach(record: *mut Record) {
    if !DEBUGS.load(Ordering::Relaxed) {
        return;
    }
    match threads::attached(record) {
        // SAFETY: in the list of this thread, so it exists.
        Some(attached) => unsafe { attached.as_ref() }.mutator.assert_no_frames(),
        None if NonNull::new(record).and_then(raw::thread_of).is_some() => {
            refuse_record(record, "detaching")
        }
        None => (),
    }
}

/// A use of the heap by the inline functions, with `GLEANER_DEBUG`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_check_use(record: *mut Record, what: *const c_char) {
    // SAFETY: a text of gleaner.h's.
    let what = unsafe { CStr::from_ptr(what) }.to_str().unwrap_or_default();
    // SAFETY: no other reference to the mutator is in use.
    unsafe { mutator(record, what) }.check_use(what);
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
    let mutator = unsafe { mutator(record, "an allocation") };
    let length = has_length.then_some(length);
    mutator.check_size("allocation", TypeId::new(id), length, bytes);
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
