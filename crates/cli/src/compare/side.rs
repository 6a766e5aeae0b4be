//! The two sides of a comparison: Gleaner under the options of the command line, and the baseline, which is stock libgc or
//! Gleaner under other options.

use std::fmt;
use std::path::Path;
use std::process::Command;

use gleaner_base::options::{HeapKind, TABLE, nearest};

use crate::arguments::CompareArgs;
use crate::failure::Failure;
use crate::launch::{Launch, quoted};
use crate::options::{self, Effective};

/// What `--against` says for the libgc that the program uses by itself.
const STOCK: &str = "stock";
/// What `--against` takes, for messages.
const TAKES: &str = "--against is 'stock' or a list of options, NAME=VALUE,...";

/// A side.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Side {
    /// The libgc that the program uses by itself.
    Stock,
    /// Gleaner.
    Gleaner {
        /// The options that the command line names for this side.
        named: String,
        /// These after those of the environment.
        list: String,
    },
}

/// The side that is asked about, and the baseline.
pub(super) fn sides(args: &CompareArgs) -> Result<[Side; 2], Failure> {
    let own = Side::gleaner(&args.options)?;
    let baseline = match args.against.trim() {
        STOCK => Side::Stock,
        list => {
            refuse_misspelt(list)?;
            Side::gleaner(&[list.to_string()]).map_err(|failure| failure.context(TAKES))?
        }
    };
    if own.is_like(&baseline) {
        return Err(Failure::usage(
            "both sides are Gleaner with the same options, so nothing is compared: say with --opt what one of them has, as in \
             'gleaner compare --against '' --opt markers=1 -- PROGRAM'",
        ));
    }
    Ok([own, baseline])
}

/// Refuses a word that is neither `stock` nor an option, with the nearest of all that it could have been. What has a value is an
/// option, for which the options' own message suggests.
fn refuse_misspelt(word: &str) -> Result<(), Failure> {
    let is_option = word.contains(['=', ',']) || TABLE.iter().any(|info| info.name == word);
    if word.is_empty() || is_option {
        return Ok(());
    }
    let options = TABLE
        .iter()
        .filter(|info| info.serves.includes(HeapKind::Libgc))
        .map(|info| info.name);
    let meant = match nearest(word, std::iter::once(STOCK).chain(options)) {
        Some(STOCK) => "; the nearest is 'stock'".to_string(),
        Some(name) => format!("; the nearest is '{name}', which has a value: write {name}=VALUE"),
        None => String::new(),
    };
    Err(Failure::usage(format_args!(
        "{TAKES}: '{word}' is neither{meant}"
    )))
}

impl Side {
    fn gleaner(items: &[String]) -> Result<Side, Failure> {
        let Effective { options, list } = options::effective(items, Some(HeapKind::Libgc))?;
        for (name, file) in [("log", options.log), ("snapshot", options.snapshot)] {
            if let Some(file) = file.as_str() {
                return Err(Failure::usage(format_args!(
                    "{name}={file} would be written in each of many runs: leave it out, and use 'gleaner exec --{name} \
                     FILE' for one run"
                )));
            }
        }
        let named: Vec<&str> = items
            .iter()
            .map(|item| item.trim())
            .filter(|item| !item.is_empty())
            .collect();
        Ok(Side::Gleaner {
            named: named.join(","),
            list,
        })
    }

    /// Whether a program runs the same on both sides.
    fn is_like(&self, other: &Side) -> bool {
        match (self, other) {
            (Side::Gleaner { list, .. }, Side::Gleaner { list: others, .. }) => list == others,
            _ => false,
        }
    }

    /// The program on this side.
    pub(super) fn command(&self, launch: &Launch) -> Command {
        match self {
            Side::Stock => launch.on_stock(),
            Side::Gleaner { list, .. } => launch.on_gleaner(list),
        }
    }

    /// The program on this side, with a log of what the collector does. Gleaner would write it on either side: so one that is there
    /// under the name of stock is found.
    pub(super) fn logged(&self, launch: &Launch, log: &Path) -> Command {
        let log = log.display();
        let mut command = self.command(launch);
        let own = format!("log={log}");
        let list = match self {
            Side::Gleaner { list, .. } if !list.is_empty() => format!("{list},{own}"),
            _ => own,
        };
        command.env(options::VARIABLE, list);
        if *self == Side::Stock {
            command
                .env("GC_PRINT_STATS", "1")
                .env("GC_LOG_FILE", log.to_string())
                // Its warnings stay where the program's are.
                .env("GC_ONLY_LOG_TO_FILE", "1");
        }
        command
    }

    /// The words that choose it, with a blank behind them.
    pub(super) fn words(&self) -> String {
        match self {
            Side::Gleaner { named, .. } if !named.is_empty() => format!("--opt {} ", quoted(named)),
            _ => String::new(),
        }
    }

    /// The words that try one more option against this side, with a blank behind them.
    pub(super) fn trial_of(&self, option: &str) -> String {
        let named = match self {
            Side::Gleaner { named, .. } => named,
            Side::Stock => "",
        };
        let (named, own) = (quoted(named), self.words());
        format!("--against {named} {own}--opt {} ", quoted(option))
    }
}

impl fmt::Display for Side {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Stock => to.write_str("libgc"),
            Side::Gleaner { named, .. } if named.is_empty() => to.write_str("Gleaner"),
            Side::Gleaner { named, .. } => write!(to, "Gleaner with {named}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gleaner(named: &str) -> Side {
        Side::Gleaner {
            named: named.into(),
            list: named.into(),
        }
    }

    #[test]
    fn sides_have_names() {
        assert_eq!(Side::Stock.to_string(), "libgc");
        assert_eq!(gleaner("").to_string(), "Gleaner");
        assert_eq!(gleaner("markers=1").to_string(), "Gleaner with markers=1");
    }

    #[test]
    fn a_word_that_is_no_option_is_refused_with_the_nearest_of_what_could_stand_there() {
        for (word, meant) in [
            ("stok", "'stok' is neither; the nearest is 'stock'"),
            ("Stock", "the nearest is 'stock'"),
            (
                "marker",
                "the nearest is 'markers', which has a value: write markers=VALUE",
            ),
        ] {
            let failure = format!("{:?}", refuse_misspelt(word).unwrap_err());
            assert!(failure.contains(meant), "{failure}");
        }
        for taken in ["", "markers", "markers=1", "stok=1", "markers=1,stok"] {
            assert!(refuse_misspelt(taken).is_ok(), "{taken}");
        }
    }

    #[test]
    fn a_trial_changes_one_option() {
        assert_eq!(
            gleaner("").trial_of("initial-heap=9m"),
            "--against '' --opt initial-heap=9m "
        );
        assert_eq!(
            gleaner("markers=1").trial_of("initial-heap=9m"),
            "--against markers=1 --opt markers=1 --opt initial-heap=9m "
        );
    }
}
