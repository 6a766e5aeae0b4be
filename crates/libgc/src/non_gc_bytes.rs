//! The variable that says how many bytes of uncollectable objects there are, brought up to date.

use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_plans::mark_sweep::Heap;

use crate::variables::GC_non_gc_bytes;

/// Brings what changed in uncollectable bytes to the variable that clients read and may set. Under the lock.
pub fn sync_variables(heap: &Heap) {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let bytes = heap.space.uncollectable_bytes;
    let seen = SEEN.load(Ordering::Relaxed);
    if bytes != seen {
        SEEN.store(bytes, Ordering::Relaxed);
        GC_non_gc_bytes.add(bytes.wrapping_sub(seen));
    }
}
