//! A space of the nursery in fragments, one for each memory node (ASPLOS 2013, sections 3.2 and 3.3).
//!
//! Each fragment has a range of addresses as large as the whole space's, so that a node may have all of it. One counter
//! governs the bytes of all fragments, another the pages that they have memory for. With one node the end of the only
//! fragment is both.
//!
//! # Invariants
//! - What fragments have memory for, all together, is no more than the size of the space (I7). A fragment has memory up
//!   to its end; threads raise it while they take pieces, and it is lowered in a stopped world, where the memory above is
//!   given back.
//! - In a stopped world, where [`Fragmented::has_piece`] says that there is room, a thread of any node finds it.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicUsize, Ordering};
use gleaner_mem::Address;
use gleaner_os::memory;

use crate::precise::bump::BumpRegion;
use crate::precise::regions::MOST_NODES;

/// Fragments with a smaller share than this many bytes have none of their own: an object might not fit into any.
const LEAST_SHARE: usize = 32 << 10;

/// How the spaces of a nursery are cut for memory nodes.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// How many fragments a space has: one for each memory node, at most [`MOST_NODES`].
    pub nodes: usize,
    /// Each fragment has an equal share of the space's bytes and no more, as in Parallel Scavenge itself (ASPLOS 2013,
    /// section 3.3); otherwise a fragment may have all of them.
    pub shares: bool,
    /// For each node, all of them in the order in which they are asked for room: itself first, then the nearest.
    pub nearest: [[u8; MOST_NODES]; MOST_NODES],
}

impl Cut {
    /// In one piece.
    pub const WHOLE: Cut = Cut::in_turn(1);

    /// For `nodes` nodes, which help each other out in the order of their numbers, the first after the last.
    pub const fn in_turn(nodes: usize) -> Cut {
        let mut nearest = [[0; MOST_NODES]; MOST_NODES];
        let mut node = 0;
        while node < nodes {
            let mut step = 0;
            while step < nodes {
                nearest[node][step] = ((node + step) % nodes) as u8;
                step += 1;
            }
            node += 1;
        }
        Cut {
            nodes,
            shares: false,
            nearest,
        }
    }
}

/// A space of the nursery, in fragments.
#[derive(Debug)]
pub struct Fragmented {
    /// Where its addresses begin.
    pub(super) start: Address,
    /// One for each node; those behind them are empty. Where several fragments may have all bytes, what lies above the
    /// end of a fragment holds no memory yet. Mutators raise the end, as far as `unbacked` allows.
    pub(super) fragments: [BumpRegion; MOST_NODES],
    pub(super) cut: Cut,
    /// The most bytes that a fragment, and all together, ever have.
    pub(super) most: usize,
    /// With several fragments, the bytes that may yet be taken of all together. Taken by compare-and-swap before a
    /// fragment is asked; set in a stopped world. Relaxed: it is no more than a number to compare with.
    pub(super) left: AtomicUsize,
    /// The bytes, whole pages, by which the ends of the fragments may yet be raised, all together (I7). As `left`.
    unbacked: AtomicUsize,
    /// Bytes that were taken for threads of each node since the space was last balanced. As `left`.
    asked: [AtomicUsize; MOST_NODES],
    /// How many of the bytes in `asked` were found in the fragments of other nodes, or nowhere.
    elsewhere: AtomicUsize,
    /// How often a fragment fits into its range.
    pub(super) turns: usize,
    /// Which turn each is in. Written in a stopped world.
    pub(super) turn: [AtomicUsize; MOST_NODES],
}

impl Fragmented {
    pub(super) fn new(start: Address, most: usize, turns: usize, cut: Cut) -> Fragmented {
        let fragment = |node: usize| {
            let bytes = if (node, cut.nodes) == (0, 1) { most } else { 0 };
            BumpRegion::new(start.add(node.min(cut.nodes) * turns * most), bytes)
        };
        let space = Fragmented {
            start,
            fragments: core::array::from_fn(fragment),
            cut,
            most,
            left: AtomicUsize::new(most),
            unbacked: AtomicUsize::new(0),
            asked: core::array::from_fn(|_| AtomicUsize::new(0)),
            elsewhere: AtomicUsize::new(0),
            turns,
            turn: core::array::from_fn(|_| AtomicUsize::new(0)),
        };
        if cut.nodes > 1 {
            // SAFETY: nobody else has the space yet.
            let mut world = unsafe { WorldStopped::begin() };
            space.resize(&mut world, most);
        }
        space
    }

    /// The fragments, by node.
    pub fn fragments(&self) -> &[BumpRegion] {
        &self.fragments[..self.cut.nodes]
    }

    /// Bytes of addresses.
    pub(super) fn range(&self) -> usize {
        self.cut.nodes * self.turns * self.most
    }

