//! The deciders as pure functions: whatever was measured, the limit holds and the allocation gets somewhere.

#![cfg(not(loom))]

use gleaner_plans::mark_sweep::decide::heap_size::{
    Decision, LEAST_GROWTH, Measurements, decide, least_between_collections, may_pay, shrink,
};
use gleaner_plans::shared::crew_size::CrewSize;
use proptest::collection::vec;
use proptest::prelude::*;

/// Sizes from nothing to the largest word, small ones more often.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => Just(0usize),
        6 => 0..(64usize << 20),
        2 => any::<usize>(),
        1 => Just(usize::MAX),
    ]
}

prop_compose! {
    fn measurements()(
        sizes in prop::array::uniform8(size()),
        limit in prop_oneof![2 => Just(0usize), 3 => (1usize << 20)..(64 << 20)],
        divisor in prop_oneof![Just(0usize), 1..10usize, Just(usize::MAX)],
        balanced in proptest::option::weighted(0.3, any::<usize>()),
        left in proptest::option::weighted(0.5, size()),
        (saved, lost, least_room) in (size(), size(), size()),
        counts in (0..6usize, 0..4usize),
        flags in prop::array::uniform6(any::<bool>()),
    ) -> Measurements {
        let [capacity, used, needed, allocated, composite, atomic, roots, least_allocated] = sizes;
        // As the heap guarantees: the capacity is within the limit, the heap within the capacity, and the request not.
        let capacity = if limit == 0 { capacity } else { capacity.min(limit) };
        let used = used.min(capacity);
        let needed = needed.max((capacity - used).saturating_add(1));
        Measurements {
            capacity, used, needed, allocated, composite, atomic, roots, least_allocated, limit, left, saved, lost, divisor,
            balanced, least_room,
            attempts: counts.0, retries: counts.1,
            may_collect: flags[0], may_grow: flags[1], finalizers_due: flags[2],
            hidden_stacks: flags[3], new_is_cheap: flags[4], grows_exactly: flags[5],
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn growth_is_enough_and_stays_within_the_limit(m in measurements()) {
        if let Decision::Grow(to, _) = decide(&m) {
            prop_assert!(to > m.capacity || to == usize::MAX, "growth grows");
            prop_assert!(m.limit == 0 || to <= m.limit, "{to} exceeds {}", m.limit);
            prop_assert!(to >= m.used.saturating_add(m.needed), "the request fits afterwards");
            prop_assert!(m.may_grow || m.attempts > 0);
        }
    }

    /// Where stacks cannot be found, nothing is collected unless the heap cannot grow.
    #[test]
    fn hidden_stacks_are_not_risked(m in measurements()) {
        let m = Measurements { hidden_stacks: true, may_grow: true, ..m };
        let fits = m.limit == 0 || m.used.saturating_add(m.needed) <= m.limit;
        prop_assert_eq!(matches!(decide(&m), Decision::Grow(..)), fits);
    }

    #[test]
    fn nothing_is_collected_when_that_is_forbidden(m in measurements()) {
        if matches!(decide(&m), Decision::Collect(_) | Decision::CollectEverything(_)) {
            prop_assert!(m.may_collect);
        }
    }

    /// What may not pay with all that was handed out does not with the part of it that was taken, so nobody has to count that.
    #[test]
    fn where_nothing_may_pay_it_does_not_matter_how_much_less_was_allocated(
        m in measurements(),
        less in size(),
    ) {
        let m = Measurements { finalizers_due: false, ..m };
        let taken = Measurements { allocated: less.min(m.allocated), ..m };
        if !may_pay(&m) {
            prop_assert!(!may_pay(&taken));
            match (decide(&m), decide(&taken)) {
                (Decision::Grow(_, one), Decision::Grow(_, other)) => prop_assert_eq!(one, other),
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }

    /// A heap that follows the decisions ends, by success or by giving up, after a bounded number of collections.
    #[test]
    fn following_the_decisions_ends(m in measurements(), frees in 0..(1usize << 20)) {
        let (mut m, mut collections) = (m, 0);
        loop {
            if m.used.saturating_add(m.needed) <= m.capacity {
                break;
            }
            let decision = decide(&m);
            match decision {
                Decision::Collect(reason) | Decision::CollectEverything(reason) => {
                    collections += 1;
                    m.attempts += 1;
                    // Where much may have died old, any collection is of everything.
                    let is_whole = matches!(decision, Decision::CollectEverything(_));
                    m.lost = if is_whole { 0 } else { m.lost.min(least_between_collections(&m) / 2) };
                    m.used = m.used.saturating_sub(frees);
                    (m.allocated, m.saved) = (0, 0);
                    prop_assert!(!reason.is_empty());
                }
                Decision::Grow(to, reason) => {
                    prop_assert!(!reason.is_empty());
                    prop_assert!(to >= m.used.saturating_add(m.needed));
                    break;
                }
                Decision::GiveUp(reason) => {
                    prop_assert!(!reason.is_empty());
                    prop_assert!(m.limit != 0 || !m.may_grow, "without a limit there is always more");
                    break;
                }
            }
        }
        prop_assert!(collections <= m.retries.max(2) + 1, "{collections} collections");
    }

    /// With a limit the heap gives up only after it has tried to collect, if it may.
    #[test]
    fn giving_up_is_the_last_resort(m in measurements()) {
        if matches!(decide(&m), Decision::GiveUp(_)) && m.may_collect {
            prop_assert!(m.attempts >= 2);
        }
    }

    #[test]
    fn shrinking_never_cuts_into_the_heap(
        capacity in size(), used in size(), released in size(), initial in size(),
    ) {
        let used = used.min(capacity);
        let to = shrink(capacity, used, released, initial);
        prop_assert!(to <= capacity && to >= used);
        prop_assert!(to == capacity || to >= initial, "not below the initial size");
        prop_assert!(to == capacity || to >= used.saturating_add(LEAST_GROWTH), "room to go on");
        prop_assert!(capacity - to <= released, "only what was released");
    }

    #[test]
    fn a_smaller_divisor_never_collects_more_often(m in measurements(), divisor in 1..100usize) {
        let with = |divisor| least_between_collections(&Measurements { divisor, balanced: None, ..m });
        prop_assert!(with(divisor) >= with(divisor + 1));
        prop_assert!(with(divisor) >= 1);
    }

    #[test]
    fn some_worker_collects_and_never_more_than_there_may_be(
        wanted in 0..65usize,
        collections in vec((size(), 0..300usize, size(), 0..u64::MAX), 1..60),
    ) {
        let mut crew_size = CrewSize::new();
        for (expected, free, found, took_ns) in collections {
            let (count, reason) = crew_size.decide(wanted, expected, || free);
            prop_assert!(count >= 1 && !reason.is_empty());
            let most = if wanted == 0 { free.clamp(1, 64) } else { wanted };
            prop_assert!(count <= most);
            crew_size.note(count, found, took_ns);
        }
    }
}
