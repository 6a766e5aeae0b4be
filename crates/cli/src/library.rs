//! Gleaner's own library: where it is, and whether the loader will take it.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::inspect::elf::{self, Elf};
use crate::loader::Loader;

/// The name that programs are linked against.
pub(crate) const SONAME: &str = "libgc.so.1";

/// The environment variable that names another file.
const VARIABLE: &str = "GLEANER_LIBGC";

/// Where the library is, relative to this command: in a build tree, then installed.
const PLACES: [&str; 3] = ["libgc.so.1", "libgc.so", "../lib/gleaner/libgc.so.1"];

/// A library that can be preloaded.
pub(crate) struct Library {
    /// Its absolute path.
    pub(crate) path: PathBuf,
    /// The processor it is for.
    pub(crate) machine: u16,
}

/// Finds and checks the library.
pub(crate) fn find() -> Result<Library, Failure> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return check(Path::new(&path), &format!(" (named by {VARIABLE})"));
    }
    let command = std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| {
            Failure::refused(format_args!("cannot find this command's file: {error}"))
        })?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    match PLACES
        .iter()
        .map(|place| directory.join(place))
        .find(|path| path.exists())
    {
        Some(path) => check(&path, ""),
        None => Err(Failure::refused(format_args!(
            "Gleaner's libgc.so.1 is not installed: none of {} in {}; name it with {VARIABLE}=PATH",
            PLACES.join(", "),
            directory.display()
        ))),
    }
}

/// Refuses a file that the loader would not load in libgc's place: it would only warn, and the program would run on
/// the other library without anybody noticing.
fn check(path: &Path, source: &str) -> Result<Library, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| {
        Failure::refused(format_args!(
            "the library {}{source} cannot be loaded: {problem}",
            path.display()
        ))
    };
    let path = path.canonicalize().map_err(|error| refuse(&error))?;
    let data = std::fs::read(&path).map_err(|error| refuse(&error))?;
    if !data.starts_with(b"\x7fELF") {
        return Err(refuse(&"it is not an ELF file"));
    }
    let elf = elf::read(&data).map_err(|problem| refuse(&format_args!("it {problem}")))?;
    let machine = elf.machine;
    check_contents(&path, elf).map_err(|problem| refuse(&problem))?;
    Ok(Library { path, machine })
}

fn check_contents(path: &Path, elf: Elf) -> Result<(), String> {
    if !elf.is_shared || elf.has_interpreter {
        return Err("it is a program, not a library".into());
    }
    match elf.soname.as_deref() {
        Some(SONAME) => {}
        Some(other) => return Err(format!("its name (soname) is {other}, not {SONAME}")),
        None => return Err(format!("it has no name (soname); it must be {SONAME}")),
    }
    // The loader splits the list of preloads at these, and knows no quoting.
    if path.to_string_lossy().contains([' ', ':']) {
        return Err("LD_PRELOAD cannot name a path with a blank or a colon".into());
    }
    let walk = Loader::new().walk(path, elf, SONAME);
    if !walk.missing.is_empty() {
        return Err(format!("it needs {}, not found", walk.missing.join(", ")));
    }
    Ok(())
}
