//! The ratio of two sides, by the lab's definition (`paired_ratio` in `lab/gleaner_lab/statistics.py`): each round ran
//! both sides, so the ratio is taken round by round. Its value is the median, and its interval is Student's t on the
//! logarithms: it is the same whichever side is on top, and its ends are never negative. The interval always holds the
//! value, so that no sentence contradicts another one.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// More rounds than anybody makes.
pub(super) const MOST_ROUNDS: usize = 10_000;

/// A ratio with the ends of its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    /// The median of the rounds' ratios.
    pub(super) value: f64,
    /// Lower end.
    pub(super) low: f64,
    /// Upper end; infinite if there is one round.
    pub(super) high: f64,
    /// Rounds that have a ratio.
    pub(super) rounds: usize,
}

impl Estimate {
    /// With the digits that are shown, and ends that are no nearer for it: a verdict is one on what the reader sees.
    pub(super) fn shown(self) -> Estimate {
        let digits = 1000.0;
        let outwards = |value: f64, round: fn(f64) -> f64| round(value * digits) / digits;
        Estimate {
            value: outwards(self.value, f64::round),
            low: outwards(self.low, f64::floor),
            high: outwards(self.high, f64::ceil),
            ..self
        }
    }
}

/// The ratio of two series of the same rounds, if any has one: rounds in which either is 0 tell none.
pub(super) fn paired_ratio(top: &[f64], bottom: &[f64], confidence: f64) -> Option<Estimate> {
    let mut logs = logarithms(top, bottom);
    if logs.is_empty() {
        return None;
    }
    let rounds = logs.len();
    let middle = mean(&logs);
    let margin = margin(deviation(&logs), rounds, confidence);
    let value = median(&mut logs).exp();
    Some(Estimate {
        value,
        low: value.min((middle - margin).exp()),
        high: value.max((middle + margin).exp()),
        rounds,
    })
}

/// Those of the rounds' ratios.
fn logarithms(top: &[f64], bottom: &[f64]) -> Vec<f64> {
    let pairs = top.iter().zip(bottom);
    pairs
        .filter(|&(&one, &other)| one > 0.0 && other > 0.0)
        .map(|(one, other)| (one / other).ln())
        .collect()
}

/// Half of Student's interval of a mean. Less than two values have none.
fn margin(deviation: f64, rounds: usize, confidence: f64) -> f64 {
    if rounds < 2 {
        return f64::INFINITY;
    }
    quantile(confidence, rounds) * deviation / (rounds as f64).sqrt()
}

fn quantile(confidence: f64, rounds: usize) -> f64 {
    StudentsT::new(0.0, 1.0, (rounds - 1) as f64).map_or(f64::INFINITY, |student| {
        student.inverse_cdf((1.0 + confidence) / 2.0)
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of a sample; 0 for less than two values.
fn deviation(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    (squares / (values.len().max(2) - 1) as f64).sqrt()
}

/// The middle of values, of which there is at least one.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let upper = values[values.len() / 2];
    let lower = values[(values.len() - 1) / 2];
    (lower + upper) / 2.0
}

/// The ends of what nine values in ten are between; of ten values or less, all are.
pub(super) fn span(values: &mut [f64]) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let left_out = (values.len().saturating_sub(1)) / 20;
    let kept = values.get(left_out..values.len() - left_out)?;
    Some((*kept.first()?, *kept.last()?))
}

/// In how many rounds the interval would no longer hold `bar`, or would lie within `bar` and its reciprocal, if its
/// middle and the spread stay; nothing if that takes more than [`MOST_ROUNDS`].
pub(super) fn rounds_to_decide(
    top: &[f64],
    bottom: &[f64],
    confidence: f64,
    bar: f64,
) -> Option<usize> {
    let logs = logarithms(top, bottom);
    if logs.len() < 2 {
        return None;
    }
    let middle = mean(&logs).abs();
    let deviation = deviation(&logs);
    let distance = middle.max(bar.ln() - middle);
    let decides = |rounds| margin(deviation, rounds, confidence) <= distance;
    if !decides(MOST_ROUNDS) {
        return None;
    }
    let (mut least, mut most) = (logs.len(), MOST_ROUNDS);
    while least < most {
        let middle = (least + most) / 2;
        if decides(middle) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    Some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of scipy 1.15, by the lab's `paired_ratio`.
    #[test]
    fn the_ratio_is_the_labs() {
        let (top, bottom) = ([0.5, 0.6, 0.55, 0.7], [1.0, 1.1, 1.3, 1.2]);
        let found = paired_ratio(&top, &bottom, 0.95).unwrap();
        let expected = (0.522_727_272_7, 0.408_355_203_6, 0.635_322_529_3);
        assert!((found.value - expected.0).abs() < 1e-2, "{found:?}");
        assert!((found.low - expected.1).abs() < 1e-6, "{found:?}");
        assert!((found.high - expected.2).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, rounds, expected) in [
            (0.95, 2, 12.7062),
            (0.95, 5, 2.7764),
            (0.95, 31, 2.0423),
            (0.99, 3, 9.9248),
            (0.999, 10, 4.7809),
        ] {
            let found = quantile(confidence, rounds);
            assert!((found - expected).abs() < 1e-3, "{rounds}: {found}");
        }
    }

    #[test]
    fn the_other_side_on_top_gives_the_reciprocal() {
        let (top, bottom) = ([1.0, 1.2, 0.9, 1.4, 1.0], [2.0, 2.1, 2.2, 1.9, 2.3]);
        let one = paired_ratio(&top, &bottom, 0.95).unwrap();
        let other = paired_ratio(&bottom, &top, 0.95).unwrap();
        assert!((one.value * other.value - 1.0).abs() < 1e-12);
        assert!((one.low * other.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_round_has_no_interval_and_zeros_no_ratio() {
        let one = paired_ratio(&[1.0], &[2.0], 0.95).unwrap();
        assert_eq!((one.value, one.low, one.high), (0.5, 0.0, f64::INFINITY));
        assert_eq!(paired_ratio(&[0.0, 1.0], &[1.0, 0.0], 0.95), None);
    }

    #[test]
    fn spans_leave_a_tenth_out_where_there_are_many() {
        let mut few = [1.0, 3.0, 2.0];
        assert_eq!(span(&mut few), Some((1.0, 3.0)));
        let mut many: Vec<f64> = (0..101).map(f64::from).collect();
        assert_eq!(span(&mut many), Some((5.0, 95.0)));
        assert_eq!(span(&mut []), None);
    }

    #[test]
    fn more_rounds_decide_what_few_do_not() {
        let (top, bottom) = ([0.95, 0.99, 0.90, 1.05], [1.0; 4]);
        let rounds = rounds_to_decide(&top, &bottom, 0.95, 1.02).unwrap();
        assert!((5..100).contains(&rounds), "{rounds}");
        let (top, bottom) = ([9.0, 0.1, 0.112, 10.0], [1.0; 4]);
        assert_eq!(rounds_to_decide(&top, &bottom, 0.95, 1.02), None);
        // As fast as each other: that takes as many rounds as the interval needs to lie within the bar.
        let (alike, noisy) = ([1.0, 0.97, 1.03, 1.0, 0.97, 1.03], [1.0; 6]);
        let rounds = rounds_to_decide(&alike, &noisy, 0.95, 1.02).unwrap();
        assert!((8..30).contains(&rounds), "{rounds}");
    }
}
