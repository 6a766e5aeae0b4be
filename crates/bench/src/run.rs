//! `run`: one run of one program, as a table or as one line of JSON, which the lab and other scripts build on.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner_base::options::{HeapKind, nearest};
use serde::Serialize;

use crate::arguments::{self, Library};
use crate::catalogue::{self, Client};
use crate::output;
use crate::say::say;
use crate::side::Side;
use crate::trial::{Runner, Trial};
use crate::workshop::{Ready, Workshop};
use gleaner_workloads::failure::{Failure, Result};

/// The line. Times are in seconds, memory in KB.
#[derive(Serialize)]
struct Line {
    workload: String,
    library: &'static str,
    /// What went wrong with the run by itself; absent when all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    wall_s: f64,
    cpu_s: f64,
    user_s: f64,
    system_s: f64,
    peak_kb: u64,
    /// What counts of the output: its length in bytes and a hash.
    output: String,
    /// Known when the library was asked to log.
    #[serde(skip_serializing_if = "Option::is_none")]
    collector: Option<Collector>,
    /// What the program itself printed, if its last line is a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    printed: Option<serde_json::Value>,
}

#[derive(Serialize)]
struct Collector {
    collections: u64,
    longest_pause_s: f64,
    total_pause_s: f64,
    /// Stops and steps of marking.
    pauses: usize,
    /// Half of the pauses are no longer, and 99 of 100.
    pause_median_s: f64,
    /// See `pause_median_s`.
    pause_99_s: f64,
    /// The least share of the program in windows of 50 ms and of 200 ms; the installed library does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation_50_ms: Option<f64>,
    /// See `utilisation_50_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    utilisation_200_ms: Option<f64>,
    /// Steps of marking, and the share of them that took more than one and a half times what they were given.
    steps: u64,
    /// See `steps`.
    long_steps_share: f64,
    /// Bytes allocated in all, as the library logs them at the end or the program prints them.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_bytes: Option<u64>,
    /// Lines of the log that could not be read.
    broken_lines: u64,
    /// Seconds by phase; the installed library does not say.
    phase_s: BTreeMap<String, f64>,
    /// How the pauses are spread.
    pause_curves: PauseCurves,
}

/// Points of curves, in seconds.
#[derive(Serialize)]
struct PauseCurves {
    /// When the longest ones began, and how long they were; the installed library does not say.
    moments: Vec<[f64; 2]>,
    /// Percents, and what so many of the pauses do not exceed.
    spread: Vec<[f64; 2]>,
    /// Windows, and the least share of the program in one; the installed library does not say.
    utilisation: Vec<[f64; 2]>,
}

impl Line {
    /// The line for people.
    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED)
            .set_header([&self.workload, self.library]);
        let mut row = |name: &str, value: String| {
            table.add_row([name.to_string(), value]);
        };
        if let Some(problem) = &self.problem {
            row("problem", problem.clone());
        }
        row("wall time, s", format!("{:.3}", self.wall_s));
        row("processor time, s", format!("{:.3}", self.cpu_s));
        let megabytes = self.peak_kb as f64 / 1024.0;
        row("peak memory, MB", format!("{megabytes:.1}"));
        if let Some(found) = &self.collector {
            let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
            row("collections", found.collections.to_string());
            row("longest pause, ms", milliseconds(found.longest_pause_s));
            row("all pauses, ms", milliseconds(found.total_pause_s));
            row("pauses", found.pauses.to_string());
            row("median pause, ms", milliseconds(found.pause_median_s));
            row("99 of 100 pauses, ms", milliseconds(found.pause_99_s));
            for (window, share) in [
                (50, found.utilisation_50_ms),
                (200, found.utilisation_200_ms),
            ] {
                if let Some(share) = share {
                    row(
                        &format!("least utilisation of {window} ms"),
                        format!("{share:.3}"),
                    );
                }
            }
            if let Some(bytes) = found.allocated_bytes {
                let allocated = bytes as f64 / f64::from(1 << 20);
                row("allocated, MB", format!("{allocated:.1}"));
            }
            for (phase, seconds) in &found.phase_s {
                // The event at the end of a collection is about all of it.
                let name = if phase == "end" {
                    "whole collections"
                } else {
                    phase
                };
                row(&format!("{name}, ms"), milliseconds(*seconds));
            }
        }
        table
    }
}

