//! Two costs that no other workload shows: making a heap, and one store into a huge old array, after which a collection
//! of the young generation must not look at all of it.
//!
//! The line has the medians: `create_s`; `plain_s`, the pause of a scavenge of next to nothing with the old array there;
//! and `store_adds_s`, what one store into it before the scavenge adds.

use gleaner::raw::Address;
use gleaner::{Heap, Mutator, OutOfMemory};

use std::time::Instant;

use super::mutators::Mutators;
use super::objects::{Code, Record, Slots, frame, object};
use super::random::{Random, chained};
use super::{Facts, Prepared, Scale, Workload, failed};

struct Costs<F> {
    node: Record<F, 2, 8>,
    slots: Slots<F>,
    length: u32,
    rounds: u32,
}

/// An array of eight million references and 200 rounds, or a thousandth and 10.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Costs::<F> {
        node: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        length: scale.of(8_000_000, 8000),
        rounds: scale.of(200, 10),
    }))
}

impl<F: Code> Workload for Costs<F> {
    fn run(
        &self,
        mutator: &mut Mutator,
        _: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        facts.insert("create_s".into(), median(self.create(mutator)).into());
        let array = self.slots.fresh(mutator, self.length as usize)?;
        frame(mutator, [array, Address::NULL], |mutator, [array, kept]| {
            // Whatever is young now is old afterwards.
            mutator.collect(true);
            let (mut plain, mut stored) = (Vec::new(), Vec::new());
            let mut random = Random::new(8000);
            let mut sum = 0;
            for round in 0..self.rounds {
                plain.push(scavenge(mutator));
                let node = self.node.fresh(mutator)?;
                self.node.set_number(node, 0, round);
                let index = random.below(self.length) as usize;
                self.slots.set(mutator, object(array), index, node)?;
                stored.push(scavenge(mutator));
                let node = self.slots.get(mutator, object(array), index);
                kept.set(super::objects::value(node));
                sum = chained(sum, u64::from(self.node.number(object(kept), 0)));
            }
            let plain = median(plain);
            facts.insert("plain_s".into(), plain.into());
            facts.insert("store_adds_s".into(), (median(stored) - plain).into());
            Ok(sum)
        })
    }
}

impl<F: Code> Costs<F> {
    /// Seconds that it takes to make a heap like that of the mutator, each time.
    fn create(&self, mutator: &Mutator) -> Vec<f64> {
        let (limit, references) = (mutator.heap().limit(), mutator.heap().references());
        (0..self.rounds)
            .map(|_| {
                let started = Instant::now();
                let made = Heap::builder()
                    .limit(limit)
                    .references(references)
                    .workers(2)
                    .crew(gleaner::Crew::All)
                    .build();
                let seconds = started.elapsed().as_secs_f64();
                drop(made.expect("there is one of that size already"));
                seconds
            })
            .collect()
    }
}

/// The pause of a collection of the young generation, in seconds.
fn scavenge(mutator: &mut Mutator) -> f64 {
    let before = mutator.totals().stopped_ns;
    mutator.collect(false);
    (mutator.totals().stopped_ns - before) as f64 * 1e-9
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
