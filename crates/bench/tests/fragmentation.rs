//! The microbenchmark of holes, in small: the largest array is found, however arrays lie and whichever policy the old
//! space has.

use std::process::Command;

fn line(options: &str, more: &[&str]) -> serde_json::Value {
    let done = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .args(["fragmentation", "--heap", "8", "--opt", options])
        .args(more)
        .env_remove("GLEANER_OPTIONS")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{options}: {err}");
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn the_largest_array_is_found_in_each_heap() {
    for arrays in ["contiguous", "zray", "naive"] {
        for old in ["mark-sweep", "mark-compact"] {
            let options = format!("arrays={arrays},old={old}");
            for holes in ["8k", "64k"] {
                let found = line(&options, &["--holes", holes]);
                let number = |name: &str| found[name].as_u64().unwrap();
                let (largest, limit) = (number("largest_bytes"), number("limit_bytes"));
                assert_eq!(limit, 8 << 20);
                assert!(largest > 1 << 20, "{options}, {holes}: {found}");
                assert!(largest + number("live_bytes") <= limit, "{found}");
                assert!(number("full_collections") > 0, "{found}");
                assert!(found["copy_s"].as_f64().unwrap() > 0.0, "{found}");
            }
        }
    }
}

#[test]
fn a_share_that_leaves_no_room_is_refused() {
    let done = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .args(["fragmentation", "--fill", "95"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("1..=90"), "{said}");
}
