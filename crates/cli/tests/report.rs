//! `gleaner report`: what the page and the summary say of a log, and logs that are none.

#[path = "report/cycles.rs"]
mod cycles;
#[allow(dead_code)]
mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use gleaner_base::events::Phase;
use support::*;

/// A line of a log.
fn event(
    pid: u32,
    name: &str,
    collection: u64,
    start_us: u64,
    took_us: u64,
    bytes: u64,
    reason: &str,
) -> String {
    format!(
        "{{\"event\":\"{name}\",\"pid\":{pid},\"collection\":{collection},\"start_ns\":{},\"duration_ns\":{},\
         \"bytes\":{bytes},\"objects\":0,\"workers\":2,\"reason\":\"{reason}\"}}\n",
        start_us * 1000,
        took_us * 1000
    )
}

/// A collection that stops the program for 10 ms.
fn collection(pid: u32, number: u64, at_us: u64, megabytes: u64, reason: &str) -> String {
    let bytes = megabytes << 20;
    event(pid, "start", number, at_us, 0, 0, reason)
        + &event(pid, "stop-world", number, at_us, 1000, 0, "")
        + &event(pid, "mark", number, at_us + 1000, 8000, 0, "as configured")
        + &event(pid, "resume-world", number, at_us + 9000, 1000, 0, "")
        + &event(pid, "resize", number, at_us + 10_000, 10, 2 * bytes, "")
        + &event(pid, "end", number, at_us + 10_010, 10_010, bytes, reason)
}

/// Two collections of a small process, one of a large one, and one that only grew.
fn log() -> String {
    collection(7, 1, 0, 1, "enough was allocated")
        + &collection(8, 1, 50_000, 100, "GC_gcollect")
        + &event(9, "heap-grow", 0, 60_000, 0, 4096, "too early to collect")
        + &collection(7, 2, 989_990, 3, "enough was allocated")
}

/// `gleaner report` on a log that is called gc.jsonl.
fn report(directory: &Directory, log: impl AsRef<[u8]>) -> Output {
    directory.file("gc.jsonl", log, 0o644);
    report_on(&directory.path("gc.jsonl"), &[])
}

fn report_on(log: &Path, more: &[&str]) -> Output {
    gleaner()
        .arg("report")
        .arg(log)
        .args(more)
        .output()
        .unwrap()
}

/// The page that was written.
fn page(directory: &Directory) -> String {
    let page = std::fs::read_to_string(directory.path("gc.html")).unwrap();
    for tag in [
        "svg", "table", "figure", "h2", "h3", "p", "tr", "td", "div", "details", "ul", "text",
    ] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    page
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
}

/// Checks that there is no page, and what is said.
#[track_caller]
fn assert_refused(log: impl AsRef<[u8]>, message: &str) {
    let directory = Directory::new();
    let output = report(&directory, log);
    assert_fails(&output, 2, message);
    assert_has(&stderr(&output), &["gc.jsonl"]);
    assert_eq!(stdout(&output), "");
    assert!(!directory.path("gc.html").exists());
}

#[test]
fn the_page_shows_each_process_that_collected_the_largest_first() {
    let directory = Directory::new();
    let output = report(&directory, log());
    let said = assert_succeeds(&output);
    assert_eq!(stderr(&output), "");
    let expected = format!(
        "process 8: 1 collection in 10.0 ms\n\
         \x20 stops  1, 10.0 ms in all (99.9 %); median 10.0 ms, 99 of 100 within 10.0 ms, longest 10.0 ms\n\
         \x20 wait   1.00 ms until all threads had stopped, longest 1.00 ms\n\
         \x20 live   100 MiB after the last collection, 100 MiB at the peak\n\
         \x20 heap   200 MiB at the end, 200 MiB at the peak\n\
         process 7: 2 collections in 1.00 s\n\
         \x20 stops  2, 20.0 ms in all (2.0 %); median 10.0 ms, 99 of 100 within 10.0 ms, longest 10.0 ms\n\
         \x20 wait   2.00 ms until all threads had stopped, longest 1.00 ms\n\
         \x20 live   3.00 MiB after the last collection, 3.00 MiB at the peak\n\
         \x20 heap   6.00 MiB at the end, 6.00 MiB at the peak\n\
         1 process that did not collect\n\
         the page is {}\n",
        directory.path("gc.html").display()
    );
    assert_eq!(said, expected);
    let page = page(&directory);
    assert_has(
        &page,
        &[
            "19 events of 2 processes that collected and 1 process that did not",
            "It ran for 1.00 s as far as the log tells, and collected 2 times. It was stopped for 2.0 % of that time: \
             2 stops took 20.0 ms, the longest 10.0 ms.",
            "<td class=\"words\">enough was allocated</td><td>2</td><td>20.0 ms</td><td>0 ns</td><td>10.0 ms</td>",
            "<td class=\"words\">mark</td><td>2</td><td>16.0 ms</td><td>16.0 ms</td><td>8.00 ms</td>",
            "At the least it had 0.0 % of any 1 ms, 0.0 % of any 10 ms, 90.0 % of any 100 ms, 98.0 % of any 1 s.",
        ],
    );
    let places = [
        "<h2 id=\"p0\">Process 8</h2>",
        "<h2 id=\"p1\">Process 7</h2>",
    ]
    .map(|head| page.find(head).unwrap());
    assert!(places[0] < places[1]);
    // Heap, stops, lengths, utilisation, phases, reasons; without steps nothing of them.
    assert_eq!(page.matches("<svg").count(), 12);
    assert!(!page.contains("Steps of marking beside") && !page.contains("key step"));
}

