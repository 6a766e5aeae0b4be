//! Medians, paired ratios with their intervals, geometric means.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The middle of some numbers; not a number when there are none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The geometric mean; not a number when there are none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// How two paired series relate.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// The median of the pairs' ratios.
    pub median: f64,
    /// Lower end of the 95 % interval of the mean ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The ratios `top` / `bottom`, pair by pair. The interval is Student's t on the logarithms, so that it is the same
/// whichever side is on top; with less than two pairs it is unbounded.
pub fn paired_ratio(top: &[f64], bottom: &[f64]) -> Ratio {
    let ratios: Vec<f64> = top
        .iter()
        .zip(bottom)
        .map(|(top, bottom)| top / bottom)
        .collect();
    let (low, high) = log_interval(&ratios);
    Ratio {
        median: median(&ratios),
        low,
        high,
    }
}

/// The 95 % interval of the geometric mean of `ratios`.
pub fn log_interval(ratios: &[f64]) -> (f64, f64) {
    let count = ratios.len() as f64;
    if ratios.len() < 2 {
        return (0.0, f64::INFINITY);
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let quantile =
        StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975));
    let margin = quantile * (variance / count).sqrt();
    ((mean - margin).exp(), (mean + margin).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_many() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_interval_is_students_t_on_logarithms() {
        // Logarithms -0.1, 0, 0.1: deviation 0.1, quantile 4.302653 with two degrees of freedom.
        let ratios: Vec<f64> = [-0.1_f64, 0.0, 0.1].iter().map(|log| log.exp()).collect();
        let (low, high) = log_interval(&ratios);
        let margin = 4.302_653 * 0.1 / 3.0_f64.sqrt();
        assert!((high.ln() - margin).abs() < 1e-5, "{}", high.ln());
        assert!((low.ln() + margin).abs() < 1e-5);
    }

    #[test]
    fn the_interval_turns_over_with_the_sides() {
        let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.1, 1.9, 3.3, 4.1]);
        let (one, other) = (paired_ratio(&a, &b), paired_ratio(&b, &a));
        assert!((one.low * other.high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_pair_says_nothing_about_spread() {
        assert_eq!(log_interval(&[1.5]), (0.0, f64::INFINITY));
    }
}
