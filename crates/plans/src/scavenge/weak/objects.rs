//! Weak slots and ephemerons in objects of the heap: what a trace does with those that it has
//! [discovered](super::discovered).
//!
//! Written once for scavenging and marking. What is done with an entry may be done twice, by two workers at a time: a
//! referent that was replaced by its place lives where it is, so both store the same.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::WeakSlot;
use gleaner_mem::slot::{SlotFormat, Value};

use super::discovered::Entry;
use super::heap_trace::HeapTrace;
use super::liveness;
use super::waiting::Waiting;
use crate::scavenge::Scavenge;
use crate::scavenge::trace::WorkerState;

/// A worker has reached an object, of which these elements, and the head if they begin with the first, were scanned but for
/// their weak slots. Ephemerons are looked at if they `wait` somewhere. `strong` scans a slot as a strong one.
#[cold]
#[inline(never)]
pub fn discover(
    trace: &impl HeapTrace,
    local: &mut WorkerState,
    object: Address,
    elements: core::ops::Range<u32>,
    waiting: Option<&Waiting>,
    mut strong: impl FnMut(&mut WorkerState, Address),
) {
    let heap = trace.heap();
    for entry in Entry::pieces(object, elements) {
        let added = heap
            .weak
            .discovered
            .add(&mut local.weak.discovered, entry.clone());
        if added.is_none() {
            visit(heap, &entry, |weak| {
                weak.visit(&mut |slot| strong(local, slot))
            });
            continue;
        }
        // SAFETY: the object was reached, and scanned just now.
        local.weak.ephemerons += unsafe {
            let header = header::load(object, Ordering::Relaxed);
            heap.model.ephemerons(header, &entry.elements)
        };
        if waiting.is_some() {
            look(trace, local, &entry, waiting);
        }
    }
}

/// Visits what is weak in an entry.
#[inline]
fn visit<F: SlotFormat>(heap: &Scavenge<F>, entry: &Entry, visit: impl FnMut(WeakSlot)) {
    // SAFETY: an entry names an object that was reached, where it is from now on, and elements that it has.
    unsafe {
        let header = header::load(entry.object, Ordering::Relaxed);
        heap.model
            .scan_weak(header, entry.object, entry.elements.clone(), visit);
    }
}

/// What a slot of an entry holds.
#[inline(always)]
fn load<F: SlotFormat>(heap: &Scavenge<F>, slot: Address) -> Value {
    // SAFETY: a slot of an object that was reached.
    unsafe { F::load(slot, heap.model.base) }
}

/// The slot holds `was`, and is to refer to `place`, or to nothing.
#[inline(always)]
fn store<T: HeapTrace>(
    trace: &T,
    slot: Address,
    (was, place): (Address, Option<Address>),
    needs_cards: bool,
) {
    let heap = trace.heap();
    if place != Some(was) {
        let value = place.map_or(Value::NULL, Value::reference);
        // SAFETY: a slot of an object that was reached, in a stopped world.
        unsafe { T::Format::store(slot, heap.model.base, value) };
    }
    if needs_cards && place.is_some_and(|place| heap.is_young(place)) {
        heap.cards.dirty(slot);
    }
}

/// [`WeakTrace::look`](super::WeakTrace::look).
pub fn look(
    trace: &impl HeapTrace,
    local: &mut WorkerState,
    entry: &Entry,
    waiting: Option<&Waiting>,
) {
    let heap = trace.heap();
    visit(heap, entry, |weak| {
        let WeakSlot::Ephemeron { key, value } = weak else {
            return;
        };
        let (key, value) = (load(heap, key), || load(heap, value).as_object());
        if let Some(key) = key.as_object() {
            liveness::look_at(trace, local, key, value, waiting);
        } else if !key.is_null()
            && let Some(value) = value()
        {
            // An immediate lives for ever.
            liveness::keep(trace, local, value);
        }
    });
}

/// [`WeakTrace::clear`](super::WeakTrace::clear).
pub fn clear(trace: &impl HeapTrace, local: &mut WorkerState, entry: &Entry) {
    let heap = trace.heap();
    let needs_cards = trace.needs_cards(entry.object);
    visit(heap, entry, |weak| {
        let WeakSlot::Weak(slot) = weak else { return };
        local.weak.weak_looks += 1;
        if let Some(object) = load(heap, slot).as_object() {
            store(trace, slot, (object, trace.place(object)), needs_cards);
        }
    });
}

/// [`WeakTrace::settle_ephemerons`](super::WeakTrace::settle_ephemerons).
pub fn settle<T: HeapTrace>(trace: &T, local: &mut WorkerState, entry: &Entry) {
    let heap = trace.heap();
    let needs_cards = trace.needs_cards(entry.object);
    visit(heap, entry, |weak| {
        let WeakSlot::Ephemeron { key, value } = weak else {
            return;
        };
        local.weak.looks += 1;
        let held = load(heap, key);
        let place = held.as_object().map(|object| (object, trace.place(object)));
        if let Some(was_and_is) = place {
            store(trace, key, was_and_is, needs_cards);
        }
        let key_lives = place.map_or(!held.is_null(), |(_, place)| place.is_some());
        let held = load(heap, value);
        match held.as_object() {
            Some(object) => {
                // With a key that lives, so does the value.
                let place = key_lives.then(|| trace.place(object)).flatten();
                store(trace, value, (object, place), needs_cards);
            }
            // SAFETY: a slot of an object that was reached, in a stopped world.
            None if !key_lives && !held.is_null() => unsafe {
                T::Format::store(value, heap.model.base, Value::NULL);
            },
            None => {}
        }
    });
}
