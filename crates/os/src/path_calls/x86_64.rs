//! System calls about paths and descriptors, as Linux has them on x86-64.
//!
//! Any thread, any state of the world, also in a signal handler.

use core::ffi::CStr;

use crate::syscall::{Errno, call};

/// `lstat`: fills the record behind `status`.
///
/// # Safety
/// A record lies there.
pub unsafe fn lstat(path: &CStr, status: *mut libc::stat) -> Result<usize, Errno> {
    let arguments = [path.as_ptr() as usize, status as usize, 0, 0, 0, 0];
    // SAFETY: a path and a record, as asked.
    unsafe { call(libc::SYS_lstat, arguments) }
}

/// `readlink`: how many bytes of the name were written.
///
/// # Safety
/// `path` is a string that ends with 0.
pub unsafe fn readlink(path: *const u8, name: &mut [u8]) -> Result<usize, Errno> {
    let (start, length) = (name.as_mut_ptr() as usize, name.len());
    // SAFETY: a string, as asked, and a buffer of that length.
    unsafe { call(libc::SYS_readlink, [path as usize, start, length, 0, 0, 0]) }
}

/// `rename`.
pub fn rename(from: &CStr, to: &CStr) -> Result<usize, Errno> {
    let arguments = [from.as_ptr() as usize, to.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: both are strings that outlive the call.
    unsafe { call(libc::SYS_rename, arguments) }
}

/// `unlink`.
pub fn unlink(path: &CStr) -> Result<usize, Errno> {
    // SAFETY: a string that outlives the call.
    unsafe { call(libc::SYS_unlink, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }
}

/// `poll` for one descriptor, without an end.
pub fn poll(one: &mut libc::pollfd) -> Result<usize, Errno> {
    let forever = -1isize as usize;
    // SAFETY: one record, which outlives the call.
    unsafe {
        call(
            libc::SYS_poll,
            [&raw mut *one as usize, 1, forever, 0, 0, 0],
        )
    }
}
