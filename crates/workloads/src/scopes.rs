//! The trees of [`gcbench`](super::gcbench) through the safe layer: the same objects in the same order, and the same
//! result. What it takes longer is the price of locals that the collector knows and of checks at every access.

use gleaner::{Array, Elements, Heap, Local, Mutator, OutOfMemory, Scope, Structure, Type};

use super::random::chained;
use super::{Own, Prepared, Scale, failed};

type Done = Result<(), OutOfMemory>;

#[derive(Clone, Copy)]
struct Types {
    /// Two subtrees, and a number of 4 bytes beside 4 that are not used.
    node: Type,
    doubles: Array,
}

struct Forest {
    types: Types,
    /// The number of the next node.
    next: u32,
}

/// Trees of the heights of `gcbench`.
pub fn prepare(heap: &Heap, scale: &Scale) -> Prepared {
    let shape = Structure {
        references: 2,
        bytes: 8,
    };
    let types = Types {
        node: heap.structure(shape).map_err(failed)?,
        doubles: heap.array(Elements::Doubles).map_err(failed)?,
    };
    let (most, length) = scale.of((18, 500_000), (8, 500));
    Ok(Box::new(Own(move |mutator: &mut Mutator, _| {
        let forest = &mut Forest { types, next: 0 };
        mutator.scope(|scope| run(scope, forest, most, length))
    })))
}

/// Runs once; a number made of the tree that stays.
fn run(
    scope: &mut Scope<'_>,
    forest: &mut Forest,
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
            scope.nested(|scope| {
                let root = scope.null();
                forest.bottom_up(scope, height, root)
            })?;
        }
    }
    assert!(
        scope.read_f64(array, 99) == 0.01,
        "the array is as it was filled"
    );
    let mut sum = 0;
    let nodes = count(scope, kept, &mut sum);
    assert_eq!(nodes, (2 << most) - 1, "the tree that stays is whole");
    Ok(nodes ^ sum << 24)
}

impl Forest {
    fn node<'s>(&mut self, scope: &mut Scope<'s>) -> Result<Local<'s>, OutOfMemory> {
        let node = scope.allocate(self.types.node)?;
        self.next = self.next.wrapping_add(1);
        scope.write_u32(node, 0, self.next)?;
        Ok(node)
    }

    /// From the root down: gives `node` two subtrees.
    fn grow(&mut self, scope: &mut Scope<'_>, node: Local<'_>, height: u32) -> Done {
        if height == 0 {
            return Ok(());
        }
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

    /// From the leaves up, into a local of the caller's.
    fn bottom_up(&mut self, scope: &mut Scope<'_>, height: u32, into: Local<'_>) -> Done {
        scope.nested(|scope| {
            let children = [scope.null(), scope.null()];
            if height > 0 {
                for child in children {
                    self.bottom_up(scope, height - 1, child)?;
                }
            }
            let node = self.node(scope)?;
            if height > 0 {
                for (side, child) in children.into_iter().enumerate() {
                    scope.set(node, side, child)?;
                }
            }
            scope.assign(into, node);
            Ok(())
        })
    }
}

fn count(scope: &mut Scope<'_>, node: Local<'_>, numbers: &mut u64) -> u64 {
    *numbers = chained(*numbers, u64::from(scope.read_u32(node, 0)));
    scope.nested(|scope| {
        let mut nodes = 1;
        for side in 0..2 {
            let child = scope.get(node, side);
            if !scope.is_null(child) {
                nodes += count(scope, child, numbers);
            }
        }
        nodes
    })
}
