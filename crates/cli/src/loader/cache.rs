//! The loader's cache of libraries, `/etc/ld.so.cache`: a header, entries of 24 bytes (flags, offset of the name, offset
//! of the path, and more that does not matter here), then the strings. Offsets count from the header.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// What the header of the current format begins with. An older header may come before it.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes of the header.
const HEADER: usize = 48;
/// Bytes of an entry.
const ENTRY: usize = 24;
/// The flags of libraries for 64-bit x86.
const X86_64: u32 = 0x0303;

/// Names of libraries with their files.
#[derive(Default)]
pub(super) struct Cache(HashMap<String, PathBuf>);

impl Cache {
    /// Reads the cache. A system without one (or with one in another format) simply has nothing in it: the standard
    /// directories are searched anyway.
    pub(super) fn read(file: &Path) -> Cache {
        std::fs::read(file)
            .ok()
            .and_then(|data| parse(&data))
            .unwrap_or_default()
    }

    /// The file of that name.
    pub(super) fn find(&self, name: &str) -> Option<&PathBuf> {
        self.0.get(name)
    }
}

fn parse(data: &[u8]) -> Option<Cache> {
    let start = data
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)?;
    let data = &data[start..];
    let word = |at: usize| {
        let bytes = data.get(at..at + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let text = |at: u32| {
        let tail = data.get(at as usize..)?;
        let end = tail.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&tail[..end]).ok()
    };
    let mut cache = Cache::default();
    for index in 0..word(MAGIC.len())? as usize {
        let entry = HEADER + index * ENTRY;
        let (flags, name, path) = (word(entry)?, word(entry + 4)?, word(entry + 8)?);
        if flags == X86_64 {
            // The first entry of a name is the one that the loader prefers, but for hardware variants, whose contents
            // ask for the same libraries.
            let path = PathBuf::from(text(path)?);
            cache.0.entry(text(name)?.to_string()).or_insert(path);
        }
    }
    Some(cache)
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
            for word in [X86_64, at, at + name.len() as u32 + 1, 0, 0, 0] {
                header.extend(word.to_ne_bytes());
            }
            strings.extend(format!("{name}\0{path}\0").bytes());
        }
        [b"ld.so-1.7.0\0 older header ".to_vec(), header, strings].concat()
    }

    #[test]
    fn reads_entries_by_hand_and_refuses_what_is_cut() {
        let data = file_of(&[("a.so", "/x/a.so")]);
        let cache = parse(&data).unwrap();
        assert_eq!(cache.find("a.so"), Some(&PathBuf::from("/x/a.so")));
        assert!(parse(&data[..data.len() - 1]).is_none());
        assert!(parse(b"something else").is_none());
    }

    #[test]
    fn of_entries_with_one_name_the_first_counts() {
        let data = file_of(&[("a.so", "/first"), ("b.so", "/b"), ("a.so", "/second")]);
        let cache = parse(&data).unwrap();
        assert_eq!(cache.find("a.so"), Some(&PathBuf::from("/first")));
        assert_eq!(cache.find("b.so"), Some(&PathBuf::from("/b")));
    }
}
