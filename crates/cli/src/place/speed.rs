//! Slow roles while a program runs: speeds follow its threads, and are put back when it has ended.

use std::time::Instant;

use gleaner_place::{Files, Follower, Slow, Speed, Writer};

use super::log::Log;
use super::warn::warn;

/// Nothing, where no role is slow.
pub(super) struct Slowing {
    speed: Option<Speed>,
    /// Of the follower, at the last update.
    version: Option<u64>,
}

impl Slowing {
    /// For the program `process`. `writer` is this process.
    pub(super) fn start(
        slow: &Slow,
        files: Files,
        writer: Option<Writer>,
        process: u32,
    ) -> Slowing {
        let speed = match (slow.is_any(), writer) {
            (true, Some(writer)) => Some(Speed::start(slow.clone(), files, writer, process)),
            (true, None) => {
                warn("all threads run at full speed: /proc says nothing of this process");
                None
            }
            (false, _) => None,
        };
        Slowing {
            speed,
            version: None,
        }
    }

    /// Brings speeds up to date if threads have changed, or were looked at.
    pub(super) fn follow(&mut self, follower: &Follower, start: Instant, log: &mut Option<Log>) {
        let Some(speed) = &mut self.speed else { return };
        let version = Some(follower.version());
        if self.version != version {
            self.version = version;
            speed.update(start.elapsed(), &follower.seen(), &follower.usable());
        }
        tell(speed, start, log);
    }

    /// Puts everything back.
    pub(super) fn end(&mut self, start: Instant, log: &mut Option<Log>) {
        if let Some(speed) = &mut self.speed {
            speed.end(start.elapsed());
            tell(speed, start, log);
        }
    }

    /// A line for `--stats`.
    pub(super) fn summary(&self) -> String {
        let line = |speed: &Speed| format!("  {:12} {}\n", "slow", speed.summary());
        self.speed.as_ref().map_or(String::new(), line)
    }
}

fn tell(speed: &mut Speed, start: Instant, log: &mut Option<Log>) {
    speed.take_messages().iter().for_each(warn);
    let changes = speed.take_changes();
    if let Some(log) = log {
        changes
            .iter()
            .for_each(|change| log.write_change(start, change));
    }
}
