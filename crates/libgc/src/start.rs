//! How the heap starts: on the first call that needs it, once, by the thread that makes that call.
//!
//! Other threads that come meanwhile wait. First comes everything that allocation needs, without malloc, which may be
//! routed to us; then the hooks of the C library. The callers of [`start`] go on with a proof that the heap has
//! started.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_base::options::{MarkGenerations, Options};
use gleaner_mem::arena::SLAB_BYTES;
use gleaner_os::headroom::Headroom;
use gleaner_os::log_file::LogFile;
use gleaner_os::pressure::Pressure;
use gleaner_os::topology::Topology;
use gleaner_os::{output, refusal, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::shared::log_ends;
use gleaner_spaces::mark_sweep::layout::{Layout, ReserveError};

use crate::message::{die, say, write_error};
use crate::state::{CREW, Started, Starting, WORLD, print_last_events, started};
use crate::variables::{
    GC_all_interior_pointers, GC_free_space_divisor, GC_greatest_plausible_heap_addr,
    GC_least_plausible_heap_addr,
};
use crate::{environment, idle, leaks, records, settings, wanted};

/// The thread that starts the heap.
static STARTER: AtomicI32 = AtomicI32::new(0);

/// Starts the heap unless it has started.
#[inline]
pub fn start() -> Started {
    match started() {
        Some(heap) => heap,
        None => start_slowly(),
    }
}

/// Runs `body` on the heap under the lock, starting the heap if need be. `body` calls no client code.
pub fn with_heap<R>(body: impl FnOnce(&mut Heap) -> R) -> R {
    let mut heap = start().lock();
    let result = body(&mut heap);
    heap.unlock();
    result
}

/// As [`with_heap`], for what lets a turn of the helper's go on: see [`Started::lock_beside_turn`].
pub fn with_heap_beside_turn<R>(body: impl FnOnce(&mut Heap) -> R) -> R {
    let mut heap = start().lock_beside_turn();
    let result = body(&mut heap);
    heap.unlock();
    result
}

#[cold]
fn start_slowly() -> Started {
    let own = threads::current_tid().0;
    if let Some(starting) = Starting::claim() {
        STARTER.store(own, Ordering::Relaxed);
        start_heap(starting);
        start_services();
    }
    loop {
        if let Some(heap) = started() {
            return heap;
        }
        if STARTER.load(Ordering::Relaxed) == own {
            die(format_args!("the heap was used while it started"));
        }
        threads::yield_now();
    }
}

/// Everything that allocation needs. Nothing here may call malloc, which may be routed to us.
fn start_heap(starting: Starting) {
    // Without the first memory of our own no refusal of more could be handled.
    if Vec::<usize>::new().try_reserve(1).is_err() {
        die(format_args!(
            "cannot start: {}",
            refusal::reason(SLAB_BYTES, SLAB_BYTES).text()
        ));
    }
    install_panic_hook();
    let mut options = Options::DEFAULT;
    environment::read_options(&mut options);
    options.fault.arm();
    match Layout::reserve(options.reserve, settings::pages_executable()) {
        Ok(layout) => start_heap_over(starting, layout, &options),
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
fn start_heap_over(starting: Starting, layout: Layout, options: &Options) {
    let heap = match Heap::over(layout, options, Topology::host(), &CREW, &WORLD) {
        Ok(heap) => heap,
        Err(error) => die_of_reserving(error),
    };
    let mut heap = starting.install(heap);
    heap.heed(Headroom::find());
    let table = heap.context.table;
    // A word below the heap: the variable may lie in the program's data, and must refer to no object itself.
    GC_least_plausible_heap_addr.set(table.heap.sub(8).ptr());
    GC_greatest_plausible_heap_addr.set(table.heap.add(table.span).ptr());
    heap.context.all_interior = GC_all_interior_pointers.get() != 0;
    heap.space.timed = options.stats || options.log.as_str().is_some();
    if heap.space.timed {
        wanted::prepare_advice();
    }
    open_log(&mut heap, options);
    if let Some(unavailable) = heap.unwatched {
        say(format_args!(
            "generations={} is not possible here, so that everything is collected each time: {unavailable}",
            options.mark_generations.as_str()
        ));
    }
    if options.mark_generations == MarkGenerations::Incremental {
        settings::choose_time_limit();
    }
    GC_free_space_divisor.set(heap.settings.divisor);
    if options.stats {
        wanted::want_summary();
    }
    idle::state::prepare(options);
    if idle::state::after_ns().is_some() {
        heap.heed_pressure(Pressure::find());
    }
    leaks::prepare(&mut heap);
    settings::apply_early(&mut heap);
    records::register_first_thread(&mut heap);
    heap.publish();
}

/// What may call malloc or the client.
fn start_services() {
    for service in crate::SERVICES {
        service();
    }
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
        say(format_args!(
            "cannot open the log file {path}: events are not written"
        ));
    }
    heap.log = opened.map(LogFile::new);
    let heap = &mut *heap;
    log_ends::write_start(&mut heap.log, options, &heap.topology, 0);
}

/// Makes every panic of ours end the process at once, with what broke and the last events.
fn install_panic_hook() {
    std::panic::set_hook(Box::new(|information| {
        let mut line = LineBuffer::<2048>::new();
        let _ = writeln!(line, "gleaner: broken invariant: {information}");
        write_error(line.as_bytes());
        print_last_events();
        die(format_args!(
            "stopped because an invariant of the collector does not hold"
        ))
    }));
}
