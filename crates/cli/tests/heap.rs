//! `gleaner heap`: what it says of a snapshot, and files that are none.

#[allow(dead_code)]
mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::*;

/// A table of 100 lists in static data, each with 20 elements with a text. Beside it a buffer that only a word to its
/// middle keeps, a node that two words of a stack keep, and an object that waits.
fn snapshot() -> String {
    let list = |number: u64| 0x7e01_0000_0000 + number * 0x1_0000;
    let mut text = String::from(
        "gleaner-heap 1\nprocess 4711 my program\nwhen exit\nheap 1048576\n\
         kind 0 pointer-free\nkind 1 normal\nkind 2 uncollectable\n\
         root static 55000000 55001000 /usr/lib/libmine.so.1\nw 55000100 7e0000000000 0\n\
         root stack 4711 7ffd00000000 7ffd00010000 my program\nw 7ffd00000040 7e0000200000 65536\n\
         w 7ffd00000048 7e0000400000 0\nw 7ffd00000050 7e0000400000 0\n\
         root uncollectable\nt 7e0000600000\n",
    );
    let (mut objects, mut edges) = (0, 0);
    let mut add = |base: u64, bytes: u64, kind: u64, targets: &[u64], site: &str| {
        let targets: Vec<_> = targets.iter().map(|to| format!(" {to:x}")).collect();
        text += &format!("o {base:x} {bytes} {kind}{}\n", targets.concat());
        if !site.is_empty() {
            text += &format!("a {site}\n");
        }
        objects += 1;
        edges += targets.len();
    };
    let lists: Vec<_> = (0..100).map(list).collect();
    add(0x7e00_0000_0000, 800, 1, &lists, "table.c:7");
    add(0x7e00_0020_0000, 200_000, 0, &[], "");
    add(0x7e00_0040_0000, 48, 1, &[], "");
    add(0x7e00_0060_0000, 64, 2, &[], "");
    add(0x7e00_0080_0000, 80, 1, &[], "");
    for at in lists {
        for element in 0..20 {
            let (here, next) = (at + element * 256, at + (element + 1) * 256);
            let last = element == 19;
            let targets = if last {
                vec![here + 128]
            } else {
                vec![here + 128, next]
            };
            add(here, 32, 1, &targets, "list.c:12");
            add(here + 128, 96, 0, &[], "text.c:9");
        }
    }
    text + &format!("end {objects} {edges}\n")
}

/// The same a while later: what an uncollectable object leads to is new, and the buffer is another, smaller one.
fn grown() -> String {
    let text = snapshot()
        .replace(
            "o 7e0000600000 64 2\n",
            "o 7e0000600000 64 2 7d0000000000\no 7d0000000000 100000 1\n",
        )
        .replace("o 7e0000200000 200000 0\n", "o 7e0000200000 150000 0\n");
    text.rsplit_once("end").unwrap().0.to_string() + "end 4006 4001\n"
}

fn heap(snapshot: &Path, more: &[&str]) -> Output {
    let mut command = gleaner();
    command.arg("heap").arg(snapshot).args(more);
    command.output().unwrap()
}

/// What the page says of this text.
fn page(text: &str) -> String {
    let directory = Directory::new();
    let output = heap(&directory.file("app.heap", text, 0o644), &[]);
    assert_eq!(stderr(&output), "");
    assert_succeeds(&output)
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    // Columns are as wide as they are.
    let plain: Vec<_> = text.split_whitespace().collect();
    let plain = plain.join(" ");
    for part in parts {
        assert!(plain.contains(part), "no '{part}' in:\n{text}");
    }
}

