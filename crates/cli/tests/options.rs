//! `gleaner options`, and options wherever the command takes them.

#[allow(dead_code)]
mod support;

use std::fs::File;
use std::os::unix::process::ExitStatusExt;

use gleaner_base::options::{TABLE, Tier};
use support::*;

#[test]
fn without_arguments_it_says_in_ten_lines_what_it_can_do() {
    let output = run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    let said = stderr(&output);
    assert!(said.lines().count() <= 10, "{said}");
    assert!(said.lines().all(|line| line.len() <= 110), "{said}");
    let named = said
        .lines()
        .filter_map(|line| line.strip_prefix("  gleaner "));
    let commands: Vec<&str> = named.map(|rest| rest.split(' ').next().unwrap()).collect();
    for wanted in [
        "doctor", "exec", "compare", "report", "heap", "options", "place",
    ] {
        assert!(commands.contains(&wanted), "no {wanted} in {said}");
    }
    for command in commands {
        assert_succeeds(&run(&[command, "--help"]));
    }
}

/// Whatever words follow, the user learns how to build the command with the engine. The tests of `run` build it so, and these do not.
#[test]
fn a_build_without_the_engine_for_webassembly_names_the_feature() {
    for words in [
        &["run"][..],
        &["run", "--stats", "app.wasm", "x"],
        &["run", "--help"],
    ] {
        assert_fails(&run(words), 125, "--features wasm");
    }
}

#[test]
fn the_docs_page_is_current() {
    let page = assert_succeeds(&run(&["options", "--markdown"]));
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let committed = std::fs::read_to_string(file).expect("docs/options.md");
    assert!(
        committed == page,
        "docs/options.md is not what `gleaner options --markdown` prints; write it anew"
    );
}

#[test]
fn the_docs_page_shows_defaults_whatever_is_set() {
    let plain = assert_succeeds(&run(&["options", "--markdown"]));
    let set = run(&["options", "--markdown", "--opt", "sweep=eager"]);
    assert_eq!(assert_succeeds(&set), plain);
}

#[test]
fn effective_values_come_from_the_environment_then_the_command_line() {
    let output = gleaner()
        .env("GLEANER_OPTIONS", "markers=2,sweep=eager")
        .args(["options", "--opt", "markers=3", "--opt", "heap-limit=64m"])
        .output()
        .unwrap();
    let text = assert_succeeds(&output);
    for line in [
        "  markers=3 (default 0)\n",
        "  sweep=eager (default lazy)\n",
        "  heap-limit=64m (default 0)\n",
        "  log=none\n",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn options_for_measuring_are_shown_if_they_are_set_or_all_are_asked_for() {
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        let named =
            lines.filter_map(|line| line.split_once('=').filter(|_| !line.starts_with(' ')));
        named.map(|(name, _)| name.to_owned()).collect()
    };
    let all = names(&assert_succeeds(&run(&["options", "--all"])));
    assert_eq!(all.len(), TABLE.len());
    let usual = assert_succeeds(&run(&["options"]));
    let users = TABLE.iter().filter(|info| info.tier == Tier::User);
    assert!(names(&usual).iter().eq(users.map(|info| info.name)));
    let more = format!("\n{} more options ", all.len() - names(&usual).len());
    assert!(usual.contains(&more) && usual.contains("gleaner options --all"));
    let set = names(&assert_succeeds(&run(&[
        "options",
        "--opt",
        "look-ahead=2",
    ])));
    assert_eq!(set.len(), names(&usual).len() + 1);
    assert!(set.contains(&"look-ahead".to_owned()));
    assert_fails(
        &run(&["options", "--all", "--markdown"]),
        2,
        "cannot be used with",
    );
}

#[test]
fn a_wrong_option_names_the_nearest() {
    let output = run(&["options", "--opt", "sweap=lazy"]);
    assert_fails(
        &output,
        2,
        "gleaner: unknown option 'sweap'; the nearest is 'sweep'",
    );
    let output = run(&["options", "--opt", "heap-limit=10"]);
    assert_fails(
        &output,
        2,
        "10 bytes is out of range; the nearest is 1m (1048576 bytes)",
    );
    let output = run(&["exec", "--opt", "stats", "--", "no-such-program"]);
    assert_fails(&output, 2, "option stats needs a value");
    let output = run(&[
        "options",
        "--opt",
        "initial-heap=2m",
        "--opt",
        "heap-limit=1m",
    ]);
    assert_fails(&output, 2, "exceeds heap-limit=1m (1048576 bytes)");
}

#[test]
fn an_option_of_the_precise_heap_is_refused_where_it_can_do_nothing() {
    let precise = run(&["exec", "--opt", "refs=compressed", "--", "no-such-program"]);
    assert_fails(&precise, 2, "option refs does not serve the libgc heap");
    let shown = assert_succeeds(&run(&["options", "--opt", "refs=compressed"]));
    assert!(shown.contains("  refs=compressed (default wide)\n"));
    assert!(shown.contains("      heaps: precise\n") && shown.contains("      heaps: both\n"));
}

#[test]
fn a_wrong_environment_is_named() {
    let mut command = gleaner();
    command
        .env("GLEANER_OPTIONS", "stress=often")
        .arg("options");
    let output = command.output().unwrap();
    assert_fails(
        &output,
        2,
        "in GLEANER_OPTIONS: option stress: 'often' is not",
    );
    use std::os::unix::ffi::OsStrExt;
    command.env("GLEANER_OPTIONS", std::ffi::OsStr::from_bytes(b"log=\xff"));
    assert_fails(
        &command.output().unwrap(),
        2,
        "GLEANER_OPTIONS is not UTF-8",
    );
}

#[test]
fn a_closed_pipe_ends_it_without_a_word() {
    for arguments in [&["options"][..], &["options", "--markdown"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = gleaner().args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGPIPE), "{output:?}");
        assert_eq!(stderr(&output), "");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for arguments in [
        &["options"][..],
        &["--help"],
        &["exec", "-h"],
        &["--version"],
    ] {
        let output = gleaner().args(arguments).stdout(full()).output().unwrap();
        assert_fails(&output, 125, "standard output: No space left");
    }
    // Nor is it a panic where nobody can be told.
    let status = gleaner()
        .args(["options", "--opt", "x"])
        .stderr(full())
        .status();
    assert_eq!(status.unwrap().code(), Some(2));
}

#[test]
fn help_teaches() {
    let help = assert_succeeds(&run(&["--help"]));
    assert!(help.contains("gleaner exec -- guile script.scm"));
    let help = assert_succeeds(&run(&["exec", "--help"]));
    for text in [
        "Examples:",
        "GLEANER_OPTIONS",
        "Exit status:",
        "--any",
        "--dry-run",
    ] {
        assert!(help.contains(text), "{text}");
    }
    let version = assert_succeeds(&run(&["--version"]));
    assert_eq!(version, format!("gleaner {}\n", env!("CARGO_PKG_VERSION")));
    assert_fails(
        &run(&["exec"]),
        2,
        "Usage: gleaner exec [OPTIONS] -- PROGRAM [ARGS]...",
    );
    assert_fails(&run(&["exce"]), 2, "'exec'");
}
