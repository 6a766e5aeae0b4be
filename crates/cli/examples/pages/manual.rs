//! The manual pages: one for the command and one for each of its subcommands, as `git` and `cargo` have them. What
//! `--help` prints behind the options becomes sections with lists.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use gleaner_base::options::{TABLE, Tier};

/// The heading of all pages.
const MANUAL: &str = "Gleaner";

/// The name of each page's file, with its text.
pub(crate) fn pages(command: &Command) -> Vec<(String, String)> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    let source = format!("gleaner {}", command.get_version().unwrap_or_default());
    let commands: Vec<_> = std::iter::once(&command)
        .chain(command.get_subcommands())
        .collect();
    let names: Vec<_> = commands.iter().map(|command| name(command)).collect();
    commands
        .into_iter()
        .map(|command| {
            let own = name(command);
            let others = names.iter().filter(|name| **name != own);
            let others: Vec<_> = others.map(String::as_str).collect();
            (format!("{own}.1"), page(command, &source, &others))
        })
        .collect()
}

/// The name of a command's page.
fn name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_string()
}

/// A page that refers to `others`.
fn page(command: &Command, source: &str, others: &[&str]) -> String {
    let man = Man::new(command.clone());
    // The heading has no date: the same definitions are to give the same page.
    let mut text = format!(".TH {} 1 \"\" \"{source}\" \"{MANUAL}\"\n", name(command)).into_bytes();
    let write = |result: std::io::Result<()>| result.expect("memory takes what is written");
    write(man.render_name_section(&mut text));
    write(man.render_synopsis_section(&mut text));
    write(man.render_description_section(&mut text));
    if command.has_subcommands() {
        write(man.render_subcommands_section(&mut text));
    }
    write(man.render_options_section(&mut text));
    let mut roff = Roff::new();
    if let Some(help) = command.get_after_help() {
        sections(&mut roff, &help.to_string());
    }
    if name(command) == "gleaner-options" {
        options(&mut roff);
    }
    see_also(&mut roff, others);
    write(roff.to_writer(&mut text));
    String::from_utf8(text).expect("pages are made of texts")
}

/// What `--help` prints behind the options: paragraphs, each under a heading that ends with a colon. One that has none is a
/// hint for the terminal if it begins with `Try`, and a note otherwise.
fn sections(roff: &mut Roff, help: &str) {
    for paragraph in help.split("\n\n") {
        let (heading, rest) = match paragraph.split_once(':') {
            Some((heading, rest)) if is_heading(heading) => (heading, rest.trim_start_matches(' ')),
            _ if paragraph.starts_with("Try ") => continue,
            _ => ("Notes", paragraph),
        };
        // What is in parentheses are words of the command line.
        let (title, words) = heading.split_once(" (").unwrap_or((heading, ""));
        let words = words.trim_end_matches(')');
        let title = title.to_uppercase();
        let title = match words {
            "" => title,
            words => format!("{title} ({})", words.replace('-', "\\-")),
        };
        roff.control("SH", [title.as_str()]);
        let (text, rows): (Vec<_>, Vec<_>) = rest.lines().partition(|line| !line.starts_with(' '));
        for line in text.into_iter().filter(|line| !line.is_empty()) {
            roff.text([roman(line)]);
        }
        list(roff, &rows);
    }
}

/// Whether these are a few words that a colon may follow.
fn is_heading(words: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphabetic() || " ()-".contains(letter);
    words.len() <= 40 && words.chars().all(plain)
}

/// Rows of terms with what is said of them, two blanks or more between. A term that stands further right belongs to the
/// one before, and so does a line that has no term.
fn list(roff: &mut Roff, rows: &[&str]) {
    let mut columns: Vec<usize> = Vec::new();
    for row in rows {
        let cells = cells(row);
        let Some((&(column, last), terms)) = cells.split_last() else {
            continue;
        };
        let first = columns.first().copied().unwrap_or(column);
        // A lone cell at the left is a term of which nothing is said.
        let alone = terms.is_empty() && column <= first;
        for &(column, term) in terms.iter().chain(alone.then_some(&(column, last))) {
            while columns.last().is_some_and(|&last| last > column) {
                columns.pop();
                roff.control("RE", []);
            }
            if columns.last() != Some(&column) {
                if !columns.is_empty() {
                    roff.control("RS", []);
                }
                columns.push(column);
            }
            roff.control("TP", []);
            roff.text([bold(term)]);
        }
        if !alone {
            roff.text([roman(last)]);
        }
    }
    for _ in 1..columns.len() {
        roff.control("RE", []);
    }
}

/// The cells of a row, each with its column.
fn cells(row: &str) -> Vec<(usize, &str)> {
    let mut cells = Vec::new();
    let mut column = 0;
    for part in row.split("  ") {
        let start = column + (part.len() - part.trim_start().len());
        if !part.trim().is_empty() {
            cells.push((start, part.trim()));
        }
        column += part.len() + 2;
    }
    cells
}

/// The table of options, by the people whom they are for.
fn options(roff: &mut Roff) {
    roff.control("SH", ["OPTIONS OF HEAPS"]);
    roff.text([
        roman("Each with its default, in the form of "),
        bold("--opt"),
        roman(" and "),
        bold("GLEANER_OPTIONS"),
        roman("."),
    ]);
    for tier in Tier::ALL {
        let title = match tier {
            Tier::User => "For people who run a program",
            Tier::Tuning => "For people who measure",
            Tier::Testing => "For people who look for a bug",
        };
        roff.control("SS", [title]);
        for info in TABLE.iter().filter(|info| info.tier == tier) {
            roff.control("TP", []);
            roff.text([bold(info.name), roman(format!("={}", info.default()))]);
            roff.text([roman(info.doc)]);
            if let Some(paper) = info.paper {
                roff.text([roman(format!("[{paper}]"))]);
            }
            roff.control("br", []);
            roff.text([roman(format!("Accepted: {}.", info.accepted))]);
            roff.text([roman(format!("Heaps: {}.", info.serves.as_str()))]);
        }
    }
}

/// The other pages.
fn see_also(roff: &mut Roff, others: &[&str]) {
    roff.control("SH", ["SEE ALSO"]);
    for (index, name) in others.iter().enumerate() {
        let end = if index + 1 < others.len() {
            "(1),"
        } else {
            "(1)"
        };
        let reference: [Inline; 2] = [bold(*name), roman(end)];
        roff.text(reference);
    }
}
