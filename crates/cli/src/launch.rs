//! A program that is to run on Gleaner: found and checked, with the library that is checked, too. It finds the library
//! in `LD_PRELOAD` and the options in `GLEANER_OPTIONS`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::contents;
use crate::failure::Failure;
use crate::inspect::{self, Program};
use crate::library::{self, Library};
use crate::loader::Loader;
use crate::options;
use crate::uses::{self, Use};

/// The loader's list of libraries to load first.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// The name of the C library.
const C_LIBRARY: &str = "libc.so.6";

/// The options of AddressSanitizer's runtime.
const ASAN: &str = "ASAN_OPTIONS";

/// The one by which that runtime ends a program that has a library before it in the loader's list, as a preloaded one is.
const ASAN_FIRST: &str = "verify_asan_link_order";

/// A program with its arguments, that could be preloaded into.
pub(crate) struct Launch {
    words: Vec<OsString>,
    path: PathBuf,
    library: PathBuf,
}

impl Launch {
    /// Finds the program that `words` begin with, and the library. `any` takes a program that does not use libgc.
    pub(crate) fn check(words: &[OsString], any: bool) -> Result<Launch, Failure> {
        let path = inspect::find(&words[0])?;
        let program = inspect::inspect(&path)?;
        let loader = Loader::new();
        let library = library::find(&loader)?;
        check_fits(&program, &library, &loader)?;
        if !any {
            check_uses_libgc(&path, &program, &loader)?;
        }
        Ok(Launch {
            words: words.to_vec(),
            path,
            library: library.path,
        })
    }

    /// The program on the libgc that it uses by itself, also where Gleaner is preloaded into everything.
    pub(crate) fn on_stock(&self) -> Command {
        let before = std::env::var_os(PRELOAD).unwrap_or_default();
        let others = others(&self.library, &before);
        let mut command = self.command();
        match others.is_empty() {
            true => command.env_remove(PRELOAD),
            false => command.env(PRELOAD, others.join(OsStr::new(":"))),
        };
        command
    }

    /// The program as the shell would start it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(&self.words[0]).args(&self.words[1..]);
        command
    }

    /// The program on Gleaner, with this list of options.
    pub(crate) fn on_gleaner(&self, options: &str) -> Command {
        let mut command = self.command();
        command.env(PRELOAD, preload(&self.library, std::env::var_os(PRELOAD)));
        if let Some(options) = asan_options(std::env::var_os(ASAN), std::env::var_os(PRELOAD)) {
            command.env(ASAN, options);
        }
        if !options.is_empty() {
            command.env(options::VARIABLE, options);
        }
        command
    }

    /// Why the program could not be started after all.
    pub(crate) fn not_executable(&self, error: &std::io::Error) -> Failure {
        Failure::not_executable(format_args!(
            "{} cannot be executed: {error}",
            self.path.display()
        ))
    }
}

/// Refuses a program for another processor than the library, and one with a C library that is too old for it. The loader would
/// pass over the library in the first case, and end the program in the second.
pub(crate) fn check_fits(
    program: &Program,
    library: &Library,
    loader: &Loader,
) -> Result<(), Failure> {
    if program.elf.machine != library.machine {
        return Err(Failure::refused(format_args!(
            "{} is for another processor (ELF machine {}) than {} (ELF machine {})",
            program.file.display(),
            program.elf.machine,
            library.path.display(),
            library.machine
        )));
    }
    let Some(version) = &library.c_version else {
        return Ok(());
    };
    let walk = loader.walk(&program.file, program.elf.clone(), Some(C_LIBRARY));
    let c_library = walk.wanted.filter(|_| walk.found);
    match c_library.and_then(|path| Some((contents::read(&path).ok()?, path))) {
        Some((data, path)) if !contents::has(&data, format!("{version}\0").as_bytes()) => {
            Err(Failure::refused(format_args!(
                "{} gets the C library {}, which is too old: {} needs {version}",
                program.file.display(),
                path.display(),
                library.path.display()
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses a program that would not notice the library.
fn check_uses_libgc(path: &Path, program: &Program, loader: &Loader) -> Result<(), Failure> {
    match uses::of(program, loader) {
        Use::Linked(_) | Use::Opened(..) => Ok(()),
        other => Err(Failure::refused(format_args!(
            "{}. If it starts or loads something that does, add --any",
            other.text(path, program)
        ))),
    }
}

/// The list of preloads with `library` first and once.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let before = before.unwrap_or_default();
    let mut list = vec![library.as_os_str()];
    list.extend(others(library, &before));
    list.join(OsStr::new(":"))
}

/// The items of a list of preloads but for `library`.
pub(crate) fn others<'a>(library: &Path, list: &'a OsStr) -> Vec<&'a OsStr> {
    list.as_bytes()
        .split(|byte| b": ".contains(byte))
        .filter(|item| !item.is_empty() && *item != library.as_os_str().as_bytes())
        .map(OsStr::from_bytes)
        .collect()
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

/// `word` so that a shell reads it back.
pub(crate) fn quoted(word: &str) -> String {
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
