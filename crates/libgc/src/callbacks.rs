//! What the client may have called during a collection: the types of its functions, and where they are kept.

use core::ffi::{c_char, c_int, c_void};

use gleaner_plans::mark_sweep::collect::Moment;

use crate::variables::{Procedure, Variable};

/// `GC_on_collection_event_proc`.
pub type CollectionEventFn = unsafe extern "C-unwind" fn(Moment);
/// `GC_on_thread_event_proc`.
pub type ThreadEventFn = unsafe extern "C-unwind" fn(Moment, *mut c_void);
/// `GC_sp_corrector_proc`: where a thread's stack pointer is, and the thread.
pub type CorrectorFn = unsafe extern "C-unwind" fn(*mut *mut c_void, *mut c_void);
/// `GC_stop_func`.
pub type StopFn = unsafe extern "C-unwind" fn() -> c_int;
/// `GC_await_finalize_proc`.
pub type AwaitFn = unsafe extern "C-unwind" fn(*mut c_void);
/// `GC_toggleref_func`.
pub type ToggleFn = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;
/// `GC_has_static_roots_func`.
pub type HasRootsFn = unsafe extern "C-unwind" fn(*const c_char, *mut c_void, usize) -> c_int;

/// The client's callbacks. Changed and read under the allocator lock.
pub struct Callbacks {
    /// Called at the start of each collection.
    pub start: Variable<Option<Procedure>>,
    /// Called at the moments of a collection.
    pub collection_event: Variable<Option<CollectionEventFn>>,
    /// Called when a thread is suspended or goes on.
    pub thread_event: Variable<Option<ThreadEventFn>>,
    /// Says where the stack pointer of a thread is, for programs that run on stacks of their own.
    pub sp_corrector: Variable<Option<CorrectorFn>>,
    /// Asked whether a collection is to be given up.
    pub stop: Variable<Option<StopFn>>,
    /// Called for each object queued for finalization.
    pub await_finalize: Variable<Option<AwaitFn>>,
    /// Decides about toggle references.
    pub toggle: Variable<Option<ToggleFn>>,
    /// Asked whether a library's data is to be scanned.
    pub has_roots: Variable<Option<HasRootsFn>>,
}

/// The client's callbacks.
pub static CALLBACKS: Callbacks = Callbacks {
    start: Variable::new(None),
    collection_event: Variable::new(None),
    thread_event: Variable::new(None),
    sp_corrector: Variable::new(None),
    stop: Variable::new(None),
    await_finalize: Variable::new(None),
    toggle: Variable::new(None),
    has_roots: Variable::new(None),
};
