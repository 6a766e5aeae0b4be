//! Options, environment variables, and the settings of gc.h.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use gleaner_base::options::Options;
use gleaner_os::threads;
use gleaner_plans::Heap;

use crate::message::say;
use crate::variables::{GC_dont_expand, GC_dont_gc, GC_free_space_divisor, GC_max_retries};

static PAGES_EXECUTABLE: AtomicI32 = AtomicI32::new(0);
static DECLARED_NON_GC_BYTES: AtomicUsize = AtomicUsize::new(0);
static UNMAP_ON_GCOLLECT: AtomicI32 = AtomicI32::new(0);

/// Whether heap pages are to be executable.
pub fn pages_executable() -> bool {
    PAGES_EXECUTABLE.load(Ordering::Relaxed) != 0
}

/// What the client declared as not subject to collection.
pub fn declared_non_gc_bytes() -> usize {
    DECLARED_NON_GC_BYTES.load(Ordering::Relaxed)
}

/// Whether an explicit collection gives memory back to the system.
pub fn unmaps_on_gcollect() -> bool {
    UNMAP_ON_GCOLLECT.load(Ordering::Relaxed) != 0
}

/// Reads `GLEANER_OPTIONS`.
pub fn read_environment(options: &mut Options) {
    let Some(list) = crate::state::variable(c"GLEANER_OPTIONS") else { return };
    let result = list.to_str().map(|list| options.parse_list(list));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => refuse(format_args!("{error}")),
        Err(_) => refuse(format_args!("GLEANER_OPTIONS is not UTF-8")),
    }
}

fn refuse(what: core::fmt::Arguments<'_>) -> ! {
    say(what);
    say(format_args!("`gleaner options` lists the options and their values"));
    std::process::exit(2)
}

/// What must be set before the first allocation.
pub fn apply_early(_heap: &mut Heap) {}

/// What may call malloc.
pub fn apply_late() {}

/// Reads the variables that clients write directly. Under the lock, before each collection and decision.
pub fn read_variables(heap: &mut Heap) {
    heap.settings.divisor = GC_free_space_divisor.get().max(1);
    heap.settings.may_collect = GC_dont_gc.get() == 0;
    heap.settings.may_grow = GC_dont_expand.get() == 0;
    heap.settings.retries = GC_max_retries.get();
}

/// The most workers that may mark.
pub fn most_markers(heap: &Heap) -> usize {
    match heap.settings.markers {
        0 => threads::processors().clamp(1, 16),
        markers => markers,
    }
}
