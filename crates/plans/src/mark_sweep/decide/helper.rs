//! Whether a helper marks beside the program while marking in steps is under way.
//!
//! It marks in turns, each of which ends as soon as a thread of the program's wants what it has: the heap but for cells for the
//! threads' lists, or the allocator lock. So it keeps the program waiting for microseconds, as long as it has a processor. Three things keep it away. No processor was idle lately,
//! as the system counts. Or it lost the processor in a turn: then it stays away for a while, twice as long each time. Or
//! it left too much to the last stop: mark procedures of the program's run on no thread of the collector's, but may run in steps.
//! That is known by their number, or at last by a stop that is put off since they, and what they lead to, have not been marked.

use gleaner_base::events::reasons::PROCESSOR_LOST;

/// How long a turn may take. What it has done is known when it has ended. Nanoseconds.
pub const TURN_NS: u64 = 500_000;
/// How long one may take that needs the allocator lock.
pub const LOCKED_TURN_NS: u64 = 100_000;
/// For how long it leaves a program alone whose step it waits for. Nanoseconds.
pub const WAITS_NS: u64 = 100_000;
/// A thread that was without the processor for this long in a turn has lost it. Nanoseconds.
const LOST_NS: u64 = 200_000;
/// For how long it stays away when it has lost the processor, at first and at the most. Nanoseconds.
const SHORTEST_ABSENCE_NS: u64 = 20_000_000;
const LONGEST_ABSENCE_NS: u64 = 2_000_000_000;
/// Turns in which it kept the processor that halve the next absence.
const TURNS_TO_FORGET: u32 = 1000;
/// For how long it stays away where no processor is idle: until that is counted again. Nanoseconds.
const BUSY_NS: u64 = 250_000_000;
/// It leaves too much to the last stop if that is one object in so many that it scans.
const FEW: usize = 32;
/// Objects that say enough about that.
const ENOUGH: usize = 1024;
/// Cycles from which it stays away when it has left too much, at first and at the most.
const FEWEST_CYCLES: u32 = 8;
const MOST_CYCLES: u32 = 128;

/// Why a helper stayed away.
pub const LEFT_TOO_MUCH: &str = "mark procedures are left to steps and stops";
/// See [`LEFT_TOO_MUCH`].
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
    /// Objects that were scanned.
    pub scanned: usize,
    /// Objects that were left to the last stop, and would not have been in a step.
    pub passed_over: usize,
}

impl Turn {
    /// Nanoseconds for which it was without the processor.
    pub fn lost_ns(&self) -> u64 {
        match self.took_ns.saturating_sub(self.own_ns) {
            lost @ LOST_NS.. => lost,
            _ => 0,
        }
    }
}

/// What is remembered of earlier turns.
#[derive(Clone, Copy, Debug)]
pub struct Helper {
    /// It marks from this time of the monotonic clock on.
    away_until_ns: u64,
    /// How long it stays away when it loses the processor the next time.
    absence_ns: u64,
    /// Turns since it lost the processor, or since the next absence was halved.
    kept: u32,
    /// Objects of this cycle.
    scanned: usize,
    /// See `scanned`.
    passed_over: usize,
    /// Cycles from which it stays away, the one that is under way among them.
    sits_out: u32,
    /// How many there were the last time.
    sat_out: u32,
    /// Whether it did half of the marking beside the program, or more, in the last cycle that it took part in.
    keeps_pace: bool,
}

impl Helper {
    /// Nothing is known yet.
    pub const fn new() -> Helper {
        Helper {
            away_until_ns: 0,
            absence_ns: SHORTEST_ABSENCE_NS,
            kept: 0,
            scanned: 0,
            passed_over: 0,
            sits_out: 0,
            sat_out: 0,
            keeps_pace: true,
        }
    }

    /// A cycle has ended in which it scanned `helped` bytes, of those that were scanned `beside` the program.
    pub fn note_cycle(&mut self, helped: usize, beside: usize) {
        if helped > 0 {
            self.keeps_pace = helped >= beside / 2;
        }
    }

    /// Whether a cycle is planned for it, until one has shown that it does little: cycles would begin early for nothing.
    pub fn keeps_pace(&self) -> bool {
        self.keeps_pace
    }

