//! Instructions for an access: this program again, under valgrind's callgrind, which counts what one function executes
//! and writes a file whenever it returns.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{self, Command};

use gleaner_workloads::failed;
use serde::Deserialize;

use super::{Accesses, Combination, name};
use gleaner_workloads::failure::{Failure, Result};

/// Accesses of a combination under callgrind, which takes fifty times as long: enough that a pass more or less is
/// nothing.
const ACCESSES: &str = "65536";

/// What is read of a line.
#[derive(Deserialize)]
struct Line {
    #[serde(flatten)]
    combination: Combination,
    accesses: usize,
}

/// Instructions for an access in each combination that was chosen.
pub fn count(chosen: &Accesses) -> Result<Vec<(Combination, f64)>> {
    let directory = env::temp_dir().join(format!("gleaner-accesses-{}", process::id()));
    fs::create_dir(&directory).map_err(|error| Failure::at(&directory, error))?;
    let found = counted(chosen, &directory);
    let removed = fs::remove_dir_all(&directory).map_err(|error| Failure::at(&directory, error));
    let found = found?;
    removed?;
    Ok(found)
}

fn counted(chosen: &Accesses, directory: &Path) -> Result<Vec<(Combination, f64)>> {
    let mut function = OsString::from("--toggle-collect=");
    function.push(MEASURED);
    let mut dump = OsString::from("--dump-after=");
    dump.push(MEASURED);
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(directory.join("out"));
    let program = env::current_exe().map_err(failed)?;
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--tool=callgrind"])
        .args([function, dump, out])
        .arg(program)
        .args([
            "accesses",
            "--json",
            "--rounds",
            "1",
            "--accesses",
            ACCESSES,
        ])
        .arg(format!("--bytes={}", chosen.bytes))
        .args(repeated(chosen));
    let done = command
        .output()
        .map_err(|error| Failure::new(format!("valgrind, which counts instructions: {error}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(Failure::new(format!("under callgrind: {}", said.trim())));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Line>(line).map_err(failed));
    lines
        .enumerate()
        .map(|(index, line)| {
            let line = line?;
            let path = directory.join(format!("out.{}", index + 1));
            let text = fs::read_to_string(&path).map_err(|error| Failure::at(&path, error))?;
            let total = total(&text, &path)?;
            Ok((line.combination, total as f64 / line.accesses as f64))
        })
        .collect()
}

/// The function, as callgrind names it.
const MEASURED: &str = "gleaner_bench::accesses::measured";

/// The choice of combinations again.
fn repeated(chosen: &Accesses) -> Vec<String> {
    fn list<T: clap::ValueEnum>(option: &str, values: &[T]) -> Option<String> {
        let names: Vec<_> = values.iter().cloned().map(name).collect();
        (!names.is_empty()).then(|| format!("--{option}={}", names.join(",")))
    }
    [
        list("code", &chosen.code),
        list("place", &chosen.place),
        list("by", &chosen.by),
        list("access", &chosen.access),
        list("element", &chosen.element),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The instructions that a file of callgrind's is about.
fn total(text: &str, path: &Path) -> Result<u64> {
    let totals = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let number = totals.and_then(|number| number.trim().parse().ok());
    number.ok_or_else(|| Failure::at(path, "no totals"))
}
