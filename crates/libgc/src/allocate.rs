//! Allocation by `GC_malloc` and its relatives (gc.h, gc_inline.h), up to the decision to collect.
//!
//! # What an allocation does, in order
//! 1. `allocate`: it takes the first cell of the calling thread's list, without a lock or atomics. A pause may fall
//!    between any two instructions (I8). All that follows is `allocate_slowly`.
//! 2. `start`: the first call starts the heap.
//! 3. `obtain`: it takes the allocator lock, and goes through the following steps again until there is an object or no
//!    memory. It gives the lock back to collect, to run finalizers and to report that memory is exhausted. If a helper marks
//!    beside the program and nothing is due, it goes to step 5 at once, and the helper goes on.
//! 4. `due_before`, once for each allocation: a step of a cycle that is under way, and whether a collection is due
//!    whatever there is (the end of that cycle, the begin of one that is to end in time, `stress`).
//! 5. `try_allocate`: cells for the thread's list (`MarkSweep::refill`) or a large object (`allocate_large`). Where
//!    both find them, and in which order, `allocate.rs` of the space says. If there is nothing, the answer is a
//!    [`Shortage`].
//! 6. `remedy`: what to do about the shortage. `Heap::remedy` of the plan measures, and the decider `heap_size::decide`
//!    says whether to grow, to collect, to collect everything, or to give up. Growing is done at once.
//! 7. `collect::collect_unless`: the collection, unless another thread has collected meanwhile.

use core::ffi::{c_char, c_int, c_void};
use core::mem::take;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::heap::Remedy;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::kinds::{
    ATOMIC_UNCOLLECTABLE, NORMAL, PTRFREE, ThreadLists, UNCOLLECTABLE,
};
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, LARGEST_SMALL, class_of};

use crate::blocking::check_regions;
use crate::collect;
use crate::message::{die, out_of_memory, warn};
use crate::records;
use crate::start::{start, with_heap};
use crate::state::{Started, is_locked, table, view};
use crate::variables::{GC_all_interior_pointers, GC_non_gc_bytes};

/// Requests larger than this can never be met.
const LARGEST_REQUEST: usize = 1 << 46;

/// Bytes added to each request so that a pointer just past an object still belongs to it.
#[inline(always)]
pub fn extra_bytes() -> usize {
    GC_all_interior_pointers.get() as usize
}

/// How an object is to be allocated.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Bytes asked for.
    pub bytes: usize,
    /// Kind.
    pub kind: usize,
    /// Alignment, a power of two.
    pub alignment: usize,
    /// Whether only pointers to its first page will count.
    pub ignore_off_page: bool,
}

impl Wanted {
    /// An ordinary object.
    pub fn new(bytes: usize, kind: usize) -> Wanted {
        Wanted {
            bytes,
            kind,
            alignment: 16,
            ignore_off_page: false,
        }
    }

    /// Bytes to allocate, with the extra byte.
    pub fn size(&self) -> Option<usize> {
        let aligned = if self.alignment > 16 {
            self.bytes.max(self.alignment)
        } else {
            self.bytes
        };
        aligned
            .checked_add(extra_bytes())
            .filter(|size| *size <= LARGEST_REQUEST)
    }
}

/// Allocates a small object from the calling thread's list if it has one.
#[inline(always)]
fn allocate(bytes: usize, kind: usize) -> *mut c_void {
    let size = bytes.wrapping_add(extra_bytes());
    if size.wrapping_sub(1) < LARGEST_SMALL {
        let thread = Mutator::current_fast();
        if !thread.is_null() {
            let class = class_of(size);
            // SAFETY: the record is the calling thread's; a listed cell links to the next in its first word.
            unsafe {
                let head = &raw mut (*thread).cache.heads[kind][class];
                let cell = head.read();
                if !cell.is_null() {
                    take_head(head, cell);
                    return cell.ptr();
                }
            }
        }
    }
    allocate_slowly(Wanted::new(bytes, kind))
}

/// Takes the first cell off a list. The order of the stores matters: a pause that finds the cell listed must find its
/// link, too (I8).
///
/// # Safety
/// `head` must be the calling thread's list, and `cell` its first cell.
#[inline(always)]
unsafe fn take_head(head: *mut Address, cell: Address) {
    // SAFETY: `head` is the calling thread's list and `cell` its first cell, as asked; a cell has at least two words.
    unsafe {
        head.write_volatile(Address::new(cell.load()));
        compiler_fence(Ordering::Release);
        cell.store(0);
        cell.add(8).store(0);
    }
}

