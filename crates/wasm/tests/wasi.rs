//! WASI preview 1: each function with what is right and what is wrong, and programs that end in every way.

mod guest;

use std::fs::{self, File};
use std::io::{Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;

use gleaner_wasm::wasi::{self, RunError, Setup};
use gleaner_wasm::{InstantiateError, LoadError, Trap, TrapKind};

use guest::*;

const BADF: i32 = 8;
const EXIST: i32 = 20;
const FAULT: i32 = 21;
const INVAL: i32 = 28;
const LOOP: i32 = 32;
const NAMETOOLONG: i32 = 37;
const NOENT: i32 = 44;
const NOSPC: i32 = 51;
const NOTDIR: i32 = 54;
const NOTEMPTY: i32 = 55;
const PIPE: i32 = 64;
const SPIPE: i32 = 70;
const NOTCAPABLE: i32 = 76;

fn run(text: &str, setup: Setup) -> Result<u32, RunError> {
    let mut engine = engine();
    let module = engine.load(&assemble(text)).unwrap();
    wasi::run(&mut engine, &module, setup)
}

// --- strings, clocks, random bytes ----------------------------------------------------------------------------------

#[test]
fn arguments_and_environment_lie_where_the_program_wants_them() {
    let mut setup = Setup::new().unwrap();
    for text in ["app", "", "last\u{e9}"] {
        setup.argument(text).unwrap();
    }
    setup.variable("HOME=/data").unwrap();
    let mut guest = Guest::new(setup);
    assert_eq!(guest.call("args_sizes_get", &[0, 4]), 0);
    assert_eq!((guest.u32(0), guest.u32(4)), (3, 12));
    assert_eq!(guest.call("args_get", &[100, 200]), 0);
    assert_eq!(
        [guest.u32(100), guest.u32(104), guest.u32(108)],
        [200, 204, 205]
    );
    assert_eq!(guest.get(200, 12), "app\0\0last\u{e9}\0".as_bytes());
    assert_eq!(guest.call("environ_sizes_get", &[0, 4]), 0);
    assert_eq!((guest.u32(0), guest.u32(4)), (1, 11));
    assert_eq!(guest.call("environ_get", &[100, 200]), 0);
    assert_eq!(guest.get(200, 11), b"HOME=/data\0");
    assert_eq!(guest.call("args_get", &[100, 65530]), FAULT);
    assert_eq!(guest.call("args_sizes_get", &[65534, 0]), FAULT);
}

#[test]
fn a_zero_byte_in_an_argument_is_refused() {
    let mut setup = Setup::new().unwrap();
    assert!(setup.argument("a\0b").is_err());
    assert!(setup.variable("A=\0").is_err());
}

#[test]
fn clocks_go_on_and_unknown_ones_are_refused() {
    let mut guest = Guest::new(Setup::new().unwrap());
    for clock in 0..4 {
        assert_eq!(guest.call("clock_res_get", &[clock, 0]), 0);
        assert!(guest.u64(0) > 0);
        assert_eq!(guest.call("clock_time_get", &[clock, 0, 8]), 0);
        let first = guest.u64(8);
        assert_eq!(guest.call("clock_time_get", &[clock, 0, 8]), 0);
        assert!(guest.u64(8) >= first && first > 0, "clock {clock}");
    }
    assert_eq!(guest.call("clock_time_get", &[4, 0, 8]), INVAL);
    assert_eq!(guest.call("clock_time_get", &[0, 0, 65529]), FAULT);
    assert_eq!(guest.call("sched_yield", &[]), 0);
}

#[test]
fn random_bytes_fill_the_range_and_nothing_else() {
    let mut guest = Guest::new(Setup::new().unwrap());
    assert_eq!(guest.call("random_get", &[64, 4096]), 0);
    let bytes = guest.get(0, 4096 + 128);
    assert!(
        bytes[..64]
            .iter()
            .chain(&bytes[4160..])
            .all(|&byte| byte == 0)
    );
    let zeros = bytes[64..4160].iter().filter(|&&byte| byte == 0).count();
    assert!(zeros < 256, "{zeros} of 4096 random bytes are zero");
    assert_eq!(guest.call("random_get", &[65000, 4096]), FAULT);
}

// --- streams --------------------------------------------------------------------------------------------------------

#[test]
fn streams_are_those_of_the_setup_and_a_pipe_has_no_position() {
    let (input, mut to_input) = pipe().unwrap();
    let (mut from_output, output) = pipe().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(0, OwnedFd::from(input));
    setup.stream(1, OwnedFd::from(output));
    let mut guest = Guest::new(setup);
    to_input.write_all(b"line\n").unwrap();
    drop(to_input);
    assert_eq!(guest.read(0).unwrap(), b"line\n");
    assert_eq!(guest.read(0).unwrap(), b"");
    assert_eq!(guest.write(1, "hello"), (0, 5));
    assert_eq!(guest.call("fd_seek", &[1, 0, 1, 0]), SPIPE);
    assert_eq!(guest.call("fd_tell", &[1, 0]), SPIPE);
    assert_eq!(guest.call("fd_fdstat_get", &[1, 0]), 0);
    // Neither to seek nor to tell nor to read, and the type is unknown.
    assert_eq!(guest.u64(8) & 0b110_0110, 0b100_0000);
    assert_eq!(guest.get(0, 1), [0]);
    assert_eq!(guest.call("fd_close", &[1]), 0);
    assert_eq!(guest.call("fd_close", &[1]), BADF);
    assert_eq!(guest.write(1, "more").0, BADF);
    let mut text = String::new();
    from_output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
}

#[test]
fn several_stretches_are_written_in_order() {
    let (mut from_output, output) = pipe().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(1, OwnedFd::from(output));
    let mut guest = Guest::new(setup);
    guest.put(500, b"worldhello ");
    guest.put(0, &[505u32, 6, 500, 5].map(u32::to_le_bytes).concat());
    assert_eq!(guest.call("fd_write", &[1, 0, 2, 100]), 0);
    assert_eq!(guest.u32(100), 11);
    guest.put(0, &[65535u32, 2].map(u32::to_le_bytes).concat());
    assert_eq!(guest.call("fd_write", &[1, 0, 1, 100]), FAULT);
    assert_eq!(guest.call("fd_write", &[1, 0, -1, 100]), FAULT);
    drop(guest);
    let mut text = String::new();
    from_output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello world");
}

#[test]
fn a_closed_pipe_and_a_full_disk_are_errors_of_the_write() {
    let (reader, output) = pipe().unwrap();
    drop(reader);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(1, OwnedFd::from(output));
    setup.stream(2, OwnedFd::from(full));
    let mut guest = Guest::new(setup);
    assert_eq!(guest.write(1, "lost").0, PIPE);
    assert_eq!(guest.write(2, "lost").0, NOSPC);
}

// --- files ----------------------------------------------------------------------------------------------------------

#[test]
fn the_directory_is_found_by_its_name() {
    let (mut guest, _) = guest_with_directory("name");
    assert_eq!(guest.call("fd_prestat_get", &[3, 0]), 0);
    assert_eq!((guest.u32(0), guest.u32(4)), (0, 5));
    assert_eq!(guest.call("fd_prestat_dir_name", &[3, 16, 5]), 0);
    assert_eq!(guest.get(16, 5), b"/data");
    assert_eq!(guest.call("fd_prestat_dir_name", &[3, 16, 4]), NAMETOOLONG);
    assert_eq!(guest.call("fd_prestat_get", &[4, 0]), BADF);
    assert_eq!(guest.call("fd_prestat_get", &[1, 0]), BADF);
}

#[test]
fn a_file_is_made_written_read_and_removed() {
    let (mut guest, root) = guest_with_directory("file");
    let (answer, file) = guest.open("new.txt", 1, true);
    assert_eq!((answer, file), (0, 4));
    assert_eq!(guest.write(file, "some text"), (0, 9));
    assert_eq!(fs::read(root.join("new.txt")).unwrap(), b"some text");
    assert_eq!(guest.call("fd_seek", &[file, -4, 2, 0]), 0);
    assert_eq!(guest.u64(0), 5);
    assert_eq!(guest.read(file).unwrap(), b"text");
    assert_eq!(guest.call("fd_seek", &[file, -1, 0, 0]), INVAL);
    assert_eq!(guest.call("fd_seek", &[file, 0, 3, 0]), INVAL);
    assert_eq!(guest.call("fd_filestat_set_size", &[file, 4]), 0);
    assert_eq!(guest.call("fd_filestat_get", &[file, 0]), 0);
    assert_eq!((guest.get(16, 1), guest.u64(32)), (vec![4], 4));
    assert_eq!(guest.call("fd_tell", &[file, 0]), 0);
    assert_eq!(guest.u64(0), 9);
    // To be made anew, and only if there is none.
    assert_eq!(guest.open("new.txt", 1 | 4, true).0, EXIST);
    let (answer, second) = guest.open("new.txt", 8, true);
    assert_eq!((answer, second), (0, 5));
    assert_eq!(fs::read(root.join("new.txt")).unwrap(), b"");
    assert_eq!(guest.call("fd_close", &[file]), 0);
    // The lowest number is given again.
    assert_eq!(guest.open("new.txt", 0, false), (0, 4));
    assert_eq!(guest.write(4, "x").0, BADF);
    let [at, count] = guest.path("new.txt");
    assert_eq!(guest.call("path_unlink_file", &[3, at, count]), 0);
    assert_eq!(guest.call("path_unlink_file", &[3, at, count]), NOENT);
    assert_eq!(guest.open("new.txt", 0, false).0, NOENT);
    // A directory is asked for, and a place for the number that is none.
    fs::write(root.join("plain"), "").unwrap();
    assert_eq!(guest.open("plain", 2, false).0, NOTDIR);
    let [at, count] = guest.path("plain");
    let answer = guest.call("path_open", &[3, 0, at, count, 0, 2, 0, 0, 65534]);
    assert_eq!(answer, FAULT);
}

#[test]
fn places_in_a_file_are_read_and_written_without_its_position() {
    let (mut guest, root) = guest_with_directory("places");
    let (_, file) = guest.open("file", 1, true);
    assert_eq!(guest.write(file, "abcdef"), (0, 6));
    let stretch = [2000u32, 2].map(u32::to_le_bytes).concat();
    guest.put(1900, &stretch);
    guest.put(2000, b"XY");
    assert_eq!(guest.call("fd_pwrite", &[file, 1900, 1, 1, 1950]), 0);
    assert_eq!(guest.u32(1950), 2);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"aXYdef");
    assert_eq!(guest.call("fd_pread", &[file, 1900, 1, 4, 1950]), 0);
    assert_eq!((guest.u32(1950), guest.get(2000, 2)), (2, b"ef".to_vec()));
    assert_eq!(guest.call("fd_tell", &[file, 0]), 0);
    assert_eq!(guest.u64(0), 6);
    // Nothing is written if its length cannot be stored.
    assert_eq!(guest.call("fd_pwrite", &[file, 1900, 1, 0, 65534]), FAULT);
    assert_eq!(guest.call("fd_write", &[file, 1900, 1, 65534]), FAULT);
    assert_eq!(fs::read(root.join("file")).unwrap(), b"aXYdef");
    for name in ["fd_sync", "fd_datasync"] {
        assert_eq!(guest.call(name, &[file]), 0);
        assert_eq!(guest.call(name, &[9]), BADF);
    }
}

