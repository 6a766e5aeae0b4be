//! Arraylets: pieces of one size of arrays whose spines lie elsewhere (PLDI 2010, section 4.2).
//!
//! An arraylet has no header and never moves; a byte beside the heap says whether it lives, and how old it is. There is no
//! free list: a mutator is given a chunk and looks at the bytes of its arraylets one after the other, as it needs some.
//! Chunks hold arraylets of references or of numbers, never both, and a chunk in which nothing lives may become either.
//! The first arraylet of the range is the zero arraylet, which nobody can write: for every array whatever is zero.
//!
//! # Invariants
//! - An arraylet lives as long as the spine of a live array points at it (I6). A scavenge reclaims the young ones that it
//!   did not claim; a collection of everything clears all bytes first, and what it claims lives.
//! - An old spine points at old arraylets alone. A young one may point at either: an old arraylet that it shares is kept
//!   by its cards and its byte until everything is collected.
//! - Each arraylet is scanned by the worker that claims it, and again if it becomes old when it was claimed as a young one
//!   before: then its cards are dirtied instead.
//! - A chunk belongs to the mutator that it was given to, until the next collection: nobody else takes of its arraylets.
//!   Others may free some, of arrays that shrink ([`Arraylets::give_back`]).
//! - What counts toward the limit are chunks that are not empty, so that resident memory is what counts.
//!
//! The lock for allocation beside the TLABs protects what is not atomic. Claims, and what asks for the state of an arraylet, are for every worker of a phase.

use core::cell::Cell;
use core::ptr::NonNull;

use gleaner_base::contexts::{AllocatorLocked, WorldStopped};
use gleaner_base::sync::{AtomicU8, AtomicUsize, Ordering, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::side::Side;
use gleaner_mem::zero;
use gleaner_os::memory;

/// Bytes of a chunk, as a power of two.
const CHUNK_SHIFT: u32 = 14;
/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 1 << CHUNK_SHIFT;

/// Of an arraylet: it is free.
const FREE: u8 = 0;
/// It is old.
const OLD: u8 = 1;
/// It is young, of scavenges of either parity.
const YOUNG: [u8; 2] = [2, 3];

/// What the arraylets of a chunk hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Slots.
    References,
    /// Numbers.
    Primitives,
}

impl Contents {
    /// Of the arraylets of an array.
    pub fn of(slots: bool) -> Contents {
        if slots {
            Contents::References
        } else {
            Contents::Primitives
        }
    }

    const fn bits(self) -> u8 {
        self as u8 + 1
    }
}

/// Of a chunk: what it holds, 0 if nothing lives in it.
const CONTENTS: u8 = 0b11;
/// Of an empty chunk: it reads as zero.
const CLEAN: u8 = 0b100;
/// Young arraylets may be in it, or such as were given back since the last collection.
const HAS_YOUNG: u8 = 0b1000;

/// What came of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// It is the claimer's: it scans it.
    Won,
    /// Another worker scans it, or has, as a young one; it is old now.
    MadeOld,
    /// Nothing is to be done.
    Lost,
}

/// The part of a chunk where one mutator looks for free arraylets.
#[derive(Debug, Default)]
pub struct ArrayletBuffer {
    next: Cell<Address>,
    end: Cell<Address>,
    /// Whether its memory reads as zero.
    clean: Cell<bool>,
}

impl ArrayletBuffer {
    /// It has no chunk from now on.
    pub fn retire(&self) {
        self.next.set(self.end.get());
    }
}

/// What changes under the lock, or in a stopped world.
struct Inner {
    /// For each kind of contents, and for empty chunks, the next chunk that is looked at. Chunks before have been given to
    /// somebody since the last collection, or have no room.
    cursors: [usize; 3],
    /// How many chunks there were at the last collection: cursors go so far.
    swept: usize,
}

/// The space.
pub struct Arraylets {
    /// The first chunk; the zero arraylet lies below.
    start: Address,
    shift: u32,
    /// How many chunks there is room for.
    chunks: usize,
    /// Of each arraylet, its state.
    states: Side<AtomicU8>,
    /// Of each chunk, what it is: written as `inner` is.
    kinds: Side<AtomicU8>,
    inner: UnsafeCell<Inner>,
    /// Chunks below were used at some time. As `inner`; others read it relaxed.
    frontier: AtomicUsize,
    /// How many chunks are not empty. As `frontier`.
    used: AtomicUsize,
    /// How many chunks have memory. As `frontier`.
    resident: AtomicUsize,
    /// Bytes that mutators were given since the last collection. As `frontier`.
    taken: AtomicUsize,
    /// What a young arraylet that lives has as its state. Written in a stopped world.
    young: AtomicU8,
}

