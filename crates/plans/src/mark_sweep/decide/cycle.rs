//! Incremental marking: whether a collection is stretched over a cycle of steps, how fast the steps follow each other, and
//! when the cycle must end (ISMM 2000, section 6, *incremental*).
//!
//! A cycle begins in a stop: what was written is asked, marks are cleared or kept, and what roots refer to becomes
//! grey. Steps inside allocation calls scan what is grey, while the program goes on. When nothing is grey, another stop
//! does what a collection of new objects does. Where that takes longer than the limit, the program goes on, and steps
//! mark what is grey, until less is left, or the cycle has had its stops. When it begins and what may be allocated until
//! it ends, the pacer says ([`super::pacer`]).

/// Stops of a cycle in which marking is put off.
const MOST_STOPS: u32 = 4;
/// What else a stop does takes time as well, so marking ends before the limit: after this many eighths of it.
const MARKING_IN_LIMIT: u64 = 7;
/// A step takes this share of the time limit, as long as that is not too short for a step: calling helpers takes time.
const STEPS_IN_LIMIT: u64 = 16;
const SHORTEST_STEP_NS: u64 = 250_000;
/// A step that began this many times its time ago does not go on, whatever it has used: the program has waited long enough.
const MOST_QUANTA: u64 = 4;
/// What is less than this part of a step's time is not worth telling, or going on for.
const NEGLIGIBLE: u64 = 8;
/// What a measurement of the rate of marking counts for after another.
const FORGETTING: f64 = 0.8;
/// Nanoseconds that marking a byte takes, until it was measured.
const USUAL_RATE: f64 = 1.0;

/// What is known when a collection begins, or a cycle comes to another stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Nanoseconds that the program may be stopped for; `None` for no limit (`GC_TIME_UNLIMITED`).
    pub limit_ns: Option<u64>,
    /// Bytes that are expected to be scanned.
    pub expected: usize,
    /// Bytes that are to be scanned if all that was allocated lives.
    pub at_most: usize,
    /// Bytes that the last marking scanned, and how long it took; 0 if there was none.
    pub scanned: usize,
    /// See `scanned`.
    pub took_ns: u64,
    /// Whether marking may begin here and end later.
    pub possible: bool,
    /// Stops of the cycle that is under way, if one is.
    pub stops: u32,
    /// Whether its last stop is ended however long it takes ([`PuttingOff`]).
    pub ends_at_once: bool,
    /// Whether some of it can be found in a stop alone, and nobody knows how much: what a client's mark procedures lead to.
    pub in_stop_alone: bool,
    /// Whether the program asked for steps (`GC_start_incremental_collection`).
    pub steps_asked: bool,
    /// Whether there are to be steps also where all fits into the limit: for tests.
    pub even_if_small: bool,
}

/// How a collection is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// In the stop, however long that takes.
    InStop,
    /// In the stop, as long as this many nanoseconds of it are enough; else the rest is marked in steps.
    For(u64),
}

/// Decides how a collection is marked.
pub fn begin(m: &Measurements) -> Marking {
    let may_be_put_off = match m.stops {
        0 => true,
        stops => stops < MOST_STOPS && !m.ends_at_once,
    };
    let Some(limit) = m.limit_ns.filter(|_| m.possible && may_be_put_off) else {
        return Marking::InStop;
    };
    let rate = if m.scanned == 0 {
        USUAL_RATE
    } else {
        m.took_ns as f64 / m.scanned as f64
    };
    let takes = |bytes: usize| (bytes as f64 * rate) as u64;
    match () {
        () if m.steps_asked || m.even_if_small => Marking::For(0),
        () if m.in_stop_alone => Marking::For(limit / 8 * MARKING_IN_LIMIT),
        // Then nobody has to know what is written from now on. Written pages are those of the last time, so there is to
        // be room.
        () if takes(m.at_most) <= limit / 3 * 2 => Marking::InStop,
        () if takes(m.expected) > limit => Marking::For(0),
        // Nothing is lost where the time is over, since steps go on with the rest; but the stop was as long as that.
        () => Marking::For(limit / 8 * MARKING_IN_LIMIT),
    }
}

/// Whether it helps to put last stops of cycles off. It does where what they find is less each time. What is scanned in
/// each stop, whatever steps have marked, takes as long in the next one: roots, and what clients' mark procedures lead to.
#[derive(Clone, Copy, Debug, Default)]
pub struct PuttingOff {
    /// Cycles whose last stop is still to end at once.
    left: u32,
    /// How many there were to be in all; 0 if it helped last.
    whole: u32,
}

