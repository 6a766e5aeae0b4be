//! How fences are made, and what a fault says.

use core::fmt::{self, Write};

use gleaner_base::events::{LineBuffer, Ring};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::ELEMENTS;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::access::{self, Access, Instruction};
use gleaner_spaces::precise::large_objects::PAGE_BYTES;

use crate::scavenge::Scavenge;
use crate::scavenge::allocate::Place;

impl<F: SlotFormat> Scavenge<F> {
    /// Raw accesses to arrays in pieces have a message from now on. The heap stays where it is until it is dropped.
    pub(in crate::scavenge) fn begin_guard(&mut self) {
        if self.model.pieces.is_fenced() {
            let owner = core::ptr::from_ref(self).cast();
            let (start, bytes) = (self.large.start().word(), self.large.bytes());
            // SAFETY: the watch ends before the heap does, and threads that use the heap have ended with it by then.
            self.guard.watch = unsafe { access::watch(start, bytes, owner, describe::<F>) };
        }
    }

    /// Where the spine of an array with `elements` bytes of elements is allocated.
    pub fn spine_place(&self, elements: usize) -> Place {
        if self.model.pieces.is_fenced() {
            Place::Fenced(elements.next_multiple_of(PAGE_BYTES))
        } else {
            Place::Anywhere
        }
    }

    /// Writes which element of which array an address is that lies in a fence.
    fn describe_fenced(&self, at: Address, out: &mut dyn Write) -> Option<fmt::Result> {
        let array = self.large.fenced_object(at)?;
        // SAFETY: an array whose fence was accessed, so its memory is mapped.
        let header = unsafe { header::load(array, Ordering::Relaxed) };
        let id = header.type_id();
        if !header.is_spine() || id.get() >= self.model.types.count() {
            return None;
        }
        // SAFETY: the header is that of an array; the type is one of this heap.
        let (length, element) =
            unsafe { (self.model.length(array), self.model.types.element_of(id)) };
        let (log2, slots) = element?;
        let offset = at.offset_from(array) - ELEMENTS;
        let index = offset >> log2;
        let elements = if slots { "references" } else { "numbers" };
        let where_to = if index < length as usize {
            ""
        } else {
            ", behind its last element"
        };
        let plural = if log2 == 0 { "" } else { "s" };
        Some(write!(
            out,
            "array at {:#x}, type {} ({elements} of {} byte{plural}), length {length}, index {index} (offset {offset}){where_to}",
            array.word(),
            id.get(),
            1usize << log2,
        ))
    }
}

/// For the handler of a fault.
///
/// # Safety
/// `owner` is a heap with such slots.
unsafe fn describe<F: SlotFormat>(owner: *const (), access: Access, out: &mut dyn Write) -> bool {
    // SAFETY: `owner` is a heap with such slots, as asked; only atomics and fields that never change are read, and what
    // the lock protects that `try_with` takes.
    let heap = unsafe { &*owner.cast::<Scavenge<F>>() };
    let mut place = LineBuffer::<256>::new();
    if heap
        .describe_fenced(Address::new(access.address), &mut place)
        .is_none()
    {
        return false;
    }
    let kind = if access.writes { "write to" } else { "read of" };
    // What a buffer has no room for is cut off; it refuses nothing.
    let _ = writeln!(
        out,
        "gleaner: a raw {kind} an array in pieces (array-guard=on): {}, accessed by {}; its elements are reached through \
         the accessors, or it is registered as one that lies in one piece",
        place.as_str(),
        Instruction(access.instruction)
    );
    // A collection may be going on, even on this thread: then there are none.
    heap.collecting
        .try_with(|state| write_last(&state.events, out));
    true
}

/// How many events are written.
const LAST: usize = 8;

fn write_last(events: &Ring, out: &mut dyn Write) {
    let _ = writeln!(out, "last events:");
    for event in events
        .iter()
        .skip(events.iter().count().saturating_sub(LAST))
    {
        let _ = writeln!(out, "{event}");
    }
}