/// Allocates under the lock; collects, grows, and runs finalizers as need be.
#[cold]
#[inline(never)]
pub fn allocate_slowly(wanted: Wanted) -> *mut c_void {
    let started = start();
    let Some(size) = wanted.size() else {
        return out_of_memory(wanted.bytes);
    };
    let is_small = size <= LARGEST_SMALL && wanted.alignment <= 16;
    let request = Request {
        bytes: wanted.bytes,
        size,
        cells_of: is_small.then_some(wanted.kind),
    };
    obtain(started, &request, |heap| try_allocate(heap, &wanted, size))
}

/// What is asked of the heap.
struct Request {
    /// Bytes that the client asked for.
    bytes: usize,
    /// Bytes that the heap needs for it.
    size: usize,
    /// The kind, where it is small objects.
    cells_of: Option<usize>,
}

/// Whether nothing is to be done for a request but to get cells for a list of the calling thread's, which a turn of the helper that
/// marks beside the program does not mind.
#[inline]
fn lets_turn_go_on(heap: &Heap, request: &Request, inner: bool) -> bool {
    // Such kinds mark no free cells and have no disclaim procedure.
    let is_plain = |kind: usize| {
        let described = heap.space.kinds.get(kind);
        described.is_some_and(|kind| kind.thread_lists() == ThreadLists::Plain)
    };
    heap.lets_turn_go_on()
        && !inner
        && collect::is_enabled()
        && !Mutator::current().is_null()
        && request.cells_of.is_some_and(is_plain)
}

/// What `attempt` finds for a request: collects, grows, and runs finalizers as need be.
fn obtain(
    started: Started,
    request: &Request,
    mut attempt: impl FnMut(&mut Heap) -> Result<Address, Shortage>,
) -> *mut c_void {
    let Request { bytes, size, .. } = *request;
    let (mut attempts, mut first) = (0, true);
    loop {
        let inner = is_locked();
        check_regions(started);
        let mut heap = started.lock_beside_turn();
        let turns = heap.turns;
        let due = match take(&mut first) {
            true if lets_turn_go_on(&heap, request, inner) => None,
            true => {
                heap.end_turn_beside();
                due_before(&mut heap, inner)
            }
            false => {
                heap.end_turn_beside();
                None
            }
        };
        let result = match due {
            Some(due) => Err(due),
            None => attempt(&mut heap).map_err(|shortage| {
                heap.end_turn_beside();
                remedy(&mut heap, shortage, attempts, inner)
            }),
        };
        if let Err(Remedy::OutOfMemory(reason)) = &result {
            heap.record_exhaustion(size, reason);
        }
        let called_on = match result {
            Ok(_) => crate::idle::calls::note(&mut heap, inner),
            Err(_) => None,
        };
        crate::non_gc_bytes::sync_variables(&heap);
        heap.unlock();
        match result {
            Ok(object) => {
                if !inner {
                    if crate::snapshot::is_asked() {
                        collect::obey_signal();
                    }
                    if let Some(why) = called_on {
                        crate::idle::calls::collect_because(why);
                    }
                    crate::idle::watcher::ensure();
                    crate::cycle_helper::thread::ensure();
                    crate::finalize::run_if_ready();
                }
                return object.ptr();
            }
            Err(Remedy::TryAgain) => collect::tell_of_growth(),
            Err(Remedy::Collect(reason)) => {
                collect::collect_unless(turns, reason, false);
                attempts += usize::from(reason != "stress");
            }
            Err(Remedy::CollectEverything(reason)) => {
                collect::collect_unless(turns, reason, true);
                attempts += 1;
            }
            Err(Remedy::OutOfMemory(reason)) => {
                warn_of_exhaustion(bytes, reason);
                return out_of_memory(bytes);
            }
        }
    }
}

/// What to do about a shortage. In an inner section no collection may run.
fn remedy(heap: &mut Heap, shortage: Shortage, attempts: usize, inner: bool) -> Remedy {
    crate::settings::read_variables(heap);
    if inner {
        heap.remedy_without_collecting(shortage)
    } else {
        heap.remedy(shortage, attempts, records::is_on_foreign_stack())
    }
}

/// Tells the client that memory is out, before its function is asked what to return.
fn warn_of_exhaustion(bytes: usize, reason: &str) {
    let capacity = with_heap(|heap| heap.space.capacity);
    let kibibytes = capacity >> 10;
    warn(
        format_args!("no memory for %lu bytes: {reason}; the heap has {kibibytes} KiB"),
        bytes,
    );
}

