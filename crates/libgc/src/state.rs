//! The one heap of the process, its lock, and how it starts.
//!
//! `LOCK` is the allocator lock of the whole library. It is a bare futex lock without guards: the thread that takes it
//! releases it by hand on every way out, and never holds it while finalizers or other client code runs, except in the
//! callbacks that libgc defines as running with the lock ([`crate::lock`]).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::Options;
use gleaner_base::sync::Gate;
use gleaner_mem::Address;
use gleaner_os::log_file::LogFile;
use gleaner_os::threads;
use gleaner_os::topology::Topology;
use gleaner_os::{environment, output, refusal};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::stop::protocol::World;
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_spaces::mark_sweep::block::BlockTable;
use gleaner_spaces::mark_sweep::layout::{Layout, ReserveError};
use gleaner_spaces::mark_sweep::scan::MarkContext;
use gleaner_work::Crew;

use crate::lock::{AllocatorLock, Section};
use crate::message::{self, die};
use crate::variables::{
    GC_all_interior_pointers, GC_free_space_divisor, GC_greatest_plausible_heap_addr,
    GC_least_plausible_heap_addr, GC_stackbottom,
};

/// The allocator lock.
pub static LOCK: AllocatorLock = AllocatorLock::new();
/// Passed by threads that read the list of libraries; closed by a fork.
pub static LOADER_GATE: Gate = Gate::new();
/// Helper threads of the heap.
pub static CREW: Crew = Crew::new();
/// The words by which threads are stopped.
pub static WORLD: World = World::new();

struct HeapCell(UnsafeCell<MaybeUninit<Heap>>);
// SAFETY: the heap is used under `LOCK`.
unsafe impl Sync for HeapCell {}
static HEAP: HeapCell = HeapCell(UnsafeCell::new(MaybeUninit::uninit()));
/// The heap while a collection lends it to a callback, else null. It is always the one in `HEAP`: what differs is that
/// a callback reaches it through the reference that the collection works with. Written under the lock.
static LENT: AtomicPtr<Heap> = AtomicPtr::new(core::ptr::null_mut());

/// What readers without the lock need; set once at the start, before `PROGRESS` says so.
static CONTEXT: AtomicPtr<MarkContext> = AtomicPtr::new(core::ptr::null_mut());
/// The record of the process's first thread.
pub static MAIN_THREAD: AtomicPtr<Mutator> = AtomicPtr::new(core::ptr::null_mut());

const UNTOUCHED: u32 = 0;
const STARTING: u32 = 1;
const READY: u32 = 2;
static PROGRESS: AtomicU32 = AtomicU32::new(UNTOUCHED);
static STARTER: AtomicI32 = AtomicI32::new(0);

/// The heap. The caller holds `LOCK`, or is inside a callback that runs with it.
#[allow(clippy::mut_from_ref, reason = "guarded by LOCK")]
pub fn heap() -> &'static mut Heap {
    let lent = LENT.load(Ordering::Relaxed);
    if !lent.is_null() {
        // SAFETY: the collection lends its reference until the callback returns, and does not use it meanwhile.
        return unsafe { &mut *lent };
    }
    // SAFETY: initialised before PROGRESS becomes READY; exclusive by LOCK.
    unsafe { (*HEAP.0.get()).assume_init_mut() }
}

/// Runs client code in the middle of a collection: the functions that it calls reach the heap through `heap`, and may
/// take the lock again.
pub fn lend<R>(heap: &mut Heap, body: impl FnOnce() -> R) -> R {
    let outer = LENT.swap(heap, Ordering::Relaxed);
    let result = LOCK.run(Section::Callback, body);
    LENT.store(outer, Ordering::Relaxed);
    result
}

/// The heap as it may be seen without `LOCK`; nothing before it has started.
#[inline]
pub fn view() -> Option<HeapView> {
    // SAFETY: the heap stands in a static.
    is_ready().then(|| unsafe { HeapView::new((*HEAP.0.get()).as_ptr()) })
}

/// Runs `body` on the heap under the lock, starting the heap if need be. `body` calls no client code.
pub fn with_heap<R>(body: impl FnOnce(&mut Heap) -> R) -> R {
    start();
    LOCK.lock();
    let result = body(heap());
    LOCK.unlock();
    result
}

/// Whether the heap has started.
#[inline]
pub fn is_ready() -> bool {
    // Acquire: partner of the Release in `start_heap`.
    PROGRESS.load(Ordering::Acquire) == READY
}

/// Whether the heap has started, or is just starting.
pub fn is_started() -> bool {
    PROGRESS.load(Ordering::Acquire) != UNTOUCHED
}

