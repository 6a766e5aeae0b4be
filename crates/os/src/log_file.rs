//! A log that shares the process with a program: descriptors are the program's to close, and their numbers come again.
//!
//! A daemon closes all descriptors that it knows nothing of, and opens files of its own. What is written to the number
//! of a log would then lie in the program's data. So each write first asks whether the number still stands for the file
//! that was opened (device and inode).

use core::mem::MaybeUninit;

use crate::output::{Fd, STDERR};
use crate::syscall::call;

/// Which file a descriptor stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: Fd) -> Option<Identity> {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        let arguments = [file.0 as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
        // SAFETY: the record outlives the call, which fills it when it succeeds.
        let status = unsafe {
            call(libc::SYS_fstat, arguments).ok()?;
            status.assume_init()
        };
        Some(Identity {
            device: status.st_dev,
            inode: status.st_ino,
        })
    }
}

/// An open log.
#[derive(Clone, Copy, Debug)]
pub struct LogFile {
    file: Fd,
    identity: Option<Identity>,
    /// Where the program's complaints went when the log was opened.
    errors: Option<Identity>,
}

impl LogFile {
    /// The log that was opened as `file`.
    pub fn new(file: Fd) -> LogFile {
        LogFile {
            file,
            identity: Identity::of(file),
            errors: Identity::of(STDERR),
        }
    }

    /// Appends `line`; false when that cannot be. Then nothing more should be written, and standard error was told, if
    /// that is still what it was.
    pub fn append(&self, line: &[u8]) -> bool {
        let why: &[u8] = if self.identity.is_none() || Identity::of(self.file) != self.identity {
            b"gleaner: the program closed the event log: it ends here\n"
        } else if !self.file.write_all(line) {
            b"gleaner: the event log cannot be written: it ends here\n"
        } else {
            return true;
        };
        if self.errors.is_some() && Identity::of(STDERR) == self.errors {
            STDERR.write_all(why);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::open_append;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_number_that_stands_for_another_file_is_not_written() {
        let base = std::env::temp_dir().join(format!("gleaner-log-{}", std::process::id()));
        let [log, data] = ["log", "data"].map(|name| base.with_extension(name));
        let name = std::ffi::CString::new(log.to_str().unwrap()).unwrap();
        let file = open_append(&name).unwrap();
        let appender = LogFile::new(file);
        assert!(appender.append(b"one\n"));
        let other = std::fs::File::create(&data).unwrap();
        // SAFETY: both are this test's; the number stands for the data from now on.
        unsafe { libc::dup2(other.as_raw_fd(), file.0) };
        assert!(!appender.append(b"two\n"));
        file.close();
        assert!(!appender.append(b"three\n"));
        assert_eq!(std::fs::read(&log).unwrap(), b"one\n");
        assert_eq!(std::fs::read(&data).unwrap(), b"");
        for path in [log, data] {
            std::fs::remove_file(path).unwrap();
        }
    }
}
