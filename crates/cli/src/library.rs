//! Gleaner's own library: where it is, and whether the loader will take it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::contents;
use crate::failure::Failure;
use crate::inspect::{
    self,
    elf::{self, Elf},
};
use crate::loader::Loader;
use crate::options;

/// The name that programs are linked against.
pub(crate) const SONAME: &str = "libgc.so.1";

/// What the names of the C library's versions begin with; numbers with full stops between them follow.
const C_VERSION: &[u8] = b"GLIBC_";

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
    /// The newest version of the C library that it names, such as `GLIBC_2.34`.
    pub(crate) c_version: Option<String>,
}

/// Finds and checks the library.
pub(crate) fn find(loader: &Loader) -> Result<Library, Failure> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return check(Path::new(&path), &format!(" (named by {VARIABLE})"), loader);
    }
    let command = own_file(std::env::current_exe(), std::env::args_os().next())?;
    let directory = command.parent().unwrap_or(Path::new("/"));
    match PLACES
        .iter()
        .map(|place| directory.join(place))
        .find(|path| path.exists())
    {
        Some(path) => check(&path, "", loader),
        None => Err(Failure::refused(format_args!(
            "Gleaner's libgc.so.1 is not installed: none of {} in {}; name it with {VARIABLE}=PATH",
            PLACES.join(", "),
            directory.display()
        ))),
    }
}

/// The file of this command: as the kernel says it, or in a system without /proc as the command was called.
fn own_file(known: io::Result<PathBuf>, called: Option<OsString>) -> Result<PathBuf, Failure> {
    let unknown = |error: io::Error| {
        Failure::refused(format_args!(
            "cannot find this command's file: {error}; name the library with {VARIABLE}=PATH"
        ))
    };
    let path = match (known, called) {
        (Ok(path), _) => path,
        (Err(error), None) => return Err(unknown(error)),
        (Err(error), Some(called)) => inspect::find(&called).map_err(|_| unknown(error))?,
    };
    path.canonicalize().map_err(unknown)
}

/// Refuses a file that the loader would not load in libgc's place: it would only warn, and the program would run on
/// the other library without anybody noticing.
fn check(path: &Path, source: &str, loader: &Loader) -> Result<Library, Failure> {
    let refuse = |problem: &dyn std::fmt::Display| {
        Failure::refused(format_args!(
            "the library {}{source} cannot be loaded: {problem}",
            path.display()
        ))
    };
    let path = path.canonicalize().map_err(|error| refuse(&error))?;
    let data = contents::read(&path).map_err(|error| refuse(&error))?;
    if !data.starts_with(b"\x7fELF") {
        return Err(refuse(&"it is not an ELF file"));
    }
    let elf = elf::read(&data).map_err(|problem| refuse(&format_args!("it {problem}")))?;
    let machine = elf.machine;
    check_contents(&path, elf, loader).map_err(|problem| refuse(&problem))?;
    if !contents::has(&data, options::VARIABLE.as_bytes()) {
        return Err(refuse(
            &"it is another libgc than Gleaner's: it knows nothing of GLEANER_OPTIONS",
        ));
    }
    let c_version = newest_c_version(&data);
    Ok(Library {
        path,
        machine,
        c_version,
    })
}

/// The newest version of the C library whose name stands in a file. A file names those of the symbols that it asks for.
fn newest_c_version(data: &[u8]) -> Option<String> {
    let numbers = |at: usize| {
        let name = data[at + C_VERSION.len()..]
            .split(|&byte| byte == 0)
            .next()?;
        let name = std::str::from_utf8(name).ok()?;
        let numbers: Result<Vec<u32>, _> = name.split('.').map(str::parse).collect();
        Some((numbers.ok()?, name))
    };
    let found = memchr::memmem::find_iter(data, C_VERSION).filter_map(numbers);
    let (_, name) = found.max()?;
    Some(format!("{}{name}", String::from_utf8_lossy(C_VERSION)))
}

/// What to do about a place that will not do.
fn elsewhere(problem: &str) -> String {
    format!("{problem}; copy it elsewhere, and name the copy with {VARIABLE}=PATH")
}

/// Whether the kernel maps code of that file: not where its file system is mounted `noexec`.
fn may_be_executed(path: &Path) -> bool {
    let found = rustix::fs::statvfs(path);
    found.is_ok_and(|found| !found.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC))
}

fn check_contents(path: &Path, elf: Elf, loader: &Loader) -> Result<(), String> {
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
        return Err(elsewhere(
            "LD_PRELOAD cannot name a path with a blank or a colon",
        ));
    }
    if !may_be_executed(path) {
        return Err(elsewhere("its file system is mounted noexec"));
    }
    let walk = loader.walk(path, elf, None);
    if !walk.missing.is_empty() {
        return Err(format!("it needs {}", walk.missing.join(" and ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_that_of_the_greatest_number() {
        let newest = |text: &str| newest_c_version(text.as_bytes());
        let names = "\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(newest(names).as_deref(), Some("GLIBC_2.34"));
        assert_eq!(newest("GLIBC_2.2.5\0").as_deref(), Some("GLIBC_2.2.5"));
        assert_eq!(newest("GLIBC_2.\0").as_deref(), None);
        assert_eq!(newest("GLIBCXX_3.4\0").as_deref(), None);
    }

    /// The kernel's list says the same. A place that is mounted upon is there twice, and one that cannot be asked about is none.
    #[test]
    fn whether_code_is_mapped_is_known_of_each_file_system() {
        let list = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let words = list.lines().map(|line| line.split(' '));
        let mounts: std::collections::HashMap<_, _> = words
            .map(|mut words| (words.nth(1).unwrap(), words.nth(1).unwrap()))
            .collect();
        let mut known = 0;
        for (place, flags) in mounts {
            if rustix::fs::statvfs(place).is_ok() {
                let may = !flags.split(',').any(|flag| flag == "noexec");
                assert_eq!(may_be_executed(Path::new(place)), may, "{place} {flags}");
                known += 1;
            }
        }
        assert!(known > 0);
        assert!(!may_be_executed(Path::new("/no/such/file")));
    }

    fn nowhere() -> io::Result<PathBuf> {
        Err(io::Error::other("no /proc/self/exe"))
    }

    #[test]
    fn without_proc_the_command_is_found_as_it_was_called() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let found = |known, called: Option<&str>| own_file(known, called.map(OsString::from)).ok();
        assert_eq!(
            found(Ok(own.clone()), Some("/no/such/file")),
            Some(own.clone())
        );
        assert_eq!(found(nowhere(), own.to_str()), Some(own));
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        assert_eq!(found(nowhere(), Some("sh")), Some(shell));
        assert_eq!(found(nowhere(), Some("/no/such/file")), None);
        assert_eq!(found(nowhere(), None), None);
    }
}