#[test]
fn a_link_says_where_it_leads_and_is_cut_where_there_is_no_room() {
    let (mut guest, root) = guest_with_directory("readlink");
    symlink("../secret", root.join("link")).unwrap();
    let [at, count] = guest.path("link");
    let mut read = |room| {
        let answer = guest.call("path_readlink", &[3, at, count, 2000, room, 1950]);
        assert_eq!(answer, 0);
        let count = guest.u32(1950) as usize;
        guest.get(2000, count)
    };
    assert_eq!(read(100), b"../secret");
    assert_eq!(read(4), b"../s");
    fs::write(root.join("file"), "").unwrap();
    let [at, count] = guest.path("file");
    let answer = guest.call("path_readlink", &[3, at, count, 2000, 100, 1950]);
    assert_eq!(answer, INVAL);
    let [at, count] = guest.path("../secret");
    let answer = guest.call("path_readlink", &[3, at, count, 2000, 100, 1950]);
    assert_eq!(answer, NOTCAPABLE);
}

#[test]
fn directories_are_made_listed_renamed_and_removed() {
    let (mut guest, root) = guest_with_directory("tree");
    let [at, count] = guest.path("sub/");
    assert_eq!(guest.call("path_create_directory", &[3, at, count]), 0);
    assert_eq!(guest.call("path_create_directory", &[3, at, count]), EXIST);
    for name in ["one", "two", "three"] {
        fs::write(root.join("sub").join(name), name).unwrap();
    }
    assert_eq!(
        guest.call("path_remove_directory", &[3, at, count]),
        NOTEMPTY
    );
    let (answer, sub) = guest.open("sub", 2, false);
    assert_eq!(answer, 0);
    // With a buffer of 60 bytes, which ends within a name, as C libraries read.
    let (mut names, mut place) = (Vec::new(), 0);
    loop {
        assert_eq!(guest.call("fd_readdir", &[sub, 4000, 60, place, 0]), 0);
        let used = guest.u32(0) as usize;
        let mut at = 4000;
        while at + 24 <= 4000 + used {
            let (next, length) = (guest.u64(at), guest.u32(at + 16) as usize);
            if at + 24 + length > 4000 + used {
                break;
            }
            let kind = guest.get(at + 20, 1)[0];
            names.push((String::from_utf8(guest.get(at + 24, length)).unwrap(), kind));
            place = next as i64;
            at += 24 + length;
        }
        if used < 60 {
            break;
        }
    }
    names.sort();
    let expected = [(".", 3), ("..", 3), ("one", 4), ("three", 4), ("two", 4)];
    assert_eq!(names, expected.map(|(name, kind)| (name.to_string(), kind)));
    let [from, length] = guest.path("sub/one");
    guest.put(1500, b"renamed");
    assert_eq!(guest.call("path_rename", &[3, from, length, 3, 1500, 7]), 0);
    assert_eq!(fs::read(root.join("renamed")).unwrap(), b"one");
    assert_eq!(guest.call("fd_readdir", &[0, 4000, 60, 0, 0]), NOTDIR);
    let (_, file) = guest.open("renamed", 0, false);
    assert_eq!(guest.call("fd_readdir", &[file, 4000, 60, 0, 0]), NOTDIR);
    // A path through a directory that the program opened.
    guest.put(1000, b"two");
    assert_eq!(guest.call("path_filestat_get", &[sub, 0, 1000, 3, 0]), 0);
    assert_eq!(guest.u64(32), 3);
    fs::remove_file(root.join("sub/two")).unwrap();
    fs::remove_file(root.join("sub/three")).unwrap();
    let [at, count] = guest.path("sub");
    assert_eq!(guest.call("path_remove_directory", &[3, at, count]), 0);
    assert!(!root.join("sub").exists());
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let (mut guest, root) = guest_with_directory("escape");
    let outside = root.parent().unwrap();
    let absolute = outside.join("secret").to_str().unwrap().to_string();
    fs::create_dir(root.join("inner")).unwrap();
    symlink("../secret", root.join("link")).unwrap();
    symlink(&absolute, root.join("absolute")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("..", root.join("inner/up")).unwrap();
    for path in [
        "../secret",
        "inner/../../secret",
        "link",
        "absolute",
        "up/secret",
        "inner/up/../secret",
        absolute.as_str(),
        "..",
        "/",
    ] {
        assert_eq!(guest.open(path, 0, false).0, NOTCAPABLE, "open {path}");
        assert_eq!(guest.open(path, 1 | 8, true).0, NOTCAPABLE, "make {path}");
        let [at, count] = guest.path(path);
        let stat = guest.call("path_filestat_get", &[3, 1, at, count, 0]);
        assert_eq!(stat, NOTCAPABLE, "stat {path}");
    }
    for path in ["../new", "up/new", "inner/../../new", "/new", ".."] {
        let [at, count] = guest.path(path);
        for name in [
            "path_create_directory",
            "path_remove_directory",
            "path_unlink_file",
        ] {
            assert_eq!(
                guest.call(name, &[3, at, count]),
                NOTCAPABLE,
                "{name} {path}"
            );
        }
        fs::write(root.join("inner/file"), "").unwrap();
        guest.put(1500, b"inner/file");
        let out = guest.call("path_rename", &[3, 1500, 10, 3, at, count]);
        assert_eq!(out, NOTCAPABLE, "rename to {path}");
    }
    // Into the directory, too.
    let [at, count] = guest.path("../secret");
    guest.put(1500, b"stolen");
    assert_eq!(
        guest.call("path_rename", &[3, at, count, 3, 1500, 6]),
        NOTCAPABLE
    );
    // A directory that the program opened is a boundary of its own.
    let (_, inner) = guest.open("inner", 2, false);
    let [at, count] = guest.path("../link");
    let stat = guest.call("path_filestat_get", &[inner, 0, at, count, 0]);
    assert_eq!(stat, NOTCAPABLE);
    // The link itself is inside: it can be looked at and removed.
    let [at, count] = guest.path("link");
    assert_eq!(guest.call("path_filestat_get", &[3, 0, at, count, 0]), 0);
    assert_eq!(guest.get(16, 1), [7]);
    let open = guest.call("path_open", &[3, 0, at, count, 0, 2, 0, 0, 900]);
    assert_eq!(open, LOOP);
    assert_eq!(guest.call("path_unlink_file", &[3, at, count]), 0);
    // What stays inside is found, whatever the way.
    assert_eq!(guest.open("inner/../inner/up/inner/file", 0, false).0, 0);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    assert!(!outside.join("new").exists());
}

#[test]
fn paths_that_are_none_are_refused() {
    let (mut guest, _) = guest_with_directory("paths");
    assert_eq!(guest.open("", 0, false).0, NOENT);
    assert_eq!(guest.open("a\0b", 0, false).0, INVAL);
    let long = "a/".repeat(2500);
    assert_eq!(guest.open(&long, 0, false).0, NAMETOOLONG);
    let answer = guest.call("path_open", &[3, 0, 65530, 10, 0, 2, 0, 0, 900]);
    assert_eq!(answer, FAULT);
    let [at, count] = guest.path("a");
    assert_eq!(guest.call("path_unlink_file", &[9, at, count]), BADF);
    let [at, count] = guest.path(".");
    assert_eq!(guest.call("path_remove_directory", &[3, at, count]), INVAL);
}

#[test]
fn a_directory_that_does_not_exist_is_an_error_of_the_setup() {
    let mut setup = Setup::new().unwrap();
    let missing = directory("missing").join("none");
    let error = setup.directory(&missing, "/").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let file = directory("no-directory").join("file");
    fs::write(&file, "").unwrap();
    let error = setup.directory(&file, "/").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotADirectory);
}

