//! Whether the young generation of the precise heap is collected by itself.
//!
//! Scavenges pay while most objects die young. Where they do not, a scavenge copies much and frees little, and the old
//! generation fills with what it copied. A collection of everything then costs hardly more than a scavenge, copies
//! nothing, and leaves all of the heap that nothing lives in to allocation. So both are compared by what they cost for
//! each byte that is allocated: the one by what the last cycle took (the scavenges since the last full collection, and
//! the full one that they led to), the other by one full collection and what is free after it. What a full collection
//! takes is not known before the first; it is tried early if much of what is young survives. A program that has just
//! built what it begins with has had costly scavenges, too; where the full collection found little of what is young alive,
//! they are no sign of what comes.

/// What is known after a collection. Sizes are in bytes, times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measurements {
    /// Whether the young generation is collected by itself as yet.
    pub scavenging: bool,
    /// Whether this collection was a full one.
    pub was_full: bool,
    /// How many scavenges there were since the heap was made, while no full collection was; 0 after that.
    pub first_scavenges: u64,
    /// Of what was allocated before this scavenge, what survived it.
    pub fresh_survived: usize,
    /// What was allocated before this collection.
    pub fresh_allocated: usize,
    /// What the last full collection took.
    pub full_ns: u64,
    /// What the collections since the one before that took, all together.
    pub cycle_ns: u64,
    /// What was allocated meanwhile.
    pub cycle_allocated: usize,
    /// What scavenges took lately for each KB that they copied.
    pub copy_ns_per_kb: usize,
    /// What all spaces hold now.
    pub used: usize,
    /// What they may hold as the sizes of both generations are.
    pub budget: usize,
    /// What this full collection found alive in the young generation.
    pub young_lived: usize,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Whether the young generation is collected by itself.
    pub scavenging: bool,
    /// Whether the next collection is of everything, to learn what that takes.
    pub try_everything: bool,
    /// Why.
    pub reason: &'static str,
}

/// Of the cost of scavenging, in tenths, so much must collecting everything save.
const SAVED: u128 = 2;

/// Decides.
pub fn decide(found: &Measurements) -> Decision {
    let (scavenging, reason) = match (found.scavenging, found.was_full) {
        (true, true) if !scavenging_pays(found) && !most_died_young(found) => {
            (false, "collections of everything cost less than scavenges")
        }
        (true, _) => (true, "scavenges pay"),
        (false, true) if scavenges_would_pay(found) => {
            (true, "a scavenge would take a third as long")
        }
        (false, _) => (false, "scavenges would copy too much"),
    };
    Decision {
        scavenging,
        try_everything: scavenging && much_survives(found),
        reason,
    }
}

fn scavenging_pays(found: &Measurements) -> bool {
    let room = found.budget.saturating_sub(found.used) as u128;
    let (full, cycle) = (u128::from(found.full_ns), u128::from(found.cycle_ns));
    full * found.cycle_allocated as u128 * 10 >= cycle * room * (10 - SAVED)
}

/// A scavenge of a smaller young generation would copy a greater part of it, some objects twice, and full collections
/// come on top: so it must promise more than to be faster.
fn scavenges_would_pay(found: &Measurements) -> bool {
    let copying = found.copy_ns_per_kb as u64 * (found.young_lived / 1024) as u64;
    3 * copying < found.full_ns
}

/// Most of what was allocated before this full collection; not where a scavenge had just emptied the young generation.
fn most_died_young(found: &Measurements) -> bool {
    2 * found.young_lived < found.fresh_allocated && scavenges_would_pay(found)
}

/// More than a third; and not only in the first scavenge, before which a program builds what it begins with.
fn much_survives(found: &Measurements) -> bool {
    !found.was_full && found.first_scavenges > 1 && 3 * found.fresh_survived > found.fresh_allocated
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;
    const MS: u64 = 1_000_000;

    /// A cycle of three scavenges that copy 20 of 30 MB, and a full collection.
    fn much_lives() -> Measurements {
        Measurements {
            scavenging: true,
            was_full: true,
            first_scavenges: 0,
            fresh_survived: 0,
            fresh_allocated: 0,
            full_ns: 30 * MS,
            cycle_ns: 120 * MS,
            cycle_allocated: 90 * MB,
            copy_ns_per_kb: 1500,
            used: 40 * MB,
            budget: 110 * MB,
            young_lived: 20 * MB,
        }
    }

    #[test]
    fn where_much_lives_scavenges_do_not_pay() {
        let decision = decide(&much_lives());
        assert!(!decision.scavenging && decision.reason.contains("everything cost less"));
    }

    #[test]
    fn where_little_room_is_left_they_do() {
        let mut found = much_lives();
        found.used = 85 * MB;
        assert!(decide(&found).scavenging);
        found.used = 200 * MB;
        assert!(decide(&found).scavenging, "more than there may be");
    }

    #[test]
    fn where_little_lives_they_do() {
        let mut found = much_lives();
        found.cycle_ns = 40 * MS;
        assert!(decide(&found).scavenging);
    }

    #[test]
    fn where_much_was_built_but_the_last_objects_died_young_they_do() {
        let mut found = much_lives();
        found.young_lived = 6 * MB;
        for (allocated, scavenging) in [(13 * MB, true), (12 * MB, false), (0, false)] {
            found.fresh_allocated = allocated;
            assert_eq!(decide(&found).scavenging, scavenging, "{allocated}");
        }
        (found.young_lived, found.fresh_allocated) = (7 * MB, 30 * MB);
        assert!(!decide(&found).scavenging);
    }

    #[test]
    fn between_full_collections_nothing_is_decided() {
        let mut found = much_lives();
        found.was_full = false;
        assert!(decide(&found).scavenging);
    }

    #[test]
    fn the_first_full_one_comes_early_where_much_survives() {
        let mut found = much_lives();
        (found.was_full, found.full_ns) = (false, 0);
        (found.fresh_allocated, found.fresh_survived) = (30 * MB, 11 * MB);
        let tries = [1, 2, 0].map(|first_scavenges| {
            found.first_scavenges = first_scavenges;
            decide(&found).try_everything
        });
        assert_eq!(tries, [false, true, false]);
        (found.first_scavenges, found.fresh_survived) = (2, 9 * MB);
        assert!(!decide(&found).try_everything);
    }

    #[test]
    fn they_come_back_when_most_dies_young_again() {
        let mut found = much_lives();
        found.scavenging = false;
        let decision = decide(&found);
        assert!(!decision.scavenging && decision.reason.contains("too much"));
        found.young_lived = 6 * MB;
        let decision = decide(&found);
        assert!(decision.scavenging && decision.reason.contains("third as long"));
    }
}
