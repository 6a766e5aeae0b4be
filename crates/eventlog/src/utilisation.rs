//! Minimum mutator utilisation: the least share of any window of time that the program had for itself (Cheng and Blelloch,
//! PLDI 2001). Pauses that follow each other closely show in it, which a longest pause says nothing of.

/// Pauses of a program, in the order of time. No two of them overlap.
pub struct Utilisation {
    /// First and last nanosecond of each.
    pauses: Vec<(u64, u64)>,
    /// Nanoseconds of all pauses before each, and of all.
    before: Vec<u64>,
}

impl Utilisation {
    /// From pauses in any order. What two of them have in common counts once.
    pub fn new(pauses: impl IntoIterator<Item = (u64, u64)>) -> Utilisation {
        let mut pauses: Vec<_> = pauses.into_iter().collect();
        pauses.sort_unstable();
        let mut over = 0;
        for (start, end) in &mut pauses {
            *start = (*start).max(over);
            *end = (*end).max(*start);
            over = *end;
        }
        let mut before = vec![0];
        for (start, end) in &pauses {
            before.push(before[before.len() - 1] + (end - start));
        }
        Utilisation { pauses, before }
    }

    /// Nanoseconds of all pauses.
    pub fn paused(&self) -> u64 {
        self.before[self.pauses.len()]
    }

    /// The least share of a window of `window` nanoseconds, between 0 and 1. One of the windows that begin with a pause
    /// has it. Any other window loses nothing of its pauses when it is moved to the beginning of the pause in which it
    /// begins, or else of the next pause.
    pub fn least(&self, window: u64) -> f64 {
        let window = window.max(1);
        let begins = self.pauses.iter().map(|(start, _)| *start);
        1.0 - self.most(begins, window) as f64 / window as f64
    }

    /// The share of the program in the time between two moments, between 0 and 1.
    pub fn share(&self, from: u64, to: u64) -> f64 {
        let before = |at: u64| {
            let mut ended = self.pauses.partition_point(|(_, end)| *end <= at);
            self.paused_before(at, &mut ended)
        };
        let whole = to.saturating_sub(from).max(1);
        1.0 - before(to).saturating_sub(before(from)) as f64 / whole as f64
    }

    /// The most nanoseconds of pauses in a window that begins at one of these moments, which are in the order of time.
    fn most(&self, moments: impl Iterator<Item = u64>, window: u64) -> u64 {
        let (mut first, mut last) = (0, 0);
        let paused = moments.map(|from| {
            let to = from.saturating_add(window);
            self.paused_before(to, &mut last) - self.paused_before(from, &mut first)
        });
        paused.max().unwrap_or(0)
    }

    /// Nanoseconds of pauses before a moment; `ended` pauses were over at an earlier one.
    fn paused_before(&self, at: u64, ended: &mut usize) -> u64 {
        while self.pauses.get(*ended).is_some_and(|(_, end)| *end <= at) {
            *ended += 1;
        }
        let partly = self.pauses.get(*ended);
        self.before[*ended] + partly.map_or(0, |(start, _)| at.saturating_sub(*start))
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
        assert_eq!(pauses.paused(), 30);
    }

    #[test]
    fn the_share_of_a_time_counts_what_lies_in_it_of_each_pause() {
        let pauses = Utilisation::new([(100, 110), (150, 250)]);
        assert_eq!(pauses.share(100, 200), 1.0 - 60.0 / 100.0);
        assert_eq!(pauses.share(105, 155), 1.0 - 10.0 / 50.0);
        assert_eq!(pauses.share(110, 150), 1.0);
        assert_eq!(pauses.share(0, 1000), 1.0 - 110.0 / 1000.0);
        assert_eq!(pauses.share(160, 170), 0.0);
        assert_eq!((pauses.share(7, 7), pauses.share(9, 7)), (1.0, 1.0));
    }

    #[test]
    fn without_pauses_all_time_is_the_programs() {
        assert_eq!(Utilisation::new([]).least(10), 1.0);
    }

    #[test]
    fn what_overlaps_counts_once() {
        let pauses = Utilisation::new([(100, 200), (110, 120), (150, 250), (u64::MAX, u64::MAX)]);
        assert_eq!(pauses.paused(), 150);
        assert_eq!(pauses.least(300), 0.5);
        assert_eq!(pauses.least(0), 0.0);
        assert!(pauses.least(u64::MAX) > 0.9);
    }

    #[test]
    fn as_windows_that_are_laid_everywhere() {
        let all = [(3, 7), (9, 10), (20, 24), (25, 26), (40, 41)];
        let pauses = Utilisation::new(all);
        let is_paused = |at: u64| all.iter().any(|(start, end)| (*start..*end).contains(&at));
        for window in 1..60 {
            let paused = |from: u64| (from..from + window).filter(|at| is_paused(*at)).count();
            let most = (0..60).map(paused).max().unwrap();
            let expected = 1.0 - most as f64 / window as f64;
            assert_eq!(pauses.least(window), expected, "{window}");
        }
    }
}
