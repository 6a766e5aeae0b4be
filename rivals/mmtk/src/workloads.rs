//! Trees, lists and arrays, step by step as in `gleaner-bench native`: the same objects, stores and numbers in the same
//! order.

use crate::context::{Context, Mode};
use crate::object::{ELEMENTS, References};

/// What the nodes of a run of `gcbench` have in common.
struct Forest {
    holes: bool,
    /// The number of the next node.
    next: u32,
}

/// Binary trees: one that stays, and many that come and go; with holes, a dead object between the live ones.
pub fn gcbench<R: References, M: Mode>(
    context: &mut Context<R, M>,
    tiny: bool,
    holes: bool,
) -> u64 {
    let (most, doubles) = if tiny { (8, 500) } else { (18, 500_000) };
    let forest = &mut Forest { holes, next: 0 };
    let kept = forest.node(context);
    context.with_roots([kept, 0], |context, [kept, array]| {
        forest.grow(context, kept.get(), most);
        array.set(context.doubles(doubles));
        let element = |array: usize, index: usize| (array + ELEMENTS + index * 8) as *mut f64;
        for index in 0..doubles {
            // SAFETY: an element of the array.
            unsafe { element(array.get(), index).write(1.0 / (index + 1) as f64) };
        }
        for height in (4..=most).step_by(2) {
            let count = 2 * ((8u64 << most) - 1) / ((2u64 << height) - 1);
            for _ in 0..count {
                let root = forest.node(context);
                forest.grow(context, root, height);
            }
            for _ in 0..count {
                forest.bottom_up(context, height);
            }
        }
        // SAFETY: an element of the array.
        let hundredth = unsafe { element(array.get(), 99).read() };
        assert!(hundredth == 0.01, "the array is as it was filled");
        let mut numbers = 0;
        let nodes = count_nodes(context, kept.get(), &mut numbers);
        assert_eq!(nodes, (2 << most) - 1, "the tree that stays is whole");
        nodes ^ numbers << 24
    })
}

impl Forest {
    #[inline(always)]
    fn node<R: References, M: Mode>(&mut self, context: &mut Context<R, M>) -> usize {
        if self.holes {
            std::hint::black_box(context.node());
        }
        let node = context.node();
        self.next = self.next.wrapping_add(1);
        context.set_number(node, self.next);
        node
    }

    /// From the root down: gives `node` two subtrees.
    #[inline(always)]
    fn grow<R: References, M: Mode>(
        &mut self,
        context: &mut Context<R, M>,
        node: usize,
        height: u32,
    ) {
        if height > 0 {
            self.grow_both(context, node, height);
        }
    }

    #[inline(never)]
    fn grow_both<R: References, M: Mode>(
        &mut self,
        context: &mut Context<R, M>,
        node: usize,
        height: u32,
    ) {
        context.with_roots([node], |context, [node]| {
            for side in 0..2 {
                let child = self.node(context);
                context.set(node.get(), side, child);
            }
            for side in 0..2 {
                let child = context.get(node.get(), side);
                self.grow(context, child, height - 1);
            }
        });
    }

    /// From the leaves up.
    #[inline(always)]
    fn bottom_up<R: References, M: Mode>(
        &mut self,
        context: &mut Context<R, M>,
        height: u32,
    ) -> usize {
        if height == 0 {
            return self.node(context);
        }
        self.join(context, height)
    }

    #[inline(never)]
    fn join<R: References, M: Mode>(&mut self, context: &mut Context<R, M>, height: u32) -> usize {
        let left = self.bottom_up(context, height - 1);
        context.with_roots([left, 0], |context, [left, right]| {
            right.set(self.bottom_up(context, height - 1));
            let node = self.node(context);
            context.initialize(node, 0, left.get());
            context.initialize(node, 1, right.get());
            node
        })
    }
}

fn count_nodes<R: References, M: Mode>(
    context: &Context<R, M>,
    node: usize,
    numbers: &mut u64,
) -> u64 {
    *numbers = mixed(*numbers, context.number(node));
    let mut nodes = 1;
    for side in 0..2 {
        let child = context.get(node, side);
        if child != 0 {
            nodes += count_nodes(context, child, numbers);
        }
    }
    nodes
}

