//! Words that may be no pointers, and what lives because of them alone.
//!
//! A conservative collector takes any word of a stack for a pointer that could be one. Most are: variables that are in use.
//! Others are what finished calls left behind, or numbers. Nobody can tell them apart from outside, so this says only what
//! would be at stake: by variables, and by words that nothing speaks for ([`Evidence`]).

use crate::census::Tally;
use crate::graph::{Graph, Node};
use crate::retained::Retained;
use crate::snapshot::Evidence;
use crate::top::top;

/// One part of the reached bytes in this many counts, however few bytes these are.
const PART: u64 = 100;
/// This many bytes count, however small a part they are.
const MOST_UNSAID: u64 = 64 << 10;

/// What such words keep.
pub struct Suspects {
    /// What would not be reached if all doubtful words were no pointers.
    pub all: Tally,
    /// What would not be reached then if those of stacks were none either, beside that.
    pub by_variables: Tally,
    /// How many doubtful words there are.
    pub words: u64,
    /// What keeps much of that, most first: a word, alone, or an object to which only such words lead, but several.
    pub worst: Vec<(Node, Tally)>,
    /// How many keep much.
    pub heavy: u64,
}

impl Suspects {
    /// Of a snapshot; at most `count` of the worst are named.
    pub fn new(graph: &Graph<'_>, retained: &Retained, count: usize) -> Suspects {
        let snapshot = graph.snapshot;
        let reached = retained.of(graph.number(Node::All));
        let (_, by_pointers) = reached_by(graph, |evidence| evidence == Evidence::Pointer);
        let (is_sure, sure) = reached_by(graph, |evidence| evidence != Evidence::Doubtful);
        let words = (0..).zip(&snapshot.words);
        let suspects = words
            .filter(|(_, word)| snapshot.evidence(word) == Evidence::Doubtful)
            .map(|(word, _)| Node::Word(word));
        let is_top = |number| {
            let above = retained.dominator(number).map(|above| graph.node(above));
            matches!(above, Some(Node::All | Node::Root(_)))
        };
        let objects = snapshot
            .objects()
            .filter(|object| !is_sure[*object as usize])
            .map(Node::Object)
            .filter(|object| is_top(graph.number(*object)));
        let least = (reached.bytes / PART).min(MOST_UNSAID);
        let mut heavy = 0;
        let kept = suspects.clone().chain(objects).map(|node| {
            let number = graph.number(node);
            (retained.of(number).bytes, number)
        });
        let counted = kept
            .filter(|(bytes, _)| *bytes > least)
            .inspect(|_| heavy += 1);
        let worst = top(counted, count);
        let worst = worst
            .into_iter()
            .map(|(_, number)| (graph.node(number), retained.of(number)));
        Suspects {
            all: reached.without(sure),
            by_variables: sure.without(by_pointers),
            words: suspects.count() as u64,
            worst: worst.collect(),
            heavy,
        }
    }
}

/// Which objects the words with such evidence lead to, and what these are in all.
fn reached_by(graph: &Graph<'_>, is_wanted: impl Fn(Evidence) -> bool) -> (Vec<bool>, Tally) {
    let snapshot = graph.snapshot;
    let mut is_reached = vec![false; snapshot.count() as usize];
    let mut open = Vec::new();
    let mut tally = Tally::default();
    let sure = snapshot
        .words
        .iter()
        .filter(|word| is_wanted(snapshot.evidence(word)));
    for word in sure {
        open.push(word.object);
        while let Some(object) = open.pop() {
            if !std::mem::replace(&mut is_reached[object as usize], true) {
                tally += Tally::of(snapshot.bytes(object));
                let targets = snapshot.targets(object).iter();
                open.extend(targets.filter(|target| !is_reached[**target as usize]));
            }
        }
    }
    (is_reached, tally)
}