#[test]
fn the_page_needs_nothing_else() {
    let directory = Directory::new();
    assert_succeeds(&report(&directory, log()));
    let page = page(&directory).replace("http://www.w3.org/2000/svg", "");
    for other in [
        "<script", "http:", "https:", "url(", "@import", "<link", "<img",
    ] {
        assert!(!page.contains(other), "{other}");
    }
    assert_has(
        &page,
        &[
            "prefers-color-scheme: dark",
            "@media print",
            "default-src 'none'",
        ],
    );
    // The style sheet knows each colour of the plots.
    for kind in ["fill", "stroke"] {
        let begin = format!("{kind}=\"#");
        let colours: BTreeSet<_> = page.split(&begin).skip(1).map(|rest| &rest[..6]).collect();
        assert!(colours.len() > 3, "{colours:?}");
        for colour in colours {
            let rule = format!("svg [{begin}{colour}\"] {{ {kind}: var(--");
            assert!(colour == "222222" || page.contains(&rule), "{rule}");
        }
    }
}

#[test]
fn steps_are_shown_apart() {
    let directory = Directory::new();
    let log = log()
        + &event(7, "mark-step", 3, 995_000, 200, 0, "")
        + &event(7, "mark-step", 3, 999_000, 300, 0, "");
    let said = assert_succeeds(&report(&directory, log));
    assert_has(
        &said,
        &[
            "process 7: 3 collections",
            "  steps  2, 500 µs in all (0.05 %)",
            "longest 300 µs",
        ],
    );
    let page = page(&directory);
    assert_has(
        &page,
        &[
            "Steps of marking beside the program",
            "<span class=\"key step\"></span>in steps of marking",
            "Beside it, 2 steps of marking took 500 µs, the longest 300 µs",
            "<h3>Cycles of marking in steps</h3>\n<p>1 cycle lasted 4.30 ms from first to last stop",
            "<td class=\"words\">mark-step</td><td>2</td><td>500 µs</td><td>0 ns</td>",
        ],
    );
}

#[test]
fn text_of_a_log_is_only_text() {
    let directory = Directory::new();
    let evil = "</text><script>alert(1)</script>&amp;\\\"'\\u001b[2J";
    let log = collection(7, 1, 0, 1, evil) + &event(7, "<img src=x>", 1, 5, 3, 0, evil);
    let output = report(&directory, log);
    assert_succeeds(&output);
    let page = page(&directory);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{1b}'));
    assert!(!stderr(&output).contains('\u{1b}'));
    let shown = "&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;";
    assert_has(
        &page,
        &[shown, "&lt;img src=x&gt; (not known to this version)"],
    );
}

#[test]
fn events_of_another_version_are_shown_as_they_are() {
    let directory = Directory::new();
    let line = event(7, "compact", 1, 5000, 2000, 0, "fragmented")
        .replace("\"workers\"", "\"node\":[1],\"workers\"");
    let output = report(&directory, log() + &line + &line);
    assert_succeeds(&output);
    let note = "2 events of 1 kind that this version of Gleaner does not know, and shows as they are: compact.";
    assert_has(&stderr(&output), &["gc.jsonl: ", note]);
    let row = "compact (not known to this version)</td><td>2</td><td>4.00 ms</td>";
    assert_has(&page(&directory), &[note, row, "fragmented"]);
}

