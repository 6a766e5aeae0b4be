//! What workers count by memory node.

use alloc::boxed::Box;
use core::ptr::NonNull;

use gleaner_base::options::{OldPages, Pages};
use gleaner_base::sync::{AtomicU8, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;
use gleaner_spaces::precise::nursery::Nursery;
use gleaner_spaces::precise::regions::MOST_NODES;

use crate::scavenge::Config;

/// A number for each memory node.
pub type ByNode = [u64; MOST_NODES];

/// What one worker did, by the memory node that it was done on.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Objects whose references were visited; of an old one, once for each dirty card.
    pub scanned: ByNode,
    /// The scanned objects that are in the young spaces.
    pub scanned_young: ByNode,
    /// Objects that were copied within the young generation, by where they lay.
    pub copied_from: ByNode,
    /// The objects of `copied_from`, by where they lie now.
    pub copied: ByNode,
    /// Objects that were promoted, by where they lie now.
    pub promoted: ByNode,
    /// Slots of objects that got the new place of what they refer to.
    pub updated: ByNode,
    /// Items that were taken from the deques of workers of that node.
    pub stolen: ByNode,
    /// Slots that were sent to workers of that node.
    pub messages: ByNode,
}

impl Counts {
    pub(super) fn parts(&mut self) -> [&mut ByNode; 8] {
        [
            &mut self.scanned,
            &mut self.scanned_young,
            &mut self.copied_from,
            &mut self.copied,
            &mut self.promoted,
            &mut self.updated,
            &mut self.stolen,
            &mut self.messages,
        ]
    }
}

/// Sums over the life of a heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sums {
    /// How many memory nodes there are; numbers of others are 0.
    pub nodes: usize,
    /// What workers did, by the node of the worker.
    pub by_worker: [Counts; MOST_NODES],
    /// Pages of eden in use when a collection began, by their node.
    pub eden_pages: ByNode,
    /// Pages of the survivor spaces in use when a collection was over.
    pub survivor_pages: ByNode,
    /// Pages of the old space in use when a collection was over.
    pub old_pages: ByNode,
}

/// The node of each page of a heap.
pub struct Locality {
    pub(super) nodes: usize,
    pub(super) young: Pages,
    pub(super) old: OldPages,
    pub(super) base: Address,
    /// For each page of the heap's addresses one more than its node, or 0; empty where no space is `first-touch`.
    pub(super) owners: Option<(NonNull<AtomicU8>, usize)>,
    pub(super) page_bits: u32,
}

// SAFETY: the owners are atomics in memory of this value's own.
unsafe impl Sync for Locality {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Locality {}

impl Locality {
    /// For a heap of `span` bytes of addresses from `base` on. Nothing where there is nothing to count; an error when
    /// the system gives no memory.
    pub(in crate::scavenge) fn new(
        config: &Config,
        base: Address,
        span: usize,
    ) -> Result<Option<Locality>, ()> {
        let nodes = config.topology.nodes();
        if !config.topology.is_synthetic() || nodes == 1 {
            return Ok(None);
        }
        let (young, old) = (config.options.pages, config.options.old_pages);
        let page_bits = memory::page_size().ilog2();
        let is_first = young == Pages::FirstTouch || old == OldPages::FirstTouch;
        let owners = if is_first {
            let pages = span >> page_bits;
            Some((memory::map(pages).ok_or(())?.cast(), pages))
        } else {
            None
        };
        Ok(Some(Locality {
            nodes,
            young,
            old,
            base,
            owners,
            page_bits,
        }))
    }

    pub(super) fn owners(&self) -> &[AtomicU8] {
        match self.owners {
            // SAFETY: `new` mapped `count` bytes, zero at first, and they last as long as this.
            Some((first, count)) => unsafe { core::slice::from_raw_parts(first.as_ptr(), count) },
            None => &[],
        }
    }

    pub(super) fn page(&self, at: Address) -> usize {
        at.offset_from(self.base) >> self.page_bits
    }

    pub(super) fn owners_of(&self, start: Address, bytes: usize) -> &[AtomicU8] {
        match self.owners() {
            [] => &[],
            owners => &owners[self.page(start)..=self.page(start.add(bytes - 1))],
        }
    }

    /// A thread of a node touches memory: pages that belong to nobody are that node's.
    pub(in crate::scavenge) fn note_touched(&self, start: Address, bytes: usize, node: usize) {
        for owner in self.owners_of(start, bytes) {
            if owner.load(Ordering::Relaxed) == 0 {
                owner.store(node as u8 + 1, Ordering::Relaxed);
            }
        }
    }

    /// Whole pages were given back, or are about to be touched for the first time since.
    pub(in crate::scavenge) fn note_released(&self, start: Address, bytes: usize) {
        if bytes > 0 {
            let owners = self.owners_of(start, bytes);
            owners
                .iter()
                .for_each(|owner| owner.store(0, Ordering::Relaxed));
        }
    }

    /// The node of a page; that of a page that nobody touched is 0.
    pub(super) fn node_of(&self, nursery: &Nursery, at: Address) -> usize {
        let page = self.page(at);
        let owner = || match self.owners() {
            [] => 0,
            owners => usize::from(owners[page].load(Ordering::Relaxed)).saturating_sub(1),
        };
        if at.offset_from(nursery.start()) < nursery.bytes() {
            match self.young {
                Pages::Auto | Pages::FirstTouch => owner(),
                Pages::Interleaved => page % self.nodes,
                Pages::Fragmented | Pages::FragmentedFixed | Pages::Segregated => {
                    nursery.turn_of(at).map_or(0, |(_, node, ..)| node)
                }
            }
        } else {
            match self.old {
                OldPages::Auto | OldPages::FirstTouch => owner(),
                OldPages::Interleaved => page % self.nodes,
            }
        }
    }
}

impl Drop for Locality {
    fn drop(&mut self) {
        if let Some((owners, count)) = self.owners {
            // SAFETY: `new` mapped `count` bytes, rounded up to whole pages.
            unsafe { memory::unmap(owners.cast(), memory::whole_pages(count).unwrap_or(count)) };
        }
    }
}

/// Sums of nothing yet, for as many nodes.
pub(in crate::scavenge) fn no_sums(locality: Option<&Locality>) -> Option<Box<Sums>> {
    locality.map(|locality| {
        Box::new(Sums {
            nodes: locality.nodes,
            by_worker: [Counts::default(); MOST_NODES],
            eden_pages: [0; MOST_NODES],
            survivor_pages: [0; MOST_NODES],
            old_pages: [0; MOST_NODES],
        })
    })
}
