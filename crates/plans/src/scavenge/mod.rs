//! The precise generational collector, Parallel Scavenge as ASPLOS 2013, section 2 describes it.
//!
//! Objects are born in eden. A scavenge copies what lives there to a survivor space, and to the old space what has
//! survived often enough. When the old space is full, everything is marked; then what lives is slid together, or stays
//! and the holes are filled. Large objects and such as may not move have spaces of their own. Mutators stop at polls.
//!
//! - [`mutator`], [`handles`]: roots, and what a mutator has to itself
//! - [`allocate`]: buffers, large and pinned objects, and when to collect
//! - [`collect`]: a collection, step by step; [`stop`]: how mutators stop, attach, detach and fork
//! - [`trace`]: what the workers do in parallel; [`roots`]: where they begin; [`copy`]: scavenging; [`mark`]: marking;
//!   [`compact`]: updating and sliding; [`edges`]: prefetching; [`weak`]: weak references, finalizers; `ephemerons`;
//!   [`waiting`]: those whose keys were not reached yet
//! - [`zeroing`]: what zeroes eden, and when; [`ahead`]: by threads of their own; `calibration`: which kernel is fastest
//! - `quarantine`, `checks`: for embedders who look for mistakes of theirs
//! - `sizes`: the ranges of the spaces; [`resize`]: the sizes of the generations after a collection; [`decide`]: as pure
//!   functions, what is decided then
//! - [`verify`]: the invariants, checked; [`walk`]: every object, for embedders; [`fork`]: before and after a fork
//!
//! The spaces lie in ascending order: immobile, old, eden, survivors, large. So one comparison tells what is surely old.
//!
//! # Invariants
//! - `collecting` is held by whoever stops the world, attaches or detaches; its holder is outside of the gate.
//! - The state is touched by the holder of `collecting` alone; all else is shared as its type says.
//! - The old, the immobile and the large space together use no more than `old_limit` bytes (I7).

pub mod ahead;
pub mod allocate;
mod calibration;
mod checks;
pub mod collect;
pub mod compact;
pub mod copy;
pub mod decide;
pub mod edges;
mod ephemerons;
pub mod fork;
pub mod handles;
pub mod mark;
pub mod mutator;
mod quarantine;
pub mod resize;
pub mod roots;
mod sizes;
pub mod stop;
pub mod trace;
pub mod verify;
pub mod waiting;
pub mod walk;
pub mod weak;
pub mod zeroing;
mod zeroing_time;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;

use gleaner_base::events::{Event, Ring};
use gleaner_base::options::{
    Generations, HugePages, OldPolicy, Parking, Prefetch, TraceOrder, Verify,
};
use gleaner_base::options::{Zeroing as ZeroingPolicy, ZeroingKernel};
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::cards::CardTable;
use gleaner_mem::header;
use gleaner_mem::object_bits::ObjectBits;
use gleaner_mem::object_model::{LEAST_BYTES, ObjectModel, Shape, TypeError, TypeId, TypeTable};
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_os::{clock, hugepages, log_file::LogFile, memory, refusal::Limit};
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::large_objects::LargeObjects;
use gleaner_spaces::precise::mark_compact::Plan;
use gleaner_spaces::precise::nursery::Nursery;
use gleaner_spaces::precise::tenured::{BlockBuffer, Tenured};
use gleaner_work::Crew;

use crate::scavenge::decide::generations;
use crate::scavenge::decide::young_size::YoungSize;
use crate::scavenge::decide::zeroing::Trials;
use crate::scavenge::stop::collecting::Collecting;
use crate::scavenge::stop::poll::PollGate;
use handles::Handles;
use mutator::{Mutator, RootVisitor, RootVisitorPlace};
use quarantine::Quarantine;
use sizes::Sizes;
use trace::Engine;
use weak::WeakTables;
use zeroing::{Contention, Zeroed, Zeroing};

/// Regions are multiples of this: whole pages, cards and words of mark bits.
pub const REGION_GRANULE: usize = 64 << 10;
/// The smallest heap.
pub const LEAST_LIMIT: usize = 1 << 20;
/// Larger objects have pages of their own and never move. Whoever allocates from a TLAB compares with this first; an
/// object that was allocated there all the same is collected correctly, but not promoted without sliding.
pub const LARGE_BYTES: usize = 16 << 10;

