//! Quantities of the microbenchmarks: sizes in bytes as people write them, and what rounds gave.

/// Reads a number of bytes: a multiple of 8, with an optional suffix.
pub fn size(text: &str) -> std::result::Result<usize, String> {
    let suffixes = [('k', 10), ('m', 20), ('g', 30)];
    let (digits, shift) = suffixes
        .into_iter()
        .find_map(|(suffix, shift)| Some((text.strip_suffix(suffix)?, shift)))
        .unwrap_or((text, 0));
    digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|&bytes| bytes > 0 && bytes.is_multiple_of(8))
        .ok_or_else(|| "not a multiple of 8 bytes with an optional suffix k, m or g".into())
}

/// Reads the size of an array: as [`size`], and no more than its length can say.
pub fn array_size(text: &str) -> std::result::Result<usize, String> {
    let bytes = size(text)?;
    if bytes > MOST_ARRAY_BYTES {
        return Err("more than an array has here: 2g at most".into());
    }
    Ok(bytes)
}

/// A length of an array has 32 bits, and elements have one byte at least.
const MOST_ARRAY_BYTES: usize = 2 << 30;

/// What the rounds of a measurement gave.
#[derive(Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// Of one round or more.
    pub fn of(rounds: &[f64]) -> Spread {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (middle, last) = (sorted.len() / 2, sorted.len() - 1);
        Spread {
            least: sorted[0],
            median: (sorted[middle] + sorted[last - middle]) / 2.0,
            most: sorted[last],
        }
    }
}

/// A size with the largest unit that loses nothing.
pub fn shown(bytes: usize) -> String {
    let units = [(30, "GB"), (20, "MB"), (10, "KB")];
    let unit = units
        .into_iter()
        .find(|&(shift, _)| bytes.trailing_zeros() >= shift);
    let (shift, unit) = unit.unwrap_or((0, "bytes"));
    format!("{} {unit}", bytes >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes, back) in [
            ("64", 64, "64 bytes"),
            ("256k", 256 << 10, "256 KB"),
            ("4m", 4 << 20, "4 MB"),
            ("1g", 1 << 30, "1 GB"),
        ] {
            assert_eq!(size(text), Ok(bytes));
            assert_eq!(shown(bytes), back);
        }
        for text in ["", "k", "0", "12", "1.5m", "-8", "4t", "99999999999999g"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rounds_have_a_median_and_extremes() {
        let spread = |rounds: &[f64]| {
            let Spread {
                least,
                median,
                most,
            } = Spread::of(rounds);
            (least, median, most)
        };
        assert_eq!(spread(&[7.0]), (7.0, 7.0, 7.0));
        assert_eq!(spread(&[9.0, 2.0, 3.0]), (2.0, 3.0, 9.0));
        assert_eq!(spread(&[9.0, 2.0, 3.0, 5.0]), (2.0, 4.0, 9.0));
    }
}
