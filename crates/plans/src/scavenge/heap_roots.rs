//! Roots that belong to a heap and to no mutator: ranges of slots, such as the globals of a module, and a visitor for
//! what no range describes.
//!
//! Tasks are cut from ranges as if the slots of all ranges lay one after the other, [`TASK_SLOTS`] for each task. So
//! thousands of short ranges cost as many tasks as a long one. The visitor is called for each of its parts, and each
//! part is a task.
//!
//! # Invariants
//! - A mutator touches the table inside the gate, with `lock`; the collector touches it in a stopped world. No mutator
//!   stops while it holds the lock, so the table is whole in a stopped world, and workers may read it.
//! - Ranges are disjoint and in the order of their addresses. `before` counts the slots of all ranges before one.
//! - Slots in ranges hold valid values at every poll and allocation of any mutator.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use gleaner_base::sync::{RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::root::Root;
use gleaner_mem::slot::{SlotFormat, Wide};
use gleaner_mem::traced::Visitor;

/// Slots of one task.
pub const TASK_SLOTS: usize = 4096;

/// How wide the slots of a range are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RootWidth {
    /// Values of 8 bytes, in every heap.
    Values = 0,
    /// As slots of objects are: of 4 bytes where references are compressed.
    Slots = 1,
}

/// Root slots that lie one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootRange {
    /// The first slot.
    pub start: Address,
    /// How many there are.
    pub slots: usize,
    /// How wide they are.
    pub width: RootWidth,
}

/// Why a range is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RootRangeError {
    /// It begins at null, has no slots, or reaches beyond the addresses that there are.
    Empty,
    /// Its slots are not aligned to this many bytes.
    Unaligned(usize),
    /// Part of it is in this range already.
    Overlaps(RootRange),
    /// Part of it lies in the heap itself.
    InHeap,
    /// No range begins there.
    Unknown,
    /// The system gives no memory for the table.
    Memory,
}

impl fmt::Display for RootRangeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootRangeError::Empty => write!(
                out,
                "a root range has a start that is not null and at least one slot, and ends at an address"
            ),
            RootRangeError::Unaligned(bytes) => write!(
                out,
                "the start of a root range is a multiple of the {bytes} bytes of its slots"
            ),
            RootRangeError::Overlaps(other) => write!(
                out,
                "the root range overlaps the one of {} slots at {:#x}, which is registered already: unregister that one \
                 first",
                other.slots,
                other.start.word()
            ),
            RootRangeError::InHeap => write!(
                out,
                "the root range lies in the heap, where objects move: slots of objects are no roots"
            ),
            RootRangeError::Unknown => write!(
                out,
                "no registered root range begins there: it was never registered, or was unregistered already"
            ),
            RootRangeError::Memory => {
                write!(out, "the system gives no memory for another root range")
            }
        }
    }
}

impl core::error::Error for RootRangeError {}

/// A function of the embedder that visits the roots of a heap: `function(data, part, visitor)`, once for each part.
///
/// It runs while the world is stopped, several times in a collection, and on several threads at once, each with another
/// part. It keeps what [`traced`](gleaner_mem::traced) asks of trace functions: it allocates nothing, takes no lock that
/// a stopped thread may hold, does not look at what slots refer to, and visits the same slots each time, each slot in
/// one part and once.
#[derive(Clone, Copy, Debug)]
pub struct HeapRootVisitor {
    /// The function.
    pub function: unsafe extern "C" fn(*mut (), usize, *mut Visitor),
    /// How many parts there are, from 0.
    pub parts: usize,
    /// What it is given first. Whatever it leads to outlives the heap, or the visitor is taken back before.
    pub data: *mut (),
}

/// A range, and the number of slots before it.
struct Registered {
    range: RootRange,
    before: usize,
}

#[derive(Default)]
struct Table {
    ranges: Vec<Registered>,
    visitor: Option<HeapRootVisitor>,
}

/// The roots of one heap.
pub struct HeapRoots {
    lock: RawLock,
    table: UnsafeCell<Table>,
    /// Bytes of a slot of objects.
    slot_bytes: usize,
}

// SAFETY: the table is touched with the lock, or in a stopped world (see the invariants).
unsafe impl Sync for HeapRoots {}
// SAFETY: nothing in it belongs to a thread; the embedder vouches for what the visitor's data leads to.
unsafe impl Send for HeapRoots {}

impl RootRange {
    fn slot_bytes(&self, heap_slot_bytes: usize) -> usize {
        match self.width {
            RootWidth::Values => Wide::BYTES,
            RootWidth::Slots => heap_slot_bytes,
        }
    }

