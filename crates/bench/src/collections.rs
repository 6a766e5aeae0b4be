//! What a library logged about its collections, whichever library it was.

use std::collections::BTreeMap;

use gleaner_eventlog::place_of;

/// Windows of which the utilisation is told, in milliseconds.
pub const WINDOWS_MS: [u64; 2] = [50, 200];
/// Windows of the curve of utilisation, in milliseconds.
pub const CURVE_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// Percentiles of the curve of how long pauses are.
const CURVE_PERCENT: [f64; 11] = [
    0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.9, 100.0,
];
/// Pauses whose moments are told: the longest ones.
pub const MOST_MOMENTS: usize = 100;

impl Collections {
    /// The curve of how long pauses are: percents, and the seconds that so many do not exceed.
    pub fn spread(&self) -> Vec<[f64; 2]> {
        if self.pauses.is_empty() {
            return Vec::new();
        }
        let at = |percent| [percent, self.pause_at(percent)];
        CURVE_PERCENT.map(at).to_vec()
    }

    /// The pause, in seconds, that `percent` percent of the pauses do not exceed.
    pub fn pause_at(&self, percent: f64) -> f64 {
        let mut pauses = self.pauses.clone();
        pauses.sort_unstable_by(f64::total_cmp);
        let place = place_of(pauses.len(), percent);
        pauses.get(place).copied().unwrap_or(0.0)
    }
}

/// What a library logged about its collections.
#[derive(Clone, Debug, Default)]
pub struct Collections {
    /// The library wrote a log at all.
    pub logged: bool,
    /// How many.
    pub count: u64,
    /// The longest pause, in seconds.
    pub longest_pause: f64,
    /// All pauses together, in seconds.
    pub total_pause: f64,
    /// Each, in seconds.
    pub pauses: Vec<f64>,
    /// The least share of the program in windows of [`WINDOWS_MS`]; the installed library does not say.
    pub utilisation: Option<[f64; WINDOWS_MS.len()]>,
    /// The same as a curve: windows of [`CURVE_MS`] that are no longer than the run, in seconds, and the share.
    pub utilisations: Vec<[f64; 2]>,
    /// When the [`MOST_MOMENTS`] longest pauses began, after the log did, and how long they were, in seconds and in the
    /// order of time; the installed library does not say.
    pub moments: Vec<[f64; 2]>,
    /// Steps of marking beside the program, and those among them that took more than one and a half times what they were
    /// given.
    pub steps: u64,
    /// See `steps`.
    pub long_steps: u64,
    /// Bytes allocated in all, if the log says it: that of Gleaner's libgc heap does.
    pub allocated_bytes: Option<u64>,
    /// Seconds per phase; the installed library does not say.
    pub phases: BTreeMap<String, f64>,
    /// Lines of the log that could not be read.
    pub broken_lines: u64,
}
