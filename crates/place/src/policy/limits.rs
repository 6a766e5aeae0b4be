//! The processors that are left to a program.

use crate::{Machine, Placement, Settings};

/// The processors that the limits (`processors`, `sockets`) leave to all threads of a program, from its start on.
pub fn within_limits(machine: &Machine, settings: &Settings) -> Machine {
    let machine = match &settings.processors {
        Some(processors) => machine.restricted(processors),
        None => machine.clone(),
    };
    match settings.sockets {
        0 => machine,
        most => first_sockets(&machine, most),
    }
}

/// The socket of `paper`, where no limit says another number of them.
pub(super) fn one_socket(machine: &Machine, settings: &Settings) -> Machine {
    match (settings.placement, settings.sockets) {
        (Placement::Paper, 0) => first_sockets(machine, 1),
        _ => machine.clone(),
    }
}

fn first_sockets(machine: &Machine, most: usize) -> Machine {
    let sockets = machine.sockets();
    let kept = &sockets[..sockets.len().min(most)];
    let numbers = machine
        .processors()
        .iter()
        .filter(|it| kept.contains(&it.socket))
        .map(|it| it.number)
        .collect();
    machine.restricted(&numbers)
}
