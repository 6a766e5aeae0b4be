//! Counters of the heap (gc.h).
//!
//! Our heap has a capacity: the bytes that it may hold before it collects or grows. That is its size here; what it held
//! at its largest is what it obtained from the system, and the difference was given back.
//!
//! The single getters are unsynchronized, since clients call them from callbacks that run with the lock held.

use core::ffi::{c_int, c_ulong};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_spaces::mark_sweep::block::State;

use crate::allocate::flush_uncollectable;
use crate::start::with_heap;
use crate::state::{Locked, is_ready, view};
use crate::variables::{GC_gc_no, GC_non_gc_bytes, GC_parallel};

/// What clients ask for.
#[derive(Clone, Copy)]
struct Usage(HeapView);

impl Usage {
    fn heap(self) -> usize {
        self.0.space().capacity()
    }

    fn free(self) -> usize {
        let space = self.0.space();
        space.capacity().saturating_sub(space.used_bytes())
    }

    fn unmapped(self) -> usize {
        self.0.peak_capacity().saturating_sub(self.heap())
    }

    fn obtained(self) -> usize {
        self.heap() + self.unmapped()
    }

    fn before_gc(self) -> usize {
        self.0.allocated_before()
    }

    fn since_gc(self) -> usize {
        difference(self.0.allocated_bytes(), self.before_gc())
    }

    fn total(self) -> usize {
        let before = self.before_gc();
        before + difference(self.0.allocated_bytes(), before)
    }

    fn freed(self) -> usize {
        difference(self.0.freed_bytes(), self.0.freed_before())
    }

    fn reclaimed_last(self) -> usize {
        self.0.totals().last_reclaimed_bytes as usize
    }

    fn reclaimed_before(self) -> usize {
        (self.0.reclaimed_bytes() as usize).wrapping_sub(self.reclaimed_last())
    }
}

/// What was counted since. Without the lock the parts of a sum may be of different moments, and a little too small.
fn difference(now: usize, before: usize) -> usize {
    (now.wrapping_sub(before) as isize).max(0) as usize
}

