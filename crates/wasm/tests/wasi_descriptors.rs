//! WASI preview 1: the numbers of descriptors, their flags and rights, advice about files, and what is asked of sockets.

#[allow(dead_code)]
mod guest;

use std::fs;
use std::io::pipe;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use gleaner_wasm::wasi::Setup;

use guest::*;

const BADF: i32 = 8;
const INVAL: i32 = 28;
const NOTSOCK: i32 = 57;
const NOTSUP: i32 = 58;
const SPIPE: i32 = 70;
const NOTCAPABLE: i32 = 76;

const APPEND: i64 = 1;
const DSYNC: i64 = 2;
const NONBLOCK: i64 = 4;
const SYNC: i64 = 16;

fn flags(guest: &mut Guest, file: i64) -> i64 {
    assert_eq!(guest.call("fd_fdstat_get", &[file, 0]), 0);
    i64::from(guest.u32(0) >> 16)
}

#[test]
fn a_number_is_given_what_is_open_under_another() {
    let (mut guest, root) = guest_with_directory("renumber");
    let (_, first) = guest.open("first", 1, true);
    let (_, second) = guest.open("second", 1, true);
    assert_eq!(guest.write(first, "one"), (0, 3));
    assert_eq!(guest.call("fd_renumber", &[first, second]), 0);
    assert_eq!(guest.write(first, "lost").0, BADF);
    assert_eq!(guest.write(second, " more"), (0, 5));
    assert_eq!(fs::read(root.join("first")).unwrap(), b"one more");
    assert_eq!(fs::read(root.join("second")).unwrap(), b"");
    // The first number is free. A number that nothing is open under gets nothing, and loses nothing of another.
    assert_eq!(guest.call("fd_renumber", &[second, 99]), BADF);
    assert_eq!(guest.call("fd_renumber", &[99, second]), BADF);
    assert_eq!(guest.call("fd_renumber", &[second, -1]), BADF);
    assert_eq!(guest.call("fd_renumber", &[second, second]), 0);
    assert_eq!(guest.write(second, "!"), (0, 1));
    assert_eq!(guest.open("third", 1, true), (0, first));
    // Standard output goes to a file, and the directory gets another number with its name.
    assert_eq!(guest.call("fd_renumber", &[second, 1]), 0);
    assert_eq!(guest.write(1, "?"), (0, 1));
    assert_eq!(fs::read(root.join("first")).unwrap(), b"one more!?");
    assert_eq!(guest.call("fd_renumber", &[3, 0]), 0);
    assert_eq!(guest.call("fd_prestat_get", &[0, 100]), 0);
    assert_eq!(guest.call("fd_prestat_get", &[3, 100]), BADF);
}

#[test]
fn flags_of_a_file_are_set_as_far_as_the_system_changes_them() {
    let (mut guest, root) = guest_with_directory("flags");
    let (_, file) = guest.open("file", 1, true);
    assert_eq!(guest.write(file, "abc"), (0, 3));
    assert_eq!(
        guest.call("fd_fdstat_set_flags", &[file, APPEND | NONBLOCK]),
        0
    );
    assert_eq!(flags(&mut guest, file), APPEND | NONBLOCK);
    assert_eq!(guest.call("fd_seek", &[file, 0, 0, 100]), 0);
    assert_eq!(guest.write(file, "def"), (0, 3));
    assert_eq!(fs::read(root.join("file")).unwrap(), b"abcdef");
    assert_eq!(guest.call("fd_fdstat_set_flags", &[file, 0]), 0);
    assert_eq!(flags(&mut guest, file), 0);
    assert_eq!(guest.call("fd_seek", &[file, 0, 0, 100]), 0);
    assert_eq!(guest.write(file, "XYZ"), (0, 3));
    assert_eq!(fs::read(root.join("file")).unwrap(), b"XYZdef");
    // Writing through to the disk is not changed later: a file that does not, is told so.
    for through in [DSYNC, SYNC] {
        assert_eq!(guest.call("fd_fdstat_set_flags", &[file, through]), NOTSUP);
        assert_eq!(flags(&mut guest, file), 0);
    }
    assert_eq!(guest.call("fd_fdstat_set_flags", &[99, 0]), BADF);
}

