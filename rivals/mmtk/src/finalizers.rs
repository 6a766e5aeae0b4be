//! Objects with finalizers in a table, replaced at random, step by step as in `gleaner-bench native`: those that are
//! ready are taken from MMTk, and some of them are kept once more.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::{Context, Mode};
use crate::handles::Handle;
use crate::mutators;
use crate::object::References;
use crate::records::Record;
use crate::shared::Scale;
use crate::shared::random::{Random, scattered};

/// After how many steps a mutator looks for what is ready.
const BETWEEN: u32 = 1000;
/// How many of the objects that are handed out are kept, the latest ones.
const KEPT: usize = 1000;
/// One in this many is kept.
const KEEP_ONE_IN: u64 = 8;

/// A reference to its content, and its number.
const RESOURCE: Record = Record::new(1, 8);
/// The number, scattered.
const CONTENT: Record = Record::new(0, 8);

/// What all mutators know of the objects that were handed out.
struct Taken {
    /// A bit for each object.
    seen: Vec<AtomicU64>,
    /// Numbers scattered and added.
    sum: AtomicU64,
    count: AtomicU64,
}

/// Runs once, 100,000 objects and three million steps, or a hundredth; a number made of all objects that were handed
/// out.
pub fn finalizers<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    scale: &Scale,
) -> u64 {
    let (length, steps) = scale.of((100_000, 3_000_000), (1000, 30_000));
    let objects = u64::from(threads) * u64::from(length + steps);
    let taken = Taken {
        seen: (0..objects.div_ceil(64))
            .map(|_| AtomicU64::new(0))
            .collect(),
        sum: AtomicU64::new(0),
        count: AtomicU64::new(0),
    };
    // Outlives the roots of the other threads.
    let tables = Handle::new(context.references(threads as usize));
    mutators::run(context, threads, |context, thread| {
        let table = context.references(length as usize);
        context.set_element(tables.get(), thread as usize, table);
        let kept = context.references(KEPT);
        let table = context.element(tables.get(), thread as usize);
        context.with_roots([table, kept], |context, [table, kept]| {
            let mut random = Random::new(5000 + u64::from(thread));
            let first = u64::from(thread) * u64::from(length + steps);
            for step in 0..length + steps {
                let index = if step < length {
                    step
                } else {
                    random.below(length)
                };
                let resource = fresh(context, first + u64::from(step));
                context.set_element(table.get(), index as usize, resource);
                if step % BETWEEN == 0 {
                    taken.take(context, Some(kept));
                }
            }
        });
    });
    context.collect();
    taken.take(context, None);
    let mut live = 0;
    for thread in 0..threads as usize {
        let table = context.element(tables.get(), thread);
        for index in 0..length as usize {
            let resource = context.element(table, index);
            let number = RESOURCE.long(context, resource, 0);
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
    context.collect();
    taken.take(context, None);
    let all = taken.count.into_inner();
    assert_eq!(all, objects, "without the tables, the rest is handed out");
    sum
}

/// An object with a finalizer.
fn fresh<R: References, M: Mode>(context: &mut Context<R, M>, number: u64) -> usize {
    let content = CONTENT.fresh(context);
    CONTENT.set_long(context, content, 0, scattered(number));
    context.with_roots([content], |context, [content]| {
        let resource = RESOURCE.fresh(context);
        RESOURCE.set_long(context, resource, 0, number);
        context.set(resource, 0, content.get());
        context.add_finalizer(resource);
        resource
    })
}

impl Taken {
    /// Takes all that is ready.
    fn take<R: References, M: Mode>(
        &self,
        context: &mut Context<R, M>,
        kept: Option<&Cell<usize>>,
    ) {
        while let Some(resource) = context.next_finalizable() {
            let number = RESOURCE.long(context, resource, 0);
            let content = context.get(resource, 0);
            let whole = CONTENT.long(context, content, 0) == scattered(number);
            assert!(whole, "an object that is handed out is whole");
            assert!(!self.mark(number), "an object is handed out once");
            let before = self.count.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(scattered(number), Ordering::Relaxed);
            if let Some(kept) = kept.filter(|_| number.is_multiple_of(KEEP_ONE_IN)) {
                context.set_element(kept.get(), before as usize % KEPT, resource);
            }
        }
    }

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
