//! Cycles of marking in steps, in words and as a table.

use std::fmt::Write as _;

use gleaner_eventlog::{Cycle, Process, Utilisation};

use crate::words::{counted, escaped, percent, size, time};

/// The headings of the table; the first [`WORDS`] are of text.
pub(super) const HEADINGS: [&str; 10] = [
    "why it began",
    "why it ended",
    "began after",
    "lasted",
    "left to the program",
    "stops",
    "steps",
    "processors",
    "waited for steps",
    "allocated",
];
pub(super) const WORDS: usize = 2;

/// The cycles of a process, all together.
pub(super) struct Together {
    pub(super) count: u64,
    /// Nanoseconds from their first stops to their last.
    pub(super) lasted: u64,
    pub(super) overtaken: u64,
}

impl Together {
    pub(super) fn of(process: &Process) -> Together {
        let all = process.cycles();
        let sum = |sum: u64, cycle: &Cycle| sum.saturating_add(cycle.duration());
        Together {
            count: all.len() as u64,
            lasted: all.iter().fold(0, sum),
            overtaken: all.iter().filter(|cycle| cycle.is_overtaken()).count() as u64,
        }
    }
}

/// A share in whole percent.
fn share(of_program: f64) -> String {
    format!("{:.0} %", of_program.max(0.0) * 100.0)
}

/// What there is to say of all of them.
pub(super) fn caption(process: &Process) -> String {
    let (all, pauses) = (process.cycles(), process.utilisation());
    let together = Together::of(process);
    let (steps, stepped, lost) = all.iter().fold((0, 0_u64, 0_u64), |sums, cycle| {
        (
            sums.0 + cycle.steps,
            sums.1.saturating_add(cycle.stepped_ns),
            sums.2.saturating_add(cycle.lost_ns),
        )
    });
    let least = all.iter().map(|cycle| left(cycle, &pauses));
    let least = least.fold(1.0, f64::min);
    let (first, last) = process.time();
    let mut text = format!(
        "{} lasted {} from first to last stop, {} of the time. The program had at least {} of each for itself. Threads \
         that allocate waited for {}, {} in all.",
        counted(together.count, "cycle"),
        time(together.lasted),
        percent(together.lasted, last - first),
        share(least),
        counted(steps, "step"),
        time(stepped)
    );
    if lost > 0 {
        let _ = write!(
            text,
            " For {} of that other threads of the machine had the processor.",
            time(lost)
        );
    }
    text
}

/// The share of a cycle that was the program's.
fn left(cycle: &Cycle, pauses: &Utilisation) -> f64 {
    pauses.share(cycle.start, cycle.end)
}

/// A row for each cycle.
pub(super) fn rows(process: &Process) -> Vec<Vec<String>> {
    let pauses = process.utilisation();
    let (first, _) = process.time();
    let row = |cycle: &Cycle| {
        vec![
            escaped(said(&cycle.began)),
            escaped(said(cycle.ended.as_deref().unwrap_or(""))),
            time(cycle.start.saturating_sub(first)),
            time(cycle.duration()),
            share(left(cycle, &pauses)),
            cycle.stops.to_string(),
            format!(
                "{}, {}, longest {}",
                cycle.steps,
                time(cycle.stepped_ns),
                time(cycle.longest_step_ns)
            ),
            cycle.workers.to_string(),
            waited(cycle),
            allocated(cycle),
        ]
    };
    process.cycles().iter().map(row).collect()
}

/// What a log says, or that it does not.
fn said(reason: &str) -> &str {
    match reason {
        "" => "(the log does not say)",
        reason => reason,
    }
}

/// Which threads waited for steps.
fn waited(cycle: &Cycle) -> String {
    match cycle.payers.values().max() {
        None => "-".into(),
        Some(most) => format!(
            "{}, {} at most",
            counted(cycle.payers.len() as u64, "thread"),
            time(*most)
        ),
    }
}

