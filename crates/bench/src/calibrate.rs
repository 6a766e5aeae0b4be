//! `calibrate`: for each client, the options that give it the peak memory that it has on the installed library.
//!
//! The free-space divisor is tried first: a larger one means a smaller heap. It is a whole number, so that its steps
//! may be too coarse; then the heap limit is moved between nothing and the peak of the divisor one below, whose heap is
//! too large. A limit at which the client runs out of memory counts as too small.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::arguments;
use crate::calibration::{Calibration, Setting};
use crate::compare::measured;
use crate::failure::Result;
use crate::progress::Progress;
use crate::side::Side;
use crate::statistics::median;
use crate::table::{Table, write_json};
use crate::trial::Runner;
use crate::workshop::{Ready, Workshop};

/// The largest divisor that is tried.
const GREATEST_DIVISOR: u32 = 64;
/// How often the limit is halved in on.
const LIMIT_STEPS: u32 = 8;

/// Calibrates; false when a client's peak could not be reached.
pub fn run(chosen: &arguments::Calibrate) -> Result<bool> {
    let common = &chosen.common;
    let stock = Side::stock().with_markers(chosen.markers);
    let gleaner = Side::gleaner(common)?.with_markers(chosen.markers);
    let runner = Runner {
        workshop: Workshop::open(common)?,
        limit: Duration::from_secs(common.limit),
    };
    let path = chosen
        .json
        .clone()
        .unwrap_or_else(|| common.out.join("calibration.json"));
    let mut file = match path.exists() {
        true => Calibration::read(&path)?.matching(&path, chosen.size, chosen.markers)?,
        false => Calibration {
            size: chosen.size,
            markers: chosen.markers,
            clients: BTreeMap::new(),
        },
    };
    let (ready, missing) = measured(&runner, common, chosen.size)?;
    let mut table = Table::new(
        "Peak memory",
        &["client", "options", "stock MB", "Gleaner MB", "reached"],
    );
    let mut progress = Progress::new(ready.len());
    for ready in &ready {
        progress.step(&ready.client.name);
        let stock_kb = peak(&runner, ready, &stock, chosen.runs)?;
        let stock_kb = stock_kb.map_or_else(
            || {
                runner
                    .run(ready, &stock, false)?
                    .checked(ready, &stock)
                    .map(|_| 0.0)
            },
            Ok,
        )?;
        let mut search = Search {
            runner: &runner,
            ready,
            side: &gleaner,
            chosen,
            stock_kb,
            tried: Vec::new(),
        };
        let setting = search.run()?;
        table.row(vec![
            ready.client.name.clone(),
            setting.options.join(","),
            format!("{:.1}", stock_kb / 1024.0),
            format!("{:.1}", setting.gleaner_kb / 1024.0),
            if setting.reached { "yes" } else { "no" }.into(),
        ]);
        file.clients.insert(ready.client.name.clone(), setting);
        write_json(Some(&path), &file)?;
    }
    drop(progress);
    missing.into_iter().for_each(|text| table.note(text));
    table.print();
    Ok(ready
        .iter()
        .all(|one| file.clients[&one.client.name].reached))
}

/// The median peak in KB; `None` when a run fails.
fn peak(runner: &Runner, ready: &Ready, side: &Side, runs: u32) -> Result<Option<f64>> {
    let mut peaks = Vec::new();
    for _ in 0..runs {
        let trial = runner.run(ready, side, false)?;
        runner.forget(&[&trial]);
        if trial.problem().is_some() {
            return Ok(None);
        }
        peaks.push(trial.outcome.peak_kb as f64);
    }
    Ok(Some(median(&peaks)))
}

struct Search<'a> {
    runner: &'a Runner,
    ready: &'a Ready,
    side: &'a Side,
    chosen: &'a arguments::Calibrate,
    stock_kb: f64,
    /// Each setting whose runs went well, and its peak.
    tried: Vec<(Vec<String>, f64)>,
}

impl Search<'_> {
    fn run(&mut self) -> Result<Setting> {
        let divisor = self.divisor()?;
        if !self.reached() {
            self.limit(divisor)?;
        }
        let best = self
            .tried
            .iter()
            .min_by(|a, b| self.distance(a.1).total_cmp(&self.distance(b.1)));
        let (options, gleaner_kb) = best.cloned().unwrap_or_default();
        let reached = self.reached();
        Ok(Setting {
            options,
            stock_kb: self.stock_kb,
            gleaner_kb,
            reached,
        })
    }

    /// The largest divisor whose peak is above the aim, or 1.
    fn divisor(&mut self) -> Result<u32> {
        let (mut above, mut below) = (1, GREATEST_DIVISOR + 1);
        if self
            .try_options(&[format!("free-space-divisor={above}")])?
            .is_none_or(|kb| kb <= self.stock_kb)
        {
            return Ok(above);
        }
        while below - above > 1 && !self.reached() {
            // Halving the ratio: peaks go with the inverse of the divisor.
            let middle =
                ((f64::from(above) * f64::from(below)).sqrt() as u32).clamp(above + 1, below - 1);
            match self.try_options(&[format!("free-space-divisor={middle}")])? {
                Some(kb) if kb > self.stock_kb => above = middle,
                _ => below = middle,
            }
        }
        Ok(above)
    }

    /// Moves the limit below the heap that this divisor makes.
    fn limit(&mut self, divisor: u32) -> Result<()> {
        let (mut low, mut high) = (0.0, self.stock_kb * 1.5);
        for _ in 0..LIMIT_STEPS {
            let middle: f64 = (low + high) / 2.0;
            let options = [
                format!("free-space-divisor={divisor}"),
                format!("heap-limit={}", (middle * 1024.0).max(1048576.0) as u64),
            ];
            match self.try_options(&options)? {
                Some(kb) if kb > self.stock_kb => high = middle,
                _ => low = middle,
            }
            if self.reached() {
                break;
            }
        }
        Ok(())
    }

    fn try_options(&mut self, options: &[String]) -> Result<Option<f64>> {
        let side = self
            .side
            .clone()
            .with_options(options.iter().map(String::as_str));
        let found = peak(self.runner, self.ready, &side, self.chosen.runs)?;
        if let Some(kb) = found {
            self.tried.push((options.to_vec(), kb));
        }
        Ok(found)
    }

    fn distance(&self, kb: f64) -> f64 {
        (kb / self.stock_kb).ln().abs()
    }

    fn reached(&self) -> bool {
        let near = (1.0 + self.chosen.within / 100.0).ln();
        self.tried.iter().any(|(_, kb)| self.distance(*kb) <= near)
    }
}
