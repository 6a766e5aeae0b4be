//! Whether goals of marking in steps were kept, and sentences about those that were not.
//!
//! Three things may go wrong. A stop may be longer than the time limit, the program may allocate faster than steps mark,
//! and steps may lose the processor. All of that is told by events ([`Stop::add`]), so the heap itself (`--stats`) and a
//! reader of its log (`gleaner report`) count in the same way and say the same ([`write_sentences`]).
#![forbid(unsafe_code)]

use core::fmt;

use crate::events::{Phase, reasons};

/// What a stop is made of, as far as somebody can do something about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Stopping,
    Written,
    Roots,
    Mark,
    Weak,
}

impl Part {
    const ALL: [Part; 5] = [
        Part::Stopping,
        Part::Written,
        Part::Roots,
        Part::Mark,
        Part::Weak,
    ];

    fn of(phase: Phase) -> Option<Part> {
        Some(match phase {
            Phase::StopWorld => Part::Stopping,
            Phase::Written => Part::Written,
            Phase::Roots => Part::Roots,
            Phase::Mark | Phase::Overflow => Part::Mark,
            Phase::Weak => Part::Weak,
            _ => return None,
        })
    }
}

/// A stop, made up of its events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stop {
    goal_ns: u64,
    took_ns: u64,
    is_asked: bool,
    is_overtaken: bool,
    /// Whether steps came before it, of which it ends the cycle.
    is_stepped: bool,
    parts: [u64; Part::ALL.len()],
}

impl Stop {
    /// Adds an event of the collection that the stop belongs to; the times in nanoseconds.
    pub fn add(&mut self, phase: Phase, duration_ns: u64, goal_ns: u64, reason: &str) {
        match phase {
            Phase::Start => self.is_asked = reasons::is_asked(reason),
            Phase::StopWorld => self.goal_ns = self.goal_ns.max(goal_ns),
            Phase::CycleEnd => {
                self.is_overtaken = reason == reasons::OVERTAKEN;
                self.is_stepped = true;
            }
            _ => {}
        }
        if let Some(part) = Part::of(phase) {
            let sum = &mut self.parts[part as usize];
            *sum = sum.saturating_add(duration_ns);
        }
    }

    /// Nanoseconds that it took until all threads had stopped.
    pub fn stopping_ns(&self) -> u64 {
        self.parts[Part::Stopping as usize]
    }

    /// What took longest of it, or nothing that has a name, and how many nanoseconds that were.
    fn longest_part(&self) -> (Option<Part>, u64) {
        let named = self
            .parts
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        let rest = (None, self.took_ns.saturating_sub(named));
        let parts = Part::ALL.map(|part| (Some(part), self.parts[part as usize]));
        parts
            .into_iter()
            .fold(rest, |most, one| match one.1 > most.1 {
                true => one,
                false => most,
            })
    }
}

/// How many stops had a goal, and which of them missed it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Goals {
    /// Stops that had a goal.
    pub stops: u64,
    /// Those of them that were longer.
    pub missed: u64,
    /// Those of the longer ones that ended collections which were asked for in words.
    pub asked: u64,
    /// Cycles of steps that the program overtook.
    pub overtaken: u64,
    /// The least and the greatest goal that was missed, in nanoseconds.
    least_ns: u64,
    most_ns: u64,
    /// The longest of those that were not asked for, or of all if there are no others.
    longest: Stop,
}

impl Goals {
    /// Counts a stop that is over and took `took_ns` nanoseconds.
    pub fn note(&mut self, stop: &Stop, took_ns: u64) {
        self.overtaken += u64::from(stop.is_overtaken);
        if stop.goal_ns == 0 {
            return;
        }
        self.stops += 1;
        if took_ns <= stop.goal_ns {
            return;
        }
        let stop = Stop { took_ns, ..*stop };
        let rank = |stop: &Stop| (stop.took_ns > 0, !stop.is_asked, stop.took_ns);
        if rank(&stop) > rank(&self.longest) {
            self.longest = stop;
        }
        self.least_ns = match self.missed {
            0 => stop.goal_ns,
            _ => self.least_ns.min(stop.goal_ns),
        };
        self.most_ns = self.most_ns.max(stop.goal_ns);
        self.missed += 1;
        self.asked += u64::from(stop.is_asked);
    }
}

