//! What waits on a mark stack.

/// One entry of the mark stack, laid out as libgc's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Entry {
    /// First byte of the object or range.
    pub start: usize,
    /// How to scan it.
    pub descriptor: usize,
}

/// Whether the rule for heap-sourced pointers applies, or the lax one of stacks.
pub const FROM_HEAP: bool = false;
/// See [`FROM_HEAP`].
pub const FROM_STACK: bool = true;

/// Room that a mark procedure finds on the stack as long as that can grow; procedures push a few entries each.
pub(super) const PROC_ENTRIES: usize = 4096;

/// Reads an entry as it was pushed, in two halves. One load of both, which the compiler would make of a plain copy,
/// has to wait until the two stores have left the store buffer: half of the time that marking a long list took.
///
/// # Safety
/// `entry` must be readable.
#[inline(always)]
pub(super) unsafe fn read_halves(entry: *const Entry) -> Entry {
    // SAFETY: `entry` is readable, as asked; volatile only so that the loads stay two.
    unsafe {
        Entry {
            start: (&raw const (*entry).start).read_volatile(),
            descriptor: (&raw const (*entry).descriptor).read_volatile(),
        }
    }
}
