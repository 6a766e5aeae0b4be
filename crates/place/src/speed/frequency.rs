//! The thin part of frequency control: reads the domains, sets and puts back their maximum (`cpufreq`).

use super::decide::Domain;
use super::maximum::{PROCESSORS, maximum_of, put_back};
use super::state::{self, Entry, State};
use crate::Processors;
use crate::files::Files;

/// The domains, and the file with the maximum of each.
#[derive(Debug)]
pub(super) struct Frequency {
    pub(super) domains: Vec<Domain>,
    paths: Vec<String>,
    /// What was set last, of each domain, and what the kernel has made of it.
    set: Vec<Option<Set>>,
    /// The processors of the domains that were slow at any time.
    slowed: Processors,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    wanted: u64,
    found: Option<u64>,
}

impl Frequency {
    /// The domains of all processors that are online.
    pub(super) fn read(files: &Files) -> Frequency {
        let (mut domains, mut paths) = (Vec::new(), Vec::new());
        let list = |path: &str| files.text(path).ok()?.replace(' ', ",").parse().ok();
        let online: Processors = list(&format!("{PROCESSORS}/online")).unwrap_or_default();
        let mut seen = Processors::default();
        for number in online.iter() {
            let of = |name: &str| format!("{PROCESSORS}/cpu{number}/cpufreq/{name}");
            let khz = |name: &str| files.number(&of(name));
            let limits = khz("cpuinfo_min_freq").zip(khz("cpuinfo_max_freq"));
            let (Some((lowest, highest)), Some(full)) = (limits, khz("scaling_max_freq")) else {
                continue;
            };
            let related: Processors = list(&of("related_cpus")).unwrap_or_default();
            let mut processors = related.intersection(&online);
            processors.insert(number);
            if seen.contains(number) {
                continue;
            }
            processors.iter().for_each(|it| seen.insert(it));
            paths.push(maximum_of(number));
            domains.push(Domain {
                processors,
                lowest,
                highest,
                full,
            });
        }
        let set = vec![None; domains.len()];
        Frequency {
            domains,
            paths,
            set,
            slowed: Processors::default(),
        }
    }

    pub(super) fn slowed(&self) -> &Processors {
        &self.slowed
    }

    pub(super) fn is_slow(&self) -> bool {
        self.set.iter().any(Option::is_some)
    }

    /// Whether a domain is as wanted; not where others have changed it since.
    pub(super) fn is_set(&self, files: &Files, domain: usize, khz: Option<u64>) -> bool {
        match (self.set[domain], khz) {
            (None, None) => true,
            (Some(set), Some(khz)) => {
                set.wanted == khz && files.number(&self.paths[domain]) == set.found
            }
            _ => false,
        }
    }

    /// The maximum as it is without this process and others like it: of what stands there, which the system may have changed since
    /// the start, and what these have written down.
    fn full(&self, files: &Files, domain: usize) -> u64 {
        let path = &self.paths[domain];
        let written = state::maxima(files).filter(|(its, _)| its == path);
        let known = written.map(|(_, khz)| khz).chain(files.number(path));
        known.max().unwrap_or(self.domains[domain].full)
    }

    /// Sets the maximum of a domain, or puts it back for `None`. What it was is written down before.
    pub(super) fn set(
        &mut self,
        files: &Files,
        state: &mut State,
        domain: usize,
        khz: Option<u64>,
    ) -> Result<(), String> {
        if self.set[domain].is_none() {
            self.domains[domain].full = self.full(files, domain);
        }
        let (path, full) = (&self.paths[domain], self.domains[domain].full);
        match khz {
            Some(khz) => {
                state.add(Entry::Maximum {
                    path: path.clone(),
                    khz: full,
                })?;
                let written = files.set(path, &khz.to_string());
                written.map_err(|error| format!("{path} cannot be written: {error}"))?;
            }
            None => put_back(files, path, full)?,
        }
        self.set[domain] = khz.map(|wanted| Set {
            wanted,
            found: files.number(path),
        });
        if khz.is_some() {
            let processors = &self.domains[domain].processors;
            processors.iter().for_each(|it| self.slowed.insert(it));
        }
        Ok(())
    }
}
