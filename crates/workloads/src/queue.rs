//! A list of nodes that are appended at one end and taken from the other.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Pair, frame, object, value};
use super::random::chained;
use super::{Own, Prepared, Scale, failed};

/// A million nodes and sixteen million steps, or a thousandth.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let node = Pair::<F>::register(heap).map_err(failed)?;
    let length = scale.of(1_000_000, 1000);
    Ok(Box::new(Own(move |mutator: &mut Mutator, _| {
        run(mutator, node, length)
    })))
}

/// Runs once; a number made of all nodes in the order in which they were taken.
fn run<F: Code>(mutator: &mut Mutator, kind: Pair<F>, length: u32) -> Result<u64, OutOfMemory> {
    let first = kind.fresh(mutator)?;
    frame(mutator, [first, first], |mutator, [head, tail]| {
        let mut sum = 0u64;
        for number in 1..=16 * length {
            let node = kind.fresh(mutator)?;
            kind.set_number(node, 0, number);
            kind.set(mutator, object(tail), 0, node);
            tail.set(value(node));
            if number > length {
                let taken = object(head);
                sum = chained(sum, u64::from(kind.number(taken, 0)));
                head.set(value(kind.get(mutator, taken, 0)));
            }
        }
        let mut left = 0u64;
        let mut node = object(head);
        while node != Address::NULL {
            left += 1;
            node = kind.get(mutator, node, 0);
        }
        assert_eq!(left, u64::from(length) + 1, "the list is whole");
        Ok(sum)
    })
}
