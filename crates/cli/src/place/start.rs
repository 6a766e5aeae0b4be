//! Starting the program, following it, and ending as it did.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use gleaner_place::{
    Energy, Files, Follower, Machine, Naming, Placement, Settings, Writer, confined, has_children,
    put_back_left, put_back_threads_left, seconds_of_ended, told, within_limits,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getsid, kill_process, pidfd_open,
    set_child_subreaper, waitpid,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use super::{environment, guard::Guard, log::Log, report, speed::Slowing, warn::warn};
use crate::arguments::PlaceArgs;
use crate::failure::Failure;
use crate::{inherited, inspect};

/// How long to wait for the end of a program whose threads cannot be seen.
const UNSEEN: Duration = Duration::from_secs(1);
/// A processor takes minutes at least to come to the end of its energy counter.
const ENERGY_LOOK: Duration = Duration::from_secs(10);

/// Starts the program, places its threads until it ends, and gives its status.
pub(super) fn run(
    args: &PlaceArgs,
    settings: Settings,
    naming: Naming,
) -> Result<ExitCode, Failure> {
    let name = &args.program[0];
    let path = inspect::find(name)?;
    let mut log = args.log.as_deref().map(Log::open).transpose()?;
    let machine = Machine::host();
    warn_of_no_processors(&settings, &machine);
    let is_seen = sees_threads();
    let mut command = Command::new(&path);
    command.arg0(name).args(&args.program[1..]);
    let files = Files::below(&args.root);
    let limits = within_limits(&machine, &settings).numbers();
    let placement = settings.placement;
    // Where threads are placed, those that ask are told of fewer processors.
    let kept = Some(told(&files, limits.count()));
    let kept = kept.filter(|&count| is_seen && placement != Placement::None && count > 1);
    for (variable, value) in environment::variables(kept, settings.collectors) {
        command.env(variable, value);
    }
    inherited::pass_on(&mut command);
    // Otherwise nobody would learn how the program ends.
    inherited::wait_for_children();
    // A shell that became this process has left them.
    let had_children = has_children();
    let taken = inherited::heeded(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2]);
    let forwarded = SignalsInfo::new(&taken)
        .map_err(|error| Failure::refused(format_args!("signals cannot be passed on: {error}")))?;
    let mut energy = args.stats.then(|| Energy::start(&files)).flatten();
    // So that processes whose parents end are found, too. A kernel that refuses leaves those that were not seen before.
    let _ = set_child_subreaper(Some(getpid()));
    let start = Instant::now();
    let mut energy_seen = start;
    let is_limited = is_seen && !limits.is_empty() && limits != machine.numbers();
    let child = match is_limited {
        true => confined(&limits, || command.spawn()),
        false => command.spawn(),
    };
    let mut child = child.map_err(|error| {
        Failure::not_executable(format_args!(
            "{} cannot be executed: {error}",
            path.display()
        ))
    })?;
    inherited::survive_file_limit();
    forward(forwarded, taken, child.id());
    put_back_left(&files).iter().for_each(warn);
    put_back_threads_left(&files).iter().for_each(warn);
    let writer = Writer::of(std::process::id());
    let is_placed = settings.places() && is_seen;
    let guard = match is_placed || settings.slow.is_any() && is_seen {
        false => None,
        true => Guard::start(child.id(), &machine.numbers(), is_placed, &files, writer)
            .map_err(|error| {
                warn(format_args!(
                    "there is no guard: if this command is killed, threads stay where it put them ({error})"
                ));
            })
            .ok(),
    };
    let mut follower = Follower::new(child.id(), settings.clone(), naming);
    follower.count(args.stats);
    follower.adopt(guard.as_ref().map(Guard::process), had_children);
    if let (true, Some(writer)) = (is_placed, writer) {
        follower.write_down(&files, writer).unwrap_or_else(|error| {
            warn(format_args!(
                "their places cannot be written down, so if this command is killed, processes whose parents have ended stay where it put them: {error}"
            ));
        });
    }
    let mut slowing = Slowing::start(&settings.slow, files.clone(), writer, child.id());
    let mut ending = Ending::of(&child);
    let mut refused = BTreeSet::new();
    loop {
        // The numbers of other processes are none of the program's.
        let wait = match is_seen {
            true => follower.follow(),
            false => UNSEEN,
        };
        for placed in follower.take_placed() {
            if let Some(log) = &mut log {
                log.write(start, &placed);
            }
        }
        for why in follower.refusals().keys() {
            if refused.insert(why.clone()) {
                warn(format_args!("a thread runs unplaced: {why}"));
                log.iter_mut().for_each(|log| log.write_refusal(start, why));
            }
        }
        follower.take_ended().into_iter().for_each(reap);
        if is_seen {
            slowing.follow(&follower, start, &mut log);
        }
        if energy_seen.elapsed() > ENERGY_LOOK {
            energy.iter_mut().for_each(Energy::look);
            energy_seen = Instant::now();
        }
        if ending.wait(&mut child, wait) {
            break;
        }
    }
    slowing.end(start, &mut log);
    let status = child.wait().map_err(|error| {
        Failure::refused(format_args!("the program cannot be waited for: {error}"))
    })?;
    follower.forget();
    let total = seconds_of_ended();
    let guarding = guard.map_or(Duration::ZERO, Guard::dismiss);
    for (why, count) in follower.refusals() {
        warn(format_args!("{count} threads in all ran unplaced: {why}"));
    }
    if let Some(mut lack) = follower.lack().filter(|_| is_seen) {
        if is_limited {
            lack += &format!("; all of it ran on the processors {limits}");
        }
        log.iter_mut().for_each(|log| log.write_lack(start, &lack));
        warn(lack);
    }
    if args.stats {
        let mut text = report::table(
            placement,
            machine.processors().len(),
            &follower.usages(),
            total,
            start.elapsed(),
            guarding,
        );
        let all = machine.numbers().count();
        text += &report::runtimes(follower.hotspots(), all, &limits, |allowed| {
            told(&files, allowed)
        });
        text += &report::confined(follower.began_confined());
        text += &slowing.summary();
        if let Some(energy) = &mut energy {
            energy.look();
            text += &report::energy(energy);
        }
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
    Ok(exit_code(status))
}

