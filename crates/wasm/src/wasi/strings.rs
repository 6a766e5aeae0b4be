//! Arguments and environment: lists of strings that end with zero.

use std::ffi::CString;

use super::context::Context;
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};

pub(super) fn args_get(context: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    copy(&context.arguments, guest, of)
}

pub(super) fn args_sizes_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    sizes(&context.arguments, guest, of)
}

pub(super) fn environ_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    copy(&context.environment, guest, of)
}

pub(super) fn environ_sizes_get(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    sizes(&context.environment, guest, of)
}

fn sizes(strings: &[CString], guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let bytes: usize = strings.iter().map(|one| one.count_bytes() + 1).sum();
    let word = |number: usize| u32::try_from(number).map_err(|_| Errno::OVERFLOW);
    guest.write_u32(of.u32(0), word(strings.len())?)?;
    guest.write_u32(of.u32(1), word(bytes)?)
}

fn copy(strings: &[CString], guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let (mut place, mut text) = (of.u32(0), of.u32(1));
    for string in strings {
        guest.write_u32(place, text)?;
        guest.write(text, string.to_bytes_with_nul())?;
        // What was written lies in the memory, and ends at 4 GB at most.
        place = place.wrapping_add(4);
        text = text.wrapping_add(string.count_bytes() as u32 + 1);
    }
    Ok(())
}
