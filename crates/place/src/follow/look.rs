//! Looking at threads: those that are new, those that ran lately, all; and what each is for.

use std::collections::BTreeSet;
use std::time::Instant;

use super::budget::Limit;
use super::record::Record;
use super::tasks::{affinity, set_of};
use super::walk::Walk;
use super::{CLOCKS, Follower, Known, SHORT_WAIT, WHOLE, WIDE, YOUTH, directory};
use crate::usage::{Clock, Counters, Stat, deeds};
use crate::{Hotspot, Naming, Placement, Role, ThreadId, policy};

impl Follower {
    /// Finds the threads that are new, and those that have another name, and places them.
    pub(super) fn look_at_new(&mut self, now: Instant, limit: &mut Limit) {
        self.apply(limit);
        if !self.wants_decision() {
            if self.new_walk.is_none() {
                let changed = self.family.changed(now, limit);
                self.new_walk = (!changed.is_empty()).then(|| Walk::of(changed));
            }
            if let Some(walk) = self.new_walk.take() {
                self.new_walk = self.walk(walk, now, limit);
            }
        }
        self.place(limit);
    }

    /// Finds all threads, those that have ended, and what threads have used.
    pub(super) fn look_at_all(&mut self, now: Instant, limit: &mut Limit) {
        if self.whole_walk.is_none() && now >= self.next_whole && !limit.is_reached() {
            let is_wide = now >= self.next_wide || now < self.began + YOUTH;
            self.next_whole = now + if self.counts { WHOLE } else { WIDE };
            if is_wide {
                self.next_wide = now + WIDE;
            }
            self.refresh_host();
            self.whole_walks += 1;
            let number = self.whole_walks;
            self.whole_walk = Some(match is_wide {
                true => Walk::wide(number, now, self.family.census()),
                false => Walk::whole(number, now, self.family.processes()),
            });
        }
        if let Some(walk) = self.whole_walk.take() {
            self.whole_walk = self.walk(walk, now, limit);
        }
    }

    /// Reads what those have used that ran lately.
    pub(super) fn look_at_watched(&mut self, limit: &mut Limit) {
        let watched = std::mem::take(&mut self.watched);
        for id in watched {
            let Some(known) = self.known.get_mut(&id) else {
                continue;
            };
            if !limit.is_reached() && !known.is_counted_by_clock() {
                let stat = Stat::read(&directory(known.process, id.number));
                let stat = stat.filter(|stat| stat.started == id.started);
                // It has ended: a whole look will find that.
                let Some(stat) = stat else { continue };
                known.count(&stat);
            }
            if known.runs || known.clock.is_some() {
                self.watched.push(id);
            }
        }
    }

    /// Asks whether the machine has changed.
    pub(super) fn refresh_host(&mut self) {
        self.is_host_fresh = true;
        if !self.host.refresh() {
            return;
        }
        self.usual = set_of(&self.host.machine().numbers());
        for known in self.known.values_mut() {
            known.placement.is_shaken = true;
        }
        self.is_stale = true;
        let _ = self.rewrite();
    }

    /// Goes on with a walk until it ends, or the limit is reached; gives what is left of it.
    pub(super) fn walk(&mut self, mut walk: Walk, now: Instant, limit: &mut Limit) -> Option<Walk> {
        while !limit.is_reached() {
            if let Some(census) = &mut walk.census {
                if self.family.go_on(census) {
                    walk.census = None;
                    walk.processes = self.family.processes();
                    self.note_processes();
                }
            } else if let Some((process, threads)) = &mut walk.threads {
                let process = *process;
                match threads.next() {
                    Some(Some(thread)) => self.meet(process, thread, now, &walk),
                    Some(None) => {}
                    None => walk.threads = None,
                }
            } else if let Some(process) = walk.processes.pop() {
                walk.threads = self.family.read(process).map(|threads| (process, threads));
            } else {
                self.end(&walk);
                return None;
            }
        }
        Some(walk)
    }

    /// All threads were read that the walk is about.
    pub(super) fn end(&mut self, walk: &Walk) {
        let Some((number, began)) = walk.whole else {
            return;
        };
        let is_gone = |known: &Known| known.seen_in < number && known.first_seen < began;
        let gone: Vec<_> = self
            .known
            .iter()
            .filter(|(_, known)| is_gone(known))
            .map(|(&id, _)| id)
            .collect();
        for id in &gone {
            if let Some(known) = self.known.remove(id) {
                self.clocks -= usize::from(known.clock.is_some());
                self.ended.entry(known.role).or_default().add(&known.usage);
            }
        }
        self.version += 1;
        self.is_stale |= self.decide_on_habits() || !gone.is_empty();
        if self.record.as_ref().is_some_and(Record::is_long) {
            let _ = self.rewrite();
        }
    }

