//! `gleaner bench`: one measured run, by the program that the lab uses, too.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::arguments::BenchArgs;
use crate::failure::Failure;

/// The program, beside this one.
const PROGRAM: &str = "gleaner-bench";

/// Becomes `gleaner-bench run`.
pub(crate) fn run(args: BenchArgs) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::refused(format_args!("cannot find this command's file: {error}"))
    })?;
    let program = own.with_file_name(PROGRAM);
    if !program.exists() {
        return Err(Failure::not_found(format_args!(
            "{} is not there: it is part of a build tree (make build), and not installed",
            program.display()
        )));
    }
    // Where it is the first word, the parser keeps it for itself.
    let separator = std::env::args_os().nth(2).filter(|word| word == "--");
    let error = Command::new(&program)
        .arg("run")
        .args(separator)
        .args(args.words)
        .exec();
    Err(Failure::not_executable(format_args!(
        "{}: {error}",
        program.display()
    )))
}
