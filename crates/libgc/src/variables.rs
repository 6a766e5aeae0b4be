//! The exported variables of `gc.h`, and the few that clients import although no public header has them.
//!
//! Clients read and write them directly, also while the library runs, so each is read where it matters and never
//! copied. They are plain words: the interface offers no synchronisation for them. A variable whose first value is a
//! function of ours stands beside that function.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int, c_ulong, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// An exported variable.
#[repr(transparent)]
pub struct Variable<T>(UnsafeCell<T>);

// SAFETY: the interface leaves synchronisation to its users; accesses are volatile and of one word at most.
unsafe impl<T> Sync for Variable<T> {}

impl<T: Copy> Variable<T> {
    /// A variable with an initial value.
    pub const fn new(value: T) -> Variable<T> {
        Variable(UnsafeCell::new(value))
    }

    /// Its value now.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the variable is always initialised.
        unsafe { self.0.get().read_volatile() }
    }

    /// Changes it.
    #[inline(always)]
    pub fn set(&self, value: T) {
        // SAFETY: the variable lives as long as the process, and no reference to its value is ever made.
        unsafe { self.0.get().write_volatile(value) }
    }
}

impl Variable<usize> {
    /// Adds to it, modulo its width, while other threads do so as well.
    #[inline(always)]
    pub fn add(&self, more: usize) {
        // SAFETY: the variable lives as long as the process and is aligned; the library changes it in this way alone while
        // several threads may.
        unsafe { AtomicUsize::from_ptr(self.0.get()) }.fetch_add(more, Ordering::Relaxed);
    }
}

/// A function without arguments or result.
pub type Procedure = unsafe extern "C-unwind" fn();
/// `GC_oom_func`.
pub type OomFn = unsafe extern "C-unwind" fn(usize) -> *mut c_void;
/// `GC_on_heap_resize_proc`.
pub type HeapResizeFn = unsafe extern "C-unwind" fn(usize);
/// `GC_abort_func`.
pub type AbortFn = unsafe extern "C-unwind" fn(*const c_char);
/// `GC_warn_proc`: a format and its one argument.
pub type WarnFn = unsafe extern "C-unwind" fn(*mut c_char, usize);
/// A procedure that is given one pointer.
pub type PointerFn = unsafe extern "C-unwind" fn(*mut c_void);
/// A procedure that is given two pointers.
pub type TwoPointersFn = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

macro_rules! variables {
    ($( $name:ident: $type:ty = $value:expr; )+) => {
        $(
            /// As in libgc.
            #[unsafe(no_mangle)]
            pub static $name: Variable<$type> = Variable::new($value);
        )+
    };
}

variables! {
    GC_gc_no: usize = 0;
    GC_parallel: c_int = 0;
    GC_oom_fn: Option<OomFn> = Some(default_oom);
    GC_on_heap_resize: Option<HeapResizeFn> = None;
    GC_find_leak: c_int = 0;
    GC_all_interior_pointers: c_int = 1;
    GC_finalize_on_demand: c_int = 0;
    GC_java_finalization: c_int = 1;
    GC_finalizer_notifier: Option<Procedure> = None;
    GC_dont_gc: c_int = 0;
    GC_dont_expand: c_int = 0;
    GC_use_entire_heap: c_int = 0;
    GC_full_freq: c_int = 19;
    GC_non_gc_bytes: usize = 0;
    GC_no_dls: c_int = 0;
    GC_free_space_divisor: usize = 3;
    GC_max_retries: usize = 0;
    GC_stackbottom: *mut c_char = core::ptr::null_mut();
    GC_dont_precollect: c_int = 0;
    GC_time_limit: c_ulong = 999_999;
    GC_least_plausible_heap_addr: *mut c_void = core::ptr::null_mut();
    GC_greatest_plausible_heap_addr: *mut c_void = core::ptr::null_mut();
    GC_gcj_kind: c_int = 0;
    GC_gcj_debug_kind: c_int = 0;
}

/// The out-of-memory function until the client sets one.
unsafe extern "C-unwind" fn default_oom(_bytes: usize) -> *mut c_void {
    core::ptr::null_mut()
}
