//! What several roots keep: which of them lead to it.
//!
//! How much each of them reaches says little, as one may reach all. So they are followed one after the other, and each is
//! asked only for what those before it did not lead to. Words that are pointers without much doubt come first.

use crate::census::Tally;
use crate::graph::Graph;
use crate::retained::Retained;
use crate::snapshot::Evidence;

/// By root: of what several roots keep, what it leads to and none before it does. Roots that add nothing are left out.
pub fn sharing(graph: &Graph<'_>, retained: &Retained) -> Vec<(u32, Tally)> {
    let snapshot = graph.snapshot;
    let is_of_one = retained.is_of_one_root(graph);
    let mut is_reached = vec![false; snapshot.count() as usize];
    let mut tallies = vec![Tally::default(); snapshot.roots.len()];
    let mut open = Vec::new();
    for evidence in Evidence::ALL {
        for root in 0..snapshot.roots.len() as u32 {
            for word in graph.words_of(root) {
                let word = &snapshot.words[word as usize];
                if snapshot.evidence(word) != evidence {
                    continue;
                }
                open.push(word.object);
                while let Some(object) = open.pop() {
                    if std::mem::replace(&mut is_reached[object as usize], true) {
                        continue;
                    }
                    if !is_of_one[object as usize] {
                        tallies[root as usize] += Tally::of(snapshot.bytes(object));
                    }
                    let targets = snapshot.targets(object).iter();
                    open.extend(targets.filter(|target| !is_reached[**target as usize]));
                }
            }
        }
    }
    let shared = (0..).zip(tallies);
    let mut shared: Vec<_> = shared.filter(|(_, tally)| tally.objects > 0).collect();
    shared.sort_by_key(|(_, tally)| std::cmp::Reverse(*tally));
    shared
}
