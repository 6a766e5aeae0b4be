//! Cycles of marking in steps, idle time and goals that were missed, of made logs and of a real run.

use super::*;

#[test]
fn idle_time_and_missed_goals_are_shown() {
    let directory = Directory::new();
    let goal = |line: String| line.replace("\"objects\"", "\"goal_ns\":5000000,\"objects\"");
    let log = event(7, "start", 1, 0, 0, 0, "nothing was allocated for a while")
        + &goal(event(7, "stop-world", 1, 0, 1000, 0, ""))
        + &event(7, "roots", 1, 1000, 8000, 0, "")
        + &event(7, "resume-world", 1, 9000, 1000, 0, "")
        + &event(7, "resize", 1, 10_000, 10, 2 << 20, "")
        + &event(
            7,
            "end",
            1,
            10_010,
            10_010,
            1 << 20,
            "nothing was allocated for a while",
        )
        + &event(
            7,
            "give-back",
            1,
            20_000,
            100,
            1 << 20,
            "nothing was allocated for a while",
        );
    let said = assert_succeeds(&report(&directory, log));
    let idle = "1.00 MiB given back in 1 idle time, 1 idle collection";
    let missed = "1 of 1 stops was longer than the goal of 5 ms. The longest took 10 ms, 8 ms of it to scan roots";
    assert_has(&said, &[&format!("\n  idle   {idle}\n"), missed]);
    assert_has(
        &page(&directory),
        &[
            &format!("While it was idle: {idle}.</p>"),
            &format!("<p class=\"advice\">{missed}"),
            "<span class=\"key idle\"></span>idle time: a triangle",
            "fill=\"#CC79A7\"",
            "stroke=\"#CC79A7\"",
            "<span class=\"key stopping\"></span>of it, until all threads had stopped",
        ],
    );
}

/// A program with enough live objects that marking them takes longer than a millisecond.
const LIVES: &str = "
void GC_init(void);
void *GC_malloc(unsigned long);
void GC_gcollect(void);
struct node { struct node *next; long others[7]; };
struct node *kept;
int main(void) {
    GC_init();
    for (int round = 0; round < 100000; round++) {
        struct node *node = GC_malloc(sizeof *node);
        node->next = kept;
        kept = node;
    }
    for (int round = 0; round < 1500000; round++) {
        struct node *node = GC_malloc(sizeof *node);
        if (round % 50 == 0) { node->next = kept->next; kept->next = node; }
    }
    GC_gcollect();
    return 0;
}";

#[test]
fn a_program_that_is_marked_in_steps_has_the_cycles_that_its_log_tells_of() {
    let directory = Directory::new();
    let library = library();
    directory.compile("program", LIVES, &["-O0", library.to_str().unwrap()]);
    let log = directory.path("gc.jsonl");
    let output = gleaner()
        .args(["exec", "--stats", "--log", log.to_str().unwrap()])
        .args(["--opt", "generations=incremental", "--"])
        .arg(directory.path("program"))
        .env("GLEANER_LIBGC", &library)
        .env("GC_PAUSE_TIME_TARGET", "1")
        .output()
        .unwrap();
    assert_succeeds(&output);
    let statistics = stderr(&output);
    let (mut cycles, mut steps, mut stops, mut missed, mut began) = (0, 0, 0, 0, 0);
    let text = std::fs::read_to_string(&log).unwrap();
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| event[name].as_u64().unwrap_or(0);
        match event["event"].as_str().unwrap() {
            "stop-world" => {
                assert_eq!(number("goal_ns"), 1_000_000, "{line}");
                began = number("start_ns");
                stops += 1;
            }
            "resume-world" => {
                let took = number("start_ns") + number("duration_ns") - began;
                missed += u64::from(took > 1_000_000);
            }
            "mark-step" => {
                // It has one thread, which has the number of its process.
                assert_eq!(number("thread"), number("pid"), "{line}");
                steps += 1;
            }
            "cycle-end" => cycles += 1,
            _ => {}
        }
    }
    if !text.contains("\"event\":\"written\"") {
        eprintln!("not tested: {statistics}");
        return;
    }
    assert!(cycles > 0 && steps > 0, "{cycles} cycles, {steps} steps");
    assert_has(
        &statistics,
        &[
            &format!(" {steps} in {cycles} cycles ("),
            &format!(" of {stops} stops that had one"),
        ],
    );
    let output = report_on(&log, &[]);
    let said = assert_succeeds(&output);
    assert_eq!(stderr(&output), "", "each event is known");
    assert_has(&said, &[&format!("\n  cycles {cycles}, ")]);
    let sentence = format!("{missed} of {stops} stops w");
    assert_eq!(said.contains(&sentence), missed > 0, "{sentence}: {said}");
    let page = page(&directory);
    assert_eq!(page.contains(&sentence), missed > 0);
    assert_has(
        &page,
        &[
            "<h3>Cycles of marking in steps</h3>",
            "<span class=\"key cycle\"></span>",
            "opacity=\"0.2\" fill=\"#009E73\"",
        ],
    );
    // The end of a cycle is no work.
    assert!(!page.contains("<td class=\"words\">cycle-end</td><td>"));
    let table = page.split("<h3>Cycles of marking").nth(1).unwrap();
    let rows = table
        .split("</table>")
        .next()
        .unwrap()
        .matches("<tr>")
        .count();
    assert_eq!(rows - 1, cycles.min(100), "a row for each");
}