#[test]
fn flags_of_what_the_host_opened_stay_as_they_are() {
    let (_reader, output) = pipe().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(1, OwnedFd::from(output.try_clone().unwrap()));
    let mut guest = Guest::new(setup);
    assert_eq!(guest.call("fd_fdstat_set_flags", &[1, 0]), 0);
    assert_eq!(guest.call("fd_fdstat_set_flags", &[1, NONBLOCK]), NOTSUP);
    assert!(!rustix_flags(&output).contains(rustix::fs::OFlags::NONBLOCK));
}

fn rustix_flags(file: &std::io::PipeWriter) -> rustix::fs::OFlags {
    rustix::fs::fcntl_getfl(file).unwrap()
}

#[test]
fn rights_are_all_granted_and_no_more() {
    let mut guest = Guest::new(Setup::new().unwrap());
    assert_eq!(guest.call("fd_fdstat_get", &[1, 0]), 0);
    let inheriting = guest.u64(16) as i64;
    assert_eq!(guest.call("fd_fdstat_set_rights", &[1, inheriting, 0]), 0);
    assert_eq!(
        guest.call("fd_fdstat_set_rights", &[1, 1 << 30, 0]),
        NOTCAPABLE
    );
    assert_eq!(
        guest.call("fd_fdstat_set_rights", &[1, 0, 1 << 30]),
        NOTCAPABLE
    );
    assert_eq!(guest.call("fd_fdstat_set_rights", &[9, 0, 0]), BADF);
}

#[test]
fn room_is_made_and_advice_is_taken() {
    let (input, _writer) = pipe().unwrap();
    let (mut guest, root) = guest_with_directory("room");
    let (_, file) = guest.open("file", 1, true);
    assert_eq!(guest.write(file, "abc"), (0, 3));
    assert_eq!(guest.call("fd_allocate", &[file, 2, 4098]), 0);
    assert_eq!(fs::metadata(root.join("file")).unwrap().len(), 4100);
    assert_eq!(guest.call("fd_allocate", &[file, 0, 1]), 0);
    assert_eq!(fs::metadata(root.join("file")).unwrap().len(), 4100);
    assert_eq!(guest.call("fd_allocate", &[file, 0, 0]), INVAL);
    assert_eq!(guest.call("fd_allocate", &[99, 0, 1]), BADF);
    for advice in 0..6 {
        assert_eq!(guest.call("fd_advise", &[file, 0, 0, advice]), 0);
    }
    assert_eq!(guest.call("fd_advise", &[file, 0, 0, 6]), INVAL);
    assert_eq!(guest.call("fd_advise", &[99, 0, 0, 0]), BADF);
    let mut setup = Setup::new().unwrap();
    setup.stream(0, OwnedFd::from(input));
    assert_eq!(Guest::new(setup).call("fd_advise", &[0, 0, 0, 0]), SPIPE);
}

#[test]
fn no_descriptor_is_a_socket() {
    let mut guest = Guest::new(Setup::new().unwrap());
    for (file, answer) in [(0, NOTSOCK), (9, BADF)] {
        assert_eq!(guest.call("sock_accept", &[file, 0, 0]), answer);
        assert_eq!(guest.call("sock_recv", &[file, 0, 0, 0, 0, 0]), answer);
        assert_eq!(guest.call("sock_send", &[file, 0, 0, 0, 0]), answer);
        assert_eq!(guest.call("sock_shutdown", &[file, 0]), answer);
    }
}

#[test]
fn a_list_of_names_says_nothing_of_what_lies_above() {
    let (mut guest, root) = guest_with_directory("above");
    assert_eq!(guest.call("fd_readdir", &[3, 4000, 1000, 0, 0]), 0);
    let (mut at, end) = (4000, 4000 + guest.u32(0) as usize);
    let mut inodes = Vec::new();
    while at < end {
        let (inode, length) = (guest.u64(at + 8), guest.u32(at + 16) as usize);
        inodes.push((guest.get(at + 24, length), inode));
        at += 24 + length;
    }
    inodes.sort();
    let own = fs::metadata(&root).unwrap().ino();
    assert_ne!(own, fs::metadata(root.parent().unwrap()).unwrap().ino());
    assert_eq!(inodes, [(b".".to_vec(), own), (b"..".to_vec(), own)]);
}
