//! A precise heap: its spaces and tables, how it is made, and how threads become its mutators.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::events::{Event, Ring};
use gleaner_base::options::{Generations, HugePages, Pages};
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::cards::CardTable;
use gleaner_mem::header;
use gleaner_mem::object_bits::{BitTables, ObjectBits};
use gleaner_mem::object_model::{
    ELEMENTS, LEAST_BYTES, ObjectModel, Shape, TypeError, TypeId, TypeTable,
};
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::Pieces;
use gleaner_os::memory::{Access, NotMapped};
use gleaner_os::numa::Refusal;
use gleaner_os::{clock, hugepages, log_file::LogFile, memory};
use gleaner_spaces::precise::arraylets::Arraylets;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::large_objects::LargeObjects;
use gleaner_spaces::precise::mark_compact::Plan;
use gleaner_spaces::precise::nursery::Nursery;
use gleaner_spaces::precise::regions::{Kind, MOST_NODES, Regions};
use gleaner_spaces::precise::tenured::Tenured;
use gleaner_work::{Crew, Synchronisation};

use super::arrays::guard::Guard;
use super::beside::Beside;
use super::checks::quarantine::Quarantine;
use super::config::{Config, CreateError, LARGE_BYTES, LEAST_LIMIT, REGION_GRANULE};
use super::crew_sizes::CrewSizes;
use super::handles::Handles;
use super::locality::Locality;
use super::mutator::{Mutator, RootVisitor, RootVisitorPlace};
use super::mutator_list::MutatorList;
use super::nodes::lockstep::Lockstep;
use super::report::Censuses;
use super::sizes::Sizes;
use super::state::{LastFull, Lately, State, Totals};
use super::trace::Engine;
use super::weak::WeakTables;
use super::zeroing::{Contention, Zeroed, Zeroing};
use super::{handles, locality, nodes::segregated, trace, waiting};
use crate::scavenge::decide::generations;
use crate::scavenge::decide::young_size::YoungSize;
use crate::scavenge::decide::zeroing::Trials;
use crate::scavenge::stop::collecting::Collecting;
use crate::scavenge::stop::poll::PollGate;

/// Why everything is collected under `generations=never`.
pub(super) const NEVER: &str = "the young generation is never collected by itself";
pub(super) const NO_ROOM: &str = "a promotion found no room";

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
    pub(super) quarantine: Quarantine,
    pub(super) guard: Guard,
    /// How eden is zeroed.
    pub zeroing: Zeroing,
    /// The old space.
    pub old: Tenured,
    /// Small objects that may not move.
    pub pinned: Tenured,
    /// Objects of more than [`LARGE_BYTES`](super::LARGE_BYTES).
    pub large: LargeObjects,
    /// Pieces of arrays, if arrays are cut.
    pub(super) arraylets: Option<Arraylets>,
    /// Which cards were stored into, for the whole span.
    pub cards: CardTable,
    /// Where objects of the old and the pinned space begin, and during a collection, more; and what marking sets.
    pub tables: BitTables,
    /// Global handles.
    pub handles: Handles,
    /// Weak references, ephemerons, finalizers.
    pub weak: WeakTables,
    /// Which memory node each page belongs to, where that is counted.
    pub(super) locality: Option<Locality>,
    /// Counts the mutators inside.
    pub gate: PollGate,
    /// Set before the heap is shared.
    pub listener: Option<Box<Listener>>,
    /// What the thread that is to lead a collection does first, outside of the gate and without a lock: it makes the
    /// threads that the heap is to have and has not. Set before the heap is shared.
    pub before_collection: Option<Box<dyn Fn() + Send + Sync>>,
    /// Asked when a stop takes long: which mutators inside the gate are of threads that have ended. Nobody else speaks
    /// for them from then on. Set before the heap is shared.
    pub ended: Option<Box<dyn Fn() -> Vec<NonNull<Mutator>> + Send + Sync>>,
    pub(super) root_visitor: RootVisitorPlace,
    /// See the invariants.
    pub(super) collecting: Collecting<State>,
    pub(super) plan: Plan,
    /// The least young generation that makes sense, in bytes.
    pub(super) least_young: usize,
    /// Bytes that the old, the pinned and the large space may use together. Written in a stopped world.
    pub(super) old_limit: AtomicUsize,
    /// Young large objects take at most so many bytes before a scavenge. Written in a stopped world; relaxed, since it
    /// is no more than a number to compare with.
    pub(super) young_large_limit: AtomicUsize,
    /// The highest top of the old space since memory above its top was released. Written as `beside` says.
    pub(super) old_high: AtomicUsize,
    /// How high it has been since memory was last looked for that it does not need. Written in stopped worlds.
    pub(super) old_high_lately: AtomicUsize,
    /// For allocation in the pinned and the large space and that of arraylets.
    pub(super) beside: Beside,
    /// Bytes of pinned objects since everything was collected, each as small ones or with pages of its own. Written as
    /// `beside` says.
    pub(super) pinned_lately: AtomicUsize,
    /// With so many everything is collected. Written in a stopped world.
    pub(super) pinned_due: AtomicUsize,
    /// Bytes that were allocated since the last census of arrays, as far as mutators have told. Relaxed: it is no more
    /// than a number to compare with.
    pub(super) uncounted: AtomicUsize,
    pub(super) crew: &'static Crew,
    /// Collections so far; raised in stopped worlds, read by mutators to see whether another thread collected before
    /// them.
    pub(super) epoch: AtomicU64,
    pub(super) reservation: (NonNull<u8>, usize),
    /// Why the kernel does not place pages as the options say, if it does not.
    pub refusal: Option<Refusal>,
}

