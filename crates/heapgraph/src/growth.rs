//! What grew between two snapshots.

use std::collections::BTreeMap;

use crate::census::{Census, Class, Tally};
use crate::graph::{Graph, Node};
use crate::retained::Retained;

/// What there was, and what there is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Change {
    /// In the older snapshot.
    pub then: Tally,
    /// In the newer one.
    pub now: Tally,
}

impl Change {
    /// By how many bytes it grew.
    pub fn growth(&self) -> i64 {
        self.now.bytes as i64 - self.then.bytes as i64
    }
}

/// What grew.
pub struct Growth {
    /// All that roots lead to.
    pub all: Change,
    /// By kind and size, what grew most first.
    pub classes: Vec<(Class, Change)>,
    /// By the site of allocation, as far as the snapshots tell.
    pub sites: Vec<(String, Change)>,
    /// By root: what only that root keeps.
    pub roots: Vec<(String, Change)>,
    /// Objects at addresses where none began then; nothing if these are not the addresses of the same process, or if objects move.
    pub new: Option<Tally>,
}

/// A snapshot with all that is known of it.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its nodes.
    pub graph: &'a Graph<'a>,
    /// What each retains.
    pub retained: &'a Retained,
    /// Of what roots lead to.
    pub census: &'a Census,
}

impl Growth {
    /// From the older to the newer snapshot.
    pub fn new(then: Side<'_>, now: Side<'_>) -> Growth {
        let is_same = then.graph.snapshot.process == now.graph.snapshot.process
            && then.graph.snapshot.name == now.graph.snapshot.name;
        let all = |side: Side<'_>| side.retained.of(side.graph.number(Node::All));
        Growth {
            all: Change {
                then: all(then),
                now: all(now),
            },
            classes: changes(
                then.census.classes.iter().cloned(),
                now.census.classes.iter().cloned(),
            ),
            sites: changes(
                then.census.sites.iter().cloned(),
                now.census.sites.iter().cloned(),
            ),
            roots: changes(then.roots(is_same), now.roots(is_same)),
            new: (is_same && !now.graph.snapshot.is_precise).then(|| now.new_since(&then)),
        }
    }
}

impl Side<'_> {
    /// What each root keeps alone, by a name that both snapshots have.
    fn roots(&self, is_same: bool) -> impl Iterator<Item = (String, Tally)> {
        let roots = self.graph.snapshot.roots.iter().enumerate();
        roots.map(move |(number, root)| {
            let name = if is_same {
                root.to_string()
            } else {
                root.in_any_process()
            };
            let number = self.graph.number(Node::Root(number as u32));
            (name, self.retained.of(number))
        })
    }

    fn new_since(&self, then: &Side<'_>) -> Tally {
        let snapshot = self.graph.snapshot;
        let is_new = |object: &u32| {
            then.graph.snapshot.exact(snapshot.base(*object)).is_none()
                && self
                    .retained
                    .is_reached(self.graph.number(Node::Object(*object)))
        };
        let new = snapshot.objects().filter(is_new);
        new.map(|object| Tally::of(snapshot.bytes(object))).sum()
    }
}

/// What changed from one list to the other, the largest change first. Entries of one name are put together.
fn changes<T: Ord>(
    then: impl Iterator<Item = (T, Tally)>,
    now: impl Iterator<Item = (T, Tally)>,
) -> Vec<(T, Change)> {
    let mut changes = BTreeMap::<T, Change>::new();
    for (name, tally) in then {
        changes.entry(name).or_default().then += tally;
    }
    for (name, tally) in now {
        changes.entry(name).or_default().now += tally;
    }
    let mut changes: Vec<_> = changes.into_iter().collect();
    changes.sort_by_key(|(_, change)| std::cmp::Reverse(change.growth()));
    changes
}
