//! One side of a comparison: a library with its options and environment.

use std::path::{Path, PathBuf};

use gleaner_base::options::{Foreign, HeapKind, Options};

use crate::arguments::Common;
use gleaner_workloads::failure::{Failure, Result};

/// The variable that names the libraries to preload.
pub const PRELOAD: &str = "LD_PRELOAD";

/// A library, how it is set up, and its name in tables.
#[derive(Clone, Debug)]
pub struct Side {
    /// The name in tables.
    pub name: &'static str,
    /// Gleaner's library by absolute path; `None` for the installed libgc.
    library: Option<PathBuf>,
    options: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Side {
    /// The libgc that the system has installed.
    pub fn stock() -> Side {
        Side {
            name: "stock",
            library: None,
            options: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Gleaner's library with the options of the command line. One that is not there is refused, and if programs have
    /// no heap but of the kind `only`, also one that does not serve it.
    pub fn gleaner(common: &Common, only: Option<HeapKind>) -> Result<Side> {
        let list = common.options.join(",");
        let mut options = Options::DEFAULT;
        match only {
            Some(kind) => options.parse_list_of(kind, Foreign::Refused, &list),
            None => options.parse_list(&list),
        }
        .map_err(|error| Failure::new(error.to_string()))?;
        let library = match &common.lib {
            Some(path) => path.clone(),
            None => beside_this_program()?,
        };
        let library = library
            .canonicalize()
            .map_err(|error| Failure::at(&library, error))?;
        Ok(Side {
            name: "gleaner",
            library: Some(library),
            options: common.options.clone(),
            environment: Vec::new(),
        })
    }

    /// Whether it runs with the default options.
    pub fn has_defaults(&self) -> bool {
        self.options.is_empty()
    }

    /// The same side with further options of Gleaner's.
    pub fn with_options<'a>(mut self, options: impl IntoIterator<Item = &'a str>) -> Side {
        self.options.extend(options.into_iter().map(String::from));
        self
    }

    /// The same side with further environment, as NAME=VALUE.
    pub fn with_environment(mut self, settings: &[String]) -> Result<Side> {
        for setting in settings {
            let (name, value) = setting
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .ok_or_else(|| {
                    Failure::new(format!("\"{setting}\" is not of the form NAME=VALUE"))
                })?;
            self.environment.push((name.into(), value.into()));
        }
        Ok(self)
    }

    /// The same side with `markers` marking threads.
    pub fn with_markers(mut self, markers: u32) -> Side {
        self.environment
            .push(("GC_MARKERS".into(), markers.to_string()));
        self
    }

    /// True for the installed libgc.
    pub fn is_stock(&self) -> bool {
        self.library.is_none()
    }

    /// The variables that choose this side; with `log`, those that make it write its log there.
    pub fn environment(&self, log: Option<&Path>) -> Vec<(String, String)> {
        let mut all = self.environment.clone();
        let Some(library) = &self.library else {
            if let Some(log) = log {
                all.push(("GC_PRINT_STATS".into(), "1".into()));
                all.push(("GC_LOG_FILE".into(), log.to_string_lossy().into()));
            }
            return all;
        };
        all.push((PRELOAD.into(), library.to_string_lossy().into()));
        let log = log.map(|path| format!("log={}", path.display()));
        let options: Vec<String> = self.options.iter().cloned().chain(log).collect();
        if !options.is_empty() {
            all.push(("GLEANER_OPTIONS".into(), options.join(",")));
        }
        all
    }
}

/// The library where a build puts it.
fn beside_this_program() -> Result<PathBuf> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("this program's path: {error}")))?;
    let found = ["libgc.so.1", "libgc.so"]
        .iter()
        .map(|name| program.with_file_name(name))
        .find(|path| path.exists());
    found.ok_or_else(|| {
        Failure::new("no library beside this program; build it, or name one with --lib PATH")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_side_preloads_nothing() {
        let plain = Side::stock().with_markers(2).environment(None);
        assert_eq!(plain, [("GC_MARKERS".to_string(), "2".to_string())]);
        let logged = Side::stock().environment(Some(Path::new("/l")));
        assert!(logged.contains(&("GC_LOG_FILE".into(), "/l".into())));
    }

    #[test]
    fn options_and_log_go_into_one_variable() {
        let side = Side {
            name: "x",
            library: Some("/lib".into()),
            options: vec!["stress=3".into()],
            environment: vec![],
        };
        let all = side
            .with_options(["sweep=eager"])
            .environment(Some(Path::new("/l")));
        assert!(all.contains(&("LD_PRELOAD".into(), "/lib".into())));
        assert!(all.contains(&(
            "GLEANER_OPTIONS".into(),
            "stress=3,sweep=eager,log=/l".into()
        )));
    }

    #[test]
    fn a_setting_without_a_value_is_refused() {
        assert!(
            Side::stock()
                .with_environment(&["GC_MARKERS".into()])
                .is_err()
        );
    }
}
