//! A log that shares the process with a program: descriptors are the program's to close, and their numbers come again.
//!
//! A daemon closes all descriptors that it knows nothing of, and opens files of its own. What is written to the number
//! of a log would then lie in the program's data. So each write first asks whether the number still stands for the file
//! that was opened (device and inode). It also asks whether the file may become so long (`ulimit -f`): the system kills a
//! process that writes more, and a log must not end its program. Only others that append to the file at the same
//! moment could still make it too long.

use core::fmt::Write as _;

use gleaner_base::events::LineBuffer;

use crate::output::{self, Fd, Identity, STDERR, status_of};
use crate::syscall::Errno;

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
        let status = status_of(self.file).filter(|now| Some(Identity::new(now)) == self.identity);
        let Some(status) = status else {
            self.complain(b"gleaner: the program closed the event log: it ends here\n");
            return false;
        };
        let Err(error) = self.write(&status, line) else {
            return true;
        };
        self.complain(self.message(error).as_bytes());
        false
    }

    fn write(&self, status: &libc::stat, line: &[u8]) -> Result<(), Errno> {
        let length = (status.st_size as u64).saturating_add(line.len() as u64);
        if status.st_mode & libc::S_IFMT == libc::S_IFREG && length > output::largest_file() {
            return Err(Errno(libc::EFBIG));
        }
        self.file.try_write_all(line)
    }

    #[cold]
    fn complain(&self, message: &[u8]) {
        if self.errors.is_some() && Identity::of(STDERR) == self.errors {
            STDERR.write_all(message);
        }
    }

    /// Which log it is, and why it ends.
    #[cold]
    fn message(&self, error: Errno) -> LineBuffer<512> {
        let mut line = LineBuffer::new();
        let _ = line.write_str("gleaner: the event log ");
        output::write_name(self.file, &mut line);
        let _ = match error.0 {
            libc::ENOSPC => line.write_str("cannot be written (the disk is full)"),
            libc::EDQUOT => line.write_str("cannot be written (the disk quota is used up)"),
            libc::EFBIG => line.write_str("cannot be written (files may not be longer: ulimit -f)"),
            libc::EPIPE => line.write_str("cannot be written (nobody reads the pipe)"),
            libc::EIO => line.write_str("cannot be written (input/output error)"),
            number => write!(line, "cannot be written (error {number})"),
        };
        let _ = line.write_str(": it ends here\n");
        line
    }
}

#[cfg(all(test, not(loom)))]
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
