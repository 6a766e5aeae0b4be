//! The workloads on the precise heap, with the verifier on: what they come to is what a computation without a heap
//! comes to, or at least the same under every configuration.

mod models;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use gleaner_workloads::TABLE;
use models::{arrays, cipher, compiler, index, jbb, random, render, shared, trees, zeroing};

fn start(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gleaner-bench"))
        .arg("native")
        .args(arguments)
        .output()
        .unwrap()
}

fn run(arguments: &[&str]) -> serde_json::Value {
    let done = start(arguments);
    let (out, err) = (
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
    );
    let status = done.status;
    assert!(status.success(), "{arguments:?}: {status}: {out}{err}");
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

/// Runs it, which fails; what it says.
fn failure(arguments: &[&str]) -> String {
    let done = start(arguments);
    assert_eq!(done.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Arrays of 20 KB take pages. What is free in lines between small objects is no room for them: a heap that took it for such would
/// collect new objects for each few of them.
#[test]
fn large_objects_beside_small_ones_in_place_lead_to_few_collections() {
    let line = run(&[
        "jbb",
        "--threads",
        "1",
        "--heap",
        "23",
        "--workers",
        "1",
        "--opt",
        "old=mark-region,nursery=in-place",
    ]);
    let collections = line["collections"].as_u64().unwrap();
    assert!((10..500).contains(&collections), "{line}");
}

/// The result of a tiny run in each slot format, with one worker and with three. There were collections.
fn result(name: &str, heap: &str, more: &[&str]) -> String {
    let mut results = Vec::new();
    let mut collections = 0;
    for format in [None, Some("--compressed")] {
        for workers in ["1", "3"] {
            let mut arguments = vec![name, "--tiny", "--verify"];
            arguments.extend(["--heap", heap, "--workers", workers]);
            arguments.extend(format);
            arguments.extend(more);
            let line = run(&arguments);
            results.push(line["result"].as_str().unwrap().to_string());
            collections += line["collections"].as_u64().unwrap();
        }
    }
    results.dedup();
    assert_eq!(results.len(), 1, "{name} {more:?}: {results:?}");
    assert!(collections > 0, "{name} {more:?}");
    results.remove(0)
}

fn text(result: u64) -> String {
    format!("{result:016x}")
}

/// One mutator comes to what the model does, and three to the sum of what it does for each.
fn each_has_its_own(name: &str, heap: &str, model: fn(u32) -> u64) {
    assert_eq!(
        result(name, heap, &["--threads", "1"]),
        text(model(0)),
        "{name}"
    );
    let three = (0..3).map(model).fold(0, u64::wrapping_add);
    assert_eq!(
        result(name, heap, &["--threads", "3"]),
        text(three),
        "{name}"
    );
}

/// Any number of mutators comes to the same.
fn all_share(name: &str, heap: &str, expected: u64, more: &[&str]) {
    for threads in ["1", "2", "5"] {
        let all = [more, &["--threads", threads]].concat();
        assert_eq!(result(name, heap, &all), text(expected), "{name} {all:?}");
    }
}

#[test]
fn trees_lists_and_arrays_are_what_they_are_without_a_heap() {
    each_has_its_own("gcbench", "1", trees::gcbench);
    each_has_its_own("holes", "1", trees::gcbench);
    each_has_its_own("scopes", "1", trees::gcbench);
    each_has_its_own("queue", "1", trees::queue);
    each_has_its_own("refarray", "1", trees::refarray);
    each_has_its_own("quads", "1", trees::quads);
}

#[test]
fn large_arrays_hold_what_vectors_and_maps_hold() {
    each_has_its_own("bigmap", "2", arrays::bigmap);
    each_has_its_own("matrix", "1", arrays::matrix);
    each_has_its_own("snapshots", "2", arrays::snapshots);
    each_has_its_own("chart", "2", arrays::chart);
    each_has_its_own("db", "1", arrays::db);
}

/// How arrays lie changes neither what is counted nor what a workload comes to, nor does counting.
#[test]
fn accesses_are_counted_beside_the_same_result() {
    for name in ["bigmap", "matrix", "snapshots", "chart", "db", "gcbench"] {
        let plain = run(&[name, "--tiny"]);
        assert!(plain["array_report"].is_null());
        let [whole, pieces] = ["contiguous", "zray"].map(|arrays| {
            let options = format!("array-report=64k,arrays={arrays}");
            run(&[name, "--tiny", "--verify", "--opt", &options])
        });
        for line in [&whole, &pieces] {
            assert_eq!(line["result"], plain["result"], "{name}");
            let report = &line["array_report"];
            assert!(report["censuses"].as_u64() > Some(0), "{name}: {report}");
            let shares = [
                "loads_within",
                "loads_beyond",
                "stores_within",
                "stores_beyond",
            ];
            let all: f64 = shares
                .map(|share| report[share].as_f64().unwrap())
                .iter()
                .sum();
            assert!((all - 1.0).abs() < 1e-9, "{name}: {report}");
            let positions = report["positions"].as_array().unwrap().iter();
            let accesses: u64 = positions.map(|number| number.as_u64().unwrap()).sum();
            assert_eq!(report["accesses"], accesses, "{name}");
        }
        let [whole, pieces] = [&whole, &pieces].map(|line| &line["array_report"]);
        for same in ["positions", "copied_bytes", "large_allocated"] {
            assert_eq!(whole[same], pieces[same], "{name}: {same}");
        }
        assert!(whole["lazy"].is_null() && pieces["lazy"].is_number());
    }
    // References of 4 bytes have no code that counts accesses.
    let line = run(&[
        "bigmap",
        "--tiny",
        "--compressed",
        "--opt",
        "array-report=64k",
    ]);
    assert_eq!(line["array_report"]["accesses"], 0);
}

#[test]
fn programs_compute_what_they_say() {
    each_has_its_own("compiler", "3", compiler::compiler);
}

#[test]
fn programs_stand_a_collection_at_any_time() {
    for old in ["mark-compact", "mark-sweep", "mark-region"] {
        let options = format!("stress=5000,poison=on,quarantine=2,old={old}");
        let at_each = result("compiler", "4", &["--opt", &options]);
        assert_eq!(at_each, text(compiler::compiler(0)));
    }
}

#[test]
fn exactly_the_right_ephemerons_survive() {
    each_has_its_own("ephemerons", "2", trees::ephemerons);
}

#[test]
fn each_object_that_dies_is_finalized_once() {
    each_has_its_own("finalizers", "2", trees::finalizers);
}

#[test]
fn what_workers_do_with_each_other_is_counted_on_any_machine() {
    let counts = |workers: &str, options: &str| {
        let heap = ["cipher", "--tiny", "--heap", "1", "--workers", workers];
        let line = run(&[&heap[..], &["--opt", options]].concat());
        let collections = line["collections"].as_u64().unwrap();
        let counts = line["synchronisation"].clone();
        assert!(collections > 0 && counts["phases"].as_u64().unwrap() >= collections);
        assert!(counts["tasks"].as_u64().unwrap() > 0);
        counts
    };
    let free = counts("1", "parking=futex,task-queue=lock-free");
    assert_eq!(free["task_queue"], "lock-free");
    assert_eq!(free["parking"], "futex");
    for none in ["wakeups", "lock_acquisitions", "failed_cas"] {
        assert_eq!(free[none], 0, "{none}");
    }
    let alone = counts("1", "parking=monitor,task-queue=locked");
    let locks = |counts: &serde_json::Value| counts["lock_acquisitions"].as_u64().unwrap();
    let least = |counts: &serde_json::Value| {
        counts["tasks"].as_u64().unwrap() + counts["phases"].as_u64().unwrap()
    };
    assert_eq!(locks(&alone), least(&alone));
    let locked = counts(
        "4",
        "parking=monitor,task-queue=locked,topology=node:2 core:2",
    );
    assert_eq!(locked["task_queue"], "locked");
    assert_eq!(locked["parking"], "monitor");
    assert!(locks(&locked) > least(&locked));
}

#[test]
fn messages_arrive() {
    each_has_its_own("cipher", "1", cipher::cipher);
    all_share("producer", "3", shared::producer(), &[]);
    all_share("agents", "1", shared::agents(), &[]);
}

#[test]
fn many_threads_fit_into_a_tiny_heap() {
    each_has_its_own("tiny", "1", trees::tiny);
    let sixteen = (0..16).map(trees::tiny).fold(0, u64::wrapping_add);
    assert_eq!(result("tiny", "1", &[]), text(sixteen));
}

/// The workloads about zeroing.
const ARRAYS: [&str; 3] = ["initnone", "initfresh", "initstale"];

#[test]
fn code_that_asks_how_arrays_are_cut_comes_to_the_same() {
    for arrays in ["contiguous", "zray", "naive"] {
        let option = format!("arrays={arrays}");
        let line = run(&["matrix", "--tiny", "--any-arrays", "--opt", &option]);
        assert_eq!(line["result"], format!("{:016x}", arrays::matrix(0)));
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("mutator_s") > 0.0 && number("mutator_s") <= number("wall_s"));
    }
}

#[test]
fn code_is_chosen_for_how_arrays_are_cut() {
    for options in [
        "arrays=contiguous",
        "arrays=zray",
        "arrays=perf-zray",
        "arrays=naive",
        "arrays=naive-a",
        "arrays=naive-b",
        "arrays=zray,first-n=64,arraylet=256",
        "arrays=zray,array-kinds=references",
        "arrays=zray,array-kinds=primitives",
        "arrays=zray,array-guard=on",
        "arrays=naive,array-guard=on",
        "arrays=naive,array-kinds=primitives",
    ] {
        for refs in ["wide", "compressed"] {
            let options = format!("{options},refs={refs}");
            let line = run(&["matrix", "--tiny", "--opt", &options]);
            let expected = format!("{:016x}", arrays::matrix(0));
            assert_eq!(line["result"], expected, "{options}");
        }
    }
}

#[test]
fn fresh_arrays_are_zero_beside_any_working_set() {
    for name in ARRAYS {
        for (kilobytes, heap) in [("0", "1"), ("1", "1"), ("300", "3")] {
            for threads in [1, 3] {
                let model = |thread| zeroing::arrays(name, thread, kilobytes.parse().unwrap());
                let expected = (0..threads).map(model).fold(0, u64::wrapping_add);
                let threads = threads.to_string();
                let more = ["--threads", &threads, "--working-set", kilobytes];
                assert_eq!(result(name, heap, &more), text(expected), "{name} {more:?}");
            }
        }
    }
}

#[test]
fn fresh_arrays_are_zero_under_every_design() {
    for design in [
        "hot-path",
        "bulk",
        "non-temporal",
        "window",
        "concurrent",
        "concurrent-static",
        "concurrent-racing",
        "adaptive",
        "auto",
    ] {
        let options = format!("poison=on,zeroing={design}");
        for name in ARRAYS {
            let expected = (0..2)
                .map(|thread| zeroing::arrays(name, thread, 64))
                .fold(0, u64::wrapping_add);
            let more = ["--threads", "2", "--working-set", "64", "--opt", &options];
            assert_eq!(result(name, "1", &more), text(expected), "{name} {design}");
        }
    }
    let said = failure(&["initnone", "--tiny", "--opt", "zeroing=later"]);
    assert!(said.contains("zeroing") && said.contains("later"), "{said}");
}

/// Keeps all processors busy as long as it lives.
struct Neighbours(Arc<AtomicBool>);

impl Neighbours {
    fn new() -> Neighbours {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..2 * thread::available_parallelism().map_or(1, usize::from) {
            let over = over.clone();
            thread::spawn(move || while !over.load(Ordering::Relaxed) {});
        }
        Neighbours(over)
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The share is of processor time, on both sides: neighbours that take the processors away do not make it larger.
#[test]
fn zeroing_is_charged_for_processor_time_alone() {
    let _neighbours = Neighbours::new();
    for design in ["bulk", "non-temporal", "window", "concurrent"] {
        let option = format!("zeroing={design}");
        let line = run(&["initnone", "--tiny", "--iterations", "20", "--opt", &option]);
        let fact = |name: &str| line[name].as_f64().unwrap();
        let took = fact("zeroing_s") + fact("zeroing_ahead_s");
        assert!(took > 0.0 && took <= fact("cpu_s"), "{design}: {line}");
        assert!(fact("direct_zeroing_cost") <= 1.0, "{design}: {line}");
        assert!(fact("zeroing_gb_per_s") > 0.0, "{design}: {line}");
    }
}

#[test]
fn the_costs_are_of_what_was_done() {
    assert_eq!(
        result("costs", "1", &[]),
        text((0..10).fold(0, trees::chained))
    );
    let line = run(&["costs", "--tiny", "--heap", "1"]);
    assert!(line["create_s"].as_f64().unwrap() > 0.0 && line["plain_s"].as_f64().unwrap() > 0.0);
    assert!(line["store_adds_s"].is_f64());
    assert!(line["collections"].as_u64().unwrap() > 20);
}

#[test]
fn the_picture_is_the_same() {
    all_share("render", "1", render::render(), &[]);
}

/// What `jbb` has under `--tiny`.
const SMALL: jbb::Sizes = jbb::Sizes {
    items: 200,
    customers: 10,
    orders: 20,
    transactions: 500,
};

/// What it has else, with fewer transactions, but enough for orders to die old.
const LARGE: jbb::Sizes = jbb::Sizes {
    items: 20_000,
    customers: 1000,
    orders: 1000,
    transactions: 40_000,
};

/// One, two and four warehouses, each in its heap, come to what the model does, with several seeds, in both slot
/// formats. There were collections in each run. Gives how many full collections there were in all runs.
fn warehouses(sizes: jbb::Sizes, heaps: [&str; 3], more: &[&str]) -> u64 {
    let transactions = sizes.transactions.to_string();
    let mut full_collections = 0;
    for (threads, heap) in [1, 2, 4].into_iter().zip(heaps) {
        for seed in [0, 1, 77] {
            let expected = text(jbb::jbb(sizes, threads, seed));
            let [threads_text, seed] = [threads.to_string(), seed.to_string()];
            for format in [None, Some("--compressed")] {
                let mut all = vec!["jbb", "--transactions", &transactions, "--heap", heap];
                all.extend(["--threads", &threads_text, "--seed", &seed]);
                all.extend(format);
                all.extend(more);
                let line = run(&all);
                assert_eq!(line["result"], expected, "{all:?}");
                let done = threads as u64 * u64::from(sizes.transactions);
                assert_eq!(line["transactions"], done, "{all:?}");
                assert!(line["collections"].as_u64().unwrap() > 0, "{all:?}");
                full_collections += line["full_collections"].as_u64().unwrap();
            }
        }
    }
    full_collections
}

#[test]
fn warehouses_are_what_they_are_on_vectors() {
    let heaps = ["1", "1", "2"];
    for workers in ["1", "3"] {
        let more = ["--tiny", "--verify", "--workers", workers];
        warehouses(SMALL, heaps, &more);
    }
    let longer = jbb::Sizes {
        transactions: 5000,
        ..SMALL
    };
    assert!(warehouses(longer, heaps, &["--tiny"]) > 0);
}

#[test]
fn large_warehouses_are_what_they_are_on_vectors() {
    assert!(warehouses(LARGE, ["13", "26", "52"], &[]) > 0);
}

#[test]
fn warehouses_stand_a_collection_at_any_time() {
    let more = ["--tiny", "--verify", "--opt", "stress=50,poison=on"];
    assert!(warehouses(SMALL, ["1", "1", "2"], &more) > 0);
}

#[test]
fn transactions_are_counted() {
    let line = run(&["jbb", "--tiny"]);
    assert_eq!(line["transactions"], 1000);
    assert!(line["transactions_per_s"].as_f64().unwrap() > 0.0);
}

/// A directory for one test, empty at first.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// The tree's own pages, in a directory, with what is to be left out; in the order of their names.
fn pages(directory: &Path) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = [
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "docs/embedding.md",
    ];
    let mut texts = Vec::new();
    for (number, page) in pages.into_iter().enumerate() {
        let mut text = fs::read_to_string(root.join(page)).unwrap();
        text.retain(|letter| letter.is_ascii());
        let path = directory.join(format!("{number}.gz"));
        if number % 2 == 0 {
            let file = File::create(&path).unwrap();
            let mut packed = GzEncoder::new(file, Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap();
            texts.push((path.display().to_string(), text));
        } else {
            let path = path.with_extension("txt");
            fs::write(&path, &text).unwrap();
            fs::write(directory.join(format!("{number}.txt.again")), &text).unwrap();
            texts.push((path.display().to_string(), text));
        }
    }
    fs::write(directory.join("binary"), b"words\0and more words").unwrap();
    texts
}

#[test]
fn queries_find_what_a_map_finds() {
    let directory = scratch("texts");
    let expected = index::index(&pages(&directory));
    let input = ["--input", directory.to_str().unwrap()];
    all_share("index", "1", expected, &input);
    let wasteful = [&input[..], &["--wasteful"]].concat();
    all_share("index", "1", expected, &wasteful);
}

#[test]
fn texts_are_packed_and_joined_as_strings_are() {
    let directory = scratch("packed");
    let texts = pages(&directory);
    let input = ["--input", directory.to_str().unwrap()];
    let one_and_three = |name: &str, model: &dyn Fn(u32) -> u64| {
        for threads in [1, 3] {
            let expected = (0..threads).map(model).fold(0, u64::wrapping_add);
            // Three threads may all have their largest arrays at once.
            let heap = if threads == 1 { "1" } else { "2" };
            let threads = threads.to_string();
            let all = [&input[..], &["--threads", &threads]].concat();
            assert_eq!(result(name, heap, &all), text(expected), "{name} {threads}");
        }
    };
    let packed = arrays::compress(&texts);
    one_and_three("compress", &|_| packed);
    one_and_three("strings", &|thread| arrays::strings(&texts, thread));
}

#[test]
fn large_arrays_stand_a_collection_at_any_time() {
    for old in ["mark-compact", "mark-sweep", "mark-region"] {
        let at_each = |name: &str, stress: u32| {
            let options = format!("stress={stress},poison=on,quarantine=2,old={old}");
            result(name, "4", &["--opt", &options])
        };
        assert_eq!(at_each("bigmap", 20), text(arrays::bigmap(0)));
        assert_eq!(at_each("matrix", 1), text(arrays::matrix(0)));
        assert_eq!(at_each("snapshots", 5), text(arrays::snapshots(0)));
        assert_eq!(at_each("chart", 1), text(arrays::chart(0)));
        assert_eq!(at_each("db", 500), text(arrays::db(0)));
        assert_eq!(at_each("compress", 2), result("compress", "3", &[]));
        assert_eq!(at_each("strings", 20), result("strings", "3", &[]));
    }
}

#[test]
fn debians_texts_are_packed_and_joined() {
    result("compress", "3", &[]);
    result("strings", "3", &["--threads", "2"]);
}

#[test]
fn debians_texts_are_indexed() {
    let lean = result("index", "1", &[]);
    assert_eq!(result("index", "1", &["--wasteful"]), lean);
    let line = run(&["index", "--tiny"]);
    assert!(line["files"].as_u64().unwrap() > 2);
    assert!(line["bytes"].as_u64().unwrap() >= 64 << 10);
}

#[test]
fn too_little_text_is_an_error_that_names_the_remedy() {
    let directory = scratch("no-texts");
    let said = failure(&["index", "--tiny", "--input", directory.to_str().unwrap()]);
    assert!(
        said.contains("no-texts") && said.contains("--input"),
        "{said}"
    );
}

const DOCUMENT: &str = r#"<?xml version="1.0"?>
<!DOCTYPE list [ <!ELEMENT list ANY> ]>
<list kind="a &lt; b" more='1'><!-- none -->
  <zebra/><ant size="2">one &amp; <b>two</b> &#65;<![CDATA[<x>]]></ant>
  <zebra n="2">last</zebra> tail
</list>"#;

/// Attributes first, then texts, then elements by name.
const TRANSFORMED: &str = "<list><kind>a &lt; b</kind><more>1</more> TAIL\n\
    <ant><size>2</size>ONE &amp;  A&lt;X&gt;<b>TWO</b></ant>\
    <zebra></zebra><zebra><n>2</n>LAST</zebra></list>";

#[test]
fn a_document_is_transformed() {
    let path = scratch("documents").join("list.xml");
    fs::write(&path, DOCUMENT).unwrap();
    let hash = random::hash_of(TRANSFORMED.as_bytes());
    let expected = random::chained(random::chained(0, hash), hash);
    let input = path.to_str().unwrap();
    let line = run(&["xml", "--tiny", "--verify", "--input", input]);
    assert_eq!(line["result"], text(expected));
    assert_eq!(line["elements"], 5);
    let three = text(expected.wrapping_mul(3));
    let line = run(&[
        "xml",
        "--tiny",
        "--compressed",
        "--threads",
        "3",
        "--input",
        input,
    ]);
    assert_eq!(line["result"], three);
}

#[test]
fn debians_document_is_transformed() {
    result("xml", "1", &[]);
    result("xml", "2", &["--threads", "3"]);
}

#[test]
fn a_document_that_is_not_well_formed_is_an_error_that_says_so() {
    let path = scratch("broken").join("broken.xml");
    let input = path.to_str().unwrap();
    for (document, why) in [
        ("<a><b></a>", "b"),
        ("<a>", "ends inside"),
        ("<a>&nothing;</a>", "nothing"),
        ("<a/><a/>", "2 outermost"),
        ("", "0 outermost"),
    ] {
        fs::write(&path, document).unwrap();
        let said = failure(&["xml", "--tiny", "--input", input]);
        assert!(said.contains("broken.xml") && said.contains(why), "{said}");
    }
}

#[test]
fn iterations_are_listed() {
    for name in ["gcbench", "jbb", "finalizers"] {
        let line = run(&[name, "--tiny", "--heap", "2", "--iterations", "3"]);
        assert_eq!(line["iterations"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn a_heap_that_is_too_small_is_an_error_that_says_so() {
    for name in ["queue", "xml", "jbb", "index"] {
        let said = failure(&[name, "--heap", "1"]);
        assert!(
            said.contains(name) && said.contains("out of memory"),
            "{said}"
        );
    }
}

#[test]
fn an_option_that_would_change_nothing_is_refused() {
    for (name, option, value, user) in [
        ("gcbench", "--seed", Some("1"), "jbb"),
        ("index", "--transactions", Some("1"), "jbb"),
        ("jbb", "--working-set", Some("0"), "initstale"),
        ("xml", "--wasteful", None, "index"),
        ("queue", "--input", Some("/"), "xml"),
    ] {
        let said = failure(&[&[name, "--tiny", option], value.as_slice()].concat());
        let named = [name, option, user].map(|word| said.contains(word));
        assert_eq!(named, [true; 3], "{said}");
    }
}

#[test]
fn the_help_has_a_line_for_each() {
    let done = start(&["--help"]);
    let help = String::from_utf8_lossy(&done.stdout).into_owned();
    for entry in TABLE {
        let name = format!("- {}:", entry.name);
        let line = help.lines().find(|line| line.contains(&name));
        let about = line.is_some_and(|line| line.ends_with(entry.about));
        assert!(about, "{name} in {help}");
    }
    for option in ["--threads", "--wasteful"] {
        assert!(help.contains(option), "{option} in {help}");
    }
}

#[test]
fn a_misspelt_name_is_refused_with_the_nearest() {
    for (word, nearest) in [("gcbenchs", "gcbench"), ("Queue", "queue")] {
        let said = failure(&[word, "--tiny"]);
        assert!(said.contains(&format!("'{word}'")), "{said}");
        assert!(said.contains(&format!("exists: '{nearest}'")), "{said}");
    }
}
