//! Options by name: where they come from, which one wins, and what is refused. The environment is the process's, so what
//! it changes is tried in a child process, which is this test program again.

use std::process::Command;

use gleaner::raw::Shape;
use gleaner::{
    BuildError, Heap, OldPolicy, OutsideLayout, Parking, References, TaskQueue, TraceOrder,
};

fn refused(list: &str) -> String {
    let error = Heap::builder().options(list).expect_err(list);
    assert!(matches!(error, BuildError::Option(_)));
    error.to_string()
}

#[test]
fn options_by_name_do_what_the_methods_do() {
    let list = "heap-limit=4m,young=1m,refs=compressed,tenure=0,tlab=4k,workers=2,stress=9,verify=edges,poison=on,old=mark-sweep,\
                trace-order=breadth,resize=off,parking=monitor,task-queue=locked,prefetch=none";
    let heap = Heap::builder().options(list).unwrap().build().unwrap();
    assert_eq!(heap.references(), References::Compressed);
    assert_eq!(heap.limit(), 4 << 20);
    let by_method = Heap::builder()
        .limit(4 << 20)
        .young(1 << 20)
        .references(References::Compressed)
        .tenure(0)
        .old(OldPolicy::MarkSweep)
        .trace_order(TraceOrder::Breadth)
        .resize(false)
        .parking(Parking::Monitor)
        .task_queue(TaskQueue::Locked)
        .prefetch(false)
        .tlab(4 << 10)
        .workers(2)
        .stress(9)
        .verify(true)
        .poison(true);
    let by_name = Heap::builder().options(list).unwrap();
    assert_eq!(format!("{by_name:?}"), format!("{by_method:?}"));
    let later = Heap::builder().limit(4 << 20).option("heap-limit", "2m");
    assert_eq!(later.unwrap().build().unwrap().limit(), 2 << 20);
}

#[test]
fn what_is_refused_is_named_with_the_remedy() {
    assert!(refused("refs=narrow").contains("accepted: wide|compressed"));
    assert!(refused("tenur=3").contains("the nearest is 'tenure'"));
    assert!(refused("tenure=16").contains("the nearest is 15"));
    assert!(refused("verify").contains("needs a value"));
    assert!(refused("prefetch=fifo").contains("accepted: none|edges"));
    let foreign = refused("heap-limit=2m,sweep=eager");
    assert!(
        foreign.starts_with("option sweep does not serve the precise heap"),
        "{foreign}"
    );
    assert!(Heap::builder().option("markers", "2").is_err());
    let error = Heap::builder().options("heap-limit=2m,young=2m").unwrap();
    let error = error.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "option young: a young generation of 2m (2097152 bytes) in a heap of 2m (2097152 bytes, option heap-limit): \
         it takes at most nine tenths"
    );
    let error = Heap::builder().options("log=/no/such/directory/log");
    let error = error.unwrap().build().unwrap_err().to_string();
    assert!(
        error.starts_with("option log: cannot open /no/such/directory/log"),
        "{error}"
    );
}

#[test]
fn a_value_set_by_method_is_refused_as_it_is_by_name() {
    let builder = Heap::builder;
    let cases = [
        (builder().limit(1), "heap-limit=1"),
        (
            builder().limit(usize::MAX),
            "heap-limit=18446744073709551615",
        ),
        (builder().young(1), "young=1"),
        (builder().young(usize::MAX), "young=18446744073709551615"),
        (builder().workers(65), "workers=65"),
        (builder().workers(u32::MAX as usize), "workers=4294967295"),
        (builder().tlab(1), "tlab=1"),
        (builder().tenure(16), "tenure=16"),
        (builder().quarantine(65), "quarantine=65"),
    ];
    for (by_method, by_name) in cases {
        let error = by_method.build().expect_err(by_name);
        assert!(matches!(error, BuildError::Option(_)), "{error:?}");
        assert_eq!(error.to_string(), refused(by_name));
    }
    let text = refused("workers=65");
    assert!(
        text.starts_with("option workers: 65 is out of range") && text.contains("0..64"),
        "{text}"
    );
    // More than an option can say is refused, too.
    assert!(builder().workers(usize::MAX).build().is_err());
}

