//! The page: one HTML file that needs nothing else, neither a network nor scripts.
//!
//! All text that comes from the log or from the command line goes through `escaped`.

use std::fmt::Write as _;
use std::path::Path;

use gleaner_eventlog::{Head, PhaseTotal, Process, Spread, is_known};

use super::cycles;
use super::found::{Found, Named};
use super::plots::{self, Row};
use super::summary::Summary;
use crate::failure::Failure;
use crate::words::{counted, escaped, percent, processes, size, time};

/// Processes that have a section of their own.
const MOST_SECTIONS: usize = 20;
/// Rows of a table, and bars of a plot.
const MOST_ROWS: usize = 100;
const MOST_BARS: usize = 20;
/// Widths of windows of which the text tells the utilisation.
const TOLD_WINDOWS: [(u64, &str); 4] = [
    (1_000_000, "1 ms"),
    (10_000_000, "10 ms"),
    (100_000_000, "100 ms"),
    (1_000_000_000, "1 s"),
];

/// The whole page.
pub(super) fn page(found: &Found, log: &Path) -> Result<String, Failure> {
    let name = log.file_name().unwrap_or(log.as_os_str()).to_string_lossy();
    let name = escaped(&name);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>What the collector did: {name}</title>\n<style>\n{}</style>\n</head>\n<body>\n\
         <h1>What the collector did</h1>\n<p>The log {name} has {} of {}{}.</p>\n",
        include_str!("page.css"),
        counted(found.events, "event"),
        processes(found.processes.len() as u64),
        match found.idle {
            0 => " that collected".to_string(),
            idle => format!(" that collected and {} that did not", processes(idle)),
        }
    );
    let notes = found.notes();
    if !notes.is_empty() {
        html += "<ul class=\"notes\">\n";
        for note in notes {
            let _ = writeln!(html, "<li>{}.</li>", long_escaped(&note));
        }
        html += "</ul>\n";
    }
    let summaries: Vec<_> = found
        .processes
        .iter()
        .map(|named| Summary::of(&named.process))
        .collect();
    if found.processes.len() > 1 {
        html += &table_of_processes(&found.processes, &summaries);
    }
    let both = found.processes.iter().zip(&summaries).take(MOST_SECTIONS);
    for (index, (named, summary)) in both.enumerate() {
        section(&mut html, index, named, summary)?;
    }
    let _ = writeln!(
        html,
        "<p class=\"faint\">Written by gleaner report, version {}.</p>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION")
    );
    Ok(html)
}

/// As `escaped`, for sentences, which may be longer than a name.
fn long_escaped(text: &str) -> String {
    text.split(' ').map(escaped).collect::<Vec<_>>().join(" ")
}

/// A table with these headings; the first `words` columns are text.
fn table(headings: &[&str], words: usize, rows: &[Vec<String>]) -> String {
    let mut html = String::from("<div class=\"scroll\"><table>\n<tr>");
    let class = |column: usize| {
        if column < words {
            " class=\"words\""
        } else {
            ""
        }
    };
    for (column, heading) in headings.iter().enumerate() {
        let _ = write!(html, "<th{}>{heading}</th>", class(column));
    }
    html += "</tr>\n";
    for row in rows.iter().take(MOST_ROWS) {
        html += "<tr>";
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{cell}</td>", class(column));
        }
        html += "</tr>\n";
    }
    html += "</table></div>\n";
    if rows.len() > MOST_ROWS {
        let _ = writeln!(
            html,
            "<p class=\"faint\">{} more are left out.</p>",
            rows.len() - MOST_ROWS
        );
    }
    html
}

fn table_of_processes(all: &[Named], summaries: &[Summary]) -> String {
    let row = |(index, (named, summary)): (usize, (&Named, &Summary))| {
        let name = escaped(&named.name);
        let name = if index < MOST_SECTIONS {
            format!("<a href=\"#p{index}\">{name}</a>")
        } else {
            name
        };
        let most = |both: Option<(u64, u64)>| both.map_or("-".into(), |(_, most)| size(most));
        vec![
            name,
            summary.count.to_string(),
            time(summary.run),
            percent(summary.stopped, summary.run),
            time(summary.stops.longest()),
            most(summary.live),
            most(summary.heap),
        ]
    };
    let rows: Vec<_> = all.iter().zip(summaries).enumerate().map(row).collect();
    let headings = [
        "process",
        "collections",
        "ran for",
        "stopped",
        "longest stop",
        "live at most",
        "heap at most",
    ];
    let mut html = table(&headings, 1, &rows);
    if all.len() > MOST_SECTIONS {
        let _ = writeln!(
            html,
            "<p class=\"faint\">The {MOST_SECTIONS} with the largest heaps are shown below.</p>"
        );
    }
    html
}

