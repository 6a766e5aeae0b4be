//! Writes the manual pages of the command and the completion of its words in bash, zsh and fish, from the same
//! definitions that the command reads its words by, and from the tables of options. `make build` runs it as
//! `pages DIRECTORY`.
//!
//! It is an example and no part of the command, so that the command has none of this in it when it starts a program.
#![deny(unsafe_code)]

#[allow(
    dead_code,
    reason = "only the definitions are asked, not what a user has said"
)]
#[path = "../../src/arguments.rs"]
mod arguments;
mod completion;
mod manual;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next(), arguments.next()) else {
        eprintln!("pages: one argument is wanted, the directory to write to, such as target/pages");
        return ExitCode::from(2);
    };
    let directory = Path::new(&directory);
    match write(directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pages: {}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes all pages; where each lies in the directory is where it lies below `share` when it is installed.
fn write(directory: &Path) -> io::Result<()> {
    let pages = manual::pages(&shown())
        .into_iter()
        .map(|(name, text)| (format!("man/man1/{name}"), text));
    for (name, text) in pages.chain(completion::scripts(shown())) {
        let file = directory.join(name);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

/// The command with those of its subcommands that are for users.
fn shown() -> Command {
    let all = arguments::Cli::command();
    let text = |text: Option<&clap::builder::StyledStr>| text.cloned().unwrap_or_default();
    Command::new("gleaner")
        .version(env!("CARGO_PKG_VERSION"))
        .about(text(all.get_about()))
        .after_help(text(all.get_after_help()))
        .subcommand_required(true)
        .args(all.get_arguments().cloned())
        .subcommands(
            all.get_subcommands()
                .filter(|command| !command.is_hide_set())
                .cloned(),
        )
}