// --- waiting --------------------------------------------------------------------------------------------------------

/// A subscription of 48 bytes.
fn subscription(user: u64, kind: u64, number: u64, time: u64, flags: u64) -> Vec<u8> {
    [user, kind, number, time, 0, flags]
        .map(u64::to_le_bytes)
        .concat()
}

#[test]
fn a_wait_ends_with_the_first_clock_or_descriptor() {
    let (input, mut to_input) = pipe().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(0, OwnedFd::from(input));
    let mut guest = Guest::new(setup);
    // A clock alone, and one that will not come to its end here.
    guest.put(0, &subscription(7, 0, 1, 1_000_000, 0));
    guest.put(48, &subscription(8, 0, 1, 1 << 60, 0));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 2, 400]), 0);
    assert_eq!((guest.u32(400), guest.u64(500)), (1, 7));
    assert_eq!(guest.get(508, 3), [0, 0, 0]);
    // A time of the clock that has passed.
    guest.put(0, &subscription(9, 0, 0, 1, 1));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 1, 400]), 0);
    assert_eq!((guest.u32(400), guest.u64(500)), (1, 9));
    // Input that is there.
    to_input.write_all(b"x").unwrap();
    guest.put(0, &subscription(10, 1, 0, 0, 0));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 2, 400]), 0);
    assert_eq!((guest.u32(400), guest.u64(500)), (1, 10));
    assert_eq!(guest.get(508, 3), [0, 0, 1]);
    // What is wrong is said at once, beside a clock that would not end.
    guest.put(0, &subscription(11, 1, 77, 0, 0));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 2, 400]), 0);
    assert_eq!((guest.u32(400), guest.u64(500)), (1, 11));
    assert_eq!(guest.get(508, 2), [BADF as u8, 0]);
    guest.put(0, &subscription(12, 0, 2, 1, 0));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 1, 400]), 0);
    assert_eq!(guest.get(508, 2), [INVAL as u8, 0]);
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 0, 400]), INVAL);
    guest.put(0, &subscription(13, 3, 0, 0, 0));
    assert_eq!(guest.call("poll_oneoff", &[0, 500, 1, 400]), INVAL);
    assert_eq!(guest.call("poll_oneoff", &[65500, 500, 1, 400]), FAULT);
}

