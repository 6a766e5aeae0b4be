//! Debugging allocation (`GC_debug_malloc` and its relatives, gc.h): objects with a header and an end marker that are
//! checked when they are given up and at each collection.
//!
//! An object given up is not reused at once: it is filled and left to the collector, so that a second free and later
//! writes are noticed as long as something refers to it. Uncollectable objects, and all under `GC_find_leak`, are
//! really freed.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::Resolved;
use gleaner_spaces::mark_sweep::kinds::{ATOMIC_UNCOLLECTABLE, NORMAL, PTRFREE, UNCOLLECTABLE};

use crate::allocate::{GC_generic_malloc_ignore_off_page, GC_malloc_kind, extra_bytes};
use crate::debug_check;
use crate::debug_header::{DebugObject, HEADER, Health, TRAILER};
use crate::finalize::{
    GC_register_finalizer, GC_register_finalizer_ignore_self, GC_register_finalizer_no_order,
    GC_register_finalizer_unreachable,
};
use crate::message::{die, out_of_memory, say};
use crate::release::{GC_free, GC_realloc};
use crate::settings::register_displacement;
use crate::start::with_heap;
use crate::state::{is_ready, table};
use crate::variables::{GC_find_leak, TwoPointersFn};

pub use crate::debug_header::Origin;

/// Allocates a debug object of a kind; returns the client's part.
pub fn allocate(
    function: &str,
    bytes: usize,
    kind: usize,
    off_page: bool,
    origin: Origin,
) -> *mut c_void {
    debug_check::begin();
    let Some(total) = bytes.checked_add(HEADER + TRAILER) else {
        return out_of_memory(bytes);
    };
    let wanted = total - extra_bytes();
    let object = if off_page {
        GC_generic_malloc_ignore_off_page(wanted, kind as c_int)
    } else {
        GC_malloc_kind(wanted, kind as c_int)
    };
    if object.is_null() {
        say(format_args!("{function}({bytes}) returns NULL ({origin})"));
        return null_mut();
    }
    match resolve(object).and_then(debug_object) {
        Some(object) => {
            object.write(bytes, origin);
            object.body().ptr()
        }
        // From the client's out-of-memory function, which knows nothing of headers.
        None => object,
    }
}

fn resolve(object: *const c_void) -> Option<Resolved> {
    if is_ready() {
        table().resolve_checked(object as usize)
    } else {
        None
    }
}

/// The debug object at the base of a resolved one.
fn debug_object(found: Resolved) -> Option<DebugObject> {
    // SAFETY: a resolved object's block.
    DebugObject::new(found.base, unsafe { (*found.block).bytes })
}

fn kind_of(found: &Resolved) -> usize {
    // SAFETY: a resolved object's block.
    usize::from(unsafe { (*found.block).kind })
}

macro_rules! allocators {
    ($( $name:ident, $kind:expr, $off_page:expr; )+) => {
        $(
            /// As in gc.h.
            ///
            /// # Safety
            /// `file` must be null or a string that is never freed.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(bytes: usize, file: *const c_char, line: c_int) -> *mut c_void {
                allocate(stringify!($name), bytes, $kind, $off_page, Origin { file, line })
            }
        )+
    };
}

allocators! {
    GC_debug_malloc, NORMAL, false;
    GC_debug_malloc_atomic, PTRFREE, false;
    GC_debug_malloc_uncollectable, UNCOLLECTABLE, false;
    GC_debug_malloc_atomic_uncollectable, ATOMIC_UNCOLLECTABLE, false;
    GC_debug_malloc_stubborn, NORMAL, false;
    GC_debug_malloc_ignore_off_page, NORMAL, true;
    GC_debug_malloc_atomic_ignore_off_page, PTRFREE, true;
}

/// As in gc_mark.h.
///
/// # Safety
/// `file` must be null or a string that is never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_generic_or_special_malloc(
    bytes: usize,
    kind: c_int,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    allocate(
        "GC_debug_generic_or_special_malloc",
        bytes,
        kind as usize,
        false,
        Origin { file, line },
    )
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_debug_malloc_replacement(bytes: usize) -> *mut c_void {
    allocate(
        "GC_debug_malloc_replacement",
        bytes,
        NORMAL,
        false,
        Origin::UNKNOWN,
    )
}

/// As in gc.h.
///
/// # Safety
/// `object` must be null or an object of the heap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_realloc_replacement(
    object: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    // SAFETY: `object` is null or an object of the heap, as asked.
    unsafe {
        reallocate(
            "GC_debug_realloc_replacement",
            object,
            bytes,
            Origin::UNKNOWN,
        )
    }
}

/// A copy of `length` elements of `text`, with a zero element behind them.
///
/// # Safety
/// `text` must have `length` readable elements.
unsafe fn duplicate<T: Default>(
    function: &str,
    text: *const T,
    length: usize,
    origin: Origin,
) -> *mut T {
    let bytes = (length + 1) * size_of::<T>();
    let copy = allocate(function, bytes, PTRFREE, false, origin).cast::<T>();
    if !copy.is_null() {
        // SAFETY: the copy has room for `length` elements, which `text` has, as asked, and one more.
        unsafe {
            copy.copy_from_nonoverlapping(text, length);
            copy.add(length).write(T::default());
        }
    }
    copy
}

