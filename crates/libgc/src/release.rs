//! `GC_free`, `GC_realloc`, and questions about objects (`GC_base`, `GC_size`, `GC_is_heap_ptr`; gc.h).

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use gleaner_base::options::FreedCells;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_spaces::mark_sweep::FREE;
use gleaner_spaces::mark_sweep::allocate::{cookie, is_freed};
use gleaner_spaces::mark_sweep::block::{IGNORE_OFF_PAGE, Resolved, State};
use gleaner_spaces::mark_sweep::cache::Cache;
use gleaner_spaces::mark_sweep::explicit_free::{FreeError, push_cell, push_magazine};
use gleaner_spaces::mark_sweep::kinds::{ATOMIC_UNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, CLASSES, cells_within};

use crate::allocate::{
    GC_malloc, Uncounted, Wanted, allocate_slowly, count_uncollectable, extra_bytes,
    flush_uncollectable,
};
use crate::blocking::check_regions;
use crate::debug_header;
use crate::message::die;
use crate::start::{start, with_heap};
use crate::state::{is_ready, table, view};

/// How many cells of each class a thread frees onto its list before it fills a magazine. What is freed onto the list is
/// allocated again first, while it is in the nearest cache. What a thread holds nobody else can have.
const MOST_FOREIGN: [u32; CLASSES] = cells_within(16 << 10, 128);
/// Cells of a full magazine, which go to the shared list.
const FULL: [u32; CLASSES] = cells_within(32 << 10, 256);

fn resolve(object: *const c_void) -> Option<Resolved> {
    if is_ready() {
        table().resolve_checked(object as usize)
    } else {
        None
    }
}

/// The small object that starts at an address. Nothing else is found, but by [`resolve`].
#[inline(always)]
fn resolve_small(object: *const c_void) -> Option<Resolved> {
    let word = object as usize;
    if !is_ready() || !table().contains(word) {
        return None;
    }
    let (block, mark) = table().resolve_base(word)?;
    Some(Resolved {
        base: Address::new(word),
        displacement: 0,
        block,
        mark,
    })
}

/// Whether objects of a kind are counted in `GC_non_gc_bytes`.
#[inline(always)]
fn is_counted(kind: usize) -> bool {
    kind == UNCOLLECTABLE || kind == ATOMIC_UNCOLLECTABLE
}

/// A small object of a kind whose cells a thread frees onto a list of its own.
#[derive(Clone, Copy)]
struct Listed {
    cell: Address,
    kind: usize,
    class: usize,
    /// Whether it is free.
    freed: bool,
}

impl Listed {
    /// The object that a word points to the begin of, if it is of such a kind.
    #[inline(always)]
    fn of(found: &Resolved) -> Option<Listed> {
        // SAFETY: the object is allocated, so its descriptor does not change.
        let block = unsafe { &*found.block };
        let kind = usize::from(block.kind);
        let listed = is_counted(kind) || kind == NORMAL || kind == PTRFREE;
        if !listed || block.state != State::Small || found.displacement != 0 {
            return None;
        }
        // SAFETY: a cell has at least two words; the mark of a resolved object.
        let (second, mark) = unsafe {
            let mark = (*found.mark).load(Ordering::Relaxed);
            (found.base.add(8).load(), mark)
        };
        Some(Listed {
            cell: found.base,
            kind,
            class: usize::from(block.class),
            freed: second == cookie(found.base) || is_counted(kind) && mark == FREE,
        })
    }

    /// Whether its memory is zeroed when it is freed.
    #[inline(always)]
    fn is_cleared(self) -> bool {
        self.kind == NORMAL || self.kind == UNCOLLECTABLE
    }

    /// Puts it onto the calling thread's list.
    ///
    /// # Safety
    /// The record must be the calling thread's, and the object be used no more.
    #[inline(always)]
    unsafe fn push(self, thread: *mut Mutator) {
        // SAFETY: the record is the calling thread's; the object is used no more, as asked.
        unsafe {
            let cache = &raw mut (*thread).cache;
            push_cell(
                cache,
                self.kind,
                self.class,
                self.cell,
                self.is_cleared(),
                false,
            );
            self.count(thread);
        }
    }

    /// Counts it as freed.
    ///
    /// # Safety
    /// The record must be the calling thread's.
    #[inline(always)]
    unsafe fn count(self, thread: *mut Mutator) {
        if is_counted(self.kind) {
            let bytes = usize::from(CELL_BYTES[self.class]).wrapping_neg();
            // SAFETY: the record is the calling thread's, as asked.
            if unsafe { count_uncollectable(thread, bytes) } == Uncounted::Many {
                flush_uncollectable();
            }
        }
    }
}

#[inline(always)]
fn is_found_dead(found: &Resolved) -> bool {
    found.is_found_dead(|| view().is_some_and(|view| view.space().stage().is_deciding()))
}

