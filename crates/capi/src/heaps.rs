//! Heaps and types.

use std::ffi::{CStr, c_char};
use std::ptr;

use gleaner::raw::{
    Arrays, FastPaths, Record, RootVisitor, Shape, Size, SizeFunction, Slots, Trace, TraceFunction,
    TypeId, VERSION, Visitor,
};
use gleaner::{BuildError, Builder, Heap, OutsideLayout, References};

use crate::cells::{Kept, Name};
use crate::checks::{heap_is_freed, heap_of};
use crate::factory::ThreadFactory;
use crate::panics::install_hook;
use crate::say;
use crate::threads;

/// All heaps that were ever made.
static HEAPS: Kept<Heap> = Kept::new();

/// `struct gleaner_options`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Options {
    limit: usize,
    young: usize,
    workers: u32,
    tlab: u32,
    stress: u32,
    compressed: bool,
    verify: bool,
    poison: bool,
    ignore_environment: bool,
    /// Of `enum gleaner_outside_layout`.
    outside_layout: u32,
    list: *const c_char,
    threads: *const ThreadFactory,
}

#[unsafe(no_mangle)]
pub extern "C" fn gleaner_interface() -> u32 {
    VERSION
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_get_fast_paths(heap: Name<Heap>, into: *mut u8, bytes: usize) {
    // SAFETY: a heap of the caller's.
    let fast = unsafe { heap_of(heap) }.fast_paths();
    let known = bytes.min(size_of::<FastPaths>());
    // SAFETY: `into` is a record of `bytes` bytes, as gleaner.h asks, newer or older than ours.
    unsafe {
        into.write_bytes(0, bytes);
        into.copy_from_nonoverlapping((&raw const fast).cast(), known);
    }
}

type RootFunction = unsafe extern "C" fn(*mut (), *const Record, *mut Visitor);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_set_root_visitor(
    heap: Name<Heap>,
    function: Option<RootFunction>,
    data: *mut (),
) {
    let visitor = function.map(|function| RootVisitor { function, data });
    // SAFETY: a heap of the caller's; the header says what the function promises.
    unsafe { heap_of(heap).set_root_visitor(visitor) };
}

/// The setup that the options ask for. The list comes last, so it weighs more than the fields.
///
/// # Safety
/// The list is null or a string.
unsafe fn builder(options: &Options) -> Result<Builder, BuildError> {
    let mut builder = Heap::builder()
        .limit(options.limit)
        .young(options.young)
        .workers(options.workers as usize)
        .stress(options.stress)
        .verify(options.verify)
        .poison(options.poison);
    if options.tlab > 0 {
        builder = builder.tlab(options.tlab as usize);
    }
    builder = builder.outside_layout(outside_layout(options.outside_layout)?);
    if options.ignore_environment {
        builder = builder.ignore_environment();
    }
    if options.compressed {
        builder = builder.references(References::Compressed);
    }
    // SAFETY: null, or a complete struct, as gleaner.h asks.
    if let Some(&factory) = unsafe { options.threads.as_ref() } {
        let checked = factory.check();
        checked.map_err(|why| BuildError::Option(why.into()))?;
        builder = builder.thread_factory(move |thread| factory.start(thread));
    }
    if options.list.is_null() {
        return Ok(builder);
    }
    // SAFETY: not null, so a string that ends with 0, as gleaner.h asks.
    let list = unsafe { CStr::from_ptr(options.list) };
    let list = list
        .to_str()
        .map_err(|_| BuildError::Option("the list of options is not UTF-8".into()))?;
    builder.options(list)
}

/// The values of `enum gleaner_outside_layout`: code that was compiled for one layout is the rule in C.
fn outside_layout(value: u32) -> Result<OutsideLayout, BuildError> {
    match value {
        0 => Ok(OutsideLayout::Refused),
        1 => Ok(OutsideLayout::LeftOut),
        2 => Ok(OutsideLayout::Followed),
        _ => Err(BuildError::Option(format!(
            "outside_layout is {value}, which is none of enum gleaner_outside_layout"
        ))),
    }
}

/// Why code that knows that the first `known` bytes of an array lie in one piece, as a macro of gleaner.h says, must not
/// use a heap.
pub fn differently_cut(heap: &Heap, known: usize) -> Option<String> {
    let FastPaths {
        first_n, arrays, ..
    } = heap.fast_paths();
    let (compiled, remedy) = match known {
        _ if known as u64 <= first_n => return None,
        usize::MAX => ("GLEANER_ARRAYS_WHOLE".into(), "arrays=contiguous".into()),
        _ => (
            format!("GLEANER_FIRST_N {known}"),
            // The option has powers of two; N may be larger than what the program knows of.
            format!("first-n={}", known.next_power_of_two().max(64)),
        ),
    };
    if arrays == Arrays::Guarded {
        return Some(format!(
            "under array-guard=on each access to an array in pieces is a call, and the program was compiled with {compiled}: \
             compile it without that macro, or set array-guard=off and {remedy}"
        ));
    }
    Some(format!(
        "options arrays and first-n cut the arrays of this heap behind {first_n} bytes, and the program was compiled \
         with {compiled}: set {remedy}, or compile it without that macro"
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_heap_new_knowing(
    first_n: usize,
    options: *const Options,
    message: *mut c_char,
    message_bytes: usize,
) -> Name<Heap> {
    // Before anything else: the Rust runtime ends the process where it finds no key.
    if !threads::have_key() {
        let why = "the C library has no key for thread-specific data left (PTHREAD_KEYS_MAX), \
                   by which the ends of threads are noticed";
        // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner.h asks.
        unsafe { say(why, message, message_bytes) };
        return Name::NULL;
    }
    install_hook();
    // SAFETY: null, or the caller's options.
    let options = unsafe { options.as_ref() };
    // SAFETY: the list is the caller's, too.
    let builder = options.map_or(
        Ok(Heap::builder().outside_layout(OutsideLayout::Refused)),
        |options| unsafe { builder(options) },
    );
    let made = builder.and_then(Builder::build);
    let made = made.map_err(|error| error.to_string());
    let made = made.and_then(|heap| match differently_cut(&heap, first_n) {
        None => Ok(heap),
        Some(why) => Err(why),
    });
    match made {
        Ok(heap) => HEAPS.put(heap),
        Err(why) => {
            // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner.h asks.
            unsafe { say(&why, message, message_bytes) };
            Name::NULL
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_heap_free(heap: Name<Heap>) -> bool {
    if heap.is_null() {
        return true;
    }
    // SAFETY: a heap of the caller's.
    if unsafe { heap_of(heap) }.other_holders() > 0 {
        return false;
    }
    // SAFETY: made by `gleaner_heap_new_knowing`, and the caller gives it up.
    let taken = unsafe { heap.take() };
    drop(taken.unwrap_or_else(|| heap_is_freed()));
    true
}

fn type_number(id: Result<TypeId, gleaner::TypeError>, message: *mut c_char, bytes: usize) -> u32 {
    match id {
        Ok(id) => id.get(),
        Err(error) => {
            // SAFETY: `message` is null or has `bytes` bytes, as gleaner.h asks of all that come here.
            unsafe { say(&error.to_string(), message, bytes) };
            0
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_structure(
    heap: Name<Heap>,
    bytes: usize,
    offsets: *const u32,
    count: usize,
    message: *mut c_char,
    message_bytes: usize,
) -> u32 {
    // SAFETY: null, or `count` offsets lie there, as gleaner.h asks.
    let Some(references) = (unsafe { list(offsets, count) }) else {
        return no_offsets(count, message, message_bytes);
    };
    let shape = Shape::Structure { bytes, references };
    // SAFETY: a heap of the caller's.
    let id = unsafe { heap_of(heap) }.register_raw(shape);
    type_number(id, message, message_bytes)
}

/// The offsets of slots; `None` if there are to be some and the pointer is null.
///
/// # Safety
/// Null, or `count` numbers lie there, as long as `'a` lasts.
unsafe fn list<'a>(offsets: *const u32, count: usize) -> Option<&'a [u32]> {
    match count {
        0 => Some(&[]),
        _ if offsets.is_null() => None,
        // SAFETY: not null, so as many numbers lie there, as the caller promises.
        _ => Some(unsafe { std::slice::from_raw_parts(offsets, count) }),
    }
}

fn no_offsets(count: usize, message: *mut c_char, bytes: usize) -> u32 {
    let why = format!("{count} slots, and their offsets are NULL");
    // SAFETY: `message` is null or has `bytes` bytes, as gleaner.h asks of all that come here.
    unsafe { say(&why, message, bytes) };
    0
}

/// What a pointer of the caller's leads to. If it is null, `message` says that the `name` is.
///
/// # Safety
/// Null, or a complete struct, which lies there as long as `'a` lasts; `message` is null or has `bytes` bytes.
unsafe fn given<'a, T>(
    given: *const T,
    name: &str,
    message: *mut c_char,
    bytes: usize,
) -> Option<&'a T> {
    // SAFETY: null, or a complete struct, as the caller promises.
    let given = unsafe { given.as_ref() };
    if given.is_none() {
        // SAFETY: as the caller promises.
        unsafe { say(&format!("the {name} is NULL"), message, bytes) };
    }
    given
}

/// `struct gleaner_tail`.
#[repr(C)]
pub struct Tail {
    head: usize,
    offsets: *const u32,
    count: usize,
    element: usize,
    element_offsets: *const u32,
    element_count: usize,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_tailed(
    heap: Name<Heap>,
    tail: *const Tail,
    message: *mut c_char,
    message_bytes: usize,
) -> u32 {
    // SAFETY: null, or a complete struct, as gleaner.h asks.
    let Some(tail) = (unsafe { given(tail, "struct gleaner_tail", message, message_bytes) }) else {
        return 0;
    };
    // SAFETY: null, or as many offsets as the struct says lie there, as gleaner.h asks.
    let Some(references) = (unsafe { list(tail.offsets, tail.count) }) else {
        return no_offsets(tail.count, message, message_bytes);
    };
    // SAFETY: null, or as many offsets as the struct says lie there, as gleaner.h asks.
    let Some(element_references) = (unsafe { list(tail.element_offsets, tail.element_count) })
    else {
        return no_offsets(tail.element_count, message, message_bytes);
    };
    let shape = Shape::Tailed {
        head: tail.head,
        references,
        element: tail.element,
        element_references,
    };
    // SAFETY: a heap of the caller's.
    let id = unsafe { heap_of(heap) }.register_raw(shape);
    type_number(id, message, message_bytes)
}

/// `struct gleaner_slots`.
#[repr(C)]
pub struct CSlots {
    references: *const u32,
    reference_count: usize,
    weak: *const u32,
    weak_count: usize,
    ephemerons: *const u32,
    ephemeron_count: usize,
}

impl CSlots {
    /// The lists; the error is how many slots one has whose pointer is null.
    ///
    /// # Safety
    /// Each pointer is null, or as many offsets as its count says lie there, as long as `'a` lasts.
    unsafe fn slots<'a>(&self) -> Result<Slots<'a>, usize> {
        // SAFETY: as the caller promises.
        let list = |offsets, count| unsafe { list(offsets, count) }.ok_or(count);
        Ok(Slots {
            references: list(self.references, self.reference_count)?,
            weak: list(self.weak, self.weak_count)?,
            ephemerons: list(self.ephemerons, self.ephemeron_count)?,
        })
    }
}

/// `struct gleaner_weak_layout`.
#[repr(C)]
pub struct WeakLayout {
    head: usize,
    slots: CSlots,
    element: usize,
    element_slots: CSlots,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_weak_type(
    heap: Name<Heap>,
    layout: *const WeakLayout,
    message: *mut c_char,
    message_bytes: usize,
) -> u32 {
    let name = "struct gleaner_weak_layout";
    // SAFETY: null, or a complete struct, as gleaner.h asks.
    let Some(layout) = (unsafe { given(layout, name, message, message_bytes) }) else {
        return 0;
    };
    // SAFETY: null, or as many offsets as the struct says lie there, as gleaner.h asks.
    let lists = unsafe { (layout.slots.slots(), layout.element_slots.slots()) };
    let (slots, element_slots) = match lists {
        (Ok(slots), Ok(element_slots)) => (slots, element_slots),
        (Err(count), _) | (_, Err(count)) => return no_offsets(count, message, message_bytes),
    };
    let shape = Shape::Weak {
        head: layout.head,
        slots,
        element: layout.element,
        element_slots,
    };
    // SAFETY: a heap of the caller's.
    let id = unsafe { heap_of(heap) }.register_raw(shape);
    type_number(id, message, message_bytes)
}

/// `struct gleaner_traced`.
#[repr(C)]
pub struct Traced {
    bytes: usize,
    element: usize,
    size: Option<SizeFunction>,
    trace: Option<TraceFunction>,
    data: *mut (),
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_traced_type(
    heap: Name<Heap>,
    traced: *const Traced,
    message: *mut c_char,
    message_bytes: usize,
) -> u32 {
    let name = "struct gleaner_traced";
    // SAFETY: null, or a complete struct, as gleaner.h asks.
    let Some(traced) = (unsafe { given(traced, name, message, message_bytes) }) else {
        return 0;
    };
    let size = match (traced.size, traced.element) {
        (Some(function), _) => Size::Function(function),
        (None, 0) => Size::Fixed(traced.bytes),
        (None, element) => Size::Tailed {
            head: traced.bytes,
            element,
        },
    };
    let Some(function) = traced.trace else {
        let missing =
            "a traced type without a trace function: use gleaner_structure or gleaner_tailed";
        // SAFETY: `message` is null or has `message_bytes` bytes, as gleaner.h asks.
        unsafe { say(missing, message, message_bytes) };
        return 0;
    };
    let trace = Trace {
        function,
        data: traced.data,
    };
    // SAFETY: a heap of the caller's.
    let id = unsafe { heap_of(heap) }.register_raw(Shape::Traced { size, trace });
    type_number(id, message, message_bytes)
}

/// A type of arrays, which always lie in one piece if `whole` says so; 0 when there is no room for another type.
///
/// # Safety
/// A heap of the caller's.
unsafe fn arrays(heap: Name<Heap>, shape: Shape<'_>, whole: bool) -> u32 {
    // SAFETY: a heap of the caller's, as the caller promises.
    let heap = unsafe { heap_of(heap) };
    let id = if whole {
        heap.register_whole_raw(shape)
    } else {
        heap.register_raw(shape)
    };
    type_number(id, ptr::null_mut(), 0)
}

/// The shape of arrays without references whose elements have `element_bytes` bytes.
fn primitives(element_bytes: usize) -> Option<Shape<'static>> {
    let log2 = element_bytes.trailing_zeros();
    element_bytes
        .is_power_of_two()
        .then_some(Shape::Primitives { log2 })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_references(heap: Name<Heap>) -> u32 {
    // SAFETY: a heap of the caller's.
    unsafe { arrays(heap, Shape::References, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_references_whole(heap: Name<Heap>) -> u32 {
    // SAFETY: a heap of the caller's.
    unsafe { arrays(heap, Shape::References, true) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_primitives(heap: Name<Heap>, element_bytes: usize) -> u32 {
    // SAFETY: a heap of the caller's.
    primitives(element_bytes).map_or(0, |shape| unsafe { arrays(heap, shape, false) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_primitives_whole(heap: Name<Heap>, element_bytes: usize) -> u32 {
    // SAFETY: a heap of the caller's.
    primitives(element_bytes).map_or(0, |shape| unsafe { arrays(heap, shape, true) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_used(heap: Name<Heap>) -> usize {
    // SAFETY: a heap of the caller's.
    unsafe { heap_of(heap) }.used()
}
