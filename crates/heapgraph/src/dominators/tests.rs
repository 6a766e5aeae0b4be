//! Dominators of graphs that are drawn by hand, of random ones against the definition, and of shapes that others are slow
//! or deep on.

use proptest::prelude::*;

use super::*;

/// The successors of each node.
struct Lists(Vec<Vec<u32>>);

impl Flow for Lists {
    fn nodes(&self) -> u32 {
        self.0.len() as u32
    }

    fn degree(&self, node: u32) -> u32 {
        self.0[node as usize].len() as u32
    }

    fn successor(&self, node: u32, at: u32) -> u32 {
        self.0[node as usize][at as usize]
    }
}

/// The immediate dominators, `NONE` where there is none.
fn dominators(successors: &[&[u32]]) -> Vec<u32> {
    let lists = Lists(successors.iter().map(|list| list.to_vec()).collect());
    let found = Dominators::new(&lists);
    (0..lists.nodes())
        .map(|node| found.of(node).unwrap_or(NONE))
        .collect()
}

#[test]
fn two_ways_meet_below_the_node_where_they_part() {
    // 0 to 1; from there by 2 and by 3 to 4, and on to 5. Nothing leads to 6.
    let found = dominators(&[&[1], &[2, 3], &[4], &[4], &[5], &[], &[5]]);
    assert_eq!(found, [NONE, 0, 1, 1, 1, 4, NONE]);
}

#[test]
fn circles_and_repeated_references_change_nothing() {
    let found = dominators(&[&[1, 1], &[1, 2, 2], &[3, 1], &[2, 3, 0]]);
    assert_eq!(found, [NONE, 0, 1, 2]);
}

#[test]
fn the_graph_of_the_paper() {
    // R A B C D E F G H I J K L of figure 1, with R as 0.
    let found = dominators(&[
        &[1, 2, 3],
        &[4],
        &[1, 4, 5],
        &[6, 7],
        &[12],
        &[8],
        &[9],
        &[9, 10],
        &[5, 11],
        &[11],
        &[9],
        &[9, 0],
        &[8],
    ]);
    assert_eq!(found, [NONE, 0, 0, 0, 0, 0, 3, 3, 0, 0, 7, 0, 4]);
}

#[test]
fn a_queue_of_which_both_ends_are_kept_is_no_chain() {
    let count = 300_000;
    let mut lists = vec![vec![1, count]];
    for node in 1..=count {
        let neighbours = [node - 1, node + 1];
        let inside = neighbours
            .into_iter()
            .filter(|next| (1..=count).contains(next));
        lists.push(inside.collect());
    }
    let found = Dominators::new(&Lists(lists));
    assert!((1..=count).all(|node| found.of(node) == Some(0)));
}

#[test]
fn a_long_list_is_a_chain() {
    let count = 1_000_000;
    let mut lists: Vec<_> = (0..count).map(|node| vec![node + 1]).collect();
    lists.push(vec![]);
    let found = Dominators::new(&Lists(lists));
    assert!((1..=count).all(|node| found.of(node) == Some(node - 1)));
}

/// The nodes that are reached without going through `left_out`.
fn reached(lists: &[Vec<u32>], left_out: u32) -> Vec<bool> {
    let mut reached = vec![false; lists.len()];
    let mut open = vec![0];
    while let Some(node) = open.pop() {
        if node != left_out && !reached[node as usize] {
            reached[node as usize] = true;
            open.extend(&lists[node as usize]);
        }
    }
    reached
}

/// A graph with at most `most` nodes, and several references for each.
fn graphs(most: usize) -> impl Strategy<Value = Vec<Vec<u32>>> {
    (1..=most).prop_flat_map(|count| {
        let list = prop::collection::vec(0..count as u32, 0..4);
        prop::collection::vec(list, count)
    })
}

proptest! {
    #[test]
    fn without_its_dominators_no_node_is_reached(lists in graphs(24)) {
        let found = Dominators::new(&Lists(lists.clone()));
        let all = reached(&lists, NONE);
        let nodes = lists.len() as u32;
        for node in 0..nodes {
            prop_assert_eq!(found.place(node).is_some(), all[node as usize]);
            let mut above = std::collections::BTreeSet::new();
            let mut at = node;
            // A node that is its own dominator, over others or not, is found once.
            while let Some(next) = found.of(at).filter(|next| above.insert(*next)) {
                at = next;
            }
            for other in (0..nodes).filter(|other| *other != node && all[node as usize]) {
                let dominates = !reached(&lists, other)[node as usize];
                prop_assert_eq!(above.contains(&other), dominates, "{} over {}", other, node);
            }
        }
    }
}
