//! The interface of finalizers, disappearing links and toggle references, and running finalizers (gc.h, javaxfc.h).
//!
//! The tables belong to the plan; here are the interface and the running of finalizers. Finalizers run on whatever
//! thread allocates or asks, without the lock, one at a time taken from the queue, so a finalizer may leave by any
//! route. A thread that runs one does not start another inside, unless the first was left by `longjmp` or an
//! exception: then its frame is gone, which the stack pointer shows.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_plans::mark_sweep::weak::{Finalizer, Links, Move, Order, Ready, Registration};

use crate::callbacks::{AwaitFn, CALLBACKS, ToggleFn};
use crate::message::{out_of_memory, warn};
use crate::start::{start, with_heap, with_heap_beside_turn};
use crate::state::{address, is_locked, view};
use crate::variables::{
    GC_finalize_on_demand, GC_finalizer_notifier, GC_find_leak, Procedure, TwoPointersFn,
};

const SUCCESS: c_int = 0;
const DUPLICATE: c_int = 1;
const NO_MEMORY: c_int = 2;
const UNIMPLEMENTED: c_int = 3;
const NOT_FOUND: c_int = 4;

/// Finalizers waiting to run; a mirror of the queue for readers without the lock.
static READY: AtomicUsize = AtomicUsize::new(0);
/// The collection for which the client was notified last.
static NOTIFIED: AtomicU64 = AtomicU64::new(0);

/// An object of a finalization cycle that the client has not been warned of; 0 for none. Stored under the lock.
static CYCLE: AtomicUsize = AtomicUsize::new(0);

/// Mirrors the length of the queue. Under the lock.
pub fn note_ready(heap: &Heap) {
    READY.store(heap.weak.finalizers.ready_count(), Ordering::Relaxed);
}

/// Keeps what the last collection has to say of cycles until warnings may be given. Under the lock.
pub fn note_cycle(heap: &mut Heap) {
    if let Some(object) = heap.finalization_cycle.take() {
        CYCLE.store(object.word(), Ordering::Relaxed);
    }
}

/// Warns of an object that is never finalized because it can be reached from itself. Without the lock.
pub fn warn_of_cycle() {
    let object = CYCLE.swap(0, Ordering::Relaxed);
    if object != 0 {
        warn(
            format_args!(
                "Finalization cycle involving %#lx: reachable from itself, it is never finalized"
            ),
            object,
        );
    }
}

/// Runs finalizers that wait, or tells the client of them, as `GC_finalize_on_demand` says. Without the lock.
#[inline]
pub fn run_if_ready() {
    if READY.load(Ordering::Relaxed) != 0 && !is_locked() {
        run_or_notify();
    }
}

#[cold]
#[inline(never)]
fn run_or_notify() {
    let mark = 0usize;
    let frame = Address::of(&raw const mark);
    if is_in_finalizer(frame) {
        return;
    }
    set_finalizer_frame(frame);
    if GC_finalize_on_demand.get() == 0 {
        invoke();
    } else {
        notify();
    }
    set_finalizer_frame(Address::NULL);
    core::hint::black_box(&mark);
}

/// Tells the client once for each collection. A notifier may allocate: a collection that this causes does not notify
/// again inside, or it would never end when each allocation collects. The next allocation after the notifier makes up
/// for it.
///
/// Takes no lock: as long as finalizers wait, each thread that needs cells comes here, beside the one that runs them.
fn notify() {
    let collections = view().map_or(0, HeapView::collections);
    if NOTIFIED.fetch_max(collections, Ordering::Relaxed) < collections
        && let Some(notify) = GC_finalizer_notifier.get()
    {
        // SAFETY: the client's function, called without the lock.
        unsafe { notify() };
    }
}

/// Notes where on its stack the calling thread runs client code about finalizers.
fn set_finalizer_frame(frame: Address) {
    let thread = Mutator::current();
    if !thread.is_null() {
        // SAFETY: the calling thread's own record.
        unsafe { (*thread).finalizer_frame = frame };
    }
}

