//! The processes of a program: the first one, those that it started, and so on.
//!
//! # Invariants
//!
//! - A process that was found once stays one of them until it ends, also when another process becomes its parent.
//! - Where the placer adopts (`PR_SET_CHILD_SUBREAPER`), a process whose parent ended is the placer's child, and so one
//!   of them, though nobody has seen it before. This does not hold where the placer had children before it started the
//!   program, as those of a shell that became it by `exec`. These and what they start do not belong to the program, and
//!   nobody knows to whom a process belongs whose parent ended unseen.
//! - No other process becomes one of them: what was seen to be foreign is not read again, but for a census in 64, since
//!   the kernel may use its number again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use rustix::thread::CpuSet;

use super::budget::Limit;
use super::tasks::{Numbers, links};
use crate::usage::Stat;

#[derive(Debug)]
pub(super) struct Family {
    root: u32,
    /// The process whose children are of the family, if they are; the guard is not.
    adopter: Option<u32>,
    guard: Option<u32>,
    adopts_unseen: bool,
    members: BTreeMap<u32, Member>,
    foreign: BTreeSet<u32>,
    /// The sets that threads were given.
    given: Vec<CpuSet>,
    censuses: u32,
    /// Members that nobody has written down yet.
    new: Vec<u32>,
    /// Adopted ones that have ended, to be waited for.
    ended: Vec<u32>,
    /// The next one whose number of threads is looked at.
    cursor: u32,
}

#[derive(Debug)]
struct Member {
    started: u64,
    links: u64,
    /// Whether one of its threads was recognised by its name.
    is_recognised: bool,
    /// Until then it has threads that may be given a name yet.
    young_until: Option<Instant>,
    /// Sets that its threads, or those of the process that started it, were given: new threads inherit them.
    given: Vec<CpuSet>,
}

/// All processes of the machine, as they are read.
#[derive(Debug)]
pub(super) struct Census {
    entries: Option<Numbers>,
    listed: BTreeSet<u32>,
    found: BTreeMap<u32, Stat>,
}

impl Family {
    pub(super) fn new(root: u32) -> Family {
        let mut family = Family {
            root,
            adopter: None,
            guard: None,
            adopts_unseen: false,
            members: BTreeMap::new(),
            foreign: BTreeSet::new(),
            given: Vec::new(),
            censuses: 0,
            new: Vec::new(),
            ended: Vec::new(),
            cursor: 0,
        };
        let started = Stat::read(&format!("/proc/{root}")).map_or(0, |stat| stat.started);
        family.add(root, started, Vec::new());
        family
    }

    /// The children of `adopter` are of the family, but for its guard; not where it `had_children` of its own before.
    pub(super) fn adopt(&mut self, adopter: u32, guard: Option<u32>, had_children: bool) {
        (self.adopter, self.guard) = (Some(adopter), guard);
        self.adopts_unseen = !had_children;
    }

    fn add(&mut self, process: u32, started: u64, given: Vec<CpuSet>) {
        let member = Member {
            started,
            links: 0,
            is_recognised: false,
            young_until: None,
            given,
        };
        self.members.insert(process, member);
        self.new.push(process);
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        self.members.keys().copied().collect()
    }

    /// Each with the time at which it started.
    pub(super) fn started(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let started = |(&process, member): (&u32, &Member)| (process, member.started);
        self.members.iter().map(started)
    }

    /// The processes that were found since the last call.
    pub(super) fn take_new(&mut self) -> Vec<(u32, u64)> {
        let new = std::mem::take(&mut self.new);
        let started = |process| Some((process, self.members.get(&process)?.started));
        new.into_iter().filter_map(started).collect()
    }

