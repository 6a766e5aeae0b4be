//! Under `generations=auto`: whether collections of everything are marked beside the program by a helper, between two short stops.
//!
//! That pays where stops are long enough to be noticed, a processor is idle, and one thread marks everything well before the program
//! has allocated what it may between two collections. A program that allocates faster would make steps, or its heap would grow. One that
//! asks the heap all the time for what the helper has would wait for it, and the helper would not get on.
//!
//! A pure object. Times of the program's are the processor's, so that others on the machine change nothing in them.

/// What is known when a collection has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Whether there may be a helper, and a processor for it.
    pub is_possible: bool,
    /// Whether it is wanted wherever it is possible (`cycle-helper=on`).
    pub is_wanted: bool,
    /// Nanoseconds that marking everything in a stop takes.
    pub stop_ns: u64,
    /// Nanoseconds that one thread takes for it beside the program.
    pub beside_ns: u64,
    /// Nanoseconds of the processor's time that the program has used since the collection before.
    pub program_ns: u64,
    /// Bytes that steps marked in the cycle that has just ended, if there was one, and that the helper did.
    pub stepped: usize,
    /// See `stepped`.
    pub helped: usize,
    /// Whether memory was used up before that had marked everything.
    pub was_overtaken: bool,
    /// Nanoseconds of the helper's turns since the collection before, and how many there were.
    pub turned_ns: u64,
    /// See `turned_ns`.
    pub turns: u64,
}

/// Stops that take less are not worth a cycle, nor half of that where there are cycles already. Nanoseconds.
const LEAST_STOP_NS: u64 = 3_000_000;
/// The program's time is at least so many times that of marking, in halves: before there are cycles, and as long as there are.
const HALVES_AT_FIRST: u64 = 4;
const HALVES: u64 = 3;
/// Collections, one after the other, that speak for cycles before there are any.
const IN_A_ROW: u32 = 2;
/// Cycles, one after the other, most of whose marking was left to steps.
const MOST_LATE: u32 = 2;
/// Where so many turns are shorter in the mean, the program wants too often what the helper has. Nanoseconds.
const LEAST_TURN_NS: u64 = 50_000;
const WORTH_COUNTING: u64 = 32;
/// Collections that pass until it is tried again: at first, and after many attempts that failed.
const FIRST_WAIT: u32 = 16;
const LONGEST_WAIT: u32 = 1024;

/// What is remembered of earlier collections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    is_on: bool,
    /// Collections that spoke for cycles, one after the other.
    promising: u32,
    /// Late cycles, one after the other.
    late: u32,
    /// Collections that are still to pass.
    wait: u32,
    /// How many there were to be after the last attempt that failed.
    waited: u32,
}

impl Choice {
    /// Nothing is known yet.
    pub const fn new() -> Choice {
        Choice {
            is_on: false,
            promising: 0,
            late: 0,
            wait: 0,
            waited: 0,
        }
    }

    /// Whether collections of everything are marked beside the program.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// A collection has ended.
    pub fn note(&mut self, m: &Measurements) {
        self.wait = self.wait.saturating_sub(1);
        self.late = match m.was_overtaken || m.stepped > m.helped {
            true => self.late + 1,
            false => 0,
        };
        let is_disturbed = m.turns >= WORTH_COUNTING && m.turned_ns / m.turns < LEAST_TURN_NS;
        if self.is_on && (is_disturbed || self.late >= MOST_LATE) {
            self.late = 0;
            self.waited = self
                .waited
                .saturating_mul(2)
                .clamp(FIRST_WAIT, LONGEST_WAIT);
            self.wait = self.waited;
        }
        self.promising = match self.wait == 0 && self.pays(m) {
            true => self.promising.saturating_add(1),
            false => 0,
        };
        let is_enough = self.is_on || self.promising >= IN_A_ROW;
        self.is_on = m.is_possible && (m.is_wanted || self.promising > 0 && is_enough);
    }

