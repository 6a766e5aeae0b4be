//! Whether a helper marks beside the program while marking in steps is under way.
//!
//! It marks in turns, each of which ends as soon as a thread of the program's wants what it has: the heap but for cells for the
//! threads' lists, or the allocator lock. So it keeps the program waiting for microseconds, as long as it has a processor. Two things
//! keep it away. No processor was idle lately, as the system counts. Or it lost the processor in a turn: then it stays away for a
//! while, twice as long each time. And it pauses where a turn ended at once, so that a program that wants the heap all the time hardly
//! waits for it. What needs a mark procedure of the program's, which runs on no thread of the collector's, waits
//! for a step if steps call these.

use gleaner_base::events::reasons::PROCESSOR_LOST;

/// How long a turn may take. What it has done is known when it has ended. Nanoseconds.
pub const TURN_NS: u64 = 500_000;
/// How long one may take that needs the allocator lock.
pub const LOCKED_TURN_NS: u64 = 100_000;
/// A thread that was without the processor for this long in a turn has lost it. Nanoseconds.
const LOST_NS: u64 = 200_000;
/// For how long it stays away when it has lost the processor, at first and at the most. Nanoseconds.
const SHORTEST_ABSENCE_NS: u64 = 20_000_000;
const LONGEST_ABSENCE_NS: u64 = 2_000_000_000;
/// Turns in which it kept the processor that halve the next absence.
const TURNS_TO_FORGET: u32 = 200;
/// For how long it stays away where no processor is idle: until that is counted again. Nanoseconds.
const BUSY_NS: u64 = 250_000_000;
/// Why a helper stayed away.
pub const NO_PROCESSOR: &str = "no processor was idle";

/// A turn of the helper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    /// When it ended, in nanoseconds of the monotonic clock.
    pub ended_ns: u64,
    /// How long it was. Nanoseconds.
    pub took_ns: u64,
    /// For how long its thread had the processor meanwhile.
    pub own_ns: u64,
}

impl Turn {
    /// Whether it had hardly begun when the program wanted what it has.
    pub fn was_disturbed(&self) -> bool {
        self.took_ns < SHORT_TURN_NS
    }

    /// Nanoseconds for which it was without the processor.
    pub fn lost_ns(&self) -> u64 {
        match self.took_ns.saturating_sub(self.own_ns) {
            lost @ LOST_NS.. => lost,
            _ => 0,
        }
    }
}

/// A turn that ends sooner was disturbed: the program has asked for what it has.
const SHORT_TURN_NS: u64 = 25_000;
/// For how long the helper leaves the program alone behind such a turn. Nanoseconds.
pub const PAUSE_NS: u64 = 100_000;

/// What is remembered of earlier turns.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// It marks from this time of the monotonic clock on.
    away_until_ns: u64,
    /// How long it stays away when it loses the processor the next time.
    absence_ns: u64,
    /// Turns since it lost the processor, or since the next absence was halved.
    kept: u32,
}

impl Helper {
    /// Nothing is known yet.
    pub const fn new() -> Helper {
        Helper {
            away_until_ns: 0,
            absence_ns: SHORTEST_ABSENCE_NS,
            kept: 0,
        }
    }

    /// For how many nanoseconds from `now_ns` on it stays away, if it does.
    pub fn stays_away(&self, now_ns: u64) -> Option<u64> {
        let left = self.away_until_ns.saturating_sub(now_ns);
        (left > 0).then_some(left)
    }

    /// No processor is idle.
    pub fn note_busy(&mut self, now_ns: u64) {
        self.away_until_ns = self.away_until_ns.max(now_ns.saturating_add(BUSY_NS));
    }

    /// What came of a turn. Why it stays away from now on, if it does.
    pub fn note(&mut self, turn: &Turn) -> Option<&'static str> {
        if turn.lost_ns() > 0 {
            self.away_until_ns = turn.ended_ns.saturating_add(self.absence_ns);
            self.absence_ns = (self.absence_ns * 2).min(LONGEST_ABSENCE_NS);
            self.kept = 0;
            return Some(PROCESSOR_LOST);
        }
        self.kept += 1;
        if self.kept >= TURNS_TO_FORGET {
            self.kept = 0;
            self.absence_ns = (self.absence_ns / 2).max(SHORTEST_ABSENCE_NS);
        }
        None
    }
}

impl Default for Helper {
    fn default() -> Helper {
        Helper::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn turn(ended_ns: u64, lost_ns: u64) -> Turn {
        Turn {
            ended_ns,
            took_ns: TURN_NS + lost_ns,
            own_ns: TURN_NS,
        }
    }

    #[test]
    fn a_helper_that_loses_the_processor_stays_away_ever_longer() {
        let mut helper = Helper::new();
        assert_eq!(helper.note(&turn(MS, LOST_NS - 1)), None);
        assert_eq!(helper.stays_away(MS), None);
        let mut now = MS;
        for absence in [20, 40, 80, 160, 320, 640, 1280, 2000, 2000] {
            assert_eq!(helper.note(&turn(now, 3 * MS)), Some(PROCESSOR_LOST));
            assert_eq!(helper.stays_away(now + MS), Some((absence - 1) * MS));
            now += absence * MS;
            assert_eq!(helper.stays_away(now), None);
        }
        assert_eq!(turn(now, 3 * MS).lost_ns(), 3 * MS);
        assert_eq!(turn(now, LOST_NS - 1).lost_ns(), 0);
    }

    #[test]
    fn a_turn_that_ended_at_once_was_disturbed() {
        let of = |took_ns| Turn {
            took_ns,
            ..Turn::default()
        };
        assert!(of(SHORT_TURN_NS - 1).was_disturbed());
        assert!(!of(SHORT_TURN_NS).was_disturbed() && !of(TURN_NS).was_disturbed());
    }

    #[test]
    fn what_was_lost_is_forgotten_by_turns_that_were_not() {
        let mut helper = Helper::new();
        for _ in 0..3 {
            helper.note(&turn(0, MS));
        }
        for _ in 0..2 * TURNS_TO_FORGET {
            assert_eq!(helper.note(&turn(0, 0)), None);
        }
        helper.note(&turn(0, MS));
        assert_eq!(helper.stays_away(0), Some(40 * MS));
        // Never below the first.
        for _ in 0..9 * TURNS_TO_FORGET {
            helper.note(&turn(0, 0));
        }
        helper.note(&turn(0, MS));
        assert_eq!(helper.stays_away(0), Some(20 * MS));
    }

    #[test]
    fn where_no_processor_is_idle_it_waits_until_that_is_counted_again() {
        let mut helper = Helper::new();
        helper.note_busy(MS);
        assert_eq!(helper.stays_away(MS), Some(BUSY_NS));
        assert_eq!(helper.stays_away(MS + BUSY_NS), None);
    }
}
