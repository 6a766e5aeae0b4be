//! Allocation off the fast path: a fresh TLAB, an object that never moves, or a collection first (ASPLOS 2013, section
//! 2.2). Where new objects lie in the old space, [`in_place`](super::in_place) has the TLABs.
//!
//! # Invariants
//! - What is handed out reads as zero (I2), unless the caller promised to write all of it, and nothing polls between
//!   that and the header's being written.
//! - When there is no room: a scavenge, then everything, at last sliding, and only then is it out of memory (I7).

use core::ptr::NonNull;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::object_model::ELEMENTS;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::zero;
use gleaner_spaces::precise::arraylets::{Arraylets, CHUNK_BYTES, Contents};
use gleaner_spaces::precise::large_objects::PAGE_BYTES;
use gleaner_spaces::precise::tenured::{BLOCK_BYTES, Growth};

use super::collect::Extent;
use super::in_place::state::InPlace;
use super::mutator::Mutator;
use super::stop::whereabouts::Passage;
use super::{LARGE_BYTES, Scavenge};

/// Where an object goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Where its size says.
    Anywhere,
    /// Where it never moves.
    Pinned,
    /// Where it never moves. This many bytes behind header and length cannot be accessed; the rest of it lies before.
    Fenced(usize),
    /// No object: arraylets with these contents.
    Arraylets(Contents),
    /// Among the constants.
    Constant,
}

impl Place {
    /// Bytes behind the object that cannot be accessed.
    fn fence(self) -> usize {
        match self {
            Place::Fenced(bytes) => bytes,
            _ => 0,
        }
    }
}

/// What room is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// How many bytes.
    pub bytes: usize,
    /// Where.
    pub place: Place,
}

impl Request {
    /// For a collection that has another reason.
    pub const NOTHING: Request = Request {
        bytes: 0,
        place: Place::Anywhere,
    };

    /// How many bytes this takes beside the nursery.
    pub(super) fn beside(&self) -> usize {
        let pages = self.bytes.next_multiple_of(PAGE_BYTES);
        match self.place {
            Place::Pinned => pages.max(2 * BLOCK_BYTES),
            Place::Fenced(_) => pages,
            Place::Arraylets(_) => self.bytes.next_multiple_of(CHUNK_BYTES),
            Place::Constant => self.bytes,
            Place::Anywhere if self.bytes > LARGE_BYTES => pages,
            Place::Anywhere => 0,
        }
    }

    /// How many bytes this takes of the nursery.
    pub(super) fn young(&self) -> usize {
        match self.place {
            Place::Anywhere if self.bytes <= LARGE_BYTES => self.bytes,
            _ => 0,
        }
    }
}

/// What fresh memory must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// Zeros (I2).
    Zeroed,
    /// Anything: the caller writes all of it before the next poll.
    Unwritten,
}

impl<F: SlotFormat> Scavenge<F> {
    /// Memory for an object of `bytes` bytes, a multiple of 8, when the TLAB has no room for it or it is to be
    /// pinned. `None` when memory is exhausted. May collect.
    ///
    /// # Safety
    /// The record is the calling mutator's, attached to this heap and inside its gate.
    #[cold]
    #[inline(never)]
    pub unsafe fn allocate_slowly(
        &self,
        record: NonNull<Mutator>,
        bytes: usize,
        place: Place,
        fresh: Fresh,
    ) -> Option<Address> {
        // Every mutator that allocates takes the slow path regularly, so a poll here lets no stopper wait long.
        // SAFETY: the record is the calling mutator's, as asked, so it exists until that mutator detaches. What the
        // collector changes in it, it changes in cells, and only while this thread is in one of its calls.
        let mutator = unsafe { record.as_ref() };
        mutator.whereabouts.note_inside(Passage::Allocation);
        if mutator.poll.load(Ordering::Relaxed) != 0 {
            self.poll(mutator);
        }
        if self.checks() {
            self.check_last(mutator);
        }
        if let Some(extent) = self.stress(mutator) {
            self.collect(mutator, extent, "stress");
        }
        self.census_if_due(mutator);
        self.collect_for_external(mutator);
        self.allocate_or_collect(mutator, bytes, (place, fresh))
    }

