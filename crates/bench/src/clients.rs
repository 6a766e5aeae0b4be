//! `clients`: every client on both libraries; exit status and output must be equal.

use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use gleaner_base::options::HeapKind;

use crate::arguments;
use crate::catalogue::{self, Client, Size};
use crate::output::first_difference;
use crate::progress;
use crate::say::say;
use crate::side::Side;
use crate::trial::{Runner, Trial};
use crate::workshop::{Ready, Workshop};
use gleaner_workloads::failure::{Failure, Result};

/// What became of one client.
pub enum Verdict {
    Same,
    Failed(String),
    Missing,
}

impl Verdict {
    /// What is wrong.
    pub fn failure(self) -> Option<String> {
        match self {
            Verdict::Failed(why) => Some(why),
            Verdict::Same | Verdict::Missing => None,
        }
    }
}

/// Clients, the two sides that they are run on, and what runs them.
pub struct Comparison {
    /// The installed library.
    pub stock: Side,
    /// Gleaner's, with the options of the command line.
    pub gleaner: Side,
    /// Runs a client on a side.
    pub runner: Runner,
    /// The clients that were chosen.
    pub clients: Vec<Client>,
}

impl Comparison {
    /// What the command line asks for.
    pub fn of(chosen: &arguments::Chosen) -> Result<Comparison> {
        let common = &chosen.common;
        Ok(Comparison {
            stock: Side::stock().with_environment(&common.env)?,
            gleaner: Side::gleaner(common, Some(HeapKind::Libgc))?.with_environment(&common.env)?,
            runner: Runner {
                workshop: Workshop::open(common)?,
                limit: Duration::from_secs(common.limit),
            },
            clients: catalogue::read(&common.clients, &chosen.only)?,
        })
    }
}

/// Runs them; true when none differs.
pub fn run(asked: &arguments::Clients) -> Result<bool> {
    let chosen = &asked.chosen;
    let Comparison {
        stock,
        gleaner,
        runner,
        clients,
    } = Comparison::of(chosen)?;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header([
        "client",
        "stock s",
        "Gleaner s",
        "stock MB",
        "Gleaner MB",
        "collections",
        "output",
    ]);
    let progress = progress::bar(clients.len());
    let (mut passed, mut failed, mut details) = (0, 0, Vec::new());
    for client in &clients {
        progress.set_message(client.name.clone());
        let verdict = match runner.workshop.prepare(client, chosen.size)? {
            None => {
                table.add_row(blank_row(client));
                Verdict::Missing
            }
            Some(ready) => {
                let one = runner.run(&ready, &stock, false)?;
                let usual = chosen.size == Size::Ci && gleaner.has_defaults();
                let gleaner = under_pressure(&gleaner, asked.pressure, client);
                let other = runner.run(&ready, &gleaner, !asked.no_log)?;
                let least = asked.least_collections;
                let enough = client.enough.map_or(least, |enough| enough.min(least));
                let least = enough.max(match usual && !asked.pressure && !asked.no_log {
                    true => client.collects,
                    false => 0,
                });
                let verdict = judge(&one, &other, least);
                table.add_row(row(&ready, &one, &other, &verdict, !asked.no_log));
                if matches!(verdict, Verdict::Same) {
                    runner.forget(&[&one, &other]);
                }
                verdict
            }
        };
        progress.inc(1);
        match verdict {
            Verdict::Same => passed += 1,
            Verdict::Missing if !chosen.all => {}
            Verdict::Missing => {
                failed += 1;
                details.push(format!(
                    "{}: needs the package {}",
                    client.name, client.package
                ));
            }
            Verdict::Failed(why) => {
                failed += 1;
                details.push(format!("{}: {why}", client.name));
            }
        }
    }
    progress.finish_and_clear();
    say(format_args!(
        "Clients at size {}: stock against Gleaner\n{table}",
        chosen.size
    ))?;
    for detail in &details {
        say(detail)?;
    }
    say(format_args!("{passed} passed, {failed} failed"))?;
    if passed + failed == 0 {
        return Err(Failure::new("no client is installed"));
    }
    Ok(failed == 0)
}

/// The side that a client runs on, with the options that make bugs show.
fn under_pressure(side: &Side, wanted: bool, client: &Client) -> Side {
    let after = client
        .stress_after
        .map(|count| format!("stress-after={count}"));
    let side = side.clone().with_options(after.as_deref());
    if !wanted {
        return side;
    }
    let stress = format!("stress={}", client.stress);
    side.with_options(["verify=edges", "poison=on", &stress])
}

/// Whether a run on Gleaner was as that on the installed library.
pub fn judge(stock: &Trial, gleaner: &Trial, least_collections: u64) -> Verdict {
    if let Some(problem) = stock.problem() {
        return Verdict::Failed(format!("fails on the installed library: {problem}"));
    }
    if let Some(problem) = gleaner.problem() {
        return Verdict::Failed(problem);
    }
    if stock.digest.length == 0 {
        return Verdict::Failed("prints nothing, so that nothing was compared".into());
    }
    if stock.digest != gleaner.digest {
        let place = first_difference(&stock.stdout, &gleaner.stdout);
        return Verdict::Failed(format!(
            "{place}\n  stock:   {}\n  Gleaner: {}",
            stock.stdout.display(),
            gleaner.stdout.display()
        ));
    }
    let broken = gleaner.collections.broken_lines;
    if broken > 0 {
        return Verdict::Failed(format!("{broken} lines of the event log cannot be read"));
    }
    let collections = gleaner.collections.count;
    if collections < least_collections {
        return Verdict::Failed(format!(
            "{collections} collections, where {least_collections} are wanted"
        ));
    }
    Verdict::Same
}

fn row(
    ready: &Ready,
    stock: &Trial,
    gleaner: &Trial,
    verdict: &Verdict,
    logged: bool,
) -> Vec<String> {
    let seconds = |trial: &Trial| format!("{:.2}", trial.outcome.wall);
    let megabytes = |trial: &Trial| format!("{:.0}", trial.outcome.peak_kb as f64 / 1024.0);
    let judged = match verdict {
        Verdict::Same => format!("same, {} bytes", stock.digest.length),
        _ => "FAILED".into(),
    };
    let collections = match (logged, gleaner.collections.logged) {
        (false, _) => "-".into(),
        (true, false) => "no log".into(),
        (true, true) => gleaner.collections.count.to_string(),
    };
    let name = ready.client.name.clone();
    vec![
        name,
        seconds(stock),
        seconds(gleaner),
        megabytes(stock),
        megabytes(gleaner),
        collections,
        judged,
    ]
}

fn blank_row(client: &Client) -> Vec<String> {
    let mut cells = vec![client.name.clone()];
    cells.extend(std::iter::repeat_n("-".to_string(), 5));
    cells.push(format!("left out: no {}", client.package));
    cells
}
