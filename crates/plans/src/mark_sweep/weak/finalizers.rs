//! Finalizers: procedures to be run on objects that the program can no longer reach, and how
//! those are found.
//!
//! The idea: an entry is registered, then ready, then taken. After the main trace, each registered object that is still
//! unmarked has its children traced, as far as its [`Order`] lets them count. What this marks must wait for its
//! referents' turn in a later collection, and what stays unmarked becomes ready. Ready objects are then revived with
//! all they reach, since their finalizers are going to use them. Thus, if `a` refers to `b`, `a` is finalized first and
//! `b` not before `a` is gone; an object that reaches itself is never finalized, nor reclaimed.
//!
//! # Invariants
//! 1. The queue has room for every registered entry (`ready.capacity() >= ready.len() + registered.len()`), so that
//!    entries become ready in the stopped world without allocation.
//! 2. Registered entries have a procedure; a null one is a removal.
//! 3. `fresh` counts the entries at the queue's end that the last collection made ready and that are not taken yet.
//!
//! Threads: the holder of the allocator lock; `trace_order`, `enqueue_unreached` and `verify` belong to the stopped
//! world.

use super::outcome::{Fault, NoMemory, Outcome, Settings};
use super::table::Table;
use super::tracer::Tracer;
use alloc::collections::VecDeque;
use gleaner_mem::address::Address;

/// How pointers out of a finalizable object count when the order of finalization is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All of them count: referents wait, and an object that reaches itself waits for ever.
    Ordered,
    /// Pointers of the object into itself do not count.
    IgnoreSelf,
    /// None counts: the object is finalized when the program cannot reach it, even if other finalizable objects can.
    NoOrder,
    /// All count, and moreover the object itself waits, under Java finalization, until no object that is being
    /// finalized out of order reaches it.
    Unreachable,
}

/// What to do when an object dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizer {
    /// The client's procedure, as a word; null removes a registration.
    pub proc: usize,
    /// The word passed to it beside the object; a root until the finalizer is taken.
    pub data: Address,
    /// How it is ordered among others.
    pub order: Order,
}

/// A finalizer to be run now: `proc(object, data)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The object, alive and no longer registered.
    pub object: Address,
    /// The finalizer that was registered for it.
    pub finalizer: Finalizer,
}

/// The finalizers of a heap. Protected by the allocator lock.
pub struct Finalizers {
    /// From the object to its finalizer.
    registered: Table<Finalizer>,
    /// What waits to be run, oldest first.
    ready: VecDeque<Ready>,
    /// See invariant 3.
    fresh: usize,
}

impl Default for Finalizers {
    fn default() -> Finalizers {
        Finalizers::new()
    }
}

impl Finalizers {
    /// No finalizers; allocates nothing.
    pub const fn new() -> Finalizers {
        Finalizers {
            registered: Table::new(),
            ready: VecDeque::new(),
            fresh: 0,
        }
    }

    /// Number of registered finalizers, those that are ready not included.
    pub fn count(&self) -> usize {
        self.registered.len()
    }

    /// The finalizer registered for `object`.
    pub fn get(&self, object: Address) -> Option<Finalizer> {
        self.registered.get(object).copied()
    }

    /// Registers `finalizer` for `object` in place of the present one, or removes that if the procedure is null;
    /// returns the one replaced. On an error nothing has changed. An entry that is ready already is not touched.
    pub fn register(
        &mut self,
        object: Address,
        finalizer: Finalizer,
    ) -> Result<Option<Finalizer>, NoMemory> {
        if finalizer.proc == 0 {
            return Ok(self.registered.remove(object));
        }
        if let Some(present) = self.registered.get_mut(object) {
            return Ok(Some(core::mem::replace(present, finalizer)));
        }
        self.ready.try_reserve(self.registered.len() + 1)?;
        self.registered.reserve_one()?;
        self.registered.insert_reserved(object, finalizer);
        Ok(None)
    }

