//! Quad trees: a deep one that stays, and many shallow ones that are made and dropped.
//!
//! The deep one is copied or promoted once and then only marked; what dies is always young.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Record, frame, object};
use super::random::chained;
use super::{Own, Prepared, Scale, failed};

/// A node and its four corners.
type Quad<F> = Record<F, 4, 8>;

/// Depth of the trees that are dropped.
const SHALLOW: u32 = 3;

/// Depth 10 and 400,000 shallow trees, or depth 5 and 400.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let node = Quad::<F>::register(heap).map_err(failed)?;
    let (depth, trees) = scale.of((10, 400_000), (5, 400));
    Ok(Box::new(Own(move |mutator: &mut Mutator, _| {
        run(mutator, node, depth, trees)
    })))
}

/// Runs once; a number made of all nodes of all trees.
fn run<F: Code>(
    mutator: &mut Mutator,
    kind: Quad<F>,
    depth: u32,
    trees: u32,
) -> Result<u64, OutOfMemory> {
    let mut next = 0;
    let kept = tree(mutator, kind, depth, &mut next)?;
    frame(mutator, [kept], |mutator, [kept]| {
        let mut sum = 0;
        for _ in 0..trees {
            let dropped = tree(mutator, kind, SHALLOW, &mut next)?;
            let nodes = count(mutator, kind, dropped, &mut sum);
            assert_eq!(nodes, nodes_of(SHALLOW), "a shallow tree is whole");
        }
        let nodes = count(mutator, kind, object(kept), &mut sum);
        assert_eq!(nodes, nodes_of(depth), "the tree that stays is whole");
        Ok(sum)
    })
}

/// How many nodes a tree of some depth has.
fn nodes_of(depth: u32) -> u64 {
    ((4u64 << (2 * depth)) - 1) / 3
}

/// A tree, from the root down, its nodes numbered in that order.
fn tree<F: Code>(mutator: &mut Mutator, kind: Quad<F>, depth: u32, next: &mut u32) -> Allocated {
    let node = kind.fresh(mutator)?;
    *next = next.wrapping_add(1);
    kind.set_number(node, 0, *next);
    if depth == 0 {
        return Ok(node);
    }
    frame(mutator, [node], |mutator, [node]| {
        for corner in 0..4 {
            let child = tree(mutator, kind, depth - 1, next)?;
            kind.set(mutator, object(node), corner, child);
        }
        Ok(object(node))
    })
}

/// How many nodes a tree has; adds their numbers.
fn count<F: Code>(mutator: &Mutator, kind: Quad<F>, node: Address, sum: &mut u64) -> u64 {
    *sum = chained(*sum, u64::from(kind.number(node, 0)));
    let mut nodes = 1;
    for corner in 0..4 {
        let child = kind.get(mutator, node, corner);
        if child != Address::NULL {
            nodes += count(mutator, kind, child, sum);
        }
    }
    nodes
}