/// What [`in_a_child`] asks for.
const CASE: &str = "GLEANER_TEST_CASE";

/// What [`layout_child`] says of the layout.
const LAYOUT: &str = "GLEANER_TEST_LAYOUT";

/// Only a child does something here.
#[test]
fn child() {
    let Ok(own) = std::env::var(CASE) else {
        return;
    };
    let before = threads();
    let builder = Heap::builder().limit(4 << 20).stress(7);
    match builder.options(&own).unwrap().build() {
        Ok(heap) => {
            println!("limit {} {:?}", heap.limit(), heap.references());
            let mut mutator = heap.attach().unwrap();
            mutator.scope(|scope| scope.collect(true));
            println!("helpers {}", threads() - before);
        }
        Err(error) => println!("error {error}"),
    }
}

/// How many threads this process has.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// What a child that builds a heap under these options prints of the heap, or of the error.
fn in_a_child(options: &str) -> String {
    printed(options, &["limit ", "error "])
}

/// What such a child prints from the first of these words on.
fn printed(options: &str, words: &[&str]) -> String {
    printed_beside("", options, words)
}

/// As `printed`, of a program that has options of its own.
fn printed_beside(own: &str, options: &str, words: &[&str]) -> String {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("GLEANER_OPTIONS", options)
        .env(CASE, own)
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let line = text.lines().find_map(|line| {
        let at = words.iter().find_map(|word| line.find(word))?;
        Some(&line[at..])
    });
    line.unwrap_or_else(|| panic!("{text}")).to_owned()
}

#[test]
fn the_environment_weighs_more_than_the_builder() {
    assert_eq!(in_a_child(""), format!("limit {} Wide", 4 << 20));
    let expected = format!("limit {} Compressed", 2 << 20);
    assert_eq!(in_a_child("heap-limit=2m,refs=compressed"), expected);
}

#[test]
fn a_synthetic_machine_has_a_worker_for_each_processor() {
    let helpers = |options| printed(options, &["helpers "]);
    assert_eq!(helpers("topology=node:1"), "helpers 0");
    assert_eq!(helpers("heap-limit=8m,topology=node:2 core:3"), "helpers 5");
    // One for each MB of the limit, 4, if that is less.
    assert_eq!(helpers("topology=node:2 core:3"), "helpers 3");
    assert_eq!(helpers("topology=node:8 core:6,workers=2"), "helpers 1");
}

#[test]
fn the_environment_may_have_options_of_the_other_heap() {
    let list = "sweep=eager,refs=compressed,markers=3,initial-heap=1g";
    assert_eq!(in_a_child(list), format!("limit {} Compressed", 4 << 20));
}

#[test]
fn options_hold_together_as_they_are_in_the_end() {
    let beside = |own, options| printed_beside(own, options, &["limit ", "error "]);
    let fits = format!("limit {} Wide", 4 << 20);
    assert_eq!(beside("first-n=64", "arrays=zray"), fits);
    assert_eq!(beside("arrays=zray,first-n=64", "arrays=contiguous"), fits);
    // A mistake of the program's own is not called one of the environment.
    for options in ["", "tenure=2"] {
        let error = beside("first-n=64", options);
        assert!(
            error.starts_with("error option first-n has no effect"),
            "{error}"
        );
    }
    let error = beside("", "first-n=64");
    assert!(
        error.starts_with("error in GLEANER_OPTIONS: option first-n has no effect"),
        "{error}"
    );
}

