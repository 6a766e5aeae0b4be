//! Many threads that keep a few short lists each and replace one of them at each step, in a heap of a few MB.

use crate::context::{Context, Mode};
use crate::mutators;
use crate::object::References;
use crate::records::Record;
use crate::shared::Scale;
use crate::shared::random::{Random, chained};

/// Lists of each thread.
const LISTS: usize = 64;
/// Nodes of a list, at most.
const LONGEST: u32 = 16;

/// The next node; its number.
const NODE: Record = Record::new(1, 8);

/// Runs once, a million steps of each thread, or 2000; a number made of all lists, when they are dropped or left.
pub fn tiny<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let steps = scale.of(1_000_000, 2000);
    mutators::own(context, threads, |context, number| {
        replace(context, steps, Random::new(6000 + u64::from(number)))
    })
}

fn replace<R: References, M: Mode>(
    context: &mut Context<R, M>,
    steps: u32,
    mut random: Random,
) -> u64 {
    let lists = context.references(LISTS);
    context.with_roots([lists, 0], |context, [lists, list]| {
        let mut sum = 0;
        for step in 0..steps {
            let length = 1 + random.below(LONGEST);
            list.set(0);
            for number in 0..length {
                let node = NODE.fresh(context);
                NODE.set_long(context, node, 0, u64::from(step) << 8 | u64::from(number));
                context.set(node, 0, list.get());
                list.set(node);
            }
            let index = random.below(LISTS as u32) as usize;
            let old = context.element(lists.get(), index);
            sum = chained(sum, added(context, old));
            context.set_element(lists.get(), index, list.get());
        }
        for index in 0..LISTS {
            let left = context.element(lists.get(), index);
            sum = chained(sum, added(context, left));
        }
        sum
    })
}

/// The numbers of a list.
fn added<R: References, M: Mode>(context: &Context<R, M>, mut node: usize) -> u64 {
    let mut sum = 0;
    while node != 0 {
        sum = chained(sum, NODE.long(context, node, 0));
        node = context.get(node, 0);
    }
    sum
}
