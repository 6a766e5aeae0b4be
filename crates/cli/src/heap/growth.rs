//! `--since`: what grew since an older snapshot.

use std::fmt::Write as _;
use std::io::Write as _;

use gleaner_heapgraph::{Change, Growth, Snapshot};

use super::facts::Facts;
use super::names;
use crate::words::{counted, shown, size};

/// Rows of each table.
const MOST_ROWS: usize = 15;

/// Warns where the two are hardly of one program.
pub(super) fn say_differences(older: &Snapshot, newer: &Snapshot) {
    let say = |text: String| {
        // Where nobody can be told, the page still names both.
        let _ = writeln!(std::io::stderr(), "gleaner: {text}");
    };
    if older.name != newer.name {
        say(format!(
            "the older snapshot is of {}, the newer one of {}: what differs is not what grew",
            shown(&older.name),
            shown(&newer.name)
        ));
    } else if older.process != newer.process {
        say(format!(
            "the older snapshot is of process {}, the newer one of process {}: addresses are not compared",
            older.process, newer.process
        ));
    }
}

/// What grew, from the facts of both.
pub(super) fn growth(older: &Facts<'_>, newer: &Facts<'_>) -> Growth {
    Growth::new(older.side(), newer.side())
}

/// What grew, as text.
pub(super) fn text(older: &Facts<'_>, newer: &Facts<'_>) -> String {
    let growth = growth(older, newer);
    let about = |facts: &Facts<'_>| {
        let snapshot = facts.snapshot;
        format!(
            "{} in {}; {}, process {}, at {}",
            size(facts.reached.bytes),
            counted(facts.reached.objects, "object"),
            shown(&snapshot.name),
            snapshot.process,
            shown(&snapshot.when)
        )
    };
    let mut text = format!(
        "  then   {}\n  now    {}\n  grown  by {}",
        about(older),
        about(newer),
        signed(growth.all.growth())
    );
    if let Some(new) = growth.new {
        let _ = write!(
            text,
            "; {} in {} lie where no object began then",
            size(new.bytes),
            counted(new.objects, "object")
        );
    }
    text.push('\n');
    rows(
        &mut text,
        "What grew",
        names::of_classes(newer.snapshot),
        &growth.classes,
        names::class,
    );
    rows(
        &mut text,
        "Where it was allocated",
        "site",
        &growth.sites,
        |site| shown(site),
    );
    rows(
        &mut text,
        "What keeps it: what would be garbage without this root",
        "root",
        &growth.roots,
        |root| shown(root),
    );
    text
}

fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "+" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// A table of what changed, unless nothing did.
fn rows<T>(
    text: &mut String,
    heading: &str,
    what: &str,
    changes: &[(T, Change)],
    name: impl Fn(&T) -> String,
) {
    let mut changed: Vec<_> = changes
        .iter()
        .filter(|(_, change)| change.then != change.now)
        .collect();
    if changed.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n{heading}\n{:>12} {:>12} {:>12} {:>10} {:>10}  {what}",
        "grown by", "then", "now", "objects", "now"
    );
    // What shrank most is at the end.
    let left_out = changed.len().saturating_sub(MOST_ROWS);
    changed.truncate(MOST_ROWS);
    for (what, change) in changed {
        let _ = writeln!(
            text,
            "{:>12} {:>12} {:>12} {:>10} {:>10}  {}",
            signed(change.growth()),
            size(change.then.bytes),
            size(change.now.bytes),
            change.then.objects,
            change.now.objects,
            name(what)
        );
    }
    if left_out > 0 {
        let _ = writeln!(text, "  and {} that grew less or shrank", left_out);
    }
}