/// Without the lock; 0 before the heap has started.
fn ask(question: impl FnOnce(Usage) -> usize) -> usize {
    view().map_or(0, |view| question(Usage(view)))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_heap_size() -> usize {
    ask(Usage::heap)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_free_bytes() -> usize {
    ask(Usage::free)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_unmapped_bytes() -> usize {
    ask(Usage::unmapped)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_bytes_since_gc() -> usize {
    ask(Usage::since_gc)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_expl_freed_bytes_since_gc() -> usize {
    ask(Usage::freed)
}

/// The variable, and what threads have not brought there yet.
fn non_gc_bytes(view: HeapView) -> usize {
    flush_uncollectable();
    GC_non_gc_bytes.get().wrapping_add(view.uncounted_bytes())
}

/// As in gc.h. Exact, while the variable may lag behind by 16 KiB a thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_non_gc_bytes() -> usize {
    view().map_or_else(|| GC_non_gc_bytes.get(), non_gc_bytes)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_non_gc_bytes(bytes: usize) {
    flush_uncollectable();
    let uncounted = view().map_or(0, HeapView::uncounted_bytes);
    GC_non_gc_bytes.set(bytes.wrapping_sub(uncounted));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_total_bytes() -> usize {
    ask(Usage::total)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_obtained_from_os_bytes() -> usize {
    ask(Usage::obtained)
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
    let answers = with_heap(|heap| {
        let usage = Usage(heap.view());
        let since = usage.since_gc();
        [
            (heap_size, usage.heap()),
            (free, usage.free()),
            (unmapped, usage.unmapped()),
            (since_gc, since),
            (total, usage.before_gc() + since),
        ]
    });
    for (place, value) in answers {
        if !place.is_null() {
            // SAFETY: the pointer is writable, as asked.
            unsafe { place.write(value) };
        }
    }
}

/// Words of `struct GC_prof_stats_s`.
const PROF_WORDS: usize = 12;

fn prof_words(view: HeapView) -> [usize; PROF_WORDS] {
    let usage = Usage(view);
    [
        usage.heap() + usage.unmapped(),
        usage.free() + usage.unmapped(),
        usage.unmapped(),
        usage.since_gc(),
        usage.before_gc(),
        non_gc_bytes(view),
        GC_gc_no.get(),
        GC_parallel.get() as usize,
        usage.reclaimed_last(),
        usage.reclaimed_before(),
        usage.freed(),
        usage.obtained(),
    ]
}

/// Fills in as much of the words as fits into `bytes`; unknown ones become -1. The answer is the size of the known
/// part.
///
/// # Safety
/// `place` must be writable for `bytes` bytes.
unsafe fn fill(place: *mut u8, bytes: usize, words: &[usize; PROF_WORDS]) -> usize {
    let known = bytes.min(size_of_val(words));
    // SAFETY: `place` is writable for `bytes` bytes, as asked, and `known` is at most that and the size of the words.
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
    let words = with_heap(|heap| prof_words(heap.view()));
    // SAFETY: `place` is writable for `bytes` bytes, as asked.
    unsafe { fill(place, bytes, &words) }
}

/// As in gc.h: the caller holds the lock.
///
/// # Safety
/// `place` must be writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_prof_stats_unsafe(place: *mut u8, bytes: usize) -> usize {
    let words = view().map_or([0; PROF_WORDS], prof_words);
    // SAFETY: `place` is writable for `bytes` bytes, as asked.
    unsafe { fill(place, bytes, &words) }
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
        // SAFETY: the caller holds the lock, as libgc asks.
        unsafe { Locked::by_contract() }
            .space
            .account
            .hand_out(bytes);
    }
}

/// As in libgc, in no public header: the client freed objects by itself. The caller holds the lock.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_incr_bytes_freed(bytes: usize) {
    if is_ready() {
        // SAFETY: the caller holds the lock, as libgc asks.
        unsafe { Locked::by_contract() }
            .space
            .account
            .take_back(bytes);
    }
}

static MEASURING: AtomicBool = AtomicBool::new(false);
static MEASURED_FROM: AtomicU64 = AtomicU64::new(0);
static STOPPED_BEFORE: AtomicU64 = AtomicU64::new(0);

fn collecting_ns() -> u64 {
    view().map_or(0, HeapView::collecting_ns)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_start_performance_measurement() {
    if !MEASURING.swap(true, Ordering::Relaxed) {
        MEASURED_FROM.store(collecting_ns(), Ordering::Relaxed);
        let stopped = view().map_or(0, |heap| heap.totals().stopped_ns);
        STOPPED_BEFORE.store(stopped, Ordering::Relaxed);
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

/// As in gc.h of the development branch: milliseconds for which the world was stopped since the measurement began, in this process.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_stopped_mark_total_time() -> c_ulong {
    if !MEASURING.load(Ordering::Relaxed) {
        return 0;
    }
    let stopped = view().map_or(0, |heap| heap.totals().stopped_ns);
    stopped.saturating_sub(STOPPED_BEFORE.load(Ordering::Relaxed)) / 1_000_000
}

/// As in gc.h of the development branch: nanoseconds of a stop, the mean of all.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_avg_stopped_mark_time_ns() -> c_ulong {
    let totals = view().map(HeapView::totals).unwrap_or_default();
    totals.stopped_ns.checked_div(totals.stops).unwrap_or(0)
}

/// As in gc_mark.h of the development branch: bytes of libgc's blocks, which no client sees otherwise.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_hblk_size() -> usize {
    4096
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
        let wanted = heap.within_room(wanted);
        heap.grow_to(wanted, "GC_expand_hp");
        heap.space.initial_capacity = heap.space.initial_capacity.max(wanted);
        true
    });
    if grown {
        crate::collect::tell_of_growth();
    }
    c_int::from(grown)
}
