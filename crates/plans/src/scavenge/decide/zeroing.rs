//! How fresh memory of eden is zeroed until the next collection: the paper's adaptive rule (OOPSLA 2011, section 6.3),
//! and `auto`, which tries designs on one nursery and keeps what makes the program faster.
//!
//! What zeroing costs by itself picks wrongly: zeroing a block early is fast, and the program pays later for what it
//! drove out of the caches. So `auto` compares the time of the mutators for each byte that they allocate: a nursery
//! under another design with the nurseries before and after it. It begins with zeroing each object, which is hard to
//! beat, tries each other design once at once, and repeats what won. Then a design is tried the more seldom the more
//! often it lost. When the program changes, which the cost of the best design shows, all begins again.
//!
//! What cannot win is not tried. Zeroing threads cannot where no processor is left for them, by this program's threads
//! or by others. Stores that pass the caches by cannot where a nursery zeroed by blocks was zeroed faster than that,
//! since it lay in the caches. Nor does a nursery count of which much is fresh from the system: nobody zeroed that.
//!
//! # Invariants
//! - The best design is one that won against the best one before it, in the mean of its trials, or the first one.
//! - A trial whose neighbours differ by more than `CHANGES` is no evidence.

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
    /// Each buffer as it is taken, with stores that pass the caches by.
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
    /// How many of them were fresh from the system.
    pub fresh: usize,
    /// Mutators that allocated.
    pub active: usize,
    /// Processors that the process may use.
    pub processors: usize,
    /// Whether other threads of the machine, or of its host, waited for processors lately.
    pub contended: bool,
    /// How long mutators took to zero a MB of blocks, in nanoseconds; 0 when they zeroed none.
    pub block_ns: u64,
    /// How long that takes with stores that pass the caches by, as measured once; 0 when it was not measured.
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
/// How many nurseries are between two trials of a design at first; each lost trial doubles the number.
const FIRST_INTERVAL: u32 = 8;
/// How many at most, while the design lost by little, or no trial of it ever counted.
const LONGEST_INTERVAL: u32 = 64;
/// How many at most when it lost by more than [`FAR`].
const LONGEST_INTERVAL_FAR: u32 = 256;
/// A new best design is compared with the one before it after this many nurseries.
const SECOND_THOUGHT: u32 = 3;
/// A design is better if it takes less than this many thousandths of the best one's time in the mean of some trials.
const WINS: u64 = 970;
/// It is better, too, if it takes less than this many thousandths in a single trial.
const WINS_AT_ONCE: u64 = 880;
/// It has lost for long if it takes more than this many thousandths.
const FAR: u64 = 1080;
/// How many trials make the mean; older ones count less.
const REMEMBERED: u64 = 4;
/// The program has changed when the best design's cost did, by one part in this many.
const CHANGES: u64 = 4;
/// For how many nurseries in a row the cost must have changed.
const CHANGED: u32 = 2;
/// A smaller nursery says nothing.
const LEAST_ALLOCATED: usize = 256 << 10;

/// What is known of a design beside the best one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Evidence {
    /// Trials since the program changed, up to [`REMEMBERED`].
    trials: u64,
    /// What it takes of the best one's time, in thousandths: the mean of the trials.
    ratio: u64,
    /// Nurseries until the next trial.
    wait: u32,
    /// What that was when it began.
    interval: u32,
}

impl Evidence {
    const NONE: Evidence = Evidence {
        trials: 0,
        ratio: 1000,
        wait: 0,
        interval: FIRST_INTERVAL / 2,
    };

    /// Adds a trial.
    fn add(&mut self, ratio: u64) {
        let before = self.trials.min(REMEMBERED - 1);
        self.ratio = (self.ratio * before + ratio) / (before + 1);
        self.trials = before + 1;
    }

    fn has_won(&self) -> bool {
        match self.trials {
            0 => false,
            1 => self.ratio < WINS_AT_ONCE,
            _ => self.ratio < WINS,
        }
    }

    /// Whether one more trial may make it the best.
    fn is_promising(&self) -> bool {
        self.trials > 0 && self.ratio < WINS
    }

