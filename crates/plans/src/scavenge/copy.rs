//! Scavenging: scans roots and dirty cards, and copies what lives in eden and the from-space (ASPLOS 2013, section
//! 2.3).
//!
//! A worker that reaches an object copies it speculatively, into its PLAB in the to-space or into its block of the old
//! space, and publishes the copy by one compare-and-swap on the header (I4); the loser takes its copy back. If there is
//! room nowhere, the object is forwarded to itself, stays where it is, and a full collection follows. Its slots may
//! then be stored to while others still copy it: their copies will not count ([`gleaner_mem::speculative`]). Large
//! objects are marked where they are; their generation is settled when all is traced.
//!
//! Dirty cards are scanned in `Copying::task`, a strip of cards at a time: `card` scans one of the old or the pinned
//! space; those of large objects and of arraylets have tasks of their own.
//!
//! # Invariants
//! - A slot is visited by one worker; except that a promoted object may also be found on a dirty card of a block that
//!   was in use before. Both then store the same.
//! - A slot of an old object that refers to a young one afterwards is on a dirty card (I5).
//! - An object that is [kept](super::pins) has the same address afterwards; what stays is noted in the start bits while anything
//!   is kept.
//! - Nothing in the to-space or promoted in this scavenge is copied again.

use core::ops::Range;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::options::Prefetch;
use gleaner_base::sync::{AtomicBool, Ordering};
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_bits::ObjectBits;
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_mem::speculative::copy_words;
use gleaner_spaces::precise::fragmented::Fragmented;
use gleaner_spaces::precise::large_objects::{Fate, Generation};
use gleaner_spaces::precise::regions::MOST_NODES;
use gleaner_spaces::precise::tenured::Growth;

use super::edges::{slot_entry, slot_of};
use super::handles::TASK_HANDLES;
use super::locality::Locality;
use super::nodes::segregated::Message;
use super::pins::table::Pins;
use super::roots::{Task, Tasks};
use super::trace::derived::visit_base;
use super::trace::{Item, Trace, WorkerState, scan_item};
use super::waiting::{Keys, Nothing, Watch};
use super::weak::heap_trace::HeapTrace;
use super::weak::objects;
use super::weak::{Liveness, Process};
use super::{Scavenge, State};

/// Bytes of a PLAB in the to-space.
const SURVIVOR_PLAB: usize = 8 << 10;

/// Where the young objects of a memory node lie: a fragment of each space, as (start, bytes).
type Ranges = [(Address, usize); 3];

