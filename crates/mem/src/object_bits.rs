//! Object bits: one bit a granule that says "an object begins here", and one that says "live at the last marking".
//!
//! Two bitmaps of the same span, in words of 64 bits that lie in pairs, since marking an object sets bits of both: a
//! pair is about 512 bytes, as a card is. In the old space the start bits say at any time which objects there are:
//! marking makes them anew from what lives, promotion adds to them. So a dead object is forgotten by its mark,
//! memory between objects needs no filler, and the objects of a card are found without touching the others. Where new
//! objects lie in the old space, too, those have no start bit until they are marked: so the bits say what is old. The live
//! bits count what lies before an address in its word (compare Kermany and Petrank, PLDI 2006) and show where the holes
//! are.
//!
//! There are two tables of such bitmaps ([`BitTables`]): that of the objects that there are, and that of marks, which
//! is empty but while everything is marked. Who touches their bits, and when:
//!
//! - A worker that marks sets starts and live bits in the table of marks. When everything is marked, the tables change
//!   places. Where it evacuates, it sets the start of its copy before others know of that, and takes it back if the copy
//!   does not count. Live bits of a space with lines are not set.
//! - A worker that scavenges sets the start of what it promotes into its own block, and the live bits of what it filled
//!   of an overflow block. It also sets the start of a young large object that it reaches.
//! - A worker that marks new objects alone sets their starts in the table of objects.
//! - A worker that slides takes the starts of its segment, and sets them where the objects are then.
//! - A mutator that allocates a small pinned object sets its start, and live bits as above, under the lock for
//!   allocation beside the TLABs.
//! - The collecting thread, between phases, clears ranges and large objects, exchanges the tables, and sets and clears
//!   starts of young objects to verify: in the nursery, or, of new objects in the old space, in the table of marks.
//!
//! # Invariants
//! - Workers that mark compete for a start bit by fetch-or (I4: the one that set it marks the granules).
//! - [`ObjectBits::add`] is for a word that no other thread sets bits of. Release there, after the object is complete,
//!   partners Acquire in [`ObjectBits::starts`]: a thread that sees the bit sees the object.
//! - Bits are cleared, range by range, between phases; but sliding takes the starts of a segment in its phase.

use gleaner_base::contexts::WorldStopped;
use gleaner_base::sync::{AtomicU64, AtomicUsize, Ordering};

use crate::Address;
use crate::object_model::GRANULE;
use crate::side::{Element, Side};

/// Bytes that a word of bits is about, as a power of two.
pub const WORD_SHIFT: u32 = 9;
/// Bytes that a word of bits is about.
pub const WORD_BYTES: usize = 1 << WORD_SHIFT;

/// Both words about the same 512 bytes.
struct Pair {
    starts: AtomicU64,
    live: AtomicU64,
}

// SAFETY: atomic integers are their bytes.
unsafe impl Element for Pair {
    fn new() -> Self {
        Pair {
            starts: AtomicU64::new(0),
            live: AtomicU64::new(0),
        }
    }
}

/// The table of the objects that there are, and that of marks.
pub struct BitTables {
    tables: [ObjectBits; 2],
    /// Which one is of the objects. Written between phases.
    objects: AtomicUsize,
}

impl BitTables {
    /// Empty tables; `None` when the system gives no memory. `base` is a multiple of [`WORD_BYTES`].
    pub fn new(base: Address, bytes: usize) -> Option<BitTables> {
        Some(BitTables {
            tables: [ObjectBits::new(base, bytes)?, ObjectBits::new(base, bytes)?],
            objects: AtomicUsize::new(0),
        })
    }

    /// The objects that there are.
    #[inline(always)]
    pub fn objects(&self) -> &ObjectBits {
        &self.tables[self.objects.load(Ordering::Relaxed) & 1]
    }

    /// What marking sets.
    #[inline(always)]
    pub fn marks(&self) -> &ObjectBits {
        &self.tables[!self.objects.load(Ordering::Relaxed) & 1]
    }

    /// What is marked is what there is from now on. The table of marks has what there was, which the caller clears.
    pub fn adopt_marks(&self, _: &mut WorldStopped<'_>) {
        self.objects.fetch_xor(1, Ordering::Relaxed);
    }

    /// Bytes of both.
    pub fn bytes(&self) -> usize {
        self.tables.iter().map(ObjectBits::bytes).sum()
    }
}

/// The bitmaps of a span.
pub struct ObjectBits {
    pairs: Side<Pair>,
}