/// As in gc.h.
///
/// # Safety
/// `text` must be a string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_strdup(
    text: *const c_char,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    if text.is_null() {
        return null_mut();
    }
    // SAFETY: `text` is a string, as asked.
    unsafe {
        duplicate(
            "GC_debug_strdup",
            text,
            CStr::from_ptr(text).count_bytes(),
            Origin { file, line },
        )
    }
}

/// As in gc.h.
///
/// # Safety
/// `text` must be readable up to its end or `most` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_strndup(
    text: *const c_char,
    most: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    // SAFETY: `text` is readable up to its end or `most` bytes, as asked.
    unsafe {
        let length = (0..most).take_while(|at| *text.add(*at) != 0).count();
        duplicate("GC_debug_strndup", text, length, Origin { file, line })
    }
}

/// As in gc.h.
///
/// # Safety
/// `text` must be a wide string.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_wcsdup(
    text: *const i32,
    file: *const c_char,
    line: c_int,
) -> *mut i32 {
    // SAFETY: `text` is a wide string, as asked.
    unsafe {
        let length = (0usize..).take_while(|at| *text.add(*at) != 0).count();
        duplicate("GC_debug_wcsdup", text, length, Origin { file, line })
    }
}

/// As in gc.h.
///
/// # Safety
/// `object` must be null or an object that is used no more.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_free(object: *mut c_void) {
    if object.is_null() {
        return;
    }
    let Some(found) = resolve(object) else {
        die(format_args!(
            "GC_debug_free({object:p}): this address is not an object of the heap"
        ));
    };
    let Some(known) = checked("GC_debug_free", object, &found) else {
        if found.displacement == 0 {
            // SAFETY: the object is used no more, as asked.
            unsafe { GC_free(object) };
        }
        return;
    };
    if known.health() == Health::GivenUp {
        return;
    }
    let kind = kind_of(&found);
    if GC_find_leak.get() != 0 || kind == UNCOLLECTABLE || kind == ATOMIC_UNCOLLECTABLE {
        // SAFETY: the object is used no more, as asked.
        unsafe { GC_free(found.base.ptr()) };
    } else {
        known.give_up();
    }
}

/// The debug object whose client's part is `object`; says what is wrong with it. Nothing if there is none.
fn checked(function: &str, object: *mut c_void, found: &Resolved) -> Option<DebugObject> {
    let plain = || {
        say(format_args!(
            "{function}({object:p}): this object has no debugging information"
        ))
    };
    let Some(known) = debug_object(*found).filter(|_| found.displacement == HEADER) else {
        plain();
        return None;
    };
    let description = known.describe(kind_of(found));
    match known.health() {
        Health::Sound => {}
        Health::Plain => {
            plain();
            return None;
        }
        Health::GivenUp => say(format_args!(
            "{function}: object {description} was freed before (already deallocated)"
        )),
        Health::WrittenAfterFree(place) => {
            say(format_args!(
                "{function}: object {description} was freed before, and written at {place:?} since"
            ));
        }
        Health::Smashed(place) => say(format_args!(
            "{function}: smashed at {place:?}, in or near object {description}"
        )),
    }
    Some(known)
}

/// As in gc.h.
///
/// # Safety
/// `object` must be null or an object of the heap.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_realloc(
    object: *mut c_void,
    bytes: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    // SAFETY: `object` is null or an object of the heap, as asked.
    unsafe { reallocate("GC_debug_realloc", object, bytes, Origin { file, line }) }
}

/// # Safety
/// `object` must be null or an object of the heap.
unsafe fn reallocate(
    function: &str,
    object: *mut c_void,
    bytes: usize,
    origin: Origin,
) -> *mut c_void {
    if object.is_null() {
        return allocate(function, bytes, NORMAL, false, origin);
    }
    if bytes == 0 {
        // SAFETY: reallocating to 0 bytes gives the object up.
        unsafe { GC_debug_free(object) };
        return null_mut();
    }
    let Some(found) = resolve(object) else {
        die(format_args!(
            "{function}({object:p}): this address is not an object of the heap"
        ));
    };
    let Some(known) = checked(function, object, &found) else {
        // SAFETY: an object without header; an address inside of one is refused there.
        return unsafe { GC_realloc(object, bytes) };
    };
    let copy = allocate(function, bytes, kind_of(&found), false, origin);
    if !copy.is_null() {
        // SAFETY: both have that many bytes; the old one is given up.
        unsafe {
            copy.cast::<u8>()
                .copy_from_nonoverlapping(object.cast(), bytes.min(known.size()));
            GC_debug_free(object);
        }
    }
    copy
}

/// As in gc.h: registers the displacement also behind a header.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_debug_register_displacement(offset: usize) {
    with_heap(|heap| {
        register_displacement(Some(heap), offset);
        register_displacement(Some(heap), offset.saturating_add(HEADER));
    });
}

