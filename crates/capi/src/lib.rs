//! The native door from C: the functions behind `include/gleaner.h`.
//!
//! The header has the fast paths inline and says what each function does; here is what they call. A mutator is known
//! in C by its record of published fields, whose `door` field leads back to the [`Mutator`]. No panic crosses the
//! interface: each ends the process with its message.

#![allow(
    clippy::missing_safety_doc,
    reason = "the contracts of exported functions are in gleaner.h"
)]
#![allow(
    missing_docs,
    reason = "what exported functions do is said in gleaner.h"
)]

mod cells;
mod checks;
#[macro_use]
mod elements;
mod events;
mod factory;
mod handles;
mod heaps;
mod memory;
mod mutators;
mod panics;
mod roots;
mod shrink;
mod threads;
mod type_data;
mod windows;

use std::ffi::c_char;

use gleaner::Mutator;
use gleaner::raw::{Address, Record};
use threads::Attached;

/// The mutator of a record that [`mutators`] handed out, for `what`. Ends the process if the record is not that of an
/// attached mutator of the calling thread. A record that is not the thread's is not looked at: it may be gone.
///
/// # Safety
/// No other reference to the mutator is in use.
unsafe fn mutator<'a>(record: *mut Record, what: &str) -> &'a mut Mutator {
    let attached = threads::attached(record);
    let attached = attached.unwrap_or_else(|| checks::refuse_record(record, what));
    // SAFETY: in the list of this thread, so it exists until the thread takes it off.
    unsafe { &mut (*attached.as_ptr()).mutator }
}

/// As [`mutator`], for accesses to elements, which are not to cost more: with `GLEANER_DEBUG` the code that calls them
/// has asked whose mutator it is.
///
/// # Safety
/// The record is that of an attached mutator of the calling thread, and no other reference to it is in use.
unsafe fn accessing<'a>(record: *mut Record) -> &'a mut Mutator {
    // SAFETY: `gleaner_attach` put the pointer there.
    unsafe { &mut (*(*record).door.get().cast::<Attached>()).mutator }
}

/// Writes a message and its terminating 0 into a buffer, as much as fits.
///
/// # Safety
/// `into` is null or has `bytes` bytes.
unsafe fn say(message: &str, into: *mut c_char, bytes: usize) {
    if into.is_null() || bytes == 0 {
        return;
    }
    let length = message.len().min(bytes - 1);
    // SAFETY: `into` has `bytes` bytes, as the caller promises, and message and 0 are no more.
    unsafe {
        message.as_ptr().copy_to_nonoverlapping(into.cast(), length);
        into.add(length).write(0);
    }
}

/// An object's address as C has it; null for none.
fn pointer(object: Option<Address>) -> *mut u8 {
    object.map_or(std::ptr::null_mut(), Address::ptr)
}
