//! The pointer checks of `gc.h` (`GC_same_obj` and its relatives), for clients that check their own arithmetic.
//!
//! Each returns its argument in all cases; a complaint goes to a procedure that the client may replace, and that ends
//! the process until then. They read descriptors without the lock: the objects are the caller's, so they stay.

use core::ffi::c_void;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::State;
use gleaner_spaces::mark_sweep::kinds::descriptor;

use crate::message::die;
use crate::start::start;
use crate::state::{context, table};
use crate::variables::{GC_all_interior_pointers, PointerFn, TwoPointersFn, Variable};

const WORD: usize = size_of::<usize>();

/// As in gc.h: told of two pointers that are not in the same object.
#[unsafe(no_mangle)]
pub static GC_same_obj_print_proc: Variable<Option<TwoPointersFn>> =
    Variable::new(Some(different_objects));
/// As in gc.h: told of a pointer into an object that would not count.
#[unsafe(no_mangle)]
pub static GC_is_valid_displacement_print_proc: Variable<Option<PointerFn>> =
    Variable::new(Some(bad_displacement));
/// As in gc.h: told of a place that the collector does not look at.
#[unsafe(no_mangle)]
pub static GC_is_visible_print_proc: Variable<Option<PointerFn>> = Variable::new(Some(invisible));

unsafe extern "C-unwind" fn different_objects(p: *mut c_void, q: *mut c_void) {
    die(format_args!(
        "GC_same_obj: {p:p} and {q:p} are not in the same object"
    ));
}

unsafe extern "C-unwind" fn bad_displacement(p: *mut c_void) {
    die(format_args!(
        "GC_is_valid_displacement: {p:p} points into an object where pointers do not count; \
         call GC_register_displacement, or recognise all interior pointers"
    ));
}

unsafe extern "C-unwind" fn invisible(p: *mut c_void) {
    die(format_args!(
        "GC_is_visible: the collector does not see a pointer stored at {p:p}"
    ));
}

/// The base and size of the object that `pointer` points into; every byte of it counts here, other than in
/// resolving, where objects may ignore pointers past their first page.
pub fn extent(pointer: Address) -> Option<(Address, usize)> {
    let table = table();
    if !table.contains(pointer.word()) {
        return None;
    }
    let index = table.described_at(pointer.word())?;
    // SAFETY: the block has a descriptor.
    let block = unsafe { &*table.block(index) };
    let head = match block.state {
        State::Small => {
            return table
                .resolve(pointer.word())
                .map(|found| (found.base, block.bytes));
        }
        State::LargeHead => index,
        State::LargeRest => index - block.inverse,
        _ => return None,
    };
    // SAFETY: the head of a large object lies in the span.
    let object = unsafe { &*table.block(head) };
    let base = table.start(head);
    (object.state == State::LargeHead && pointer.offset_from(base) < object.bytes)
        .then_some((base, object.bytes))
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_same_obj(p: *mut c_void, q: *mut c_void) -> *mut c_void {
    start();
    if extent(Address::of(p)) != extent(Address::of(q))
        && let Some(complain) = GC_same_obj_print_proc.get()
    {
        // SAFETY: the client's procedure, called as its contract says.
        unsafe { complain(p, q) };
    }
    p
}

/// Adds to the pointer in `place` after checking; returns the old and the new one.
///
/// # Safety
/// `place` must hold a pointer.
unsafe fn increment(place: *mut *mut c_void, bytes: isize) -> (*mut c_void, *mut c_void) {
    // SAFETY: `place` holds a pointer, as asked.
    let old = unsafe { place.read() };
    let new = old.wrapping_byte_offset(bytes);
    if GC_all_interior_pointers.get() == 0 {
        GC_is_valid_displacement(new);
    }
    let new = GC_same_obj(new, old);
    // SAFETY: `place` holds a pointer, as asked.
    unsafe { place.write(new) };
    (old, new)
}

/// As in gc.h.
///
/// # Safety
/// `place` must hold a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_pre_incr(place: *mut *mut c_void, bytes: isize) -> *mut c_void {
    // SAFETY: `place` holds a pointer, as asked.
    unsafe { increment(place, bytes) }.1
}

