//! The header of a precise object: one 64-bit word.
//!
//! ```text
//!  63        40 39 38    37      36   35          8 7   4 3  2 1   0
//! |  type id   |  -  |immortal|spine| identity hash | age | -  |state|
//! ```
//!
//! An array in pieces is a [spine](crate::spine); all arraylets of an immortal one were made at once, and stay its own
//! (PLDI 2010, section 5.2).
//!
//! State `forwarded` replaces the whole word by the new address, whose low three bits are free. State `self-forwarded`
//! (an object whose promotion failed stays where it is) keeps all other bits. Marks are never here: they are side
//! metadata.
//!
//! Compiled code may read the word while the world runs, and is promised: the state is 0; the type and the bits of
//! arrays never change; the hash changes once, from 0; the age changes in stopped worlds alone. Bits 2, 3, 38 and 39
//! may be anything. The promise stands in gleaner.h and in `docs/embedding.md`, and holds for one [`VERSION`].
//!
//! The word is atomic: workers compete for the state by compare-and-swap (invariant I4), mutators put the hash there
//! the same way.

use gleaner_base::sync::{AtomicU64, Ordering};

use crate::Address;
use crate::types::TypeId;

/// Version of the bit layout, of the published fields of mutators, and of the C interface that has both: for compilers
/// that have them in their code.
pub const VERSION: u32 = 10;

const STATE: u64 = 0b11;
const FORWARDED: u64 = 0b01;
const SELF_FORWARDED: u64 = 0b10;
const AGE_SHIFT: u32 = 4;
const AGE: u64 = 0xf << AGE_SHIFT;
const HASH_SHIFT: u32 = 8;
const HASH_BITS: u32 = 28;
const HASH: u64 = ((1 << HASH_BITS) - 1) << HASH_SHIFT;
/// Set in the header of an array in pieces: compiled code may test it.
pub const SPINE: u64 = 1 << 36;
const IMMORTAL: u64 = 1 << 37;
/// Where the type begins: compiled code writes the header of a fresh object as the type's number shifted by this.
pub const TYPE_SHIFT: u32 = 40;

/// The value of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Header(u64);

impl Header {
    /// The greatest age; an object that survives more often keeps it.
    pub const OLDEST: u32 = 15;

    /// The header of a fresh object.
    #[inline(always)]
    pub const fn fresh(id: TypeId) -> Header {
        Header((id.get() as u64) << TYPE_SHIFT)
    }

    /// The header of a fresh array in pieces.
    pub const fn fresh_spine(id: TypeId) -> Header {
        Header(Header::fresh(id).0 | SPINE)
    }

    /// Whether the object is an array in pieces; not of one that moved.
    #[inline(always)]
    pub const fn is_spine(self) -> bool {
        self.0 & SPINE != 0
    }

    /// The same of an immortal array in pieces, which has all its arraylets.
    pub const fn immortal(self) -> Header {
        Header(self.0 | IMMORTAL)
    }

    /// Whether the object is an immortal array in pieces; not of one that moved.
    #[inline(always)]
    pub const fn is_immortal(self) -> bool {
        self.0 & IMMORTAL != 0
    }

    /// The word.
    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// The type, unless the object is forwarded.
    #[inline(always)]
    pub const fn type_id(self) -> TypeId {
        TypeId::new((self.0 >> TYPE_SHIFT) as u32)
    }

    /// How many collections the object has survived.
    #[inline(always)]
    pub const fn age(self) -> u32 {
        ((self.0 & AGE) >> AGE_SHIFT) as u32
    }

    /// One collection older.
    #[inline(always)]
    pub const fn older(self) -> Header {
        if self.age() < Header::OLDEST {
            Header(self.0 + (1 << AGE_SHIFT))
        } else {
            self
        }
    }

    /// The identity hash, from 1; 0 before it was asked for.
    #[inline(always)]
    pub const fn hash(self) -> u32 {
        ((self.0 & HASH) >> HASH_SHIFT) as u32
    }