// SAFETY: the state is protected by `collecting`, the rest is made for sharing.
unsafe impl<F: SlotFormat> Sync for Scavenge<F> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl<F: SlotFormat> Send for Scavenge<F> {}

impl<F: SlotFormat> Scavenge<F> {
    /// Makes a heap. Helpers for `config.workers` workers may be added to the crew before or later.
    pub fn new(mut config: Config, crew: &'static Crew) -> Result<Box<Scavenge<F>>, CreateError> {
        let left = memory::addresses_left();
        if config.options.heap_limit == 0 {
            let most = Sizes::most_limit(&config, F::SPAN);
            let fitting = left.map_or(most, |left| most.min(left as usize / 4));
            config.limit = config.limit.min(fitting.max(LEAST_LIMIT));
        }
        // Others than these give addresses access or a place as a whole.
        let is_plain = config.cutting.is_none() && config.topology.nodes() == 1;
        if let (true, Some(left)) = (is_plain, left) {
            return Scavenge::as_used(config, left as usize, crew);
        }
        let mut sizes = Sizes::within(&config, F::SPAN)?;
        let least = Sizes::least_span(&config)?;
        let _left = left.and_then(|left| leave_addresses(left as usize));
        loop {
            let refused = match Scavenge::with_sizes(config, sizes, crew) {
                Ok(heap) => return Ok(heap),
                Err(refused) => refused,
            };
            let span = sizes.span();
            if span <= least {
                return Err(refused);
            }
            // The side tables take their part of what the system gives, too: less is tried until all of it fits.
            sizes = Sizes::within(&config, (span / 8 * 7).max(least))?;
        }
    }

