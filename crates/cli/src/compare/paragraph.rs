//! The paragraph: what was found, in sentences that the numbers below bear out.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use super::found::{BASELINE, Ending, Found, OWN, Outputs};
use super::pauses::Pauses;
use super::sequential::{FIRST_LOOK, LEAST_TO_ESTIMATE, SAME, Verdict};
use super::side::Side;
use super::statistics::{Estimate, rounds_to_decide};
use crate::launch::quoted;
use crate::words::{counted, time, wrapped};

/// By which factor the baseline differs from its own time at most on a quiet machine, and on a restless one. docs/measured.md
/// defines the words; the lab has them from the same numbers (`lab/gleaner_lab/answers.py`).
const QUIET: f64 = 1.10;
/// See [`QUIET`].
const RESTLESS: f64 = 1.25;

/// All sentences, in lines.
pub(super) fn text(found: &Found) -> String {
    let sentences = [
        headline(found),
        undecided(found),
        processor(found),
        noise(found),
        output(found),
        unknown_pauses(found),
        advice(found),
    ];
    let sentences: Vec<String> = sentences.into_iter().flatten().collect();
    wrapped(&sentences.join(" "))
}

/// The verdict, with what it is about.
fn headline(found: &Found) -> Option<String> {
    let [own, baseline] = &found.sides;
    let ratio = found.time().and_then(|time| time.ratio);
    let takes = |ratio: &Estimate| {
        let mut parts = vec![format!("{} of the time", interval(ratio))];
        if let Some(pauses) = pause_ratio(found) {
            parts.push(format!("{pauses} of the longest pause (one run each)"));
        }
        if let Some(memory) = found.memory().and_then(|memory| memory.ratio) {
            parts.push(format!("{:.3} of the peak memory", memory.value));
        }
        listed(&parts)
    };
    let verdict = match (found.verdict(), &ratio) {
        (_, None) => format!("Undecided: {own} and {baseline} did not run to be timed"),
        (Verdict::Faster, Some(ratio)) => {
            format!("{own} is faster than {baseline}: it takes {}", takes(ratio))
        }
        (Verdict::Slower, Some(ratio)) => {
            format!("{own} is slower than {baseline}: it takes {}", takes(ratio))
        }
        (Verdict::Same, Some(ratio)) => format!(
            "{own} and {baseline} take the same time within {:.0} %: {own} takes {}",
            (SAME - 1.0) * 100.0,
            takes(ratio)
        ),
        (Verdict::Undecided, Some(ratio)) => format!(
            "Undecided whether {own} is faster than {baseline}: it takes {}",
            takes(ratio)
        ),
    };
    let rounds = counted(found.rounds.len() as u64, "round");
    let machine = found.noise().map_or(String::new(), |noise| {
        format!(", {}", Machine::of(noise).name())
    });
    Some(format!("{verdict}; {rounds}{machine}."))
}

/// What would decide.
fn undecided(found: &Found) -> Option<String> {
    if found.verdict() != Verdict::Undecided {
        return None;
    }
    let why = match found.ending {
        Ending::Interrupted => "It was interrupted",
        Ending::Budget => "The budget is used up",
        Ending::Looked => "The rounds are used up",
    };
    if found.rounds.is_empty() {
        let takes = found.round_takes;
        let advice = match takes > 0.0 {
            true => format!(
                ": a round takes some {}; --budget TIME gives more",
                seconds(takes)
            ),
            false => String::new(),
        };
        return Some(format!("{why}{advice}."));
    }
    if found.rounds.len() < LEAST_TO_ESTIMATE {
        let made = counted(found.rounds.len() as u64, "round");
        let verb = if found.rounds.len() == 1 {
            "tells"
        } else {
            "tell"
        };
        let takes = seconds(FIRST_LOOK as f64 * found.round_takes);
        return Some(format!(
            "{why}: {made} {verb} too little of the noise to say how many would decide. {FIRST_LOOK} rounds can tell that, \
             in {takes} (--rounds {FIRST_LOOK})."
        ));
    }
    let [own, baseline] = found.series(|run| run.wall);
    // That many, looked at once.
    Some(match rounds_to_decide(&own, &baseline, 0.95, SAME) {
        Some(rounds) => {
            let rounds = rounds.max(found.rounds.len() + 1).max(FIRST_LOOK);
            let takes = seconds(rounds as f64 * found.round_takes);
            format!("{why}: about {rounds} rounds would decide, in {takes} (--rounds {rounds}).")
        }
        None => format!(
            "{why}, and no number of rounds that is worth waiting for would decide: choose a quieter machine, or a run \
             that takes longer."
        ),
    })
}

/// What processor time says where time decides nothing: others on the machine take little of it.
fn processor(found: &Found) -> Option<String> {
    let ratio = found.quantity(|run| run.cpu)?.ratio?;
    let word = match Verdict::of(&ratio) {
        Verdict::Faster => "less",
        Verdict::Slower => "more",
        Verdict::Same | Verdict::Undecided => return None,
    };
    let [own, baseline] = &found.sides;
    (found.verdict() == Verdict::Undecided).then(|| {
        format!(
            "Of processor time, which noise changes less, {own} takes {word} than {baseline}: {}.",
            interval(&ratio)
        )
    })
}

