//! What the environment says at the start: libgc's variables (docs/environment.md) and `GLEANER_OPTIONS`.
//!
//! They are read once, while the heap starts. What is malformed changes nothing and is warned about as soon as the
//! client's warning procedure may be called, which may allocate. A variable that is set but empty counts as not set,
//! except for switches: those are on whenever they are set, whatever their value, as in libgc.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::Ordering;

use gleaner_base::options::{MarkGenerations, Options};
use gleaner_os::output;

use crate::message::{STREAMS, WAITS_FOR_DEBUGGER, say, warn};
use crate::settings::{CLIENT, take_client_settings};
use crate::state::variable;
use crate::variables::{
    GC_all_interior_pointers, GC_dont_gc, GC_find_leak, GC_full_freq, GC_max_retries,
    GC_time_limit, GC_use_entire_heap,
};

/// The least heap limit, as for the option `heap-limit`.
const LEAST_LIMIT: usize = 1 << 20;
/// More than any machine has: a typing mistake.
const MOST_BYTES: usize = 1 << 46;
/// The most markers that one process may have when processors are counted.
const MOST_BY_PROCESSORS: usize = 16;

/// A complaint that waits until warnings may be given.
#[derive(Clone, Copy)]
struct Complaint {
    name: &'static CStr,
    value: &'static CStr,
    /// What is wrong; no percent signs.
    reason: &'static str,
}

struct Complaints(UnsafeCell<([Option<Complaint>; Complaints::MOST], usize)>);
// SAFETY: used by the one thread that starts the heap.
unsafe impl Sync for Complaints {}

impl Complaints {
    const MOST: usize = 24;
}

static COMPLAINTS: Complaints = Complaints(UnsafeCell::new(([None; Complaints::MOST], 0)));

fn complain(name: &'static CStr, value: &'static CStr, reason: &'static str) {
    // SAFETY: only the thread that starts the heap comes here.
    let (list, count) = unsafe { &mut *COMPLAINTS.0.get() };
    if let Some(place) = list.get_mut(*count) {
        *place = Some(Complaint {
            name,
            value,
            reason,
        });
        *count += 1;
    }
}

/// Gives the warnings that reading caused. The heap is usable, the allocator lock is free.
pub fn warn_of_malformed() {
    for at in 0..Complaints::MOST {
        // SAFETY: only the thread that starts the heap comes here. The entry is copied, since the client's procedure
        // may do anything.
        let Some(complaint) = (unsafe { (*COMPLAINTS.0.get()).0[at] }) else {
            return;
        };
        let name = complaint.name.to_str().unwrap_or("?");
        warn(
            format_args!("{name}=%s: {}", complaint.reason),
            complaint.value.as_ptr() as usize,
        );
    }
}

/// The value of a variable that is set and not empty.
fn value(name: &'static CStr) -> Option<&'static CStr> {
    variable(name).filter(|value| !value.is_empty())
}

/// Whether a switch is set, whatever to.
pub fn is_set(name: &CStr) -> bool {
    variable(name).is_some()
}

/// Whether a switch is on that `0` turns off; `before` if it is not set.
fn is_on(name: &CStr, before: bool) -> bool {
    variable(name).map_or(before, |value| value != c"0")
}

fn digits(text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0usize, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(usize::from(digit))
    })
}

/// A decimal number from `least` to `most`; complains of anything else with `reason`.
fn number(name: &'static CStr, least: usize, most: usize, reason: &'static str) -> Option<usize> {
    let text = value(name)?;
    let number = digits(text.to_bytes()).filter(|number| (least..=most).contains(number));
    if number.is_none() {
        complain(name, text, reason);
    }
    number
}

/// A number of bytes with one of the suffixes k, m and g.
fn parse_size(text: &[u8]) -> Option<usize> {
    let (last, rest) = text.split_last()?;
    let shift = match last.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => return digits(text),
    };
    digits(rest)?.checked_mul(1 << shift)
}

fn size(name: &'static CStr, least: usize, reason: &'static str) -> Option<usize> {
    let text = value(name)?;
    let size = parse_size(text.to_bytes()).filter(|size| (least..=MOST_BYTES).contains(size));
    if size.is_none() {
        complain(name, text, reason);
    }
    size
}

/// Puts together the options of the heap, from the weakest word to the strongest.
pub fn read_options(options: &mut Options) {
    let mut stronger = Options::DEFAULT;
    parse_own(&mut stronger);
    take_client_settings(options);
    read(options, &stronger);
    if is_set(c"GC_ENABLE_INCREMENTAL") {
        options.mark_generations = MarkGenerations::Incremental;
    }
    parse_own(options);
}

/// Reads `GLEANER_OPTIONS`.
fn parse_own(options: &mut Options) {
    let Some(list) = variable(c"GLEANER_OPTIONS") else {
        return;
    };
    let result = list.to_str().map(|list| options.parse_list(list));
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => refuse(format_args!("in GLEANER_OPTIONS: {error}")),
        Err(_) => refuse(format_args!("GLEANER_OPTIONS is not UTF-8")),
    }
}

fn refuse(what: core::fmt::Arguments<'_>) -> ! {
    say(what);
    std::process::exit(2)
}

