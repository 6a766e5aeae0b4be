//! The study of zeroing, in small: its lines, its table, and what it refuses.

use started::{lines, printed, refused};

mod started;

/// The arguments of little work.
fn zeroing<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["zeroing", "--work", "256k"], arguments].concat()
}

#[test]
fn there_is_a_line_for_each_combination() {
    let lines = lines(&zeroing(&[
        "--json",
        "--kernels",
        "memset,movnti,string",
        "--buffers",
        "8k,64k",
        "--threads",
        "1,3",
        "--rounds",
        "2",
    ]));
    let mut found = Vec::new();
    for line in &lines {
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("least_gb_per_s") > 0.0, "{line}");
        assert!(number("least_gb_per_s") <= number("gb_per_s"), "{line}");
        assert!(number("gb_per_s") <= number("most_gb_per_s"), "{line}");
        let buffer = line["buffer_bytes"].as_u64().unwrap();
        let threads = line["threads"].as_u64().unwrap();
        found.push((line["kernel"].as_str().unwrap(), buffer, threads));
    }
    let mut expected = Vec::new();
    for buffer in [8 << 10, 64 << 10] {
        for threads in [1, 3] {
            expected.extend(["memset", "movnti", "string"].map(|kernel| (kernel, buffer, threads)));
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn the_table_has_every_kernel_of_the_processor() {
    let text = printed(&zeroing(&["--buffers", "8k", "--rounds", "1"]));
    for name in ["memset", "immediate", "string", "movnti", "movntdq", "8 KB"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    let has_avx = std::is_x86_feature_detected!("avx");
    assert_eq!(text.contains("vector"), has_avx, "{text}");
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_so() {
    assert!(
        refused(&zeroing(&["--kernels", "dcbz"])).contains("the kernels are memset, immediate")
    );
    assert!(refused(&zeroing(&["--buffers", "12"])).contains("multiple of 8"));
    assert!(refused(&zeroing(&["--threads", "0"])).contains("threads"));
    assert!(refused(&zeroing(&["--buffers", "900000g"])).contains("more than the memory"));
    let everywhere = printed(&zeroing(&["--buffers", "8k", "--rounds", "1"]));
    if !everywhere.contains("line-zero") {
        assert!(refused(&zeroing(&["--kernels", "line-zero"])).contains("lacks clzero"));
    }
}
