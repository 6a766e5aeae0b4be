//! A list of nodes that are appended at one end and taken from the other.

use gleaner::raw::{Address, Value};
use gleaner::{Mutator, OutOfMemory};

use super::{Types, object};

/// Runs once; a number made of all nodes in the order in which they were taken.
pub fn run(mutator: &mut Mutator, types: Types, tiny: bool) -> Result<u64, OutOfMemory> {
    let (length, steps) = if tiny {
        (1000, 16_000)
    } else {
        (1_000_000, 16_000_000)
    };
    let first = types.node(mutator)?;
    let first = Value::reference(first);
    // SAFETY: a fresh node; below, only nodes are put there.
    unsafe {
        mutator.with_roots([first, first], |mutator, [head, tail]| {
            let mut sum = 0u64;
            for number in 1..=steps {
                let node = types.node(mutator)?;
                types.set_number(node, 0, number);
                types.set(mutator, object(tail), 0, Value::reference(node));
                tail.set(Value::reference(node));
                if number > length {
                    let taken = object(head);
                    sum = sum
                        .wrapping_mul(31)
                        .wrapping_add(u64::from(types.number(taken, 0)));
                    head.set(types.get(mutator, taken, 0));
                }
            }
            let mut left = 0u64;
            let mut node = object(head);
            while node != Address::NULL {
                left += 1;
                node = types
                    .get(mutator, node, 0)
                    .as_object()
                    .unwrap_or(Address::NULL);
            }
            assert_eq!(left, u64::from(length) + 1, "the list is whole");
            Ok(sum)
        })
    }
}
