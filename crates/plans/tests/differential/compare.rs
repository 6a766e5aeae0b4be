//! Collecting, and comparing the heap with the model afterwards.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::collect::Outcome;

use super::model::{Cycle, Id, Word};
use super::program::{Program, load, store};

impl Program {
    /// A collection that the client gives up, before or after marking: nothing dies of it.
    pub fn abandon(&mut self) {
        let asked = 1 + self.collections % 2;
        self.bench
            .client
            .abandon_when_asked
            .store(asked, Ordering::Relaxed);
        assert_eq!(self.bench.collect_for("to be given up"), Outcome::Abandoned);
        self.check_contents();
        self.bench.verify();
    }

    pub fn collect(&mut self) {
        if self.incremental {
            // No time at all: whatever there is to mark is marked in steps, new objects and what a cycle has left, too.
            let limit = if self.rng.one_in(2) { 0 } else { 50_000_000 };
            self.bench.heap.settings.time_limit_ns = Some(limit);
        }
        let cycles = self.bench.heap.totals.cycles;
        let outcome = match () {
            () if self.incremental && self.rng.one_in(3) => self.bench.begin(),
            () if self.sticky && !self.rng.one_in(6) => self.bench.collect_new("new objects"),
            () => self.bench.collect_for("everything"),
        };
        if self.incremental && outcome == Outcome::Begun {
            self.go_on_in_steps(cycles);
            return self.check_contents();
        }
        assert_eq!(outcome, Outcome::Done);
        self.settle(None);
    }

    /// A stop has left something to steps; there had been `cycles` cycles before.
    pub fn go_on_in_steps(&mut self, cycles: u64) {
        let heap = &self.bench.heap;
        self.model
            .goes_on_in_steps(heap.totals.cycles != cycles, heap.cycle.is_of_new());
    }

    /// What steps have marked stays, whatever leads to it now. They marked nothing that could not be reached while they did.
    fn keep_stepped(&mut self, cycle: &Cycle) {
        let stepped = std::mem::take(&mut self.bench.stepped);
        let marked = |id: &Id| stepped.contains(&self.model.objects[id].address().word());
        self.model.old = self.model.objects.keys().copied().filter(marked).collect();
        let led_to = cycle.led_to();
        let extra: Vec<_> = self.model.old.difference(&led_to).collect();
        let names: Vec<String> = extra
            .iter()
            .map(|id| {
                let object = &self.model.objects[id];
                let (at, reading) = (object.address(), object.reading);
                format!("{id}: {reading:?} of {} bytes at {at:?}", object.bytes)
            })
            .collect();
        assert!(
            extra.is_empty(),
            "marked by a step, but never reachable: {names:?}; {}",
            self.description
        );
        let unmarked = |id: &&Id| !led_to.contains(id);
        self.never_reached += self.model.objects.keys().filter(unmarked).count();
    }

    /// Compares after a collection; `fresh` was allocated since.
    pub fn settle(&mut self, fresh: Option<Address>) {
        self.collections += 1;
        let cycle = self.model.cycle.take();
        if self.bench.was_stepped() {
            self.stepped += 1;
            self.stepped_new += usize::from(self.bench.heap.extent.is_of_new());
            self.keep_stepped(&cycle.expect("the model saw it begin"));
        }
        let (alive, newly, cleared) = self.model.collect(self.bench.kept_marks());
        self.kept_marks += usize::from(self.bench.kept_marks());
        let expected = self.model.addresses(&alive);
        let mut marked = self.bench.marked();
        self.model.old = alive.clone();
        if let Some(fresh) = fresh {
            marked.remove(&fresh.word());
        }
        assert!(
            self.ballast.is_subset(&marked),
            "ballast was lost: {}",
            self.description
        );
        marked.retain(|object| !self.ballast.contains(object));
        let missing: BTreeSet<_> = expected.difference(&marked).collect();
        let extra: BTreeSet<_> = marked.difference(&expected).collect();
        let names: Vec<String> = self
            .model
            .objects
            .values()
            .filter(|object| missing.contains(&object.address().word()))
            .map(|object| format!("{:?} of {} bytes", object.reading, object.bytes))
            .collect();
        assert!(
            missing.is_empty(),
            "reachable but not marked: {names:?} {missing:x?}; {}",
            self.description
        );
        assert!(
            extra.is_empty(),
            "marked but not reachable: {extra:x?}; {}",
            self.description
        );
        for place in cleared {
            assert_eq!(
                std::mem::take(&mut self.outside[place]),
                0,
                "a link was not cleared: {}",
                self.description
            );
        }
        for link in self.model.short.iter().chain(&self.model.long) {
            let address = self.model.objects[&link.object].address();
            assert_eq!(
                self.outside[link.place],
                !address.word(),
                "a link was cleared: {}",
                self.description
            );
        }
        let ready = self.bench.heap.weak.finalizers.ready_count();
        assert_eq!(
            ready,
            self.model.ready.len(),
            "{newly:?}: {}",
            self.description
        );
        self.forget_stale();
        self.check_contents();
        if fresh.is_none() {
            self.check_census(alive.len() + self.ballast.len());
            self.bench.verify_collected();
        }
    }

    /// Overwrites references that did not count and whose objects are gone: the cell's next owner may lie elsewhere,
    /// so that the same word would count.
    fn forget_stale(&mut self) {
        let gone: Vec<usize> = self
            .model
            .roots
            .iter()
            .filter(|(_, to)| !self.model.objects.contains_key(&to.to))
            .map(|(at, _)| *at)
            .collect();
        for root in gone {
            self.model.roots.remove(&root);
            self.bench.roots[root] = 0;
        }
        let alive: BTreeSet<Id> = self.model.objects.keys().copied().collect();
        for object in self.model.objects.values_mut() {
            let at = object.address();
            for (word, value) in &mut object.words {
                if matches!(value, Word::Ref(reference) if !alive.contains(&reference.to)) {
                    *value = Word::Data(0);
                    store(at, *word, 0);
                }
            }
        }
    }

    fn check_contents(&self) {
        for object in self.model.objects.values() {
            let at = object.address();
            let mut written = object.words.iter().peekable();
            for word in 0..object.bytes / 8 {
                let expected = match written.next_if(|(at, _)| **at == word) {
                    Some((_, Word::Data(value))) => *value,
                    Some((_, Word::Ref(reference))) => self.word_of(*reference),
                    None => 0,
                };
                assert_eq!(
                    load(at, word),
                    expected,
                    "word {word} of {at:?} changed: {}",
                    self.description
                );
            }
        }
    }

    fn check_census(&self, alive: usize) {
        let census = self.bench.heap.space.census;
        let kept = self.bench.listed().len();
        assert!(
            (alive..=alive + kept).contains(&census.objects),
            "{census:?}, {alive} alive: {}",
            self.description
        );
        let uncollectable = self
            .model
            .objects
            .values()
            .filter(|object| object.uncollectable);
        let bytes: usize = uncollectable
            .map(|object| self.bench.block(object.address()).bytes)
            .sum();
        assert_eq!(
            self.bench.heap.space.uncollectable_bytes, bytes,
            "{}",
            self.description
        );
    }
}