/// One scavenge.
pub struct Copying<'a, F: SlotFormat, W = Nothing> {
    heap: &'a Scavenge<F>,
    bits: &'a ObjectBits,
    tasks: Tasks<'a>,
    /// Where survivors go; nowhere when all are promoted.
    to: Option<&'a Fragmented>,
    /// The range of the to-space, or an empty one.
    to_range: (Address, usize),
    nursery: (Address, usize),
    /// Objects of this age and older are promoted.
    tenure: u32,
    /// What keeps its place, if anything does that could move.
    pins: Option<&'a Pins>,
    /// Whether slots wait until the cache has what they refer to.
    edges: bool,
    /// Whether some object found no room. Set by any worker, read by the leader after the phase.
    failed: AtomicBool,
    /// In segregated spaces, for each memory node the ranges of its young objects.
    homes: Option<&'a [Ranges; MOST_NODES]>,
    /// What tells which memory node something lies on, where that is counted.
    locality: Option<&'a Locality>,
    /// What looks at each object that is reached.
    watch: W,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Copies everything that lives in eden and the from-space; whether it all found room.
    pub(super) fn copy_young(&self, state: &mut State, world: &mut WorldStopped<'_>) -> bool {
        self.copy(
            state,
            world,
            Some(self.nursery.to()),
            self.config.options.tenure,
        )
    }

    /// Promotes everything that lives in the nursery, the survivor spaces both; whether it all found room.
    pub(super) fn promote_young(&self, state: &mut State, world: &mut WorldStopped<'_>) -> bool {
        self.copy(state, world, None, 0)
    }

    fn copy(
        &self,
        state: &mut State,
        world: &mut WorldStopped<'_>,
        to: Option<&Fragmented>,
        tenure: u32,
    ) -> bool {
        let promoted = match to {
            Some(_) => self.nursery.used().min(2 * state.lately.promoted),
            None => self.nursery.used(),
        };
        self.reserve_old(&mut world.allocator(), promoted);
        self.begin_arraylets(world);
        let homes = self.young_ranges();
        let copying = Copying {
            heap: self,
            bits: self.bits(),
            tasks: Tasks::with_strips(self, &state.mutators, world, &self.old_regions())
                .of_young_finalizers(self),
            to,
            to_range: to.map_or((Address::NULL, 0), |_| self.nursery.to_range()),
            nursery: (self.nursery.start(), self.nursery.bytes()),
            tenure,
            pins: self.pins.keeps().then_some(&self.pins),
            edges: self.config.options.prefetch == Prefetch::Edges,
            failed: AtomicBool::new(false),
            homes: self.config.is_segregated().then_some(&homes),
            locality: self.locality.as_ref(),
            watch: Nothing,
        };
        let tasks = copying.tasks.count();
        state
            .engine
            .run(self.crew, state.crew_sizes.workers, tasks, &copying);
        let waiting = state
            .waiting
            .begin(self.weak.most_waiting(&mut state.engine));
        let copying = copying.watched(Keys(waiting));
        self.weak.process(&mut Process {
            engine: &mut state.engine,
            crew: self.crew,
            workers: state.crew_sizes.workers,
            trace: &copying,
            waiting,
            looked: 0,
        });
        for local in state.engine.worker_states() {
            state.totals.ephemeron_looks += core::mem::take(&mut local.weak.looks);
            state.totals.weak_looks += core::mem::take(&mut local.weak.weak_looks);
            state.totals.arrays.compressed += core::mem::take(&mut local.compressed);
            state.totals.vain_promotions += core::mem::take(&mut local.refused).asked();
            // SAFETY: the phase is over, so the buffer is the leader's.
            unsafe { local.survivor_plab.retire() };
        }
        let failed = copying.failed.into_inner();
        self.settle_young_large(world, tenure);
        self.settle_young_arraylets(world);
        self.note_old_top();
        !failed
    }

    /// For each node the ranges of its young objects.
    fn young_ranges(&self) -> [Ranges; MOST_NODES] {
        let mut homes = [[(Address::NULL, 0); 3]; MOST_NODES];
        for (index, (node, start, bytes)) in self.nursery.ranges().enumerate() {
            homes[node][index / self.config.cut.nodes] = (start, bytes);
        }
        homes
    }

    /// Frees the young large objects that were not reached; the others are older now.
    pub(super) fn settle_young_large(&self, world: &mut WorldStopped<'_>, tenure: u32) {
        self.large
            .sweep(world, Generation::Young, |object, (start, bytes)| {
                if !self.bits().is_marked(object) {
                    self.poison(start, bytes);
                    return Fate::Dies;
                }
                self.unmark_large(object);
                // SAFETY: a live object, of which the leader alone changes the header between phases.
                let header = unsafe {
                    let header = header::load(object, Ordering::Relaxed);
                    header::store(object, header.older());
                    header
                };
                if header.age() < tenure {
                    Fate::Young
                } else {
                    Fate::Old
                }
            });
    }
}

impl<'a, F: SlotFormat> Copying<'a, F> {
    /// The same scavenge, and each object that is reached is looked at.
    fn watched<W: Watch>(self, watch: W) -> Copying<'a, F, W> {
        Copying {
            heap: self.heap,
            bits: self.bits,
            tasks: self.tasks,
            to: self.to,
            to_range: self.to_range,
            nursery: self.nursery,
            tenure: self.tenure,
            pins: self.pins,
            edges: self.edges,
            failed: self.failed,
            homes: self.homes,
            locality: self.locality,
            watch,
        }
    }
}