#[inline(always)]
fn bit_of(at: Address) -> u32 {
    (at.word() / GRANULE) as u32 % 64
}

impl ObjectBits {
    /// Nothing is live; `None` when the system gives no memory. `base` is a multiple of [`WORD_BYTES`].
    pub fn new(base: Address, bytes: usize) -> Option<ObjectBits> {
        debug_assert_eq!(base.word() % WORD_BYTES, 0);
        Some(ObjectBits {
            pairs: Side::new(base, bytes, WORD_SHIFT)?,
        })
    }

    /// Whether an object that begins at `object` is marked.
    #[inline(always)]
    pub fn is_marked(&self, object: Address) -> bool {
        let word = self.starts_of(self.word_of(object));
        word.load(Ordering::Relaxed) & 1 << bit_of(object) != 0
    }

    /// Asks the cache for the bits of an object that will be marked.
    #[inline(always)]
    pub fn prefetch(&self, object: Address) {
        Address::of(self.pairs.get(self.word_of(object))).prefetch_for_write();
    }

    /// Marks the object at `object`; whether this call did it. The caller then marks its granules.
    #[inline(always)]
    pub fn mark(&self, object: Address) -> bool {
        let word = self.starts_of(self.word_of(object));
        let bit = 1 << bit_of(object);
        // Relaxed: the object's contents were written before the stop; the bit alone decides who scans it.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// Takes the mark of an object back of which no other thread knows.
    #[inline]
    pub fn unmark(&self, object: Address) {
        let word = self.starts_of(self.word_of(object));
        word.fetch_and(!(1 << bit_of(object)), Ordering::Relaxed);
    }

    /// Notes an object that is complete, in a word of which this thread alone sets bits.
    #[inline(always)]
    pub fn add(&self, object: Address) {
        let word = self.starts_of(self.word_of(object));
        word.store(
            word.load(Ordering::Relaxed) | 1 << bit_of(object),
            Ordering::Release,
        );
    }

    /// Adds starts to a word, of which other threads set bits, too.
    #[inline]
    pub fn add_starts(&self, word: usize, bits: u64) {
        self.starts_of(word).fetch_or(bits, Ordering::Relaxed);
    }

    /// The bit of an object in its word of starts.
    #[inline(always)]
    pub fn bit(object: Address) -> u64 {
        1 << bit_of(object)
    }

    /// Marks the granules of an object of `bytes` bytes as live.
    #[inline]
    pub fn mark_granules(&self, object: Address, bytes: usize) {
        let (first, last) = (
            self.word_of(object),
            self.word_of(object.add(bytes - GRANULE)),
        );
        let low = !0u64 << bit_of(object);
        let high = !0u64 >> (63 - bit_of(object.add(bytes - GRANULE)));
        if first == last {
            self.live_of(first).fetch_or(low & high, Ordering::Relaxed);
            return;
        }
        // The words at both ends may be shared with other objects; those between are this object's.
        self.live_of(first).fetch_or(low, Ordering::Relaxed);
        for word in first + 1..last {
            self.live_of(word).store(!0, Ordering::Relaxed);
        }
        self.live_of(last).fetch_or(high, Ordering::Relaxed);
    }

    /// The index of the word that is about `at`.
    #[inline(always)]
    pub fn word_of(&self, at: Address) -> usize {
        self.pairs.index(at)
    }

    #[inline(always)]
    fn starts_of(&self, word: usize) -> &AtomicU64 {
        &self.pairs.get(word).starts
    }

    #[inline(always)]
    fn live_of(&self, word: usize) -> &AtomicU64 {
        &self.pairs.get(word).live
    }

    /// The first address that a word is about.
    #[inline(always)]
    pub fn address_of(&self, word: usize) -> Address {
        self.pairs.address(word)
    }

    /// The bits of live granules in a word.
    #[inline(always)]
    pub fn live(&self, word: usize) -> u64 {
        self.live_of(word).load(Ordering::Relaxed)
    }

    /// Live granules before `at` within its word.
    #[inline(always)]
    pub fn live_before(&self, at: Address) -> usize {
        let below = (1u64 << bit_of(at)) - 1;
        (self.live(self.word_of(at)) & below).count_ones() as usize
    }

    /// The starts in a word, in ascending order.
    #[inline(always)]
    pub fn starts(&self, word: usize) -> Starts {
        Starts {
            bits: self.starts_of(word).load(Ordering::Acquire),
            base: self.address_of(word),
        }
    }

    /// As [`ObjectBits::starts`], and forgets them.
    #[inline(always)]
    pub fn take_starts(&self, word: usize) -> Starts {
        let starts = self.starts(word);
        self.starts_of(word).store(0, Ordering::Relaxed);
        starts
    }

    /// The last object that begins before `at`, a multiple of [`WORD_BYTES`], and not before `low`.
    pub fn start_before(&self, at: Address, low: Address) -> Option<Address> {
        let first = self.word_of(low);
        let mut word = self.word_of(at);
        while word > first {
            word -= 1;
            if let Some(last) = self.starts(word).last() {
                return Some(last);
            }
        }
        None
    }

    /// The first run of granules in `from..end` that were not live, of at least `least` bytes; with its bytes.
    pub fn next_hole(&self, from: Address, end: Address, least: usize) -> Option<(Address, usize)> {
        let mut at = from;
        while at < end {
            let start = self.first(at, end, 0);
            let stop = self.first(start, end, !0);
            let bytes = stop.offset_from(start);
            if bytes >= least && bytes > 0 {
                return Some((start, bytes));
            }
            at = stop;
        }
        None
    }

    /// Bytes of a hole that there surely is in `low..high`, multiples of [`WORD_BYTES`], though not always of the
    /// largest: of holes inside a word it tells 64, 128 and 256 bytes apart. 0 if none has 64 bytes.
    pub fn hole_within(&self, low: Address, high: Address) -> usize {
        let (mut best, mut run) = (0, 0);
        for word in self.word_of(low)..self.word_of(high) {
            let live = self.live(word);
            if live == 0 {
                run += u64::BITS;
                continue;
            }
            best = best.max(run + live.trailing_zeros());
            run = live.leading_zeros();
            if best < u64::BITS {
                best = best.max(run_within(!live));
            }
        }
        match best.max(run) as usize * GRANULE {
            bytes if bytes < 64 => 0,
            bytes => bytes,
        }
    }

    /// The first granule of `at..end` whose live bit is that of `wanted`, all zeros or all ones; or `end`.
    fn first(&self, at: Address, end: Address, wanted: u64) -> Address {
        let mut at = at;
        while at < end {
            let word = self.word_of(at);
            let found = !(self.live(word) ^ wanted) >> bit_of(at);
            if found != 0 {
                let granule = at.add(found.trailing_zeros() as usize * GRANULE);
                return if granule < end { granule } else { end };
            }
            at = self.address_of(word + 1);
        }
        end
    }

    /// Bytes in `low..high`, multiples of [`WORD_BYTES`], that were live.
    pub fn live_bytes(&self, low: Address, high: Address) -> usize {
        (self.word_of(low)..self.word_of(high))
            .map(|word| self.live(word).count_ones() as usize)
            .sum::<usize>()
            * GRANULE
    }

    /// Where the last live granule of `low..high`, multiples of [`WORD_BYTES`], ends; `low` if there is none.
    pub fn live_end(&self, low: Address, high: Address) -> Address {
        let mut word = self.word_of(high);
        while word > self.word_of(low) {
            word -= 1;
            let bits = self.live(word);
            if bits != 0 {
                let granules = 64 - bits.leading_zeros();
                return self.address_of(word).add(granules as usize * GRANULE);
            }
        }
        low
    }

    /// Forgets the starts in `low..high`, which are multiples of [`WORD_BYTES`].
    pub fn clear_starts(&self, low: Address, high: Address) {
        for word in self.word_of(low)..self.word_of(high) {
            self.starts_of(word).store(0, Ordering::Relaxed);
        }
    }

    /// Forgets what was live in `low..high`, which are multiples of [`WORD_BYTES`].
    pub fn clear_live(&self, _: &mut WorldStopped<'_>, low: Address, high: Address) {
        for word in self.word_of(low)..self.word_of(high) {
            self.live_of(word).store(0, Ordering::Relaxed);
        }
    }

    /// Forgets all bits of `low..high`, which are multiples of [`WORD_BYTES`].
    pub fn clear(&self, _: &mut WorldStopped<'_>, low: Address, high: Address) {
        // SAFETY: no mutator runs and no worker is at work, so nobody else uses the bits; both ends are those of a pair.
        unsafe { self.pairs.clear(low, high) };
    }

    /// Bytes of both bitmaps.
    pub fn bytes(&self) -> usize {
        self.pairs.bytes()
    }
}

/// The largest of 32, 16 and 8 of which as many bits in a row are set, or 0. Not all bits are set.
#[inline(always)]
fn run_within(bits: u64) -> u32 {
    let pairs = bits & bits >> 1;
    let fours = pairs & pairs >> 2;
    let mut runs = fours & fours >> 4;
    let mut length = 0;
    while runs != 0 {
        length = if length == 0 { 8 } else { 2 * length };
        runs &= runs >> length;
    }
    length
}

/// The live objects that begin in a word.
#[derive(Clone, Copy, Debug)]
pub struct Starts {
    bits: u64,
    base: Address,
}

impl Starts {
    /// The bits of the starts.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// The last of them.
    pub fn last(self) -> Option<Address> {
        let last = self.bits.checked_ilog2()?;
        Some(self.base.add(last as usize * GRANULE))
    }
}

impl Iterator for Starts {
    type Item = Address;