    /// Where it ends, if it can be a range.
    fn checked_end(&self, slot_bytes: usize) -> Result<usize, RootRangeError> {
        let start = self.start.word();
        if start == 0 || self.slots == 0 {
            return Err(RootRangeError::Empty);
        }
        if !start.is_multiple_of(slot_bytes) {
            return Err(RootRangeError::Unaligned(slot_bytes));
        }
        let end = self.slots.checked_mul(slot_bytes);
        let end = end.and_then(|bytes| start.checked_add(bytes));
        end.ok_or(RootRangeError::Empty)
    }
}

impl Table {
    /// The place of the first range that begins at `start` or behind it.
    fn place(&self, start: Address) -> usize {
        self.ranges
            .partition_point(|known| known.range.start < start)
    }

    /// Counts again the slots before the ranges from `place` on.
    fn count_from(&mut self, place: usize) {
        let mut before = self.ranges[..place].last().map_or(0, Registered::end);
        for known in &mut self.ranges[place..] {
            known.before = before;
            before = known.end();
        }
    }
}

impl Registered {
    /// The number of slots before the ranges that follow.
    fn end(&self) -> usize {
        self.before + self.range.slots
    }
}

impl HeapRoots {
    /// No roots.
    pub fn new(slot_bytes: usize) -> HeapRoots {
        HeapRoots {
            lock: RawLock::new(),
            table: UnsafeCell::new(Table::default()),
            slot_bytes,
        }
    }

    /// A mutator inside the gate: lends the table.
    fn with<R>(&self, body: impl FnOnce(&mut Table) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held, and the world is not stopped while a mutator is inside the gate.
        let result = self.table.with_mut(|table| body(unsafe { &mut *table }));
        self.lock.unlock();
        result
    }

    /// In a stopped world: lends the table to any number of workers.
    fn in_stopped_world<R>(&self, body: impl FnOnce(&Table) -> R) -> R {
        // SAFETY: the world is stopped, so nobody changes the table.
        self.table.with(|table| body(unsafe { &*table }))
    }

    /// A mutator inside the gate: the slots of a range are roots from now on. `heap` is where the heap's objects lie.
    pub fn add(&self, range: RootRange, heap: Range<usize>) -> Result<(), RootRangeError> {
        let end = range.checked_end(range.slot_bytes(self.slot_bytes))?;
        let start = range.start.word();
        if start < heap.end && heap.start < end {
            return Err(RootRangeError::InHeap);
        }
        let slot_bytes = self.slot_bytes;
        self.with(|table| {
            let place = table.place(range.start);
            let overlaps = |known: &&Registered| {
                let other = known.range;
                let other_end = other.start.word() + other.slots * other.slot_bytes(slot_bytes);
                start < other_end && other.start.word() < end
            };
            let around =
                &table.ranges[place.saturating_sub(1)..(place + 1).min(table.ranges.len())];
            if let Some(known) = around.iter().find(overlaps) {
                return Err(RootRangeError::Overlaps(known.range));
            }
            let room = table.ranges.try_reserve(1);
            room.map_err(|_| RootRangeError::Memory)?;
            table.ranges.insert(place, Registered { range, before: 0 });
            table.count_from(place);
            Ok(())
        })
    }

    /// A mutator inside the gate: the slots of the range that begins at `start` are no roots any more.
    pub fn remove(&self, start: Address) -> Result<RootRange, RootRangeError> {
        self.with(|table| {
            let place = table.place(start);
            let known = table.ranges.get(place);
            if known.is_none_or(|known| known.range.start != start) {
                return Err(RootRangeError::Unknown);
            }
            let removed = table.ranges.remove(place);
            table.count_from(place);
            Ok(removed.range)
        })
    }

    /// A mutator inside the gate: sets the visitor.
    pub fn set_visitor(&self, visitor: Option<HeapRootVisitor>) {
        self.with(|table| table.visitor = visitor);
    }

    /// In a stopped world: how many slots all ranges have, and how many parts the visitor.
    pub(super) fn count(&self) -> (usize, usize) {
        self.in_stopped_world(|table| {
            let slots = table.ranges.last().map_or(0, Registered::end);
            (slots, table.visitor.map_or(0, |visitor| visitor.parts))
        })
    }

