//! The speed of cores: those that run only some roles are made slower (OOPSLA 2012, sections 4.3 and 6).
//!
//! By a lower maximum frequency where the kernel controls it; elsewhere a share of processor time for a group of threads
//! stands in for a slower core, and is called that. What is decided is a pure function (`decide`); the rest writes what
//! was decided into the kernel's files, and puts back what was there, as do the guard and the next start.

mod bandwidth;
mod change;
mod decide;
mod frequency;
mod group;
mod maximum;
mod settings;
mod state;
mod writer;

use std::time::Duration;

use bandwidth::Bandwidth;
use frequency::Frequency;
use state::State;

use crate::Processors;

use crate::files::Files;
pub use change::Change;
pub use decide::{Domain, Frequencies, Seen, Share, frequencies, share};
pub(crate) use group::quota;
pub use settings::{Slow, SlowBy, SlowWhen};
pub(crate) use state::{append, believed, directories};
pub use state::{put_back, put_back_left};
pub use writer::Writer;

/// The means.
#[derive(Debug)]
enum Means {
    Frequency(Frequency),
    Bandwidth(Bandwidth),
    /// None of them: all runs at full speed.
    None,
}

/// What the user is told when threads are slow by bandwidth.
const STANDS_IN: &str = "CPU bandwidth control stands in for slower cores: threads get a part of their processors' time, at full frequency";
/// For how long the threads of a program that starts may be mixed before a message says that they are.
const MIXED: Duration = Duration::from_secs(1);

/// Changes speeds while a program runs, and puts them back.
#[derive(Debug)]
pub struct Speed {
    slow: Slow,
    files: Files,
    state: State,
    means: Means,
    changes: Vec<Change>,
    messages: Vec<String>,
    /// Why what should be slow is not, since when, and whether a message has said it.
    kept: (String, Duration, bool),
    /// When it was updated last; how long something was slow.
    last: Duration,
    slow_for: Duration,
    was_slow: bool,
}

impl Speed {
    /// Finds the means for the program `process`, and removes groups that earlier starts have left beside it.
    pub fn start(slow: Slow, files: Files, writer: Writer, process: u32) -> Speed {
        let mut speed = Speed {
            state: State::new(&files, writer),
            messages: Vec::new(),
            means: Means::None,
            changes: Vec::new(),
            kept: Default::default(),
            last: Duration::ZERO,
            slow_for: Duration::ZERO,
            was_slow: false,
            slow,
            files,
        };
        match speed.find(writer, process) {
            Ok(means) => speed.means = means,
            Err(why) => speed.give_up(&why),
        }
        speed
    }

    fn find(&mut self, writer: Writer, process: u32) -> Result<Means, String> {
        let group = group::Group::of_process(&self.files, process);
        if let Ok((group, _)) = &group {
            self.messages.extend(group.remove_left(&self.files));
        }
        let frequency = Frequency::read(&self.files);
        let has_frequency = !frequency.domains.is_empty();
        match self.slow.by {
            SlowBy::Frequency | SlowBy::Auto if has_frequency => Ok(Means::Frequency(frequency)),
            SlowBy::Frequency => Err(
                "the kernel has no frequency control (cpufreq) of the processors that are online, as in most virtual \
                 machines; load a driver for it, or take slow-by=bandwidth"
                    .into(),
            ),
            SlowBy::Auto if self.slow.when == SlowWhen::Idle => Err(format!(
                "there is no frequency control (cpufreq), and {}",
                settings::IDLE_BY_BANDWIDTH
            )),
            _ => {
                let (group, home) = group?;
                let bandwidth = Bandwidth::new(group.child(&writer.name()), home);
                Ok(Means::Bandwidth(bandwidth))
            }
        }
    }

