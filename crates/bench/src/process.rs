//! One run of one program, measured by the kernel: wall time, CPU time and peak resident memory of the process and of
//! the children that it waited for.
//!
//! The program's output goes to files, never through this process, whose own size would otherwise show up in the peak
//! of a small child (the kernel counts memory before `exec` too). A program that runs too long, or whose output fills the
//! disk, is killed with its process group, which is its own. A watchdog thread does that. The process is not reaped before the watchdog has been
//! told, so that the identifier cannot have passed to another process. An interrupt from the terminal does not reach
//! that group: so when this process is asked to end, it kills the group first. When it is killed without being asked,
//! the kernel kills the program.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use gleaner_os::children;
use gleaner_workloads::failure::{Failure, Result};

/// What to run.
pub struct Launch<'a> {
    /// The program and its arguments.
    pub command: &'a [String],
    /// The whole environment.
    pub environment: &'a [(String, String)],
    /// Where its standard output goes.
    pub stdout: &'a Path,
    /// Where its standard error goes.
    pub stderr: &'a Path,
    /// When it is killed.
    pub limit: Duration,
    /// From how many bytes of output on it is killed.
    pub most_output: u64,
}

/// What is taken of a program's output: a disk holds it, and other runs are to find room.
pub const MOST_OUTPUT: u64 = 1 << 30;

/// Why a program was killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Excess {
    /// It took longer than allowed.
    Time,
    /// It printed more than is taken.
    Output,
}

/// How a run went.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// It was killed for this.
    pub excess: Option<Excess>,
    /// Seconds from start to end.
    pub wall: f64,
    /// Seconds of user time.
    pub user: f64,
    /// Seconds of system time.
    pub system: f64,
    /// Greatest resident memory in KB.
    pub peak_kb: u64,
}

impl Outcome {
    /// Seconds of user and system time.
    pub fn cpu(&self) -> f64 {
        self.user + self.system
    }
}