/// A plot with its heading, its legend and what there is to say of it.
fn figure(html: &mut String, heading: &str, plot: &str, caption: &str) {
    let _ = writeln!(
        html,
        "<h3>{heading}</h3>\n<figure>\n<div role=\"img\" aria-label=\"{heading}\">\n{plot}</div>\n<figcaption>{caption}</figcaption>\n</figure>"
    );
}

/// What a colour stands for.
fn key(class: &str, text: &str) -> String {
    format!("<span class=\"key {class}\"></span>{text}")
}

/// What the colour of steps stands for, where there are some.
fn key_of_steps(process: &Process, text: &str) -> String {
    match process.steps() {
        (0, _) => String::new(),
        _ => key("step", text),
    }
}

/// What bands stand for, where there are some.
fn key_of_cycles(summary: &Summary) -> String {
    match summary.cycles.count {
        0 => String::new(),
        _ => key("cycle", "a cycle of marking in steps"),
    }
}

fn section(
    html: &mut String,
    index: usize,
    named: &Named,
    summary: &Summary,
) -> Result<(), Failure> {
    let process = &named.process;
    let name = escaped(&named.name);
    let _ = writeln!(
        html,
        "<h2 id=\"p{index}\">{}</h2>\n{}<p class=\"lead\">{}</p>",
        capitalised(&name),
        process.head().map(facts).unwrap_or_default(),
        summary.sentences()
    );
    for advice in process.advice().lines() {
        let _ = writeln!(html, "<p class=\"advice\">{}</p>", long_escaped(advice));
    }
    for advice in summary.missed.lines() {
        let _ = writeln!(html, "<p class=\"advice\">{}</p>", long_escaped(advice));
    }
    sizes(html, process, summary)?;
    if process.spans().is_empty() {
        *html += "<p>Events in which the program was stopped are not in the log, so there is nothing to show of pauses.</p>\n";
    } else {
        pauses(html, process, summary)?;
        cycles_of(html, process);
        utilisation(html, process, summary)?;
    }
    phases(html, process)?;
    reasons(html, process)?;
    decisions(html, process);
    Ok(())
}

/// A heading begins with a capital letter, unless that would change a program's name.
fn capitalised(name: &str) -> String {
    match name.strip_prefix("process") {
        Some(rest) => format!("Process{rest}"),
        None => name.to_string(),
    }
}

/// What ran, with which options, on what.
fn facts(head: &Head) -> String {
    let mut list = String::from("<dl class=\"facts\">\n");
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(list, "<dt>{name}</dt><dd>{value}</dd>");
        }
    };
    fact("command", long_escaped(&head.command));
    let parents = match head.forked_after {
        None => String::new(),
        Some(0) => "a fork; no collection before it".into(),
        Some(last) => format!("a fork; its parents made collections 1 to {last}"),
    };
    fact("begun by", parents);
    fact("options", long_escaped(&head.options.replace(',', ", ")));
    fact(
        "version",
        format!("Gleaner {}", long_escaped(&head.version)),
    );
    let machine = format!(
        "{}, {}, {} of memory",
        long_escaped(&head.system),
        counted(head.processors, "processor"),
        size(head.memory)
    );
    fact("machine", machine);
    list + "</dl>\n"
}

fn sizes(html: &mut String, process: &Process, summary: &Summary) -> Result<(), Failure> {
    if process.capacity().is_empty() && process.live().is_empty() {
        return Ok(());
    }
    let mut caption = key("heap", &format!("size of the {}", summary.heap_name()))
        + &key("live", "what lived after each collection")
        + &key_of_cycles(summary);
    if !process.idle().is_empty() {
        let text =
            "idle time: a triangle where memory was given back, a cross where a collection ran";
        caption += &key("idle", text);
    }
    figure(html, "Heap and live size", &plots::heap(process)?, &caption);
    Ok(())
}

