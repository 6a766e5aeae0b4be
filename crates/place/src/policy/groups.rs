//! Groups of processors, and which thread belongs to which.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Plan, Thread, ThreadId};
use crate::{Machine, Placement, Processor, Processors, Role, Roles, Settings, Unit};

/// Some processors of a machine.
pub(super) struct Group {
    pub(super) machine: Machine,
    /// What it is, for people.
    pub(super) label: String,
    /// A number that stays the same while the machine does.
    pub(super) id: usize,
}

/// The number of the group that has all processors, and of the two of `isolated`; sockets have their own, from 0.
const EVERYWHERE: usize = usize::MAX;
const HOME: usize = 0;
const AWAY: usize = 1;

/// The groups of a policy. The machine has a processor, and so does each group.
pub(super) fn cut(machine: &Machine, threads: &[Thread], settings: &Settings) -> Vec<Group> {
    match settings.placement {
        Placement::None => vec![whole(machine, "as the system has it")],
        Placement::Paper => match machine.sockets()[..] {
            [socket] => vec![whole(machine, &format!("on socket {socket}"))],
            _ => vec![whole(machine, "on the sockets that are used")],
        },
        Placement::Pinned | Placement::Auto => vec![whole(machine, "on the whole machine")],
        Placement::Isolated if !has_roles(threads, &settings.isolate) => {
            // The others would leave processors to nobody.
            let label = format!(
                "not isolated: no thread is of the roles {}",
                settings.isolate
            );
            vec![whole(machine, &label)]
        }
        Placement::Isolated => isolated(machine, settings.isolate_on),
        Placement::Paired => paired(machine),
    }
}

fn has_roles(threads: &[Thread], roles: &Roles) -> bool {
    threads.iter().any(|thread| roles.contain(thread.role))
}

pub(super) fn whole(machine: &Machine, label: &str) -> Group {
    Group {
        machine: machine.clone(),
        label: label.to_string(),
        id: EVERYWHERE,
    }
}

/// The rest of the machine and what is set apart: the slowest of the units, and the last of those as slow; or the
/// machine alone, if it is one core.
pub(super) fn isolated(machine: &Machine, unit: Unit) -> Vec<Group> {
    let of = |key: fn(&Processor) -> usize| {
        let keys: BTreeSet<_> = machine.processors().iter().map(key).collect();
        let speed = |unit: usize| {
            let inside = machine.processors().iter().filter(|it| key(it) == unit);
            inside.map(|it| it.speed).max()
        };
        let slowest = keys
            .iter()
            .copied()
            .min_by_key(|&unit| (speed(unit), std::cmp::Reverse(unit)));
        let inside = |it: &&Processor| Some(key(it)) == slowest;
        let apart: Processors = machine
            .processors()
            .iter()
            .filter(inside)
            .map(|it| it.number)
            .collect();
        (keys.len() > 1).then_some((apart, slowest))
    };
    let socket =
        || of(|it| it.socket).map(|(apart, it)| (apart, format!("socket {}", it.unwrap_or(0))));
    let cluster = || {
        let named = |apart: Processors| {
            let label = format!("the cores that share a cache, {apart}");
            (apart, label)
        };
        of(|it| it.cluster).map(|(apart, _)| named(apart))
    };
    let cores = || {
        let apart = slow_half(machine);
        let label = format!("half of the cores, {apart}");
        (!apart.is_empty()).then_some((apart, label))
    };
    let found = match unit {
        Unit::Auto => socket().or_else(cluster).or_else(cores),
        Unit::Socket => socket(),
        Unit::Cluster => cluster(),
        Unit::Cores => cores(),
    };
    let Some((apart, label)) = found else {
        return vec![whole(
            machine,
            "not isolated: there is nothing to set apart",
        )];
    };
    vec![
        Group {
            machine: machine.restricted(&machine.numbers().difference(&apart)),
            label: format!("apart from {label}"),
            id: HOME,
        },
        Group {
            machine: machine.restricted(&apart),
            label: format!("isolated on {label}"),
            id: AWAY,
        },
    ]
}

/// Half of the cores, rounded down: the slowest, and the last of those as slow.
fn slow_half(machine: &Machine) -> Processors {
    let cores: BTreeMap<usize, u32> = machine
        .processors()
        .iter()
        .map(|it| (it.core, it.speed))
        .collect();
    let mut ordered: Vec<_> = cores.into_iter().collect();
    ordered.sort_by_key(|&(core, speed)| (speed, std::cmp::Reverse(core)));
    let apart = &ordered[..ordered.len() / 2];
    let inside = |it: &&Processor| apart.iter().any(|&(core, _)| core == it.core);
    let numbers = machine.processors().iter().filter(inside);
    numbers.map(|it| it.number).collect()
}