    /// Makes every registered finalizer ready, reachable object or not, and returns their number.
    pub fn all_to_ready(&mut self) -> usize {
        self.enqueue_if(|_| true)
    }

    /// Whether a finalizer waits to be run.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Number of finalizers that wait to be run.
    pub fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Takes the finalizer that has been ready longest. From here on only the caller keeps its object and data alive.
    pub fn take_ready(&mut self) -> Option<Ready> {
        let taken = self.ready.pop_front();
        self.fresh = self.fresh.min(self.ready.len());
        taken
    }

    /// The `index`-th object that the last collection made ready. By index, so that the caller holds no borrow while it
    /// tells the client.
    pub fn newly_ready(&self, index: usize) -> Option<Address> {
        if index >= self.fresh {
            return None;
        }
        let first = self.ready.len() - self.fresh;
        self.ready.get(first + index).map(|entry| entry.object)
    }

    /// Visits the words that the main trace must treat as roots.
    pub fn for_each_root(&self, visit: &mut dyn FnMut(Address)) {
        for (_, finalizer) in self.registered.iter() {
            visit(finalizer.data);
        }
        for entry in &self.ready {
            visit(entry.object);
            visit(entry.finalizer.data);
        }
    }

    /// Marks whatever must not be finalized before an unmarked registered object, and counts the cycles it meets.
    ///
    /// An object found marked has been traced already, children and all, so it needs no turn of its own.
    pub(super) fn trace_order(&self, tracer: &mut dyn Tracer, outcome: &mut Outcome) {
        for (object, finalizer) in self.registered.iter() {
            if finalizer.order == Order::NoOrder || tracer.is_marked(object) {
                continue;
            }
            match finalizer.order {
                Order::Ordered | Order::Unreachable => tracer.trace_children(object),
                Order::IgnoreSelf => tracer.trace_children_except_self(object),
                Order::NoOrder => continue,
            }
            tracer.drain();
            if tracer.is_marked(object) {
                outcome.cycles += 1;
                outcome.cycle_example.get_or_insert(object);
            }
        }
    }

    /// Makes ready what is still unmarked, greys it, and returns how many that are. What these reach is marked by the next
    /// [`Tracer::drain`].
    pub(super) fn enqueue_unreached(
        &mut self,
        tracer: &mut dyn Tracer,
        settings: Settings,
    ) -> usize {
        let first = self.ready.len();
        self.enqueue_if(|object| !tracer.is_marked(object));
        let mut ready = self.ready.range(first..);
        if settings.java_finalization
            && ready.any(|entry| entry.finalizer.order == Order::Unreachable)
        {
            self.mark_ready(first, tracer, |order| order != Order::Unreachable);
            tracer.drain();
            self.put_back_reached(first, tracer);
        }
        self.mark_ready(first, tracer, |_| true);
        self.fresh = self.ready.len() - first;
        self.fresh
    }

    /// Moves the registered entries that `choose` picks to the end of the queue.
    fn enqueue_if(&mut self, mut choose: impl FnMut(Address) -> bool) -> usize {
        let Finalizers {
            registered, ready, ..
        } = self;
        self.fresh = 0;
        registered.retain(|object, finalizer| {
            let chosen = choose(object);
            if chosen {
                assert!(
                    ready.len() < ready.capacity(),
                    "finalizers: no room reserved for {object:?}"
                );
                ready.push_back(Ready {
                    object,
                    finalizer: *finalizer,
                });
            }
            !chosen
        })
    }

    /// Greys the ready objects from `first` on whose order `choose` picks.
    fn mark_ready(&self, first: usize, tracer: &mut dyn Tracer, choose: impl Fn(Order) -> bool) {
        for entry in self.ready.range(first..) {
            if choose(entry.finalizer.order) {
                tracer.mark(entry.object);
            }
        }
    }

