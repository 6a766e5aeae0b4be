//! The table of finalizers: what waits, in the order in which it was made, and what is ready.
//!
//! It has segments beside the heap (`finalizer_segments`). Those in use stand in a list, of which each phase of a
//! collection makes its tasks. Mutators fill the last segment whose finalizers wait. Those that are ready form a queue for
//! each order, segment by segment, and a segment that was emptied is free at once. Segments become old from the front of the
//! list on, and a scavenge begins where the first young one stands. So it looks at no old ones, however many there are.
//!
//! An object of the program says which finalizer it can take back by a ticket: an identity, and how often that was used
//! before. A list says where the finalizer of an identity is, so that it can be moved, and a ticket of one that is gone
//! leads nowhere. A finalizer that is never taken back has no identity.
//!
//! # Invariants
//! - In front of `young_from` no segment is young, and a segment that is not has no young object in a slot. No collection
//!   makes an old object young.
//! - Mutators inside the gate change the table with the lock, and the leader in a stopped world, when no mutator has it. In a
//!   phase each worker has its segments.
//! - There are free segments for all that one collection may move: at least `2 W + (R + E) / 512 + 8` segments, where
//!   `W` are those whose finalizers wait, `E` their entries, and `R` the entries that ready ones had at first. A collection
//!   needs `W` at most for what waits on. Of each order all segments but the last are full, so the ready ones are
//!   `(R + E) / 512 + 8` at most. It makes neither `W` nor `R + E` larger, and a mutator that begins to fill a segment sees
//!   to it that the same holds when the segment is full.

use core::ptr::NonNull;

use gleaner_base::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, RawLock, UnsafeCell,
};
use gleaner_mem::Address;
use gleaner_mem::growing::Growing;
use gleaner_mem::slot::Value;

use super::finalizer_segments::{
    Entry, NONE, SEGMENT_BYTES, SEGMENT_ENTRIES, Segment, segment as segment_at,
};
use super::finalizers::{Condition, ORDERS};

/// Bytes of the heap for each finalizer that it can have.
const BYTES_FOR_EACH: usize = 32;
/// How many finalizers a table has room for at most, whatever the heap.
const MOST: usize = 1 << 30;
/// Segments that one collection may need beside those that grow with the table.
const SPARE: usize = ORDERS + 2;
/// So many times the free and the used segments together may stand in the list, those that were emptied included.
const LISTED: usize = 4;
/// An identity that was used so often is not used again.
const LAST_USE: u64 = u32::MAX as u64;

/// How many finalizers a heap with this limit can have.
pub fn most_finalizers(limit: usize) -> usize {
    (limit / BYTES_FOR_EACH).min(MOST)
}

/// A queue of segments with ready finalizers.
#[derive(Clone, Copy)]
pub(super) struct Queue {
    pub(super) first: u32,
    pub(super) last: u32,
}

/// What is protected by the lock.
pub(super) struct State {
    /// Of the segments, of the list of those in use, of those that are moved, and of the places of identities.
    memory: [Growing; 4],
    /// Segments that there is memory for.
    segments: usize,
    /// Segments that were used so far.
    fresh: u32,
    /// The first free one of those.
    free: u32,
    /// How many stand in the list.
    pub(super) listed: usize,
    /// How many places of the list are empty.
    pub(super) holes: usize,
    /// No young segments stand in front of this place.
    pub(super) young_from: usize,
    /// The last segment whose finalizers wait, or none.
    pub(super) last_waiting: u32,
    /// The same while mutators fill it. A collection ends that.
    pub(super) filling: u32,
    /// Segments whose finalizers wait, and their entries.
    pub(super) waiting: usize,
    pub(super) waiting_entries: usize,
    /// Entries that segments of ready finalizers had when they were full, or have so far.
    pub(super) ready_entries: usize,
    pub(super) ready: [Queue; ORDERS],
    /// Identities that were used so far, and the first free one of those.
    ids: u32,
    free_id: u32,
    /// How many finalizers wait or are ready.
    in_use: usize,
}

/// The table.
pub struct FinalizerTable {
    most: usize,
    segments: Address,
    /// Numbers of the segments in use, and where one stood that was emptied, [`NONE`].
    list: NonNull<AtomicU32>,
    /// Segments whose finalizers are moved in this collection.
    moving: NonNull<AtomicU32>,
    /// Of an identity how often it was used before, in the upper half, and in the lower one the number of its entry; of a
    /// free one the next free one.
    places: NonNull<AtomicU64>,
    /// Whether there was ever a finalizer.
    is_used: AtomicBool,
    /// How many are ready and were not taken back.
    pub(super) ready_count: AtomicUsize,
    lock: RawLock,
    state: UnsafeCell<State>,
}

