//! Files and directories by their paths.

use rustix::fs::{AtFlags, Mode, OFlags, fstat, mkdirat, renameat, unlinkat};

use super::context::Context;
use super::descriptors::{FLAGS, rights};
use super::errno::Answer;
use super::guest::{Arguments, Guest};
use super::resolve;
use super::streams::write_stat;

/// A link at the end of the path is followed.
pub(super) const FOLLOW: u32 = 1;

const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;

/// What the umask of the process leaves of these is granted.
const MODE: u32 = 0o666;
const DIRECTORY_MODE: u32 = 0o777;

pub(super) fn follow(lookup: u32) -> OFlags {
    match lookup & FOLLOW {
        0 => OFlags::NOFOLLOW,
        _ => OFlags::empty(),
    }
}

pub(super) fn path_open(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let how = of.u32(4);
    let wanted = of.u64(5);
    let writes = rights::WRITE | rights::ALLOCATE | rights::SET_SIZE;
    let mut flags = follow(of.u32(1));
    flags |= match (wanted & rights::READ != 0, wanted & writes != 0) {
        _ if how & DIRECTORY != 0 => OFlags::RDONLY,
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        (_, false) => OFlags::RDONLY,
    };
    for (flag, linux) in [
        (CREATE, OFlags::CREATE),
        (DIRECTORY, OFlags::DIRECTORY),
        (EXCLUSIVE, OFlags::EXCL),
        (TRUNCATE, OFlags::TRUNC),
    ] {
        if how & flag != 0 {
            flags |= linux;
        }
    }
    for (flag, linux) in FLAGS {
        if of.u32(7) & u32::from(flag) != 0 {
            flags |= linux;
        }
    }
    let mode = match how & CREATE {
        0 => Mode::empty(),
        _ => Mode::from_raw_mode(MODE),
    };
    // The number is written last, so its place is looked at first: no file stays open without its number being known.
    guest.u32(of.u32(8))?;
    let path = resolve::path(guest, of.u32(2), of.u32(3))?;
    let file = resolve::open(context.file(of.u32(0))?, path, flags, mode)?;
    let number = context.add(file);
    guest.write_u32(of.u32(8), number)
}

pub(super) fn path_filestat_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let path = resolve::path(guest, of.u32(2), of.u32(3))?;
    let flags = OFlags::PATH | follow(of.u32(1));
    let file = resolve::open(context.file(of.u32(0))?, path, flags, Mode::empty())?;
    write_stat(guest, of.u32(4), &fstat(file)?)
}

pub(super) fn path_create_directory(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let path = resolve::path(guest, of.u32(1), of.u32(2))?;
    let (directory, name) = resolve::parent(context.file(of.u32(0))?, path)?;
    Ok(mkdirat(
        directory,
        name,
        Mode::from_raw_mode(DIRECTORY_MODE),
    )?)
}

pub(super) fn path_unlink_file(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    remove(context, guest, of, AtFlags::empty())
}

pub(super) fn path_remove_directory(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    remove(context, guest, of, AtFlags::REMOVEDIR)
}

fn remove(context: &Context, guest: &Guest<'_>, of: &Arguments<'_>, flags: AtFlags) -> Answer {
    let path = resolve::path(guest, of.u32(1), of.u32(2))?;
    let (directory, name) = resolve::parent(context.file(of.u32(0))?, path)?;
    Ok(unlinkat(directory, name, flags)?)
}

pub(super) fn path_rename(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let from = resolve::path(guest, of.u32(1), of.u32(2))?;
    let to = resolve::path(guest, of.u32(4), of.u32(5))?;
    let (from, name) = resolve::parent(context.file(of.u32(0))?, from)?;
    let (to, new_name) = resolve::parent(context.file(of.u32(3))?, to)?;
    Ok(renameat(from, name, to, new_name)?)
}