/// Whether the calling thread is inside a finalizer or a notifier that was not left. `frame` is where a new one would
/// begin: if the frame of the last one lies at the same address or below, it is gone.
fn is_in_finalizer(frame: Address) -> bool {
    let thread = Mutator::current();
    if thread.is_null() {
        return false;
    }
    // SAFETY: the calling thread's own record.
    let last = unsafe { (*thread).finalizer_frame };
    !last.is_null() && frame < last
}

/// Runs what is ready; returns how many were run.
fn invoke() -> c_int {
    let mut count: c_int = 0;
    while let Some(ready) = take_ready() {
        call(ready);
        count = count.saturating_add(1);
    }
    count
}

fn take_ready() -> Option<Ready> {
    if READY.load(Ordering::Relaxed) == 0 {
        return None;
    }
    with_heap_beside_turn(|heap| {
        let ready = heap.weak.finalizers.take_ready();
        READY.store(heap.weak.finalizers.ready_count(), Ordering::Relaxed);
        ready
    })
}

fn call(ready: Ready) {
    // SAFETY: the client registered this function; the word was made from it.
    let function: TwoPointersFn = unsafe { core::mem::transmute(ready.finalizer.proc) };
    // SAFETY: called as its contract says, without the lock; this frame holds no guard.
    unsafe { function(ready.object.ptr(), ready.finalizer.data.ptr()) };
}

fn register(
    object: *mut c_void,
    function: Option<TwoPointersFn>,
    data: *mut c_void,
    old_function: *mut Option<TwoPointersFn>,
    old_data: *mut *mut c_void,
    order: Order,
) {
    if GC_find_leak.get() != 0 {
        return;
    }
    let started = start();
    let finalizer = Finalizer {
        proc: function.map_or(0, |function| function as usize),
        data: address(data),
        order,
    };
    loop {
        let mut heap = started.lock_beside_turn();
        // Any address in an object: it may bear the client's tag, and its finalizer is called with that.
        let known = heap.base_of(object as usize).is_some();
        let result = if known {
            heap.weak.finalizers.register(address(object), finalizer)
        } else {
            Ok(None) // Not an object of ours: ignored, as the interface says.
        };
        heap.unlock();
        let previous = match result {
            Ok(previous) => previous,
            Err(_) if out_of_memory(64).is_null() => return,
            Err(_) => continue,
        };
        // SAFETY: the word was made from a function of this type, or is 0, which is `None`.
        let was: Option<TwoPointersFn> =
            unsafe { core::mem::transmute(previous.map_or(0, |old| old.proc)) };
        // SAFETY: null, or a place that the program gave for the old function, as gc.h says.
        unsafe {
            if !old_function.is_null() {
                old_function.write(was);
            }
            if !old_data.is_null() {
                old_data.write(previous.map_or(core::ptr::null_mut(), |old| old.data.ptr()));
            }
        }
        return;
    }
}

macro_rules! registrations {
    ($( $name:ident, $order:expr; )+) => {
        $(
            /// As in gc.h.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                object: *mut c_void,
                function: Option<TwoPointersFn>,
                data: *mut c_void,
                old_function: *mut Option<TwoPointersFn>,
                old_data: *mut *mut c_void,
            ) {
                register(object, function, data, old_function, old_data, $order);
            }
        )+
    };
}

