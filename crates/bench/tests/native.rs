//! The workloads on the precise heap: the same result under every configuration, with the verifier on.

use std::process::Command;

fn run(arguments: &[&str]) -> serde_json::Value {
    let done = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .arg("native")
        .args(arguments)
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    assert!(done.status.success(), "{arguments:?}: {out}{err}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn results_depend_on_the_workload_alone() {
    for name in ["gcbench", "holes", "queue", "refarray"] {
        let mut results = Vec::new();
        let mut collections = 0;
        for format in [None, Some("--compressed")] {
            for workers in ["1", "3"] {
                let mut arguments = vec![
                    name,
                    "--tiny",
                    "--verify",
                    "--heap",
                    "1",
                    "--workers",
                    workers,
                ];
                arguments.extend(format);
                let line = run(&arguments);
                results.push(line["result"].as_str().unwrap().to_string());
                collections += line["collections"].as_u64().unwrap();
            }
        }
        results.dedup();
        assert_eq!(results.len(), 1, "{name}: {results:?}");
        assert!(collections > 0 || name == "refarray", "{name}");
    }
}

#[test]
fn iterations_are_listed() {
    let line = run(&["gcbench", "--tiny", "--heap", "2", "--iterations", "3"]);
    assert_eq!(line["iterations"].as_array().unwrap().len(), 3);
}

#[test]
fn a_heap_that_is_too_small_is_an_error_that_says_so() {
    let done = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .args(["native", "queue", "--heap", "1"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("out of memory"));
}
