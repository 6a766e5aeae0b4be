//! All that is found out about a snapshot, for whatever form it is shown in.

use gleaner_heapgraph::{
    Census, Graph, Node, Retained, Side, Snapshot, Tally, WordId, sharing, top,
};

/// Roots that are shown with their words.
const MOST_ROOTS: usize = 10;
/// Roots that are shown although they keep little.
const LEAST_ROOTS: usize = 3;
/// Words of a root that are shown.
const MOST_WORDS: usize = 3;
/// A word is shown that retains at least this part of what is reached.
const LEAST_PART: u64 = 200;

/// A snapshot, and what was found out.
pub(super) struct Facts<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) graph: Graph<'a>,
    pub(super) retained: Retained,
    /// Of what roots lead to.
    pub(super) census: Census,
    pub(super) reached: Tally,
    pub(super) unreached: Tally,
}

/// What a root keeps.
pub(super) struct Keeper {
    pub(super) root: u32,
    /// What nothing else keeps.
    pub(super) alone: Tally,
    /// The words of the root that keep most alone.
    pub(super) words: Vec<(WordId, Tally)>,
    /// How many other words it has.
    pub(super) more_words: u64,
    /// What those keep alone, each for itself.
    pub(super) by_more_words: Tally,
    /// What several of its words keep.
    pub(super) by_several: Tally,
}

/// What all roots keep.
pub(super) struct Keepers {
    /// The roots that keep most.
    pub(super) roots: Vec<Keeper>,
    /// How many others there are.
    pub(super) more_roots: u64,
    pub(super) by_more_roots: Tally,
    /// What several roots keep.
    pub(super) by_several: Tally,
    /// Of that, which root leads to it first.
    pub(super) sharing: Vec<(u32, Tally)>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Facts<'a> {
        let graph = Graph::new(snapshot);
        let retained = Retained::new(&graph);
        let is_reached = |object: &u32| retained.is_reached(graph.number(Node::Object(*object)));
        let census = Census::new(snapshot, snapshot.objects().filter(is_reached));
        let reached = retained.of(graph.number(Node::All));
        let all: Tally = snapshot
            .objects()
            .map(|object| Tally::of(snapshot.bytes(object)))
            .sum();
        Facts {
            unreached: all.without(reached),
            snapshot,
            graph,
            retained,
            census,
            reached,
        }
    }

    /// What a node keeps alone.
    pub(super) fn kept_by(&self, node: Node) -> Tally {
        self.retained.of(self.graph.number(node))
    }

    /// The roots by what they keep alone.
    pub(super) fn keepers(&self) -> Keepers {
        let count = self.snapshot.roots.len() as u32;
        let by_root = |root| (self.kept_by(Node::Root(root)).bytes, root);
        let largest = top((0..count).map(by_root), MOST_ROOTS);
        let roots: Vec<_> = largest
            .into_iter()
            .enumerate()
            .filter(|(at, (bytes, _))| *bytes > 0 && (*bytes >= self.least() || *at < LEAST_ROOTS))
            .map(|(_, (_, root))| self.keeper(root))
            .collect();
        let all: Tally = (0..count).map(|root| self.kept_by(Node::Root(root))).sum();
        let shown: Tally = roots.iter().map(|keeper| keeper.alone).sum();
        Keepers {
            more_roots: u64::from(count) - roots.len() as u64,
            roots,
            by_more_roots: all.without(shown),
            by_several: self.reached.without(all),
            sharing: sharing(&self.graph, &self.retained),
        }
    }

    fn keeper(&self, root: u32) -> Keeper {
        let words = || self.graph.words_of(root);
        let by_word = |word| (self.kept_by(Node::Word(word)).bytes, word);
        let largest = top(words().map(by_word), MOST_WORDS);
        let least = self.least();
        let words_shown: Vec<_> = largest
            .into_iter()
            .filter(|(bytes, _)| *bytes > 0 && *bytes >= least)
            .map(|(_, word)| (word, self.kept_by(Node::Word(word))))
            .collect();
        let all: Tally = words().map(|word| self.kept_by(Node::Word(word))).sum();
        let shown: Tally = words_shown.iter().map(|(_, kept)| *kept).sum();
        let alone = self.kept_by(Node::Root(root));
        Keeper {
            root,
            alone,
            more_words: words().len() as u64 - words_shown.len() as u64,
            words: words_shown,
            by_more_words: all.without(shown),
            by_several: alone.without(all),
        }
    }

    /// The largest objects by themselves, as far as they are worth a line.
    pub(super) fn largest(&self, count: usize) -> Vec<(u64, u32)> {
        let objects = self.snapshot.objects().filter(|object| {
            let number = self.graph.number(Node::Object(*object));
            self.snapshot.bytes(*object) >= self.least() && self.retained.is_reached(number)
        });
        let sized = objects.map(|object| (self.snapshot.bytes(object), object));
        top(sized, count)
    }

    /// What is worth a line among large objects.
    pub(super) fn least(&self) -> u64 {
        self.reached.bytes / LEAST_PART
    }

    /// The objects that hold most. One that another holds with nine tenths of what that retains says nothing new: in a
    /// list each element retains nearly as much as the one before it.
    pub(super) fn holders(&self, count: usize) -> Vec<(u64, u32)> {
        let holders = self.snapshot.objects().filter_map(|object| {
            let number = self.graph.number(Node::Object(object));
            let kept = self.retained.of(number);
            let above = self.retained.dominator(number)?;
            let is_of_object = matches!(self.graph.node(above), Node::Object(_));
            let says_nothing = is_of_object && kept.bytes > self.retained.of(above).bytes / 10 * 9;
            let holds = kept.objects > 1 && kept.bytes >= self.least() && !says_nothing;
            holds.then_some((kept.bytes, object))
        });
        top(holders, count)
    }

    /// For a comparison.
    pub(super) fn side(&self) -> Side<'_> {
        Side {
            graph: &self.graph,
            retained: &self.retained,
            census: &self.census,
        }
    }
}