impl<F: SlotFormat, W: Watch> Copying<'_, F, W> {
    #[inline(always)]
    fn in_to_space(&self, object: Address) -> bool {
        object.offset_from(self.to_range.0) < self.to_range.1
    }

    #[inline(always)]
    fn in_nursery(&self, object: Address) -> bool {
        object.offset_from(self.nursery.0) < self.nursery.1
    }

    /// Makes an object live, and says where it is from now on.
    #[inline(always)]
    fn reach(&self, local: &mut WorkerState, object: Address) -> Address {
        if !self.in_nursery(object) {
            // Above the nursery are large objects, below are old ones.
            if object > self.nursery.0 {
                self.reach_large(local, object);
            }
            object
        } else if self.in_to_space(object) {
            object
        } else {
            self.forward(local, object)
        }
    }

    fn reach_large(&self, local: &mut WorkerState, object: Address) {
        if self.heap.large.is_young(object) && self.bits.mark(object) {
            local.objects += 1;
            local.grey(Item::object(object, self.heap.model.base));
            self.watch.won(local, object);
        }
    }

    /// Where an object of eden or the from-space is from now on.
    #[inline(always)]
    fn forward(&self, local: &mut WorkerState, object: Address) -> Address {
        // SAFETY: references lead to objects; one that moved has left its place mapped.
        let header = header::look(unsafe { header::word_of(object) });
        match header.forwardee(object) {
            Some(place) => place,
            None => self.copy(local, object, header),
        }
    }

    fn copy(&self, local: &mut WorkerState, object: Address, header: Header) -> Address {
        // SAFETY: the header was normal, and size and length of an object never change.
        let bytes = unsafe { self.heap.model.size(header, object) };
        if self.pins.is_some_and(|pins| pins.is_kept(object)) {
            return self.leave(local, object, header);
        }
        let Some((target, is_old)) = self.room(local, header, bytes) else {
            return self.stay(local, object, header);
        };
        // SAFETY: the target is this worker's, of `bytes` bytes. Of the object only slots change in a stopped world,
        // and only once another worker forwarded it to itself: then the claim below fails.
        unsafe {
            copy_words(object.add(8), target.add(8), bytes - 8);
            header::store(target, header.older());
        }
        // SAFETY: the object's place stays mapped.
        let word = unsafe { header::word_of(object) };
        match header::publish(word, object, header, Some(target)) {
            Ok(target) => {
                // SAFETY: the copy is this worker's until the world runs: others only hand its address on.
                unsafe { self.heap.model.moved(header, target) };
                if is_old {
                    self.bits.add(target);
                    local.promoted += bytes;
                } else {
                    local.survived += bytes;
                }
                if let Some(locality) = self.locality {
                    self.count_copy(locality, local, object, (target, bytes), is_old);
                }
                local.objects += 1;
                let item = Item::object(target, self.heap.model.base);
                if header.is_spine() {
                    local.grey_spine(item);
                } else {
                    local.grey(item);
                }
                self.watch.won(local, object);
                target
            }
            Err(place) => {
                if is_old {
                    local.old_buffer.retract(target);
                } else {
                    local.survivor_plab.retract(target);
                }
                place
            }
        }
    }

    #[cold]
    fn count_copy(
        &self,
        locality: &Locality,
        local: &mut WorkerState,
        object: Address,
        (target, bytes): (Address, usize),
        is_old: bool,
    ) {
        locality.note_touched(target, bytes, local.node);
        let target = self.heap.node_of(locality, target);
        if is_old {
            local.counts.promoted[target] += 1;
        } else {
            local.counts.copied[target] += 1;
            local.counts.copied_from[self.heap.node_of(locality, object)] += 1;
        }
    }

    #[cold]
    fn count_scanned(&self, locality: &Locality, local: &mut WorkerState, object: Address) {
        let node = self.heap.node_of(locality, object);
        local.counts.scanned[node] += 1;
        local.counts.scanned_young[node] += u64::from(self.in_nursery(object));
    }

    #[cold]
    fn count_updated(&self, locality: &Locality, local: &mut WorkerState, slot: Address) {
        local.counts.updated[self.heap.node_of(locality, slot)] += 1;
    }

    /// Room for a copy, and whether it is in the old space.
    #[inline(always)]
    fn room(
        &self,
        local: &mut WorkerState,
        header: Header,
        bytes: usize,
    ) -> Option<(Address, bool)> {
        if header.age() < self.tenure
            && let Some(target) = self.survivor_room(local, bytes, false)
        {
            return Some((target, false));
        }
        if faults::armed(FaultPoint::Promotion) {
            return None;
        }
        if let Some(target) = self.old_room(local, bytes) {
            return Some((target, true));
        }
        Some((self.survivor_room(local, bytes, true)?, false))
    }

    /// In segregated spaces of the worker's own node, unless it is the `last` resort: what has no room there is promoted.
    #[inline(always)]
    fn survivor_room(&self, local: &mut WorkerState, bytes: usize, last: bool) -> Option<Address> {
        if let Some(target) = local.survivor_plab.allocate(bytes) {
            return Some(target);
        }
        let (to, wanted) = (self.to?, SURVIVOR_PLAB.max(bytes));
        let piece = if self.homes.is_some() && !last {
            to.take_own(local.node, bytes, wanted)?
        } else {
            to.take(local.node, bytes, wanted, false)?
        };
        // SAFETY: the buffer is this worker's.
        unsafe { local.survivor_plab.retire() };
        local.survivor_plab.refill(piece);
        local.survivor_plab.allocate(bytes)
    }

    #[inline(always)]
    fn old_room(&self, local: &mut WorkerState, bytes: usize) -> Option<Address> {
        if let Some(target) = local.old_buffer.allocate(bytes) {
            return Some(target);
        }
        self.more_old_room(local, bytes)
    }

    fn more_old_room(&self, local: &mut WorkerState, bytes: usize) -> Option<Address> {
        let heap = self.heap;
        if local.refused.is_sure(bytes) {
            return None;
        }
        loop {
            let buffer = &mut local.old_buffer;
            let target = match heap.lines() {
                None => heap.old.allocate(self.bits, buffer, bytes, Growth::Allowed),
                Some(lines) => heap.old.allocate(lines, buffer, bytes, Growth::Allowed),
            };
            if target.is_some() {
                return target;
            }
            if !heap.reserve_more() {
                local.refused.note(bytes);
                return None;
            }
        }
    }

    #[cold]
    fn stay(&self, local: &mut WorkerState, object: Address, header: Header) -> Address {
        self.failed.store(true, Ordering::Relaxed);
        self.leave(local, object, header)
    }

    /// The object stays where it is.
    #[cold]
    fn leave(&self, local: &mut WorkerState, object: Address, header: Header) -> Address {
        // SAFETY: the object's place stays mapped.
        match header::publish(unsafe { header::word_of(object) }, object, header, None) {
            Ok(stays) => {
                if self.pins.is_some() {
                    self.bits.mark(stays);
                }
                local.grey(Item::object(stays, self.heap.model.base));
                self.watch.won(local, object);
                stays
            }
            Err(place) => place,
        }
    }

    /// Whether an object is a young one of another node that this worker is not to touch.
    #[inline(always)]
    fn is_elsewhere(&self, local: &WorkerState, object: Address) -> bool {
        let Some(homes) = self.homes else {
            return false;
        };
        let is_in = |&(start, bytes): &(Address, usize)| object.offset_from(start) < bytes;
        self.in_nursery(object) && !self.in_to_space(object) && !homes[local.node].iter().any(is_in)
    }

    fn root(&self, local: &mut WorkerState, root: Root<'_>) {
        match root {
            Root::Value(slot) => self.root_value(local, slot),
            Root::Slot(slot) => self.root_here::<F>(local, slot),
            Root::Derived(base, derived) => {
                visit_base(base, derived, |base| self.root_here::<Wide>(local, base));
                self.heap.check_derived(base, derived);
            }
        }
    }

    /// A root slot of 8 bytes: in segregated spaces it may be another worker's.
    fn root_value(&self, local: &mut WorkerState, slot: Address) {
        // SAFETY: root slots are wide, and their owner does not run.
        let object = unsafe { Wide::load(slot, Address::NULL) }.as_object();
        let is_elsewhere = object.is_some_and(|object| self.is_elsewhere(local, object));
        if !is_elsewhere || !local.send(Message::Root(slot)) {
            self.root_here::<Wide>(local, slot);
        }
    }

    fn root_here<S: SlotFormat>(&self, local: &mut WorkerState, slot: Address) {
        let base = self.heap.model.base;
        // SAFETY: the root slot has this format, and its owner does not run.
        if let Some(object) = unsafe { S::load(slot, base) }.as_object() {
            let place = self.reach(local, object);
            if place != object {
                // SAFETY: the root slot has this format, and its owner does not run.
                unsafe { S::store(slot, base, Value::reference(place)) };
            }
        }
    }

    /// A chunk of the global handles, unless all in it is old.
    fn handles(&self, local: &mut WorkerState, numbers: Range<u32>) {
        let (heap, chunk) = (self.heap, numbers.start as usize / TASK_HANDLES);
        if !heap.handles.is_young(chunk) {
            return;
        }
        let mut young = false;
        for number in numbers {
            self.root_value(local, heap.handles.slot(number));
            // What was sent to another node is young still.
            let object = heap.handles.load(number).as_object();
            young |= object.is_some_and(|object| heap.is_young(object));
        }
        heap.handles.set_young(chunk, young);
    }

    #[inline(always)]
    fn slot(&self, local: &mut WorkerState, slot: Address, holder_is_old: bool) {
        // SAFETY: a slot of an object that this worker scans.
        let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() else {
            return;
        };
        let is_elsewhere = self.is_elsewhere(local, object);
        if is_elsewhere && local.send(Message::Slot(slot, holder_is_old)) {
            return;
        }
        if self.edges && self.in_nursery(object) && local.is_busy() {
            object.prefetch();
            let Some(waited) = local.edges.exchange(slot_entry(slot, holder_is_old)) else {
                return;
            };
            let (slot, holder_is_old) = slot_of(waited);
            self.waited(local, slot, holder_is_old);
        } else {
            self.edge(local, slot, object, holder_is_old);
        }
    }

    /// A slot that has waited.
    #[inline(always)]
    fn waited(&self, local: &mut WorkerState, slot: Address, holder_is_old: bool) {
        // SAFETY: a slot of an object that this worker scanned.
        if let Some(object) = unsafe { F::load(slot, self.heap.model.base) }.as_object() {
            self.edge(local, slot, object, holder_is_old);
        }
    }

    /// The slot refers to the object.
    #[inline(always)]
    fn edge(&self, local: &mut WorkerState, slot: Address, object: Address, holder_is_old: bool) {
        let place = self.reach(local, object);
        if place != object {
            // SAFETY: a slot of an object that this worker scans.
            unsafe { F::store(slot, self.heap.model.base, Value::reference(place)) };
            if let Some(locality) = self.locality {
                self.count_updated(locality, local, slot);
            }
        }
        if holder_is_old && self.heap.is_young(place) {
            self.heap.cards.dirty(slot);
        }
    }

    /// Whether an object that is being scanned is old when this scavenge is over.
    #[inline(always)]
    fn will_be_old(&self, object: Address, header: Header) -> bool {
        if self.in_nursery(object) {
            return false;
        }
        object < self.nursery.0 || !self.heap.large.is_young(object) || header.age() >= self.tenure
    }

    /// A dirty card: the objects that begin in it, and the one before, which may reach into it.
    fn card(&self, local: &mut WorkerState, low: Address, high: Address) {
        let heap = self.heap;
        let space = if low < heap.old.region.start() {
            &heap.pinned
        } else {
            &heap.old
        };
        let before = self.bits.start_before(low, space.region.start());
        for object in before
            .into_iter()
            .chain(self.bits.starts(self.bits.word_of(low)))
        {
            if let Some(locality) = self.locality {
                self.count_scanned(locality, local, object);
            }
            // SAFETY: start bits are those of objects that are complete.
            unsafe { self.scan_between(local, object, low, high) };
        }
    }

    /// A dirty card, and an old object that may have slots there.
    ///
    /// # Safety
    /// An object of this heap lies there.
    unsafe fn scan_between(
        &self,
        local: &mut WorkerState,
        object: Address,
        low: Address,
        high: Address,
    ) {
        let visit = |local: &mut WorkerState, slot| self.slot(local, slot, true);
        // SAFETY: an object of this heap, as asked, which is old, so its header is normal.
        let elements = unsafe {
            let header = header::load(object, Ordering::Relaxed);
            let model = &self.heap.model;
            model.scan_between(header, object, low, high, |slot| visit(local, slot))
        };
        if let Some(elements) = elements {
            objects::discover(self, local, object, elements, self.watch.waiting(), visit);
        }
    }
}

