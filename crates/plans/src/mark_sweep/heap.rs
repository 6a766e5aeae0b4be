//! A heap: the space and everything that a collection of it needs.
//!
//! The door that owns a `Heap` also owns the allocator lock. Every method here runs with that lock held, by the
//! thread that holds it, unless it says otherwise.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use gleaner_base::events::{Phase, Ring};
use gleaner_base::options::{self, MarkGenerations, MarkPrefetch, Options};
use gleaner_mem::Address;
use gleaner_mem::zero::{self, Processor};
use gleaner_os::log_file::LogFile;
use gleaner_os::topology::Topology;
use gleaner_os::written::Unavailable;
use gleaner_os::{clock, refusal, signals};
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::beside::BesideProgram;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, IGNORE_OFF_PAGE};
use gleaner_spaces::mark_sweep::layout::{Layout, ReserveError};
use gleaner_spaces::mark_sweep::mark::MarkEngine;
use gleaner_spaces::mark_sweep::object_descriptors::ObjectDescriptors;
use gleaner_spaces::mark_sweep::prefetch::{Prefetch, PrefetchSettings};
use gleaner_spaces::mark_sweep::scan::{MAX_PROCS, MarkContext, MarkMode};
use gleaner_spaces::mark_sweep::{MarkSweep, SweepMode};
use gleaner_work::Crew;

use crate::mark_sweep::cycle::{Auto, Cycle, Helped, Pacing};
use crate::mark_sweep::decide::dying_links::DyingLinks;
use crate::mark_sweep::decide::extent::Extent;
use crate::mark_sweep::decide::heap_size::{self, Decision, Measurements};
use crate::mark_sweep::decide::prefetching::Prefetching;
use crate::mark_sweep::generations::{self, Generations, Weighing};
use crate::mark_sweep::history::{Pace, Totals};
use crate::mark_sweep::idle::Idle;
use crate::mark_sweep::mutator::Mutators;
use crate::mark_sweep::room::Room;
use crate::mark_sweep::roots::{LibraryList, Roots};
use crate::mark_sweep::snapshot::Snapshots;
use crate::mark_sweep::stack_bounds::LeaderStack;
use crate::mark_sweep::stop::protocol::World;
use crate::mark_sweep::weak::Weak;
use crate::shared::crew_size::{self, CrewSize};
use crate::shared::free_processors::FreeProcessors;
use crate::shared::record::Record;
use crate::shared::trials::TRIAL;

/// Settings that a client may change while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `GC_free_space_divisor`.
    pub divisor: usize,
    /// The most bytes that the heap may hold; 0 for no limit.
    pub limit: usize,
    /// What is allocated between two collections at the usual divisor, however little lives. Bytes.
    pub least_room: usize,
    /// The least bytes allocated between collections.
    pub least_allocated: usize,
    /// Collections to try when memory is short.
    pub retries: usize,
    /// Whether the heap may grow by itself.
    pub may_grow: bool,
    /// Whether the heap may collect.
    pub may_collect: bool,
    /// Collections after which a free block goes back to the system; 0 for never.
    pub release_after: u8,
    /// Workers that mark; 0 for one a processor.
    pub markers: usize,
    /// Whether finalizable objects are marked in a pass of their own.
    pub java_finalization: bool,
    /// The suspend signal.
    pub suspend_signal: c_int,
    /// Bytes that must be allocated for each new finalizer to put off a collection; 0 for no such rule.
    pub bytes_per_finalizer: usize,
    /// Nanoseconds that the program may be stopped for, if marking can go on in steps; `None` for as long as it takes.
    pub time_limit_ns: Option<u64>,
    /// The most collections that keep marks, from one of everything to the next (`GC_full_freq`).
    pub full_frequency: usize,
}

impl Settings {
    /// The defaults, as the options say.
    pub fn from_options(options: &Options) -> Settings {
        Settings {
            divisor: options.free_space_divisor as usize,
            limit: options.heap_limit,
            least_room: options.least_room,
            least_allocated: 1,
            retries: 1,
            may_grow: true,
            may_collect: true,
            // The option is at most that.
            release_after: options.release_after.min(u8::MAX.into()) as u8,
            markers: options.markers as usize,
            java_finalization: false,
            suspend_signal: signals::DEFAULT_SUSPEND,
            bytes_per_finalizer: 10_000,
            time_limit_ns: Some(USUAL_TIME_LIMIT_NS),
            full_frequency: 19,
        }
    }
}