fn pauses(html: &mut String, process: &Process, summary: &Summary) -> Result<(), Failure> {
    let mut caption = key(
        "stop",
        "a stop: all threads wait, for as long as the bar is high",
    );
    if summary.stopping.total() > 0 {
        caption += &key("stopping", "of it, until all threads had stopped");
    }
    caption += &key_of_cycles(summary);
    figure(html, "Stops", &plots::timeline(process, false)?, &caption);
    if summary.steps.count() > 0 {
        let caption = key(
            "step",
            "a step: the thread that allocates marks a little, the others run",
        ) + &key_of_cycles(summary);
        figure(
            html,
            "Steps of marking beside the program",
            &plots::timeline(process, true)?,
            &caption,
        );
    }
    let plot = plots::distribution(&summary.stops, &summary.steps)?;
    let mut caption = key("stop", "stops");
    if summary.steps.count() > 0 {
        caption += &key("step", "steps");
    }
    caption += ". The curve says how many of a hundred were no longer; dots: the median, 90 and 99 of 100, the longest.";
    figure(html, "How long they were", &plot, &caption);
    let row = |name: &str, spread: &Spread| {
        let at = |percent| time(spread.at(percent));
        vec![
            name.to_string(),
            spread.count().to_string(),
            time(spread.total()),
            at(50.0),
            at(90.0),
            at(99.0),
            time(spread.longest()),
        ]
    };
    let mut rows = vec![row("stops", &summary.stops)];
    if summary.stopping.total() > 0 {
        rows.push(row("until all threads had stopped", &summary.stopping));
    }
    if summary.steps.count() > 0 {
        rows.push(row("steps", &summary.steps));
    }
    *html += &table(
        &[
            "",
            "number",
            "in all",
            "median",
            "90 of 100",
            "99 of 100",
            "longest",
        ],
        1,
        &rows,
    );
    Ok(())
}

/// The cycles of marking in steps, if there are some.
fn cycles_of(html: &mut String, process: &Process) {
    if process.cycles().is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<h3>Cycles of marking in steps</h3>\n<p>{}</p>",
        cycles::caption(process)
    );
    *html += &table(&cycles::HEADINGS, cycles::WORDS, &cycles::rows(process));
}

fn utilisation(html: &mut String, process: &Process, summary: &Summary) -> Result<(), Failure> {
    let found = process.utilisation();
    let told = TOLD_WINDOWS
        .iter()
        .filter(|(window, _)| *window <= summary.run);
    let told: Vec<_> = told
        .map(|(window, name)| {
            let share = found.least(*window).max(0.0) * 100.0;
            format!("{share:.1} % of any {name}")
        })
        .collect();
    let mut caption = "The least share of the time that the program had for itself in any window of that width, wherever it \
                       is laid (minimum mutator utilisation). Stops and steps both count."
        .to_string();
    if !told.is_empty() {
        let _ = write!(caption, " At the least it had {}.", told.join(", "));
    }
    figure(
        html,
        "What was left to the program",
        &plots::utilisation(process)?,
        &caption,
    );
    Ok(())
}

/// What a phase took in stops, in steps and beside the program.
fn parts_of(name: &str, total: &PhaseTotal) -> [u64; 3] {
    let rest = total.all_ns.saturating_sub(total.stopped_ns);
    match name {
        "mark-step" => [total.stopped_ns, rest, 0],
        _ => [total.stopped_ns, 0, rest],
    }
}

