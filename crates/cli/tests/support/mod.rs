//! What the tests of the command share: the command itself with a clean environment, a directory that goes away, and
//! a compiler. A missing tool fails the test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The command, without anything inherited that changes what it does.
pub fn gleaner() -> Command {
    clean(Command::new(env!("CARGO_BIN_EXE_gleaner")))
}

/// `gleaner place` that may look for threads as often as it likes: what a test waits for comes on a slow machine, too.
pub fn place() -> Command {
    let mut command = gleaner();
    command.args(["place", "--opt", "effort=1000"]);
    command
}

/// `command` without the variables that this command and the loader read.
pub fn clean(mut command: Command) -> Command {
    for name in [
        "GLEANER_OPTIONS",
        "GLEANER_LIBGC",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs `gleaner` with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    gleaner().args(arguments).output().expect("gleaner runs")
}

/// What a command printed.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command complained about.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Gleaner's library as it is now, beside the command.
pub fn library() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_gleaner")).parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build
        .args([
            "build",
            "--locked",
            "--quiet",
            "-p",
            "gleaner-libgc",
            "--target-dir",
        ])
        .arg(beside.parent().unwrap())
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if beside.ends_with("release") {
        build.arg("--release");
    }
    let output = build.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    beside.join("libgc.so")
}

/// Checks that the command failed with `status` and a message that has `message` in it.
#[track_caller]
pub fn assert_fails(output: &Output, status: i32, message: &str) {
    let text = stderr(output);
    assert!(text.contains(message), "no '{message}' in:\n{text}");
    assert!(!text.contains("panicked"), "{text}");
    assert_eq!(output.status.code(), Some(status), "{text}");
}

/// Checks that the command succeeded; returns what it printed.
#[track_caller]
pub fn assert_succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    stdout(output)
}

/// A directory of one test, removed at the end.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("gleaner-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary directory");
        Directory(path.canonicalize().expect("its path"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Makes a file with these contents and permissions, and its directories.
    pub fn file(&self, name: &str, contents: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if mode & 0o111 == 0 {
            std::fs::write(&path, contents).unwrap();
        } else {
            write_in_child(&path, contents.as_ref());
        }
        set_mode(&path, mode);
        path
    }

    /// Compiles C; `flags` may name files of this directory.
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let source = self.file(&format!("{name}.c"), source, 0o644);
        let path = self.path(name);
        let output = Command::new("gcc")
            .current_dir(&self.0)
            .args([source.as_os_str(), OsStr::new("-o"), path.as_os_str()])
            .args(flags)
            .output()
            .expect("these tests need gcc");
        assert!(output.status.success(), "{}", stderr(&output));
        path
    }

    /// A library that says which one it is, with libgc's name.
    pub fn library(&self, name: &str, which: u32) -> PathBuf {
        self.file(&format!("{name}.c"), "", 0o644);
        // Gleaner's is told from others by the variable that it reads.
        let source = format!(
            "int GC_which(void) {{ return {which}; }}\nconst char reads[] = \"GLEANER_OPTIONS\";"
        );
        self.compile(
            name,
            &source,
            &["-shared", "-fPIC", "-Wl,-soname,libgc.so.1"],
        )
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A directory that stays behind is no reason to fail.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes a file that will be executed. A child does it: a descriptor open for writing here could be inherited by the
/// child of another test at this moment, and the kernel does not execute what somebody may be writing.
fn write_in_child(path: &Path, contents: &[u8]) {
    let draft = path.with_extension("draft");
    std::fs::write(&draft, contents).unwrap();
    let status = Command::new("cp").args([&draft, path]).status();
    assert!(status.expect("these tests need cp").success());
    std::fs::remove_file(draft).unwrap();
}

/// Changes the permissions of a file.
pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A program that prints which library it got.
pub const WHICH: &str = "
#include <stdio.h>
int GC_which(void);
int main(void) { printf(\"%d\\n\", GC_which()); return 0; }";

/// A directory with `ours/libgc.so.1` (1), `stock/libgc.so.1` (2) and the program `which`, linked against the second.
pub fn replaceable() -> Directory {
    let directory = Directory::new();
    directory.library("ours/libgc.so.1", 1);
    directory.library("stock/libgc.so.1", 2);
    directory.compile(
        "which",
        WHICH,
        &["stock/libgc.so.1", "-Wl,-rpath,$ORIGIN/stock"],
    );
    directory
}

/// The list of processors that a thread may run on.
pub fn affinity(task: &str) -> String {
    let status = std::fs::read_to_string(format!("{task}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_string()
}

/// The numbers of such a list.
pub fn numbers(list: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse().unwrap()
    };
    list.split(',')
        .filter(|part| !part.is_empty())
        .flat_map(part)
        .collect()
}

/// The processors of this process; none, with the reason printed, where there is one alone.
pub fn processors() -> Option<Vec<usize>> {
    let all = numbers(&affinity("/proc/thread-self"));
    if all.len() < 2 {
        println!("skipped: there is one processor");
        return None;
    }
    Some(all)
}

/// Starts a command with pipes to it, and waits until the program that it runs has printed "ready".
pub fn start_until_ready(mut command: Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// The names in a directory that are numbers.
pub fn numbers_in(directory: impl AsRef<Path>) -> Vec<u32> {
    let names = std::fs::read_dir(directory).unwrap().flatten();
    names
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The process of that name that `parent` has started.
pub fn child_of(parent: u32, name: &str) -> u32 {
    let start = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(')').unwrap_or_default();
        stat.contains(&format!("({name})")) && rest.split(' ').nth(2) == Some(&parent.to_string())
    };
    let found: Vec<_> = numbers_in("/proc").into_iter().filter(start).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}