/// Runs a program to its end.
pub fn run(launch: &Launch<'_>) -> Result<Outcome> {
    let create = |path: &Path| File::create(path).map_err(|error| Failure::at(path, error));
    let mut command = Command::new(&launch.command[0]);
    command
        .args(&launch.command[1..])
        .env_clear()
        .envs(launch.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(create(launch.stdout)?)
        .stderr(create(launch.stderr)?)
        .process_group(0);
    // Until the program's group is known, nobody can end it: it may have started others by then.
    let put_off = SignalsPutOff::new();
    let before = put_off.before;
    // SAFETY: between fork and exec this calls nothing but plain system calls.
    unsafe {
        command.pre_exec(move || {
            set_mask(&before);
            end_with_parent()
        });
    }
    end_group_when_asked();
    let start = Instant::now();
    let child = command
        .spawn()
        .map_err(|error| Failure::new(format!("{}: {error}", launch.command[0])))?;
    let pid = child.id() as libc::pid_t;
    MEASURED.store(pid, Ordering::SeqCst);
    drop(put_off);
    let (ended, watched) = channel::<()>();
    let watch = Watch {
        limit: launch.limit,
        outputs: [launch.stdout.into(), launch.stderr.into()],
        most_output: launch.most_output,
    };
    let watchdog = std::thread::spawn(move || {
        let excess = watch.excess(&watched);
        if excess.is_some() {
            // SAFETY: plain system call; the group's leader is not reaped before this thread has ended.
            unsafe { libc::kill(-pid, libc::SIGKILL) };
        }
        excess
    });
    wait_for_end(pid);
    let wall = start.elapsed().as_secs_f64();
    drop(ended);
    let excess = watchdog.join().unwrap_or(None);
    MEASURED.store(0, Ordering::SeqCst);
    let (status, used) = children::reap(pid).map_err(|number| {
        Failure::new(format!(
            "wait4: {}",
            std::io::Error::from_raw_os_error(number)
        ))
    })?;
    Ok(Outcome {
        status: ExitStatus::from_raw(status),
        excess,
        wall,
        user: used.user,
        system: used.system,
        peak_kb: used.peak_bytes / 1024,
    })
}

/// What a program that runs is watched for.
struct Watch {
    limit: Duration,
    outputs: [PathBuf; 2],
    most_output: u64,
}

impl Watch {
    /// How often the length of the output is looked at.
    const LOOK: Duration = Duration::from_millis(200);

    /// Returns when the program has ended, or exceeds something.
    fn excess(&self, ended: &Receiver<()>) -> Option<Excess> {
        let start = Instant::now();
        loop {
            let left = self.limit.saturating_sub(start.elapsed());
            if ended.recv_timeout(left.min(Self::LOOK)) != Err(RecvTimeoutError::Timeout) {
                return None;
            }
            if start.elapsed() >= self.limit {
                return Some(Excess::Time);
            }
            if self.printed() > self.most_output {
                return Some(Excess::Output);
            }
        }
    }

    fn printed(&self) -> u64 {
        let lengths = self.outputs.iter().map(std::fs::metadata);
        lengths.flatten().map(|found| found.len()).sum()
    }
}

/// The group of the program that runs, or 0. Written by [`run`] while its leader is not reaped, so that the identifier
/// is its own; read by the signal handler.
static MEASURED: AtomicI32 = AtomicI32::new(0);

/// What asks this process to end.
const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// As long as it exists, the calling thread is not asked to end; it is afterwards.
struct SignalsPutOff {
    before: libc::sigset_t,
}

impl SignalsPutOff {
    fn new() -> SignalsPutOff {
        // SAFETY: all zeroes is a value of this plain structure, and both sets are written before they are read.
        unsafe {
            let (mut ending, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut ending);
            for signal in ENDING {
                libc::sigaddset(&mut ending, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &ending, &mut before);
            SignalsPutOff { before }
        }
    }
}

impl Drop for SignalsPutOff {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: plain call; the set is readable.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// From now on this process, when it is asked to end, kills what it measures with all that this has started. A signal
/// that it was started to ignore, as nohup does, stays ignored.
fn end_group_when_asked() {
    for signal in ENDING {
        // SAFETY: the handler calls what is safe in one: an atomic load, `kill` and `_exit`.
        unsafe {
            if libc::signal(signal, end_group as *const () as libc::sighandler_t) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

extern "C" fn end_group(signal: libc::c_int) {
    let group = MEASURED.load(Ordering::SeqCst);
    // SAFETY: plain system calls; the group's leader is not reaped while `MEASURED` names it.
    unsafe {
        if group > 0 {
            libc::kill(-group, libc::SIGKILL);
        }
        libc::_exit(128 + signal);
    }
}

/// Asks the kernel to kill this process when the one that started it ends.
fn end_with_parent() -> std::io::Result<()> {
    // SAFETY: plain system call about this process; the arguments are numbers.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns when the process has ended, and leaves it to be reaped.
fn wait_for_end(pid: libc::pid_t) {
    loop {
        // SAFETY: all zeroes is a value of this plain structure.
        let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `information` is writable and outlives the call; the process is a child of ours.
        let done = unsafe {
            libc::waitid(
                libc::P_PID,
                pid as libc::id_t,
                &mut information,
                libc::WEXITED | libc::WNOWAIT,
            )
        };
        if done == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// Context switches.
#[derive(Clone, Copy, Default)]
pub struct Switches {
    /// Of threads that waited for something.
    pub voluntary: u64,
    /// Of threads that had to let others run.
    pub involuntary: u64,
}

/// The context switches of this process, all its threads together.
pub fn own_switches() -> Switches {
    let used = own_usage();
    Switches {
        voluntary: used.ru_nvcsw as u64,
        involuntary: used.ru_nivcsw as u64,
    }
}

/// Seconds of user and system time that this process has used.
pub fn own_cpu() -> f64 {
    let used = own_usage();
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(used.ru_utime) + seconds(used.ru_stime)
}

fn own_usage() -> libc::rusage {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the struct, which is valid when zero, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, used.as_mut_ptr());
        used.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Outcome, String) {
        let (outcome, stdout) = launched(script, limit, MOST_OUTPUT);
        let text = std::fs::read_to_string(&stdout).unwrap();
        std::fs::remove_file(stdout).unwrap();
        (outcome, text)
    }

    /// The outcome, and the file with the output.
    fn launched(script: &str, limit: Duration, most_output: u64) -> (Outcome, PathBuf) {
        let directory = std::env::temp_dir();
        let name =
            format!("gleaner-bench-{}-{script:.8}", std::process::id()).replace(['/', ' '], "_");
        let (stdout, stderr) = (directory.join(&name), directory.join(name.clone() + ".err"));
        let outcome = run(&Launch {
            command: &["/bin/sh".into(), "-c".into(), script.into()],
            environment: &[("GREETING".into(), "hello".into())],
            stdout: &stdout,
            stderr: &stderr,
            limit,
            most_output,
        })
        .unwrap();
        std::fs::remove_file(stderr).unwrap();
        (outcome, stdout)
    }

    #[test]
    fn status_output_and_environment_pass_through() {
        let (outcome, text) = shell("echo $GREETING; exit 7", Duration::from_secs(600));
        assert_eq!(outcome.status.code(), Some(7));
        assert_eq!(text, "hello\n");
        assert!(outcome.peak_kb > 0);
        assert_eq!(outcome.excess, None);
    }

    #[test]
    fn a_program_that_never_ends_is_killed() {
        let (outcome, _) = shell("while :; do sleep 1000; done", Duration::from_millis(50));
        assert_eq!(outcome.excess, Some(Excess::Time));
        assert_eq!(outcome.status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_program_whose_output_fills_the_disk_is_killed() {
        let (outcome, stdout) = launched(
            "yes | head -c 5000000; sleep 20",
            Duration::from_secs(600),
            1 << 20,
        );
        std::fs::remove_file(stdout).unwrap();
        assert_eq!(outcome.excess, Some(Excess::Output));
        assert_eq!(outcome.status.signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn a_missing_program_is_named() {
        let directory = std::env::temp_dir();
        let place = directory.join(format!("gleaner-bench-{}-missing", std::process::id()));
        let failure = run(&Launch {
            command: &["/no/such/program".into()],
            environment: &[],
            stdout: &place,
            stderr: &place,
            limit: Duration::from_secs(1),
            most_output: MOST_OUTPUT,
        })
        .unwrap_err();
        std::fs::remove_file(place).unwrap();
        assert!(failure.to_string().contains("/no/such/program"));
    }
}
