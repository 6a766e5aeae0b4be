//! An array of references that grows old, and whose elements are replaced at random by fresh nodes.

use gleaner::raw::Value;
use gleaner::{Mutator, OutOfMemory};

use super::{Types, object};

/// Runs once; a number made of all elements.
pub fn run(mutator: &mut Mutator, types: Types, tiny: bool) -> Result<u64, OutOfMemory> {
    let (length, steps) = if tiny {
        (1000u32, 10_000u32)
    } else {
        (1_000_000, 10_000_000)
    };
    let array = types.references(mutator, length)?;
    // SAFETY: a fresh array.
    unsafe {
        mutator.with_roots([Value::reference(array)], |mutator, [array]| {
            for index in 0..length {
                let node = types.node(mutator)?;
                types.set_number(node, 0, index);
                mutator.store_raw(
                    object(array),
                    types.element(index as usize),
                    Value::reference(node),
                );
            }
            let mut random = 2000u64;
            for number in 0..steps {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let index = ((random >> 33) % u64::from(length)) as u32;
                // The array may move when the node is allocated.
                let node = types.node(mutator)?;
                types.set_number(node, 0, number);
                mutator.store_raw(
                    object(array),
                    types.element(index as usize),
                    Value::reference(node),
                );
            }
            let mut sum = 0u64;
            for index in 0..length as usize {
                let element = mutator.load_raw(object(array), types.element(index));
                let node = element.as_object().expect("every element is a node");
                sum = sum
                    .wrapping_mul(31)
                    .wrapping_add(u64::from(types.number(node, 0)));
            }
            Ok(sum)
        })
    }
}
