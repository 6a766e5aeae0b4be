//! `soak`: each client for as long as it was told to, on Gleaner, under one set of options after the other; each run must
//! end and print as on the installed library.

use std::time::{Duration, Instant};

use crate::arguments;
use crate::catalogue::Client;
use crate::clients::{Comparison, judge};
use crate::progress;
use crate::say::say;
use crate::workshop::Ready;
use gleaner_workloads::failure::{Failure, Result};

/// Options that take turns: each way to collect, with whatever makes bugs show that it can have.
const SETS: [&[&str]; 8] = [
    &["verify=edges", "poison=on"],
    &["verify=edges", "poison=on", UNDER_STRESS],
    &["verify=edges", "poison=on", "markers=2", "sweep=eager"],
    &["verify=edges", "poison=on", "generations=sticky"],
    &["verify=edges", "poison=on", "generations=incremental"],
    &[
        "verify=edges",
        "free-space-divisor=20",
        "freed-cells=shared",
    ],
    &["verify=edges", "heap-sizing=balanced", "prefetch=fifo"],
    &["verify=edges", UP_TO_A_LIMIT],
];
/// Stands for collections as often as the client's entry says, but at most at each [`STRESS`]-th allocation.
const UNDER_STRESS: &str = "stress";
const STRESS: u32 = 1000;
/// Stands for a heap that never holds more than the program took in the run before, or on the installed library.
const UP_TO_A_LIMIT: &str = "heap-limit";

/// What one client did.
struct Soaked {
    runs: u64,
    collections: u64,
    failure: Option<String>,
}

/// Runs them; true when all runs of all clients were as on the installed library.
pub fn run(asked: &arguments::Soak) -> Result<bool> {
    let chosen = &asked.chosen;
    let comparison = Comparison::of(chosen)?;
    let time = Duration::from_secs_f64(60.0 * asked.minutes);
    let clients = &comparison.clients;
    let progress = progress::bar(clients.len());
    let (mut passed, mut failed) = (0, 0);
    for client in clients {
        progress.set_message(client.name.clone());
        let name = &client.name;
        let line = match comparison.runner.workshop.prepare(client, chosen.size)? {
            None if !chosen.all => {
                format!("{name}: left out, it needs the package {}", client.package)
            }
            None => {
                failed += 1;
                format!("{name}: FAILED: needs the package {}", client.package)
            }
            Some(ready) => {
                let soaked = soak(&comparison, &ready, time)?;
                let (runs, collections) = (soaked.runs, soaked.collections);
                match soaked.failure {
                    None => passed += 1,
                    Some(_) => failed += 1,
                }
                let how = soaked
                    .failure
                    .map_or("as on stock".into(), |why| format!("FAILED: {why}"));
                let plural = if runs == 1 { "" } else { "s" };
                format!("{name}: {runs} run{plural}, {collections} collections: {how}")
            }
        };
        progress.suspend(|| say(line))?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    say(format_args!("{passed} passed, {failed} failed"))?;
    if passed + failed == 0 {
        return Err(Failure::new("no client is installed"));
    }
    Ok(failed == 0)
}

/// One client: first on the installed library, then on Gleaner until the time is over, but once at least.
fn soak(comparison: &Comparison, ready: &Ready, time: Duration) -> Result<Soaked> {
    let Comparison {
        stock,
        gleaner,
        runner,
        ..
    } = comparison;
    let reference = runner.run(ready, stock, false)?;
    let start = Instant::now();
    let mut soaked = Soaked {
        runs: 0,
        collections: 0,
        failure: None,
    };
    let mut peak_kb = reference.outcome.peak_kb;
    for set in SETS.iter().cycle() {
        let options = options(set, &ready.client, peak_kb);
        let side = gleaner
            .clone()
            .with_options(options.iter().map(String::as_str));
        let trial = runner.run(ready, &side, true)?;
        soaked.runs += 1;
        soaked.collections += trial.collections.count;
        peak_kb = trial.outcome.peak_kb.max(reference.outcome.peak_kb);
        if let Some(why) = judge(&reference, &trial, 0).failure() {
            soaked.failure = Some(format!("with {}: {why}", options.join(",")));
            return Ok(soaked); // What it printed stays, for a look.
        }
        if start.elapsed() >= time {
            runner.forget(&[&reference, &trial]);
            return Ok(soaked);
        }
    }
    unreachable!("the sets never end")
}

/// A set of options for a client that took `peak_kb` KB of memory before.
fn options(set: &[&str], client: &Client, peak_kb: u64) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    options.extend(
        client
            .stress_after
            .map(|count| format!("stress-after={count}")),
    );
    for &option in set {
        options.push(match option {
            UNDER_STRESS => format!("stress={}", client.stress.get().max(STRESS)),
            UP_TO_A_LIMIT => format!("heap-limit={}", (peak_kb << 10).max(16 << 20)),
            _ => option.into(),
        });
    }
    options
}

#[cfg(test)]
mod tests {
    use gleaner_base::options::{Foreign, HeapKind, Options};

    use super::*;

    #[test]
    fn each_set_is_one_that_the_library_takes() {
        let command = ["true".to_string()];
        let mut client = Client::of_command("true", &command);
        client.stress_after = Some(128);
        for set in SETS {
            let list = options(set, &client, 20_000).join(",");
            let mut read = Options::DEFAULT;
            read.parse_list_of(HeapKind::Libgc, Foreign::Refused, &list)
                .unwrap_or_else(|error| panic!("{list}: {error}"));
            assert!(list.starts_with("stress-after=128,verify=edges"), "{list}");
            let stressed = set.contains(&UNDER_STRESS);
            assert_eq!(read.stress, if stressed { STRESS } else { 0 }, "{list}");
        }
    }
}
