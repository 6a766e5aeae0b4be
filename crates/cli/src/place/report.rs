//! What `--stats` prints when the program has ended.

use std::fmt::Write as _;
use std::time::Duration;

use gleaner_place::{Energy, Hotspot, Placement, Processors, Told, Usages};
use rustix::time::{ClockId, clock_gettime};

/// A line for each role, on `processors` processors, what was not seen, and what placing took itself, with `guarding`,
/// what the guard took. `total` is the processor time of the processes that have ended, in seconds.
pub(super) fn table(
    placement: Placement,
    processors: usize,
    usages: &Usages,
    total: Option<f64>,
    wall: Duration,
    guarding: Duration,
) -> String {
    let mut text = format!(
        "gleaner place: placement={}, {:.2} s on {processors} processors\n  {:12} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n",
        placement.name(),
        wall.as_secs_f64(),
        "role",
        "threads",
        "time, s",
        "waited",
        "preempted",
        "moved",
        "cycles",
        "misses",
        "seen on",
    );
    let mut seen = 0.0;
    for (role, usage) in usages {
        seen += usage.seconds();
        let known = |count: Option<u64>, write: fn(u64) -> String| count.map_or("-".into(), write);
        let _ = writeln!(
            text,
            "  {:12} {:>7} {:>10.2} {:>9} {:>9} {:>9} {:>9} {:>9}  {}",
            role.name(),
            usage.threads,
            usage.seconds(),
            usage.voluntary,
            usage.involuntary,
            known(usage.migrations, |count| count.to_string()),
            known(usage.cycles, short),
            known(usage.misses, short),
            usage.processors
        );
    }
    if let Some(total) = total {
        let unseen = (total - seen).max(0.0);
        let _ = writeln!(
            text,
            "  {:12} {:>7} {unseen:>10.2}  since the last look at a thread, and of threads between two looks",
            "not seen", ""
        );
    }
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9 + guarding.as_secs_f64();
    let share = own / (wall.as_secs_f64() * processors.max(1) as f64);
    let _ = writeln!(
        text,
        "  {:12} {:>7} {own:>10.3}  {:.2} % of wall time x processors",
        "placing",
        "",
        share * 100.0
    );
    text
}

/// A count in at most six letters.
fn short(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}k", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// A line about what the processors took.
pub(super) fn energy(energy: &Energy) -> String {
    format!(
        "  {:12} {:>7} {:>10.2}  J, of {} processor packages, with all that ran on them\n",
        "energy",
        "",
        energy.joules(),
        energy.packages()
    )
}

/// The most processes that have a line.
const MOST_LINES: usize = 8;

/// A line for each process that ran HotSpot: what HotSpot has decided by itself, whether it was told of fewer
/// processors than `all`, and why. `limits` are the processors that the settings leave. `told` gives the number of
/// which a process is told, for the number of processors that it may run on.
pub(super) fn runtimes<'h>(
    hotspots: impl Iterator<Item = &'h Hotspot>,
    all: usize,
    limits: &Processors,
    told: impl Fn(usize) -> usize,
) -> String {
    let describe = |hotspot: &Hotspot| {
        let (count, why) = match hotspot.told {
            Told::ByOption(count) => (count, "as its option ActiveProcessorCount says"),
            Told::ByAffinity(allowed) if allowed == limits.count() => {
                (told(allowed), "as processors and sockets limit it")
            }
            Told::ByAffinity(allowed) => (told(allowed), "as it was put there by what started it"),
        };
        let line = format!(
            "  {:12} {:>7}  {hotspot}, told of {count} processor{}",
            "HotSpot",
            hotspot.process,
            if count == 1 { "" } else { "s" },
        );
        match told(all) {
            without if without == count => format!("{line}\n"),
            without => format!(
                "{line} of {without}, {why}; by that it chose its collector and numbers of threads\n"
            ),
        }
    };
    let lines: Vec<_> = hotspots.map(describe).collect();
    let mut text = lines[..lines.len().min(MOST_LINES)].concat();
    if let Some(more @ 1..) = lines.len().checked_sub(MOST_LINES) {
        let _ = writeln!(text, "  {:12} {more:>7}  more processes", "HotSpot");
    }
    text
}

/// A line about processes that began where their creator had been put.
pub(super) fn confined(count: u64) -> String {
    let noun = if count == 1 { "process" } else { "processes" };
    match count {
        0 => String::new(),
        _ => format!(
            "  {:12} {count:>7}  {noun} began on fewer processors, those of a thread that was placed, and saw these alone \
             until found\n",
            "confined"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_processor_counted_stands_in_the_table_and_a_dash_where_it_did_not() {
        let line = |usage: gleaner_place::Usage| {
            let usages = Usages::from([(gleaner_place::Role::Collector, usage)]);
            let wall = Duration::from_secs(1);
            let text = table(Placement::None, 2, &usages, None, wall, Duration::ZERO);
            let line = text
                .lines()
                .find(|line| line.contains("collector"))
                .unwrap();
            line.split_whitespace()
                .skip(5)
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        let counted = gleaner_place::Usage {
            migrations: Some(3),
            cycles: Some(25_400_000_000),
            misses: Some(12_345),
            processors: [1].into_iter().collect(),
            ..Default::default()
        };
        assert_eq!(line(counted), ["3", "25G", "12k", "1"]);
        assert_eq!(line(Default::default()), ["-", "-", "-"]);
        assert_eq!([9_999, 10_000_000].map(short), ["9999", "10M"]);
    }
}
