//! `gc_gcj.h`: objects whose first word leads to a type that holds their mark descriptor in its second word.
//!
//! The type word is stored after the cell was allocated, without a lock. Until then it reads as 0, which the scanner
//! takes for "no descriptor": true of a fresh object, which is found through the registers of its thread. The first
//! word of a free cell leads to another free cell, whose second word is 0, poison or the cookie of an explicit free,
//! all known to the scanner. So the collector never follows half a description.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::transmute;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::kinds::{Kind, descriptor};
use gleaner_spaces::mark_sweep::scan::{MAX_PROCS, MarkProc};

use crate::allocate::{GC_generic_malloc_ignore_off_page, GC_malloc_kind};
use crate::debug::{self, Origin};
use crate::gc_mark::add_kind;
use crate::message::die;
use crate::start::with_heap;
use crate::state::{table, variable};
use crate::variables::{GC_gcj_debug_kind, GC_gcj_kind};

/// Where the descriptor stands in a type.
const DESCRIPTOR_OFFSET: usize = size_of::<usize>();
/// The environment with which the client's procedure is called for debug objects.
const DEBUG_ENVIRONMENT: usize = 1;

fn kind_of(descriptor: usize, add_size: bool) -> Kind {
    Kind {
        descriptor,
        add_size,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: false,
    }
}

/// As in gc_mark.h of the development branch. `offset` is where a type has its descriptor, in bytes; there is one place for that.
///
/// # Safety
/// As for [`GC_init_gcj_malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_init_gcj_malloc_mp(
    index: c_uint,
    procedure: *mut c_void,
    offset: usize,
) {
    if offset != DESCRIPTOR_OFFSET {
        die(format_args!(
            "GC_init_gcj_malloc_mp: a descriptor stands {DESCRIPTOR_OFFSET} bytes behind the start of its type, and not {offset}"
        ));
    }
    // SAFETY: `procedure` is null or a mark procedure, as asked.
    unsafe { GC_init_gcj_malloc(c_int::try_from(index).unwrap_or(-1), procedure) }
}

/// As in gc_gcj.h. Further calls do nothing.
///
/// # Safety
/// `procedure` must be null or a mark procedure.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_init_gcj_malloc(index: c_int, procedure: *mut c_void) {
    // SAFETY: `procedure` is null, which is `None`, or a mark procedure, as asked.
    let procedure = unsafe { transmute::<*mut c_void, Option<MarkProc>>(procedure) };
    let Some(index) = usize::try_from(index)
        .ok()
        .filter(|index| *index < MAX_PROCS)
    else {
        die(format_args!(
            "GC_init_gcj_malloc: {index} is no index of a mark procedure (0 to {})",
            MAX_PROCS - 1
        ));
    };
    let conservative = variable(c"GC_IGNORE_GCJ_INFO").is_some();
    with_heap(|heap| {
        if GC_gcj_kind.get() != 0 {
            return;
        }
        heap.context.procs[index] = procedure;
        let (plain, debug) = if conservative {
            (
                kind_of(descriptor::LENGTH, true),
                kind_of(descriptor::LENGTH, true),
            )
        } else {
            let through_type = 0usize.wrapping_sub(DESCRIPTOR_OFFSET + descriptor::INDIRECT_BIAS);
            let called =
                (DEBUG_ENVIRONMENT << descriptor::LOG_MAX_PROCS | index) << 2 | descriptor::PROC;
            (
                kind_of(through_type | descriptor::PER_OBJECT, false),
                kind_of(called, false),
            )
        };
        GC_gcj_kind.set(add_kind(heap, plain) as c_int);
        GC_gcj_debug_kind.set(add_kind(heap, debug) as c_int);
    });
}

fn initialised(kind: c_int) -> c_int {
    if kind == 0 {
        die(format_args!(
            "a gcj object was asked for before GC_init_gcj_malloc was called"
        ));
    }
    kind
}

/// Stores the type in a fresh object; what an out-of-memory function returned is left alone.
fn with_type(object: *mut c_void, kind: *mut c_void) -> *mut c_void {
    if !object.is_null() && table().contains(object as usize) {
        // SAFETY: the first word of a fresh object.
        unsafe { Address::of(object).store(kind as usize) };
    }
    object
}

/// As in gc_gcj.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_gcj_malloc(bytes: usize, kind: *mut c_void) -> *mut c_void {
    with_type(GC_malloc_kind(bytes, initialised(GC_gcj_kind.get())), kind)
}

/// As in gc_gcj.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_gcj_malloc_ignore_off_page(
    bytes: usize,
    kind: *mut c_void,
) -> *mut c_void {
    with_type(
        GC_generic_malloc_ignore_off_page(bytes, initialised(GC_gcj_kind.get())),
        kind,
    )
}

/// As in gc_gcj.h: the client's mark procedure is called for it, with environment 1.
///
/// # Safety
/// `file` must be null or a string that is never freed.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_debug_gcj_malloc(
    bytes: usize,
    kind: *mut c_void,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let number = initialised(GC_gcj_debug_kind.get()) as usize;
    with_type(
        debug::allocate(
            "GC_debug_gcj_malloc",
            bytes,
            number,
            false,
            Origin { file, line },
        ),
        kind,
    )
}
