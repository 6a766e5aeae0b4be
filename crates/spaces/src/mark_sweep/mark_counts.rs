//! How many of a block's objects are marked.

use core::sync::atomic::{AtomicU8, Ordering};

use super::block::MARKS_PER_BLOCK;
use super::marks::{FREE, MARKED};

/// How many of a block's marks are what.
#[derive(Clone, Copy)]
pub(super) struct Marks {
    pub(super) marked: usize,
    pub(super) white: usize,
}

/// Counts the marks of a block, eight at a time. Mark bytes are 0, 1 or 2.
pub(super) fn count_marks(marks: *const AtomicU8, objects: usize) -> Marks {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Each byte of a sum counts an eighth of a block's marks.
    const _: () = assert!(MARKS_PER_BLOCK / 8 <= u8::MAX as usize);
    let (mut sums, mut at) = ([0; 2], 0);
    while at + 8 <= objects {
        // SAFETY: eight mark bytes of this block; marking is over, and the allocator lock keeps sweepers out.
        let eight = unsafe { marks.add(at).cast::<u64>().read() };
        sums[0] += eight & ONES;
        sums[1] += eight >> 1 & ONES;
        at += 8;
    }
    let [mut marked, mut free] = sums.map(|sum| sum.to_le_bytes().map(usize::from).iter().sum());
    while at < objects {
        // SAFETY: `at` is below the number of cells.
        match unsafe { (*marks.add(at)).load(Ordering::Relaxed) } {
            MARKED => marked += 1,
            FREE => free += 1,
            _ => {}
        }
        at += 1;
    }
    Marks {
        marked,
        white: objects - marked - free,
    }
}