#[test]
fn a_log_that_tells_of_no_stops_has_a_page_without_them() {
    let directory = Directory::new();
    let log = event(7, "end", 3, 5000, 2000, 1 << 20, "asked");
    let said = assert_succeeds(&report(&directory, log));
    assert_has(
        &said,
        &["process 7: 1 collection in 0 ns\n  live   1.00 MiB"],
    );
    let page = page(&directory);
    assert_has(
        &page,
        &[
            "The log does not tell when it was stopped.",
            "so there is nothing to show of pauses",
            "1.00 MiB lived after the last collection",
        ],
    );
    assert!(!page.contains("What was left to the program"));
}

#[test]
fn a_line_that_is_cut_off_at_the_end_is_said() {
    let directory = Directory::new();
    let log = log();
    let output = report(&directory, &log[..log.len() - 40]);
    assert_succeeds(&output);
    let note = "the last line, 19, is cut off: the program was killed while it wrote it";
    assert_has(&stderr(&output), &[note]);
    assert_has(&page(&directory), &[note, "collected 2 times"]);
    // A whole line without its end is no such case.
    let output = report(&directory, log.trim_end());
    assert_succeeds(&output);
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_line_that_is_no_event_is_named_and_passed_over() {
    let directory = Directory::new();
    let mut lines: Vec<_> = log().lines().map(|line| line.as_bytes().to_vec()).collect();
    lines[2].truncate(30);
    lines.insert(4, b"\xff\xfe\0binary".to_vec());
    lines.insert(5, b"[1, 2]".to_vec());
    let output = report(&directory, lines.join(&b'\n'));
    let said = assert_succeeds(&output);
    assert_has(
        &said,
        &["process 7: 2 collections", "process 8: 1 collection"],
    );
    let notes = stderr(&output);
    assert_has(
        &notes,
        &[
            "line 3 is no event",
            "line 5 is no event",
            "line 6 is no event",
        ],
    );
    assert_eq!(notes.lines().count(), 3, "{notes}");
    assert_has(
        &page(&directory),
        &["line 3 is no event and was passed over: "],
    );
    let output = report(&directory, log() + &"nonsense\n".repeat(100));
    assert_succeeds(&output);
    assert_has(
        &stderr(&output),
        &[
            "line 24 is no event",
            "the same goes for 95 lines after these",
        ],
    );
}

#[test]
fn what_the_next_program_wrote_behind_a_cut_line_is_read() {
    let directory = Directory::new();
    let first = collection(7, 1, 0, 1, "");
    let glued = first[..first.len() - 40].to_string() + &collection(8, 1, 0, 1, "");
    let output = report(&directory, glued);
    assert_has(
        &assert_succeeds(&output),
        &["process 7: 1 collection", "process 8: 1 collection"],
    );
    assert_has(&stderr(&output), &["line 6 is no event"]);
}

#[test]
fn a_number_that_two_processes_had_is_told_apart() {
    let directory = Directory::new();
    let log = collection(7, 1, 0, 1, "")
        + &collection(7, 2, 20_000, 1, "")
        + &collection(7, 1, 90_000, 5, "");
    let said = assert_succeeds(&report(&directory, log));
    assert_has(
        &said,
        &[
            "process 7, number 2 of that name: 1 collection",
            "process 7, number 1 of that name: 2 collections",
        ],
    );
}

#[test]
fn a_log_of_which_there_is_nothing_to_show_is_refused() {
    assert_refused("", "is empty: its program wrote no event");
    let grown = event(9, "heap-grow", 0, 60_000, 0, 4096, "");
    assert_refused(
        grown.clone() + &grown,
        "has no collection, so there is nothing to show: 2 events of 1 process",
    );
    assert_refused(&grown, "GC_DONT_GC");
    assert_refused(
        "a text\n",
        "is no event log: line 1 is no event (expected value at column 1)",
    );
    assert_refused(
        "{\"event\":\"mark\",\"time_s\":1.5}\n",
        "(missing field `pid` at column 29)",
    );
    assert_refused("{\"event\":\"ma", "is no event log");
    assert_refused(b"\x7fELF\x02\x01\x01\0\0\0", "is no event log: line 1");
    let long: Vec<u8> = (0..3_000_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    assert_refused(long, "as are those after it");
    assert_refused(vec![0; 3_000_000], "longer than 64 KiB");
}

#[test]
fn a_log_that_cannot_be_read_is_named_with_the_remedy() {
    let directory = Directory::new();
    let output = report_on(&directory.path("gc.jsonl"), &[]);
    assert_fails(&output, 2, "there is no log ");
    assert_has(&stderr(&output), &["gc.jsonl -- PROGRAM' writes it"]);
    let output = report_on(&directory.path(""), &[]);
    assert_fails(&output, 2, "is a directory: name the log in it, such as ");
    let output = report_on(&directory.path("no/gc.jsonl"), &[]);
    assert_fails(&output, 2, "there is no log ");
    assert_fails(&run(&["report"]), 2, "<LOG>");
    assert_fails(
        &report_on(Path::new("/proc/self/mem"), &["-o", "/dev/null"]),
        2,
        "cannot be read: Input/output error",
    );
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let directory = Directory::new();
    let log = directory.file("gc.jsonl", log(), 0o644);
    let to = |output: &Path| report_on(&log, &["--output", output.to_str().unwrap()]);
    let refused = |output: &Path, why: &str| {
        assert_fails(
            &to(output),
            2,
            &format!("the page {} cannot be written: {why}", output.display()),
        );
    };
    refused(&directory.path("no/page.html"), "No such file or directory");
    refused(&directory.path(""), "Is a directory");
    refused(Path::new("/dev/full"), "No space left on device");
    let page = directory.path("page.html");
    assert_succeeds(&to(&page));
    assert!(page.exists() && !directory.path("gc.html").exists());
    let before = std::fs::read(&log).unwrap();
    assert!(!before.is_empty());
    std::fs::hard_link(&log, directory.path("hard")).unwrap();
    std::os::unix::fs::symlink(&log, directory.path("soft")).unwrap();
    for name in ["gc.jsonl", "hard", "soft"] {
        assert_fails(
            &to(&directory.path(name)),
            2,
            "the page would replace the log",
        );
    }
    assert_eq!(std::fs::read(&log).unwrap(), before);
    let named = directory.file("log.html", &before, 0o644);
    assert_fails(&report_on(&named, &[]), 2, "the page would replace the log");
}

#[test]
fn a_log_may_come_through_a_pipe() {
    let directory = Directory::new();
    let log = directory.file("gc.jsonl", log(), 0o644);
    let through = |more: &[&str]| {
        let reader = gleaner()
            .args(["report", "-"])
            .args(more)
            .stdin(
                Command::new("cat")
                    .arg(&log)
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap()
                    .stdout
                    .unwrap(),
            )
            .output();
        reader.unwrap()
    };
    assert_fails(
        &through(&[]),
        2,
        "/dev/stdin is no file that a page could lie beside",
    );
    let page = directory.path("page.html");
    let said = assert_succeeds(&through(&["--output", page.to_str().unwrap()]));
    assert_has(&said, &["process 8: 1 collection"]);
    assert!(page.exists());
    // A page beside it would be /dev/stdin.html.
    let mut of_file = gleaner();
    of_file.args(["report", "-"]);
    of_file.stdin(std::fs::File::open(&log).unwrap());
    assert_fails(
        &of_file.output().unwrap(),
        2,
        "/dev/stdin is no file that a page could lie beside: say where it goes with --output FILE",
    );
    of_file.args(["--output", page.to_str().unwrap()]);
    of_file.stdin(std::fs::File::open(&log).unwrap());
    assert_succeeds(&of_file.output().unwrap());
}

#[test]
fn many_processes_and_many_collections_make_a_page_of_some_size() {
    let directory = Directory::new();
    let mut log = String::new();
    for pid in 1..=30 {
        log += &collection(pid, 1, 0, 1, "");
    }
    for number in 2..=6000 {
        log += &collection(1, number, number * 20_000, 1 + number % 50, "");
    }
    let said = assert_succeeds(&report(&directory, log));
    assert_has(
        &said,
        &["process 1: 6000 collections", "and 27 more, on the page"],
    );
    let page = page(&directory);
    assert_eq!(page.matches("<h2 ").count(), 20);
    assert_has(
        &page,
        &[
            "The 20 with the largest heaps are shown below.",
            "process 30</td>",
        ],
    );
    assert!(page.len() < 2 << 20, "{}", page.len());
}

/// A program that is collected a few dozen times.
const COLLECTS: &str = "
void GC_init(void);
void *GC_malloc(unsigned long);
void GC_gcollect(void);
struct node { struct node *next; long others[7]; };
struct node *kept;
int main(void) {
    GC_init();
    for (int round = 0; round < 2000000; round++) {
        struct node *node = GC_malloc(sizeof *node);
        if (round % 50 == 0) { node->next = kept; kept = node; }
    }
    GC_gcollect();
    return 0;
}";

#[test]
fn a_real_program_has_the_collections_that_its_log_tells_of() {
    let directory = Directory::new();
    let library = library();
    directory.compile("program", COLLECTS, &["-O0", library.to_str().unwrap()]);
    let log = directory.path("gc.jsonl");
    let output = gleaner()
        .args(["exec", "--log", log.to_str().unwrap(), "--"])
        .arg(directory.path("program"))
        .env("GLEANER_LIBGC", &library)
        .output()
        .unwrap();
    assert_succeeds(&output);
    let mut ended = BTreeSet::new();
    let mut marked = 0;
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if event["event"] == "end" {
            ended.insert(event["collection"].as_u64().unwrap());
        }
        marked += u64::from(event["event"] == "mark");
    }
    assert!(ended.len() > 2 && marked > 2, "{ended:?}");
    let output = report_on(&log, &[]);
    let said = assert_succeeds(&output);
    assert_eq!(stderr(&output), "", "each event is known");
    assert_has(
        &said,
        &[
            &format!(": {} collections in ", ended.len()),
            "\n  stops ",
            "\n  live   ",
            "\n  heap   ",
        ],
    );
    let page = page(&directory);
    assert_has(
        &page,
        &[
            &format!("collected {} times", ended.len()),
            "<td class=\"words\">enough was allocated</td>",
            "<td class=\"words\">GC_gcollect</td><td>1</td>",
            &format!("<td class=\"words\">mark</td><td>{marked}</td>"),
        ],
    );
}

/// Runs `gleaner` with these words where no file may be longer than `blocks` times 512 bytes.
fn limited(directory: &Directory, blocks: u32, words: &[&str]) -> Output {
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    clean(Command::new("sh"))
        .args(["-c", &script, env!("CARGO_BIN_EXE_gleaner")])
        .args(words)
        .env("GLEANER_LIBGC", directory.path("libgc.so"))
        .current_dir(directory.path(""))
        .output()
        .unwrap()
}

#[test]
fn a_log_that_may_not_be_longer_ends_and_the_program_does_not() {
    let directory = Directory::new();
    let library = library();
    std::os::unix::fs::symlink(&library, directory.path("libgc.so")).unwrap();
    directory.compile("program", COLLECTS, &["-O0", library.to_str().unwrap()]);
    let output = limited(
        &directory,
        1,
        &["exec", "--log", "gc.jsonl", "--", "./program"],
    );
    assert_succeeds(&output);
    let log = directory.path("gc.jsonl");
    let message = format!(
        "gleaner: the event log {} cannot be written (files may not be longer: ulimit -f): it ends here\n",
        log.display()
    );
    assert_eq!(stderr(&output), message);
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.ends_with('\n') && text.len() <= 512, "{text}");
}