    /// Makes a heap of which the addresses of large objects are taken as they are used. The others have as many as leave room
    /// for large objects to be all of it and an eighth to the program, and half of what is left at most.
    fn as_used(
        config: Config,
        left: usize,
        crew: &'static Crew,
    ) -> Result<Box<Scavenge<F>>, CreateError> {
        let large = config.limit.saturating_add(tables_of(config.limit));
        let mut most = (left / 8 * 7).saturating_sub(large).min(left / 2);
        loop {
            let sizes = Sizes::as_used(&config, F::SPAN, most)?;
            let refused = match Scavenge::with_sizes(config, sizes, crew) {
                Ok(heap) => return Ok(heap),
                Err(refused) => refused,
            };
            if sizes.reserved() > most {
                return Err(refused);
            }
            most = most / 8 * 7;
        }
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
        let reserved = if sizes.as_used {
            map_apart(sizes.reserved(), span)
        } else {
            memory::reserve(span, REGION_GRANULE).map(|start| Reserved(start, span))
        };
        let reserved = reserved.ok_or_else(need("its addresses"))?;
        let start = reserved.0;
        let base = Address::of(start.as_ptr());
        let is_usable = sizes.as_used
            // SAFETY: the reservation is ours; the first pages stay without access.
            || unsafe { memory::commit(start.add(REGION_GRANULE), span - REGION_GRANULE) };
        if !is_usable {
            return Err(need("its spaces")());
        }
        let [pinned, old, eden, large, arraylets] = [
            Kind::Pinned,
            Kind::Old,
            Kind::Eden,
            Kind::Large,
            Kind::Arraylets,
        ]
        .map(|kind| sizes.start(base, kind));
        let pieces = config.cutting.map_or(Pieces::WHOLE, |cutting| {
            let (first_n, shift) = (cutting.first_n, cutting.arraylet_shift);
            let zero = Arraylets::zero_of(arraylets);
            let pieces = Pieces::new(first_n, shift, F::BYTES, base, zero);
            if cutting.guard {
                pieces.in_guard_mode()
            } else {
                pieces
            }
        });
        // A huge page would reach beyond the end of a fragment, where it holds no memory of the budget (I7).
        let small_from = if config.cut.nodes > 1 { eden } else { large };
        // SAFETY: the old space and the nursery are committed memory of ours.
        unsafe {
            let huge_pages = config.options.huge_pages;
            ask_for_huge_pages(&config, huge_pages, old, small_from.offset_from(old));
            ask_for_huge_pages(
                &config,
                HugePages::Off,
                small_from,
                large.offset_from(small_from),
            );
        }
        let locality =
            Locality::new(&config, base, span).map_err(|()| need("its pages' nodes")())?;
        let sums = locality::no_sums(locality.as_ref());
        let types = TypeTable::new().ok_or_else(need("its types"))?;
        // Every object, and every chunk of an array, may lie on one stack.
        let mut items = config.limit / LEAST_BYTES + config.limit / (trace::CHUNK_SLOTS * F::BYTES);
        if pieces.cut() {
            items += config.limit / (trace::CHUNK_POINTERS * F::BYTES);
        }
        let is_segregated = config.options.pages == Pages::Segregated && config.cut.nodes > 1;
        if is_segregated {
            items += config.workers * segregated::MOST_WAITING;
        }
        let mut engine = Engine::new(
            config.workers,
            config.homes,
            items,
            config.options.trace_order,
        )
        .ok_or_else(need("its workers"))?;
        if let Some(lockstep) = Lockstep::of(&config.options) {
            engine.take_turns(lockstep);
        }
        if is_segregated {
            let apart = engine.segregate(config.cut.nodes);
            apart.ok_or_else(need("its workers' messages"))?;
        }
        let mut heap = Box::new(Scavenge {
            model: ObjectModel::new(types, base, pieces),
            nursery: sizes.nursery(base),
            quarantine: Quarantine::new(&config),
            guard: Guard::default(),
            zeroing: Zeroing::new(&config, eden, sizes.range(Kind::Eden))
                .ok_or_else(need("its blocks"))?,
            old: Tenured::new(BumpRegion::new(old, sizes.old)).ok_or_else(need("its blocks"))?,
            pinned: Tenured::new(BumpRegion::new(pinned, sizes.pinned))
                .ok_or_else(need("its blocks"))?,
            large: LargeObjects::new(large, sizes.large, sizes.as_used)
                .ok_or_else(need("its large objects"))?,
            arraylets: match config.cutting {
                None => None,
                Some(_) => {
                    let shift = pieces.arraylet_shift;
                    let space = Arraylets::new(arraylets, sizes.arraylets, shift);
                    Some(space.ok_or_else(need("its arraylets"))?)
                }
            },
            cards: CardTable::new(base, span).ok_or_else(need("its cards"))?,
            tables: BitTables::new(base, span).ok_or_else(need("its object bits"))?,
            handles: Handles::new(1, handles::most_handles(config.limit))
                .ok_or_else(need("its handles"))?,
            weak: WeakTables::new(handles::most_handles(config.limit))
                .ok_or_else(need("its weak references"))?,
            locality,
            gate: PollGate::new(),
            listener: None,
            before_collection: None,
            ended: None,
            root_visitor: RootVisitorPlace::default(),
            collecting: Collecting::new(State {
                mutators: MutatorList::new(),
                next_number: 1,
                engine,
                crew_sizes: CrewSizes::new(&config),
                waiting: waiting::Memory::default(),
                guarded_from: [Address::NULL; MOST_NODES],
                wants_full: (config.options.generations == Generations::Never).then_some(NEVER),
                scavenging: config.options.generations != Generations::Never,
                last_full: LastFull::default(),
                young_size: YoungSize::new(),
                generations: generations::Memory::new(),
                zeroed: Zeroed::default(),
                zeroed_by_others: Zeroed::default(),
                zeroing_trials: Trials::default(),
                contention: Contention::new(&config),
                lately: Lately {
                    resumed_ns: clock::monotonic_ns(),
                    young: sizes.first_young(),
                    old_target: sizes.first_old_target(),
                    ..Lately::default()
                },
                censuses: Censuses::default(),
                totals: Totals::default(),
                locality: sums,
                events: Ring::new(),
                log: None,
            }),
            plan: Plan::new(base, span).ok_or_else(need("its compactor"))?,
            old_limit: AtomicUsize::new(sizes.limit - sizes.first_young()),
            least_young: sizes.least_young(),
            young_large_limit: AtomicUsize::new(sizes.first_eden()),
            old_high: AtomicUsize::new(old.word()),
            old_high_lately: AtomicUsize::new(old.word()),
            beside: Beside::new(),
            pinned_lately: AtomicUsize::new(0),
            pinned_due: AtomicUsize::new(sizes.first_old_target()),
            uncounted: AtomicUsize::new(0),
            crew,
            epoch: AtomicU64::new(0),
            reservation: (start, span),
            refusal: None,
            config,
        });
        core::mem::forget(reserved);
        heap.refusal = heap.place_pages().err();
        heap.begin_quarantine();
        heap.begin_guard();
        Ok(heap)
    }

