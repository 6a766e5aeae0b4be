//! Scavenging: copies what lives in eden and the from-space (ASPLOS 2013, section 2.3).
//!
//! A worker that reaches an object copies it speculatively, into its PLAB in the to-space or in the old space, and
//! publishes the copy by one compare-and-swap on the header (I4); the loser takes its copy back. If there is room
//! nowhere, the object is forwarded to itself, stays where it is, and a full collection follows.
//!
//! # Invariants
//! - A slot is visited by one worker. A slot of an old object that refers to a young one afterwards is on a dirty card
//!   (I5).
//! - Nothing in the to-space or promoted in this scavenge is copied again.

use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::{AtomicBool, Ordering};
use gleaner_mem::Address;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::header::{self, Header};
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_spaces::bump::BumpRegion;

use super::handles::TASK_HANDLES;
use super::mutator::Mutator;
use super::trace::{CHUNK_SLOTS, Item, Share, Trace};
use super::weak::Liveness;
use super::{Scavenge, State};
use core::ptr::NonNull;

/// Bytes of a PLAB in the to-space.
const SURVIVOR_PLAB: usize = 8 << 10;
/// Bytes of a PLAB in the old space.
const OLD_PLAB: usize = 32 << 10;
/// Bytes of the old space that are one task.
pub const STRIP_BYTES: usize = 128 * CARD_BYTES;

/// The root tasks of a collection: a mutator each, the ready finalizers, pieces of the handle table, strips of cards.
pub struct Tasks<'a> {
    mutators: &'a [NonNull<Mutator>],
    handles: usize,
    /// The old space as it was when the collection began; empty in a full collection.
    old: (Address, Address),
}

/// What a task is.
pub enum Task<'a> {
    /// The roots of a mutator.
    Mutator(&'a Mutator),
    /// Objects that wait to be finalized.
    Finalizers,
    /// Handles of these numbers.
    Handles(core::ops::Range<usize>),
    /// Cards of this range.
    Strip(Address, Address),
}

// SAFETY: the mutators are stopped, and each is one worker's task.
unsafe impl Sync for Tasks<'_> {}

impl<'a> Tasks<'a> {
    /// The tasks; `old` is where there may be references to the young generation.
    pub fn new(mutators: &'a [NonNull<Mutator>], handles: usize, old: (Address, Address)) -> Self {
        Tasks {
            mutators,
            handles,
            old,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.mutators.len()
            + 1
            + self.handle_tasks()
            + self.old.1.offset_from(self.old.0).div_ceil(STRIP_BYTES)
    }

    fn handle_tasks(&self) -> usize {
        self.handles.div_ceil(TASK_HANDLES)
    }

    /// The task of that number.
    pub fn get(&self, task: usize) -> Task<'a> {
        if let Some(mutator) = self.mutators.get(task) {
            // SAFETY: attached mutators exist, and they are stopped.
            return Task::Mutator(unsafe { mutator.as_ref() });
        }
        if task == self.mutators.len() {
            return Task::Finalizers;
        }
        let task = task - self.mutators.len() - 1;
        if task < self.handle_tasks() {
            let first = task * TASK_HANDLES;
            return Task::Handles(first..(first + TASK_HANDLES).min(self.handles));
        }
        let low = self.old.0.add((task - self.handle_tasks()) * STRIP_BYTES);
        let high = low.add(STRIP_BYTES);
        Task::Strip(low, if high < self.old.1 { high } else { self.old.1 })
    }
}

/// One scavenge.
pub struct Copying<'a, F: SlotFormat> {
    heap: &'a Scavenge<F>,
    tasks: Tasks<'a>,
    to: &'a BumpRegion,
    /// Whether some object found no room. Set by any worker, read by the leader after the phase.
    failed: AtomicBool,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Copies everything that lives; whether it all found room.
    pub(super) fn copy_young(&self, state: &mut State) -> bool {
        let old = (self.old.region.start(), self.old.region.top());
        let copying = Copying {
            heap: self,
            tasks: Tasks::new(&state.mutators, self.handles.prepare(), old),
            to: self.nursery.to(),
            failed: AtomicBool::new(false),
        };
        let tasks = copying.tasks.count();
        state
            .engine
            .run(self.crew, self.config.workers, tasks, &copying);
        let (engine, workers) = (&mut state.engine, self.config.workers);
        self.weak.process(engine, self.crew, workers, &copying);
        for share in state.engine.shares() {
            // SAFETY: the phase is over, so the buffers are the leader's.
            unsafe {
                share.survivor_plab.retire();
                self.old.retire(&mut share.old_plab);
            }
        }
        !copying.failed.into_inner()
    }
}

