//! Where clients are made ready: fills placeholders, builds the C benchmarks, runs setup steps.
//!
//! Everything made here lies in one scratch directory and is made with the installed libgc. Files of a run carry this
//! process's identifier, so that two runs of the tool do not meet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::arguments::Common;
use crate::catalogue::{Client, Size, Step};
use crate::side::PRELOAD;
use gleaner_workloads::failure::{Failure, Result};

/// The directories of one run of the tool.
pub struct Workshop {
    clients: PathBuf,
    benchmarks: PathBuf,
    out: PathBuf,
    is_measured: bool,
}

/// A client with all placeholders filled.
pub struct Ready {
    /// Its description.
    pub client: Client,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// A library that is preloaded.
    pub preload: Option<String>,
    /// A file to remove after each run.
    pub leaves: Option<PathBuf>,
}

impl Workshop {
    /// Creates the scratch directories.
    pub fn open(common: &Common) -> Result<Workshop> {
        let out = match common.unoptimised {
            true => common.out.join("unoptimised"),
            false => common.out.clone(),
        };
        for directory in [out.join("home"), out.join("bench")] {
            std::fs::create_dir_all(&directory).map_err(|error| Failure::at(&directory, error))?;
        }
        let absolute = |path: &Path| {
            path.canonicalize()
                .map_err(|error| Failure::at(path, error))
        };
        Ok(Workshop {
            clients: absolute(&common.clients)?,
            benchmarks: absolute(&common.benchmarks)?,
            out: absolute(&out)?,
            is_measured: !common.unoptimised,
        })
    }

    /// A file in the scratch directory that no other run of the tool uses.
    pub fn private(&self, name: &str) -> PathBuf {
        self.out.join(format!("{}-{name}", std::process::id()))
    }

    /// The home directory that clients see.
    pub fn home(&self) -> PathBuf {
        self.out.join("home")
    }

    /// Makes a client ready; `None` when its program is not installed.
    pub fn prepare(&self, client: &Client, size: Size) -> Result<Option<Ready>> {
        let arguments = client.arguments(size);
        let fill = |text: &str| self.fill(text, arguments);
        if client.command[0].starts_with("{bench}") {
            self.build_benchmarks()?;
        }
        for step in &client.setup {
            if !installed(&step.run[0]) {
                return Ok(None);
            }
            self.make(step, &fill)?;
        }
        let mut command = Vec::new();
        for part in &client.command {
            match part.as_str() {
                "{args}" => command.extend_from_slice(arguments),
                part => command.push(fill(part)),
            }
        }
        if !installed(&command[0]) {
            return Ok(None);
        }
        Ok(Some(Ready {
            client: client.clone(),
            command,
            preload: client.preload.as_deref().map(fill),
            leaves: client
                .leaves
                .as_deref()
                .map(|path| PathBuf::from(fill(path))),
        }))
    }

    fn fill(&self, text: &str, arguments: &[String]) -> String {
        let mut filled = text
            .replace("{clients}", &self.clients.to_string_lossy())
            .replace("{bench}", &self.out.join("bench").to_string_lossy())
            .replace("{out}", &self.out.to_string_lossy())
            .replace("{pid}", &std::process::id().to_string());
        for (index, argument) in arguments.iter().enumerate() {
            filled = filled.replace(&format!("{{{index}}}"), argument);
        }
        filled
    }

    fn build_benchmarks(&self) -> Result<()> {
        let mut make = Command::new("make");
        make.arg("-s")
            .arg("-C")
            .arg(&self.benchmarks)
            .arg(format!("OUT={}", self.out.join("bench").display()));
        finish(make, "make")
    }

    /// Runs a step unless its file is there and newer than what it comes from.
    fn make(&self, step: &Step, fill: &dyn Fn(&str) -> String) -> Result<()> {
        let (target, source) = (
            PathBuf::from(fill(&step.makes)),
            PathBuf::from(fill(&step.from)),
        );
        let time = |path: &Path| path.metadata().and_then(|data| data.modified());
        let wanted = time(&source).map_err(|error| Failure::at(&source, error))?;
        if time(&target).is_ok_and(|made| made >= wanted) {
            return Ok(());
        }
        // The step writes beside the target, which appears whole or not at all.
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let fresh = target.with_file_name(format!("{}-{name}", std::process::id()));
        let mut command = Command::new(&step.run[0]);
        let measured = self.is_measured.then_some(&step.measured);
        for part in step.run[1..].iter().chain(measured.into_iter().flatten()) {
            command.arg(fill(part).replace(&*target.to_string_lossy(), &fresh.to_string_lossy()));
        }
        command.stdout(match step.capture {
            true => File::create(&fresh)
                .map_err(|error| Failure::at(&fresh, error))?
                .into(),
            false => Stdio::null(),
        });
        command
            .env("GUILE_AUTO_COMPILE", "0")
            .env_remove(PRELOAD)
            .env_remove("GLEANER_OPTIONS");
        finish(command, &step.run[0])?;
        std::fs::rename(&fresh, &target).map_err(|error| Failure::at(&fresh, error))
    }
}

fn finish(mut command: Command, name: &str) -> Result<()> {
    let done = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output());
    let done = done.map_err(|error| Failure::new(format!("{name}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    Err(Failure::new(format!(
        "{command:?}: {}\n{}",
        done.status,
        errors.trim_end()
    )))
}

/// Whether a program can be found, by path or along PATH.
fn installed(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled() {
        let workshop = Workshop {
            clients: "/c".into(),
            benchmarks: "/b".into(),
            out: "/o".into(),
            is_measured: true,
        };
        let arguments = ["7".to_string(), "x".to_string()];
        assert_eq!(
            workshop.fill("{clients}/{0}-{1}{bench}", &arguments),
            "/c/7-x/o/bench"
        );
        assert_eq!(workshop.fill("{out}", &arguments), "/o");
    }

    #[test]
    fn what_is_measured_is_made_with_more() {
        let out = std::env::temp_dir().join(format!("workshop-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        std::fs::write(out.join("source"), "").unwrap();
        let words = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
        for (is_measured, expected) in [(false, "compile\n"), (true, "compile --release\n")] {
            let made = format!("{{out}}/made-{is_measured}");
            let step = Step {
                makes: made.clone(),
                from: "{out}/source".to_string(),
                run: words(&["sh", "-c", "echo \"$@\" > \"$0\"", &made, "compile"]),
                measured: words(&["--release"]),
                capture: false,
            };
            let workshop = Workshop {
                clients: "/c".into(),
                benchmarks: "/b".into(),
                out: out.clone(),
                is_measured,
            };
            workshop
                .make(&step, &|text| workshop.fill(text, &[]))
                .unwrap();
            let path = out.join(format!("made-{is_measured}"));
            assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
        }
        std::fs::remove_dir_all(out).unwrap();
    }

    #[test]
    fn programs_are_found_by_path_and_by_name() {
        assert!(installed("sh"));
        assert!(installed("/bin/sh"));
        assert!(!installed("no-such-program-anywhere"));
    }
}
