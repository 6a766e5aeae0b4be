//! Programs that were recorded.
use crate::simulation::Program;
pub struct Run {
    pub name: &'static str,
    pub marks: f64,
    pub collections: &'static [(usize, usize, u64)],
}
pub struct Recorded {
    pub program: &'static Run,
    pub old_share: f64,
}
impl Program for Recorded {
    fn ends_at(&self) -> usize {
        0
    }
    fn lives(&self, _: usize) -> usize {
        0
    }
    fn rate(&self, _: usize) -> f64 {
        1.0
    }
    fn old_share(&self) -> f64 {
        self.old_share
    }
}
pub const ALL: &[Run] = &[];