fn try_allocate(heap: &mut Heap, wanted: &Wanted, size: usize) -> Result<Address, Shortage> {
    if size > LARGEST_SMALL || wanted.alignment > 16 {
        let size = size.max(LARGEST_SMALL + 1);
        return heap.space.allocate_large(
            wanted.kind,
            size,
            wanted.alignment,
            wanted.ignore_off_page,
        );
    }
    let class = class_of(size);
    let thread = Mutator::current_fast();
    let described = heap.space.kinds.get(wanted.kind).copied();
    let Some(described) = described else {
        die(format_args!(
            "allocation of an undefined kind {}",
            wanted.kind as c_int
        ))
    };
    let lists = described.thread_lists();
    if thread.is_null() || lists == ThreadLists::None {
        return heap.space.allocate_small(wanted.kind, class);
    }
    // SAFETY: the record is the calling thread's, and its list is empty or may be popped by it.
    unsafe {
        let cache = &raw mut (*thread).cache;
        let head = &raw mut (*cache).heads[wanted.kind][class];
        if (*head).is_null() {
            heap.space.refill(cache, wanted.kind, class)?;
        }
        let cell = head.read();
        take_head(head, cell);
        if lists != ThreadLists::Plain {
            mark_taken(cell);
        }
        if lists == ThreadLists::Uncollectable {
            let bytes = &mut heap.space.uncollectable_bytes;
            *bytes = bytes.wrapping_add(usize::from(CELL_BYTES[class]));
        }
        Ok(cell)
    }
}

/// A cell of a kind that marks its free cells is allocated from now on. Until then the collector leaves it alone, since it
/// lies in a block that the calling thread owns, or is marked already.
#[inline]
fn mark_taken(cell: Address) {
    if let Some((_, mark)) = table().resolve_base(cell.word()) {
        // SAFETY: the mark of a small object. Relaxed: a collection stops this thread first.
        unsafe { (*mark).store(MARKED, Ordering::Relaxed) };
    }
}

/// Allocates a small object that is no garbage until it is freed, from the calling thread's list if it has one.
#[inline(always)]
fn allocate_uncollectable(bytes: usize, kind: usize) -> *mut c_void {
    allocate_marked(bytes, kind, |thread, class, object| {
        // SAFETY: the record is the calling thread's.
        match unsafe { count_uncollectable(thread, usize::from(CELL_BYTES[class])) } {
            Uncounted::Few => object,
            Uncounted::Many => flush_for(object),
        }
    })
}

/// As [`flush_uncollectable`]; gives `object` back, so that who has it saves no register for this.
#[cold]
#[inline(never)]
fn flush_for(object: *mut c_void) -> *mut c_void {
    flush_uncollectable();
    object
}

/// How many bytes a thread allocates or frees of uncollectable objects before it says so in `GC_non_gc_bytes`, which all
/// threads write: pairs of allocating and freeing need not.
const MOST_UNCOUNTED: usize = 16 << 10;

/// What a thread has counted of uncollectable objects without having said so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "many are to be flushed"]
pub enum Uncounted {
    /// Not much.
    Few,
    /// So much that [`flush_uncollectable`] is to be called.
    Many,
}

/// Counts `bytes` bytes of uncollectable objects as allocated by the calling thread. A negative number, modulo the
/// width of a word, counts them as freed.
///
/// # Safety
/// The record must be the calling thread's.
#[inline(always)]
pub unsafe fn count_uncollectable(thread: *mut Mutator, bytes: usize) -> Uncounted {
    // SAFETY: the record is the calling thread's, as asked, which alone writes to this field. Others may read it meanwhile,
    // hence volatile.
    unsafe {
        let uncounted = &raw mut (*thread).cache.uncounted_bytes;
        let now = uncounted.read_volatile().wrapping_add(bytes);
        uncounted.write_volatile(now);
        match now.wrapping_add(MOST_UNCOUNTED) > 2 * MOST_UNCOUNTED {
            true => Uncounted::Many,
            false => Uncounted::Few,
        }
    }
}

/// Brings what the calling thread has counted to `GC_non_gc_bytes`.
#[cold]
#[inline(never)]
pub fn flush_uncollectable() {
    let thread = Mutator::current_fast();
    if !thread.is_null() {
        // SAFETY: the record is the calling thread's, which alone writes to this field.
        unsafe {
            let uncounted = &raw mut (*thread).cache.uncounted_bytes;
            GC_non_gc_bytes.add(uncounted.read_volatile());
            uncounted.write_volatile(0);
        }
    }
}