fn mixed(sum: u64, number: u32) -> u64 {
    sum.wrapping_mul(31).wrapping_add(u64::from(number))
}

/// A list of nodes that are appended at one end and taken from the other.
pub fn queue<R: References, M: Mode>(context: &mut Context<R, M>, tiny: bool) -> u64 {
    let (length, steps) = if tiny {
        (1000, 16_000)
    } else {
        (1_000_000, 16_000_000)
    };
    let first = context.node();
    context.with_roots([first, first], |context, [head, tail]| {
        let mut sum = 0;
        for number in 1..=steps {
            let node = context.node();
            context.set_number(node, number);
            context.set(tail.get(), 0, node);
            tail.set(node);
            if number > length {
                let taken = head.get();
                sum = mixed(sum, context.number(taken));
                head.set(context.get(taken, 0));
            }
        }
        let (mut left, mut node) = (0, head.get());
        while node != 0 {
            left += 1;
            node = context.get(node, 0);
        }
        assert_eq!(left, length + 1, "the list is whole");
        sum
    })
}

/// An array of references that grows old, and whose elements are replaced at random by fresh nodes. Each mutator has
/// random numbers of its own.
pub fn refarray<R: References, M: Mode>(
    context: &mut Context<R, M>,
    tiny: bool,
    mutator: u32,
) -> u64 {
    let (length, steps) = if tiny {
        (1000u32, 10_000u32)
    } else {
        (1_000_000, 10_000_000)
    };
    let array = context.references(length as usize);
    context.with_roots([array], |context, [array]| {
        for index in 0..length {
            let node = context.node();
            context.set_number(node, index);
            context.set_element(array.get(), index as usize, node);
        }
        let mut random = 2000 + u64::from(mutator);
        for number in 0..steps {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let index = (random >> 33) % u64::from(length);
            // The array may move when the node is allocated.
            let node = context.node();
            context.set_number(node, number);
            context.set_element(array.get(), index as usize, node);
        }
        let mut sum = 0;
        for index in 0..length as usize {
            let node = context.element(array.get(), index);
            assert!(node != 0, "every element is a node");
            sum = mixed(sum, context.number(node));
        }
        sum
    })
}

/// Depth of the quad trees that are dropped.
const SHALLOW: u32 = 3;

/// Quad trees: a deep one that stays, and many shallow ones that are made and dropped.
pub fn quads<R: References, M: Mode>(context: &mut Context<R, M>, tiny: bool) -> u64 {
    let (depth, trees) = if tiny { (5, 400) } else { (10, 400_000) };
    let mut next = 0;
    let kept = plant(context, depth, &mut next);
    context.with_roots([kept], |context, [kept]| {
        let mut sum = 0;
        for _ in 0..trees {
            let dropped = plant(context, SHALLOW, &mut next);
            let quads = count_quads(context, dropped, &mut sum);
            assert_eq!(quads, quads_of(SHALLOW), "a shallow tree is whole");
        }
        let quads = count_quads(context, kept.get(), &mut sum);
        assert_eq!(quads, quads_of(depth), "the tree that stays is whole");
        sum
    })
}

/// How many quads a tree of some depth has.
fn quads_of(depth: u32) -> u64 {
    ((4u64 << (2 * depth)) - 1) / 3
}

/// A tree, from the root down, its quads numbered in that order.
fn plant<R: References, M: Mode>(context: &mut Context<R, M>, depth: u32, next: &mut u32) -> usize {
    let quad = context.quad();
    *next = next.wrapping_add(1);
    context.set_quad_number(quad, *next);
    if depth == 0 {
        return quad;
    }
    context.with_roots([quad], |context, [quad]| {
        for corner in 0..4 {
            let child = plant(context, depth - 1, next);
            context.set(quad.get(), corner, child);
        }
        quad.get()
    })
}

/// How many quads a tree has; adds their numbers.
fn count_quads<R: References, M: Mode>(context: &Context<R, M>, quad: usize, sum: &mut u64) -> u64 {
    *sum = mixed(*sum, context.quad_number(quad));
    let mut quads = 1;
    for corner in 0..4 {
        let child = context.get(quad, corner);
        if child != 0 {
            quads += count_quads(context, child, sum);
        }
    }
    quads
}
