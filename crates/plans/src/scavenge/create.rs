//! How a precise heap is made: addresses are reserved, and less is tried until its tables fit, too.

use alloc::boxed::Box;
use core::ptr::NonNull;

use gleaner_base::options::{Generations, HugePages, NurseryPolicy, OldPolicy};
use gleaner_base::sync::{AtomicU64, AtomicUsize};
use gleaner_mem::Address;
use gleaner_mem::cards::CardTable;
use gleaner_mem::object_bits::BitTables;
use gleaner_mem::object_model::{LEAST_BYTES, ObjectModel, TypeTable, most_types};
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::Pieces;
use gleaner_os::memory::{Access, NotMapped};
use gleaner_os::{hugepages, memory};
use gleaner_spaces::precise::arraylets::Arraylets;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::gaps::Gaps;
use gleaner_spaces::precise::large_objects::LargeObjects;
use gleaner_spaces::precise::mark_compact::Plan;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::regions::Kind;
use gleaner_spaces::precise::tenured::Tenured;
use gleaner_work::Crew;

use super::arrays::guard::Guard;
use super::arrays::sharing_stops::SharingStops;
use super::beside::Beside;
use super::checks::quarantine::Quarantine;
use super::config::{Config, CreateError, LEAST_LIMIT, REGION_GRANULE};
use super::decide;
use super::handles::{self, Handles};
use super::heap::Scavenge;
use super::heap_roots::HeapRoots;
use super::in_place::state::InPlace;
use super::locality::{self, Locality};
use super::memory::counts::ByType;
use super::memory::external::External;
use super::memory::needed::Needed;
use super::memory::uses::Touched;
use super::mutator::RootVisitorPlace;
use super::nodes::lockstep::Lockstep;
use super::nodes::segregated;
use super::pins::table::Pins;
use super::sizes::Sizes;
use super::state::State;
use super::trace::{self, Engine};
use super::weak::WeakObjects;
use super::weak::finalizer_table::most_finalizers;
use super::zeroing::Zeroing;
use crate::scavenge::stop::collecting::Collecting;
use crate::scavenge::stop::poll::PollGate;

