//! `gc_typed.h`: objects whose pointers are known exactly.
//!
//! A typed object carries its mark descriptor in its last word; an array of typed elements carries descriptor, size
//! and number of its elements in its last three words. Layouts of up to 62 words are bitmaps that the scanner reads
//! by itself; longer ones, and arrays, have mark procedures of ours, which may run on any marking thread.
//!
//! # Why the collector never sees half of a description
//! The description is written after the cell was allocated, without a lock. Cells of these kinds are cleared when
//! they are swept, so until then the descriptor (or the number of elements) reads as 0, which means "no pointers",
//! and that is true of a fresh object. The object itself is found through the registers of the thread that allocates
//! it. A free cell holds zeros, poison, or in its second word the cookie of an explicit free: the scanner knows all
//! three, and the number of elements never stands in the second word.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::POISON;
use gleaner_spaces::mark_sweep::kinds::{Kind, descriptor};
use gleaner_spaces::mark_sweep::scan::{Entry, MarkProc};
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, GRANULE, LARGEST_SMALL, class_of};

use crate::allocate::{GC_generic_malloc_ignore_off_page, GC_malloc_kind, extra_bytes};
use crate::message::{die, out_of_memory};
use crate::start::with_heap;
use crate::state::{context, table};

const WORD: usize = size_of::<usize>();
const WORD_BITS: usize = usize::BITS as usize;
/// Words that a bitmap descriptor can describe.
const BITMAP_WORDS: usize = WORD_BITS - 2;
/// Bytes of an array's description at its end.
const ARRAY_HEADER: usize = 3 * WORD;
/// Elements of an array that are pushed at once; the rest is left on the stack for others to take.
const PIECE: usize = 64;
/// The largest object that is tried.
const LARGEST: usize = 1 << 46;

/// The kind of typed objects, 0 until it is needed.
static TYPED_KIND: AtomicUsize = AtomicUsize::new(0);
/// The kind of typed arrays, 0 until it is needed.
static ARRAY_KIND: AtomicUsize = AtomicUsize::new(0);
/// The index of `scan_long`, 0 until it is needed.
static LONG_PROC: AtomicUsize = AtomicUsize::new(0);

/// The layout of a type that is too long for a bitmap descriptor; never freed, since descriptors refer to it.
struct LongLayout {
    /// Bit `i` is set if word `i` may be a pointer.
    bits: Vec<usize>,
}

/// The number in `cell`, made by `make` under the lock if it is not there yet.
fn once(cell: &AtomicUsize, make: fn(&mut Heap) -> usize) -> usize {
    // Relaxed: a thread that uses the number takes the lock, or found it under the lock itself.
    match cell.load(Ordering::Relaxed) {
        0 => with_heap(|heap| {
            if cell.load(Ordering::Relaxed) == 0 {
                cell.store(make(heap), Ordering::Relaxed);
            }
            cell.load(Ordering::Relaxed)
        }),
        number => number,
    }
}

fn add_kind(heap: &mut Heap, descriptor: usize, add_size: bool) -> usize {
    let kind = Kind {
        descriptor,
        add_size,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: false,
    };
    crate::gc_mark::add_kind(heap, kind)
}

/// Registers a mark procedure of ours, which may run on any thread.
fn add_own_proc(heap: &mut Heap, procedure: MarkProc) -> usize {
    let index = crate::gc_mark::add_proc(heap, procedure);
    heap.context.own_procs |= 1 << index;
    index
}

fn typed_kind() -> usize {
    // The descriptor stands `bytes - WORD` into the object.
    once(&TYPED_KIND, |heap| {
        add_kind(heap, descriptor::PER_OBJECT.wrapping_sub(WORD), true)
    })
}

fn array_kind() -> usize {
    once(&ARRAY_KIND, |heap| {
        let index = add_own_proc(heap, scan_array);
        add_kind(heap, proc_descriptor(index, 0), false)
    })
}

fn proc_descriptor(index: usize, environment: usize) -> usize {
    (environment << descriptor::LOG_MAX_PROCS | index) << 2 | descriptor::PROC
}

