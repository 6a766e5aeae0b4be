//! `table1`: Table 1 of ISMM 2000 on this machine. One marker; the baseline sweeps lazily and prefetches nothing; the
//! variants sweep eagerly, or prefetch on grey. Times are user and system time, as in the paper's appendix.
//!
//! Only rounds in which a variant collected as often as the baseline count, since one collection more or less weighs
//! more than what is measured. Mark and sweep time are sums over the event log, as parts of the whole run of the
//! baseline.

use std::time::Duration;

use serde::Serialize;

use crate::arguments;
use crate::catalogue;
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::shuffle::Shuffle;
use crate::side::Side;
use crate::statistics::{Ratio, median, paired_ratio};
use crate::table::{Table, write_json};
use crate::trial::{Runner, Trial};
use crate::workshop::{Ready, Workshop};

/// The three settings, baseline first.
const VARIANTS: [(&str, &[&str]); 3] = [
    ("baseline", &["sweep=lazy", "prefetch=none", "look-ahead=0"]),
    ("eager", &["sweep=eager", "prefetch=none", "look-ahead=0"]),
    ("prefetch", &["sweep=lazy", "prefetch=on-grey"]),
];
/// Phases of the event log that are marking, and those that are sweeping.
const MARK_PHASES: [&str; 3] = ["roots", "mark", "overflow"];
const SWEEP_PHASES: [&str; 2] = ["reclaim", "sweep"];

/// One run of one variant.
#[derive(Clone, Serialize)]
struct Sample {
    cpu: f64,
    collections: u64,
    mark: f64,
    sweep: f64,
}

/// One line of the table.
#[derive(Serialize)]
struct Row {
    client: String,
    mark_percent: f64,
    sweep_percent: f64,
    /// Eager over lazy, and of how many rounds.
    eager: Option<Ratio>,
    eager_rounds: usize,
    /// Baseline over prefetching, and of how many rounds.
    prefetch: Option<Ratio>,
    prefetch_rounds: usize,
    samples: [Vec<Sample>; 3],
}

/// Measures; false when a client failed.
pub fn run(chosen: &arguments::Table1) -> Result<bool> {
    let common = &chosen.common;
    let gleaner = Side::gleaner(common)?.with_markers(1);
    let runner = Runner {
        workshop: Workshop::open(common)?,
        limit: Duration::from_secs(common.limit),
    };
    let clients: Vec<_> = catalogue::read(&common.clients, &common.only)?
        .into_iter()
        .filter(|client| client.table1)
        .collect();
    let mut progress = Progress::new(clients.len());
    let mut shuffle = Shuffle::new(chosen.seed);
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut good = true;
    for client in &clients {
        progress.step(&client.name);
        let Some(ready) = runner.workshop.prepare(client, chosen.size)? else {
            notes.push(format!(
                "{} is left out: it needs the package {}",
                client.name, client.package
            ));
            continue;
        };
        match one_client(&runner, &ready, &gleaner, chosen.runs, &mut shuffle) {
            Ok(row) => rows.push(row),
            Err(failure) => {
                good = false;
                notes.push(failure.to_string());
            }
        }
    }
    drop(progress);
    let mut table = report(&rows, chosen);
    notes.into_iter().for_each(|note| table.note(note));
    table.print();
    table.write_markdown(chosen.markdown.as_deref())?;
    write_json(chosen.json.as_deref(), &rows)?;
    Ok(good && !rows.is_empty())
}

fn one_client(
    runner: &Runner,
    ready: &Ready,
    side: &Side,
    rounds: u32,
    shuffle: &mut Shuffle,
) -> Result<Row> {
    let sides = VARIANTS.map(|(name, options)| {
        side.clone()
            .named(name)
            .with_options(options.iter().copied())
    });
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for _ in 0..rounds {
        for index in shuffle.order(sides.len()) {
            let trial = runner
                .run(ready, &sides[index], true)?
                .checked(ready, &sides[index])?;
            runner.forget(&[&trial]);
            if !trial.collections.logged {
                return Err(Failure::new(format!(
                    "{}: the library wrote no events",
                    ready.client.name
                )));
            }
            samples[index].push(sample(&trial));
        }
    }
    Ok(summarise(ready.client.name.clone(), samples))
}

