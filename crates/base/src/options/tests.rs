//! Tests of the option table: every row by itself, then lists and errors.

use super::*;
use crate::faults::FaultPoint;

fn refused(name: &str, value: &str) -> String {
    let mut options = Options::DEFAULT;
    let error = options.set(name, value).expect_err(value).to_string();
    assert_eq!(
        options,
        Options::DEFAULT,
        "a refused value changed something"
    );
    error
}

fn refused_list(list: &str) -> String {
    let mut options = Options::DEFAULT;
    let error = options.parse_list(list).expect_err(list).to_string();
    assert_eq!(
        options,
        Options::DEFAULT,
        "a refused list changed something"
    );
    error
}

fn list(text: &str) -> Options {
    let mut options = Options::DEFAULT;
    options.parse_list(text).unwrap();
    options
}

/// Some values that a row accepts, each of them different from the default at least once.
fn samples(accepted: &Accepted) -> Vec<String> {
    match *accepted {
        Accepted::Choice(words) => words.iter().map(|word| word.to_string()).collect(),
        Accepted::Number { least, most, .. } => vec![least.to_string(), most.to_string()],
        Accepted::Size { least, most, .. } => {
            vec!["0".into(), Size(least).to_string(), Size(most).to_string()]
        }
        Accepted::Path(_) => vec!["none".into(), "/tmp/some file.json".into()],
        Accepted::Faults => vec!["none".into(), "commit-memory@3+start-worker@1".into()],
        Accepted::Idle => vec![
            "off".into(),
            "20ms".into(),
            "1s".into(),
            "collect@20ms".into(),
        ],
        Accepted::Machine => vec!["host".into(), "node:8 core:6 pu:1".into()],
    }
}

#[test]
fn every_row_reads_what_it_prints() {
    for info in TABLE {
        let mut changed = false;
        for sample in samples(&info.accepted) {
            let mut options = Options::DEFAULT;
            options.set(info.name, &sample).unwrap();
            assert_eq!((info.value)(&options).to_string(), sample, "{}", info.name);
            changed |= options != Options::DEFAULT;
            let mut text = String::new();
            options.write_list(&mut text).unwrap();
            let mut read = Options::DEFAULT;
            for item in text.split(',').filter(|item| !item.is_empty()) {
                let (name, value) = item.split_once('=').unwrap();
                read.set(name, value).unwrap();
            }
            assert_eq!(read, options, "{text}");
        }
        assert!(changed, "{} changes nothing", info.name);
    }
}

#[test]
fn every_default_is_accepted_and_documented() {
    for info in TABLE {
        let default = info.default().to_string();
        Options::default().set(info.name, &default).unwrap();
        assert!(
            info.doc.ends_with('.') && info.doc.len() < 130,
            "{}",
            info.doc
        );
        assert!(!info.accepted.to_string().contains(['\n', '`']));
    }
}

#[test]
fn names_are_the_field_names() {
    let debug = format!("{:?}", Options::DEFAULT);
    for info in TABLE {
        let field = format!("{}: ", info.name.replace('-', "_"));
        assert!(debug.contains(&field), "{}", info.name);
    }
}

#[test]
fn names_are_unique_for_each_heap() {
    for (index, info) in TABLE.iter().enumerate() {
        for other in TABLE[..index]
            .iter()
            .filter(|other| other.name == info.name)
        {
            let kinds = [HeapKind::Libgc, HeapKind::Precise];
            let both = |kind| info.serves.includes(kind) && other.serves.includes(kind);
            assert!(!kinds.into_iter().any(both), "{}", info.name);
        }
    }
}