/// Cycles whose last stops end at once, after the first one that was put off in vain, and after many of them.
const FIRST_AT_ONCE: u32 = 8;
const MOST_AT_ONCE: u32 = 128;

impl PuttingOff {
    /// Nothing is known yet.
    pub const fn new() -> PuttingOff {
        PuttingOff { left: 0, whole: 0 }
    }

    /// Whether the last stop of a cycle ends at once, however long it takes.
    pub fn is_in_vain(&self) -> bool {
        self.left > 0
    }

    /// The last stop of a cycle has ended, which was put off so many `times` and then marked for `took_ns` nanoseconds.
    pub fn note(&mut self, times: u32, took_ns: u64, limit_ns: u64) {
        if took_ns <= limit_ns / 8 * MARKING_IN_LIMIT {
            *self = PuttingOff::new();
        } else if times > 0 {
            self.whole = self
                .whole
                .saturating_mul(2)
                .clamp(FIRST_AT_ONCE, MOST_AT_ONCE);
            self.left = self.whole;
        } else {
            self.left = self.left.saturating_sub(1);
        }
    }
}

/// What is remembered of how long marking takes, in nanoseconds for `scanned` bytes. These bytes took `took_ns`; what
/// was remembered is `before`, bytes and their nanoseconds. The slower counts, `before` a little forgotten.
pub fn remember(scanned: usize, took_ns: u64, before: (usize, u64)) -> u64 {
    let rate = before.1 as f64 / before.0.max(1) as f64;
    took_ns.max((scanned as f64 * rate * FORGETTING) as u64)
}

/// How a cycle stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Bytes that are expected to be scanned in all, since the last stop of the cycle.
    pub expected: usize,
    /// Bytes that steps and a helper have scanned.
    pub scanned: usize,
    /// Whether a helper marks beside the program, as far as anybody knows.
    pub helped: bool,
    /// Whether the helper has left nothing but what mark procedures lead to, which steps call.
    pub waits: bool,
    /// Bytes that are to be allocated in the meantime.
    pub allowance: usize,
    /// Bytes of all of the cycle: what could be allocated when it began until a collection in a stop would have begun.
    pub room: usize,
    /// Bytes that may be allocated in all of the cycle.
    pub most: usize,
    /// Bytes that were allocated since the last stop of the cycle, and since it began.
    pub allocated: usize,
    /// See `allocated`.
    pub in_all: usize,
}

/// Whether a step is due. Where memory is used up, each allocation that takes the lock makes one. A helper that marks beside the
/// program makes steps needless, but for what it has to leave to them.
pub fn is_step_due(p: &Progress) -> bool {
    if p.in_all >= p.room {
        return true;
    }
    if p.helped {
        return p.waits;
    }
    let done = p.scanned as f64 * p.allowance as f64;
    let due = p.expected as f64 * p.allocated as f64;
    done <= due
}

/// Whether the cycle has had its chance.
pub fn is_overdue(p: &Progress) -> bool {
    p.in_all >= p.most
}

/// Whether the kernel is asked about written pages in pieces, ahead of a stop: where the whole question takes longer than a step.
pub fn is_asked_ahead(question_ns: u64, step_ns: u64) -> bool {
    question_ns > step_ns
}

/// How long a step may take, in nanoseconds. A limit that is shorter than the shortest step is not kept, since nothing
/// would be marked.
pub fn step_ns(limit_ns: u64) -> u64 {
    (limit_ns / STEPS_IN_LIMIT).max(SHORTEST_STEP_NS)
}

/// What a step has taken so far. Nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// What it was given: of the processor's time, not of the time that passes.
    pub quantum_ns: u64,
    /// What has passed since it began.
    pub took_ns: u64,
    /// For how long its thread had the processor meanwhile.
    pub own_ns: u64,
    /// Whether no helper takes part, for which the thread may have waited.
    pub is_alone: bool,
}

impl Spent {
    /// Whether the thread lost the processor, as far as that can be told from waiting for a helper: helpers end in time
    /// unless they have lost theirs.
    fn has_lost(&self) -> bool {
        self.is_alone || self.took_ns > self.quantum_ns.saturating_add(self.quantum_ns / 4)
    }
}

/// How much of its time a step has left, if it is to go on.
pub fn rest_ns(s: &Spent) -> Option<u64> {
    if !s.has_lost() || s.took_ns >= s.quantum_ns.saturating_mul(MOST_QUANTA) {
        return None;
    }
    let rest = s.quantum_ns.saturating_sub(s.own_ns);
    (rest > s.quantum_ns / NEGLIGIBLE).then_some(rest)
}