// --- programs -------------------------------------------------------------------------------------------------------

const EXIT: &str = r#"(import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))"#;

#[test]
fn a_program_writes_and_returns() {
    let (mut from_output, output) = pipe().unwrap();
    let mut setup = Setup::new().unwrap();
    setup.stream(1, OwnedFd::from(output));
    let write = import("fd_write", "iiii");
    let text = format!(
        r#"(module {write} (memory (export "memory") 1)
            (data (i32.const 0) "\10\00\00\00\06\00\00\00")
            (data (i32.const 16) "hello\0a")
            (func (export "_start") (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#
    );
    assert_eq!(run(&text, setup).unwrap(), 0);
    let mut text = String::new();
    from_output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello\n");
}

#[test]
fn the_status_is_that_of_the_program_wherever_it_ends() {
    let in_start_function =
        format!("(module {EXIT} (func $run (call $exit (i32.const 3))) (start $run))");
    assert_eq!(run(&in_start_function, Setup::new().unwrap()).unwrap(), 3);
    let deep = format!(
        r#"(module {EXIT} (func $down (param i32)
            (if (local.get 0) (then (call $down (i32.sub (local.get 0) (i32.const 1)))) (else (call $exit (i32.const 300)))))
            (func (export "_start") (block $caught (try_table (catch_all $caught) (call $down (i32.const 50)))) unreachable))"#
    );
    assert_eq!(run(&deep, Setup::new().unwrap()).unwrap(), 300);
    let both = format!(
        r#"(module {EXIT} (global $set (mut i32) (i32.const 0))
            (func (export "_start") (call $exit (global.get $set)))
            (func (export "_initialize") (global.set $set (i32.const 5))))"#
    );
    assert_eq!(run(&both, Setup::new().unwrap()).unwrap(), 5);
    let library = "(module (func (export \"other\")))";
    assert!(matches!(
        run(library, Setup::new().unwrap()),
        Err(RunError::NoStart)
    ));
}

