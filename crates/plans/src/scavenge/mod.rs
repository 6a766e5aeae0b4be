//! The precise generational collector, Parallel Scavenge as ASPLOS 2013, section 2 describes it.
//!
//! Objects are born in eden. A scavenge copies what lives there to a survivor space, and to the old space what has
//! survived often enough. When the old space is full, everything is marked and slid together. Mutators stop at polls.
//!
//! - [`mutator`], [`handles`]: roots, and what a mutator has to itself
//! - [`allocate`]: buffers, large objects, and when to collect
//! - [`collect`]: a collection, step by step
//! - [`trace`]: what the workers do in parallel; [`copy`]: scavenging; [`mark`]: marking and updating for a full
//!   collection; [`weak`]: weak references, ephemerons, finalizers
//! - [`verify`]: the invariants, checked
//!
//! # Invariants
//! - Fresh memory of eden is zeroed when a buffer is taken from it (I2).
//! - `collecting` is held by whoever stops the world, attaches or detaches; its holder is outside of the gate.
//! - The state is touched by the holder of `collecting` alone; all else is shared as its type says.

pub mod allocate;
pub mod collect;
pub mod copy;
pub mod handles;
pub mod mark;
pub mod mutator;
pub mod trace;
pub mod verify;
pub mod weak;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;

use gleaner_base::events::{Event, Ring};
use gleaner_base::options::Verify;
use gleaner_base::sync::{AtomicU64, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::cards::CardTable;
use gleaner_mem::mark_bits::MarkBits;
use gleaner_mem::object_model::{LEAST_BYTES, ObjectModel, Shape, TypeError, TypeId, TypeTable};
use gleaner_mem::object_starts::ObjectStarts;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::{memory, output::Fd};
use gleaner_spaces::bump::BumpRegion;
use gleaner_spaces::mark_compact::Plan;
use gleaner_spaces::nursery::Nursery;
use gleaner_spaces::tenured::Tenured;
use gleaner_work::Crew;

use crate::stop::poll::PollGate;
use handles::Handles;
use mutator::{Mutator, RootVisitor, RootVisitorPlace};
use trace::Engine;
use weak::WeakTables;

/// Regions are multiples of this: whole pages, cards and words of mark bits.
pub const REGION_GRANULE: usize = 64 << 10;
/// The smallest heap.
pub const LEAST_LIMIT: usize = 1 << 20;

/// How a heap is set up.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Bytes of all spaces together.
    pub limit: usize,
    /// Bytes of the young generation; 0 for a third of the limit.
    pub young: usize,
    /// Workers that collect.
    pub workers: usize,
    /// How many scavenges an object survives in the young generation: it is promoted by the next one.
    pub tenure: u32,
    /// Bytes of a TLAB.
    pub tlab: usize,
    /// Checks the invariants at the edges of phases.
    pub verify: Verify,
    /// Collects at every n-th allocation; 0 for never.
    pub stress: u32,
    /// Overwrites what is freed.
    pub poison: bool,
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
    /// The system gives no memory for this.
    Memory(&'static str),
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
                "the heap needs {asked} bytes of addresses, and its references reach {reach}: \
                 choose a smaller limit, or wide references"
            ),
            CreateError::Young { young, limit } => write!(
                out,
                "a young generation of {young} bytes in a heap of {limit}: it takes at most nine tenths"
            ),
            CreateError::Memory(what) => {
                write!(
                    out,
                    "the system gives no memory for {what}: choose a smaller limit"
                )
            }
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
}

