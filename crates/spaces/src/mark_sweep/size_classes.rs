//! Size classes of small objects: how a request becomes a cell size.
//!
//! Up to 512 bytes every multiple of the granule is a class of its own, as libgc's tiny free lists require. Above,
//! a class is the largest cell that fits a given number of times into a block, so that little is lost at its end.

use crate::mark_sweep::block::BLOCK_BYTES;
pub use crate::mark_sweep::block::GRANULE;

/// Number of size classes; class 0 holds cells of one granule.
pub const CLASSES: usize = EXACT + TAIL.len();
/// The largest request in bytes that is served from a size class.
pub const LARGEST_SMALL: usize = CELL_BYTES[CLASSES - 1] as usize;

const EXACT: usize = 32;
const TAIL: [usize; 21] = [
    29, 26, 24, 22, 20, 18, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,
];
const MAP: usize = LARGEST_SMALL / GRANULE + 1;

/// Cell size in bytes of each class.
pub const CELL_BYTES: [u16; CLASSES] = cell_bytes();

static CLASS_OF_GRANULES: [u8; MAP] = class_map();

/// The class that serves `bytes`, which must not exceed [`LARGEST_SMALL`]; 0 bytes are served as one granule.
#[inline(always)]
pub fn class_of(bytes: usize) -> usize {
    debug_assert!(bytes <= LARGEST_SMALL);
    // SAFETY: `bytes <= LARGEST_SMALL`, so the index is below MAP.
    usize::from(unsafe { *CLASS_OF_GRANULES.get_unchecked(bytes.div_ceil(GRANULE)) })
}

/// How many cells of each class have at most `bytes` bytes together, and are at most `most`.
pub const fn cells_within(bytes: u32, most: u32) -> [u32; CLASSES] {
    let mut cells = [most; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let fit = bytes / CELL_BYTES[class] as u32;
        if fit < most {
            cells[class] = fit;
        }
        class += 1;
    }
    cells
}

const fn cell_bytes() -> [u16; CLASSES] {
    let mut table = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let bytes = if class < EXACT {
            (class + 1) * GRANULE
        } else {
            BLOCK_BYTES / TAIL[class - EXACT] / GRANULE * GRANULE
        };
        table[class] = bytes as u16;
        class += 1;
    }
    table
}

const fn class_map() -> [u8; MAP] {
    let mut table = [0; MAP];
    let mut granules = 1;
    let mut class = 0;
    while granules < MAP {
        if granules * GRANULE > CELL_BYTES[class] as usize {
            class += 1;
        }
        table[granules] = class as u8;
        granules += 1;
    }
    table
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_the_smallest_cell_that_holds_it() {
        for bytes in 0..=LARGEST_SMALL {
            let class = class_of(bytes);
            assert!(usize::from(CELL_BYTES[class]) >= bytes, "{bytes}");
            assert!(
                class == 0 || usize::from(CELL_BYTES[class - 1]) < bytes,
                "{bytes}"
            );
        }
    }

    #[test]
    fn tiny_requests_get_exact_granules() {
        for granules in 1..=32 {
            assert_eq!(
                usize::from(CELL_BYTES[class_of(granules * GRANULE)]),
                granules * GRANULE
            );
        }
        assert_eq!(LARGEST_SMALL, BLOCK_BYTES / 2);
    }

    #[test]
    fn a_block_loses_less_than_an_eighth_and_a_cell_less_than_a_third() {
        for class in 0..CLASSES {
            let cell = usize::from(CELL_BYTES[class]);
            assert!(BLOCK_BYTES % cell <= BLOCK_BYTES / 8, "{cell}");
            let smallest = if class == 0 {
                1
            } else {
                usize::from(CELL_BYTES[class - 1]) + 1
            };
            assert!(
                class < EXACT || (cell - smallest) * 3 < cell + cell / 3,
                "{cell}"
            );
        }
    }
}
