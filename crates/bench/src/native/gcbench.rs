//! Binary trees: one that stays, and many of growing height that come and go, half of them built from the root down
//! and half from the leaves up. With holes, a dead object lies between the live ones.

use gleaner::raw::{Address, ELEMENTS, Value, array_bytes};
use gleaner::{Mutator, OutOfMemory};

use super::{Allocated, Types, object};

/// What the nodes of a run have in common.
struct Forest {
    types: Types,
    holes: bool,
    /// The number of the next node.
    next: u32,
}

/// Runs once; a number made of the tree that stays.
pub fn run(
    mutator: &mut Mutator,
    types: Types,
    tiny: bool,
    holes: bool,
) -> Result<u64, OutOfMemory> {
    let (most, doubles) = if tiny { (8, 500) } else { (18, 500_000) };
    let forest = &mut Forest {
        types,
        holes,
        next: 0,
    };
    let kept = forest.node(mutator)?;
    let roots = [Value::reference(kept), Value::NULL];
    // SAFETY: a fresh node and null; below, only what was just allocated is put there.
    unsafe {
        mutator.with_roots(roots, |mutator, [kept, array]| {
            forest.grow(mutator, object(kept), most)?;
            let fresh =
                mutator.allocate_array_raw(types.doubles, doubles, array_bytes(doubles, 3))?;
            array.set(Value::reference(fresh));
            for index in 0..doubles as usize {
                fresh
                    .add(ELEMENTS + index * 8)
                    .ptr::<f64>()
                    .write(1.0 / (index + 1) as f64);
            }
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
            let place = object(array).add(ELEMENTS + 8 * 99).ptr::<f64>();
            assert!(place.read() == 0.01, "the array is as it was filled");
            let mut numbers = 0;
            let nodes = forest.count(mutator, object(kept), &mut numbers);
            assert_eq!(nodes, (2 << most) - 1, "the tree that stays is whole");
            Ok(nodes ^ numbers << 24)
        })
    }
}

impl Forest {
    #[inline(always)]
    fn node(&mut self, mutator: &mut Mutator) -> Allocated {
        if self.holes {
            std::hint::black_box(self.types.node(mutator)?);
        }
        let node = self.types.node(mutator)?;
        self.next = self.next.wrapping_add(1);
        self.types.set_number(node, 0, self.next);
        Ok(node)
    }

    /// From the root down: gives `node` two subtrees.
    fn grow(
        &mut self,
        mutator: &mut Mutator,
        node: Address,
        height: u32,
    ) -> Result<(), OutOfMemory> {
        if height == 0 {
            return Ok(());
        }
        let types = self.types;
        // SAFETY: a valid node.
        unsafe {
            mutator.with_roots([Value::reference(node)], |mutator, [node]| {
                for side in 0..2 {
                    let child = self.node(mutator)?;
                    types.set(mutator, object(node), side, Value::reference(child));
                }
                for side in 0..2 {
                    let child = types.get(mutator, object(node), side);
                    self.grow(
                        mutator,
                        child.as_object().unwrap_or(Address::NULL),
                        height - 1,
                    )?;
                }
                Ok(())
            })
        }
    }

    /// From the leaves up.
    fn bottom_up(&mut self, mutator: &mut Mutator, height: u32) -> Allocated {
        if height == 0 {
            return self.node(mutator);
        }
        let types = self.types;
        let left = self.bottom_up(mutator, height - 1)?;
        // SAFETY: valid nodes.
        unsafe {
            mutator.with_roots(
                [Value::reference(left), Value::NULL],
                |mutator, [left, right]| {
                    right.set(Value::reference(self.bottom_up(mutator, height - 1)?));
                    let node = self.node(mutator)?;
                    types.set(mutator, node, 0, left.get());
                    types.set(mutator, node, 1, right.get());
                    Ok(node)
                },
            )
        }
    }

    fn count(&self, mutator: &Mutator, node: Address, numbers: &mut u64) -> u64 {
        *numbers = numbers
            .wrapping_mul(31)
            .wrapping_add(u64::from(self.types.number(node, 0)));
        let mut nodes = 1;
        for side in 0..2 {
            if let Some(child) = self.types.get(mutator, node, side).as_object() {
                nodes += self.count(mutator, child, numbers);
            }
        }
        nodes
    }
}
