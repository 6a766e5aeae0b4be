//! Whether everything is slid together although it was collected in place (`old=mark-region`, whether new objects are copied
//! or lie there, too).
//!
//! What a collection in place leaves free may be of no use: lines between what lives are too few for the young generation,
//! or too small for the object that a mutator waits for, and no block is free into which sparse ones could be evacuated.
//! Marking has counted the bytes that live. So it is known what a sliding would leave, and none is for nothing. It comes
//! in the same stop, which then has marked everything twice. Where that happens again and again, the next collections for
//! lack of room slide at once: one, then four, up to 32, before what is free in place gets another trial. One that was of use has
//! filled the holes that a sliding left none of, so the next one may find none: it halves that number, and no more.

/// What is known behind a collection of everything in place, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// What new objects may take now.
    pub left: usize,
    /// What they might take if everything was slid together.
    pub by_sliding: usize,
    /// What they are to have.
    pub wanted: usize,
    /// The least that makes sense: a smaller gain is not worth a sliding.
    pub least: usize,
    /// What a mutator waits for and has no room; 0 if there is room, or none waits.
    pub lacking: usize,
}

/// Whether everything is slid together now.
pub fn slides(found: &Measurements) -> bool {
    let gained = found.by_sliding.saturating_sub(found.left);
    // As a sliding costs about as much as the collection before, it has to put off the next one for as long again.
    let has_little = found.left < found.wanted && gained >= found.left.max(found.least);
    let makes_room = found.lacking > 0 && gained > 0 && found.by_sliding >= found.lacking;
    has_little || makes_room
}

/// How a collection of everything for lack of room went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// What lives stayed in its place.
    InPlace,
    /// It was to stay there, and was slid together after all.
    AfterAll,
    /// It was slid together without a look at what staying would leave.
    AtOnce,
}

/// What is remembered of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// How many collections yet slide at once.
    at_once: u32,
    /// How many do if another one slides after all.
    next: u32,
}

/// As many collections in a row slide at once, at most.
const MOST_AT_ONCE: u32 = 32;
/// So many times as many as the time before.
const MORE: u32 = 4;

impl Memory {
    /// Nothing was collected.
    pub const NEW: Memory = Memory {
        at_once: 0,
        next: 1,
    };

    /// Whether the next collection of everything for lack of room slides at once.
    pub fn slides_at_once(&self) -> bool {
        self.at_once > 0
    }

    /// A collection of everything for lack of room is over.
    pub fn note(&mut self, outcome: Outcome) {
        *self = match outcome {
            Outcome::InPlace => Memory {
                at_once: 0,
                next: (self.next / 2).max(1),
            },
            Outcome::AfterAll => Memory {
                at_once: self.next,
                next: (MORE * self.next).min(MOST_AT_ONCE),
            },
            Outcome::AtOnce => Memory {
                at_once: self.at_once.saturating_sub(1),
                ..*self
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn found(left: usize, by_sliding: usize) -> Measurements {
        Measurements {
            left,
            by_sliding,
            wanted: 64 * MB,
            least: MB,
            lacking: 0,
        }
    }

    #[test]
    fn everything_is_slid_where_that_leaves_twice_as_much() {
        assert!(slides(&found(10 * MB, 20 * MB)));
        assert!(!slides(&found(10 * MB, 20 * MB - 1)));
        assert!(slides(&found(64 * MB - 1, 128 * MB)));
        assert!(!slides(&found(64 * MB, 500 * MB)), "there is room enough");
    }

    #[test]
    fn nothing_is_slid_for_less_than_makes_sense() {
        assert!(!slides(&found(0, MB - 1)));
        assert!(slides(&found(0, MB)));
        assert!(!slides(&found(3, MB + 2)) && slides(&found(3, MB + 3)));
        assert!(!slides(&found(MB, 0)), "lines may be more than blocks");
    }

    #[test]
    fn little_is_enough_where_a_mutator_waits_for_it() {
        let waits = |lacking, by_sliding| {
            slides(&Measurements {
                lacking,
                ..found(200, by_sliding)
            })
        };
        assert!(waits(4000, 4000));
        assert!(!waits(4000, 3999), "it would find no room either");
        assert!(!waits(0, 4000));
        assert!(!waits(100, 200), "nothing would be gained");
        assert!(waits(100, 201));
    }

    #[test]
    fn collections_slide_at_once_where_they_did_after_all_and_more_of_them_each_time() {
        let mut memory = Memory::NEW;
        let mut rows = [0; 6];
        for row in &mut rows {
            assert!(!memory.slides_at_once());
            memory.note(Outcome::AfterAll);
            while memory.slides_at_once() {
                memory.note(Outcome::AtOnce);
                *row += 1;
            }
        }
        assert_eq!(rows, [1, 4, 16, 32, 32, 32]);
        // Where what is free is of use again and again, that is soon forgotten.
        for _ in 0..5 {
            memory.note(Outcome::InPlace);
            assert!(!memory.slides_at_once());
        }
        assert_eq!(memory, Memory::NEW);
        memory.note(Outcome::AfterAll);
        memory.note(Outcome::InPlace);
        assert!(!memory.slides_at_once(), "there was room again");
    }

    /// As `jbb` in 1.5 times its smallest heap: one collection of four behind a sliding leaves something of use, and none behind
    /// such a one.
    #[test]
    fn what_is_of_use_once_does_not_bring_trials_back_that_fail() {
        let (mut memory, mut failed, mut slid) = (Memory::NEW, 0, 0);
        let mut tries = 0;
        for _ in 0..200 {
            if memory.slides_at_once() {
                memory.note(Outcome::AtOnce);
                slid += 1;
                continue;
            }
            tries += 1;
            match tries % 4 {
                3 => memory.note(Outcome::InPlace),
                _ => {
                    memory.note(Outcome::AfterAll);
                    failed += 1;
                }
            }
        }
        assert!(failed <= 12 && slid >= 180, "{failed} {slid}");
    }
}
