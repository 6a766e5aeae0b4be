//! System calls about paths and descriptors, as Linux has them on 64-bit Arm: those that name a path take a directory, too.
//!
//! Any thread, any state of the world, also in a signal handler.

use core::ffi::CStr;

use crate::syscall::{Errno, call};

/// The current directory, for calls that take one.
const HERE: usize = libc::AT_FDCWD as usize;

/// `lstat`: fills the record behind `status`.
///
/// # Safety
/// A record lies there.
pub unsafe fn lstat(path: &CStr, status: *mut libc::stat) -> Result<usize, Errno> {
    let (path, flags) = (path.as_ptr() as usize, libc::AT_SYMLINK_NOFOLLOW as usize);
    // SAFETY: a path and a record, as asked.
    unsafe {
        call(
            libc::SYS_newfstatat,
            [HERE, path, status as usize, flags, 0, 0],
        )
    }
}

/// `readlink`: how many bytes of the name were written.
///
/// # Safety
/// `path` is a string that ends with 0.
pub unsafe fn readlink(path: *const u8, name: &mut [u8]) -> Result<usize, Errno> {
    let (start, length) = (name.as_mut_ptr() as usize, name.len());
    // SAFETY: a string, as asked, and a buffer of that length.
    unsafe {
        call(
            libc::SYS_readlinkat,
            [HERE, path as usize, start, length, 0, 0],
        )
    }
}

/// `rename`.
pub fn rename(from: &CStr, to: &CStr) -> Result<usize, Errno> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: both are strings that outlive the call.
    unsafe { call(libc::SYS_renameat, [HERE, from, HERE, to, 0, 0]) }
}

/// `unlink`.
pub fn unlink(path: &CStr) -> Result<usize, Errno> {
    // SAFETY: a string that outlives the call.
    unsafe {
        call(
            libc::SYS_unlinkat,
            [HERE, path.as_ptr() as usize, 0, 0, 0, 0],
        )
    }
}

/// `poll` for one descriptor, without an end.
pub fn poll(one: &mut libc::pollfd) -> Result<usize, Errno> {
    // SAFETY: one record, which outlives the call; neither a time nor a mask.
    unsafe { call(libc::SYS_ppoll, [&raw mut *one as usize, 1, 0, 0, 0, 0]) }
}
