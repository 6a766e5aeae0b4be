//! Files that are open: reading, writing, the position, the size, and what is known of them.

use std::io::{IoSlice, IoSliceMut};

use rustix::fs::{FileType, SeekFrom, Stat, fdatasync, fstat, fsync, ftruncate, seek, tell};
use rustix::io::{preadv, pwritev, readv, retry_on_intr, writev};

use super::context::Context;
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};

/// So many stretches of memory at most go into one call; the program writes the rest with another.
const MOST_STRETCHES: u32 = 1024;

/// What WASI calls a type of files. It has none for pipes.
pub(super) fn kind(of: FileType) -> u8 {
    match of {
        FileType::BlockDevice => 1,
        FileType::CharacterDevice => 2,
        FileType::Directory => 3,
        FileType::RegularFile => 4,
        FileType::Socket => 6,
        FileType::Symlink => 7,
        _ => 0,
    }
}

/// Where the stretches of memory lie that a call names, and how long they are.
fn stretches(guest: &Guest<'_>, at: u32, count: u32) -> Result<Vec<(u32, u32)>, Errno> {
    let bytes = count.checked_mul(8).ok_or(Errno::FAULT)?;
    guest.bytes(at, bytes)?;
    (0..count.min(MOST_STRETCHES))
        .map(|index| Ok((guest.u32(at + index * 8)?, guest.u32(at + index * 8 + 4)?)))
        .collect()
}

/// Calls `write` with the stretches of memory that the second and third argument name, and stores what it wrote.
fn gather(
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
    into: u32,
    write: impl Fn(&[IoSlice<'_>]) -> rustix::io::Result<usize>,
) -> Answer {
    let stretches = stretches(guest, of.u32(1), of.u32(2))?;
    // Nothing is written whose length the program could not be told.
    guest.u32(into)?;
    let slices = stretches.iter();
    let slices: Vec<IoSlice<'_>> = slices
        .map(|&(at, count)| guest.bytes(at, count).map(IoSlice::new))
        .collect::<Result<_, _>>()?;
    let written = retry_on_intr(|| write(&slices))?;
    let written = u32::try_from(written).map_err(|_| Errno::OVERFLOW)?;
    guest.write_u32(into, written)
}

/// Calls `read` with the first stretch of memory that is not empty, and stores what it read: fewer bytes than asked for are
/// always allowed.
fn scatter(
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
    into: u32,
    read: impl Fn(&mut [IoSliceMut<'_>]) -> rustix::io::Result<usize>,
) -> Answer {
    let stretches = stretches(guest, of.u32(1), of.u32(2))?;
    guest.u32(into)?;
    let first = stretches.into_iter().find(|&(_, count)| count > 0);
    let (at, count) = first.unwrap_or((0, 0));
    let bytes = guest.bytes_mut(at, count)?;
    let read = retry_on_intr(|| read(&mut [IoSliceMut::new(bytes)]))?;
    let read = u32::try_from(read).map_err(|_| Errno::OVERFLOW)?;
    guest.write_u32(into, read)
}

pub(super) fn fd_write(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let file = context.file(of.u32(0))?;
    gather(guest, of, of.u32(3), |slices| writev(file, slices))
}

pub(super) fn fd_pwrite(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let (file, offset) = (context.file(of.u32(0))?, of.u64(3));
    gather(guest, of, of.u32(4), |slices| pwritev(file, slices, offset))
}

pub(super) fn fd_read(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let file = context.file(of.u32(0))?;
    scatter(guest, of, of.u32(3), |slices| readv(file, slices))
}

pub(super) fn fd_pread(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let (file, offset) = (context.file(of.u32(0))?, of.u64(3));
    scatter(guest, of, of.u32(4), |slices| preadv(file, slices, offset))
}

pub(super) fn fd_sync(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    Ok(fsync(context.file(of.u32(0))?)?)
}

pub(super) fn fd_datasync(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    Ok(fdatasync(context.file(of.u32(0))?)?)
}

pub(super) fn fd_seek(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let file = context.file(of.u32(0))?;
    let offset = of.u64(1) as i64;
    let to = match of.u32(2) {
        0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVAL)?),
        1 => SeekFrom::Current(offset),
        2 => SeekFrom::End(offset),
        _ => return Err(Errno::INVAL),
    };
    guest.write_u64(of.u32(3), seek(file, to)?)
}

pub(super) fn fd_tell(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    guest.write_u64(of.u32(1), tell(context.file(of.u32(0))?)?)
}

pub(super) fn fd_filestat_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let stat = fstat(context.file(of.u32(0))?)?;
    write_stat(guest, of.u32(1), &stat)
}

pub(super) fn fd_filestat_set_size(
    context: &mut Context,
    _: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    Ok(ftruncate(context.file(of.u32(0))?, of.u64(1))?)
}

/// Writes what is known of a file, 64 bytes.
pub(super) fn write_stat(guest: &mut Guest<'_>, at: u32, stat: &Stat) -> Answer {
    let time = |seconds: i64, rest: u64| {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(rest)
    };
    let words = [
        stat.st_dev,
        stat.st_ino,
        u64::from(kind(FileType::from_raw_mode(stat.st_mode))),
        stat.st_nlink,
        stat.st_size as u64,
        time(stat.st_atime, stat.st_atime_nsec),
        time(stat.st_mtime, stat.st_mtime_nsec),
        time(stat.st_ctime, stat.st_ctime_nsec),
    ];
    let mut out = [0; 64];
    for (place, word) in out.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    guest.write(at, &out)
}