/// The first and the last line of a process.
fn ends(pid: u32, program: &str, exit_us: u64, advice: &str) -> (String, String) {
    let first = format!(
        "{{\"event\":\"options\",\"pid\":{pid},\"collection\":0,\"start_ns\":0,\"duration_ns\":0,\"reason\":\"stress=7,sweep=eager\",\
         \"command\":\"{program}\",\"version\":\"9.8.7\",\"system\":\"Linux 1.2.3 riscv64\",\"processors\":3,\
         \"memory_bytes\":{}}}\n",
        5_u64 << 30
    );
    (first, event(pid, "exit", 1, exit_us, 0, 0, advice))
}

#[test]
fn the_page_says_what_ran_and_what_is_advised() {
    let directory = Directory::new();
    let advice = "A larger heap <b>saves</b> 3 %.\\nAnother piece.";
    let (first, last) = ends(7, "/usr/bin/guile -s <script>.scm", 100_000, advice);
    let log = first + &collection(7, 1, 0, 1, "enough was allocated") + &last;
    let said = assert_succeeds(&report(&directory, log));
    assert_has(&said, &["guile, process 7: 1 collection in 100 ms"]);
    assert_has(
        &page(&directory),
        &[
            "<h2 id=\"p0\">guile, process 7</h2>",
            "<dd>/usr/bin/guile -s &lt;script&gt;.scm</dd>",
            "<dd>stress=7, sweep=eager</dd>",
            "<dd>Gleaner 9.8.7</dd>",
            "<dd>Linux 1.2.3 riscv64, 3 processors, 5.00 GiB of memory</dd>",
            "<p class=\"advice\">A larger heap &lt;b&gt;saves&lt;/b&gt; 3 %.</p>",
            "<p class=\"advice\">Another piece.</p>",
            // From the start of the heap to the exit.
            "It ran for 100 ms",
        ],
    );
}

