//! How many objects and bytes there are of each type, and, with option `count-types`, were allocated.
//!
//! What was allocated is counted when a collection begins: all objects in eden above where that ended at the collection
//! before. Objects with a place of their own, pinned or large, are counted as they are allocated, which is slow anyway.
//! Bytes are those of objects; of an array in pieces, of its spine.
//!
//! In a stopped world nothing here allocates: the counts get their room before. Types that are registered in between, if
//! they are more than the room to spare, are not counted by that collection.

use alloc::vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::object_model::TypeId;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::regions::Kind;

use super::counts::{Census, Count};
use crate::scavenge::allocate::Request;
use crate::scavenge::collect::Extent;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::report::room;
use crate::scavenge::walk::Edge;
use crate::scavenge::{LARGE_BYTES, Scavenge, State};

impl<F: SlotFormat> Scavenge<F> {
    /// Whether what is allocated is counted by type.
    fn counts_types(&self) -> bool {
        self.config.options.count_types
    }

    /// A mutator inside the gate has allocated an object of the type, and not in its buffer if it is large or `apart`.
    #[inline]
    pub fn note_type(&self, id: TypeId, bytes: usize, apart: bool) {
        if !self.counts_types() || !(apart || bytes > LARGE_BYTES) {
            return;
        }
        self.allocated_by_type.with(|counts| {
            let number = id.get() as usize;
            if number >= counts.len() {
                counts.resize(room(number as u32), Count::default());
            }
            counts[number].add(bytes);
        });
    }

    /// A mutator inside the gate has unregistered the type: of another one with its number nothing was allocated yet.
    pub fn forget_type(&self, id: TypeId) {
        self.allocated_by_type.with(|counts| {
            if let Some(of) = counts.get_mut(id.get() as usize) {
                *of = Count::default();
            }
        });
    }

    /// Before the world is stopped: room for all types. The caller is outside of the gate, and holds `collecting`.
    pub(in crate::scavenge) fn prepare_types(&self) {
        if self.counts_types() {
            let types = room(self.model.types.count());
            self.allocated_by_type.with(|counts| {
                let more = types.max(counts.len());
                counts.resize(more, Count::default());
            });
        }
    }

    /// When a collection begins and buffers are retired: counts what was allocated in eden, or in its stead, since the one before.
    pub(in crate::scavenge) fn count_fresh(&self, state: &State, world: &WorldStopped<'_>) {
        if !self.counts_types() {
            return;
        }
        let count = |counts: &mut [Count]| {
            self.for_each_new(Edge::Before, &mut |found| {
                if let Some(of) = counts.get_mut(found.header.type_id().get() as usize) {
                    of.add(found.bytes);
                }
            });
            let mut count_from = |mut at: Address, top: Address| {
                while at < top {
                    let found = self.found(Edge::Before, Kind::Eden, at, top);
                    let id = found.header.type_id();
                    if let (false, Some(of)) = (id.is_filler(), counts.get_mut(id.get() as usize)) {
                        of.add(found.bytes);
                    }
                    at = at.add(found.bytes);
                }
            };
            self.gaps.for_each_taken(&mut count_from);
            for (node, region) in self.nursery.eden.fragments().iter().enumerate() {
                count_from(state.fresh_from[node].max(region.start()), region.top());
            }
        };
        self.allocated_by_type.stopped(world, count);
    }

    /// When a collection is over: what is allocated in eden from here on was not counted.
    pub(in crate::scavenge) fn note_fresh(&self, state: &mut State) {
        for (from, region) in state
            .fresh_from
            .iter_mut()
            .zip(self.nursery.eden.fragments())
        {
            *from = region.top();
        }
    }

    /// Collects everything, and counts what lives in the same stop. A mutator inside the gate calls it.
    pub fn census(&self, mutator: &Mutator) -> Census {
        let types = room(self.model.types.count());
        let mut census = Census {
            live: vec![Count::default(); types],
            allocated: vec![Count::default(); if self.counts_types() { types } else { 0 }],
        };
        self.collect_and(
            mutator,
            (Extent::Full, "a census"),
            (None, Request::NOTHING),
            Some(&mut |_, world, _| {
                self.for_each_object(world, Edge::After, &mut |found| {
                    let number = found.header.type_id().get() as usize;
                    if let Some(of) = census.live.get_mut(number) {
                        of.add(found.bytes);
                    }
                });
                self.allocated_by_type.stopped(world, |counts| {
                    let pairs = census.allocated.iter_mut().zip(counts);
                    pairs.for_each(|(into, count)| *into = *count);
                });
            }),
        );
        census
    }
}
