//! The trees of [`gcbench`](super::gcbench) through the safe layer: the same objects in the same order, and the same
//! result, and the same calls. What it takes longer is the price of references that only the collector knows: a program
//! without unsafe code pays it.

use gleaner::raw::{Compressed, Wide};
use gleaner::{
    Array, Elements, Fields, Heap, Local, Mutator, OutOfMemory, References, Scope, Slots,
};

use super::random::chained;
use super::{Own, Prepared, Scale, failed};

type Done = Result<(), OutOfMemory>;

/// Two subtrees, and a number of 4 bytes beside 4 that are not used.
type Node<F> = Fields<2, 8, F>;

#[derive(Clone, Copy)]
struct Types<F> {
    node: Node<F>,
    doubles: Array,
}

struct Forest<F> {
    types: Types<F>,
    /// The number of the next node.
    next: u32,
}

/// Trees of the heights of `gcbench`.
pub fn prepare(heap: &Heap, scale: &Scale) -> Prepared {
    match heap.references() {
        References::Wide => prepare_in::<Wide>(heap, scale),
        References::Compressed => prepare_in::<Compressed>(heap, scale),
    }
}

fn prepare_in<F: Slots + Send + Sync>(heap: &Heap, scale: &Scale) -> Prepared {
    let types = Types::<F> {
        node: heap.fields().map_err(failed)?,
        doubles: heap.array(Elements::Doubles).map_err(failed)?,
    };
    let (most, length) = scale.of((18, 500_000), (8, 500));
    Ok(Box::new(Own(move |mutator: &mut Mutator, _| {
        let forest = &mut Forest { types, next: 0 };
        mutator.scope(|scope| run(scope, forest, most, length))
    })))
}

/// Runs once; a number made of the tree that stays.
fn run<F: Slots>(
    scope: &mut Scope<'_>,
    forest: &mut Forest<F>,
    most: u32,
    doubles: u32,
) -> Result<u64, OutOfMemory> {
    let kept = forest.node(scope)?;
    forest.grow(scope, kept, most)?;
    let array = scope.allocate_array(forest.types.doubles, doubles)?;
    for index in 0..doubles as usize {
        scope.write_f64(array, index, 1.0 / (index + 1) as f64)?;
    }
    for height in (4..=most).step_by(2) {
        let count = 2 * ((8u64 << most) - 1) / ((2u64 << height) - 1);
        for _ in 0..count {
            scope.nested(|scope| -> Done {
                let root = forest.node(scope)?;
                forest.grow(scope, root, height)
            })?;
        }
        for _ in 0..count {
            scope.nested(|scope| forest.bottom_up(scope, height).map(|_| ()))?;
        }
    }
    assert!(
        scope.read_f64(array, 99) == 0.01,
        "the array is as it was filled"
    );
    let mut sum = 0;
    let nodes = forest.count(scope, kept, &mut sum);
    assert_eq!(nodes, (2 << most) - 1, "the tree that stays is whole");
    Ok(nodes ^ sum << 24)
}

impl<F: Slots> Forest<F> {
    #[inline(always)]
    fn node<'s>(&mut self, scope: &mut Scope<'s>) -> Result<Local<'s, Node<F>>, OutOfMemory> {
        self.next = self.next.wrapping_add(1);
        scope.allocate_filled(self.types.node, |new| new.write(0, self.next))
    }

    /// From the root down: gives `node` two subtrees.
    #[inline(always)]
    fn grow(&mut self, scope: &mut Scope<'_>, node: Local<'_, Node<F>>, height: u32) -> Done {
        if height == 0 {
            return Ok(());
        }
        self.grow_both(scope, node, height)
    }

    #[inline(never)]
    fn grow_both(&mut self, scope: &mut Scope<'_>, node: Local<'_, Node<F>>, height: u32) -> Done {
        scope.nested(|scope| {
            let children = [self.node(scope)?, self.node(scope)?];
            for (side, child) in children.into_iter().enumerate() {
                scope.set(node, side, child)?;
            }
            for child in children {
                self.grow(scope, child, height - 1)?;
            }
            Ok(())
        })
    }

    /// From the leaves up.
    #[inline(always)]
    fn bottom_up<'s>(
        &mut self,
        scope: &mut Scope<'s>,
        height: u32,
    ) -> Result<Local<'s, Node<F>>, OutOfMemory> {
        if height == 0 {
            return self.node(scope);
        }
        self.join(scope, height)
    }

    #[inline(never)]
    fn join<'s>(
        &mut self,
        scope: &mut Scope<'s>,
        height: u32,
    ) -> Result<Local<'s, Node<F>>, OutOfMemory> {
        scope.returning(|scope| {
            let left = self.bottom_up(scope, height - 1)?;
            let right = self.bottom_up(scope, height - 1)?;
            self.next = self.next.wrapping_add(1);
            scope.allocate_filled(self.types.node, |new| {
                new.write(0, self.next);
                new.set(0, left);
                new.set(1, right);
            })
        })
    }

    fn count(&self, scope: &mut Scope<'_>, node: Local<'_, Node<F>>, numbers: &mut u64) -> u64 {
        *numbers = chained(*numbers, u64::from(scope.read_u32(node, 0)));
        scope.nested(|scope| {
            let mut nodes = 1;
            for side in 0..2 {
                if let Some(child) = scope.get_as(node, side, self.types.node) {
                    nodes += self.count(scope, child, numbers);
                }
            }
            nodes
        })
    }
}
