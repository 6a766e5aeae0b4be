//! Threads to be placed, and what is decided for them.

use std::collections::BTreeMap;

use crate::{Habit, Processors, Role};

/// A thread, by the kernel's number and the time at which it started, so that no later thread is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// The kernel's number.
    pub number: u32,
    /// When it started, in the kernel's ticks since the machine did.
    pub started: u64,
}

impl ThreadId {
    /// All that have had the kernel's number.
    pub(crate) fn range(number: u32) -> std::ops::RangeInclusive<ThreadId> {
        let at = |started| ThreadId { number, started };
        at(0)..=at(u64::MAX)
    }
}

/// A thread to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Which it is.
    pub id: ThreadId,
    /// What it is for.
    pub role: Role,
    /// Whether it is of a recognised process.
    pub is_recognised: bool,
    /// What it is like; only `auto` asks.
    pub habit: Habit,
}

/// Where a thread is to run, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// On one of these.
    pub processors: Processors,
    /// Why.
    pub reason: String,
    /// The group that it was put into, by a number that stays the same while the machine does.
    pub(super) group: usize,
    /// The only processor, of a pinned thread.
    pub(super) pinned: Option<usize>,
}

impl Decision {
    /// A thread that its program has put somewhere, and that is left there.
    pub(crate) fn left(processors: Processors) -> Decision {
        Decision {
            processors,
            reason: "left where its program has put it".into(),
            group: usize::MAX,
            pinned: None,
        }
    }

    /// Whether the thread is pinned to one processor.
    pub fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }
}

/// The decision for each thread.
pub type Plan = BTreeMap<ThreadId, Decision>;
