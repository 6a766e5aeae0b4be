//! The error numbers of WASI preview 1, and those of Linux as such.

use rustix::io;

/// What a function of WASI answers where it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Errno(pub(super) u16);

impl Errno {
    pub(super) const BADF: Errno = Errno(8);
    pub(super) const FAULT: Errno = Errno(21);
    pub(super) const INVAL: Errno = Errno(28);
    pub(super) const IO: Errno = Errno(29);
    pub(super) const NAMETOOLONG: Errno = Errno(37);
    pub(super) const NOTDIR: Errno = Errno(54);
    pub(super) const NOTSOCK: Errno = Errno(57);
    pub(super) const NOTSUP: Errno = Errno(58);
    pub(super) const OVERFLOW: Errno = Errno(61);
    pub(super) const PERM: Errno = Errno(63);
    /// A path leads out of the directory that it begins in.
    pub(super) const NOTCAPABLE: Errno = Errno(76);
}

/// What a function of WASI answers.
pub(super) type Answer = Result<(), Errno>;

/// Numbers of Linux with those of WASI. WASI orders them by name.
const NUMBERS: [(i32, u16); 48] = [
    (libc::E2BIG, 1),
    (libc::EACCES, 2),
    (libc::EAGAIN, 6),
    (libc::EBADF, 8),
    (libc::EBUSY, 10),
    (libc::ECANCELED, 11),
    (libc::ECONNABORTED, 13),
    (libc::ECONNREFUSED, 14),
    (libc::ECONNRESET, 15),
    (libc::EDEADLK, 16),
    (libc::EDOM, 18),
    (libc::EDQUOT, 19),
    (libc::EEXIST, 20),
    (libc::EFAULT, 21),
    (libc::EFBIG, 22),
    (libc::EILSEQ, 25),
    (libc::EINTR, 27),
    (libc::EINVAL, 28),
    (libc::EIO, 29),
    (libc::EISDIR, 31),
    (libc::ELOOP, 32),
    (libc::EMFILE, 33),
    (libc::EMLINK, 34),
    (libc::ENAMETOOLONG, 37),
    (libc::ENFILE, 41),
    (libc::ENOBUFS, 42),
    (libc::ENODEV, 43),
    (libc::ENOENT, 44),
    (libc::ENOEXEC, 45),
    (libc::ENOLCK, 46),
    (libc::ENOMEM, 48),
    (libc::ENOSPC, 51),
    (libc::ENOSYS, 52),
    (libc::ENOTCONN, 53),
    (libc::ENOTDIR, 54),
    (libc::ENOTEMPTY, 55),
    (libc::ENOTSUP, 58),
    (libc::ENOTTY, 59),
    (libc::ENXIO, 60),
    (libc::EOVERFLOW, 61),
    (libc::EPERM, 63),
    (libc::EPIPE, 64),
    (libc::ERANGE, 68),
    (libc::EROFS, 69),
    (libc::ESPIPE, 70),
    (libc::ESTALE, 72),
    (libc::ETXTBSY, 74),
    (libc::EXDEV, 75),
];

impl From<io::Errno> for Errno {
    fn from(error: io::Errno) -> Errno {
        let number = error.raw_os_error();
        let found = NUMBERS.iter().find(|(linux, _)| *linux == number);
        found.map_or(Errno::IO, |&(_, wasi)| Errno(wasi))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_linux_become_those_of_wasi() {
        assert_eq!(Errno::from(io::Errno::SPIPE), Errno(70));
        assert_eq!(Errno::from(io::Errno::PIPE), Errno(64));
        assert_eq!(Errno::from(io::Errno::NOSPC), Errno(51));
        assert_eq!(Errno::from(io::Errno::HOSTDOWN), Errno::IO);
    }

    #[test]
    fn no_number_stands_for_two() {
        assert!(NUMBERS.windows(2).all(|pair| pair[0].1 < pair[1].1));
        for (index, (linux, _)) in NUMBERS.iter().enumerate() {
            assert!(NUMBERS[..index].iter().all(|(other, _)| other != linux));
        }
    }
}
