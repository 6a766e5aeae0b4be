//! One run of one client on one side.

use std::path::PathBuf;
use std::time::Duration;

use crate::collections::Collections;
use crate::output::{self, Digest};
use crate::process::{self, Excess, Launch, MOST_OUTPUT, Outcome};
use crate::side::{PRELOAD, Side};
use crate::workshop::{Ready, Workshop};
use crate::{events, stock_log};
use gleaner_workloads::failure::Result;

/// A finished run.
pub struct Trial {
    /// Times and memory.
    pub outcome: Outcome,
    /// What it printed, reduced to what counts.
    pub digest: Digest,
    /// What the library logged; empty without a log.
    pub collections: Collections,
    /// Standard output, kept for a message.
    pub stdout: PathBuf,
    /// Standard error, kept for a message.
    pub stderr: PathBuf,
}

impl Trial {
    /// What is wrong with the run by itself, if anything.
    pub fn problem(&self) -> Option<String> {
        match self.outcome.excess {
            Some(Excess::Time) => {
                let said = output::tail(&self.stderr, 6);
                return Some(format!("took longer than allowed\n{said}"));
            }
            Some(Excess::Output) => {
                let most = MOST_OUTPUT >> 20;
                return Some(format!(
                    "printed more than {most} MiB, and was ended before it filled the disk: send its output to \
                     /dev/null, or let it print less"
                ));
            }
            None => (),
        }
        if !self.outcome.status.success() {
            return Some(format!(
                "{}\n{}",
                self.outcome.status,
                output::tail(&self.stderr, 6)
            ));
        }
        let errors = output::tail(&self.stderr, 50);
        errors
            .contains("cannot be preloaded")
            .then(|| "the loader refused the library".into())
    }
}

/// Runs clients; holds what all runs share.
pub struct Runner {
    /// The scratch directory.
    pub workshop: Workshop,
    /// When a run is ended.
    pub limit: Duration,
}

impl Runner {
    /// Runs a client on a side. With `logged`, the library's log is read too, which costs the client time.
    pub fn run(&self, ready: &Ready, side: &Side, logged: bool) -> Result<Trial> {
        let name = |end: &str| {
            self.workshop
                .private(&format!("{}-{}{end}", ready.client.name, side.name))
        };
        let (stdout, stderr, log) = (name(".out"), name(".err"), name(".log"));
        let _ = std::fs::remove_file(&log);
        let outcome = process::run(&Launch {
            command: &ready.command,
            environment: &self.environment(ready, side.environment(logged.then_some(&*log))),
            stdout: &stdout,
            stderr: &stderr,
            limit: self.limit,
            most_output: MOST_OUTPUT,
        })?;
        let collections = match (logged, side.is_stock()) {
            (false, _) => Collections::default(),
            (true, true) => stock_log::read(&log)?,
            (true, false) => events::read(&log)?,
        };
        let _ = std::fs::remove_file(&log);
        if let Some(left) = &ready.leaves {
            let _ = std::fs::remove_file(left);
        }
        let digest = output::digest(&stdout, ready.client.compare)?;
        Ok(Trial {
            outcome,
            digest,
            collections,
            stdout,
            stderr,
        })
    }

    /// A clean environment, so that a run does not depend on who started it.
    fn environment(&self, ready: &Ready, side: Vec<(String, String)>) -> Vec<(String, String)> {
        let home = self.workshop.home().to_string_lossy().into_owned();
        let fixed = [
            ("HOME", home.as_str()),
            ("LC_ALL", "C.UTF-8"),
            ("TZ", "UTC"),
            ("TERM", "dumb"),
            ("GUILE_AUTO_COMPILE", "0"),
        ];
        let mut all: Vec<(String, String)> = fixed
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        all.push(("PATH".into(), std::env::var("PATH").unwrap_or_default()));
        all.extend(
            ready
                .client
                .env
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        all.extend(side);
        if let Some(library) = &ready.preload {
            preload_last(&mut all, library);
        }
        all
    }

    /// Removes what the runs of a client left in the scratch directory.
    pub fn forget(&self, trials: &[&Trial]) {
        for trial in trials {
            let _ = std::fs::remove_file(&trial.stdout);
            let _ = std::fs::remove_file(&trial.stderr);
        }
    }
}

/// Adds a library behind those that are preloaded already: the collector that a side chose stays the first.
fn preload_last(environment: &mut Vec<(String, String)>, library: &str) {
    let chosen = environment.iter_mut().rfind(|(name, _)| name == PRELOAD);
    match chosen {
        Some((_, libraries)) => *libraries = format!("{libraries}:{library}"),
        None => environment.push((PRELOAD.into(), library.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloaded(before: &[&str]) -> Vec<String> {
        let own = |value: &&str| (PRELOAD.to_string(), value.to_string());
        let mut environment: Vec<_> = before.iter().map(own).collect();
        preload_last(&mut environment, "/malloc.so");
        environment.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn a_clients_library_is_preloaded_behind_the_collector() {
        assert_eq!(preloaded(&[]), ["/malloc.so"]);
        assert_eq!(preloaded(&["/libgc.so"]), ["/libgc.so:/malloc.so"]);
        // The last setting of a variable is the one that holds.
        assert_eq!(preloaded(&["/a", "/b"]), ["/a", "/b:/malloc.so"]);
    }
}