    /// Decides on the threads that were watched. Gives whether the habit of one has changed.
    pub(super) fn decide_on_habits(&mut self) -> bool {
        let busy = self.known.values().filter(|it| it.watch.is_busy()).count();
        let has_room = policy::has_room(self.host.machine(), &self.settings, busy);
        let mut has_changed = false;
        for known in self.known.values_mut() {
            if std::mem::take(&mut known.is_watched) {
                let before = known.watch.habit();
                known.watch.decide(has_room);
                has_changed |= known.watch.habit() != before;
            }
        }
        has_changed
    }

    /// Reads a thread, unless the walk is about new ones and it is none.
    pub(super) fn meet(&mut self, process: u32, task: u32, now: Instant, walk: &Walk) {
        if task == rustix::thread::gettid().as_raw_nonzero().get() as u32 {
            return;
        }
        if self.is_as_it_was(process, task, now, walk) {
            return;
        }
        let directory = directory(process, task);
        let Some(stat) = Stat::read(&directory) else {
            return;
        };
        if task == process {
            self.family.note_end(process, &stat);
        }
        let id = ThreadId {
            number: task,
            started: stat.started,
        };
        let first = (task != process).then(|| self.first_name(process));
        let recognised = self.naming.recognise(&stat.name, first.as_deref());
        if recognised.is_some() && self.family.recognise(process) {
            self.is_stale = true;
        }
        let named = recognised.unwrap_or(Naming::unrecognised(first.as_deref()));
        let mut is_new = false;
        let known = self.known.entry(id).or_insert_with(|| {
            is_new = true;
            Known::new(process, named, now)
        });
        if is_new {
            self.young_until = now + YOUTH;
            self.family.has_young(process, self.young_until);
        }
        if known.named != named {
            is_new = true;
            (known.named, known.role) = (named, named);
        }
        if let Some((number, _)) = walk.whole {
            known.seen_in = number;
        }
        // Less and less often while it is young.
        known.next_read = now + (now - known.first_seen).max(SHORT_WAIT);
        if self.counts {
            let was_watched = known.runs || known.clock.is_some();
            if known.clock.is_none() && self.clocks < CLOCKS {
                known.clock = Clock::open(&directory);
                self.clocks += usize::from(known.clock.is_some());
                known.counters = self.has_counters.then(|| Counters::open(task));
            }
            known.count(&stat);
            if !was_watched && (known.runs || known.clock.is_some()) {
                self.watched.push(id);
            }
            if walk.is_wide && !(known.switched_at.is_some() && known.switched_at == known.read_at)
            {
                known.switched_at = known.read_at;
                known.usage.sample_switches(&directory);
            }
            if walk.is_wide && self.settings.placement == Placement::Auto {
                let deeds = deeds(&directory, &known.usage);
                let look = |deeds| known.watch.look(self.began.elapsed(), deeds);
                known.is_watched = deeds.is_some_and(look);
            }
        }
        known.name = stat.name;
        self.is_stale |= is_new;
        self.fresh += usize::from(is_new);
        if walk.whole.is_some() {
            self.notice_own(id);
        }
    }

    /// Whether the walk need not read a thread: one about new ones, if it is none; others, if it stood still.
    fn is_as_it_was(&mut self, process: u32, task: u32, now: Instant, walk: &Walk) -> bool {
        let known = self.known.range_mut(ThreadId::range(task)).next_back();
        let Some((&id, known)) = known else {
            return false;
        };
        let is_old = known.first_seen + YOUTH <= now;
        let Some((number, _)) = walk.whole else {
            return is_old || now < known.next_read;
        };
        let is_watched = walk.is_wide && self.settings.placement == Placement::Auto;
        // Where nothing is counted, a whole look in eight sees late names.
        let stood = match self.counts {
            true => known.stood(walk.is_wide),
            false => number % 8 > 0,
        };
        // Whether a process has ended is told by its first thread.
        if !is_old || is_watched || task == process || !stood {
            return false;
        }
        (known.seen_in, known.runs) = (number, false);
        self.notice_own(id);
        true
    }

