//! Links: what they say, and making them.
//!
//! A link that the program makes may say anything but an absolute path. Nothing that the program opens follows it out of its
//! directory; an absolute one would mislead other programs of the host.

use rustix::fs::{AtFlags, Mode, OFlags, linkat, readlinkat, symlinkat};

use super::context::Context;
use super::errno::{Answer, Errno};
use super::files::FOLLOW;
use super::guest::{Arguments, Guest};
use super::resolve;

/// Writes what a link says, as far as there is room.
pub(super) fn path_readlink(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let path = resolve::path(guest, of.u32(1), of.u32(2))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let link = resolve::open(context.file(of.u32(0))?, path, flags, Mode::empty())?;
    let text = readlinkat(link, "", Vec::new()).map_err(|error| match error {
        // What Linux says of a file that is no link, where the path is empty.
        rustix::io::Errno::NOENT => Errno::INVAL,
        other => other.into(),
    })?;
    let room = guest.bytes_mut(of.u32(3), of.u32(4))?;
    let count = room.len().min(text.count_bytes());
    room[..count].copy_from_slice(&text.to_bytes()[..count]);
    guest.write_u32(of.u32(5), count as u32)
}

/// Gives a file a second name. Where the first is a link, it is the link that gets one: following it is refused.
pub(super) fn path_link(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    if of.u32(1) & FOLLOW != 0 {
        return Err(Errno::INVAL);
    }
    let from = resolve::path(guest, of.u32(2), of.u32(3))?;
    let to = resolve::path(guest, of.u32(5), of.u32(6))?;
    if from.ends_with(b"/") {
        // Linux follows the link before a slash, wherever it leads. So this path is resolved as all others are: what it then
        // is can be a directory alone, which gets no second name.
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        resolve::open(context.file(of.u32(0))?, from, flags, Mode::empty())?;
        return Err(Errno::PERM);
    }
    let (from, name) = resolve::parent(context.file(of.u32(0))?, from)?;
    let (to, new_name) = resolve::parent(context.file(of.u32(4))?, to)?;
    Ok(linkat(from, name, to, new_name, AtFlags::empty())?)
}

pub(super) fn path_symlink(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let says = resolve::path(guest, of.u32(0), of.u32(1))?;
    if says.starts_with(b"/") {
        return Err(Errno::NOTCAPABLE);
    }
    let path = resolve::path(guest, of.u32(3), of.u32(4))?;
    let (directory, name) = resolve::parent(context.file(of.u32(2))?, path)?;
    Ok(symlinkat(says, directory, name)?)
}
