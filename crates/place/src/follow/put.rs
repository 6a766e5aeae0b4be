//! Putting threads where the plan says, unless their program has put them somewhere else; and writing down first what is
//! to be put back.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::budget::{Limit, processor_time};
use super::record;
use super::tasks::{affinity, processors_of, set_affinity, set_of};
use super::{Affinity, Follower};
use crate::usage::Stat;
use crate::{Decision, Thread, ThreadId, decide};

/// Why the kernel does not let a thread run on a set, and what helps.
fn why(errno: Errno) -> String {
    let helps = match errno {
        Errno::PERM => ", for it belongs to another user: run as that one, or as root",
        Errno::INVAL => {
            ", for its own cpuset has none of the processors: leave it where it is (placement=none), or change that"
        }
        _ => "",
    };
    format!("{errno}{helps}")
}

impl Follower {
    /// Whether the plan is to be made anew before more threads are looked for: where there are thousands, not for each
    /// piece of a look.
    pub(super) fn wants_decision(&self) -> bool {
        self.is_stale && (self.new_walk.is_none() || self.fresh > self.plan.len() / 2 + 64)
    }

    /// What it will take, as far as is known.
    pub(super) fn cost_of_decision(&self) -> Duration {
        let (time, threads) = self.took;
        time * self.known.len() as u32 / threads.max(1) as u32
    }

    /// Decides if that is due and can be had, and applies what is not as it was.
    pub(super) fn place(&mut self, limit: &mut Limit) {
        if self.wants_decision() && limit.leaves(self.cost_of_decision()) {
            let since = processor_time();
            self.decide();
            self.took = (processor_time().saturating_sub(since), self.known.len());
        }
        self.apply(limit);
    }

    pub(super) fn decide(&mut self) {
        self.recognise_hotspots();
        (self.is_stale, self.fresh) = (false, 0);
        let mut threads: Vec<_> = self
            .known
            .iter()
            .map(|(&id, known)| Thread {
                id,
                role: known.role,
                is_recognised: self.family.is_recognised(known.process),
                habit: known.watch.habit(),
            })
            .collect();
        threads.sort_by_key(|thread| (thread.id.started, thread.id.number));
        let recognised = threads.iter().filter(|thread| thread.is_recognised);
        self.roles.extend(recognised.map(|thread| thread.role));
        let plan = decide(self.host.machine(), &threads, &self.settings, &self.plan);
        self.queue.clear();
        for (&id, decision) in &plan {
            let Some(known) = self.known.get(&id).filter(|_| self.settings.places()) else {
                continue;
            };
            if self.family.is_untouched(known.process) {
                continue;
            }
            let affinity = &known.placement;
            let before = self.plan.get(&id);
            let is_same = before.is_some_and(|before| before.processors == decision.processors);
            if !is_same || affinity.tried.is_none() || affinity.is_shaken || affinity.own.is_some()
            {
                self.queue.push_back(id);
            } else if before.is_some_and(|before| before.reason != decision.reason) {
                // It is there for another reason now.
                self.placed.push(known.placed(id, decision.clone()));
            }
        }
        self.plan = plan;
        self.version += 1;
    }

    /// Puts threads where the plan says.
    pub(super) fn apply(&mut self, limit: &mut Limit) {
        while !self.queue.is_empty() && !limit.is_reached() {
            if let Some(id) = self.queue.pop_front() {
                self.put(id);
            }
        }
    }

    pub(super) fn put(&mut self, id: ThreadId) {
        let Some(decision) = self.plan.get(&id).cloned() else {
            return;
        };
        let wanted = set_of(&decision.processors);
        // It has ended, and its number may be another's by now: a whole look will find that.
        let found = Stat::read(&format!("/proc/{}", id.number));
        let is_there = found.is_some_and(|stat| stat.started == id.started);
        let Some(current) = affinity(id.number).ok().filter(|_| is_there) else {
            return;
        };
        if self.is_own(id, &current) {
            self.leave(id, current);
            return;
        }
        self.write_given(&wanted);
        let known = self.known.get(&id);
        let is_new =
            known.is_some_and(|it| it.process == id.number && it.placement.tried.is_none());
        self.began_confined += u64::from(is_new && current.count() < wanted.count());
        if known.is_some_and(|known| known.placement.own.is_some()) {
            self.write(&record::placed_line(id));
        }
        let set = match current == wanted {
            true => Ok(()),
            false => set_affinity(id.number, &wanted),
        };
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        let before = known.placement.tried.replace(wanted);
        (known.placement.own, known.placement.is_shaken) = (None, false);
        match set {
            Ok(()) => {
                known.placement.given = Some(wanted);
                self.family.give(known.process, wanted);
                self.placed.push(known.placed(id, decision));
            }
            Err(Errno::SRCH) => {}
            Err(_) if before == Some(wanted) => {}
            Err(errno) => *self.refusals.entry(why(errno)).or_default() += 1,
        }
    }

