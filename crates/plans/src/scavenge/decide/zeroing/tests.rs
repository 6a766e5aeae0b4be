//! The deciders of zeroing on made-up programs: each design has a cost, which phases and chance change, and what counts
//! is after how many nurseries the best one is in force.

use super::*;

fn nursery(mode: Mode, ns_per_mb: u64) -> Nursery {
    Nursery {
        mode,
        mutator_ns: 32 * ns_per_mb,
        stalled_ns: 0,
        allocated: 32 << 20,
        fresh: 0,
        active: 1,
        processors: 2,
        contended: false,
        block_ns: 0,
        past_ns: 0,
    }
}

/// Runs `nurseries` nurseries that cost what `cost` says. How many there were of each design, and the last decision.
fn run(
    trials: &mut Trials,
    nurseries: usize,
    cost: impl Fn(usize, Mode) -> Nursery,
) -> ([usize; 5], Decision) {
    let mut used = [0; 5];
    let mut decision = Decision {
        mode: trials.best,
        reason: "",
    };
    for number in 0..nurseries {
        let mode = decision.mode;
        used[place(mode)] += 1;
        (*trials, decision) = next(*trials, &cost(number, mode));
    }
    (used, decision)
}

#[test]
fn the_papers_rule_counts_mutators() {
    assert_eq!(adaptive(1, 2).mode, Mode::Concurrent);
    assert_eq!(adaptive(2, 2).mode, Mode::NonTemporal);
    assert_eq!(adaptive(9, 2).mode, Mode::NonTemporal);
}

#[test]
fn what_is_best_already_is_left_ever_more_rarely() {
    let mut trials = Trials::default();
    let (used, _) = run(&mut trials, 1000, |_, mode| {
        nursery(mode, if mode == Mode::HotPath { 100 } else { 120 })
    });
    assert!(
        used[0] > 960 && used.iter().all(|&count| count > 0),
        "{used:?}"
    );
}

/// A number from 0 to `below`, by the place in a sequence (splitmix).
fn random(seed: u64, number: usize, below: u64) -> u64 {
    let mut mixed = (seed << 32).wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % below
}

/// A program: the first nursery's memory is fresh, and each phase begins at a nursery and has a pace and a cost for
/// each design, in thousandths of the pace.
struct Program {
    phases: Vec<(usize, u64, [u64; 5])>,
    /// By how many thousandths a nursery is faster or slower by chance, at most.
    noise: u64,
    seed: u64,
}

impl Program {
    /// One phase, in which everything costs as much but what is told.
    fn new(costs: [u64; 5]) -> Program {
        Program {
            phases: vec![(0, 100_000, costs)],
            noise: 0,
            seed: 0,
        }
    }

    fn nursery(&self, number: usize, mode: Mode) -> Nursery {
        let phase = self.phases.iter().rfind(|phase| phase.0 <= number).unwrap();
        let chance = 1000 + random(self.seed, number, 2 * self.noise + 1) - self.noise;
        let ns = phase.1 * phase.2[place(mode)] / 1000 * chance / 1000;
        Nursery {
            fresh: if number == 0 { 32 << 20 } else { 0 },
            ..nursery(mode, ns)
        }
    }

    /// The modes that `auto` has in the first nurseries, the first of all included.
    fn run(&self, nurseries: usize) -> (Vec<Mode>, Trials) {
        let (mut trials, mut mode, mut modes) = (Trials::default(), Mode::HotPath, Vec::new());
        for number in 0..nurseries {
            modes.push(mode);
            let decision;
            (trials, decision) = next(trials, &self.nursery(number, mode));
            mode = decision.mode;
        }
        (modes, trials)
    }

    /// Nurseries until the best design is no longer `old`, but `new`, from a nursery on.
    fn until_best(&self, from: usize, new: Mode) -> usize {
        (from..from + 1000)
            .find(|&end| self.run(end).1.best == new)
            .map_or(1000, |end| end - from)
    }
}

/// 10 % less than the others', or than all but the first design's.
fn costs(best: Mode, by: u64) -> [u64; 5] {
    let mut costs = [1000; 5];
    costs[place(best)] -= by;
    costs
}

#[test]
fn each_design_that_is_worth_it_is_tried_once_within_the_first_ten_nurseries() {
    let (modes, trials) = Program::new([1000; 5]).run(11);
    for mode in DESIGNS {
        let tried = modes[..10].iter().filter(|&&one| one == mode).count();
        assert!(tried == 1 || mode == trials.best, "{mode:?}: {modes:?}");
    }
    assert_eq!(modes[10], Mode::HotPath);
}

