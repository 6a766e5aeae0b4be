//! Builtins for linear memories.

use super::{Active, answer, lies_in};
use crate::error::TrapKind;
use crate::state::Ending;

/// A range of a memory; the error is a trap.
fn range(active: &mut Active<'_>, memory: u32, start: u32, count: u32) -> Result<*mut u8, Ending> {
    let index = active.instance().memories[memory as usize];
    let record = active.state.memories[index].record();
    if lies_in(start, count, record.bytes) {
        // SAFETY: the start lies in the memory, or at its end.
        Ok(unsafe { record.base.add(start as usize) })
    } else {
        Err(active.trap(TrapKind::MemoryBounds))
    }
}

pub(super) unsafe extern "C" fn grow(context: *const u64, memory: u32, pages: u32) -> u32 {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            let index = active.instance().memories[memory as usize];
            Ok(active.state.memories[index].grow(pages).unwrap_or(u32::MAX))
        })
    }
}

pub(super) unsafe extern "C" fn fill(
    context: *const u64,
    memory: u32,
    start: u32,
    byte: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this; the range lies in the memory.
    unsafe {
        answer(context, |active| {
            let to = range(active, memory, start, count)?;
            to.write_bytes(byte as u8, count as usize);
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn copy(
    context: *const u64,
    to_memory: u32,
    to: u32,
    from_memory: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this; both ranges lie in their memories.
    unsafe {
        answer(context, |active| {
            let from = range(active, from_memory, from, count)?;
            let to = range(active, to_memory, to, count)?;
            to.copy_from(from, count as usize);
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn init(
    context: *const u64,
    memory: u32,
    data: u32,
    to: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            init_memory(active, memory, data, [to, from, count])
        })
    }
}

/// Copies from a data segment: `[start in the memory, start in the segment, count]`.
pub(crate) fn init_memory(
    active: &mut Active<'_>,
    memory: u32,
    data: u32,
    [to, from, count]: [u32; 3],
) -> Result<(), Ending> {
    let bytes = active.instance().datas[data as usize].clone();
    if !lies_in(from, count, bytes.len() as u64) {
        return Err(active.trap(TrapKind::MemoryBounds));
    }
    let to = range(active, memory, to, count)?;
    // SAFETY: both ranges were checked, and a segment is no part of a memory.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr().add(from as usize), count as usize) };
    Ok(())
}

pub(super) unsafe extern "C" fn drop_data(context: *const u64, data: u32) {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            active.instance().datas[data as usize] = [].into();
            Ok(())
        });
    }
}
