//! Which blocks of the old space are evacuated while everything is marked, and how many blocks scavenges leave to the next
//! evacuation (Immix, PLDI 2008, section 2.2).
//!
//! The sweep before has counted how much of each block with holes is in use, and nothing was allocated there since. So it is
//! known beforehand how much is copied at most, and how many blocks that takes. The sparsest blocks come first: they free
//! most for each byte that is copied.

use gleaner_spaces::precise::mark_region::blocks::LEVELS;

/// What is known. Blocks are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// How many blocks with holes have so many of their [`LEVELS`] parts in use, as the last sweep found them.
    pub sparse: [usize; LEVELS + 1],
    /// Blocks that are not vacant.
    pub in_use: usize,
    /// Blocks that are free as a whole, as far as the limit goes.
    pub free: usize,
    /// Of these, blocks below the top of the space.
    pub vacant: usize,
    /// As many blocks as there are bytes in holes.
    pub holes: usize,
    /// Threads that copy: each of them begins a block.
    pub workers: usize,
    /// Whether anything may move.
    pub may_move: bool,
    /// Whether all that can move does, to test that: under `stress`.
    pub always: bool,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Blocks with holes are evacuated of which at most so many parts are in use; none for 0.
    pub level: usize,
    /// How many blocks that are.
    pub blocks: usize,
    /// How many blocks may be taken for copies.
    pub copies: usize,
    /// Why.
    pub reason: &'static str,
}

/// Fuller blocks are not worth copying: half of one is.
const MOST_LEVEL: usize = LEVELS / 2;
/// An evacuation has to free one block in so many at least.
const LEAST_GAIN: usize = 32;
/// Holes are many if they are more than one part in so many of what is in use.
const MANY_HOLES: usize = 8;
/// Scavenges leave one block in so many at most: 2.5 %, as in the paper.
const HEADROOM: usize = 40;

/// Decides which blocks are evacuated.
pub fn candidates(found: &Measurements) -> Decision {
    let none = |reason| Decision {
        level: 0,
        blocks: 0,
        copies: 0,
        reason,
    };
    if !found.may_move {
        return none("what lives stays in the pages that it shares with the parent process");
    }
    let most = if found.always { LEVELS } else { MOST_LEVEL };
    let (mut parts, mut chosen) = (0, none("no block is sparse"));
    for level in 1..=most {
        let blocks = found.sparse[level];
        if blocks == 0 {
            continue;
        }
        parts += level * blocks;
        let copies = blocks_for(parts, found.workers);
        if copies > found.free {
            if chosen.blocks == 0 {
                chosen.reason = "no block is free for copies";
            }
            break;
        }
        chosen = Decision {
            level,
            blocks: chosen.blocks + blocks,
            copies,
            reason: "the sparsest blocks are evacuated",
        };
    }
    let freed = chosen.blocks.saturating_sub(chosen.copies);
    if !found.always && chosen.blocks > 0 && freed * LEAST_GAIN < found.in_use.max(1) {
        return none("an evacuation would free few blocks");
    }
    chosen
}

/// How many blocks may be taken for young objects, which fill `wanted` blocks at most, beside those that are evacuated. Where there
/// are many holes it is vacant blocks alone: what finds none fills the holes when the space was swept.
pub fn blocks_for_young(found: &Measurements, evacuated: &Decision, wanted: usize) -> usize {
    let few_holes = found.holes * MANY_HOLES <= found.in_use;
    let free = match few_holes || found.always {
        true => found.free,
        false => found.vacant.min(found.free),
    };
    wanted.min(free.saturating_sub(evacuated.copies))
}

/// How many of the blocks that are free scavenges leave to the next evacuation: as many as it would take now.
pub fn headroom(found: &Measurements) -> usize {
    let parts = |level: usize| level * found.sparse[level];
    let parts: usize = (1..=MOST_LEVEL).map(parts).sum();
    if parts == 0 || !found.may_move {
        return 0;
    }
    blocks_for(parts, found.workers).min(found.in_use / HEADROOM)
}

