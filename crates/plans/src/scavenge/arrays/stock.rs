//! How mutators are given arraylets, and what fresh ones hold.

use core::cell::Cell;
use core::ptr::NonNull;

use super::counts::{ArrayCounts, Filling};
use gleaner_base::contexts::AllocatorLocked;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::address::CACHE_LINE;
use gleaner_mem::cards::CARD_BYTES;
use gleaner_mem::header;
use gleaner_mem::object_model::TypeId;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::{Pieces, Pointer};
use gleaner_mem::zero;

use gleaner_spaces::precise::arraylets::Contents;
use gleaner_spaces::precise::arraylets::{Arraylets, CHUNK_BYTES};

use crate::scavenge::Scavenge;
use crate::scavenge::allocate::{Place, Request};
use crate::scavenge::collect::Extent;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::parts::{Part, Writable};

/// How many arraylets a mutator gets beyond one that it needs.
const MORE_FOR_ONE: usize = 3;
/// How many where they are zeroed together: with the usual sizes, the rest of a chunk, which nobody else may take before
/// the next collection.
const MORE_OF_ZEROS: usize = 15;
/// After this many arraylets in a row that had to be zero, those in stock are zeroed together. An arraylet that is
/// copied to need not be zero.
const ZEROS_IN_A_ROW: u32 = 16;

impl<F: SlotFormat> Scavenge<F> {
    /// How the pointers of spines are read in this heap.
    pub fn pieces(&self) -> &Pieces {
        &self.model.pieces
    }

    /// The bytes of the elements of a new array, and whether they are slots, if it is to be a spine.
    ///
    /// # Safety
    /// `id` is a type of this heap.
    pub unsafe fn cut(&self, id: TypeId, length: u32) -> Option<(usize, bool)> {
        let cutting = self.config.cutting?;
        // SAFETY: `id` is a type of this heap, as asked.
        let (log2, slots) = unsafe { self.model.types.element_of(id) }?;
        let bytes = (length as usize) << log2;
        (bytes > cutting.first_n && cutting.cuts(slots)).then_some((bytes, slots))
    }

    /// The space of arraylets, of a heap whose arrays are cut.
    #[inline]
    pub fn arraylets(&self) -> &Arraylets {
        self.arraylets
            .as_ref()
            .expect("only a heap whose arrays are cut has spines")
    }

    /// Whether the stock of a mutator has `count` arraylets, so that nothing needs to be done for it.
    ///
    /// # Safety
    /// The record is the calling mutator's, attached to this heap and inside its gate.
    pub unsafe fn has_stock(
        &self,
        record: NonNull<Mutator>,
        contents: Contents,
        count: usize,
    ) -> bool {
        // SAFETY: the record is the calling mutator's, as asked.
        let stocked = unsafe { record.as_ref() }.with_stock(contents, |stock| stock.len());
        // Under stress each use of it is an allocation.
        stocked >= count && self.config.options.stress == 0
    }

    /// Fills the stock of a mutator up to `count` arraylets, without a collection; whether there was room for all of them.
    /// Where one is asked for there are a few, since another store is likely to ask for the next; and if the last ones that
    /// were used had to be zero, these are zeroed together. An arraylet that is zeroed when it is used makes the exchange of
    /// its pointer wait for all of these stores.
    ///
    /// # Safety
    /// As for [`Scavenge::has_stock`].
    pub unsafe fn stock(&self, record: NonNull<Mutator>, contents: Contents, count: usize) -> bool {
        // SAFETY: the record is the calling mutator's, as asked.
        let mutator = unsafe { record.as_ref() };
        let buffer = &mutator.arraylets[contents as usize];
        let before = mutator.with_stock(contents, |stock| stock.len());
        let missing = count.saturating_sub(before);
        // What can never be is refused before it has taken all that is free.
        if self.arraylet_bytes(missing) > self.limit() {
            return false;
        }
        let zeroes = count == 1 && mutator.zeros_in_a_row.get() >= ZEROS_IN_A_ROW;
        let more = match count {
            1 if zeroes => MORE_OF_ZEROS,
            1 => MORE_FOR_ONE,
            _ => 0,
        };
        let most = missing * (1 + more);
        let mut taken = 0;
        while taken < most {
            match self.arraylets().allocate(buffer) {
                Some(arraylet) => mutator.with_stock(contents, |stock| stock.push(arraylet)),
                None if taken >= missing => break,
                None if self.refill_arraylets(mutator, contents) => continue,
                None => return false,
            }
            taken += 1;
        }
        let bytes = self.model.pieces.arraylet_bytes();
        mutator.with_stock(contents, |stock| {
            let fresh = stock.len().min(before);
            for (arraylet, clean) in stock[fresh..].iter_mut().filter(|_| zeroes) {
                if !*clean {
                    // SAFETY: an arraylet, of `bytes` bytes. It is this mutator's, and nothing points to it.
                    unsafe { zero::zero(*arraylet, bytes) };
                    *clean = true;
                }
            }
            // They are used from the end: in the order of their addresses, as the parts of an array are.
            stock[fresh..].reverse();
        });
        true
    }

