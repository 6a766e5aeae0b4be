//! Binary trees: one that stays, and many of growing height that come and go, half of them built from the root down
//! and half from the leaves up. With holes, a dead object lies between the live ones.
//!
//! Both ways are inlined once into themselves, as C2 does unasked, and GCC the first: calls for leaves are half of all.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Allocated, Code, Numbers, Pair, frame, object, value};
use super::random::chained;
use super::{Own, Prepared, Scale, failed};

/// The types: a node has two subtrees, its number, and another of 4 bytes.
struct Types<F> {
    node: Pair<F>,
    doubles: Numbers<F, f64>,
}

/// What the nodes of a run have in common.
struct Forest<F> {
    types: Types<F>,
    holes: bool,
    /// The number of the next node.
    next: u32,
}

/// With nothing between the nodes.
pub fn gcbench<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    prepare::<F>(heap, scale, false)
}

/// With a dead object between any two live ones.
pub fn holes<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    prepare::<F>(heap, scale, true)
}

/// Trees of height 18, or 8 in a test.
fn prepare<F: Code>(heap: &Heap, scale: &Scale, holes: bool) -> Prepared {
    let node = Pair::<F>::register(heap).map_err(failed)?;
    let doubles = Numbers::register(heap).map_err(failed)?;
    let (most, length) = scale.of((18, 500_000), (8, 500));
    Ok(Box::new(Own(move |mutator: &mut Mutator, _| {
        let forest = &mut Forest {
            types: Types { node, doubles },
            holes,
            next: 0,
        };
        run(mutator, forest, most, length)
    })))
}

/// Runs once; a number made of the tree that stays.
fn run<F: Code>(
    mutator: &mut Mutator,
    forest: &mut Forest<F>,
    most: u32,
    doubles: usize,
) -> Result<u64, OutOfMemory> {
    let numbers = forest.types.doubles;
    let kept = forest.node(mutator)?;
    frame(mutator, [kept, Address::NULL], |mutator, [kept, array]| {
        forest.grow(mutator, object(kept), most)?;
        let fresh = numbers.fresh(mutator, doubles)?;
        array.set(value(fresh));
        numbers.change(mutator, object(array), |_, elements| {
            for (index, element) in elements.iter_mut().enumerate() {
                *element = 1.0 / (index + 1) as f64;
            }
        })?;
        for height in (4..=most).step_by(2) {
            let count = 2 * ((8u64 << most) - 1) / ((2u64 << height) - 1);
            for _ in 0..count {
                let root = forest.node(mutator)?;
                forest.grow(mutator, root, height)?;
            }
            for _ in 0..count {
                forest.bottom_up(mutator, height)?;
            }
        }
        let hundredth = numbers.get(mutator, object(array), 99);
        assert!(hundredth == 0.01, "the array is as it was filled");
        let mut sum = 0;
        let nodes = forest.count(mutator, object(kept), &mut sum);
        assert_eq!(nodes, (2 << most) - 1, "the tree that stays is whole");
        Ok(nodes ^ sum << 24)
    })
}

impl<F: Code> Forest<F> {
    #[inline(always)]
    fn node(&mut self, mutator: &mut Mutator) -> Allocated {
        if self.holes {
            std::hint::black_box(self.types.node.fresh(mutator)?);
        }
        let node = self.types.node.fresh(mutator)?;
        self.next = self.next.wrapping_add(1);
        self.types.node.set_number(node, 0, self.next);
        Ok(node)
    }

    /// From the root down: gives `node` two subtrees.
    #[inline(always)]
    fn grow(
        &mut self,
        mutator: &mut Mutator,
        node: Address,
        height: u32,
    ) -> Result<(), OutOfMemory> {
        if height == 0 {
            return Ok(());
        }
        self.grow_both(mutator, node, height)
    }

    #[inline(never)]
    fn grow_both(
        &mut self,
        mutator: &mut Mutator,
        node: Address,
        height: u32,
    ) -> Result<(), OutOfMemory> {
        let kind = self.types.node;
        frame(mutator, [node], |mutator, [node]| {
            for side in 0..2 {
                let child = self.node(mutator)?;
                kind.set(mutator, object(node), side, child);
            }
            for side in 0..2 {
                let child = kind.get(mutator, object(node), side);
                self.grow(mutator, child, height - 1)?;
            }
            Ok(())
        })
    }

    /// From the leaves up.
    #[inline(always)]
    fn bottom_up(&mut self, mutator: &mut Mutator, height: u32) -> Allocated {
        if height == 0 {
            return self.node(mutator);
        }
        self.join(mutator, height)
    }

    #[inline(never)]
    fn join(&mut self, mutator: &mut Mutator, height: u32) -> Allocated {
        let kind = self.types.node;
        let left = self.bottom_up(mutator, height - 1)?;
        frame(mutator, [left, Address::NULL], |mutator, [left, right]| {
            right.set(value(self.bottom_up(mutator, height - 1)?));
            let node = self.node(mutator)?;
            kind.initialize(mutator, node, 0, object(left));
            kind.initialize(mutator, node, 1, object(right));
            Ok(node)
        })
    }

    fn count(&self, mutator: &Mutator, node: Address, numbers: &mut u64) -> u64 {
        *numbers = chained(*numbers, u64::from(self.types.node.number(node, 0)));
        let mut nodes = 1;
        for side in 0..2 {
            let child = self.types.node.get(mutator, node, side);
            if child != Address::NULL {
                nodes += self.count(mutator, child, numbers);
            }
        }
        nodes
    }
}
