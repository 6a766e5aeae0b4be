//! The microbenchmark of holes, in small: the largest array is found, however arrays lie and whichever policy the old
//! space has.

use started::{lines, refused};

mod started;

fn line(options: &str, more: &[&str]) -> serde_json::Value {
    let all = [&["fragmentation", "--heap", "8", "--opt", options], more].concat();
    lines(&all).remove(0)
}

#[test]
fn the_largest_array_is_found_in_each_heap() {
    for arrays in ["contiguous", "zray", "naive"] {
        for old in ["mark-sweep", "mark-compact", "mark-region"] {
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
    let said = refused(&["fragmentation", "--fill", "95"]);
    assert!(said.contains("1..=90"), "{said}");
    let said = refused(&["fragmentation", "--heap", "8", "--holes", "4m"]);
    assert!(said.contains("no room for two arrays"), "{said}");
}