    /// As [`Scavenge::allocate_slowly`], behind a collection that made room for this and for more: none comes before it that
    /// this does not need, which would give the room away.
    ///
    /// # Safety
    /// As for [`Scavenge::allocate_slowly`].
    pub unsafe fn allocate_again(
        &self,
        record: NonNull<Mutator>,
        bytes: usize,
        place: Place,
        fresh: Fresh,
    ) -> Option<Address> {
        // SAFETY: the record is the calling mutator's, as asked.
        let mutator = unsafe { record.as_ref() };
        if self.checks() {
            self.check_last(mutator);
        }
        self.allocate_or_collect(mutator, bytes, (place, fresh))
    }

    #[inline(never)]
    fn allocate_or_collect(
        &self,
        mutator: &Mutator,
        bytes: usize,
        (place, fresh): (Place, Fresh),
    ) -> Option<Address> {
        if faults::armed(FaultPoint::Allocation) || bytes > self.limit() {
            return None;
        }
        let request = Request { bytes, place };
        if self.many_young_large(&request) {
            let reason = "young large objects take what scavenges leave them";
            self.collect_unless_past(mutator, Extent::Young, reason, self.epoch(), request);
        }
        if place == Place::Pinned && self.pinned_are_due() {
            let reason = "as many pinned objects as the old space was to have";
            self.collect_unless_past(mutator, Extent::Full, reason, self.epoch(), request);
        }
        let (mut next, mut collected) = (Some(Extent::Young), false);
        loop {
            let seen = self.epoch();
            // Where a fragment has no more than its share, a collection comes before others are asked.
            let from_others = next != Some(Extent::Young) || collected;
            if let Some(object) = self.take(mutator, bytes, (place, fresh), from_others) {
                return Some(object);
            }
            collected = true;
            let reason = "no room to allocate";
            // Only what the hardest collection leaves without room is out of memory: others may be faster.
            if let Some(false) = self.collect_unless_past(mutator, next?, reason, seen, request) {
                next = next.and_then(Extent::harder);
            }
        }
    }

    /// Large objects do not fill eden; so that the dead ones among them neither wait for it to be full nor take the
    /// room that the next scavenge promotes into.
    fn many_young_large(&self, &Request { bytes, place }: &Request) -> bool {
        let is_large = bytes > LARGE_BYTES || matches!(place, Place::Fenced(_));
        is_large && self.exceeds_young(bytes)
    }

    /// Bytes of young large objects and arraylets.
    pub(super) fn young_beside(&self) -> usize {
        let arraylets = self.arraylets.as_ref().map_or(0, Arraylets::taken);
        self.large.young_used() + arraylets
    }

    /// Whether `bytes` bytes more are too many young ones beside the nursery. In place, all that is young shares the same bytes.
    pub(super) fn exceeds_young(&self, bytes: usize) -> bool {
        let pieces = self.in_place().map_or(0, InPlace::taken);
        let young = self.young_beside() + pieces;
        young > 0 && young + bytes > self.young_large_limit.load(Ordering::Relaxed)
    }

    /// Pinned objects that died are free after a collection of everything, not after a scavenge: whether one is due for
    /// their sake. Not for a few, whatever the room.
    fn pinned_are_due(&self) -> bool {
        let pinned = self.pinned_lately.load(Ordering::Relaxed);
        let no_room = || self.old_left() < 2 * BLOCK_BYTES || self.pinned.region.free() == 0;
        pinned >= self.pinned_due.load(Ordering::Relaxed)
            || pinned >= self.least_pinned() && no_room()
    }

    fn least_pinned(&self) -> usize {
        (self.limit() / 16).max(2 * BLOCK_BYTES)
    }

    /// After a collection of everything, in a stopped world: how many bytes of pinned objects may come before the next.
    pub(super) fn set_pinned_due(&self, room: usize) {
        let due = room.max(self.least_pinned());
        self.pinned_due.store(due, Ordering::Relaxed);
        self.pinned_lately.store(0, Ordering::Relaxed);
    }