// SAFETY: who follows the `UnsafeCell` has borrowed the lock for allocation beside the TLABs; the rest is atomics.
unsafe impl Sync for Arraylets {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Arraylets {}

impl Arraylets {
    /// Bytes of addresses for arraylets of `bytes` bytes together.
    pub const fn range(bytes: usize) -> usize {
        (bytes.div_ceil(CHUNK_BYTES) + 1) * CHUNK_BYTES
    }

    /// A space of arraylets of 2^`shift` bytes in a range of committed memory, which reads as zero; `None` when the system
    /// gives no memory.
    pub fn new(start: Address, bytes: usize, shift: u32) -> Option<Arraylets> {
        let zero = NonNull::new(start.ptr::<u8>())?;
        // SAFETY: the range is the caller's, and nobody uses its first pages but the space.
        if !unsafe { memory::make_read_only(zero, CHUNK_BYTES) } {
            return None;
        }
        let first = start.add(CHUNK_BYTES);
        let chunks = bytes / CHUNK_BYTES - 1;
        Some(Arraylets {
            start: first,
            shift,
            chunks,
            states: Side::new(first, chunks * CHUNK_BYTES, shift)?,
            kinds: Side::new(first, chunks * CHUNK_BYTES, CHUNK_SHIFT)?,
            inner: UnsafeCell::new(Inner {
                cursors: [0; 3],
                swept: 0,
            }),
            frontier: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            resident: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            young: AtomicU8::new(YOUNG[0]),
        })
    }

    /// The zero arraylet of such a space.
    pub const fn zero_of(start: Address) -> Address {
        start
    }

    /// Bytes of an arraylet.
    #[inline(always)]
    pub fn arraylet_bytes(&self) -> usize {
        1 << self.shift
    }

    /// Whether an address is one of an arraylet, live or not; the zero arraylet is none.
    pub fn contains(&self, at: Address) -> bool {
        at.offset_from(self.start) < self.chunks * CHUNK_BYTES
    }

    /// Where the first chunk lies.
    pub fn start(&self) -> Address {
        self.start
    }

    /// Where the chunks end that were used at some time.
    pub fn reached(&self) -> Address {
        self.chunk(self.frontier.load(Ordering::Relaxed))
    }

    /// Bytes of the chunks that are not empty.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed) * CHUNK_BYTES
    }

    /// Bytes of the chunks that have memory.
    pub fn resident(&self) -> usize {
        self.resident.load(Ordering::Relaxed) * CHUNK_BYTES
    }

    /// Bytes that mutators were given since the last collection.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes of the tables beside the heap.
    pub fn metadata_bytes(&self) -> usize {
        self.states.bytes() + self.kinds.bytes()
    }

    fn chunk(&self, number: usize) -> Address {
        self.start.add(number << CHUNK_SHIFT)
    }

    fn state(&self, arraylet: Address) -> &AtomicU8 {
        self.states.get(self.states.index(arraylet))
    }

    fn arraylets_of(&self, chunk: usize) -> impl Iterator<Item = Address> + use<> {
        let (first, bytes) = (self.chunk(chunk), self.arraylet_bytes());
        (0..CHUNK_BYTES / bytes).map(move |index| first.add(index * bytes))
    }

    fn contents(&self, chunk: usize) -> u8 {
        self.kinds.get(chunk).load(Ordering::Relaxed) & CONTENTS
    }

    #[allow(
        clippy::mut_from_ref,
        reason = "who has borrowed the lock has what it protects"
    )]
    fn inner<'a>(&'a self, _: &'a mut AllocatorLocked<'_>) -> &'a mut Inner {
        // SAFETY: the lock protects the inner part, and is borrowed for as long as this reference is.
        self.inner.with_mut(|inner| unsafe { &mut *inner })
    }
}

