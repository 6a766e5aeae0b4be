//! `gleaner-bench bulk`: every operation is measured on both sides.

use std::process::Command;

#[test]
fn every_operation_has_a_line() {
    for bytes in ["8", "16000"] {
        let output = Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
            .args(["bulk", "--bytes", bytes, "--work", "64k", "--rounds", "3"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let names: Vec<_> = lines
            .iter()
            .map(|line| line["operation"].as_str().unwrap())
            .collect();
        let all = [
            "read",
            "write",
            "copy",
            "copy-within",
            "compare",
            "fill",
            "allocate-with",
        ];
        assert_eq!(names, all);
        for line in lines {
            assert_eq!(line["bytes"].to_string(), bytes);
            let ratio = |name: &str| line[name].as_f64().unwrap();
            assert!(ratio("ratio_least") > 0.0);
            assert!(ratio("ratio_least") <= ratio("ratio_median"));
            assert!(ratio("ratio_median") <= ratio("ratio_most"));
        }
    }
}
