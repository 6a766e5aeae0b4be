//! Whether cycles of marking in steps end in time: the pacer is given programs, and is compared with collections in stops of the
//! same program.

#![cfg(not(loom))]

mod simulation;

use gleaner_plans::mark_sweep::decide::heap_size::LEAST_GROWTH;
use proptest::collection::vec;
use proptest::prelude::*;
use simulation::{Ended, MIB, Machine, Outcome, Program, TICK, run};

/// A stretch of a program.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Bytes that it allocates.
    allocates: usize,
    /// Bytes that live at its end: they grow or shrink steadily.
    lives: usize,
    /// Bytes that it allocates in a nanosecond.
    rate: f64,
}

#[derive(Clone, Debug)]
struct Stretches {
    stretches: Vec<Stretch>,
    old_share: f64,
}

impl Stretches {
    /// A program with `lives` bytes that live, once they have been allocated.
    fn steady(lives: usize, rate: f64, old_share: f64) -> Stretches {
        let begin = Stretch {
            allocates: lives,
            lives,
            rate,
        };
        let rest = Stretch {
            allocates: 10 * lives,
            ..begin
        };
        Stretches {
            stretches: vec![begin, rest],
            old_share,
        }
    }

    /// The stretch at `at`, what lived before it, and the part of it that is over.
    fn find(&self, at: usize) -> (&Stretch, usize, f64) {
        let (mut before, mut begins) = (0, 0);
        for stretch in &self.stretches {
            if at < begins + stretch.allocates {
                let part = (at - begins) as f64 / stretch.allocates as f64;
                return (stretch, before, part);
            }
            begins += stretch.allocates;
            before = stretch.lives;
        }
        let last = self.stretches.last().expect("a program has stretches");
        (last, before, 1.0)
    }
}

impl Program for Stretches {
    fn ends_at(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.allocates).sum()
    }

    fn lives(&self, at: usize) -> usize {
        let (stretch, before, part) = self.find(at);
        (before as f64 + (stretch.lives as f64 - before as f64) * part) as usize
    }

    fn rate(&self, at: usize) -> f64 {
        self.find(at).0.rate
    }

    fn old_share(&self) -> f64 {
        self.old_share
    }
}

/// What every program is to have, whatever it does: the collection in stops alone, and the one with cycles.
fn check(program: &dyn Program, machine: Machine, limit: usize) -> (Outcome, Outcome) {
    let stops = run(program, machine, limit, false);
    let paced = run(program, machine, limit, true);
    for cycle in &paced.cycles {
        assert!(cycle.allocated <= cycle.most + TICK, "{cycle:?}");
        // No cycle for nothing: what the program allocates between two is worth one.
        let soon = cycle.is_paced && cycle.began_at < cycle.interval / 4;
        assert!(!soon, "{cycle:?}");
    }
    (stops, paced)
}

/// Cycles that the pacer began, and that ended later than a collection in a stop would have begun.
fn late(outcome: &Outcome) -> Vec<Ended> {
    let paced = outcome.cycles.iter().filter(|cycle| cycle.is_paced);
    // From there on each allocation makes a step.
    paced
        .filter(|cycle| cycle.allocated > cycle.room + LEAST_GROWTH)
        .copied()
        .collect()
}

/// The peak beside that of collections in stops, but for what one step of growth may be off.
fn assert_peak(stops: &Outcome, paced: &Outcome, percent: usize, context: &str) {
    let most = stops.peak / 100 * percent + MIB;
    assert!(
        paced.peak <= most,
        "{context}: {} MiB, in stops {} MiB",
        paced.peak >> 20,
        stops.peak >> 20
    );
}

const RATES: [f64; 3] = [0.03, 0.3, 3.0];

#[test]
fn cycles_of_steady_programs_end_in_time_and_in_the_same_memory() {
    for lives in [80, 200, 600] {
        for rate in RATES {
            for old_share in [0.0, 1.0] {
                for marks in [0.7, 2.0] {
                    let program = Stretches::steady(lives * MIB, rate, old_share);
                    let machine = Machine::of(marks);
                    let (stops, paced) = check(&program, machine, 0);
                    let context = format!("{lives} {rate} {old_share} {marks}");
                    if (lives * MIB) as f64 / marks < 50_000_000.0 {
                        assert!(paced.cycles.is_empty(), "{context}");
                        continue;
                    }
                    assert!(paced.cycles.len() > 8, "{context}: {paced:?}");
                    assert_eq!(late(&paced), [], "{context}");
                    assert!(!paced.cycles.iter().any(|cycle| cycle.is_cut_short));
                    assert_peak(&stops, &paced, 105, &context);
                    // They do not come much more often either.
                    let most = stops.collections * 5 / 4 + 2;
                    assert!(paced.collections <= most, "{context}: {most} {paced:?}");
                }
            }
        }
    }
}

#[test]
fn what_fits_into_a_stop_is_marked_in_one() {
    for rate in RATES {
        let program = Stretches::steady(30 * MIB, rate, 0.5);
        let (stops, paced) = check(&program, Machine::of(1.0), 0);
        assert!(paced.cycles.is_empty());
        assert_eq!(
            (paced.peak, paced.collections),
            (stops.peak, stops.collections)
        );
    }
}

