//! WASI preview 1: links that a program makes, and times that it sets.

#[allow(dead_code)]
mod guest;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use guest::*;

const EXIST: i32 = 20;
const INVAL: i32 = 28;
const NOENT: i32 = 44;
const NOTDIR: i32 = 54;
const PERM: i32 = 63;
const NOTCAPABLE: i32 = 76;

/// Calls a function with two paths, each as address and length.
fn with_paths(
    guest: &mut Guest,
    [first, second]: [&str; 2],
    call: impl Fn(&mut Guest, [i64; 2], [i64; 2]) -> i32,
) -> i32 {
    guest.put(3000, first.as_bytes());
    guest.put(5000, second.as_bytes());
    let lengths = [first, second].map(|path| path.len() as i64);
    call(guest, [3000, lengths[0]], [5000, lengths[1]])
}

fn link(guest: &mut Guest, flags: i64, from: &str, to: &str) -> i32 {
    with_paths(guest, [from, to], |guest, from, to| {
        guest.call("path_link", &[3, flags, from[0], from[1], 3, to[0], to[1]])
    })
}

fn symlink(guest: &mut Guest, says: &str, path: &str) -> i32 {
    with_paths(guest, [says, path], |guest, says, path| {
        guest.call("path_symlink", &[says[0], says[1], 3, path[0], path[1]])
    })
}

#[test]
fn a_file_gets_a_second_name_and_none_outside() {
    let (mut guest, root) = guest_with_directory("second-name");
    fs::write(root.join("file"), "text").unwrap();
    fs::create_dir(root.join("sub")).unwrap();
    assert_eq!(link(&mut guest, 0, "file", "sub/name"), 0);
    assert_eq!(fs::read(root.join("sub/name")).unwrap(), b"text");
    assert_eq!(fs::metadata(root.join("file")).unwrap().nlink(), 2);
    assert_eq!(link(&mut guest, 0, "file", "sub/name"), EXIST);
    assert_eq!(link(&mut guest, 0, "none", "other"), NOENT);
    assert_eq!(link(&mut guest, 0, "../secret", "mine"), NOTCAPABLE);
    assert_eq!(link(&mut guest, 0, "file", "../theirs"), NOTCAPABLE);
    assert_eq!(link(&mut guest, 1, "file", "followed"), INVAL);
    std::os::unix::fs::symlink("../secret", root.join("way-out")).unwrap();
    assert_eq!(link(&mut guest, 0, "way-out", "second-way-out"), 0);
    assert_eq!(
        fs::read_link(root.join("second-way-out")).unwrap(),
        Path::new("../secret")
    );
    assert_eq!(guest.open("second-way-out", 0, false).0, NOTCAPABLE);
    // With a slash behind it the link is followed. What lies outside makes no difference.
    for (name, outside) in [
        ("to-file", "../secret"),
        ("to-directory", ".."),
        ("to-nothing", "../none"),
    ] {
        std::os::unix::fs::symlink(outside, root.join(name)).unwrap();
        assert_eq!(
            link(&mut guest, 0, &format!("{name}/"), "mine"),
            NOTCAPABLE,
            "{name}"
        );
    }
    assert_eq!(link(&mut guest, 0, "sub/", "mine"), PERM);
    assert_eq!(link(&mut guest, 0, "file/", "mine"), NOTDIR);
}

#[test]
fn a_link_says_what_the_program_wants_but_no_absolute_path() {
    let (mut guest, root) = guest_with_directory("symlink");
    fs::write(root.join("file"), "text").unwrap();
    assert_eq!(symlink(&mut guest, "file", "link"), 0);
    assert_eq!(fs::read(root.join("link")).unwrap(), b"text");
    assert_eq!(symlink(&mut guest, "file", "link"), EXIST);
    assert_eq!(symlink(&mut guest, "", "empty"), NOENT);
    assert_eq!(symlink(&mut guest, "/etc/passwd", "absolute"), NOTCAPABLE);
    assert_eq!(symlink(&mut guest, "file", "../theirs"), NOTCAPABLE);
    assert_eq!(symlink(&mut guest, "../secret", "way-out"), 0);
    assert_eq!(guest.open("way-out", 0, false).0, NOTCAPABLE);
    let mut names: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["file", "link", "way-out"]);
}

/// When a file was last read and written, in nanoseconds.
fn times(path: &Path) -> [i64; 2] {
    let of = fs::symlink_metadata(path).unwrap();
    [
        of.atime() * 1_000_000_000 + of.atime_nsec(),
        of.mtime() * 1_000_000_000 + of.mtime_nsec(),
    ]
}

#[test]
fn times_are_set_as_far_as_asked() {
    let (mut guest, root) = guest_with_directory("times");
    let file = root.join("file");
    fs::write(&file, "text").unwrap();
    std::os::unix::fs::symlink("file", root.join("link")).unwrap();
    let by_path = |guest: &mut Guest, path: &str, follow: i64, times: [i64; 2], flags: i64| {
        let [at, count] = guest.path(path);
        let name = "path_filestat_set_times";
        guest.call(name, &[3, follow, at, count, times[0], times[1], flags])
    };
    let old = [5_000_000_001, 7_000_000_002];
    assert_eq!(by_path(&mut guest, "file", 0, old, 1 | 4), 0);
    assert_eq!(times(&file), old);
    // One alone.
    assert_eq!(by_path(&mut guest, "link", 1, [11, 13], 4), 0);
    assert_eq!(times(&file), [old[0], 13]);
    // The link itself.
    assert_eq!(by_path(&mut guest, "link", 0, [17, 19], 1 | 4), 0);
    assert_eq!(times(&root.join("link")), [17, 19]);
    assert_eq!(times(&file), [old[0], 13]);
    // As the clock says.
    assert_eq!(by_path(&mut guest, "file", 0, [0, 0], 8), 0);
    let [read, written] = times(&file);
    assert_eq!(read, old[0]);
    assert!(written > 1_600_000_000_000_000_000, "{written}");
    for flags in [1 | 2, 4 | 8] {
        assert_eq!(by_path(&mut guest, "file", 0, old, flags), INVAL);
    }
    assert_eq!(by_path(&mut guest, "../secret", 0, old, 1), NOTCAPABLE);
    let (answer, number) = guest.open("file", 0, false);
    assert_eq!(answer, 0);
    let of_file = [number, old[0], old[1], 1 | 4];
    assert_eq!(guest.call("fd_filestat_set_times", &of_file), 0);
    assert_eq!(times(&file), old);
}