/// Puts what the variables say into the options, the exported variables and the settings. `stronger` are the options
/// of `GLEANER_OPTIONS` alone, which win.
fn read(options: &mut Options, stronger: &Options) {
    read_heap_sizes(options, stronger);
    read_numbers(options);
    read_switches();
    read_outputs();
}

fn read_heap_sizes(options: &mut Options, stronger: &Options) {
    const SIZE: &str = "not a number of bytes such as 65536, 64k, 256m or 1g; ignored";
    if let Some(bytes) = size(
        c"GC_MAXIMUM_HEAP_SIZE",
        LEAST_LIMIT,
        "not a number of bytes such as 65536k, 256m or 1g, at least 1m; ignored",
    ) {
        options.heap_limit = bytes;
        if GC_max_retries.get() == 0 {
            GC_max_retries.set(2); // As libgc does, and clients can see.
        }
    }
    let Some(bytes) = size(c"GC_INITIAL_HEAP_SIZE", 1, SIZE) else {
        return;
    };
    let limit = if stronger.heap_limit != 0 {
        stronger.heap_limit
    } else {
        options.heap_limit
    };
    if limit != 0 && bytes > limit {
        complain(
            c"GC_INITIAL_HEAP_SIZE",
            value(c"GC_INITIAL_HEAP_SIZE").unwrap_or_default(),
            "more than the heap's limit; ignored",
        );
        return;
    }
    options.initial_heap = bytes;
}

fn read_numbers(options: &mut Options) {
    if let Some(divisor) = number(
        c"GC_FREE_SPACE_DIVISOR",
        1,
        1000,
        "not a number from 1 to 1000; ignored",
    ) {
        options.free_space_divisor = divisor as u32;
    }
    let processors = number(
        c"GC_NPROCS",
        1,
        4096,
        "not a number of processors from 1 to 4096; ignored",
    );
    if let Some(markers) = number(
        c"GC_MARKERS",
        1,
        64,
        "not a number from 1 to 64; the default is used",
    ) {
        options.markers = markers as u32;
    } else if let (Some(processors), 0) = (processors, options.markers) {
        options.markers = processors.min(MOST_BY_PROCESSORS) as u32;
    }
    if let Some(collections) = number(
        c"GC_UNMAP_THRESHOLD",
        0,
        255,
        "not a number from 0 (never) to 255; ignored",
    ) {
        options.release_after = collections as u32;
    }
    if let Some(often) = number(
        c"GC_FULL_FREQUENCY",
        1,
        1 << 30,
        "not a number from 1 to 1073741824; ignored",
    ) {
        GC_full_freq.set(often as i32);
    }
    if let Some(limit) = number(
        c"GC_PAUSE_TIME_TARGET",
        1,
        1 << 30,
        "not a number of milliseconds from 1 to 1073741824; ignored",
    ) {
        GC_time_limit.set(limit as u64);
        CLIENT.time_limit_chosen.set(1);
    }
    number(
        c"GC_LARGE_ALLOC_WARN_INTERVAL",
        1,
        usize::MAX,
        "not a number from 1; ignored",
    );
}

fn read_switches() {
    if is_set(c"GC_DONT_GC") {
        GC_dont_gc.set(1);
    }
    if is_set(c"GC_ALL_INTERIOR_POINTERS") {
        GC_all_interior_pointers.set(1);
    }
    if is_set(c"GC_FIND_LEAK") {
        GC_find_leak.set(1);
    }
    if is_on(c"GC_USE_ENTIRE_HEAP", false) {
        GC_use_entire_heap.set(1);
    }
    let unmap = is_on(
        c"GC_FORCE_UNMAP_ON_GCOLLECT",
        CLIENT.unmap_on_gcollect.get() != 0,
    );
    CLIENT.unmap_on_gcollect.set(i32::from(unmap));
    CLIENT
        .aborts_on_leak
        .set(i32::from(is_set(c"GC_ABORT_ON_LEAK")));
    CLIENT
        .dumps_regularly
        .set(i32::from(is_set(c"GC_DUMP_REGULARLY")));
    CLIENT
        .prints_address_map
        .set(i32::from(is_set(c"GC_PRINT_ADDRESS_MAP")));
    WAITS_FOR_DEBUGGER.store(is_set(c"GC_LOOP_ON_ABORT"), Ordering::Relaxed);
    if let Some(text) = variable(c"GC_TRACE") {
        complain(c"GC_TRACE", text, "objects are not traced back; ignored");
    }
}

fn read_outputs() {
    let verbosity = match () {
        () if is_set(c"GC_PRINT_VERBOSE_STATS") => 2,
        () if is_set(c"GC_PRINT_STATS") => 1,
        () => 0,
    };
    CLIENT.prints_stats.set(verbosity);
    let Some(path) = value(c"GC_LOG_FILE") else {
        return;
    };
    let Some(file) = output::open_append(path) else {
        complain(
            c"GC_LOG_FILE",
            path,
            "cannot be opened for writing; messages stay on standard error",
        );
        return;
    };
    STREAMS.log.store(file.0, Ordering::Relaxed);
    if !is_on(c"GC_ONLY_LOG_TO_FILE", false) {
        STREAMS.output.store(file.0, Ordering::Relaxed);
        STREAMS.error.store(file.0, Ordering::Relaxed);
    }
}
