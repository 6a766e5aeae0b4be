//! `compare`: every client side by side. Each round runs A, B and A once more in random order; ratios are of the runs
//! of one round, so that slow drifts of the machine cancel.

use std::path::Path;
use std::time::Duration;

use crate::arguments::{self, Common};
use crate::calibration::Calibration;
use crate::catalogue;
use crate::comparison::{Comparison, MEASURES, Sample, middle, pick};
use crate::failure::{Failure, Result};
use crate::progress::Progress;
use crate::shuffle::Shuffle;
use crate::side::Side;
use crate::statistics::{Ratio, geometric_mean, log_interval};
use crate::table::{Table, write_json};
use crate::trial::{Collections, Runner};
use crate::workshop::{Ready, Workshop};

/// The two sides and the control, before calibration.
struct Sides {
    a: Side,
    b: Side,
    a2: Side,
}

impl Sides {
    fn new(chosen: &arguments::Compare) -> Result<Sides> {
        let a = Side::stock()
            .with_markers(chosen.markers)
            .with_environment(&chosen.env_a)?;
        let b = Side::gleaner(&chosen.common)?
            .with_markers(chosen.markers)
            .with_environment(&chosen.env_b)?;
        let a2 = a.clone().named("control");
        Ok(Sides { a, b, a2 })
    }
}