    /// A trial was lost, or told nothing.
    fn wait_longer(&mut self) {
        let longest = if self.trials > 0 && self.ratio > FAR {
            LONGEST_INTERVAL_FAR
        } else {
            LONGEST_INTERVAL
        };
        self.interval = (2 * self.interval).clamp(FIRST_INTERVAL, longest);
        self.wait = self.interval;
    }
}

/// Where `auto` is in its trials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trials {
    best: Mode,
    /// By the designs' places; that of the best one is not used.
    evidence: [Evidence; DESIGNS.len()],
    /// What a MB costs under the best design: a moving average, in nanoseconds; 0 when there was none yet.
    usual: u64,
    /// Nurseries in a row that cost something else.
    unusual: u32,
    /// Nurseries until a change of the program counts again, and how many those are: a program that changes all the
    /// time is not one in which anything is learnt anew each time.
    calm: u32,
    calm_interval: u32,
    /// Whether eden was zeroed faster than past the caches when last it was zeroed by blocks.
    in_caches: bool,
    step: Step,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The nursery that was just used up had the best design.
    Best,
    /// It had the candidate; the nursery before it cost `before`.
    Tries { candidate: usize, before: u64 },
    /// It had the best design again.
    Compares {
        candidate: usize,
        before: u64,
        tried: u64,
    },
}

impl Default for Trials {
    fn default() -> Trials {
        Trials {
            best: Mode::HotPath,
            evidence: [Evidence::NONE; DESIGNS.len()],
            usual: 0,
            unusual: 0,
            calm: 0,
            calm_interval: FIRST_INTERVAL,
            in_caches: false,
            step: Step::Best,
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
        trials.leave_concurrent(None);
        return (trials, trials.why_not_concurrent(found));
    }
    if found.mode == Mode::Concurrent && 20 * found.stalled_ns > found.mutator_ns {
        // What waiting costs beside the processor that it takes is not known: so much that it is not tried soon.
        trials.leave_concurrent(Some(2 * FAR));
        let decision = decision!(trials.best, "mutators waited for the zeroing thread");
        return (trials, decision);
    }
    if found.allocated < LEAST_ALLOCATED || 8 * found.fresh > found.allocated {
        // A trial is made again.
        trials.step = Step::Best;
        let decision = if found.allocated < LEAST_ALLOCATED {
            decision!(trials.best, "too little was allocated to compare")
        } else {
            decision!(trials.best, "memory was fresh from the system")
        };
        return (trials, decision);
    }
    let cost = (u128::from(found.mutator_ns) << 20) / found.allocated as u128;
    let cost = (cost as u64).max(1);
    trials.count_down();
    match trials.step {
        Step::Tries { candidate, before } if found.mode == DESIGNS[candidate] => {
            trials.step = Step::Compares {
                candidate,
                before,
                tried: cost,
            };
            (trials, decision!(trials.best, "to compare with a trial"))
        }
        Step::Compares {
            candidate,
            before,
            tried,
        } => trials.compare(candidate, before, tried, cost, found),
        _ => trials.go_on(cost, found, None),
    }
}

impl Nursery {
    /// Whether a zeroing thread has a processor to itself.
    fn has_processor_left(&self) -> bool {
        self.active < self.processors && !self.contended
    }
}

/// Whether two costs differ by more than [`CHANGES`] allows.
fn differs(one: u64, other: u64) -> bool {
    one.abs_diff(other) * CHANGES > one.max(other)
}

fn place(mode: Mode) -> usize {
    DESIGNS.iter().position(|&one| one == mode).unwrap_or(0)
}

impl Trials {
    fn count_down(&mut self) {
        self.calm = self.calm.saturating_sub(1);
        for one in &mut self.evidence {
            one.wait = one.wait.saturating_sub(1);
        }
    }

