//! What would be garbage without a node: what it dominates, itself included.

use crate::census::Tally;
use crate::dominators::Dominators;
use crate::graph::{Graph, Node};

/// What each node retains.
pub struct Retained {
    dominators: Dominators,
    /// By place in the order of the dominators.
    tallies: Vec<Tally>,
}

impl Retained {
    /// Of each node of the graph.
    pub fn new(graph: &Graph<'_>) -> Retained {
        let dominators = Dominators::new(graph);
        let mut tallies: Vec<Tally> = dominators
            .order()
            .iter()
            .map(|number| match graph.node(*number) {
                Node::Object(object) => Tally::of(graph.snapshot.bytes(object)),
                _ => Tally::default(),
            })
            .collect();
        let above = dominators.by_place();
        for place in (1..tallies.len()).rev() {
            let tally = tallies[place];
            tallies[above[place] as usize] += tally;
        }
        Retained {
            dominators,
            tallies,
        }
    }

    /// What the node with this number retains; nothing if no root leads to it.
    pub fn of(&self, number: u32) -> Tally {
        self.dominators
            .place(number)
            .map_or(Tally::default(), |place| self.tallies[place as usize])
    }

    /// Whether a root leads to the node with this number.
    pub fn is_reached(&self, number: u32) -> bool {
        self.dominators.place(number).is_some()
    }

    /// By object: whether one root alone keeps it. What no root leads to counts as that.
    pub(crate) fn is_of_one_root(&self, graph: &Graph<'_>) -> Vec<bool> {
        let above = self.dominators.by_place();
        let mut by_place = vec![false; above.len()];
        let mut by_object = vec![true; graph.snapshot.count() as usize];
        for (place, number) in self.dominators.order().iter().enumerate().skip(1) {
            let node = graph.node(*number);
            by_place[place] = matches!(node, Node::Root(_)) || by_place[above[place] as usize];
            if let Node::Object(object) = node {
                by_object[object as usize] = by_place[place];
            }
        }
        by_object
    }

    /// The last node that each path to this one goes through.
    pub fn dominator(&self, number: u32) -> Option<u32> {
        self.dominators.of(number)
    }
}
