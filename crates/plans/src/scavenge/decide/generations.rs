//! Whether the young generation of the precise heap is collected by itself.
//!
//! Scavenges pay while most objects die young. Where they do not, a scavenge copies much and frees little, and the old
//! generation fills with what it copied. A collection of everything then costs hardly more than a scavenge, copies
//! nothing, and leaves all of the heap that nothing lives in to allocation. So both are compared by what they cost for
//! each byte that is allocated. The one is measured by what the last cycle took: the scavenges since the last full
//! collection, and the full one that they led to. The other is measured by one full collection and what is free after
//! it. What a full collection takes is not known before the first; it is tried early if many young objects survive. A
//! program that has just built what it begins with has had costly scavenges, too; where the full collection found few
//! young objects alive, they are no sign of what comes.
//!
//! What collections of everything will cost is a guess as long as there were only scavenges: more may live at the next
//! one, and objects that a scavenge would have copied once are marked and slid each time. So what scavenges cost is
//! remembered when they are left out. If collections of everything turn out to cost as much, scavenges come back, and
//! the guess is not believed again for some cycles, each time for more.

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

/// What is remembered from one decision to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// What a cycle of scavenges cost when they were left out, in nanoseconds for each MB allocated.
    scavenging_cost: u64,
    /// What collections of everything came to since then: how many, nanoseconds, bytes that were allocated.
    everything: (u64, u64, u64),
    /// For how many more full collections the guess is not believed.
    wait: u64,
    /// What `wait` will be next time.
    patience: u64,
}

