//! The policies: pure functions of a machine, the threads and the settings.
//!
//! It concerns the threads of recognised processes alone: those of which a thread has told by its name what it is for. The
//! others run where the limits (`processors`, `sockets`) allow.
//!
//! A policy first cuts the machine into groups of processors and says to which one each thread belongs; then the threads
//! of the roles to be pinned get a processor of their group each, and the others all of it. What was decided before is
//! kept where it still fits, so the same question has the same answer, and one core that goes moves few threads.

mod groups;
mod lack;
mod limits;
mod pins;
mod plan;

pub use lack::lack;
use limits::one_socket;
pub use limits::within_limits;
pub use plan::{Decision, Plan, Thread, ThreadId};

use crate::{Habit, Machine, Placement, Settings};

/// Decides for all threads, which stand in the order of their age. `before` is what was decided last, and may be empty.
///
/// Each thread of the answer has at least one processor, and only those of the machine that the settings allow; where
/// they allow none, or the machine has none, the answer is empty and nothing is to be placed.
pub fn decide(machine: &Machine, threads: &[Thread], settings: &Settings, before: &Plan) -> Plan {
    let machine = &within_limits(machine, settings);
    if machine.processors().is_empty() {
        return Plan::new();
    }
    let (threads, others): (Vec<Thread>, Vec<Thread>) =
        threads.iter().partition(|thread| thread.is_recognised);
    let unrecognised = groups::whole(machine, "no thread of its process was recognised");
    let mut plan: Plan = others
        .iter()
        .map(|thread| (thread.id, free_in(&unrecognised, thread, settings)))
        .collect();
    let groups = groups::cut(&one_socket(machine, settings), &threads, settings);
    let members = groups::members(&groups, &threads, settings, before);
    // Groups share processors, so each is told of the pinned threads of those before it.
    let mut others = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let inside = |thread: &&Thread| members[&thread.id] == index;
        let mine: Vec<Thread> = threads.iter().filter(inside).copied().collect();
        let (pinned, free): (Vec<Thread>, Vec<Thread>) = mine
            .into_iter()
            .partition(|thread| is_pinned(thread, settings));
        for thread in free {
            plan.insert(thread.id, free_in(group, &thread, settings));
        }
        let earlier = |id: &ThreadId| before.get(id).filter(|it| it.group == group.id)?.pinned;
        let first = settings.first_core;
        let cores = pins::pin(&group.machine, &pinned, first, &others, earlier);
        others.extend(pinned.iter().map(|it| (it.role, cores[&it.id])));
        for thread in pinned {
            let number = cores[&thread.id];
            let decision = Decision {
                processors: [number].into_iter().collect(),
                reason: match settings.placement {
                    Placement::Auto => format!(
                        "{} thread, pinned since the kernel moved it often, {}",
                        thread.role, group.label
                    ),
                    _ => format!("{} thread, pinned, {}", thread.role, group.label),
                },
                group: group.id,
                pinned: Some(number),
            };
            plan.insert(thread.id, decision);
        }
    }
    plan
}

/// Whether `busy` busy threads have a core each, of the cores that the settings leave.
pub(crate) fn has_room(machine: &Machine, settings: &Settings, busy: usize) -> bool {
    busy <= within_limits(machine, settings).cores()
}

fn is_pinned(thread: &Thread, settings: &Settings) -> bool {
    let may_be = match settings.placement {
        Placement::None => false,
        Placement::Auto => thread.habit == Habit::Moved,
        _ => true,
    };
    may_be && settings.pin.contain(thread.role)
}

fn free_in(group: &groups::Group, thread: &Thread, settings: &Settings) -> Decision {
    let why = match (settings.placement, thread.habit) {
        (Placement::Auto, Habit::Waited) => " again since it waited for its processor",
        _ => "",
    };
    Decision {
        processors: group.machine.numbers(),
        reason: format!("free{why}, {}", group.label),
        group: group.id,
        pinned: None,
    }
}

#[cfg(test)]
mod tests;
