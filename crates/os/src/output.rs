//! Files and the standard error stream, by system calls alone.
//!
//! A message from inside a stopped world must not wait for the lock of a stream that a stopped thread
//! holds, so nothing here is buffered. Interrupted calls are repeated and short writes are finished; a
//! descriptor that does not block is waited for.

use crate::path_calls;
use crate::syscall::{Errno, call, until_uninterrupted};
use core::ffi::CStr;
use core::fmt::Write as _;

use gleaner_base::events::LineBuffer;

/// An open file descriptor. A copy is the same descriptor; closing is the owner's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fd(pub i32);

/// Which file a descriptor stands for: the program may close it, and its number comes again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    /// Of an open descriptor.
    pub(crate) fn of(file: Fd) -> Option<Identity> {
        status_of(file).as_ref().map(Identity::new)
    }

    pub(crate) fn new(status: &libc::stat) -> Identity {
        Identity {
            device: status.st_dev,
            inode: status.st_ino,
        }
    }
}

/// What the kernel says of an open file.
pub(crate) fn status_of(file: Fd) -> Option<libc::stat> {
    let mut status = core::mem::MaybeUninit::<libc::stat>::uninit();
    let arguments = [file.0 as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the record outlives the call, which fills it when it succeeds.
    unsafe {
        call(libc::SYS_fstat, arguments).ok()?;
        Some(status.assume_init())
    }
}

/// The standard error stream.
pub const STDERR: Fd = Fd(2);

/// See [`Fd::out_of_the_way`]. The kernel keeps a table of 128 descriptors for a process that has more than 64.
const FIRST_OUT_OF_THE_WAY: usize = 96;

/// Opens a file for appending, creating it; a child program does not inherit it.
pub fn open_append(path: &CStr) -> Option<Fd> {
    open(
        path,
        libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC,
    )
}

/// Makes an empty file for writing, in place of one of that name; a child program does not inherit it.
pub fn create(path: &CStr) -> Option<Fd> {
    open(
        path,
        libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
    )
}

/// What has a name already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Present {
    /// Nothing, or a file that another may replace.
    Replaceable,
    /// A device, a pipe or a link: it stays what it is, and is written to.
    Kept,
}

/// What a file of that name would replace.
pub fn present(path: &CStr) -> Present {
    let mut status = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the record outlives the call, which fills it when it succeeds.
    let mode = unsafe {
        path_calls::lstat(path, status.as_mut_ptr()).map(|_| status.assume_init().st_mode)
    };
    match mode {
        Ok(mode) if mode & libc::S_IFMT != libc::S_IFREG => Present::Kept,
        _ => Present::Replaceable,
    }
}

/// The most bytes that a file of this process may have: the system kills one that writes more.
pub fn largest_file() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    let resource = libc::RLIMIT_FSIZE as usize;
    // SAFETY: asks only, into a record that outlives the call.
    let _ = unsafe {
        call(
            libc::SYS_getrlimit,
            [resource, &raw mut limit as usize, 0, 0, 0, 0],
        )
    };
    limit.rlim_cur
}

/// Writes the directory in which the process is, without a slash at its end; false if the system does not tell.
pub fn write_directory(out: &mut dyn core::fmt::Write) -> bool {
    let mut buffer = [0_u8; 256];
    let arguments = [buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0, 0];
    // SAFETY: the buffer outlives the call, which writes no more than it is told.
    if unsafe { call(libc::SYS_getcwd, arguments) }.is_err() {
        return false;
    }
    CStr::from_bytes_until_nul(&buffer)
        .ok()
        .and_then(|path| path.to_str().ok())
        .is_some_and(|path| out.write_str(path.trim_end_matches('/')).is_ok())
}

/// Writes the name of an open file and a blank, if the system tells the name.
pub(crate) fn write_name(file: Fd, out: &mut dyn core::fmt::Write) {
    let mut link = LineBuffer::<32>::new();
    let mut name = [0_u8; 256];
    if write!(link, "/proc/self/fd/{}\0", file.0).is_err() {
        return;
    }
    // SAFETY: the path is a string with its end.
    let length = unsafe { path_calls::readlink(link.as_bytes().as_ptr(), &mut name) };
    // One that fills the buffer is cut.
    let name = length
        .ok()
        .filter(|length| *length < name.len())
        .map(|length| &name[..length]);
    if let Some(name) = name.and_then(|name| core::str::from_utf8(name).ok()) {
        let _ = write!(out, "{name} ");
    }
}

/// Gives a file another name, in place of one that has it; false where that cannot be.
pub fn rename(from: &CStr, to: &CStr) -> bool {
    path_calls::rename(from, to).is_ok()
}

/// Removes a file.
pub fn remove(path: &CStr) {
    // Nothing depends on what becomes of it.
    let _ = path_calls::unlink(path);
}

