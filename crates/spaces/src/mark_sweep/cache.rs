//! Free lists of one thread (or, for the shared cache, of no thread).
//!
//! A list is linked through the first word of its cells. It holds the free cells of one block, which the cache owns,
//! except after explicit frees: those may come from any block and are counted as *foreign*.
//!
//! # Invariants (I8)
//! - Only the owning thread changes `heads`, without lock and without atomics; it may be stopped between any two
//!   instructions. The collector never writes to the lists of a stopped thread.
//! - An owned block is not swept, so its listed cells cannot be handed out twice. Lists with foreign cells are
//!   walked in the pause and their cells marked.
//! - `foreign` is raised before a foreign cell is linked, so that a pause in between errs on the safe side.

use gleaner_mem::Address;

use crate::mark_sweep::block::{BlockIndex, NO_BLOCK};
use crate::mark_sweep::kinds::MAX_KINDS;
use crate::mark_sweep::size_classes::CLASSES;

/// The free lists of one thread.
#[repr(C)]
pub struct Cache {
    /// First free cell of each kind and class.
    pub heads: [[Address; CLASSES]; MAX_KINDS],
    /// The block that each list's cells come from.
    pub owned: [[BlockIndex; CLASSES]; MAX_KINDS],
    /// How many cells of each list may come from other blocks.
    pub foreign: [[u32; CLASSES]; MAX_KINDS],
    /// Bytes freed explicitly through this cache, in sum. Written by the owning thread alone, read by all.
    pub freed_bytes: usize,
}

impl Cache {
    /// A cache without cells.
    pub const fn new() -> Cache {
        Cache {
            heads: [[Address::NULL; CLASSES]; MAX_KINDS],
            owned: [[NO_BLOCK; CLASSES]; MAX_KINDS],
            foreign: [[0; CLASSES]; MAX_KINDS],
            freed_bytes: 0,
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Cache::new()
    }
}

/// A list of free cells made by sweeping or formatting one block.
#[derive(Clone, Copy, Debug)]
pub struct CellList {
    /// The first cell; each cell's first word links to the next.
    pub head: Address,
    /// How many cells there are.
    pub cells: usize,
    /// Their bytes together.
    pub bytes: usize,
    /// The block they come from.
    pub block: BlockIndex,
}
