//! A precise heap: its spaces and tables, how it is made, and how threads become its mutators.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::ptr::NonNull;

use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::events::Event;
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_mem::cards::CardTable;
use gleaner_mem::header;
use gleaner_mem::object_bits::{BitTables, ObjectBits};
use gleaner_mem::object_model::{ELEMENTS, GRANULE, ObjectModel, Shape, TypeError, TypeId};
use gleaner_mem::slot::SlotFormat;
use gleaner_os::numa::Refusal;
use gleaner_os::{log_file::LogFile, memory};
use gleaner_spaces::precise::arraylets::Arraylets;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::gaps::Gaps;
use gleaner_spaces::precise::large_objects::LargeObjects;
use gleaner_spaces::precise::mark_compact::Plan;
use gleaner_spaces::precise::mark_region::MarkRegion;
use gleaner_spaces::precise::nursery::Nursery;
use gleaner_spaces::precise::regions::{Kind, Regions};
use gleaner_spaces::precise::tenured::Tenured;
use gleaner_work::{Crew, Synchronisation};

use super::arrays::guard::Guard;
use super::arrays::sharing_stops::SharingStops;
use super::beside::Beside;
use super::checks::quarantine::Quarantine;
use super::config::{Config, LARGE_BYTES};
use super::handles::Handles;
use super::heap_roots::{HeapRoots, RootRange, RootRangeError};
use super::in_place::state::InPlace;
use super::locality::Locality;
use super::memory::counts::ByType;
use super::memory::external::External;
use super::memory::needed::Needed;
use super::memory::uses::Touched;
use super::mutator::{Mutator, RootVisitor, RootVisitorPlace};
use super::pins::table::Pins;
use super::state::{State, Totals};
use super::weak::WeakObjects;
use super::zeroing::Zeroing;
use crate::scavenge::stop::collecting::Collecting;
use crate::scavenge::stop::poll::PollGate;
use crate::scavenge::stop::whereabouts::Passage;

/// Why everything is collected after a scavenge.
pub(super) const NO_ROOM: &str = "a promotion found no room";

/// What is told the events of each collection when it is over: by the thread that led it, which is outside of the gate
/// and holds no lock, so several may be told at once.
pub type Listener = dyn Fn(&[Event]) + Send + Sync;