/// A child of a fork has a part of its own, also where its number was another process's before.
#[test]
fn a_forked_child_is_a_process_of_its_own() {
    let directory = Directory::new();
    let (first, last) = ends(7, "program", 100_000, "");
    let forked = |pid: u32, after: u64| {
        let (line, _) = ends(pid, "program", 0, "");
        line.replace("\"options\"", "\"fork\"")
            .replace("\"collection\":0", &format!("\"collection\":{after}"))
    };
    let log = first
        + &collection(7, 1, 0, 1, "enough was allocated")
        + &forked(8, 1)
        + &collection(8, 2, 20_000, 1, "enough was allocated")
        + &last
        + &forked(7, 2)
        + &collection(7, 3, 200_000, 1, "enough was allocated");
    let said = assert_succeeds(&report(&directory, log));
    assert_has(&said, &["program, process 8: 1 collection in"]);
    assert_eq!(said.matches("program, process 7").count(), 2, "{said}");
    assert_has(
        &page(&directory),
        &[
            "<dt>begun by</dt><dd>a fork; its parents made collections 1 to 1</dd>",
            "<dt>begun by</dt><dd>a fork; its parents made collections 1 to 2</dd>",
        ],
    );
}

#[test]
fn what_snapshots_take_is_left_out_and_said() {
    let directory = Directory::new();
    let log = event(7, "start", 1, 0, 0, 0, "asked")
        + &event(7, "stop-world", 1, 0, 1000, 0, "")
        + &event(7, "snapshot", 1, 1000, 700_000, 4096, "")
        + &event(7, "resume-world", 1, 709_000, 1000, 0, "")
        + &event(7, "end", 1, 710_000, 710_000, 4096, "asked")
        + &event(7, "exit", 1, 740_000, 0, 0, "");
    let said = assert_succeeds(&report(&directory, log));
    assert_has(
        &said,
        &[
            "1 collection in 40.0 ms",
            "1, 10.0 ms in all (25.0 %)",
            "1 snapshot for 700 ms, left out",
        ],
    );
    let page = page(&directory);
    assert_has(
        &page,
        &[
            "stopped for 25.0 % of that time",
            "Writing 1 snapshot stopped it for another 700 ms",
            "<td class=\"words\">snapshot</td><td>1</td><td>700 ms</td>",
        ],
    );
    assert!(!page.contains(">snapshot</text>"), "it is among the bars");
}

#[test]
fn a_page_that_may_not_be_so_long_is_an_error() {
    let directory = Directory::new();
    directory.file("gc.jsonl", log(), 0o644);
    let output = limited(&directory, 1, &["report", "gc.jsonl"]);
    assert_fails(
        &output,
        2,
        "the page gc.html cannot be written: File too large",
    );
    let left: Vec<_> = std::fs::read_dir(directory.path("")).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the log: {left:?}");
    // One that is there stays.
    directory.file("gc.html", "the page of yesterday", 0o644);
    assert_fails(
        &limited(&directory, 1, &["report", "gc.jsonl"]),
        2,
        "cannot be written",
    );
    let page = std::fs::read_to_string(directory.path("gc.html")).unwrap();
    assert_eq!(page, "the page of yesterday");
    assert_eq!(std::fs::read_dir(directory.path("")).unwrap().count(), 2);
}

#[test]
fn the_documentation_says_what_each_event_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<_> = rows.map(|row| row.split('`').next().unwrap()).collect();
    let events: Vec<_> = Phase::ALL.iter().map(|phase| phase.as_str()).collect();
    assert_eq!(rows, events);
}