#[test]
fn a_program_that_suddenly_allocates_faster_is_not_overtaken() {
    for (before, after) in [(0.01, 3.0), (0.1, 1.0), (3.0, 0.01)] {
        let mut program = Stretches::steady(200 * MIB, before, 0.3);
        // At many moments of a cycle and between two.
        for number in 0..40 {
            program.stretches.push(Stretch {
                allocates: (150 + number) * MIB,
                lives: 200 * MIB,
                rate: if number % 2 == 0 { after } else { before },
            });
        }
        let (stops, paced) = check(&program, Machine::of(1.0), 0);
        assert_eq!(late(&paced), [], "{before} {after}");
        assert_peak(&stops, &paced, 105, &format!("{before} {after}"));
    }
}

#[test]
fn what_lives_may_grow_and_shrink() {
    for sizes in [
        [100, 400, 400, 100],
        [400, 100, 100, 400],
        [100, 110, 120, 500],
    ] {
        for old_share in [0.0, 1.0] {
            let stretches = sizes.map(|lives| Stretch {
                allocates: 2000 * MIB,
                lives: lives * MIB,
                rate: 0.3,
            });
            let program = Stretches {
                stretches: stretches.to_vec(),
                old_share,
            };
            let (stops, paced) = check(&program, Machine::of(1.0), 0);
            assert!(paced.cycles.len() > 5, "{sizes:?}");
            assert!(!paced.cycles.iter().any(|cycle| cycle.is_cut_short));
            assert_peak(&stops, &paced, 107, &format!("{sizes:?} {old_share}"));
        }
    }
}

/// Steps are paid by what is allocated: slow ones take more time, and no more memory.
#[test]
fn marking_that_is_slower_than_measured_ends_in_time() {
    for slower in [2.0, 4.0] {
        for rate in RATES {
            let machine = Machine {
                in_steps: 1.0 / slower,
                ..Machine::of(1.0)
            };
            let program = Stretches::steady(300 * MIB, rate, 0.5);
            let (stops, paced) = check(&program, machine, 0);
            assert!(paced.cycles.len() > 8);
            assert_eq!(late(&paced), [], "{slower} {rate}");
            assert_peak(&stops, &paced, 105, &format!("{slower} {rate}"));
        }
    }
}

/// What lives doubles while it is marked, again and again: the margin grows, so that the next cycles begin earlier.
#[test]
fn a_cycle_that_is_overtaken_ends_and_those_after_it_begin_earlier() {
    let stretches = [100, 100, 300, 100, 300, 100, 300].map(|lives| Stretch {
        allocates: 220 * MIB,
        lives: lives * MIB,
        rate: 1.0,
    });
    let program = Stretches {
        stretches: stretches.to_vec(),
        old_share: 0.5,
    };
    check(&program, Machine::of(1.0), 0);
    // No step can be made at all.
    let stuck = Machine {
        makes_steps: false,
        ..Machine::of(1.0)
    };
    let program = Stretches::steady(200 * MIB, 1.0, 0.5);
    let (stops, paced) = check(&program, stuck, 0);
    assert!(!paced.cycles.is_empty());
    for cycle in &paced.cycles {
        assert!(
            cycle.is_cut_short && cycle.allocated >= cycle.room,
            "{cycle:?}"
        );
    }
    assert!(
        paced.peak <= stops.peak * 3 / 2,
        "{} {}",
        paced.peak,
        stops.peak
    );
    let paced = paced.cycles.iter().filter(|cycle| cycle.is_paced);
    let mut leads = paced.map(|cycle| cycle.room / cycle.allowance);
    let first = leads.next().unwrap();
    assert!(leads.all(|lead| lead > first), "{first}");
}

#[test]
fn a_heap_that_is_limited_never_has_more() {
    let program = Stretches::steady(200 * MIB, 0.3, 0.3);
    for percent in [101, 110, 120, 150] {
        let limit = 200 * MIB / 100 * percent;
        let (stops, paced) = check(&program, Machine::of(1.0), limit);
        assert!(paced.peak <= limit && stops.peak <= limit, "{percent}");
        assert_eq!(late(&paced), [], "{percent}");
        assert_eq!(paced.cycles.len() > 8, percent > 101, "{percent}");
        let most = stops.collections * 3 / 2 + 2;
        assert!(paced.collections <= most, "{percent}");
    }
}

fn stretch() -> impl Strategy<Value = Stretch> {
    (1..400usize, 1..400usize, -5.0..1.5f64).prop_map(|(allocates, lives, rate)| Stretch {
        allocates: allocates * MIB,
        lives: lives.min(allocates) * MIB,
        rate: rate.exp(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a program does, its cycles end, and none begins for nothing.
    #[test]
    fn cycles_of_any_program_end(
        stretches in vec(stretch(), 1..12),
        old_share in 0.0..1.0f64,
        marks in 0.1..4.0f64,
        slower in 1.0..8.0f64,
        makes_steps in proptest::bool::weighted(0.9),
    ) {
        let program = Stretches { stretches, old_share };
        let machine = Machine { in_stops: marks, in_steps: marks / slower, makes_steps };
        let (stops, paced) = check(&program, machine, 0);
        // A cycle that is overtaken is marked while half an interval is allocated at the most.
        prop_assert!(paced.peak <= stops.peak * 2 + 16 * MIB, "{} {}", paced.peak, stops.peak);
    }
}