#[test]
fn a_name_with_two_rows_takes_the_values_of_the_heap_that_it_is_for() {
    let of = |kind, value| {
        let mut options = Options::DEFAULT;
        options
            .set_of(kind, "generations", value)
            .map(|()| (options.generations, options.mark_generations))
            .map_err(|error| error.to_string())
    };
    let none = (Generations::Auto, MarkGenerations::None);
    let sticky = (Generations::Auto, MarkGenerations::Sticky);
    let never = (Generations::Never, MarkGenerations::Auto);
    assert_eq!(of(HeapKind::Libgc, "none"), Ok(none));
    assert_eq!(of(HeapKind::Libgc, "sticky"), Ok(sticky));
    assert_eq!(of(HeapKind::Precise, "never"), Ok(never));
    assert_eq!(
        of(HeapKind::Libgc, "never").unwrap_err(),
        "option generations cannot be 'never'; the nearest is 'none'; accepted: asked|none|sticky|incremental|auto"
    );
    assert_eq!(
        of(HeapKind::Precise, "stick").unwrap_err(),
        "option generations cannot be 'stick'; the nearest is 'auto'; accepted: auto|always|never"
    );
    // Where it was not said which heap is meant, either will do.
    let both = list("generations=sticky,generations=never");
    assert_eq!(both.generations, Generations::Never);
    assert_eq!(both.mark_generations, MarkGenerations::Sticky);
    assert_eq!(
        refused("generations", "stick"),
        "option generations cannot be 'stick'; the nearest is 'sticky'; accepted: auto|always|never, or for the other \
         heap asked|none|sticky|incremental|auto"
    );
    // A list for all heaps of a process.
    for (kind, expected) in [(HeapKind::Libgc, sticky), (HeapKind::Precise, never)] {
        let mut options = Options::DEFAULT;
        let list = "generations=never,generations=sticky";
        options.parse_list_of(kind, Foreign::Ignored, list).unwrap();
        assert_eq!((options.generations, options.mark_generations), expected);
        assert!(
            options
                .parse_list_of(kind, Foreign::Ignored, "generations=stick")
                .is_err()
        );
    }
}

#[test]
fn sizes_take_suffixes() {
    let limit = |text| list(&format!("heap-limit={text}")).heap_limit;
    assert_eq!(limit("1048576"), 1 << 20);
    assert_eq!(limit("2048k"), 2 << 20);
    assert_eq!(limit("3M"), 3 << 20);
    assert_eq!(limit("4g"), 4 << 30);
    assert_eq!(limit("1T"), 1 << 40);
    assert_eq!(limit("0"), 0);
}

#[test]
fn sizes_print_with_suffixes() {
    assert_eq!(Size(0).to_string(), "0");
    assert_eq!(Size(1).to_string(), "1");
    assert_eq!(Size(1536).to_string(), "1536");
    assert_eq!(Size(3 << 19).to_string(), "1536k");
    assert_eq!(Size(3 << 30).to_string(), "3g");
}

#[test]
fn impossible_sizes_are_refused_with_the_numbers() {
    let small = refused("heap-limit", "10");
    assert!(small.starts_with("option heap-limit: 10 bytes is out of range"));
    assert!(
        small.contains("the nearest is 1m (1048576 bytes)"),
        "{small}"
    );
    assert!(
        small.contains("accepted: 1m..64t or 0 (0: no limit; precise"),
        "{small}"
    );
    assert!(refused("heap-limit", "65t").contains("the nearest is 64t"));
}

#[test]
fn sizes_that_overflow_are_refused() {
    for value in ["99999999999999999999", "18446744073709551615k", "16777216t"] {
        assert!(refused("reserve", value).contains("too large to represent"));
    }
}

#[test]
fn what_is_no_size_is_refused() {
    for value in ["-1", "1.5g", "g", "12mb", "0x10", "+5m", "1 m", "five"] {
        assert!(
            refused("heap-limit", value).contains("is not a size"),
            "{value}"
        );
    }
}

#[test]
fn idle_times_are_refused_with_what_is_accepted() {
    assert_eq!(
        refused("idle", "0"),
        "option idle: '0' is not a time (digits, then ms, s, m or h); accepted: off|TIME|collect|collect@TIME \
         with TIME from 20ms to 1h, such as 1s"
    );
    assert!(refused("idle", "0s").contains("0ms is out of range; the nearest is 20ms;"));
    for bad in ["1d", "-1", "soon"] {
        let text = format!("option idle: '{bad}' is not a time");
        assert!(refused("idle", bad).starts_with(&text), "{bad}");
    }
    assert_eq!(list("idle=250ms").idle, Idle::After(Time(250)));
}

#[test]
fn numbers_stay_in_range() {
    assert!(refused("markers", "65").contains("65 is out of range; the nearest is 64"));
    assert!(refused("free-space-divisor", "0").contains("the nearest is 1;"));
    assert!(refused("stress", "4294967296").contains("too large to represent"));
    assert!(refused("stress", "-1").contains("is not a whole number"));
    assert!(refused("markers", "2k").contains("is not a whole number"));
}

#[test]
fn the_length_of_arraylets_is_a_power_of_two() {
    assert_eq!(list("arrays=zray,arraylet=512").arraylet, 512);
    let error = refused("arraylet", "1200");
    assert!(
        error.contains("1200 is not a power of two; the nearest is 1024"),
        "{error}"
    );
    assert!(error.contains("a power of two"), "{error}");
}