/// Waits for a process that has ended, and whose parent had before.
fn reap(process: u32) {
    // One that somebody waited for meanwhile has gone.
    let _ = waitpid(Pid::from_raw(process as i32), WaitOptions::NOHANG);
}

/// Says when the settings leave no processor: the program is not placed then.
fn warn_of_no_processors(settings: &Settings, machine: &Machine) {
    let Some(wanted) = &settings.processors else {
        return;
    };
    let missing = wanted.difference(&machine.numbers());
    if missing.count() == wanted.count() {
        warn(format_args!(
            "the program runs unplaced until one of the processors {wanted} is online and allowed; now {} are",
            machine.numbers()
        ));
    } else if !missing.is_empty() {
        warn(format_args!(
            "processors {missing} are offline or not allowed, and are left out"
        ));
    }
}

/// Whether the kernel tells which threads there are. If not, nothing is placed or counted, and a message says so.
fn sees_threads() -> bool {
    let this = std::fs::read_link("/proc/self").ok();
    let is_seen = this.is_some_and(|this| this.as_os_str() == &*std::process::id().to_string());
    if !is_seen {
        warn(
            "the program runs unplaced: /proc is not mounted, or is that of other processes (in a namespace of its own: unshare --mount-proc)",
        );
    }
    is_seen
}

/// How the end of the program is noticed: by its file descriptor where the kernel has such, otherwise by asking.
struct Ending(Option<OwnedFd>);

impl Ending {
    fn of(child: &Child) -> Ending {
        let process = Pid::from_raw(child.id() as i32);
        Ending(process.and_then(|process| pidfd_open(process, PidfdFlags::empty()).ok()))
    }

    /// Waits for `most` at most. True when the program has ended.
    fn wait(&mut self, child: &mut Child, most: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: most.as_secs() as i64,
            tv_nsec: most.subsec_nanos().into(),
        };
        match &self.0 {
            Some(ending) => {
                let mut ready = [PollFd::new(ending, PollFlags::IN)];
                // Interrupted by a signal: the next call waits again.
                poll(&mut ready, Some(&timeout)).is_ok_and(|count| count > 0)
            }
            None => {
                std::thread::sleep(most);
                !matches!(child.try_wait(), Ok(None))
            }
        }
    }
}

/// Passes on what other processes send to this one. What a terminal sends goes to the whole group, so to the program; but that it has
/// closed is told to the leader of its session alone.
fn forward(mut signals: SignalsInfo<WithOrigin>, taken: Vec<i32>, program: u32) {
    let run = move || {
        inherited::let_in(&taken);
        for origin in signals.forever() {
            let is_leader = || getsid(None).is_ok_and(|leader| leader == getpid());
            let is_sent =
                matches!(origin.cause, Cause::Sent(_)) || origin.signal == SIGHUP && is_leader();
            let signal = Signal::from_named_raw(origin.signal);
            let program = Pid::from_raw(program as i32);
            if let (true, Some(signal), Some(program)) = (is_sent, signal, program) {
                let _ = kill_process(program, signal);
            }
        }
    };
    let started = std::thread::Builder::new()
        .name("gleaner-place".into())
        .spawn(run);
    if let Err(error) = started {
        warn(format_args!("signals are not passed on: {error}"));
    }
}

/// The status that shells give: that of the program, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.unwrap_or(1) as u8)
}
