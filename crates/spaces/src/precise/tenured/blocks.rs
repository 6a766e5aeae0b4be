//! The blocks of a space that have holes, sorted by a hole that each of them has.
//!
//! After a marking nothing is known of a block but how much of the space is free. A block is looked at, once, when a
//! thread wants room and the lists do not have it: a request for little takes the block whose hole is smallest, and a
//! request for much one that surely has room. So no search looks at more than a few blocks, and holes that are too
//! small for one object stay for others. A block that its owner gives back is sorted again.
//!
//! # Invariants
//! - A block is in one list, or not sorted yet, or has an owner, or none of its holes is worth anything.
//! - The live bits of a block that has no owner, or the marks of its lines, say what is in use there ([`Holes`]).
//! - `free` is the number of bytes that are free in blocks without an owner.
//!
//! Any thread takes and gives back blocks; whose it is, its owner knows. Markings begin and end in a stopped world.

use gleaner_base::sync::{AtomicU32, AtomicUsize, Ordering, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::side::Side;

use super::holes::{BLOCK_BYTES, CLASS_BYTES, Holes};

/// Holes with fewer bytes are not looked into.
pub(super) const LEAST_HOLE: usize = 64;
const BLOCK_SHIFT: u32 = BLOCK_BYTES.ilog2();
/// Holes of less than [`CLASS_BYTES`] bytes, of less than twice as many, and so on up to a whole block.
const CLASSES: usize = BLOCK_BYTES / CLASS_BYTES + 1;
/// Blocks of these classes are good for small objects alone.
const LOW_CLASSES: usize = 512 / CLASS_BYTES;
/// How many blocks one request looks at.
const LOOKS: usize = 8;

/// The largest class of which every hole has no more than `bytes` bytes at least.
fn class_of(bytes: usize) -> usize {
    bytes / CLASS_BYTES
}

/// How far a search goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Search {
    /// A few blocks.
    Bounded,
    /// All: there is nothing else.
    Complete,
}

/// A block that is its taker's from now on, and its first hole that is large enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub start: Address,
    pub hole: (Address, usize),
}

/// Protected by the lock.
#[derive(Debug)]
struct Lists {
    /// The first block of each list; 0 for none, else its number plus one.
    heads: [u32; CLASSES],
    /// A bit for each list that has a block.
    filled: [u64; CLASSES.div_ceil(u64::BITS as usize)],
    /// Blocks below were sorted.
    sorted: usize,
    /// Blocks below were swept by the last marking.
    swept: usize,
    /// No block has a hole of this many bytes, or of more.
    hopeless: usize,
}

impl Lists {
    const EMPTY: Lists = Lists {
        heads: [0; CLASSES],
        filled: [0; CLASSES.div_ceil(u64::BITS as usize)],
        sorted: 0,
        swept: 0,
        hopeless: 0,
    };

    fn set_head(&mut self, class: usize, number: u32) {
        self.heads[class] = number;
        let (word, bit) = (class / u64::BITS as usize, class % u64::BITS as usize);
        self.filled[word] &= !(1 << bit);
        self.filled[word] |= u64::from(number != 0) << bit;
    }