impl<F: SlotFormat> Copying<'_, F> {
    /// Whether an object has to be copied.
    #[inline(always)]
    fn is_condemned(&self, object: Address) -> bool {
        self.heap.is_young(object) && !self.to.contains(object)
    }

    /// Where a condemned object is from now on.
    #[inline(always)]
    fn forward(&self, share: &mut Share, object: Address) -> Address {
        // SAFETY: references lead to objects; one that moved has left its place mapped.
        let header = header::look(unsafe { header::word_of(object) });
        match header.forwardee(object) {
            Some(place) => place,
            None => self.copy(share, object, header),
        }
    }

    fn copy(&self, share: &mut Share, object: Address, header: Header) -> Address {
        // SAFETY: the header was normal, and size and length of an object never change.
        let bytes = unsafe { self.heap.model.size(header, object) };
        let Some((target, is_old)) = self.room(share, header, bytes) else {
            return self.stay(share, object, header);
        };
        // SAFETY: the target is this worker's, of `bytes` bytes; the object's fields do not change in a stopped world.
        unsafe {
            core::ptr::copy_nonoverlapping(
                object.add(8).ptr::<u64>(),
                target.add(8).ptr::<u64>(),
                bytes / 8 - 1,
            );
            header::store(target, header.older());
        }
        // SAFETY: the object's place stays mapped.
        match unsafe { header::replace(object, header, Header::forwarded_to(target)) } {
            Ok(()) => {
                if is_old {
                    self.heap.old.starts.record(target, bytes);
                    share.promoted += bytes;
                } else {
                    share.survived += bytes;
                }
                share.objects += 1;
                share.grey(Item::object(target, self.heap.model.base));
                target
            }
            Err(now) => {
                let plab = if is_old {
                    &mut share.old_plab
                } else {
                    &mut share.survivor_plab
                };
                plab.retract(target);
                now.forwardee(object).unwrap_or(object)
            }
        }
    }

    /// Room for a copy, and whether it is in the old space.
    #[inline(always)]
    fn room(&self, share: &mut Share, header: Header, bytes: usize) -> Option<(Address, bool)> {
        if header.age() < self.heap.config.tenure
            && let Some(target) = self.survivor_room(share, bytes)
        {
            return Some((target, false));
        }
        if faults::armed(FaultPoint::Promotion) {
            return None;
        }
        if let Some(target) = self.old_room(share, bytes) {
            return Some((target, true));
        }
        Some((self.survivor_room(share, bytes)?, false))
    }

    #[inline(always)]
    fn survivor_room(&self, share: &mut Share, bytes: usize) -> Option<Address> {
        if let Some(target) = share.survivor_plab.allocate(bytes) {
            return Some(target);
        }
        let piece = self.to.take(bytes, SURVIVOR_PLAB.max(bytes))?;
        // SAFETY: the buffer is this worker's.
        unsafe { share.survivor_plab.retire() };
        share.survivor_plab.refill(piece);
        share.survivor_plab.allocate(bytes)
    }

    #[inline(always)]
    fn old_room(&self, share: &mut Share, bytes: usize) -> Option<Address> {
        if let Some(target) = share.old_plab.allocate(bytes) {
            return Some(target);
        }
        let piece = self.heap.old.take_plab(bytes, OLD_PLAB)?;
        // SAFETY: the buffer is this worker's.
        unsafe { self.heap.old.retire(&mut share.old_plab) };
        share.old_plab.refill(piece);
        share.old_plab.allocate(bytes)
    }

    #[cold]
    fn stay(&self, share: &mut Share, object: Address, header: Header) -> Address {
        self.failed.store(true, Ordering::Relaxed);
        // SAFETY: the object's place stays mapped.
        match unsafe { header::replace(object, header, header.self_forwarded()) } {
            Ok(()) => {
                share.grey(Item::object(object, self.heap.model.base));
                object
            }
            Err(now) => now.forwardee(object).unwrap_or(object),
        }
    }

    fn root(&self, share: &mut Share, slot: Address) {
        // SAFETY: root slots are wide, and their owner is stopped.
        let value = unsafe { Wide::load(slot, Address::NULL) };
        if let Some(object) = value
            .as_object()
            .filter(|&object| self.is_condemned(object))
        {
            let place = self.forward(share, object);
            // SAFETY: as above.
            unsafe { Wide::store(slot, Address::NULL, Value::reference(place)) };
        }
    }

    #[inline(always)]
    fn slot(&self, share: &mut Share, slot: Address, holder_is_old: bool) {
        let base = self.heap.model.base;
        // SAFETY: a slot of an object that this worker scans.
        let value = unsafe { F::load(slot, base) };
        let Some(object) = value.as_object() else {
            return;
        };
        if !self.is_condemned(object) {
            return;
        }
        let place = self.forward(share, object);
        // SAFETY: as above.
        unsafe { F::store(slot, base, Value::reference(place)) };
        if holder_is_old && self.heap.is_young(place) {
            self.heap.old.cards.dirty(slot);
        }
    }

    fn card(&self, share: &mut Share, low: Address, high: Address) {
        let heap = self.heap;
        let mut object = heap.old.starts.start_before(low, heap.old.region.start());
        while object < high {
            // SAFETY: the old space is walkable from a recorded start.
            unsafe {
                let header = header::load(object, Ordering::Relaxed);
                heap.model.scan_between(header, object, low, high, |slot| {
                    self.slot(share, slot, true)
                });
                object = object.add(heap.model.size(header, object));
            }
        }
    }
}

