//! `gleaner options`, and how the effective options come about: defaults, then `GLEANER_OPTIONS`, then `--opt`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use gleaner_base::options::{Foreign, HeapKind, Options, TABLE, Tier};

use crate::arguments::OptionsArgs;
use crate::failure::Failure;
use crate::inherited;

/// The environment variable that the library reads.
pub(crate) const VARIABLE: &str = "GLEANER_OPTIONS";

/// Options with the text that says them.
pub(crate) struct Effective {
    /// The values.
    pub(crate) options: Options,
    /// The list that gives these values, for `GLEANER_OPTIONS`.
    pub(crate) list: String,
}

/// The options of the environment, then `items` in their order, each `name=value` or a list of these. Those that serve
/// the other heap alone are refused among the items, if these are for a heap of the kind `only`.
pub(crate) fn effective(items: &[String], only: Option<HeapKind>) -> Result<Effective, Failure> {
    let list = from_environment()?;
    if let Some(kind) = only {
        for item in items {
            // Two items may contradict each other, or what is in the environment: that is seen below.
            Options::default()
                .parse_list_of(kind, Foreign::Refused, item)
                .map_err(Failure::usage)?;
        }
    }
    let mut lists = vec![list.as_str()];
    lists.extend(items.iter().map(String::as_str));
    lists.retain(|list| !list.trim().is_empty());
    let list = lists.join(",");
    let mut options = Options::DEFAULT;
    options.parse_list(&list).map_err(Failure::usage)?;
    Ok(Effective { options, list })
}

/// The text of `GLEANER_OPTIONS`, checked by itself so that the message can name it.
fn from_environment() -> Result<String, Failure> {
    let Some(list) = std::env::var_os(VARIABLE) else {
        return Ok(String::new());
    };
    let list = list
        .into_string()
        .map_err(|_| Failure::usage(format_args!("{VARIABLE} is not UTF-8")))?;
    Options::default()
        .parse_list(&list)
        .map_err(|error| Failure::usage(format_args!("in {VARIABLE}: {error}")))?;
    Ok(list)
}

/// Runs `gleaner options`.
pub(crate) fn run(args: OptionsArgs) -> Result<(), Failure> {
    let effective = effective(&args.options, None)?;
    let text = if args.markdown {
        markdown()
    } else {
        table(&effective.options, args.all)
    };
    print(&text)
}

/// Prints what clap has to say: help or the version, which were asked for, or what is wrong; the exit status.
pub(crate) fn print_help(said: &clap::Error) -> ExitCode {
    inherited::end_on_closed_pipe();
    match said.print() {
        Err(error) if !said.use_stderr() => unwritten(&error).report(),
        _ => ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2)),
    }
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| unwritten(&error))
}

fn unwritten(error: &std::io::Error) -> Failure {
    Failure::refused(format_args!("standard output: {error}"))
}

/// The options by tier, each with its effective value: those for people who run a program and those that are set, or all.
fn table(options: &Options, all: bool) -> String {
    let mut text = String::from("Set with --opt NAME=VALUE or GLEANER_OPTIONS=NAME=VALUE,...\n");
    let mut hidden = 0;
    for tier in Tier::ALL {
        let of_tier = TABLE.iter().filter(|info| info.tier == tier);
        let (shown, left_out): (Vec<_>, Vec<_>) = of_tier
            .partition(|info| all || tier == Tier::User || (info.value)(options) != info.default());
        hidden += left_out.len();
        if !shown.is_empty() {
            let _ = writeln!(text, "\n{} options", tier.as_str());
        }
        for info in shown {
            let value = (info.value)(options);
            let default = info.default();
            let changed = if value == default {
                String::new()
            } else {
                format!(" (default {default})")
            };
            let _ = writeln!(text, "  {}={value}{changed}", info.name);
            let paper = info.paper.map(|paper| format!(" [{paper}]"));
            let _ = writeln!(text, "      {}{}", info.doc, paper.unwrap_or_default());
            let _ = writeln!(text, "      accepted: {}", info.accepted);
            let _ = writeln!(text, "      heaps: {}", info.serves.as_str());
        }
    }
    if hidden > 0 {
        let _ = writeln!(
            text,
            "\n{hidden} more options repeat what a paper measured, or help to find a bug: gleaner options --all shows them."
        );
    }
    text
}

/// The page docs/options.md.
fn markdown() -> String {
    let mut text = String::from(
        "# Options\n\n\
         This page is printed by `gleaner options --markdown`; a test keeps it current.\n\n\
         Set options with `gleaner exec --opt NAME=VALUE`, or for a program started in any way with the environment \
         variable `GLEANER_OPTIONS=NAME=VALUE,...`. Later settings win. Heaps of the native door also take options where \
         they are made, and there the environment wins. An unknown name or value is an error that names \
         the nearest valid one. `gleaner options` prints the effective values. Sizes are bytes and take the suffixes \
         k, m, g and t for powers of 1024.\n\n\
         The column `heap` says which heap an option serves: the one behind `libgc.so.1`, the precise one of the native \
         door, or both. Set on the other heap, an option is an error; in the environment, where a process may have both, \
         it is ignored by the heap that it does not serve.\n",
    );
    for tier in Tier::ALL {
        let _ = write!(
            text,
            "\n## {}\n\n| option | accepted | default | heap | what it does | paper |\n| --- | --- | --- | --- | --- | --- |\n",
            heading(tier)
        );
        for info in TABLE.iter().filter(|info| info.tier == tier) {
            let _ = writeln!(
                text,
                "| `{}` | {} | `{}` | {} | {} | {} |",
                info.name,
                info.accepted.to_string().replace('|', "\\|"),
                info.default(),
                info.serves.as_str(),
                info.doc,
                info.paper.unwrap_or("")
            );
        }
    }
    text
}

/// The heading of a tier's table.
fn heading(tier: Tier) -> &'static str {
    match tier {
        Tier::User => "For people who run a program",
        Tier::Tuning => "For people who measure",
        Tier::Testing => "For people who look for a bug",
    }
}
