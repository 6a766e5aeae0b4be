//! What is made of short logs.

use super::*;
use crate::{Line, Reader};

/// The process of a log that has one.
fn process_of(log: &str) -> Process {
    let mut process = Process::default();
    let mut reader = Reader::new(log.as_bytes());
    while let Some(line) = reader.next().unwrap() {
        match line {
            Line::Event(event) => process.add(&event),
            other => panic!("{other:?}"),
        }
    }
    process
}

/// A line of the log.
fn line(event: &str, collection: u64, start: u64, duration: u64, bytes: u64) -> String {
    format!(
        "{{\"event\":\"{event}\",\"pid\":1,\"collection\":{collection},\"start_ns\":{start},\
         \"duration_ns\":{duration},\"bytes\":{bytes},\"objects\":0,\"workers\":1,\"reason\":\"\"}}\n"
    )
}

/// A cycle stops the program twice, and for each of its steps; it is one collection.
const CYCLE: &str = r#"{"event":"heap-grow","pid":1,"collection":0,"start_ns":50,"duration_ns":0,"bytes":1000}
{"event":"start","pid":1,"collection":1,"start_ns":90,"duration_ns":0,"bytes":500,"reason":"enough was allocated"}
{"event":"write-watch","pid":1,"collection":1,"start_ns":91,"duration_ns":3}
{"event":"stop-world","pid":1,"collection":1,"start_ns":100,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":150,"duration_ns":10,"reason":"as configured"}
{"event":"resume-world","pid":1,"collection":1,"start_ns":160,"duration_ns":40}
{"event":"mark-step","pid":1,"collection":1,"start_ns":1000,"duration_ns":200,"objects":190}
{"event":"heap-grow","pid":1,"collection":0,"start_ns":1500,"duration_ns":0,"bytes":200}
{"event":"mark-step","pid":1,"collection":1,"start_ns":2000,"duration_ns":300,"objects":190}
{"event":"start","pid":1,"collection":1,"start_ns":3000,"duration_ns":0,"bytes":700,"reason":"everything is marked"}
{"event":"sweep","pid":1,"collection":1,"start_ns":3000,"duration_ns":9000}
{"event":"stop-world","pid":1,"collection":1,"start_ns":3000,"duration_ns":50}
{"event":"mark","pid":1,"collection":1,"start_ns":3100,"duration_ns":50,"reason":"as configured"}
{"event":"newer","pid":1,"collection":1,"start_ns":3150,"duration_ns":5,"reason":"why not"}
{"event":"resume-world","pid":1,"collection":1,"start_ns":3160,"duration_ns":40}
{"event":"newer","pid":1,"collection":1,"start_ns":3210,"duration_ns":5,"reason":"why not"}
{"event":"resize","pid":1,"collection":1,"start_ns":3250,"duration_ns":1,"bytes":5000}
{"event":"end","pid":1,"collection":1,"start_ns":3300,"duration_ns":300,"bytes":64}
"#;

#[test]
fn stops_and_steps_are_told_apart() {
    let process = process_of(CYCLE);
    let spans: Vec<_> = process
        .spans()
        .iter()
        .map(|span| (span.start, span.end, span.is_step))
        .collect();
    assert_eq!(
        spans,
        [
            (100, 200, false),
            (1000, 1200, true),
            (2000, 2300, true),
            (3000, 3200, false)
        ]
    );
    assert_eq!((process.count(), process.steps()), (1, (2, 1)));
    assert_eq!(process.spread(false).sorted(), [100, 200]);
    assert_eq!(process.spread(true).sorted(), [200, 300]);
    assert_eq!(process.utilisation().paused(), 800);
    assert_eq!((process.time(), process.allocated()), ((50, 3300), None));
}

#[test]
fn what_was_allocated_is_said_at_the_end_of_the_process_alone() {
    let exit = |bytes| {
        format!(
            r#"{{"event":"exit","pid":1,"collection":1,"start_ns":4000,"duration_ns":0{bytes},"reason":""}}"#
        )
    };
    let whole = process_of(&(String::from(CYCLE) + &exit(",\"bytes\":9000") + "\n"));
    assert_eq!(whole.allocated(), Some(9000));
    // An older library does not say it.
    let older = process_of(&(String::from(CYCLE) + &exit("") + "\n"));
    assert_eq!(older.allocated(), None);
}

#[test]
fn each_phase_has_what_it_took_and_what_of_that_in_stops() {
    let process = process_of(CYCLE);
    let phases: BTreeMap<_, _> = process.phases().collect();
    let of = |name: &str| {
        (
            phases[name].count,
            phases[name].all_ns,
            phases[name].stopped_ns,
        )
    };
    assert_eq!(of("mark"), (2, 60, 60));
    assert_eq!(phases["mark"].longest_ns, 50);
    assert_eq!(of("mark-step"), (2, 500, 0));
    assert_eq!(of("sweep"), (1, 9000, 0));
    assert_eq!(of("write-watch"), (1, 3, 0));
    assert_eq!(of("resize"), (1, 1, 0));
    assert_eq!(of("resume-world"), (2, 80, 80));
    // An event that is not known belongs to a stop if there is one.
    assert_eq!(of("newer"), (2, 10, 5));
}

#[test]
fn a_collection_has_the_reason_of_its_beginning() {
    let process = process_of(CYCLE);
    let found: Vec<_> = process.collections().collect();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].0, found[0].1), (1, Some("enough was allocated")));
    assert_eq!(found[0].2.whole_ns, Some(300));
    let marked = process.decisions().find(|(event, _, _)| *event == "mark");
    assert_eq!(
        marked.map(|(_, why, found)| (why, found.count, found.all_ns)),
        Some(("as configured", 2, 60))
    );
}

