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
fn a_heap_whose_nursery_lies_in_place_is_one_that_moves_objects() {
    let marked = line("mark", 1, 20, 5, 0);
    assert!(!process_of(&marked).moves());
    let new = marked.replace(r#""reason":"""#, r#""reason":"new objects""#);
    assert!(process_of(&new).moves());
    assert!(process_of(&line("evacuation", 1, 20, 5, 0)).moves());
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

/// What a log says of its cycles: start, end, stops, steps, why each ended.
fn cycles_of(process: &Process) -> Vec<(u64, u64, u64, u64, Option<&str>)> {
    let all = process.cycles().iter();
    all.map(|it| (it.start, it.end, it.stops, it.steps, it.ended.as_deref()))
        .collect()
}

#[test]
fn an_older_log_has_its_cycles_by_their_steps() {
    let process = process_of(CYCLE);
    let cycles = process.cycles();
    assert_eq!(
        cycles_of(&process),
        [(100, 3200, 2, 2, Some("everything is marked"))]
    );
    let cycle = &cycles[0];
    assert_eq!(cycle.began, "enough was allocated");
    assert_eq!((cycle.stepped_ns, cycle.longest_step_ns), (500, 300));
    assert_eq!((cycle.planned, cycle.allocated), (None, None));
    assert!(cycle.payers.is_empty() && !cycle.is_overtaken());
    assert_eq!(cycle.duration(), 3100);
    // It knows of no goals.
    assert_eq!(
        (process.goals().stops, process.missed()),
        (0, String::new())
    );
    // A collection in one stop is none.
    let log = line("stop-world", 1, 10, 1, 0) + &line("end", 1, 20, 10, 0);
    assert_eq!(cycles_of(&process_of(&log)), []);
}

/// A cycle that the program overtakes, with the plan for it, two threads that wait for steps, and stops with a goal.
const OVERTAKEN: &str = r#"{"event":"start","pid":1,"collection":4,"start_ns":0,"duration_ns":0,"reason":"so that it ends"}
{"event":"stop-world","pid":1,"collection":4,"start_ns":0,"duration_ns":2000000,"goal_ns":10000000}
{"event":"mark","pid":1,"collection":4,"start_ns":2000000,"duration_ns":1000000,"workers":1}
{"event":"pace","pid":1,"collection":4,"start_ns":3000000,"duration_ns":0,"bytes":5000,"objects":9000,"reason":"in time"}
{"event":"resume-world","pid":1,"collection":4,"start_ns":3000000,"duration_ns":1000000}
{"event":"mark-step","pid":1,"collection":4,"start_ns":5000000,"duration_ns":600000,"objects":625000,"workers":2,"thread":70}
{"event":"mark-step","pid":1,"collection":4,"start_ns":6000000,"duration_ns":1000000,"objects":625000,"workers":1,"lost_ns":400000,"thread":71,"reason":"the processor was lost meanwhile"}
{"event":"mark-step","pid":1,"collection":4,"start_ns":8000000,"duration_ns":600000,"objects":625000,"workers":1,"lost_ns":100000,"thread":70}
"#;

/// Its last stop.
const OVERTAKEN_ENDS: &str = r#"{"event":"start","pid":1,"collection":4,"start_ns":20000000,"duration_ns":0,"reason":"marking in steps ends"}
{"event":"stop-world","pid":1,"collection":4,"start_ns":20000000,"duration_ns":3000000,"goal_ns":10000000}
{"event":"mark","pid":1,"collection":4,"start_ns":23000000,"duration_ns":20000000,"workers":2}
{"event":"cycle-end","pid":1,"collection":4,"start_ns":43000000,"duration_ns":40000000,"bytes":7000,"objects":3,"reason":"memory was used up before everything was marked"}
{"event":"resume-world","pid":1,"collection":4,"start_ns":43000000,"duration_ns":1000000}
{"event":"end","pid":1,"collection":4,"start_ns":50000000,"duration_ns":30000000,"bytes":64,"reason":"marking in steps ends"}
"#;

#[test]
fn a_cycle_has_its_plan_its_payers_and_why_it_ended() {
    let process = process_of(&(String::from(OVERTAKEN) + OVERTAKEN_ENDS));
    let overtaken = "memory was used up before everything was marked";
    assert_eq!(
        cycles_of(&process),
        [(0, 44_000_000, 2, 3, Some(overtaken))]
    );
    let cycle = &process.cycles()[0];
    assert!(cycle.is_overtaken());
    assert_eq!((cycle.planned, cycle.allocated), (Some(5000), Some(7000)));
    assert_eq!((cycle.workers, cycle.lost_ns), (2, 500_000));
    let payers: Vec<_> = cycle
        .payers
        .iter()
        .map(|(thread, ns)| (*thread, *ns))
        .collect();
    assert_eq!(payers, [(70, 1_200_000), (71, 1_000_000)]);
    // The end of a cycle is a sum, and takes no time of a stop.
    let phases: BTreeMap<_, _> = process.phases().collect();
    assert_eq!(phases["cycle-end"].stopped_ns, 0);
    assert_eq!(process.spread(false).sorted(), [4_000_000, 24_000_000]);
    assert_eq!(process.stopping().sorted(), [2_000_000, 3_000_000]);
}

#[test]
fn goals_that_were_missed_are_said() {
    let process = process_of(&(String::from(OVERTAKEN) + OVERTAKEN_ENDS));
    let goals = process.goals();
    assert_eq!((goals.stops, goals.missed, goals.overtaken), (2, 1, 1));
    let missed = process.missed();
    let lines: Vec<_> = missed.lines().collect();
    assert_eq!(lines.len(), 3, "{missed}");
    assert_eq!(
        lines[0],
        "1 of 2 stops was longer than the goal of 10 ms. The longest took 24 ms, 20 ms of it to mark what the steps of \
         its cycle had left."
    );
    assert!(lines[1].starts_with("1 of 1 cycles of steps was overtaken"));
    assert!(lines[2].contains("for 0.5 ms in all, and 1 of 3 steps took too long"));
}

#[test]
fn a_cycle_without_an_end_lasts_as_far_as_the_log_tells() {
    let process = process_of(OVERTAKEN);
    assert_eq!(cycles_of(&process), [(0, 8_600_000, 1, 3, None)]);
    // The log is cut off in its last stop.
    let cut: String = OVERTAKEN_ENDS
        .lines()
        .take(3)
        .map(|line| line.to_string() + "\n")
        .collect();
    let process = process_of(&(String::from(OVERTAKEN) + &cut));
    assert_eq!(cycles_of(&process), [(0, 23_000_000, 2, 3, None)]);
    assert_eq!(process.goals().stops, 1, "the last stop is not over");
    // Its beginning is missing.
    let rest: String = OVERTAKEN
        .lines()
        .skip(6)
        .map(|line| line.to_string() + "\n")
        .collect();
    let process = process_of(&rest);
    assert_eq!(cycles_of(&process), [(6_000_000, 8_600_000, 0, 2, None)]);
    assert_eq!(process.cycles()[0].began, "");
    // Another collection follows, of which nobody said that it ended the cycle.
    let next = line("start", 9, 9_000_000, 0, 0) + &line("mark-step", 9, 9_000_100, 5, 0);
    let process = process_of(&(rest + &next));
    assert_eq!(
        cycles_of(&process),
        [
            (6_000_000, 8_600_000, 0, 2, None),
            (9_000_100, 9_000_105, 0, 1, None)
        ]
    );
}

#[test]
fn a_cycle_that_is_given_up_ends_at_once() {
    let given_up = r#"{"event":"cycle-end","pid":1,"collection":4,"start_ns":9000000,"duration_ns":6000000,"bytes":10,"objects":3,"reason":"given up"}
"#;
    let next = OVERTAKEN.replace(
        "\"collection\":4,\"start_ns\":",
        "\"collection\":4,\"start_ns\":9",
    );
    let process = process_of(&(String::from(OVERTAKEN) + given_up + &next));
    let cycles = cycles_of(&process);
    assert_eq!(cycles.len(), 2, "the next one has the same number");
    assert_eq!(cycles[0], (0, 9_000_000, 1, 3, Some("given up")));
    assert_eq!((cycles[1].3, cycles[1].4), (3, None));
    // An end of which the beginning is missing is passed over.
    assert_eq!(cycles_of(&process_of(given_up)), []);
}

#[test]
fn what_is_done_in_idle_time_is_remembered() {
    let end = |reason: &str| {
        format!(
            "{{\"event\":\"end\",\"pid\":1,\"collection\":1,\"start_ns\":70,\"duration_ns\":9,\"reason\":\"{reason}\"}}\n"
        )
    };
    let log = line("give-back", 0, 5, 3, 4096)
        + &end("enough was allocated")
        + &end("nothing was allocated for a while")
        + &end("nothing had been allocated for a while")
        + &end("little is allocated any more");
    let idle: Vec<_> = process_of(&log)
        .idle()
        .iter()
        .map(|it| (it.at, it.given_back))
        .collect();
    assert_eq!(idle, [(5, Some(4096)), (70, None), (70, None), (70, None)]);
}

/// It is none, and the next one has its number.
#[test]
fn a_collection_that_was_given_up_is_told_apart() {
    let of = |event: &str, start: u64, duration: u64, reason: &str| {
        line(event, 1, start, duration, 64).replace("\"\"}", &format!("\"{reason}\"}}"))
    };
    let given_up = of("start", 10, 0, "nothing was allocated for a while")
        + &of("stop-world", 10, 500, "")
        + &of("resume-world", 510, 1, "")
        + &of("end", 511, 501, "given up: a thread did not stop");
    let process = process_of(&given_up);
    assert_eq!(process.pauses(), [501]);
    assert_eq!((process.live(), process.idle()), (&[][..], &[][..]));
    let start = of("start", 600, 0, "enough was allocated");
    let whole = start.clone() + &of("stop-world", 600, 5, "") + &of("end", 700, 100, "");
    let mut reader = Reader::new(start.as_bytes());
    let Some(Line::Event(next)) = reader.next().unwrap() else {
        panic!("no event");
    };
    assert!(!process.begins_anew(&next), "it goes on");
    let process = process_of(&(given_up + &whole));
    let known: Vec<_> = process.collections().collect();
    assert_eq!((known[0].0, known[0].1), (1, Some("enough was allocated")));
    assert_eq!((known.len(), known[0].2.whole_ns), (1, Some(100)));
    assert_eq!(process.live(), [(700, 64)]);
    // The last stop of a cycle was: the cycle goes on.
    let end = of("end", 8_700_000, 5, "given up: nothing was freed").replace(":1,\"s", ":4,\"s");
    let process = process_of(&(String::from(OVERTAKEN) + &end + OVERTAKEN_ENDS));
    assert_eq!((process.cycles().len(), process.cycles()[0].steps), (1, 3));
    let reason = process.collections().next().unwrap().1;
    assert_eq!(reason, Some("so that it ends"));
}