impl<F: SlotFormat> Trace for Copying<'_, F> {
    fn task(&self, share: &mut Share, task: usize) {
        match self.tasks.get(task) {
            // SAFETY: the mutator is stopped.
            Task::Mutator(mutator) => unsafe { mutator.visit_roots(|slot| self.root(share, slot)) },
            Task::Finalizers => self.heap.weak.visit_roots(|slot| self.root(share, slot)),
            Task::Handles(numbers) => {
                numbers.for_each(|number| self.root(share, self.heap.handles.slot(number as u32)))
            }
            Task::Strip(low, high) => self
                .heap
                .old
                .cards
                .take_dirty(low, high, |low, high| self.card(share, low, high)),
        }
    }

    #[inline]
    fn item(&self, share: &mut Share, item: Item) {
        let (object, chunk) = item.get(self.heap.model.base);
        let is_old = !self.heap.is_young(object);
        // SAFETY: an item is an object that was copied, or stays, and is scanned by this worker alone.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        // SAFETY: as above.
        unsafe {
            scan_item(
                &self.heap.model,
                header,
                item,
                object,
                chunk,
                share,
                |share, slot| {
                    self.slot(share, slot, is_old);
                },
            );
        }
    }
}

impl<F: SlotFormat> Liveness for Copying<'_, F> {
    fn place(&self, object: Address) -> Option<Address> {
        if !self.is_condemned(object) {
            return Some(object);
        }
        // SAFETY: references lead to objects; one that moved has left its place mapped.
        header::look(unsafe { header::word_of(object) }).forwardee(object)
    }

    fn keep(&self, share: &mut Share, object: Address) -> Address {
        if self.is_condemned(object) {
            self.forward(share, object)
        } else {
            object
        }
    }
}

/// Visits the slots of an item; of a large array, makes the other chunks grey first.
///
/// # Safety
/// An object of the model lies at `object`, and `header` is its header, in the normal or the self-forwarded state.
#[inline(always)]
pub unsafe fn scan_item<F: SlotFormat>(
    model: &gleaner_mem::object_model::ObjectModel<F>,
    header: Header,
    item: Item,
    object: Address,
    chunk: usize,
    share: &mut Share,
    mut visit: impl FnMut(&mut Share, Address),
) {
    // SAFETY: the caller's promise.
    if let Some((first, slots)) = unsafe { model.array_slots(header, object) }
        && slots > CHUNK_SLOTS
    {
        if chunk == 0 {
            (1..slots.div_ceil(CHUNK_SLOTS)).for_each(|number| share.grey(item.chunk(number)));
        }
        let start = chunk * CHUNK_SLOTS;
        for index in start..(start + CHUNK_SLOTS).min(slots) {
            visit(share, first.add(index * F::BYTES));
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { model.scan(header, object, |slot| visit(share, slot)) };
}