/// As in gc_typed.h.
///
/// # Safety
/// `bitmap` must have `length` readable bits.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_make_descriptor(bitmap: *const usize, length: usize) -> usize {
    // SAFETY: `bitmap` has `length` readable bits, as asked, and indices are below `length`.
    let bit =
        |index: usize| unsafe { *bitmap.add(index / WORD_BITS) >> (index % WORD_BITS) & 1 != 0 };
    typed_kind();
    let Some(last) = (0..length).rev().find(|index| bit(*index)) else {
        return descriptor::LENGTH;
    };
    if (0..last).all(bit) {
        return ((last + 1) * WORD) | descriptor::LENGTH;
    }
    if last < BITMAP_WORDS {
        let bits = (0..=last)
            .filter(|index| bit(*index))
            .fold(0, |bits, index| bits | 1 << (WORD_BITS - 1 - index));
        return bits | descriptor::BITMAP;
    }
    match long_layout(last + 1, bit) {
        Some(layout) => {
            let index = once(&LONG_PROC, |heap| add_own_proc(heap, scan_long));
            // Layouts are 8-aligned and user addresses have 47 bits, so this fits the environment.
            proc_descriptor(index, layout as usize / WORD)
        }
        // No memory: conservative, as the interface says.
        None => ((last + 1) * WORD) | descriptor::LENGTH,
    }
}

fn long_layout(words: usize, bit: impl Fn(usize) -> bool) -> Option<*const LongLayout> {
    // Under the lock, as the arena wants it.
    with_heap(|_| {
        let mut bits = Vec::new();
        bits.try_reserve_exact(words.div_ceil(WORD_BITS)).ok()?;
        bits.resize(words.div_ceil(WORD_BITS), 0);
        for index in (0..words).filter(|index| bit(*index)) {
            bits[index / WORD_BITS] |= 1 << (index % WORD_BITS);
        }
        Some(Box::into_raw(Box::new(LongLayout { bits })).cast_const())
    })
}

/// Mark procedure of long layouts. The environment leads to the layout.
unsafe extern "C-unwind" fn scan_long(
    object: *mut usize,
    top: *mut Entry,
    limit: *mut Entry,
    environment: usize,
) -> *mut Entry {
    // SAFETY: the environment was made from a layout that is never freed.
    let layout = unsafe { &*((environment * WORD) as *const LongLayout) };
    let mut top = top;
    for (group, bits) in layout.bits.iter().enumerate() {
        let mut bits = *bits;
        while bits != 0 {
            let index = group * WORD_BITS + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // SAFETY: an object of a type is as long as its layout, as gc_typed.h asks; the stack is the scanner's.
            unsafe {
                top = context().mark_and_push(object.add(index).read_unaligned(), top, limit)
            };
        }
    }
    top
}

/// What stands in the last words of an array.
#[derive(Clone, Copy)]
#[repr(C)]
struct ArrayHeader {
    /// Mark descriptor of each element.
    descriptor: usize,
    /// Bytes of each element.
    bytes: usize,
    /// Number of elements; 0 while there is no description.
    count: usize,
}

impl ArrayHeader {
    /// Whether this describes an array in an object of `bytes` bytes. Free cells hold zeros, a link or poison.
    fn fits(&self, bytes: usize) -> bool {
        let fits = |used| used <= bytes - ARRAY_HEADER;
        self.count != POISON
            && self.bytes != 0
            && self.count.checked_mul(self.bytes).is_some_and(fits)
    }
}

/// Mark procedure of arrays. `object` is the array, or an element from which scanning goes on.
unsafe extern "C-unwind" fn scan_array(
    object: *mut usize,
    top: *mut Entry,
    limit: *mut Entry,
    _environment: usize,
) -> *mut Entry {
    let Some(found) = table().resolve_checked(object as usize) else {
        return top;
    };
    // SAFETY: a resolved object's block.
    let (bytes, own_descriptor) = unsafe { ((*found.block).bytes, (*found.block).descriptor) };
    // SAFETY: cells of this kind are longer than the header.
    let header = unsafe {
        found
            .base
            .add(bytes - ARRAY_HEADER)
            .ptr::<ArrayHeader>()
            .read()
    };
    if !header.fits(bytes) {
        return top;
    }
    let first = found.displacement / header.bytes;
    let left = header.count.saturating_sub(first);
    let room = (limit as usize - top as usize) / size_of::<Entry>() - 1;
    if left == 0 {
        return top;
    }
    if room < 2 {
        // Scanned again from its mark when the stack has room.
        context().drop_grey(found.base);
        return top;
    }
    let mut top = top;
    let mut push = |start: Address, descriptor: usize| {
        top = top.wrapping_add(1);
        // SAFETY: at most `room` entries are pushed.
        unsafe {
            top.write(Entry {
                start: start.word(),
                descriptor,
            })
        };
    };
    let piece = left.min(PIECE).min(room - 1);
    if piece < left {
        push(
            found.base.add((first + piece) * header.bytes),
            own_descriptor,
        );
    }
    for element in first..first + piece {
        push(found.base.add(element * header.bytes), header.descriptor);
    }
    top
}

/// Bytes of the object that serves a request for `bytes` bytes in all, a multiple of a word.
fn granted(bytes: usize) -> usize {
    if bytes <= LARGEST_SMALL {
        usize::from(CELL_BYTES[class_of(bytes)])
    } else {
        bytes.next_multiple_of(GRANULE)
    }
}