fn sample(trial: &Trial) -> Sample {
    let sum = |names: &[&str]| {
        names
            .iter()
            .filter_map(|name| trial.collections.phases.get(*name))
            .fold(0.0, |sum, seconds| sum + seconds)
    };
    Sample {
        cpu: trial.outcome.cpu,
        collections: trial.collections.count,
        mark: sum(&MARK_PHASES),
        sweep: sum(&SWEEP_PHASES),
    }
}

fn summarise(client: String, samples: [Vec<Sample>; 3]) -> Row {
    let [baseline, eager, prefetch] = &samples;
    let percent = |part: fn(&Sample) -> f64| {
        median(
            &baseline
                .iter()
                .map(|run| 100.0 * part(run) / run.cpu)
                .collect::<Vec<_>>(),
        )
    };
    let (eager, eager_rounds) = equal_rounds(eager, baseline);
    let (prefetch, prefetch_rounds) = equal_rounds(baseline, prefetch);
    Row {
        client,
        mark_percent: percent(|run| run.mark),
        sweep_percent: percent(|run| run.sweep),
        eager,
        eager_rounds,
        prefetch,
        prefetch_rounds,
        samples,
    }
}

/// The ratio of the rounds with equal numbers of collections, and how many those are.
fn equal_rounds(top: &[Sample], bottom: &[Sample]) -> (Option<Ratio>, usize) {
    let pairs = top
        .iter()
        .zip(bottom)
        .filter(|(one, other)| one.collections == other.collections);
    let (top, bottom): (Vec<f64>, Vec<f64>) =
        pairs.map(|(one, other)| (one.cpu, other.cpu)).unzip();
    let rounds = top.len();
    ((rounds > 0).then(|| paired_ratio(&top, &bottom)), rounds)
}

fn report(rows: &[Row], chosen: &arguments::Table1) -> Table {
    let title = format!(
        "Table 1: one marker, baseline lazy without prefetch, size {}, {} rounds",
        chosen.size, chosen.runs
    );
    let mut table = Table::new(
        title,
        &[
            "client",
            "collections",
            "mark time",
            "sweep time",
            "eager sweep slowdown [95 %]",
            "prefetch speedup [95 %]",
            "rounds used",
        ],
    );
    for row in rows {
        let counts = median(
            &row.samples[0]
                .iter()
                .map(|run| run.collections as f64)
                .collect::<Vec<_>>(),
        );
        table.row(vec![
            row.client.clone(),
            format!("{counts:.0}"),
            format!("{:.1} %", row.mark_percent),
            format!("{:.1} %", row.sweep_percent),
            change(row.eager),
            change(row.prefetch),
            format!(
                "{} and {} of {}",
                row.eager_rounds, row.prefetch_rounds, chosen.runs
            ),
        ]);
    }
    table.note("Percentages of the whole run's user and system time; slowdown is eager over baseline, speedup baseline over prefetch, both minus one.");
    table.note("A round is used when the variant collected as often as the baseline in it.");
    table
}

fn change(ratio: Option<Ratio>) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    match ratio {
        None => "numbers of collections differ".into(),
        Some(ratio) => {
            format!(
                "{:+.1} % [{:+.1}, {:+.1}]",
                percent(ratio.median),
                percent(ratio.low),
                percent(ratio.high)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(cpu: f64, collections: u64) -> Sample {
        Sample {
            cpu,
            collections,
            mark: cpu / 2.0,
            sweep: cpu / 10.0,
        }
    }

    #[test]
    fn rounds_with_other_numbers_of_collections_do_not_count() {
        let baseline = vec![run_of(1.0, 5), run_of(1.0, 5)];
        let eager = vec![run_of(1.1, 5), run_of(9.0, 6)];
        let prefetch = vec![run_of(0.5, 4), run_of(0.5, 4)];
        let row = summarise("x".into(), [baseline, eager, prefetch]);
        assert_eq!((row.eager_rounds, row.prefetch_rounds), (1, 0));
        assert!((row.eager.unwrap().median - 1.1).abs() < 1e-12);
        assert!(row.prefetch.is_none());
        assert!((row.mark_percent - 50.0).abs() < 1e-9);
        assert!((row.sweep_percent - 10.0).abs() < 1e-9);
    }
}
