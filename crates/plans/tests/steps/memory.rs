//! What a cycle does to the size of the heap: it uses what was dead before, begins in time, and leaves no more than it found.

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::IN_TIME;
use gleaner_base::options::MarkGenerations;
use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::heap_size::LEAST_GROWTH;
use gleaner_plans::mark_sweep::decide::pacer::LEAST_WAIT;
use gleaner_plans::mark_sweep::heap::Remedy;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::kinds::NORMAL;

use crate::{Begun, OBJECTS, store};

pub fn a_heap_that_has_grown_for_a_cycle_shrinks_again() {
    let Some(mut begun) = Begun::new("stress=1000000") else {
        return;
    };
    let before = begun.bench.heap.space.capacity;
    while begun.bench.heap.space.capacity == before {
        begun.bench.allocate(NORMAL, 1000).unwrap();
    }
    assert!(begun.bench.heap.cycle.is_under_way());
    begun.mark();
    begun.end();
    let after = begun.bench.heap.space.capacity;
    assert!(begun.bench.was_stepped() && begun.all_live());
    assert!(after <= before, "{before} {after}");
}

/// Dead cells in blocks with live ones, which wait to be swept when the cycle begins, are handed out in each of its rounds.
pub fn what_was_dead_before_a_cycle_is_used_during_it() {
    for mode in ["sweep=lazy", "sweep=eager"] {
        let Some(mut begun) = Begun::before(&format!("stress=1000000,{mode}")) else {
            return;
        };
        // Every second object dies.
        for number in (3..OBJECTS).step_by(2) {
            store(begun.object(number), 0, begun.object(number - 2).word());
        }
        begun.bench.collect();
        let waits = begun.bench.heap.space.unswept_bytes;
        assert!(waits > OBJECTS / 3 * 112, "{waits} bytes wait");
        // A number that looks like a reference to what is dead, in an object that nobody writes any more.
        let dead = begun.object(OBJECTS / 8);
        store(begun.object(OBJECTS - 1), 3, dead.word());
        let mut is_used = false;
        assert_eq!(begun.bench.begin(), Outcome::Begun);
        assert!(begun.bench.heap.space.unswept_bytes > waits / 8 * 7);
        let used = begun.bench.heap.space.used_bytes();
        let lives = |begun: &Begun, object: Address| {
            let mut live = (1..OBJECTS).step_by(2);
            live.any(|number| begun.object(number) == object)
        };
        let mut held = Vec::new();
        let mut take = |begun: &mut Begun| {
            for number in 0..2000 {
                let object = begun.bench.allocate(NORMAL, 100).unwrap();
                is_used |= object == dead;
                if number % 100 == 0 {
                    assert!(!lives(begun, object), "{object:?} lives");
                    store(object, 1, held.last().map_or(0, |last: &usize| !last));
                    store(begun.object(1), 2, object.word());
                    held.push(!object.word());
                }
            }
        };
        take(&mut begun);
        begun.mark();
        take(&mut begun);
        // The stop that is to end it puts off what is new.
        begun.bench.heap.settings.time_limit_ns = Some(0);
        assert_eq!(begun.bench.collect_new("another round"), Outcome::Begun);
        take(&mut begun);
        begun.bench.verify();
        assert_eq!(begun.bench.heap.space.used_bytes(), used);
        begun.bench.heap.settings.time_limit_ns = Some(u64::MAX / 4);
        begun.mark();
        begun.end();
        assert!(begun.bench.was_stepped() && is_used);
        let is_marked = |object: Address| begun.bench.is_marked(object);
        assert!(
            (1..OBJECTS)
                .step_by(2)
                .all(|number| is_marked(begun.object(number)))
        );
        assert!(held.iter().all(|hidden| is_marked(Address::new(!hidden))));
    }
}

/// A program that allocates in a heap of constant size has cycles, and hardly more memory than without them.
pub fn cycles_begin_before_memory_is_used_up() {
    let peak_of = |in_steps: bool| {
        let mut begun = Begun::before("")?;
        begun.bench.thread_lists = true;
        begun.bench.steps = true;
        begun.bench.heap.settings.time_limit_ns = in_steps.then_some(1);
        if !in_steps {
            begun.bench.heap.mode = MarkGenerations::None;
            begun.bench.heap.space.written = None;
        }
        let (mut cycles, mut early) = (0, 0);
        for _ in 0..40 * OBJECTS {
            begun.bench.allocate(NORMAL, 100).unwrap();
            let now = begun.bench.heap.totals.cycles;
            if now > cycles && begun.bench.heap.cycle.is_under_way() {
                let paces = begun.bench.events(Phase::Pace);
                early += usize::from(paces.last().is_some_and(|pace| pace.reason == IN_TIME));
                cycles = now;
            }
        }
        begun.bench.verify();
        begun.bench.collect();
        assert!(begun.all_live());
        Some((begun.bench.heap.totals.peak_capacity, cycles, early))
    };
    let (Some((stops, none, _)), Some((peak, cycles, early))) = (peak_of(false), peak_of(true))
    else {
        return;
    };
    assert!(none == 0 && cycles > 4, "{none} {cycles} cycles");
    // Some come late while the heap is new.
    assert!(
        early as u64 * 10 >= cycles * 9,
        "{early} of {cycles} began early"
    );
    // A heap grows in steps of this size.
    let most = stops + stops / 20 + 2 * LEAST_GROWTH;
    assert!(peak <= most, "{peak} bytes, {stops} in stops");
}

/// In a program that keeps all that it allocates, a collection of new objects frees nothing, and the one of everything that
/// follows for the same request has some room for its steps.
pub fn a_cycle_is_not_ended_by_the_request_that_has_begun_it() {
    let Some(mut begun) = Begun::new("reserve=256m,stress=1000000") else {
        return;
    };
    // Whatever was allocated calls for a collection.
    begun.bench.heap.settings.divisor = usize::MAX;
    for attempts in [0, 2, 7] {
        let shortage = Shortage::Capacity(1000);
        let remedy = begun.bench.heap.remedy(shortage, attempts, false);
        assert!(matches!(remedy, Remedy::TryAgain), "{remedy:?}");
    }
    begun.end();
    let Some(mut begun) = Begun::before("reserve=256m") else {
        return;
    };
    begun.bench.thread_lists = true;
    begun.bench.steps = true;
    begun.bench.heap.settings.time_limit_ns = Some(1);
    let mut last = begun.object(OBJECTS - 1).word();
    let (mut ended, mut at_once) = (0, 0);
    for _ in 0..4 * OBJECTS {
        let collections = begun.bench.heap.collections;
        let object = begun.bench.allocate(NORMAL, 100).unwrap();
        store(object, 0, last);
        last = object.word();
        begun.bench.replace_kept(object);
        if begun.bench.heap.collections > collections {
            let paces = begun.bench.events(Phase::Pace);
            assert!(paces.iter().all(|pace| pace.bytes >= LEAST_WAIT as u64));
            let ends = begun.ended();
            ended += ends.len();
            at_once += ends.iter().filter(|end| end.1 == 0).count();
        }
    }
    assert!(
        ended > 4 && at_once == 0,
        "{at_once} of {ended} had no step"
    );
    begun.bench.collect();
    assert!(begun.all_live());
}
