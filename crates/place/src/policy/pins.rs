//! Pinning: threads get a processor each, and no core two while another has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::policy::{Thread, ThreadId};
use crate::{Machine, Processor, Role};

/// The processor of each thread. `earlier` is the one that it had. The threads stand in the order of their age, the
/// machine has a processor, and `first` is the core, counted from 0 and round the machine, that gets the first thread.
/// `others` are the roles of threads of other groups, with the number of the processor that each is pinned to.
pub(super) fn pin(
    machine: &Machine,
    threads: &[Thread],
    first: usize,
    others: &[(Role, usize)],
    earlier: impl Fn(&ThreadId) -> Option<usize>,
) -> BTreeMap<ThreadId, usize> {
    let mut pins = Pins::new(machine, first);
    for &(role, number) in others {
        if let Some(at) = pins.index(number) {
            pins.count(role, at, 1);
        }
    }
    let mut new = Vec::new();
    for thread in threads {
        match earlier(&thread.id).and_then(|number| pins.index(number)) {
            Some(at) => pins.place(thread, at),
            None => new.push(*thread),
        }
    }
    for thread in &new {
        pins.place(thread, pins.best(thread.role));
    }
    pins.level();
    let number = |(thread, at): &(Thread, usize)| (thread.id, machine.processors()[*at].number);
    pins.placed.iter().map(number).collect()
}

struct Pins<'m> {
    processors: &'m [Processor],
    /// The rank of each processor's core, from the first core on.
    ranks: Vec<usize>,
    /// Threads with the index of their processor.
    placed: Vec<(Thread, usize)>,
    /// How many threads each processor has, and its core.
    on_processor: Vec<usize>,
    on_core: BTreeMap<usize, usize>,
    /// How many of a role each core has.
    of_role: BTreeMap<(Role, usize), usize>,
}

impl<'m> Pins<'m> {
    fn new(machine: &'m Machine, first: usize) -> Pins<'m> {
        let processors = machine.processors();
        let on_core: BTreeMap<_, _> = processors.iter().map(|it| (it.core, 0)).collect();
        let count = on_core.len();
        let ranks = processors
            .iter()
            .map(|it| {
                let rank = on_core.range(..it.core).count();
                (rank + count - first % count) % count
            })
            .collect();
        Pins {
            processors,
            ranks,
            placed: Vec::new(),
            on_processor: vec![0; processors.len()],
            on_core,
            of_role: BTreeMap::new(),
        }
    }

    fn index(&self, number: usize) -> Option<usize> {
        self.processors
            .binary_search_by_key(&number, |it| it.number)
            .ok()
    }

    fn place(&mut self, thread: &Thread, at: usize) {
        self.placed.push((*thread, at));
        self.count(thread.role, at, 1);
    }

    fn count(&mut self, role: Role, at: usize, change: isize) {
        let core = self.processors[at].core;
        let of_role = self.of_role.entry((role, core)).or_insert(0);
        *of_role = of_role.wrapping_add_signed(change);
        let core = self.on_core.get_mut(&core);
        for count in core.into_iter().chain([&mut self.on_processor[at]]) {
            *count = count.wrapping_add_signed(change);
        }
    }

    /// How many threads of the role the core of a processor has, and of all roles; and the processor alone.
    fn load(&self, role: Role, at: usize) -> (usize, usize, usize) {
        let core = self.processors[at].core;
        let of_role = self.of_role.get(&(role, core)).copied();
        (
            of_role.unwrap_or(0),
            self.on_core[&core],
            self.on_processor[at],
        )
    }

    /// The processor with the fewest threads: first of the role on its core, for those run at the same time while others
    /// wait; then of all on its core, then on itself. Of those, application threads take the fastest and
    /// services the slowest: what is lost by slow services is a fraction (Findings 6 to 8).
    fn best(&self, role: Role) -> usize {
        self.best_of(role, |_| true)
    }

    fn best_of(&self, role: Role, wanted: impl Fn(&Processor) -> bool) -> usize {
        let serves = !matches!(role, Role::Application | Role::Main);
        let order = |&at: &usize| {
            let speed = self.processors[at].speed;
            let speed = if serves { speed } else { u32::MAX - speed };
            (self.load(role, at), speed, self.ranks[at], at)
        };
        let wanted = |&at: &usize| wanted(&self.processors[at]);
        let all = 0..self.processors.len();
        all.filter(wanted).min_by_key(order).unwrap_or(0)
    }

    /// Moves the youngest threads of crowded cores, and of crowded processors of a core, until no two cores differ by two
    /// in threads of a role, or in all threads. Each move evens roles out, or leaves them as even and evens out the rest.
    fn level(&mut self) {
        while let Some((index, to)) = self.crowded() {
            let (thread, from) = self.placed[index];
            self.placed[index].1 = to;
            self.count(thread.role, from, -1);
            self.count(thread.role, to, 1);
        }
    }

    /// The youngest thread that gains by a move, and where to. Threads of a role on the same processor gain alike, so one
    /// of each kind is asked.
    fn crowded(&self) -> Option<(usize, usize)> {
        let gains = |role: Role, at: usize, to: usize| {
            let ((of_role, core, processor), least) = (self.load(role, at), self.load(role, to));
            let same_core = self.processors[at].core == self.processors[to].core;
            of_role >= least.0 + 2
                || of_role > least.0 && core >= least.1 + 2
                || same_core && processor >= least.2 + 2
        };
        let mut asked = BTreeSet::new();
        (0..self.placed.len()).rev().find_map(|index| {
            let (thread, at) = self.placed[index];
            if !asked.insert((thread.role, at)) {
                return None;
            }
            let core = self.processors[at].core;
            let sibling = self.best_of(thread.role, |it| it.core == core);
            let targets = [self.best(thread.role), sibling];
            let to = targets.into_iter().find(|&to| gains(thread.role, at, to))?;
            Some((index, to))
        })
    }
}
