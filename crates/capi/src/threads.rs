//! The mutators of each thread, so that a thread that ends attached is detached.
//!
//! A mutator that stays inside the gate without a thread would hold up every collection for ever. The C library tells
//! of the end of a thread in the last round of destructors, so those of the program's thread-specific data may still
//! use the mutators, and may detach them, too. By then others than its frames use the thread's stack: the mutators have
//! no roots any more.
//!
//! # Invariants
//! - A list is touched by its own thread alone. What is not in it is not looked at, so a caller that detaches a mutator
//!   that was detached already does no harm.
//! - Before an ending thread waits for a collection of one heap, it is outside of the gates of all.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::LazyLock;

use gleaner::Mutator;
use gleaner::raw::Record;
use gleaner_os::threads::{arm_thread_exit, set_exact_thread_exit_key};

/// A mutator in the list of its thread. The record's `door` leads to it.
pub struct Attached {
    pub mutator: Mutator,
    /// What it does when it is interrupted; taken while that runs.
    pub on_interrupt: Option<Interrupt>,
    record: *mut Record,
    next: *mut Attached,
}

/// A function of the embedder's, with its data.
pub type Interrupt = (unsafe extern "C" fn(*mut c_void, *mut Record), *mut c_void);

/// What a thread has been through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    /// It has not attached yet.
    Unknown,
    /// Its end will be noticed.
    Noticed,
    /// Its end was noticed: nothing will be noticed again.
    Ended,
}

struct Thread {
    first: Cell<*mut Attached>,
    life: Cell<Life>,
}

thread_local! {
    /// Without a destructor, so that it is there to the very end.
    static THREAD: Thread = const {
        Thread {
            first: Cell::new(ptr::null_mut()),
            life: Cell::new(Life::Unknown),
        }
    };
}

/// Whether the C library has a key for the hook. Asked first when a heap is made, so never when a thread attaches while
/// another forks.
static HAS_KEY: LazyLock<bool> = LazyLock::new(|| set_exact_thread_exit_key(thread_ends));

/// Whether the ends of threads can be noticed.
pub fn have_key() -> bool {
    *HAS_KEY
}

/// Whether the end of the calling thread will be noticed.
pub fn will_be_noticed() -> bool {
    THREAD.with(|thread| {
        if thread.life.get() == Life::Unknown
            && have_key()
            && arm_thread_exit(ptr::from_ref(thread).addr())
        {
            thread.life.set(Life::Noticed);
        }
        thread.life.get() == Life::Noticed
    })
}

/// Adds a mutator of the calling thread; its record.
pub fn add(mutator: Mutator) -> *mut Record {
    THREAD.with(|thread| {
        let mut attached = Box::new(Attached {
            mutator,
            on_interrupt: None,
            record: ptr::null_mut(),
            next: thread.first.get(),
        });
        let record = attached.mutator.published();
        attached.record = record;
        let place = Box::into_raw(attached);
        thread.first.set(place);
        // SAFETY: the record stays in place until the mutator is dropped.
        unsafe { (*record).door.set(place.cast()) };
        record
    })
}

/// The mutator of the calling thread that has this record; `None` if it has no such mutator. The record is not looked at.
pub fn attached(record: *mut Record) -> Option<NonNull<Attached>> {
    let mut at = THREAD.with(|thread| thread.first.get());
    while let Some(found) = NonNull::new(at) {
        // SAFETY: the list is this thread's, and its members exist.
        let member = unsafe { found.as_ref() };
        if member.record == record {
            return Some(found);
        }
        at = member.next;
    }
    None
}

/// Detaches a mutator of the calling thread; does nothing if there is no such mutator.
pub fn detach(record: *mut Record) {
    let found = THREAD.with(|thread| {
        let mut link = thread.first.as_ptr();
        // SAFETY: the list is this thread's, and its members exist.
        unsafe {
            while !(*link).is_null() && (**link).record != record {
                link = &raw mut (**link).next;
            }
            let found = *link;
            if !found.is_null() {
                *link = (*found).next;
            }
            found
        }
    });
    if !found.is_null() {
        // SAFETY: made by `add`, and in no list any more.
        drop(unsafe { Box::from_raw(found) });
    }
}

extern "C" fn thread_ends(_: usize) {
    let first = THREAD.with(|thread| {
        thread.life.set(Life::Ended);
        thread.first.replace(ptr::null_mut())
    });
    let mut at = first;
    while !at.is_null() {
        // SAFETY: a member of this thread's list, which is not used again but to be dropped.
        unsafe {
            (*at).mutator.abandon();
            at = (*at).next;
        }
    }
    let mut at = first;
    while !at.is_null() {
        // SAFETY: made by `add`, and in no list any more.
        let attached = unsafe { Box::from_raw(at) };
        at = attached.next;
    }
}