#[track_caller]
fn assert_refused(text: impl AsRef<[u8]>, messages: &[&str]) {
    let directory = Directory::new();
    let path = directory.file("app.heap", text, 0o644);
    for more in [&[][..], &["--json"], &["--path", "10"]] {
        let output = heap(&path, more);
        assert_fails(&output, 2, "app.heap");
        assert_has(&stderr(&output), messages);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn the_page_says_what_lives_and_what_keeps_it() {
    let page = page(&snapshot());
    assert_has(
        &page,
        &[
            "my program, process 4711, at exit",
            "lives 446 KiB in 4004 objects: roots lead to them",
            "other 80 bytes in 1 object: no root leads to them.",
            "heap 1.00 MiB, of which 43.6 % lives",
            // Kinds and sizes, and sites.
            "195 KiB 43.8 % 1 pointer-free of 195 KiB",
            "188 KiB 42.0 % 2000 pointer-free of 96 bytes",
            "62.5 KiB 14.0 % 2000 normal of 32 bytes",
            "188 KiB 42.0 % 2000 text.c:9",
            "195 KiB 43.8 % 3 not by debugging allocation",
            // Roots and their words.
            "251 KiB 56.2 % 4001 static data of libmine.so.1",
            "251 KiB 56.2 % 4001 +0x100 -> 7e0000000000 (normal, 800 bytes, allocated at table.c:7)",
            "195 KiB 43.8 % 2 stack of thread 4711 (my program)",
            "195 KiB 43.8 % 1 +0x40 -> 7e0000200000 (pointer-free, 195 KiB)",
            "64 bytes 0.0 % 1 uncollectable objects",
            // The buffer and the node of the stack.
            "48 bytes in 1 object (0.01 %) live only because of words of stacks that lead to where pointers do.",
            "195 KiB in 1 object (43.8 %) live only because of 1 word of roots that may be no pointers: they lead",
            "195 KiB 43.8 % 1 stack of thread 4711 (my program)+0x40 at 7ffd00000040 = 7e0000200000+65536",
            "GC_malloc_atomic",
            "The largest objects bytes share objects object 195 KiB 43.8 % 1 7e0000200000 (pointer-free, 195 KiB)",
            "251 KiB 56.2 % 4001 7e0000000000 (normal, 800 bytes, allocated at table.c:7)",
            "app.heap --path 7e0000000000",
        ],
    );
    assert!(!page.contains("several roots"), "{page}");
}

#[test]
fn what_several_roots_or_words_keep_is_nobodys_alone() {
    let shared = snapshot().replace("t 7e0000600000", "t 7e0000000000");
    let page = page(&shared);
    assert_has(
        &page,
        &[
            "251 KiB 56.2 % 4001 kept by several roots: garbage only without all of these",
            "251 KiB 56.2 % 4001 of these, static data of libmine.so.1 leads to first",
        ],
    );
    let both = snapshot().replace(
        "w 7ffd00000048 7e0000400000 0",
        "w 7ffd00000048 7e0000200000 8",
    );
    assert_has(
        &self::page(&both),
        &[
            "195 KiB 43.8 % 1 kept by several of its words",
            "Of these words keep most bytes share objects word, and its value \
             195 KiB 43.8 % 1 several words of stack of thread 4711 (my program), by ways that meet in 7e0000200000",
        ],
    );
}

#[test]
fn what_many_words_and_roots_keep_is_summed_up() {
    let mut text = String::from("gleaner-heap 1\nprocess 1 x\n");
    for root in 0..30 {
        text += &format!("root static {root}000 {root}800 /lib/l{root}.so\n");
        for word in 0..5 {
            text += &format!("w {root}{word:03x} a{root:02}{word}00 0\n");
        }
    }
    for root in 0..30 {
        for word in 0..5 {
            text += &format!("o a{root:02}{word}00 {} 1\n", 16 << (root % 4));
        }
    }
    let page = page(&(text + "end 150 0\n"));
    assert_has(
        &page,
        &[
            "640 bytes 7.4 % 5 static data of l3.so",
            "128 bytes 1.5 % 1 +0x0 -> a03000 (kind 1, 128 bytes)",
            "256 bytes 3.0 % 2 2 more words, each for itself",
            "20 more roots",
        ],
    );
}

#[test]
fn a_path_names_each_object() {
    let directory = Directory::new();
    let file = directory.file("app.heap", snapshot(), 0o644);
    let path = |address: &str| {
        let output = heap(&file, &["--path", address]);
        assert_succeeds(&output)
    };
    assert_has(
        &path("7e0100030190"),
        &[
            "7e0100030190 lies 16 bytes into 7e0100030180 (pointer-free, 96 bytes, allocated at text.c:9)",
            "libmine.so.1+0x100, the word at 55000100 -> 7e0000000000 (normal, 800 bytes, allocated at table.c:7) \
             -> 7e0100030000 (normal, 32 bytes, allocated at list.c:12) \
             -> 7e0100030100 (normal, 32 bytes, allocated at list.c:12) \
             -> 7e0100030180 (pointer-free, 96 bytes, allocated at text.c:9) It retains 96 bytes in 1 object",
            "No other word of a root leads to it directly. Each path to it goes through 7e0100030100",
        ],
    );
    assert_has(
        &path("0x7e0000400000"),
        &[
            "stack of thread 4711 (my program)+0x48, the word at 7ffd00000048, a variable, or left over",
            "Only stacks lead to it.",
            "1 other word of roots leads to it directly. Several words of one root keep it: stack of thread 4711",
        ],
    );
    assert_has(
        &path("7E0000200000"),
        &[
            "which leads 65536 bytes into the object and may be no pointer",
            "Only stack of thread 4711 (my program)+0x40 keeps it.",
        ],
    );
    assert_has(
        &path("7e0000600000"),
        &["uncollectable objects -> 7e0000600000"],
    );
    assert_has(
        &path("7e0000800000"),
        &["No root leads to 7e0000800000 (normal, 80 bytes)"],
    );
    let both = snapshot().replace("w 7ffd00000048 7e0000400000", "w 7ffd00000048 7e0100030100");
    let both = directory.file("both.heap", both, 0o644);
    let said = assert_succeeds(&heap(&both, &["--path", "7e0100030100"]));
    assert_has(
        &said,
        &[
            "left over from a call that has returned -> 7e0100030100",
            "A shortest path from a word that is a pointer without much doubt: libmine.so.1+0x100",
            "Several roots keep it.",
        ],
    );
}

#[test]
fn a_long_path_is_cut_in_its_middle() {
    let mut text = String::from("gleaner-heap 1\nroot pushed by the program\nt 100000\n");
    for at in 0..1000 {
        text += &format!("o {:x} 32 1 {:x}\n", 0x100000 + at * 32, 0x100020 + at * 32);
    }
    let directory = Directory::new();
    let file = directory.file("app.heap", text + "end 1000 1000\n", 0o644);
    let output = heap(&file, &["--path", "107ce0"]);
    let said = assert_succeeds(&output);
    assert_has(
        &said,
        &[
            "pushed by the program -> 100000 (kind 1, 32 bytes)",
            "... 976 objects in between",
        ],
    );
    assert_eq!(said.matches("->").count(), 24);
    let json = assert_succeeds(&heap(&file, &["--path", "107ce0", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let path = json["path"].as_array().unwrap();
    assert_eq!((path.len(), &json["left_out"]), (24, &976.into()));
    let shown = |at: usize| path[at]["address"].as_str().unwrap();
    let ends = [shown(0), shown(11), shown(12), shown(23)];
    assert_eq!(ends, ["100000", "100160", "107b80", "107ce0"]);
    assert_has(
        &stderr(&output),
        &["1 reference leads to objects that are not in the snapshot"],
    );
}

#[test]
fn a_list_is_named_once_among_the_objects_that_retain_most() {
    let mut text = String::from("gleaner-heap 1\nroot pushed by the program\nt 100000\nt 900000\n");
    for at in 0..1000 {
        let next = if at < 999 {
            format!(" {:x}", 0x100020 + at * 32)
        } else {
            String::new()
        };
        text += &format!("o {:x} 32 1{next}\n", 0x100000 + at * 32);
    }
    text += "o 900000 200 1 900100\no 900100 4000 0\nend 1002 1000\n";
    let page = page(&text);
    let (_, holders) = page.split_once("The objects that retain most").unwrap();
    assert_has(
        holders,
        &[
            "objects object 31.2 KiB 88.4 % 1000 100000 (kind 1, 32 bytes) 4.10 KiB 11.6 % 2 900000 (kind 1, 200 bytes)",
        ],
    );
}

#[test]
fn an_address_that_no_object_has_is_refused_with_the_nearest() {
    let directory = Directory::new();
    let file = directory.file("app.heap", snapshot(), 0o644);
    let refused = |address: &str, message: &str| {
        for more in [&["--path", address][..], &["--path", address, "--json"]] {
            let output = heap(&file, more);
            assert_fails(&output, 2, message);
            assert_eq!(stdout(&output), "");
        }
    };
    refused(
        "7e0000000320",
        "the nearest are 7e0000000000 (normal, 800 bytes, allocated at table.c:7) before it and 7e0000200000",
    );
    refused("1", "the nearest are 7e0000000000");
    for address in ["", "0x", "12g", "+12", "-12", "11112222333344445"] {
        let output = heap(&file, &[&format!("--path={address}")]);
        assert_fails(
            &output,
            2,
            "is no address. Give the hexadecimal number of an object",
        );
    }
}

#[test]
fn growth_is_told_by_kind_and_root() {
    let directory = Directory::new();
    let then = directory.file("then.heap", snapshot(), 0o644);
    let since = |text: String| {
        let now = directory.file("now.heap", text, 0o644);
        heap(&now, &["--since", then.to_str().unwrap()])
    };
    let grown = grown();
    let output = since(grown.clone());
    assert_eq!(stderr(&output), "");
    let said = assert_succeeds(&output);
    assert_has(
        &said,
        &[
            "then 446 KiB in 4004 objects; my program, process 4711, at exit",
            "grown by +48.8 KiB; 97.7 KiB in 1 object lie where no object began then",
            "+97.7 KiB 0 bytes 97.7 KiB 0 1 normal of 97.7 KiB",
            "-195 KiB 195 KiB 0 bytes 1 0 pointer-free of 195 KiB",
            "+97.7 KiB 64 bytes 97.7 KiB 1 2 uncollectable objects",
            "-48.8 KiB 195 KiB 147 KiB 2 2 stack of thread 4711 (my program)",
        ],
    );
    // What has not changed is not said.
    assert!(
        !said.contains("96 bytes") && !said.contains("libmine"),
        "{said}"
    );
    let output = since(grown.replace("process 4711 my program", "process 4712 my program"));
    assert_has(
        &stderr(&output),
        &["of process 4711, the newer one of process 4712: addresses are not compared"],
    );
    let said = assert_succeeds(&output);
    assert_has(&said, &["stacks of threads called my program"]);
    assert!(!said.contains("where no object"), "{said}");
    let output = since(grown.replace("process 4711 my program", "process 4711 another"));
    assert_succeeds(&output);
    assert_has(
        &stderr(&output),
        &["is of my program, the newer one of another: what differs is not what grew"],
    );
    let same = since(snapshot());
    let said = assert_succeeds(&same);
    assert_has(
        &said,
        &["grown by +0 bytes; 0 bytes in 0 objects lie where"],
    );
    assert_eq!(said.lines().count(), 3, "{said}");
    let none = heap(
        &then,
        &["--since", directory.path("none").to_str().unwrap()],
    );
    assert_fails(&none, 2, "there is no snapshot ");
}

#[test]
fn either_snapshot_may_come_from_standard_input() {
    let directory = Directory::new();
    let then = directory.file("then.heap", snapshot(), 0o644);
    let now = directory.file("now.heap", grown(), 0o644);
    let [then_name, now_name] = [&then, &now].map(|path| path.to_str().unwrap());
    let read = |newer: &str, older: &str, input: &Path| {
        let mut command = gleaner();
        command.args(["heap", newer, "--since", older]);
        command.stdin(std::fs::File::open(input).unwrap());
        command.output().unwrap()
    };
    let expected = assert_succeeds(&heap(&now, &["--since", then_name]));
    assert_eq!(assert_succeeds(&read(now_name, "-", &then)), expected);
    assert_eq!(assert_succeeds(&read("-", then_name, &now)), expected);
    assert_fails(
        &read("-", "-", &now),
        2,
        "standard input cannot be both snapshots",
    );
}

#[test]
fn json_has_the_same_facts() {
    let directory = Directory::new();
    let file = directory.file("app.heap", snapshot(), 0o644);
    let json = |more: &[&str]| -> serde_json::Value {
        let text = assert_succeeds(&heap(&file, more));
        assert_eq!(text.lines().count(), 1);
        serde_json::from_str(&text).unwrap()
    };
    let facts = json(&["--json"]);
    let reached = 800 + 200_000 + 48 + 64 + 100 * 20 * (32 + 96);
    assert_eq!(facts["reached"]["bytes"], reached);
    assert_eq!(facts["reached"]["objects"], 4004);
    assert_eq!(facts["unreached"]["bytes"], 80);
    assert_eq!(
        (&facts["process"], &facts["name"]),
        (&4711.into(), &"my program".into())
    );
    assert_eq!(facts["classes"][0]["size"], 200_000);
    assert_eq!(facts["roots"][0]["words"][0]["slot"], "55000100");
    assert_eq!(facts["roots"][0]["retained"]["objects"], 4001);
    assert_eq!(facts["suspects"]["bytes"], 200_000);
    assert_eq!(facts["suspects"]["variables"]["bytes"], 48);
    assert_eq!(facts["suspects"]["worst"][0]["offset"], 65536);
    assert_eq!(facts["largest"][0]["address"], "7e0000200000");
    assert_eq!(facts["holders"][0]["site"], "table.c:7");
    assert_eq!(facts["whole"], true);
    let path = json(&["--json", "--path", "7e0100030000"]);
    assert_eq!(path["path"].as_array().unwrap().len(), 2);
    assert_eq!(path["object"]["retained"]["objects"], 40);
    assert!(json(&["--json", "--path", "7e0000800000"])["path"].is_null());
    let growth = json(&["--json", "--since", file.to_str().unwrap()]);
    assert_eq!(growth["now"]["bytes"], reached);
    assert_eq!(growth["classes"].as_array().unwrap().len(), 0);
}

/// Each answer as a whole, beside one that was checked by hand: which rows there are, their order and their words. What is
/// changed on purpose is written anew by `GLEANER_WRITE_ANSWERS=1 cargo test -p gleaner-cli --test heap whole_answers`.
#[test]
fn whole_answers_are_as_they_were_checked() {
    let directory = Directory::new();
    let then = directory.file("then.heap", snapshot(), 0o644);
    let now = directory.file("now.heap", grown(), 0o644);
    let then_name = then.to_str().unwrap();
    let deep = "7e0100050780";
    for (name, snapshot, more) in [
        ("page.txt", &then, vec![]),
        ("path.txt", &then, vec!["--path", deep]),
        ("growth.txt", &now, vec!["--since", then_name]),
        ("page.json", &then, vec!["--json"]),
        ("path.json", &then, vec!["--json", "--path", deep]),
        ("growth.json", &now, vec!["--json", "--since", then_name]),
    ] {
        let mut answer = assert_succeeds(&heap(snapshot, &more));
        if name.ends_with(".json") {
            let read: serde_json::Value = serde_json::from_str(&answer).unwrap();
            answer = serde_json::to_string_pretty(&read).unwrap() + "\n";
        }
        let answer = answer.replace(directory.path("").to_str().unwrap(), "");
        let checked = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/heap")
            .join(name);
        if std::env::var_os("GLEANER_WRITE_ANSWERS").is_some() {
            std::fs::write(&checked, &answer).unwrap();
        }
        let wanted = std::fs::read_to_string(&checked).unwrap();
        assert_eq!(answer, wanted, "is not {}", checked.display());
    }
}

/// What `--devtools` writes.
fn for_developer_tools(text: &str) -> serde_json::Value {
    let directory = Directory::new();
    let file = directory.file("app.heap", text, 0o644);
    let to = directory.path("app.heapsnapshot");
    let output = heap(&file, &["--devtools", to.to_str().unwrap()]);
    assert_has(
        &assert_succeeds(&output),
        &["app.heapsnapshot: 4005 objects, ", "Memory, Load"],
    );
    serde_json::from_str(&std::fs::read_to_string(&to).unwrap()).unwrap()
}

/// A list of numbers in it.
fn numbers(file: &serde_json::Value, name: &str) -> Vec<u64> {
    let list = file[name].as_array().unwrap();
    list.iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn developer_tools_get_all_nodes_and_edges() {
    let file = for_developer_tools(&snapshot());
    let (nodes, edges) = (numbers(&file, "nodes"), numbers(&file, "edges"));
    let count = |name: &str| file["snapshot"][name].as_u64().unwrap() as usize;
    // A virtual root and three roots; an edge to each root, one for each word.
    assert_eq!(nodes.len(), 7 * count("node_count"));
    assert_eq!(count("node_count"), 4 + 4005);
    assert_eq!(edges.len(), 3 * count("edge_count"));
    assert_eq!(count("edge_count"), 3 + 5 + 100 + 100 * 39);
    let node = |at: usize| &nodes[7 * at..][..7];
    let degrees: u64 = nodes.chunks(7).map(|node| node[4]).sum();
    assert_eq!(degrees as usize, count("edge_count"));
    let sizes: u64 = nodes.chunks(7).map(|node| node[3]).sum();
    assert_eq!(sizes, 800 + 200_000 + 48 + 64 + 80 + 100 * 20 * (32 + 96));
    let name = |number: u64| file["strings"][number as usize].as_str().unwrap();
    assert_eq!(name(node(1)[1]), "static data of libmine.so.1");
    assert_eq!(name(node(4)[1]), "table.c:7 (normal)");
    assert_eq!(name(node(5)[1]), "pointer-free, 195 KiB");
    // The first edge behind those of the virtual root: the word of the library, to the table.
    assert_eq!(
        (name(edges[3 * 3 + 1]), edges[3 * 3 + 2]),
        ("55000100 (+0x100)", 4 * 7)
    );
    assert!(
        edges
            .chunks(3)
            .all(|edge| edge[2] % 7 == 0 && edge[2] < nodes.len() as u64)
    );
}

#[test]
fn developer_tools_get_another_number_for_each_node() {
    let ids = |text: &str| -> Vec<u64> {
        let nodes = numbers(&for_developer_tools(text), "nodes");
        nodes.chunks(7).map(|node| node[2]).collect()
    };
    let all_differ = |ids: &[u64]| {
        let different: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(different.len(), 4 + 4005);
        assert!(ids.iter().all(|id| *id <= u64::from(u32::MAX)));
    };
    let near = ids(&snapshot());
    all_differ(&near);
    // Of the same address in each snapshot of a process.
    assert_eq!(near[4], 0x7e00_0000_0000 >> 4 & 0xffff_ffff);
    let far = snapshot().replace("7e0000800000", "110000000000");
    all_differ(&ids(&far));
    let odd = snapshot().replace("7e0000800000", "7e0000800001");
    all_differ(&ids(&odd));
}

#[test]
fn a_file_for_developer_tools_that_cannot_be_written_is_an_error() {
    let directory = Directory::new();
    let file = directory.file("app.heap", snapshot(), 0o644);
    let to = |output: &Path| heap(&file, &["--devtools", output.to_str().unwrap()]);
    let why = "No such file or directory";
    assert_fails(&to(&directory.path("no/x.heapsnapshot")), 2, why);
    assert_fails(&to(Path::new("/dev/full")), 2, "No space left on device");
    let before = std::fs::read(&file).unwrap();
    std::fs::hard_link(&file, directory.path("hard")).unwrap();
    for name in ["app.heap", "hard"] {
        assert_fails(
            &to(&directory.path(name)),
            2,
            "the file would replace the snapshot",
        );
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn what_is_no_snapshot_is_refused_with_the_remedy() {
    assert_refused(
        "",
        &[
            "is empty: its program has not written a snapshot yet",
            "exec --snapshot",
        ],
    );
    assert_refused(
        "{\"event\":\"mark\",\"pid\":1}\n",
        &[
            "the log of what the collector did. 'gleaner report",
            "exec --snapshot",
        ],
    );
    assert_refused(
        "a text\n",
        &[
            "line 1 does not say 'gleaner-heap' and a version",
            "exec --snapshot",
        ],
    );
    assert_refused(b"\x7fELF\x02\x01\x01\0\0\0", &["is no heap snapshot"]);
    assert_refused(vec![b'x'; 3_000_000], &["is no heap snapshot"]);
    assert_refused(
        "gleaner-heap 2\nsomething else\n",
        &["of version 2, and this command reads version 1"],
    );
    let broken = snapshot().replace("heap 1048576", "heap 1\u{1b}[2Jm");
    assert_refused(
        broken,
        &["line 4 is broken: the size of the heap is '1[2Jm' and not a decimal number"],
    );
    let behind = snapshot() + "o 10 16 1\n";
    assert_refused(behind, &["is broken: it stands behind the line 'end'"]);
    let directory = Directory::new();
    let fails = |path: &Path, message: &str| assert_fails(&heap(path, &[]), 2, message);
    fails(
        &directory.path("app.heap"),
        "app.heap -- PROGRAM' writes it",
    );
    fails(
        &directory.path(""),
        "is a directory: name the snapshot in it, such as ",
    );
    let cut = directory.file("cut.heap", "gleaner-heap 1\nprocess 5 short\n", 0o644);
    fails(&cut, "before its first object, so there is nothing to show");
    fails(
        Path::new("/proc/self/mem"),
        "cannot be read: Input/output error",
    );
    assert_fails(&run(&["heap"]), 2, "<SNAPSHOT>");
    let file = directory.file("app.heap", snapshot(), 0o644);
    let both = heap(&file, &["--path", "10", "--devtools", "x"]);
    assert_fails(&both, 2, "cannot be used with");
}

#[test]
fn a_snapshot_that_is_not_whole_is_shown_with_a_note() {
    let directory = Directory::new();
    let shown = |text: &str| {
        let output = heap(&directory.file("app.heap", text, 0o644), &[]);
        (assert_succeeds(&output), stderr(&output))
    };
    let whole = snapshot();
    let half = &whole[..whole.len() / 2];
    let (page, note) = shown(half);
    assert_has(&page, &["static data of libmine.so.1", "table.c:7"]);
    assert_has(&note, &["app.heap: it is cut off in or after line"]);
    assert_has(&note, &["the program was killed while it wrote it"]);
    let output = heap(&directory.path("app.heap"), &["--path", "10"]);
    assert_fails(&output, 2, "no object of the snapshot has the address 10");
    assert_has(&stderr(&output), &["it is cut off in or after line"]);
    let fewer = whole.replace("o 7e0000800000 80 1\n", "");
    let (_, note) = shown(&fewer);
    assert_has(
        &note,
        &["says at its end that it has 4005 objects and 4000 references, and has 4004 objects"],
    );
    let twice = whole.replace("o 7e0000800000 80 1\n", "o 7e0000600000 80 1\n");
    assert_has(
        &shown(&twice).1,
        &["1 object at an address that another one has"],
    );
    let lost = whole.replace("t 7e0000600000", "t 7e0000600010");
    assert_has(
        &shown(&lost).1,
        &["1 root word leads to objects that are not in the snapshot"],
    );
}

#[test]
fn text_of_a_snapshot_commands_no_terminal() {
    let evil = snapshot()
        .replace("my program", "my\u{1b}[2J program")
        .replace("list.c:12", "list\u{1b}[31m.c:12")
        .replace("libmine", "lib\u{202e}mine");
    let page = page(&evil);
    assert!(
        !page.contains('\u{1b}') && !page.contains('\u{202e}'),
        "{page}"
    );
    assert_has(&page, &["my[2J program", "list[31m.c:12", "libmine.so.1"]);
}

#[test]
fn a_snapshot_may_come_through_a_pipe_and_nobody_need_read_the_page() {
    let read = |is_closed: bool| {
        let mut command = gleaner();
        command.args(["heap", "-"]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        if is_closed {
            drop(child.stdout.take());
        }
        let mut input = child.stdin.take().unwrap();
        input.write_all(snapshot().as_bytes()).unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    };
    let said = assert_succeeds(&read(false));
    assert_has(&said, &["lives 446 KiB in 4004 objects"]);
    assert_eq!(stderr(&read(true)), "");
}

#[test]
fn a_real_program_has_the_objects_that_it_allocated() {
    let directory = Directory::new();
    let library = library();
    let source = "
#define GC_DEBUG
#include <gc.h>
struct node { struct node *next; char *text; };
struct node *kept;
struct node *volatile grown;
static void grow(struct node *volatile *list, int count) {
    for (int at = 0; at < count; at++) {
        struct node *node = GC_MALLOC(sizeof *node);
        node->next = *list;
        node->text = GC_MALLOC_ATOMIC(1000);
        *list = node;
    }
}
int main(void) {
    GC_INIT();
    grow((struct node *volatile *)&kept, 300);
    GC_gcollect();
    grow(&grown, 500);
    GC_gcollect();
    return 0;
}";
    directory.compile(
        "program",
        source,
        &["-O0", "-fno-pie", "-no-pie", library.to_str().unwrap()],
    );
    let pattern = directory.path("%n.heap");
    let output = gleaner()
        .args(["exec", "--snapshot", pattern.to_str().unwrap()])
        .args(["--opt", "snapshot-at=collection", "--"])
        .arg(directory.path("program"))
        .env("GLEANER_LIBGC", &library)
        .output()
        .unwrap();
    assert_succeeds(&output);
    // There may be others, where the heap was to grow.
    let asked: Vec<_> = (1..)
        .map(|number| directory.path(&format!("{number}.heap")))
        .take_while(|path| path.exists())
        .filter(|path| {
            std::fs::read_to_string(path)
                .unwrap()
                .contains(": GC_gcollect\n")
        })
        .collect();
    let [older, newer] = asked.as_slice() else {
        panic!("{asked:?}");
    };
    let json = |more: &[&str]| -> serde_json::Value {
        let output = heap(newer, more);
        assert_eq!(
            stderr(&output),
            "",
            "whole, and each reference leads to an object"
        );
        serde_json::from_str(&assert_succeeds(&output)).unwrap()
    };
    let facts = json(&["--json"]);
    let sites: Vec<_> = facts["sites"].as_array().unwrap().iter().collect();
    let objects = |line: &str| {
        let site = sites
            .iter()
            .find(|site| site["site"].as_str().unwrap().ends_with(line));
        site.map_or(0, |site| site["objects"].as_u64().unwrap())
    };
    assert_eq!((objects(":9"), objects(":11")), (800, 800), "{facts}");
    // What a call left behind on the stack may lead to a node, too: so only what lives is exact, and by which way.
    let growth = json(&["--json", "--since", older.to_str().unwrap()]);
    let classes: Vec<_> = growth["classes"].as_array().unwrap().iter().collect();
    let count = |when: &str| -> Vec<u64> {
        let grown = classes
            .iter()
            .map(|class| class[when]["objects"].as_u64().unwrap());
        grown.collect()
    };
    assert_eq!(
        (count("then"), count("now")),
        (vec![300; 2], vec![800; 2]),
        "{growth}"
    );
    let held = facts["holders"][0]["address"].as_str().unwrap();
    let path = assert_succeeds(&heap(newer, &["--path", held]));
    assert_has(&path, &["the program+0x", &format!("-> {held} (normal, ")]);
}

#[test]
fn a_file_that_may_not_be_so_long_is_an_error() {
    let directory = Directory::new();
    directory.file("app.heap", snapshot(), 0o644);
    let script = "ulimit -f 1; exec \"$0\" heap app.heap --devtools app.heapsnapshot";
    let output = clean(Command::new("sh"))
        .args(["-c", script, env!("CARGO_BIN_EXE_gleaner")])
        .current_dir(directory.path(""))
        .output()
        .unwrap();
    assert_fails(
        &output,
        2,
        "the file app.heapsnapshot cannot be written: File too large",
    );
}