    /// In a stopped world: visits the slots of ranges that have these numbers.
    pub(super) fn visit_slots(&self, numbers: Range<usize>, mut visit: impl FnMut(Root<'_>)) {
        self.in_stopped_world(|table| {
            let first = table
                .ranges
                .partition_point(|known| known.end() <= numbers.start);
            for known in &table.ranges[first..] {
                if known.before >= numbers.end {
                    return;
                }
                let range = known.range;
                let bytes = range.slot_bytes(self.slot_bytes);
                let low = numbers.start.max(known.before) - known.before;
                let high = numbers.end.min(known.end()) - known.before;
                for index in low..high {
                    let slot = range.start.add(index * bytes);
                    visit(match range.width {
                        RootWidth::Values => Root::Value(slot),
                        RootWidth::Slots => Root::Slot(slot),
                    });
                }
            }
        });
    }

    /// In a stopped world: visits the roots of a part of the visitor's.
    pub(super) fn visit_part(&self, part: usize, visit: impl FnMut(Root<'_>)) {
        let visitor = self.in_stopped_world(|table| table.visitor);
        if let Some(HeapRootVisitor { function, data, .. }) = visitor {
            // SAFETY: the function keeps what `HeapRootVisitor` asks, and what `data` leads to is there as long as the
            // visitor is set.
            Visitor::with_roots(visit, |visitor| unsafe { function(data, part, visitor) });
        }
    }

    /// In a stopped world: visits every root.
    pub(super) fn visit_all(&self, mut visit: impl FnMut(Root<'_>)) {
        let (slots, parts) = self.count();
        self.visit_slots(0..slots, &mut visit);
        (0..parts).for_each(|part| self.visit_part(part, &mut visit));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const HEAP: Range<usize> = 0x100_0000..0x200_0000;

    fn range(start: usize, slots: usize, width: RootWidth) -> RootRange {
        let start = Address::new(start);
        RootRange {
            start,
            slots,
            width,
        }
    }

    fn values(start: usize, slots: usize) -> RootRange {
        range(start, slots, RootWidth::Values)
    }

    /// What is visited, as (address, whether it is a value).
    fn visited(roots: &HeapRoots, numbers: Range<usize>) -> Vec<(usize, bool)> {
        let mut found = Vec::new();
        roots.visit_slots(numbers, |root| match root {
            Root::Value(slot) => found.push((slot.word(), true)),
            Root::Slot(slot) => found.push((slot.word(), false)),
            Root::Derived(..) => panic!("ranges have no derived pointers"),
        });
        found
    }

    #[test]
    fn wrong_ranges_are_refused_with_the_reason() {
        let roots = HeapRoots::new(4);
        let add = |range| roots.add(range, HEAP);
        assert_eq!(add(values(0x1000, 4)), Ok(()));
        for wrong in [values(0, 1), values(0x5000, 0), values(0x5000, usize::MAX)] {
            assert_eq!(add(wrong), Err(RootRangeError::Empty), "{wrong:?}");
        }
        assert_eq!(add(values(0x5004, 1)), Err(RootRangeError::Unaligned(8)));
        let narrow = |start, slots| range(start, slots, RootWidth::Slots);
        assert_eq!(add(narrow(0x5002, 1)), Err(RootRangeError::Unaligned(4)));
        assert_eq!(add(narrow(0x5004, 1)), Ok(()));
        let overlaps = Err(RootRangeError::Overlaps(values(0x1000, 4)));
        for (start, slots) in [(0x1000, 4), (0x1018, 1), (0xff8, 2), (0xff8, 100)] {
            assert_eq!(add(values(start, slots)), overlaps, "{start:#x} {slots}");
        }
        assert_eq!(add(values(0xff8, 1)), Ok(()));
        assert_eq!(add(values(0x1020, 1)), Ok(()));
        for start in [HEAP.start - 8, HEAP.start, HEAP.end - 8] {
            assert_eq!(add(values(start, 2)), Err(RootRangeError::InHeap));
        }
        assert_eq!(add(values(HEAP.start - 8, 1)), Ok(()));
        assert_eq!(add(values(HEAP.end, 1)), Ok(()));
        let start = Address::new(0x1000);
        assert_eq!(
            roots.remove(Address::new(0x1008)),
            Err(RootRangeError::Unknown)
        );
        assert_eq!(roots.remove(start), Ok(values(0x1000, 4)));
        assert_eq!(roots.remove(start), Err(RootRangeError::Unknown));
        assert_eq!(add(values(0x1000, 4)), Ok(()));
    }

    #[test]
    fn any_cut_of_the_slots_visits_each_once() {
        let roots = HeapRoots::new(4);
        let mut expected = Vec::new();
        // In an order of their own, short ones and long ones of both widths.
        for number in (0..40).map(|number| number * 7 % 40) {
            let (start, slots) = (0x10_0000 + number * 0x1000, 1 + number * number % 97);
            let width = [RootWidth::Values, RootWidth::Slots][number % 2];
            roots.add(range(start, slots, width), HEAP).unwrap();
        }
        roots.remove(Address::new(0x10_0000 + 5 * 0x1000)).unwrap();
        for number in (0..40).filter(|&number| number != 5) {
            let (start, slots) = (0x10_0000 + number * 0x1000, 1 + number * number % 97);
            let is_wide = number % 2 == 0;
            let bytes = if is_wide { 8 } else { 4 };
            expected.extend((0..slots).map(|index| (start + index * bytes, is_wide)));
        }
        let (slots, parts) = roots.count();
        assert_eq!((slots, parts), (expected.len(), 0));
        for piece in [1, 3, 64, 10_000] {
            let mut found = Vec::new();
            for low in (0..slots).step_by(piece) {
                found.extend(visited(&roots, low..(low + piece).min(slots)));
            }
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }
}