impl Memory {
    /// Nothing is remembered.
    pub fn new() -> Memory {
        Memory {
            scavenging_cost: 0,
            everything: (0, 0, 0),
            wait: 0,
            patience: FIRST_PATIENCE,
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// This many collections of everything show what they cost.
const SHOWN: u64 = 2;
const FIRST_PATIENCE: u64 = 8;
const LONGEST_PATIENCE: u64 = 1 << 20;

/// Collecting everything must save this many tenths of the cost of scavenging.
const SAVED: u128 = 2;

/// Decides whether there are scavenges until the next full collection, or everything is collected each time.
pub fn decide(memory: &mut Memory, found: &Measurements) -> Decision {
    let (scavenging, reason) = match (found.scavenging, found.was_full) {
        (true, true) => leave_out(memory, found),
        (true, false) => (true, "scavenges pay"),
        (false, true) => bring_back(memory, found),
        (false, false) => (false, "scavenges would copy too much"),
    };
    Decision {
        scavenging,
        try_everything: scavenging && memory.wait == 0 && much_survives(found),
        reason,
    }
}

/// Whether there are scavenges still, after a full collection that came when the old generation was full of what they
/// had promoted.
fn leave_out(memory: &mut Memory, found: &Measurements) -> (bool, &'static str) {
    if memory.wait > 0 {
        memory.wait -= 1;
        return (true, "collections of everything cost no less before");
    }
    if scavenging_pays(found) || most_died_young(found) {
        return (true, "scavenges pay");
    }
    memory.scavenging_cost = cost(found.cycle_ns, found.cycle_allocated as u64);
    memory.everything = (0, 0, 0);
    (false, "collections of everything cost less than scavenges")
}

/// Whether there are scavenges again, after one more collection of everything.
fn bring_back(memory: &mut Memory, found: &Measurements) -> (bool, &'static str) {
    if scavenges_would_pay(found) {
        return (true, "a scavenge would take a third as long");
    }
    let (collections, ns, allocated) = &mut memory.everything;
    // In a heap that is almost full nothing is cheap.
    if found.fresh_allocated >= found.budget / 16 {
        *collections += 1;
        *ns += found.full_ns;
        *allocated += found.fresh_allocated as u64;
    }
    if *collections >= SHOWN && cost(*ns, *allocated) > memory.scavenging_cost {
        memory.wait = memory.patience;
        memory.patience = (4 * memory.patience).min(LONGEST_PATIENCE);
        return (
            true,
            "scavenges cost less than collections of everything did",
        );
    }
    (false, "scavenges would copy too much")
}

/// Nanoseconds for each MB that was allocated.
fn cost(ns: u64, allocated: u64) -> u64 {
    ns / (allocated >> 20).max(1)
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
        let decision = decide(&mut Memory::new(), &much_lives());
        assert!(!decision.scavenging && decision.reason.contains("everything cost less"));
    }

    #[test]
    fn where_little_room_is_left_they_do() {
        let mut found = much_lives();
        found.used = 85 * MB;
        assert!(decide(&mut Memory::new(), &found).scavenging);
        found.used = 200 * MB;
        assert!(
            decide(&mut Memory::new(), &found).scavenging,
            "more than there may be"
        );
    }

    #[test]
    fn where_little_lives_they_do() {
        let mut found = much_lives();
        found.cycle_ns = 40 * MS;
        assert!(decide(&mut Memory::new(), &found).scavenging);
    }

    #[test]
    fn where_much_was_built_but_the_last_objects_died_young_they_do() {
        let mut found = much_lives();
        found.young_lived = 6 * MB;
        for (allocated, scavenging) in [(13 * MB, true), (12 * MB, false), (0, false)] {
            found.fresh_allocated = allocated;
            assert_eq!(
                decide(&mut Memory::new(), &found).scavenging,
                scavenging,
                "{allocated}"
            );
        }
        (found.young_lived, found.fresh_allocated) = (7 * MB, 30 * MB);
        assert!(!decide(&mut Memory::new(), &found).scavenging);
    }

    #[test]
    fn between_full_collections_nothing_is_decided() {
        let mut found = much_lives();
        found.was_full = false;
        assert!(decide(&mut Memory::new(), &found).scavenging);
    }

    #[test]
    fn the_first_full_one_comes_early_where_much_survives() {
        let mut found = much_lives();
        (found.was_full, found.full_ns) = (false, 0);
        (found.fresh_allocated, found.fresh_survived) = (30 * MB, 11 * MB);
        let tries = [1, 2, 0].map(|first_scavenges| {
            found.first_scavenges = first_scavenges;
            decide(&mut Memory::new(), &found).try_everything
        });
        assert_eq!(tries, [false, true, false]);
        (found.first_scavenges, found.fresh_survived) = (2, 9 * MB);
        assert!(!decide(&mut Memory::new(), &found).try_everything);
    }

    #[test]
    fn they_come_back_when_most_dies_young_again() {
        let mut found = much_lives();
        found.scavenging = false;
        let decision = decide(&mut Memory::new(), &found);
        assert!(!decision.scavenging && decision.reason.contains("too much"));
        found.young_lived = 6 * MB;
        let decision = decide(&mut Memory::new(), &found);
        assert!(decision.scavenging && decision.reason.contains("third as long"));
    }

    /// How many full collections of a program had no scavenges before them. The arguments say what its scavenges and
    /// its collections of everything cost for each MB. The guess is that the latter cost half.
    fn without_scavenges(scavenging_cost: u64, everything_cost: u64, cycles: usize) -> usize {
        let mut memory = Memory::new();
        let mut scavenging = true;
        let mut without = 0;
        for _ in 0..cycles {
            without += usize::from(!scavenging);
            let mut found = much_lives();
            found.cycle_ns = scavenging_cost * (found.cycle_allocated / MB) as u64;
            found.full_ns = found.cycle_ns / 2 * 70 / 90;
            found.fresh_allocated = 70 * MB;
            found.scavenging = scavenging;
            if !scavenging {
                found.full_ns = everything_cost * 70;
                found.copy_ns_per_kb = 1 << 20;
            }
            scavenging = decide(&mut memory, &found).scavenging;
        }
        without
    }

    #[test]
    fn a_promise_that_was_broken_is_not_believed_for_long() {
        assert!(without_scavenges(1000 * 1000, 1_200_000, 1000) <= 10);
        assert_eq!(without_scavenges(1000 * 1000, 700_000, 1000), 999);
    }

    #[test]
    fn one_slow_collection_breaks_no_promise() {
        let mut memory = Memory::new();
        let mut found = much_lives();
        assert!(!decide(&mut memory, &found).scavenging);
        found.scavenging = false;
        found.fresh_allocated = 70 * MB;
        found.copy_ns_per_kb = 15_000;
        found.full_ns = 300 * MS;
        assert!(!decide(&mut memory, &found).scavenging, "the first");
        assert!(decide(&mut memory, &found).scavenging, "and the second");
    }
}