#[test]
fn a_faster_design_is_in_force_soon_whichever_it_is() {
    for (by, most) in [(250, 12), (100, 14), (50, 14)] {
        for best in DESIGNS {
            let program = Program::new(costs(best, by));
            let took = program.until_best(0, best);
            assert!(took <= most, "{best:?} by {by}: {took} nurseries");
            // And it stays.
            assert_eq!(program.run(1000).1.best, best);
        }
    }
}

#[test]
fn a_program_of_fifty_nurseries_has_the_best_design_for_most_of_them() {
    for best in DESIGNS {
        let (modes, _) = Program::new(costs(best, 150)).run(50);
        let used = modes.iter().filter(|&&mode| mode == best).count();
        assert!(used >= 32, "{best:?}: {used} of 50: {modes:?}");
    }
}

#[test]
fn after_a_change_of_phase_the_best_design_is_found_again() {
    for old in DESIGNS {
        for new in DESIGNS.into_iter().filter(|&new| new != old) {
            for pace in [60_000, 150_000] {
                for at in [20, 50, 300] {
                    let mut program = Program::new(costs(old, 120));
                    program.phases.push((at, pace, costs(new, 120)));
                    let took = program.until_best(at, new);
                    assert!(took <= 20, "{old:?} to {new:?} at {at}: {took} nurseries");
                }
            }
        }
    }
}

#[test]
fn a_change_after_one_that_taught_nothing_is_noticed_too() {
    for new in [Mode::Window, Mode::Concurrent, Mode::NonTemporal] {
        let mut program = Program::new(costs(Mode::Bulk, 120));
        program.phases.push((50, 60_000, costs(Mode::Bulk, 120)));
        program.phases.push((150, 100_000, costs(new, 120)));
        let took = program.until_best(150, new);
        assert!(took <= 20, "{new:?}: {took} nurseries");
    }
}

#[test]
fn what_won_once_waits_until_all_were_tried() {
    let (modes, trials) = Program::new(costs(Mode::Window, 50)).run(12);
    for mode in DESIGNS {
        assert!(modes[..10].contains(&mode), "{mode:?}: {modes:?}");
    }
    assert_eq!(trials.best, Mode::Window);
}

#[test]
fn one_lucky_nursery_is_not_enough() {
    let mut lucky = costs(Mode::Window, 60);
    let mut program = Program::new([1000; 5]);
    program.phases.push((2, 100_000, lucky));
    program.phases.push((3, 100_000, [1000; 5]));
    for end in 0..200 {
        assert_eq!(program.run(end).1.best, Mode::HotPath, "after {end}");
    }
    // Unless it is very lucky; then the one before has its trial soon.
    lucky[place(Mode::Window)] = 860;
    program.phases[1].2 = lucky;
    program.phases[2].2[place(Mode::Window)] = 1060;
    assert_eq!(program.run(4).1.best, Mode::Window);
    let took = program.until_best(4, Mode::HotPath);
    assert!(took <= 14, "{took} nurseries");
}

/// Nothing shows such a change but the trials themselves: they never end, and are never further apart than told.
#[test]
fn a_change_that_the_best_design_does_not_notice_is_found_by_its_trials() {
    for new in [Mode::Window, Mode::Bulk, Mode::NonTemporal] {
        let mut program = Program::new([1000, 1030, 1030, 1030, 1030]);
        program.phases.push((300, 100_000, costs(new, 120)));
        let took = program.until_best(300, new);
        assert!(
            took <= 2 * LONGEST_INTERVAL as usize,
            "{new:?}: {took} nurseries"
        );
    }
}

#[test]
fn chance_never_makes_it_settle_in_a_worse_design() {
    let mut wrong = 0;
    for seed in 0..300 {
        for noise in [30, 80] {
            let best = DESIGNS[seed as usize % 5];
            let program = Program {
                noise,
                seed,
                ..Program::new(costs(best, 100))
            };
            let (modes, _) = program.run(600);
            // Not in the worse ones for long: the better one has most of the nurseries.
            let used = modes[100..].iter().filter(|&&mode| mode == best).count();
            wrong += usize::from(used < 400);
        }
    }
    assert!(wrong <= 6, "{wrong} of 600");
}

#[test]
fn what_costs_the_same_is_not_paid_for() {
    for seed in 0..100 {
        let program = Program {
            noise: 80,
            seed,
            ..Program::new([1000, 1010, 1200, 1300, 1400])
        };
        let (modes, _) = program.run(1000);
        let cost: u64 = modes
            .iter()
            .map(|&mode| program.phases[0].2[place(mode)])
            .sum();
        assert!(cost < 1_030_000, "{seed}: {cost}");
    }
}

