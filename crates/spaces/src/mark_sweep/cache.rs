//! Free lists of one thread (or, for the shared cache, of no thread).
//!
//! A list is linked through the first word of its cells. It holds the free cells of one block, which the cache owns,
//! except after explicit frees, and where it was taken off the shared list: such cells may be of any block, and *foreign* is not 0. What is freed when a list
//! has many of them goes to a *magazine*, and from there to the list when that is empty, or to all threads when it is full.
//!
//! # Invariants (I8)
//! - Only the owning thread changes `heads`, without lock and without atomics; it may be stopped between any two
//!   instructions. The collector never writes to the lists of a stopped thread; the thread that collects is in no list, and gives its
//!   freed cells back.
//! - An owned block is not swept, so its listed cells cannot be handed out twice. Lists with foreign cells, and
//!   magazines, are walked in the pause and their cells marked.
//! - `foreign` is raised before a foreign cell is linked, so that a pause in between errs on the safe side.

use gleaner_mem::Address;

use crate::mark_sweep::block::{BlockIndex, NO_BLOCK};
use crate::mark_sweep::kinds::{ATOMIC_UNCOLLECTABLE, MAX_KINDS};
use crate::mark_sweep::size_classes::CLASSES;

/// A list or magazine of a thread is never longer: a block's cells, one batch of the shared list, and what it may free onto it.
pub const MOST_LISTED: usize = 4096;
/// What is wrong with a list that is longer.
pub(super) const LEADS_BACK: &str = "a list of free cells leads back into itself: an object was freed twice, the second time after a collection had reclaimed it";

/// Kinds below this one have cells that the thread that frees them puts on its own lists.
pub const LISTED_KINDS: usize = ATOMIC_UNCOLLECTABLE + 1;

/// Cells that a thread freed when its list already held enough of them: counted, and with a known end, so that all of
/// them go to another list without being walked (Bonwick and Adams, USENIX ATC 2001). Cells are only added, one by one,
/// until all are taken.
#[repr(C)]
pub struct Magazine {
    /// The cell freed last, which links to the one before; null where there is none.
    pub head: Address,
    /// The cell freed first.
    pub last: Address,
    /// How many cells there are.
    pub cells: u32,
}

impl Magazine {
    /// A magazine without cells.
    pub const fn new() -> Magazine {
        Magazine {
            head: Address::NULL,
            last: Address::NULL,
            cells: 0,
        }
    }
}

impl Default for Magazine {
    fn default() -> Self {
        Magazine::new()
    }
}

/// The free lists of one thread.
#[repr(C)]
pub struct Cache {
    /// First free cell of each kind and class.
    pub heads: [[Address; CLASSES]; MAX_KINDS],
    /// The block that each list's cells come from.
    pub owned: [[BlockIndex; CLASSES]; MAX_KINDS],
    /// Not 0 where cells of a list may come from other blocks. Where the thread freed them all, how many.
    pub foreign: [[u32; CLASSES]; MAX_KINDS],
    /// Freed cells of the kinds whose cells threads free themselves, beside the lists.
    pub magazines: [[Magazine; CLASSES]; LISTED_KINDS],
    /// Bytes freed explicitly through this cache, in sum. Written by the owning thread alone, read by all.
    pub freed_bytes: usize,
    /// Bytes of uncollectable objects that were allocated through this cache, less those that were freed, modulo the width of a
    /// word, as far as they are in no sum yet. Written by the owning thread alone, read by all.
    pub uncounted_bytes: usize,
}

impl Cache {
    /// A cache without cells.
    pub const fn new() -> Cache {
        Cache {
            heads: [[Address::NULL; CLASSES]; MAX_KINDS],
            owned: [[NO_BLOCK; CLASSES]; MAX_KINDS],
            foreign: [[0; CLASSES]; MAX_KINDS],
            magazines: [const { [const { Magazine::new() }; CLASSES] }; LISTED_KINDS],
            freed_bytes: 0,
            uncounted_bytes: 0,
        }
    }
}

impl Cache {
    /// Where the first cells of one kind and class stand: of the list, then of the magazine.
    ///
    /// # Safety
    /// The cache must be mapped, and `kind` and `class` lie in its tables.
    pub(super) unsafe fn lists(
        cache: *const Cache,
        kind: usize,
        class: usize,
    ) -> impl Iterator<Item = *const Address> {
        // SAFETY: the cache is mapped and the indices lie in its tables, as asked.
        unsafe {
            let list = &raw const (*cache).heads[kind][class];
            let magazine =
                (kind < LISTED_KINDS).then(|| &raw const (*cache).magazines[kind][class].head);
            core::iter::once(list).chain(magazine)
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