/// What was allocated, and was to be.
fn allocated(cycle: &Cycle) -> String {
    match (cycle.allocated, cycle.planned) {
        (None, None) => "-".into(),
        (Some(bytes), None) => size(bytes),
        (None, Some(planned)) => format!("of {} planned", size(planned)),
        (Some(bytes), Some(planned)) => format!("{} of {} planned", size(bytes), size(planned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(lines: &[&str]) -> Process {
        let mut process = Process::default();
        for line in lines {
            let line = format!("{{\"pid\":1,\"collection\":3,{line}}}");
            process.add(&serde_json::from_str(&line).unwrap());
        }
        process
    }

    const BEGINS: [&str; 5] = [
        r#""event":"start","start_ns":1000000,"reason":"in <time>""#,
        r#""event":"stop-world","start_ns":1000000,"duration_ns":1000000"#,
        r#""event":"pace","start_ns":2000000,"bytes":4194304"#,
        r#""event":"resume-world","start_ns":2000000,"duration_ns":1000000"#,
        r#""event":"mark-step","start_ns":6000000,"duration_ns":1000000,"workers":2,"lost_ns":250000,"thread":7"#,
    ];

    #[test]
    fn a_cycle_is_a_row_of_what_it_took_and_why() {
        let ends = [
            r#""event":"mark-step","start_ns":8000000,"duration_ns":2000000,"workers":1,"thread":8"#,
            r#""event":"stop-world","start_ns":20000000,"duration_ns":500000"#,
            r#""event":"cycle-end","start_ns":20500000,"bytes":1048576,"reason":"memory was used up before everything was marked""#,
            r#""event":"resume-world","start_ns":20500000,"duration_ns":500000"#,
        ];
        let process = process(&[&BEGINS[..], &ends].concat());
        assert_eq!(
            rows(&process),
            [[
                "in &lt;time&gt;",
                "memory was used up before everything was marked",
                "0 ns",
                "20.0 ms",
                "70 %",
                "2",
                "2, 3.00 ms, longest 2.00 ms",
                "2",
                "2 threads, 2.00 ms at most",
                "1.00 MiB of 4.00 MiB planned",
            ]]
        );
        assert_eq!(
            caption(&process),
            "1 cycle lasted 20.0 ms from first to last stop, 100 % of the time. The program had at least 70 % of each for \
             itself. Threads that allocate waited for 2 steps, 3.00 ms in all. For 250 µs of that other threads of the \
             machine had the processor."
        );
        let together = Together::of(&process);
        assert_eq!(
            (together.count, together.lasted, together.overtaken),
            (1, 20_000_000, 1)
        );
    }

    /// The first plan is that of the cycle, and a step that the log has within a stop is part of the stop.
    #[test]
    fn the_first_plan_the_longest_step_and_steps_outside_of_stops_count() {
        let more = [
            r#""event":"mark-step","start_ns":8000000,"duration_ns":500000,"workers":1"#,
            r#""event":"pace","start_ns":9000000,"bytes":1024"#,
            r#""event":"stop-world","start_ns":20000000,"duration_ns":500000"#,
            r#""event":"mark-step","start_ns":20600000,"duration_ns":9000000,"workers":1"#,
        ];
        let row = &rows(&process(&[&BEGINS[..], &more].concat()))[0];
        assert_eq!(
            [&*row[6], &*row[9]],
            ["2, 1.50 ms, longest 1.00 ms", "of 4.00 MiB planned"]
        );
    }

    #[test]
    fn the_least_that_the_program_had_is_that_of_its_worst_cycle() {
        let ends = |at: u64, stopped: u64| {
            [
                format!(r#""event":"stop-world","start_ns":{at},"duration_ns":0"#),
                format!(r#""event":"cycle-end","start_ns":{at},"reason":"all is marked""#),
                format!(
                    r#""event":"resume-world","start_ns":{},"duration_ns":0"#,
                    at + stopped
                ),
            ]
        };
        let second = [
            r#""event":"start","start_ns":41000000"#.to_string(),
            r#""event":"stop-world","start_ns":41000000,"duration_ns":0"#.to_string(),
            r#""event":"pace","start_ns":41000000,"bytes":1"#.to_string(),
            r#""event":"resume-world","start_ns":41000000,"duration_ns":0"#.to_string(),
        ];
        let [first_end, second_end] = [ends(20_000_000, 9_000_000), ends(60_000_000, 0)];
        let first = BEGINS.map(String::from);
        let all = [&first[..], &first_end, &second, &second_end].concat();
        let lines: Vec<_> = all.iter().map(|line| &**line).collect();
        let process = process(&lines);
        let pauses = process.utilisation();
        let shares: Vec<_> = process
            .cycles()
            .iter()
            .map(|cycle| share(left(cycle, &pauses)))
            .collect();
        assert_eq!(shares.len(), 2);
        assert_ne!(shares[0], shares[1]);
        let said = format!("The program had at least {} of each", shares[0]);
        let text = caption(&process);
        assert!(text.contains(&said), "{shares:?}: {text}");
    }

    #[test]
    fn what_the_log_does_not_say_is_not_made_up() {
        let begun = process(&BEGINS);
        let row = &rows(&begun)[0];
        assert_eq!(row.len(), HEADINGS.len());
        assert_eq!(
            [&*row[1], &*row[8], &*row[9]],
            [
                "(the log does not say)",
                "1 thread, 1.00 ms at most",
                "of 4.00 MiB planned"
            ]
        );
        assert_eq!(Together::of(&begun).overtaken, 0);
        let older = process(&[r#""event":"mark-step","start_ns":6000000,"duration_ns":1000000"#]);
        let row = &rows(&older)[0];
        assert_eq!(
            [&*row[0], &*row[8], &*row[9]],
            ["(the log does not say)", "-", "-"]
        );
    }
}