#[test]
fn unknown_names_get_the_nearest_one() {
    let error = refused("prefech", "fifo");
    assert!(error.starts_with("unknown option 'prefech'; the nearest is 'prefetch'"));
    assert!(error.ends_with("; `gleaner options --all` and docs/options.md have all names"));
    assert!(refused("heaplimit", "1m").contains("'heap-limit'"));
    assert!(refused("HEAP-LIMIT", "1m").contains("unknown option"));
    assert!(refused(&"x".repeat(1000), "1").contains("unknown option"));
    assert!(refused("", "1").contains("unknown option ''"));
}

#[test]
fn an_old_space_is_not_cut_for_memory_nodes() {
    let mut options = Options::DEFAULT;
    let text = |error: OptionError<'_>| error.to_string();
    assert_eq!(
        options.set("old-pages", "fragmented").map_err(text),
        Err("option old-pages cannot be 'fragmented': old objects slide together, across the borders of all fragments; \
             accepted: auto|first-touch|interleaved"
            .to_string())
    );
    let error = options
        .set("old-pages", "first-tuch")
        .map_err(text)
        .unwrap_err();
    assert!(error.contains("the nearest is 'first-touch'"), "{error}");
}

#[test]
fn unknown_values_get_the_nearest_one() {
    let error = refused("prefetch", "on-gray");
    assert_eq!(
        error,
        "option prefetch cannot be 'on-gray'; the nearest is 'on-grey'; accepted: none|on-grey|fifo|edges|auto, or for the other \
         heap none|edges"
    );
    assert!(refused("stats", "yes").contains("accepted: off|on"));
}

#[test]
fn faults_are_read_and_refused() {
    let options = list("fault=mark-stack-full@7");
    assert_eq!(options.fault.visit(FaultPoint::MarkStackFull), 7);
    let error = refused("fault", "mark-stack-ful@7");
    assert!(
        error.contains("unknown fault point 'mark-stack-ful'; the nearest is 'mark-stack-full'")
    );
    assert!(refused("fault", "start-worker@0").contains("'start-worker@0' needs @"));
}

#[test]
fn log_paths_are_bounded() {
    let longest = "p".repeat(255);
    assert_eq!(
        list(&format!("log={longest}")).log.as_str(),
        Some(&*longest)
    );
    assert!(refused("log", &"p".repeat(256)).contains("this path has 256 bytes"));
    assert!(refused("log", "/tmp/a,b").contains("has a comma"));
    assert_eq!(list("log=/tmp/x,log=none").log.as_str(), None);
}

#[test]
fn machines_are_read_as_hwloc_writes_them() {
    for text in [
        "node:8 core:6 pu:2",
        "NUMANode:8 Core:6 PU:2",
        "  numa:8\tco:6  pu:2 ",
        "No:8 core:06 pu:2",
    ] {
        let mut options = Options::DEFAULT;
        options.set("topology", text).unwrap();
        let Machine::Synthetic(machine) = options.topology else {
            panic!("{text} is the host");
        };
        assert_eq!((machine.nodes(), machine.processors_of_each()), (8, 12));
        assert_eq!(options.topology.to_string(), "node:8 core:6 pu:2");
    }
    let shown = |text| {
        list(&format!("topology={text},workers=2"))
            .topology
            .to_string()
    };
    assert_eq!(shown("node:3"), "node:3 core:1 pu:1");
    assert_eq!(shown("node:16 pu:256"), "node:16 core:1 pu:256");
    assert_eq!(shown("node:1 core:4096"), "node:1 core:4096 pu:1");
    assert_eq!(shown(" host "), "host");
}

#[test]
fn impossible_machines_are_refused() {
    for (value, complaint) in [
        ("node:0", "'node:0' is none"),
        ("node:2 core:0 pu:1", "'core:0' is none"),
        ("node:17", "17 memory nodes are more than the 16"),
        (
            "node:2 core:2049",
            "2 * 2049 * 1 processors are more than 4096",
        ),
        (
            "node:16 core:4294967295 pu:4294967295",
            "16 * 4294967295 * 4294967295 processors are more",
        ),
        ("node:2 l3:2 core:4", "'l3:2' is no level"),
        ("pack:2 node:1", "'pack:2' is no level"),
        ("n:2", "'n:2' is no level"),
        ("nodes:2", "'nodes:2' is no level"),
        ("local", "'local' is no level"),
        ("8 6 1", "'8' is no level"),
        ("node core:6", "'node' has no number: write a colon"),
        ("node:", "'node' has no number"),
        ("node:two", "'node:two' has no whole number"),
        ("node:-1", "'node:-1' has no whole number"),
        ("node:4294967296", "'node:4294967296' has no whole number"),
        ("node:2(memory=1GB)", "'node:2(memory=1GB)' has no whole"),
        (
            "core:6",
            "'core:6' is not on a memory node: begin with node:N",
        ),
        ("node:2 pu:1 core:6", "'core:6' stands behind pu"),
        ("node:2 core:2 core:2", "'core:2' stands behind core"),
        ("node:2 host", "'host' is no level"),
        ("  ", "needs a value"),
    ] {
        let error = refused("topology", value);
        assert!(error.contains(complaint), "{error}");
        let accepted = "accepted: host|node:N core:C pu:P with N at most 16";
        assert!(error.contains(accepted), "{error}");
    }
}

