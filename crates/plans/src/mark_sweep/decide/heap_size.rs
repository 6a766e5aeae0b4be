//! When to collect, when to grow, when to shrink.
//!
//! The rule is the one that libgc documents for `GC_free_space_divisor`: at least `N / divisor` bytes are allocated
//! between collections. N is twice the bytes that were traced, plus a quarter of the bytes without pointers, plus the
//! roots, plus what a collection costs however small the heap is. The heap grows by `1 / divisor` of its size when that
//! much was not allocated yet.
//!
//! Where the limits of control groups leave less than the rule would have the program allocate, the heap is collected
//! as soon as what was allocated, or died old, is as much as what is left. The program and others in its group may take the rest.
//! Then the heap grows in smaller steps, too. A sixteenth of the heap is allocated between collections in any case, or
//! a heap that fills its limit, or whose group is full of others' memory, would hardly do anything else.
//!
//! Where stacks of coroutines may lie that nobody has named, and the system does not say what is mapped, each collection would be
//! abandoned (`unnamed_stacks`): then the heap grows as long as it can.

/// What is known when an allocation does not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Bytes that the heap may hold now.
    pub capacity: usize,
    /// Bytes in use.
    pub used: usize,
    /// Bytes that the allocation needs.
    pub needed: usize,
    /// Bytes allocated since the last collection, less what was freed explicitly.
    pub allocated: usize,
    /// What a collection saves beside memory, as bytes that were allocated ([`super::dying_links`]).
    pub saved: usize,
    /// Bytes of old objects that may be dead, which count as allocated ([`super::extent`]).
    pub lost: usize,
    /// Whether a collection could be made now that takes little of the time of one of everything, since it keeps marks.
    pub new_is_cheap: bool,
    /// Whether the heap grows no further than to where a collection pays.
    pub grows_exactly: bool,
    /// Live bytes with pointers at the last collection.
    pub composite: usize,
    /// Live bytes without pointers at the last collection.
    pub atomic: usize,
    /// Bytes of roots.
    pub roots: usize,
    /// Bytes that may never be exceeded; 0 for none.
    pub limit: usize,
    /// Bytes that the limits of control groups leave the process; `None` where there are none.
    pub left: Option<usize>,
    /// `GC_free_space_divisor`.
    pub divisor: usize,
    /// What is to be allocated between two collections where that is not decided by the divisor ([`super::balance`]).
    pub balanced: Option<usize>,
    /// What is allocated between two collections at the usual divisor, however little lives. Bytes.
    pub least_room: usize,
    /// The least that is allocated between two collections (`GC_set_min_bytes_allocd`).
    pub least_allocated: usize,
    /// Whether collecting is possible now.
    pub may_collect: bool,
    /// Whether growing is possible (`GC_dont_expand`).
    pub may_grow: bool,
    /// Collections since memory was last found for this request.
    pub attempts: usize,
    /// Collections to try before giving up (`GC_max_retries` + 1).
    pub retries: usize,
    /// Whether finalizers registered since the last collection call for one.
    pub finalizers_due: bool,
    /// Whether there are stacks that neither the collector knows nor the program has named, and that cannot be looked for.
    pub hidden_stacks: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Collect, then try again.
    Collect(&'static str),
    /// Collect everything, also where marks may be kept, then try again: memory is short.
    CollectEverything(&'static str),
    /// Raise the capacity to this many bytes, then try again.
    Grow(usize, &'static str),
    /// Report that memory is exhausted.
    GiveUp(&'static str),
}

/// The heap grows at least by this much, and a heap starts with it.
pub const LEAST_GROWTH: usize = 256 << 10;
/// Collections for one request whose yield other threads may use up before the heap grows nevertheless.
pub const MOST_CONTENDED: usize = 8;
const MOST_GROWTH: usize = 16 << 20;
/// Where a collection of new objects takes little, it pays when this part of what is allocated between two others was.
const CHEAP_PART: usize = 2;
/// What a collection costs besides scanning, as bytes of roots. Stock libgc scans 256 KiB of tables of its own in each, so
/// programs never saw collections come sooner than these ask for: not before their runtimes are initialised.
const FIXED_COST: usize = 256 << 10;
/// The divisor at which the least room is as stated.
const USUAL_DIVISOR: usize = 3;

/// However little is left, as much is allocated between two collections: the part of the heap, and bytes.
const SCARCE_PART: usize = 16;
const LEAST_SCARCE: usize = 1 << 20;

/// What is allocated between two collections however little is left.
fn least_where_scarce(m: &Measurements) -> usize {
    (m.used / SCARCE_PART).max(LEAST_SCARCE)
}

/// Whether so little is left that a collection comes before growth.
pub fn is_scarce(m: &Measurements) -> bool {
    m.left.is_some_and(|left| {
        let other = left.saturating_sub(m.needed).max(least_where_scarce(m));
        let gained = m.allocated.saturating_add(m.lost);
        gained.saturating_add(m.needed) >= other
    })
}

/// Whether nothing is left that could be spent on growth while marking goes on.
pub fn is_used_up(m: &Measurements) -> bool {
    m.left
        .is_some_and(|left| left.saturating_sub(m.needed) < least_where_scarce(m))
}

/// Where this many bytes are left, the next decision is the one without a limit.
pub fn enough(m: &Measurements) -> usize {
    m.allocated
        .max(least_between_collections(m))
        .saturating_add(m.needed)
        .saturating_add(MOST_GROWTH)
        .saturating_mul(2)
}

/// Bytes that must be allocated before a collection pays.
pub fn least_between_collections(m: &Measurements) -> usize {
    if let Some(balanced) = m.balanced {
        return balanced.max(m.least_allocated);
    }
    let scan = m
        .composite
        .saturating_mul(2)
        .saturating_add(m.atomic / 4)
        .saturating_add(m.roots)
        .saturating_add(FIXED_COST)
        .max(m.least_room.saturating_mul(USUAL_DIVISOR));
    (scan / m.divisor.max(1)).max(m.least_allocated).max(1)
}

/// What counts as allocated since the last collection. Bytes.
pub fn counted(m: &Measurements) -> usize {
    m.allocated.saturating_add(m.saved).saturating_add(m.lost)
}

/// Whether a collection pays.
pub fn is_enough_allocated(m: &Measurements) -> bool {
    counted(m) >= least_between_collections(m)
}

/// Whether enough was allocated that a first collection for a request pays, of whatever it is.
fn is_enough_at_first(m: &Measurements) -> bool {
    let least = match m.new_is_cheap {
        true => least_between_collections(m) / CHEAP_PART,
        false => least_between_collections(m),
    };
    counted(m) >= least
}

/// Whether a collection may pay by now, or be called for by what limits leave. If not, it does not if less was allocated, either.
pub fn may_pay(m: &Measurements) -> bool {
    is_enough_at_first(m) || is_scarce(m)
}

/// Bytes that can still be allocated before a collection pays. None where many finalizers wait for one, which comes as soon as the
/// heap would have to grow.
pub fn until_due(m: &Measurements) -> usize {
    match m.finalizers_due {
        true => 0,
        false => least_between_collections(m).saturating_sub(counted(m)),
    }
}

/// Decides what to do when `needed` bytes do not fit under the capacity.
pub fn decide(m: &Measurements) -> Decision {
    let ceiling = if m.limit == 0 { usize::MAX } else { m.limit };
    let must_have = m.used.saturating_add(m.needed);
    let allocated_enough = is_enough_allocated(m);
    let paid = allocated_enough || m.finalizers_due;
    // Others may have used up what the last collection freed before this thread came to it: then collecting pays again.
    let pays = if m.attempts == 0 {
        // Rather than that the heap grows for what may be dead.
        paid || is_enough_at_first(m)
    } else {
        m.attempts < MOST_CONTENDED && allocated_enough
    };
    let target = grown(m, must_have, ceiling);
    if m.hidden_stacks && m.may_grow && must_have <= ceiling {
        return Decision::Grow(target, "not collected where stacks cannot be found");
    }
    // One that left what may be dead, or was given up, was not all that can be done.
    let was_whole = m.attempts > 0 && (m.lost == 0 || m.attempts >= MOST_CONTENDED);
    if m.may_collect && !was_whole && is_scarce(m) {
        return Decision::CollectEverything("a control group has little memory left");
    }
    if m.may_collect && pays {
        return Decision::Collect(match paid || m.attempts > 0 {
            _ if m.finalizers_due => "many finalizers",
            true => "enough was allocated",
            false => "a collection of new objects costs little",
        });
    }
    if must_have <= ceiling && (m.may_grow || m.attempts > 0) {
        return Decision::Grow(
            target,
            if paid {
                "collecting did not free enough"
            } else {
                "too early to collect"
            },
        );
    }
    if m.may_collect && m.attempts < m.retries.max(2) {
        return Decision::CollectEverything(if must_have > ceiling {
            "the heap limit is reached"
        } else {
            "growth is forbidden"
        });
    }
    Decision::GiveUp(if must_have > ceiling {
        "the heap limit is reached"
    } else {
        "growth is forbidden"
    })
}

/// The capacity after one step of growth.
fn grown(m: &Measurements, must_have: usize, ceiling: usize) -> usize {
    let mut most = m.left.map_or(MOST_GROWTH, |left| left / 4);
    if m.grows_exactly || m.saved > 0 || m.lost > 0 {
        // No further than to where a collection pays.
        most = most.min(least_between_collections(m).saturating_sub(counted(m)));
    }
    let most = most.clamp(LEAST_GROWTH, MOST_GROWTH);
    let step = (m.capacity / m.divisor.max(1)).clamp(LEAST_GROWTH, most);
    let target = m.capacity.saturating_add(step).max(must_have);
    if must_have <= ceiling {
        target.min(ceiling)
    } else {
        target
    }
}

/// The capacity after a collection: unchanged, unless so much was released that the heap should be smaller.
pub fn shrink(capacity: usize, used: usize, released: usize, initial: usize) -> usize {
    capacity
        .saturating_sub(released)
        .max(used.saturating_add(LEAST_GROWTH))
        .max(initial)
        .min(capacity)
}

/// The capacity after a collection before which `allocated` bytes were allocated. If the collection has saved more than
/// these, the capacity is lower than what the heap has grown to. So the next collection is decided about when as much
/// was allocated as should come between the two then.
pub fn where_much_was_saved(
    capacity: usize,
    used: usize,
    allocated: usize,
    saved: usize,
    least: usize,
    initial: usize,
) -> usize {
    if saved <= allocated {
        return capacity;
    }
    let share = allocated as f64 / allocated.saturating_add(saved) as f64;
    used.saturating_add(((least as f64 * share) as usize).max(LEAST_GROWTH))
        .max(initial)
        .min(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> Measurements {
        Measurements {
            capacity: 10 << 20,
            used: 10 << 20,
            needed: 16 << 10,
            allocated: 5 << 20,
            composite: 6 << 20,
            divisor: 3,
            may_collect: true,
            may_grow: true,
            retries: 1,
            ..Measurements::default()
        }
    }

    #[test]
    fn a_collection_may_pay_where_one_does() {
        let least = least_between_collections(&usual());
        let allocated = |allocated, new_is_cheap| Measurements {
            allocated,
            new_is_cheap,
            ..usual()
        };
        assert!(may_pay(&allocated(least, false)) && !may_pay(&allocated(least - 1, false)));
        let cheap = least / CHEAP_PART;
        assert!(may_pay(&allocated(cheap, true)) && !may_pay(&allocated(cheap - 1, true)));
        let scarce = Measurements {
            left: Some(0),
            ..allocated(least_where_scarce(&usual()), false)
        };
        assert!(may_pay(&scarce) && is_scarce(&scarce));
    }

    /// Where many finalizers wait for a collection it comes as soon as the heap would grow, however little was allocated.
    #[test]
    fn many_finalizers_are_due_as_soon_as_the_heap_is_full() {
        let little = Measurements {
            allocated: 1 << 10,
            ..usual()
        };
        assert!(until_due(&little) > 0);
        assert!(matches!(decide(&little), Decision::Grow(..)));
        let many = Measurements {
            finalizers_due: true,
            ..little
        };
        assert_eq!(until_due(&many), 0);
        assert_eq!(decide(&many), Decision::Collect("many finalizers"));
        let enough = Measurements {
            allocated: least_between_collections(&little),
            ..little
        };
        assert_eq!(until_due(&enough), 0);
        // What counts as allocated brings it nearer.
        let counted = Measurements {
            saved: 1 << 20,
            lost: 1 << 19,
            ..little
        };
        assert_eq!(until_due(&counted), until_due(&little) - (3 << 19));
    }

    #[test]
    fn collects_once_enough_was_allocated_and_grows_before() {
        assert_eq!(decide(&usual()), Decision::Collect("enough was allocated"));
        let early = Measurements {
            allocated: 1 << 20,
            ..usual()
        };
        let Decision::Grow(to, reason) = decide(&early) else {
            panic!("{:?}", decide(&early))
        };
        assert_eq!(reason, "too early to collect");
        assert!(to > early.capacity && to <= early.capacity + early.capacity / 2);
    }

    #[test]
    fn small_heaps_have_room_as_large_ones_do() {
        let small = Measurements {
            composite: 100 << 10,
            least_room: 2 << 20,
            ..usual()
        };
        assert_eq!(least_between_collections(&small), 2 << 20);
        let half = Measurements {
            divisor: 6,
            ..small
        };
        assert_eq!(least_between_collections(&half), 1 << 20);
        // What a large heap is given is more anyway.
        let large = Measurements {
            least_room: 2 << 20,
            ..usual()
        };
        assert_eq!(
            least_between_collections(&large),
            least_between_collections(&usual())
        );
        assert!(least_between_collections(&large) > 2 << 20);
    }

    #[test]
    fn a_collection_that_costs_little_comes_before_growth() {
        let early = Measurements {
            allocated: 5 << 19,
            new_is_cheap: true,
            ..usual()
        };
        assert_eq!(
            decide(&early),
            Decision::Collect("a collection of new objects costs little")
        );
        let changes: [fn(&mut Measurements); 3] = [
            |m| m.new_is_cheap = false,
            |m| m.allocated = 1 << 20,
            |m| m.attempts = 1,
        ];
        for change in changes {
            let mut m = early;
            change(&mut m);
            assert!(matches!(decide(&m), Decision::Grow(..)), "{m:?}");
        }
        assert_eq!(
            decide(&Measurements {
                new_is_cheap: true,
                ..usual()
            }),
            Decision::Collect("enough was allocated")
        );
    }

    #[test]
    fn a_heap_that_grows_exactly_grows_to_where_a_collection_pays() {
        let early = Measurements {
            allocated: 3 << 20,
            ..usual()
        };
        let grown = |m: &Measurements| match decide(m) {
            Decision::Grow(capacity, _) => capacity - m.capacity,
            other => panic!("{other:?}"),
        };
        let exactly = Measurements {
            grows_exactly: true,
            ..early
        };
        assert!(grown(&early) > 3 << 20);
        assert_eq!(
            grown(&exactly),
            least_between_collections(&early) - (3 << 20)
        );
    }

    #[test]
    fn grows_after_a_collection_that_did_not_help() {
        let again = Measurements {
            attempts: 1,
            allocated: 0,
            ..usual()
        };
        assert!(matches!(
            decide(&again),
            Decision::Grow(_, "too early to collect")
        ));
        let used_up_by_others = Measurements {
            attempts: 1,
            ..usual()
        };
        assert_eq!(
            decide(&used_up_by_others),
            Decision::Collect("enough was allocated")
        );
        let starved = Measurements {
            attempts: 8,
            ..usual()
        };
        assert!(matches!(
            decide(&starved),
            Decision::Grow(_, "collecting did not free enough")
        ));
    }

    #[test]
    fn never_grows_past_the_limit_and_gives_up_after_trying() {
        let limited = Measurements {
            limit: 10 << 20,
            allocated: 0,
            ..usual()
        };
        assert_eq!(
            decide(&limited),
            Decision::CollectEverything("the heap limit is reached")
        );
        let second = Measurements {
            attempts: 1,
            ..limited
        };
        assert_eq!(
            decide(&second),
            Decision::CollectEverything("the heap limit is reached")
        );
        let last = Measurements {
            attempts: 2,
            ..limited
        };
        assert_eq!(decide(&last), Decision::GiveUp("the heap limit is reached"));
    }

    #[test]
    fn where_stacks_are_hidden_it_grows_as_long_as_it_can() {
        let hidden = Measurements {
            hidden_stacks: true,
            ..usual()
        };
        let reason = "not collected where stacks cannot be found";
        for m in [
            hidden,
            Measurements {
                allocated: 1 << 40,
                left: Some(0),
                ..hidden
            },
        ] {
            assert!(
                matches!(decide(&m), Decision::Grow(to, why) if to > m.capacity && why == reason)
            );
        }
        let limited = Measurements {
            limit: 11 << 20,
            ..hidden
        };
        assert!(matches!(decide(&limited), Decision::Grow(to, _) if to == 11 << 20));
        let full = Measurements {
            capacity: 11 << 20,
            used: 11 << 20,
            ..limited
        };
        assert_eq!(decide(&full), Decision::Collect("enough was allocated"));
        let rigid = Measurements {
            may_grow: false,
            ..limited
        };
        assert_eq!(decide(&rigid), Decision::Collect("enough was allocated"));
    }

    #[test]
    fn where_little_is_left_it_collects_before_that_is_gone() {
        // 60 MB live under a limit of 100, and 3 lie beside the heap.
        let mut m = Measurements {
            composite: 60 << 20,
            used: 60 << 20,
            capacity: 60 << 20,
            allocated: 0,
            ..usual()
        };
        let left = |used: usize| Some((97 << 20) - used);
        m.left = left(m.used);
        while let Decision::Grow(to, reason) = decide(&m) {
            assert_eq!(reason, "too early to collect");
            assert!(to - m.capacity <= (m.left.unwrap() / 4).max(LEAST_GROWTH));
            m.allocated += to - m.used;
            (m.capacity, m.used) = (to, to);
            m.left = left(to);
        }
        let scarce = Decision::CollectEverything("a control group has little memory left");
        assert_eq!(decide(&m), scarce);
        assert!(m.used > 76 << 20 && m.used < 82 << 20, "{}", m.used);
        // Nothing was reclaimed: it goes on, but not without allocating a sixteenth in between.
        let again = Measurements {
            attempts: 1,
            allocated: 0,
            left: Some(0),
            ..m
        };
        assert!(matches!(decide(&again), Decision::Grow(to, _) if to == m.capacity + LEAST_GROWTH));
        let next = Measurements {
            attempts: 0,
            allocated: m.used / 17,
            ..again
        };
        assert!(matches!(decide(&next), Decision::Grow(..)));
        let enough = Measurements {
            allocated: m.used / 16,
            ..next
        };
        assert_eq!(decide(&enough), scarce);
        assert!(matches!(
            decide(&Measurements {
                left: None,
                ..enough
            }),
            Decision::Grow(..)
        ));
        let forbidden = Measurements {
            may_collect: false,
            ..enough
        };
        assert!(matches!(decide(&forbidden), Decision::Grow(..)));
    }

    #[test]
    fn a_request_that_exceeds_what_is_left_is_a_reason_to_collect() {
        let big = Measurements {
            needed: 50 << 20,
            allocated: 0,
            left: Some(40 << 20),
            ..usual()
        };
        assert!(matches!(decide(&big), Decision::CollectEverything(_)));
        let fits = Measurements {
            left: Some(101 << 20),
            ..big
        };
        assert!(matches!(decide(&fits), Decision::Grow(..)));
        // Where others have taken everything, small objects do not pay for it each time.
        let small = Measurements {
            needed: 64 << 10,
            left: Some(0),
            ..big
        };
        assert!(matches!(decide(&small), Decision::Grow(..)));
    }

    #[test]
    fn as_much_as_is_enough_changes_nothing() {
        for (allocated, needed) in [
            (0, 16 << 10),
            (3 << 20, 16 << 10),
            (0, 1 << 30),
            (90 << 20, 5 << 20),
        ] {
            let free = Measurements {
                allocated,
                needed,
                ..usual()
            };
            let limited = Measurements {
                left: Some(enough(&free)),
                ..free
            };
            assert_eq!(decide(&limited), decide(&free));
            assert!(!is_used_up(&limited));
        }
    }

    #[test]
    fn a_request_larger_than_a_step_is_granted_whole() {
        let big = Measurements {
            needed: 1 << 30,
            allocated: 0,
            ..usual()
        };
        assert!(matches!(decide(&big), Decision::Grow(to, _) if to == (10 << 20) + (1 << 30)));
    }

    #[test]
    fn without_collection_it_grows_and_without_both_it_gives_up() {
        let disabled = Measurements {
            may_collect: false,
            ..usual()
        };
        assert!(matches!(decide(&disabled), Decision::Grow(..)));
        let stuck = Measurements {
            may_grow: false,
            ..disabled
        };
        assert_eq!(decide(&stuck), Decision::GiveUp("growth is forbidden"));
    }

    #[test]
    fn shrinking_keeps_what_is_used_and_the_initial_heap() {
        assert_eq!(shrink(100 << 20, 10 << 20, 50 << 20, 0), 50 << 20);
        assert_eq!(
            shrink(100 << 20, 90 << 20, 50 << 20, 0),
            (90 << 20) + LEAST_GROWTH
        );
        assert_eq!(shrink(100 << 20, 10 << 20, 90 << 20, 64 << 20), 64 << 20);
        assert_eq!(shrink(100 << 20, 10 << 20, 0, 0), 100 << 20);
    }

    #[test]
    fn where_collections_save_more_than_memory_the_next_comes_earlier() {
        let after = |saved| where_much_was_saved(20 << 20, 6 << 20, 2 << 20, saved, 4 << 20, 0);
        assert_eq!(after(0), 20 << 20);
        assert_eq!(after(2 << 20), 20 << 20, "no more than was allocated");
        assert_eq!(after(6 << 20), 7 << 20);
        assert_eq!(after(usize::MAX), (6 << 20) + LEAST_GROWTH);
        let initial = where_much_was_saved(20 << 20, 6 << 20, 1, usize::MAX, 4 << 20, 9 << 20);
        assert_eq!(initial, 9 << 20);
        let full = where_much_was_saved(6 << 20, 6 << 20, 1, usize::MAX, 4 << 20, 9 << 20);
        assert_eq!(full, 6 << 20, "it is not raised");
    }

    #[test]
    fn what_is_saved_counts_as_allocated_and_the_heap_grows_no_further_than_to_there() {
        let pays = least_between_collections(&usual());
        let early = Measurements {
            allocated: 1 << 20,
            saved: pays - (1 << 20),
            ..usual()
        };
        assert_eq!(decide(&early), Decision::Collect("enough was allocated"));
        let almost = Measurements {
            saved: early.saved - (1 << 19),
            ..early
        };
        assert!(matches!(decide(&almost), Decision::Grow(to, _) if to == (10 << 20) + (1 << 19)));
        let little = Measurements { saved: 1, ..early };
        assert!(matches!(decide(&little), Decision::Grow(to, _) if to > 12 << 20));
    }

    #[test]
    fn what_may_have_died_old_counts_as_allocated() {
        let lost = |lost, left| Measurements {
            allocated: 1 << 20,
            lost,
            left,
            ..usual()
        };
        let pays = least_between_collections(&usual());
        let enough = lost(pays - (1 << 20), None);
        assert_eq!(decide(&enough), Decision::Collect("enough was allocated"));
        let almost = lost(pays - (3 << 19), None);
        assert!(matches!(decide(&almost), Decision::Grow(to, _) if to == (10 << 20) + (1 << 19)));
        let scarce = lost(2 << 20, Some(3 << 20));
        let reason = "a control group has little memory left";
        assert_eq!(decide(&scarce), Decision::CollectEverything(reason));
        // A collection that has left it is followed by one of everything, and that by growth.
        let attempted = |lost, attempts| Measurements {
            allocated: 0,
            lost,
            attempts,
            ..scarce
        };
        assert_eq!(
            decide(&attempted(3 << 20, 1)),
            Decision::CollectEverything(reason)
        );
        let grows = |m: &Measurements| matches!(decide(m), Decision::Grow(..));
        assert!(grows(&attempted(0, 1)) && grows(&attempted(3 << 20, MOST_CONTENDED)));
        let less = lost(1 << 20, Some(3 << 20));
        assert!(matches!(decide(&less), Decision::Grow(..)));
    }
}
