//! What a worker of a scavenge knows of the old space's lack of room.
//!
//! Where the old space is full, all that would be promoted stays where it is, and a collection of everything follows. To ask
//! for room takes the allocator lock and a look through holes and blocks. Nothing is freed in the old space while a scavenge runs: so
//! no object finds room that is as large as one that a worker found none for, and it need not be looked for again. Without
//! that, a scavenge that is thrown away took ten times as long as one that is not.
//!
//! Each worker has its own, since each has holes of its own.

/// The smallest object that found no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its size in bytes; no object is as large as `usize::MAX`.
    least: usize,
    /// How often room was looked for in vain.
    asked: u64,
}

impl Refused {
    /// All objects found room.
    pub const NONE: Refused = Refused {
        least: usize::MAX,
        asked: 0,
    };

    /// Whether there is no room for an object of `bytes` bytes, without a look.
    #[inline(always)]
    pub fn is_sure(&self, bytes: usize) -> bool {
        bytes >= self.least
    }

    /// An object of `bytes` bytes found no room.
    pub fn note(&mut self, bytes: usize) {
        self.least = self.least.min(bytes);
        self.asked += 1;
    }

    /// How often room was looked for in vain.
    pub fn asked(self) -> u64 {
        self.asked
    }
}

impl Default for Refused {
    fn default() -> Refused {
        Refused::NONE
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn smaller_objects_than_the_one_that_found_no_room_may_find_some() {
        let mut refused = Refused::NONE;
        assert!(!refused.is_sure(1 << 20) && refused.asked() == 0);
        refused.note(64);
        assert!(refused.is_sure(64) && refused.is_sure(72) && !refused.is_sure(56));
        refused.note(24);
        assert!(refused.is_sure(24) && !refused.is_sure(16));
        assert_eq!((refused.asked(), Refused::default()), (2, Refused::NONE));
    }

    #[test]
    fn an_object_of_any_size_may_find_room_at_first_and_the_smallest_refused_one_counts() {
        let mut refused = Refused::NONE;
        assert!(!refused.is_sure(usize::MAX - 1));
        refused.note(24);
        refused.note(64);
        assert!(refused.is_sure(24) && !refused.is_sure(16));
    }
}
