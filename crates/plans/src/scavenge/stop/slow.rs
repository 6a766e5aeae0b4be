//! A stop that takes long names the thread that holds it up (option `stop-warning`): a line on standard error and an
//! event in the log, while the leader goes on waiting.
//!
//! The leader writes them, which holds the lock `collecting` and waits at the gate. Mutators run meanwhile and may hold
//! any lock of theirs, so nothing here allocates or takes a lock.

use core::fmt::{self, Write};

use gleaner_base::events::{Event, LineBuffer, Phase};
use gleaner_base::roles::Role;
use gleaner_os::clock;
use gleaner_os::output::STDERR;
use gleaner_os::threads::{self, ThreadId};

use super::whereabouts::{Passage, Whereabouts};

/// The wait of one stop.
pub struct Wait {
    asked_ns: u64,
    /// When the thread is to be named; `None` when it was, or is not to be.
    due_ns: Option<u64>,
}

impl Wait {
    /// The mutators are asked to stop now; `warning` is the option, in milliseconds.
    pub fn begin(warning: u32) -> Wait {
        let asked_ns = clock::monotonic_ns();
        let due_ns = (warning > 0).then(|| asked_ns + u64::from(warning) * 1_000_000);
        Wait { asked_ns, due_ns }
    }

    /// How long the stop has waited, if that is to be said now.
    fn is_due(&mut self) -> Option<u64> {
        let now = clock::monotonic_ns();
        self.due_ns.take_if(|due| now >= *due)?;
        Some(now - self.asked_ns)
    }
}

/// A mutator that has not stopped.
#[derive(Clone, Copy)]
struct Late {
    thread: ThreadId,
    seen: Passage,
}

/// Leader, while not all have stopped: says who holds up the stop, once, when it has waited long enough. The event for the
/// log, behind collection `epoch`.
pub fn say_if_slow<'a>(
    wait: &mut Wait,
    mutators: impl Iterator<Item = &'a Whereabouts>,
    epoch: u64,
) -> Option<Event> {
    let waited_ns = wait.is_due()?;
    let mut late = mutators.filter_map(|whereabouts| {
        let thread = whereabouts.thread();
        whereabouts.inside().map(|seen| Late { thread, seen })
    });
    let (first, others) = (late.next(), late.count());
    let mut line = LineBuffer::<512>::new();
    // A buffer that truncates takes everything.
    let _ = write_line(&mut line, waited_ns, first, others);
    STDERR.write_all(line.as_bytes());
    Some(Event {
        start_ns: wait.asked_ns,
        duration_ns: waited_ns,
        objects: others as u64 + u64::from(first.is_some()),
        reason: first.map_or(OWN, |late| late.seen.text()),
        ..Event::new(Phase::SlowStop, epoch)
    })
}

/// No mutator is inside, but the gate is not empty.
const OWN: &str = "a thread that zeroes memory, or one that forks, has not stopped";

/// The line, which ends with a newline.
fn write_line(
    out: &mut dyn Write,
    waited_ns: u64,
    first: Option<Late>,
    others: usize,
) -> fmt::Result {
    let (seconds, tenths) = (waited_ns / 1_000_000_000, waited_ns / 100_000_000 % 10);
    write!(out, "gleaner: a stop has waited {seconds}.{tenths} s: ")?;
    let Some(Late { thread, seen }) = first else {
        return writeln!(out, "{OWN}");
    };
    let mut name = [0; 17];
    let name = threads::name_of(thread, &mut name);
    let role = Role::of_thread_name(name);
    write!(
        out,
        "thread {} ({name}, role {role}) has not stopped, {}",
        thread.0,
        seen.text()
    )?;
    match threads::is_asleep(thread) {
        Some(true) => out.write_str(
            "; it sleeps in a system call, which belongs into a blocking region (gleaner_blocking_begin, Mutator::blocking)",
        )?,
        _ => out.write_str("; a loop that does not allocate has to poll (gleaner_poll, Mutator::poll)")?,
    }
    if others > 0 {
        write!(out, "; {others} more have not stopped")?;
    }
    out.write_str(" (option stop-warning)\n")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::string::String;

    #[test]
    fn a_wait_is_due_once_and_never_without_the_option() {
        let mut never = Wait::begin(0);
        assert_eq!(never.is_due(), None);
        let mut late = Wait {
            asked_ns: 0,
            due_ns: Some(1),
        };
        assert!(late.is_due().is_some());
        assert_eq!(late.is_due(), None);
        assert_eq!(Wait::begin(u32::MAX).is_due(), None);
    }

    #[test]
    fn the_line_names_the_thread_and_the_remedy() {
        let mut line = String::new();
        let late = Late {
            thread: threads::current_tid(),
            seen: Passage::Allocation,
        };
        write_line(&mut line, 1_250_000_000, Some(late), 2).unwrap();
        let id = threads::current_tid().0;
        let begins = std::format!("gleaner: a stop has waited 1.2 s: thread {id} (");
        assert!(line.starts_with(&begins), "{line}");
        let ends = ", role application) has not stopped, last seen in an allocation; a loop that does not allocate has to \
                    poll (gleaner_poll, Mutator::poll); 2 more have not stopped (option stop-warning)\n";
        assert!(line.ends_with(ends), "{line}");
        line.clear();
        write_line(&mut line, 3_000_000_000, None, 0).unwrap();
        assert_eq!(
            line,
            "gleaner: a stop has waited 3.0 s: a thread that zeroes memory, or one that forks, has not stopped\n"
        );
    }
}