/// Allocation.
impl Arraylets {
    /// A free arraylet of the buffer's chunk, young from now on, and whether it reads as zero.
    #[inline]
    pub fn allocate(&self, buffer: &ArrayletBuffer) -> Option<(Address, bool)> {
        let (mut at, end) = (buffer.next.get(), buffer.end.get());
        while at < end {
            let state = self.state(at);
            let here = at;
            at = at.add(self.arraylet_bytes());
            // The chunk is this mutator's: nobody else takes what is free. Acquire: another one may have given it back.
            if state.load(Ordering::Acquire) == FREE {
                state.store(self.young.load(Ordering::Relaxed), Ordering::Relaxed);
                buffer.next.set(at);
                return Some((here, buffer.clean.get()));
            }
        }
        buffer.next.set(end);
        None
    }

    /// Gives a mutator whose buffer is empty a chunk with something free. What `grow` says is asked before an empty chunk
    /// is taken, whose memory is not resident yet or is.
    pub fn refill(
        &self,
        locked: &mut AllocatorLocked<'_>,
        buffer: &ArrayletBuffer,
        contents: Contents,
        grow: impl FnOnce(&mut AllocatorLocked<'_>, bool) -> bool,
    ) -> bool {
        let inner = self.inner(locked);
        let cursor = &mut inner.cursors[contents as usize];
        while *cursor < inner.swept {
            let chunk = *cursor;
            *cursor += 1;
            let free = || {
                let is_free = |at: &Address| self.state(*at).load(Ordering::Relaxed) == FREE;
                self.arraylets_of(chunk).filter(is_free).count()
            };
            if self.contents(chunk) == contents.bits()
                && let free @ 1.. = free()
            {
                self.kinds.get(chunk).fetch_or(HAS_YOUNG, Ordering::Relaxed);
                self.give(buffer, chunk, free, false);
                return true;
            }
        }
        let empty = &mut inner.cursors[2];
        while *empty < inner.swept && self.contents(*empty) != 0 {
            *empty += 1;
        }
        let frontier = self.frontier.load(Ordering::Relaxed);
        let is_fresh = *empty == inner.swept;
        let chunk = if is_fresh { frontier } else { *empty };
        if chunk == self.chunks {
            return false;
        }
        let is_clean = is_fresh || self.kinds.get(chunk).load(Ordering::Relaxed) & CLEAN != 0;
        if !grow(locked, !is_clean) {
            return false;
        }
        if is_fresh {
            self.frontier.store(frontier + 1, Ordering::Relaxed);
        } else {
            self.inner(locked).cursors[2] += 1;
        }
        if is_clean {
            self.resident.fetch_add(1, Ordering::Relaxed);
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        let kind = contents.bits() | HAS_YOUNG;
        self.kinds.get(chunk).store(kind, Ordering::Relaxed);
        let all = CHUNK_BYTES >> self.shift;
        self.give(buffer, chunk, all, is_clean);
        true
    }

    fn give(&self, buffer: &ArrayletBuffer, chunk: usize, free: usize, clean: bool) {
        self.taken.fetch_add(free << self.shift, Ordering::Relaxed);
        buffer.next.set(self.chunk(chunk));
        buffer.end.set(self.chunk(chunk + 1));
        buffer.clean.set(clean);
    }

    /// Bytes of arraylets that mutators would find, if the space may grow by `left` bytes.
    pub fn room(&self, _: &mut WorldStopped<'_>, contents: Contents, left: usize) -> usize {
        let is_free = |at: &Address| self.state(*at).load(Ordering::Relaxed) == FREE;
        let free = (0..self.frontier.load(Ordering::Relaxed))
            .filter(|&chunk| self.contents(chunk) == contents.bits())
            .flat_map(|chunk| self.arraylets_of(chunk))
            .filter(is_free)
            .count();
        let empty = self.chunks - self.used.load(Ordering::Relaxed);
        (free << self.shift) + (left / CHUNK_BYTES).min(empty) * CHUNK_BYTES
    }

    /// An arraylet that was allocated, and to which nothing points, is free.
    pub fn free(&self, arraylet: Address) {
        self.state(arraylet).store(FREE, Ordering::Relaxed);
    }

    /// An arraylet to which nothing points any more is free, while other mutators run. The next collection looks at its
    /// chunk, as if the arraylet had been young: an empty chunk is given back then.
    pub fn give_back(&self, arraylet: Address) {
        let chunk = self.kinds.index(arraylet);
        // Something lives in the chunk until the store below, so nobody else makes it anything else meanwhile.
        self.kinds.get(chunk).fetch_or(HAS_YOUNG, Ordering::Relaxed);
        // Release: the thread that takes it writes behind all that was done to it (`allocate`).
        self.state(arraylet).store(FREE, Ordering::Release);
    }

    /// An arraylet is that of an old spine from now on; whether it was young before.
    pub fn make_old(&self, arraylet: Address) -> bool {
        self.state(arraylet).swap(OLD, Ordering::AcqRel) != OLD
    }

    /// An arraylet to which nothing points is a young one again.
    pub fn make_young(&self, arraylet: Address) {
        let young = self.young.load(Ordering::Relaxed);
        self.state(arraylet).store(young, Ordering::Relaxed);
    }

    /// Gives memory of empty chunks back to the system, the highest first, until it is `wanted` bytes or no more is left.
    pub fn release_free(&self, _: &mut AllocatorLocked<'_>, mut wanted: usize) {
        for chunk in (0..self.frontier.load(Ordering::Relaxed)).rev() {
            if wanted == 0 {
                break;
            }
            let kind = self.kinds.get(chunk);
            if kind.load(Ordering::Relaxed) != 0 {
                continue;
            }
            let Some(start) = NonNull::new(self.chunk(chunk).ptr::<u8>()) else {
                continue;
            };
            // SAFETY: whole pages in which nothing lives.
            if unsafe { memory::release(start, CHUNK_BYTES) } {
                kind.store(CLEAN, Ordering::Relaxed);
                self.resident.fetch_sub(1, Ordering::Relaxed);
                wanted = wanted.saturating_sub(CHUNK_BYTES);
            }
        }
    }
}

/// Collection.
impl Arraylets {
    /// A scavenge begins: young arraylets that it does not claim are free when it is over.
    pub fn begin_scavenge(&self, _: &mut WorldStopped<'_>) {
        let young = self.young.load(Ordering::Relaxed);
        self.young
            .store(YOUNG[usize::from(young == YOUNG[0])], Ordering::Relaxed);
    }

    /// A collection of everything begins: nothing is claimed.
    pub fn begin_marking(&self, _: &mut WorldStopped<'_>) {
        // SAFETY: the world is stopped and borrowed for changing, so nobody else uses the states; whole chunks of the range.
        unsafe { self.states.clear(self.start, self.reached()) };
        for chunk in 0..self.frontier.load(Ordering::Relaxed) {
            self.kinds
                .get(chunk)
                .fetch_and(!HAS_YOUNG, Ordering::Relaxed);
        }
    }

    /// A worker has reached a spine that points at an arraylet, and will be `old`.
    #[inline]
    pub fn claim(&self, arraylet: Address, old: bool) -> Claim {
        let (state, young) = (self.state(arraylet), self.young.load(Ordering::Relaxed));
        if old {
            // Release: a worker that takes the card of a slot, which the claimer dirties later, sees that the arraylet is
            // old (`CardTable::take_dirty`).
            return match state.swap(OLD, Ordering::AcqRel) {
                OLD => Claim::Lost,
                before if before == young => Claim::MadeOld,
                _ => Claim::Won,
            };
        }
        let before = state.load(Ordering::Relaxed);
        if before == OLD || before == young {
            return Claim::Lost;
        }
        let claimed = state.compare_exchange(before, young, Ordering::AcqRel, Ordering::Relaxed);
        // Its chunk is known to have young ones since it was allocated, or is swept because everything is.
        claimed.map_or(Claim::Lost, |_| Claim::Won)
    }

    /// As [`Arraylets::claim`], of an arraylet to which one spine alone points, by the worker that alone scans that part of
    /// it: nobody else claims it in this phase, so a store is enough.
    #[inline]
    pub fn claim_own(&self, arraylet: Address, old: bool) -> Claim {
        let (state, young) = (self.state(arraylet), self.young.load(Ordering::Relaxed));
        if state.load(Ordering::Relaxed) == OLD {
            return Claim::Lost;
        }
        // Release: as above.
        state.store(if old { OLD } else { young }, Ordering::Release);
        Claim::Won
    }

    /// Whether an arraylet lives, and is old.
    pub fn is_old(&self, arraylet: Address) -> bool {
        self.state(arraylet).load(Ordering::Acquire) == OLD
    }

    /// Whether an arraylet lives: it was claimed in the last collection, or allocated since.
    pub fn is_live(&self, arraylet: Address) -> bool {
        let state = self.state(arraylet).load(Ordering::Relaxed);
        state == OLD || state == self.young.load(Ordering::Relaxed)
    }

    /// Whether the arraylets beside one hold slots.
    pub fn has_slots(&self, arraylet: Address) -> bool {
        self.contents(self.kinds.index(arraylet)) == Contents::References.bits()
    }

    /// Whether an arraylet holds nothing but zeros (section 4.5).
    ///
    /// # Safety
    /// An arraylet lies there, and no mutator runs.
    #[inline]
    pub unsafe fn is_zero(&self, arraylet: Address) -> bool {
        // SAFETY: an arraylet lies there, as asked, and has `arraylet_bytes` bytes. Another worker may replace a
        // reference by another one meanwhile, neither of which is zero.
        unsafe { zero::is_zero(arraylet, self.arraylet_bytes()) }
    }

    /// The ranges of chunks with slots among those in `low..high`, which are bounds of chunks.
    pub fn slot_chunks(
        &self,
        low: Address,
        high: Address,
    ) -> impl Iterator<Item = (Address, Address)> + '_ {
        let numbers = self.kinds.index(low)..self.kinds.index(high);
        numbers
            .filter(|&chunk| self.contents(chunk) == Contents::References.bits())
            .map(|chunk| (self.chunk(chunk), self.chunk(chunk + 1)))
    }

    /// The old arraylets that a range touches.
    pub fn old_in(&self, low: Address, high: Address) -> impl Iterator<Item = Address> + '_ {
        self.arraylets_in(low, high).filter(|&at| self.is_old(at))
    }