    fn pays(&self, m: &Measurements) -> bool {
        let (least_ns, halves) = match self.is_on {
            true => (LEAST_STOP_NS / 2, HALVES),
            false => (LEAST_STOP_NS, HALVES_AT_FIRST),
        };
        m.stop_ns >= least_ns
            && m.beside_ns.saturating_mul(halves) <= m.program_ns.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Everything is marked in a stop of 10 ms or by one thread in 20, and the program uses 100 between two collections.
    fn usual() -> Measurements {
        Measurements {
            is_possible: true,
            stop_ns: 10 * MS,
            beside_ns: 20 * MS,
            program_ns: 100 * MS,
            ..Measurements::default()
        }
    }

    fn after(collections: &[Measurements]) -> bool {
        let mut choice = Choice::new();
        collections.iter().for_each(|m| choice.note(m));
        choice.is_on()
    }

    #[test]
    fn what_fits_beside_the_program_is_marked_there() {
        assert!(!Choice::new().is_on());
        assert!(!after(&[usual()]) && after(&[usual(), usual()]));
        let with = |change: fn(&mut Measurements)| {
            let mut m = usual();
            change(&mut m);
            m
        };
        assert!(!after(&[with(|m| m.is_possible = false)]));
        assert!(!after(&[usual(), usual(), with(|m| m.is_possible = false)]));
        assert!(!after(&[usual(), with(|m| m.stop_ns = 0), usual()]));
        // Where there are cycles a little less is enough than for the first.
        for (change, is_first, is_next) in [
            (
                (|m| m.stop_ns = LEAST_STOP_NS) as fn(&mut Measurements),
                true,
                true,
            ),
            (|m| m.stop_ns = LEAST_STOP_NS - 1, false, true),
            (|m| m.stop_ns = LEAST_STOP_NS / 2 - 1, false, false),
            (|m| m.program_ns = 40 * MS, true, true),
            (|m| m.program_ns = 40 * MS - 1, false, true),
            (|m| m.program_ns = 30 * MS - 1, false, false),
        ] {
            assert_eq!(after(&[with(change), with(change)]), is_first);
            assert_eq!(after(&[usual(), usual(), with(change)]), is_next);
        }
        let wanted = with(|m| (m.is_wanted, m.stop_ns) = (true, 0));
        assert!(after(&[wanted]));
        let impossible = Measurements {
            is_possible: false,
            ..wanted
        };
        assert!(!after(&[impossible]));
    }

    fn begun() -> Choice {
        let mut choice = Choice::new();
        (0..IN_A_ROW).for_each(|_| choice.note(&usual()));
        choice
    }

    /// After how many collections it is tried again once what `fails` has been seen so many `times`.
    fn waits(choice: &mut Choice, fails: &Measurements, times: u32) -> u32 {
        for _ in 0..times {
            assert!(choice.is_on());
            choice.note(fails);
        }
        let mut passed = 0;
        while !choice.is_on() {
            choice.note(&usual());
            passed += 1;
        }
        passed + 1 - IN_A_ROW
    }

    #[test]
    fn cycles_that_are_late_again_and_again_are_left_out_ever_longer() {
        let late = Measurements {
            stepped: 1001,
            helped: 1000,
            ..usual()
        };
        let mut choice = begun();
        let mut expected = FIRST_WAIT;
        for _ in 0..9 {
            assert_eq!(waits(&mut choice, &late, MOST_LATE), expected);
            expected = (expected * 2).min(LONGEST_WAIT);
        }
        let overtaken = Measurements {
            was_overtaken: true,
            ..usual()
        };
        assert_eq!(waits(&mut choice, &overtaken, MOST_LATE), expected);
        // One that was in time is enough to go on.
        for _ in 0..4 {
            choice.note(&late);
            choice.note(&Measurements {
                stepped: 1000,
                ..late
            });
            assert!(choice.is_on());
        }
    }

    #[test]
    fn a_program_that_ends_all_turns_is_left_alone_at_once() {
        let of = |turns, mean_ns| Measurements {
            turns,
            turned_ns: turns * mean_ns,
            ..usual()
        };
        let mut choice = begun();
        choice.note(&of(300, LEAST_TURN_NS));
        choice.note(&of(WORTH_COUNTING - 1, 0));
        assert!(choice.is_on());
        let all_end = of(WORTH_COUNTING, LEAST_TURN_NS - 1);
        assert_eq!(waits(&mut choice, &all_end, 1), FIRST_WAIT);
    }
}
