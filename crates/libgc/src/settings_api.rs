//! The settings of gc.h: one setter and one getter each.
//!
//! A setting lives in an exported variable or in `settings::CLIENT`, and the collector copies it under the allocator
//! lock before each decision (`settings::read_variables`). So a setter is one store, as the interface says, and none
//! of them starts the heap; the few for which libgc promises it take the lock.

use core::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use crate::callbacks::{CALLBACKS, CollectionEventFn, CorrectorFn, StopFn, ThreadEventFn};
use crate::message::{GC_on_abort, WARN};
use crate::settings::{CLIENT, register_displacement};
use crate::start::start;
use crate::state::{guarded, is_ready, is_started};
use crate::variables::{
    AbortFn, GC_all_interior_pointers, GC_dont_expand, GC_dont_gc, GC_dont_precollect,
    GC_finalize_on_demand, GC_find_leak, GC_free_space_divisor, GC_full_freq, GC_gc_no,
    GC_java_finalization, GC_max_retries, GC_no_dls, GC_on_heap_resize, GC_oom_fn, GC_parallel,
    GC_time_limit, HeapResizeFn, OomFn, Procedure, WarnFn,
};

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_init() {
    start();
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_init_called() -> c_int {
    c_int::from(is_started() && CLIENT.was_shut_down.get() == 0)
}

/// As in gc.h. There is nothing to dispose of; objects stay valid until the process ends.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_deinit() {
    if is_ready() {
        CLIENT.was_shut_down.set(1);
    }
}

/// As in gc.h: a constant, major, minor and micro version.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_version() -> c_uint {
    8 << 16 | 2 << 8 | 2
}