/// Allocates `bytes` bytes and room for a description behind them; returns the object and its size. The description
/// also serves as the extra byte that pointers past the end may refer to.
fn allocate_with_tail(
    bytes: usize,
    tail: usize,
    kind: usize,
    off_page: bool,
) -> Option<(Address, usize)> {
    let total = bytes
        .checked_next_multiple_of(WORD)?
        .checked_add(tail)
        .filter(|total| *total <= LARGEST)?;
    let wanted = total - extra_bytes();
    let object = if off_page {
        GC_generic_malloc_ignore_off_page(wanted, kind as i32)
    } else {
        GC_malloc_kind(wanted, kind as i32)
    };
    Some((Address::of(object), granted(total)))
}

fn allocate_typed(bytes: usize, descriptor: usize, off_page: bool) -> *mut c_void {
    let Some((object, size)) = allocate_with_tail(bytes, WORD, typed_kind(), off_page) else {
        return out_of_memory(bytes);
    };
    if !object.is_null() && table().contains(object.word()) {
        // SAFETY: the last word of a fresh object.
        unsafe { object.add(size - WORD).store(descriptor) };
    }
    object.ptr()
}

/// As in gc_typed.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_explicitly_typed(
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    allocate_typed(bytes, descriptor, false)
}

/// As in gc_typed.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_malloc_explicitly_typed_ignore_off_page(
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    allocate_typed(bytes, descriptor, true)
}

/// What [`GC_calloc_prepare_explicitly_typed`] notes, in the first of the eight words of the client's structure.
#[repr(C)]
pub struct PreparedArray {
    count: usize,
    bytes: usize,
    descriptor: usize,
}

/// As in gc_typed.h of the development branch: 0 if the array would be too large.
///
/// # Safety
/// `prepared` leads to a structure of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_calloc_prepare_explicitly_typed(
    prepared: *mut PreparedArray,
    size: usize,
    count: usize,
    bytes: usize,
    descriptor: usize,
) -> c_int {
    check_prepared(size);
    // SAFETY: there is room for it, as asked.
    unsafe {
        prepared.write(PreparedArray {
            count,
            bytes,
            descriptor,
        });
    }
    let fits = count
        .checked_mul(bytes)
        .is_some_and(|total| total <= LARGEST);
    c_int::from(fits)
}

/// As in gc_typed.h of the development branch.
///
/// # Safety
/// `prepared` leads to a structure of `size` bytes that was prepared.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_calloc_do_explicitly_typed(
    prepared: *const PreparedArray,
    size: usize,
) -> *mut c_void {
    check_prepared(size);
    // SAFETY: prepared, as asked.
    let array = unsafe { prepared.read() };
    GC_calloc_explicitly_typed(array.count, array.bytes, array.descriptor)
}

fn check_prepared(size: usize) {
    if size < size_of::<PreparedArray>() {
        die(format_args!(
            "GC_calloc_prepare_explicitly_typed: {size} bytes are no struct GC_calloc_typed_descr_s"
        ));
    }
}

/// As in gc_typed.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_calloc_explicitly_typed(
    count: usize,
    bytes: usize,
    descriptor: usize,
) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes).filter(|total| *total <= LARGEST) else {
        return out_of_memory(usize::MAX);
    };
    if count <= 1 || descriptor == 0 {
        return allocate_typed(total, descriptor, false);
    }
    if let Some(whole) = repeated(count, bytes, descriptor) {
        return allocate_typed(total, whole, false);
    }
    let Some((object, size)) = allocate_with_tail(total, ARRAY_HEADER, array_kind(), false) else {
        return out_of_memory(total);
    };
    if !object.is_null() && table().contains(object.word()) {
        // SAFETY: the last three words of a fresh object, which has at least four.
        unsafe {
            object
                .add(size - ARRAY_HEADER)
                .ptr::<ArrayHeader>()
                .write(ArrayHeader {
                    descriptor,
                    bytes,
                    count,
                })
        };
    }
    object.ptr()
}

/// The descriptor of a whole array, if one word can express it.
fn repeated(count: usize, bytes: usize, descriptor: usize) -> Option<usize> {
    let words = bytes / WORD;
    match descriptor & descriptor::TAGS {
        descriptor::LENGTH if descriptor >= bytes && bytes.is_multiple_of(WORD) => {
            Some(count * bytes)
        }
        descriptor::BITMAP if count * words <= BITMAP_WORDS && bytes.is_multiple_of(WORD) => {
            let element = descriptor & !descriptor::TAGS;
            let bits = (0..count).fold(0, |bits, index| bits | element >> (index * words));
            Some(bits & !descriptor::TAGS | descriptor::BITMAP)
        }
        _ => None,
    }
}
