//! What a collection has left in the nursery, and the pins of mutators.
//!
//! A worker that leaves an object of the nursery where it is sets its start bit, while anything is kept. When the copying is
//! over these bits are all that is known of the nursery: the memory between two such objects is free. In eden it becomes
//! gaps, in the survivor spaces fillers, where nothing is allocated until the objects are gone.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_bits::WORD_BYTES;
use gleaner_mem::slot::{SlotFormat, Value};
use gleaner_spaces::precise::regions::{Kind, MOST_REGIONS, Region};

use super::errors::{PinError, WordRange, WordRangeError};
use crate::scavenge::Scavenge;

/// Where each region of the nursery ends behind a collection that left objects there.
pub(in crate::scavenge) struct Tops([Address; MOST_REGIONS]);

impl<F: SlotFormat> Scavenge<F> {
    /// A mutator inside the gate: an object has one pin more, and keeps its place as long as it has one and lives.
    ///
    /// # Safety
    /// If the value is an address at which an object of this heap can lie, one does.
    pub unsafe fn pin(&self, value: Value) -> Result<Address, PinError> {
        // SAFETY: an object lies there if it can, as asked.
        let object = unsafe { self.pinnable(value) }?;
        if !self.never_moves(object) {
            self.pins.pin(object)?;
        }
        Ok(object)
    }

    /// A mutator inside the gate: takes a pin of an object back.
    ///
    /// # Safety
    /// As for [`Scavenge::pin`].
    pub unsafe fn unpin(&self, value: Value) -> Result<(), PinError> {
        // SAFETY: an object lies there if it can, as asked.
        let object = unsafe { self.pinnable(value) }?;
        match self.never_moves(object) {
            true => Ok(()),
            false => self.pins.unpin(object),
        }
    }

    /// # Safety
    /// As for [`Scavenge::pin`].
    unsafe fn pinnable(&self, value: Value) -> Result<Address, PinError> {
        let object = value.as_object().ok_or(PinError::NoObject)?;
        if !self.can_hold(object) {
            return Err(PinError::Foreign);
        }
        if self.checks() {
            return Err(PinError::Quarantine);
        }
        // SAFETY: an object lies there, as asked.
        let header = unsafe { header::load(object, Ordering::Relaxed) };
        match self.config.cutting.is_some() && header.is_spine() {
            true => Err(PinError::Pieces),
            false => Ok(object),
        }
    }

    /// A mutator inside the gate: the words of a range are conservative roots from now on.
    ///
    /// # Safety
    /// Until the range is removed, or the heap ends, its words can be read, and so can the place of the lowest one's address.
    pub unsafe fn add_words(&self, range: WordRange) -> Result<(), WordRangeError> {
        if self.checks() {
            return Err(WordRangeError::Quarantine);
        }
        if self.config.cutting.is_some() {
            return Err(WordRangeError::Pieces);
        }
        self.pins.add_words(range)
    }

    /// In a stopped world: whether an object of the nursery keeps its place.
    pub(in crate::scavenge) fn keeps_young(&self) -> bool {
        let mut young = false;
        self.pins
            .for_each_kept(|object| young |= self.in_nursery(object));
        young
    }

    /// Behind a scavenge that was given up: what it left is looked at again.
    pub(in crate::scavenge) fn forget_stayed(&self, _: &mut WorldStopped<'_>) {
        if !self.pins.keeps() {
            return;
        }
        for region in self.nursery.regions().iter() {
            let end = region.space.end().align_up(WORD_BYTES);
            self.bits().clear_starts(region.space.start(), end);
        }
    }

    /// Behind a copying that has left objects in the nursery, if it has: they are normal, and what lies between is filled.
    /// Regions of kind `to` are as the copying has filled them. The caller sets the tops when the nursery is empty
    /// otherwise.
    pub(in crate::scavenge) fn settle_stayed(
        &self,
        world: &mut WorldStopped<'_>,
        to: Option<Kind>,
    ) -> Option<Tops> {
        if !self.pins.keeps() {
            return None;
        }
        let bits = self.bits();
        self.pins.retain(world, |object| {
            !self.in_nursery(object) || bits.is_marked(object)
        });
        let mut tops = Tops([Address::NULL; MOST_REGIONS]);
        for (top, region) in tops.0.iter_mut().zip(self.nursery.regions().iter()) {
            *top = match Some(region.kind) == to {
                true => region.space.top(),
                false => self.settle_region(world, region),
            };
        }
        Some(tops)
    }

    /// The end of the last object that is left in a region.
    fn settle_region(&self, world: &mut WorldStopped<'_>, region: &Region<'_>) -> Address {
        let (bits, space) = (self.bits(), region.space);
        let (start, end) = (space.start(), space.top().align_up(WORD_BYTES));
        let mut free = start;
        for object in (bits.word_of(start)..bits.word_of(end)).flat_map(|word| bits.starts(word)) {
            // SAFETY: a worker has left the object there, and of its header only the state was changed. What lies between it and
            // the one before is nobody's.
            unsafe {
                let header = header::load(object, Ordering::Relaxed);
                header::store(object, header.normal().older());
                self.poison(free, object.offset_from(free));
                match region.kind {
                    Kind::Eden => self.gaps.add(world, free, object),
                    _ if free < object => {
                        gleaner_mem::object_model::fill(free, object.offset_from(free));
                    }
                    _ => {}
                }
            }
            free = object.add(self.live_bytes(object));
        }
        bits.clear_starts(start, end);
        free
    }

    /// The nursery is empty but for what was left there.
    pub(in crate::scavenge) fn adopt_stayed(
        &self,
        world: &mut WorldStopped<'_>,
        tops: Option<Tops>,
    ) {
        if let Some(Tops(tops)) = tops {
            self.nursery.set_tops(world, tops);
        }
    }
}