registrations! {
    GC_register_finalizer, Order::Ordered;
    GC_register_finalizer_ignore_self, Order::IgnoreSelf;
    GC_register_finalizer_no_order, Order::NoOrder;
    GC_register_finalizer_unreachable, Order::Unreachable;
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_should_invoke_finalizers() -> c_int {
    c_int::from(READY.load(Ordering::Relaxed) != 0)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_invoke_finalizers() -> c_int {
    invoke()
}

/// As in javaxfc.h: runs the finalizers of all objects, reachable or not.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_finalize_all() {
    loop {
        let moved = with_heap(|heap| {
            let moved = heap.weak.finalizers.all_to_ready();
            note_ready(heap);
            moved
        });
        if moved == 0 {
            return;
        }
        invoke();
    }
}

fn register_link(
    links: impl Fn(&mut Heap) -> &mut Links,
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    if GC_find_leak.get() != 0 {
        return UNIMPLEMENTED;
    }
    if link.is_null() || !(link as usize).is_multiple_of(size_of::<usize>()) {
        crate::message::die(format_args!(
            "disappearing link {link:p} is null or not aligned"
        ));
    }
    loop {
        let result =
            with_heap_beside_turn(|heap| links(heap).register(Address::of(link), address(object)));
        match result {
            Ok(Registration::Registered) => return SUCCESS,
            Ok(Registration::Duplicate) => return DUPLICATE,
            Err(_) if out_of_memory(64).is_null() => return NO_MEMORY,
            Err(_) => {}
        }
    }
}

fn short(heap: &mut Heap) -> &mut Links {
    &mut heap.weak.short_links
}

fn long(heap: &mut Heap) -> &mut Links {
    &mut heap.weak.long_links
}

fn moved(result: Move) -> c_int {
    match result {
        Move::Moved => SUCCESS,
        Move::Duplicate => DUPLICATE,
        Move::NotFound => NOT_FOUND,
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_disappearing_link(link: *mut *mut c_void) -> c_int {
    start();
    match crate::state::table().resolve_checked(link as usize) {
        Some(found) => GC_general_register_disappearing_link(link, found.base.ptr()),
        None => crate::message::die(format_args!(
            "disappearing link {link:p} is not inside an object"
        )),
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_general_register_disappearing_link(
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    register_link(short, link, object)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_register_long_link(
    link: *mut *mut c_void,
    object: *const c_void,
) -> c_int {
    register_link(long, link, object)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_move_disappearing_link(
    link: *mut *mut c_void,
    to: *mut *mut c_void,
) -> c_int {
    moved(with_heap_beside_turn(|heap| {
        short(heap).move_link(Address::of(link), Address::of(to))
    }))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_move_long_link(link: *mut *mut c_void, to: *mut *mut c_void) -> c_int {
    moved(with_heap_beside_turn(|heap| {
        long(heap).move_link(Address::of(link), Address::of(to))
    }))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_unregister_disappearing_link(link: *mut *mut c_void) -> c_int {
    c_int::from(with_heap_beside_turn(|heap| {
        short(heap).unregister(Address::of(link))
    }))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_unregister_long_link(link: *mut *mut c_void) -> c_int {
    c_int::from(with_heap_beside_turn(|heap| {
        long(heap).unregister(Address::of(link))
    }))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_toggleref_add(object: *mut c_void, is_strong: c_int) -> c_int {
    with_heap_beside_turn(|heap| {
        if CALLBACKS.toggle.get().is_none() {
            return SUCCESS;
        }
        heap.weak
            .toggle_refs
            .add(address(object), is_strong != 0)
            .map_or(NO_MEMORY, |()| SUCCESS)
    })
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_toggleref_func(function: Option<ToggleFn>) {
    with_heap(|_| CALLBACKS.toggle.set(function));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_toggleref_func() -> Option<ToggleFn> {
    with_heap(|_| CALLBACKS.toggle.get())
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_await_finalize_proc(function: Option<AwaitFn>) {
    with_heap(|_| CALLBACKS.await_finalize.set(function));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_await_finalize_proc() -> Option<AwaitFn> {
    with_heap(|_| CALLBACKS.await_finalize.get())
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_finalizer_notifier(function: Option<Procedure>) {
    with_heap(|_| GC_finalizer_notifier.set(function));
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_get_finalizer_notifier() -> Option<Procedure> {
    with_heap(|_| GC_finalizer_notifier.get())
}
