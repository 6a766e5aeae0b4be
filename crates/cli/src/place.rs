//! `gleaner place`: starts a program and puts its threads where a policy says.
//!
//! This process stays, finds the threads of the program and of what it starts, and ends as the program did. A second
//! process, the guard, lets the threads run anywhere again, at full speed, if this one is killed.

mod environment;
mod guard;
pub(crate) mod log;
mod report;
mod speed;
mod start;
mod warn;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gleaner_place::{Decision, Habit, Machine, Naming, Role, Settings, Thread, ThreadId, decide};

use crate::arguments::PlaceArgs;
use crate::failure::Failure;
use crate::options;

pub(crate) use guard::run as run_guard;

/// Runs `gleaner place`. Ends with the status of the program, if it was started.
pub(crate) fn run(args: PlaceArgs) -> Result<std::process::ExitCode, Failure> {
    let settings = settings(&args.options)?;
    let mut naming = Naming::default();
    for item in &args.roles {
        naming
            .add(item)
            .map_err(|error| Failure::usage(format_args!("--role {item}: {error}")))?;
    }
    match &args.plan {
        Some(threads) => {
            let machine = machine(args.machine.as_deref())?;
            options::print(&plan(&machine, &settings, threads)?)?;
            Ok(std::process::ExitCode::SUCCESS)
        }
        None if args.machine.is_some() => Err(Failure::usage(
            "--machine needs --plan: only a plan can be for another machine",
        )),
        None => start::run(&args, settings, naming),
    }
}

/// The settings that the items say, each `NAME=VALUE` or a list of these.
fn settings(items: &[String]) -> Result<Settings, Failure> {
    let mut settings = Settings::default();
    let parts = items.iter().flat_map(|item| item.split(','));
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        settings
            .set(part)
            .map_err(|error| Failure::usage(format_args!("--opt: {error}")))?;
    }
    settings
        .check()
        .map_err(|error| Failure::usage(format_args!("--opt: {error}")))?;
    Ok(settings)
}

fn machine(shape: Option<&str>) -> Result<Machine, Failure> {
    match shape {
        Some(shape) => Machine::synthetic(shape)
            .map_err(|error| Failure::usage(format_args!("--machine {shape}: {error}"))),
        None => Ok(Machine::host()),
    }
}

/// The most threads that a plan is shown for.
const MOST_THREADS: usize = 10_000;

/// What would be decided for threads such as `application:4+collector:4`, a line for each.
fn plan(machine: &Machine, settings: &Settings, threads: &str) -> Result<String, Failure> {
    let wrong = |part: &str, why: &str| {
        Failure::usage(format_args!(
            "--plan {threads}: '{part}' {why}; ROLE:N is wanted, such as application:4+collector:4, \
             {MOST_THREADS} threads at most"
        ))
    };
    let mut roles = Vec::new();
    for part in threads.split('+') {
        let (role, count) = part.split_once(':').unwrap_or((part, "1"));
        let role = role
            .parse::<Role>()
            .map_err(|error| wrong(part, &format!("is wrong: {error}")))?;
        let count = count
            .parse::<usize>()
            .ok()
            .filter(|count| roles.len() + count <= MOST_THREADS);
        let count = count.ok_or_else(|| wrong(part, "has a wrong number"))?;
        roles.extend(std::iter::repeat_n(role, count));
    }
    let id = |number: usize| ThreadId {
        number: number as u32,
        started: number as u64,
    };
    let threads: Vec<_> = roles
        .iter()
        .enumerate()
        .map(|(number, &role)| Thread {
            id: id(number),
            role,
            is_recognised: true,
            habit: Habit::default(),
        })
        .collect();
    let plan = decide(machine, &threads, settings, &BTreeMap::new());
    let mut text = format!(
        "placement={} on {} processors, {} cores, {} sockets\n",
        settings.placement.name(),
        machine.processors().len(),
        machine.cores(),
        machine.sockets().len()
    );
    if plan.is_empty() && !threads.is_empty() {
        return Err(Failure::usage(format_args!(
            "none of the processors that --opt processors names is among those of the machine, {}",
            machine.numbers()
        )));
    }
    let mut counts = BTreeMap::new();
    for thread in &threads {
        let count = counts.entry(thread.role).or_insert(0);
        *count += 1;
        let Decision {
            processors, reason, ..
        } = &plan[&thread.id];
        let name = format!("{} {count}", thread.role);
        let _ = writeln!(text, "  {name:16} {:12} {reason}", processors.to_string());
    }
    Ok(text)
}