/// A heap and its collector.
pub struct Heap {
    /// Where objects live.
    pub space: MarkSweep,
    /// What markers read; boxed so that it stays in place.
    pub context: Box<MarkContext>,
    /// The marking engine.
    pub engine: MarkEngine,
    /// Helper threads.
    pub crew: &'static Crew,
    /// The words by which threads are stopped.
    pub world: &'static World,
    /// Registered threads.
    pub mutators: Mutators,
    /// Results of threads that have ended and were not joined yet, with the C library's number of the thread.
    pub thread_results: Vec<(usize, Address)>,
    /// Static roots.
    pub roots: Roots,
    /// Finalizers, links, toggle references.
    pub weak: Weak,
    /// The options as they were at the start.
    pub options: Options,
    /// What the client may change.
    pub settings: Settings,
    /// Collections so far.
    pub collections: u64,
    /// Collections that were run, and cycles that were begun. A thread that wants one compares it, to see whether another
    /// thread came first.
    pub turns: u64,
    /// The last events, for crash reports.
    pub events: Ring,
    /// Where events are written as JSON lines.
    pub log: Option<LogFile>,
    /// What writes snapshots of the heap, if any are wanted.
    pub snapshots: Option<Box<Snapshots>>,
    /// Sums over the life of the heap.
    pub totals: Totals,
    /// What had been allocated in sum at the last collection.
    pub allocated_before: usize,
    /// What had been freed explicitly in sum at the last collection.
    pub freed_before: usize,
    /// Bytes of roots at the last collection.
    pub root_bytes: usize,
    /// Set while roots are pushed.
    pub leader_stack: Option<LeaderStack>,
    /// Whether a thread has ended that had been stopped on a stack which is not known: others may run there.
    pub(crate) unknown_remain: bool,
    /// Whether the last roots lack stacks that could not be looked for.
    pub(crate) stacks_were_hidden: bool,
    /// How fast things go, under `heap-sizing=balanced`.
    pub pace: Pace,
    /// What the limits of control groups leave.
    pub(crate) room: Room,
    /// What went back to the system in idle time.
    pub(crate) idle: Idle,
    /// What links that die cost.
    pub(crate) dying_links: DyingLinks,
    /// Finalizers registered at the last collection.
    pub finalizers_before: usize,
    /// Whether the client was told of a start whose end is to come.
    pub(crate) start_told: bool,
    /// An object that the last collection could not finalize because it can be reached from itself.
    pub finalization_cycle: Option<Address>,
    /// The machine, as of the last time that it mattered how many may mark.
    pub topology: Topology,
    /// How many of its processors are free.
    pub free_processors: FreeProcessors,
    /// How many workers paid.
    pub crew_size: CrewSize,
    /// What decides how the marker prefetches, unless the configuration does.
    pub prefetching: Option<Prefetching>,
    /// What decides whether marks are kept.
    pub generations: Generations,
    /// What the last collection was of.
    pub extent: Extent,
    /// The cycle of steps that the collection in progress has ended.
    pub(crate) ended_cycle: Cycle,
    /// Whether marks are kept, and made in steps.
    pub mode: MarkGenerations,
    /// Under `generations=auto`: what collections took.
    pub weighing: Weighing,
    /// The same of cycles.
    pub(crate) auto: Auto,
    /// Marking that is under way in steps.
    pub cycle: Cycle,
    /// When the next cycle begins.
    pub pacing: Pacing,
    /// What a helper marks of it beside the program.
    pub(crate) helped: Helped,
    /// What the helper's turns without the allocator lock share with the heap; boxed so that it stays in place.
    pub beside: Box<BesideProgram>,
    /// Why marks cannot be kept although the options want that.
    pub unwatched: Option<Unavailable>,
    /// Why pages are not watched that were, or could be; empty while they are, and where `unwatched` says why.
    pub unwatched_since: &'static str,
}