/// What only the holder of `collecting` touches.
pub struct State {
    /// Attached mutators, with the numbers handed out so far.
    mutators: Vec<NonNull<Mutator>>,
    next_number: u32,
    engine: Engine,
    /// Why the next collection has to be of everything, if it has.
    wants_full: Option<&'static str>,
    /// Bytes that scavenges promoted lately: a moving average.
    promoted_lately: usize,
    /// Sums.
    pub totals: Totals,
    /// The last events.
    pub events: Ring,
    /// Where events go as JSON lines.
    pub log: Option<Fd>,
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
    /// The old space.
    pub old: Tenured,
    /// Global handles.
    pub handles: Handles,
    /// Weak references, ephemerons, finalizers.
    pub weak: WeakTables,
    /// Who is inside.
    pub gate: PollGate,
    /// Set before the heap is shared.
    pub listener: Option<Box<Listener>>,
    root_visitor: RootVisitorPlace,
    /// See the invariants.
    collecting: RawLock,
    state: UnsafeCell<State>,
    marks: MarkBits,
    plan: Plan,
    crew: &'static Crew,
    /// Collections so far; raised in stopped worlds, read by mutators to see whether somebody collected before them.
    epoch: AtomicU64,
    reservation: (NonNull<u8>, usize),
}

// SAFETY: the state is protected by `collecting`, the rest is made for sharing.
unsafe impl<F: SlotFormat> Sync for Scavenge<F> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl<F: SlotFormat> Send for Scavenge<F> {}

/// Sizes of the spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sizes {
    old: usize,
    eden: usize,
    survivor: usize,
}

impl Sizes {
    /// A survivor space is an eighth of the young generation, as in Parallel Scavenge.
    fn of(config: &Config) -> Result<Sizes, CreateError> {
        if config.limit < LEAST_LIMIT {
            return Err(CreateError::TooSmall(config.limit));
        }
        let round = |bytes: usize| (bytes / REGION_GRANULE * REGION_GRANULE).max(REGION_GRANULE);
        let young = if config.young == 0 {
            config.limit / 3
        } else {
            config.young
        };
        let survivor = round(young / 8);
        let eden = round(young - young.min(2 * survivor));
        let young = eden + 2 * survivor;
        if young > config.limit / 10 * 9 {
            return Err(CreateError::Young {
                young,
                limit: config.limit,
            });
        }
        Ok(Sizes {
            old: round(config.limit - young),
            eden,
            survivor,
        })
    }

