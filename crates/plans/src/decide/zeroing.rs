//! How fresh memory of eden is zeroed until the next collection: the paper's adaptive rule (OOPSLA 2011, section 6.3),
//! and `auto`, which tries designs on one nursery and keeps what makes the program faster.
//!
//! What zeroing costs by itself picks wrongly: zeroing a block early is fast, and the program pays later for what it
//! drove out of the caches. So `auto` compares the time of the mutators for each byte that they allocate: a nursery under
//! another design with the nurseries before and after it. It begins with zeroing each object, which is hard to beat, and
//! tries less and less often as long as nothing wins. What cannot win is not tried: zeroing threads where no processor is
//! left for them, by this program's threads or by others; stores that pass the caches by where a nursery zeroed by
//! blocks was zeroed faster than that, since it lay in them.

use gleaner_mem::zero::Kernel;

/// How fresh memory is zeroed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Each object as it is allocated.
    HotPath,
    /// A window ahead of the object that is allocated.
    Window,
    /// Each buffer as it is taken.
    Bulk,
    /// The same with stores that pass the caches by.
    NonTemporal,
    /// By threads of their own.
    Concurrent,
}

/// A nursery from one collection to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nursery {
    /// How its memory was zeroed.
    pub mode: Mode,
    /// How long the mutators ran, in nanoseconds.
    pub mutator_ns: u64,
    /// How long mutators waited for zeroing threads, all together.
    pub stalled_ns: u64,
    /// Bytes that they allocated.
    pub allocated: usize,
    /// Mutators that allocated.
    pub active: usize,
    /// Processors that the process may use.
    pub processors: usize,
    /// Whether other threads of the machine, or of its host, waited for processors lately.
    pub contended: bool,
    /// How long mutators took to zero a MB of blocks, in nanoseconds; 0 when they zeroed none.
    pub block_ns: u64,
    /// The same for stores that pass the caches by, as measured once; 0 when they were not.
    pub past_ns: u64,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// How fresh memory is zeroed until the next collection.
    pub mode: Mode,
    /// The design's name, and why it was chosen.
    pub reason: &'static str,
}

/// A decision with the design's name before the reason.
macro_rules! decision {
    ($mode:expr, $why:literal) => {{
        let mode = $mode;
        let reason = match mode {
            Mode::HotPath => concat!("hot-path: ", $why),
            Mode::Window => concat!("window: ", $why),
            Mode::Bulk => concat!("bulk: ", $why),
            Mode::NonTemporal => concat!("non-temporal: ", $why),
            Mode::Concurrent => concat!("concurrent: ", $why),
        };
        Decision { mode, reason }
    }};
}

/// A design that the options fix.
pub fn fixed(mode: Mode) -> Decision {
    decision!(mode, "asked for")
}

/// The paper's rule.
pub fn adaptive(active: usize, processors: usize) -> Decision {
    if active < processors {
        decision!(Mode::Concurrent, "fewer mutators than processors")
    } else {
        decision!(Mode::NonTemporal, "as many mutators as processors")
    }
}

/// The fastest of the kernels that were measured, each with how long it took, unless the usual one is almost as fast.
pub fn fastest(usual: Kernel, measured: &[(Kernel, u64)]) -> Kernel {
    let took = |kernel| measured.iter().find(|one| one.0 == kernel).map(|one| one.1);
    let best = measured
        .iter()
        .filter(|one| one.0.is_temporal() == usual.is_temporal())
        .min_by_key(|one| one.1);
    match (best, took(usual)) {
        (Some(&(best, least)), Some(usually)) if 8 * least < 7 * usually => best,
        _ => usual,
    }
}

/// What `auto` tries, in this order, beside what it holds to be best: those first with which little can be lost.
const DESIGNS: [Mode; 5] = [
    Mode::HotPath,
    Mode::Window,
    Mode::Bulk,
    Mode::Concurrent,
    Mode::NonTemporal,
];
/// So many nurseries pass before the first trial.
const FIRST_INTERVAL: u32 = 10;
/// And so many at most between two.
const LONGEST_INTERVAL: u32 = 192;
/// A design that wins so many trials in a row is the best one.
const TRIALS: u32 = 3;
/// It wins a trial if it takes less than so many thousandths of the time of its neighbours.
const WINS: u128 = 970;
/// A smaller nursery says nothing.
const LEAST_ALLOCATED: usize = 256 << 10;

/// Where `auto` is in its trials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trials {
    best: Mode,
    /// The place of the design that is tried next, or now.
    candidate: usize,
    interval: u32,
    won: u32,
    /// Whether eden was zeroed faster than past the caches when last it was zeroed by blocks.
    in_caches: bool,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// So many nurseries until the next trial.
    Waits(u32),
    /// The nursery that was just used up had the candidate; the one before took so many nanoseconds a MB.
    Tries { before: u128 },
    /// It had the best design again.
    Compares { before: u128, tried: u128 },
}

impl Default for Trials {
    fn default() -> Trials {
        Trials {
            best: Mode::HotPath,
            candidate: 1,
            interval: FIRST_INTERVAL,
            won: 0,
            in_caches: false,
            step: Step::Waits(FIRST_INTERVAL),
        }
    }
}