#[test]
fn the_size_before_the_first_decision_follows_from_it() {
    let process = process_of(CYCLE);
    assert_eq!(process.capacity(), [(50, 4800), (1500, 5000), (3251, 5000)]);
    assert_eq!(process.live(), [(3300, 64)]);
    assert!(!process.moves());
    let grown = process_of(&line("heap-grow", 0, 5, 0, 100));
    assert_eq!(grown.capacity(), [], "no more than a difference");
}

#[test]
fn a_line_that_is_missing_joins_no_pauses() {
    let log = line("stop-world", 1, 10, 1, 0)
        + &line("mark", 1, 20, 5, 0)
        + &line("start", 2, 1000, 0, 0)
        + &line("mark-step", 2, 2000, 5, 0)
        + &line("mark-step", 2, 3000, 5, 0)
        + &line("mark", 2, 4000, 7, 0)
        + &line("resume-world", 2, 4007, 1, 0);
    let process = process_of(&log);
    assert_eq!(process.pauses(), [15, 5, 5, 8]);
    assert_eq!(process.count(), 2);
}

#[test]
fn what_was_done_since_the_collection_before_is_no_pause() {
    let log = line("stop-world", 1, 10, 1, 0)
        + &line("copy", 1, 20, 5, 0)
        + &line("zeroing", 1, 25, 9000, 0)
        + &line("zeroing-ahead", 1, 25, 9000, 0)
        + &line("resume-world", 1, 25, 1, 0);
    let process = process_of(&log);
    assert_eq!(process.pauses(), [16]);
    assert!(process.moves());
    let zeroing = process
        .phases()
        .find(|(name, _)| *name == "zeroing")
        .unwrap();
    assert_eq!((zeroing.1.all_ns, zeroing.1.stopped_ns), (9000, 0));
}

#[test]
fn writing_a_snapshot_is_no_part_of_the_stop() {
    let log = line("start", 1, 5, 0, 0)
        + &line("stop-world", 1, 10, 10, 0)
        + &line("mark", 1, 20, 30, 0)
        + &line("snapshot", 1, 50, 1000, 0)
        + &line("weak", 1, 1050, 3, 0)
        + &line("resume-world", 1, 1060, 5, 0)
        + &line("end", 1, 1070, 1065, 0);
    let process = process_of(&log);
    assert_eq!(process.pauses(), [55]);
    assert_eq!(process.spread(false).sorted(), [55]);
    let utilisation = process.utilisation();
    assert_eq!(utilisation.paused(), 55);
    assert_eq!(utilisation.least(100), 1.0 - 55.0 / 100.0);
    assert_eq!((process.time(), process.snapshots()), ((5, 70), (1, 1000)));
    assert_eq!(process.live(), [(70, 0)]);
    let whole = process.collections().next().unwrap().2.whole_ns;
    assert_eq!(whole, Some(65));
    let phases: BTreeMap<_, _> = process.phases().collect();
    assert_eq!(phases["snapshot"].all_ns, 1000);
    assert_eq!(phases["snapshot"].stopped_ns, 0);
    assert_eq!(
        (phases["mark"].stopped_ns, phases["weak"].stopped_ns),
        (30, 3)
    );
    // Where the end of the stop is missing, and where the beginning is.
    let cut = process_of(&(line("stop-world", 1, 10, 10, 0) + &line("snapshot", 1, 50, 9, 0)));
    assert_eq!(cut.pauses(), [10]);
    let cut = process_of(&(line("snapshot", 1, 50, 9, 0) + &line("resume-world", 1, 60, 5, 0)));
    assert_eq!(cut.pauses(), [5]);
    // Outside of a stop the program waits for none.
    assert_eq!((cut.time(), cut.snapshots()), ((50, 65), (0, 0)));
}