/// Allocates a small object of a kind that marks its free cells from the calling thread's list if it has one, and then gives
/// what `taken` makes of the thread, the class and the object.
#[inline(always)]
pub fn allocate_marked(
    bytes: usize,
    kind: usize,
    taken: impl FnOnce(*mut Mutator, usize, *mut c_void) -> *mut c_void,
) -> *mut c_void {
    let size = bytes.wrapping_add(extra_bytes());
    let thread = Mutator::current_fast();
    if size.wrapping_sub(1) < LARGEST_SMALL && !thread.is_null() {
        // SAFETY: the record is the calling thread's; a listed cell links to the next in its first word.
        unsafe {
            let class = class_of(size);
            let head = &raw mut (*thread).cache.heads[kind][class];
            let cell = head.read();
            if !cell.is_null() {
                take_head(head, cell);
                mark_taken(cell);
                return taken(thread, class, cell.ptr());
            }
        }
    }
    allocate_slowly(Wanted::new(bytes, kind))
}

/// What is to be done before an allocation, asked once for each.
#[inline]
fn due_before(heap: &mut Heap, inner: bool) -> Option<Remedy> {
    if heap.cycle.is_under_way() && !collect::is_enabled() {
        heap.give_up_cycle();
    }
    if heap.cycle.is_under_way() {
        let is_ripe = collect::is_cycle_ripe(heap, inner);
        let reason = match heap.cycle.can_end() {
            true => "everything is marked",
            false => "marking in steps ends",
        };
        return is_ripe.then_some(Remedy::Collect(reason));
    }
    if !inner && is_stress_due(heap) {
        return Some(Remedy::Collect("stress"));
    }
    if heap.is_cycle_considered() {
        return collect::begins_cycle(heap, inner).map(Remedy::Collect);
    }
    None
}