/// Opens a file for reading.
pub(crate) fn open_read(path: &CStr) -> Option<Fd> {
    open(path, libc::O_RDONLY | libc::O_CLOEXEC)
}

/// Opens a file for writing over what it holds.
pub(crate) fn open_write(path: &CStr) -> Option<Fd> {
    open(path, libc::O_WRONLY | libc::O_CLOEXEC)
}

fn open(path: &CStr, flags: i32) -> Option<Fd> {
    let here = libc::AT_FDCWD as usize;
    let arguments = [here, path.as_ptr() as usize, flags as usize, 0o666, 0, 0];
    // SAFETY: the path is a string that outlives the call.
    let fd = until_uninterrupted(|| unsafe { call(libc::SYS_openat, arguments) });
    Some(Fd(fd.ok()? as i32))
}

/// Writes all of `bytes`; false when the descriptor cannot take them.
pub fn write_all(fd: Fd, bytes: &[u8]) -> bool {
    fd.write_all(bytes)
}

impl Fd {
    /// Writes all of `bytes`; false when the descriptor cannot take them.
    pub fn write_all(self, bytes: &[u8]) -> bool {
        self.try_write_all(bytes).is_ok()
    }

    /// Writes all of `bytes`, or says why the descriptor cannot take them.
    pub(crate) fn try_write_all(self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            let arguments = [
                self.0 as usize,
                bytes.as_ptr() as usize,
                bytes.len(),
                0,
                0,
                0,
            ];
            // SAFETY: the slice is readable for the length given.
            match unsafe { call(libc::SYS_write, arguments) } {
                Ok(0) => return Err(Errno(libc::EIO)),
                Ok(written) => bytes = &bytes[written..],
                Err(Errno(libc::EINTR)) => {}
                Err(Errno(libc::EAGAIN)) => self.wait_until_writable(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn wait_until_writable(self) {
        let mut poll = libc::pollfd {
            fd: self.0,
            events: libc::POLLOUT,
            revents: 0,
        };
        // A failure only means another attempt to write.
        let _ = path_calls::poll(&mut poll);
    }

    /// Reads some bytes, 0 at the end.
    pub(crate) fn read(self, into: &mut [u8]) -> Option<usize> {
        let arguments = [
            self.0 as usize,
            into.as_mut_ptr() as usize,
            into.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the slice is writable for the length given.
        until_uninterrupted(|| unsafe { call(libc::SYS_read, arguments) }).ok()
    }

    /// Reads what is at `offset`, 0 bytes at the end; where the descriptor stands does not matter, nor does it change.
    pub(crate) fn read_at(self, offset: usize, into: &mut [u8]) -> Option<usize> {
        let (start, length) = (into.as_mut_ptr() as usize, into.len());
        let arguments = [self.0 as usize, start, length, offset, 0, 0];
        // SAFETY: the slice is writable for the length given.
        until_uninterrupted(|| unsafe { call(libc::SYS_pread64, arguments) }).ok()
    }

    /// The same file by a descriptor that no program expects to be given, if there is one; this one is closed then. Programs
    /// count on the lowest numbers.
    pub(crate) fn out_of_the_way(self) -> Fd {
        let (copy, from) = (libc::F_DUPFD_CLOEXEC as usize, FIRST_OUT_OF_THE_WAY);
        // SAFETY: makes another descriptor of the file.
        match unsafe { call(libc::SYS_fcntl, [self.0 as usize, copy, from, 0, 0, 0]) } {
            Ok(other) => {
                self.close();
                Fd(other as i32)
            }
            Err(_) => self,
        }
    }

    /// Closes the descriptor. Not repeated when interrupted: it is closed even then.
    pub fn close(self) {
        // SAFETY: the owner of the descriptor calls this once.
        let _ = unsafe { call(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd};

    #[test]
    fn appends_to_a_file_and_creates_it() {
        let path = std::env::temp_dir().join(format!("gleaner-output-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        for text in [&b"one\n"[..], b"two\n"] {
            let file = open_append(&name).unwrap();
            assert!(write_all(file, text));
            file.close();
            assert!(!write_all(file, text), "the descriptor is closed");
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"one\ntwo\n");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(open_append(c"/nowhere/at/all"), None);
    }

    #[test]
    fn a_full_pipe_that_does_not_block_is_waited_for() {
        let mut ends = [0; 2];
        // SAFETY: pipe2 fills the two numbers, each owned once below.
        let (mut from, to) = unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK), 0);
            libc::fcntl(ends[0], libc::F_SETFL, 0);
            (
                std::fs::File::from_raw_fd(ends[0]),
                std::fs::File::from_raw_fd(ends[1]),
            )
        };
        let data: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
        let expected = data.clone();
        let writer = std::thread::spawn(move || Fd(to.as_raw_fd()).write_all(&data));
        let mut got = Vec::new();
        from.read_to_end(&mut got).unwrap();
        assert!(writer.join().unwrap());
        assert!(got == expected);
    }
}
