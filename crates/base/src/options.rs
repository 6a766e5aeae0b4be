//! The one option table. The struct, the parser, the errors, `gleaner options` and the docs page all come from it, so
//! an option cannot be half there.
//!
//! An option has a name, a type, a default, what it accepts, a tier, the heaps it serves, one line of documentation
//! and, when a paper describes it, the section. [`Options`] is a plain value, which is copied into a heap when it
//! starts. An option that means something else to each kind of heap has a row for each, with values of its own.
//!
//! Invariants: a refused name or value changes nothing; the text of a value reads back as the same value; sizes fit in
//! `usize`. The module allocates nothing and forbids unsafe code, so it can run first thing in any process.
#![forbid(unsafe_code)]

mod accepted;
mod error;
mod heap_kind;
mod idle;
mod machine;
mod read;
mod types;

use core::fmt;

use crate::faults::FaultPlan;
pub use accepted::{Accepted, Shown, Size};
use accepted::{OptionValue, Problem, SWITCH};
pub use error::{OptionError, nearest};
pub use heap_kind::{HeapKind, Serves};
pub use idle::{Idle, Time};
pub use machine::{MOST_NODES, MOST_PROCESSORS, Machine, Synthetic};
pub use types::{
    ArrayKinds, Arrays, Crew, CycleHelper, FilePath, FreedCells, Generations, HeapSizing,
    HugePages, MarkGenerations, MarkPrefetch, NurseryPolicy, OldPages, OldPolicy, Optimisation,
    Pages, Parking, Plan, Prefetch, PrefetchHint, PushOrder, References, SnapshotAt, Sweep,
    TaskQueue, TraceOrder, Verify, WriteWatch, Zeroing, ZeroingKernel,
};

/// Whom an option is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// People who run a program.
    User,
    /// People who measure; the defaults are meant to be good.
    Tuning,
    /// People who look for a bug.
    Testing,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Tier; 3] = [Tier::User, Tier::Tuning, Tier::Testing];

    /// The name that `gleaner options` uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Tier::User => "user",
            Tier::Tuning => "tuning",
            Tier::Testing => "testing",
        }
    }
}

/// What becomes of an option that serves only the other kind of heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Foreign {
    /// It is an error: the embedder set it on this heap.
    Refused,
    /// It is checked and has no effect: the environment is for all heaps of a process.
    Ignored,
}

/// One row of the table.
pub struct OptionInfo {
    /// The name, as users write it.
    pub name: &'static str,
    /// What it accepts; prints as text.
    pub accepted: Accepted,
    /// Whom it is for.
    pub tier: Tier,
    /// Which heaps it serves.
    pub serves: Serves,
    /// One line of documentation.
    pub doc: &'static str,
    /// The paper and section it comes from.
    pub paper: Option<&'static str>,
    /// Its value in some options, to print.
    pub value: fn(&Options) -> Shown<'_>,
}

impl OptionInfo {
    /// The default value, to print.
    pub fn default(&self) -> Shown<'static> {
        (self.value)(&Options::DEFAULT)
    }
}

/// The rows of that name; of a heap of that kind, unless `kind` is `None`.
fn rows(name: &str, kind: Option<HeapKind>) -> impl Iterator<Item = &'static OptionInfo> {
    TABLE
        .iter()
        .filter(move |info| info.name == name && info.serves.is_for(kind))
}

/// A whole number of that range whose 0 has a meaning of its own.
const fn number(least: u32, most: u32, zero: &'static str) -> Accepted {
    Accepted::Number {
        least,
        most,
        power_of_two: false,
        zero,
    }
}

/// A size of at least `least` bytes, or 0.
const fn size(least: usize, zero: &'static str) -> Accepted {
    Accepted::Size {
        least,
        most: MOST_BYTES,
        zero,
    }
}

/// The largest size: what half of a process's addresses can hold.
const MOST_BYTES: usize = 64 << 40;

