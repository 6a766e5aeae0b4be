//! Setting when a file was last read and written.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};
use rustix::time::Timespec;

use super::context::Context;
use super::errno::{Answer, Errno};
use super::files::follow;
use super::guest::{Arguments, Guest};
use super::resolve;

const READ: u32 = 1;
const READ_NOW: u32 = 2;
const WRITTEN: u32 = 4;
const WRITTEN_NOW: u32 = 8;

pub(super) fn fd_filestat_set_times(
    context: &mut Context,
    _: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let times = times([of.u64(1), of.u64(2)], of.u32(3))?;
    set(context.file(of.u32(0))?, &times)
}

pub(super) fn path_filestat_set_times(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let times = times([of.u64(4), of.u64(5)], of.u32(6))?;
    let path = resolve::path(guest, of.u32(2), of.u32(3))?;
    let flags = OFlags::PATH | follow(of.u32(1));
    let file = resolve::open(context.file(of.u32(0))?, path, flags, Mode::empty())?;
    set(file.as_fd(), &times)
}

/// Of an open file, or of one that was found without being opened.
fn set(file: BorrowedFd<'_>, times: &Timestamps) -> Answer {
    Ok(utimensat(file, "", times, AtFlags::EMPTY_PATH)?)
}

/// The times of reading and writing in nanoseconds, as far as the flags ask for them.
fn times([read, written]: [u64; 2], flags: u32) -> Result<Timestamps, Errno> {
    Ok(Timestamps {
        last_access: time(read, flags & READ != 0, flags & READ_NOW != 0)?,
        last_modification: time(written, flags & WRITTEN != 0, flags & WRITTEN_NOW != 0)?,
    })
}

fn time(nanoseconds: u64, given: bool, now: bool) -> Result<Timespec, Errno> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match (given, now) {
        (true, true) => Err(Errno::INVAL),
        (true, false) => Ok(Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as _,
        }),
        (false, true) => Ok(special(UTIME_NOW)),
        (false, false) => Ok(special(UTIME_OMIT)),
    }
}
