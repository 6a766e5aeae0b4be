//! Minimum mutator utilisation: the least share of any window of time that the program had for itself (Cheng and Blelloch,
//! PLDI 2001). Pauses that follow each other closely show in it, which a longest pause says nothing of.

/// Pauses of a program, in the order of time.
pub struct Utilisation {
    /// First and last nanosecond of each.
    pauses: Vec<(u64, u64)>,
    /// Nanoseconds of all pauses before each, and of all.
    before: Vec<u64>,
}

impl Utilisation {
    /// From pauses that do not overlap, in any order.
    pub fn new(pauses: impl IntoIterator<Item = (u64, u64)>) -> Utilisation {
        let mut pauses: Vec<_> = pauses.into_iter().collect();
        pauses.sort_unstable();
        let mut before = vec![0];
        for (start, end) in &pauses {
            before.push(before[before.len() - 1] + (end - start));
        }
        Utilisation { pauses, before }
    }

    /// The least share of a window of so many nanoseconds, between 0 and 1. A window begins with a pause or ends with one
    /// where it is least.
    pub fn least(&self, window: u64) -> f64 {
        let begins = self.pauses.iter().map(|(start, _)| *start);
        let ends = self
            .pauses
            .iter()
            .map(|(_, end)| end.saturating_sub(window));
        let paused = begins
            .chain(ends)
            .map(|from| self.paused_before(from + window) - self.paused_before(from));
        1.0 - paused.max().unwrap_or(0) as f64 / window as f64
    }

    /// Nanoseconds of pauses before a moment.
    fn paused_before(&self, at: u64) -> u64 {
        let ended = self.pauses.partition_point(|(_, end)| *end <= at);
        let partly = self.pauses.get(ended);
        self.before[ended] + partly.map_or(0, |(start, _)| at.saturating_sub(*start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_laid_where_most_of_it_is_paused() {
        let pauses = Utilisation::new([(1000, 1010), (100, 110), (112, 122)]);
        // A pause that is longer than the window leaves nothing.
        assert_eq!(pauses.least(10), 0.0);
        assert_eq!(pauses.least(20), 1.0 - 18.0 / 20.0);
        assert_eq!(pauses.least(22), 1.0 - 20.0 / 22.0);
        assert_eq!(pauses.least(100), 0.8);
        assert_eq!(pauses.least(10_000), 1.0 - 30.0 / 10_000.0);
    }

    #[test]
    fn without_pauses_all_time_is_the_programs() {
        assert_eq!(Utilisation::new([]).least(10), 1.0);
    }
}