/// Declares the table: the struct with its default, the setter and the rows.
macro_rules! option_table {
    ($(
        #[doc = $doc:literal]
        $field:ident: $type:ty = $default:expr, $name:literal, $tier:ident, $serves:ident, $paper:expr, $accepted:expr;
    )+) => {
        /// The value of every option.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Options {
            $( #[doc = $doc] pub $field: $type, )+
        }

        impl Options {
            /// Every option at its default.
            pub const DEFAULT: Options = Options { $( $field: $default, )+ };

            /// Reads `value` into each option `name` of a heap of that kind that accepts it, or says what is wrong.
            fn read<'a>(
                &mut self,
                name: &str,
                value: &'a str,
                kind: Option<HeapKind>,
            ) -> Result<(), Problem<'a>> {
                let mut result = Err(Problem::UnknownName);
                $(
                    if name == $name && Serves::$serves.is_for(kind) {
                        match OptionValue::parse(value, &$accepted) {
                            Ok(value) => {
                                self.$field = value;
                                result = Ok(());
                            }
                            Err(problem) => result = result.or(Err(problem)),
                        }
                    }
                )+
                result
            }
        }

        /// Every option, the order being that of the docs.
        pub static TABLE: &[OptionInfo] = &[ $( OptionInfo {
            name: $name,
            accepted: $accepted,
            tier: Tier::$tier,
            serves: Serves::$serves,
            doc: $doc.trim_ascii(),
            paper: $paper,
            value: |options| options.$field.shown(),
        }, )+ ];
    };
}