/// Runs once; false when the run failed by itself, which the line says too.
pub fn run(chosen: &arguments::Run) -> Result<bool> {
    let common = &chosen.common;
    let side = match chosen.library {
        Library::Gleaner => {
            // A program of the catalogue runs on the libgc heap; another one may have heaps of both kinds.
            Side::gleaner(common, chosen.name.as_ref().map(|_| HeapKind::Libgc))?
        }
        Library::Stock | Library::None if !common.options.is_empty() => {
            return Err(Failure::new(
                "--opt is for Gleaner; choose --library gleaner, or pass --env NAME=VALUE",
            ));
        }
        Library::Stock | Library::None => Side::stock(),
    };
    let side = match chosen.threads {
        Some(threads) => side.with_markers(threads),
        None => side,
    };
    let side = side.with_environment(&common.env)?;
    let client = client(chosen)?;
    if chosen.check {
        return Ok(true);
    }
    let runner = Runner {
        workshop: Workshop::open(common)?,
        limit: Duration::from_secs(common.limit),
    };
    let mut ready = ready(&runner.workshop, client, chosen)?;
    ready.command = [&*chosen.before, &ready.command].concat();
    let logged = chosen.log && chosen.library != Library::None;
    let trial = runner.run(&ready, &side, logged)?;
    let line = line_of(&ready, chosen, &trial, logged);
    if chosen.json {
        let text = serde_json::to_string(&line);
        say(text.map_err(|error| Failure::new(format!("JSON: {error}")))?)?;
    } else {
        say(line.table())?;
    }
    runner.forget(&[&trial]);
    Ok(line.problem.is_none())
}

/// Prints what may be named instead of a command.
pub fn names(chosen: &arguments::Names) -> Result<bool> {
    for client in catalogue::read(&chosen.clients, &[])? {
        say(client.name)?;
    }
    Ok(true)
}

/// The program: an entry of the catalogue, or the command that was given.
fn client(chosen: &arguments::Run) -> Result<Client> {
    if let Some(program) = chosen.command.first() {
        return Ok(Client::of_command(program, &chosen.command));
    }
    let name = chosen.name.as_deref().ok_or_else(|| {
        Failure::new("name a program of clients.toml, or give a command after --")
    })?;
    let all = catalogue::read(&chosen.common.clients, &[])?;
    let nearest = nearest(name, all.iter().map(|client| client.name.as_str()))
        .map(|near| format!("; the nearest is '{near}'"));
    all.iter()
        .find(|client| client.name == name)
        .cloned()
        .ok_or_else(|| {
            let hint = nearest.unwrap_or_default();
            Failure::new(format!("no client is named \"{name}\"{hint}"))
        })
}

fn ready(workshop: &Workshop, client: Client, chosen: &arguments::Run) -> Result<Ready> {
    if !chosen.command.is_empty() {
        return Ok(Ready {
            command: chosen.command.clone(),
            client,
            preload: None,
            leaves: None,
        });
    }
    workshop.prepare(&client, chosen.size)?.ok_or_else(|| {
        Failure::new(format!(
            "{} needs the package {}",
            client.name, client.package
        ))
    })
}

fn line_of(ready: &Ready, chosen: &arguments::Run, trial: &Trial, logged: bool) -> Line {
    let found = &trial.collections;
    let printed = printed(&trial.stdout);
    let said = printed
        .as_ref()
        .and_then(|line| line["allocated_bytes"].as_u64());
    Line {
        workload: ready.client.name.clone(),
        library: chosen.library.name(),
        problem: trial.problem(),
        wall_s: trial.outcome.wall,
        cpu_s: trial.outcome.cpu(),
        user_s: trial.outcome.user,
        system_s: trial.outcome.system,
        peak_kb: trial.outcome.peak_kb,
        output: trial.digest.to_string(),
        collector: logged.then(|| Collector {
            collections: found.count,
            longest_pause_s: found.longest_pause,
            total_pause_s: found.total_pause,
            pauses: found.pauses.len(),
            pause_median_s: found.pause_at(50.0),
            pause_99_s: found.pause_at(99.0),
            utilisation_50_ms: found.utilisation.map(|least| least[0]),
            utilisation_200_ms: found.utilisation.map(|least| least[1]),
            steps: found.steps,
            long_steps_share: found.long_steps as f64 / found.steps.max(1) as f64,
            allocated_bytes: found.allocated_bytes.or(said),
            broken_lines: found.broken_lines,
            phase_s: found.phases.clone(),
            pause_curves: PauseCurves {
                moments: found.moments.clone(),
                spread: found.spread(),
                utilisation: found.utilisations.clone(),
            },
        }),
        printed,
    }
}

/// The JSON object in the last line of the output.
fn printed(stdout: &Path) -> Option<serde_json::Value> {
    let last = output::tail(stdout, 1);
    serde_json::from_str(&last)
        .ok()
        .filter(serde_json::Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_object_in_the_last_line_is_what_a_program_printed() {
        let path = std::env::temp_dir().join(format!("gleaner-run-{}", std::process::id()));
        for (text, expected) in [
            ("noise\n{\"steps\": 7}\n", Some(7)),
            ("{\"steps\": 7}\nnoise\n", None),
            ("[7]\n", None),
            ("", None),
        ] {
            std::fs::write(&path, text).unwrap();
            let found = printed(&path).and_then(|value| value["steps"].as_i64());
            assert_eq!(found, expected, "{text:?}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
