//! A small file of the kernel's that is opened once, while a process may still open files, and read again and again.
//!
//! A program may confine itself once it has started (seccomp): then a call that opens a file may end it. So whatever is
//! asked again later is asked by a descriptor from the start. The descriptor has a number that no program expects to be
//! given, and stays open; a child of a fork has it, too, and a program that is executed does not. A program that closes
//! all descriptors closes it: that, or another file under its number, shows in the file's identity, and nothing is read.
//!
//! Any thread, any state of the world; nothing here allocates.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::output::{Fd, Identity, open_read};
use crate::procfs;

/// A file that is kept open, and how it is told from others. A copy is the same descriptor.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) file: Fd,
    /// `None`: there is no such file.
    identity: Option<Identity>,
}

impl Kept {
    /// No file.
    pub(crate) const NONE: Kept = Kept {
        file: Fd(-1),
        identity: None,
    };

    /// No file, where it cannot be opened.
    pub(crate) fn open(path: &CStr) -> Kept {
        Kept::of(open_read(path))
    }

    /// The file of a descriptor, which gets a number out of the way.
    pub(crate) fn of(opened: Option<Fd>) -> Kept {
        opened.map_or(Kept::NONE, |file| {
            let file = file.out_of_the_way();
            let identity = Identity::of(file);
            Kept { file, identity }
        })
    }

    /// Whether both are the same file.
    pub(crate) fn is(&self, other: &Kept) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// Whether the descriptor still is that of the file.
    pub(crate) fn is_held(&self) -> bool {
        self.identity.is_some() && Identity::of(self.file) == self.identity
    }

    /// The file for a while; one that the program closed is opened anew, by `open`.
    pub(crate) fn lent(&self, open: impl FnOnce() -> Option<Fd>) -> Option<Lent> {
        let is_held = self.is_held();
        let file = if is_held { self.file } else { open()? };
        Some(Lent {
            file,
            is_anew: !is_held,
        })
    }

    /// What the file begins with now, as much of it as fits.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        self.read_at(0, buffer)
    }

    /// What it has now from `offset` on, as much of it as fits.
    fn read_at<'b>(&self, offset: usize, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        if !self.is_held() {
            return None;
        }
        let length = self.file.read_at(offset, buffer)?;
        Some(&buffer[..length])
    }

    /// The number that the file begins with.
    pub(crate) fn number(&self) -> Option<u64> {
        let mut buffer = [0u8; 32];
        procfs::number(self.read(&mut buffer)?)
    }

    /// Closes the file, unless the program did.
    pub(crate) fn close(&self) {
        if self.is_held() {
            self.file.close();
        }
    }
}

/// A kept file that someone uses.
pub(crate) struct Lent {
    pub(crate) file: Fd,
    is_anew: bool,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.is_anew {
            self.file.close();
        }
    }
}

/// No descriptor yet; a thread opens the file, or there is none.
const NOT_OPEN: i32 = -1;
const OPENING: i32 = -2;

/// One for the whole process, opened by [`KeptFile::open`] and never closed.
pub(crate) struct KeptFile {
    path: &'static CStr,
    /// The descriptor. Stored with Release behind the identity, and loaded with Acquire before it.
    file: AtomicI32,
    device: AtomicU64,
    inode: AtomicU64,
}

impl KeptFile {
    /// That file, not opened.
    pub(crate) const fn new(path: &'static CStr) -> KeptFile {
        KeptFile {
            path,
            file: AtomicI32::new(NOT_OPEN),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Opens the file unless it is open or was refused before.
    pub(crate) fn open(&self) {
        // Relaxed: the thread that claims it reads nothing that another wrote.
        let claim =
            self.file
                .compare_exchange(NOT_OPEN, OPENING, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_err() {
            return;
        }
        let kept = Kept::open(self.path);
        if let Some(identity) = kept.identity {
            self.device.store(identity.device, Ordering::Relaxed);
            self.inode.store(identity.inode, Ordering::Relaxed);
            self.file.store(kept.file.0, Ordering::Release);
        }
    }

    /// What the file begins with now, as much of it as fits; `None` where it is not open.
    pub(crate) fn read<'b>(&self, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        self.read_at(0, buffer)
    }

    /// What it has now from `offset` on.
    pub(crate) fn read_at<'b>(&self, offset: usize, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let file = Fd(self.file.load(Ordering::Acquire));
        if file.0 < 0 {
            return None;
        }
        let identity = Some(Identity {
            device: self.device.load(Ordering::Relaxed),
            inode: self.inode.load(Ordering::Relaxed),
        });
        Kept { file, identity }.read_at(offset, buffer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_kept_file_is_read_anew_each_time() {
        static NAME: KeptFile = KeptFile::new(c"/proc/thread-self/comm");
        let mut buffer = [0; 32];
        assert_eq!(NAME.read(&mut buffer), None, "it is not open");
        std::thread::spawn(|| {
            NAME.open();
            let file = NAME.file.load(Ordering::Relaxed);
            assert!(file >= 96, "out of the way of the program's: {file}");
            NAME.open();
            assert_eq!(NAME.file.load(Ordering::Relaxed), file);
            let mut buffer = [0; 32];
            for name in [
                b"one\0\0\0\0\0\0\0\0\0\0\0\0\0",
                b"two\0\0\0\0\0\0\0\0\0\0\0\0\0",
            ] {
                crate::threads::name_current(name);
                let read = NAME.read(&mut buffer).unwrap();
                assert_eq!(read, [&name[..3], b"\n"].concat());
            }
            let mut short = [0; 2];
            assert_eq!(NAME.read(&mut short), Some(&b"tw"[..]));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn another_file_under_its_number_is_not_read() {
        static SELF: KeptFile = KeptFile::new(c"/proc/self/comm");
        SELF.open();
        let mut buffer = [0; 32];
        assert!(SELF.read(&mut buffer).is_some());
        let (file, other) = (
            Fd(SELF.file.load(Ordering::Relaxed)),
            open_read(c"/proc/self/stat").unwrap(),
        );
        // SAFETY: replaces a descriptor that only this test has.
        unsafe { libc::dup2(other.0, file.0) };
        assert_eq!(SELF.read(&mut buffer), None);
        file.close();
        assert_eq!(SELF.read(&mut buffer), None);
        other.close();
    }

    #[test]
    fn a_file_that_is_not_there_is_looked_for_once() {
        static NOWHERE: KeptFile = KeptFile::new(c"/nowhere/at/all");
        NOWHERE.open();
        NOWHERE.open();
        assert_eq!(NOWHERE.read(&mut [0; 8]), None);
        assert_eq!(NOWHERE.file.load(Ordering::Relaxed), OPENING);
    }
}