// SAFETY: the state is used with the lock or by the leader in a stopped world (see the invariants); all else are atomics in
// memory that this table owns.
unsafe impl Sync for FinalizerTable {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for FinalizerTable {}

impl FinalizerTable {
    /// A table of `most` finalizers at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<FinalizerTable> {
        let segments = 3 * most.div_ceil(SEGMENT_ENTRIES as usize) + 64;
        let word = size_of::<AtomicU32>();
        let memory = [
            Growing::new(segments * SEGMENT_BYTES)?,
            Growing::new(LISTED * segments * word)?,
            Growing::new(segments * word)?,
            Growing::new(most * size_of::<AtomicU64>())?,
        ];
        let [first, list, moving, places] = memory.each_ref().map(Growing::start);
        let none = Queue {
            first: NONE,
            last: NONE,
        };
        Some(FinalizerTable {
            most,
            segments: Address::of(first.as_ptr()),
            list: list.cast(),
            moving: moving.cast(),
            places: places.cast(),
            is_used: AtomicBool::new(false),
            ready_count: AtomicUsize::new(0),
            lock: RawLock::new(),
            state: UnsafeCell::new(State {
                memory,
                segments: 0,
                fresh: 0,
                free: NONE,
                listed: 0,
                holes: 0,
                young_from: 0,
                last_waiting: NONE,
                filling: NONE,
                waiting: 0,
                waiting_entries: 0,
                ready_entries: 0,
                ready: [none; ORDERS],
                ids: 0,
                free_id: NONE,
                in_use: 0,
            }),
        })
    }

    /// Whether there are finalizers, or were.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// How many are ready.
    pub fn ready_count(&self) -> usize {
        self.ready_count.load(Ordering::Relaxed)
    }

    /// In a stopped world: how long the list of segments is.
    pub fn listed(&self) -> usize {
        self.with_state(|state| state.listed)
    }

    /// In a stopped world: in front of that place of the list nothing is young.
    pub fn young_from(&self) -> usize {
        self.with_state(|state| state.young_from)
    }

    /// In a stopped world: visits the strong slots of a segment, which are wide, by its place in the list; of `young`
    /// segments, or of all.
    pub fn visit_strong(&self, position: usize, young: bool, mut visit: impl FnMut(Address)) {
        let Some(segment) = self.at(position) else {
            return;
        };
        if !segment.has_values() || young && !segment.is_young() {
            return;
        }
        let weak = usize::from(!segment.is_ready());
        for entry in segment.entries() {
            entry.slots()[weak..].iter().for_each(|&slot| visit(slot));
        }
    }

    /// In a stopped world: visits all slots of a segment, which are wide, by its place in the list.
    pub fn visit_all(&self, position: usize, visit: impl FnMut(Address)) {
        let entries = self.at(position).map(Segment::entries);
        entries
            .into_iter()
            .flatten()
            .flat_map(Entry::slots)
            .for_each(visit);
    }

    /// In a stopped world: whether the segment at a place of the list has ready finalizers.
    pub fn is_ready(&self, position: usize) -> bool {
        self.at(position).is_some_and(Segment::is_ready)
    }

    /// In a stopped world: whether the segment at a place of the list may hold young objects.
    pub fn is_young(&self, position: usize) -> bool {
        self.at(position).is_some_and(Segment::is_young)
    }

    /// A mutator inside the gate: a finalizer waits from now on. False when the table is full, or the system gives no memory.
    #[must_use]
    pub(super) fn add(&self, object: Value, value: Value, condition: Condition) -> bool {
        let unnamed = |_: &mut State, _| Some((condition, ()));
        self.put(object, value, unnamed).is_some()
    }

    /// As `add`, for one that can be taken back: by this ticket.
    pub(super) fn add_with_ticket(
        &self,
        object: Value,
        value: Value,
        condition: Condition,
    ) -> Option<u64> {
        self.put(object, value, |state, number| {
            let id = self.take_id(state)?;
            Some((condition.of(id), self.put_id(id, number)))
        })
    }

    /// `name` says what the entry of a number holds beside the slots, and what the answer is.
    #[inline(always)]
    fn put<R>(
        &self,
        object: Value,
        value: Value,
        name: impl FnOnce(&mut State, u32) -> Option<(Condition, R)>,
    ) -> Option<R> {
        self.lock.lock();
        let added = self.with_state(|state| {
            if state.in_use == self.most {
                return None;
            }
            let segment = match state.filling {
                NONE => None,
                number => Some(self.segment(number)).filter(|segment| segment.room() > 0),
            };
            let segment = match segment {
                None => self.begin_to_fill(state)?,
                Some(segment) => segment,
            };
            let place = segment.end();
            let (condition, answer) = name(state, segment.number_of(place))?;
            segment.entry(place).set(object, value, condition);
            segment.set_end(place + 1);
            if value.as_object().is_some() {
                segment.set_values(true);
            }
            state.waiting_entries += 1;
            state.in_use += 1;
            Some(answer)
        });
        self.lock.unlock();
        added
    }