impl<F: SlotFormat, W: Watch> Trace for Copying<'_, F, W> {
    fn task(&self, local: &mut WorkerState, task: usize) {
        let heap = self.heap;
        match self.tasks.get(task) {
            Task::Strip(low, high) => heap
                .cards
                .take_dirty(low, high, |low, high| self.card(local, low, high)),
            Task::Large(strip) => {
                // SAFETY: the strips were cut for this phase.
                let (object, low, high) = unsafe { heap.large.strip(strip) };
                heap.cards.take_dirty(low, high, |low, high| {
                    if let Some(locality) = self.locality {
                        self.count_scanned(locality, local, object);
                    }
                    // SAFETY: an old large object.
                    unsafe { self.scan_between(local, object, low, high) };
                });
            }
            Task::Arraylets(strip) => {
                heap.take_dirty_slots(strip, |slot| self.slot(local, slot, true));
            }
            Task::Handles(numbers) => self.handles(local, numbers),
            Task::Finalizers(positions) => positions.for_each(|position| {
                let table = &heap.weak.finalizers;
                table.visit_strong(position, true, |slot| self.root_value(local, slot));
            }),
            other => heap.visit_roots(other, |root| self.root(local, root)),
        }
    }

    #[inline]
    fn item(&self, local: &mut WorkerState, item: Item) {
        let (object, chunk) = item.get(self.heap.model.base);
        // SAFETY: an item is an object that was copied, or stays, and is scanned by this worker alone.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        let is_old = self.will_be_old(object, header);
        if let (Some(locality), 0) = (self.locality, chunk) {
            self.count_scanned(locality, local, object);
        }
        // SAFETY: this worker alone scans the item, an object that was copied or stays, whose header was just read.
        unsafe {
            let visit = |local: &mut WorkerState, slot| self.slot(local, slot, is_old);
            if header.is_spine() {
                let place = (object, chunk);
                return self
                    .heap
                    .scan_spine(header, item, place, is_old, local, visit);
            }
            let model = &self.heap.model;
            if let Some(elements) = scan_item(model, header, item, object, chunk, local, visit) {
                objects::discover(self, local, object, elements, self.watch.waiting(), visit);
            }
        }
    }

    fn is_segregated(&self) -> bool {
        self.homes.is_some()
    }

    fn node_of(&self, message: Message) -> usize {
        // SAFETY: a slot that a worker of this trace found, and nobody has touched since.
        let object = unsafe {
            match message {
                Message::Slot(slot, _) => F::load(slot, self.heap.model.base).as_object(),
                Message::Root(slot) => Wide::load(slot, Address::NULL).as_object(),
            }
        };
        let found = object.and_then(|object| self.heap.nursery.turn_of(object));
        found.map_or(0, |(_, node, ..)| node)
    }

    fn receive(&self, local: &mut WorkerState, message: Message) {
        match message {
            Message::Slot(slot, holder_is_old) => self.waited(local, slot, holder_is_old),
            Message::Root(slot) => self.root_here::<Wide>(local, slot),
        }
    }

    fn settle(&self, local: &mut WorkerState) {
        loop {
            while let Some(entry) = local.edges.take() {
                let (slot, holder_is_old) = slot_of(entry);
                self.waited(local, slot, holder_is_old);
            }
            let keep = |local: &mut WorkerState, value| {
                self.reach(local, value);
            };
            if !self.watch.found(local, keep) {
                return;
            }
        }
    }
}

impl<F: SlotFormat, W: Watch> Liveness for Copying<'_, F, W> {
    fn place(&self, object: Address) -> Option<Address> {
        if !self.in_nursery(object) {
            let unreached = object > self.nursery.0
                && self.heap.large.is_young(object)
                && !self.bits.is_marked(object);
            return (!unreached).then_some(object);
        }
        if self.in_to_space(object) {
            return Some(object);
        }
        // SAFETY: references lead to objects; one that moved has left its place mapped.
        header::look(unsafe { header::word_of(object) }).forwardee(object)
    }

    fn keep(&self, local: &mut WorkerState, object: Address) -> Address {
        self.reach(local, object)
    }

    fn is_full(&self) -> bool {
        false
    }
}

impl<F: SlotFormat, W: Watch> HeapTrace for Copying<'_, F, W> {
    type Format = F;

    fn heap(&self) -> &Scavenge<F> {
        self.heap
    }

    fn needs_cards(&self, object: Address) -> bool {
        // SAFETY: an object that was reached: its header is normal, or says that it stays.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        self.will_be_old(object, header)
    }
}
