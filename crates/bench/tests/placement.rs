//! The study of memory placement: what it measures where there are nodes, what it says where there is one, and what it
//! refuses.

use std::process::{Command, Output};

use gleaner_os::topology::Topology;

fn start(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .arg("placement")
        .args(["--work", "1m"])
        .args(arguments)
        .output()
        .unwrap()
}

/// Nodes that threads can be pinned to.
fn nodes() -> usize {
    let topology = Topology::host();
    let nodes = topology.usable_nodes();
    nodes.filter(|node| !node.processors.is_empty()).count()
}

#[test]
fn one_node_is_said_and_not_measured() {
    if nodes() > 1 {
        return;
    }
    for arguments in [&[][..], &["--json", "--placements", "balanced-local"]] {
        let done = start(arguments);
        assert!(done.status.success());
        assert!(done.stdout.is_empty(), "{done:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains("all placements are one column"), "{said}");
        assert!(said.contains("gleaner-lab model figure-3"), "{said}");
    }
}

#[test]
fn several_nodes_have_a_line_for_each_combination() {
    let nodes = nodes();
    if nodes < 2 {
        return;
    }
    let done = start(&[
        "--json",
        "--threads",
        "1,2",
        "--buffer",
        "64k",
        "--rounds",
        "2",
    ]);
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    let mut found = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("least_seconds") > 0.0, "{line}");
        assert!(number("least_seconds") <= number("seconds"), "{line}");
        assert!(number("seconds") <= number("most_seconds"), "{line}");
        let pages: Vec<_> = line["pages"].as_array().unwrap().to_vec();
        assert_eq!(pages.len(), nodes, "{line}");
        let all: u64 = pages.iter().filter_map(|count| count.as_u64()).sum();
        let placement = line["placement"].as_str().unwrap().to_string();
        let threads = line["threads"].as_u64().unwrap();
        let first = pages[0].as_u64().unwrap();
        match placement.as_str() {
            "Unbalanced-Remote" | "Unbalanced-Local" => assert_eq!(first, all, "{line}"),
            "Balanced-Remote" => assert!(first < all, "{line}"),
            _ => assert_eq!(first, all / threads, "{line}"),
        }
        found.push((placement, threads));
    }
    assert_eq!(found.len(), 8);
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    for (arguments, message) in [
        (["--placements", "remote"], "possible values"),
        (["--threads", "0"], "threads"),
        (["--buffer", "12"], "multiple of 8"),
        (["--rounds", "0"], "rounds"),
    ] {
        let done = start(&arguments);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(said.contains(message), "{said}");
    }
}
