//! Under `nursery=in-place`: how much is allocated until the next collection, and whether that one is of everything.
//!
//! A collection of new objects frees lines in which nothing new lives. What is old and dies stays, and so do lines with one
//! small object. So everything is collected when what is not free has grown to a multiple of what the last such collection
//! left, when new objects have little room, or when collections of new objects free little while the heap grows.

use gleaner_spaces::precise::tenured::BLOCK_BYTES;

use super::generation_sizes::{GOAL, SMALL};

/// What is known. Sizes are in bytes, shares in thousandths of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// Of all spaces together, the most there may be.
    pub limit: usize,
    /// Whether this collection was of everything.
    pub was_full: bool,
    /// What all spaces hold now, holes left out.
    pub filled: usize,
    /// What they held after the collection before.
    pub filled_before: usize,
    /// What the last collection of everything left.
    pub filled_at_full: usize,
    /// What was allocated between the collection before and this one.
    pub allocated: usize,
    /// What new objects may take now: in free blocks and in holes.
    pub left: usize,
    /// How much was to be allocated between two collections.
    pub young: usize,
    /// The least of that which makes sense.
    pub least_young: usize,
    /// Whether that changes as the program needs.
    pub adapts: bool,
    /// Whether new objects are collected by themselves at all.
    pub scavenging: bool,
    /// Whether that pays, as [`alone`](super::alone) says.
    pub alone: bool,
    /// How many collections of new objects in a row gave little back, this one left out.
    pub poor: u32,
    /// What lived of the new objects that the last collection of them found, in thousandths.
    pub survival: usize,
    /// Threads that copy.
    pub workers: usize,
    /// Up to what all spaces were to be filled before everything is collected.
    pub target: usize,
    /// The share that collections of new objects took lately.
    pub young_share: usize,
    /// The share that collections of everything took lately.
    pub full_share: usize,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The next collection is of everything.
    pub full: bool,
    /// Why, or why not.
    pub reason: &'static str,
    /// How many bytes are to be allocated between two collections.
    pub young: usize,
    /// How many until the next one: fewer where there is no room for as many.
    pub most: usize,
    /// Up to what all spaces are to be filled before everything is collected.
    pub target: usize,
    /// How many collections of new objects in a row gave little back.
    pub poor: u32,
}

/// A collection gives little back if that is less than one part in so many of what was allocated.
const LITTLE: usize = 8;
/// So many of them in a row.
const POOR: u32 = 2;
/// With a smaller share of the time collections come more often than they need to.
const SHORT: usize = 5;

/// What is known before new objects are collected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct New {
    /// Blocks in which nothing is old.
    pub blocks: usize,
    /// What lived of the new objects of the collection before, in thousandths.
    pub survival: usize,
    /// Blocks that are free as a whole, as far as the limit goes.
    pub free: usize,
    /// Threads that copy: each of them begins a block.
    pub workers: usize,
    /// Whether all that can move does, to test that: under `stress`.
    pub always: bool,
}

/// Where more than as many thousandths live, each line would soon be in use anyway: what lives stays.
const MOST_MOVED: usize = 250;
/// As many are expected to live as lived before and half as much again, in thousandths of thousandths.
const EXPECTED: usize = 1500;

/// Into how many blocks new objects are copied that live in blocks without anything old; 0 if they stay. What finds no room
/// stays.
pub fn copies(found: &New) -> usize {
    let pays = found.survival <= MOST_MOVED;
    if found.blocks == 0 || !(pays || found.always) {
        return 0;
    }
    let expected = (found.blocks * found.survival * EXPECTED).div_ceil(1000 * 1000);
    let copies = (expected + found.workers).min(found.free);
    let frees = copies < found.blocks;
    if frees || found.always { copies } else { 0 }
}

/// Decides when the next collection comes, and whether it is of everything.
pub fn decide(found: &Measurements) -> Decision {
    let young = wanted(found);
    // What is left below the limit is of no use to collections of new objects that do not come.
    let target = target(found, if found.alone { young } else { 0 });
    let kept = found.filled.saturating_sub(found.filled_before);
    let given_back = found.allocated.saturating_sub(kept);
    let is_poor = !found.was_full && given_back < found.allocated / LITTLE;
    let poor = if is_poor { found.poor + 1 } else { 0 };
    let grown = found.filled.saturating_sub(found.filled_at_full);
    let much = (found.filled_at_full / 2).max(2 * young);
    let (full, reason) = if !found.alone {
        (
            true,
            "collections of new objects cost more than those of everything",
        )
    } else if found.was_full {
        (false, "everything was collected")
    } else if found.filled > target {
        (
            true,
            "what is not free has grown since everything was collected",
        )
    } else if found.left < young / 4 {
        (true, "new objects have little room")
    } else if poor >= POOR && grown > much {
        (true, "collections of new objects free little")
    } else {
        (false, "new objects have room")
    };
    Decision {
        full,
        reason,
        young,
        most: match found.alone {
            true => most(found, young),
            false => until_full(found),
        },
        target,
        poor,
    }
}

