//! An array of references that grows old, and whose elements are replaced at random by fresh nodes.

use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Pair, Slots, frame, object};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// A million elements and ten million steps, or a thousandth.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let node = Pair::<F>::register(heap).map_err(failed)?;
    let slots = Slots::register(heap).map_err(failed)?;
    let length = scale.of(1_000_000, 1000);
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        let random = Random::new(2000 + u64::from(number));
        run(mutator, node, slots, length, random)
    })))
}

/// Runs once; a number made of all elements.
fn run<F: Code>(
    mutator: &mut Mutator,
    kind: Pair<F>,
    slots: Slots<F>,
    length: u32,
    mut random: Random,
) -> Result<u64, OutOfMemory> {
    let array = slots.fresh(mutator, length as usize)?;
    frame(mutator, [array], |mutator, [array]| {
        let put = |mutator: &mut Mutator, index: u32, number| {
            // The array may move when the node is allocated.
            let node = kind.fresh(mutator)?;
            kind.set_number(node, 0, number);
            slots.set(mutator, object(array), index as usize, node)
        };
        for index in 0..length {
            put(mutator, index, index)?;
        }
        for number in 0..10 * length {
            put(mutator, random.below(length), number)?;
        }
        let mut sum = 0u64;
        for index in 0..length as usize {
            let node = slots.get(mutator, object(array), index);
            sum = chained(sum, u64::from(kind.number(node, 0)));
        }
        Ok(sum)
    })
}
