//! The numbers below the paragraph.

use super::found::{Found, Quantity};
use super::paragraph::{interval, seconds};
use super::pauses::Pauses;
use crate::words::{size, time};

/// A line of the table: a name, a value for each side, and the ratio.
type Row = [String; 4];

/// The table, in lines.
pub(super) fn text(found: &Found) -> String {
    let [own, baseline] = &found.sides;
    let mut rows: Vec<Row> = vec![[
        String::new(),
        own.to_string(),
        baseline.to_string(),
        "ratio".into(),
    ]];
    rows.extend(found.time().map(|time| row("time", time, seconds)));
    let cpu = found.quantity(|run| run.cpu);
    rows.extend(cpu.map(|cpu| row("processor time", cpu, seconds)));
    rows.extend(memory(found));
    rows.extend(pauses(found));
    let widths = [0, 1, 2].map(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let mut text = String::new();
    for [name, own, baseline, ratio] in &rows {
        let line = format!(
            "  {name:<0$}  {own:>1$}  {baseline:>2$}  {ratio}",
            widths[0], widths[1], widths[2]
        );
        text += line.trim_end();
        text.push('\n');
    }
    text + &notes(found)
}

fn row(name: &str, quantity: Quantity, shown: impl Fn(f64) -> String) -> Row {
    let [own, baseline] = quantity.medians.map(shown);
    let ratio = quantity
        .ratio
        .map_or(String::new(), |ratio| interval(&ratio));
    [name.into(), own, baseline, ratio]
}

/// Peak memory; where it is not above this command's own, only that is known.
fn memory(found: &Found) -> Option<Row> {
    let bytes = |bytes: f64| size(bytes as u64);
    let all = found.quantity(|run| run.peak as f64)?;
    Some(match found.memory() {
        Some(memory) => row("peak memory", memory, bytes),
        None => {
            let shown = |peak: f64| match peak > found.floor as f64 {
                true => bytes(peak),
                false => format!("at most {}", bytes(peak)),
            };
            let unknown = Quantity { ratio: None, ..all };
            row("peak memory", unknown, shown)
        }
    })
}

fn pauses(found: &Found) -> Vec<Row> {
    if found.pauses.iter().all(Option::is_none) {
        return Vec::new();
    }
    let of = |name: &str, of: fn(&Pauses) -> u64, shown: fn(u64) -> String| {
        let values = found.pauses.each_ref().map(|side| side.as_ref().map(of));
        let ratio = match values {
            [Some(own @ 1..), Some(baseline @ 1..)] => {
                format!("{:.3}", own as f64 / baseline as f64)
            }
            _ => String::new(),
        };
        let [own, baseline] = values.map(|value| value.map_or("?".into(), shown));
        [name.into(), own, baseline, ratio]
    };
    vec![
        of("longest pause", |pauses| pauses.longest, time),
        of("all pauses", |pauses| pauses.all, time),
        of("pauses", |pauses| pauses.count, |count| count.to_string()),
    ]
}

/// What the numbers are.
fn notes(found: &Found) -> String {
    let mut text = String::new();
    if !found.rounds.is_empty() {
        text += "Times and memory are medians over the rounds. A ratio is the median of the rounds' ratios, and its interval\n\
                 holds the true one in 95 % of all comparisons.\n";
    }
    if found.pauses.iter().any(Option::is_some) {
        text += "Pauses are those of one run of each side, which is not timed.\n";
    }
    text
}