    /// A mutator inside the gate: the finalizer of this ticket is not handed out, and keeps nothing any more. Whether it had
    /// not been handed out or taken back before.
    pub(super) fn take_back(&self, ticket: u64) -> bool {
        self.lock.lock();
        let is_taken = self.with_state(|state| {
            let id = ticket as u32;
            if id >= state.ids {
                return false;
            }
            let word = self.place(id).load(Ordering::Relaxed);
            if word >> 32 != ticket >> 32 {
                return false;
            }
            let (segment, place) = self.segment_of(word as u32);
            let entry = segment.entry(place);
            let condition = entry.condition().taken_back();
            entry.set(Value::NULL, Value::NULL, condition);
            if segment.is_ready() {
                self.ready_count.fetch_sub(1, Ordering::Relaxed);
            }
            state.in_use -= 1;
            self.free_id(state, id);
            true
        });
        self.lock.unlock();
        is_taken
    }

    /// A mutator inside the gate: takes the finalizer that is to be handed out first: what it holds of its object, and its
    /// value.
    pub(super) fn take_ready(&self) -> Option<(Value, Value)> {
        // More become ready in a stopped world alone.
        if self.ready_count() == 0 {
            return None;
        }
        self.lock.lock();
        let taken = self
            .with_state(|state| (0..ORDERS).find_map(|order| self.take_first(state, order)))
            .inspect(|_| {
                self.ready_count.fetch_sub(1, Ordering::Relaxed);
            });
        self.lock.unlock();
        taken
    }

    /// Takes the first finalizer of an order that was not taken back.
    fn take_first(&self, state: &mut State, order: usize) -> Option<(Value, Value)> {
        while state.ready[order].first != NONE {
            let segment = self.segment(state.ready[order].first);
            let place = segment.first();
            let entry = segment.entry(place);
            let (held, condition) = ((entry.object(), entry.value()), entry.condition());
            segment.set_first(place + 1);
            if segment.places().is_empty() {
                self.end_first(state, order, segment);
            }
            if !condition.is_taken_back() {
                state.in_use -= 1;
                if let Some(id) = condition.id() {
                    self.free_id(state, id);
                }
                return Some(held);
            }
        }
        None
    }

    /// All finalizers of the first segment of an order were handed out: it is free.
    fn end_first(&self, state: &mut State, order: usize, segment: Segment<'_>) {
        let queue = &mut state.ready[order];
        queue.first = segment.next();
        if queue.first == NONE {
            queue.last = NONE;
        }
        state.ready_entries -= segment.end() as usize;
        self.stand(segment.position() as usize, None);
        state.holes += 1;
        self.free(state, segment);
    }