/// How an allocation that found no memory goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// The capacity was raised: try again.
    TryAgain,
    /// A collection is called for; it needs the lock released first.
    Collect(&'static str),
    /// A collection of everything is called for; it needs the lock released first.
    CollectEverything(&'static str),
    /// Memory is exhausted.
    OutOfMemory(&'static str),
}

impl Heap {
    /// Reserves a heap.
    pub fn new(
        options: &Options,
        executable: bool,
        topology: Topology,
        crew: &'static Crew,
        world: &'static World,
    ) -> Result<Heap, ReserveError> {
        Heap::over(
            Layout::reserve(options.reserve, executable)?,
            options,
            topology,
            crew,
            world,
        )
    }

    /// A heap over a reserved range.
    pub fn over(
        layout: Layout,
        options: &Options,
        topology: Topology,
        crew: &'static Crew,
        world: &'static World,
    ) -> Result<Heap, ReserveError> {
        let table = layout.table;
        let sweep = match options.sweep {
            options::Sweep::Eager => SweepMode::Eager,
            options::Sweep::Lazy => SweepMode::Lazy,
        };
        let context = Box::new(MarkContext {
            table,
            all_interior: true,
            displacements: [false; BLOCK_BYTES / 2],
            procs: [None; MAX_PROCS],
            procs_on_helpers: false,
            mode: MarkMode::Whole,
            observes: false,
            poison: options.poison,
            own_procs: 0,
            overflowed: AtomicBool::new(false),
            dropped: AtomicUsize::new(0),
            disturbed: AtomicBool::new(false),
            descriptors: ObjectDescriptors::new(),
        });
        let mark_stack = mark_stack_bytes(options, &layout, &topology);
        let mut space = MarkSweep::new(layout, sweep, options.poison);
        space.sweep_ahead = options.sweep_ahead as usize;
        space.set_populate_ahead(options.populate_ahead);
        // Blocks are swept when their cells are needed, so what is zeroed is used soon.
        space.zeroing = zero::choose(options.zeroing_kernel, true, &Processor::detect());
        let unwatched = generations::watch_writes(&mut space, options).err();
        let mut heap = Heap {
            engine: MarkEngine::new(prefetch_settings(options), mark_stack),
            space,
            context,
            crew,
            world,
            mutators: Mutators::new(),
            thread_results: Vec::new(),
            roots: Roots::new(),
            weak: Weak::new(),
            options: *options,
            settings: Settings::from_options(options),
            collections: 0,
            turns: 0,
            events: Ring::new(),
            log: None,
            snapshots: Snapshots::from_options(options, 0),
            totals: Totals {
                started_ns: clock::monotonic_ns(),
                ..Totals::default()
            },
            allocated_before: 0,
            freed_before: 0,
            root_bytes: 0,
            leader_stack: None,
            unknown_remain: false,
            stacks_were_hidden: false,
            pace: Pace::default(),
            room: Room::NONE,
            idle: Idle::new(options.idle.after_ns()),
            dying_links: DyingLinks::default(),
            finalizers_before: 0,
            start_told: false,
            finalization_cycle: None,
            free_processors: FreeProcessors::new(
                options.markers == 0 && !topology.is_synthetic() && topology.processors > 1,
            ),
            topology,
            crew_size: CrewSize::new(),
            prefetching: (options.mark_prefetch == MarkPrefetch::Auto).then(Prefetching::new),
            generations: Generations::new(),
            extent: Extent::Everything(""),
            ended_cycle: Cycle::new(),
            mode: options.mark_generations,
            weighing: Weighing::default(),
            auto: Auto::default(),
            cycle: Cycle::new(),
            pacing: Pacing::new(),
            helped: Helped::new(),
            beside: Box::new(BesideProgram::new()),
            unwatched,
            unwatched_since: generations::before_the_watch(options),
        };
        if heap.engine.equip(1, &raw const *heap.context) == 0 {
            return Err(ReserveError {
                asked: mark_stack,
                limit: refusal::reason(mark_stack, mark_stack.min(1 << 20)),
            });
        }
        heap.space.initial_capacity = options.initial_heap.max(heap_size::LEAST_GROWTH);
        heap.space.capacity = heap.space.initial_capacity;
        heap.space
            .layout
            .set_huge_pages(options.huge_pages == options::HugePages::On);
        Ok(heap)
    }

    /// What to do about a shortage where no collection may run (in callbacks with the lock held): growing, or nothing.
    pub fn remedy_without_collecting(&mut self, shortage: Shortage) -> Remedy {
        let Shortage::Capacity(needed) = shortage else {
            return Remedy::OutOfMemory(self.refusal(shortage));
        };
        let measured = Measurements {
            may_collect: false,
            ..self.measure(needed, 1)
        };
        self.follow(heap_size::decide(&measured))
    }

    /// What to do about a shortage of a thread, which may run on a stack that is not known in a program that has named none; and
    /// does it if it is growing.
    pub fn remedy(
        &mut self,
        shortage: Shortage,
        attempts: usize,
        on_foreign_stack: bool,
    ) -> Remedy {
        let needed = match shortage {
            Shortage::Capacity(bytes) => bytes,
            Shortage::System | Shortage::Range => return self.system_shortage(shortage, attempts),
        };
        if self.settings.limit != 0 {
            self.space.capacity = self.space.capacity.min(self.settings.limit); // It may have been lowered.
            self.bound_slack();
        }
        let mut measured = Measurements {
            hidden_stacks: self.has_hidden_stacks(),
            ..self.measure(needed, attempts)
        };
        measured.left = self.ask_room_if_due(&measured);
        // One that this request has begun is not ended by it, unless other threads use up all that it has the heap grow by.
        if self.cycle.is_under_way()
            && measured.may_collect
            && !on_foreign_stack
            && attempts < heap_size::MOST_CONTENDED
        {
            return self.remedy_in_cycle(&measured);
        }
        if needed <= BLOCK_BYTES {
            let unswept = self.space.unswept_bytes;
            self.pacing.pacer.note_shortage(unswept);
        }
        self.follow(heap_size::decide(&measured))
    }

    /// A cycle whose memory is used up before its end has the heap grow, until that was long enough or it cannot.
    fn remedy_in_cycle(&mut self, measured: &Measurements) -> Remedy {
        let grown = heap_size::decide(&Measurements {
            may_collect: false,
            ..*measured
        });
        match grown {
            Decision::Grow(capacity, _)
                if !self.is_cycle_overdue() && !heap_size::is_used_up(measured) =>
            {
                self.grow_to(capacity, "marking in steps is under way");
                Remedy::TryAgain
            }
            _ => Remedy::Collect("marking in steps ends"),
        }
    }

    fn follow(&mut self, decision: Decision) -> Remedy {
        match decision {
            Decision::Collect(reason) => Remedy::Collect(reason),
            Decision::CollectEverything(reason) => Remedy::CollectEverything(reason),
            Decision::Grow(capacity, reason) => {
                self.grow_to(capacity, reason);
                Remedy::TryAgain
            }
            Decision::GiveUp(reason) => Remedy::OutOfMemory(reason),
        }
    }

    /// The address range or the system has no more: collecting is all that can help.
    fn system_shortage(&mut self, shortage: Shortage, attempts: usize) -> Remedy {
        self.space.release_dirty(usize::MAX);
        if attempts < self.settings.retries.max(2) && self.space.give_back_end() {
            return Remedy::TryAgain;
        }
        if self.settings.may_collect && attempts < self.settings.retries.max(2) {
            Remedy::CollectEverything("the system has no more memory")
        } else if self.give_addresses_back() {
            Remedy::TryAgain
        } else {
            // What was granted to this request in vain would only put off the next collections.
            let enough = self
                .space
                .used_bytes()
                .saturating_add(heap_size::LEAST_GROWTH)
                .max(self.space.initial_capacity);
            self.space.capacity = self.space.capacity.min(enough);
            Remedy::OutOfMemory(self.refusal(shortage))
        }
    }

    /// Why there is nothing for a request that more capacity would not help.
    fn refusal(&self, shortage: Shortage) -> &'static str {
        match shortage {
            Shortage::Range => self.space.layout.used_up(),
            _ => self.space.layout.refusal().text(),
        }
    }

    pub(crate) fn measure(&self, needed: usize, attempts: usize) -> Measurements {
        let census = self.surely_live();
        let left = self.left();
        let new_finalizers = self
            .weak
            .finalizers
            .count()
            .saturating_sub(self.finalizers_before);
        let mut measured = Measurements {
            capacity: self.space.capacity,
            used: self.space.used_bytes(),
            needed,
            allocated: self.allocated_at_most(),
            saved: self.dying_links.bytes(self.weak.links()),
            lost: self.lost(left),
            new_is_cheap: self.is_new_cheap(),
            // Where collections keep marks these come at other moments, at which more may live.
            grows_exactly: self.mode == MarkGenerations::Auto
                && self.space.written.is_some()
                && self.generations.keeps,
            composite: census.composite_bytes,
            atomic: census.atomic_bytes,
            roots: self.root_bytes,
            limit: self.settings.limit,
            left,
            divisor: self.settings.divisor,
            balanced: self.balanced(census.live_bytes()),
            least_room: self.settings.least_room,
            least_allocated: self.settings.least_allocated,
            may_collect: self.settings.may_collect,
            may_grow: self.settings.may_grow,
            attempts,
            retries: self.settings.retries + 1,
            hidden_stacks: false,
            finalizers_due: false,
        };
        // Where less than that is not enough for anything, it does not matter how much less it is.
        if new_finalizers > MANY_FINALIZERS || heap_size::may_pay(&measured) {
            measured.allocated = self.allocated_to_the_byte(measured.allocated);
        }
        measured.finalizers_due = new_finalizers > MANY_FINALIZERS
            && self.settings.bytes_per_finalizer != 0
            && measured.allocated / new_finalizers < self.settings.bytes_per_finalizer;
        measured
    }

    /// Bytes of old objects that may be dead: what they take is as lost as what was allocated. Where pages are watched for cycles alone,
    /// that is what died in the last one. The next one comes soon enough for it, unless limits leave less than is in use.
    fn lost(&self, left: Option<usize>) -> usize {
        let used = self.space.used_bytes();
        let limit = match self.settings.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(used),
        };
        let is_short = left.unwrap_or(usize::MAX).min(limit) < used;
        match self.space.written {
            Some(_) if self.generations.keeps || is_short => self.generations.lost(),
            _ => 0,
        }
    }

    /// Puts the first list of libraries in place, whose data count as roots until a collection has scanned them. What is
    /// left in `libraries` must be dropped without the lock.
    pub fn expect_roots(&mut self, libraries: &mut LibraryList) {
        self.roots.replace_libraries(libraries);
        self.root_bytes = self.root_bytes.max(self.roots.bytes());
    }

    /// Bytes allocated since the last collection, less those that were freed explicitly and wait to be reused, and what was handed
    /// to threads but they have not taken: at most as much was allocated.
    fn allocated_at_most(&self) -> usize {
        let account = &self.space.account;
        account.net_allocated().max(self.handed_at_least())
    }

    /// The same without what threads have not taken, where it is little. Walks the lists of all threads.
    pub(crate) fn allocated_to_the_byte(&self, at_most: usize) -> usize {
        if at_most >= COUNTED_TO_THE_BYTE {
            return at_most;
        }
        let view = self.view();
        let allocated = view.allocated_bytes().wrapping_sub(self.allocated_before);
        let freed = view.freed_bytes().wrapping_sub(self.freed_before);
        at_most
            .min(allocated.saturating_sub(freed))
            .max(self.handed_at_least())
    }

    /// An eighth of what was handed out counts whatever became of it: without any collection free cells of one size would
    /// never become blocks for another.
    fn handed_at_least(&self) -> usize {
        self.space.account.handed / 8
    }

    /// Whether enough was allocated that a collection is due (`GC_collect_a_little`).
    pub fn is_collection_due(&self) -> bool {
        let measured = self.measure(0, 0);
        measured.may_collect
            && (heap_size::is_enough_allocated(&measured) || heap_size::is_scarce(&measured))
    }

    /// Raises the capacity.
    pub fn grow_to(&mut self, capacity: usize, reason: &'static str) {
        let before = self.space.capacity;
        self.space.capacity = capacity.max(before);
        self.totals.peak_capacity = self.totals.peak_capacity.max(self.space.capacity);
        self.bound_slack();
        if self.options.huge_pages == options::HugePages::Auto
            && self.space.capacity >= HUGE_PAGES_FROM
        {
            self.space.layout.set_huge_pages(true);
        }
        self.record_growth(before, reason);
    }

    /// Whether `word` may be an address in the heap.
    pub fn contains(&self, word: usize) -> bool {
        self.context.table.contains(word)
    }

    /// The base of the object that `word` points into, under no displacement rule.
    pub fn base_of(&self, word: usize) -> Option<Address> {
        self.space.object_at(word).map(|found| found.base)
    }

    /// Whether pointers past the first page of the object at `base` are ignored.
    pub fn ignores_off_page(&self, base: Address) -> bool {
        // SAFETY: a resolved object's block, under the lock.
        self.space
            .object_base(base.word())
            .is_some_and(|found| unsafe { (*found.block).has_flag(IGNORE_OFF_PAGE) })
    }

    /// Workers for the collection that is to begin, and why. Asks the system which processors are free, where that
    /// matters and is due.
    pub fn workers(&mut self) -> (usize, &'static str) {
        let expected = match self.space.census.composite_bytes {
            0 => self.space.used_bytes(),
            bytes => bytes,
        };
        let free = || {
            let processors = self.topology.refresh();
            if !self.topology.is_synthetic() {
                self.free_processors.look();
            }
            let free = self.free_processors.among(processors);
            free.min(crew_size::MOST).min(self.crew.helpers() + 1)
        };
        self.crew_size.decide(self.settings.markers, expected, free)
    }

    /// Settles how the collection that begins prefetches, where the configuration leaves that open. `is_whole` says
    /// whether it marks everything in this stop, and `crew` why it has the number of workers that it has.
    pub(crate) fn choose_prefetching(
        &mut self,
        record: &mut Record,
        is_whole: bool,
        crew: &'static str,
    ) {
        let Some(prefetching) = &mut self.prefetching else {
            return;
        };
        let (chosen, reason) = prefetching.decide(is_whole && crew != TRIAL);
        if self.engine.prefetch() != chosen {
            record.step(Phase::Prefetch, |event| event.reason = reason);
            self.engine.set_prefetch(chosen);
        }
    }

    /// Has those who decide how marking is done learn that it took `took_ns` nanoseconds with `workers` workers, for
    /// the `found` bytes that it found.
    pub(crate) fn note_marking(&mut self, workers: usize, found: usize, took_ns: u64) {
        if !self.prefetching.as_ref().is_some_and(Prefetching::tries) {
            self.crew_size.note(workers, found, took_ns);
        }
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.note(found, took_ns);
        }
    }

    /// The most workers of a collection that began now.
    pub fn most_workers(&mut self) -> usize {
        crew_size::most(self.settings.markers, || self.topology.refresh())
    }
}