    /// Whether there is room. It never says so where [`Scavenge::take`] would find none.
    pub(super) fn has_room(
        &self,
        world: &mut WorldStopped<'_>,
        Request { bytes, place }: Request,
    ) -> bool {
        if let Place::Arraylets(contents) = place {
            let left = self.old_left();
            return self.arraylets().room(world, contents, left) >= bytes;
        }
        if place == Place::Constant {
            return bytes <= self.constants_left().min(self.old_left());
        }
        if bytes > LARGE_BYTES || place != Place::Anywhere {
            let fence = place.fence();
            // Small ones that are pinned may fit into a hole, too; the caller tries.
            bytes.next_multiple_of(PAGE_BYTES) <= self.old_left()
                && !(fence > 0 && self.large.lacks_fences())
                && self.large.has_room(
                    &mut world.allocator(),
                    bytes.next_multiple_of(PAGE_BYTES) + fence,
                )
        } else {
            match self.in_place() {
                None => {
                    self.nursery.eden.has_piece(bytes + self.guard_bytes())
                        || self.gaps.has_piece(bytes)
                }
                Some(_) => self.has_room_in_place(world, bytes),
            }
        }
    }

    fn take(
        &self,
        mutator: &Mutator,
        bytes: usize,
        (place, fresh): (Place, Fresh),
        from_others: bool,
    ) -> Option<Address> {
        if bytes > LARGE_BYTES || place != Place::Anywhere {
            let object = self.take_beside(mutator, bytes, place, fresh)?;
            if self.checks() {
                // SAFETY: the memory is the calling mutator's alone.
                unsafe { self.note_last(mutator, (object, bytes), fresh, false) };
            }
            return Some(object);
        }
        if let Some(pieces) = self.in_place() {
            return self.take_in_place(pieces, mutator, bytes, fresh);
        }
        if self.checks() {
            return self.take_guarded(mutator, bytes, fresh, from_others);
        }
        // Under stress each object has a buffer of its own, so that every allocation comes here.
        let wanted = if self.config.options.stress > 0 {
            bytes
        } else {
            self.config.options.tlab.max(bytes)
        };
        if let Some(object) = self.next_window(mutator, bytes, fresh) {
            return Some(object);
        }
        if let Some(object) = self.take_gap(mutator, (bytes, wanted), fresh, false) {
            return Some(object);
        }
        let node = self.node_here(mutator);
        let Some(piece) = self.nursery.eden.take(node, bytes, wanted, from_others) else {
            return self.take_gap(mutator, (bytes, wanted), fresh, true);
        };
        self.note_touched(mutator, piece, false);
        // SAFETY: the buffer is the calling mutator's.
        unsafe { mutator.retire_tlab() };
        mutator.note_allocated(piece.1);
        let unwritten = fresh == Fresh::Unwritten && piece.1 == bytes;
        self.refill(mutator, piece, unwritten);
        let object = match mutator.tlab.allocate(bytes) {
            Some(object) => object,
            None => self.next_window(mutator, bytes, fresh)?,
        };
        if fresh == Fresh::Zeroed && mutator.zeroes.get() != 0 {
            // SAFETY: the piece is the calling mutator's alone.
            unsafe { zero::zero(object, bytes) };
        }
        Some(object)
    }

    /// A buffer in a gap of eden, which lies below what is zeroed ahead.
    fn take_gap(
        &self,
        mutator: &Mutator,
        (bytes, wanted): (usize, usize),
        fresh: Fresh,
        passes: bool,
    ) -> Option<Address> {
        let piece = self.gaps.take(bytes, wanted, passes)?;
        self.note_touched(mutator, piece, false);
        // SAFETY: the buffer is the calling mutator's.
        unsafe { mutator.retire_tlab() };
        mutator.note_allocated(piece.1);
        self.refill_gap(
            mutator,
            piece,
            fresh == Fresh::Unwritten && piece.1 == bytes,
        );
        mutator.tlab.allocate(bytes)
    }

