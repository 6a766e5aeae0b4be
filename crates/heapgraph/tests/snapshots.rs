//! What is said of small snapshots that are written by hand, and of files that are none.

use gleaner_heapgraph::*;

const SMALL: &str = "\
gleaner-heap 1
process 4711 my program
when collection 12
heap 65536
kind 0 pointer-free
kind 1 normal
root static 1000 2000 /usr/bin/my-program
w 1010 a000 0
w 1018 a100 8
root stack 4711 7000 8000 main
w 7008 a200 0
w 7010 a200 0
root static 3000 3100 
w 3008 b000 0
root uncollectable
t a300
root stack 4711 9000 9100 main
w 9008 a400 0
o a000 32 1 a020 a020
a list.c:12
o a020 32 1 a300
a list.c:12
o a100 64 1 a300 dead
o a200 4096 0
o a300 16 1 a310
o a310 16 0
o a400 48 1 a500
o a500 1024 0
o a600 8 1 a000
end 9 8
";

fn snapshot(text: &str) -> Snapshot {
    read(text.as_bytes()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// The small one with another line.
fn small_with(line: &str, other: &str) -> Snapshot {
    assert!(SMALL.contains(line));
    snapshot(&SMALL.replace(line, other))
}

fn object(snapshot: &Snapshot, base: u64) -> ObjectId {
    snapshot.exact(base).unwrap()
}

fn kept(bytes: u64, objects: u64) -> Tally {
    Tally { bytes, objects }
}

#[test]
fn a_snapshot_has_what_its_lines_say() {
    let small = snapshot(SMALL);
    assert_eq!((small.process, small.name.as_str()), (4711, "my program"));
    assert_eq!(
        (small.when.as_str(), small.capacity),
        ("collection 12", 65536)
    );
    assert_eq!(small.ending, Ending::Whole);
    assert_eq!((small.count(), small.edge_count()), (9, 7));
    assert_eq!(
        (small.lost_words, small.lost_edges, small.repeated),
        (1, 1, 0)
    );
    let roots: Vec<_> = small.roots.iter().map(Root::to_string).collect();
    let expected = [
        "static data of my-program",
        "stack of thread 4711 (main)",
        "memory registered at 3000",
        "uncollectable objects",
    ];
    assert_eq!(roots, expected);
    // Those of the second part of the stack lie with those of the first.
    let slots: Vec<_> = small
        .words
        .iter()
        .map(|word| word.slot.unwrap_or(0))
        .collect();
    assert_eq!(slots, [0x1010, 0x1018, 0x7008, 0x7010, 0x9008, 0]);
    assert_eq!(small.words[1].offset, 8);
    let first = object(&small, 0xa000);
    let second = object(&small, 0xa020);
    assert_eq!(small.targets(first), [second, second]);
    assert_eq!((small.bytes(first), small.kind(first)), (32, 1));
    assert_eq!(small.kind_name(1), "normal");
    assert_eq!(small.kind_name(9), "kind 9");
    assert_eq!(small.site_of(second), Some("list.c:12"));
    assert_eq!(small.site_of(object(&small, 0xa100)), None);
    assert_eq!(small.at(0xa01f), Some(first));
    assert_eq!(small.at(0xa320), None);
}

#[test]
fn objects_in_any_order_are_the_same_objects() {
    let mut lines: Vec<_> = SMALL
        .lines()
        .filter(|line| !line.starts_with("a "))
        .collect();
    let plain = lines.join("\n") + "\n";
    let first = lines
        .iter()
        .position(|line| line.starts_with("o "))
        .unwrap();
    let end = lines.len() - 1;
    lines[first..end].reverse();
    let turned = lines.join("\n") + "\n";
    let reached = |snapshot: &Snapshot| {
        let graph = Graph::new(snapshot);
        let retained = Retained::new(&graph);
        let mut found: Vec<_> = snapshot
            .objects()
            .map(|object| {
                (
                    snapshot.base(object),
                    retained.of(graph.number(Node::Object(object))),
                )
            })
            .collect();
        found.sort();
        found
    };
    assert_eq!(reached(&snapshot(&plain)), reached(&snapshot(&turned)));
}

#[test]
fn each_root_word_and_object_retains_what_only_it_leads_to() {
    let small = snapshot(SMALL);
    let graph = Graph::new(&small);
    let retained = Retained::new(&graph);
    let of = |node| retained.of(graph.number(node));
    assert_eq!(
        of(Node::All),
        kept(32 + 32 + 64 + 4096 + 16 + 16 + 48 + 1024, 8)
    );
    // a300 is kept by the list, by a100 and by the collector: nobody's alone.
    assert_eq!(of(Node::Word(0)), kept(64, 2));
    assert_eq!(of(Node::Word(1)), kept(64, 1));
    assert_eq!(of(Node::Root(0)), kept(128, 3));
    // Two words of the stack lead to a200: it is the stack's, and no word's.
    assert_eq!(
        (of(Node::Word(2)), of(Node::Word(3))),
        (kept(0, 0), kept(0, 0))
    );
    assert_eq!(of(Node::Word(4)), kept(1072, 2));
    assert_eq!(of(Node::Root(1)), kept(4096 + 1072, 3));
    assert_eq!(of(Node::Root(3)), kept(0, 0));
    assert_eq!(of(Node::Object(object(&small, 0xa300))), kept(32, 2));
    let waits = graph.number(Node::Object(object(&small, 0xa600)));
    assert!(!retained.is_reached(waits) && retained.of(waits) == kept(0, 0));
    assert_eq!(sharing(&graph, &retained), [(0, kept(32, 2))]);
}

#[test]
fn a_census_counts_by_kind_size_and_site() {
    let small = snapshot(SMALL);
    let census = Census::new(&small, small.objects());
    let class = |kind: &str, bytes| Class {
        kind: kind.into(),
        bytes: Some(bytes),
    };
    assert_eq!(
        census.classes[0],
        (class("pointer-free", 4096), kept(4096, 1))
    );
    assert!(census.classes.contains(&(class("normal", 32), kept(64, 2))));
    assert_eq!(census.sites, [("list.c:12".into(), kept(64, 2))]);
}

#[test]
fn a_path_is_short_and_begins_in_a_word_without_doubt() {
    let small = snapshot(SMALL);
    let graph = Graph::new(&small);
    let path = |base| {
        Path::new(&graph, object(&small, base), false).map(|path| {
            let bases: Vec<_> = path
                .objects
                .iter()
                .map(|object| small.base(*object))
                .collect();
            (path.word, bases, path.direct)
        })
    };
    assert_eq!(path(0xa310), Some((5, vec![0xa300, 0xa310], 0)));
    assert_eq!(path(0xa020), Some((0, vec![0xa000, 0xa020], 0)));
    assert_eq!(path(0xa200), Some((2, vec![0xa200], 2)));
    assert_eq!(path(0xa600), None);
    let sure = |base| Path::new(&graph, object(&small, base), true).is_some();
    assert!(sure(0xa310) && !sure(0xa100) && !sure(0xa500));
    let doubtful_first = "gleaner-heap 1\nroot stack 1 10 20 x\nw 10 a0 0\nroot static 30 40 y\nw 30 a0 0\no a0 16 1\nend 1 0\n";
    let two = snapshot(doubtful_first);
    let path = Path::new(&Graph::new(&two), 0, false).unwrap();
    assert_eq!((path.word, path.direct), (1, 2));
}

#[test]
fn words_that_may_be_no_pointers_are_suspected_of_what_only_they_keep() {
    let small = snapshot(SMALL);
    let graph = Graph::new(&small);
    let retained = Retained::new(&graph);
    let suspects = Suspects::new(&graph, &retained, 10);
    // a100 by a word that leads to its middle; a200 by two words of a stack together, a400 and a500 by one.
    assert_eq!(suspects.all, kept(64, 1));
    assert_eq!(suspects.by_variables, kept(4096 + 48 + 1024, 3));
    assert_eq!(suspects.words, 1);
    assert_eq!(suspects.worst, [(Node::Word(1), kept(64, 1))]);
    // Two words of a stack that lead inside of a200 keep it together.
    let two = SMALL.replace(" a200 0\n", " a200 24\n");
    let two = snapshot(&two);
    let graph = Graph::new(&two);
    let suspects = Suspects::new(&graph, &Retained::new(&graph), 10);
    let both = Node::Object(object(&two, 0xa200));
    assert_eq!((suspects.all, suspects.words), (kept(4096 + 64, 2), 3));
    assert_eq!(
        suspects.worst,
        [(both, kept(4096, 1)), (Node::Word(1), kept(64, 1))]
    );
    assert_eq!(Suspects::new(&graph, &retained, 1).heavy, 2);
    assert_eq!(Suspects::new(&graph, &retained, 1).worst.len(), 1);
    // Behind the header of debugging allocation is where such an object begins for the program.
    let debugged = small_with("w 1010 a000 0", "w 1010 a000 32");
    assert_eq!(debugged.evidence(&debugged.words[0]), Evidence::Pointer);
    let inside = small_with("w 1018 a100 8", "w 1018 a100 32");
    assert_eq!(inside.evidence(&inside.words[1]), Evidence::Doubtful);
}

#[test]
fn a_place_that_objects_refer_to_speaks_for_a_word() {
    let evidence = |more: &str| {
        let text = SMALL.replace(" a200 0\n", " a200 24\n");
        let found = snapshot(&text.replace("end 9 8", &format!("{more}end 9 8")));
        [1, 2, 3].map(|word: usize| found.evidence(&found.words[word]))
    };
    use Evidence::{Doubtful, Pointer, Variable};
    assert_eq!(evidence(""), [Doubtful; 3]);
    assert_eq!(evidence("held a108\n"), [Pointer, Doubtful, Doubtful]);
    assert_eq!(evidence("held a218\n"), [Doubtful, Variable, Variable]);
    assert_eq!(evidence("held a200\n"), [Doubtful; 3]);
}

#[test]
fn what_grew_is_told_by_kind_root_and_address() {
    let more = "o a500 1024 0\no c000 2048 0\no c800 2048 0\n";
    let later = SMALL
        .replace("o a500 1024 0\n", more)
        .replace("o a400 48 1 a500", "o a400 48 1 a500 c000 c800")
        .replace("end 9 8", "end 11 10");
    let facts = |snapshot: &Snapshot, check: &dyn Fn(Side<'_>)| {
        let graph = Graph::new(snapshot);
        let retained = Retained::new(&graph);
        let census = Census::new(snapshot, snapshot.objects());
        check(Side {
            graph: &graph,
            retained: &retained,
            census: &census,
        });
    };
    let small = snapshot(SMALL);
    let compare = |later: &str, check: &dyn Fn(&Growth)| {
        let later = snapshot(later);
        facts(&small, &|then| {
            facts(&later, &|now| check(&Growth::new(then, now)))
        });
    };
    compare(&later, &|growth| {
        assert_eq!(growth.all.growth(), 4096);
        assert_eq!(growth.new, Some(kept(4096, 2)));
        let (class, change) = &growth.classes[0];
        assert_eq!(
            (class.bytes, change.then, change.now),
            (Some(2048), kept(0, 0), kept(4096, 2))
        );
        let (root, change) = &growth.roots[0];
        assert_eq!(root, "stack of thread 4711 (main)");
        assert_eq!((change.then.objects, change.now.objects), (3, 5));
        assert_eq!(growth.classes.last().unwrap().1.growth(), 0);
    });
    // Another process has other addresses and threads.
    compare(&later.replace("4711", "4712"), &|growth| {
        assert_eq!(growth.new, None);
        let (root, change) = &growth.roots[0];
        assert_eq!(root, "stacks of threads called main");
        assert_eq!((change.then.objects, change.now.objects), (3, 5));
    });
}

/// What a file says that is not whole or no snapshot.
fn refusal(text: impl AsRef<[u8]>) -> String {
    match read(text.as_ref()) {
        Ok(_) => "was read".into(),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn what_is_no_snapshot_is_told_apart() {
    assert_eq!(refusal(""), "Empty");
    let log = refusal("{\"event\":\"mark\",\"pid\":1}\n");
    assert!(
        log.starts_with("EventLog(") && log.contains("mark"),
        "{log}"
    );
    assert_eq!(refusal("hello\n"), "NoSnapshot");
    assert_eq!(refusal(vec![0; 1 << 20]), "NoSnapshot");
    assert_eq!(refusal("gleaner-heap 2\nwhatever\n"), "Version(\"2\")");
    assert!(refusal("gleaner-heap 1\r\nprocess 1 x\r\n").contains("ends in CR LF"));
    for (line, number) in [
        ("w 1 2", 7),
        ("o zz 1 1", 7),
        ("t a000", 7),
        ("nonsense", 7),
        ("", 7),
    ] {
        let text = SMALL.replace("root static 1000", &format!("{line}\nroot static 1000"));
        let said = refusal(text);
        assert!(
            said.starts_with(&format!("Broken {{ line: {number}")),
            "{line}: {said}"
        );
    }
    let wrong_root = SMALL.replace("t a300", "w 10 a300 0");
    assert!(refusal(wrong_root).contains("line: 16, why: \"the root above it"));
    assert!(
        refusal(SMALL.to_string() + "o 10 16 1\n").contains("line: 31, why: \"it stands behind")
    );
    assert!(refusal("gleaner-heap 1\na x.c:1\n").contains("it belongs to an object"));
}

#[test]
fn a_file_that_was_cut_off_anywhere_is_read_as_far_as_it_goes() {
    for end in 0..SMALL.len() {
        let cut = &SMALL[..end];
        let whole = cut.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let objects = whole.lines().filter(|line| line.starts_with("o ")).count();
        match read(cut.as_bytes()) {
            Ok(snapshot) => {
                assert!(matches!(snapshot.ending, Ending::Cut { .. }), "{cut}");
                assert!(objects > 0, "{end}");
                assert_eq!(snapshot.count() as usize, objects);
                Retained::new(&Graph::new(&snapshot));
            }
            Err(ReadError::Empty) => assert_eq!(end, 0),
            Err(ReadError::CutEarly { line }) => {
                assert_eq!((objects, line as usize), (0, cut.lines().count()), "{end}");
            }
            Err(error) => assert!(end < 14, "{end}: {error:?}"),
        }
    }
    let fewer = snapshot(&SMALL.replace("o a600 8 1 a000\n", ""));
    assert_eq!(
        fewer.ending,
        Ending::Differs {
            objects: 9,
            edges: 8
        }
    );
}