fn phases(html: &mut String, process: &Process) -> Result<(), Failure> {
    // The events at the end of a collection, or of a cycle, are about all of it.
    let mut all: Vec<_> = process
        .phases()
        .filter(|(name, _)| !["end", "cycle-end"].contains(name))
        .collect();
    all.sort_by_key(|(_, total)| std::cmp::Reverse(total.all_ns));
    let bars: Vec<Row> = all
        .iter()
        .filter(|(name, total)| total.all_ns > 0 && *name != "snapshot")
        .take(MOST_BARS)
        .map(|(name, total)| Row {
            label: name.to_string(),
            parts: parts_of(name, total),
            note: time(total.all_ns),
        })
        .collect();
    let caption = key("stop", "in stops")
        + &key_of_steps(process, "in steps of marking")
        + &key("beside", "beside the program")
        + ". The names are those of the log.";
    figure(html, "Phases", &plots::bars(&bars, false)?, &caption);
    let row = |(name, total): &(&str, &PhaseTotal)| {
        let unknown = if is_known(name) {
            ""
        } else {
            " (not known to this version)"
        };
        vec![
            escaped(name) + unknown,
            total.count.to_string(),
            time(total.all_ns),
            time(total.stopped_ns),
            time(total.longest_ns),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    *html += "<details><summary>All events</summary>\n";
    *html += &table(
        &["event", "number", "in all", "in stops", "longest"],
        1,
        &rows,
    );
    *html += "</details>\n";
    Ok(())
}

/// What collections of one reason took.
#[derive(Default)]
struct OfReason {
    collections: u64,
    stopped: u64,
    stepped: u64,
    longest: u64,
}

/// The reasons, that which took longest first.
fn by_reason(process: &Process) -> Vec<(&str, OfReason)> {
    let mut reason_of = std::collections::BTreeMap::new();
    let mut found = std::collections::BTreeMap::<&str, OfReason>::new();
    for (number, reason, _) in process.collections() {
        let reason = reason.unwrap_or("(no reason in the log)");
        reason_of.insert(number, reason);
        found.entry(reason).or_default().collections += 1;
    }
    for span in process.spans() {
        let Some(of) = reason_of
            .get(&span.collection)
            .and_then(|reason| found.get_mut(reason))
        else {
            continue;
        };
        if span.is_step {
            of.stepped = of.stepped.saturating_add(span.duration());
        } else {
            of.stopped = of.stopped.saturating_add(span.duration());
            of.longest = of.longest.max(span.duration());
        }
    }
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_by_key(|(_, of)| {
        std::cmp::Reverse((of.stopped.saturating_add(of.stepped), of.collections))
    });
    found
}

fn reasons(html: &mut String, process: &Process) -> Result<(), Failure> {
    let all = by_reason(process);
    let bars: Vec<Row> = all
        .iter()
        .take(MOST_BARS)
        .map(|(reason, of)| Row {
            label: reason.to_string(),
            parts: [of.stopped, of.stepped, 0],
            note: counted(of.collections, "collection"),
        })
        .collect();
    let caption = key("stop", "stops") + &key_of_steps(process, "steps of marking");
    figure(
        html,
        "Reasons for collections",
        &plots::bars(&bars, true)?,
        &caption,
    );
    let row = |(reason, of): &(&str, OfReason)| {
        vec![
            escaped(reason),
            of.collections.to_string(),
            time(of.stopped),
            time(of.stepped),
            time(of.longest),
        ]
    };
    let rows: Vec<_> = all.iter().map(row).collect();
    *html += &table(
        &["reason", "collections", "stops", "steps", "longest stop"],
        1,
        &rows,
    );
    Ok(())
}

fn decisions(html: &mut String, process: &Process) {
    let rows: Vec<_> = process
        .decisions()
        .map(|(event, reason, found)| {
            vec![
                escaped(event),
                escaped(reason),
                found.count.to_string(),
                time(found.all_ns),
            ]
        })
        .collect();
    if rows.is_empty() {
        return;
    }
    *html += "<details><summary>All reasons and decisions of the log</summary>\n";
    *html += &table(&["event", "reason", "number", "in all"], 2, &rows);
    *html += "</details>\n";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_divided_into_what_was_in_stops_and_what_was_not() {
        let total = PhaseTotal {
            count: 3,
            all_ns: 100,
            stopped_ns: 30,
            longest_ns: 60,
        };
        assert_eq!(parts_of("mark-step", &total), [30, 70, 0]);
        assert_eq!(parts_of("sweep", &total), [30, 0, 70]);
    }

    #[test]
    fn reasons_have_the_stops_and_the_steps_of_their_collections() {
        let mut process = Process::default();
        for (event, collection, start, took, reason) in [
            ("start", 1, 0, 0, "asked"),
            ("stop-world", 1, 0, 10, ""),
            ("resume-world", 1, 10, 10, ""),
            ("mark-step", 1, 50, 7, ""),
            ("start", 1, 60, 0, "everything is marked"),
            ("stop-world", 1, 60, 5, ""),
            ("resume-world", 1, 65, 5, ""),
            ("end", 1, 80, 0, ""),
            ("start", 2, 90, 0, "asked"),
            ("stop-world", 2, 90, 50, ""),
            ("resume-world", 2, 140, 0, ""),
            ("start", 3, 150, 0, ""),
            ("mark-step", 3, 150, 3, ""),
        ] {
            let line = format!(
                "{{\"event\":\"{event}\",\"pid\":1,\"collection\":{collection},\"start_ns\":{start},\
                 \"duration_ns\":{took},\"reason\":\"{reason}\"}}"
            );
            process.add(&serde_json::from_str(&line).unwrap());
        }
        let found = by_reason(&process);
        let numbers = |of: &OfReason| (of.collections, of.stopped, of.stepped, of.longest);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].0, numbers(&found[0].1)),
            ("asked", (2, 80, 7, 50))
        );
        assert_eq!(found[1].0, "(no reason in the log)");
        assert_eq!(numbers(&found[1].1), (1, 0, 3, 0));
    }
}
