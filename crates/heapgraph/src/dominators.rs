//! Dominators: the last node that each path from node 0 to a node goes through.
//!
//! The method is that of Lengauer and Tarjan (*A fast algorithm for finding dominators in a flowgraph*, TOPLAS 1979),
//! with paths compressed and no balancing: its time grows little faster than the number of references, whatever the
//! graph. Methods that iterate are shorter, but need a pass for each element of a list that is linked in both directions
//! and whose two ends are kept, which is what a queue is.
//!
//! Nodes are numbered anew in the order in which a search in depth reaches them, so that most accesses are close to each
//! other. A node that is not reached has no number.

/// A graph that flows from node 0.
pub trait Flow {
    /// How many nodes there are, node 0 among them.
    fn nodes(&self) -> u32;
    /// How many successors a node has.
    fn degree(&self, node: u32) -> u32;
    /// One of them.
    fn successor(&self, node: u32, at: u32) -> u32;
}

/// Stands for no node.
const NONE: u32 = u32::MAX;

/// The immediate dominator of each node that is reached.
pub struct Dominators {
    /// The nodes in the order of the search. Node 0 is the first.
    order: Vec<u32>,
    /// The place of each node in it, or `NONE`.
    places: Vec<u32>,
    /// By place: the place of the immediate dominator, which is a lower one. That of node 0 is its own.
    dominators: Vec<u32>,
}

impl Dominators {
    /// Of all nodes of `flow`.
    pub fn new(flow: &impl Flow) -> Dominators {
        let mut search = Search::new(flow);
        let dominators = search.dominators();
        Dominators {
            order: search.order,
            places: search.places,
            dominators,
        }
    }

    /// The nodes that are reached, each behind its dominator.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The place of a node in that order.
    pub fn place(&self, node: u32) -> Option<u32> {
        Some(self.places[node as usize]).filter(|place| *place != NONE)
    }

    /// By place: the place of the immediate dominator.
    pub fn by_place(&self) -> &[u32] {
        &self.dominators
    }

    /// The immediate dominator of a node that is reached and is not node 0.
    pub fn of(&self, node: u32) -> Option<u32> {
        let place = self.place(node).filter(|place| *place != 0)?;
        Some(self.order[self.dominators[place as usize] as usize])
    }
}

/// A search in depth from node 0, and what it found out about each node, by place.
struct Search {
    order: Vec<u32>,
    places: Vec<u32>,
    parents: Vec<u32>,
    /// The least place of a predecessor; later the semidominator.
    semi: Vec<u32>,
    /// The first of the predecessors with higher places, in `crossing`.
    first_crossing: Vec<u32>,
    /// A predecessor, and where the next one of the same node is.
    crossing: Vec<(u32, u32)>,
}

impl Search {
    fn new(flow: &impl Flow) -> Search {
        let mut search = Search {
            order: Vec::new(),
            places: vec![NONE; flow.nodes() as usize],
            parents: Vec::new(),
            semi: Vec::new(),
            first_crossing: Vec::new(),
            crossing: Vec::new(),
        };
        search.visit(0, 0);
        // A place, and which of its successors is next.
        let mut open = vec![(0_u32, 0_u32)];
        while let Some((place, at)) = open.last_mut() {
            let node = search.order[*place as usize];
            let degree = flow.degree(node);
            let from = *place;
            let mut found = None;
            while *at < degree && found.is_none() {
                found = search.follow(from, flow.successor(node, *at));
                *at += 1;
            }
            match found {
                Some(place) => open.push((place, 0)),
                None => {
                    open.pop();
                }
            }
        }
        search
    }

    /// Takes in the reference from a place to a node; its place, if it is new.
    fn follow(&mut self, from: u32, node: u32) -> Option<u32> {
        let place = self.places[node as usize];
        if place == NONE {
            return Some(self.visit(node, from));
        }
        if from < place {
            let semi = &mut self.semi[place as usize];
            *semi = from.min(*semi);
        } else if from > place {
            let first = &mut self.first_crossing[place as usize];
            let next = std::mem::replace(first, self.crossing.len() as u32);
            self.crossing.push((from, next));
        }
        None
    }

    fn visit(&mut self, node: u32, from: u32) -> u32 {
        let place = self.order.len() as u32;
        self.places[node as usize] = place;
        self.order.push(node);
        self.parents.push(from);
        self.semi.push(from);
        self.first_crossing.push(NONE);
        place
    }

    /// By place: the place of the immediate dominator. Nodes are taken from the last to the first. So a predecessor with a
    /// lower place was not taken yet, and stands for itself; one with a higher place is in the forest.
    fn dominators(&mut self) -> Vec<u32> {
        let count = self.order.len();
        let mut forest = Forest::new(count);
        let mut dominators = vec![0; count];
        // Nodes whose semidominator is the same are a list from `first`, through `next`.
        let mut first = vec![NONE; count];
        let mut next = vec![NONE; count];
        for node in (1..count).rev() {
            let mut at = self.first_crossing[node];
            let mut semi = self.semi[node];
            while at != NONE {
                let (from, next) = self.crossing[at as usize];
                semi = semi.min(forest.least(from).semi);
                at = next;
            }
            self.semi[node] = semi;
            next[node] = first[semi as usize];
            first[semi as usize] = node as u32;
            let parent = self.parents[node];
            forest.link(node as u32, parent, semi);
            let mut waiting = std::mem::replace(&mut first[parent as usize], NONE);
            while waiting != NONE {
                let least = forest.least(waiting);
                let is_higher = least.semi < self.semi[waiting as usize];
                dominators[waiting as usize] = if is_higher { least.best } else { parent };
                waiting = next[waiting as usize];
            }
        }
        for node in 1..count {
            if dominators[node] != self.semi[node] {
                dominators[node] = dominators[dominators[node] as usize];
            }
        }
        dominators
    }
}

/// A node of the forest.
#[derive(Clone, Copy)]
struct Link {
    /// A node above it in its tree, or `NONE` for the root.
    ancestor: u32,
    /// Of the nodes below that ancestor, down to this one, that with the least semidominator.
    best: u32,
    /// The semidominator of that.
    semi: u32,
}

/// The forest of the method, by place. A node is linked below its parent once its semidominator is known.
struct Forest {
    links: Vec<Link>,
    /// Nodes whose paths are compressed next.
    path: Vec<u32>,
}

impl Forest {
    fn new(count: usize) -> Forest {
        let alone = Link {
            ancestor: NONE,
            best: NONE,
            semi: NONE,
        };
        Forest {
            links: vec![alone; count],
            path: Vec::new(),
        }
    }

    fn link(&mut self, node: u32, parent: u32, semi: u32) {
        self.links[node as usize] = Link {
            ancestor: parent,
            best: node,
            semi,
        };
    }

    /// What is known of the path from the root of the tree, without that, to a node that was linked. The path is as short
    /// as can be then.
    fn least(&mut self, node: u32) -> Link {
        let mut at = node;
        let mut above = self.links[at as usize];
        loop {
            let ancestor = self.links[above.ancestor as usize];
            if ancestor.ancestor == NONE {
                break;
            }
            self.path.push(at);
            at = above.ancestor;
            above = ancestor;
        }
        while let Some(below) = self.path.pop() {
            let link = &mut self.links[below as usize];
            link.ancestor = above.ancestor;
            if above.semi < link.semi {
                (link.best, link.semi) = (above.best, above.semi);
            }
            above = *link;
        }
        above
    }
}

#[cfg(test)]
mod tests;