    /// The name of the thread that a process began with, once that was seen; empty before.
    pub(super) fn first_name(&self, process: u32) -> String {
        let mut inside = self.known.range(ThreadId::range(process));
        inside
            .next_back()
            .map_or(String::new(), |(_, known)| known.name.clone())
    }

    /// Recognises what runs HotSpot, by its `VM Thread`.
    pub(super) fn recognise_hotspots(&mut self) {
        let is_vm = |known: &&Known| known.name == "VM Thread";
        let processes: BTreeSet<_> = self
            .known
            .values()
            .filter(is_vm)
            .map(|it| it.process)
            .collect();
        for process in processes {
            self.note_hotspot(process);
            self.recognise_launcher(process);
        }
    }

    /// Takes down what a JVM has decided.
    fn note_hotspot(&mut self, process: u32) {
        let first = self.known.range(ThreadId::range(process)).next_back();
        let Some((&id, first)) = first else { return };
        let allowed = match first.placement.tried {
            None => affinity(process).map_or(0, |set| set.count() as usize),
            // It has been placed since, and could run where all do before.
            Some(_) => self.limits().count(),
        };
        let read = || Hotspot::read(process, allowed);
        let hotspot = self.hotspots.entry(id).or_insert_with(read);
        let collects = |known: &&Known| known.process == process && known.role == Role::Collector;
        let collectors = self.known.values().filter(collects);
        collectors.for_each(|known| hotspot.has_collector(&known.name));
    }

    /// HotSpot's `main` does not run in the thread that its process began with, which waits, but in the oldest other one
    /// of the same name.
    fn recognise_launcher(&mut self, process: u32) {
        let inside = |(_, known): &(&ThreadId, &mut Known)| known.process == process;
        let mut threads: Vec<_> = self.known.iter_mut().filter(inside).collect();
        threads.sort_by_key(|(id, _)| (id.started, id.number));
        let first = threads.iter_mut().find(|(id, _)| id.number == process);
        let Some((_, first)) = first else { return };
        if first.named != Role::Main {
            return; // The user says what it is.
        }
        first.role = Role::Vm;
        let name = first.name.clone();
        let runs_main = |(id, known): &&mut (&ThreadId, &mut Known)| {
            id.number != process && known.name == name && known.named == Role::Application
        };
        if let Some((_, known)) = threads.iter_mut().find(runs_main) {
            known.role = Role::Main;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::follow::budget::Budget;
    use crate::roles::Naming;
    use crate::settings::Settings;

    #[test]
    fn where_nothing_may_be_spent_a_walk_is_left_for_later() {
        let own = std::process::id();
        let mut follower = Follower::new(own, Settings::default(), Naming::default());
        let now = Instant::now();
        for walk in [Walk::of(vec![own]), Walk::whole(1, now, vec![own])] {
            let left = follower.walk(walk, now, &mut Limit::of(Duration::ZERO));
            assert_eq!(follower.known.len(), 0);
            assert_eq!(left.unwrap().processes, [own]);
        }
        let walk = Walk::of(vec![own]);
        assert!(follower.walk(walk, now, &mut Limit::none()).is_none());
        assert!(!follower.known.is_empty());
    }

    #[test]
    fn the_effort_is_what_both_budgets_are_together() {
        for effort in [1, 4, 1000] {
            let settings = Settings {
                effort,
                ..Settings::default()
            };
            let follower = Follower::new(std::process::id(), settings, Naming::default());
            let left = |budget: &Budget| budget.left(follower.began);
            let both = left(&follower.new_budget) + left(&follower.whole_budget);
            // What a second may cost can be spent at once.
            assert_eq!(both, Duration::from_millis(u64::from(effort)));
        }
    }

    /// A walk takes a while. A thread that begins meanwhile, which another walk finds, is not among those that it read.
    #[test]
    fn a_thread_that_began_during_a_walk_is_not_gone() {
        let own = std::process::id();
        let mut follower = Follower::new(own, Settings::default(), Naming::default());
        let began = Instant::now();
        let walk = Walk::whole(1, began, vec![own]);
        let found = began + Duration::from_millis(1);
        // The process's first thread runs as long as this one does.
        let own_thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_ne!(own, own_thread, "a test has a thread of its own");
        follower.meet(own, own, found, &Walk::of(vec![own]));
        assert_eq!(follower.known.len(), 1);
        follower.end(&walk);
        assert_eq!(follower.known.len(), 1);
        follower.end(&Walk::whole(2, found + Duration::from_millis(1), vec![own]));
        assert_eq!(follower.known.len(), 0);
    }
}
