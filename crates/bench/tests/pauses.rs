//! The microbenchmark of pauses, in small: scavenges beside old arrays and of young ones are measured, however arrays lie,
//! and what cannot be measured is refused.

use started::{lines, refused};

mod started;

fn pauses<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["pauses", "--rounds", "3"], arguments].concat()
}

#[test]
fn scavenges_are_measured_in_each_heap() {
    for arrays in ["contiguous", "zray", "perf-zray,refs=compressed", "naive"] {
        for kind in ["references", "numbers"] {
            for age in [&[][..], &["--young"]] {
                let options = format!("arrays={arrays}");
                let mut arguments = vec!["--opt", &options, "--kind", kind, "--arrays", "2m"];
                arguments.extend(age);
                let line = lines(&pauses(&arguments)).remove(0);
                let [least, median, most] =
                    ["least_s", "median_s", "most_s"].map(|name| line[name].as_f64().unwrap());
                assert!(0.0 < least && least <= median && median <= most, "{line}");
                assert_eq!(line["arrays"], 8, "{line}");
            }
        }
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let said = refused(&pauses(&["--arrays", "8k", "--each", "16k"]));
    assert!(said.contains("--each 16384"), "{said}");
    let said = refused(&pauses(&["--young", "--arrays", "30m", "--heap", "40"]));
    assert!(said.contains("smaller --arrays"), "{said}");
    let said = refused(&pauses(&["--arrays", "60m", "--heap", "40"]));
    assert!(said.contains("memory"), "{said}");
}