/// As in gc.h.
///
/// # Safety
/// `object` must be null or an object that is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_free(object: *mut c_void) {
    // What is usual: no other function is called, so that no register has to be saved.
    let thread = Mutator::current_fast();
    if !thread.is_null()
        && let Some(found) = resolve_small(object)
    {
        if is_found_dead(&found) {
            return;
        }
        if let Some(listed) = Listed::of(&found)
            && !listed.freed
        {
            // SAFETY: the record is the calling thread's; the object is used no more, as asked.
            unsafe {
                let cache = &raw mut (*thread).cache;
                if (*cache).foreign[listed.kind][listed.class] < MOST_FOREIGN[listed.class] {
                    if usize::from(CELL_BYTES[listed.class]) <= ZEROED_IN_LINE {
                        listed.push(thread);
                    } else {
                        push_out_of_line(thread, listed.cell, listed.kind, listed.class);
                    }
                    return;
                }
            }
        }
    }
    // SAFETY: `object` is null or an object that is used no more, as asked.
    unsafe { free_slowly(object) }
}

/// Bytes of the largest cells that are zeroed without calling a function.
const ZEROED_IN_LINE: usize = 80;

/// As [`Listed::push`], for cells that [`GC_free`] would have to call a function to zero. If it called one itself, it
/// would save registers each time.
///
/// # Safety
/// As for [`Listed::push`]; an object of this kind and class lies at `cell`.
#[inline(never)]
unsafe fn push_out_of_line(thread: *mut Mutator, cell: Address, kind: usize, class: usize) {
    let listed = Listed {
        cell,
        kind,
        class,
        freed: false,
    };
    // SAFETY: the record is the calling thread's; the object is used no more, as asked.
    unsafe { listed.push(thread) }
}

/// Frees what cannot just be put on the calling thread's list.
///
/// # Safety
/// As for [`GC_free`].
#[inline(never)]
unsafe fn free_slowly(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let found = object_at("GC_free", object);
    if is_found_dead(&found) {
        return;
    }
    let thread = Mutator::current_fast();
    if !thread.is_null()
        && let Some(listed) = Listed::of(&found)
    {
        if listed.freed {
            refuse("GC_free", object, FreeError::Twice);
        }
        // SAFETY: the record is the calling thread's; the object is used no more, as asked.
        unsafe {
            if free_beside(&raw mut (*thread).cache, listed) {
                listed.count(thread);
                return;
            }
        }
    }
    let result = with_heap(|heap| {
        let result = heap.space.free(found.base);
        crate::idle::state::stir();
        crate::non_gc_bytes::sync_variables(heap);
        result
    });
    if let Err(error) = result {
        refuse("GC_free", object, error);
    }
}

/// Frees a cell of a class of which the thread may have enough on its list, unless the policy is that all threads share
/// what is more. Whether it is free now.
///
/// # Safety
/// The cache must be the calling thread's, and the cell be used no more.
unsafe fn free_beside(cache: *mut Cache, listed: Listed) -> bool {
    let Listed {
        cell, kind, class, ..
    } = listed;
    let clear = listed.is_cleared();
    // SAFETY: the cache is the calling thread's and the cell is used no more, as asked.
    unsafe {
        let magazines = view().is_some_and(|view| view.freed_cells() == FreedCells::Magazines);
        let foreign = &raw mut (*cache).foreign[kind][class];
        let looks = match magazines {
            true => (*cache).magazines[kind][class].cells == 0,
            // Not each time: the list may be as full as before.
            false => foreign.read() >= MOST_FOREIGN[class] + MOST_FOREIGN[class] / 2,
        };
        if looks && has_room(cache, kind, class) {
            push_cell(cache, kind, class, cell, clear, false);
        } else if !magazines {
            let more = if looks {
                MOST_FOREIGN[class]
            } else {
                foreign.read() + 1
            };
            foreign.write_volatile(more);
            return false;
        } else if push_magazine(cache, kind, class, cell, clear) == FULL[class] {
            with_heap(|heap| heap.space.share_magazine(cache, kind, class));
        }
    }
    true
}

/// Whether a list begins with fewer than half as many freed cells as it may have, since what was freed onto it was allocated again.
/// It then counts as having no more than these.
///
/// # Safety
/// The cache must be the calling thread's.
unsafe fn has_room(cache: *mut Cache, kind: usize, class: usize) -> bool {
    let most = MOST_FOREIGN[class] / 2;
    let mut cells = 0;
    // SAFETY: the cache is the calling thread's, as asked; a listed cell has its link in its first word and, if it was
    // freed explicitly, its cookie in the second.
    unsafe {
        let mut cell = (*cache).heads[kind][class];
        while cells < most && !cell.is_null() && is_freed(cell) {
            cells += 1;
            cell = Address::new(cell.load());
        }
        let has_room = cells < most;
        if has_room {
            // The list may hold cells of other blocks that were not freed by this thread: never less than one.
            (&raw mut (*cache).foreign[kind][class]).write_volatile(cells.max(1));
        }
        has_room
    }
}

/// The object that starts at an address; ends the process with a message by `function` if none does.
fn object_at(function: &str, object: *const c_void) -> Resolved {
    match resolve(object) {
        None => refuse(function, object, FreeError::NotAnObject),
        Some(Resolved {
            displacement: displacement @ 1..,
            ..
        }) => refuse(function, object, FreeError::Interior { displacement }),
        Some(found) => found,
    }
}