    #[inline(always)]
    fn next(&mut self) -> Option<Address> {
        if self.bits == 0 {
            return None;
        }
        let bit = self.bits.trailing_zeros();
        self.bits &= self.bits - 1;
        Some(self.base.add(bit as usize * GRANULE))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn stopped() -> WorldStopped<'static> {
        // SAFETY: there is only this thread.
        unsafe { WorldStopped::begin() }
    }

    #[test]
    fn marking_takes_nothing_away_until_its_marks_are_adopted() {
        let base = Address::new(0x20_0000);
        let tables = BitTables::new(base, 1 << 14).unwrap();
        let (dead, alive) = (base, base.add(64));
        for object in [dead, alive] {
            tables.objects().add(object);
            tables.objects().mark_granules(object, 64);
        }
        assert!(tables.marks().mark(alive));
        tables.marks().mark_granules(alive, 64);
        let holes = || tables.objects().next_hole(base, base.add(512), 8);
        assert_eq!(tables.objects().starts(0).count(), 2);
        assert_eq!(holes(), Some((base.add(128), 384)));
        tables.adopt_marks(&mut stopped());
        assert!(tables.objects().starts(0).eq([alive]));
        assert_eq!(holes(), Some((dead, 64)));
        tables.marks().clear(&mut stopped(), base, base.add(512));
        assert_eq!(tables.marks().starts(0).count(), 0);
        assert_eq!(tables.objects().starts(0).count(), 1);
    }