    /// Takes `wanted` bytes for a thread of a node, or what is left if that is at least `least`. All are multiples of
    /// 8. They are of the node's fragment; where that has too few, of the nearest that has enough.
    ///
    /// Where each fragment has its share and no more, others are asked only if `from_others`.
    #[inline]
    pub fn take(
        &self,
        node: usize,
        least: usize,
        wanted: usize,
        from_others: bool,
    ) -> Option<(Address, usize)> {
        if self.cut.nodes == 1 {
            return self.fragments[0].take(least, wanted);
        }
        let helps = from_others || !self.cut.shares || self.share_of(self.bytes()).is_none();
        self.take_near(node, least, wanted, if helps { self.cut.nodes } else { 1 })
    }

    /// As [`Fragmented::take`], of the node's fragment alone: where that lacks memory, there is nothing.
    pub fn take_own(&self, node: usize, least: usize, wanted: usize) -> Option<(Address, usize)> {
        let relaxed = Ordering::Relaxed;
        // Asked first, so that what only others can take is not reserved meanwhile.
        let has_memory = self.fragments[node].free() + self.unbacked.load(relaxed) >= least;
        let piece = has_memory.then(|| self.take_near(node, least, wanted, 1));
        let piece = piece.flatten();
        if piece.is_none() && self.free() >= least {
            self.asked[node].fetch_add(least, relaxed);
            self.elsewhere.fetch_add(least, relaxed);
        }
        piece
    }

    /// As [`Fragmented::take`], of the `fragments` fragments that are nearest to the node, the nearest first.
    fn take_near(
        &self,
        node: usize,
        least: usize,
        wanted: usize,
        fragments: usize,
    ) -> Option<(Address, usize)> {
        let relaxed = Ordering::Relaxed;
        let taken = |left: usize| (left >= least).then(|| left - wanted.min(left));
        let left = self.left.fetch_update(relaxed, relaxed, taken).ok()?;
        let granted = wanted.min(left);
        for &near in &self.cut.nearest[node][..fragments] {
            let near = usize::from(near);
            if let Some(piece) = self.take_of(near, least, granted) {
                self.left.fetch_add(granted - piece.1, relaxed);
                self.asked[node].fetch_add(piece.1, relaxed);
                if near != node {
                    self.elsewhere.fetch_add(piece.1, relaxed);
                }
                return Some(piece);
            }
        }
        self.left.fetch_add(granted, relaxed);
        None
    }

    /// Of this fragment, whose end is raised if need be, and if that is enough.
    fn take_of(&self, node: usize, least: usize, wanted: usize) -> Option<(Address, usize)> {
        let fragment = &self.fragments[node];
        let free = fragment.free();
        let short = wanted.saturating_sub(free);
        if short > 0 {
            let pages = short.next_multiple_of(memory::page_size());
            let relaxed = Ordering::Relaxed;
            let taken = |unbacked: usize| {
                let more = pages.min(unbacked);
                (more > 0 && free + more >= least).then(|| unbacked - more)
            };
            if let Ok(unbacked) = self.unbacked.fetch_update(relaxed, relaxed, taken) {
                fragment.raise_end(pages.min(unbacked));
            }
        }
        fragment.take(least, wanted)
    }

    /// Which fragment's range an address of the space lies in.
    pub fn node_of(&self, at: Address) -> usize {
        at.offset_from(self.start) / (self.turns * self.most)
    }

    /// Bytes in use.
    #[inline(never)]
    pub fn used(&self) -> usize {
        self.fragments().iter().map(BumpRegion::used).sum()
    }

    /// Bytes that may yet be taken.
    pub fn free(&self) -> usize {
        match self.cut.nodes {
            1 => self.fragments[0].free(),
            _ => self.left.load(Ordering::Relaxed),
        }
    }

    /// Whether a thread of any node would find `bytes` bytes in one piece, at last in the fragments of other nodes. The
    /// world is stopped.
    pub fn has_piece(&self, bytes: usize) -> bool {
        let unbacked = self.unbacked.load(Ordering::Relaxed);
        let fits = |fragment: &BumpRegion| fragment.free() + unbacked >= bytes;
        bytes <= self.free() && self.fragments().iter().any(fits)
    }

    /// The size: bytes in use and bytes that may yet be taken.
    pub fn bytes(&self) -> usize {
        self.used() + self.free()
    }

    /// Whether a fragment contains an address.
    pub fn contains(&self, at: Address) -> bool {
        self.fragments()
            .iter()
            .any(|fragment| fragment.contains(at))
    }

    /// All fragments are empty.
    pub fn reset(&self, world: &mut WorldStopped<'_>) {
        let bytes = self.bytes();
        self.fragments()
            .iter()
            .for_each(|fragment| fragment.reset(world));
        self.left.store(bytes, Ordering::Relaxed);
    }