/// Steps of marking and what they lost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Steps {
    /// Cycles that began.
    pub cycles: u64,
    /// Steps.
    pub steps: u64,
    /// Those that took too long because they lost the processor.
    pub lost: u64,
    /// Nanoseconds for which all steps were without it.
    pub lost_ns: u64,
}

/// Writes what was missed and what can be done about it, a line for each goal; nothing if all were kept.
pub fn write_sentences(out: &mut dyn fmt::Write, goals: &Goals, steps: &Steps) -> fmt::Result {
    if goals.missed > 0 {
        write_stops(out, goals)?;
    }
    if goals.overtaken > 0 {
        writeln!(
            out,
            "{} of {} cycles of steps {} overtaken: {}, and the rest was marked in a stop. A lower free-space-divisor \
             leaves cycles more memory.",
            goals.overtaken,
            steps.cycles.max(goals.overtaken),
            were(goals.overtaken),
            reasons::OVERTAKEN
        )?;
    }
    if steps.lost > 0 {
        write!(out, "The machine took the processor from steps")?;
        // Older logs do not have it.
        if steps.lost_ns > 0 {
            write!(out, " for {} in all", Time(steps.lost_ns))?;
        }
        writeln!(
            out,
            ", and {} of {} steps took too long because of that: other threads needed it. Leave a processor to the \
             program, or mark with fewer threads (markers).",
            steps.lost, steps.steps
        )?;
    }
    Ok(())
}

fn were(count: u64) -> &'static str {
    match count {
        1 => "was",
        _ => "were",
    }
}

fn write_stops(out: &mut dyn fmt::Write, goals: &Goals) -> fmt::Result {
    write!(
        out,
        "{} of {} stops {} longer than the goal of {}",
        goals.missed,
        goals.stops,
        were(goals.missed),
        Time(goals.least_ns)
    )?;
    if goals.most_ns > goals.least_ns {
        write!(out, " to {}", Time(goals.most_ns))?;
    }
    match goals.asked {
        0 => {}
        all if all == goals.missed => write!(
            out,
            ", of collections that were asked for and are finished in one stop"
        )?,
        some => write!(
            out,
            "; {some} of these {} asked for and finished in one stop",
            were(some)
        )?,
    }
    let longest = &goals.longest;
    write!(out, ". The longest")?;
    if goals.asked > 0 && !longest.is_asked {
        write!(out, " of the others")?;
    }
    write!(out, " took {}", Time(longest.took_ns))?;
    if longest.is_asked {
        return writeln!(
            out,
            ". GC_start_incremental_collection in the place of GC_gcollect marks in steps."
        );
    }
    let (part, ns) = longest.longest_part();
    writeln!(out, ", {} of it {}.", Time(ns), advice(part, longest))
}

/// What a part of a stop is, and what makes it shorter.
fn advice(part: Option<Part>, stop: &Stop) -> &'static str {
    match part {
        Some(Part::Stopping) => {
            "until all threads had stopped: leave a processor to each, and do not block the suspend signal"
        }
        Some(Part::Written) => {
            "to ask the kernel which pages were written, which takes the longer the larger the heap is: set a goal that \
             leaves room for it (GC_PAUSE_TIME_TARGET)"
        }
        Some(Part::Roots) => {
            "to scan roots, which is done in stops alone: keep large tables in the heap, or out of the roots \
             (GC_exclude_static_roots)"
        }
        Some(Part::Mark) if stop.is_overtaken => "to mark what the steps of its cycle had left",
        Some(Part::Mark) if !stop.is_stepped => {
            "to mark without steps before it, as in the first collection of a forked child, or where marking was expected \
             to take less than the goal"
        }
        Some(Part::Mark) => {
            "to mark what had been written since the last step, or is found in stops alone (mark procedures, other \
             roots): where that cannot be less, a longer goal is kept (GC_PAUSE_TIME_TARGET)"
        }
        Some(Part::Weak) => {
            "for weak links and finalizers: register these as GC_register_finalizer_no_order where their order does not \
             matter"
        }
        None => {
            "beside roots, marking and the like: for callbacks of the program, or since the collecting thread lost the \
             processor"
        }
    }
}

