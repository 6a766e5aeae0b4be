//! `gleaner exec`: checks the options, the program and the library, in this order, then becomes the program, which
//! finds the library in `LD_PRELOAD` and the options in `GLEANER_OPTIONS`.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gleaner_base::options::{HeapKind, Options};

use crate::arguments::ExecArgs;
use crate::contents;
use crate::failure::Failure;
use crate::inherited;
use crate::inspect::{self, Program};
use crate::library::{self, Library, SONAME};
use crate::loader::Loader;
use crate::options::{self, Effective};

/// The loader's list of libraries to load first.
const PRELOAD: &str = "LD_PRELOAD";

/// The options of AddressSanitizer's runtime.
const ASAN: &str = "ASAN_OPTIONS";

/// The one by which that runtime ends a program that has a library before it in the loader's list, as a preloaded one is.
const ASAN_FIRST: &str = "verify_asan_link_order";

/// A program that has this in it opens the library when it runs.
const OPENED: &[u8] = b"libgc.so";

/// Runs `gleaner exec`; returns only if the program could not be started, or was not to be.
pub(crate) fn run(args: ExecArgs) -> Result<(), Failure> {
    let options = effective_options(&args)?;
    check_files(&args, &options.options)?;
    let _made = check_log(options.options.log.as_str())?;
    check_snapshot(options.options.snapshot.as_str())?;
    let name = &args.program[0];
    let path = inspect::find(name)?;
    let program = inspect::inspect(&path)?;
    let loader = Loader::new();
    let library = library::find(&loader)?;
    check_machine(&program, &library)?;
    if !args.any {
        check_uses_libgc(&path, program, &loader)?;
    }
    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(&args.program[1..])
        .env(PRELOAD, preload(&library.path, std::env::var_os(PRELOAD)));
    if let Some(options) = asan_options(std::env::var_os(ASAN), std::env::var_os(PRELOAD)) {
        command.env(ASAN, options);
    }
    if !options.list.is_empty() {
        command.env(options::VARIABLE, options.list);
    }
    if args.dry_run {
        return print_command(&command);
    }
    inherited::pass_on(&mut command);
    let error = command.exec();
    Err(Failure::not_executable(format_args!(
        "{} cannot be executed: {error}",
        path.display()
    )))
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
    let Some(path) = snapshot.map(Path::new) else {
        return Ok(());
    };
    let shown = path.display();
    if path.is_dir() {
        return Err(Failure::usage(format_args!(
            "the snapshot {shown} cannot be written: it is a directory; name a file in it"
        )));
    }
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    if directory.as_os_str().as_bytes().contains(&b'%') {
        return Ok(()); // Only the process knows its name.
    }
    rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).map_err(|error| {
        Failure::usage(format_args!(
            "the snapshot {shown} cannot be written: {}: {error}. Name another file with --snapshot FILE",
            directory.display()
        ))
    })
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

/// Refuses a library for another processor.
fn check_machine(program: &Program, library: &Library) -> Result<(), Failure> {
    if program.elf.machine == library.machine {
        return Ok(());
    }
    Err(Failure::refused(format_args!(
        "{} is for another processor (ELF machine {}) than {} (ELF machine {})",
        program.file.display(),
        program.elf.machine,
        library.path.display(),
        library.machine
    )))
}

/// Refuses a program that would not notice the library.
fn check_uses_libgc(path: &Path, program: Program, loader: &Loader) -> Result<(), Failure> {
    let Program { file, data, elf } = program;
    let walk = loader.walk(&file, elf, Some(SONAME));
    if walk.found || contents::has(&data, OPENED) {
        return Ok(());
    }
    let file_text = file.display();
    let mut message = if file == path {
        format!("{file_text} does not use libgc")
    } else {
        let script = path.display();
        format!("{script} does not use libgc: it is a script for {file_text}, which does not")
    };
    message += &format!(
        " ({SONAME} is not among the {} libraries it loads)",
        walk.libraries
    );
    if !walk.missing.is_empty() {
        message += &format!("; it needs {}", walk.missing.join(" and "));
    }
    message += ". If it starts or loads something that does, add --any";
    Err(Failure::refused(message))
}

/// The list of preloads with `library` first and once.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let library = library.as_os_str();
    let mut list = library.to_os_string();
    let before = before.unwrap_or_default();
    for item in before.as_bytes().split(|byte| b": ".contains(byte)) {
        if !item.is_empty() && item != library.as_bytes() {
            list.push(":");
            list.push(OsStr::from_bytes(item));
        }
    }
    list
}

/// The options of AddressSanitizer's runtime, so that it lets programs start that are built with it, also those that the
/// program starts. Its place does not matter here: it replaces functions of the C library, and the library exports none of
/// these. To preload it before ours would put it into every program that is started. An option that is there already wins. Where
/// another malloc is preloaded, the order does matter, and the runtime is to end the program with a sentence: nothing.
fn asan_options(before: Option<OsString>, preloaded: Option<OsString>) -> Option<OsString> {
    let has = |text: &OsString, word: &str| contents::has(text.as_bytes(), word.as_bytes());
    if preloaded.is_some_and(|list| has(&list, "malloc")) {
        return None;
    }
    let before = before.unwrap_or_default();
    if has(&before, ASAN_FIRST) {
        return Some(before);
    }
    let mut options = OsString::from(format!("{ASAN_FIRST}=0"));
    if !before.is_empty() {
        options.push(":");
        options.push(before);
    }
    Some(options)
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

/// `word` so that a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_alphanumeric() || "/._-=:,+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preloads_are_kept_after_ours_and_ours_comes_once() {
        let list = |before: Option<&str>| {
            let list = preload(Path::new("/g/libgc.so.1"), before.map(OsString::from));
            list.into_string().unwrap()
        };
        assert_eq!(list(None), "/g/libgc.so.1");
        assert_eq!(list(Some("")), "/g/libgc.so.1");
        assert_eq!(list(Some("/a.so /b.so")), "/g/libgc.so.1:/a.so:/b.so");
        assert_eq!(list(Some("/a.so:/g/libgc.so.1")), "/g/libgc.so.1:/a.so");
    }

    #[test]
    fn options_of_asan_are_kept_and_ours_comes_once() {
        let options = |before: Option<&str>| {
            let options = asan_options(before.map(OsString::from), Some("/a.so".into()));
            options.unwrap().into_string().unwrap()
        };
        let ours = "verify_asan_link_order=0";
        assert_eq!(options(None), ours);
        assert_eq!(options(Some("")), ours);
        let both = options(Some("detect_leaks=0 log_path=a"));
        assert_eq!(both, format!("{ours}:detect_leaks=0 log_path=a"));
        assert_eq!(options(Some(&both)), both);
        let strict = "detect_leaks=0:verify_asan_link_order=1";
        assert_eq!(options(Some(strict)), strict);
        assert_eq!(asan_options(None, Some("libjemalloc.so.2".into())), None);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a/b-c=1"), "a/b-c=1");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
