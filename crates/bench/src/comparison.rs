//! The measurements of one client on both sides, and what they say.

use serde::Serialize;

use crate::process::Outcome;
use crate::statistics::{Ratio, median, paired_ratio};
use crate::trial::Collections;

/// One measured run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of user and system time.
    pub cpu: f64,
    /// Greatest resident memory in KB.
    pub peak_kb: f64,
}

impl From<Outcome> for Sample {
    fn from(outcome: Outcome) -> Sample {
        Sample {
            wall: outcome.wall,
            cpu: outcome.cpu,
            peak_kb: outcome.peak_kb as f64,
        }
    }
}

/// What of a sample is looked at.
pub type Measure = fn(&Sample) -> f64;

/// Each measure and its name.
pub const MEASURES: [(&str, Measure); 3] = [
    ("wall", |sample| sample.wall),
    ("cpu", |sample| sample.cpu),
    ("peak", |sample| sample.peak_kb),
];

/// All rounds of one client: `a`, `b` and the control `a2` of a round were run one after another, in random order.
#[derive(Serialize)]
pub struct Comparison {
    /// The client.
    pub client: String,
    /// Runs of side A.
    pub a: Vec<Sample>,
    /// Runs of side B.
    pub b: Vec<Sample>,
    /// The second runs of side A.
    pub a2: Vec<Sample>,
    /// Collections of A, from a run of its own that is not measured.
    pub collections_a: Collections,
    /// Collections of B, likewise.
    pub collections_b: Collections,
    /// What was set for B beside the command line, by calibration.
    pub settings_b: Vec<String>,
}

impl Comparison {
    /// The paired ratio B/A.
    pub fn ratio(&self, measure: Measure) -> Ratio {
        paired_ratio(&pick(&self.b, measure), &pick(&self.a, measure))
    }

    /// The paired ratio of the control.
    pub fn control(&self, measure: Measure) -> Ratio {
        paired_ratio(&pick(&self.a2, measure), &pick(&self.a, measure))
    }
}

/// One measure of all samples.
pub fn pick(samples: &[Sample], measure: Measure) -> Vec<f64> {
    samples.iter().map(measure).collect()
}

/// The median of one measure.
pub fn middle(samples: &[Sample], measure: Measure) -> f64 {
    median(&pick(samples, measure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs() {
        let samples = |walls: [f64; 2]| {
            walls
                .map(|wall| Sample {
                    wall,
                    cpu: 1.0,
                    peak_kb: 1.0,
                })
                .to_vec()
        };
        let comparison = Comparison {
            client: "x".into(),
            a: samples([1.0, 10.0]),
            b: samples([2.0, 20.0]),
            a2: samples([1.0, 10.0]),
            collections_a: Collections::default(),
            collections_b: Collections::default(),
            settings_b: vec![],
        };
        let wall = MEASURES[0].1;
        assert!((comparison.ratio(wall).median - 2.0).abs() < 1e-12);
        assert!((comparison.ratio(wall).high - 2.0).abs() < 1e-9);
        assert!((comparison.control(wall).median - 1.0).abs() < 1e-12);
        assert_eq!(middle(&comparison.b, wall), 11.0);
    }
}
