//! Ephemerons: a key and a value, which lives as far as the ephemeron is concerned if the key does.
//!
//! The collector goes through a list of them in the order in which they were made, and each time the other way: so
//! chains in which each value is the key of another are followed at once, whichever end was made first. When that finds
//! nothing more, it lets MMTk trace from the values and tries again, until nothing changes. A young collection looks at
//! the ephemerons that were made since the last one: all others refer to old objects, since neither key nor value ever
//! changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mmtk::vm::ObjectTracer;

use crate::object::reference;

/// The key of an entry whose ephemeron is gone.
const DROPPED: usize = 1;
/// How many entries are made at a time.
const CHUNK: usize = 1024;

/// Changed by the collector in a stopped world, else by the owner of the ephemeron.
#[derive(Default)]
struct Entry {
    key: AtomicUsize,
    value: AtomicUsize,
}

/// An ephemeron; key and value are 0 when the key has died.
pub struct Ephemeron(&'static Entry);

impl Ephemeron {
    /// The key.
    pub fn key(&self) -> usize {
        self.0.key.load(Ordering::Relaxed)
    }

    /// The value.
    pub fn value(&self) -> usize {
        self.0.value.load(Ordering::Relaxed)
    }
}

impl Drop for Ephemeron {
    fn drop(&mut self) {
        self.0.key.store(DROPPED, Ordering::Relaxed);
    }
}

/// All entries. A collection finds it unlocked, since no thread stops with the lock.
struct Table {
    /// Those in use, in the order in which they were made.
    entries: Vec<&'static Entry>,
    /// How many of them were there at the last collection.
    old: usize,
    /// Those that can be used again.
    free: Vec<&'static Entry>,
    /// During a collection, the entries whose keys were not found to live.
    pending: Option<Vec<&'static Entry>>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    entries: Vec::new(),
    old: 0,
    free: Vec::new(),
    pending: None,
});

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fresh ephemeron.
pub fn create(key: usize, value: usize) -> Ephemeron {
    let mut table = table();
    if table.free.is_empty() {
        let chunk: &'static [Entry] = Vec::leak((0..CHUNK).map(|_| Entry::default()).collect());
        table.free.extend(chunk);
    }
    let entry = table.free.pop().expect("there is one now");
    entry.key.store(key, Ordering::Relaxed);
    entry.value.store(value, Ordering::Relaxed);
    table.entries.push(entry);
    Ephemeron(entry)
}

/// A worker traces the values of ephemerons with live keys; whether there were any more, so that this is to be called
/// again after they were traced. If there were none, all others are cleared.
pub fn process(tracer: &mut impl ObjectTracer, young: bool) -> bool {
    let table = &mut *table();
    let mut pending = match table.pending.take() {
        Some(pending) => pending,
        None => table.begin(young),
    };
    let before = pending.len();
    loop {
        let count = pending.len();
        pending.retain(|entry| !entry.trace(tracer));
        if pending.len() == count {
            break;
        }
        pending.reverse();
    }
    let more = pending.len() < before;
    if more {
        table.pending = Some(pending);
    } else {
        pending.into_iter().for_each(Entry::clear);
    }
    more
}

impl Table {
    /// What a collection has to look at. One of everything finds out what can be used again.
    fn begin(&mut self, young: bool) -> Vec<&'static Entry> {
        if !young {
            self.old = 0;
            let free = &mut self.free;
            self.entries.retain(|&entry| {
                let dropped = entry.key.load(Ordering::Relaxed) == DROPPED;
                if dropped {
                    free.push(entry);
                }
                !dropped
            });
        }
        let first = std::mem::replace(&mut self.old, self.entries.len());
        let made = self.entries[first..].iter();
        made.filter(|entry| entry.key.load(Ordering::Relaxed) > DROPPED)
            .copied()
            .collect()
    }
}

impl Entry {
    /// Whether the key is known to live; then so does the value from now on.
    fn trace(&self, tracer: &mut impl ObjectTracer) -> bool {
        let [key, value] = [&self.key, &self.value].map(|place| {
            // SAFETY: it is an object, since the entry is not dropped.
            unsafe { reference(place.load(Ordering::Relaxed)) }.expect("it is not cleared")
        });
        let lives = key.is_reachable();
        if lives {
            for (place, object) in [(&self.key, key), (&self.value, value)] {
                let now = tracer.trace_object(object).to_raw_address().as_usize();
                place.store(now, Ordering::Relaxed);
            }
        }
        lives
    }

    fn clear(&self) {
        self.key.store(0, Ordering::Relaxed);
        self.value.store(0, Ordering::Relaxed);
    }
}