/// Why everything is collected under `generations=never`.
const NEVER: &str = "the young generation is never collected by itself";
const NO_ROOM: &str = "a promotion found no room";

/// How a heap is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of all spaces together.
    pub limit: usize,
    /// Bytes of the young generation; 0 for a third of the limit, or less at first where sizes change.
    pub young: usize,
    /// The generations change their sizes as [`next_sizes`](crate::scavenge::decide::generation_sizes::next_sizes) decides.
    pub resize: bool,
    /// Workers that collect.
    pub workers: usize,
    /// How the workers wait: whoever makes the crew makes it so.
    pub parking: Parking,
    /// How many scavenges an object survives in the young generation: it is promoted by the next one.
    pub tenure: u32,
    /// Bytes of a TLAB.
    pub tlab: usize,
    /// Whether the system is asked for huge pages.
    pub huge_pages: HugePages,
    /// How the old space is collected.
    pub old: OldPolicy,
    /// Whether the young generation is collected by itself.
    pub generations: Generations,
    /// Which grey object is scanned next.
    pub trace_order: TraceOrder,
    /// Whether the collector prefetches: `None`, or `Edges`.
    pub prefetch: Prefetch,
    /// When fresh memory is zeroed, and by whom.
    pub zeroing: ZeroingPolicy,
    /// What zeroes blocks.
    pub zeroing_kernel: ZeroingKernel,
    /// Bytes of a window.
    pub zeroing_window: usize,
    /// Bytes that a zeroing thread keeps ahead at most; 0 for all of eden.
    pub zeroing_lead: usize,
    /// Zeroing threads of the designs that have several.
    pub zeroing_threads: usize,
    /// Checks the invariants at the edges of phases.
    pub verify: Verify,
    /// Collects at every n-th allocation; 0 for never.
    pub stress: u32,
    /// Overwrites what is freed.
    pub poison: bool,
    /// How many collections pass before evacuated addresses of the nursery are used again; 0 for none, and no checks of
    /// allocations.
    pub quarantine: u32,
}

/// Why a heap cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateError {
    /// Less than [`LEAST_LIMIT`].
    TooSmall(usize),
    /// The references do not reach so far.
    Span {
        /// Bytes that the spaces need.
        asked: usize,
        /// Bytes that references reach.
        reach: usize,
    },
    /// The young generation leaves nothing for the old one.
    Young {
        /// Bytes of the young generation.
        young: usize,
        /// Bytes of the heap.
        limit: usize,
    },
    /// The system gives no memory for this, for that reason.
    Memory(&'static str, Limit),
}

impl fmt::Display for CreateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::TooSmall(limit) => write!(
                out,
                "a heap limit of {limit} bytes: the smallest is {LEAST_LIMIT}"
            ),
            CreateError::Span { asked, reach } => write!(
                out,
                "the heap needs {asked} bytes of addresses, and its references reach {reach}: choose a smaller limit{}",
                if *reach < Wide::SPAN {
                    ", or wide references"
                } else {
                    ""
                }
            ),
            CreateError::Young { young, limit } => write!(
                out,
                "a young generation of {young} bytes in a heap of {limit}: it takes at most nine tenths"
            ),
            CreateError::Memory(what, limit) => write!(
                out,
                "the system gives no memory for {what}: {}; or choose a smaller heap",
                limit.text()
            ),
        }
    }
}

impl core::error::Error for CreateError {}

/// Sums over the life of a heap.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Collections of the young generation.
    pub scavenges: u64,
    /// Collections of the whole heap.
    pub full_collections: u64,
    /// Time in which the world was stopped, in nanoseconds.
    pub stopped_ns: u64,
    /// The longest single stop.
    pub longest_stop_ns: u64,
    /// Bytes copied within the young generation.
    pub survived_bytes: u64,
    /// Bytes copied to the old space by scavenges.
    pub promoted_bytes: u64,
    /// How often collections looked at the key of an ephemeron.
    pub ephemeron_looks: u64,
    /// What zeroing came to until the last collection, in nanoseconds.
    pub zeroed: Zeroed,
}

