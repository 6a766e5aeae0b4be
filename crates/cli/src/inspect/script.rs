//! The first line of a script: which program the kernel, or `env`, starts for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The interpreter that the script names; with `env`, the program that `env` would find.
pub(crate) fn interpreter(script: &Path, data: &[u8]) -> Result<PathBuf, Failure> {
    let (name, argument) = parse(data);
    let shown = script.display();
    if name.is_empty() {
        return Err(Failure::not_executable(format_args!(
            "{shown}: its #! line names no interpreter"
        )));
    }
    let name = OsStr::from_bytes(name);
    let by_env = Path::new(name).file_name() == Some(OsStr::new("env"));
    if by_env && is_one_word_to_env(argument) {
        return Err(Failure::not_executable(format_args!(
            "{shown}: its #! line does not work, since the kernel gives env '{}' as one argument; write 'env -S' there",
            argument.escape_ascii()
        )));
    }
    let target = if by_env { env_target(argument) } else { None };
    let missing = |failure: Failure| failure.context(format_args!("the interpreter of {shown}"));
    match target {
        Some(program) => super::find(OsStr::from_bytes(program)).map_err(missing),
        None if Path::new(name).is_absolute() => super::find(name).map_err(missing),
        // The kernel takes a relative interpreter from the current directory.
        None => super::find(Path::new(".").join(name).as_os_str()).map_err(missing),
    }
}

/// The interpreter and the rest of the line, which the kernel passes as one argument.
fn parse(data: &[u8]) -> (&[u8], &[u8]) {
    let line = data[2..].split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let line = line.trim_ascii();
    let end = line
        .iter()
        .position(|byte| byte.is_ascii_whitespace())
        .unwrap_or(line.len());
    (&line[..end], line[end..].trim_ascii())
}

/// Whether `env` takes several words for one: it takes an argument apart after `-S` alone. A file of such a name is not there, an
/// option of such a name neither, and after an assignment the script starts itself again.
fn is_one_word_to_env(argument: &[u8]) -> bool {
    let mut words = argument.split(u8::is_ascii_whitespace);
    let first = words.next().unwrap_or(&[]);
    let splits = match first.strip_prefix(b"--") {
        Some(long) => long.starts_with(b"split-string"),
        None => first.starts_with(b"-") && first.contains(&b'S'),
    };
    !splits && (words.next().is_some() || first.contains(&b'=') && !first.starts_with(b"-"))
}

/// The program that `env` starts: its first word that is neither an option nor an assignment.
fn env_target(argument: &[u8]) -> Option<&[u8]> {
    let mut words = argument
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    words.find_map(|word| {
        // `-Sname` is `-S name`.
        let word = word.strip_prefix(b"-S").unwrap_or(word);
        let is_program = !word.is_empty() && !word.starts_with(b"-") && !word.contains(&b'=');
        is_program.then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_split_as_the_kernel_does() {
        assert_eq!(parse(b"#!/bin/sh\necho"), (&b"/bin/sh"[..], &b""[..]));
        assert_eq!(parse(b"#! /bin/a  -x y \n"), (&b"/bin/a"[..], &b"-x y"[..]));
        assert_eq!(parse(b"#!"), (&b""[..], &b""[..]));
    }

    #[test]
    fn env_takes_an_argument_apart_if_it_is_told_to() {
        for fails in ["-i PATH=/bin guile", "FOO=1 guile", "guile -s", "FOO=1"] {
            assert!(is_one_word_to_env(fails.as_bytes()), "{fails}");
        }
        for works in [
            "",
            "guile",
            "-i",
            "-S FOO=1 guile -s",
            "-Sguile -s",
            "-iS guile -s",
            "--split-string guile -s",
        ] {
            assert!(!is_one_word_to_env(works.as_bytes()), "{works}");
        }
    }

    #[test]
    fn env_is_looked_through() {
        assert_eq!(env_target(b"guile"), Some(&b"guile"[..]));
        assert_eq!(env_target(b"-S A=b guile -s"), Some(&b"guile"[..]));
        assert_eq!(env_target(b"-Sguile -s"), Some(&b"guile"[..]));
        assert_eq!(env_target(b"-i"), None);
    }
}
