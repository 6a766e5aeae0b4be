//! What a comparison has measured, and what follows from that: the numbers that sentences, table and JSON have in common.

use std::collections::BTreeSet;

use super::pauses::Pauses;
use super::process::{Digest, Run};
use super::sequential::{LEAST_ROUNDS, Looks, Verdict};
use super::side::Side;
use super::statistics::{Estimate, median, paired_ratio, span};

/// A number for each side: for the one that is asked about, and for the baseline.
pub(super) type Both<T> = [T; 2];

/// The places of the two.
pub(super) const OWN: usize = 0;
/// See [`OWN`].
pub(super) const BASELINE: usize = 1;

/// The numbers of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Figures {
    /// Seconds from start to end.
    pub(super) wall: f64,
    /// Seconds of processor time.
    pub(super) cpu: f64,
    /// Bytes of peak memory.
    pub(super) peak: u64,
}

impl From<&Run> for Figures {
    fn from(run: &Run) -> Figures {
        Figures {
            wall: run.wall,
            cpu: run.used.cpu(),
            peak: run.used.peak_bytes,
        }
    }
}

/// Why no further round was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    /// A look decided, or the only look was taken.
    Looked,
    /// There was no time for another round.
    Budget,
    /// The user did not want to wait.
    Interrupted,
}

/// What was measured.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) sides: Both<Side>,
    pub(super) looks: Looks,
    pub(super) rounds: Vec<Both<Figures>>,
    /// Of one run of each that was not timed, if its log tells.
    pub(super) pauses: Both<Option<Pauses>>,
    /// All that were seen.
    pub(super) outputs: Both<BTreeSet<Digest>>,
    pub(super) ending: Ending,
    /// Bytes: the kernel counts the memory of this process before it becomes the program, so no peak is below.
    pub(super) floor: u64,
    /// Seconds that a round takes, all in all.
    pub(super) round_takes: f64,
}

/// One quantity of both sides.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Quantity {
    /// Medians over the rounds.
    pub(super) medians: Both<f64>,
    pub(super) ratio: Option<Estimate>,
}

/// Whether both sides computed the same, as far as their outputs tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outputs {
    Same,
    /// Each side always wrote the same, and the other something else.
    Differ,
    /// A side wrote something else from run to run.
    Vary,
}

impl Found {
    /// The series of one quantity, for each side.
    pub(super) fn series(&self, of: impl Fn(&Figures) -> f64) -> Both<Vec<f64>> {
        [0, 1].map(|side| self.rounds.iter().map(|round| of(&round[side])).collect())
    }

    /// One quantity; nothing if there was no round.
    pub(super) fn quantity(&self, of: impl Fn(&Figures) -> f64) -> Option<Quantity> {
        let [mut own, mut baseline] = self.series(of);
        if own.is_empty() {
            return None;
        }
        let ratio = paired_ratio(&own, &baseline, self.looks.confidence());
        Some(Quantity {
            medians: [median(&mut own), median(&mut baseline)],
            ratio: ratio.map(Estimate::shown),
        })
    }

    /// Wall time.
    pub(super) fn time(&self) -> Option<Quantity> {
        self.quantity(|run| run.wall)
    }

    /// Peak memory, if it is more than that of this command on both sides.
    pub(super) fn memory(&self) -> Option<Quantity> {
        self.quantity(|run| run.peak as f64)
            .filter(|memory| memory.medians.iter().all(|&peak| peak > self.floor as f64))
    }

    /// What the rounds so far decide.
    pub(super) fn verdict(&self) -> Verdict {
        let ratio = self.time().and_then(|time| time.ratio);
        ratio.map_or(Verdict::Undecided, |ratio| Verdict::of(&ratio))
    }

    /// The ends of what the baseline takes of its own time, from one round to the next, with the digits that are shown.
    pub(super) fn noise(&self) -> Option<(f64, f64)> {
        let [_, baseline] = self.series(|run| run.wall);
        // One pair of runs tells nothing of how far others are apart.
        if baseline.len() < LEAST_ROUNDS {
            return None;
        }
        let pairs = baseline.windows(2);
        let mut ratios: Vec<f64> = pairs.map(|pair| pair[1] / pair[0]).collect();
        let (low, high) = span(&mut ratios)?;
        Some(((low * 100.0).floor() / 100.0, (high * 100.0).ceil() / 100.0))
    }

    /// The longest pause of each side, in nanoseconds, if both are known.
    pub(super) fn longest_pauses(&self) -> Option<Both<u64>> {
        match &self.pauses {
            [Some(own), Some(baseline)] => Some([own.longest, baseline.longest]),
            _ => None,
        }
    }

    pub(super) fn output(&self) -> Outputs {
        let [own, baseline] = &self.outputs;
        match own.len().max(baseline.len()) {
            // Interrupted before both have run.
            ..2 if own == baseline || own.is_empty() || baseline.is_empty() => Outputs::Same,
            ..2 => Outputs::Differ,
            _ => Outputs::Vary,
        }
    }
}
