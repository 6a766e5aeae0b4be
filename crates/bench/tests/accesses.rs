//! The microbenchmarks of element access, in small: their lines, their tables, and what they refuse.

use std::process::Command;

use started::{lines, lines_of_the_release, printed, refused};

mod started;

const LITTLE: [&str; 6] = ["--accesses", "5000", "--rounds", "2", "--bytes", "2k"];

#[test]
fn there_is_a_line_for_each_combination() {
    let found = lines(&[&["accesses", "--json"], &LITTLE[..]].concat());
    let count = |code: &str| found.iter().filter(|line| line["code"] == code).count();
    // Six kinds of elements, both accesses. In order and at random in one place, or in four, or in six; cursors in one
    // or two; slices of numbers in two.
    assert_eq!(count("whole"), 6 * 2 * (2 + 1));
    assert_eq!(count("zray"), 6 * 2 * (4 * 2 + 1));
    assert_eq!(count("any"), 6 * 2 * (6 * 2 + 2) + 5 * 2 * 2);
    for line in &found {
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("least_ns") > 0.0, "{line}");
        assert!(number("least_ns") <= number("ns"), "{line}");
        assert!(number("ns") <= number("most_ns"), "{line}");
        assert!(number("accesses") >= 5000.0, "{line}");
    }
    for (index, line) in found.iter().enumerate() {
        let same = |other: &serde_json::Value| {
            ["code", "place", "by", "access", "element"]
                .iter()
                .all(|name| other[name] == line[name])
        };
        assert!(!found[..index].iter().any(same), "{line} twice");
    }
}

#[test]
fn combinations_can_be_chosen() {
    let some = ["accesses", "--code", "zray", "--place", "arraylet,zero"];
    let few = ["--by", "random", "--access", "write", "--element", "u16"];
    let found = lines(&[&some[..], &few, &["--json"], &LITTLE].concat());
    let places: Vec<_> = found.iter().map(|line| &line["place"]).collect();
    assert_eq!(places, ["arraylet", "zero"]);
    let table = printed(&[&some[..], &few, &LITTLE].concat());
    assert!(
        table.contains("arraylet") && table.contains("u16"),
        "{table}"
    );
    assert!(!table.contains("u32"), "{table}");
}

#[test]
#[ignore = "make test has no such build: part of make test-rust-long"]
fn instructions_of_what_is_shipped_are_counted() {
    let some = ["accesses", "--instructions", "--json", "--element", "u64"];
    let few = ["--by", "sequential,cursor", "--access", "read"];
    let found = lines_of_the_release(&[&some[..], &few, &LITTLE].concat());
    let instructions = |code: &str, place: &str, by: &str| {
        let is_it = |line: &&serde_json::Value| {
            line["code"] == code && line["place"] == place && line["by"] == by
        };
        let line = found.iter().find(is_it).unwrap();
        line["instructions"].as_f64().unwrap()
    };
    let whole = instructions("whole", "whole", "sequential");
    assert!(whole > 1.0);
    // The comparison with N and its jump; what comes besides, once a loop, is shared out over the accesses.
    assert!(instructions("zray", "first-n", "sequential") >= whole + 1.9);
    assert!(
        instructions("zray", "first-n", "sequential")
            < instructions("zray", "arraylet", "sequential")
    );
    // Code for arrays in one piece does not test whether they are: it has no more than a loop over addresses.
    assert!(whole < instructions("whole", "whole", "cursor") + 1.5);
    assert!(whole <= instructions("any", "whole", "sequential") - 3.0);
}

#[test]
fn code_has_a_size() {
    let some = ["accesses", "--code-size", "--json", "--element", "u32"];
    let few = ["--by", "random", "--access", "read"];
    for line in lines(&[&some[..], &few, &LITTLE].concat()) {
        assert!(line["code_bytes"].as_u64().unwrap() > 16, "{line}");
    }
}

#[test]
fn loops_come_to_the_same_in_one_piece_and_in_pieces() {
    // Not a multiple of an arraylet, so that there is a remainder.
    let little = ["--bytes", "10000", "--work", "20000", "--rounds", "2"];
    let found = lines(&[&["cursors", "--json"], &little[..]].concat());
    let names: Vec<_> = found.iter().map(|line| &line["loop"]).collect();
    let all = ["add", "sum", "dot", "histogram", "checksum", "transform"];
    assert_eq!(names, all);
    for line in &found {
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(
            number("contiguous_ns") > 0.0 && number("pieces_ns") > 0.0,
            "{line}"
        );
        assert!(number("least_ratio") <= number("ratio"), "{line}");
        assert!(number("ratio") <= number("most_ratio"), "{line}");
    }
    let table = printed(&[&["cursors", "--loops", "dot"], &little[..]].concat());
    assert!(table.contains("dot") && !table.contains("sum"), "{table}");
    // Content that is drawn in another order comes to something else.
    let scattered = lines(&[&["cursors", "--json", "--scattered"], &little[..]].concat());
    assert_eq!(scattered.len(), found.len());
    for (one, other) in scattered.iter().zip(&found) {
        assert_ne!(one["result"], other["result"], "{one}");
    }
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    let none = refused(&["accesses", "--code", "whole", "--place", "arraylet"]);
    assert!(none.contains("no such combination"), "{none}");
    assert!(
        none.contains("slices are of numbers in one piece"),
        "{none}"
    );
    for name in ["accesses", "cursors"] {
        let most = refused(&[name, "--bytes", "9223372036854775800"]);
        assert!(most.contains("2g at most"), "{most}");
    }
    assert!(refused(&["accesses", "--element", "u128"]).contains("reference"));
    assert!(refused(&["cursors", "--loops", "sort"]).contains("histogram"));
    let done = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .args(["cursors", "--loops", "add"])
        .env("GLEANER_OPTIONS", "arrays=naive")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("GLEANER_OPTIONS"), "{said}");
}
