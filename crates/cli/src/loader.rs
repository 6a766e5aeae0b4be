//! Walks the libraries of a program in the way the dynamic loader does, without running anything, to learn whether the
//! program uses libgc.
//!
//! For a name without a slash the loader looks in: the rpath of the asking file and of those that asked for it,
//! `LD_LIBRARY_PATH`, the runpath of the asking file, the cache, the standard directories. Files for another processor
//! are passed over. The walk is breadth first and reads each name once, as the loader does.

mod cache;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::slice;

use crate::contents;
use crate::inspect::elf::{self, Elf};
use cache::Cache;

/// What the loader calls the processor (`$PLATFORM`).
const PLATFORM: &str = std::env::consts::ARCH;

/// What `$LIB` stands for: the first of the standard directories, without its slash.
fn own_directory() -> String {
    format!("lib/{PLATFORM}-linux-gnu")
}

/// The standard directories, after the cache.
fn standard_directories() -> [PathBuf; 4] {
    let own = own_directory();
    [
        format!("/{own}"),
        format!("/usr/{own}"),
        "/lib".to_string(),
        "/usr/lib".to_string(),
    ]
    .map(PathBuf::from)
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// True when the wanted library is among them. Then the walk ended there.
    pub(crate) found: bool,
    /// How many libraries were looked at.
    pub(crate) libraries: usize,
    /// The names on the way to the wanted library, which is the last.
    pub(crate) way: Vec<String>,
    /// The file that the program gets for it.
    pub(crate) wanted: Option<PathBuf>,
    /// The files of the others.
    pub(crate) others: Vec<PathBuf>,
    /// Names that no file was found for, with what is wrong.
    pub(crate) missing: Vec<String>,
}

/// A file whose libraries are to be found, with what it inherits.
struct Asker {
    /// Directories of its rpath and of those of its askers.
    rpath: Rc<Vec<PathBuf>>,
    runpath: Vec<PathBuf>,
    needed: Vec<String>,
    /// The names by which it was come to from the program.
    way: Vec<String>,
}

impl Asker {
    fn new(file: &Path, elf: Elf, inherited: &Rc<Vec<PathBuf>>, way: Vec<String>) -> Asker {
        let expand = |list: &Option<String>| search_list(list.as_deref().unwrap_or(""), file);
        let mut rpath = expand(&elf.rpath);
        let rpath = if rpath.is_empty() {
            Rc::clone(inherited)
        } else {
            rpath.extend(inherited.iter().cloned());
            Rc::new(rpath)
        };
        Asker {
            rpath,
            runpath: expand(&elf.runpath),
            needed: elf.needed,
            way,
        }
    }

    /// Where to look for a name without a slash, before and after the cache comes into it. A file with a runpath
    /// ignores every rpath.
    fn directories<'a>(&'a self, library_path: &'a [PathBuf]) -> impl Iterator<Item = &'a PathBuf> {
        let rpath = if self.runpath.is_empty() {
            self.rpath.as_slice()
        } else {
            &[]
        };
        rpath.iter().chain(library_path).chain(&self.runpath)
    }
}

/// The loader's view of the system.
pub(crate) struct Loader {
    library_path: Vec<PathBuf>,
    cache: Cache,
}

impl Loader {
    /// With `LD_LIBRARY_PATH` and the cache as they are now.
    pub(crate) fn new() -> Loader {
        let path = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        Loader {
            library_path: path
                .split([':', ';'])
                .filter(|_| !path.is_empty())
                .map(|item| PathBuf::from(if item.is_empty() { "." } else { item }))
                .collect(),
            cache: Cache::read(Path::new("/etc/ld.so.cache")),
        }
    }