    /// The lowest class from `least` on of which there is a block.
    fn lowest(&self, least: usize) -> Option<usize> {
        let (first, bit) = (least / u64::BITS as usize, least % u64::BITS as usize);
        let mut mask = u64::MAX << bit;
        for (word, &bits) in self.filled.iter().enumerate().skip(first) {
            if bits & mask != 0 {
                return Some(word * u64::BITS as usize + (bits & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }
}

/// See the file's comment.
pub(super) struct Blocks {
    start: Address,
    lock: RawLock,
    lists: UnsafeCell<Lists>,
    /// For each block the next one of its list, as in `heads`. Protected by the lock.
    next: Side<AtomicU32>,
    /// See the invariants. Written with the lock.
    free: AtomicUsize,
    /// Blocks that were looked at, ever. Written with the lock.
    looks: AtomicUsize,
}

// SAFETY: what is no atomic is protected by the lock.
unsafe impl Sync for Blocks {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Blocks {}

impl Blocks {
    /// No block of the range has a hole; `None` when the system gives no memory.
    pub fn new(start: Address, bytes: usize) -> Option<Blocks> {
        Some(Blocks {
            start,
            lock: RawLock::new(),
            lists: UnsafeCell::new(Lists::EMPTY),
            next: Side::new(start, bytes, BLOCK_SHIFT)?,
            free: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
        })
    }

    /// Bytes that are free in blocks without an owner.
    pub fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    /// How many blocks were looked at, ever.
    pub fn looks(&self) -> usize {
        self.looks.load(Ordering::Relaxed)
    }

    /// The first `swept` blocks have holes of `free` bytes together; the others none. In a stopped world.
    pub fn reset(&self, swept: usize, free: usize) {
        self.with(|lists| {
            *lists = Lists {
                swept,
                hopeless: usize::MAX,
                ..Lists::EMPTY
            };
        });
        self.free.store(free, Ordering::Relaxed);
    }

    /// A block with a hole that is worth something, and with no larger one than it must have.
    pub fn take_any(&self, bits: &impl Holes) -> Option<Address> {
        self.with(|lists| {
            for _ in 0..LOOKS {
                if lists.lowest(0).is_some_and(|class| class < LOW_CLASSES) {
                    break;
                }
                if self.sort_next(lists, bits).is_none() {
                    break;
                }
            }
            while lists.lowest(0).is_none() && self.sort_next(lists, bits).is_some() {}
            let class = lists.lowest(0)?;
            Some(self.take_first(lists, bits, class))
        })
    }

    /// A block with a hole of `bytes` bytes.
    pub fn take_fitting(&self, bits: &impl Holes, bytes: usize, search: Search) -> Option<Taken> {
        let bytes = bits.least_for(bytes);
        self.with(|lists| {
            if bytes >= lists.hopeless {
                return None;
            }
            let found = self.find_fitting(lists, bits, bytes, search);
            if found.is_none() && search == Search::Complete {
                lists.hopeless = bytes;
            }
            found
        })
    }

    fn find_fitting(
        &self,
        lists: &mut Lists,
        bits: &impl Holes,
        bytes: usize,
        search: Search,
    ) -> Option<Taken> {
        let mut left = match search {
            Search::Bounded => LOOKS,
            Search::Complete => usize::MAX,
        };
        let class = class_of(bytes);
        if let Some(taken) = self.search_list(lists, bits, class, bytes, &mut left) {
            return Some(taken);
        }
        // Of a higher class every block will do.
        let mut roomy = lists.lowest(class + 1);
        while roomy.is_none() && left > 0 {
            left -= 1;
            match self.sort_next(lists, bits)? {
                Some(new) if new > class => roomy = Some(new),
                Some(new) if new == class => {
                    // It is the first of its list.
                    let taken = self.search_list(lists, bits, class, bytes, &mut 1);
                    if taken.is_some() {
                        return taken;
                    }
                }
                _ => {}
            }
        }
        let start = self.take_first(lists, bits, roomy?);
        let hole = bits.next_hole(start, start.add(BLOCK_BYTES), bytes)?;
        Some(Taken { start, hole })
    }

    /// Looks at the first blocks of a list, `left` at most, for a hole of `bytes` bytes.
    fn search_list(
        &self,
        lists: &mut Lists,
        bits: &impl Holes,
        class: usize,
        bytes: usize,
        left: &mut usize,
    ) -> Option<Taken> {
        let (mut before, mut at) = (None, lists.heads[class]);
        while at != 0 && *left > 0 {
            *left -= 1;
            self.note_look();
            let start = self.block(at);
            if let Some(hole) = bits.next_hole(start, start.add(BLOCK_BYTES), bytes) {
                let next = self.link(at).load(Ordering::Relaxed);
                match before {
                    None => lists.set_head(class, next),
                    Some(before) => self.link(before).store(next, Ordering::Relaxed),
                }
                self.leave(bits, start);
                return Some(Taken { start, hole });
            }
            (before, at) = (Some(at), self.link(at).load(Ordering::Relaxed));
        }
        None
    }

    /// The owner of a block gives it back: the live bits say what is in use.
    pub fn give(&self, bits: &impl Holes, start: Address) {
        self.with(|lists| {
            bits.note_given(start);
            let free = BLOCK_BYTES - bits.live_bytes(start, start.add(BLOCK_BYTES));
            self.free.fetch_add(free, Ordering::Relaxed);
            let _ = self.sort(lists, bits, start);
            lists.hopeless = usize::MAX;
        });
    }

    /// Looks at the next block that is not sorted yet, if there is one; the class it has.
    fn sort_next(&self, lists: &mut Lists, bits: &impl Holes) -> Option<Option<usize>> {
        while lists.sorted < lists.swept {
            let start = self.start.add(lists.sorted << BLOCK_SHIFT);
            lists.sorted += 1;
            if bits.is_swept(start) {
                return Some(self.sort(lists, bits, start));
            }
        }
        None
    }

    /// Puts a block at the head of the list of its class, if it has one.
    fn sort(&self, lists: &mut Lists, bits: &impl Holes, start: Address) -> Option<usize> {
        self.note_look();
        let hole = bits.hole_within(start, start.add(BLOCK_BYTES));
        if hole < LEAST_HOLE {
            self.leave(bits, start);
            return None;
        }
        let class = class_of(hole);
        let number = (start.offset_from(self.start) >> BLOCK_SHIFT) as u32 + 1;
        self.link(number)
            .store(lists.heads[class], Ordering::Relaxed);
        lists.set_head(class, number);
        Some(class)
    }

    fn take_first(&self, lists: &mut Lists, bits: &impl Holes, class: usize) -> Address {
        let number = lists.heads[class];
        lists.set_head(class, self.link(number).load(Ordering::Relaxed));
        let start = self.block(number);
        self.leave(bits, start);
        start
    }

    /// What is free in a block counts no more.
    fn leave(&self, bits: &impl Holes, start: Address) {
        let free = BLOCK_BYTES - bits.live_bytes(start, start.add(BLOCK_BYTES));
        self.free.fetch_sub(free, Ordering::Relaxed);
        bits.note_taken(start);
    }

    fn note_look(&self) {
        self.looks.fetch_add(1, Ordering::Relaxed);
    }

    /// The block of a number that is one too high.
    fn block(&self, number: u32) -> Address {
        self.start.add((number as usize - 1) << BLOCK_SHIFT)
    }

    fn link(&self, number: u32) -> &AtomicU32 {
        self.next.get(number as usize - 1)
    }

    fn with<T>(&self, use_them: impl FnOnce(&mut Lists) -> T) -> T {
        self.lock.lock();
        // SAFETY: the lock is held.
        let result = self
            .lists
            .with_mut(|lists| use_them(unsafe { &mut *lists }));
        self.lock.unlock();
        result
    }
}