/// Moving averages over the last collections, and what was decided. Sizes are in bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Lately {
    /// What scavenges promoted.
    promoted: usize,
    /// What the last one promoted.
    last_promoted: usize,
    /// What survived in the young generation.
    survived: usize,
    /// What survived the last scavenge of what had been allocated just before.
    fresh: usize,
    /// Nanoseconds that scavenges took for each KB that they copied.
    copy_ns_per_kb: usize,
    /// The share of the time that scavenges took, in thousandths.
    scavenge_share: usize,
    /// The share that full collections took.
    full_share: usize,
    /// When the world was resumed.
    resumed_ns: u64,
    /// What all spaces held after the last collection.
    used: usize,
    /// Of that, what large and immobile objects took.
    beside_used: usize,
    /// What was allocated between collections.
    allocated: usize,
    /// Of that, what large and immobile objects took.
    beside: usize,
    /// What the young generation is to have while it is collected by itself.
    young: usize,
    /// Up to which the old, the immobile and the large space are to be filled before everything is collected.
    old_target: usize,
    /// What collections took since the full one before the last, for want of room, in nanoseconds.
    cycle_ns: u64,
    /// What was allocated meanwhile.
    cycle_allocated: usize,
}

/// What the last full collection was like.
#[derive(Clone, Copy, Default, Debug)]
struct LastFull {
    /// What it took.
    ns: u64,
    /// Bytes in the young generation that lived.
    young_lived: usize,
    /// Bytes that the old generation held afterwards, holes left out.
    filled: usize,
}

/// What only the holder of `collecting` touches.
pub struct State {
    /// Attached mutators, with the numbers handed out so far.
    mutators: Vec<NonNull<Mutator>>,
    next_number: u32,
    engine: Engine,
    /// Where ephemerons wait for their keys during a trace.
    waiting: waiting::Memory,
    /// Under `quarantine`, where the guards of eden begin.
    guarded_from: Address,
    /// Why the next collection has to be of everything, if it has.
    wants_full: Option<&'static str>,
    /// Whether the young generation is collected by itself.
    scavenging: bool,
    /// What is known of the last collections.
    lately: Lately,
    last_full: LastFull,
    /// What is known of sizes of the young generation.
    young_size: YoungSize,
    /// And of collecting it by itself.
    generations: generations::Memory,
    /// What zeroing came to until the last collection, in ticks.
    zeroed: Zeroed,
    /// What mutators zeroed since then that are gone.
    zeroed_by_others: Zeroed,
    /// Where `zeroing=auto` is.
    zeroing_trials: Trials,
    /// And whether a zeroing thread would have a processor.
    contention: Contention,
    /// Sums.
    pub totals: Totals,
    /// The last events.
    pub events: Ring,
    /// Where events go as JSON lines.
    pub log: Option<LogFile>,
}

/// What is told the events of each collection when it is over: by the thread that led it, which is outside of the gate
/// and holds no lock, so several may be told at once.
pub type Listener = dyn Fn(&[Event]) + Send + Sync;

