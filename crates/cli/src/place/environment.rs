//! What `gleaner place` says to runtimes through the environment of the program.

use std::collections::BTreeMap;

use gleaner_place::keep_count;

/// The variables with their values. HotSpot is told of as many `processors` as there are without placement, if that is a
/// number; and all that can be asked are asked for `collectors` threads, if that is not 0. What the environment has already stays.
pub(super) fn variables(
    processors: Option<usize>,
    collectors: usize,
) -> BTreeMap<&'static str, String> {
    let before = |variable: &str| std::env::var(variable).unwrap_or_default();
    let with = |before: &str, separator: &str, item: String| match before.trim() {
        "" => item,
        before => format!("{before}{separator}{item}"),
    };
    let mut variables = BTreeMap::new();
    let mut java = before("JAVA_TOOL_OPTIONS");
    if let Some(count) = processors {
        java = keep_count(&java, count);
        variables.insert("JAVA_TOOL_OPTIONS", java.clone());
    }
    if collectors > 0 {
        let node = before("NODE_OPTIONS");
        // Gleaner's options have a bound of their own.
        let ours = collectors.min(64);
        let gleaner = before("GLEANER_OPTIONS");
        variables.extend([
            (
                "JAVA_TOOL_OPTIONS",
                with(&java, " ", format!("-XX:ParallelGCThreads={collectors}")),
            ),
            (
                "NODE_OPTIONS",
                with(&node, " ", format!("--v8-pool-size={collectors}")),
            ),
            ("GC_MARKERS", collectors.to_string()),
            (
                "GLEANER_OPTIONS",
                with(&gleaner, ",", format!("workers={ours},markers={ours}")),
            ),
        ]);
    }
    variables
}
