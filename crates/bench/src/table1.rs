//! `table1`: Table 1 of ISMM 2000 on this machine. One marker; the baseline sweeps lazily and prefetches nothing; the
//! others sweep eagerly, or prefetch: on grey, which is the paper's column, or as the later policies do. Times are user
//! and system time, as in the paper's appendix.
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

/// The settings: the baseline, eager sweeping, and the ways of prefetching.
const SETTINGS: [(&str, &[&str]); 5] = [
    ("baseline", &["sweep=lazy", "prefetch=none", "look-ahead=0"]),
    ("eager", &["sweep=eager", "prefetch=none", "look-ahead=0"]),
    ("on-grey", &["sweep=lazy", "prefetch=on-grey"]),
    ("fifo", &["sweep=lazy", "prefetch=fifo"]),
    ("edges", &["sweep=lazy", "prefetch=edges"]),
];
const EAGER: usize = 1;
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
    /// Each setting but the baseline, in the order of [`SETTINGS`].
    effects: Vec<Effect>,
    samples: [Vec<Sample>; SETTINGS.len()],
}

/// What one setting does to the time of the whole run.
#[derive(Serialize)]
struct Effect {
    setting: &'static str,
    /// Eager over baseline, or baseline over prefetching; of the rounds that count.
    ratio: Option<Ratio>,
    rounds: usize,
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
    let sides = SETTINGS.map(|(name, options)| {
        side.clone()
            .named(name)
            .with_options(options.iter().copied())
    });
    let mut samples: [Vec<Sample>; SETTINGS.len()] = Default::default();
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

fn summarise(client: String, samples: [Vec<Sample>; SETTINGS.len()]) -> Row {
    let baseline = &samples[0];
    let percent = |part: fn(&Sample) -> f64| {
        median(
            &baseline
                .iter()
                .map(|run| 100.0 * part(run) / run.cpu)
                .collect::<Vec<_>>(),
        )
    };
    let effects = (1..SETTINGS.len())
        .map(|index| {
            let (ratio, rounds) = match index {
                EAGER => equal_rounds(&samples[index], baseline),
                _ => equal_rounds(baseline, &samples[index]),
            };
            Effect {
                setting: SETTINGS[index].0,
                ratio,
                rounds,
            }
        })
        .collect();
    Row {
        client,
        mark_percent: percent(|run| run.mark),
        sweep_percent: percent(|run| run.sweep),
        effects,
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
            "on-grey speedup [95 %]",
            "fifo speedup [95 %]",
            "edges speedup [95 %]",
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
        let mut cells = vec![
            row.client.clone(),
            format!("{counts:.0}"),
            format!("{:.1} %", row.mark_percent),
            format!("{:.1} %", row.sweep_percent),
        ];
        cells.extend(row.effects.iter().map(|effect| change(effect.ratio)));
        let used: Vec<_> = row
            .effects
            .iter()
            .map(|effect| effect.rounds.to_string())
            .collect();
        cells.push(format!("{} of {}", used.join(", "), chosen.runs));
        table.row(cells);
    }
    table.note("Percentages of the whole run's user and system time; slowdown is eager over baseline, speedup baseline over prefetch, both minus one. The paper's columns are eager and on-grey.");
    table.note("A round is used when the setting collected as often as the baseline in it.");
    table
}

fn change(ratio: Option<Ratio>) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    match ratio {
        None => "numbers of collections differ".into(),
        // One round has no interval.
        Some(ratio) if !ratio.high.is_finite() => format!("{:+.1} %", percent(ratio.median)),
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
        let on_grey = vec![run_of(0.5, 4), run_of(0.5, 4)];
        let fifo = vec![run_of(0.5, 5), run_of(0.8, 4)];
        let edges = vec![run_of(0.4, 5), run_of(0.4, 5)];
        let row = summarise("x".into(), [baseline, eager, on_grey, fifo, edges]);
        let rounds: Vec<_> = row.effects.iter().map(|effect| effect.rounds).collect();
        assert_eq!(rounds, [1, 0, 1, 2]);
        let median = |at: usize| row.effects[at].ratio.map(|ratio| ratio.median);
        assert!((median(0).unwrap() - 1.1).abs() < 1e-12);
        assert!(median(1).is_none());
        assert!((median(3).unwrap() - 2.5).abs() < 1e-12);
        assert!((row.mark_percent - 50.0).abs() < 1e-9);
        assert!((row.sweep_percent - 10.0).abs() < 1e-9);
    }
}
