//! The process that changes speeds, as the names of its group and of its file tell it.

use crate::usage::Stat;

/// The process that changes speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    process: u32,
    started: u64,
}

impl Writer {
    /// A process that runs.
    pub fn of(process: u32) -> Option<Writer> {
        let started = Stat::read(&format!("/proc/{process}"))?.started;
        Some(Writer { process, started })
    }

    /// Reads what [`Writer::name`] gives.
    pub fn parse(name: &str) -> Option<Writer> {
        let rest = name.strip_prefix("gleaner-place-")?;
        let (process, started) = rest.split_once('-')?;
        Some(Writer {
            process: process.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    /// The name of its group and of its file.
    pub fn name(&self) -> String {
        format!("gleaner-place-{}-{}", self.process, self.started)
    }

    /// Whether it has ended.
    pub(crate) fn is_gone(&self) -> bool {
        let stat = Stat::read(&format!("/proc/{}", self.process));
        stat.is_none_or(|stat| stat.started != self.started || stat.has_ended())
    }
}
