//! Objects with finalizers in a table, replaced at random; those that are ready are taken, and some of them are kept
//! once more.
//!
//! An object is handed out exactly once, whole, and only after it was replaced. What is kept after that dies for good.
//! With several mutators each has a table, and takes whatever is ready. At the end everything is collected: then all
//! objects were handed out but those in the tables, and those are when the tables are gone.

use std::sync::atomic::{AtomicU64, Ordering};

use gleaner::raw::{Address, Value};
use gleaner::{Finalizing, Heap, Mutator, OutOfMemory};

use super::mutators::Mutators;
use super::objects::{Code, Record, Slots, address, frame, object, shared};
use super::random::{Random, scattered};
use super::{Facts, Prepared, Scale, Workload, failed};

/// After how many steps a mutator looks for what is ready.
const BETWEEN: u32 = 1000;
/// How many of the objects that are handed out are kept, the latest ones.
const KEPT: usize = 1000;
/// One in this many is kept.
const KEEP_ONE_IN: u64 = 8;

struct Finalizers<F> {
    /// A reference to its content, and its number.
    resource: Record<F, 1, 8>,
    /// The number, scattered.
    content: Record<F, 0, 8>,
    slots: Slots<F>,
    length: u32,
    steps: u32,
}

/// What all mutators know of the objects that were handed out.
struct Taken {
    /// A bit for each object.
    seen: Vec<AtomicU64>,
    /// Numbers scattered and added.
    sum: AtomicU64,
    count: AtomicU64,
}

/// 100,000 objects and three million steps, or a hundredth.
pub fn prepare<F: Code>(heap: &Heap, scale: &Scale) -> Prepared {
    Ok(Box::new(Finalizers::<F> {
        resource: Record::register(heap).map_err(failed)?,
        content: Record::register(heap).map_err(failed)?,
        slots: Slots::register(heap).map_err(failed)?,
        length: scale.of(100_000, 1000),
        steps: scale.of(3_000_000, 30_000),
    }))
}

impl<F: Code> Workload for Finalizers<F> {
    /// A number made of all objects that were handed out.
    fn run(
        &self,
        mutator: &mut Mutator,
        mutators: &Mutators,
        facts: &mut Facts,
    ) -> Result<u64, OutOfMemory> {
        let objects = u64::from(mutators.threads) * u64::from(self.length + self.steps);
        let taken = Taken {
            seen: (0..objects.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            sum: AtomicU64::new(0),
            count: AtomicU64::new(0),
        };
        // Outlives the frames of the other threads.
        let tables = self.slots.fresh(mutator, mutators.threads as usize)?;
        let tables = shared(mutator, tables);
        mutators.run(mutator, |mutator, number| {
            let table = self.slots.fresh(mutator, self.length as usize)?;
            let all = address(tables.get_raw());
            self.slots.set(mutator, all, number as usize, table)?;
            let kept = self.slots.fresh(mutator, KEPT)?;
            let table = self
                .slots
                .get(mutator, address(tables.get_raw()), number as usize);
            frame(mutator, [table, kept], |mutator, [table, kept]| {
                self.replace(mutator, number, [table, kept], &taken)
            })
        })?;
        mutator.collect(true);
        self.take(mutator, &taken, None)?;
        let mut live = 0;
        for thread in 0..mutators.threads as usize {
            let table = self.slots.get(mutator, address(tables.get_raw()), thread);
            for index in 0..self.length as usize {
                let resource = self.slots.get(mutator, table, index);
                let number = self.resource.long(resource, 0);
                assert!(
                    !taken.has(number),
                    "an object in the table was not handed out"
                );
                live += 1;
            }
        }
        let count = taken.count.load(Ordering::Relaxed);
        assert_eq!(count + live, objects, "all others were handed out");
        let sum = taken.sum.load(Ordering::Relaxed);
        drop(tables);
        mutator.collect(true);
        self.take(mutator, &taken, None)?;
        let all = taken.count.into_inner();
        assert_eq!(all, objects, "without the tables, the rest is handed out");
        facts.insert("finalized".into(), count.into());
        Ok(sum)
    }
}

impl<F: Code> Finalizers<F> {
    /// What one mutator does.
    fn replace(
        &self,
        mutator: &mut Mutator,
        thread: u32,
        [table, kept]: [&std::cell::Cell<gleaner::raw::Value>; 2],
        taken: &Taken,
    ) -> Result<(), OutOfMemory> {
        let mut random = Random::new(5000 + u64::from(thread));
        let first = u64::from(thread) * u64::from(self.length + self.steps);
        for step in 0..self.length + self.steps {
            let index = if step < self.length {
                step
            } else {
                random.below(self.length)
            };
            let resource = self.fresh(mutator, first + u64::from(step))?;
            self.slots
                .set(mutator, object(table), index as usize, resource)?;
            if step % BETWEEN == 0 {
                self.take(mutator, taken, Some(kept))?;
            }
        }
        Ok(())
    }

    /// An object with a finalizer.
    fn fresh(&self, mutator: &mut Mutator, number: u64) -> Result<Address, OutOfMemory> {
        let content = self.content.fresh(mutator)?;
        self.content.set_long(content, 0, scattered(number));
        frame(mutator, [content], |mutator, [content]| {
            let resource = self.resource.fresh(mutator)?;
            self.resource.set_long(resource, 0, number);
            self.resource.set(mutator, resource, 0, object(content));
            let usual = Finalizing::default();
            // SAFETY: just allocated.
            unsafe { mutator.finalize_raw(resource, Value::NULL, usual) }?;
            Ok(resource)
        })
    }

    /// Takes all that is ready.
    fn take(
        &self,
        mutator: &mut Mutator,
        taken: &Taken,
        kept: Option<&std::cell::Cell<gleaner::raw::Value>>,
    ) -> Result<(), OutOfMemory> {
        while let Some((resource, _)) = mutator.next_finalizer_raw() {
            let resource = address(resource);
            let number = self.resource.long(resource, 0);
            let content = self.resource.get(mutator, resource, 0);
            let whole = self.content.long(content, 0) == scattered(number);
            assert!(whole, "an object that is handed out is whole");
            assert!(!taken.mark(number), "an object is handed out once");
            let before = taken.count.fetch_add(1, Ordering::Relaxed);
            taken.sum.fetch_add(scattered(number), Ordering::Relaxed);
            if let Some(kept) = kept.filter(|_| number.is_multiple_of(KEEP_ONE_IN)) {
                let index = before as usize % KEPT;
                self.slots.set(mutator, object(kept), index, resource)?;
            }
        }
        Ok(())
    }
}

impl Taken {
    /// Whether an object was handed out.
    fn has(&self, number: u64) -> bool {
        self.seen[number as usize / 64].load(Ordering::Relaxed) >> (number % 64) & 1 == 1
    }

    /// It is now; whether it was.
    fn mark(&self, number: u64) -> bool {
        let bit = 1 << (number % 64);
        self.seen[number as usize / 64].fetch_or(bit, Ordering::Relaxed) & bit != 0
    }
}