#[test]
fn a_start_function_finds_the_memory() {
    let clock = import("clock_time_get", "ili");
    let text = format!(
        r#"(module {clock} {EXIT} (memory (export "memory") 1)
            (func $run (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 8)))
                (call $exit (i64.ne (i64.load (i32.const 8)) (i64.const 0))))
            (start $run))"#
    );
    assert_eq!(run(&text, Setup::new().unwrap()).unwrap(), 1);
}

#[test]
fn a_trap_names_the_functions() {
    let text = r#"(module (func $inner (param i32) (drop (i32.div_s (i32.const 1) (local.get 0))))
        (func $outer (call $inner (i32.const 0))) (func $main (export "_start") (call $outer)))"#;
    match run(text, Setup::new().unwrap()) {
        Err(RunError::Trap(trap)) => {
            assert_eq!(trap.kind(), Some(TrapKind::DivisionByZero));
            let text = trap.to_string();
            let lines: Vec<&str> = text.lines().skip(1).collect();
            assert_eq!(lines, ["    in inner", "    in outer", "    in main"]);
        }
        other => panic!("{other:?}"),
    }
    let in_start_function = "(module (func $run unreachable) (start $run))";
    assert!(matches!(
        run(in_start_function, Setup::new().unwrap()),
        Err(RunError::Trap(Trap::Program { .. }))
    ));
}