/// Nanoseconds in words, with two or three digits.
struct Time(u64);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            ..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let hundredths = self.0.saturating_add(unit / 200) / (unit / 100);
        let (whole, rest) = (hundredths / 100, hundredths % 100);
        match (whole, rest) {
            (10.., _) => write!(out, "{} {name}", hundredths.saturating_add(50) / 100),
            (_, 0) => write!(out, "{whole} {name}"),
            (_, rest) if rest % 10 == 0 => write!(out, "{whole}.{} {name}", rest / 10),
            (_, rest) => write!(out, "{whole}.{rest:02} {name}"),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stop(goal_ms: u64, reason: &str, phases: &[(Phase, u64)]) -> Stop {
        let mut stop = Stop::default();
        stop.add(Phase::Start, 0, 0, reason);
        stop.add(Phase::StopWorld, MS, goal_ms * MS, "");
        for (phase, ms) in phases {
            stop.add(*phase, ms * MS, 0, "");
        }
        stop
    }

    fn said(goals: &Goals, steps: &Steps) -> String {
        let mut text = String::new();
        write_sentences(&mut text, goals, steps).unwrap();
        text
    }

    #[test]
    fn of_goals_that_were_kept_nothing_is_said() {
        let mut goals = Goals::default();
        goals.note(&stop(10, "enough was allocated", &[]), 10 * MS);
        goals.note(&stop(0, "enough was allocated", &[]), 90 * MS);
        assert_eq!((goals.stops, goals.missed), (1, 0));
        let steps = Steps {
            cycles: 3,
            steps: 9,
            lost: 0,
            lost_ns: 5,
        };
        assert_eq!(said(&goals, &steps), "");
    }

    #[test]
    fn the_longest_stop_says_what_took_so_long() {
        let mut goals = Goals::default();
        goals.note(&stop(10, "", &[(Phase::Mark, 11)]), 12 * MS);
        goals.note(
            &stop(10, "", &[(Phase::Roots, 19), (Phase::Mark, 10)]),
            31 * MS,
        );
        goals.note(&stop(10, "", &[(Phase::Weak, 12)]), 14 * MS);
        goals.note(&stop(10, "", &[]), 9 * MS);
        let text = said(&goals, &Steps::default());
        assert_eq!(
            text,
            "3 of 4 stops were longer than the goal of 10 ms. The longest took 31 ms, 19 ms of it to scan roots, which is \
             done in stops alone: keep large tables in the heap, or out of the roots (GC_exclude_static_roots).\n"
        );
        let last_words = [
            (Phase::Written, "which pages were written"),
            (Phase::Mark, "without steps before it"),
            (Phase::Overflow, "without steps before it"),
            (Phase::Weak, "GC_register_finalizer_no_order"),
            (Phase::StopWorld, "suspend signal"),
            (Phase::ClearMarks, "callbacks of the program"),
        ];
        for (phase, words) in last_words {
            let mut goals = Goals::default();
            goals.note(&stop(10, "", &[(phase, 20)]), 30 * MS);
            let text = said(&goals, &Steps::default());
            assert!(text.starts_with("1 of 1 stops was longer"), "{text}");
            assert!(text.contains(words), "{phase:?}: {text}");
        }
    }

    #[test]
    fn what_was_written_since_the_last_step_is_blamed_where_there_were_steps() {
        let mut stop = stop(10, "", &[(Phase::Mark, 20)]);
        stop.add(Phase::CycleEnd, 0, 0, reasons::MARKED);
        let mut goals = Goals::default();
        goals.note(&stop, 30 * MS);
        let text = said(&goals, &Steps::default());
        assert!(text.contains("since the last step"), "{text}");
        assert!(text.contains("mark procedures"), "{text}");
    }

    #[test]
    fn events_of_one_part_are_added_up() {
        let mut goals = Goals::default();
        let phases = [
            (Phase::Mark, 8),
            (Phase::Roots, 10),
            (Phase::Overflow, 7),
            (Phase::Mark, 1),
        ];
        let stop = stop(10, "", &phases);
        assert_eq!(stop.stopping_ns(), MS);
        goals.note(&stop, 30 * MS);
        let text = said(&goals, &Steps::default());
        assert!(text.contains("took 30 ms, 16 ms of it to mark"), "{text}");
    }

    /// The first end of a cycle says nothing of one that ends later in the same collection.
    #[test]
    fn the_last_end_of_a_cycle_counts() {
        let mut stop = stop(10, "", &[]);
        stop.add(Phase::CycleEnd, 0, 0, reasons::OVERTAKEN);
        stop.add(Phase::CycleEnd, 0, 0, reasons::MARKED);
        let mut goals = Goals::default();
        goals.note(&stop, MS);
        assert_eq!(goals.overtaken, 0);
    }

    #[test]
    fn the_greatest_goal_that_was_missed_is_named_whichever_came_last() {
        let mut goals = Goals::default();
        goals.note(&stop(10, "", &[]), 20 * MS);
        goals.note(&stop(5, "", &[]), 20 * MS);
        let text = said(&goals, &Steps::default());
        assert!(text.contains("the goal of 5 ms to 10 ms"), "{text}");
    }

    /// Of a log that begins within a cycle, only the end of the cycle is known.
    #[test]
    fn no_fewer_cycles_are_named_than_were_overtaken() {
        let mut stop = stop(10, "", &[]);
        stop.add(Phase::CycleEnd, 0, 0, reasons::OVERTAKEN);
        let mut goals = Goals::default();
        goals.note(&stop, MS);
        let text = said(&goals, &Steps::default());
        assert!(text.starts_with("1 of 1 cycles"), "{text}");
    }

    #[test]
    fn what_was_asked_for_is_told_apart() {
        let mut goals = Goals::default();
        goals.note(&stop(10, "GC_gcollect", &[(Phase::Mark, 80)]), 90 * MS);
        let asked = said(&goals, &Steps::default());
        assert!(asked.contains(
            "1 of 1 stops was longer than the goal of 10 ms, of collections that were asked for"
        ));
        assert!(
            asked.contains("The longest took 90 ms. GC_start_incremental_collection"),
            "{asked}"
        );
        goals.note(&stop(5, "", &[(Phase::Mark, 7)]), 8 * MS);
        goals.note(&stop(10, "GC_gcollect", &[(Phase::Mark, 90)]), 95 * MS);
        let both = said(&goals, &Steps::default());
        assert!(
            both.starts_with(
                "3 of 3 stops were longer than the goal of 5 ms to 10 ms; 2 of these were asked for and finished in one \
                 stop. The longest of the others took 8 ms, 7 ms of it to mark"
            ),
            "{both}"
        );
    }

    #[test]
    fn cycles_that_were_overtaken_and_steps_without_a_processor_are_named() {
        let mut goals = Goals::default();
        let mut late = stop(10, "", &[(Phase::Mark, 15)]);
        late.add(Phase::CycleEnd, 0, 0, reasons::OVERTAKEN);
        goals.note(&late, 20 * MS);
        let mut marked = stop(10, "", &[]);
        marked.add(Phase::CycleEnd, 0, 0, reasons::MARKED);
        goals.note(&marked, 2 * MS);
        let steps = Steps {
            cycles: 2,
            steps: 120,
            lost: 9,
            lost_ns: 42 * MS,
        };
        let text = said(&goals, &steps);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].ends_with("15 ms of it to mark what the steps of its cycle had left."));
        assert!(lines[1].starts_with("1 of 2 cycles of steps was overtaken: memory was used up"));
        assert!(lines[2].starts_with(
            "The machine took the processor from steps for 42 ms in all, and 9 of 120 steps took too long"
        ));
        let older = Steps {
            lost_ns: 0,
            ..steps
        };
        let text = said(&goals, &older);
        assert!(
            text.contains("took the processor from steps, and 9 of 120"),
            "{text}"
        );
        // Without a goal a cycle can be overtaken, too.
        late.goal_ns = 0;
        let mut goals = Goals::default();
        goals.note(&late, 20 * MS);
        assert_eq!((goals.stops, goals.overtaken), (0, 1));
        assert!(said(&goals, &steps).starts_with("1 of 2 cycles"));
    }

    #[test]
    fn times_have_few_digits() {
        for (ns, expected) in [
            (0, "0 ms"),
            (250_000, "0.25 ms"),
            (4_000_000, "4 ms"),
            (4_200_000, "4.2 ms"),
            (9_876_543, "9.88 ms"),
            (31_400_000, "31 ms"),
            (31_500_000, "32 ms"),
            (1_250_000_000, "1.25 s"),
            (u64::MAX, "18446744074 s"),
        ] {
            assert_eq!(Time(ns).to_string(), expected, "{ns}");
        }
    }
}