/// The paper's time limit of a stop, beyond which marking goes on in steps (ISMM 2000, section 6).
pub const USUAL_TIME_LIMIT_NS: u64 = 50_000_000;

/// Finalizers registered since the last collection that call for one, as far as little was allocated for each.
const MANY_FINALIZERS: usize = 500;
/// As long as the heap has handed out no more since the last collection, cells that wait on the lists of threads are told from
/// those that were allocated. A block is handed out as a whole, so that a small program with objects of many sizes would
/// seem to have allocated many times as much.
const COUNTED_TO_THE_BYTE: usize = 4 << 20;
/// Capacity from which `huge-pages=auto` asks for huge pages.
const HUGE_PAGES_FROM: usize = 512 << 20;

/// Grey objects that wait in the queue of `prefetch=fifo`.
const FIFO_LENGTH: usize = 16;
/// References that wait for their marks to be checked under `prefetch=edges` (ISMM 2007, edge enqueuing).
const EDGES_LENGTH: usize = 64;

/// The marker's prefetch settings that the options ask for.
pub fn prefetch_settings(options: &Options) -> PrefetchSettings {
    PrefetchSettings {
        prefetch: match options.mark_prefetch {
            MarkPrefetch::None => Prefetch::None,
            MarkPrefetch::OnGrey => Prefetch::OnGrey,
            MarkPrefetch::Fifo => Prefetch::Fifo,
            MarkPrefetch::Edges | MarkPrefetch::Auto => Prefetch::Edges,
        },
        non_temporal: options.prefetch_hint == options::PrefetchHint::Nta,
        permuted: options.push_order == options::PushOrder::Permuted,
        look_ahead: options.look_ahead as usize,
        fifo_length: FIFO_LENGTH,
        edges_length: EDGES_LENGTH,
    }
}

/// The mark stack of each worker: by itself 16 MiB of addresses, of which only what is used takes memory. Under an address
/// limit it takes them from the heap, so there it is a 128th of the limit.
fn mark_stack_bytes(options: &Options, layout: &Layout, topology: &Topology) -> usize {
    let part = if layout.is_in_pieces() { 256 } else { 64 };
    match options.mark_arena {
        0 => (layout.table.span / part).clamp(1 << 20, 16 << 20),
        together => together / crew_size::most(options.markers as usize, || topology.processors),
    }
}
