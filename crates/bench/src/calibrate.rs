//! `calibrate`: for each client, the options that give it the peak memory that it has on the installed library.
//!
//! The free-space divisor is tried first: a larger one means a smaller heap. It is a whole number, so that its steps
//! may be too coarse; then the heap limit is moved between nothing and the peak of the divisor one below, whose heap is
//! too large. A limit at which the client runs out of memory counts as too small.
//!
//! Many settings reach one peak, and some are poor: a large divisor collects all the time to hold down a peak that
//! lasts for a moment, where a limit collects only then. So where the divisor had to grow much, the limit is tried on the
//! default divisor too, and of all settings that reach the peak the one that takes the least processor time counts.

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
/// From this divisor on, collections are so frequent that a limit may do better.
const HIGH_DIVISOR: u32 = 4;
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
        let stock_kb = match measure(&runner, ready, &stock, chosen.runs)? {
            Some((kb, _)) => kb,
            // Fails again, with what there is to say about it.
            None => runner
                .run(ready, &stock, false)?
                .checked(ready, &stock)
                .map(|_| 0.0)?,
        };
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

/// The median peak in KB and the median processor time in seconds; `None` when a run fails.
fn measure(runner: &Runner, ready: &Ready, side: &Side, runs: u32) -> Result<Option<(f64, f64)>> {
    let (mut peaks, mut times) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let trial = runner.run(ready, side, false)?;
        runner.forget(&[&trial]);
        if trial.problem().is_some() {
            return Ok(None);
        }
        peaks.push(trial.outcome.peak_kb as f64);
        times.push(trial.outcome.cpu);
    }
    Ok(Some((median(&peaks), median(&times))))
}

struct Search<'a> {
    runner: &'a Runner,
    ready: &'a Ready,
    side: &'a Side,
    chosen: &'a arguments::Calibrate,
    stock_kb: f64,
    /// Each setting whose runs went well.
    tried: Vec<Tried>,
}

#[derive(Clone)]
struct Tried {
    options: Vec<String>,
    kb: f64,
    cpu: f64,
}

impl Search<'_> {
    fn run(&mut self) -> Result<Setting> {
        let (above, last) = self.divisor()?;
        if !self.reached() {
            self.limit(&[format!("free-space-divisor={above}")])?;
        }
        if last >= HIGH_DIVISOR {
            self.limit(&[])?;
        }
        Ok(self.best())
    }

    /// The cheapest of the settings that are near enough, or else the nearest.
    fn best(&self) -> Setting {
        let near = self.tried.iter().filter(|tried| self.is_near(tried.kb));
        let cheapest = near.min_by(|a, b| a.cpu.total_cmp(&b.cpu));
        let nearest = || {
            let distance = |tried: &Tried| self.distance(tried.kb);
            self.tried
                .iter()
                .min_by(|a, b| distance(a).total_cmp(&distance(b)))
        };
        let best = cheapest.or_else(nearest);
        Setting {
            options: best.map(|tried| tried.options.clone()).unwrap_or_default(),
            stock_kb: self.stock_kb,
            gleaner_kb: best.map_or(0.0, |tried| tried.kb),
            reached: cheapest.is_some(),
        }
    }

    /// The largest divisor whose peak is above the aim, or 1, and the divisor that was tried last.
    fn divisor(&mut self) -> Result<(u32, u32)> {
        let (mut above, mut below, mut last) = (1, GREATEST_DIVISOR + 1, 1);
        if self
            .try_options(&[format!("free-space-divisor={above}")])?
            .is_none_or(|kb| kb <= self.stock_kb)
        {
            return Ok((above, last));
        }
        while below - above > 1 && !self.reached() {
            // Halving the ratio: peaks go with the inverse of the divisor.
            let middle =
                ((f64::from(above) * f64::from(below)).sqrt() as u32).clamp(above + 1, below - 1);
            last = middle;
            match self.try_options(&[format!("free-space-divisor={middle}")])? {
                Some(kb) if kb > self.stock_kb => above = middle,
                _ => below = middle,
            }
        }
        Ok((above, last))
    }

    /// Moves a limit, set beside these options, until the peak is near enough.
    fn limit(&mut self, beside: &[String]) -> Result<()> {
        let (mut low, mut high) = (0.0, self.stock_kb * 1.5);
        for _ in 0..LIMIT_STEPS {
            let middle: f64 = (low + high) / 2.0;
            let limit = format!("heap-limit={}", (middle * 1024.0).max(1048576.0) as u64);
            let found = self.try_options(&[beside, &[limit]].concat())?;
            if found.is_some_and(|kb| self.is_near(kb)) {
                break;
            }
            match found {
                Some(kb) if kb > self.stock_kb => high = middle,
                _ => low = middle,
            }
        }
        Ok(())
    }

    fn try_options(&mut self, options: &[String]) -> Result<Option<f64>> {
        let side = self
            .side
            .clone()
            .with_options(options.iter().map(String::as_str));
        let found = measure(self.runner, self.ready, &side, self.chosen.runs)?;
        self.tried.extend(found.map(|(kb, cpu)| Tried {
            options: options.to_vec(),
            kb,
            cpu,
        }));
        Ok(found.map(|(kb, _)| kb))
    }

    fn distance(&self, kb: f64) -> f64 {
        (kb / self.stock_kb).ln().abs()
    }

    fn is_near(&self, kb: f64) -> bool {
        self.distance(kb) <= (1.0 + self.chosen.within / 100.0).ln()
    }

    fn reached(&self) -> bool {
        self.tried.iter().any(|tried| self.is_near(tried.kb))
    }
}