/// How long a step took because its thread did not have the processor: others had it, or the thread waited for a helper
/// that did not have one either.
pub fn lost_ns(s: &Spent) -> u64 {
    let lost = s.took_ns.saturating_sub(s.own_ns);
    match s.has_lost() && lost > s.quantum_ns / NEGLIGIBLE {
        true => lost,
        false => 0,
    }
}

/// Whether a step took too long because of that, and not by itself.
pub fn lost_processor(s: &Spent) -> bool {
    let is_long = |took: u64| took.saturating_mul(2) > s.quantum_ns.saturating_mul(3);
    is_long(s.took_ns) && !is_long(s.own_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_that_take_no_longer_than_a_step_are_left_to_stops() {
        assert!(!is_asked_ahead(0, 250_000));
        assert!(!is_asked_ahead(250_000, 250_000));
        assert!(is_asked_ahead(250_001, 250_000));
    }

    #[test]
    fn what_fits_into_the_limit_is_marked_in_the_stop() {
        let m = Measurements {
            limit_ns: Some(10_000_000),
            expected: 4 << 20,
            at_most: 6 << 20,
            possible: true,
            ..Measurements::default()
        };
        assert_eq!(begin(&m), Marking::InStop);
        let unsure = Measurements {
            at_most: 9 << 20,
            ..m
        };
        assert_eq!(begin(&unsure), Marking::For(8_750_000));
        let large = Measurements {
            expected: 40 << 20,
            ..unsure
        };
        assert_eq!(begin(&large), Marking::For(0));
        let fast = Measurements {
            scanned: 100 << 20,
            took_ns: 10_000_000,
            at_most: 40 << 20,
            ..large
        };
        assert_eq!(begin(&fast), Marking::InStop);
        for (steps_asked, even_if_small) in [(true, false), (false, true)] {
            let asked = Measurements {
                steps_asked,
                even_if_small,
                ..m
            };
            assert_eq!(begin(&asked), Marking::For(0));
        }
        for stopped in [
            Measurements {
                possible: false,
                ..large
            },
            Measurements {
                limit_ns: None,
                ..large
            },
            Measurements {
                stops: MOST_STOPS,
                ..large
            },
        ] {
            assert_eq!(begin(&stopped), Marking::InStop);
        }
        let unknown = Measurements {
            in_stop_alone: true,
            ..large
        };
        assert_eq!(begin(&unknown), Marking::For(8_750_000));
        let another = Measurements {
            stops: MOST_STOPS - 1,
            ..large
        };
        assert_eq!(begin(&another), Marking::For(0));
    }

    #[test]
    fn a_last_stop_that_was_put_off_in_vain_ends_at_once_the_next_time() {
        let long = Measurements {
            limit_ns: Some(10_000_000),
            expected: 40 << 20,
            at_most: 40 << 20,
            possible: true,
            stops: 1,
            in_stop_alone: true,
            ..Measurements::default()
        };
        assert_eq!(begin(&long), Marking::For(8_750_000));
        let at_once = Measurements {
            ends_at_once: true,
            ..long
        };
        assert_eq!(begin(&at_once), Marking::InStop);
        // The stop with which a cycle begins is another matter.
        let first = Measurements {
            stops: 0,
            in_stop_alone: false,
            ..at_once
        };
        assert_eq!(begin(&first), Marking::For(0));
    }

    #[test]
    fn what_is_found_in_each_stop_is_no_reason_to_put_it_off() {
        const LIMIT: u64 = 16_000;
        let mut putting_off = PuttingOff::new();
        let ends_at_once = |putting_off: &mut PuttingOff| {
            let mut times = 0;
            while putting_off.is_in_vain() {
                putting_off.note(0, 15_000, LIMIT);
                times += 1;
            }
            times
        };
        putting_off.note(3, 14_000, LIMIT);
        assert!(!putting_off.is_in_vain(), "the stop was in time");
        putting_off.note(0, 15_000, LIMIT);
        assert!(!putting_off.is_in_vain(), "it was not put off");
        putting_off.note(1, 14_001, LIMIT);
        assert_eq!(ends_at_once(&mut putting_off), FIRST_AT_ONCE);
        putting_off.note(3, u64::MAX, LIMIT);
        assert_eq!(ends_at_once(&mut putting_off), 2 * FIRST_AT_ONCE);
        putting_off.note(1, 15_000, LIMIT);
        putting_off.note(0, 14_000, LIMIT);
        assert!(!putting_off.is_in_vain(), "it takes less by now");
        for _ in 0..8 {
            putting_off.note(1, 15_000, LIMIT);
        }
        assert_eq!(ends_at_once(&mut putting_off), MOST_AT_ONCE);
    }

    /// A step of 100 nanoseconds.
    fn spent(took_ns: u64, own_ns: u64) -> Spent {
        Spent {
            quantum_ns: 100,
            took_ns,
            own_ns,
            is_alone: true,
        }
    }

    #[test]
    fn a_step_that_is_long_by_its_own_time_is_not_excused() {
        assert!(lost_processor(&spent(151, 150)));
        assert!(!lost_processor(&spent(150, 10)));
        assert!(!lost_processor(&spent(400, 151)));
        assert!(!lost_processor(&spent(u64::MAX, u64::MAX)));
    }

    #[test]
    fn a_step_has_the_time_that_it_was_given_on_the_processor() {
        assert_eq!(rest_ns(&spent(100, 100)), None);
        assert_eq!(rest_ns(&spent(110, 40)), Some(60));
        assert_eq!(rest_ns(&spent(399, 40)), Some(60));
        // What is left is not worth it, or the program has waited long enough.
        assert_eq!(rest_ns(&spent(110, 88)), None);
        assert_eq!(rest_ns(&spent(400, 40)), None);
        let endless = Spent {
            quantum_ns: u64::MAX,
            ..spent(10, 10)
        };
        assert_eq!(rest_ns(&endless), Some(u64::MAX - 10));
    }

    #[test]
    fn waiting_for_a_helper_that_is_in_time_is_no_loss() {
        let with_helpers = |took_ns, own_ns| Spent {
            is_alone: false,
            ..spent(took_ns, own_ns)
        };
        assert_eq!(rest_ns(&with_helpers(125, 10)), None);
        assert_eq!(lost_ns(&with_helpers(125, 10)), 0);
        assert_eq!(rest_ns(&with_helpers(126, 10)), Some(90));
        assert_eq!(lost_ns(&with_helpers(126, 10)), 116);
        assert_eq!(lost_ns(&spent(125, 10)), 115);
        assert_eq!(lost_ns(&spent(112, 100)), 0);
    }

    #[test]
    fn a_slow_marking_is_remembered_for_a_while() {
        assert_eq!(remember(1000, 500, (0, 0)), 500);
        assert_eq!(remember(1000, 500, (100, 20)), 500);
        assert_eq!(remember(1000, 500, (100, 100)), 800);
        assert_eq!(remember(1000, 500, (1000, 600)), 500);
    }

    #[test]
    fn steps_keep_pace_with_allocation() {
        let progress = |scanned, allocated| Progress {
            expected: 1000,
            allowance: 50,
            room: 200,
            most: 300,
            scanned,
            helped: false,
            waits: false,
            allocated,
            in_all: allocated,
        };
        assert!(is_step_due(&progress(0, 0)));
        assert!(!is_step_due(&progress(201, 10)));
        assert!(is_step_due(&progress(200, 10)));
        // What lives is more than was expected: the pace stays.
        assert!(is_step_due(&progress(1000, 150)));
        assert!(!is_step_due(&progress(4000, 199)) && is_step_due(&progress(5000, 200)));
        assert!(!is_overdue(&progress(0, 299)) && is_overdue(&progress(5000, 300)));
        // A helper makes none due.
        let helped = |allocated| Progress {
            helped: true,
            ..progress(0, allocated)
        };
        assert!(!is_step_due(&helped(0)) && !is_step_due(&helped(199)));
        assert!(is_step_due(&helped(200)), "memory is used up");
        let waits = Progress {
            waits: true,
            ..helped(0)
        };
        assert!(is_step_due(&waits));
        let huge = Progress {
            expected: usize::MAX,
            scanned: usize::MAX,
            helped: false,
            waits: false,
            allowance: usize::MAX,
            room: usize::MAX,
            most: usize::MAX,
            allocated: 1,
            in_all: 1,
        };
        assert!(!is_step_due(&huge) && !is_overdue(&huge));
    }

    #[test]
    fn a_step_is_a_part_of_the_limit_and_never_too_short_for_work() {
        assert_eq!(step_ns(50_000_000), 3_125_000);
        assert_eq!(step_ns(1_000_000), SHORTEST_STEP_NS);
        assert_eq!(step_ns(0), SHORTEST_STEP_NS);
    }
}
