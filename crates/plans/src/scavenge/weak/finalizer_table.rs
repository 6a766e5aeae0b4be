//! The table of finalizers that wait, in the order in which they were made.
//!
//! An array of wide slots beside the heap, which are roots; it is reserved for the most that there can be. Finalizers and
//! their objects become old from its front on, and a scavenge begins where the first young ones may be. So it looks at no
//! old ones, however many there are.
//!
//! # Invariants
//! - In front of `young_from` there are old finalizers of old objects alone. No collection makes an old object young.
//! - A mutator inside the gate adds a finalizer with the lock. Else the table is the collector's, in a stopped world, when
//!   no mutator has the lock.

use gleaner_base::sync::{AtomicBool, AtomicUsize, Ordering, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::growing::Growing;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

/// Finalizers of one root task.
pub const TASK_FINALIZERS: usize = 1024;

/// The table.
pub struct FinalizerTable {
    start: Address,
    count: AtomicUsize,
    young_from: AtomicUsize,
    /// Whether there was ever one.
    is_used: AtomicBool,
    lock: RawLock,
    /// Protected by `lock`.
    memory: UnsafeCell<Growing>,
}

// SAFETY: the memory is grown with the lock, and its slots are touched as the invariants say.
unsafe impl Sync for FinalizerTable {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for FinalizerTable {}

impl FinalizerTable {
    /// A table of `most` finalizers at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<FinalizerTable> {
        let memory = Growing::new(most * Wide::BYTES)?;
        Some(FinalizerTable {
            start: Address::of(memory.start().as_ptr()),
            count: AtomicUsize::new(0),
            young_from: AtomicUsize::new(0),
            is_used: AtomicBool::new(false),
            lock: RawLock::new(),
            memory: UnsafeCell::new(memory),
        })
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether any wait, or have waited.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Those of lower numbers are old, and so are their objects.
    pub fn young_from(&self) -> usize {
        self.young_from.load(Ordering::Relaxed)
    }

    /// The slot of a finalizer.
    pub fn slot(&self, number: usize) -> Address {
        self.start.add(number * Wide::BYTES)
    }

    /// A finalizer.
    pub fn get(&self, number: usize) -> Address {
        // SAFETY: the callers ask for one below the count, whose slot holds a reference.
        unsafe { Wide::load_reference(self.slot(number), Address::NULL) }
    }

    fn set(&self, number: usize, finalizer: Address) {
        // SAFETY: the slot lies in memory that was committed, since the callers name a number below the count or have grown
        // the memory.
        unsafe {
            Wide::store(
                self.slot(number),
                Address::NULL,
                Value::reference(finalizer),
            )
        };
    }

    /// A mutator inside the gate: the finalizer is the last of the table. False, and it is not in the table, when the system
    /// gives no memory.
    #[must_use]
    pub(super) fn add(&self, finalizer: Address) -> bool {
        self.lock.lock();
        let number = self.count();
        let bytes = (number + 1) * Wide::BYTES;
        // SAFETY: `lock` is held.
        let fits = self
            .memory
            .with_mut(|memory| unsafe { &mut *memory }.grow_to(bytes));
        if fits {
            self.set(number, finalizer);
            self.count.store(number + 1, Ordering::Relaxed);
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.lock.unlock();
        fits
    }

    /// Leader, in a stopped world: begins to go through the finalizers from number `from` on, which is 0 or `young_from`.
    pub(super) fn sift(&self, from: usize) -> Sifting<'_> {
        Sifting {
            table: self,
            kept: from,
            old: from,
        }
    }
}

/// The table while some of its finalizers leave it.
pub(super) struct Sifting<'a> {
    table: &'a FinalizerTable,
    /// How many stay, of those that were gone through and those in front.
    kept: usize,
    /// How many of these in front are old with their objects.
    old: usize,
}

impl Sifting<'_> {
    /// The finalizer that was gone through last stays.
    pub(super) fn keep(&mut self, finalizer: Address, is_old: bool) {
        self.table.set(self.kept, finalizer);
        self.old += usize::from(is_old && self.old == self.kept);
        self.kept += 1;
    }

    /// All were gone through.
    pub(super) fn end(self) {
        self.table.count.store(self.kept, Ordering::Relaxed);
        self.table.young_from.store(self.old, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn those_that_stay_keep_their_order_and_become_old_from_the_front() {
        let table = FinalizerTable::new(1000).unwrap();
        let finalizer = |number: usize| Address::new(16 * (number + 1));
        assert!((0..100).all(|number| table.add(finalizer(number))));
        let held = |table: &FinalizerTable| -> Vec<Address> {
            (0..table.count()).map(|number| table.get(number)).collect()
        };
        // Every third one goes; the first twenty are old, and some behind a young one.
        let mut sifting = table.sift(0);
        for number in (0..100).filter(|number| number % 3 > 0) {
            sifting.keep(finalizer(number), !(30..=50).contains(&number));
        }
        sifting.end();
        let expected = (0..100).filter(|number| number % 3 > 0).map(finalizer);
        assert_eq!(held(&table), expected.collect::<Vec<_>>());
        assert_eq!((table.count(), table.young_from()), (66, 20));
        // A scavenge begins there, and finds that all are old.
        let left: Vec<Address> = held(&table);
        let mut sifting = table.sift(table.young_from());
        left[20..].iter().for_each(|&one| sifting.keep(one, true));
        sifting.end();
        assert_eq!(held(&table), left);
        assert_eq!(table.young_from(), 66);
        assert!(table.add(finalizer(200)));
        assert_eq!((table.count(), table.young_from()), (67, 66));
        table.sift(0).end();
        assert_eq!((table.count(), table.young_from()), (0, 0));
    }

    #[test]
    fn it_says_when_it_can_hold_no_more() {
        // As many as a page has room for.
        let table = FinalizerTable::new(1).unwrap();
        let added = (0..100_000).take_while(|_| table.add(Address::new(16)));
        let count = added.count();
        assert!(count > 0 && count < 100_000, "{count}");
        assert_eq!(table.count(), count);
    }
}
