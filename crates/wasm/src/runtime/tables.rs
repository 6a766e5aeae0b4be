//! Builtins for tables.

use super::{Active, answer, lies_in};
use crate::error::TrapKind;
use crate::state::Ending;

/// A range of a table; the error is a trap.
fn range(active: &mut Active<'_>, table: u32, start: u32, count: u32) -> Result<*mut u64, Ending> {
    let index = active.instance().tables[table as usize];
    let record = active.state.tables[index].record();
    if lies_in(start, count, record.length) {
        // SAFETY: the start lies in the table, or at its end.
        Ok(unsafe { record.base.add(start as usize) })
    } else {
        Err(active.trap(TrapKind::TableBounds))
    }
}

pub(super) unsafe extern "C" fn grow(
    context: *const u64,
    table: u32,
    bits: u64,
    count: u32,
) -> u32 {
    // SAFETY: compiled code calls this, with a value of the table's type.
    unsafe {
        answer(context, |active| {
            let index = active.instance().tables[table as usize];
            let state = &mut *active.state;
            Ok(state.tables[index]
                .grow(&mut state.mutator, count, bits)
                .unwrap_or(u32::MAX))
        })
    }
}

pub(super) unsafe extern "C" fn fill(
    context: *const u64,
    table: u32,
    start: u32,
    bits: u64,
    count: u32,
) {
    // SAFETY: compiled code calls this; the range lies in the table.
    unsafe {
        answer(context, |active| {
            let to = range(active, table, start, count)?;
            std::slice::from_raw_parts_mut(to, count as usize).fill(bits);
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn copy(
    context: *const u64,
    to_table: u32,
    to: u32,
    from_table: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this; both ranges lie in their tables.
    unsafe {
        answer(context, |active| {
            let from = range(active, from_table, from, count)?;
            let to = range(active, to_table, to, count)?;
            to.copy_from(from, count as usize);
            Ok(())
        });
    }
}

pub(super) unsafe extern "C" fn init(
    context: *const u64,
    table: u32,
    element: u32,
    to: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            init_table(active, table, element, [to, from, count])
        })
    }
}

/// Copies from an element segment: `[start in the table, start in the segment, count]`.
pub(crate) fn init_table(
    active: &mut Active<'_>,
    table: u32,
    element: u32,
    [to, from, count]: [u32; 3],
) -> Result<(), Ending> {
    let length = active.instance().elements[element as usize].record().length;
    if !lies_in(from, count, length) {
        return Err(active.trap(TrapKind::TableBounds));
    }
    let to = range(active, table, to, count)?;
    let segment = active.instance().elements[element as usize].record();
    // SAFETY: both ranges were checked, and a segment is no part of a table.
    unsafe { to.copy_from_nonoverlapping(segment.base.add(from as usize), count as usize) };
    Ok(())
}

pub(super) unsafe extern "C" fn drop_element(context: *const u64, element: u32) {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            let number = active.number;
            let state = &mut *active.state;
            state.instances[number].elements[element as usize].clear(&mut state.mutator);
            Ok(())
        });
    }
}