/// How many bytes are allocated until the next collection: where what lives will be copied, they leave room for that. Without,
/// it would stay in lines here and there, and few blocks would be free.
fn most(found: &Measurements, young: usize) -> usize {
    if found.survival > MOST_MOVED {
        return young.min(found.left);
    }
    let left = found.left.saturating_sub(found.workers * BLOCK_BYTES) as u128;
    let share = (1000 * 1000 + found.survival * EXPECTED) as u128;
    young.min((left * (1000 * 1000) / share) as usize)
}

/// How many bytes new objects may take until everything is collected, if they are not collected by themselves.
pub fn until_full(found: &Measurements) -> usize {
    found
        .left
        .min(target(found, 0).saturating_sub(found.filled))
}

/// How much is to be allocated between two collections: more where they take much of the time, and slowly less where they
/// take next to none. Where each collection is of everything it is not less.
fn wanted(found: &Measurements) -> usize {
    if !found.adapts {
        return found.young;
    }
    let most = (found.limit / 2).max(found.least_young);
    let share = match found.scavenging {
        true => found.young_share,
        false => found.young_share.max(found.full_share).max(SHORT),
    };
    let young = match share {
        _ if found.was_full && found.scavenging => found.young,
        share if share > GOAL => found.young.saturating_mul(2),
        SHORT.. => found.young,
        _ => found.young - found.young / 8,
    };
    young.clamp(found.least_young, most)
}