    /// Whether a thread runs where its program has put it, and not where all of it runs, where it was put, or, if it is
    /// new, where the thread was put that started it.
    pub(super) fn is_own(&mut self, id: ThreadId, current: &CpuSet) -> bool {
        let is_usual = |this: &Follower| {
            let Some(known) = this.known.get(&id) else {
                return true;
            };
            let affinity = &known.placement;
            *current == this.usual
                || match (affinity.is_shaken, affinity.own, affinity.given) {
                    // Whatever the kernel made of it.
                    (true, own, _) => own.as_ref() != Some(current),
                    (false, _, Some(given)) => *current == given,
                    (false, _, None) => this.family.may_inherit(known.process, current),
                }
        };
        if is_usual(self) {
            return false;
        }
        if !self.is_host_fresh {
            // The machine may have changed just now.
            self.refresh_host();
        }
        !is_usual(self)
    }

    /// Whether another thread of the process has started a program in its place (`execve`), and is its first thread since, with the
    /// processors that it was given itself. All others of that process have ended then.
    fn has_become_first(&self, id: ThreadId, current: &CpuSet) -> bool {
        let is_first = self
            .known
            .get(&id)
            .is_some_and(|it| it.process == id.number);
        let mut others = self
            .known
            .iter()
            .filter(|&(&other, it)| it.process == id.number && other != id);
        let was_given = others
            .clone()
            .any(|(_, it)| it.placement.given.as_ref() == Some(current));
        let is_there = |other: ThreadId| {
            let found = Stat::read(&format!("/proc/{}", other.number));
            found.is_some_and(|stat| stat.started == other.started)
        };
        is_first && was_given && !others.any(|(&other, _)| is_there(other))
    }

    /// Leaves a thread where its program has put it.
    pub(super) fn leave(&mut self, id: ThreadId, current: CpuSet) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        let affinity = &mut known.placement;
        (affinity.tried, affinity.is_shaken) = (Some(current), false);
        if affinity.own.replace(current) != Some(current) {
            let decision = Decision::left(processors_of(&current));
            self.placed.push(known.placed(id, decision));
            self.write(&record::own_line(id));
        }
    }

    /// Writes down a set before a thread is given it.
    pub(super) fn write_given(&mut self, set: &CpuSet) {
        if *set != self.usual && !self.recorded.contains(set) {
            let is_written = self.write(&record::given_line(&processors_of(set)));
            self.recorded.extend(is_written.then_some(*set));
        }
    }

    /// Writes down the processes that are new.
    pub(super) fn note_processes(&mut self) {
        let new = self.family.take_new().into_iter();
        let lines: String = new
            .map(|(it, started)| record::process_line(it, started))
            .collect();
        self.write(&lines);
    }

    /// Whether that was possible: a full disk must not end the program that is placed.
    pub(super) fn write(&mut self, lines: &str) -> bool {
        let record = self.record.as_mut().filter(|_| !lines.is_empty());
        record.is_none_or(|record| record.add(lines).is_ok())
    }

    /// Writes down all that is to be put back, and nothing of what has ended.
    pub(super) fn rewrite(&mut self) -> io::Result<()> {
        let Some(record) = &mut self.record else {
            return Ok(());
        };
        let mut text = record::usual_line(&processors_of(&self.usual));
        for set in &self.recorded {
            text += &record::given_line(&processors_of(set));
        }
        for (process, started) in self.family.started() {
            text += &record::process_line(process, started);
        }
        let own = self
            .known
            .iter()
            .filter(|(_, known)| known.placement.own.is_some());
        own.for_each(|(&id, _)| text += &record::own_line(id));
        record.rewrite(&text)
    }

    /// A thread that was placed may have been moved by its program since.
    pub(super) fn notice_own(&mut self, id: ThreadId) {
        let placement = self.known.get(&id).map(|known| &known.placement);
        let is_placed = placement.is_some_and(|it| it.given.is_some() && !it.is_shaken);
        if !is_placed {
            return;
        }
        // One that has ended is nobody's.
        let Ok(current) = affinity(id.number) else {
            return;
        };
        let is_elsewhere = placement.and_then(|it| it.given) != Some(current);
        if is_elsewhere && current != self.usual && self.has_become_first(id, &current) {
            // As new, and started by a thread that was put there.
            if let Some(known) = self.known.get_mut(&id) {
                known.placement = Affinity::default();
            }
            self.is_stale = true;
        } else if self.is_own(id, &current) {
            self.leave(id, current);
        }
    }
}
