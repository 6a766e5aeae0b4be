//! What the end of the process will tell of: noted as the heap starts.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gleaner_os::memory;

/// Bytes of memory that the process may hope for, as of the start: at the end it may not be allowed to ask. Written before the
/// heap is published.
static MEMORY: AtomicU64 = AtomicU64::new(0);

/// Asks now for what advice needs at the end.
pub fn prepare_advice() {
    MEMORY.store(memory::physical_memory(), Ordering::Relaxed);
}

/// Set when the options ask for the block at the end.
static WANTED: AtomicBool = AtomicBool::new(false);

/// Asks for the block at the end of the process.
pub fn want_summary() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether that was asked.
pub fn is_summary() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// What [`prepare_advice`] found.
pub fn memory_at_the_start() -> u64 {
    MEMORY.load(Ordering::Relaxed)
}