/// As in gc.h.
///
/// # Safety
/// `place` must hold a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_post_incr(place: *mut *mut c_void, bytes: isize) -> *mut c_void {
    // SAFETY: `place` holds a pointer, as asked.
    unsafe { increment(place, bytes) }.0
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_valid_displacement(p: *mut c_void) -> *mut c_void {
    start();
    let counts = |displacement: usize| {
        displacement == 0
            || GC_all_interior_pointers.get() != 0
            || context()
                .displacements
                .get(displacement)
                .copied()
                .unwrap_or(false)
    };
    if let Some((base, _)) = extent(Address::of(p))
        && !counts(Address::of(p).offset_from(base))
        && let Some(complain) = GC_is_valid_displacement_print_proc.get()
    {
        // SAFETY: the client's procedure, called as its contract says.
        unsafe { complain(p) };
    }
    p
}

/// As in gc.h. Found out are misaligned places, and words that the layout of their object leaves out; places in
/// pointer-free objects and outside the heap pass, as in libgc.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_is_visible(p: *mut c_void) -> *mut c_void {
    start();
    if (!(p as usize).is_multiple_of(WORD) || is_left_out(Address::of(p)))
        && let Some(complain) = GC_is_visible_print_proc.get()
    {
        // SAFETY: the client's procedure, called as its contract says.
        unsafe { complain(p) };
    }
    p
}

/// Whether the descriptor of the object around a place says that its word holds no pointer.
fn is_left_out(place: Address) -> bool {
    let Some(found) = table().resolve_checked(place.word()) else {
        return false;
    };
    // SAFETY: a resolved object's block.
    let (template, bytes) = unsafe { ((*found.block).descriptor, (*found.block).bytes) };
    let own = if template & descriptor::TAGS == descriptor::PER_OBJECT && template < bytes {
        // SAFETY: the descriptor stands in the object, as its kind says.
        unsafe { found.base.add(template - descriptor::PER_OBJECT).load() }
    } else {
        template
    };
    match own & descriptor::TAGS {
        descriptor::LENGTH => own != 0 && found.displacement >= own,
        descriptor::BITMAP => {
            let index = found.displacement / WORD;
            index >= usize::BITS as usize - 2 || own << index >> (usize::BITS - 1) == 0
        }
        _ => false,
    }
}

/// Free lists of one kind as clients of the inline allocators see them: always empty.
#[repr(transparent)]
pub struct Lists(core::cell::UnsafeCell<[*mut c_void; LISTS]>);
// SAFETY: this library never writes to them, and a client that does synchronizes by the rules of the interface.
unsafe impl Sync for Lists {}
const LISTS: usize = 129;

/// A pointer to lists that a client may import.
#[repr(transparent)]
pub struct ListsPointer(&'static Lists);

macro_rules! lists {
    ($( $name:ident, $lists:ident; )+) => {
        $(
            static $lists: Lists = Lists(core::cell::UnsafeCell::new([core::ptr::null_mut(); LISTS]));
            /// As in libgc: leads to the free lists of a kind, indexed by granules. Cells are handed out by
            /// functions only, so they stay empty.
            #[unsafe(no_mangle)]
            pub static $name: ListsPointer = ListsPointer(&$lists);
        )+
    };
}

lists! {
    GC_objfreelist_ptr, NORMAL_LISTS;
    GC_aobjfreelist_ptr, PTRFREE_LISTS;
    GC_uobjfreelist_ptr, UNCOLLECTABLE_LISTS;
    GC_auobjfreelist_ptr, ATOMIC_UNCOLLECTABLE_LISTS;
}