    /// Walks the libraries of `file`: until one is found whose name or soname is `wanted`, or all of them.
    pub(crate) fn walk(&self, file: &Path, elf: Elf, wanted: Option<&str>) -> Walk {
        let machine = elf.machine;
        let mut walk = Walk::default();
        let mut known = HashSet::new();
        let mut queue = std::collections::VecDeque::new();
        queue.push_back(Asker::new(file, elf, &Rc::new(Vec::new()), Vec::new()));
        while let Some(asker) = queue.pop_front() {
            for name in &asker.needed {
                if !known.insert(name.clone()) {
                    continue;
                }
                walk.libraries += 1;
                let way = [asker.way.as_slice(), slice::from_ref(name)].concat();
                walk.found = wanted == Some(name.as_str());
                match self.resolve(name, &asker, machine) {
                    Some(Ok((path, elf))) => {
                        walk.found |= wanted.is_some() && elf.soname.as_deref() == wanted;
                        if walk.found {
                            walk.wanted = Some(path);
                        } else {
                            queue.push_back(Asker::new(&path, elf, &asker.rpath, way.clone()));
                            walk.others.push(path);
                        }
                    }
                    // It will be there, since Gleaner's takes its place.
                    _ if walk.found => {}
                    Some(Err(problem)) => walk.missing.push(format!("{name}: {problem}")),
                    None => walk.missing.push(format!("{name}, not found")),
                }
                if walk.found {
                    walk.way = way;
                    return walk;
                }
            }
        }
        walk
    }

    /// The file that `asker` gets for `name`.
    fn resolve(&self, name: &str, asker: &Asker, machine: u16) -> Option<Opened> {
        if name.contains('/') {
            return open(PathBuf::from(name), machine);
        }
        asker
            .directories(&self.library_path)
            .map(|directory| directory.join(name))
            .chain(std::iter::once_with(|| self.cache.find(name)).flatten())
            .chain(
                standard_directories()
                    .iter()
                    .map(|directory| Path::new(directory).join(name)),
            )
            .find_map(|path| open(path, machine))
    }
}

/// A library, or why there was no room to look at it.
type Opened = Result<(PathBuf, Elf), std::io::Error>;

/// The ELF file at `path`, if there is one for this processor.
fn open(path: PathBuf, machine: u16) -> Option<Opened> {
    let data = match contents::read(&path) {
        Ok(data) => data,
        Err(error) => return (error.kind() == ErrorKind::Other).then_some(Err(error)),
    };
    let elf = elf::read(&data).ok()?;
    (elf.machine == machine).then_some(Ok((path, elf)))
}

/// The directories of an rpath or a runpath, `$ORIGIN` and `$LIB` put in.
fn search_list(list: &str, file: &Path) -> Vec<PathBuf> {
    if list.is_empty() {
        return Vec::new();
    }
    let file = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let origin = file.parent().unwrap_or(Path::new("/")).to_string_lossy();
    let library = &*own_directory();
    list.split(':')
        .filter(|item| !item.is_empty())
        .map(|item| {
            let mut item = item.to_string();
            for (token, value) in [
                ("ORIGIN", &*origin),
                ("LIB", library),
                ("PLATFORM", PLATFORM),
            ] {
                item = item.replace(&format!("${{{token}}}"), value);
                item = item.replace(&format!("${token}"), value);
            }
            PathBuf::from(item)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_put_in() {
        let list = search_list(
            "$ORIGIN/../lib:/x:${ORIGIN}:/usr/$LIB",
            Path::new("/a/b/prog"),
        );
        let expected = [
            "/a/b/../lib",
            "/x",
            "/a/b",
            &format!("/usr/{}", own_directory()),
        ];
        assert_eq!(list, expected.map(PathBuf::from));
    }

    #[test]
    fn a_runpath_hides_the_rpath_of_the_askers() {
        let inherited = Rc::new(vec![PathBuf::from("/inherited")]);
        let directories = |rpath: Option<&str>, runpath: Option<&str>| {
            let elf = Elf {
                rpath: rpath.map(String::from),
                runpath: runpath.map(String::from),
                ..Elf::default()
            };
            let asker = Asker::new(Path::new("/p"), elf, &inherited, Vec::new());
            let library_path = [PathBuf::from("/env")];
            asker
                .directories(&library_path)
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(directories(Some("/r"), None), ["/r", "/inherited", "/env"]);
        assert_eq!(directories(None, None), ["/inherited", "/env"]);
        assert_eq!(directories(None, Some("/run")), ["/env", "/run"]);
    }
}
