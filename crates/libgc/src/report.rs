//! What is reported of collections: lines per collection (`GC_PRINT_STATS`), and one block at the end (`stats=on`).
//!
//! Two of the lines keep libgc's form, since programs read them: how many bytes a collection freed in which heap, and
//! how long all of it took.

use core::fmt;
use std::io::Read;

use gleaner_base::events::{Event, LineBuffer, Phase};
use gleaner_base::goals::{self, Steps};
use gleaner_base::options::MarkGenerations;
use gleaner_os::{clock, fork, memory, residency, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::decide::advice::{self, Advice, Larger, Measurements};
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_plans::shared::log_ends;

use crate::message::{log, write_error};
use crate::settings::CLIENT;
use crate::start::with_heap;
use crate::state::{CREW, is_unlocked, view};
use crate::variables::GC_find_leak;
use crate::wanted;

/// After each collection, under the allocator lock, with the world running.
pub fn after_collection(heap: &Heap) {
    match CLIENT.prints_stats.get() {
        0 => {}
        1 => print_collection(heap),
        _ => {
            print_phases(heap);
            print_collection(heap);
        }
    }
    if CLIENT.prints_address_map.get() != 0 {
        print_address_map();
    }
    if CLIENT.dumps_regularly.get() != 0 {
        crate::dump::dump(heap);
    }
}

/// Milliseconds, and the nanoseconds left over.
fn split(nanoseconds: u64) -> (u64, u64) {
    (nanoseconds / 1_000_000, nanoseconds % 1_000_000)
}

fn print_collection(heap: &Heap) {
    let number = heap.collections;
    let mut all = 0;
    let mut marking = 0;
    heap.events
        .iter()
        .filter(|event| event.collection == number)
        .for_each(|event| match event.phase {
            Phase::End => all = event.duration_ns,
            Phase::Mark | Phase::Roots | Phase::Weak => marking += event.duration_ns,
            _ => {}
        });
    let (space, census) = (&heap.space, &heap.space.census);
    let given_back = heap.totals.peak_capacity.saturating_sub(space.capacity);
    log(format_args!(
        "GC #{number} freed {} bytes, heap {} KiB (+ {} KiB unmapped)",
        heap.totals.last_reclaimed_bytes,
        space.capacity >> 10,
        given_back >> 10
    ));
    let (milliseconds, rest) = split(marking);
    log(format_args!(
        "World-stopped marking took {milliseconds} ms {rest} ns"
    ));
    log(format_args!(
        "Live: {} objects, {} KiB with pointers, {} KiB without; {} finalizers, {} ready",
        census.objects,
        census.composite_bytes >> 10,
        census.atomic_bytes >> 10,
        heap.weak.finalizers.count(),
        heap.weak.finalizers.ready_count()
    ));
    let (milliseconds, rest) = split(all);
    log(format_args!(
        "Complete collection took {milliseconds} ms {rest} ns"
    ));
}

fn print_phases(heap: &Heap) {
    let print = |event: Event| log(format_args!("{event}"));
    heap.events
        .iter()
        .filter(|event| event.collection == heap.collections)
        .for_each(print);
}

/// Copies /proc/self/maps to standard error, through a buffer on the stack.
fn print_address_map() {
    let Ok(mut file) = std::fs::File::open("/proc/self/maps") else {
        return;
    };
    let mut buffer = [0u8; 4096];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        write_error(&buffer[..count]);
    }
}

/// Run by the loader when the process exits, after the program's own handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    // A process that ends while the heap starts, since an option is wrong, has none to tell of.
    let Some(heap) = view() else { return };
    // A child of a fork that no hook saw, which has not called the library since: others of its parent may have left locks.
    if fork::is_new_process() {
        return;
    }
    crate::idle::state::end();
    crate::cycle_helper::state::end();
    crate::snapshot::report_at_exit();
    // Where a thread is at work, or this one is called back, the log ends as it does when a process is killed.
    let is_logged = is_unlocked() && with_heap(|heap| heap.log.is_some());
    let is_summed_up = wanted::is_summary();
    if !is_logged && !is_summed_up {
        return;
    }
    let mut advice = LineBuffer::<1024>::new();
    write_advice(&mut advice, heap);
    if is_summed_up {
        print_summary(heap, advice.as_str());
    }
    if is_logged {
        let allocated = allocated_since_start(heap);
        with_heap(|heap| {
            let collections = heap.collections;
            let advice = advice.as_str().trim_end();
            log_ends::write_exit(&mut heap.log, (0, collections), allocated, advice);
        });
    }
}

/// A number with digits behind its point. What the core library has for floating point is larger than this whole report.
struct Decimal {
    /// The number in units of its last digit.
    units: u64,
    /// Digits behind the point.
    digits: u32,
}

impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let one = 10u64.pow(self.digits);
        let mut text = LineBuffer::<32>::new();
        let (whole, rest) = (self.units / one, self.units % one);
        write!(text, "{whole}.{rest:0width$}", width = self.digits as usize)?;
        out.pad(text.as_str())
    }
}

/// Seconds with six digits behind the point.
fn seconds(nanoseconds: u64) -> Decimal {
    let units = nanoseconds.saturating_add(500) / 1000;
    Decimal { units, digits: 6 }
}

/// Mebibytes with one digit behind the point.
fn mebibytes(bytes: u64) -> Decimal {
    let units = bytes.saturating_mul(10).saturating_add(1 << 19) >> 20;
    Decimal { units, digits: 1 }
}

/// Bytes that this process allocated; of a forked one, since the fork.
fn allocated_since_start(heap: HeapView) -> u64 {
    (heap.allocated_bytes() as u64).saturating_sub(heap.totals().begun.allocated)
}

/// Numbers only; other threads may still run, so each may be a little old.
fn print_summary(heap: HeapView, advice: &str) {
    use fmt::Write;
    let totals = heap.totals();
    let space = heap.space();
    let begun = totals.begun;
    let allocated = allocated_since_start(heap);
    let collections = heap.collections() - begun.collections;
    let mean = totals.stopped_ns.checked_div(totals.stops).unwrap_or(0);
    let mut text = LineBuffer::<6144>::new();
    let _ = writeln!(
        text,
        "gleaner: statistics of process {}",
        threads::current_process()
    );
    let _ = match totals.kept_marks {
        0 => writeln!(text, "  collections    {collections:>12}"),
        kept => writeln!(
            text,
            "  collections    {collections:>12}, {kept} of new objects alone"
        ),
    };
    let _ = writeln!(
        text,
        "  pauses         {:>12} s total, {} s longest, {} s mean",
        seconds(totals.stopped_ns),
        seconds(totals.longest_stop_ns),
        seconds(mean)
    );
    let _ = writeln!(
        text,
        "  time to stop   {:>12} s total, {} s longest",
        seconds(totals.stopping_ns),
        seconds(totals.longest_stopping_ns)
    );
    if totals.goals.stops > 0 {
        let _ = writeln!(
            text,
            "  over the goal  {:>12} of {} stops that had one",
            totals.goals.missed, totals.goals.stops
        );
    }
    if totals.cycles > 0 {
        let _ = writeln!(
            text,
            "  steps          {:>12} in {} cycles ({} ended in their stop), {} s total, {} s longest, {} lost the processor, {} s without it",
            totals.steps,
            totals.cycles,
            totals.cycles_cut_short,
            seconds(totals.stepping_ns),
            seconds(totals.longest_step_ns),
            totals.steps_lost,
            seconds(totals.lost_ns)
        );
    }
    if totals.helped_turns > 0 {
        let _ = writeln!(
            text,
            "  marked beside  {:>12} MiB in {} turns of a helper, {} s, {} lost the processor",
            mebibytes(totals.helped_bytes),
            totals.helped_turns,
            seconds(totals.helped_ns),
            totals.helped_lost
        );
    }
    let _ = writeln!(
        text,
        "  marking        {:>12} s",
        seconds(totals.marking_ns)
    );
    let _ = writeln!(
        text,
        "  sweeping       {:>12} s",
        seconds(totals.sweeping_ns + space.sweep_ns())
    );
    let _ = writeln!(text, "  allocated      {:>12} MiB", mebibytes(allocated));
    let _ = writeln!(
        text,
        "  reclaimed      {:>12} MiB",
        mebibytes(totals.reclaimed_bytes - begun.reclaimed)
    );
    let _ = writeln!(
        text,
        "  peak heap      {:>12} MiB",
        mebibytes(totals.peak_capacity as u64)
    );
    let _ = writeln!(
        text,
        "  final heap     {:>12} MiB, {} MiB in use",
        mebibytes(space.capacity() as u64),
        mebibytes(space.used_bytes() as u64)
    );
    if totals.idle_times + totals.idle_collections > 0 {
        let _ = writeln!(
            text,
            "  given back     {:>12} MiB; idle times: {}, collections for that: {}",
            mebibytes(totals.given_back),
            totals.idle_times,
            totals.idle_collections
        );
    }
    let _ = writeln!(
        text,
        "  peak resident  {:>12} MiB",
        mebibytes(residency::peak_resident_bytes())
    );
    let _ = writeln!(text, "  markers        {:>12}", CREW.helpers() + 1);
    let _ = writeln!(
        text,
        "  finalizers     {:>12} became ready",
        totals.finalized
    );
    for sentences in advice.lines() {
        write_wrapped(&mut text, "advice", sentences);
    }
    let mut unwatched = LineBuffer::<512>::new();
    let _ = write_unwatched(&mut unwatched, heap);
    for sentences in unwatched.as_str().lines() {
        write_wrapped(&mut text, "watch", sentences);
    }
    let mut missed = LineBuffer::<1536>::new();
    let steps = Steps {
        cycles: totals.cycles,
        steps: totals.steps,
        lost: totals.steps_lost,
        lost_ns: totals.lost_ns,
    };
    let _ = goals::write_sentences(&mut missed, &totals.goals, &steps);
    for sentences in missed.as_str().lines() {
        write_wrapped(&mut text, "goals", sentences);
    }
    write_error(text.as_bytes());
}