    fn refill_arraylets(&self, mutator: &Mutator, contents: Contents) -> bool {
        let buffer = &mutator.arraylets[contents as usize];
        let grow = |locked: &mut AllocatorLocked<'_>, resident: bool| {
            let fits = CHUNK_BYTES <= self.old_left();
            if fits && !resident {
                self.make_resident_room(locked, CHUNK_BYTES);
            }
            fits
        };
        let refill = |locked: &mut AllocatorLocked<'_>| {
            self.arraylets().refill(locked, buffer, contents, grow)
        };
        // SAFETY: the calling mutator is inside the gate, and gives the proof to parts of this heap.
        unsafe { self.beside.with(refill) }
    }

    /// Before a stock of `count` arraylets is filled: collects if there are many young ones, or under stress.
    ///
    /// # Safety
    /// As for [`Scavenge::has_stock`]; references of the mutator outside of root slots are not used again.
    pub unsafe fn before_stock(&self, record: NonNull<Mutator>, contents: Contents, count: usize) {
        // SAFETY: the record is the calling mutator's, as asked.
        let mutator = unsafe { record.as_ref() };
        if mutator.poll.load(Ordering::Relaxed) != 0 {
            self.poll(mutator);
        }
        if let Some(extent) = self.stress(mutator) {
            self.collect(mutator, extent, "stress");
        }
        let (taken, bytes) = (self.arraylets().taken(), self.arraylet_bytes(count));
        if taken > 0 && self.exceeds_young(bytes) {
            let reason = "young arraylets take what scavenges leave them";
            let request = Request::arraylets(contents, bytes);
            self.collect_unless_past(mutator, Extent::Young, reason, self.epoch(), request);
        }
    }

    fn arraylet_bytes(&self, count: usize) -> usize {
        count << self.model.pieces.arraylet_shift
    }

    /// There was no room for a stock, and for an object of `spine` bytes that is allocated first: collects what `next` says.
    /// False when nothing is left to try: memory is exhausted.
    ///
    /// # Safety
    /// As for [`Scavenge::before_stock`].
    pub unsafe fn make_room_for_stock(
        &self,
        mutator: &Mutator,
        contents: Contents,
        count: usize,
        spine: usize,
        next: &mut Option<Extent>,
    ) -> bool {
        // A large spine takes pages that would be chunks.
        let bytes = self.arraylet_bytes(count) + spine.next_multiple_of(CHUNK_BYTES);
        let Some(extent) = *next else {
            return false;
        };
        if faults::armed(FaultPoint::Allocation) || bytes > self.limit() {
            return false;
        }
        let (seen, request) = (self.epoch(), Request::arraylets(contents, bytes));
        let reason = "no room for arraylets";
        if let Some(false) = self.collect_unless_past(mutator, extent, reason, seen, request) {
            *next = extent.harder();
        }
        true
    }

    /// Makes a part of a spine writable, from the stock if it is not; where it lies then. Other mutators may be as far.
    ///
    /// # Safety
    /// The record is the calling mutator's, attached to this heap and inside its gate. A spine of this heap lies there
    /// that has this part. Its elements are slots if `contents` says so. The stock is not empty if the part is tainted.
    pub unsafe fn instantiate(
        &self,
        record: NonNull<Mutator>,
        (spine, number): (Address, usize),
        contents: Contents,
        filling: Filling,
    ) -> Address {
        // SAFETY: the record is the calling mutator's, as asked.
        let mutator = unsafe { record.as_ref() };
        let was_zero = Cell::new(false);
        let fill = |before: Pointer| {
            was_zero.set(before == self.model.pieces.zero);
            let zeros = match was_zero.get() && filling == Filling::Same {
                true => mutator.zeros_in_a_row.get().saturating_add(1),
                false => 0,
            };
            mutator.zeros_in_a_row.set(zeros);
            let taken = mutator.with_stock(contents, |stock| {
                let (arraylet, clean) = stock.pop()?;
                let next = stock.last().filter(|&&(_, clean)| !clean);
                Some((arraylet, clean, next.map(|&(next, _)| next)))
            });
            let (arraylet, clean, next) = taken.expect(
                "a store has arraylets in stock: what was opened for loads is not stored through",
            );
            // The exchange of the pointer waits until all that was stored before has arrived, so what is filled next had
            // better be in the cache by then.
            if let Some(next) = next {
                (0..self.model.pieces.arraylet_bytes())
                    .step_by(CACHE_LINE)
                    .for_each(|offset| next.add(offset).prefetch_for_write());
            }
            let part = (spine, number);
            // SAFETY: the arraylet is this mutator's alone, and what is shared is not written by anybody; the spine has this
            // part, as asked.
            unsafe { self.fill_arraylet((arraylet, clean), part, before, contents, filling) };
            arraylet
        };
        let (is_old, part) = (!self.is_young(spine), self.part(spine, number));
        loop {
            let made_old = |arraylet| self.dirty_if_slots(arraylet, contents);
            // SAFETY: the spine has this part, and the mutator is inside the gate, as asked; no spine points at a stock.
            match unsafe { part.instantiate(is_old, fill, made_old) } {
                Writable::Already(at) => return at,
                Writable::Installed(at) => {
                    mutator.count_arrays(|counts| {
                        counts.instantiated += 1;
                        counts.touched += u64::from(was_zero.get());
                    });
                    return at;
                }
                Writable::Others { at, unused } => {
                    mutator.with_stock(contents, |stock| stock.push((unused, false)));
                    return at;
                }
                // It is filled again, with what is there now.
                Writable::Led { unused } => {
                    mutator.with_stock(contents, |stock| stock.push((unused, false)));
                }
            }
        }
    }

    /// A part of a spine.
    #[inline]
    pub(super) fn part(&self, spine: Address, number: usize) -> Part<'_> {
        Part {
            pieces: &self.model.pieces,
            arraylets: self.arraylets(),
            spine,
            number,
        }
    }

    /// # Safety
    /// The arraylet is the caller's alone; `before` is a tainted pointer of a spine of this heap, which has this part.
    unsafe fn fill_arraylet(
        &self,
        (arraylet, clean): (Address, bool),
        (spine, number): (Address, usize),
        before: Pointer,
        contents: Contents,
        filling: Filling,
    ) {
        let pieces = &self.model.pieces;
        let bytes = pieces.arraylet_bytes();
        // What is unwritten may be seen by a worker before it is written: no reference may lead nowhere.
        let unwritten = filling == Filling::Unwritten && contents == Contents::Primitives;
        // SAFETY: an arraylet has `bytes` bytes. This one is the caller's, and nobody writes the one before. The spine has
        // this part, as asked.
        unsafe {
            if before == pieces.zero {
                if !clean && !unwritten {
                    zero::zero(arraylet, bytes);
                }
            } else if !unwritten {
                let shared = pieces.target(before).ptr::<u64>();
                shared.copy_to_nonoverlapping(arraylet.ptr(), bytes / 8);
                let header = header::load(spine, Ordering::Relaxed);
                self.clear_behind_end(header, (spine, number), arraylet);
            }
        }
    }

    /// An arraylet with these contents is old from now on.
    pub(super) fn dirty_if_slots(&self, arraylet: Address, contents: Contents) {
        if contents == Contents::References {
            self.dirty_arraylet(arraylet);
        }
    }

    /// All slots of an arraylet may refer to young objects.
    pub(super) fn dirty_arraylet(&self, arraylet: Address) {
        for offset in (0..self.model.pieces.arraylet_bytes()).step_by(CARD_BYTES) {
            self.cards.dirty(arraylet.add(offset));
        }
    }

    /// What became of arrays in pieces so far. A mutator inside the gate stops all others for it.
    pub fn array_counts(&self, mutator: &Mutator) -> ArrayCounts {
        self.with_stopped_world(mutator, |state, world| {
            let mut all = state.totals.arrays;
            for mutator in state.mutators.stopped(world).iter() {
                all.add(mutator.array_counts.get());
            }
            all
        })
    }
}

impl Request {
    /// Of arraylets.
    pub(super) fn arraylets(contents: Contents, bytes: usize) -> Request {
        Request {
            bytes,
            place: Place::Arraylets(contents),
        }
    }
}
