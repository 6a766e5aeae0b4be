//! A shortest path from a root to an object: a search in breadth, from all words of roots at once.
//!
//! Words that are pointers without much doubt come first, so that a path does not begin in a doubtful one where there is
//! another as short.

use crate::graph::{Graph, Node};
use crate::snapshot::Evidence;
use crate::snapshot::{ObjectId, WordId};

/// Stands for an object that was not reached yet.
const NONE: u32 = u32::MAX;

/// From a word of a root to an object.
#[derive(PartialEq, Eq, Debug)]
pub struct Path {
    /// Where it begins.
    pub word: WordId,
    /// The object that the word leads to first, the one that was asked for last.
    pub objects: Vec<ObjectId>,
    /// How many words of roots lead to the last object directly.
    pub direct: u64,
}

impl Path {
    /// A path to `object`, if a root leads to it; only from words that are pointers without much doubt, if so asked.
    pub fn new(graph: &Graph<'_>, object: ObjectId, only_sure: bool) -> Option<Path> {
        let snapshot = graph.snapshot;
        let direct = snapshot.words.iter().filter(|word| word.object == object);
        let direct = direct.count() as u64;
        // By object: the number of the node from which it was reached first.
        let mut from = vec![NONE; snapshot.count() as usize];
        let mut reached = Vec::new();
        for evidence in Evidence::ALL
            .into_iter()
            .take(if only_sure { 1 } else { 3 })
        {
            for (number, word) in snapshot.words.iter().enumerate() {
                let at = word.object as usize;
                if from[at] == NONE && snapshot.evidence(word) == evidence {
                    from[at] = graph.number(Node::Word(number as WordId));
                    reached.push(word.object);
                }
            }
        }
        let mut next = 0;
        while from[object as usize] == NONE {
            let at = *reached.get(next)?;
            next += 1;
            for target in snapshot.targets(at) {
                if from[*target as usize] == NONE {
                    from[*target as usize] = graph.number(Node::Object(at));
                    reached.push(*target);
                }
            }
        }
        let mut objects = vec![object];
        loop {
            match graph.node(from[objects[objects.len() - 1] as usize]) {
                Node::Object(before) => objects.push(before),
                Node::Word(word) => {
                    objects.reverse();
                    return Some(Path {
                        word,
                        objects,
                        direct,
                    });
                }
                Node::All | Node::Root(_) => return None,
            }
        }
    }
}