fn target(found: &Measurements, young: usize) -> usize {
    let most = found.limit.saturating_sub(young / 4);
    if !found.was_full {
        return found.target.min(most);
    }
    let more = match found.full_share > GOAL {
        true => found.target.saturating_mul(2),
        false => 0,
    };
    found
        .filled
        .saturating_mul(2)
        .max(SMALL)
        .max(more)
        .min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn found() -> Measurements {
        Measurements {
            limit: 1000 * MB,
            was_full: false,
            filled: 202 * MB,
            filled_before: 200 * MB,
            filled_at_full: 200 * MB,
            allocated: 64 * MB,
            left: 700 * MB,
            young: 64 * MB,
            least_young: 8 * MB,
            adapts: true,
            scavenging: true,
            alone: true,
            poor: 0,
            survival: 1000,
            workers: 2,
            target: 400 * MB,
            young_share: 20,
            full_share: 20,
        }
    }

    fn of(change: impl FnOnce(&mut Measurements)) -> Decision {
        let mut found = found();
        change(&mut found);
        decide(&found)
    }

    #[test]
    fn what_is_new_alone_is_collected_while_that_gives_room() {
        let decision = of(|_| ());
        assert!(!decision.full && decision.poor == 0);
        assert_eq!((decision.young, decision.most), (64 * MB, 64 * MB));
        assert_eq!(decision.target, 400 * MB);
    }

    /// No copies will need room then, and nothing is left below the limit for collections that do not come.
    #[test]
    fn where_new_objects_are_not_collected_alone_they_take_all_the_room_until_everything_is() {
        let left_out = |change: fn(&mut Measurements)| {
            of(|found| {
                (found.alone, found.survival) = (false, 100);
                change(found);
            })
        };
        let decision = left_out(|_| ());
        assert!(decision.full && decision.reason.contains("cost more"));
        assert_eq!((decision.young, decision.most), (64 * MB, 198 * MB));
        let decision = left_out(|found| (found.was_full, found.left) = (true, 150 * MB));
        assert!(decision.full && decision.most == 150 * MB);
        let full = |found: &mut Measurements| {
            (found.was_full, found.filled, found.left) = (true, 600 * MB, 400 * MB);
        };
        assert_eq!(left_out(full).target, 1000 * MB);
        assert_eq!(left_out(full).most, 400 * MB);
    }

    #[test]
    fn everything_is_collected_when_the_heap_has_grown_to_twice_what_lived() {
        assert!(!of(|found| found.filled = 400 * MB).full);
        let decision = of(|found| found.filled = 400 * MB + 1);
        assert!(decision.full && decision.reason.contains("grown"));
        let of_full = |filled, share| {
            of(|found| {
                (found.was_full, found.filled, found.full_share) = (true, filled, share);
            })
        };
        assert!(!of_full(900 * MB, 20).full);
        assert_eq!(of_full(150 * MB, 20).target, 300 * MB);
        assert_eq!(of_full(150 * MB, 101).target, 800 * MB);
        assert_eq!(of_full(10 * MB, 20).target, SMALL);
        assert_eq!(of_full(600 * MB, 20).target, 984 * MB);
    }

    #[test]
    fn everything_is_collected_when_new_objects_have_little_room() {
        let decision = of(|found| found.left = 16 * MB);
        assert!(!decision.full && decision.most == 16 * MB);
        let decision = of(|found| found.left = 16 * MB - 1);
        assert!(decision.full && decision.reason.contains("little room"));
        let decision = of(|found| (found.left, found.was_full) = (0, true));
        assert!(!decision.full && decision.most == 0);
    }

    #[test]
    fn everything_is_collected_when_two_collections_gave_little_back_while_the_heap_grew() {
        // 8 of 64 MB came back.
        let poor = |before: u32, filled: usize, back: usize| {
            of(|found| {
                found.poor = before;
                found.filled = filled;
                found.filled_before = filled - (64 * MB - back);
            })
        };
        assert_eq!(poor(1, 350 * MB, 8 * MB).poor, 0);
        assert_eq!(poor(0, 350 * MB, 8 * MB - 1).poor, 1);
        assert!(!poor(0, 350 * MB, 0).full);
        let decision = poor(1, 350 * MB, 0);
        assert!(decision.full && decision.poor == 2);
        assert!(decision.reason.contains("free little"));
        // Twice what is allocated between collections is no growth yet, and half of what lived is none.
        assert!(!poor(1, 328 * MB, 0).full);
        assert!(poor(1, 328 * MB + 1, 0).full);
        assert!(
            !of(|found| (found.poor, found.filled, found.filled_before) = (5, 390 * MB, 330 * MB))
                .reason
                .contains("grown")
        );
        let decision = of(|found| (found.was_full, found.poor, found.allocated) = (true, 5, 0));
        assert_eq!(decision.poor, 0);
    }

    #[test]
    fn new_objects_leave_room_for_copies_of_those_that_will_live() {
        let most = |survival, left| {
            of(|found| (found.survival, found.left, found.young) = (survival, left, 40 * MB)).most
        };
        let copies = |of_bytes: usize, survival| {
            copies(&New {
                blocks: of_bytes.div_ceil(BLOCK_BYTES),
                survival,
                free: usize::MAX,
                workers: 2,
                always: false,
            })
        };
        for survival in [0, 10, 100, 250] {
            let taken = most(survival, 30 * MB);
            let room = taken + copies(taken, survival) * BLOCK_BYTES;
            let exact = 30 * MB - 2 * BLOCK_BYTES..=30 * MB + 2 * BLOCK_BYTES;
            assert!(exact.contains(&room), "{survival}: {taken}, {room}");
        }
        assert_eq!(most(100, 30 * MB), (30 * MB - 2 * BLOCK_BYTES) * 100 / 115);
        assert_eq!(most(251, 30 * MB), 30 * MB, "what lives stays");
        assert_eq!(most(100, 60 * MB), 40 * MB, "there is room for both");
        assert_eq!(most(100, BLOCK_BYTES), 0);
    }

    #[test]
    fn new_objects_are_copied_where_few_of_them_live() {
        let new = |blocks, survival, free| New {
            blocks,
            survival,
            free,
            workers: 2,
            always: false,
        };
        // A tenth of 100 blocks, half as much again, and one for each worker.
        assert_eq!(copies(&new(100, 100, 1000)), 17);
        assert_eq!(copies(&new(100, 250, 1000)), 38 + 2);
        assert_eq!(copies(&new(100, 251, 1000)), 0, "too many");
        assert_eq!(copies(&new(100, 0, 1000)), 2);
        assert_eq!(copies(&new(0, 0, 1000)), 0);
    }

    #[test]
    fn copies_of_new_objects_take_what_is_free_and_free_more_than_they_take() {
        let mut new = New {
            blocks: 100,
            survival: 100,
            free: 10,
            workers: 2,
            always: false,
        };
        assert_eq!(copies(&new), 10);
        new.free = 0;
        assert_eq!(copies(&new), 0);
        (new.free, new.blocks, new.survival) = (1000, 3, 1);
        assert_eq!(copies(&new), 0, "three blocks for three");
        new.blocks = 4;
        assert_eq!(copies(&new), 3);
        (new.always, new.survival) = (true, 1000);
        assert_eq!(copies(&new), 8, "more than there are");
    }

    #[test]
    fn collections_come_less_often_where_they_take_much_and_more_often_where_they_take_nothing() {
        let young = |share| of(|found| found.young_share = share).young;
        assert_eq!(
            [4, 5, 100, 101].map(young),
            [56 * MB, 64 * MB, 64 * MB, 128 * MB]
        );
        let fixed = of(|found| (found.young_share, found.adapts) = (500, false));
        assert_eq!(fixed.young, 64 * MB);
        let most = of(|found| (found.young_share, found.young) = (500, 400 * MB));
        assert_eq!(most.young, 500 * MB);
        let least = of(|found| (found.young_share, found.young) = (0, 8 * MB));
        assert_eq!(least.young, 8 * MB);
        let full = of(|found| (found.young_share, found.was_full) = (500, true));
        assert_eq!(full.young, 64 * MB);
        let never = |share| {
            of(|found| {
                (found.scavenging, found.was_full) = (false, true);
                (found.young_share, found.full_share) = (0, share);
            })
            .young
        };
        assert_eq!([0, 100, 101].map(never), [64 * MB, 64 * MB, 128 * MB]);
    }
}