/// A group for each socket, and one for who is in no pair.
fn paired(machine: &Machine) -> Vec<Group> {
    let of = |socket: usize| {
        let inside = |it: &&Processor| it.socket == socket;
        let numbers = machine
            .processors()
            .iter()
            .filter(inside)
            .map(|it| it.number)
            .collect();
        Group {
            machine: machine.restricted(&numbers),
            label: format!("paired on socket {socket}"),
            id: socket,
        }
    };
    let mut groups: Vec<_> = machine.sockets().into_iter().map(of).collect();
    groups.push(whole(machine, "in no pair"));
    groups
}

/// The index of each thread's group.
pub(super) fn members(
    groups: &[Group],
    threads: &[Thread],
    settings: &Settings,
    before: &Plan,
) -> BTreeMap<ThreadId, usize> {
    let alike = |index: fn(&Settings, Role) -> usize| {
        let of = |thread: &Thread| {
            (
                thread.id,
                index(settings, thread.role).min(groups.len() - 1),
            )
        };
        threads.iter().map(of).collect()
    };
    match settings.placement {
        Placement::None | Placement::Paper | Placement::Pinned | Placement::Auto => alike(|_, _| 0),
        Placement::Isolated => alike(|settings, role| usize::from(settings.isolate.contain(role))),
        Placement::Paired => spread(groups, threads, before),
    }
}

/// The two roles of a pair.
const PAIR: [Role; 2] = [Role::Application, Role::Collector];

/// Threads of either role of a pair are spread over the sockets, each role by itself, and so that as many as can be have
/// one of the other role on their socket. The others are in the last group.
fn spread(groups: &[Group], threads: &[Thread], before: &Plan) -> BTreeMap<ThreadId, usize> {
    let sockets = groups.len() - 1;
    let mut members: BTreeMap<ThreadId, usize> =
        threads.iter().map(|it| (it.id, sockets)).collect();
    let mut counts = Counts(vec![[0; 2]; sockets]);
    let half = |thread: &Thread| PAIR.iter().position(|&role| role == thread.role);
    let paired = || threads.iter().filter_map(|it| Some((it.id, half(it)?)));
    let earlier = |id: ThreadId| {
        let decision = before.get(&id)?;
        groups[..sockets]
            .iter()
            .position(|group| group.id == decision.group)
    };
    for (id, half) in paired() {
        if let Some(socket) = earlier(id) {
            counts.0[socket][half] += 1;
            members.insert(id, socket);
        }
    }
    for (id, half) in paired() {
        if members[&id] == sockets {
            let socket = counts.emptiest(half);
            counts.0[socket][half] += 1;
            members.insert(id, socket);
        }
    }
    // The youngest thread moves.
    while let Some((half, from, to)) = counts.crowded().or_else(|| counts.unpaired()) {
        let moved = paired().rfind(|&(id, it)| it == half && members[&id] == from);
        let Some((id, _)) = moved else { break };
        members.insert(id, to);
        counts.0[from][half] -= 1;
        counts.0[to][half] += 1;
    }
    members
}

/// How many threads of each half of a pair a socket has.
struct Counts(Vec<[usize; 2]>);

impl Counts {
    /// The socket with the fewest of that half; of those, the one with the most of the other.
    fn emptiest(&self, half: usize) -> usize {
        let order = |&socket: &usize| {
            let counts = self.0[socket];
            (counts[half], std::cmp::Reverse(counts[1 - half]))
        };
        (0..self.0.len()).min_by_key(order).unwrap_or(0)
    }

    /// A half of which one socket has two more than another.
    fn crowded(&self) -> Option<(usize, usize, usize)> {
        [0, 1].into_iter().find_map(|half| {
            let by_count = |&socket: &usize| self.0[socket][half];
            let most = (0..self.0.len()).max_by_key(by_count)?;
            let least = self.emptiest(half);
            (by_count(&most) >= by_count(&least) + 2).then_some((half, most, least))
        })
    }

    /// A collector too many on one socket that an application thread of another has none of, where the move leaves
    /// collectors as evenly spread as they are.
    fn unpaired(&self) -> Option<(usize, usize, usize)> {
        let find = |wanted: fn(usize, usize) -> bool| {
            (0..self.0.len()).find(move |&socket| wanted(self.0[socket][0], self.0[socket][1]))
        };
        let from = find(|applications, collectors| collectors > applications)?;
        let to = find(|applications, collectors| applications > collectors)?;
        (self.0[from][1] == self.0[to][1] + 1).then_some((1, from, to))
    }
}
