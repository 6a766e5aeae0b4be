//! How a program uses libgc: whether it is linked against it, opens it when it runs, or has one of its own inside.

use std::path::{Path, PathBuf};

use crate::contents;
use crate::inspect::{Program, elf};
use crate::library::SONAME;
use crate::loader::{Loader, Walk};
use crate::options;

/// A program that has this in it may open the library when it runs. Whether it does, only its run can tell.
const OPENED: &[u8] = b"libgc.so";

/// Variables that libgc reads when it starts. Who has all of them inside has a libgc inside.
const VARIABLES: [&[u8]; 3] = [
    b"GC_INITIAL_HEAP_SIZE",
    b"GC_MAXIMUM_HEAP_SIZE",
    b"GC_FREE_SPACE_DIVISOR",
];

/// How a program uses libgc.
#[derive(Debug)]
pub(crate) enum Use {
    /// It or one of its libraries is linked against it.
    Linked(Walk),
    /// This file, which is it or one of its libraries, may open it when it runs, by these names.
    Opened(PathBuf, Vec<String>),
    /// This file has one inside, which is not a library that another could take the place of.
    Inside(PathBuf),
    /// Not at all.
    Not(Walk),
}

/// How `program` uses libgc.
pub(crate) fn of(program: &Program, loader: &Loader) -> Use {
    let walk = loader.walk(&program.file, program.elf.clone(), Some(SONAME));
    if walk.found {
        return Use::Linked(walk);
    }
    let opened = names(&program.data);
    if !opened.is_empty() {
        return Use::Opened(program.file.clone(), opened);
    }
    if is_inside(&program.data) {
        return Use::Inside(program.file.clone());
    }
    let of_library = |file: &PathBuf| {
        let data = contents::read(file).ok()?;
        if is_inside(&data) {
            return Some(Use::Inside(file.clone()));
        }
        let opened = names(&data);
        (!opened.is_empty()).then(|| Use::Opened(file.clone(), opened))
    };
    let used = walk.others.iter().find_map(of_library);
    used.unwrap_or(Use::Not(walk))
}

/// Whether a libgc is linked into this file.
fn is_inside(data: &[u8]) -> bool {
    let is_ours = contents::has(data, options::VARIABLE.as_bytes());
    !is_ours && VARIABLES.iter().all(|name| contents::has(data, name))
}

/// The names of libraries of libgc that stand in a file, each once: what is printable around them.
fn names(data: &[u8]) -> Vec<String> {
    let is_part = |byte: &u8| byte.is_ascii_graphic();
    let mut names = Vec::new();
    for at in memchr::memmem::find_iter(data, OPENED) {
        let before = data[..at].iter().rev().take_while(|byte| is_part(byte));
        let after = data[at..].iter().take_while(|byte| is_part(byte));
        let range = at - before.count()..at + after.count();
        let name = String::from_utf8_lossy(&data[range]).into_owned();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The version of a libgc that this file is, such as 8.2.2.
pub(crate) fn version(file: &Path) -> Option<String> {
    let data = contents::read(file).ok()?;
    let number = elf::number(&data, "GC_version")?;
    let [micro, minor, major, _] = number.to_le_bytes();
    Some(format!("{major}.{minor}.{micro}"))
}

/// The name of the file that a library's link leads to, from which a distribution's version may be known; nothing if that is its
/// own.
fn real_name(library: &Path) -> String {
    match library.canonicalize() {
        Ok(real) if real.file_name() != library.file_name() => {
            format!(": the file is {}", real.display())
        }
        _ => String::new(),
    }
}

impl Use {
    /// What this is, of a program that was found at `path`, without a full stop.
    pub(crate) fn text(&self, path: &Path, program: &Program) -> String {
        let file = program.file.display();
        match self {
            Use::Linked(walk) => {
                let mut text = format!("{file} needs {}", walk.way.join(", which needs "));
                if let Some(wanted) = &walk.wanted {
                    let version = match version(wanted) {
                        Some(version) => format!("version {version}"),
                        None => format!("version unknown{}", real_name(wanted)),
                    };
                    text += &format!(" ({}, {version})", wanted.display());
                }
                text
            }
            Use::Opened(opener, names) => {
                let by = match *opener == program.file {
                    true => String::new(),
                    false => format!(" needs {}, which", opener.display()),
                };
                format!(
                    "{file}{by} may open it when it runs, as {}",
                    names.join(" or ")
                )
            }
            Use::Inside(inside) if *inside == program.file => format!(
                "{file} has a libgc of its own inside, which nothing can take the place of; link it against {SONAME} instead"
            ),
            Use::Inside(inside) => format!(
                "{file} needs {}, which has a libgc of its own inside that nothing can take the place of",
                inside.display()
            ),
            Use::Not(walk) => {
                let mut text = match program.file == path {
                    true => format!("{file} does not use libgc"),
                    false => format!(
                        "{} does not use libgc: it is a script for {file}, which does not",
                        path.display()
                    ),
                };
                text += &format!(
                    " ({SONAME} is not among the {} libraries it loads)",
                    walk.libraries
                );
                if !walk.missing.is_empty() {
                    text += &format!("; it needs {}", walk.missing.join(" and "));
                }
                text
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_is_printable_around_them() {
        let data = b"\0libgc.so.1\0/opt/lib/libgc.so(1.0|)\0\x7flibgc.so.1\n";
        assert_eq!(names(data), ["libgc.so.1", "/opt/lib/libgc.so(1.0|)"]);
        assert!(names(b"libgc.s").is_empty());
    }

    #[test]
    fn a_libgc_inside_is_known_by_all_its_variables() {
        let all = VARIABLES.join(&b"\0"[..]);
        assert!(is_inside(&all));
        assert!(!is_inside(&all[1..]));
        assert!(!is_inside(&[&all, options::VARIABLE.as_bytes()].concat()));
    }
}
