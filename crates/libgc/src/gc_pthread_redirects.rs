//! `gc_pthread_redirects.h`: threads that are made and joined through the library.
//!
//! A thread is registered before its creator goes on, as in libgc. Its argument stays reachable until its own stack
//! holds it, and its result until the thread is joined.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use gleaner_base::sync::{futex_wait, futex_wake};
use gleaner_mem::Address;
use gleaner_os::{memory, signals, threads};
use gleaner_plans::mark_sweep::mutator::Mutator;

use crate::collect::GC_gcollect_and_unmap;
use crate::message::die;
use crate::records::{record_of, register};
use crate::registration::GC_start_mark_threads;
use crate::start::with_heap;
use crate::state::{is_ready, own_section, view};

/// The function that a thread runs.
pub type ThreadFn = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a new thread is to do. Lives in an uncollectable object, so that the argument stays reachable until the
/// thread's own stack holds it; its creator waits for that and frees it.
#[repr(C)]
struct Start {
    function: ThreadFn,
    argument: *mut c_void,
    detached: bool,
    registered: AtomicU32,
}

unsafe extern "C" {
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_attr_getdetachstate(attributes: *const c_void, state: *mut c_int) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
    fn pthread_detach(thread: usize) -> c_int;
    fn pthread_cancel(thread: usize) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const c_void, old: *mut c_void) -> c_int;
}
unsafe extern "C-unwind" {
    fn pthread_exit(result: *mut c_void) -> !;
}

#[inline(never)]
unsafe extern "C-unwind" fn run_thread(start: *mut c_void) -> *mut c_void {
    let start = start.cast::<Start>();
    register(
        crate::start::start(),
        Address::new(threads::stack_top()),
        false,
    );
    // SAFETY: made by `GC_pthread_create`, which waits until `registered` is set.
    unsafe {
        let (function, argument) = ((*start).function, (*start).argument);
        (*Mutator::current()).detached = (*start).detached;
        (*start).registered.store(1, Ordering::Release);
        futex_wake(&(*start).registered, 1);
        // The thread may leave this frame by pthread_exit; the key of the C library takes the record away.
        let result = function(argument);
        keep_result(result);
        result
    }
}

/// The result of an ending thread stays reachable until the thread is joined.
fn keep_result(result: *mut c_void) {
    let record = Mutator::current();
    // SAFETY: the calling thread's own record.
    if record.is_null() || result.is_null() || unsafe { (*record).detached } {
        return;
    }
    with_heap(|heap| {
        heap.thread_results
            .push((threads::current_pthread().0, Address::of(result)))
    });
}

/// Nobody will ask for the result of `thread` any more.
fn forget_result(thread: usize) {
    if is_ready() {
        with_heap(|heap| heap.thread_results.retain(|(owner, _)| *owner != thread));
    }
}

/// `thread` was joined and gave `result`. A new thread may have its number by now, and have ended, too.
fn forget_one_result(thread: usize, result: Address) {
    if !is_ready() || result.is_null() {
        return;
    }
    with_heap(|heap| {
        let mut results = heap.thread_results.iter();
        if let Some(at) = results.position(|kept| *kept == (thread, result)) {
            heap.thread_results.swap_remove(at);
        }
    });
}

/// Remembers that `thread` will not be joined.
fn note_detached(thread: usize) {
    with_heap(|heap| {
        if let Some(record) = record_of(heap, thread) {
            // SAFETY: a record of the list, under the lock.
            unsafe { (*record).detached = true };
        }
    });
}

/// Whether threads made with these attributes start detached.
fn starts_detached(attributes: *const c_void) -> bool {
    let mut state: c_int = 0;
    // SAFETY: not null, so attributes that the program has initialised, as pthread.h asks.
    !attributes.is_null()
        && unsafe { pthread_attr_getdetachstate(attributes, &mut state) } == 0
        && state != 0
}

/// As in gc_pthread_redirects.h.
///
/// # Safety
/// As for `pthread_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_create(
    thread: *mut usize,
    attributes: *const c_void,
    function: ThreadFn,
    argument: *mut c_void,
) -> c_int {
    const EAGAIN: c_int = 11;
    if let Some(section) = own_section() {
        die(format_args!(
            "GC_pthread_create was called in {section}: the new thread would wait for ever for the allocator lock, which \
             the calling thread holds"
        ));
    }
    GC_start_mark_threads();
    let start = crate::allocate::GC_malloc_uncollectable(size_of::<Start>()).cast::<Start>();
    if start.is_null() {
        return EAGAIN;
    }
    // SAFETY: the object is fresh and stays until it is freed below; the arguments are valid for `pthread_create`, as
    // asked.
    unsafe {
        let detached = starts_detached(attributes);
        start.write(Start {
            function,
            argument,
            detached,
            registered: AtomicU32::new(0),
        });
        let mut result = pthread_create(thread, attributes, run_thread, start.cast());
        // Perhaps an address limit: what the heap reserved, or else what it does not need, may make room for the stack.
        let makes_room: [fn(); 2] = [
            || with_heap(|heap| heap.space.layout.give_back_addresses()),
            || GC_gcollect_and_unmap(),
        ];
        for make_room in makes_room {
            if result == EAGAIN && memory::address_limit().is_some() {
                make_room();
                result = pthread_create(thread, attributes, run_thread, start.cast());
            }
        }
        // As in libgc, the new thread is registered when this returns: the caller may take the allocator lock next.
        while result == 0 && (*start).registered.load(Ordering::Acquire) == 0 {
            futex_wait(&(*start).registered, 0);
        }
        crate::release::GC_free(start.cast());
        result
    }
}

/// As in gc_pthread_redirects.h.
///
/// # Safety
/// As for `pthread_join`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_join(thread: usize, result: *mut *mut c_void) -> c_int {
    let mut value = core::ptr::null_mut();
    // SAFETY: the arguments are valid for `pthread_join`, as asked.
    let joined = unsafe { pthread_join(thread, &raw mut value) };
    if joined == 0 {
        if !result.is_null() {
            // SAFETY: a place for the result, as asked.
            unsafe { result.write(value) };
        }
        forget_one_result(thread, Address::of(value));
    }
    joined
}

/// As in gc_pthread_redirects.h.
///
/// # Safety
/// As for `pthread_detach`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_detach(thread: usize) -> c_int {
    if is_ready() {
        note_detached(thread);
        forget_result(thread);
    }
    // SAFETY: the argument is valid for `pthread_detach`, as asked.
    unsafe { pthread_detach(thread) }
}

/// As in gc_pthread_redirects.h.
///
/// # Safety
/// As for `pthread_cancel`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_cancel(thread: usize) -> c_int {
    // SAFETY: the argument is valid for `pthread_cancel`, as asked.
    unsafe { pthread_cancel(thread) }
}

/// As in gc_pthread_redirects.h.
///
/// # Safety
/// As for `pthread_exit`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_exit(result: *mut c_void) -> ! {
    keep_result(result);
    // SAFETY: the calling thread may be left by `pthread_exit`, as asked.
    unsafe { pthread_exit(result) }
}

/// As in gc_pthread_redirects.h: the suspend signal stays unblocked.
///
/// # Safety
/// As for `pthread_sigmask`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pthread_sigmask(
    how: c_int,
    set: *const c_void,
    old: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are valid for `pthread_sigmask`, as asked.
    let result = unsafe { pthread_sigmask(how, set, old) };
    if let Some(view) = view()
        && !Mutator::current().is_null()
    {
        signals::unblock(view.suspend_signal());
    }
    result
}