    /// A buffer for one object, which has a guard behind it: so every allocation comes here.
    fn take_guarded(
        &self,
        mutator: &Mutator,
        bytes: usize,
        fresh: Fresh,
        from_others: bool,
    ) -> Option<Address> {
        let whole = bytes + self.guard_bytes();
        let node = self.node_here(mutator);
        let (object, _) = self.nursery.eden.take(node, whole, whole, from_others)?;
        self.note_touched(mutator, (object, whole), false);
        // SAFETY: the buffer is the calling mutator's.
        unsafe { mutator.retire_tlab() };
        mutator
            .allocated_bytes
            .set(mutator.allocated_bytes.get() + bytes as u64);
        // SAFETY: the piece is the calling mutator's alone.
        unsafe {
            zero::zero(object, bytes);
            self.note_last(mutator, (object, bytes), fresh, true);
        }
        Some(object)
    }

    /// An object that never moves.
    fn take_beside(
        &self,
        mutator: &Mutator,
        bytes: usize,
        place: Place,
        fresh: Fresh,
    ) -> Option<Address> {
        let is_small = bytes <= LARGE_BYTES && place == Place::Pinned;
        let take = |locked: &mut AllocatorLocked<'_>| {
            if is_small && let Some(small) = self.take_pinned(locked, bytes) {
                return Some(small);
            }
            let taken = self.take_large(locked, bytes, place.fence());
            if taken.is_some() && is_small {
                let pages = bytes.next_multiple_of(PAGE_BYTES);
                self.pinned_lately.fetch_add(pages, Ordering::Relaxed);
            }
            taken
        };
        // SAFETY: the calling mutator is inside the gate, and gives the proof to parts of this heap.
        let (object, is_zero) = unsafe { self.beside.with(take) }?;
        let start = match place {
            Place::Fenced(_) => object.add(ELEMENTS).sub(bytes),
            _ => object,
        };
        self.note_touched(mutator, (start, bytes), is_zero);
        if !is_zero && fresh == Fresh::Zeroed {
            // SAFETY: the memory is the calling mutator's alone.
            let zero = || unsafe { self.zeroing.kernel().zero(start, bytes) };
            self.zeroing.zero_as_mutator(mutator, bytes, zero);
        }
        mutator.note_allocated(bytes);
        Some(object)
    }

    fn take_pinned(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
    ) -> Option<(Address, bool)> {
        // The space grows by the rest of a block and another one at most.
        let growth = if self.old_left() < 2 * BLOCK_BYTES {
            Growth::Forbidden
        } else {
            self.make_resident_room(locked, 2 * BLOCK_BYTES);
            Growth::Allowed
        };
        let buffer = self.beside.pinned_buffer(locked);
        let object = self.pinned.allocate(self.bits(), buffer, bytes, growth)?;
        self.bits().add(object);
        self.pinned_lately.fetch_add(bytes, Ordering::Relaxed);
        Some((object, false))
    }

    fn take_large(
        &self,
        locked: &mut AllocatorLocked<'_>,
        bytes: usize,
        fence: usize,
    ) -> Option<(Address, bool)> {
        let pages = bytes.next_multiple_of(PAGE_BYTES);
        if pages > self.old_left() {
            return None;
        }
        if !self.large.is_resident(locked, pages + fence) {
            self.make_resident_room(locked, pages);
        }
        if fence == 0 {
            return self.large.allocate(locked, bytes);
        }
        let taken = self.large.allocate_fenced(locked, bytes, fence);
        if self.large.lacks_fences() {
            self.guard.say_refused();
        }
        taken
    }

    /// What is to be collected because of `stress`: every kind in turn.
    pub(super) fn stress(&self, mutator: &Mutator) -> Option<Extent> {
        if self.config.options.stress == 0 {
            return None;
        }
        let left = mutator.stress_left.get().saturating_sub(1);
        mutator.stress_left.set(left);
        if left > 0 {
            return None;
        }
        mutator.stress_left.set(self.config.options.stress);
        Some(match self.epoch() % 4 {
            0 | 2 => Extent::Young,
            1 => Extent::Full,
            _ => Extent::Compact,
        })
    }
}
