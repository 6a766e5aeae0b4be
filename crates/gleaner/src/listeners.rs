//! Listeners: functions of the embedder that are told of each collection when it is over.
//!
//! The thread that led the collection calls them when the others run again. It holds no lock of the heap and counts as
//! blocked, so a listener may take its time, ask for [`Heap::used`](crate::Heap::used) or
//! [`Heap::totals`](crate::Heap::totals), and add listeners. It must not use a mutator of this heap. Collections may
//! follow each other while it runs, and then it runs on several threads at once, the later collection possibly first;
//! each says its number.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

pub use gleaner_base::events::{Event, Phase};
use gleaner_plans::scavenge::in_place::NEW_OBJECTS;

use crate::guarded::Guarded;

/// A collection that is over.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Collection<'a> {
    /// Its number, counted from 1.
    pub number: u64,
    /// Why the heap was collected.
    pub reason: &'static str,
    /// True if everything was collected, false if only the young generation was.
    pub everything: bool,
    /// How long the world was stopped, in nanoseconds.
    pub stopped_ns: u64,
    /// Of that, how long the collection waited for all mutators to stop.
    pub stopping_ns: u64,
    /// The phases in order, each with its time, bytes, objects and reason.
    pub events: &'a [Event],
}

impl<'a> Collection<'a> {
    /// `None` for no events.
    fn new(events: &'a [Event]) -> Option<Collection<'a>> {
        let (first, last) = (events.first()?, events.last()?);
        let stopping = events.iter().find(|event| event.phase == Phase::StopWorld);
        // Where new objects lie in the old space, they are marked, too.
        let marks_all = |event: &Event| event.phase == Phase::Mark && event.reason != NEW_OBJECTS;
        Some(Collection {
            number: first.collection,
            reason: first.reason,
            everything: events.iter().any(marks_all),
            stopped_ns: last.duration_ns,
            stopping_ns: stopping.map_or(0, |event| event.duration_ns),
            events,
        })
    }

    /// The phases, and how long each took in nanoseconds. [`Phase::Start`] and [`Phase::End`] stand for the whole
    /// collection, and are left out.
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

    pub(crate) fn add(&self, listener: Listener) {
        self.0.with(|list| list.push(listener));
    }

    pub(crate) fn lock_for_fork(&self) {
        self.0.lock();
    }

    pub(crate) fn unlock_after_fork(&self) {
        self.0.unlock();
    }

    /// Tells all of them, also behind one that panics, whose panic goes on out of the call that collected. The lock is
    /// not held meanwhile.
    pub(crate) fn tell(&self, events: &[Event]) {
        let list = self.0.with(|list| list.clone());
        let Some(collection) = Collection::new(events) else {
            return;
        };
        let mut first = None;
        for listener in list {
            if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| listener(&collection))) {
                say_panicked(&collection, &*panic);
                first = first.or(Some(panic));
            }
        }
        if let Some(panic) = first {
            panic::resume_unwind(panic);
        }
    }
}

/// Where the panic comes to be seen, in an allocation perhaps, nothing else leads to the listener.
fn say_panicked(collection: &Collection<'_>, panic: &(dyn Any + Send)) {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("a value that is no text");
    eprintln!(
        "gleaner: a listener panicked when it was told of collection {}: {text}; the panic goes on out of the call that led \
         this collection, so let no panic leave a listener",
        collection.number
    );
}
