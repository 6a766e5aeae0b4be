//! The runs of a comparison: first each side without being timed, where its log tells the pauses, then round by round.
//!
//! A round is a run of each side, the baseline first or last as a random order says. Rounds are looked at after numbers that
//! are fixed beforehand, so that looking often does not make wrong verdicts likely. The machine's noise is that of the baseline
//! against itself, from one round to the next, which takes no run of its own.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use super::found::{BASELINE, Both, Ending, Figures, Found, OWN};
use super::pauses::{Log, Pauses};
use super::process::{self, Conditions, Run};
use super::sequential::{Looks, Verdict};
use super::side::Side;
use super::signals::Signals;
use crate::arguments::CompareArgs;
use crate::failure::Failure;
use crate::inherited;
use crate::launch::Launch;
use crate::progress::Progress;
use crate::words;

/// Whether the baseline comes first in a round. Of two rounds one after the other it does in one, so that a machine that
/// becomes slower is no advantage; in which one, is as if at random.
pub(super) fn is_first(seed: u64, round: usize) -> bool {
    let mut hasher = DefaultHasher::new();
    (seed, round / 2).hash(&mut hasher);
    (hasher.finish() & 1 == 1) ^ (round % 2 == 1)
}

/// A comparison that is being made.
pub(super) struct Comparison<'a> {
    args: &'a CompareArgs,
    launch: Launch,
    signals: Signals,
    progress: Progress,
    began: Instant,
    found: Found,
    /// What each side wrote to standard error in its first run.
    errors: Both<Option<String>>,
}

