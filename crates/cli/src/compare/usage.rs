//! How a process ended and what it used, as the kernel tells who waits for it.
#![allow(
    unsafe_code,
    reason = "nothing safe tells the peak memory of one child"
)]

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What a process and the children that it waited for used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// Seconds of user and system time.
    pub(super) cpu: f64,
    /// Bytes of greatest resident memory.
    pub(super) peak: u64,
}

/// Waits for a child of this process, of which nobody else waits.
pub(super) fn reap(process: u32) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: all zeros is a value of this plain structure.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are writable and outlive the call.
        let reaped = unsafe { libc::wait4(process as libc::pid_t, &mut status, 0, &mut used) };
        if reaped == process as libc::pid_t {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    let usage = Usage {
        cpu: seconds(used.ru_utime) + seconds(used.ru_stime),
        peak: used.ru_maxrss as u64 * 1024,
    };
    Ok((ExitStatus::from_raw(status), usage))
}
