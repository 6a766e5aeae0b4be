//! What the words of conservative ranges lead to, found by the leader before anything moves.
//!
//! A word leads to an object if it is an address from the object's first byte to its last. In the old and in the pinned
//! space start bits tell where objects begin: the last start at or before the word, whose object must reach over it. So
//! free cells and free lines, where nothing begins, are never hit. An object that died since everything was last collected
//! has its start bit still, and is whole, as is all that it refers to. Nothing in the nursery tells where objects begin but
//! the object before. So words that lead there are sorted, and each of its spaces is walked over once, up to the last
//! such word. The same is done with new objects of the old space, piece by piece (`nursery=in-place`). Large objects are
//! compared with the sorted words.

use alloc::vec::Vec;

use gleaner_base::contexts::WorldStopped;
use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_spaces::precise::bump::BumpRegion;
use gleaner_spaces::precise::large_objects::Generation;
use gleaner_spaces::precise::regions::Kind;

use super::errors::WordRange;
use crate::scavenge::Scavenge;
use crate::scavenge::walk::Edge;

/// Calls `each` with what the words of a range hold now.
fn for_each_word(range: &WordRange, mut each: impl FnMut(Address)) {
    let load = |place: Address| {
        // SAFETY: the range, and the place of its lowest word's address, lie there as long as it is registered, as
        // `add_words` asks; they are aligned. Threads may write there meanwhile: each word is read once.
        unsafe { place.load_shared() }
    };
    let end = range.start.add(range.words * WordRange::WORD);
    let mut place = match range.lowest.is_null() {
        true => range.start,
        false => {
            let lowest = Address::new(load(range.lowest)).max(range.start).min(end);
            lowest.align_up(WordRange::WORD)
        }
    };
    while place < end {
        each(Address::new(load(place)));
        place = place.add(WordRange::WORD);
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// When the world has stopped, and all can be walked over: finds what words lead to, and what keeps its place in this
    /// collection.
    pub(in crate::scavenge) fn resolve_pins(&self, world: &mut WorldStopped<'_>) {
        let (mut candidates, mut referents) = self.pins.change(world, |table| {
            let mut candidates = core::mem::take(&mut table.candidates);
            let mut referents = core::mem::take(&mut table.referents);
            candidates.clear();
            referents.clear();
            for range in &table.ranges {
                for_each_word(range, |word| {
                    self.look_at(word, &mut candidates, &mut referents);
                });
            }
            (candidates, referents)
        });
        candidates.sort_unstable();
        candidates.dedup();
        let mut hit = |object| referents.push(object);
        for region in self.nursery.regions().iter() {
            let space = (region.kind, region.space.start(), region.space.top());
            self.hits_in(space, &candidates, &mut hit);
        }
        self.for_each_piece(|low, high| {
            self.hits_in((Kind::Eden, low, high), &candidates, &mut hit)
        });
        let within = |low: Address, high: Address| {
            let place = candidates.partition_point(|&word| word < low);
            candidates.get(place).is_some_and(|&word| word < high)
        };
        if candidates.iter().any(|&word| self.large.contains(word)) {
            for generation in [Generation::Young, Generation::Old] {
                self.large
                    .for_each(&mut world.allocator(), generation, |object| {
                        if within(object, object.add(self.live_bytes(object))) {
                            hit(object);
                        }
                    });
            }
        }
        self.pins.change(world, |table| {
            (table.candidates, table.referents) = (candidates, referents);
            table.keep(|object| !self.never_moves(object));
        });
    }

    /// A word: what it leads to where start bits tell it, or the word itself where something else has to.
    fn look_at(&self, word: Address, candidates: &mut Vec<Address>, referents: &mut Vec<Address>) {
        if self.in_nursery(word) || self.large.contains(word) {
            candidates.push(word);
            return;
        }
        for space in [&self.old, &self.pinned] {
            if space.region.contains(word) {
                let object = self.object_around(&space.region, word);
                if object.is_none() && self.in_place().is_some() {
                    candidates.push(word);
                }
                referents.extend(object);
            }
        }
    }

    /// The object of a space with start bits that a word points into.
    fn object_around(&self, region: &BumpRegion, word: Address) -> Option<Address> {
        if word >= region.top() {
            return None;
        }
        let bits = self.bits();
        let here = bits.starts(bits.word_of(word)).take_while(|&at| at <= word);
        let before = || bits.start_before(word, region.start());
        let object = here.last().or_else(before)?;
        (word < object.add(self.live_bytes(object))).then_some(object)
    }

    /// Memory in which all that is allocated lies side by side, from its start to its top.
    fn hits_in(
        &self,
        (kind, start, top): (Kind, Address, Address),
        words: &[Address],
        hit: &mut impl FnMut(Address),
    ) {
        let mut at = start;
        let first = words.partition_point(|&word| word < at);
        let last = words.partition_point(|&word| word < top);
        let mut words = words[first..last].iter().peekable();
        while let Some(&&word) = words.peek() {
            let found = self.found(Edge::Before, kind, at, top);
            let end = at.add(found.bytes);
            if word < end {
                if !found.header.type_id().is_filler() {
                    hit(at);
                }
                while words.next_if(|&&word| word < end).is_some() {}
            }
            at = end;
        }
    }
}
