//! System calls without the C library.
//!
//! The kernel returns the negated error number in the result register; nothing here touches `errno`, takes
//! a lock or is a cancellation point, so every call is safe in a signal handler and in a stopped world. Any
//! thread.

use crate::processor;

/// The error number of a failed call, as the kernel gives it (positive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub i32);

/// Makes system call `number` with six arguments, and splits its result into value and error; shorter calls pass zeros.
///
/// # Safety
/// The arguments must be valid for that system call, pointers included.
#[inline]
pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the arguments are valid for this call, pointers included, as asked.
    let result = unsafe { processor::system_call(number, arguments) };
    if (-4095..0).contains(&result) {
        Err(Errno(-result as i32))
    } else {
        Ok(result as usize)
    }
}

/// Repeats a call as long as a signal interrupts it.
pub(crate) fn until_uninterrupted(
    mut attempt: impl FnMut() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    loop {
        match attempt() {
            Err(Errno(libc::EINTR)) => {}
            done => return done,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn gives_value_and_error_and_leaves_errno_alone() {
        // SAFETY: getpid takes no argument; close of -1 is refused; the errno location is this thread's.
        unsafe {
            *libc::__errno_location() = 77;
            let pid = call(libc::SYS_getpid, [0; 6]).unwrap();
            assert_eq!(pid as u32, std::process::id());
            let refused = call(libc::SYS_close, [usize::MAX, 0, 0, 0, 0, 0]);
            assert_eq!(refused, Err(Errno(libc::EBADF)));
            assert_eq!(*libc::__errno_location(), 77);
        }
    }
}