    /// A cycle begins.
    pub fn begin_cycle(&mut self) {
        if self.leaves_little() && self.scanned >= ENOUGH {
            self.sat_out /= 2;
        }
        (self.scanned, self.passed_over) = (0, 0);
        self.sits_out = self.sits_out.saturating_sub(1);
    }

    /// Whether it stays away from all of the cycle that is under way.
    pub fn sits_out(&self) -> bool {
        self.sits_out > 0
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
        self.scanned += turn.scanned;
        self.passed_over += turn.passed_over;
        if !self.leaves_little() && self.scanned >= ENOUGH {
            return Some(self.sit_out());
        }
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

    /// The last stop of the cycle that is under way was to be longer than stops may be, and the cycle goes on. Why the helper
    /// stays away from now on, if it does.
    pub fn note_put_off(&mut self) -> Option<&'static str> {
        (self.passed_over > 0).then(|| self.sit_out())
    }

    fn sit_out(&mut self) -> &'static str {
        self.sat_out = (self.sat_out * 2).clamp(FEWEST_CYCLES, MOST_CYCLES);
        self.sits_out = self.sat_out;
        (self.scanned, self.passed_over) = (0, 0);
        LEFT_TOO_MUCH
    }

    fn leaves_little(&self) -> bool {
        self.passed_over.saturating_mul(FEW) <= self.scanned
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
            scanned: 100,
            passed_over: 0,
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

    #[test]
    fn what_its_marking_leaves_to_the_last_stop_keeps_it_out_of_cycles() {
        let mut helper = Helper::new();
        let leaves = |passed_over| Turn {
            passed_over,
            ..turn(0, 0)
        };
        let marks = |helper: &mut Helper, passed_over| {
            let mut marks = || helper.note(&leaves(passed_over));
            (0..20).find_map(|_| marks())
        };
        assert_eq!(marks(&mut helper, 3), None, "three in a hundred");
        helper.begin_cycle();
        // Too few objects say nothing.
        for _ in 0..ENOUGH / 100 {
            assert_eq!(helper.note(&leaves(100)), None);
        }
        assert_eq!(helper.note(&leaves(100)), Some(LEFT_TOO_MUCH));
        for _ in 1..FEWEST_CYCLES {
            helper.begin_cycle();
            assert!(helper.sits_out());
        }
        helper.begin_cycle();
        assert!(!helper.sits_out());
        assert_eq!(marks(&mut helper, 4), Some(LEFT_TOO_MUCH));
        for _ in 1..2 * FEWEST_CYCLES {
            helper.begin_cycle();
            assert!(helper.sits_out());
        }
        helper.begin_cycle();
        assert!(!helper.sits_out());
        // One in which it left little makes the next time shorter.
        assert_eq!(marks(&mut helper, 0), None);
        helper.begin_cycle();
        assert_eq!(marks(&mut helper, 50), Some(LEFT_TOO_MUCH));
        for _ in 0..2 * FEWEST_CYCLES {
            assert!(helper.sits_out());
            helper.begin_cycle();
        }
        assert!(!helper.sits_out());
    }

    #[test]
    fn a_last_stop_that_is_put_off_keeps_it_out_of_cycles() {
        let mut helper = Helper::new();
        helper.note(&turn(0, 0));
        assert_eq!(helper.note_put_off(), None, "nothing was left to it");
        assert!(!helper.sits_out());
        let leaves_one = Turn {
            passed_over: 1,
            ..turn(0, 0)
        };
        for cycles in [FEWEST_CYCLES, 2 * FEWEST_CYCLES] {
            for _ in 0..2 * ENOUGH / 100 {
                assert_eq!(helper.note(&leaves_one), None);
            }
            assert_eq!(helper.note_put_off(), Some(LEFT_TOO_MUCH));
            for _ in 0..cycles {
                assert!(helper.sits_out());
                helper.begin_cycle();
            }
            assert!(!helper.sits_out());
        }
    }

    #[test]
    fn cycles_are_planned_for_one_that_does_half_of_the_marking() {
        let mut helper = Helper::new();
        assert!(helper.keeps_pace(), "nothing is known yet");
        for (helped, beside, keeps_pace) in [(50, 100, true), (0, 100, true), (49, 100, false)] {
            helper.note_cycle(helped, beside);
            assert_eq!(helper.keeps_pace(), keeps_pace);
        }
    }
}
