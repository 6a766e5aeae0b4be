//! `demo`: one real Scheme program on both libraries, side by side.

use std::time::Duration;

use crate::arguments;
use crate::catalogue;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::side::Side;
use crate::statistics::median;
use crate::table::Table;
use crate::trial::{Runner, Trial};
use crate::workshop::{Ready, Workshop};

/// The runs of one side: those measured, and one with a log.
struct Runs {
    measured: Vec<Trial>,
    logged: Trial,
}

/// Runs the demo; false when the outputs differ.
pub fn run(chosen: &arguments::Demo) -> Result<bool> {
    let common = &chosen.common;
    let sides = [Side::stock(), Side::gleaner(common)?];
    let runner = Runner {
        workshop: Workshop::open(common)?,
        limit: Duration::from_secs(common.limit),
    };
    let all = catalogue::read(&common.clients, &[])?;
    let client = all
        .iter()
        .find(|client| client.name == chosen.program)
        .ok_or_else(|| Failure::new(format!("no client is named \"{}\"", chosen.program)))?;
    let ready = runner
        .workshop
        .prepare(client, chosen.size)?
        .ok_or_else(|| {
            Failure::new(format!(
                "{} needs the package {}",
                client.name, client.package
            ))
        })?;
    let [stock, gleaner] = measure(&runner, &ready, &sides, chosen.runs)?;
    let same = stock.logged.digest == gleaner.logged.digest;
    report(&ready, &stock, &gleaner, chosen, same).print();
    let trials: Vec<&Trial> = [&stock, &gleaner]
        .into_iter()
        .flat_map(|runs| runs.measured.iter().chain([&runs.logged]))
        .collect();
    runner.forget(&trials);
    Ok(same)
}

fn measure(runner: &Runner, ready: &Ready, sides: &[Side; 2], count: u32) -> Result<[Runs; 2]> {
    let mut progress = Progress::new(count as usize + 1);
    progress.step("counting collections");
    let logged = |side| runner.run(ready, side, true)?.checked(ready, side);
    let mut runs = [
        Runs {
            measured: Vec::new(),
            logged: logged(&sides[0])?,
        },
        Runs {
            measured: Vec::new(),
            logged: logged(&sides[1])?,
        },
    ];
    for number in 1..=count {
        progress.step(&format!("run {number}"));
        for (side, runs) in sides.iter().zip(&mut runs) {
            runs.measured
                .push(runner.run(ready, side, false)?.checked(ready, side)?);
        }
    }
    Ok(runs)
}

fn report(
    ready: &Ready,
    stock: &Runs,
    gleaner: &Runs,
    chosen: &arguments::Demo,
    same: bool,
) -> Table {
    let title = format!(
        "{} {}",
        ready.client.name,
        ready.client.arguments(chosen.size).join(" ")
    );
    let mut table = Table::new(title, &["", "stock libgc", "Gleaner", "Gleaner / stock"]);
    let mut line = |what: &str, unit: &str, digits: usize, value: &dyn Fn(&Runs) -> f64| {
        let (one, other) = (value(stock), value(gleaner));
        let show = |value: f64| format!("{value:.digits$}{unit}");
        let ratio = if one > 0.0 {
            format!("{:.2}", other / one)
        } else {
            "-".into()
        };
        table.row(vec![what.into(), show(one), show(other), ratio]);
    };
    let of = |runs: &Runs, value: fn(&Trial) -> f64| {
        median(&runs.measured.iter().map(value).collect::<Vec<_>>())
    };
    line("wall time", " s", 2, &|runs| {
        of(runs, |trial| trial.outcome.wall)
    });
    line("CPU time", " s", 2, &|runs| {
        of(runs, |trial| trial.outcome.cpu)
    });
    line("collections", "", 0, &|runs| {
        runs.logged.collections.count as f64
    });
    line("longest pause", " ms", 1, &|runs| {
        runs.logged.collections.longest_pause * 1e3
    });
    line("all pauses", " ms", 0, &|runs| {
        runs.logged.collections.total_pause * 1e3
    });
    line("peak memory", " MB", 0, &|runs| {
        of(runs, |trial| trial.outcome.peak_kb as f64 / 1024.0)
    });
    table.note(format!(
        "Medians of {} runs, taken in turns; pauses and collections are from one run more.",
        chosen.runs
    ));
    if !gleaner.logged.collections.logged {
        table.note("Gleaner wrote no events; its collections and pauses are not known.");
    }
    table.note(match same {
        true => format!(
            "Both printed the same {} bytes.",
            stock.logged.digest.length
        ),
        false => "THE OUTPUTS DIFFER.".into(),
    });
    table
}