impl Comparison<'_> {
    /// One that has not begun.
    pub(super) fn new(
        args: &CompareArgs,
        sides: Both<Side>,
        looks: Looks,
        launch: Launch,
        signals: Signals,
    ) -> Comparison<'_> {
        let found = Found {
            sides,
            looks,
            rounds: Vec::new(),
            pauses: [None, None],
            outputs: [BTreeSet::new(), BTreeSet::new()],
            ending: Ending::Looked,
            floor: 0,
            round_takes: 0.0,
        };
        Comparison {
            args,
            launch,
            signals,
            progress: Progress::new(),
            began: Instant::now(),
            found,
            errors: [None, None],
        }
    }

    /// Runs both sides until it is known which is faster, or there is no more time.
    pub(super) fn make(mut self) -> Result<Found, Failure> {
        self.found.ending = match self.warm_up()? {
            true => self.make_rounds()?,
            false => Ending::Interrupted,
        };
        self.found.floor = own_peak();
        Ok(self.found)
    }

    /// Runs each side without timing it, with a log the first time. The baseline is first: a program that fails by itself is
    /// known before Gleaner comes into it. False if this process is to end.
    fn warm_up(&mut self) -> Result<bool, Failure> {
        for number in 1..=self.args.warm_up {
            let began = Instant::now();
            for side in [BASELINE, OWN] {
                let log = (number == 1).then(Log::new).flatten();
                let command = match &log {
                    Some(log) => self.found.sides[side].logged(&self.launch, &log.path()),
                    None => self.found.sides[side].command(&self.launch),
                };
                if self.one(side, command, "before the first round")?.is_none() {
                    return Ok(false);
                }
                if let Some(log) = log {
                    self.found.pauses[side] = self.pauses(side, log)?;
                }
            }
            self.found.round_takes = began.elapsed().as_secs_f64();
        }
        Ok(true)
    }

    fn pauses(&self, side: usize, log: Log) -> Result<Option<Pauses>, Failure> {
        self.progress.say("reading the log");
        log.read(&self.found.sides[side])
    }

    fn make_rounds(&mut self) -> Result<Ending, Failure> {
        let began = Instant::now();
        for number in 1..=self.found.looks.last() {
            if !self.has_time() {
                return Ok(Ending::Budget);
            }
            let Some(round) = self.round(number)? else {
                return Ok(Ending::Interrupted);
            };
            self.found.rounds.push(round);
            self.found.round_takes = began.elapsed().as_secs_f64() / number as f64;
            if self.found.looks.are_due(number) && self.found.verdict() != Verdict::Undecided {
                break;
            }
        }
        Ok(Ending::Looked)
    }

    /// Whether another round is done before the budget is used up, if it takes as long as those before.
    fn has_time(&self) -> bool {
        let needed = Duration::from_secs_f64(self.found.round_takes);
        self.args.rounds.is_some() || self.began.elapsed() + needed <= self.args.budget
    }

    fn round(&mut self, number: usize) -> Result<Option<Both<Figures>>, Failure> {
        let mut order = [BASELINE, OWN];
        if !is_first(self.args.seed, number) {
            order.reverse();
        }
        let mut round = [None; 2];
        for side in order {
            let command = self.found.sides[side].command(&self.launch);
            let Some(run) = self.one(side, command, &format!("in round {number}"))? else {
                return Ok(None);
            };
            round[side] = Some(Figures::from(&run));
        }
        Ok(match round {
            [Some(own), Some(baseline)] => Some([own, baseline]),
            _ => None,
        })
    }

    /// One run, which must go well; nothing if this process is to end.
    fn one(&mut self, side: usize, command: Command, when: &str) -> Result<Option<Run>, Failure> {
        if !self.prepare()? {
            return Ok(None);
        }
        self.say_where(side, when);
        let conditions = Conditions {
            input: self.args.input.as_deref(),
            limit: self.limit(),
            is_shown: self.args.show_output,
            signals: &self.signals,
        };
        let run = process::run(command, &conditions);
        let Some(run) = run.map_err(|error| self.launch.not_executable(&error))? else {
            return Ok(None);
        };
        self.check(side, &run, when)?;
        self.found.outputs[side].insert(run.output);
        self.say_errors(side, &run);
        Ok(Some(run))
    }

    /// When a run is ended.
    fn limit(&self) -> Duration {
        self.args.limit.unwrap_or(self.args.budget)
    }

    /// Runs the command that comes before each run. False if this process is to end.
    fn prepare(&self) -> Result<bool, Failure> {
        if self.signals.is_asked() {
            return Ok(false);
        }
        let Some(text) = &self.args.prepare else {
            return Ok(true);
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        inherited::pass_on(&mut command);
        let failed = |why: &dyn std::fmt::Display| {
            Failure::failed(format_args!("the command of --prepare failed: {why}"))
        };
        let status = command.status().map_err(|error| failed(&error))?;
        match (status.success(), self.signals.is_asked()) {
            (_, true) => Ok(false),
            (true, _) => Ok(true),
            (false, _) => Err(failed(&ended(status))),
        }
    }

    /// Refuses a run that failed: its time is that of something else.
    fn check(&self, side: usize, run: &Run, when: &str) -> Result<(), Failure> {
        let name = &self.found.sides[side];
        let why = match run.is_late {
            true => format!(
                "did not end within {} ({})",
                words::time(self.limit().as_nanos() as u64),
                match self.args.limit {
                    Some(_) => "--limit",
                    None => "the budget; --budget TIME gives more, --limit TIME a run alone",
                }
            ),
            false if run.status.success() => return Ok(()),
            false => format!("failed: {}", ended(run.status)),
        };
        let mut text = format!("on {name} the program {why}, {when}");
        if side == BASELINE && self.found.outputs[OWN].is_empty() {
            text += ", before Gleaner came into it";
        }
        if self.args.input.is_none() {
            text += ". Its standard input is empty (--input FILE)";
        }
        if !run.errors.is_empty() {
            text += &format!(". It wrote to standard error:\n{}", run.errors);
        }
        Err(Failure::failed(text))
    }

    /// Says where the command is, on a terminal.
    fn say_where(&self, side: usize, when: &str) {
        let left = match self.args.rounds {
            Some(rounds) => format!("of {rounds}"),
            None => {
                let left = self.args.budget.saturating_sub(self.began.elapsed());
                format!("at most {} left", words::time(left.as_nanos() as u64))
            }
        };
        self.progress
            .say(format!("on {}, {when}, {left}", self.found.sides[side]));
    }

    /// Shows once what the program writes to standard error, when both sides have run.
    fn say_errors(&mut self, side: usize, run: &Run) {
        if self.args.show_output || self.errors[side].is_some() {
            return;
        }
        self.errors[side] = Some(run.errors.clone());
        let [Some(own), Some(baseline)] = &self.errors else {
            return;
        };
        let say = |text: &str, on: &str| {
            if !text.is_empty() {
                let text =
                    format!("gleaner: the program wrote to standard error, on {on}:\n{text}\n");
                self.progress.print(&text);
            }
        };
        let [own_name, baseline_name] = &self.found.sides;
        if own == baseline {
            say(own, "either side");
        } else {
            say(baseline, &baseline_name.to_string());
            say(own, &own_name.to_string());
        }
    }
}

/// How a program ended, in words.
fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "it did not end".into(),
    }
}

/// Bytes of this process's greatest memory; 0 if the kernel does not say.
fn own_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
