//! Every run, for programs: `--json FILE`.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::found::{Both, Figures, Found, Outputs};
use super::pauses::Pauses;
use super::sequential::Verdict;
use crate::failure::Failure;
use crate::outputs;

/// Writes the file.
pub(super) fn write(found: &Found, program: &[OsString], path: &Path) -> Result<(), Failure> {
    let text = format!("{:#}\n", value(found, program));
    let written = outputs::write(path, |to| to.write_all(text.as_bytes()));
    written.map_err(|error| {
        Failure::usage(format_args!(
            "the file {} cannot be written: {error}. Name another file with --json FILE",
            path.display()
        ))
    })
}

/// Times are in seconds, sizes in bytes.
fn value(found: &Found, program: &[OsString]) -> Value {
    let program: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    let ratio = found.time().and_then(|time| time.ratio);
    json!({
        "program": program,
        "sides": found.sides.each_ref().map(ToString::to_string),
        "verdict": match found.verdict() {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        },
        "time_ratio": ratio.map(|ratio| json!({
            "value": ratio.value,
            "low": ratio.low,
            "high": Some(ratio.high).filter(|high| high.is_finite()),
        })),
        "noise": found.noise().map(|(low, high)| json!({ "low": low, "high": high })),
        "output": match found.output() {
            Outputs::Same => "same",
            Outputs::Differ => "differ",
            Outputs::Vary => "vary",
        },
        "pauses": found.pauses.each_ref().map(|pauses| pauses.as_ref().map(pauses_of)),
        "rounds": found.rounds.iter().map(round_of).collect::<Vec<_>>(),
    })
}

fn pauses_of(pauses: &Pauses) -> Value {
    json!({
        "count": pauses.count,
        "longest_s": pauses.longest as f64 * 1e-9,
        "all_s": pauses.all as f64 * 1e-9,
        "advice": pauses.advice,
    })
}

fn round_of(round: &Both<Figures>) -> Value {
    let sides = round
        .each_ref()
        .map(|run| json!({ "wall_s": run.wall, "cpu_s": run.cpu, "peak_bytes": run.peak }));
    json!(sides)
}
