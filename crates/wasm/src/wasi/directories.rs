//! Directories that are open: what the host calls them, and the names in them.

use rustix::fs::{Dir, FileType, fstat};

use super::context::{Context, Descriptor, Name};
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};
use super::streams::kind;

/// Before each name: the place of the next, the inode, the length, and the type of the file.
const HEADER_BYTES: usize = 24;

pub(super) fn fd_prestat_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let name = guest_name(context, of.u32(0))?;
    let bytes = u32::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
    // The first number says that it is a directory; WASI has nothing else.
    guest.write_u32(of.u32(1), 0)?;
    guest.write_u32(of.u32(1).wrapping_add(4), bytes)
}

pub(super) fn fd_prestat_dir_name(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let name = guest_name(context, of.u32(0))?;
    if (of.u32(2) as usize) < name.len() {
        return Err(Errno::NAMETOOLONG);
    }
    guest.write(of.u32(1), name)
}

fn guest_name(context: &mut Context, number: u32) -> Result<&[u8], Errno> {
    let descriptor = context.descriptor(number)?;
    descriptor.guest_name.as_deref().ok_or(Errno::BADF)
}

pub(super) fn fd_readdir(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let descriptor = context.descriptor(of.u32(0))?;
    let first = usize::try_from(of.u64(3)).map_err(|_| Errno::INVAL)?;
    if first == 0 {
        descriptor.listing = None;
    }
    let names = match &descriptor.listing {
        Some(names) => names,
        None => descriptor.listing.insert(list(descriptor)?),
    };
    let out = guest.bytes_mut(of.u32(1), of.u32(2))?;
    let mut used = 0;
    for (index, name) in names.iter().enumerate().skip(first) {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&(index as u64 + 1).to_le_bytes());
        header[8..16].copy_from_slice(&name.inode.to_le_bytes());
        header[16..20].copy_from_slice(&(name.bytes.len() as u32).to_le_bytes());
        header[20] = name.kind;
        used += fill(&mut out[used..], &header);
        used += fill(&mut out[used..], &name.bytes);
        if used == out.len() {
            break;
        }
    }
    guest.write_u32(of.u32(4), used as u32)
}

/// Writes as much as there is room for. A program that finds no whole name at the end asks for it again.
fn fill(out: &mut [u8], bytes: &[u8]) -> usize {
    let count = bytes.len().min(out.len());
    out[..count].copy_from_slice(&bytes[..count]);
    count
}

fn list(descriptor: &Descriptor) -> Result<Vec<Name>, Errno> {
    let stat = fstat(&descriptor.file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    let mut names = Vec::new();
    for entry in Dir::read_from(&descriptor.file)? {
        let entry = entry?;
        let bytes = entry.file_name().to_bytes().to_vec();
        // What lies above the directory is nothing that the program may know.
        let inode = match bytes == b".." {
            true => stat.st_ino,
            false => entry.ino(),
        };
        names.push(Name {
            inode,
            kind: kind(entry.file_type()),
            bytes,
        });
    }
    Ok(names)
}