#[test]
fn an_exception_that_nothing_catches_ends_the_program() {
    let text = r#"(module (tag $t) (func (export "_start") (throw $t)))"#;
    assert!(matches!(
        run(text, Setup::new().unwrap()),
        Err(RunError::Trap(Trap::Exception(_)))
    ));
}

#[test]
fn a_start_that_is_no_start_is_told_what_it_is() {
    for (text, what) in [
        (
            r#"(func (export "_start") (param i32))"#,
            "_start is a function (i32) -> ()",
        ),
        (
            r#"(global (export "_start") i32 (i32.const 0))"#,
            "_start is a constant global, i32",
        ),
        (
            r#"(memory (export "_initialize") 1) (func (export "_start"))"#,
            "_initialize is a memory",
        ),
    ] {
        let error = run(&format!("(module {text})"), Setup::new().unwrap()).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with(what), "{told}");
        assert!(told.contains("compile the module as a program"), "{told}");
    }
}

#[test]
fn a_program_without_memory_is_told_so() {
    let yields = import("args_get", "ii");
    let text = format!(
        r#"(module {yields} (func (export "_start") (drop (call $args_get (i32.const 0) (i32.const 0)))))"#
    );
    let error = run(&text, Setup::new().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "args_get was called, and the module exports no memory by the name 'memory'"
    );
}

#[test]
fn missing_imports_are_all_named_and_wrong_types_are_found() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "proc_raise" (func))
        (import "env" "print" (func))
        (import "env" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read" (func (param i32) (result i32)))
        (func (export "_start")))"#;
    match run(text, Setup::new().unwrap()) {
        Err(RunError::Instantiate(InstantiateError::Link(lines))) => {
            assert_eq!(
                lines[..3],
                [
                    "wasi_snapshot_preview1.proc_raise is missing",
                    "env.print is missing",
                    "env.fd_write is missing"
                ]
            );
            assert_eq!(
                lines[3],
                "wasi_snapshot_preview1.fd_read is a function (i32 i32 i32 i32) -> (i32), where the module wants a \
                 function (i32) -> (i32)"
            );
            assert_eq!(lines.len(), 4);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_component_is_refused_with_what_to_do() {
    let error = engine().load(b"\0asm\x0d\0\x01\0").unwrap_err();
    assert_eq!(error, LoadError::Component);
    assert!(error.to_string().contains("compile it for wasm32-wasip1"));
}
