//! Paths: what lies below a directory that the host opened, and nothing else.
//!
//! The kernel resolves each path (`openat2` with `RESOLVE_BENEATH`): no `..`, no absolute path and no link leads out, however
//! others change the tree meanwhile. What works on a name and not on a file gets the name's directory that way, and the
//! system calls for it never follow the last part of a path.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno as Linux;

use super::errno::Errno;
use super::guest::Guest;

/// So often a path is resolved anew where the tree changes meanwhile.
const TRIES: usize = 64;

/// Opens a directory for a program, in the name of the host. It fails where the kernel cannot keep paths below it.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags, Mode::empty())?;
    let probe = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(&root, ".", probe, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => Ok(root),
        Err(Linux::NOSYS | Linux::PERM) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel does not let openat2 be used (it is in Linux since 5.6), so paths could lead out of the directory",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Opens what a path leads to, below a directory.
pub(super) fn open(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut flags = flags | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        // A terminal does not become that of this process. With PATH nothing is opened, and the kernel refuses the flag.
        flags |= OFlags::NOCTTY;
    }
    for _ in 0..TRIES {
        return match openat2(root, path, flags, mode, resolve) {
            Err(Linux::AGAIN | Linux::INTR) => continue,
            Err(Linux::XDEV) => Err(Errno::NOTCAPABLE),
            other => Ok(other?),
        };
    }
    Err(Linux::AGAIN.into())
}

/// The directory that a path's last name is in, and that name, with the slashes behind it.
pub(super) fn parent<'a>(
    root: BorrowedFd<'_>,
    path: &'a [u8],
) -> Result<(OwnedFd, &'a [u8]), Errno> {
    let end = path.iter().rposition(|&byte| byte != b'/');
    let end = match end {
        Some(last) => last + 1,
        None if path.is_empty() => return Err(Linux::NOENT.into()),
        None => return Err(Errno::NOTCAPABLE),
    };
    let slash = path[..end].iter().rposition(|&byte| byte == b'/');
    let start = slash.map_or(0, |slash| slash + 1);
    if path[start..end] == *b"." || path[start..end] == *b".." {
        // Either is a directory that exists, below its parent or above.
        return Err(match path[start..end] {
            [_] => Errno::INVAL,
            _ => Errno::NOTCAPABLE,
        });
    }
    let directory = match start {
        0 => b".",
        _ => &path[..start],
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let directory = open(root, directory, flags, Mode::empty())?;
    Ok((directory, &path[start..]))
}

/// A path in the memory of the program.
pub(super) fn path<'a>(guest: &'a Guest<'_>, at: u32, count: u32) -> Result<&'a [u8], Errno> {
    if count as usize >= libc::PATH_MAX as usize {
        return Err(Errno::NAMETOOLONG);
    }
    let path = guest.bytes(at, count)?;
    match path.contains(&0) {
        true => Err(Errno::INVAL),
        false => Ok(path),
    }
}
