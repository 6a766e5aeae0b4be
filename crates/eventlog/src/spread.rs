//! How long a number of things took: the shortest, the longest, and the percentiles.

/// The index, in a sorted list of `count`, of the one that `percent` percent of them do not exceed.
pub fn place_of(count: usize, percent: f64) -> usize {
    let place = (count as f64 * percent / 100.0).ceil() as usize;
    place.clamp(1, count.max(1)) - 1
}

/// Durations in order.
#[derive(Clone, Default, Debug)]
pub struct Spread {
    sorted: Vec<u64>,
}

impl Spread {
    /// From durations in any order.
    pub fn new(durations: impl IntoIterator<Item = u64>) -> Spread {
        let mut sorted: Vec<u64> = durations.into_iter().collect();
        sorted.sort_unstable();
        Spread { sorted }
    }

    /// All, the shortest first.
    pub fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The one that `percent` percent of them do not exceed; 0 if there are none.
    pub fn at(&self, percent: f64) -> u64 {
        let place = place_of(self.sorted.len(), percent);
        self.sorted.get(place).copied().unwrap_or(0)
    }

    /// The longest; 0 if there are none.
    pub fn longest(&self) -> u64 {
        self.sorted.last().copied().unwrap_or(0)
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.sorted
            .iter()
            .fold(0, |sum, one| sum.saturating_add(*one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_of_a_hundred_are_no_longer() {
        let spread = Spread::new((1..=200).rev());
        assert_eq!((spread.at(50.0), spread.at(99.0)), (100, 198));
        assert_eq!((spread.at(0.0), spread.at(100.0)), (1, 200));
        assert_eq!((spread.count(), spread.longest()), (200, 200));
        assert_eq!(Spread::new([7]).at(99.0), 7);
        assert_eq!(Spread::new([u64::MAX, 2]).total(), u64::MAX);
    }

    #[test]
    fn of_none_all_is_nothing() {
        let none = Spread::default();
        assert_eq!((none.at(50.0), none.longest(), none.total()), (0, 0, 0));
    }
}