#[test]
fn all_snapshots_of_a_collection_are_left_out_of_it() {
    let log = line("start", 1, 5, 0, 0)
        + &line("stop-world", 1, 10, 10, 0)
        + &line("snapshot", 1, 20, 1000, 0)
        + &line("snapshot", 1, 1020, 500, 0)
        + &line("resume-world", 1, 1530, 5, 0)
        + &line("end", 1, 1535, 1530, 0)
        + &line("start", 2, 1600, 0, 0)
        + &line("end", 2, 1620, 20, 0);
    let process = process_of(&log);
    let whole: Vec<_> = process.collections().map(|it| it.2.whole_ns).collect();
    assert_eq!(whole, [Some(30), Some(20)]);
    assert_eq!(process.snapshots(), (2, 1500));
}

#[test]
fn a_step_that_lost_the_processor_is_not_too_long() {
    let step = |reason: &str, duration: u64| {
        format!(
            "{{\"event\":\"mark-step\",\"pid\":1,\"collection\":1,\"start_ns\":{duration},\
             \"duration_ns\":{duration},\"objects\":100,\"reason\":\"{reason}\"}}\n"
        )
    };
    let process = process_of(&(step("", 150) + &step("", 151) + &step(PROCESSOR_LOST, 1000)));
    assert_eq!(process.steps(), (3, 1));
}

#[test]
fn a_log_without_phases_has_whole_collections() {
    let process = process_of(&(line("end", 1, 10, 5, 0) + &line("end", 2, 30, 7, 0)));
    assert_eq!((process.pauses(), process.count()), (vec![5, 7], 2));
}

#[test]
fn a_number_that_the_system_gave_twice_is_two_processes() {
    let mut process = process_of(CYCLE);
    let begins = |process: &Process, text: String| {
        process.begins_anew(&serde_json::from_str(&text).unwrap())
    };
    assert!(begins(&process, line("start", 1, 9000, 0, 0)));
    assert!(begins(&process, line("heap-grow", 0, 9000, 0, 0)));
    assert!(!begins(&process, line("start", 2, 9000, 0, 0)));
    assert!(!begins(&process, line("heap-grow", 1, 9000, 0, 0)));
    process.ended = 0;
    assert!(!begins(&process, line("start", 1, 9000, 0, 0)));
}

#[test]
fn names_beyond_reason_are_summed_up() {
    let mut log = String::new();
    for number in 0..2 * MOST_NAMES {
        log += &format!(
            "{{\"event\":\"e{number}\",\"pid\":1,\"collection\":1,\"reason\":\"r{number}\"}}\n"
        );
        log += &format!(
            "{{\"event\":\"start\",\"pid\":1,\"collection\":{},\"reason\":\"r{number}\"}}\n",
            number + 1
        );
    }
    let process = process_of(&log);
    assert_eq!(process.phases().count(), MOST_NAMES + 1);
    assert_eq!(process.decisions().count(), MOST_NAMES + 1);
    assert_eq!(process.reasons.len(), MOST_NAMES + 1);
    let counted: u64 = process.phases().map(|(_, total)| total.count).sum();
    assert_eq!(counted, 4 * MOST_NAMES as u64);
}

#[test]
fn numbers_without_sense_do_no_harm() {
    let most = u64::MAX;
    let mut log = String::new();
    for event in [
        "start",
        "stop-world",
        "mark",
        "mark-step",
        "resume-world",
        "resize",
        "heap-grow",
        "heap-shrink",
        "end",
    ] {
        log += &line(event, most, most, most, most);
        log += &line(event, 1, 5, most, most);
    }
    let process = process_of(&log);
    assert!(process.count() >= 1);
    assert!(process.utilisation().least(1_000_000) <= 1.0);
    assert!(process.spread(false).total() > most / 2);
}