    /// Back to what needs no other thread, and is the best of that as far as is known.
    fn leave_concurrent(&mut self, ratio: Option<u64>) {
        let concurrent = place(Mode::Concurrent);
        if self.best == Mode::Concurrent {
            let known = (0..DESIGNS.len()).filter(|&one| one != concurrent);
            let second = known.min_by_key(|&one| {
                let evidence = &self.evidence[one];
                (evidence.trials == 0, evidence.ratio)
            });
            self.become_best(second.unwrap_or(0));
        }
        let evidence = &mut self.evidence[concurrent];
        if let Some(ratio) = ratio {
            evidence.add(ratio);
        }
        evidence.wait_longer();
        self.step = Step::Best;
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

    /// Whether a design may win.
    fn is_worth_it(&self, candidate: usize, found: &Nursery) -> bool {
        match DESIGNS[candidate] {
            mode if mode == self.best => false,
            Mode::Concurrent => found.has_processor_left(),
            Mode::NonTemporal => !self.in_caches,
            _ => true,
        }
    }

    /// What is tried next: what was never tried first, in the order of [`DESIGNS`], then what was the fastest.
    fn candidate(&self, found: &Nursery) -> Option<usize> {
        (0..DESIGNS.len())
            .filter(|&one| self.evidence[one].wait == 0 && self.is_worth_it(one, found))
            .min_by_key(|&one| {
                let evidence = &self.evidence[one];
                (evidence.trials > 0, evidence.ratio)
            })
    }

    /// After a nursery under the best design, which is the neighbour of a trial, if one is due.
    fn go_on(mut self, cost: u64, found: &Nursery, said: Option<Decision>) -> (Trials, Decision) {
        self.step = Step::Best;
        if self.has_changed(cost) {
            let calm_interval = (2 * self.calm_interval).min(LONGEST_INTERVAL_FAR);
            self = Trials {
                best: self.best,
                usual: cost,
                calm: calm_interval,
                calm_interval,
                in_caches: false,
                ..Trials::default()
            };
            return (self, decision!(self.best, "the program has changed"));
        }
        if let Some(decision) = said {
            return (self, decision);
        }
        let Some(candidate) = self.candidate(found) else {
            return (self, decision!(self.best, "the best design so far"));
        };
        let before = cost;
        self.step = Step::Tries { candidate, before };
        (self, decision!(DESIGNS[candidate], "a trial"))
    }

    /// Notes what the best design cost, and whether the program is another one by that.
    fn has_changed(&mut self, cost: u64) -> bool {
        if self.usual == 0 || !differs(self.usual, cost) {
            self.unusual = 0;
            self.usual = if self.usual == 0 {
                cost
            } else {
                (3 * self.usual + cost) / 4
            };
            return false;
        }
        self.unusual += 1;
        if self.unusual < CHANGED {
            return false;
        }
        self.unusual = 0;
        self.usual = cost;
        self.calm == 0
    }

    fn compare(
        mut self,
        candidate: usize,
        before: u64,
        tried: u64,
        after: u64,
        found: &Nursery,
    ) -> (Trials, Decision) {
        let evidence = &mut self.evidence[candidate];
        if differs(before, after) {
            evidence.wait_longer();
            let told = decision!(self.best, "the trial's neighbours differ");
            return self.go_on(after, found, Some(told));
        }
        evidence.add(2000 * tried / (before + after));
        if evidence.has_won() {
            self.become_best(candidate);
            self.usual = tried;
            self.step = Step::Best;
            return (self, decision!(self.best, "won its trials"));
        }
        if !evidence.is_promising() {
            evidence.wait_longer();
        }
        // This nursery is the neighbour of the next trial, too.
        self.go_on(after, found, None)
    }

    /// What was known in parts of the best design's time is now in parts of this one's. The one before is looked at
    /// again soon: what it took is compared with a few trials' mean.
    fn become_best(&mut self, candidate: usize) {
        let (before, ratio) = (place(self.best), self.evidence[candidate].ratio.max(1));
        self.best = DESIGNS[candidate];
        for one in &mut self.evidence {
            one.ratio = 1000 * one.ratio / ratio;
        }
        self.evidence[before] = Evidence {
            ratio: 1_000_000 / ratio,
            wait: SECOND_THOUGHT,
            ..Evidence::NONE
        };
        self.evidence[candidate] = Evidence::NONE;
        self.calm_interval = FIRST_INTERVAL;
        self.calm = 0;
        self.unusual = 0;
        self.step = Step::Best;
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