/// Counts allocations under `stress=N`; asked once for each, or `stress=1` would collect without end.
fn is_stress_due(heap: &Heap) -> bool {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let every = heap.options.stress;
    every != 0
        && collect::is_enabled()
        && crate::settings::CLIENT.no_automatic.get() == 0
        && COUNT
            .fetch_add(1, Ordering::Relaxed)
            .checked_sub(heap.options.stress_after)
            .is_some_and(|count| count % every == every - 1)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc(bytes: usize) -> *mut c_void {
    allocate(bytes, NORMAL)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_atomic(bytes: usize) -> *mut c_void {
    allocate(bytes, PTRFREE)
}

/// As in gc_inline.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_kind(bytes: usize, kind: c_int) -> *mut c_void {
    match kind as usize {
        NORMAL => allocate(bytes, NORMAL),
        PTRFREE => allocate(bytes, PTRFREE),
        other => match thread_lists(other) {
            ThreadLists::Plain => allocate(bytes, other),
            ThreadLists::Marked => allocate_marked(bytes, other, |_, _, object| object),
            ThreadLists::Uncollectable => allocate_uncollectable(bytes, other),
            ThreadLists::None => allocate_slowly(Wanted::new(bytes, other)),
        },
    }
}

/// How threads allocate objects of a kind.
fn thread_lists(kind: usize) -> ThreadLists {
    start();
    view().map_or(ThreadLists::None, |view| view.space().thread_lists(kind))
}

/// As in gc_inline.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_kind_global(bytes: usize, kind: c_int) -> *mut c_void {
    GC_malloc_kind(bytes, kind)
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_generic_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    GC_malloc_kind(bytes, kind)
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_generic_or_special_malloc(bytes: usize, kind: c_int) -> *mut c_void {
    GC_malloc_kind(bytes, kind)
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_generic_malloc_uncollectable(bytes: usize, kind: c_int) -> *mut c_void {
    allocate_slowly(Wanted::new(bytes, kind as usize))
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_generic_malloc_ignore_off_page(
    bytes: usize,
    kind: c_int,
) -> *mut c_void {
    if bytes < LARGEST_SMALL {
        return GC_malloc_kind(bytes, kind);
    }
    allocate_slowly(Wanted {
        ignore_off_page: true,
        ..Wanted::new(bytes, kind as usize)
    })
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_ignore_off_page(bytes: usize) -> *mut c_void {
    GC_generic_malloc_ignore_off_page(bytes, NORMAL as c_int)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_atomic_ignore_off_page(bytes: usize) -> *mut c_void {
    GC_generic_malloc_ignore_off_page(bytes, PTRFREE as c_int)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_uncollectable(bytes: usize) -> *mut c_void {
    allocate_uncollectable(bytes, UNCOLLECTABLE)
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_atomic_uncollectable(bytes: usize) -> *mut c_void {
    allocate_uncollectable(bytes, ATOMIC_UNCOLLECTABLE)
}

/// As in gc.h: objects aligned to `alignment`, at most what a heap can hold.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_memalign(alignment: usize, bytes: usize) -> *mut c_void {
    if alignment <= 16 {
        return GC_malloc(bytes);
    }
    if !alignment.is_power_of_two() || alignment > 1 << 40 {
        return out_of_memory(bytes);
    }
    allocate_slowly(Wanted {
        alignment,
        ..Wanted::new(bytes, NORMAL)
    })
}

/// As in gc.h.
///
/// # Safety
/// `result` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_posix_memalign(
    result: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    const EINVAL: c_int = 22;
    const ENOMEM: c_int = 12;
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let object = GC_memalign(alignment, bytes);
    if object.is_null() {
        return ENOMEM;
    }
    // SAFETY: `result` is writable, as asked.
    unsafe { result.write(object) };
    0
}

/// As in gc_inline.h: a list of objects linked through their first words, at least one, or null.
///
/// # Safety
/// `result` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_generic_malloc_many(
    bytes: usize,
    kind: c_int,
    result: *mut *mut c_void,
) {
    let list = allocate_many(bytes, kind as usize);
    // SAFETY: `result` is writable, as asked.
    unsafe { result.write(list) };
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_many(bytes: usize) -> *mut c_void {
    // libgc rounds to granules with the extra byte first.
    let Some(size) = bytes.checked_add(extra_bytes() + 15) else {
        return out_of_memory(bytes);
    };
    allocate_many(size & !15, NORMAL)
}

/// Cells that were freed explicitly, or else the free cells of one block, as a list. `bytes` is taken as it is, without the extra byte.
fn allocate_many(bytes: usize, kind: usize) -> *mut c_void {
    let started = start();
    if bytes <= LARGEST_SMALL && thread_lists(kind) == ThreadLists::Plain {
        let request = Request {
            bytes,
            size: bytes,
            cells_of: Some(kind),
        };
        return obtain(started, &request, |heap| many_cells(heap, kind, bytes));
    }
    let object = allocate_slowly(Wanted::new(bytes, kind));
    if !object.is_null() {
        // SAFETY: the object is ours, and has at least one word: a list of one.
        unsafe { Address::of(object).store(0) };
    }
    object
}

fn many_cells(heap: &mut Heap, kind: usize, bytes: usize) -> Result<Address, Shortage> {
    if heap.options.stress == 0 && !heap.options.poison {
        let class = class_of(bytes);
        let thread = Mutator::current();
        // SAFETY: the record is the calling thread's.
        let cache = (!thread.is_null()).then(|| unsafe { &raw mut (*thread).cache });
        // SAFETY: the cache is the calling thread's.
        let freed = unsafe { heap.space.take_freed_cells(cache, kind, class) };
        if let Some(head) = freed {
            return Ok(head);
        }
        let list = heap.space.take_cells(kind, class)?;
        heap.space.mark_born(&list);
        return Ok(list.head);
    }
    // Under stress and poison one object at a time, so that collections fall between them.
    let cell = heap.space.allocate_small(kind, class_of(bytes))?;
    // SAFETY: the cell is ours.
    unsafe { cell.store(0) };
    Ok(cell)
}

/// Bytes of the cells that serve a small request; for `GC_get_size_map_at`.
pub fn cell_bytes_for(bytes: usize) -> Option<usize> {
    (bytes <= LARGEST_SMALL).then(|| usize::from(CELL_BYTES[class_of(bytes)]))
}

/// As in gc.h.
///
/// # Safety
/// `text` must be a string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_strdup(text: *const c_char) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: `text` is a string, as asked.
    let bytes = unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes_with_nul();
    let copy = GC_malloc_atomic(bytes.len()).cast::<u8>();
    if !copy.is_null() {
        // SAFETY: the copy has room for it.
        unsafe { copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
    copy.cast()
}

/// As in gc.h.
///
/// # Safety
/// `text` must be readable up to its end or `most` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_strndup(text: *const c_char, most: usize) -> *mut c_char {
    // SAFETY: `text` is readable up to its end or `most` bytes, as asked.
    let length = unsafe { (0..most).take_while(|at| *text.add(*at) != 0).count() };
    let copy = GC_malloc_atomic(length + 1).cast::<c_char>();
    if !copy.is_null() {
        // SAFETY: the copy has room for it.
        unsafe {
            copy.copy_from_nonoverlapping(text, length);
            *copy.add(length) = 0;
        }
    }
    copy
}
