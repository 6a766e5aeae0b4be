//! Which processors are slower, and at what frequency; which threads have a smaller share of processor time, and how
//! much: pure functions of the threads, where the plan puts them, and the frequency domains.
//!
//! # Invariants
//!
//! A domain is slowed only if a slow thread is placed on it, no other thread of the program is, and it has no processor
//! that the program may not use. Its maximum is never below the lowest of the hardware, nor above what it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::settings::{Slow, SlowWhen};
use crate::{Processors, Role, ThreadId};

/// A thread that is placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which it is.
    pub id: ThreadId,
    /// What it is for.
    pub role: Role,
    /// Where it may run.
    pub processors: Processors,
    /// Whether it ran at the last look, or since the one before.
    pub runs: bool,
}

/// Processors whose frequency is one; in kHz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The processors of the domain that are online.
    pub processors: Processors,
    /// What the hardware can do at least and at most.
    pub lowest: u64,
    /// What the hardware can do at most.
    pub highest: u64,
    /// The maximum that was set before.
    pub full: u64,
}

/// What is to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequencies {
    /// The maximum of each domain that is slow, by its number, and why.
    pub slow: BTreeMap<usize, (u64, String)>,
    /// Why domains of slow threads are not slow though they should be; empty if there are none.
    pub kept: String,
}

/// The share of processor time of the slow threads together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Whose it is.
    pub threads: BTreeSet<ThreadId>,
    /// How many microseconds of processor time the threads get in each period.
    pub quota: u64,
    /// How many microseconds a period has.
    pub period: u64,
    /// Why.
    pub reason: String,
}

/// The kernel's least quota, and the usual period: short, for a slow core is slow all the time. Microseconds.
const LEAST_QUOTA: u64 = 1_000;
const USUAL_PERIOD: u64 = 10_000;

/// Whether it is time: `elapsed` since the program's start.
fn is_time(slow: &Slow, elapsed: Duration) -> bool {
    slow.when != SlowWhen::Warm || elapsed >= Duration::from_secs(slow.warm_after)
}

/// Decides by frequency. `usable` are the processors that the program may use.
pub fn frequencies(
    threads: &[Seen],
    domains: &[Domain],
    usable: &Processors,
    slow: &Slow,
    elapsed: Duration,
) -> Frequencies {
    let mut answer = Frequencies::default();
    if !is_time(slow, elapsed) {
        return answer;
    }
    let mut kept = Vec::new();
    for (number, domain) in domains.iter().enumerate() {
        let on = |thread: &&Seen| {
            let common = thread.processors.intersection(&domain.processors);
            !common.is_empty()
        };
        let (mine, others): (Vec<&Seen>, Vec<&Seen>) = threads
            .iter()
            .filter(on)
            .partition(|thread| slow.is_slow(thread.role));
        if mine.is_empty() {
            continue;
        }
        let foreign = domain.processors.difference(usable);
        if !others.is_empty() {
            let roles: BTreeSet<_> = others.iter().map(|thread| thread.role.name()).collect();
            let roles: Vec<_> = roles.into_iter().collect();
            kept.push(format!(
                "processors {} have one frequency and run {} threads, too",
                domain.processors,
                roles.join(", ")
            ));
        } else if !foreign.is_empty() {
            kept.push(format!(
                "processors {} have one frequency, and {foreign} are not the program's",
                domain.processors
            ));
        } else if slow.when != SlowWhen::Idle || !mine.iter().any(|thread| thread.runs) {
            let (khz, reason) = maximum(domain, slow);
            if khz < domain.full {
                answer.slow.insert(number, (khz, reason));
            }
        }
    }
    answer.kept = kept.join("; ");
    answer
}

/// The maximum of a slow domain, and why.
fn maximum(domain: &Domain, slow: &Slow) -> (u64, String) {
    let wanted = domain.highest * slow.percent / 100;
    let why = match slow.when {
        SlowWhen::Always => "only slow roles run there",
        SlowWhen::Warm => "only slow roles run there, and start-up is over",
        SlowWhen::Idle => "only slow roles run there, and none runs now",
    };
    let bound = match wanted < domain.lowest {
        true => format!(", the lowest frequency is {} kHz", domain.lowest),
        false => String::new(),
    };
    (
        wanted.max(domain.lowest),
        format!("{why}: {} % of {} kHz{bound}", slow.percent, domain.highest),
    )
}

/// Decides by bandwidth. `None`: no thread is slow.
pub fn share(threads: &[Seen], slow: &Slow, elapsed: Duration) -> Option<Share> {
    if !is_time(slow, elapsed) || slow.when == SlowWhen::Idle {
        return None;
    }
    let mine: Vec<_> = threads
        .iter()
        .filter(|thread| slow.is_slow(thread.role))
        .collect();
    let processors: Processors = mine.iter().flat_map(|it| it.processors.iter()).collect();
    let cores = processors.count().min(mine.len()) as u64;
    if cores == 0 {
        return None;
    }
    let period = USUAL_PERIOD.max((LEAST_QUOTA * 100).div_ceil(slow.percent));
    Some(Share {
        threads: mine.iter().map(|thread| thread.id).collect(),
        quota: period * cores * slow.percent / 100,
        period,
        reason: format!(
            "{} % of {cores} processors: {} slow threads on processors {processors}",
            slow.percent,
            mine.len()
        ),
    })
}

#[cfg(test)]
mod tests;