    /// The size is this from now on, or that of a fragment's range if that is less, or the pages in use if those are
    /// more.
    pub(super) fn resize(&self, world: &mut WorldStopped<'_>, bytes: usize) {
        let bytes = bytes.min(self.most);
        let page = memory::page_size();
        let [fragment, ..] = &self.fragments;
        match self.cut.nodes {
            1 => {
                fragment.set_end(&mut world.allocator(), fragment.start().add(bytes));
                let whole = fragment.end().align_up(page);
                fragment.set_end(
                    &mut world.allocator(),
                    whole.min(fragment.start().add(self.most)),
                );
            }
            _ => match self.share_of(bytes) {
                Some(share) => self.share(world, share),
                None => {
                    let used = self.fragments().iter().map(pages_in_use).sum();
                    let bytes = bytes.max(used);
                    self.left.store(bytes - self.used(), Ordering::Relaxed);
                    self.back(world, bytes / page * page);
                }
            },
        }
    }

    /// What each fragment has of `bytes` bytes, where fragments have equal shares that are no smaller than objects.
    fn share_of(&self, bytes: usize) -> Option<usize> {
        let page = memory::page_size();
        let share = bytes / self.cut.nodes / page * page;
        (self.cut.shares && share >= LEAST_SHARE).then_some(share)
    }

    /// Each fragment has `bytes` bytes from now on, or its pages in use if these are more.
    fn share(&self, world: &mut WorldStopped<'_>, bytes: usize) {
        for fragment in self.fragments() {
            let bytes = bytes.max(pages_in_use(fragment));
            fragment.set_end(&mut world.allocator(), fragment.start().add(bytes));
        }
        let left = self.fragments().iter().map(BumpRegion::free).sum();
        self.left.store(left, Ordering::Relaxed);
        self.unbacked.store(0, Ordering::Relaxed);
    }

    /// All fragments together have memory for `bytes` bytes at most, whole pages and no less than are in use: where
    /// they have more, the one gives up most that uses least of what it has.
    fn back(&self, world: &mut WorldStopped<'_>, bytes: usize) {
        let backed = || {
            self.fragments()
                .iter()
                .map(BumpRegion::bytes)
                .sum::<usize>()
        };
        let idle = |fragment: &BumpRegion| fragment.bytes() - pages_in_use(fragment);
        while backed() > bytes
            && let Some(idlest) = self.fragments().iter().max_by_key(|one| idle(one))
            && idle(idlest) > 0
        {
            let less = idle(idlest).min(backed() - bytes);
            idlest.set_end(
                &mut world.allocator(),
                idlest.start().add(idlest.bytes() - less),
            );
        }
        let unbacked = bytes.saturating_sub(backed());
        self.unbacked.store(unbacked, Ordering::Relaxed);
    }

    /// All memory that no fragment uses is anyone's again, if otherwise no fragment would have `bytes` bytes in one
    /// piece. As [`Fragmented::balance`].
    pub(super) fn gather(&self, world: &mut WorldStopped<'_>, bytes: usize) {
        let has_shares = self.share_of(self.bytes()).is_some();
        if !has_shares && bytes <= self.free() && !self.has_piece(bytes) {
            for fragment in self.fragments() {
                let idle = fragment.bytes() - pages_in_use(fragment);
                fragment.set_end(&mut world.allocator(), fragment.end().sub(idle));
                self.unbacked.fetch_add(idle, Ordering::Relaxed);
            }
        }
    }

    /// If threads lacked memory on their nodes: what fragments have and did not need since the last time is anyone's
    /// again, so that also other nodes find some for the next while. Returns how many bytes they lacked.
    /// The caller gives the memory back that lies above the new ends.
    pub(super) fn balance(&self, world: &mut WorldStopped<'_>) -> usize {
        let elsewhere = self.elsewhere.swap(0, Ordering::Relaxed);
        let moves = elsewhere > 0 && self.share_of(self.bytes()).is_none();
        for (fragment, asked) in self.fragments().iter().zip(&self.asked) {
            let asked = asked.swap(0, Ordering::Relaxed);
            let needed = pages_in_use(fragment).max(asked.next_multiple_of(memory::page_size()));
            if moves && needed < fragment.bytes() {
                let idle = fragment.bytes() - needed;
                fragment.set_end(&mut world.allocator(), fragment.end().sub(idle));
                self.unbacked.fetch_add(idle, Ordering::Relaxed);
            }
        }
        elsewhere
    }

    /// A place of a fragment, as (start, bytes).
    pub(super) fn place(&self, node: usize, turn: usize) -> (Address, usize) {
        let place = (node * self.turns + turn) * self.most;
        (self.start.add(place), self.most)
    }
}

/// Bytes of a region's pages in use.
fn pages_in_use(region: &BumpRegion) -> usize {
    region.used().next_multiple_of(memory::page_size())
}