#[test]
fn lists_take_the_last_of_two_and_skip_blanks() {
    let options = list(" sweep=eager, ,markers=3 ,markers=4,");
    assert_eq!((options.sweep, options.markers), (Sweep::Eager, 4));
    assert_eq!(list(""), Options::DEFAULT);
}

#[test]
fn an_item_without_a_value_is_refused() {
    assert!(refused_list("sweep=eager,stats").contains("needs a value: write stats=VALUE"));
    assert!(refused_list("stats=").contains("needs a value"));
    assert!(refused_list("statz").contains("unknown option 'statz'; the nearest is 'stats'"));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    assert_eq!(
        refused_list("initial-heap=128m,heap-limit=64m"),
        "option initial-heap=128m (134217728 bytes) exceeds heap-limit=64m (67108864 bytes)"
    );
    assert!(refused_list("heap-limit=2g,reserve=1g").contains("exceeds reserve=1g"));
    assert!(refused_list("initial-heap=2g,reserve=1g").contains("exceeds reserve=1g"));
    list("initial-heap=64m,heap-limit=64m,reserve=64m");
}

#[test]
fn the_last_word_may_be_that_arrays_are_in_one_piece() {
    let chosen = list(
        "arrays=zray,first-n=64,arraylet=256,array-kinds=references,lazy-arraylets=on,zero-compression=on,fast-copy=off,\
         copy-on-write=off,array-guard=on,stress=3",
    );
    let last = |word: &str| {
        let mut options = chosen;
        options
            .read_last_word_of(HeapKind::Precise, Foreign::Ignored, word)
            .and_then(|()| options.check())
            .map(|()| options)
            .map_err(|error| error.to_string())
    };
    assert_eq!(last("arrays=contiguous"), Ok(list("stress=3")));
    assert_eq!(last("arrays=naive,arrays=contiguous"), Ok(list("stress=3")));
    let naive = Options {
        arrays: Arrays::Naive,
        ..chosen
    };
    assert_eq!(last("arrays=contiguous,arrays=naive"), Ok(naive));
    assert_eq!(last("tenure=2").map(|options| options.first_n), Ok(64));
    let error = last("arrays=contiguous,first-n=128").unwrap_err();
    assert!(error.starts_with("option first-n has no effect"), "{error}");
}

#[test]
fn a_list_of_changes_reads_back() {
    let options = list("heap-limit=3g,stats=on,fault=start-worker@2,log=/tmp/l");
    let mut text = String::new();
    options.write_list(&mut text).unwrap();
    assert_eq!(
        text,
        "heap-limit=3g,stats=on,log=/tmp/l,fault=start-worker@2"
    );
    assert_eq!(list(&text), options);
}

#[test]
fn an_option_of_the_other_heap_is_refused_or_ignored() {
    let read = |kind, foreign, list: &str| {
        let mut options = Options::DEFAULT;
        options
            .parse_list_of(kind, foreign, list)
            .map(|()| options)
            .map_err(|error| error.to_string())
    };
    for (kind, own, other) in [
        (HeapKind::Libgc, "sweep=eager", "refs=compressed"),
        (HeapKind::Precise, "refs=compressed", "sweep=eager"),
    ] {
        let list = format!("{own},stress=3,{other}");
        let error = read(kind, Foreign::Refused, &list).unwrap_err();
        let name = other.split('=').next().unwrap();
        let expected = format!("option {name} does not serve the {} heap", kind.as_str());
        assert!(error.starts_with(&expected), "{error}");
        assert!(Options::default().set_of(kind, name, "").is_err());
        let ignored = read(kind, Foreign::Ignored, &list).unwrap();
        assert_eq!(ignored, self::list(&format!("{own},stress=3")));
        let wrong = read(kind, Foreign::Ignored, &format!("{name}=nonsense")).unwrap_err();
        assert!(wrong.contains("cannot be 'nonsense'"), "{wrong}");
    }
    // What is ignored contradicts nothing.
    let list = "initial-heap=8m,heap-limit=4m";
    assert!(read(HeapKind::Precise, Foreign::Ignored, list).is_ok());
    assert!(read(HeapKind::Libgc, Foreign::Ignored, list).is_err());
}
