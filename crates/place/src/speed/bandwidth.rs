//! The thin part of bandwidth control: keeps the slow threads, and no others, in a group with a quota.

use super::change::Change;
use super::decide::Share;
use super::group::{self, Group, Throttled};
use super::state::{Entry, State};
use crate::files::Files;

/// The group of slow threads, which is made when there are some.
#[derive(Debug)]
pub(super) struct Bandwidth {
    group: Group,
    /// The name of the group around it, from which threads are taken.
    home: String,
    is_made: bool,
    /// The quota and the period that it has.
    bounds: Option<(u64, u64)>,
    members: Vec<u32>,
    /// Slow threads that are in other groups than the program.
    elsewhere: usize,
    most: usize,
    throttled: Throttled,
}

impl Bandwidth {
    pub(super) fn new(group: Group, home: String) -> Bandwidth {
        Bandwidth {
            group,
            home,
            is_made: false,
            bounds: None,
            members: Vec::new(),
            elsewhere: 0,
            most: 0,
            throttled: Throttled::default(),
        }
    }

    pub(super) fn is_slow(&self) -> bool {
        !self.members.is_empty()
    }

    /// The most threads that were slow at a time.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn throttled(&self) -> Throttled {
        self.throttled
    }

    pub(super) fn sample(&mut self, files: &Files) {
        if self.is_made {
            self.throttled = self.group.throttled(files);
        }
    }

    /// Why slow threads are not slow; empty if all are.
    pub(super) fn kept(&self) -> String {
        match self.elsewhere {
            0 => String::new(),
            count => format!("{count} threads are in another group (cgroup) than the program"),
        }
    }

    /// Brings the group up to date.
    pub(super) fn update(
        &mut self,
        files: &Files,
        state: &mut State,
        wanted: Option<Share>,
    ) -> Result<Option<Change>, String> {
        let before = (self.bounds, self.members.len());
        let Some(share) = wanted else {
            if self.is_made {
                self.let_go(files, |_| true)?;
            }
            self.members.clear();
            let change = (before.1 > 0).then(|| self.change("no slow thread is left".into()));
            return Ok(change);
        };
        if !self.is_made {
            let enabled = self.group.must_enable(files);
            state.add(Entry::Group {
                group: self.group.clone(),
                enabled,
            })?;
            self.group.make(files, enabled)?;
            self.is_made = true;
        }
        let bounds = (share.quota, share.period);
        if self.bounds != Some(bounds) {
            self.group.bound(files, share.quota, share.period)?;
            self.bounds = Some(bounds);
        }
        self.let_go(files, |thread| {
            !share.threads.iter().any(|id| id.number == thread)
        })?;
        self.take(files, &share)?;
        let is_new = before != (self.bounds, self.members.len());
        Ok(is_new.then(|| self.change(share.reason)))
    }

    /// Lets threads of the group go back; those that slow threads have started are born in it.
    fn let_go(&self, files: &Files, goes: impl Fn(u32) -> bool) -> Result<(), String> {
        let inside = self
            .group
            .threads(files)
            .map_err(|error| self.lost(&error))?;
        for thread in inside.into_iter().filter(|&thread| goes(thread)) {
            let back = self.group.give_back(files, thread);
            back.map_err(|error| {
                format!("thread {thread} cannot leave {}: {error}", self.group.path)
            })?;
        }
        Ok(())
    }

    /// Takes in those of the slow threads that are not inside.
    fn take(&mut self, files: &Files, share: &Share) -> Result<(), String> {
        let inside = self
            .group
            .threads(files)
            .map_err(|error| self.lost(&error))?;
        self.members.clear();
        self.elsewhere = 0;
        for thread in share.threads.iter().map(|id| id.number) {
            let is_inside = inside.contains(&thread);
            if !is_inside && !group::is_in(files, thread, &self.home) {
                // One that has ended is in no group.
                self.elsewhere += usize::from(files.has(&format!("/proc/{thread}")));
                continue;
            }
            if !is_inside {
                let taken = self.group.take(files, thread);
                taken.map_err(|error| {
                    format!("thread {thread} cannot enter {}: {error}", self.group.path)
                })?;
            }
            self.members.push(thread);
        }
        self.most = self.most.max(self.members.len());
        Ok(())
    }

    fn lost(&self, error: &std::io::Error) -> String {
        format!("the group {} cannot be read: {error}", self.group.path)
    }

    fn change(&self, reason: String) -> Change {
        let value = match self.bounds {
            Some((quota, period)) if self.is_slow() => format!("{quota} of each {period} us"),
            _ => "full speed".into(),
        };
        Change {
            by: "bandwidth",
            what: format!("{} threads", self.members.len()),
            value,
            reason,
        }
    }
}
