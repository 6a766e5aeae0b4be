//! The guard: a process that waits until the one that places threads has ended, and if that was not in order, lets the
//! threads that it placed run where they could before, at the speed that cores had.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use gleaner_place::{
    Files, Processors, Writer, put_back, put_back_threads, release, time_of_process,
};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::warn::warn;
use crate::arguments::GuardArgs;
use crate::failure::Failure;
use crate::inherited;

/// What the guard is told when there is nothing to put back.
const IN_ORDER: u8 = b'.';

/// A guard that waits.
pub(super) struct Guard(Child);

impl Guard {
    /// Starts one for a program whose threads could run on `processors`, and for what `writer` writes down of speeds. It is in a process group of its own, so that
    /// what a terminal sends to the program does not end it.
    pub(super) fn start(
        program: u32,
        processors: &Processors,
        is_placed: bool,
        files: &Files,
        writer: Option<Writer>,
    ) -> std::io::Result<Guard> {
        // Where the system decides, nothing is to be put back of that.
        let processors = match is_placed {
            true => processors.to_string(),
            false => String::new(),
        };
        let child = Command::new(std::env::current_exe()?)
            .args(["place-guard", &program.to_string(), &processors])
            .arg(writer.map_or(String::new(), |writer| writer.name()))
            .arg(files.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Guard(child))
    }

    /// The process that guards.
    pub(super) fn process(&self) -> u32 {
        self.0.id()
    }

    /// Ends it: nothing is to be put back. Gives its processor time, as far as the kernel tells.
    pub(super) fn dismiss(mut self) -> Duration {
        // A guard that is gone already has nothing to be told.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(&[IN_ORDER]);
        }
        if let Some(process) = Pid::from_raw(self.process() as i32) {
            // It stays to be asked until it is waited for below.
            let until_it_ends = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let _ = waitid(WaitId::Pid(process), until_it_ends);
        }
        let time = time_of_process(self.process()).unwrap_or_default();
        let _ = self.0.wait();
        time
    }
}

/// Runs the guard: until the end of what it is told.
pub(crate) fn run(args: GuardArgs) -> Result<ExitCode, Failure> {
    let processors: Processors = args
        .processors
        .parse()
        .map_err(|part| Failure::usage(format_args!("'{part}' names no processors")))?;
    // It goes when its pipe does, after the program: not with all others of a session or a service that ends.
    inherited::ignore_requests_to_end();
    let mut told = Vec::new();
    // A pipe that cannot be read has nobody at its other end.
    let _ = std::io::stdin().read_to_end(&mut told);
    if told != [IN_ORDER] {
        let files = Files::below(&args.root);
        let writer = Writer::parse(&args.writer);
        // Speeds first: they are other programs' concern, too.
        if let Some(writer) = writer {
            put_back(&files, writer).iter().for_each(warn);
        }
        let placed = writer.and_then(|writer| put_back_threads(&files, writer));
        if placed.is_none() && !processors.is_empty() {
            release(args.program, &processors);
        }
    }
    Ok(ExitCode::SUCCESS)
}
