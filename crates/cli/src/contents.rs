//! A file's contents for reading, mapped and not copied: mapped files are no data, so any program can be looked at under
//! a limit on data that it could run under itself.
#![allow(unsafe_code, reason = "std maps no files")]

use std::fs::File;
use std::io::{Error, Result};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;

use gleaner_os::refusal;

/// The contents of a file.
pub(crate) enum Contents {
    /// `bytes` bytes that this value maps and unmaps.
    Mapped {
        start: *mut libc::c_void,
        bytes: usize,
    },
    /// What cannot be mapped.
    Read(Vec<u8>),
}

/// Maps a file, or reads it if it is none that can be mapped. Under a limit the error says which.
pub(crate) fn read(path: &Path) -> Result<Contents> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len() as usize;
    // SAFETY: a new private mapping disturbs no other; the kernel checks the descriptor and the size.
    let start = unsafe {
        let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            access,
            kind,
            file.as_raw_fd(),
            0,
        )
    };
    if start != libc::MAP_FAILED {
        return Ok(Contents::Mapped { start, bytes });
    }
    let error = Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENOMEM) {
        return Err(Error::other(refusal::reason(bytes, 0).text()));
    }
    std::fs::read(path).map(Contents::Read)
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: mapped for reading as long as this value lives.
            Contents::Mapped { start, bytes } => unsafe {
                std::slice::from_raw_parts(start.cast(), *bytes)
            },
            Contents::Read(bytes) => bytes,
        }
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        if let Contents::Mapped { start, bytes } = *self {
            // SAFETY: this value's own mapping, which nobody refers to any more.
            unsafe { libc::munmap(start, bytes) };
        }
    }
}

/// Whether these bytes stand anywhere in the data.
pub(crate) fn has(data: &[u8], wanted: &[u8]) -> bool {
    memchr::memmem::find(data, wanted).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_kind_are_read() {
        let shell = read(Path::new("/bin/sh")).unwrap();
        assert!(matches!(shell, Contents::Mapped { .. }));
        assert_eq!(*shell, *std::fs::read("/bin/sh").unwrap());
        assert!(read(Path::new("/dev/null")).unwrap().is_empty());
        assert!(
            read(Path::new("/proc/self/status"))
                .unwrap()
                .starts_with(b"Name:")
        );
        assert!(read(Path::new("/")).is_err() && read(Path::new("/none")).is_err());
    }
}