    /// The live arraylets that a range touches.
    pub fn live_in(&self, low: Address, high: Address) -> impl Iterator<Item = Address> + '_ {
        self.arraylets_in(low, high).filter(|&at| self.is_live(at))
    }

    fn arraylets_in(&self, low: Address, high: Address) -> impl Iterator<Item = Address> + use<> {
        let bytes = self.arraylet_bytes();
        let first = low.align_down(bytes);
        let count = high.offset_from(first).div_ceil(bytes);
        (0..count).map(move |index| first.add(index * bytes))
    }

    /// A scavenge is over: what it did not claim of the young ones is free. `dies` is told each.
    pub fn finish_scavenge(&self, world: &mut WorldStopped<'_>, dies: impl FnMut(Address)) {
        self.sweep(world, HAS_YOUNG, false, dies);
    }

    /// A collection of everything is over: what it did not claim is free. If `all_old`, whatever lives is old.
    pub fn finish_marking(
        &self,
        world: &mut WorldStopped<'_>,
        all_old: bool,
        dies: impl FnMut(Address),
    ) {
        self.sweep(world, CONTENTS, all_old, dies);
    }

    fn sweep(
        &self,
        world: &mut WorldStopped<'_>,
        which: u8,
        all_old: bool,
        mut dies: impl FnMut(Address),
    ) {
        let frontier = self.frontier.load(Ordering::Relaxed);
        let young = self.young.load(Ordering::Relaxed);
        for chunk in 0..frontier {
            let kind = self.kinds.get(chunk);
            let before = kind.load(Ordering::Relaxed);
            if before & which == 0 {
                continue;
            }
            let (mut lives, mut has_young) = (false, false);
            for arraylet in self.arraylets_of(chunk) {
                let state = self.state(arraylet);
                match state.load(Ordering::Relaxed) {
                    OLD => lives = true,
                    live if live == young && all_old => {
                        state.store(OLD, Ordering::Relaxed);
                        lives = true;
                    }
                    live if live == young => (lives, has_young) = (true, true),
                    _ => {
                        state.store(FREE, Ordering::Relaxed);
                        dies(arraylet);
                    }
                }
            }
            let mut after = before & CONTENTS;
            if has_young {
                after |= HAS_YOUNG;
            }
            if !lives {
                after = 0;
                self.used.fetch_sub(1, Ordering::Relaxed);
            }
            kind.store(after, Ordering::Relaxed);
        }
        let mut locked = world.allocator();
        let inner = self.inner(&mut locked);
        inner.cursors = [0; 3];
        inner.swept = frontier;
        self.taken.store(0, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::precise::single_thread::{locked, stopped};
    use std::vec::Vec;

    const CHUNKS: usize = 4;
    const SHIFT: u32 = 12;

    fn space() -> Arraylets {
        let bytes = Arraylets::range(CHUNKS * CHUNK_BYTES);
        let start = memory::map(bytes).unwrap();
        Arraylets::new(Address::of(start.as_ptr()), bytes, SHIFT).unwrap()
    }

    fn live(space: &Arraylets) -> usize {
        space.live_in(space.start, space.reached()).count()
    }

    fn take(space: &Arraylets, buffer: &ArrayletBuffer, contents: Contents) -> Option<Address> {
        space
            .allocate(buffer)
            .or_else(|| {
                space
                    .refill(&mut locked(), buffer, contents, |_, _| true)
                    .then(|| space.allocate(buffer))
                    .flatten()
            })
            .map(|(arraylet, _)| arraylet)
    }

    #[test]
    fn what_was_allocated_beside_old_arraylets_dies_in_a_scavenge() {
        let space = space();
        let slots = ArrayletBuffer::default();
        let old = take(&space, &slots, Contents::References).unwrap();
        slots.retire();
        space.begin_scavenge(&mut stopped());
        assert_eq!(space.claim(old, true), Claim::Won);
        space.finish_scavenge(&mut stopped(), |_| {});
        // Nothing young is in the chunk now.
        space.begin_scavenge(&mut stopped());
        space.finish_scavenge(&mut stopped(), |_| unreachable!("no arraylet is young"));
        let young = take(&space, &slots, Contents::References).unwrap();
        assert_eq!(young, old.add(1 << SHIFT));
        slots.retire();
        let mut dead = Vec::new();
        space.begin_scavenge(&mut stopped());
        space.finish_scavenge(&mut stopped(), |arraylet| dead.push(arraylet));
        assert!(dead.contains(&young) && !dead.contains(&old));
        assert!(!space.is_live(young) && space.is_old(old));
    }

    #[test]
    fn contents_have_chunks_of_their_own_and_what_was_not_claimed_is_free() {
        let space = space();
        let [slots, numbers] = [ArrayletBuffer::default(), ArrayletBuffer::default()];
        let a = take(&space, &slots, Contents::References).unwrap();
        let b = take(&space, &numbers, Contents::Primitives).unwrap();
        let c = take(&space, &slots, Contents::References).unwrap();
        assert!(space.has_slots(a) && !space.has_slots(b));
        assert_eq!(c, a.add(1 << SHIFT));
        assert_eq!(space.used(), 2 * CHUNK_BYTES);
        assert_eq!(space.taken(), 2 * CHUNK_BYTES);
        slots.retire();
        numbers.retire();
        space.begin_scavenge(&mut stopped());
        assert!(!space.is_live(a));
        assert_eq!(space.claim(a, false), Claim::Won);
        assert_eq!(space.claim(a, false), Claim::Lost);
        assert_eq!(space.claim(a, true), Claim::MadeOld);
        assert_eq!(space.claim(a, true), Claim::Lost);
        assert_eq!(space.claim(a, false), Claim::Lost);
        let mut dead = Vec::new();
        space.finish_scavenge(&mut stopped(), |arraylet| dead.push(arraylet));
        assert!(dead.contains(&b) && dead.contains(&c) && !dead.contains(&a));
        assert!(space.is_old(a) && live(&space) == 1);
        assert_eq!(space.used(), CHUNK_BYTES);
        // What is free beside it comes first, then the empty chunk, whatever it held.
        let again: Vec<_> = (0..4)
            .map(|_| take(&space, &slots, Contents::References).unwrap())
            .collect();
        assert_eq!(again[0], c);
        assert_eq!(again[3], b);
        assert!(space.has_slots(b));
    }

    #[test]
    fn young_ones_are_reclaimed_in_each_scavenge_and_old_ones_when_everything_is_collected() {
        let space = space();
        let buffer = ArrayletBuffer::default();
        let arraylet = take(&space, &buffer, Contents::Primitives).unwrap();
        for _ in 0..3 {
            buffer.retire();
            space.begin_scavenge(&mut stopped());
            assert_eq!(space.claim(arraylet, false), Claim::Won);
            space.finish_scavenge(&mut stopped(), |_| ());
            assert!(space.is_live(arraylet) && !space.is_old(arraylet));
        }
        assert!(space.make_old(arraylet) && !space.make_old(arraylet));
        for _ in 0..2 {
            space.begin_scavenge(&mut stopped());
            space.finish_scavenge(&mut stopped(), |_| ());
            assert!(space.is_old(arraylet));
        }
        space.begin_marking(&mut stopped());
        assert!(!space.is_live(arraylet));
        assert_eq!(space.claim(arraylet, false), Claim::Won);
        space.finish_marking(&mut stopped(), true, |_| ());
        assert!(space.is_old(arraylet));
        space.begin_marking(&mut stopped());
        space.finish_marking(&mut stopped(), false, |_| ());
        assert_eq!((live(&space), space.used()), (0, 0));
        assert_eq!(space.resident(), CHUNK_BYTES);
        space.release_free(&mut locked(), 1);
        assert_eq!(space.resident(), 0);
        assert!(space.refill(
            &mut locked(),
            &buffer,
            Contents::References,
            |_, resident| !resident
        ));
        assert_eq!(space.allocate(&buffer), Some((arraylet, true)));
    }

    #[test]
    fn an_old_arraylet_that_is_given_back_is_free_at_once_and_its_chunk_after_a_scavenge() {
        let space = space();
        let [slots, numbers] = [ArrayletBuffer::default(), ArrayletBuffer::default()];
        let [a, b] = [(); 2].map(|()| take(&space, &slots, Contents::References).unwrap());
        let other = take(&space, &numbers, Contents::Primitives).unwrap();
        for arraylet in [a, b, other] {
            space.make_old(arraylet);
        }
        for buffer in [&slots, &numbers] {
            buffer.retire();
        }
        space.begin_scavenge(&mut stopped());
        space.finish_scavenge(&mut stopped(), |_| {});
        assert_eq!((live(&space), space.used()), (3, 2 * CHUNK_BYTES));
        space.give_back(a);
        assert!(!space.is_live(a) && space.is_old(b));
        // The next one that is taken of these is this.
        assert_eq!(take(&space, &slots, Contents::References), Some(a));
        slots.retire();
        space.make_old(a);
        space.give_back(a);
        space.give_back(b);
        assert_eq!(space.used(), 2 * CHUNK_BYTES);
        let mut dead = Vec::new();
        space.begin_scavenge(&mut stopped());
        space.finish_scavenge(&mut stopped(), |arraylet| dead.push(arraylet));
        assert!(dead.contains(&a) && dead.contains(&b) && !dead.contains(&other));
        assert_eq!((live(&space), space.used()), (1, CHUNK_BYTES));
    }

    #[test]
    fn the_space_grows_as_far_as_it_may() {
        let space = space();
        let buffer = ArrayletBuffer::default();
        let all = CHUNKS * (CHUNK_BYTES >> SHIFT);
        let taken: Vec<_> = (0..all)
            .map(|_| take(&space, &buffer, Contents::References).unwrap())
            .collect();
        assert_eq!(take(&space, &buffer, Contents::References), None);
        assert_eq!(
            space.room(&mut stopped(), Contents::References, CHUNK_BYTES),
            0
        );
        space.begin_scavenge(&mut stopped());
        for &arraylet in &taken[1..] {
            space.claim(arraylet, false);
        }
        space.finish_scavenge(&mut stopped(), |_| ());
        assert_eq!(
            space.room(&mut stopped(), Contents::References, 0),
            1 << SHIFT
        );
        assert_eq!(
            space.room(&mut stopped(), Contents::Primitives, CHUNK_BYTES),
            0
        );
    }

    #[test]
    fn zeros_are_recognised_and_the_zero_arraylet_is_no_arraylet() {
        let space = space();
        let buffer = ArrayletBuffer::default();
        let arraylet = take(&space, &buffer, Contents::Primitives).unwrap();
        let zero = Arraylets::zero_of(space.start.sub(CHUNK_BYTES));
        assert!(!space.contains(zero) && space.contains(arraylet));
        // SAFETY: the arraylet is this test's.
        unsafe {
            assert!(space.is_zero(arraylet) && space.is_zero(zero));
            for offset in [0, 8, 1000, 4095] {
                let byte = arraylet.add(offset).ptr::<u8>();
                byte.write(1);
                assert!(!space.is_zero(arraylet));
                byte.write(0);
            }
            assert!(space.is_zero(arraylet));
        }
    }
}
