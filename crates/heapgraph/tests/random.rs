//! Random snapshots: what is said of them against the plain definition, which is to take something away and see what is
//! reached no more.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gleaner_heapgraph::*;
use proptest::prelude::*;

const OBJECTS: u64 = 14;

/// Objects of different sizes and what they refer to, and words: of which root, to which object, how far into it.
#[derive(Clone, Debug)]
struct Model {
    objects: Vec<Vec<u64>>,
    words: Vec<(u64, u64, u64)>,
}

fn base(object: u64) -> u64 {
    0x1000 + object * 0x1000
}

fn size(object: u64) -> u64 {
    16 << (object % 8)
}

impl Model {
    fn text(&self) -> String {
        let mut text = String::from("gleaner-heap 1\nprocess 1 random\n");
        for root in 0..3 {
            let _ = match root {
                0 => writeln!(text, "root static 100 900 /lib/x.so"),
                1 => writeln!(text, "root stack 7 100 900 main"),
                _ => writeln!(text, "root pushed"),
            };
            for (at, (of, object, offset)) in self.words.iter().enumerate() {
                let base = base(*object);
                let _ = match of {
                    _ if *of != root => continue,
                    2 => writeln!(text, "t {base:x}"),
                    _ => writeln!(text, "w {:x} {base:x} {offset}", 0x100 + at * 8),
                };
            }
        }
        let mut edges = 0;
        for (object, targets) in (0..).zip(&self.objects) {
            let _ = write!(text, "o {:x} {} 1", base(object), size(object));
            for target in targets {
                let _ = write!(text, " {:x}", base(*target));
                edges += 1;
            }
            text.push('\n');
        }
        let _ = writeln!(text, "end {} {edges}", self.objects.len());
        text
    }

    /// What the words lead to that are asked for, without going through one object.
    fn reached(&self, word: impl Fn(usize) -> bool, without: Option<u64>) -> BTreeSet<u64> {
        let words = self.words.iter().enumerate();
        let mut open: Vec<_> = words
            .filter(|(at, _)| word(*at))
            .map(|(_, (_, object, _))| *object)
            .collect();
        let mut reached = BTreeSet::new();
        while let Some(object) = open.pop() {
            if Some(object) != without && reached.insert(object) {
                open.extend(&self.objects[object as usize]);
            }
        }
        reached
    }

    /// What is gone.
    fn lost(&self, left: &BTreeSet<u64>) -> Tally {
        let all = self.reached(|_| true, None);
        let lost = all.difference(left);
        lost.map(|object| Tally::of(size(*object))).sum()
    }
}

fn models() -> impl Strategy<Value = Model> {
    let targets = prop::collection::vec(0..OBJECTS, 0..3);
    let objects = prop::collection::vec(targets, OBJECTS as usize);
    let words = prop::collection::vec((0..3_u64, 0..OBJECTS, 0..2_u64), 0..6);
    (objects, words).prop_map(|(objects, mut words)| {
        // In the file they come root by root.
        words.sort_by_key(|(root, _, _)| *root);
        for word in words.iter_mut().filter(|(root, _, _)| *root == 2) {
            word.2 = 0;
        }
        Model { objects, words }
    })
}

proptest! {
    #[test]
    fn what_a_node_retains_is_what_goes_with_it(model in models()) {
        let snapshot = read(model.text().as_bytes()).unwrap();
        let graph = Graph::new(&snapshot);
        let retained = Retained::new(&graph);
        let of = |node| retained.of(graph.number(node));
        let word = |at: usize| snapshot.words.iter().position(|word| match word.slot {
            Some(slot) => slot == 0x100 + at as u64 * 8,
            None => model.words[at].0 == 2 && at >= model.words.len() - graph.words_of(2).len(),
        });
        prop_assert_eq!(snapshot.ending, Ending::Whole);
        for object in 0..OBJECTS {
            let left = model.reached(|_| true, Some(object));
            prop_assert_eq!(of(Node::Object(object as u32)), model.lost(&left), "object {}", object);
        }
        for at in 0..model.words.len() {
            prop_assert!(word(at).is_some());
            let left = model.reached(|other| other != at, None);
            prop_assert_eq!(of(Node::Word(at as u32)), model.lost(&left), "word {}", at);
        }
        for root in 0..3 {
            let left = model.reached(|at| model.words[at].0 != u64::from(root), None);
            prop_assert_eq!(of(Node::Root(root)), model.lost(&left), "root {}", root);
        }
        let is_doubtful = |at: usize| {
            let (root, _, offset) = model.words[at];
            root < 2 && offset > 0
        };
        let left = model.reached(|at| !is_doubtful(at), None);
        prop_assert_eq!(Suspects::new(&graph, &retained, 3).all, model.lost(&left));
        // What one root keeps, and what several keep, is all.
        let alone: Tally = (0..3).map(|root| of(Node::Root(root))).sum();
        let shared: Tally = sharing(&graph, &retained).iter().map(|(_, tally)| *tally).sum();
        prop_assert_eq!([alone, shared].into_iter().sum::<Tally>(), of(Node::All));
    }

    #[test]
    fn a_path_leads_there_and_none_is_shorter(model in models()) {
        let snapshot = read(model.text().as_bytes()).unwrap();
        let graph = Graph::new(&snapshot);
        for object in 0..OBJECTS {
            // By the number of objects on the way.
            let mut near: BTreeSet<_> = model.words.iter().map(|(_, object, _)| *object).collect();
            let mut length = 1;
            while !near.contains(&object) && length <= OBJECTS {
                let next = near.iter().flat_map(|object| &model.objects[*object as usize]);
                near = near.iter().chain(next).copied().collect();
                length += 1;
            }
            let Some(path) = Path::new(&graph, object as u32, false) else {
                prop_assert!(length > OBJECTS);
                continue;
            };
            prop_assert_eq!(path.objects.len() as u64, length);
            prop_assert_eq!(path.objects.last(), Some(&(object as u32)));
            prop_assert_eq!(snapshot.words[path.word as usize].object, path.objects[0]);
            for step in path.objects.windows(2) {
                prop_assert!(snapshot.targets(step[0]).contains(&step[1]));
            }
        }
    }
}