/// As in gc.h: a counter, so that calls nest.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_disable() {
    guarded(|_| GC_dont_gc.set(GC_dont_gc.get().wrapping_add(1)));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_enable() {
    guarded(|_| {
        GC_dont_gc.set(GC_dont_gc.get().wrapping_sub(1));
        // A cycle may still be under way.
        crate::cycle_helper::state::stir();
    });
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_disabled() -> c_int {
    c_int::from(GC_dont_gc.get() != 0)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_gc_no() -> usize {
    GC_gc_no.get()
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_parallel() -> c_int {
    GC_parallel.get()
}

/// Settings that are one variable: `setter, getter: type = place;`, unsynchronized as the interface says.
macro_rules! plain {
    ($( $setter:ident, $getter:ident: $type:ty = $place:expr; )+) => {
        $(
            /// As in gc.h.
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $setter(value: $type) {
                $place.set(value);
            }

            /// As in gc.h.
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $getter() -> $type {
                $place.get()
            }
        )+
    };
}

plain! {
    GC_set_find_leak, GC_get_find_leak: c_int = GC_find_leak;
    GC_set_finalize_on_demand, GC_get_finalize_on_demand: c_int = GC_finalize_on_demand;
    GC_set_java_finalization, GC_get_java_finalization: c_int = GC_java_finalization;
    GC_set_dont_expand, GC_get_dont_expand: c_int = GC_dont_expand;
    GC_set_full_freq, GC_get_full_freq: c_int = GC_full_freq;
    GC_set_no_dls, GC_get_no_dls: c_int = GC_no_dls;
    GC_set_free_space_divisor, GC_get_free_space_divisor: usize = GC_free_space_divisor;
    GC_set_max_retries, GC_get_max_retries: usize = GC_max_retries;
    GC_set_dont_precollect, GC_get_dont_precollect: c_int = GC_dont_precollect;
    GC_set_allocd_bytes_per_finalizer, GC_get_allocd_bytes_per_finalizer: usize = CLIENT.bytes_per_finalizer;
    GC_set_min_bytes_allocd, GC_get_min_bytes_allocd: usize = CLIENT.least_allocated;
    GC_set_rate, GC_get_rate: c_int = CLIENT.rate;
    GC_set_max_prior_attempts, GC_get_max_prior_attempts: c_int = CLIENT.prior_attempts;
    GC_set_force_unmap_on_gcollect, GC_get_force_unmap_on_gcollect: c_int = CLIENT.unmap_on_gcollect;
}

/// Settings that libgc guards by the allocator lock.
macro_rules! guarded {
    ($( $setter:ident, $getter:ident: $type:ty = $place:expr; )+) => {
        $(
            /// As in gc.h.
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $setter(value: $type) {
                guarded(|_| $place.set(value));
            }

            /// As in gc.h.
            #[unsafe(no_mangle)]
            pub extern "C-unwind" fn $getter() -> $type {
                guarded(|_| $place.get())
            }
        )+
    };
}

guarded! {
    GC_set_oom_fn, GC_get_oom_fn: Option<OomFn> = GC_oom_fn;
    GC_set_on_heap_resize, GC_get_on_heap_resize: Option<HeapResizeFn> = GC_on_heap_resize;
    GC_set_on_collection_event, GC_get_on_collection_event: Option<CollectionEventFn> = CALLBACKS.collection_event;
    GC_set_on_thread_event, GC_get_on_thread_event: Option<ThreadEventFn> = CALLBACKS.thread_event;
    GC_set_sp_corrector, GC_get_sp_corrector: Option<CorrectorFn> = CALLBACKS.sp_corrector;
    GC_set_start_callback, GC_get_start_callback: Option<Procedure> = CALLBACKS.start;
    GC_set_warn_proc, GC_get_warn_proc: Option<WarnFn> = WARN;
    GC_set_abort_func, GC_get_abort_func: Option<AbortFn> = GC_on_abort;
    GC_set_disable_automatic_collection, GC_get_disable_automatic_collection: c_int = CLIENT.no_automatic;
}

extern "C-unwind" fn never_stop() -> c_int {
    0
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_stop_func(function: Option<StopFn>) {
    guarded(|_| CALLBACKS.stop.set(function));
}

/// As in gc.h: the default function never stops a collection.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_stop_func() -> Option<StopFn> {
    guarded(|_| CALLBACKS.stop.get()).or(Some(never_stop))
}

/// As in gc.h: takes effect at once; at the latest the next collection goes by it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_all_interior_pointers(value: c_int) {
    guarded(|_| GC_all_interior_pointers.set(c_int::from(value != 0)));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_all_interior_pointers() -> c_int {
    GC_all_interior_pointers.get()
}

/// As in gc.h: no effect after the start.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_pages_executable(value: c_int) {
    if !is_started() {
        CLIENT.pages_executable.set(c_int::from(value != 0));
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_pages_executable() -> c_int {
    CLIENT.pages_executable.get()
}

/// As in gc.h: no effect after the start.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_markers_count(count: c_uint) {
    if !is_started() {
        CLIENT.markers.set(count);
    }
}

/// As in gc.h: 0 for no limit.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_max_heap_size(bytes: usize) {
    CLIENT.heap_limit.set(bytes);
}

/// As in gc.h: no effect after the start.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_suspend_signal(signal: c_int) {
    if !is_started() {
        CLIENT.suspend_signal.set(signal);
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_suspend_signal() -> c_int {
    CLIENT.suspend_signal.get()
}

/// As in gc.h: no effect after the start. The signal gets a handler, but none is sent: stopped threads wait on a futex.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_thr_restart_signal(signal: c_int) {
    if !is_started() {
        CLIENT.restart_signal.set(signal);
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_thr_restart_signal() -> c_int {
    CLIENT.restart_signal.get()
}

/// `struct GC_timeval_s`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TimeValue {
    milliseconds: c_ulong,
    nanoseconds: c_ulong,
}

/// As in gc.h: milliseconds that the program may be stopped for where it collects incrementally.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_time_limit(milliseconds: c_ulong) {
    GC_set_time_limit_tv(TimeValue {
        milliseconds,
        nanoseconds: CLIENT.time_limit_ns.get(),
    });
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_time_limit() -> c_ulong {
    GC_time_limit.get()
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_time_limit_tv(limit: TimeValue) {
    GC_time_limit.set(limit.milliseconds);
    CLIENT.time_limit_ns.set(limit.nanoseconds);
    CLIENT.time_limit_chosen.set(1);
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_time_limit_tv() -> TimeValue {
    TimeValue {
        milliseconds: GC_time_limit.get(),
        nanoseconds: CLIENT.time_limit_ns.get(),
    }
}

/// As in gc.h: displacements that the client registers count also when all interior pointers do not.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_displacement(offset: usize) {
    guarded(|heap| register_displacement(heap, offset));
}

/// As in gc_mark.h: keeps an argument alive up to the call.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn GC_noop1(word: usize) {
    core::hint::black_box(word);
}

/// As in gc.h of the development branch: the same of a pointer.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C-unwind" fn GC_noop1_ptr(pointer: *mut core::ffi::c_void) {
    core::hint::black_box(pointer);
}

unsafe extern "C-unwind" {
    fn dlopen(path: *const c_char, mode: c_int) -> *mut c_void;
}

/// As in gc_pthread_redirects.h. A collection may run at the same time: it notices that the list of libraries changed.
///
/// # Safety
/// As for `dlopen`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_dlopen(path: *const c_char, mode: c_int) -> *mut c_void {
    // SAFETY: the arguments are valid for `dlopen`, as asked; no lock is held, since a library's constructors may
    // allocate.
    unsafe { dlopen(path, mode) }
}
