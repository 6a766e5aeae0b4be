//! Looks at the program before it runs: where it is, what kind of file it is, and which file the kernel really executes.

pub(crate) mod elf;
mod script;

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::contents::{self, Contents};
use crate::failure::Failure;
use elf::Elf;

/// The kernel follows scripts that name scripts to this depth.
const SCRIPT_DEPTH: usize = 5;

/// A program that could be preloaded into.
pub(crate) struct Program {
    /// The ELF file that the kernel executes in the end: the program, or the interpreter of the script.
    pub(crate) file: PathBuf,
    /// Its contents.
    pub(crate) data: Contents,
    /// What they say.
    pub(crate) elf: Elf,
}

/// Finds the file of a program as the shell would: a name with a slash is a path, another is searched on `PATH`.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failure::not_found("the program's name is empty"));
    }
    // A shell refuses both, since no program can have such a name.
    if name.as_bytes().contains(&b'/') || name == "." || name == ".." {
        let path = PathBuf::from(name);
        return match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(Failure::not_found(format_args!("{shown}: no such file")))
            }
            Err(error) => Err(Failure::not_executable(format_args!("{shown}: {error}"))),
            Ok(metadata) => check_executable(&path, &metadata).map(|()| path),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refused = None;
    for directory in std::env::split_paths(&search) {
        let path = Path::new(".").join(directory).join(name);
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        match check_executable(&path, &metadata) {
            Ok(()) => return Ok(path),
            Err(failure) => refused = refused.or(Some(failure)),
        }
    }
    let option = name.to_string_lossy();
    let hint = if option.contains('=') {
        format!("an option is given as --opt {option}")
    } else {
        "a program in the current directory needs ./".into()
    };
    Err(refused
        .unwrap_or_else(|| Failure::not_found(format_args!("{shown}: not found on PATH ({hint})"))))
}

/// Refuses what the kernel would not execute.
fn check_executable(path: &Path, metadata: &fs::Metadata) -> Result<(), Failure> {
    let kind = metadata.file_type();
    let problem = if kind.is_dir() {
        "is a directory"
    } else if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket()
    {
        "is not a regular file"
    } else if metadata.mode() & 0o111 == 0 {
        "has no execute permission"
    } else {
        return Ok(());
    };
    let path = path.display();
    Err(Failure::not_executable(format_args!("{path} {problem}")))
}

/// Follows `#!` lines from `path` to an ELF file and refuses those that nothing can be preloaded into.
pub(crate) fn inspect(path: &Path) -> Result<Program, Failure> {
    let mut file = path.to_path_buf();
    for _ in 0..=SCRIPT_DEPTH {
        refuse_raised_rights(&file)?;
        let data = contents::read(&file).map_err(|error| unreadable(&file, &error))?;
        if data.starts_with(b"#!") {
            file = script::interpreter(&file, &data)?;
        } else {
            let elf = read_elf(&file, &data)?;
            return Ok(Program { file, data, elf });
        }
    }
    Err(Failure::not_executable(format_args!(
        "{}: more than {SCRIPT_DEPTH} scripts name each other as interpreters",
        path.display()
    )))
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format_args!(
        "{} cannot be read ({error}), so it cannot be checked",
        file.display()
    ))
}

/// The loader ignores preloads for programs that gain rights by running.
fn refuse_raised_rights(file: &Path) -> Result<(), Failure> {
    let mode = fs::metadata(file)
        .map_err(|error| unreadable(file, &error))?
        .mode();
    let rights = match mode & 0o6000 {
        0 if has_capabilities(file) => "has file capabilities",
        0 => return Ok(()),
        0o2000 => "is setgid",
        _ => "is setuid",
    };
    Err(Failure::refused(format_args!(
        "{} {rights}: the system does not let another library be loaded into it",
        file.display()
    )))
}

/// Whether the file's attributes grant capabilities. An attribute that cannot be read grants none.
#[allow(unsafe_code, reason = "std reads no extended attributes")]
fn has_capabilities(file: &Path) -> bool {
    let Ok(path) = CString::new(file.as_os_str().as_bytes()) else {
        return false;
    };
    let name = c"security.capability";
    // SAFETY: both are strings; a size of zero only asks for the length of the value.
    unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

/// Reads an ELF file that must be a dynamically linked program.
fn read_elf(file: &Path, data: &[u8]) -> Result<Elf, Failure> {
    let shown = file.display();
    if !data.starts_with(b"\x7fELF") {
        return Err(Failure::not_executable(format_args!(
            "{shown} is neither an ELF program nor a script that begins with #!"
        )));
    }
    let elf =
        elf::read(data).map_err(|problem| Failure::refused(format_args!("{shown}: {problem}")))?;
    if !elf.has_interpreter {
        return Err(Failure::refused(format_args!(
            "{shown} is statically linked: its libgc, if any, is part of it and cannot be replaced"
        )));
    }
    Ok(elf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_programs_as_the_shell_does() {
        assert!(find(OsStr::new("sh")).unwrap().is_file());
        assert!(find(OsStr::new("/bin/sh")).is_ok());
        let failure = find(OsStr::new("/")).unwrap_err();
        assert!(format!("{failure:?}").contains("is a directory"));
        let failure = find(OsStr::new("/dev/null")).unwrap_err();
        assert!(format!("{failure:?}").contains("not a regular file"));
    }
}
