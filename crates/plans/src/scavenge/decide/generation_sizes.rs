//! How large the generations of the precise heap are until the next collection (after Parallel Scavenge's adaptive
//! sizes: space used and time spent, ASPLOS 2013, section 2.4).
//!
//! The young generation has the size that [`young_size`](super::young_size) found to cost least, up to half of the
//! limit and as far as the old one leaves room, and shrinks slowly while scavenges take next to nothing. It gives way
//! to the old generation after a full collection alone: before, nobody knows how much of that lives. A survivor space
//! has room for half as much again as survives, and is not made a little smaller. Eden is larger by what keeps its place
//! there; where that lies so far up that eden cannot give way to the old generation, the survivor spaces do. What is left
//! of the young generation is cut into eden and what young large objects may take, as lately as much was allocated of
//! both: so both are full at the same time. The old generation may fill to twice what lived in it after the last full
//! collection, or more when full collections take much of the time. Where there are no scavenges, eden takes what neither of the two needs, nor
//! what comes and goes beside the nursery: it would be given memory anew each time.

/// What is known. Sizes are in bytes, shares in thousandths of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// Of all spaces together, the most there may be.
    pub limit: usize,
    /// Whether the young generation is collected by itself.
    pub scavenging: bool,
    /// Whether full collections slide what lives together.
    pub slides: bool,
    /// What the young generation holds.
    pub nursery_used: usize,
    /// What objects that keep their places take of eden, with what between them is of no use.
    pub kept: usize,
    /// Up to where such objects lie in eden, from its start: it cannot be smaller. 0 where there are none.
    pub least_eden: usize,
    /// What was allocated lately between collections.
    pub allocated_lately: usize,
    /// Of that, what was taken beside the nursery.
    pub beside_lately: usize,
    /// What was held beside it lately and is not now: what comes and goes there keeps its memory.
    pub more_beside_lately: usize,
    /// What the survivor spaces have at least, both together.
    pub least_survivors: usize,
    /// Of the young generation: eden, both survivor spaces and what large objects may take; as it is while it is
    /// collected by itself.
    pub young: usize,
    /// The young generation that is wanted while it is collected by itself, and why.
    pub wanted: (usize, &'static str),
    /// Of each survivor space, as it is.
    pub survivor: usize,
    /// The least young generation that makes sense.
    pub least_young: usize,
    /// What the old generation takes of the limit.
    pub old_used: usize,
    /// What is free within that: holes.
    pub old_holes: usize,
    /// Up to which the old generation was to be filled.
    pub old_target: usize,
    /// What scavenges promoted lately.
    pub promoted_lately: usize,
    /// What survived in the young generation lately.
    pub survived_lately: usize,
    /// The share that scavenges took lately.
    pub scavenge_share: usize,
    /// The share that full collections took lately.
    pub full_share: usize,
    /// Whether this collection was a full one.
    pub was_full: bool,
    /// What a mutator waits for in the old generation.
    pub needed: usize,
    /// Whether objects have finalizers, or had: a collection keeps what they reach until they were run.
    pub finalizers: bool,
}

/// What is decided, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Of eden.
    pub eden: usize,
    /// Of each survivor space.
    pub survivor: usize,
    /// Of all of the young generation while it is collected by itself.
    pub young: usize,
    /// Up to which the old generation is to be filled before everything is collected.
    pub old_target: usize,
    /// Why.
    pub reason: &'static str,
}

/// Collections should take at most this share of the time, in thousandths.
pub const GOAL: usize = 100;
/// An old generation of this many bytes is not worth a collection.
pub const SMALL: usize = 128 << 20;
/// With less the young generation is larger than it need be.
const LITTLE: usize = 5;

/// Decides the sizes of the generations until the next collection.
pub fn next_sizes(found: &Measurements) -> Decision {
    let (wanted, reason) = if !found.scavenging {
        let grows = found.scavenge_share.max(found.full_share) > GOAL;
        (
            found.young.saturating_mul(1 + usize::from(grows)),
            "the young generation is not collected by itself",
        )
    } else if found.scavenge_share < LITTLE {
        (
            found.young - found.young / 8,
            "scavenges take next to no time",
        )
    } else {
        found.wanted
    };
    let left = left(found);
    let (young, reason) = if found.was_full && left < found.young {
        (left, "the old generation needs the room")
    } else {
        (wanted.min(most_young(found)), reason)
    };
    let young = young.max(least_young(found));
    let wanted = (found.survived_lately + found.survived_lately / 2).clamp(young / 16, young / 4);
    let survivor = if wanted < found.survivor && found.survivor / 2 < wanted {
        found.survivor.min(young / 4)
    } else {
        wanted
    };
    let survivor = survivor.min(most_survivor(found));
    let old_target = old_target(found, found.old_used - found.old_holes, young);
    if !found.scavenging && found.slides {
        return Decision {
            eden: all_that_is_free(found, young + old_target),
            survivor: 0,
            young,
            old_target,
            reason: "the young generation takes all that nothing lives in",
        };
    }
    let fresh = young - 2 * survivor;
    Decision {
        eden: fresh - share_of_large(found, fresh) + room_around_kept(found, young),
        survivor,
        young,
        old_target,
        reason,
    }
}