/// Goes on with the trials after a nursery.
pub fn next(trials: Trials, found: &Nursery) -> (Trials, Decision) {
    let mut trials = trials;
    if found.mode == Mode::Bulk && found.block_ns > 0 && found.past_ns > 0 {
        trials.in_caches = found.block_ns < found.past_ns;
    }
    if found.mode == Mode::Concurrent && !found.has_processor_left() {
        let left = trials.leave_concurrent();
        return (left, left.why_not_concurrent(found));
    }
    if found.mode == Mode::Concurrent && 20 * found.stalled_ns > found.mutator_ns {
        let left = trials.leave_concurrent();
        let decision = decision!(left.best, "mutators waited for the zeroing thread");
        return (left, decision);
    }
    if found.allocated < LEAST_ALLOCATED {
        let decision = decision!(trials.best, "too little was allocated to compare");
        return (trials, decision);
    }
    let cost = (u128::from(found.mutator_ns) << 20) / found.allocated as u128;
    match trials.step {
        Step::Tries { before } if found.mode != DESIGNS[trials.candidate] => {
            trials.try_candidate(before, found)
        }
        Step::Waits(0) => trials.try_candidate(cost, found),
        Step::Waits(left) => {
            trials.step = Step::Waits(left - 1);
            (trials, decision!(trials.best, "the best design so far"))
        }
        Step::Tries { before } => {
            let tried = cost;
            trials.step = Step::Compares { before, tried };
            (trials, decision!(trials.best, "to compare with a trial"))
        }
        Step::Compares { before, tried } => trials.compare(before, tried, cost, found),
    }
}

impl Nursery {
    /// Whether a zeroing thread has a processor to itself.
    fn has_processor_left(&self) -> bool {
        self.active < self.processors && !self.contended
    }
}

impl Trials {
    fn wait(&mut self) {
        self.won = 0;
        self.step = Step::Waits(self.interval);
    }

    /// Back to what needs no other thread.
    fn leave_concurrent(mut self) -> Trials {
        if self.best == Mode::Concurrent {
            self.best = Mode::HotPath;
            self.interval = FIRST_INTERVAL;
        }
        self.skip();
        self.wait();
        self
    }

    fn why_not_concurrent(&self, found: &Nursery) -> Decision {
        if found.contended {
            decision!(self.best, "others wait for the processors")
        } else {
            decision!(
                self.best,
                "as many mutators as processors: none is left to zero"
            )
        }
    }

    fn skip(&mut self) {
        self.won = 0;
        self.candidate = (self.candidate + 1) % DESIGNS.len();
    }

    /// Whether the candidate may win.
    fn is_candidate_worth_it(&self, found: &Nursery) -> bool {
        match DESIGNS[self.candidate] {
            mode if mode == self.best => false,
            Mode::Concurrent => found.has_processor_left(),
            Mode::NonTemporal => !self.in_caches,
            _ => true,
        }
    }

    fn try_candidate(mut self, before: u128, found: &Nursery) -> (Trials, Decision) {
        while !self.is_candidate_worth_it(found) {
            self.skip();
        }
        self.step = Step::Tries { before };
        (self, decision!(DESIGNS[self.candidate], "a trial"))
    }

    fn compare(
        mut self,
        before: u128,
        tried: u128,
        after: u128,
        found: &Nursery,
    ) -> (Trials, Decision) {
        // Against twice the mean of the neighbours.
        if 2000 * tried >= WINS * (before + after) {
            self.skip();
            self.interval = (2 * self.interval).min(LONGEST_INTERVAL);
            self.wait();
            return (self, decision!(self.best, "the trial was no faster"));
        }
        self.won += 1;
        if self.won < TRIALS {
            return self.try_candidate(after, found);
        }
        self.best = DESIGNS[self.candidate];
        self.interval = FIRST_INTERVAL;
        self.wait();
        (self, decision!(self.best, "won its trials"))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn nursery(mode: Mode, ns_per_mb: u64) -> Nursery {
        Nursery {
            mode,
            mutator_ns: 32 * ns_per_mb,
            stalled_ns: 0,
            allocated: 32 << 20,
            active: 1,
            processors: 2,
            contended: false,
            block_ns: 0,
            past_ns: 0,
        }
    }

    /// Runs so many nurseries that cost what `cost` says. How many there were of each design, and the last decision.
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
            used[DESIGNS.iter().position(|&one| one == mode).unwrap()] += 1;
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
            used[0] > 985 && used.iter().all(|&count| count > 0),
            "{used:?}"
        );
    }

    #[test]
    fn a_faster_design_is_found_whichever_it_is() {
        for best in DESIGNS {
            let mut trials = Trials::default();
            let (_, decision) = run(&mut trials, 2000, |_, mode| {
                nursery(mode, if mode == best { 90 } else { 100 })
            });
            assert_eq!(trials.best, best, "{decision:?}");
        }
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
        let (_, decision) = run(&mut trials, FIRST_INTERVAL as usize + 1, |_, mode| {
            nursery(mode, 100)
        });
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
}
