//! What looking at a program may cost: a share of one processor's time, counted from a second before the program began.
//!
//! A look is cut into pieces and stops where the budget is spent, so the budget is a bound, but for one piece: a thread,
//! or the part of a directory that the kernel gives at once.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// As if the program had begun so much earlier: what may be spent at once.
const AHEAD: Duration = Duration::from_secs(1);
/// Less is not worth waking for.
const LEAST: Duration = Duration::from_micros(200);

/// What looking may cost, and has cost.
#[derive(Debug)]
pub(super) struct Budget {
    started: Instant,
    /// Of one processor, in millionths.
    share: u32,
    spent: Duration,
}

impl Budget {
    /// One of `share` millionths of one processor; not 0.
    pub(super) fn new(started: Instant, share: u32) -> Budget {
        Budget {
            started,
            share,
            spent: Duration::ZERO,
        }
    }

    /// What is left.
    pub(super) fn left(&self, now: Instant) -> Duration {
        let time = AHEAD + now.duration_since(self.started);
        let all = time.as_nanos() * u128::from(self.share) / 1_000_000;
        Duration::from_nanos(all as u64).saturating_sub(self.spent)
    }

    /// How long it takes until `wanted` is left, or at least what is worth waking for.
    pub(super) fn until(&self, wanted: Duration, now: Instant) -> Duration {
        let all = self.spent + wanted.max(LEAST);
        let time = all.as_nanos() * 1_000_000 / u128::from(self.share);
        let passed = AHEAD + now.duration_since(self.started);
        Duration::from_nanos(time as u64).saturating_sub(passed)
    }

    pub(super) fn charge(&mut self, time: Duration) {
        self.spent += time;
    }
}

/// The processor time of the calling thread.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The processor time up to which the calling thread may work.
#[derive(Debug)]
pub(super) struct Limit {
    end: Option<Duration>,
    until_asked: u32,
    is_reached: bool,
}

impl Limit {
    /// How many pieces are made between two questions, for the kernel answers them.
    const PIECES: u32 = 4;

    pub(super) fn none() -> Limit {
        Limit {
            end: None,
            until_asked: 0,
            is_reached: false,
        }
    }

    pub(super) fn of(left: Duration) -> Limit {
        Limit {
            end: Some(processor_time() + left),
            until_asked: Limit::PIECES,
            is_reached: left.is_zero(),
        }
    }

    /// Whether no further piece may be made. Asked before each.
    pub(super) fn is_reached(&mut self) -> bool {
        let Some(end) = self.end else { return false };
        if self.until_asked > 0 {
            self.until_asked -= 1;
        } else if !self.is_reached {
            self.until_asked = Limit::PIECES - 1;
            self.is_reached = processor_time() >= end;
        }
        self.is_reached
    }

    /// Whether `wanted` is left.
    pub(super) fn leaves(&self, wanted: Duration) -> bool {
        let fits = |end| processor_time() + wanted <= end;
        self.end.is_none_or(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_with_time() {
        let started = Instant::now();
        let at_once = Duration::from_millis(2);
        let mut budget = Budget::new(started, 2000);
        assert_eq!(budget.left(started), at_once);
        assert_eq!(budget.until(at_once, started), Duration::ZERO);
        budget.charge(at_once * 3);
        assert_eq!(budget.left(started), Duration::ZERO);
        let wait = budget.until(Duration::from_millis(1), started);
        assert_eq!(wait, Duration::from_millis(5) * 500);
        assert_eq!(budget.left(started + wait), Duration::from_millis(1));
    }

    #[test]
    fn work_ends_at_the_limit() {
        let mut limit = Limit::of(Duration::from_millis(2));
        let (since, mut pieces) = (processor_time(), 0);
        while !limit.is_reached() {
            pieces += 1;
        }
        let worked = processor_time() - since;
        assert!(pieces > 8 && worked >= Duration::from_micros(1900));
        assert!(!limit.leaves(Duration::ZERO) && limit.is_reached());
        assert!(Limit::of(Duration::ZERO).is_reached());
        assert!(!Limit::none().is_reached() && Limit::none().leaves(Duration::MAX));
    }
}