/// The least young generation: smaller for a while, where what is needed would find no room beside it otherwise.
fn least_young(found: &Measurements) -> usize {
    let beside = found.limit.saturating_sub(found.old_used + found.needed);
    if found.needed > 0 && beside >= found.least_young / 3 {
        found.least_young.min(beside)
    } else {
        found.least_young
    }
}

/// The largest young generation that there is room for now.
pub fn most_young(found: &Measurements) -> usize {
    left(found).min(found.limit / 2).max(found.young)
}

/// What the old generation leaves.
fn left(found: &Measurements) -> usize {
    let old = (found.old_used, found.old_used - found.old_holes);
    left_by(found.limit, old, found.promoted_lately, found.needed)
}

/// What an old generation leaves of the limit to the young one, that takes `used` bytes of which `filled` are no holes. Lately
/// as many bytes were promoted, and a mutator waits for as many as are `needed` there.
pub fn left_by(
    limit: usize,
    (used, filled): (usize, usize),
    promoted_lately: usize,
    needed: usize,
) -> usize {
    let reserve = (2 * promoted_lately).max(filled / 4);
    limit.saturating_sub((used + needed).max(filled + reserve))
}

/// How much larger eden is where objects keep their places there: so mutators have as much of it as without these, as far
/// as the old generation leaves room.
fn room_around_kept(found: &Measurements, young: usize) -> usize {
    found.kept.min(left(found).saturating_sub(young))
}

/// What a survivor space may have. What the old generation needs is taken from eden as a rule, but if objects that keep
/// their places let eden not shrink, it is taken from both of these: or the old generation would have no room at all, and
/// everything would be collected each time, as long as these objects stay.
fn most_survivor(found: &Measurements) -> usize {
    match found.least_eden {
        0 => usize::MAX,
        eden => left(found).saturating_sub(eden) / 2,
    }
}

/// What is for large objects of the `fresh` bytes that are allocated between two scavenges; three quarters at most.
fn share_of_large(found: &Measurements, fresh: usize) -> usize {
    let (beside, all) = (found.beside_lately as u128, found.allocated_lately as u128);
    let share = fresh as u128 * beside.min(all) / all.max(1);
    (share as usize).min(fresh / 4 * 3)
}

/// Eden where everything is collected each time: nothing is promoted meanwhile, so the old generation needs little room
/// to grow when what lives slides into it: an eighth of that, and of what is left no more than half, so that an almost full
/// heap is filled in few collections. Both use no more memory than otherwise. Behind what lives in the nursery there is
/// room for the least young generation, as far as the limit allows: with none, a collection would follow each allocation.
fn all_that_is_free(found: &Measurements, otherwise: usize) -> usize {
    let used = found.old_used + found.nursery_used;
    let beside = found.needed.max(found.beside_lately);
    let beside = beside.max(found.more_beside_lately) + found.least_survivors;
    let left = otherwise.min(found.limit).saturating_sub(used + beside);
    let free = left - (used / 8).min(left / 2);
    // All young objects may wait for their finalizers, and mutators must be able to allocate until those were run.
    let free = if found.finalizers { free / 2 } else { free };
    found.nursery_used + free.max(found.least_young)
}

