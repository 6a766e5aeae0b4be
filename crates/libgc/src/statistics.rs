//! Counters of the heap (gc.h).
//!
//! Our heap has a capacity: the bytes that it may hold before it collects or grows. That is its size here; what it held
//! at its largest is what it obtained from the system, and the difference was given back.
//!
//! The single getters are unsynchronized, since clients call them from callbacks that run with the lock held.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gleaner_plans::Heap;
use gleaner_spaces::block::State;

use crate::state::{heap, is_ready, with_heap};
use crate::variables::{GC_non_gc_bytes, GC_parallel};

/// What clients ask for, all from one moment if taken under the lock.
#[derive(Clone, Copy, Default)]
struct Usage {
    heap: usize,
    free: usize,
    unmapped: usize,
    since_gc: usize,
    before_gc: usize,
    freed: usize,
    reclaimed_last: usize,
    reclaimed_before: usize,
}

impl Usage {
    fn of(heap: &Heap) -> Usage {
        let capacity = heap.space.capacity;
        Usage {
            heap: capacity,
            free: capacity.saturating_sub(heap.space.used_bytes()),
            unmapped: heap.totals.peak_capacity.saturating_sub(capacity),
            since_gc: heap.space.allocated_bytes,
            before_gc: heap.totals.allocated_bytes as usize,
            freed: heap.space.freed_bytes,
            reclaimed_last: heap.space.census.dead_bytes,
            reclaimed_before: heap.totals.reclaimed_bytes as usize - heap.space.census.dead_bytes,
        }
    }

    /// Without the lock: each number is right or nearly so.
    fn now() -> Usage {
        if is_ready() {
            Usage::of(heap())
        } else {
            Usage::default()
        }
    }

    fn total(&self) -> usize {
        self.before_gc.wrapping_add(self.since_gc)
    }