/// A heap of precise objects with slots of format `F`.
pub struct Scavenge<F> {
    /// How it was set up; sizes are rounded.
    pub config: Config,
    /// The layout of objects.
    pub model: ObjectModel<F>,
    /// The young generation.
    pub nursery: Nursery,
    /// Where it was.
    quarantine: Quarantine,
    /// How eden is zeroed.
    pub zeroing: Zeroing,
    /// The old space.
    pub old: Tenured,
    /// Small objects that may not move.
    pub immobile: Tenured,
    /// Objects of more than [`LARGE_BYTES`].
    pub large: LargeObjects,
    /// Which cards were stored into, for the whole span.
    pub cards: CardTable,
    /// Where objects of the old and the immobile space begin; during a collection, more.
    pub bits: ObjectBits,
    /// Global handles.
    pub handles: Handles,
    /// Weak references, ephemerons, finalizers.
    pub weak: WeakTables,
    /// Who is inside.
    pub gate: PollGate,
    /// Set before the heap is shared.
    pub listener: Option<Box<Listener>>,
    /// What the thread that is to lead a collection does first, outside of the gate and without a lock: it makes the
    /// threads that the heap is to have and has not. Set before the heap is shared.
    pub before_collection: Option<Box<dyn Fn() + Send + Sync>>,
    /// Asked when a stop takes long: which mutators inside the gate are of threads that have ended. Nobody else speaks for
    /// them from then on. Set before the heap is shared.
    pub ended: Option<Box<dyn Fn() -> Vec<NonNull<Mutator>> + Send + Sync>>,
    root_visitor: RootVisitorPlace,
    /// See the invariants.
    collecting: Collecting<State>,
    plan: Plan,
    /// The least young generation that makes sense, in bytes.
    least_young: usize,
    /// Bytes that the old, the immobile and the large space may use together. Written in a stopped world.
    old_limit: AtomicUsize,
    /// Young large objects take at most so many bytes before a scavenge. Written in a stopped world; relaxed, since it is
    /// no more than a number to compare with.
    young_large_limit: AtomicUsize,
    /// The highest top of the old space since memory above its top was released. Written as `beside` says.
    old_high: AtomicUsize,
    /// Held by a mutator inside the gate that allocates in the immobile or the large space: a stopped world is as good.
    beside: RawLock,
    /// Bytes of pinned objects since everything was collected, each as small ones or with pages of its own. Written as
    /// `beside` says.
    pinned: AtomicUsize,
    /// With so many everything is collected. Written in a stopped world.
    pinned_due: AtomicUsize,
    /// Where the immobile space is filled. As `beside` says.
    immobile_buffer: UnsafeCell<BlockBuffer>,
    crew: &'static Crew,
    /// Collections so far; raised in stopped worlds, read by mutators to see whether somebody collected before them.
    epoch: AtomicU64,
    reservation: (NonNull<u8>, usize),
}

// SAFETY: the state is protected by `collecting`, the rest is made for sharing.
unsafe impl<F: SlotFormat> Sync for Scavenge<F> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl<F: SlotFormat> Send for Scavenge<F> {}