    #[test]
    fn granules_are_counted_and_starts_found() {
        let base = Address::new(0x20_0000);
        let bits = ObjectBits::new(base, 1 << 16).unwrap();
        let objects = [
            (0usize, 16usize),
            (24, 8),
            (496, 32),
            (2048, 3000),
            (5048, 24),
        ];
        for (offset, bytes) in objects {
            let object = base.add(offset);
            assert!(bits.mark(object) && !bits.mark(object) && bits.is_marked(object));
            bits.mark_granules(object, bytes);
        }
        let total: u32 = (0..128).map(|word| bits.live(word).count_ones()).sum();
        assert_eq!(
            total as usize,
            objects.iter().map(|one| one.1 / 8).sum::<usize>()
        );
        assert_eq!(bits.live_before(base.add(8)), 1);
        assert_eq!(bits.live_before(base.add(496)), 3);
        assert_eq!(bits.live_before(base.add(512 + 64)), 2);
        let starts: Vec<usize> = (0..128)
            .flat_map(|word| bits.starts(word))
            .map(|start| start.offset_from(base))
            .collect();
        assert_eq!(starts, objects.map(|one| one.0));
        bits.clear(&mut stopped(), base, base.add(1 << 16));
        assert_eq!(bits.live(4), 0);
        assert!(!bits.is_marked(base));
    }