/// A finalizer of a debug object, which is registered for the base.
#[repr(C)]
struct Closure {
    function: TwoPointersFn,
    data: *mut c_void,
}

/// Calls a closure with the client's part of an object.
unsafe extern "C-unwind" fn call_closure(base: *mut c_void, closure: *mut c_void) {
    // SAFETY: registered together with this function.
    let Closure { function, data } = unsafe { closure.cast::<Closure>().read() };
    // SAFETY: the client's finalizer, called as its contract says; this frame holds no guard.
    unsafe { function(base.wrapping_byte_add(HEADER), data) };
}

type Register = unsafe extern "C-unwind" fn(
    *mut c_void,
    Option<TwoPointersFn>,
    *mut c_void,
    *mut Option<TwoPointersFn>,
    *mut *mut c_void,
);

/// # Safety
/// The pointers to old values must be writable or null.
unsafe fn register(
    register: Register,
    name: &str,
    object: *mut c_void,
    function: Option<TwoPointersFn>,
    data: *mut c_void,
    old_function: *mut Option<TwoPointersFn>,
    old_data: *mut *mut c_void,
) {
    let found = resolve(object);
    if let Some(found) = &found
        && found.displacement != HEADER
    {
        say(format_args!(
            "{name}({object:p}): this is not the address that a debug allocation returned"
        ));
    }
    let (mut before, mut before_data) = (Some(UNSET), null_mut());
    let base = found.map_or(object, |found| found.base.ptr());
    let (inner, inner_data) = match function {
        Some(function) if found.is_some() => {
            let closure = GC_malloc_kind(size_of::<Closure>(), NORMAL as c_int).cast::<Closure>();
            if closure.is_null() {
                return;
            }
            // SAFETY: fresh and large enough.
            unsafe { closure.write(Closure { function, data }) };
            (Some(call_closure as TwoPointersFn), closure.cast())
        }
        _ => (None, null_mut()),
    };
    // SAFETY: the places are locals.
    unsafe {
        register(
            base,
            inner,
            inner_data,
            &raw mut before,
            &raw mut before_data,
        )
    };
    if is(before, UNSET) {
        return; // Nothing was registered, so nothing is reported.
    }
    if is(before, call_closure) {
        // SAFETY: registered with this closure.
        let old = unsafe { before_data.cast::<Closure>().read() };
        (before, before_data) = (Some(old.function), old.data);
    }
    // SAFETY: `old_function` and `old_data` are writable or null, as asked.
    unsafe {
        if !old_function.is_null() {
            old_function.write(before);
        }
        if !old_data.is_null() {
            old_data.write(before_data);
        }
    }
}

/// Stands for "no answer".
const UNSET: TwoPointersFn = unset;
unsafe extern "C-unwind" fn unset(_object: *mut c_void, _data: *mut c_void) {
    die(format_args!("a placeholder was called as a finalizer"));
}

fn is(function: Option<TwoPointersFn>, other: TwoPointersFn) -> bool {
    function.is_some_and(|function| core::ptr::fn_addr_eq(function, other))
}

macro_rules! registrations {
    ($( $name:ident, $register:expr; )+) => {
        $(
            /// As in gc.h.
            ///
            /// # Safety
            /// `old_function` and `old_data` must be writable or null.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(
                object: *mut c_void,
                function: Option<TwoPointersFn>,
                data: *mut c_void,
                old_function: *mut Option<TwoPointersFn>,
                old_data: *mut *mut c_void,
            ) {
                // SAFETY: `old_function` and `old_data` are writable or null, as asked.
                unsafe { register($register, stringify!($name), object, function, data, old_function, old_data) };
            }
        )+
    };
}

registrations! {
    GC_debug_register_finalizer, GC_register_finalizer;
    GC_debug_register_finalizer_ignore_self, GC_register_finalizer_ignore_self;
    GC_debug_register_finalizer_no_order, GC_register_finalizer_no_order;
    GC_debug_register_finalizer_unreachable, GC_register_finalizer_unreachable;
}

/// As in gc.h: nothing depends on it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_debug_change_stubborn(_object: *const c_void) {}

/// As in gc.h: there are no dirty bits to set, but the address is checked.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_debug_end_stubborn_change(object: *const c_void) {
    if resolve(object).is_none() {
        die(format_args!(
            "GC_debug_end_stubborn_change({object:p}): this address is not in an object of the heap"
        ));
    }
}

/// As in gc.h: stores a pointer after checking place and value.
///
/// # Safety
/// `place` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_ptr_store_and_dirty(
    place: *mut c_void,
    value: *const c_void,
) {
    let place = Address::of(crate::pointer_checks::GC_is_visible(place));
    let value = crate::pointer_checks::GC_is_valid_displacement(value.cast_mut());
    // SAFETY: `place` is writable, as asked.
    unsafe { place.store(value as usize) };
    GC_debug_end_stubborn_change(place.ptr());
}