    /// The segment that mutators fill from now on: the last whose finalizers wait, or a fresh one. `None` when the system
    /// gives no memory.
    #[cold]
    fn begin_to_fill(&self, state: &mut State) -> Option<Segment<'_>> {
        let last = match state.last_waiting {
            NONE => None,
            number => Some(self.segment(number)).filter(|segment| segment.room() > 0),
        };
        let waiting = state.waiting + usize::from(last.is_none());
        let entries = state.ready_entries + state.waiting_entries;
        let filled = entries / SEGMENT_ENTRIES as usize + 1;
        self.provide(state, 2 * waiting + filled + SPARE)?;
        let segment = match last {
            Some(segment) => segment,
            None => {
                let segment = self.take_segment(state, false);
                self.enter(state.listed, segment);
                state.listed += 1;
                state.waiting += 1;
                state.last_waiting = segment.number;
                segment
            }
        };
        segment.set_young(true);
        state.young_from = state.young_from.min(segment.position() as usize);
        state.filling = segment.number;
        self.is_used.store(true, Ordering::Relaxed);
        Some(segment)
    }

    /// There is memory for so many segments from now on; `None` when the system gives none.
    fn provide(&self, state: &mut State, segments: usize) -> Option<()> {
        let segments = segments.max(state.segments);
        let word = size_of::<AtomicU32>();
        let [all, list, moving, _] = &mut state.memory;
        let fits = all.grow_to(segments * SEGMENT_BYTES)
            && list.grow_to(LISTED * segments * word)
            && moving.grow_to(segments * word);
        if fits {
            state.segments = segments;
        }
        fits.then_some(())
    }

    /// A free segment, which is empty.
    pub(super) fn take_segment(&self, state: &mut State, is_ready: bool) -> Segment<'_> {
        let number = if state.free == NONE {
            let number = state.fresh;
            assert!(
                (number as usize) < state.segments,
                "phase weak: there are segments for all finalizers that a collection moves"
            );
            state.fresh += 1;
            number
        } else {
            state.free
        };
        let segment = self.segment(number);
        if number == state.free {
            state.free = segment.next();
        }
        segment.clear(is_ready);
        segment
    }

    /// A segment that stands in no list is free.
    pub(super) fn free(&self, state: &mut State, segment: Segment<'_>) {
        segment.set_next(state.free);
        state.free = segment.number;
    }

    /// An identity that no finalizer has.
    fn take_id(&self, state: &mut State) -> Option<u32> {
        if state.free_id != NONE {
            let id = state.free_id;
            state.free_id = self.place(id).load(Ordering::Relaxed) as u32;
            return Some(id);
        }
        let id = state.ids;
        let bytes = (id as usize + 1) * size_of::<AtomicU64>();
        state.memory[3].grow_to(bytes).then(|| {
            state.ids += 1;
            id
        })
    }

    /// The finalizer of this identity is the entry of this number from now on. Its ticket.
    pub(super) fn put_id(&self, id: u32, number: u32) -> u64 {
        let place = self.place(id);
        let uses = place.load(Ordering::Relaxed) & !u64::from(u32::MAX);
        place.store(uses | u64::from(number), Ordering::Relaxed);
        uses | u64::from(id)
    }

    fn free_id(&self, state: &mut State, id: u32) {
        let place = self.place(id);
        let uses = (place.load(Ordering::Relaxed) >> 32) + 1;
        place.store(uses << 32 | u64::from(state.free_id), Ordering::Relaxed);
        if uses < LAST_USE {
            state.free_id = id;
        }
    }

    fn place(&self, id: u32) -> &AtomicU64 {
        // SAFETY: an identity that was used, for which there is memory; zeroed memory is an atomic.
        unsafe { self.places.add(id as usize).as_ref() }
    }

    pub(super) fn segment(&self, number: u32) -> Segment<'_> {
        // SAFETY: the callers name segments that were used, for which there is memory as long as the table.
        unsafe { segment_at(self.segments, number) }
    }

    /// The segment of an entry, and its place there.
    pub(super) fn segment_of(&self, number: u32) -> (Segment<'_>, u32) {
        let segment = self.segment(number / SEGMENT_ENTRIES);
        (segment, number % SEGMENT_ENTRIES)
    }

    /// The segment at a place of the list, if it was not emptied since.
    pub(super) fn at(&self, position: usize) -> Option<Segment<'_>> {
        // SAFETY: the callers name a place of the list, for which there is memory; zeroed memory is an atomic.
        let number = unsafe { self.list.add(position).as_ref() }.load(Ordering::Relaxed);
        (number != NONE).then(|| self.segment(number))
    }

    /// The segment stands at this place of the list from now on.
    pub(super) fn enter(&self, position: usize, segment: Segment<'_>) {
        segment.set_position(position as u32);
        self.stand(position, Some(segment));
    }

    /// What stands at this place of the list from now on.
    fn stand(&self, position: usize, segment: Option<Segment<'_>>) {
        let number = segment.map_or(NONE, |segment| segment.number);
        // SAFETY: there is memory for four times as many places as for segments. When a collection begins, half of those in
        // use are empty at most, and at the end and until the next one fewer are added than there are segments.
        unsafe { self.list.add(position).as_ref() }.store(number, Ordering::Relaxed);
    }

    /// A segment whose finalizers are moved in this collection.
    pub(super) fn moving(&self, number: usize) -> Segment<'_> {
        // SAFETY: fewer are moved than there are segments; zeroed memory is an atomic.
        let number = unsafe { self.moving.add(number).as_ref() }.load(Ordering::Relaxed);
        self.segment(number)
    }

    pub(super) fn set_moving(&self, number: usize, segment: Segment<'_>) {
        // SAFETY: fewer are moved than there are segments; zeroed memory is an atomic.
        unsafe { self.moving.add(number).as_ref() }.store(segment.number, Ordering::Relaxed);
    }

    /// With the lock, or by the leader in a stopped world.
    pub(super) fn with_state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        // SAFETY: the callers hold the lock, or are the leader in a stopped world between phases.
        self.state.with_mut(|state| body(unsafe { &mut *state }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
