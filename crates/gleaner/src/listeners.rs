//! Listeners: functions of the embedder that are told of each collection when it is over.
//!
//! The thread that led the collection calls them when the others run again. It holds no lock of the heap and counts as
//! blocked, so a listener may take its time, ask for [`Heap::used`] or [`Heap::totals`], and add listeners. It must not
//! use a mutator of this heap. Collections may follow each other while it runs, and then it runs on several threads at
//! once, the later collection possibly first; each says its number.

use std::sync::Arc;

pub use gleaner_base::events::{Event, Phase};

use crate::guarded::Guarded;
use crate::heap::Heap;

/// What one collection was.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Collection<'a> {
    /// The number, from 1.
    pub number: u64,
    /// Why there was one.
    pub reason: &'static str,
    /// Whether it was of everything, or of the young generation alone.
    pub everything: bool,
    /// How long the world was stopped.
    pub stopped_ns: u64,
    /// Its phases, in their order, with time, bytes, objects and reason of each.
    pub events: &'a [Event],
}

impl<'a> Collection<'a> {
    /// `None` for no events.
    fn new(events: &'a [Event]) -> Option<Collection<'a>> {
        let (first, last) = (events.first()?, events.last()?);
        Some(Collection {
            number: first.collection,
            reason: first.reason,
            everything: events.iter().any(|event| event.phase == Phase::Mark),
            stopped_ns: last.duration_ns,
            events,
        })
    }

    /// The phases and how long each took, in nanoseconds. [`Phase::Start`] and [`Phase::End`], which stand for the whole,
    /// are left out.
    pub fn phases(&self) -> impl Iterator<Item = (Phase, u64)> {
        let whole = |event: &&Event| !matches!(event.phase, Phase::Start | Phase::End);
        self.events
            .iter()
            .filter(whole)
            .map(|event| (event.phase, event.duration_ns))
    }
}

type Listener = Arc<dyn Fn(&Collection<'_>) + Send + Sync>;

/// The listeners of a heap.
#[derive(Clone)]
pub(crate) struct Listeners(Arc<Guarded<Vec<Listener>>>);

impl Listeners {
    pub(crate) fn new() -> Listeners {
        Listeners(Arc::new(Guarded::new(Vec::new())))
    }

    fn add(&self, listener: Listener) {
        self.0.with(|list| list.push(listener));
    }

    pub(crate) fn lock_for_fork(&self) {
        self.0.lock();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.0.unlock();
    }

    /// Tells them. The lock is not held meanwhile.
    pub(crate) fn tell(&self, events: &[Event]) {
        let list = self.0.with(|list| list.clone());
        let Some(collection) = Collection::new(events) else {
            return;
        };
        list.iter().for_each(|listener| listener(&collection));
    }
}

impl Heap {
    /// Has each event of each collection told to `listener`, in their order, when the collection is over. It lasts as long
    /// as the heap, and the heap for ever if the listener holds a clone of it. A panic in it comes out of the allocation, or whatever else led the collection.
    pub fn add_listener(&self, listener: impl Fn(&Event) + Send + Sync + 'static) {
        self.add_collection_listener(move |collection| {
            collection.events.iter().for_each(&listener)
        });
    }

    /// As [`Heap::add_listener`], with a summary of each collection.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// heap.add_collection_listener(|collection| {
    ///     println!("{}: stopped {} ns, {}", collection.number, collection.stopped_ns, collection.reason);
    ///     for (phase, ns) in collection.phases() {
    ///         println!("    {} {ns} ns", phase.as_str());
    ///     }
    /// });
    /// ```
    pub fn add_collection_listener(
        &self,
        listener: impl Fn(&Collection<'_>) + Send + Sync + 'static,
    ) {
        self.shared.listeners.add(Arc::new(listener));
    }
}