/// `filled` bytes of the old generation are not free.
fn old_target(found: &Measurements, filled: usize, young: usize) -> usize {
    let most = found.limit.saturating_sub(young);
    if !found.was_full {
        return found.old_target.min(most);
    }
    let twice = filled.saturating_mul(2).max(SMALL);
    let more = if found.full_share > GOAL {
        found.old_target.saturating_mul(2)
    } else {
        0
    };
    twice.max(more).min(most)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn usual() -> Measurements {
        Measurements {
            limit: 400 * MB,
            scavenging: true,
            slides: true,
            nursery_used: 4 * MB,
            kept: 0,
            least_eden: 0,
            allocated_lately: 0,
            beside_lately: 0,
            more_beside_lately: 0,
            least_survivors: 0,
            young: 64 * MB,
            wanted: (64 * MB, "as it is"),
            survivor: 4 * MB,
            least_young: 8 * MB,
            old_used: 60 * MB,
            old_holes: 0,
            old_target: 120 * MB,
            promoted_lately: MB,
            survived_lately: 2 * MB,
            scavenge_share: 20,
            full_share: 0,
            was_full: false,
            needed: 0,
            finalizers: false,
        }
    }

    fn young(decision: &Decision) -> usize {
        assert_eq!(decision.young, decision.eden + 2 * decision.survivor);
        decision.young
    }

    #[test]
    fn nothing_changes_without_a_reason() {
        let decision = next_sizes(&usual());
        assert_eq!(young(&decision), 64 * MB);
        assert_eq!(decision.old_target, 120 * MB);
        assert_eq!(decision.survivor, 4 * MB, "a sixteenth at least");
    }

    #[test]
    fn the_young_generation_grows_until_scavenges_are_rare_or_the_old_one_needs_the_room() {
        let mut found = usual();
        found.scavenge_share = 200;
        let mut sizes = [0; 4];
        for size in &mut sizes {
            found.wanted.0 = 2 * found.young;
            let decision = next_sizes(&found);
            found.young = young(&decision);
            *size = found.young / MB;
        }
        assert_eq!(sizes, [128, 200, 200, 200], "half of the limit");
        found.old_used = 200 * MB;
        assert_eq!(
            young(&next_sizes(&found)),
            200 * MB,
            "much of that may be dead"
        );
        found.was_full = true;
        let decision = next_sizes(&found);
        assert_eq!(young(&decision), 150 * MB);
        assert!(decision.reason.contains("needs the room"));
        found.was_full = false;
        found.young = 16 * MB;
        found.wanted.0 = 32 * MB;
        found.old_used = 360 * MB;
        assert_eq!(young(&next_sizes(&found)), 16 * MB, "no room to grow into");
    }

    #[test]
    fn it_shrinks_slowly_and_not_below_the_least() {
        let mut found = usual();
        found.scavenge_share = 1;
        for _ in 0..100 {
            let next = young(&next_sizes(&found));
            assert!(next >= found.young - found.young / 8 && next >= 8 * MB);
            found.young = next;
        }
        assert_eq!(found.young, 8 * MB);
    }

    #[test]
    fn eden_grows_by_what_keeps_its_place_there_as_far_as_there_is_room() {
        let mut found = usual();
        let usually = next_sizes(&found);
        found.kept = 10 * MB;
        let decision = next_sizes(&found);
        assert_eq!(decision.eden, usually.eden + 10 * MB);
        assert_eq!(
            decision,
            Decision {
                eden: decision.eden,
                ..usually
            },
            "for the time being"
        );
        // 64 MB are young, and the old generation needs 320 and as much again as a quarter of what is filled.
        (found.old_used, found.old_holes) = (320 * MB, 64 * MB);
        assert_eq!(next_sizes(&found).eden, usually.eden + 10 * MB);
        found.kept = 400 * MB;
        assert_eq!(next_sizes(&found).eden, usually.eden + 16 * MB);
    }

    #[test]
    fn survivor_spaces_give_way_to_the_old_generation_where_eden_cannot() {
        let mut found = usual();
        found.survived_lately = 100 * MB;
        assert_eq!(next_sizes(&found).survivor, 16 * MB);
        // The old generation needs 60 MB, and as much again as a quarter of that.
        for (eden, survivor) in [(293, 16), (301, 12), (325, 0), (340, 0)] {
            found.least_eden = eden * MB;
            let decision = next_sizes(&found);
            assert_eq!(decision.survivor, survivor * MB, "{eden}");
            assert_eq!(young(&decision), 64 * MB);
        }
    }

    #[test]
    fn survivors_get_room_for_half_as_much_again() {
        let mut found = usual();
        found.survived_lately = 8 * MB;
        assert_eq!(next_sizes(&found).survivor, 12 * MB);
        found.survived_lately = 100 * MB;
        assert_eq!(next_sizes(&found).survivor, 16 * MB, "a quarter at most");
        found.survivor = 16 * MB;
        found.survived_lately = 6 * MB;
        assert_eq!(next_sizes(&found).survivor, 16 * MB, "nine would do");
        found.survived_lately = 5 * MB;
        assert_eq!(next_sizes(&found).survivor, 15 * MB / 2);
    }

    #[test]
    fn the_old_generation_may_fill_to_twice_what_lives_or_more_if_that_costs_time() {
        let mut found = usual();
        found.was_full = true;
        found.old_used = 70 * MB;
        assert_eq!(next_sizes(&found).old_target, 140 * MB);
        found.full_share = 200;
        assert_eq!(next_sizes(&found).old_target, 240 * MB);
        found.old_target = 300 * MB;
        assert_eq!(next_sizes(&found).old_target, 336 * MB, "what is left");
        found.old_used = 0;
        found.full_share = 0;
        assert_eq!(next_sizes(&found).old_target, SMALL);
    }

    #[test]
    fn holes_are_room_for_the_old_generation_and_not_for_the_young_one() {
        let mut found = usual();
        found.wanted.0 = 200 * MB;
        found.young = 100 * MB;
        found.old_used = 260 * MB;
        found.old_holes = 200 * MB;
        assert_eq!(young(&next_sizes(&found)), 140 * MB);
        found.was_full = true;
        assert_eq!(next_sizes(&found).old_target, SMALL);
    }

    #[test]
    fn the_young_generation_gives_way_to_a_large_object() {
        let mut found = usual();
        found.was_full = true;
        found.needed = 300 * MB;
        assert_eq!(young(&next_sizes(&found)), 40 * MB);
    }

    #[test]
    fn what_is_needed_may_take_of_the_least_young_generation_too() {
        let mut found = usual();
        found.was_full = true;
        let (least, most) = (found.least_young, found.limit - found.old_used);
        found.needed = most - least / 2;
        assert_eq!(next_sizes(&found).young, least / 2);
        found.needed = most - least / 4;
        assert_eq!(next_sizes(&found).young, least, "it would be too little");
    }

    #[test]
    fn eden_and_young_large_objects_share_what_is_not_for_survivors() {
        let mut found = usual();
        (found.allocated_lately, found.beside_lately) = (40 * MB, 10 * MB);
        let decision = next_sizes(&found);
        assert_eq!((decision.young, decision.survivor), (64 * MB, 4 * MB));
        assert_eq!(decision.eden, 56 * MB / 4 * 3);
        found.beside_lately = 50 * MB;
        assert_eq!(next_sizes(&found).eden, 56 * MB / 4, "a quarter at least");
    }

    #[test]
    fn where_everything_is_collected_eden_takes_what_is_free_of_the_same_memory() {
        let mut found = usual();
        (found.scavenging, found.was_full) = (false, true);
        assert_eq!(next_sizes(&found).old_target, SMALL);
        found.was_full = false;
        let decision = next_sizes(&found);
        assert_eq!(decision.young + decision.old_target, (64 + 120) * MB);
        assert_eq!((decision.eden, decision.survivor), ((4 + 184 - 72) * MB, 0));
        (found.needed, found.beside_lately, found.least_survivors) = (20 * MB, 8 * MB, MB);
        assert_eq!(next_sizes(&found).eden, (4 + 184 - 93) * MB);
        found.more_beside_lately = 40 * MB;
        assert_eq!(next_sizes(&found).eden, (4 + 184 - 113) * MB);
        (found.beside_lately, found.more_beside_lately) = (30 * MB, 0);
        assert_eq!(next_sizes(&found).eden, (4 + 184 - 103) * MB);
        found.finalizers = true;
        assert_eq!(next_sizes(&found).eden, (4 + (184 - 103) / 2) * MB + MB / 2);
        found.old_used = 390 * MB;
        assert_eq!(next_sizes(&found).eden, (4 + 8) * MB, "the least");
    }

    /// All that is allocated lives, and slides into the old generation as far as the young one leaves room there.
    #[test]
    fn an_almost_full_heap_is_full_after_few_collections() {
        let mut found = usual();
        (found.scavenging, found.was_full) = (false, true);
        (found.old_used, found.nursery_used) = (140 * MB, 200 * MB);
        found.young = 133 * MB;
        let mut collections = 0;
        while found.old_used + found.nursery_used < found.limit {
            let most = found.limit - found.old_used;
            let eden = next_sizes(&found).eden.min(most);
            assert!(eden > found.nursery_used, "no room: {found:?}");
            collections += 1;
            let lives = found.old_used + eden;
            found.old_used = found.limit - eden;
            found.nursery_used = lives - found.old_used;
        }
        assert!(collections < 6, "{collections}");
    }

    #[test]
    fn without_scavenges_the_young_generation_does_not_shrink_for_want_of_them() {
        let mut found = usual();
        (found.scavenging, found.slides) = (false, false);
        (found.scavenge_share, found.was_full) = (0, true);
        assert_eq!(young(&next_sizes(&found)), 64 * MB);
        found.full_share = 200;
        assert_eq!(young(&next_sizes(&found)), 128 * MB);
    }

    #[test]
    fn a_heap_that_is_full_still_has_both_generations() {
        let mut found = usual();
        found.old_used = found.limit;
        found.was_full = true;
        let decision = next_sizes(&found);
        assert_eq!(young(&decision), 8 * MB);
        assert_eq!(decision.old_target, 392 * MB);
    }
}