/// A command may have letters of which JSON makes six: the line without it is better than none.
#[test]
fn a_log_has_its_first_line_however_long_the_command_is() {
    for (letter, has_command) in [("x", true), ("\u{1}", false)] {
        let log = std::env::temp_dir().join(format!(
            "gleaner-options-first-{}-{has_command}.jsonl",
            std::process::id()
        ));
        let done = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", &letter.repeat(2000)])
            .env("GLEANER_OPTIONS", format!("log={}", log.display()))
            .env(CASE, "")
            .output()
            .unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        assert!(done.status.success());
        let first = text.lines().next().unwrap();
        assert!(first.starts_with(r#"{"event":"options""#), "{first}");
        assert!(first.ends_with('}'), "{first}");
        assert_eq!(!first.contains(r#""command":"""#), has_command, "{first}");
    }
}

#[test]
fn a_mistake_in_the_environment_is_named() {
    assert!(in_a_child("refs=narrow").starts_with("error in GLEANER_OPTIONS: option refs cannot"));
    assert!(in_a_child("sweep=lazi").starts_with("error in GLEANER_OPTIONS: option sweep cannot"));
    assert!(in_a_child("heap-limit=1m,young=1m").starts_with("error option young: "));
}

/// Only a child does something here: how a heap with slots of 8 bytes comes out if the environment asks for others.
#[test]
fn layout_child() {
    let Ok(outside) = std::env::var(LAYOUT) else {
        return;
    };
    let builder = Heap::builder().limit(4 << 20);
    let builder = match outside.as_str() {
        "followed" => builder.outside_layout(OutsideLayout::Followed),
        "refused" => builder.outside_layout(OutsideLayout::Refused),
        "left-out" => builder.outside_layout(OutsideLayout::LeftOut),
        _ => builder,
    };
    match builder.build() {
        Ok(heap) => {
            let raw = heap.register_raw(Shape::References);
            let whole = heap.register_whole_raw(Shape::References);
            assert_eq!(raw.is_ok(), whole.is_ok());
            let safe = heap.reference_array().is_ok();
            let said = raw.map_or_else(|error| error.to_string(), |_| "raw".into());
            println!("made {:?} {safe} {said}", heap.references());
        }
        Err(error) => println!("error {error}"),
    }
}

/// What [`layout_child`] says to the options, and what stands on its standard error.
fn with_layout(outside: &str, options: &str) -> (String, String) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "layout_child", "--nocapture"])
        .env("GLEANER_OPTIONS", options)
        .env(LAYOUT, outside)
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let said = text.lines().find_map(|line| {
        let at = line.find("made ").or(line.find("error "))?;
        Some(line[at..].to_owned())
    });
    (
        said.unwrap_or_else(|| panic!("{text}")),
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn how_objects_lie_is_not_changed_from_outside_unless_the_program_follows() {
    let compressed = "refs=compressed,heap-limit=2m";
    assert_eq!(
        with_layout("followed", compressed).0,
        "made Compressed true raw"
    );
    let (said, line) = with_layout("left-out", compressed);
    assert_eq!(said, "made Wide true raw");
    assert!(
        line.contains("gleaner: GLEANER_OPTIONS sets refs=compressed, which changes"),
        "{line}"
    );
    for (options, change, name) in [
        (compressed, "refs=compressed", "refs"),
        ("arrays=zray", "arrays=zray", "arrays"),
        ("first-n=64,arrays=naive", "arrays=naive", "arrays"),
    ] {
        let said = with_layout("refused", options).0;
        let expected = format!("error in GLEANER_OPTIONS: {change}, which changes how objects lie");
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.ends_with(&format!("leave {name} out")), "{said}");
    }
    // Who did not say it has the safe layer alone.
    let said = with_layout("", compressed).0;
    assert!(
        said.starts_with("made Compressed true option refs in GLEANER_OPTIONS changes"),
        "{said}"
    );
}

#[test]
fn what_changes_no_layout_goes_to_every_program() {
    for outside in ["", "refused", "left-out", "followed"] {
        for options in [
            "heap-limit=2m",
            "refs=wide",
            "arrays=contiguous,workers=2",
            "",
        ] {
            let (said, line) = with_layout(outside, options);
            assert_eq!(said, "made Wide true raw", "{outside} {options}");
            assert!(!line.contains("gleaner:"), "{line}");
        }
    }
    // Left out is left out before it is asked whether it holds together with the program's arrays.
    assert_eq!(
        with_layout("left-out", "first-n=64").0,
        "made Wide true raw"
    );
}