    /// Brings speeds up to date: `elapsed` since the program's start, with its threads and the processors it may use.
    pub fn update(&mut self, elapsed: Duration, threads: &[Seen], usable: &Processors) {
        self.count(elapsed);
        let done = match &mut self.means {
            Means::Frequency(frequency) => {
                let wanted = frequencies(threads, &frequency.domains, usable, &self.slow, elapsed);
                let done = (0..frequency.domains.len()).try_for_each(|number| {
                    let wanted = wanted.slow.get(&number);
                    let khz = wanted.map(|(khz, _)| *khz);
                    if frequency.is_set(&self.files, number, khz) {
                        return Ok(());
                    }
                    frequency.set(&self.files, &mut self.state, number, khz)?;
                    let domain = &frequency.domains[number];
                    self.changes.push(Change {
                        by: "frequency",
                        what: format!("processors {}", domain.processors),
                        value: format!("{} kHz", khz.unwrap_or(domain.full)),
                        reason: wanted.map_or("full speed".into(), |(_, reason)| reason.clone()),
                    });
                    Ok(())
                });
                self.was_slow |= frequency.is_slow();
                self.keep(elapsed, wanted.kept);
                done
            }
            Means::Bandwidth(bandwidth) => {
                let wanted = share(threads, &self.slow, elapsed);
                let update = bandwidth.update(&self.files, &mut self.state, wanted);
                let kept = bandwidth.kept();
                if bandwidth.is_slow() && !std::mem::replace(&mut self.was_slow, true) {
                    self.messages.push(STANDS_IN.into());
                }
                update.map(|change| {
                    self.changes.extend(change);
                    self.keep(elapsed, kept);
                })
            }
            Means::None => Ok(()),
        };
        if let Err(why) = done {
            self.messages.extend(self.state.undo(&self.files));
            self.means = Means::None;
            let root = match why.contains("denied") && !why.contains("root") {
                true => "; run as root",
                false => "",
            };
            self.give_up(&format!("{why}{root}"));
        }
    }

    fn give_up(&mut self, why: &str) {
        self.messages
            .push(format!("all threads run at full speed: {why}"));
        self.changes.push(Change {
            by: "none",
            what: "all threads".into(),
            value: "full speed".into(),
            reason: why.into(),
        });
    }

    /// Adds the time since the last update to that during which something was slow.
    fn count(&mut self, elapsed: Duration) {
        let is_slow = match &self.means {
            Means::Frequency(frequency) => frequency.is_slow(),
            Means::Bandwidth(bandwidth) => bandwidth.is_slow(),
            Means::None => false,
        };
        if is_slow {
            self.slow_for += elapsed.saturating_sub(self.last);
        }
        self.last = elapsed;
    }

    /// Notes why something is not slow that should be.
    fn keep(&mut self, elapsed: Duration, why: String) {
        if self.kept.0 != why {
            self.kept = (why, elapsed, false);
        }
        let (why, since, is_said) = &mut self.kept;
        if !why.is_empty() && !*is_said && elapsed.saturating_sub(*since) >= MIXED {
            *is_said = true;
            let message = full_speed(why);
            self.messages.push(message);
        }
    }

    /// Puts everything back. `elapsed`: since the program's start.
    pub fn end(&mut self, elapsed: Duration) {
        self.count(elapsed);
        let (why, _, is_said) = &self.kept;
        if !why.is_empty() && !is_said && !self.was_slow {
            self.messages.push(full_speed(why));
        }
        let is_slow = match &mut self.means {
            Means::Frequency(frequency) => frequency.is_slow(),
            Means::Bandwidth(bandwidth) => {
                bandwidth.sample(&self.files);
                bandwidth.is_slow()
            }
            Means::None => false,
        };
        self.messages.extend(self.state.undo(&self.files));
        if is_slow {
            self.changes.push(Change {
                by: self.by(),
                what: "all".into(),
                value: "full speed".into(),
                reason: "the program has ended".into(),
            });
        }
    }

    fn by(&self) -> &'static str {
        match &self.means {
            Means::Frequency(_) => "frequency",
            Means::Bandwidth(_) => "bandwidth",
            Means::None => "none",
        }
    }

    /// The changes since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// What the user is to be told since the last call.
    pub fn take_messages(&mut self) -> Vec<String> {
        std::mem::take(&mut self.messages)
    }

    /// What was slow, by which means, and how long: after [`Speed::end`].
    pub fn summary(&self) -> String {
        let (roles, percent) = (&self.slow.roles, self.slow.percent);
        let seconds = self.slow_for.as_secs_f64();
        match &self.means {
            _ if !self.was_slow => format!("{roles}: nothing was slow"),
            Means::Frequency(frequency) => format!(
                "{roles}: {percent} % by frequency, {seconds:.2} s on processors {}",
                frequency.slowed()
            ),
            Means::Bandwidth(bandwidth) => {
                let throttled = bandwidth.throttled();
                format!(
                    "{roles}: {percent} % by bandwidth, which stands in for a slower core, {seconds:.2} s for up to {} \
                     threads; throttled {} times, {:.2} s",
                    bandwidth.most(),
                    throttled.times,
                    throttled.time.as_secs_f64()
                )
            }
            Means::None => format!("{roles}: {seconds:.2} s, then at full speed"),
        }
    }
}

/// Says that what should be slow is not.
fn full_speed(why: &str) -> String {
    format!(
        "slow threads run at full speed: {why}; placement=isolated with isolate= as slow= sets them apart"
    )
}

#[cfg(test)]
mod tests;