impl<F: SlotFormat> Scavenge<F> {
    /// Makes a heap. Helpers for `config.workers` workers may be added to the crew before or later.
    pub fn new(mut config: Config, crew: &'static Crew) -> Result<Box<Scavenge<F>>, CreateError> {
        config.check_nursery()?;
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
        let reserved = reserve::<F>(&sizes)?;
        let start = reserved.0;
        let base = Address::of(start.as_ptr());
        let slot_base = slot_base::<F>(base, span);
        let begins = |kind| sizes.start(base, kind);
        let (old, eden) = (begins(Kind::Old), begins(Kind::Eden));
        let pieces = pieces_of::<F>(&config, slot_base, begins(Kind::Arraylets));
        advise(&config, old, eden, begins(Kind::Large));
        let locality =
            Locality::new(&config, base, span).map_err(|()| need("its pages' nodes")())?;
        let sums = locality::no_sums(locality.as_ref());
        let types = TypeTable::new(most_types(config.limit)).ok_or_else(need("its types"))?;
        let engine = engine_of::<F>(&config, &pieces)?;
        let most_handles = handles::most_handles(config.limit);
        let most_finalizers = most_finalizers(config.limit);
        let constants = BumpRegion::new(begins(Kind::Constants), sizes.constants);
        let pinned = BumpRegion::new(begins(Kind::Pinned), sizes.pinned);
        let mut heap = Box::new(Scavenge {
            model: ObjectModel::new(types, slot_base, pieces),
            nursery: sizes.nursery(base),
            quarantine: Quarantine::new(&config),
            guard: Guard::default(),
            zeroing: Zeroing::new(&config, eden, sizes.range(Kind::Eden))
                .ok_or_else(need("its blocks"))?,
            old: Tenured::new(BumpRegion::new(old, sizes.old)).ok_or_else(need("its blocks"))?,
            mark_region: mark_region_of(&config, old, sizes.old)?,
            may_be_in_place: in_place_of(&config, &sizes),
            constants,
            pinned: Tenured::new(pinned).ok_or_else(need("its blocks"))?,
            large: LargeObjects::new(begins(Kind::Large), sizes.large, sizes.as_used)
                .ok_or_else(need("its large objects"))?,
            arraylets: arraylets_of(&config, &sizes, begins(Kind::Arraylets))?,
            cards: CardTable::new(base, span).ok_or_else(need("its cards"))?,
            tables: BitTables::new(base, span).ok_or_else(need("its object bits"))?,
            handles: Handles::new(most_handles).ok_or_else(need("its handles"))?,
            weak: WeakObjects::new(most_finalizers).ok_or_else(need("its finalizers"))?,
            locality,
            gate: PollGate::new(),
            listener: None,
            before_collection: None,
            leading: None,
            ended: None,
            root_visitor: RootVisitorPlace::default(),
            heap_roots: HeapRoots::new(F::BYTES),
            pins: Pins::new(),
            gaps: Gaps::new().ok_or_else(need("its gaps"))?,
            collecting: Collecting::new(State::new(&config, &sizes, engine, sums)),
            plan: Plan::new(base, span).ok_or_else(need("its compactor"))?,
            old_limit: AtomicUsize::new(sizes.limit - sizes.first_young()),
            limit: AtomicUsize::new(sizes.limit),
            give_back_next: AtomicUsize::new(0),
            touched: Touched::new(),
            allocated_by_type: ByType::new(),
            external: External::new(&decide::external::Measurements {
                filled: 0,
                young: match config.options.generations {
                    Generations::Never => usize::MAX,
                    _ => sizes.first_young() + sizes.in_place,
                },
                limit: sizes.limit,
            }),
            least_young: sizes.least_young(),
            first_young: sizes.first_young(),
            first_eden: sizes.first_eden(),
            young_large_limit: AtomicUsize::new(sizes.first_eden() + sizes.in_place),
            needed: Needed::default(),
            old_high: AtomicUsize::new(old.word()),
            old_high_lately: AtomicUsize::new(old.word()),
            pinned_held: AtomicUsize::new(0),
            beside: Beside::new(),
            pinned_lately: AtomicUsize::new(0),
            pinned_due: AtomicUsize::new(sizes.first_old_target()),
            uncounted: AtomicUsize::new(0),
            sharing_stops: SharingStops::default(),
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
}

/// What the system refused.
fn need(what: &'static str) -> impl Fn() -> CreateError {
    move || CreateError::Memory(what, memory::refusal())
}

/// The addresses of a heap; its spaces can be used.
fn reserve<F: SlotFormat>(sizes: &Sizes) -> Result<Reserved, CreateError> {
    let span = sizes.span();
    if sizes.as_used {
        return map_apart(sizes.reserved(), span).ok_or_else(need("its addresses"));
    }
    let anywhere = || memory::reserve(span, REGION_GRANULE).map(|start| Reserved(start, span));
    let reserved = reserve_low::<F>(span).or_else(anywhere);
    let reserved = reserved.ok_or_else(need("its addresses"))?;
    // SAFETY: the reservation is ours; the first pages stay without access.
    let is_usable =
        unsafe { memory::commit(reserved.0.add(REGION_GRANULE), span - REGION_GRANULE) };
    match is_usable {
        true => Ok(reserved),
        false => Err(need("its spaces")()),
    }
}

/// The lowest address at which a heap is placed for the sake of its slots: what is below is left to the program, which may
/// lie there itself.
const LOWEST: usize = 256 << 20;
/// How many places below the reach of slots are tried.
const LOW_PLACES: usize = 16;

/// Addresses that slots reach which count from 0, if such slots do not reach all addresses anyway and a place is free. The
/// highest is tried first.
fn reserve_low<F: SlotFormat>(span: usize) -> Option<Reserved> {
    let reach = reach_from_null::<F>()?;
    let places = (1..=LOW_PLACES).map_while(|number| reach.checked_sub(number * span));
    for start in places.take_while(|&start| start >= LOWEST) {
        let start = NonNull::new(Address::new(start).align_down(REGION_GRANULE).ptr())?;
        match memory::map_at(start, span, Access::None) {
            Ok(()) => return Some(Reserved(start, span)),
            Err(NotMapped::Taken) => {}
            Err(NotMapped::Refused) => return None,
        }
    }
    None
}

/// Up to which address slots reach that count from 0; `None` if they reach all.
fn reach_from_null<F: SlotFormat>() -> Option<usize> {
    (F::BYTES < size_of::<usize>()).then_some(F::SPAN)
}

/// What slots count from: 0 if they reach the span from there, else the start of the span.
fn slot_base<F: SlotFormat>(start: Address, span: usize) -> Address {
    match reach_from_null::<F>() {
        Some(reach) if start.word() + span <= reach => Address::NULL,
        _ => start,
    }
}

/// How arrays of the heap lie in pieces, if they do.
fn pieces_of<F: SlotFormat>(config: &Config, slot_base: Address, arraylets: Address) -> Pieces {
    config.cutting.map_or(Pieces::WHOLE, |cutting| {
        let (first_n, shift) = (cutting.first_n, cutting.arraylet_shift);
        let zero = Arraylets::zero_of(arraylets);
        let pieces = Pieces::new(first_n, shift, F::BYTES, slot_base, zero);
        match cutting.guard {
            true => pieces.in_guard_mode(),
            false => pieces,
        }
    })
}

fn arraylets_of(
    config: &Config,
    sizes: &Sizes,
    start: Address,
) -> Result<Option<Arraylets>, CreateError> {
    let Some(cutting) = config.cutting else {
        return Ok(None);
    };
    let space = Arraylets::new(start, sizes.arraylets, cutting.arraylet_shift);
    space.map(Some).ok_or_else(need("its arraylets"))
}

/// The lines of the old space, if a policy of the heap or of a forked child marks them.
fn mark_region_of(
    config: &Config,
    old: Address,
    bytes: usize,
) -> Result<Option<MarkRegion>, CreateError> {
    let options = &config.options;
    let [now, in_child] = [options.old, options.child_old].map(|old| old == OldPolicy::MarkRegion);
    if !now && !in_child {
        return Ok(None);
    }
    let space = MarkRegion::new(old, bytes, now);
    space.map(Some).ok_or_else(need("its lines"))
}

/// What is allocated in the old space, if new objects may lie there. They begin in a space of their own where it is decided
/// later.
fn in_place_of(config: &Config, sizes: &Sizes) -> Option<InPlace> {
    match config.options.nursery {
        NurseryPolicy::Copying => None,
        NurseryPolicy::InPlace => Some(InPlace::new(sizes.in_place, true)),
        NurseryPolicy::Auto => Some(InPlace::new(0, false)),
    }
}

/// The workers, with room for what they grey.
fn engine_of<F: SlotFormat>(config: &Config, pieces: &Pieces) -> Result<Engine, CreateError> {
    // Every object, and every chunk of an array, may lie on one stack.
    let mut items = config.limit / LEAST_BYTES + config.limit / (trace::CHUNK_SLOTS * F::BYTES);
    if pieces.cut() {
        items += config.limit / (trace::CHUNK_POINTERS * F::BYTES);
    }
    if config.is_segregated() {
        items += config.workers * segregated::MOST_WAITING;
    }
    let (workers, order) = (config.workers, config.options.trace_order);
    let engine = Engine::new(workers, config.homes, items, order);
    let mut engine = engine.ok_or_else(need("its workers"))?;
    if let Some(lockstep) = Lockstep::of(&config.options) {
        engine.take_turns(lockstep);
    }
    if config.is_segregated() {
        let apart = engine.segregate(config.cut.nodes);
        apart.ok_or_else(need("its workers' messages"))?;
    }
    Ok(engine)
}

/// Huge pages, where they are wanted.
fn advise(config: &Config, old: Address, eden: Address, large: Address) {
    // A huge page would reach beyond the end of a fragment, where it holds no memory of the budget (I7).
    let small_from = if config.cut.nodes > 1 { eden } else { large };
    let wanted = config.options.huge_pages;
    // SAFETY: the old space and the nursery are committed memory of the heap's.
    unsafe {
        ask_for_huge_pages(config, wanted, old, small_from.offset_from(old));
        let bytes = large.offset_from(small_from);
        ask_for_huge_pages(config, HugePages::Off, small_from, bytes);
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
        // SAFETY: no reference is made; the place has `span` addresses, which are more than a granule.
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
