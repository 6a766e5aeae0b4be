//! Listeners: each collection as a plain struct.

use std::ffi::{CString, c_char, c_void};

use gleaner::{Collection, Event, Heap};

use crate::cells::Name;
use crate::checks::heap_of;

/// `struct gleaner_event`.
#[repr(C)]
pub struct CEvent {
    phase: *const c_char,
    reason: *const c_char,
    collection: u64,
    start_ns: u64,
    duration_ns: u64,
    bytes: u64,
    objects: u64,
    workers: u32,
}

/// `struct gleaner_collection`.
#[repr(C)]
pub struct CCollection {
    number: u64,
    reason: *const c_char,
    stopped_ns: u64,
    everything: bool,
    event_count: usize,
    events: *const CEvent,
    stopping_ns: u64,
}

type Function = unsafe extern "C" fn(*mut c_void, *const CCollection);

/// A function with its data.
struct Listener(Function, *mut c_void);

// SAFETY: the header says that the function is called on any thread.
unsafe impl Send for Listener {}
// SAFETY: the header says that the function is called by several threads at once.
unsafe impl Sync for Listener {}

impl Listener {
    fn tell(&self, collection: &Collection<'_>) {
        let texts: Vec<[CString; 2]> = collection.events.iter().map(texts).collect();
        let events: Vec<CEvent> = collection
            .events
            .iter()
            .zip(&texts)
            .map(|(event, [phase, reason])| CEvent {
                phase: phase.as_ptr(),
                reason: reason.as_ptr(),
                collection: event.collection,
                start_ns: event.start_ns,
                duration_ns: event.duration_ns,
                bytes: event.bytes,
                objects: event.objects,
                workers: event.workers,
            })
            .collect();
        let reason = text(collection.reason);
        let told = CCollection {
            number: collection.number,
            reason: reason.as_ptr(),
            stopped_ns: collection.stopped_ns,
            everything: collection.everything,
            event_count: events.len(),
            events: events.as_ptr(),
            stopping_ns: collection.stopping_ns,
        };
        // SAFETY: the embedder's function, with a struct that lasts as long as the call.
        unsafe { (self.0)(self.1, &told) };
    }
}

fn texts(event: &Event) -> [CString; 2] {
    [text(event.phase.as_str()), text(event.reason)]
}

/// The collector's texts have no byte 0.
fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleaner_add_listener(
    heap: Name<Heap>,
    function: Option<Function>,
    data: *mut c_void,
) {
    // SAFETY: a heap of the caller's, or null.
    let heap = unsafe { heap_of(heap) };
    let function = function.expect("gleaner_add_listener: the listener is NULL");
    let listener = Listener(function, data);
    heap.add_collection_listener(move |collection| listener.tell(collection));
}
