//! Children of this process that have ended: how they did, and what they used. Programs that measure others ask for that; the
//! collector has no children.
//!
//! Any thread. `wait4` is called through the C library, so `errno` may change.

use core::mem::MaybeUninit;

/// What a process used, with the children that it waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Used {
    /// Seconds of user time.
    pub user: f64,
    /// Seconds of system time.
    pub system: f64,
    /// Greatest resident memory of one of them.
    pub peak_bytes: u64,
}

impl Used {
    /// Seconds of user and system time.
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// Waits for the child with this number to end, of which nobody else waits: its status as `wait` has it, and what it used. The
/// error is the kernel's number, such as `ECHILD` for a process that is no child of this one.
pub fn reap(process: i32) -> Result<(i32, Used), i32> {
    let mut status = 0;
    let mut used = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: both places are writable and outlive the call; the errno location is this thread's.
        let error = unsafe {
            if libc::wait4(process, &mut status, 0, used.as_mut_ptr()) == process {
                break;
            }
            *libc::__errno_location()
        };
        if error != libc::EINTR {
            return Err(error);
        }
    }
    // SAFETY: the kernel has filled the struct, which is valid when zero, too.
    let used = unsafe { used.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Ok((
        status,
        Used {
            user: seconds(used.ru_utime),
            system: seconds(used.ru_stime),
            peak_bytes: used.ru_maxrss as u64 * 1024,
        },
    ))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_child_is_reaped_once_with_what_it_used() {
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let process = child.id() as i32;
        let (status, used) = reap(process).unwrap();
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7);
        assert!(used.peak_bytes > 4096 && used.cpu() >= 0.0, "{used:?}");
        assert_eq!(reap(process), Err(libc::ECHILD));
        assert!(child.wait().is_err(), "it is there once more");
    }
}
