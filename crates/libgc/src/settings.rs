//! The settings of the one heap: what the client set, what the environment says, and what the collector uses.
//!
//! In rising order of weight: defaults, what the client set before the start, the `GC_` variables of the environment,
//! `GLEANER_OPTIONS`. After the start the client's word counts. What it sets lies in exported variables and in
//! [`CLIENT`]; `read_variables` copies it to the heap under the allocator lock wherever a decision is taken.

use core::ffi::{c_int, c_uint, c_ulong};
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_base::options::Options;
use gleaner_os::signals;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::heap::USUAL_TIME_LIMIT_NS;
use gleaner_spaces::mark_sweep::block::BLOCK_BYTES;

use crate::message::{die, say};
use crate::variables::{
    GC_all_interior_pointers, GC_dont_expand, GC_dont_gc, GC_dont_precollect,
    GC_free_space_divisor, GC_full_freq, GC_gc_no, GC_max_retries, GC_time_limit, Variable,
};

/// What the client can set and no exported variable holds. Words like those variables: unsynchronized.
pub struct ClientSettings {
    /// `GC_set_pages_executable`.
    pub pages_executable: Variable<c_int>,
    /// `GC_set_markers_count`; 0 leaves it to the collector.
    pub markers: Variable<c_uint>,
    /// `GC_set_max_heap_size`; 0 for no limit.
    pub heap_limit: Variable<usize>,
    /// `GC_set_suspend_signal`.
    pub suspend_signal: Variable<c_int>,
    /// `GC_set_thr_restart_signal`.
    pub restart_signal: Variable<c_int>,
    /// `GC_set_allocd_bytes_per_finalizer`.
    pub bytes_per_finalizer: Variable<usize>,
    /// `GC_set_min_bytes_allocd`.
    pub least_allocated: Variable<usize>,
    /// `GC_set_force_unmap_on_gcollect`.
    pub unmap_on_gcollect: Variable<c_int>,
    /// `GC_set_disable_automatic_collection`.
    pub no_automatic: Variable<c_int>,
    /// `GC_set_rate`: remembered only.
    pub rate: Variable<c_int>,
    /// `GC_set_max_prior_attempts`: remembered only.
    pub prior_attempts: Variable<c_int>,
    /// `GC_set_manual_vdb_allowed`: remembered only.
    pub manual_dirty_bits: Variable<c_int>,
    /// The fraction of `GC_set_time_limit_tv`, which `GC_set_time_limit` leaves as it is.
    pub time_limit_ns: Variable<c_ulong>,
    /// Whether a time limit was chosen, by the program or in the environment.
    pub time_limit_chosen: Variable<c_int>,
    /// Whether `GC_deinit` was called.
    pub was_shut_down: Variable<c_int>,
    /// `GC_PRINT_STATS` (1) or `GC_PRINT_VERBOSE_STATS` (2).
    pub prints_stats: Variable<c_int>,
    /// `GC_DUMP_REGULARLY`.
    pub dumps_regularly: Variable<c_int>,
    /// `GC_PRINT_ADDRESS_MAP`.
    pub prints_address_map: Variable<c_int>,
    /// `GC_ABORT_ON_LEAK`.
    pub aborts_on_leak: Variable<c_int>,
}

/// What the client set.
pub static CLIENT: ClientSettings = ClientSettings {
    pages_executable: Variable::new(0),
    markers: Variable::new(0),
    heap_limit: Variable::new(0),
    suspend_signal: Variable::new(signals::DEFAULT_SUSPEND),
    restart_signal: Variable::new(signals::DEFAULT_RESTART),
    bytes_per_finalizer: Variable::new(10_000),
    least_allocated: Variable::new(1),
    unmap_on_gcollect: Variable::new(0),
    no_automatic: Variable::new(0),
    rate: Variable::new(10),
    prior_attempts: Variable::new(1),
    manual_dirty_bits: Variable::new(0),
    time_limit_ns: Variable::new(0),
    time_limit_chosen: Variable::new(0),
    was_shut_down: Variable::new(0),
    prints_stats: Variable::new(0),
    dumps_regularly: Variable::new(0),
    prints_address_map: Variable::new(0),
    aborts_on_leak: Variable::new(0),
};

/// Whether heap pages are to be executable.
pub fn pages_executable() -> bool {
    CLIENT.pages_executable.get() != 0
}

/// Whether an explicit collection gives memory back to the system.
pub fn unmaps_on_gcollect() -> bool {
    CLIENT.unmap_on_gcollect.get() != 0
}

/// What the client set before the start.
pub fn take_client_settings(options: &mut Options) {
    options.free_space_divisor = GC_free_space_divisor.get().clamp(1, 1000) as u32;
    options.heap_limit = CLIENT.heap_limit.get();
    options.markers = CLIENT.markers.get().min(64);
}