    /// With an identity hash made of the low bits of `seed`, never 0.
    pub const fn with_hash(self, seed: u32) -> Header {
        let hash = seed as u64 & (HASH >> HASH_SHIFT);
        let hash = if hash == 0 { 1 } else { hash };
        Header(self.0 & !HASH | hash << HASH_SHIFT)
    }

    /// What is left in the place of an object that moved to `target`, a multiple of 8.
    #[inline(always)]
    pub fn forwarded_to(target: Address) -> Header {
        Header(target.word() as u64 | FORWARDED)
    }

    /// Where the object is now, if it was forwarded to another place or to itself at `here`.
    #[inline(always)]
    pub fn forwardee(self, here: Address) -> Option<Address> {
        match self.0 & STATE {
            0 => None,
            FORWARDED => Some(Address::new((self.0 & !STATE) as usize)),
            _ => Some(here),
        }
    }

    /// An object that stays where it is although it should have been copied.
    #[inline(always)]
    pub const fn self_forwarded(self) -> Header {
        Header(self.0 | SELF_FORWARDED)
    }

    /// In the normal state again; not for an object that moved.
    #[inline(always)]
    pub const fn normal(self) -> Header {
        Header(self.0 & !STATE)
    }

    /// Neither forwarded nor self-forwarded.
    #[inline(always)]
    pub const fn is_normal(self) -> bool {
        self.0 & STATE == 0
    }
}

/// The header word of the object at `object`.
///
/// # Safety
/// An object, or the place of one that moved, must lie there and stay mapped as long as the reference is used.
#[inline(always)]
pub unsafe fn word_of<'a>(object: Address) -> &'a AtomicU64 {
    // SAFETY: the word of an object or of the place of one that moved lies there, mapped as long as the reference is
    // used, as asked; objects are 8-aligned.
    unsafe { &*object.ptr::<AtomicU64>() }
}

/// Reads the header of the object at `object`.
///
/// # Safety
/// As for [`word_of`].
#[inline(always)]
pub unsafe fn load(object: Address, ordering: Ordering) -> Header {
    // SAFETY: an object, or the place of one that moved, lies there and is mapped, as asked.
    Header(unsafe { word_of(object) }.load(ordering))
}

/// Writes the header of the object at `object`.
///
/// # Safety
/// As for [`word_of`], and nobody else writes the word meanwhile.
#[inline(always)]
pub unsafe fn store(object: Address, header: Header) {
    // SAFETY: an object, or the place of one that moved, lies there and is mapped, as asked.
    unsafe { word_of(object) }.store(header.0, Ordering::Relaxed);
}

/// Replaces `old` by `new`, or says what is there instead (see [`claim`]).
///
/// # Safety
/// As for [`word_of`].
#[inline(always)]
pub unsafe fn replace(object: Address, old: Header, new: Header) -> Result<(), Header> {
    // SAFETY: an object, or the place of one that moved, lies there and is mapped, as asked.
    claim(unsafe { word_of(object) }, old, new)
}

/// Replaces `old` by `new` in a header word, or says what is there instead. Success releases what was written before,
/// the copy not least; failure acquires what the winner wrote.
#[inline(always)]
pub fn claim(word: &AtomicU64, old: Header, new: Header) -> Result<(), Header> {
    word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
        .map(|_| ())
        .map_err(Header)
}

/// Forwards the object at `here`, whose header was `old`: to its copy, or to itself. Where it is if this call did it;
/// where it is by what another did first is the error, and the copy is nothing then.
#[inline(always)]
pub fn publish(
    word: &AtomicU64,
    here: Address,
    old: Header,
    copy: Option<Address>,
) -> Result<Address, Address> {
    let new = match copy {
        Some(copy) => Header::forwarded_to(copy),
        None => old.self_forwarded(),
    };
    match claim(word, old, new) {
        Ok(()) => Ok(copy.unwrap_or(here)),
        // In a stopped world nothing else happens to the header.
        Err(now) => Err(now.forwardee(here).unwrap_or(here)),
    }
}