    /// Adds a type.
    pub fn register(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        self.model.types.register(shape, F::BYTES)
    }

    /// Adds a type, and if it is one of arrays, they always lie in one piece.
    pub fn register_whole(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        self.model.types.register_whole(shape, F::BYTES)
    }

    /// Larger arrays are not allocated by inlined code, in bytes of the object: they may be cut, or are large. Where a
    /// report is made, none is, so that all are counted.
    pub fn whole_bytes(&self) -> usize {
        if self.config.options.array_report > 0 {
            return 0;
        }
        let cutting = self.config.cutting;
        cutting.map_or(LARGE_BYTES, |cutting| {
            LARGE_BYTES.min(cutting.first_n + ELEMENTS)
        })
    }

    /// A thread becomes a mutator, inside the gate. It must not be inside as another one: it may have to wait for a
    /// collection here. The record stays in place until it is detached; the collector changes it in stopped worlds.
    /// `None` when the system gives no memory.
    pub fn attach(&self) -> Option<NonNull<Mutator>> {
        self.collecting.attach(&self.gate, |state| {
            let number = state.next_number;
            let cards = self.cards.biased();
            let (base, stress) = (self.model.base, self.config.options.stress);
            let visitor = NonNull::from(&self.root_visitor);
            let slot_bytes = F::BYTES as u32;
            let cut = (self.model.pieces, self.whole_bytes());
            let mut mutator = Mutator::new(number, slot_bytes, base, cards, cut, stress, visitor)?;
            mutator.set_tally(self.new_tally());
            let record = NonNull::from(Box::leak(Box::new(mutator)));
            state.next_number += 1;
            // SAFETY: leaked just now, and freed when it was taken off the list.
            unsafe { state.mutators.push(record) };
            Some(record)
        })
    }