    #[test]
    fn holes_are_what_was_not_live() {
        let base = Address::new(0x20_0000);
        let bits = ObjectBits::new(base, 1 << 14).unwrap();
        let end = base.add(1 << 14);
        assert_eq!(bits.next_hole(base, end, 8), Some((base, 1 << 14)));
        assert_eq!(bits.live_end(base, end), base);
        for (offset, bytes) in [(0usize, 16usize), (32, 480), (600, 5000), (16_000, 384)] {
            bits.mark_granules(base.add(offset), bytes);
        }
        let mut holes = Vec::new();
        let mut at = base;
        while let Some((start, bytes)) = bits.next_hole(at, end, 8) {
            holes.push((start.offset_from(base), bytes));
            at = start.add(bytes);
        }
        assert_eq!(holes, [(16, 16), (512, 88), (5600, 10_400)]);
        assert_eq!(bits.next_hole(base, end, 16), Some((base.add(16), 16)));
        assert_eq!(bits.next_hole(base, end, 17).unwrap().1, 88);
        assert_eq!(
            bits.next_hole(base, base.add(520), 1),
            Some((base.add(16), 16))
        );
        assert_eq!(
            bits.next_hole(base.add(24), base.add(520), 9),
            None,
            "8 bytes before 32, and 8 before the end"
        );
        assert_eq!(bits.live_bytes(base, end), 16 + 480 + 5000 + 384);
        assert_eq!(bits.live_end(base, end), end);
        assert_eq!(bits.live_end(base, base.add(15_872)), base.add(600 + 5000));
    }

    #[test]
    fn a_hole_is_vouched_for() {
        let base = Address::new(0x20_0000);
        for (from, to, told) in [
            (8, 64, 0),
            (8, 72, 64),
            (200, 200 + 120, 64),
            (200, 200 + 128, 128),
            (8, 264, 256),
            (8, 500, 256),
            (0, 504, 504),
            (8, 512, 504),
            (400, 700, 296),
            (8, 4000, 3992),
            (0, 4096, 4096),
        ] {
            let bits = ObjectBits::new(base, 1 << 12).unwrap();
            if from > 0 {
                bits.mark_granules(base, from);
            }
            if to < 4096 {
                bits.mark_granules(base.add(to), 4096 - to);
            }
            let end = base.add(1 << 12);
            assert_eq!(bits.hole_within(base, end), told, "{from}..{to}");
            assert!(told == 0 || bits.next_hole(base, end, told).is_some());
        }
    }

    #[test]
    fn the_object_before_a_card_is_found() {
        let base = Address::new(0x20_0000);
        let bits = ObjectBits::new(base, 1 << 14).unwrap();
        bits.add(base.add(504));
        bits.add(base.add(16));
        assert_eq!(bits.start_before(base.add(4096), base), Some(base.add(504)));
        assert_eq!(bits.start_before(base.add(512), base), Some(base.add(504)));
        assert_eq!(bits.start_before(base, base), None);
        let starts: Vec<Address> = bits.take_starts(0).collect();
        assert_eq!(starts, [base.add(16), base.add(504)]);
        assert!(!bits.is_marked(base.add(16)));
    }
}

/// The shipped code under loom.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    const BASE: Address = Address::new(0x20_0000);

    /// Marks objects that lie side by side; how many this worker claimed.
    fn mark(bits: &ObjectBits, objects: &[(usize, usize)]) -> usize {
        let claimed = objects.iter().filter(|(offset, bytes)| {
            let object = BASE.add(*offset);
            let is_ours = bits.mark(object);
            if is_ours {
                bits.mark_granules(object, *bytes);
            }
            is_ours
        });
        claimed.count()
    }

    /// Two workers reach the same objects, in different orders: each is claimed by one of them (I4), and no bit of an
    /// object in the same word is lost, of starts or of live granules.
    #[test]
    fn each_object_is_claimed_by_one_worker() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            // The second reaches into the word in which the third begins.
            let objects = [(0, 16), (480, 48), (528, 16)];
            let bits = Arc::new(ObjectBits::new(BASE, 2 * WORD_BYTES).unwrap());
            let other = {
                let bits = bits.clone();
                thread::spawn(move || mark(&bits, &[objects[2], objects[1], objects[0]]))
            };
            let own = mark(&bits, &objects);
            assert_eq!(own + other.join().unwrap(), 3);
            assert_eq!(bits.starts(0).bits(), 1 | 1 << 60);
            assert_eq!(bits.starts(1).bits(), 1 << 2);
            assert_eq!(bits.live(0), 3 | 0xf << 60);
            assert_eq!(bits.live(1), 0xf);
        });
    }

    /// Sliding notes where objects will begin, several workers in the same word.
    #[test]
    fn starts_that_several_workers_add_are_all_there() {
        loom::model(|| {
            let bits = Arc::new(ObjectBits::new(BASE, WORD_BYTES).unwrap());
            let other = {
                let bits = bits.clone();
                thread::spawn(move || bits.add_starts(0, 0b0101))
            };
            bits.add_starts(0, 0b1010);
            other.join().unwrap();
            assert_eq!(bits.starts(0).bits(), 0b1111);
        });
    }
}
