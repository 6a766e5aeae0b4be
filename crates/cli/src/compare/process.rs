//! One run of a program: started, read from, and ended if it takes too long.
//!
//! The program is the leader of a process group of its own. When it has ended, so is what it left in that group, so that
//! nothing runs beside the next run. What it writes is read from pipes and not kept: of standard output its length and a
//! hash, of standard error the end. So a program may write as much as it likes. Everything is done by one thread, which sleeps
//! until there is something to read or a signal.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher as _;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gleaner_os::children::{self, Used};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::signals::Signals;
use crate::inherited;

/// Bytes that are kept of the end of standard error.
const TAIL: usize = 4 << 10;
/// Pieces that are read of a pipe when its program has ended: more than a pipe holds.
const LAST_PIECES: usize = 64;

/// How programs are run.
pub(super) struct Conditions<'a> {
    /// What standard input is; nothing if no file is named.
    pub(super) input: Option<&'a Path>,
    /// After which time a program is ended.
    pub(super) limit: Duration,
    /// Whether what it writes is passed on.
    pub(super) is_shown: bool,
    /// What ends it, too.
    pub(super) signals: &'a Signals,
}

/// A finished run.
pub(super) struct Run {
    /// Seconds from start to end.
    pub(super) wall: f64,
    pub(super) used: Used,
    pub(super) status: ExitStatus,
    pub(super) output: Digest,
    /// The end of what it wrote to standard error.
    pub(super) errors: String,
    /// It took too long.
    pub(super) is_late: bool,
}

/// Length and hash of an output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Digest {
    pub(super) bytes: u64,
    pub(super) hash: u64,
}

/// Runs a program to its end; nothing if this process is to end meanwhile.
pub(super) fn run(mut command: Command, conditions: &Conditions) -> io::Result<Option<Run>> {
    let input = match conditions.input {
        Some(path) => Stdio::from(File::open(path)?),
        None => Stdio::null(),
    };
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    inherited::pass_on(&mut command);
    inherited::end_with_this(&mut command);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let mut output = Pipe::new(child.stdout.take(), Output::default())?;
    let mut errors = Pipe::new(child.stderr.take(), Tail::default())?;
    let is_shown = conditions.is_shown;
    let mut wall = None;
    let mut is_late = false;
    let mut is_ended = false;
    while wall.is_none() {
        let left = conditions.limit.saturating_sub(start.elapsed());
        wait(
            conditions.signals,
            &output,
            &errors,
            (!is_late).then_some(left),
        );
        conditions.signals.empty();
        output.read(1, is_shown.then(io::stdout));
        errors.read(1, is_shown.then(io::stderr));
        if has_ended(group)? {
            wall = Some(start.elapsed().as_secs_f64());
        } else if conditions.signals.is_asked() && !is_ended {
            is_ended = true;
            end(group);
        } else if left.is_zero() && !is_late {
            is_late = true;
            end(group);
        }
    }
    // Its leader is not reaped yet, so the group's number is nobody else's.
    end(group);
    output.read(LAST_PIECES, is_shown.then(io::stdout));
    errors.read(LAST_PIECES, is_shown.then(io::stderr));
    let (status, used) = children::reap(child.id() as i32).map_err(io::Error::from_raw_os_error)?;
    Ok((!conditions.signals.is_asked()).then(|| Run {
        wall: wall.unwrap_or_default(),
        used,
        status: ExitStatus::from_raw(status),
        output: output.taken.digest(),
        errors: errors.taken.text(),
        is_late,
    }))
}

/// Sleeps until there is something to do.
fn wait(
    signals: &Signals,
    output: &Pipe<impl Take>,
    errors: &Pipe<impl Take>,
    most: Option<Duration>,
) {
    let most = most.map(|most| Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: most.subsec_nanos().into(),
    });
    let mut waited = vec![PollFd::new(signals.wake(), PollFlags::IN)];
    let pipes = [output.from.as_ref(), errors.from.as_ref()];
    waited.extend(
        pipes
            .into_iter()
            .flatten()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
    );
    // Interrupted by a signal: the caller looks, and waits again.
    let _ = poll(&mut waited, most.as_ref());
}

/// Ends a process with all that is in its group.
fn end(group: Pid) {
    // A group that has gone already needs no end.
    let _ = kill_process_group(group, Signal::KILL);
}

/// Whether a child has ended. It stays to be reaped.
fn has_ended(process: Pid) -> io::Result<bool> {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    match waitid(WaitId::Pid(process), how) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        result => Ok(result?.is_some()),
    }
}

/// What becomes of what a program writes.
trait Take {
    fn take(&mut self, piece: &[u8]);
}

/// The reading end of a pipe, until the other one is closed.
struct Pipe<T> {
    from: Option<File>,
    taken: T,
    piece: Vec<u8>,
}

impl<T: Take> Pipe<T> {
    fn new(from: Option<impl Into<std::os::fd::OwnedFd>>, taken: T) -> io::Result<Pipe<T>> {
        let from = from.map(|from| File::from(from.into()));
        if let Some(from) = &from {
            fcntl_setfl(from.as_fd(), OFlags::NONBLOCK)?;
        }
        Ok(Pipe {
            from,
            taken,
            piece: vec![0; 64 << 10],
        })
    }

    /// Takes at most so many pieces, as far as there are some, and writes them to `show`.
    fn read(&mut self, pieces: usize, show: Option<impl Write>) {
        let mut show = show;
        for _ in 0..pieces {
            let Some(from) = &mut self.from else { return };
            match from.read(&mut self.piece) {
                Ok(count @ 1..) => {
                    let piece = &self.piece[..count];
                    self.taken.take(piece);
                    // Where nobody can be shown, the comparison still stands.
                    show.iter_mut().for_each(|to| {
                        let _ = to.write_all(piece).and_then(|()| to.flush());
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Ok(0) | Err(_) => self.from = None,
            }
        }
    }
}

#[derive(Default)]
struct Output {
    hasher: DefaultHasher,
    bytes: u64,
}

impl Take for Output {
    fn take(&mut self, piece: &[u8]) {
        self.hasher.write(piece);
        self.bytes += piece.len() as u64;
    }
}

impl Output {
    fn digest(&self) -> Digest {
        Digest {
            bytes: self.bytes,
            hash: self.hasher.finish(),
        }
    }
}

#[derive(Default)]
struct Tail(Vec<u8>);

impl Take for Tail {
    fn take(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        self.0.drain(..self.0.len().saturating_sub(TAIL));
    }
}

impl Tail {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).trim().to_string()
    }
}
