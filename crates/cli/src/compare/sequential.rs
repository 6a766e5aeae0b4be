//! When to look, and what an interval decides.
//!
//! A comparison that looked after each round, and stopped at the first interval at 95 % that decides, would be wrong far more
//! often than in 5 % of all cases. So there are at most [`LOOKS`] looks, after numbers of rounds that are fixed beforehand, each half as many
//! again; and each look takes an interval at 1 - 0.05 / [`LOOKS`]. Whatever the looks have in common, the true ratio is
//! then outside of any of their intervals in at most 5 % of the comparisons (Bonferroni's inequality). The first look comes
//! after five rounds: on a machine with two speeds, fewer rounds often agree by chance, and Student's interval believes them.
//! The end of the budget, or an interrupt, takes the place of the look that would have come next.

use super::statistics::Estimate;

/// Sides within this of each other are the same.
pub(super) const SAME: f64 = 1.02;
/// How often a comparison may be wrong.
const ERROR: f64 = 0.05;
/// Looks at most.
const LOOKS: usize = 12;
/// Rounds before the first look.
pub(super) const FIRST_LOOK: usize = 5;
/// Fewer rounds decide nothing, even where there is no time for more.
pub(super) const LEAST_ROUNDS: usize = 3;
/// Fewer rounds do not say how many would decide: what is known of their spread is off by a factor of several.
pub(super) const LEAST_TO_ESTIMATE: usize = 4;

/// What an interval says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Faster,
    Slower,
    /// Within [`SAME`].
    Same,
    Undecided,
}

impl Verdict {
    /// Of the ratio of a side's time to the baseline's.
    pub(super) fn of(ratio: &Estimate) -> Verdict {
        if ratio.rounds < LEAST_ROUNDS {
            Verdict::Undecided
        } else if ratio.low > 1.0 / SAME && ratio.high < SAME {
            Verdict::Same
        } else if ratio.high < 1.0 {
            Verdict::Faster
        } else if ratio.low > 1.0 {
            Verdict::Slower
        } else {
            Verdict::Undecided
        }
    }
}

/// When the rounds are looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Looks {
    /// After so many rounds for the first time, then at growing distances, until they decide.
    UntilDecided { first: usize },
    /// Once, after so many rounds.
    Once { rounds: usize },
}

impl Looks {
    /// The numbers of rounds.
    fn numbers(self) -> impl Iterator<Item = usize> {
        let (first, count) = match self {
            Looks::UntilDecided { first } => (first, LOOKS),
            Looks::Once { rounds } => (rounds, 1),
        };
        std::iter::successors(Some(first), |rounds| Some((rounds * 3).div_ceil(2))).take(count)
    }

    /// Whether there is a look after so many rounds.
    pub(super) fn are_due(self, rounds: usize) -> bool {
        self.numbers().any(|number| number == rounds)
    }

    /// After how many rounds the last look is.
    pub(super) fn last(self) -> usize {
        self.numbers().last().unwrap_or(0)
    }

    /// Of the interval of each look.
    pub(super) fn confidence(self) -> f64 {
        1.0 - ERROR / self.numbers().count() as f64
    }
}

#[cfg(test)]
mod tests;