/// How many blocks copies of so many parts of blocks take, of which the last objects do not fit each: an eighth more, and one
/// for each worker.
fn blocks_for(parts: usize, workers: usize) -> usize {
    (parts + parts / 8).div_ceil(LEVELS) + workers
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn found(sparse: &[(usize, usize)], in_use: usize, free: usize) -> Measurements {
        let mut found = Measurements {
            sparse: [0; LEVELS + 1],
            in_use,
            free,
            vacant: free / 2,
            holes: 0,
            workers: 2,
            may_move: true,
            always: false,
        };
        for &(level, blocks) in sparse {
            found.sparse[level] = blocks;
        }
        found
    }

    #[test]
    fn the_sparsest_blocks_go_first_as_far_as_there_is_room() {
        let sparse = [(1, 160), (4, 100), (8, 100), (9, 500)];
        // An eighth more than 160 sixteenths are 12 blocks, and each worker has one.
        let decision = candidates(&found(&sparse, 1000, 14));
        assert_eq!((decision.level, decision.blocks), (1, 160));
        assert_eq!(decision.copies, 180_usize.div_ceil(16) + 2);
        let decision = candidates(&found(&sparse, 1000, 42));
        assert_eq!((decision.level, decision.blocks), (4, 260));
        let decision = candidates(&found(&sparse, 1000, 1000));
        assert_eq!((decision.level, decision.blocks), (8, 360));
        assert_eq!(decision.copies, 1530_usize.div_ceil(16) + 2);
        assert!(decision.reason.contains("sparsest"));
    }

    #[test]
    fn nothing_is_evacuated_that_does_not_pay() {
        let none = |found: &Measurements, reason: &str| {
            let decision = candidates(found);
            assert_eq!(
                (decision.level, decision.blocks, decision.copies),
                (0, 0, 0)
            );
            assert!(decision.reason.contains(reason), "{}", decision.reason);
        };
        none(&found(&[], 1000, 100), "no block is sparse");
        none(&found(&[(9, 900)], 1000, 100), "no block is sparse");
        none(&found(&[(1, 160)], 1000, 13), "no block is free");
        none(&found(&[(8, 60)], 1000, 100), "would free few");
        none(&found(&[(1, 3)], 3, 100), "would free few");
        let mut stays = found(&[(1, 160)], 1000, 100);
        stays.may_move = false;
        none(&stays, "shares");
    }

    #[test]
    fn all_that_finds_room_moves_if_it_is_to() {
        let mut all = found(&[(1, 3), (LEVELS, 5)], 10, 100);
        all.always = true;
        let decision = candidates(&all);
        assert_eq!((decision.level, decision.blocks), (LEVELS, 8));
        assert_eq!(decision.copies, (83 + 10_usize).div_ceil(16) + 2);
        all.free = 7;
        assert_eq!(candidates(&all).blocks, 3);
    }

    #[test]
    fn what_is_copied_has_room_in_the_blocks_that_are_taken() {
        for level in 1..=MOST_LEVEL {
            for blocks in [40, 100, 1000] {
                let decision = candidates(&found(&[(level, blocks)], blocks, usize::MAX));
                assert_eq!(decision.blocks, blocks);
                assert!(decision.copies * LEVELS >= level * blocks + 2 * LEVELS);
                assert!(decision.copies < blocks, "{level} {blocks}");
            }
        }
    }

    #[test]
    fn young_objects_take_free_blocks_where_there_are_few_holes() {
        let mut found = found(&[], 80, 40);
        let evacuated = candidates(&found);
        assert_eq!(blocks_for_young(&found, &evacuated, 100), 40);
        assert_eq!(blocks_for_young(&found, &evacuated, 7), 7);
        let some = Decision {
            copies: 15,
            ..evacuated
        };
        assert_eq!(blocks_for_young(&found, &some, 100), 25);
        found.holes = 11;
        assert_eq!(blocks_for_young(&found, &some, 100), 5, "the vacant ones");
        found.vacant = 0;
        assert_eq!(blocks_for_young(&found, &some, 100), 0);
    }

    #[test]
    fn scavenges_leave_what_an_evacuation_would_take_but_not_much() {
        assert_eq!(headroom(&found(&[(9, 900)], 1000, 0)), 0);
        assert_eq!(headroom(&found(&[(1, 16)], 1000, 0)), 2 + 2);
        assert_eq!(headroom(&found(&[(8, 900)], 1000, 0)), 25);
        assert_eq!(
            headroom(&found(&[(1, 16)], 39, 0)),
            0,
            "a small heap has none"
        );
        let mut stays = found(&[(1, 16)], 1000, 0);
        stays.may_move = false;
        assert_eq!(headroom(&stays), 0);
    }
}
