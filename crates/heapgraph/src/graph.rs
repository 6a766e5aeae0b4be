//! The nodes of a heap: one virtual root that leads to the roots, these to their words, and those to objects.
//!
//! Without the roots in between, an object that two words of one stack lead to would belong to nobody; so it belongs to
//! the stack.

use crate::dominators::Flow;
use crate::snapshot::{ObjectId, Snapshot, WordId};

/// What a node is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Node {
    /// Leads to all roots.
    All,
    /// A root, by its place.
    Root(u32),
    /// A word of one.
    Word(WordId),
    /// An object.
    Object(ObjectId),
}

/// A snapshot as nodes with numbers: the virtual root is 0, then come roots, words and objects.
pub struct Graph<'a> {
    /// What it is made from.
    pub snapshot: &'a Snapshot,
    first_word: u32,
    first_object: u32,
    nodes: u32,
    /// The first word of each root, and the number of all.
    words_from: Vec<u32>,
}

impl<'a> Graph<'a> {
    /// Of all that is in `snapshot`.
    pub fn new(snapshot: &'a Snapshot) -> Graph<'a> {
        let roots = snapshot.roots.len() as u32;
        let words_from = (0..=roots)
            .map(|root| {
                let is_before = |word: &_| snapshot.root_of(word) < root;
                snapshot.words.partition_point(is_before) as u32
            })
            .collect();
        let first_word = 1 + roots;
        let first_object = first_word + snapshot.words.len() as u32;
        Graph {
            snapshot,
            first_word,
            first_object,
            nodes: first_object + snapshot.count(),
            words_from,
        }
    }

    /// The words of a root.
    pub fn words_of(&self, root: u32) -> std::ops::Range<WordId> {
        self.words_from[root as usize]..self.words_from[root as usize + 1]
    }

    /// The number of a node.
    pub fn number(&self, node: Node) -> u32 {
        match node {
            Node::All => 0,
            Node::Root(root) => 1 + root,
            Node::Word(word) => self.first_word + word,
            Node::Object(object) => self.first_object + object,
        }
    }

    /// The node that has this number.
    pub fn node(&self, number: u32) -> Node {
        match number {
            0 => Node::All,
            _ if number < self.first_word => Node::Root(number - 1),
            _ if number < self.first_object => Node::Word(number - self.first_word),
            _ => Node::Object(number - self.first_object),
        }
    }
}

impl Flow for Graph<'_> {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn degree(&self, number: u32) -> u32 {
        match self.node(number) {
            Node::All => self.snapshot.roots.len() as u32,
            Node::Root(root) => self.words_of(root).len() as u32,
            Node::Word(_) => 1,
            Node::Object(object) => self.snapshot.targets(object).len() as u32,
        }
    }

    fn successor(&self, number: u32, at: u32) -> u32 {
        match self.node(number) {
            Node::All => 1 + at,
            Node::Root(root) => self.first_word + self.words_of(root).start + at,
            Node::Word(word) => self.first_object + self.snapshot.words[word as usize].object,
            Node::Object(object) => self.first_object + self.snapshot.targets(object)[at as usize],
        }
    }
}
