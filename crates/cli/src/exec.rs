//! `gleaner exec`: checks the options, then the program and the library, and becomes the program.

use std::ffi::OsStr;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gleaner_base::options::{HeapKind, Options};

use crate::arguments::ExecArgs;
use crate::failure::Failure;
use crate::inherited;
use crate::launch::{Launch, quoted};
use crate::options::{self, Effective};
use crate::outputs;

/// Runs `gleaner exec`; returns only if the program could not be started, or was not to be.
pub(crate) fn run(args: ExecArgs) -> Result<(), Failure> {
    let options = effective_options(&args)?;
    check_files(&args, &options.options)?;
    let _made = check_log(options.options.log.as_str())?;
    check_snapshot(options.options.snapshot.as_str())?;
    let launch = Launch::check(&args.program, args.any)?;
    let mut command = launch.on_gleaner(&options.list);
    if args.dry_run {
        return print_command(&command);
    }
    inherited::pass_on(&mut command);
    let error = command.exec();
    Err(launch.not_executable(&error))
}

/// The options of the environment and of the command line. Files are named by absolute paths: the program may change its
/// directory.
fn effective_options(args: &ExecArgs) -> Result<Effective, Failure> {
    let mut items = all_options(args)?;
    let read = options::effective(&items, Some(HeapKind::Libgc))?;
    let before = items.len();
    let Options { log, snapshot, .. } = &read.options;
    for (name, path) in [("log", log.as_str()), ("snapshot", snapshot.as_str())] {
        if let Some(path) = path.map(Path::new).filter(|path| path.is_relative()) {
            let path = path_as_value(format_args!("{name}={}", path.display()), path)?;
            items.push(format!("{name}={path}"));
        }
    }
    match items.len() == before {
        true => Ok(read),
        false => options::effective(&items, Some(HeapKind::Libgc)),
    }
}

/// The options of the command line, as `name=value`.
fn all_options(args: &ExecArgs) -> Result<Vec<String>, Failure> {
    let mut items = args.options.clone();
    if args.stats {
        items.push("stats=on".into());
    }
    if args.snapshot.is_some() {
        // The program becomes this process; what it starts writes elsewhere.
        items.push(format!("snapshot-process={}", std::process::id()));
    }
    for (name, path) in [("log", &args.log), ("snapshot", &args.snapshot)] {
        if let Some(path) = path {
            let path = path_as_value(format_args!("--{name} {}", path.display()), path)?;
            items.push(format!("{name}={path}"));
        }
    }
    Ok(items)
}

/// The absolute path as a value of an option of the heap; `given` is what the user wrote.
fn path_as_value(given: impl Display, path: &Path) -> Result<String, Failure> {
    let refuse = |why: &dyn Display| Failure::usage(format_args!("{given}: {why}"));
    let path = std::path::absolute(path).map_err(|error| refuse(&error))?;
    let text = path
        .to_str()
        .ok_or_else(|| refuse(&"the path is not UTF-8"))?;
    if text.contains(',') {
        return Err(refuse(&format_args!(
            "the path has a comma, which separates options: {text}"
        )));
    }
    Ok(text.into())
}

/// Refuses files that would take each other's place, and a moment for a snapshot that nobody asked for.
fn check_files(args: &ExecArgs, options: &Options) -> Result<(), Failure> {
    let Some(snapshot) = options.snapshot.as_str() else {
        let mut items = args.options.iter().flat_map(|list| list.split(','));
        return match items.find(|item| item.trim_start().starts_with("snapshot-at=")) {
            None => Ok(()),
            Some(item) => Err(Failure::usage(format_args!(
                "{} has no effect without a snapshot: add --snapshot FILE",
                item.trim()
            ))),
        };
    };
    let Some(log) = options.log.as_str() else {
        return Ok(());
    };
    let same = match (std::fs::metadata(log), std::fs::metadata(snapshot)) {
        // Devices are written to and stay what they are.
        (Ok(one), Ok(other)) => {
            one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
        }
        (Err(_), Err(_)) => log == snapshot,
        _ => false,
    };
    if same {
        return Err(Failure::usage(format_args!(
            "the log and the snapshot are the same file, {log}: name another one for one of them"
        )));
    }
    Ok(())
}

/// Refuses a snapshot that cannot be written, before the program has run for it.
fn check_snapshot(snapshot: Option<&str>) -> Result<(), Failure> {
    match snapshot.map(Path::new) {
        // Only the process knows the name of a directory with a % in it.
        Some(path) if !is_pattern(path.parent()) => {
            outputs::check(path, "the snapshot", "--snapshot")
        }
        _ => Ok(()),
    }
}

fn is_pattern(directory: Option<&Path>) -> bool {
    directory.is_some_and(|directory| directory.as_os_str().as_bytes().contains(&b'%'))
}

/// An empty log that was not there before: removed again unless this process becomes the program, which drops nothing.
struct NewLog(PathBuf);

impl Drop for NewLog {
    fn drop(&mut self) {
        // Another program may have begun to write to it.
        if std::fs::metadata(&self.0).is_ok_and(|log| log.len() == 0) {
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// Refuses a log that cannot be written, rather than losing it, and makes one that is not there. A pipe is not opened:
/// its reader would see the end when it is closed again.
fn check_log(log: Option<&str>) -> Result<Option<NewLog>, Failure> {
    let Some(path) = log.map(Path::new) else {
        return Ok(None);
    };
    let refuse = |error: std::io::Error| {
        let path = path.display();
        Failure::usage(format_args!(
            "the log {path} cannot be written: {error}. Name another file with --log FILE"
        ))
    };
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return rustix::fs::access(path, rustix::fs::Access::WRITE_OK)
            .map(|()| None)
            .map_err(|error| refuse(error.into()));
    }
    let is_new = std::fs::symlink_metadata(path).is_err();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(|_| is_new.then(|| NewLog(path.into())))
        .map_err(refuse)
}

/// Prints what would be run, in the form of a shell command.
fn print_command(command: &Command) -> Result<(), Failure> {
    let mut words = vec!["env".to_string()];
    for (name, value) in command.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        words.push(quoted(&format!("{}={value}", name.to_string_lossy())));
    }
    let program = PathBuf::from(command.get_program());
    let arguments = command.get_args().map(OsStr::to_string_lossy);
    words.push(quoted(&program.to_string_lossy()));
    words.extend(arguments.map(|argument| quoted(&argument)));
    options::print(&(words.join(" ") + "\n"))
}