    pub(super) fn take_ended(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// The processes with young threads, or with another number of threads than when it was read last. Where the limit
    /// is reached, not all processes are looked at; the next call goes on.
    pub(super) fn changed(&mut self, now: Instant, limit: &mut Limit) -> Vec<u32> {
        let mut changed = Vec::new();
        let order = self.members.range(self.cursor..);
        let order = order.chain(self.members.range(..self.cursor));
        for (&process, member) in order {
            if limit.is_reached() {
                self.cursor = process;
                break;
            }
            let is_young = member.young_until.is_some_and(|until| now < until);
            if is_young || links(process).is_some_and(|count| count != member.links) {
                changed.push(process);
            }
        }
        changed
    }

    /// A process is about to be read. Gives its threads; none if it has ended.
    pub(super) fn read(&mut self, process: u32) -> Option<Numbers> {
        // Its number may be another's by now.
        let started = Stat::read(&format!("/proc/{process}"))?.started;
        if self
            .members
            .get(&process)
            .is_some_and(|it| it.started != started)
        {
            self.members.remove(&process);
            return None;
        }
        if let (Some(member), Some(count)) = (self.members.get_mut(&process), links(process)) {
            member.links = count;
        }
        Numbers::of_threads(process)
    }

    pub(super) fn has_young(&mut self, process: u32, until: Instant) {
        if let Some(member) = self.members.get_mut(&process) {
            member.young_until = Some(until);
        }
    }

    /// A thread of the process was recognised. True if that is the first one.
    pub(super) fn recognise(&mut self, process: u32) -> bool {
        let member = self.members.get_mut(&process);
        member.is_some_and(|member| !std::mem::replace(&mut member.is_recognised, true))
    }

    /// Whether a thread of the process was recognised, which stays so when that one ends.
    pub(super) fn is_recognised(&self, process: u32) -> bool {
        let member = self.members.get(&process);
        member.is_some_and(|member| member.is_recognised)
    }

    /// A thread of the process was given a set.
    pub(super) fn give(&mut self, process: u32, set: CpuSet) {
        if !self.given.contains(&set) {
            self.given.push(set);
        }
        let member = self.members.get_mut(&process);
        if let Some(member) = member.filter(|member| !member.given.contains(&set)) {
            member.given.push(set);
        }
    }

    /// Whether a new thread of the process may have inherited the set.
    pub(super) fn may_inherit(&self, process: u32, set: &CpuSet) -> bool {
        let member = self.members.get(&process);
        member.is_some_and(|member| member.given.contains(set))
    }

    /// Whether all threads of the process run where they started: none was recognised, and none may have inherited a set.
    pub(super) fn is_untouched(&self, process: u32) -> bool {
        let member = self.members.get(&process);
        member.is_some_and(|member| !member.is_recognised && member.given.is_empty())
    }

    /// The first thread of a process has ended: if nobody else waits for it, the placer does.
    pub(super) fn note_end(&mut self, process: u32, stat: &Stat) {
        let is_adopted = self.adopter == Some(stat.parent);
        if stat.has_ended() && is_adopted && process != self.root {
            self.ended.push(process);
        }
    }

    /// Begins to find out which processes there are.
    pub(super) fn census(&mut self) -> Census {
        if self.censuses % 64 == 63 {
            self.foreign.clear();
        }
        self.censuses += 1;
        Census {
            entries: Numbers::of("/proc"),
            listed: BTreeSet::new(),
            found: BTreeMap::new(),
        }
    }

    /// Goes on with a census by a process. True when it has ended.
    pub(super) fn go_on(&mut self, census: &mut Census) -> bool {
        match census.entries.as_mut().and_then(Iterator::next) {
            Some(None) => {}
            Some(Some(process)) => {
                census.listed.insert(process);
                if !self.members.contains_key(&process) && !self.foreign.contains(&process) {
                    let stat = Stat::read(&format!("/proc/{process}"));
                    census.found.extend(stat.map(|stat| (process, stat)));
                }
            }
            None => {
                self.finish(census);
                return true;
            }
        }
        false
    }

    fn finish(&mut self, census: &mut Census) {
        let (root, listed) = (self.root, &census.listed);
        // Where /proc could not be read nobody has gone.
        if !listed.is_empty() {
            self.members
                .retain(|it, _| *it == root || listed.contains(it));
            self.foreign.retain(|it| listed.contains(it));
        }
        let mut found = std::mem::take(&mut census.found);
        for (&process, stat) in &found {
            self.note_end(process, stat);
        }
        found.retain(|_, stat| !stat.has_ended());
        loop {
            let is_mine = |(process, stat): &(&u32, &Stat)| {
                let is_adopted = self.adopter == Some(stat.parent) && self.guard != Some(**process);
                self.members.contains_key(&stat.parent) || self.adopts_unseen && is_adopted
            };
            let mine: Vec<_> = found.iter().filter(is_mine).map(|(&it, _)| it).collect();
            if mine.is_empty() {
                break;
            }
            for process in mine {
                let Some(stat) = found.remove(&process) else {
                    continue;
                };
                let parent = self.members.get(&stat.parent);
                // Of an adopted one nobody knows the parent.
                let given = parent.map_or(&self.given, |parent| &parent.given).clone();
                self.add(process, stat.started, given);
            }
        }
        self.foreign.extend(found.keys());
    }
}

/// Whether the calling process has children.
pub fn has_children() -> bool {
    let this = std::process::id();
    let mut processes = Numbers::of("/proc").into_iter().flatten().flatten();
    let is_child = |process: u32| {
        let stat = Stat::read(&format!("/proc/{process}"));
        stat.is_some_and(|stat| stat.parent == this)
    };
    processes.any(is_child)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeps() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn children_of_the_adopter_are_of_the_family() {
        let mut children = [(); 3].map(|()| sleeps());
        let [root, guard, orphan] = children.each_ref().map(Child::id);
        for had_children in [false, true] {
            let mut family = Family::new(root);
            family.adopt(std::process::id(), Some(guard), had_children);
            let mut census = family.census();
            while !family.go_on(&mut census) {}
            assert_eq!(family.members.contains_key(&orphan), !had_children);
            assert!(!family.members.contains_key(&guard));
        }
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