/// What must be set before the first allocation.
pub fn apply_early(heap: &mut Heap) {
    CLIENT.heap_limit.set(heap.settings.limit);
    heap.settings.suspend_signal = CLIENT.suspend_signal.get();
    bound_initial_heap(heap);
    heap.totals.peak_capacity = heap.space.capacity;
    for (offset, registered) in DISPLACEMENTS.iter().enumerate() {
        heap.context.displacements[offset] |= registered.load(Ordering::Relaxed);
    }
    read_variables(heap);
    let collects = GC_dont_precollect.get() == 0 && heap.settings.may_collect;
    COUNTS_START.store(collects, Ordering::Relaxed);
    show_collections(heap);
}

/// A heap does not start larger than its limit, nor than the addresses that were reserved.
fn bound_initial_heap(heap: &mut Heap) {
    let reserved = heap.context.table.span / 2;
    if heap.space.capacity > reserved {
        say(format_args!(
            "the heap starts with {} MiB instead of {} MiB: no more addresses",
            reserved >> 20,
            heap.space.capacity >> 20
        ));
    }
    let most = if heap.settings.limit == 0 {
        reserved
    } else {
        reserved.min(heap.settings.limit)
    };
    heap.space.capacity = heap.space.capacity.min(most);
    heap.space.initial_capacity = heap.space.initial_capacity.min(most);
}

/// Whether libgc would have collected once in its own start, which `GC_gc_no` counts. Written at the start.
static COUNTS_START: AtomicBool = AtomicBool::new(false);

/// `GC_TIME_UNLIMITED`: collections of everything are finished in their stop.
const TIME_UNLIMITED: c_ulong = 999_999;

/// The time limit that the program and the environment chose.
fn time_limit_ns() -> Option<u64> {
    let milliseconds = GC_time_limit.get();
    (milliseconds != TIME_UNLIMITED).then(|| {
        milliseconds
            .saturating_mul(1_000_000)
            .saturating_add(CLIENT.time_limit_ns.get())
    })
}

/// Where collections are incremental and nobody chose a time limit, it is the usual one: stock's default of none is there
/// because its markers cannot be interrupted.
pub fn choose_time_limit() {
    if CLIENT.time_limit_chosen.get() == 0 && GC_time_limit.get() == TIME_UNLIMITED {
        GC_time_limit.set(USUAL_TIME_LIMIT_NS / 1_000_000);
    }
}

/// Brings the count of collections to the variable that clients read. Under the lock.
pub fn show_collections(heap: &Heap) {
    let first = usize::from(COUNTS_START.load(Ordering::Relaxed));
    GC_gc_no.set(heap.collections as usize + first);
}

/// Displacements registered before the start. Under the lock.
static DISPLACEMENTS: [AtomicBool; MOST_DISPLACEMENTS] =
    [const { AtomicBool::new(false) }; MOST_DISPLACEMENTS];
const MOST_DISPLACEMENTS: usize = BLOCK_BYTES / 2;

/// Makes pointers that far into an object count; `heap` if it has started. Under the lock.
pub fn register_displacement(heap: Option<&mut Heap>, offset: usize) {
    if offset >= MOST_DISPLACEMENTS {
        die(format_args!(
            "GC_register_displacement({offset}): a displacement is at most {}",
            MOST_DISPLACEMENTS - 1
        ));
    }
    DISPLACEMENTS[offset].store(true, Ordering::Relaxed);
    if let Some(heap) = heap {
        heap.context.displacements[offset] = true;
        // What was scanned before may hold such pointers.
        heap.context.disturbed.store(true, Ordering::Relaxed);
    }
}

/// Reads the variables that clients write directly. Under the lock, before each collection and decision.
pub fn read_variables(heap: &mut Heap) {
    heap.settings.divisor = GC_free_space_divisor.get().max(1);
    heap.settings.may_collect = GC_dont_gc.get() == 0;
    heap.settings.may_grow = GC_dont_expand.get() == 0;
    heap.settings.retries = GC_max_retries.get();
    heap.settings.full_frequency = usize::try_from(GC_full_freq.get()).unwrap_or(0);
    heap.settings.limit = CLIENT.heap_limit.get();
    let automatic = CLIENT.no_automatic.get() == 0;
    // Without automatic collection no amount is enough, so only a shortage of memory starts one.
    heap.settings.least_allocated = if automatic {
        CLIENT.least_allocated.get()
    } else {
        usize::MAX
    };
    heap.settings.bytes_per_finalizer = if automatic {
        CLIENT.bytes_per_finalizer.get()
    } else {
        0
    };
    heap.settings.time_limit_ns = time_limit_ns();
    let all_interior = GC_all_interior_pointers.get() != 0;
    if heap.context.all_interior != all_interior {
        heap.context.all_interior = all_interior;
        heap.context.disturbed.store(true, Ordering::Relaxed);
    }
}