/// Measures; false when a client could not be compared.
pub fn run(chosen: &arguments::Compare) -> Result<bool> {
    let common = &chosen.common;
    let sides = Sides::new(chosen)?;
    let runner = Runner {
        workshop: Workshop::open(common)?,
        limit: Duration::from_secs(common.limit),
    };
    let calibration = match &chosen.calibration {
        Some(path) => Some(Calibration::read(path)?.matching(path, chosen.size, chosen.markers)?),
        None => None,
    };
    let (ready, missing) = measured(&runner, common, chosen.size)?;
    let mut progress = Progress::new(ready.len() * (1 + chosen.runs as usize));
    let mut shuffle = Shuffle::new(chosen.seed);
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for ready in &ready {
        let settings = calibration
            .as_ref()
            .map_or(Ok(Vec::new()), |found| found.options(&ready.client.name))?;
        match one_client(
            &runner,
            ready,
            &sides,
            settings,
            chosen.runs,
            &mut shuffle,
            &mut progress,
        ) {
            Ok(comparison) => {
                all.push(comparison);
                // After each client, so that an interrupted measurement leaves what it has.
                write_json(chosen.json.as_deref(), &all)?;
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    drop(progress);
    let mut table = report(&all, chosen);
    for text in failures.iter().chain(&missing) {
        table.note(text.clone());
    }
    table.print();
    table.write_markdown(chosen.markdown.as_deref())?;
    Ok(failures.is_empty() && !all.is_empty())
}

/// The clients that take part in measurements, made ready, and a note on each that is not installed.
pub fn measured(
    runner: &Runner,
    common: &Common,
    size: catalogue::Size,
) -> Result<(Vec<Ready>, Vec<String>)> {
    let (mut all, mut missing) = (Vec::new(), Vec::new());
    for client in catalogue::read(&common.clients, &common.only)?
        .iter()
        .filter(|client| client.measured)
    {
        match runner.workshop.prepare(client, size)? {
            Some(ready) => all.push(ready),
            None => missing.push(format!(
                "{} is left out: it needs the package {}",
                client.name, client.package
            )),
        }
    }
    if all.is_empty() {
        return Err(Failure::new("no client to measure is installed"));
    }
    Ok((all, missing))
}

fn one_client(
    runner: &Runner,
    ready: &Ready,
    sides: &Sides,
    settings: Vec<String>,
    rounds: u32,
    shuffle: &mut Shuffle,
    progress: &mut Progress,
) -> Result<Comparison> {
    let b = sides
        .b
        .clone()
        .with_options(settings.iter().map(String::as_str));
    progress.step(&format!("{}: counting collections", ready.client.name));
    // These runs also warm the caches and show that both sides come to the same output.
    let counted_a = runner
        .run(ready, &sides.a, true)?
        .checked(ready, &sides.a)?;
    let counted_b = runner.run(ready, &b, true)?.checked(ready, &b)?;
    if counted_a.digest != counted_b.digest {
        return Err(Failure::new(format!(
            "{}: the outputs differ",
            ready.client.name
        )));
    }
    let order: [&Side; 3] = [&sides.a, &b, &sides.a2];
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for round in 1..=rounds {
        progress.step(&format!("{}: round {round}", ready.client.name));
        for index in shuffle.order(3) {
            let trial = runner
                .run(ready, order[index], false)?
                .checked(ready, order[index])?;
            if trial.digest != counted_a.digest {
                return Err(Failure::new(format!(
                    "{}: the output changed",
                    ready.client.name
                )));
            }
            samples[index].push(trial.outcome.into());
            runner.forget(&[&trial]);
        }
    }
    runner.forget(&[&counted_a, &counted_b]);
    let [a, b, a2] = samples;
    Ok(Comparison {
        client: ready.client.name.clone(),
        a,
        b,
        a2,
        collections_a: counted_a.collections,
        collections_b: counted_b.collections,
        settings_b: settings,
    })
}

fn report(all: &[Comparison], chosen: &arguments::Compare) -> Table {
    let title = format!(
        "stock (A) against Gleaner (B): {} rounds, size {}, {} marker{}",
        chosen.runs,
        chosen.size,
        chosen.markers,
        if chosen.markers == 1 { "" } else { "s" }
    );
    let mut table = Table::new(
        title,
        &[
            "client",
            "wall s A / B",
            "wall B/A [95 %]",
            "A/A",
            "CPU s A / B",
            "CPU B/A [95 %]",
            "A/A",
            "peak MB A / B",
            "peak B/A",
            "collections A / B",
            "longest pause ms A / B",
        ],
    );
    for comparison in all {
        table.row(row(comparison));
    }
    for (name, measure) in MEASURES {
        let medians = |ratio: fn(&Comparison, crate::comparison::Measure) -> Ratio| -> Vec<f64> {
            all.iter().map(|one| ratio(one, measure).median).collect()
        };
        let (ratios, controls) = (medians(Comparison::ratio), medians(Comparison::control));
        let (low, high) = log_interval(&ratios);
        table.note(format!(
            "{name}: geometric mean of B/A over {} clients {:.3} [{low:.3}, {high:.3}], A/A {:.3}, worst B/A {:.3}",
            all.len(),
            geometric_mean(&ratios),
            geometric_mean(&controls),
            ratios.iter().copied().fold(f64::NAN, f64::max),
        ));
    }
    table.note("Times and peaks are medians; B/A is the median of paired ratios; pauses and collections are from a run of their own.");
    if let Some(path) = &chosen.calibration {
        table.note(format!(
            "Peak memory was calibrated per client ({}).",
            file_name(path)
        ));
    }
    for comparison in all {
        let found = &comparison.collections_b;
        if !found.logged {
            table.note(format!("{}: Gleaner wrote no events", comparison.client));
        } else if found.broken_lines > 0 {
            table.note(format!(
                "{}: {} lines of the log are broken",
                comparison.client, found.broken_lines
            ));
        }
    }
    table
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn row(one: &Comparison) -> Vec<String> {
    let [(_, wall), (_, cpu), (_, peak)] = MEASURES;
    let pair = |measure| {
        format!(
            "{:.2} / {:.2}",
            middle(&one.a, measure),
            middle(&one.b, measure)
        )
    };
    let interval =
        |ratio: Ratio| format!("{:.3} [{:.3}, {:.3}]", ratio.median, ratio.low, ratio.high);
    let control = |measure| format!("{:.3}", one.control(measure).median);
    let megabytes = |samples| crate::statistics::median(&pick(samples, peak)) / 1024.0;
    let pause = |found: &Collections| format!("{:.1}", found.longest_pause * 1e3);
    vec![
        one.client.clone(),
        pair(wall),
        interval(one.ratio(wall)),
        control(wall),
        pair(cpu),
        interval(one.ratio(cpu)),
        control(cpu),
        format!("{:.0} / {:.0}", megabytes(&one.a), megabytes(&one.b)),
        format!("{:.3}", one.ratio(peak).median),
        format!("{} / {}", one.collections_a.count, one.collections_b.count),
        format!(
            "{} / {}",
            pause(&one.collections_a),
            pause(&one.collections_b)
        ),
    ]
}
