//! `gleaner doctor`: whether a program uses libgc, which one and by which way, whether `gleaner exec` reaches it, and
//! what of the system limits its heap. Nothing is run.

mod system;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use gleaner_base::options::HeapKind;

use crate::arguments::DoctorArgs;
use crate::failure::{Failure, REFUSED};
use crate::inspect;
use crate::launch;
use crate::library::{self, Library};
use crate::loader::Loader;
use crate::options;
use crate::uses::{self, Use};
use crate::words;

/// What a finding means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// As it should be.
    Fine,
    /// It works, and this is to be known.
    Note,
    /// `gleaner exec` ends with this exit status.
    No(u8),
}

/// Something that was found.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    /// What it is about, in a word.
    subject: &'static str,
    text: String,
}

impl Finding {
    fn new(mark: Mark, subject: &'static str, text: impl Into<String>) -> Finding {
        let text = text.into();
        Finding {
            mark,
            subject,
            text,
        }
    }

    fn failed(subject: &'static str, failure: Failure) -> Finding {
        let (text, status) = failure.parts();
        Finding::new(Mark::No(status), subject, text)
    }
}

/// Runs `gleaner doctor`.
pub(crate) fn run(args: DoctorArgs) -> Result<ExitCode, Failure> {
    let loader = Loader::new();
    let library = library::find(&loader);
    let mut findings = Vec::new();
    if !args.program.is_empty() {
        look_at_program(&args.program, &loader, library.as_ref().ok(), &mut findings);
    }
    let path = library.as_ref().ok().map(|library| library.path.clone());
    findings.push(match library {
        Ok(library) => Finding::new(
            Mark::Fine,
            "gleaner",
            format!("{} takes its place", library.path.display()),
        ),
        Err(failure) => Finding::failed("gleaner", failure),
    });
    findings.extend(look_at_options());
    findings.extend(system::look_at_environment(path.as_deref()));
    findings.extend(system::look_at_limits());
    let status = findings.iter().find_map(|finding| match finding.mark {
        Mark::No(status) => Some(status),
        Mark::Fine | Mark::Note => None,
    });
    options::print(&text(&findings, &args.program, status.is_none()))?;
    Ok(status.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// What `gleaner exec` would find out about the program.
fn look_at_program(
    words: &[OsString],
    loader: &Loader,
    library: Option<&Library>,
    findings: &mut Vec<Finding>,
) {
    let found = inspect::find(&words[0])
        .and_then(|path| inspect::inspect(&path).map(|program| (path, program)));
    let (path, program) = match found {
        Ok(found) => found,
        Err(failure) => return findings.push(Finding::failed("program", failure)),
    };
    if let Some(Err(failure)) = library.map(|library| launch::check_fits(&program, library, loader))
    {
        return findings.push(Finding::failed("program", failure));
    }
    let text = match program.file == path {
        true => format!("{} can be preloaded into", path.display()),
        false => format!(
            "{} is a script for {}, which can be preloaded into",
            path.display(),
            program.file.display()
        ),
    };
    findings.push(Finding::new(Mark::Fine, "program", text));
    let used = uses::of(&program, loader);
    let mut text = used.text(&path, &program);
    let mark = match &used {
        Use::Linked(_) => Mark::Fine,
        Use::Opened(_, names) => {
            if names.iter().all(|name| name.contains('/')) {
                text += ". 'gleaner exec' does not reach a file that is opened by its path: let the program open \
                         libgc.so.1 alone, or put Gleaner's library there";
            }
            Mark::Note
        }
        Use::Inside(_) => Mark::No(REFUSED),
        Use::Not(_) => {
            text += ". If it starts or loads something that does, use 'gleaner exec --any'";
            Mark::No(REFUSED)
        }
    };
    findings.push(Finding::new(mark, "libgc", text));
}

/// The options that the environment has.
fn look_at_options() -> Option<Finding> {
    match options::effective(&[], Some(HeapKind::Libgc)) {
        Ok(effective) if effective.list.is_empty() => None,
        Ok(effective) => Some(Finding::new(
            Mark::Note,
            "options",
            format!("{} has {}", options::VARIABLE, effective.list),
        )),
        Err(failure) => Some(Finding::failed("options", failure)),
    }
}

/// The findings, one a paragraph, and what to type.
fn text(findings: &[Finding], program: &[OsString], works: bool) -> String {
    let mut text = String::new();
    for Finding {
        mark,
        subject,
        text: said,
    } in findings
    {
        let mark = match mark {
            Mark::Fine => "ok",
            Mark::Note => "note",
            Mark::No(_) => "no",
        };
        text += &words::hanging(&format!("{mark:<5} {subject:<9} "), said);
    }
    if !works || program.is_empty() {
        return text;
    }
    let quoted: Vec<_> = program
        .iter()
        .map(|word| launch::quoted(&word.to_string_lossy()))
        .collect();
    let called = std::env::args_os().next().unwrap_or_default();
    let called = launch::quoted(&Path::new(&called).to_string_lossy());
    let quoted = quoted.join(" ");
    text += &format!(
        "\nType\n  {called} exec -- {quoted}\n  {called} compare -- {quoted}    # time and memory, beside libgc\n"
    );
    text
}