    fn all(&self) -> usize {
        self.old + self.eden + 2 * self.survivor
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Makes a heap. Helpers for `config.workers` workers may be added to the crew before or later.
    pub fn new(mut config: Config, crew: &'static Crew) -> Result<Box<Scavenge<F>>, CreateError> {
        let sizes = Sizes::of(&config)?;
        config.limit = sizes.all();
        config.workers = config.workers.clamp(1, gleaner_work::MAX_WORKERS);
        // The first granule is never allocated: no object is at offset 0.
        let span = sizes.all() + REGION_GRANULE;
        if span > F::SPAN {
            return Err(CreateError::Span {
                asked: span,
                reach: F::SPAN,
            });
        }
        let need = CreateError::Memory;
        let start = memory::reserve(span, REGION_GRANULE).ok_or(need("its addresses"))?;
        let base = Address::of(start.as_ptr());
        let reserved = Reserved(start, span);
        // SAFETY: the reservation is ours; the first pages stay without access.
        if !unsafe { memory::commit(start.add(REGION_GRANULE), sizes.all()) } {
            return Err(need("its spaces"));
        }
        let bottom = base.add(REGION_GRANULE);
        let types = TypeTable::new().ok_or(need("its types"))?;
        let cards = CardTable::new(base, span).ok_or(need("its cards"))?;
        let starts = ObjectStarts::new(base, span).ok_or(need("its object starts"))?;
        // Every object, and every chunk of an array, may lie on one stack.
        let items = sizes.all() / LEAST_BYTES + sizes.all() / (trace::CHUNK_SLOTS * F::BYTES);
        let engine = Engine::new(config.workers, items).ok_or(need("its workers"))?;
        let heap = Box::new(Scavenge {
            model: ObjectModel::new(types, base),
            nursery: Nursery::new(bottom.add(sizes.old), sizes.eden, sizes.survivor),
            old: Tenured::new(BumpRegion::new(bottom, sizes.old), cards, starts),
            handles: Handles::new(1).ok_or(need("its handles"))?,
            weak: WeakTables::new().ok_or(need("its weak references"))?,
            gate: PollGate::new(),
            listener: None,
            root_visitor: RootVisitorPlace::default(),
            collecting: RawLock::new(),
            state: UnsafeCell::new(State {
                mutators: Vec::new(),
                next_number: 1,
                engine,
                wants_full: None,
                promoted_lately: 0,
                totals: Totals::default(),
                events: Ring::new(),
                log: None,
            }),
            marks: MarkBits::new(base, span).ok_or(need("its mark bits"))?,
            plan: Plan::new(base, span).ok_or(need("its compactor"))?,
            crew,
            epoch: AtomicU64::new(0),
            reservation: (start, span),
            config,
        });
        core::mem::forget(reserved);
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
        self.collecting.lock();
        let attached = self.with_state(|state| {
            let number = state.next_number;
            let cards = self.old.cards.biased();
            let (base, stress) = (self.model.base, self.config.stress);
            let visitor = NonNull::from(&self.root_visitor);
            let mutator = Mutator::new(number, F::BYTES as u32, base, cards, stress, visitor)?;
            let record = NonNull::from(Box::leak(Box::new(mutator)));
            state.next_number += 1;
            state.mutators.push(record);
            Some(record)
        });
        self.collecting.unlock();
        if attached.is_some() {
            self.gate.enter();
        }
        attached
    }

    /// A mutator that is inside the gate stops being one.
    ///
    /// # Safety
    /// `attach` of this heap gave the record, which is not used again.
    pub unsafe fn detach(&self, record: NonNull<Mutator>) {
        // SAFETY: the buffer is the caller's; the reference ends here.
        unsafe { (*record.as_ptr()).tlab.retire() };
        self.gate.leave();
        self.collecting.lock();
        self.with_state(|state| state.mutators.retain(|&other| other != record));
        self.collecting.unlock();
        // SAFETY: leaked by `attach`, and nobody knows it any more.
        drop(unsafe { Box::from_raw(record.as_ptr()) });
    }

    /// Sums so far. The caller is no mutator inside the gate.
    pub fn totals(&self) -> Totals {
        self.collecting.lock();
        let totals = self.with_state(|state| state.totals);
        self.collecting.unlock();
        totals
    }

    /// Where events are written from now on. The caller is no mutator inside the gate.
    pub fn set_log(&self, log: Option<Fd>) {
        self.collecting.lock();
        self.with_state(|state| state.log = log);
        self.collecting.unlock();
    }

    /// Who visits the roots in compiled frames from now on. The caller is no mutator inside the gate.
    ///
    /// # Safety
    /// The function keeps what [`RootVisitor`] asks.
    pub unsafe fn set_root_visitor(&self, visitor: Option<RootVisitor>) {
        self.collecting.lock();
        // SAFETY: the lock is held.
        unsafe { self.root_visitor.set(visitor) };
        self.collecting.unlock();
    }

    /// Bytes of all spaces in use: objects, dead or alive, and buffers.
    pub fn used(&self) -> usize {
        self.nursery.used() + self.old.region.used()
    }

    /// Bytes of side metadata. They do not count toward the limit.
    pub fn metadata_bytes(&self) -> usize {
        self.old.cards.bytes() + self.old.starts.bytes() + self.marks.bytes()
    }

    /// Whether an object is young.
    #[inline(always)]
    pub fn is_young(&self, object: Address) -> bool {
        object.offset_from(self.nursery.start()) < self.nursery.bytes()
    }

    fn with_state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: the callers hold `collecting`.
        self.state.with_mut(|state| body(unsafe { &mut *state }))
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
        let (start, bytes) = self.reservation;
        // SAFETY: nobody has the heap any more.
        unsafe { memory::unmap(start, bytes) };
    }
}