/// How a machine is, from what the baseline takes of its own time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Machine {
    Quiet,
    Restless,
    Busy,
}

impl Machine {
    fn of((low, high): (f64, f64)) -> Machine {
        let far = high.max(1.0 / low);
        if far <= QUIET {
            Machine::Quiet
        } else if far <= RESTLESS {
            Machine::Restless
        } else {
            Machine::Busy
        }
    }

    fn name(self) -> &'static str {
        match self {
            Machine::Quiet => "a quiet machine",
            Machine::Restless => "a restless machine",
            Machine::Busy => "a busy machine",
        }
    }
}

fn noise(found: &Found) -> Option<String> {
    let (low, high) = found.noise()?;
    let baseline = &found.sides[BASELINE];
    let spans = format!(
        "{baseline} against itself, from one round to the next, spans {low:.2} to {high:.2}"
    );
    Some(match Machine::of((low, high)) {
        Machine::Quiet | Machine::Restless => format!("The noise: {spans}."),
        Machine::Busy => {
            format!("This machine is too busy, or the program's own time varies: {spans}.")
        }
    })
}

fn output(found: &Found) -> Option<String> {
    let [own, baseline] = &found.sides;
    match found.output() {
        Outputs::Same => None,
        Outputs::Differ => Some(format!(
            "Beware: the program writes something else on {own} than on {baseline}; --show-output shows it."
        )),
        Outputs::Vary => Some(
            "What the program writes differs from run to run, so it does not tell whether both sides did the same.".into(),
        ),
    }
}

fn unknown_pauses(found: &Found) -> Option<String> {
    let unknown: Vec<String> = (found.sides.iter().zip(&found.pauses))
        .filter(|(_, pauses)| pauses.is_none())
        .map(|(side, _)| side.to_string())
        .collect();
    (!unknown.is_empty())
        .then(|| format!("The pauses of {} are not known.", unknown.join(" and of ")))
}

/// The ratio of the longest pauses, if both sides have any.
fn pause_ratio(found: &Found) -> Option<String> {
    let [own, baseline] = found.longest_pauses()?;
    (own > 0 && baseline > 0).then(|| format!("{:.3}", own as f64 / baseline as f64))
}

/// What to switch on, as Gleaner's log advises.
fn advice(found: &Found) -> Option<String> {
    let own = &found.sides[OWN];
    let Pauses { advice, count, .. } = found.pauses[OWN].as_ref()?;
    Some(match (count, advice.as_str()) {
        (0, _) => format!("{own} did not collect, so there is nothing to switch on."),
        (_, "") => format!("The log of {own} advises nothing to switch on."),
        (_, advice) if options_of(advice).is_empty() => format!("Nothing to switch on: {advice}"),
        (_, advice) => format!("To switch on, perhaps: {advice}"),
    })
}

/// What to type next, a line each: how to use what is faster, to try what is advised, and to see more. `gleaner` is the word
/// for this command.
pub(super) fn commands(found: &Found, gleaner: &OsStr, program: &[OsString]) -> String {
    let own = &found.sides[OWN];
    let word = |word: &OsStr| quoted(&word.to_string_lossy());
    let gleaner = word(gleaner);
    let words: Vec<String> = program.iter().map(|one| word(one)).collect();
    let program = words.join(" ");
    let mut text = String::new();
    if (found.verdict(), &found.sides[BASELINE]) == (Verdict::Faster, &Side::Stock) {
        text += &format!("To use it:  {gleaner} exec {}-- {program}\n", own.words());
    }
    let advice = found.pauses[OWN].as_ref().map(|pauses| &*pauses.advice);
    for option in options_of(advice.unwrap_or_default()) {
        text += &format!(
            "To try it:  {gleaner} compare {}-- {program}\n",
            own.trial_of(option)
        );
    }
    text += &format!(
        "To see it:  {gleaner} exec {}--log gc.jsonl -- {program} && {gleaner} report gc.jsonl\n",
        own.words()
    );
    text
}

/// The options that advice names.
fn options_of(advice: &str) -> Vec<&str> {
    advice
        .split("--opt ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .map(|word| word.trim_end_matches([')', '.', ',']))
        .collect()
}

/// An interval that goes further says nothing, and is not shown.
const MOST_SHOWN: f64 = 1e6;

/// A ratio with its interval.
pub(super) fn interval(ratio: &Estimate) -> String {
    let Estimate {
        value, low, high, ..
    } = ratio;
    if *high < MOST_SHOWN {
        format!("{value:.3} [{low:.3}, {high:.3}]")
    } else {
        format!("{value:.3} (too few rounds for an interval)")
    }
}

fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Seconds, in words.
pub(super) fn seconds(seconds: f64) -> String {
    time(Duration::try_from_secs_f64(seconds).map_or(u64::MAX, |time| time.as_nanos() as u64))
}

#[cfg(test)]
mod tests;
