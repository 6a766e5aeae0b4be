//! The loader's cache of libraries, `/etc/ld.so.cache`: a header, entries of 24 bytes (flags, offset of the name, offset
//! of the path, and more that does not matter here), then the strings. Offsets count from the header.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::contents::{self, Contents};

/// What the header of the current format begins with. An older header may come before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes of the header.
const HEADER: usize = 48;
/// Bytes of an entry.
const ENTRY: usize = 24;
/// The flags of libraries for the processor that this command is for: the kind of processor in the upper byte, and 3 for those of
/// the C library's second version and later.
fn own_flags() -> u32 {
    match std::env::consts::ARCH {
        "aarch64" => 0x0a03,
        _ => 0x0303,
    }
}

/// Names of libraries with their files. The strings are compared where they lie: a few names are looked up among
/// hundreds.
pub(super) struct Cache(Option<Contents>);

impl Cache {
    /// Reads the cache. A system without one (or with one in another format) simply has nothing in it: the standard
    /// directories are searched anyway.
    pub(super) fn read(file: &Path) -> Cache {
        Cache(contents::read(file).ok())
    }

    /// The file of that name.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        find(self.0.as_deref()?, name)
    }
}

/// The file of that name in the contents of a cache. The first entry of a name is the one that the loader prefers, but for
/// hardware variants, whose contents ask for the same libraries. What is cut off of a file is not found.
fn find(data: &[u8], name: &str) -> Option<PathBuf> {
    let start = data
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)?;
    let data = &data[start..];
    let count = word(data, MAGIC.len())? as usize;
    let entries = data.get(HEADER..)?.chunks_exact(ENTRY).take(count);
    let own = Some(own_flags());
    let path = entries
        .filter(|entry| word(entry, 0) == own)
        .find(|entry| is_string(data, word(entry, 4), name.as_bytes()))
        .and_then(|entry| word(entry, 8))?;
    let tail = data.get(path as usize..)?;
    let end = tail.iter().position(|&byte| byte == 0)?;
    Some(PathBuf::from(OsStr::from_bytes(&tail[..end])))
}

/// The number at an offset.
fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

/// Whether the string at an offset is `text`. Where it ends is looked at first: nearly all names begin alike.
fn is_string(data: &[u8], at: Option<u32>, text: &[u8]) -> bool {
    let tail = at.and_then(|at| data.get(at as usize..));
    tail.is_some_and(|tail| tail.get(text.len()) == Some(&0) && tail.starts_with(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_cache_of_this_system() {
        let cache = Cache::read(Path::new("/etc/ld.so.cache"));
        let path = cache
            .find("libc.so.6")
            .expect("libc.so.6 is in every cache");
        assert!(path.is_file());
        assert!(cache.find("no-such-library.so").is_none());
    }

    /// A file of the cache with these names and paths, behind an older header.
    fn file_of(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut header = [MAGIC, &(entries.len() as u32).to_ne_bytes()].concat();
        header.resize(HEADER, 0);
        let mut strings = Vec::new();
        for (name, path) in entries {
            let at = (HEADER + entries.len() * ENTRY + strings.len()) as u32;
            for word in [own_flags(), at, at + name.len() as u32 + 1, 0, 0, 0] {
                header.extend(word.to_ne_bytes());
            }
            strings.extend(format!("{name}\0{path}\0").bytes());
        }
        [b"ld.so-1.7.0\0 older header ".to_vec(), header, strings].concat()
    }

    #[test]
    fn reads_entries_by_hand_and_nothing_that_is_cut() {
        let data = file_of(&[("a.so", "/x/a.so"), ("b.so", "/x/b.so")]);
        assert_eq!(find(&data, "a.so"), Some(PathBuf::from("/x/a.so")));
        assert_eq!(find(&data, "b.so"), Some(PathBuf::from("/x/b.so")));
        for other in ["a.s", "a.so.1", "", "/x/a.so"] {
            assert_eq!(find(&data, other), None, "{other}");
        }
        for length in 0..data.len() {
            assert_eq!(find(&data[..length], "b.so"), None, "{length} bytes");
        }
        assert_eq!(find(b"something else", "a.so"), None);
    }

    #[test]
    fn of_entries_with_one_name_the_first_counts() {
        let data = file_of(&[("a.so", "/first"), ("b.so", "/b"), ("a.so", "/second")]);
        assert_eq!(find(&data, "a.so"), Some(PathBuf::from("/first")));
        assert_eq!(find(&data, "b.so"), Some(PathBuf::from("/b")));
    }

    #[test]
    fn an_entry_for_another_processor_is_passed_over() {
        let mut data = file_of(&[("a.so", "/other"), ("a.so", "/ours")]);
        let first = data.len() - 2 * ENTRY - "a.so\0/other\0a.so\0/ours\0".len();
        data[first] ^= 1;
        assert_eq!(find(&data, "a.so"), Some(PathBuf::from("/ours")));
    }
}