    /// A mutator that is inside the gate leaves it for good, without roots: collections go on without it, and none
    /// looks at its frames, which may be gone. It waits for nobody.
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
            state.mutators.remove(record);
            let mutator = Box::from_raw(record.as_ptr());
            self.keep_of(state, &mutator);
            mutator
        });
        drop(mutator);
    }

    /// What a heap keeps of a mutator that ends: it gives up its buffer, and what it counted is added up.
    ///
    /// # Safety
    /// The buffer is the calling thread's, or nobody else uses it.
    pub(super) unsafe fn keep_of(&self, state: &mut State, mutator: &Mutator) {
        // SAFETY: nobody else uses the buffer, as asked.
        unsafe { mutator.retire_tlab() };
        state.zeroed_by_others.add(mutator.zeroed.get());
        state.totals.arrays.add(mutator.array_counts.get());
        self.keep_tally(state, mutator);
    }

    /// Sums so far. The caller is no mutator inside the gate.
    pub fn totals(&self) -> Totals {
        self.collecting.with(&self.gate, |state| Totals {
            zeroed: self.zeroing.in_nanoseconds(state.zeroed),
            ..state.totals
        })
    }

    /// What the workers of all collections so far did with each other. The caller is no mutator inside the gate.
    pub fn synchronisation(&self) -> Synchronisation {
        self.collecting
            .with(&self.gate, |_| self.crew.synchronisation())
    }

    /// Where events are written from now on. The caller is no mutator inside the gate.
    pub fn set_log(&self, log: Option<LogFile>) {
        self.collecting.with(&self.gate, |state| state.log = log);
    }

    /// Sets the function that visits the roots in compiled frames from now on. The caller is no mutator inside the
    /// gate.
    ///
    /// # Safety
    /// The function keeps what [`RootVisitor`] asks.
    pub unsafe fn set_root_visitor(&self, visitor: Option<RootVisitor>) {
        // SAFETY: `collecting` is held, and the function keeps what [`RootVisitor`] asks, as asked.
        self.collecting
            .with(&self.gate, |_| unsafe { self.root_visitor.set(visitor) });
    }

    /// Which objects there are: of the old and the pinned space always, after marking of all.
    #[inline(always)]
    pub fn bits(&self) -> &ObjectBits {
        self.tables.objects()
    }

    /// All regions that are filled upward, in the order of their addresses. The large space lies above them.
    pub(super) fn regions(&self) -> Regions<'_> {
        self.old_regions().and_all(&self.nursery.regions())
    }

    /// Those where every object is old.
    pub(super) fn old_regions(&self) -> Regions<'_> {
        Regions::of(Kind::Pinned, 0, &self.pinned.region).and(Kind::Old, 0, &self.old.region)
    }

    /// Bytes of all spaces in use: objects, dead or alive, and buffers.
    pub fn used(&self) -> usize {
        self.nursery.used() + self.old_used()
    }

    /// Bytes in use of the old, the pinned and the large space and that of arraylets: what `old_limit` limits.
    pub(super) fn old_used(&self) -> usize {
        self.old.region.used() + self.beside_used()
    }

    /// Of those, bytes that are free: in holes.
    pub(super) fn old_holes(&self) -> usize {
        self.old.holes() + self.pinned.holes()
    }

    /// Bytes in use of the pinned and the large space, and of that of arraylets. Asked a few times in a collection: inline it
    /// would be there as often, for each format.
    #[inline(never)]
    pub(super) fn beside_used(&self) -> usize {
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::used);
        self.pinned.region.used() + self.large.used() + arraylets
    }

    /// Bytes of those that have memory.
    pub(super) fn beside_resident(&self) -> usize {
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::resident);
        self.pinned.region.used() + self.large.resident() + arraylets
    }

    /// Gives memory of the large space and of that of arraylets back in which nothing lives, until it is `wanted` bytes or
    /// no more is left.
    pub(super) fn release_beside(&self, locked: &mut AllocatorLocked<'_>, wanted: usize) {
        let before = self.beside_resident();
        self.large.release_free(locked, wanted);
        if let Some(arraylets) = &self.arraylets {
            let left = wanted.saturating_sub(before - self.beside_resident());
            arraylets.release_free(locked, left);
        }
    }

    /// Bytes that those may take yet.
    pub(super) fn old_left(&self) -> usize {
        let limit = self.old_limit.load(Ordering::Relaxed);
        limit.saturating_sub(self.old_used())
    }

    /// Bytes of side metadata. They do not count toward the limit.
    pub fn metadata_bytes(&self) -> usize {
        let arraylets = self.arraylets.as_ref();
        self.cards.bytes()
            + self.tables.bytes()
            + self.plan.bytes()
            + self.large.metadata_bytes()
            + arraylets.map_or(0, Arraylets::metadata_bytes)
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
    pub(super) fn has_slots(&self, object: Address) -> bool {
        // SAFETY: the space of large objects names only objects that it has, whose headers were written.
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
/// The range is whole pages of the caller's.
unsafe fn ask_for_huge_pages(config: &Config, which: HugePages, start: Address, bytes: usize) {
    let Some(start) = NonNull::new(start.ptr::<u8>()).filter(|_| bytes > 0) else {
        return;
    };
    match which {
        HugePages::Auto if config.limit < HUGE_PAGES_FROM => {}
        // It is advice: the kernel may not know of huge pages.
        // SAFETY: whole pages of the caller's, as asked; the advice changes no contents.
        HugePages::On | HugePages::Auto => drop(unsafe { hugepages::advise(start, bytes) }),
        // SAFETY: whole pages of the caller's, as asked; the advice changes no contents.
        HugePages::Off => drop(unsafe { hugepages::unadvise(start, bytes) }),
    }
}

/// About how many bytes of addresses the tables of a heap take: mostly the stacks of its workers, which have room for every
/// object.
fn tables_of(limit: usize) -> usize {
    limit / 4 * 3
}

/// Where the addresses of the process are limited, an eighth of those that are left, for its threads and what they
/// allocate otherwise: held until a heap is made.
fn leave_addresses(left: usize) -> Option<Reserved> {
    let bytes = left / 8;
    Some(Reserved(memory::reserve(bytes, 1)?, bytes))
}

/// Maps the first `reserved` of `span` bytes at a place apart, but for the first granule.
fn map_apart(reserved: usize, span: usize) -> Option<Reserved> {
    const PLACES: usize = 8;
    for _ in 0..PLACES {
        let start = memory::place_apart(span)?;
        // SAFETY: no reference is made; the place has so many addresses.
        let first = unsafe { start.add(REGION_GRANULE) };
        match memory::map_at(first, reserved - REGION_GRANULE, Access::Write) {
            Ok(()) => return Some(Reserved(start, span)),
            Err(NotMapped::Taken) => {}
            Err(NotMapped::Refused) => return None,
        }
    }
    None
}

/// Gives addresses back: those of a heap that was not finished.
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
        self.guard.end();
        let (start, bytes) = self.reservation;
        // SAFETY: nobody has the heap any more.
        unsafe { memory::unmap(start, bytes) };
    }
}