/// Columns of a line of the block, and those before its text.
const COLUMNS: usize = 110;
const INDENT: usize = 17;

/// Writes sentences below each other's beginning, in lines that a terminal shows whole.
fn write_wrapped(text: &mut impl fmt::Write, label: &str, sentences: &str) {
    let mut column = INDENT;
    let _ = write!(text, "  {label:<width$}", width = INDENT - 2);
    for (index, word) in sentences.split(' ').enumerate() {
        if index > 0 && column + 1 + word.len() > COLUMNS {
            let _ = write!(text, "\n{:INDENT$}", "");
            column = INDENT;
        } else if index > 0 {
            let _ = text.write_char(' ');
            column += 1;
        }
        let _ = text.write_str(word);
        column += word.len();
    }
    let _ = text.write_char('\n');
}

/// Why collections are of everything and in one stop although the options or the program want it otherwise; nothing where
/// they do not, or where it is as wanted.
fn write_unwatched(text: &mut impl fmt::Write, heap: HeapView) -> fmt::Result {
    let mode = heap.mode();
    if let Some(unavailable) = heap.unwatched() {
        writeln!(text, "Pages cannot be watched: {unavailable}.")
    } else if GC_find_leak.get() != 0
        && !matches!(mode, MarkGenerations::None | MarkGenerations::Asked)
    {
        text.write_str("Leaks are looked for, so that everything is collected each time.\n")
    } else if !heap.unwatched_since().is_empty() {
        let since = heap.unwatched_since();
        writeln!(text, "Pages are not watched: {since}.")
    } else {
        Ok(())
    }
}

/// What to do about it, in words: a line for each piece of advice.
fn write_advice(text: &mut impl fmt::Write, heap: HeapView) {
    let totals = heap.totals();
    let mean = totals.stopped_ns.checked_div(totals.stops).unwrap_or(0);
    let begun = totals.begun;
    let before = (heap.allocated_before() as u64).saturating_sub(begun.allocated);
    let measured = Measurements {
        elapsed_ns: clock::monotonic_ns().saturating_sub(totals.started_ns + totals.snapshots_ns),
        stopped_ns: totals.stopped_ns,
        collections: heap.collections() - begun.collections,
        // Under `auto` marks are kept only where that takes clearly less.
        others: match heap.mode() {
            MarkGenerations::Auto => totals.cycles,
            _ => totals.kept_marks + totals.cycles,
        },
        asked: totals.asked,
        allocated: allocated_since_start(heap),
        live_sum: totals.live_bytes,
        live_mean: (totals.live_by_allocated / before.max(1) as f64) as u64,
        peak: totals.peak_capacity as u64,
        limit: heap.limit() as u64,
        available: wanted::memory_at_the_start().min(memory::address_limit().unwrap_or(u64::MAX))
            / 2,
    };
    let (share, collections) = (advice::share(&measured), measured.collections);
    let larger = |text: &mut dyn core::fmt::Write, larger: Larger| {
        let Larger {
            heap,
            collections: fewer,
            saves,
        } = larger;
        let mebibytes = heap >> 20;
        write!(
            text,
            "{share} % of the time went to {collections} collections. A heap of {mebibytes} MiB from the start \
             (--opt initial-heap={mebibytes}m) would need about {fewer} and save about {saves} % of the time."
        )
    };
    let _ = match advice::advise(&measured) {
        Advice::Unknown => Ok(()),
        Advice::Enough => writeln!(
            text,
            "{share} % of the time went to collections: a larger heap would save little."
        ),
        Advice::Larger(what) => larger(text, what).and_then(|()| text.write_char('\n')),
        Advice::Limited(what) => larger(text, what).and_then(|()| {
            let limit = measured.limit >> 20;
            writeln!(
                text,
                " That is more than its limit of {limit} MiB (heap-limit)."
            )
        }),
        Advice::NoMemory => writeln!(
            text,
            "{share} % of the time went to {collections} collections, and the heap takes more than half of the memory \
             that there is: no larger one is advised."
        ),
    };
    if advice::advises_steps(totals.longest_stop_ns, mean, measured.others, heap.mode()) {
        let milliseconds = totals.longest_stop_ns / 1_000_000;
        let _ = writeln!(
            text,
            "The longest stop took {milliseconds} ms. --opt generations=incremental marks beside the program what would \
             take longer than GC_PAUSE_TIME_TARGET milliseconds (50 if not set)."
        );
    }
}