/// The identity hash in a header word of an object that is where its reference leads: found there, or put there, made
/// of what `seed` gives. Mutators may compete; all get the same.
#[inline]
pub fn identity_hash(word: &AtomicU64, mut seed: impl FnMut() -> u32) -> u32 {
    let mut header = Header(word.load(Ordering::Relaxed));
    while header.hash() == 0 {
        let with_hash = header.with_hash(seed());
        match claim(word, header, with_hash) {
            Ok(()) => return with_hash.hash(),
            Err(now) => header = now,
        }
    }
    header.hash()
}

/// Reads a header word, with what the thread that forwarded the object wrote before.
#[inline(always)]
pub fn look(word: &AtomicU64) -> Header {
    Header(word.load(Ordering::Acquire))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_fields_do_not_touch_each_other() {
        let header = Header::fresh(TypeId::new(0xabcdef)).with_hash(0xffff_ffff);
        assert_eq!(header.hash(), 0x0fff_ffff);
        assert_eq!(header.type_id(), TypeId::new(0xabcdef));
        assert_eq!(header.with_hash(5).hash(), 5, "one hash instead of another");
        assert_eq!(
            Header::fresh(TypeId::new(3)).word(),
            3 << TYPE_SHIFT,
            "what a compiler writes"
        );
        let mut older = header;
        for age in 0..20 {
            assert_eq!(older.age(), age.min(Header::OLDEST));
            older = older.older();
        }
        assert_eq!(
            (older.type_id(), older.hash()),
            (header.type_id(), header.hash())
        );
        assert!(older.is_normal());
        assert_eq!(Header::fresh(TypeId::new(1)).with_hash(1 << 28).hash(), 1);
    }

    #[test]
    fn forwarding_says_where_the_object_is() {
        let (here, there) = (Address::new(0x1000), Address::new(0x7f00_0000_1238));
        let header = Header::fresh(TypeId::new(7)).with_hash(99);
        assert_eq!(header.forwardee(here), None);
        assert_eq!(Header::forwarded_to(there).forwardee(here), Some(there));
        let stays = header.self_forwarded();
        assert_eq!(stays.forwardee(here), Some(here));
        assert_eq!(stays.type_id(), header.type_id());
        assert_eq!(stays.normal(), header);
        assert!(!stays.is_normal() && !Header::forwarded_to(there).is_normal());
    }

    #[test]
    fn a_header_is_claimed_by_its_last_reader() {
        let fresh = Header::fresh(TypeId::new(7));
        let word = AtomicU64::new(fresh.word());
        assert_eq!(claim(&word, fresh, fresh.older()), Ok(()));
        assert_eq!(look(&word), fresh.older());
        assert_eq!(
            claim(&word, fresh, fresh.self_forwarded()),
            Err(fresh.older())
        );
        assert_eq!(look(&word), fresh.older());
    }
}

/// The shipped code under loom; forwarding has a model in `plans`.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;

    /// Three mutators ask for the hash of one object at once.
    #[test]
    fn all_get_the_same_identity_hash() {
        loom::model(|| {
            let fresh = Header::fresh(TypeId::new(7)).older();
            let word = Arc::new(AtomicU64::new(fresh.word()));
            let others = [1u32, 2].map(|seed| {
                let word = word.clone();
                thread::spawn(move || identity_hash(&word, || seed))
            });
            let own = identity_hash(&word, || 3);
            assert!((1..=3).contains(&own));
            for other in others {
                assert_eq!(other.join().unwrap(), own);
            }
            assert_eq!(identity_hash(&word, || 4), own);
            let header = look(&word);
            assert_eq!(header, fresh.with_hash(own));
        });
    }
}