#[cold]
fn refuse(function: &str, object: *const c_void, error: FreeError) -> ! {
    match error {
        FreeError::NotAnObject => die(format_args!(
            "{function}({object:p}): this address is not an object of the heap, or not any more"
        )),
        FreeError::Interior { displacement } if displacement == debug_header::HEADER => {
            die(format_args!(
                "{function}({object:p}): this address is {displacement} bytes inside an object; pass its base, \
             or what GC_debug_malloc made to GC_debug_free or GC_debug_realloc"
            ))
        }
        FreeError::Interior { displacement } => die(format_args!(
            "{function}({object:p}): this address is {displacement} bytes inside an object; pass its base"
        )),
        FreeError::Twice => die(format_args!(
            "{function}({object:p}): this object was freed before (double free)"
        )),
    }
}

/// As in gc.h: the same kind, the contents up to the smaller size; memory beyond the old size reads as zero unless
/// the object is atomic.
///
/// # Safety
/// `object` must be null or an object of the heap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_realloc(object: *mut c_void, bytes: usize) -> *mut c_void {
    if object.is_null() {
        return GC_malloc(bytes);
    }
    if bytes == 0 {
        // SAFETY: reallocating to 0 bytes gives the object up.
        unsafe { GC_free(object) };
        return null_mut();
    }
    let found = object_at("GC_realloc", object);
    if Listed::of(&found).is_some_and(|listed| listed.freed) && !is_found_dead(&found) {
        refuse("GC_realloc", object, FreeError::Twice);
    }
    // SAFETY: the object is allocated, so its descriptor does not change.
    let (state, old_bytes, kind, off_page) = unsafe {
        let block = &*found.block;
        (
            block.state,
            block.bytes,
            usize::from(block.kind),
            block.has_flag(IGNORE_OFF_PAGE),
        )
    };
    let usable = old_bytes - extra_bytes().min(old_bytes);
    if bytes <= usable && bytes >= usable / 2 {
        clear_tail(found.base, bytes, old_bytes, kind);
        return object;
    }
    if bytes > usable && state == State::LargeHead && grow_in_place(found.base, bytes, kind) {
        return object;
    }
    let copy = allocate_slowly_or_fast(bytes, kind, off_page);
    if !copy.is_null() {
        // SAFETY: both objects have that many bytes, and the old one is given up.
        unsafe {
            copy.cast::<u8>()
                .copy_from_nonoverlapping(object.cast(), bytes.min(old_bytes));
            GC_free(object);
        }
    }
    copy
}

/// Whether a large object could be made longer where it is.
fn grow_in_place(base: Address, bytes: usize, kind: usize) -> bool {
    check_regions(start());
    let Some(size) = Wanted::new(bytes, kind).size() else {
        return false;
    };
    with_heap(|heap| {
        let grown = heap.space.grow_large(base, size);
        crate::non_gc_bytes::sync_variables(heap);
        grown
    })
}

fn allocate_slowly_or_fast(bytes: usize, kind: usize, ignore_off_page: bool) -> *mut c_void {
    if ignore_off_page {
        allocate_slowly(Wanted {
            ignore_off_page,
            ..Wanted::new(bytes, kind)
        })
    } else {
        crate::allocate::GC_malloc_kind(bytes, kind as c_int)
    }
}

/// A shrunk object keeps nothing alive by what stood behind its new end.
fn clear_tail(base: Address, bytes: usize, old_bytes: usize, kind: usize) {
    if with_heap(|heap| heap.space.kinds.get(kind).is_some_and(|kind| kind.clear)) {
        // SAFETY: the tail belongs to the object.
        unsafe { gleaner_mem::zero::zero(base.add(bytes), old_bytes - bytes) };
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_base(address: *mut c_void) -> *mut c_void {
    if !is_ready() {
        return null_mut();
    }
    // Also past the first page of an object that ignores pointers there.
    crate::pointer_checks::extent(Address::of(address)).map_or(null_mut(), |(base, _)| base.ptr())
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_heap_ptr(address: *const c_void) -> c_int {
    if !is_ready() || !table().contains(address as usize) {
        return 0;
    }
    let Some(index) = table().described_at(address as usize) else {
        return 0;
    };
    // SAFETY: the block has a descriptor; the state is one byte.
    let state = unsafe { (*table().block(index)).state };
    c_int::from(matches!(
        state,
        State::Small | State::LargeHead | State::LargeRest
    ))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_size(object: *const c_void) -> usize {
    // SAFETY: a resolved object's block.
    resolve(object).map_or(0, |found| unsafe { (*found.block).bytes })
}

/// As in gc_mark.h.
///
/// # Safety
/// `size` must be writable or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_get_kind_and_size(
    object: *const c_void,
    size: *mut usize,
) -> c_int {
    let Some(found) = resolve(object) else {
        die(format_args!(
            "GC_get_kind_and_size({object:p}): this address is not an object of the heap"
        ));
    };
    // SAFETY: a resolved object's block; `size` is writable or null, as asked.
    unsafe {
        if !size.is_null() {
            size.write((*found.block).bytes);
        }
        c_int::from((*found.block).kind)
    }
}
