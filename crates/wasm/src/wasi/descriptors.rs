//! Descriptors as such: their numbers, flags and rights, and advice about what they stand for.

use std::num::NonZeroU64;

use rustix::fs::{
    Advice, FallocateFlags, FileType, OFlags, fadvise, fallocate, fcntl_getfl, fcntl_setfl, fstat,
    tell,
};

use super::context::Context;
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};
use super::streams::kind;

/// Rights, by the bits that matter here. The others are all granted.
pub(super) mod rights {
    pub const READ: u64 = 1 << 1;
    pub const SEEK: u64 = 1 << 2;
    pub const TELL: u64 = 1 << 5;
    pub const WRITE: u64 = 1 << 6;
    pub const ALLOCATE: u64 = 1 << 8;
    pub const SET_SIZE: u64 = 1 << 22;
    pub const ALL: u64 = (1 << 30) - 1;
}

/// Flags of descriptors, with those of Linux.
pub(super) const FLAGS: [(u16, OFlags); 4] = [
    (1, OFlags::APPEND),
    (2, OFlags::DSYNC),
    (4, OFlags::NONBLOCK),
    (16, OFlags::SYNC),
];

/// Those of the flags that Linux changes of an open file. It takes the others without a word and without effect.
const CHANGEABLE: OFlags = OFlags::APPEND.union(OFlags::NONBLOCK);

pub(super) fn fd_close(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    context.close(of.u32(0))
}

pub(super) fn fd_fdstat_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let file = context.file(of.u32(0))?;
    let kind = kind(FileType::from_raw_mode(fstat(file)?.st_mode));
    let open = fcntl_getfl(file)?;
    let flags = FLAGS.iter().filter(|(_, linux)| open.contains(*linux));
    let flags = flags.fold(0, |sum, (flag, _)| sum | flag);
    let mut granted = rights::ALL;
    match open & OFlags::RWMODE {
        OFlags::WRONLY => granted &= !rights::READ,
        OFlags::RDWR => (),
        _ => granted &= !rights::WRITE,
    }
    // Without these two rights programs take a character device for a terminal.
    if tell(file).is_err() || kind == 2 {
        granted &= !(rights::SEEK | rights::TELL);
    }
    let mut out = [0; 24];
    out[0] = kind;
    out[2..4].copy_from_slice(&u16::to_le_bytes(flags));
    out[8..16].copy_from_slice(&granted.to_le_bytes());
    out[16..].copy_from_slice(&rights::ALL.to_le_bytes());
    guest.write(of.u32(1), &out)
}

/// Sets whether writes go to the end and whether calls wait. The flags of writing through to the disk stay what they are, and so
/// do all flags of what the host opened: a shell would find its terminal without waiting when the program has ended.
pub(super) fn fd_fdstat_set_flags(
    context: &mut Context,
    _: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let descriptor = context.descriptor(of.u32(0))?;
    let open = fcntl_getfl(&descriptor.file)?;
    let asked = FLAGS
        .iter()
        .filter(|(flag, _)| of.u32(1) & u32::from(*flag) != 0);
    let asked = asked.fold(OFlags::empty(), |sum, (_, linux)| sum | *linux);
    let changed = match descriptor.is_own {
        true => open & !CHANGEABLE | asked & CHANGEABLE,
        false => open,
    };
    if !changed.contains(asked) {
        return Err(Errno::NOTSUP);
    }
    Ok(fcntl_setfl(&descriptor.file, changed)?)
}

/// Rights may be given up and not gained. All are granted here, and none of them is taken away: what a program may do follows
/// from how a file was opened.
pub(super) fn fd_fdstat_set_rights(
    context: &mut Context,
    _: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    context.file(of.u32(0))?;
    match (of.u64(1) | of.u64(2)) & !rights::ALL {
        0 => Ok(()),
        _ => Err(Errno::NOTCAPABLE),
    }
}

/// Closes the second number and gives it what is open under the first.
pub(super) fn fd_renumber(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    context.renumber(of.u32(0), of.u32(1))
}

pub(super) fn fd_advise(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let file = context.file(of.u32(0))?;
    let advice = match of.u32(3) {
        0 => Advice::Normal,
        1 => Advice::Sequential,
        2 => Advice::Random,
        3 => Advice::WillNeed,
        4 => Advice::DontNeed,
        5 => Advice::NoReuse,
        _ => return Err(Errno::INVAL),
    };
    // To Linux, no length is all that follows, as it is to WASI.
    let length = NonZeroU64::new(of.u64(2));
    Ok(fadvise(file, of.u64(1), length, advice)?)
}

/// Makes a file at least as long as the offset and the length together, with room on the disk.
pub(super) fn fd_allocate(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let file = context.file(of.u32(0))?;
    Ok(fallocate(
        file,
        FallocateFlags::empty(),
        of.u64(1),
        of.u64(2),
    )?)
}

/// What is asked of a socket: no descriptor is one to a program, whatever its standard streams are to the host.
pub(super) fn no_socket(context: &mut Context, _: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    context.file(of.u32(0))?;
    Err(Errno::NOTSOCK)
}