/// The marking context, for readers without the lock. The heap must have started.
#[inline]
pub fn context() -> &'static MarkContext {
    // SAFETY: set before READY and never freed; what readers use of it does not change.
    unsafe { &*CONTEXT.load(Ordering::Relaxed) }
}

/// Where objects are, for readers without the lock.
#[inline]
pub fn table() -> &'static BlockTable {
    &context().table
}

/// Starts the heap unless it has started.
#[inline]
pub fn start() {
    if !is_ready() {
        start_slowly();
    }
}

#[cold]
fn start_slowly() {
    let own = threads::current_tid().0;
    if PROGRESS
        .compare_exchange(UNTOUCHED, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
    {
        STARTER.store(own, Ordering::Relaxed);
        start_heap();
        start_services();
        return;
    }
    while !is_ready() {
        if STARTER.load(Ordering::Relaxed) == own {
            die(format_args!("the heap was used while it started"));
        }
        threads::yield_now();
    }
}

/// Everything that allocation needs. Nothing here may call malloc, which may be routed to us.
fn start_heap() {
    // Without the first memory of our own no refusal of more could be handled.
    if Vec::<usize>::new().try_reserve(1).is_err() {
        let least = gleaner_mem::arena::SLAB_BYTES;
        die(format_args!(
            "cannot start: {}",
            refusal::reason(least, least).text()
        ));
    }
    message::install_panic_hook();
    let mut options = Options::DEFAULT;
    crate::settings::read_environment(&mut options);
    options.fault.arm();
    match Layout::reserve(options.reserve, crate::settings::pages_executable()) {
        Ok(layout) => start_heap_over(layout, &options),
        Err(error) => die_of_reserving(error),
    }
}

fn die_of_reserving(error: ReserveError) -> ! {
    die(format_args!(
        "cannot reserve {} MiB of addresses for the heap: {}",
        error.asked >> 20,
        error.limit.text()
    ))
}

/// Has a large frame, for which there may be no room where addresses are short: then the process has ended before, with
/// a message.
#[inline(never)]
fn start_heap_over(layout: Layout, options: &Options) {
    let heap = match Heap::over(layout, options, Topology::host(), &CREW, &WORLD) {
        Ok(heap) => heap,
        Err(error) => die_of_reserving(error),
    };
    // SAFETY: this thread alone starts the heap.
    let heap = unsafe { (*HEAP.0.get()).write(heap) };
    let table = heap.context.table;
    GC_least_plausible_heap_addr.set(table.heap.ptr());
    GC_greatest_plausible_heap_addr.set(table.heap.add(table.span).ptr());
    heap.context.all_interior = GC_all_interior_pointers.get() != 0;
    heap.space.timed = options.stats || options.log.as_str().is_some();
    open_log(heap, options);
    GC_free_space_divisor.set(heap.settings.divisor);
    crate::settings::apply_early(heap);
    CONTEXT.store(&raw mut *heap.context, Ordering::Relaxed);
    crate::registration::register_first_thread(heap);
    PROGRESS.store(READY, Ordering::Release);
}

/// What may call malloc: hooks of the C library.
fn start_services() {
    crate::registration::install_hooks();
    crate::fork::install_hooks();
    crate::settings::apply_late();
}

fn open_log(heap: &mut Heap, options: &Options) {
    let Some(path) = options.log.as_str() else {
        return;
    };
    let mut buffer = [0u8; 256];
    buffer[..path.len()].copy_from_slice(path.as_bytes());
    let opened = CStr::from_bytes_until_nul(&buffer)
        .ok()
        .and_then(output::open_append);
    if opened.is_none() {
        message::say(format_args!(
            "cannot open the log file {path}: events are not written"
        ));
    }
    heap.log = opened.map(LogFile::new);
}

/// The cold end of the first thread's stack, as far as known when the heap starts.
pub fn first_stack_base() -> Address {
    let given = GC_stackbottom.get();
    if !given.is_null() {
        return Address::of(given);
    }
    Address::new(threads::stack_top())
}

/// Writes the last events to standard error.
pub fn print_last_events() {
    if !is_ready() {
        return;
    }
    // SAFETY: the process is about to end; the ring may be read at any time.
    let heap = unsafe { (*HEAP.0.get()).assume_init_ref() };
    for event in heap.events.iter() {
        let mut line = LineBuffer::<512>::new();
        let _ = core::fmt::Write::write_fmt(&mut line, format_args!("gleaner:   {event}\n"));
        message::write_error(line.as_bytes());
    }
}

/// A new thread record's memory. Called without the lock.
pub fn new_record() -> *mut Mutator {
    Box::into_raw(Box::<Mutator>::new_uninit()).cast()
}

/// Reads an environment variable.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    environment::variable(name)
}

/// A pointer as an address.
#[inline(always)]
pub fn address(pointer: *const c_void) -> Address {
    Address::of(pointer)
}
