//! Many threads that allocate in a heap of a few MB.
//!
//! Each keeps a few short lists and replaces one of them at each step. There is little to trace and a collection every
//! few hundred microseconds, so what counts is how fast the threads stop and go on.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use super::objects::{Code, Record, Slots, frame, object, value};
use super::random::{Random, chained};
use super::{Own, Prepared, Scale, failed};

/// The next one, and a number.
type Node<F> = Record<F, 1, 8>;

/// Lists of each thread.
const LISTS: usize = 64;
/// Nodes of a list, at most.
const LONGEST: u32 = 16;

/// A million steps of each thread, or 2000.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    let node = Node::register(heap).map_err(failed)?;
    let slots = Slots::<F>::register(heap).map_err(failed)?;
    let steps = scale.of(1_000_000, 2000);
    Ok(Box::new(Own(move |mutator: &mut Mutator, number| {
        let random = Random::new(6000 + u64::from(number));
        run(mutator, node, slots, steps, random)
    })))
}

/// A number made of all lists, when they are dropped or left.
fn run<F: Code>(
    mutator: &mut Mutator,
    kind: Node<F>,
    slots: Slots<F>,
    steps: u32,
    mut random: Random,
) -> Result<u64, OutOfMemory> {
    let lists = slots.fresh(mutator, LISTS)?;
    frame(mutator, [lists, Address::NULL], |mutator, [lists, list]| {
        let mut sum = 0;
        for step in 0..steps {
            let length = 1 + random.below(LONGEST);
            list.set(value(Address::NULL));
            for number in 0..length {
                let node = kind.fresh(mutator)?;
                kind.set_long(node, 0, u64::from(step) << 8 | u64::from(number));
                kind.set(mutator, node, 0, object(list));
                list.set(value(node));
            }
            let index = random.below(LISTS as u32) as usize;
            let old = slots.get(mutator, object(lists), index);
            sum = chained(sum, added(mutator, kind, old));
            slots.set(mutator, object(lists), index, object(list))?;
        }
        for index in 0..LISTS {
            let left = slots.get(mutator, object(lists), index);
            sum = chained(sum, added(mutator, kind, left));
        }
        Ok(sum)
    })
}

/// The numbers of a list.
fn added<F: Code>(mutator: &Mutator, kind: Node<F>, mut node: Address) -> u64 {
    let mut sum = 0;
    while node != Address::NULL {
        sum = chained(sum, kind.long(node, 0));
        node = kind.get(mutator, node, 0);
    }
    sum
}