    /// Registers again the `Unreachable` entries from `first` on whose objects the other ready ones have revived.
    fn put_back_reached(&mut self, first: usize, tracer: &dyn Tracer) {
        let mut kept = first;
        for index in first..self.ready.len() {
            let entry = self.ready[index];
            let waits = entry.finalizer.order == Order::Unreachable;
            if waits && tracer.is_marked(entry.object) {
                self.registered
                    .insert_reserved(entry.object, entry.finalizer);
            } else {
                self.ready[kept] = entry;
                kept += 1;
            }
        }
        self.ready.truncate(kept);
    }

    /// Checks that all objects outlive this collection.
    pub(super) fn verify(&self, tracer: &dyn Tracer) -> Result<(), Fault> {
        let registered = self.registered.iter().map(|(object, _)| object);
        let ready = self.ready.iter().map(|entry| entry.object);
        match registered.chain(ready).find(|o| !tracer.is_marked(*o)) {
            None => Ok(()),
            Some(address) => Err(Fault {
                rule: "an object with a finalizer is marked",
                address,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finalizer(proc: usize) -> Finalizer {
        Finalizer {
            proc,
            data: Address::new(proc * 2),
            order: Order::Ordered,
        }
    }

    fn object(n: usize) -> Address {
        Address::new(0x1000 + n * 64)
    }

    #[test]
    fn registration_returns_what_it_replaces() {
        let mut finalizers = Finalizers::new();
        assert_eq!(finalizers.register(object(1), finalizer(0)), Ok(None));
        assert_eq!(finalizers.register(object(1), finalizer(7)), Ok(None));
        let previous = finalizers.register(object(1), finalizer(8));
        assert_eq!(previous, Ok(Some(finalizer(7))));
        assert_eq!(finalizers.count(), 1);
        let previous = finalizers.register(object(1), finalizer(0));
        assert_eq!(previous, Ok(Some(finalizer(8))));
        assert_eq!(finalizers.count(), 0);
    }

    #[test]
    fn all_can_be_made_ready_and_are_taken_once() {
        let mut finalizers = Finalizers::new();
        for n in 0..1000 {
            finalizers.register(object(n), finalizer(n + 1)).unwrap();
        }
        assert!(!finalizers.has_ready());
        assert_eq!(finalizers.all_to_ready(), 1000);
        assert_eq!(finalizers.count(), 0);
        assert_eq!(finalizers.newly_ready(0), None);
        let mut taken = std::vec::Vec::new();
        while let Some(ready) = finalizers.take_ready() {
            assert_eq!(ready.object, object(ready.finalizer.proc - 1));
            taken.push(ready.finalizer.proc);
        }
        taken.sort();
        assert_eq!(taken, (1..=1000).collect::<std::vec::Vec<_>>());
        assert!(!finalizers.has_ready());
    }

    #[test]
    fn an_object_may_be_registered_again_while_it_is_ready() {
        let mut finalizers = Finalizers::new();
        finalizers.register(object(1), finalizer(3)).unwrap();
        finalizers.all_to_ready();
        assert_eq!(finalizers.register(object(1), finalizer(4)), Ok(None));
        finalizers.all_to_ready();
        assert_eq!(finalizers.take_ready().unwrap().finalizer, finalizer(3));
        assert_eq!(finalizers.take_ready().unwrap().finalizer, finalizer(4));
        assert_eq!(finalizers.take_ready(), None);
    }

    #[test]
    fn roots_are_all_data_and_the_ready_objects() {
        let mut finalizers = Finalizers::new();
        finalizers.register(object(1), finalizer(0x100)).unwrap();
        finalizers.all_to_ready();
        finalizers.register(object(2), finalizer(0x200)).unwrap();
        let mut roots = std::vec::Vec::new();
        finalizers.for_each_root(&mut |root| roots.push(root));
        roots.sort();
        let expected = [Address::new(0x200), Address::new(0x400), object(1)];
        assert_eq!(roots, expected);
    }
}
