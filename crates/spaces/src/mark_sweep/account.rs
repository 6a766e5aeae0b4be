//! What was allocated and what was freed explicitly, to the byte.
//!
//! Taking a cell off a list counts nothing. What was allocated follows from what is left: each cell that came to a
//! list, out of a block or by an explicit free, is still there or was allocated.
//!
//! # Invariants
//! - `entered`, plus `freed_bytes` of all caches (the shared one too), less the bytes on all lists, is the sum of the
//!   bytes that were ever allocated.
//! - `freed`, plus `freed_bytes` of all caches, is the sum of the bytes that were ever freed explicitly.
//! - `shared_bytes` are the bytes on the shared lists.
//!
//! The sums may wrap around; only differences count. They change under the allocator lock. Lists of running threads are
//! read without their help ([`super::view`]).

/// The sums of one space. See the module's invariants.
#[derive(Clone, Copy, Default, Debug)]
pub struct Account {
    /// Bytes that came to lists out of blocks, and bytes of large objects.
    pub entered: usize,
    /// Bytes of large objects freed explicitly.
    pub freed: usize,
    /// Bytes of blocks and large objects handed to allocators since the last collection, cells that were freed and
    /// reused not counted again: what the heap has lost to allocation.
    pub handed: usize,
    /// Bytes of large objects freed explicitly since the last collection.
    pub returned: usize,
    /// Bytes on the shared lists.
    pub shared_bytes: usize,
    /// What these were at the last collection: it leaves them where marks are kept.
    pub shared_before: usize,
}

impl Account {
    /// Counts bytes that leave the free memory of the heap: a block's cells, or a large object.
    pub fn hand_out(&mut self, bytes: usize) {
        self.entered = self.entered.wrapping_add(bytes);
        self.handed = self.handed.saturating_add(bytes);
    }

    /// Counts a large object that is freed explicitly.
    pub fn take_back(&mut self, bytes: usize) {
        self.freed = self.freed.wrapping_add(bytes);
        self.returned = self.returned.saturating_add(bytes);
    }

    /// Bytes that allocation has cost the heap since the last collection. Cells that wait on the shared lists are no
    /// loss, whether they were freed explicitly or never used; those that waited there before are no gain.
    pub fn net_allocated(&self) -> usize {
        self.handed
            .saturating_sub(self.returned)
            .saturating_sub(self.shared_bytes.saturating_sub(self.shared_before))
    }

    /// Notes that `bytes` bytes of cells of the shared lists were taken back into their blocks.
    pub(super) fn drop_shared(&mut self, bytes: usize) {
        self.entered = self.entered.wrapping_sub(bytes);
        self.shared_bytes -= bytes;
        self.shared_before = self.shared_before.saturating_sub(bytes);
    }

    /// A collection begins a new count.
    pub(super) fn start_anew(&mut self) {
        self.handed = 0;
        self.returned = 0;
        self.shared_before = self.shared_bytes;
    }
}
