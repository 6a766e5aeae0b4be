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

mod checks;
#[macro_use]
mod elements;
mod events;
mod handles;
mod heaps;
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

/// The mutator of a record that [`mutators`] handed out.
///
/// # Safety
/// The record is that of an attached mutator of the calling thread, and no other reference to it is in use.
unsafe fn mutator<'a>(record: *mut Record) -> &'a mut Mutator {
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