impl<F: SlotFormat> Scavenge<F> {
    /// Makes a heap. Helpers for `config.workers` workers may be added to the crew before or later.
    pub fn new(config: Config, crew: &'static Crew) -> Result<Box<Scavenge<F>>, CreateError> {
        let mut refused = CreateError::Memory("its spaces", Limit::Other);
        for sizes in Sizes::candidates(&config, F::SPAN)?.into_iter().flatten() {
            match Scavenge::with_sizes(config, sizes, crew) {
                Ok(heap) => return Ok(heap),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn with_sizes(
        mut config: Config,
        sizes: Sizes,
        crew: &'static Crew,
    ) -> Result<Box<Scavenge<F>>, CreateError> {
        config.limit = sizes.limit;
        config.workers = config.workers.clamp(1, gleaner_work::MAX_WORKERS);
        let span = sizes.span();
        let need = |what| move || CreateError::Memory(what, memory::refusal());
        let start = memory::reserve(span, REGION_GRANULE).ok_or_else(need("its addresses"))?;
        let base = Address::of(start.as_ptr());
        let reserved = Reserved(start, span);
        // SAFETY: the reservation is ours; the first pages stay without access.
        if !unsafe { memory::commit(start.add(REGION_GRANULE), span - REGION_GRANULE) } {
            return Err(need("its spaces")());
        }
        let immobile = base.add(REGION_GRANULE);
        let old = immobile.add(sizes.immobile);
        let eden = old.add(sizes.old);
        let large = eden.add(sizes.young());
        // SAFETY: the old space and the nursery are committed memory of ours.
        unsafe { ask_for_huge_pages(&config, old, large.offset_from(old)) };
        let types = TypeTable::new().ok_or_else(need("its types"))?;
        // Every object, and every chunk of an array, may lie on one stack.
        let items = config.limit / LEAST_BYTES + config.limit / (trace::CHUNK_SLOTS * F::BYTES);
        let engine = Engine::new(config.workers, items, config.trace_order)
            .ok_or_else(need("its workers"))?;
        let mut heap = Box::new(Scavenge {
            model: ObjectModel::new(types, base),
            nursery: sizes.nursery(eden),
            quarantine: Quarantine::new(),
            zeroing: Zeroing::new(&config, eden, sizes.edens()).ok_or_else(need("its blocks"))?,
            old: Tenured::new(BumpRegion::new(old, sizes.old)).ok_or_else(need("its blocks"))?,
            immobile: Tenured::new(BumpRegion::new(immobile, sizes.immobile))
                .ok_or_else(need("its blocks"))?,
            large: LargeObjects::new(large, sizes.large).ok_or_else(need("its large objects"))?,
            cards: CardTable::new(base, span).ok_or_else(need("its cards"))?,
            bits: ObjectBits::new(base, span).ok_or_else(need("its object bits"))?,
            handles: Handles::new(1, handles::most_handles(config.limit))
                .ok_or_else(need("its handles"))?,
            weak: WeakTables::new(handles::most_handles(config.limit))
                .ok_or_else(need("its weak references"))?,
            gate: PollGate::new(),
            listener: None,
            before_collection: None,
            ended: None,
            root_visitor: RootVisitorPlace::default(),
            collecting: Collecting::new(State {
                mutators: Vec::new(),
                next_number: 1,
                engine,
                waiting: waiting::Memory::default(),
                guarded_from: eden,
                wants_full: (config.generations == Generations::Never).then_some(NEVER),
                scavenging: config.generations != Generations::Never,
                last_full: LastFull::default(),
                young_size: YoungSize::new(),
                generations: generations::Memory::new(),
                zeroed: Zeroed::default(),
                zeroed_by_others: Zeroed::default(),
                zeroing_trials: Trials::default(),
                contention: Contention::default(),
                lately: Lately {
                    resumed_ns: clock::monotonic_ns(),
                    young: sizes.first_young(),
                    old_target: sizes.first_old_target(),
                    ..Lately::default()
                },
                totals: Totals::default(),
                events: Ring::new(),
                log: None,
            }),
            plan: Plan::new(base, span).ok_or_else(need("its compactor"))?,
            old_limit: AtomicUsize::new(sizes.limit - sizes.first_young()),
            least_young: sizes.least_young(),
            young_large_limit: AtomicUsize::new(sizes.first_eden()),
            old_high: AtomicUsize::new(old.word()),
            beside: RawLock::new(),
            pinned: AtomicUsize::new(0),
            pinned_due: AtomicUsize::new(sizes.first_old_target()),
            immobile_buffer: UnsafeCell::new(BlockBuffer::default()),
            crew,
            epoch: AtomicU64::new(0),
            reservation: (start, span),
            config,
        });
        core::mem::forget(reserved);
        heap.begin_quarantine();
        Ok(heap)
    }

    /// Adds a type.
    pub fn register(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        self.model.types.register(shape, F::BYTES)
    }

    /// A thread becomes a mutator, inside the gate. It must not be inside as another one: it may have to wait for a
    /// collection here. The record stays in place until it is detached; the collector changes it in stopped worlds.
    /// `None` when the system gives no memory.
    pub fn attach(&self) -> Option<NonNull<Mutator>> {
        self.collecting.attach(&self.gate, |state| {
            let number = state.next_number;
            let cards = self.cards.biased();
            let (base, stress) = (self.model.base, self.config.stress);
            let visitor = NonNull::from(&self.root_visitor);
            let mutator = Mutator::new(number, F::BYTES as u32, base, cards, stress, visitor)?;
            let record = NonNull::from(Box::leak(Box::new(mutator)));
            state.next_number += 1;
            state.mutators.push(record);
            Some(record)
        })
    }

    /// A mutator that is inside the gate leaves it for good, without roots: collections go on without it, and none looks
    /// at its frames, which may be gone. It waits for nobody.
    ///
    /// # Safety
    /// `attach` of this heap gave the record. [`Scavenge::detach`] is all that follows.
    pub unsafe fn leave_for_good(&self, record: NonNull<Mutator>) {
        // SAFETY: the record exists until it is detached; inside the gate its cells are the caller's.
        unsafe { record.as_ref().forget_roots() };
        self.gate.leave();
    }

    /// A mutator that is outside of the gate stops being one. It may have to wait for a collection here.
    ///
    /// # Safety
    /// `attach` of this heap gave the record, which is not used again.
    pub unsafe fn detach(&self, record: NonNull<Mutator>) {
        // SAFETY: leaked by `attach`; without a collection only its owner, the caller, looks at it, and at its buffer.
        let mutator = self.collecting.detach(&self.gate, |state| unsafe {
            state.mutators.retain(|&other| other != record);
            let mutator = Box::from_raw(record.as_ptr());
            mutator.retire_tlab();
            state.zeroed_by_others.add(mutator.zeroed.get());
            mutator
        });
        drop(mutator);
    }

    /// Sums so far. The caller is no mutator inside the gate.
    pub fn totals(&self) -> Totals {
        self.collecting.with(&self.gate, |state| Totals {
            zeroed: self.zeroing.in_nanoseconds(state.zeroed),
            ..state.totals
        })
    }

    /// Where events are written from now on. The caller is no mutator inside the gate.
    pub fn set_log(&self, log: Option<LogFile>) {
        self.collecting.with(&self.gate, |state| state.log = log);
    }

    /// Who visits the roots in compiled frames from now on. The caller is no mutator inside the gate.
    ///
    /// # Safety
    /// The function keeps what [`RootVisitor`] asks.
    pub unsafe fn set_root_visitor(&self, visitor: Option<RootVisitor>) {
        // SAFETY: the lock is held.
        self.collecting
            .with(&self.gate, |_| unsafe { self.root_visitor.set(visitor) });
    }

    /// Bytes of all spaces in use: objects, dead or alive, and buffers.
    pub fn used(&self) -> usize {
        self.nursery.used() + self.old_used()
    }

    /// Bytes in use of the old, the immobile and the large space: what `old_limit` limits.
    fn old_used(&self) -> usize {
        self.old.region.used() + self.immobile.region.used() + self.large.used()
    }

    /// Of those, bytes that are free: in holes.
    fn old_holes(&self) -> usize {
        self.old.holes() + self.immobile.holes()
    }

    /// Bytes in use of the immobile and the large space.
    fn beside_used(&self) -> usize {
        self.immobile.region.used() + self.large.used()
    }

    /// Bytes that those may take yet.
    fn old_left(&self) -> usize {
        let limit = self.old_limit.load(Ordering::Relaxed);
        limit.saturating_sub(self.old_used())
    }

    /// Bytes of side metadata. They do not count toward the limit.
    pub fn metadata_bytes(&self) -> usize {
        self.cards.bytes() + self.bits.bytes() + self.plan.bytes() + self.large.metadata_bytes()
    }

    /// Whether an object is in eden or a survivor space.
    #[inline(always)]
    pub fn in_nursery(&self, object: Address) -> bool {
        object.offset_from(self.nursery.start()) < self.nursery.bytes()
    }

    /// Whether an object stays where it is as long as it lives.
    pub fn never_moves(&self, object: Address) -> bool {
        object < self.old.region.start() || self.large.contains(object)
    }

    /// Whether an object is young.
    #[inline(always)]
    pub fn is_young(&self, object: Address) -> bool {
        object >= self.nursery.start() && (self.in_nursery(object) || self.large.is_young(object))
    }

    /// Whether the object at `object` may hold references.
    fn has_slots(&self, object: Address) -> bool {
        // SAFETY: the callers know of an object there.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        !matches!(
            self.model.shape(header.type_id()),
            Some(Shape::Primitives { .. })
        )
    }
}

/// The limit from which `huge-pages=auto` asks for huge pages. In smaller heaps they are faster on average, but now and
/// then one takes long to get.
const HUGE_PAGES_FROM: usize = 512 << 20;

/// # Safety
/// The range is memory of the caller's.
unsafe fn ask_for_huge_pages(config: &Config, start: Address, bytes: usize) {
    let Some(start) = NonNull::new(start.ptr::<u8>()) else {
        return;
    };
    match config.huge_pages {
        HugePages::Auto if config.limit < HUGE_PAGES_FROM => {}
        // It is advice: the kernel may not know of huge pages.
        // SAFETY: the caller's promise.
        HugePages::On | HugePages::Auto => drop(unsafe { hugepages::advise(start, bytes) }),
        // SAFETY: as above.
        HugePages::Off => drop(unsafe { hugepages::unadvise(start, bytes) }),
    }
}

/// Gives the addresses back if a heap is not finished.
struct Reserved(NonNull<u8>, usize);

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours, and nothing of it was handed out.
        unsafe { memory::unmap(self.0, self.1) };
    }
}

impl<F> Drop for Scavenge<F> {
    fn drop(&mut self) {
        self.quarantine.end();
        let (start, bytes) = self.reservation;
        // SAFETY: nobody has the heap any more.
        unsafe { memory::unmap(start, bytes) };
    }
}