#[test]
fn memory_that_is_fresh_from_the_system_says_nothing() {
    let mut trials = Trials::default();
    let (used, decision) = run(&mut trials, 100, |_, mode| Nursery {
        fresh: 5 << 20,
        ..nursery(mode, 100)
    });
    assert_eq!(used[0], 100);
    assert_eq!(
        decision.reason,
        "hot-path: memory was fresh from the system"
    );
}

#[test]
fn a_program_that_changes_its_pace_is_not_mistaken_for_a_faster_design() {
    let mut trials = Trials::default();
    run(&mut trials, 3000, |number, mode| {
        let pace = if number / 40 % 2 == 0 { 100 } else { 60 };
        nursery(mode, pace + u64::from(mode != Mode::HotPath))
    });
    assert_eq!(trials.best, Mode::HotPath);
}

#[test]
fn concurrent_zeroing_is_left_at_once_when_mutators_wait_or_need_the_processor() {
    for (stalled_ns, active, contended, why) in [
        (200, 1, false, "mutators waited"),
        (0, 2, false, "as many"),
        (0, 1, true, "others wait"),
    ] {
        let mut trials = Trials {
            best: Mode::Concurrent,
            ..Trials::default()
        };
        let mut found = nursery(Mode::Concurrent, 100);
        (found.stalled_ns, found.active, found.contended) = (stalled_ns, active, contended);
        let decision;
        (trials, decision) = next(trials, &found);
        assert_eq!(decision.mode, Mode::HotPath);
        assert!(decision.reason.starts_with("hot-path: "));
        assert!(decision.reason.contains(why), "{decision:?}");
        found.mode = Mode::HotPath;
        found.active = if contended { 1 } else { 2 };
        let (used, _) = run(&mut trials, 500, |_, mode| Nursery { mode, ..found });
        assert_eq!(used[3], 0, "none is left to zero: {used:?}");
    }
}

#[test]
fn a_trial_on_a_nursery_that_was_hardly_used_is_made_again() {
    let mut trials = Trials::default();
    let (_, decision) = run(&mut trials, 1, |_, mode| nursery(mode, 100));
    assert_eq!(decision.mode, Mode::Window);
    let short = Nursery {
        allocated: 1000,
        ..nursery(Mode::Window, 10)
    };
    let decision;
    (trials, decision) = next(trials, &short);
    assert_eq!(decision.mode, Mode::HotPath);
    let (_, decision) = next(trials, &nursery(Mode::HotPath, 90));
    assert_eq!(decision.mode, Mode::Window);
}

#[test]
fn stores_past_the_caches_are_not_tried_where_eden_lies_in_them() {
    for (block_ns, tried) in [(20_000, false), (60_000, true), (0, true)] {
        let mut trials = Trials::default();
        let (used, _) = run(&mut trials, 1000, |_, mode| Nursery {
            block_ns: if mode == Mode::Bulk { block_ns } else { 0 },
            past_ns: 40_000,
            ..nursery(mode, 100)
        });
        assert!(used[2] > 0, "blocks are tried: {used:?}");
        assert_eq!(used[4] > 0, tried, "{block_ns}: {used:?}");
    }
}

#[test]
fn a_kernel_must_be_clearly_faster_and_of_the_same_kind() {
    let measured = |vector, movntdq| {
        [
            (Kernel::Memset, 1000),
            (Kernel::Vector, vector),
            (Kernel::Movnti, 500),
            (Kernel::Movntdq, movntdq),
        ]
    };
    assert_eq!(fastest(Kernel::Memset, &measured(900, 1)), Kernel::Memset);
    assert_eq!(fastest(Kernel::Memset, &measured(800, 1)), Kernel::Vector);
    assert_eq!(fastest(Kernel::Movntdq, &measured(1, 550)), Kernel::Movntdq);
    assert_eq!(fastest(Kernel::Movntdq, &measured(1, 600)), Kernel::Movnti);
    assert_eq!(fastest(Kernel::Memset, &[]), Kernel::Memset);
}

#[test]
fn little_allocation_decides_nothing() {
    let mut trials = Trials::default();
    let (used, _) = run(&mut trials, 100, |_, mode| Nursery {
        allocated: 1000,
        ..nursery(mode, 100)
    });
    assert_eq!(used[0], 100);
    assert_eq!(trials, Trials::default());
}
