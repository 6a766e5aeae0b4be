//! Offsets of slots, as a type's description lists them.

use core::ops::Range;

/// Whether slots of `slot_bytes` at these offsets are aligned, in ascending order and `within` a range of bytes, without
/// overlapping. The error is the first offset that is not.
pub(crate) fn check(offsets: &[u32], within: Range<usize>, slot_bytes: usize) -> Result<(), u32> {
    let mut free = within.start;
    for &offset in offsets {
        let start = offset as usize;
        if start < free || !start.is_multiple_of(slot_bytes) || start + slot_bytes > within.end {
            return Err(offset);
        }
        free = start + slot_bytes;
    }
    Ok(())
}