/// Runs the collection that it is given, on the thread that leads it.
pub type Leading = dyn Fn(&mut dyn FnMut()) + Send + Sync;

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
    /// Its lines, if it is ever collected by them.
    pub(super) mark_region: Option<MarkRegion>,
    /// What is allocated in it, if new objects ever lie in the old space.
    pub(super) may_be_in_place: Option<InPlace>,
    /// Objects that no collection looks at.
    pub constants: BumpRegion,
    /// Small objects that may not move.
    pub pinned: Tenured,
    /// Objects of more than [`LARGE_BYTES`](super::LARGE_BYTES).
    pub large: LargeObjects,
    /// Pieces of arrays, if arrays are cut.
    pub(super) arraylets: Option<Arraylets>,
    /// Which cards were stored into, for the whole span.
    pub cards: CardTable,
    /// Where objects of the old and the pinned space begin, new ones left out, and during a collection, more; and what marking
    /// sets.
    pub tables: BitTables,
    /// Global handles.
    pub handles: Handles,
    /// Weak references, ephemerons, finalizers.
    pub weak: WeakObjects,
    /// Which memory node each page belongs to, where that is counted.
    pub(super) locality: Option<Locality>,
    /// Counts the mutators inside.
    pub gate: PollGate,
    /// Set before the heap is shared.
    pub listener: Option<Box<Listener>>,
    /// What the thread that is to lead a collection does first, outside of the gate and without a lock: it makes the
    /// threads that the heap is to have and has not. Set before the heap is shared.
    pub before_collection: Option<Box<dyn Fn() + Send + Sync>>,
    /// What the thread that leads a collection does it in: functions of the embedder run there, of traced types and for
    /// roots, and must not use the heap. Set before the heap is shared.
    pub leading: Option<Box<Leading>>,
    /// Asked when a stop takes long: which mutators inside the gate are of threads that have ended. Nobody else speaks
    /// for them from then on. Set before the heap is shared.
    pub ended: Option<Box<dyn Fn() -> Vec<NonNull<Mutator>> + Send + Sync>>,
    pub(super) root_visitor: RootVisitorPlace,
    /// Roots of no mutator.
    pub heap_roots: HeapRoots,
    /// What keeps its place for a while, and words that keep what they lead to.
    pub pins: Pins,
    /// What is free between objects that the last collection has left in eden.
    pub(super) gaps: Gaps,
    /// See the invariants.
    pub(super) collecting: Collecting<State>,
    pub(super) plan: Plan,
    /// The most bytes of all spaces together: at most that of the configuration. Written in stopped worlds.
    pub(super) limit: AtomicUsize,
    /// Whether the next collection of everything gives all memory back that nothing lives in. Relaxed: it carries nothing
    /// but itself.
    pub(super) give_back_next: AtomicUsize,
    /// Which memory of the nursery was used since it was given back.
    pub(super) touched: Touched,
    /// What was allocated of each type, where that is counted.
    pub(super) allocated_by_type: ByType,
    /// Bytes outside of the heap that its objects hold.
    pub external: External,
    /// The least young generation that makes sense, in bytes.
    pub(super) least_young: usize,
    /// The young generation that the heap began with, in bytes.
    pub(super) first_young: usize,
    /// What eden had of it, in bytes.
    pub(super) first_eden: usize,
    /// Bytes that the old, the pinned and the large space may use together. Written in a stopped world.
    pub(super) old_limit: AtomicUsize,
    /// How many bytes young large objects take at most before a scavenge. Written in a stopped world; relaxed, since it
    /// is no more than a number to compare with.
    pub(super) young_large_limit: AtomicUsize,
    /// How much memory the old space and what is beside it are about to need.
    pub(super) needed: Needed,
    /// The highest top of the old space since memory above its top was released. Written as `beside` says.
    pub(super) old_high: AtomicUsize,
    /// How high it has been since memory was last looked for that it does not need. Written in stopped worlds.
    pub(super) old_high_lately: AtomicUsize,
    /// Where the memory ends that the pinned space holds, if that is above its top: the system did not take it back. Written
    /// in stopped worlds.
    pub(super) pinned_held: AtomicUsize,
    /// For allocation in the pinned and the large space and that of arraylets.
    pub(super) beside: Beside,
    /// Bytes of pinned objects since everything was collected, each as small ones or with pages of its own. Written as
    /// `beside` says.
    pub(super) pinned_lately: AtomicUsize,
    /// At how many bytes in `pinned_lately` everything is collected. Written in a stopped world.
    pub(super) pinned_due: AtomicUsize,
    /// Bytes that were allocated since the last census of arrays, as far as mutators have told. Relaxed: it is no more
    /// than a number to compare with.
    pub(super) uncounted: AtomicUsize,
    /// Stops in which copies share arraylets.
    pub(super) sharing_stops: SharingStops,
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
        let attached = self.collecting.attach(&self.gate, |state| {
            let number = state.next_number;
            let cards = self.cards.biased();
            let (base, options) = (self.model.base, &self.config.options);
            let limits = (options.stress, options.locals);
            let visitor = NonNull::from(&self.root_visitor);
            let slot_bytes = F::BYTES as u32;
            let cut = (self.model.pieces, self.whole_bytes());
            let mut mutator = Mutator::new(number, slot_bytes, base, cards, cut, limits, visitor)?;
            mutator.set_tally(self.new_tally());
            let record = NonNull::from(Box::leak(Box::new(mutator)));
            state.next_number += 1;
            // SAFETY: leaked just now, and freed when it was taken off the list.
            unsafe { state.mutators.push(record) };
            Some(record)
        })?;
        // SAFETY: leaked above, and the caller's until it detaches.
        let whereabouts = unsafe { &(*attached.as_ptr()).whereabouts };
        whereabouts.come_in(Passage::Attached);
        Some(attached)
    }

    /// A mutator that is inside the gate leaves it for good, without roots: collections go on without it, and none
    /// looks at its frames, which may be gone. It waits for nobody.
    ///
    /// # Safety
    /// `attach` of this heap gave the record. [`Scavenge::detach`] is all that follows.
    pub unsafe fn leave_for_good(&self, record: NonNull<Mutator>) {
        // SAFETY: the record exists until it is detached; inside the gate its cells are the caller's.
        let mutator = unsafe { record.as_ref() };
        mutator.forget_roots();
        self.leave(mutator, Passage::Attached);
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
        // SAFETY: nobody else uses the buffer or the blocks, as asked.
        unsafe {
            mutator.retire_tlab();
            mutator.blocks.retire();
        }
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

    /// Where events are written from now on, as those of the heap of that number in its process. The caller is no mutator
    /// inside the gate.
    pub fn set_log(&self, log: Option<LogFile>, number: u32) {
        self.collecting.with(&self.gate, |state| {
            (state.log, state.number) = (log, number)
        });
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

    /// A mutator inside the gate: the slots of a range are roots of the heap from now on.
    ///
    /// # Safety
    /// Until the range is removed, or the heap ends, such slots lie there, and hold valid values at every poll and
    /// allocation of any mutator.
    pub unsafe fn add_root_range(&self, range: RootRange) -> Result<(), RootRangeError> {
        self.heap_roots.add(range, self.addresses())
    }

    /// The addresses that are reserved for objects.
    fn addresses(&self) -> Range<usize> {
        let (start, bytes) = self.reservation;
        let start = Address::of(start.as_ptr()).word();
        start..start + bytes
    }

    /// Whether an object of this heap can lie there.
    pub fn can_hold(&self, object: Address) -> bool {
        self.addresses().contains(&object.word()) && object.word().is_multiple_of(GRANULE)
    }

    /// Which objects there are: of the old and the pinned space always, but for new ones; after marking of all.
    #[inline(always)]
    pub fn bits(&self) -> &ObjectBits {
        self.tables.objects()
    }

    /// All regions that are filled upward, in the order of their addresses. The large space lies above them.
    pub(super) fn regions(&self) -> Regions<'_> {
        self.old_regions().and_all(&self.nursery.regions())
    }

    /// The regions where every object is old.
    pub(super) fn old_regions(&self) -> Regions<'_> {
        Regions::of(Kind::Pinned, 0, &self.pinned.region).and(Kind::Old, 0, &self.old.region)
    }

    /// Bytes of all spaces in use: objects, dead or alive, and buffers.
    pub fn used(&self) -> usize {
        self.nursery.used() - self.gaps.left() + self.old_used()
    }

    /// Bytes in use of the old, the pinned and the large space and that of arraylets: what `old_limit` limits.
    pub(super) fn old_used(&self) -> usize {
        self.old_space_used() + self.beside_used()
    }

    /// Bytes in use of the old space: up to its top, without vacant blocks.
    pub(super) fn old_space_used(&self) -> usize {
        let region = &self.old.region;
        match self.lines() {
            None => region.used(),
            Some(lines) => lines.used(region),
        }
    }

    /// Of those, bytes that are free: in holes.
    pub(super) fn old_holes(&self) -> usize {
        self.old.holes() + self.pinned.holes()
    }

    /// The lines of the old space, while its holes are free lines.
    #[inline]
    pub(super) fn lines(&self) -> Option<&MarkRegion> {
        self.mark_region.as_ref().filter(|lines| lines.is_in_use())
    }

    /// What is allocated in the old space, while new objects lie there. Changes in stopped worlds.
    #[inline(always)]
    pub(super) fn in_place(&self) -> Option<&InPlace> {
        self.may_be_in_place
            .as_ref()
            .filter(|pieces| pieces.is_used())
    }

    /// Bytes by which the old space may grow: above its top, as a rule.
    pub(super) fn old_space_room(&self) -> usize {
        let region = &self.old.region;
        match self.lines() {
            None => region.free(),
            Some(lines) => lines.room(region),
        }
    }

    /// Bytes in use of constants, of the pinned and the large space, and of that of arraylets. Asked a few times in a collection: inline it
    /// would be there as often, for each format.
    #[inline(never)]
    pub(super) fn beside_used(&self) -> usize {
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::used);
        self.constants.used() + self.pinned.region.used() + self.large.used() + arraylets
    }

    /// Bytes of those that have memory.
    pub(super) fn beside_resident(&self) -> usize {
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::resident);
        self.constants.used() + self.pinned_resident() + self.large.resident() + arraylets
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
        let lines = self.mark_region.as_ref();
        self.cards.bytes()
            + lines.map_or(0, MarkRegion::metadata_bytes)
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
        if object >= self.nursery.start() {
            return self.in_nursery(object) || self.large.is_young(object);
        }
        self.in_place().is_some() && self.is_new(object)
    }

    /// Whether an object below the nursery is young where new objects lie in the old space: it has no start bit. Start bits
    /// there change in stopped worlds.
    fn is_new(&self, object: Address) -> bool {
        object >= self.old.region.start() && !self.bits().is_marked(object)
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

impl<F> Drop for Scavenge<F> {
    fn drop(&mut self) {
        self.quarantine.end();
        self.guard.end();
        let (start, bytes) = self.reservation;
        // SAFETY: nobody has the heap any more.
        unsafe { memory::unmap(start, bytes) };
    }
}
