//! Handles, weak references, ephemerons, finalizers. What C has of each is a [`Name`], so one that was freed is noticed.

use gleaner::raw::{Address, Record, Value};
use gleaner::{Ephemeron, Finalizing, Handle, Heap, Weak};

use crate::cells::{Cells, Name};
use crate::checks::heap_of;
use crate::{mutator, pointer};

/// What C has a name of, and what messages call one.
trait Named: Send + Sync + Sized + 'static {
    const ONE: &'static str;

    fn cells() -> &'static Cells<Self>;
}

macro_rules! named {
    ($type:ty, $one:literal) => {
        impl Named for $type {
            const ONE: &'static str = $one;

            fn cells() -> &'static Cells<$type> {
                static CELLS: Cells<$type> = Cells::new();
                &CELLS
            }
        }
    };
}

named!(Handle, "a handle");
named!(Weak, "a weak reference");
named!(Ephemeron, "an ephemeron");

/// The caller is inside the gate, as every function is that makes one of these.
fn named<T: Named>(made: Option<T>) -> Name<T> {
    let put = |made| T::cells().put(made);
    made.and_then(put).unwrap_or(Name::NULL)
}

/// # Safety
/// Null, or a name that [`named`] made.
unsafe fn read<'a, T: Named>(name: Name<T>) -> &'a T {
    if name.is_null() {
        panic!(
            "{} is read that is NULL: the heap had no room for it when it was made",
            T::ONE
        );
    }
    // SAFETY: not null, so made by `named`, as the caller promises; to free it meanwhile is a mistake that no check finds.
    unsafe { name.get() }.unwrap_or_else(|| freed_already::<T>("read"))
}

/// # Safety
/// As for [`read`].
unsafe fn free<T: Named>(name: Name<T>) {
    if !name.is_null() {
        // SAFETY: not null, so made by `named`, as the caller promises.
        let taken = unsafe { T::cells().take(name) };
        drop(taken.unwrap_or_else(|| freed_already::<T>("freed")));
    }
}

#[cold]
fn freed_already<T: Named>(done: &str) -> ! {
    let one = T::ONE;
    panic!(
        "{one} is {done} that was freed already: free {one} once, and keep no copy of its pointer"
    );
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_new(record: *mut Record, value: u64) -> Name<Handle> {
    // SAFETY: the calling thread's mutator, and a valid value.
    named(unsafe { mutator(record, "a handle is made").handle_raw(Value::from_bits(value)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_get(handle: Name<Handle>) -> u64 {
    // SAFETY: a handle of the caller's.
    unsafe { read(handle) }.get_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_set(record: *mut Record, handle: Name<Handle>, value: u64) {
    // SAFETY: the calling thread's mutator, a handle of the caller's, and a valid value.
    unsafe {
        mutator(record, "a handle is set").set_handle_raw(read(handle), Value::from_bits(value))
    };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_handle_free(handle: Name<Handle>) {
    // SAFETY: a handle of the caller's, or null.
    unsafe { free(handle) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_new(record: *mut Record, object: *mut u8) -> Name<Weak> {
    // SAFETY: the calling thread's mutator, and a valid reference; the caller keeps no others.
    let made = unsafe { mutator(record, "a weak reference is made").weak_raw(Address::of(object)) };
    named(made.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_get(weak: Name<Weak>) -> u64 {
    // SAFETY: a weak reference of the caller's.
    unsafe { read(weak) }.get_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_free(weak: Name<Weak>) {
    // SAFETY: a weak reference of the caller's, or null.
    unsafe { free(weak) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_new(
    record: *mut Record,
    key: *mut u8,
    value: *mut u8,
) -> Name<Ephemeron> {
    let (key, value) = (Address::of(key), Address::of(value));
    // SAFETY: the calling thread's mutator, and valid references; the caller keeps no others.
    let made = unsafe { mutator(record, "an ephemeron is made").ephemeron_raw(key, value) };
    named(made.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_key(ephemeron: Name<Ephemeron>) -> u64 {
    // SAFETY: an ephemeron of the caller's.
    unsafe { read(ephemeron) }.key_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_value(ephemeron: Name<Ephemeron>) -> u64 {
    // SAFETY: an ephemeron of the caller's.
    unsafe { read(ephemeron) }.value_raw().bits()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ephemeron_free(ephemeron: Name<Ephemeron>) {
    // SAFETY: an ephemeron of the caller's, or null.
    unsafe { free(ephemeron) };
}

/// How a finalizer is handed out; ends the process if there is no such order.
fn finalizing(order: u32, revives: bool) -> Finalizing {
    let order = u8::try_from(order)
        .unwrap_or_else(|_| panic!("a finalizer of order {order}: orders are 0 to 7"));
    Finalizing { order, revives }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_finalize(
    record: *mut Record,
    object: *mut u8,
    value: u64,
    order: u32,
    revives: bool,
) -> bool {
    // SAFETY: the calling thread's mutator, a valid reference and a valid value.
    let made = unsafe {
        mutator(record, "a finalizer is made").finalize_raw(
            Address::of(object),
            Value::from_bits(value),
            finalizing(order, revives),
        )
    };
    made.is_ok()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_finalizer_new(
    record: *mut Record,
    object: *mut u8,
    value: u64,
    order: u32,
    revives: bool,
) -> *mut u8 {
    let finalizing = finalizing(order, revives);
    // SAFETY: the calling thread's mutator, a valid reference and a valid value; the caller keeps no others.
    let made = unsafe {
        mutator(record, "a finalizer is made").finalizer_raw(
            Address::of(object),
            Value::from_bits(value),
            finalizing,
        )
    };
    pointer(made.ok())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_take_back(record: *mut Record, finalizer: *mut u8) -> bool {
    // SAFETY: the calling thread's mutator, and a valid reference.
    let taken = unsafe {
        mutator(record, "a finalizer is taken back").take_back_raw(Address::of(finalizer))
    };
    taken
        .unwrap_or_else(|| panic!("gleaner_take_back: the object at {finalizer:?} is no finalizer"))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_next_finalizer(
    record: *mut Record,
    object: *mut u64,
    value: *mut u64,
) -> bool {
    assert!(
        !object.is_null() && !value.is_null(),
        "gleaner_next_finalizer: the place for the object or for the value is NULL"
    );
    // SAFETY: the calling thread's mutator.
    let Some(ready) = (unsafe { mutator(record, "a finalizer is taken") }).next_finalizer_raw()
    else {
        return false;
    };
    // SAFETY: both are the caller's, as gleaner.h asks.
    unsafe { (*object, *value) = (ready.0.bits(), ready.1.bits()) };
    true
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_ready_finalizers(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.ready_finalizers()
}