option_table! {
    /// The most bytes that the heap may hold. A heap that is full and cannot be collected further reports out of memory.
    heap_limit: usize = 0, "heap-limit", User, Both, None, size(1 << 20, "no limit; precise: a quarter of the memory, at most 8g and what the references reach");
    /// The size of the heap at the start, in bytes. No collection happens before these bytes are used.
    initial_heap: usize = 0, "initial-heap", User, Libgc, None, size(1, "grows from nothing");
    /// A collection follows when 2/N of the live bytes with pointers were allocated. N=1 is fast, N=10 keeps the heap small.
    free_space_divisor: u32 = 3, "free-space-divisor", User, Libgc, None, number(1, 1000, "");
    /// At least this many bytes are allocated between two collections, however little lives; as many at free-space-divisor=3, half at 6.
    least_room: usize = 2 << 20, "least-room", User, Libgc, None, size(1, "as the divisor says");
    /// How much is allocated between two collections: as free-space-divisor says, or so that memory is traded for time.
    heap_sizing: HeapSizing = HeapSizing::Divisor, "heap-sizing", User, Libgc, Some("Kirisame et al., OOPSLA 2022"), Accepted::Choice(HeapSizing::NAMES);
    /// The price of memory under heap-sizing=balanced: the heap takes a gigabyte more if that saves this many hundredths of a processor.
    heap_price: u32 = 100, "heap-price", User, Libgc, Some("Kirisame et al., OOPSLA 2022"), number(1, 1_000_000, "");
    /// How many threads mark in parallel.
    markers: u32 = 0, "markers", User, Libgc, None, number(0, 64, "as many as pay, at most 16");
    /// The most threads that collect together. They copy, mark and update references.
    workers: u32 = 0, "workers", User, Precise, None, number(0, 64, "one per processor and MB of the limit, at most 16");
    /// How many of the workers take part in a collection: as many as pay, which the heap finds out, or all.
    crew: Crew = Crew::Auto, "crew", User, Precise, Some("OOPSLA 2012, section 4.6"), Accepted::Choice(Crew::NAMES);
    /// How a precise heap is collected: `naps` places its memory on memory nodes, `scavenge` leaves that to the system.
    plan: Plan = Plan::Scavenge, "plan", User, Precise, Some("ASPLOS 2013"), Accepted::Choice(Plan::NAMES);
    /// The width of references in objects: 8 bytes, or 4 bytes, which reach 16 GB.
    refs: References = References::Wide, "refs", User, Precise, None, Accepted::Choice(References::NAMES);
    /// The size of the young generation in bytes. With `resize` this is its first size.
    young: usize = 0, "young", User, Precise, Some("ASPLOS 2013, section 2.1"), size(192 << 10, "a third of the limit, at most 64m");
    /// After how many collections unused memory goes back to the system. A precise heap counts full collections.
    release_after: u32 = 6, "release-after", User, Both, None, number(0, 255, "never");
    /// After which time without an allocation unused memory goes back to the system. `collect`: garbage, too, in every program.
    idle: Idle = Idle::Off, "idle", User, Libgc, None, Accepted::Idle;
    /// Whether the heap asks the system for huge pages.
    huge_pages: HugePages = HugePages::Auto, "huge-pages", User, Both, None, Accepted::Choice(HugePages::NAMES);
    /// Prints statistics when the program ends.
    stats: bool = false, "stats", User, Both, None, SWITCH;
    /// After how many milliseconds without a stop a line on standard error names what holds it up. Less than 100 counts as 100.
    stop_warning: u32 = 1000, "stop-warning", User, Precise, None, number(0, 3_600_000, "never");
    /// Counts what is allocated by type, for a census: each collection then visits what was allocated since the one before.
    count_types: bool = false, "count-types", User, Precise, None, SWITCH;
    /// Appends one line of JSON for each phase of each collection to this file.
    log: FilePath = FilePath::NONE, "log", User, Both, None, Accepted::Path(FilePath::LONGEST);
    /// Writes live objects and what keeps them to this file, for `gleaner heap`. %p stands for the process, %n for a number.
    snapshot: FilePath = FilePath::NONE, "snapshot", User, Both, None, Accepted::Path(FilePath::LONGEST);
    /// When a snapshot is written: at a peak a quarter above the last, at exit, after SIGUSR2, or after each collection.
    snapshot_at: SnapshotAt = SnapshotAt::Peak, "snapshot-at", User, Both, None, Accepted::Choice(SnapshotAt::NAMES);
    /// The process that writes its snapshots under exactly that name. Other processes append a dot and their number.
    snapshot_process: u32 = 0, "snapshot-process", Tuning, Both, None, number(0, 1 << 30, "the first in which the heap starts");
    /// When the marker prefetches an object that it will look at. `auto`: as `edges` or `fifo`, whichever marked faster lately.
    mark_prefetch: MarkPrefetch = MarkPrefetch::Edges, "prefetch", Tuning, Libgc, Some("ISMM 2000, section 4"), Accepted::Choice(MarkPrefetch::NAMES);
    /// Whether the collector prefetches an object when it finds a reference to it.
    prefetch: Prefetch = Prefetch::Edges, "prefetch", Tuning, Precise, Some("ISMM 2007, edge enqueuing"), Accepted::Choice(Prefetch::NAMES);
    /// Which caches a prefetch fills: all levels, or as little as possible.
    prefetch_hint: PrefetchHint = PrefetchHint::T0, "prefetch-hint", Tuning, Libgc, Some("ISMM 2000, appendix A"), Accepted::Choice(PrefetchHint::NAMES);
    /// Whether the pointer that was pushed last, and is scanned first, is prefetched first.
    push_order: PushOrder = PushOrder::Natural, "push-order", Tuning, Libgc, Some("ISMM 2000, section 4"), Accepted::Choice(PushOrder::NAMES);
    /// How many cache lines ahead of the scan of an object are prefetched.
    look_ahead: u32 = 1, "look-ahead", Tuning, Libgc, Some("ISMM 2000, section 4"), number(0, 16, "off");
    /// When unmarked objects become free cells: before the program resumes, or when an allocation needs them.
    sweep: Sweep = Sweep::Lazy, "sweep", Tuning, Libgc, Some("ISMM 2000, section 5"), Accepted::Choice(Sweep::NAMES);
    /// How many bytes ahead of the free cells that it links the sweep fetches memory.
    sweep_ahead: u32 = 2048, "sweep-ahead", Tuning, Libgc, None, number(0, 64 << 10, "off");
    /// How many bytes the heap asks of the system before they are first written, at most a sixty-fourth of the heap.
    populate_ahead: usize = 256 << 10, "populate-ahead", Tuning, Libgc, None, size(16 << 10, "off");
    /// Where freed cells go when a thread's list is long enough: into a magazine that is shared when full, or one by one.
    freed_cells: FreedCells = FreedCells::Magazines, "freed-cells", Tuning, Libgc, Some("Bonwick and Adams, USENIX ATC 2001"), Accepted::Choice(FreedCells::NAMES);
    /// The most bytes of all mark stacks together. A stack that is full costs a re-scan.
    mark_arena: usize = 0, "mark-arena", Tuning, Libgc, None, size(64 << 10, "chosen from the heap's size");
    /// Whether threads allocate small objects from free lists of their own, without a lock.
    thread_lists: bool = true, "thread-lists", Tuning, Libgc, None, SWITCH;
    /// How the old generation is collected: all live objects slide together, or they stay and holes or free lines are filled.
    old: OldPolicy = OldPolicy::MarkCompact, "old", Tuning, Precise, Some("ASPLOS 2013, section 2.4"), Accepted::Choice(OldPolicy::NAMES);
    /// Where new objects lie: in a space from which what lives is copied, in free lines of the old space where it stays, or by turns.
    nursery: NurseryPolicy = NurseryPolicy::Copying, "nursery", Tuning, Precise, Some("PLDI 2008, section 3"), Accepted::Choice(NurseryPolicy::NAMES);
    /// How a forked child collects the old generation. By default what lives stays in the pages that it shares with its parent.
    child_old: OldPolicy = OldPolicy::MarkSweep, "child-old", Tuning, Precise, None, Accepted::Choice(OldPolicy::NAMES);
    /// Whether the young generation is collected by itself. `auto`: while that costs less than collecting everything.
    generations: Generations = Generations::Auto, "generations", Tuning, Precise, None, Accepted::Choice(Generations::NAMES);
    /// Whether a collection may keep the marks of the one before, and reclaim only what was allocated since.
    mark_generations: MarkGenerations = MarkGenerations::Auto, "generations", User, Libgc, Some("ISMM 2000, section 6"), Accepted::Choice(MarkGenerations::NAMES);
    /// Whether a thread marks beside the program, where a processor is idle. `auto`: under `generations=auto`, where it pays.
    cycle_helper: CycleHelper = CycleHelper::Auto, "cycle-helper", User, Libgc, None, Accepted::Choice(CycleHelper::NAMES);
    /// How the heap learns which pages were written, where collections keep marks: the first that the kernel offers, in this order.
    write_watch: WriteWatch = WriteWatch::Auto, "write-watch", Tuning, Libgc, None, Accepted::Choice(WriteWatch::NAMES);
    /// When the memory of fresh objects is zeroed, and by whom.
    zeroing: Zeroing = Zeroing::HotPath, "zeroing", Tuning, Precise, Some("OOPSLA 2011"), Accepted::Choice(Zeroing::NAMES);
    /// What zeroes blocks of memory and large objects.
    zeroing_kernel: ZeroingKernel = ZeroingKernel::Auto, "zeroing-kernel", Tuning, Both, Some("OOPSLA 2011, section 6.1"), Accepted::Choice(ZeroingKernel::NAMES);
    /// How many bytes ahead of allocation are zeroed at a time under zeroing=window.
    zeroing_window: usize = 512, "zeroing-window", Tuning, Precise, None, size(64, "512");
    /// The most bytes that a zeroing thread may be ahead of the mutators.
    zeroing_lead: usize = 0, "zeroing-lead", Tuning, Precise, None, size(64 << 10, "all of eden");
    /// How many threads zero under zeroing=concurrent-static and concurrent-racing.
    zeroing_threads: u32 = 2, "zeroing-threads", Tuning, Precise, Some("OOPSLA 2011, section 6.2"), Accepted::Number { least: 1, most: 16, power_of_two: false, zero: "" };
    /// Which grey object is scanned next: the last found, the first found, or the first of about a thousand found last.
    trace_order: TraceOrder = TraceOrder::Hierarchical, "trace-order", Tuning, Precise, Some("ASPLOS 2013, section 2.3.2"), Accepted::Choice(TraceOrder::NAMES);
    /// How the collecting threads take tasks: without a lock, or under one. The paper's baseline is locked, with parking=monitor.
    task_queue: TaskQueue = TaskQueue::LockFree, "task-queue", Tuning, Precise, Some("ASPLOS 2013, section 3.1.1"), Accepted::Choice(TaskQueue::NAMES);
    /// How the collecting threads wait for work: all on one monitor, as in the paper's baseline, or each on a futex.
    parking: Parking = Parking::Futex, "parking", Tuning, Precise, Some("ASPLOS 2013, section 2.3"), Accepted::Choice(Parking::NAMES);
    /// The memory nodes and processors that the heap is set up for: the host's, or a synthetic machine's as hwloc writes it.
    topology: Machine = Machine::Host, "topology", Tuning, Precise, Some("ASPLOS 2013, section 3.2"), Accepted::Machine;
    /// On which memory nodes the young generation lies. `auto`: as the plan says.
    pages: Pages = Pages::Auto, "pages", Tuning, Precise, Some("ASPLOS 2013, section 3.2"), Accepted::Choice(Pages::NAMES);
    /// On which memory nodes the other spaces lie. The old space cannot be fragmented, since its objects slide together.
    old_pages: OldPages = OldPages::Auto, "old-pages", Tuning, Precise, Some("ASPLOS 2013, section 3.2"), Accepted::Choice(OldPages::NAMES);
    /// Whether the generations change their sizes as the program needs.
    resize: bool = true, "resize", Tuning, Precise, None, SWITCH;
    /// How many collections of the young generation an object survives before the next one makes it old.
    tenure: u32 = 1, "tenure", Tuning, Precise, Some("ASPLOS 2013, section 2.3"), number(0, 15, "the first one does");
    /// How many bytes a mutator takes at a time to allocate in.
    tlab: usize = 32 << 10, "tlab", Tuning, Precise, Some("ASPLOS 2013, section 2.2"), size(64, "each object by itself");
    /// How many locals the scopes of a mutator hold at a time, 8 bytes of addresses each. For deep recursion in the Rust crate.
    locals: u32 = 1 << 20, "locals", User, Precise, None, Accepted::Number { least: 64, most: 1 << 28, power_of_two: false, zero: "" };
    /// How arrays lie in memory: in one piece, or in pieces of one size behind a spine.
    arrays: Arrays = Arrays::Contiguous, "arrays", User, Precise, Some("PLDI 2010, section 7.1.1"), Accepted::Choice(Arrays::NAMES);
    /// Which arrays are cut into pieces. Single types can be excluded, too.
    array_kinds: ArrayKinds = ArrayKinds::All, "array-kinds", Tuning, Precise, Some("PLDI 2010, section 7.1.2"), Accepted::Choice(ArrayKinds::NAMES);
    /// How many bytes of an array lie in its spine, where they are accessed directly.
    first_n: u32 = 0, "first-n", Tuning, Precise, Some("PLDI 2010, section 4.3"), Accepted::Number { least: 64, most: 1 << 18, power_of_two: true, zero: "as arrays has it" };
    /// Bytes of an arraylet.
    arraylet: u32 = 0, "arraylet", Tuning, Precise, Some("PLDI 2010, section 4.1"), Accepted::Number { least: 256, most: 4096, power_of_two: true, zero: "as arrays has it" };
    /// An arraylet is allocated when something other than zero is first written to it.
    lazy_arraylets: Optimisation = Optimisation::Auto, "lazy-arraylets", Tuning, Precise, Some("PLDI 2010, section 4.4"), Accepted::Choice(Optimisation::NAMES);
    /// The collector takes arraylets back that hold nothing but zeros.
    zero_compression: Optimisation = Optimisation::Auto, "zero-compression", Tuning, Precise, Some("PLDI 2010, section 4.5"), Accepted::Choice(Optimisation::NAMES);
    /// Elements are copied piece by piece, and not one by one.
    fast_copy: Optimisation = Optimisation::Auto, "fast-copy", Tuning, Precise, Some("PLDI 2010, section 4.6"), Accepted::Choice(Optimisation::NAMES);
    /// Whole arraylets that are copied are shared until one of the arrays is written.
    copy_on_write: Optimisation = Optimisation::Auto, "copy-on-write", Tuning, Precise, Some("PLDI 2010, section 4.7"), Accepted::Choice(Optimisation::NAMES);
    /// Reports on arrays, and on what cutting them into pieces saves, at a full collection each time this many bytes were allocated.
    array_report: usize = 0, "array-report", Tuning, Precise, Some("PLDI 2010, section 6 and Table 4"), size(64 << 10, "no report");
    /// How many bytes of addresses the heap reserves. For multiples of 4g, without a limit on addresses, up to 6g more.
    reserve: usize = 0, "reserve", Tuning, Libgc, None, size(16 << 20, "chosen from the limit and the machine");
    /// Checks the heap's invariants at the edges between phases.
    verify: Verify = Verify::Off, "verify", Testing, Both, None, Accepted::Choice(Verify::NAMES);
    /// Collects at every n-th allocation.
    stress: u32 = 0, "stress", Testing, Both, None, number(0, u32::MAX, "off");
    /// How many allocations pass before `stress` begins to count. Some runtimes do not survive an earlier collection.
    stress_after: u32 = 64, "stress-after", Testing, Libgc, None, number(0, u32::MAX, "at once");
    /// Overwrites freed memory, so that a use after free shows.
    poison: bool = false, "poison", Testing, Both, None, SWITCH;
    /// For how many collections evacuated memory has no access: a stale reference faults. Allocations are checked.
    quarantine: u32 = 0, "quarantine", Testing, Precise, None, number(0, 64, "off");
    /// Puts memory without access behind the length of a cut array: code that takes it for a whole one faults, with a report.
    array_guard: bool = false, "array-guard", Testing, Precise, Some("PLDI 2010, section 5.3"), SWITCH;
    /// One thread does the work of all collecting threads, this many objects each in turn, so that counts by memory node repeat.
    lockstep: u32 = 0, "lockstep", Testing, Precise, Some("ASPLOS 2013, section 4.2"), number(0, 1 << 20, "off");
    /// The order in which the collecting threads take turns under `lockstep`.
    lockstep_seed: u32 = 1, "lockstep-seed", Testing, Precise, None, Accepted::Number { least: 1, most: u32::MAX, power_of_two: false, zero: "" };
    /// Makes the named places fail, each once, at their n-th visit.
    fault: FaultPlan = FaultPlan::NONE, "fault", Testing, Both, None, Accepted::Faults;
}

impl Default for Options {
    fn default() -> Self {
        Options::DEFAULT
    }
}

impl Options {
    /// Writes the options that differ from the default as a list that [`Options::parse_list`] reads.
    pub fn write_list(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let mut separator = "";
        for info in TABLE {
            let value = (info.value)(self);
            if value != info.default() {
                write!(out, "{separator}{}={value}", info.name)?;
                separator = ",";
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