    fn obtained(&self) -> usize {
        self.heap + self.unmapped
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_heap_size() -> usize {
    Usage::now().heap
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_free_bytes() -> usize {
    Usage::now().free
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_unmapped_bytes() -> usize {
    Usage::now().unmapped
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_bytes_since_gc() -> usize {
    Usage::now().since_gc
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    Usage::now().freed
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_total_bytes() -> usize {
    Usage::now().total()
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_obtained_from_os_bytes() -> usize {
    Usage::now().obtained()
}

/// As in gc.h: the five getters at one moment.
///
/// # Safety
/// Each pointer must be writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_heap_usage_safe(
    heap_size: *mut usize,
    free: *mut usize,
    unmapped: *mut usize,
    since_gc: *mut usize,
    total: *mut usize,
) {
    let usage = with_heap(|heap| Usage::of(heap));
    let answers = [
        (heap_size, usage.heap),
        (free, usage.free),
        (unmapped, usage.unmapped),
        (since_gc, usage.since_gc),
        (total, usage.total()),
    ];
    for (place, value) in answers {
        if !place.is_null() {
            // SAFETY: the caller vouches for it.
            unsafe { place.write(value) };
        }
    }
}

/// Words of `struct GC_prof_stats_s`.
const PROF_WORDS: usize = 12;

fn prof_words(usage: Usage, collections: usize) -> [usize; PROF_WORDS] {
    [
        usage.heap + usage.unmapped,
        usage.free + usage.unmapped,
        usage.unmapped,
        usage.since_gc,
        usage.before_gc,
        GC_non_gc_bytes.get(),
        collections,
        GC_parallel.get() as usize,
        usage.reclaimed_last,
        usage.reclaimed_before,
        usage.freed,
        usage.obtained(),
    ]
}

/// Fills in as much of the words as fits into `bytes`; unknown ones become -1. The answer is the size of the known part.
///
/// # Safety
/// `place` must be writable for `bytes` bytes.
unsafe fn fill(place: *mut u8, bytes: usize, words: &[usize; PROF_WORDS]) -> usize {
    let known = bytes.min(size_of_val(words));
    // SAFETY: the caller vouches for the place; the words have that many bytes.
    unsafe {
        place.copy_from_nonoverlapping(words.as_ptr().cast(), known);
        place.add(known).write_bytes(0xff, bytes - known);
    }
    known
}

/// As in gc.h.
///
/// # Safety
/// `place` must be writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_prof_stats(place: *mut u8, bytes: usize) -> usize {
    let words = with_heap(|heap| prof_words(Usage::of(heap), heap.collections as usize));
    // SAFETY: the caller vouches for it.
    unsafe { fill(place, bytes, &words) }
}

/// As in gc.h: the caller holds the lock.
///
/// # Safety
/// `place` must be writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_prof_stats_unsafe(place: *mut u8, bytes: usize) -> usize {
    let collections = if is_ready() {
        heap().collections as usize
    } else {
        0
    };
    // SAFETY: the caller vouches for it.
    unsafe { fill(place, bytes, &prof_words(Usage::now(), collections)) }
}

/// Entries of the size table that libgc shows: one for each size up to half a page.
const SIZE_MAP: usize = 2049;

/// As in gc.h: bytes of the cells that serve requests of `index` bytes.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_size_map_at(index: c_int) -> usize {
    match usize::try_from(index) {
        Ok(bytes) if bytes < SIZE_MAP => {
            crate::allocate::cell_bytes_for(bytes + crate::allocate::extra_bytes()).unwrap_or(0)
        }
        _ => usize::MAX,
    }
}

/// Bytes of all blocks that hold allocated or not yet reclaimed objects.
fn memory_use(heap: &Heap) -> usize {
    let mut bytes = 0;
    heap.space
        .for_each_small_block(|_, block| bytes += block.bytes * usize::from(block.objects));
    heap.space.for_each_large(|_, block| {
        if block.state == State::LargeHead {
            bytes += block.bytes;
        }
    });
    bytes
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_memory_use() -> usize {
    with_heap(|heap| memory_use(heap))
}

/// As in libgc, in no public header: the client took cells from lists of its own. The caller holds the lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_incr_bytes_allocd(bytes: usize) {
    if is_ready() {
        heap().space.allocated_bytes += bytes;
    }
}

/// As in libgc, in no public header: the client freed objects by itself. The caller holds the lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_incr_bytes_freed(bytes: usize) {
    if is_ready() {
        heap().space.freed_bytes += bytes;
    }
}

static MEASURING: AtomicBool = AtomicBool::new(false);
static MEASURED_FROM: AtomicU64 = AtomicU64::new(0);

fn collecting_ns() -> u64 {
    if is_ready() {
        heap().totals.collecting_ns
    } else {
        0
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_performance_measurement() {
    if !MEASURING.swap(true, Ordering::Relaxed) {
        MEASURED_FROM.store(collecting_ns(), Ordering::Relaxed);
    }
}

/// As in gc.h: milliseconds spent in collections since the measurement began.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_full_gc_total_time() -> c_ulong {
    if !MEASURING.load(Ordering::Relaxed) {
        return 0;
    }
    (collecting_ns() - MEASURED_FROM.load(Ordering::Relaxed)) / 1_000_000
}

/// As in gc.h: grows the heap by at least `bytes`; collections do not shrink it below that again.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_expand_hp(bytes: usize) -> c_int {
    let grown = with_heap(|heap| {
        crate::settings::read_variables(heap);
        let wanted = heap
            .space
            .capacity
            .saturating_add(bytes)
            .checked_next_multiple_of(4096)
            .unwrap_or(usize::MAX);
        let limit = heap.settings.limit;
        if (limit != 0 && wanted > limit) || wanted > heap.context.table.span / 2 {
            return false;
        }
        heap.grow_to(wanted, "GC_expand_hp");
        heap.initial_capacity = heap.initial_capacity.max(wanted);
        true
    });
    if grown {
        crate::collect::tell_of_growth();
    }
    c_int::from(grown)
}
