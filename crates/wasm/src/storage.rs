//! Linear memories, tables and globals, outside of the heap.

use std::ffi::c_void;
use std::ptr::NonNull;

use gleaner::Mutator;
use gleaner::raw::{Address, RootRange, RootWidth};

use crate::context::{MemoryRecord, TableRecord};
use crate::module::{GlobalType, Limits, TableType};

/// Bytes of a page of a memory.
pub(crate) const PAGE_BYTES: u64 = 1 << 16;

/// A memory has so many pages at most: its indices have 32 bits.
const MOST_PAGES: u64 = 1 << 16;

/// A table has so many elements at most. The specification leaves the limit to the engine.
pub(crate) const MOST_ELEMENTS: u64 = 10_000_000;

/// A linear memory: addresses for all pages that it may have, of which those that it has can be accessed. It does not move.
/// Where the process may have no more addresses, it has fewer, and cannot grow beyond them.
pub(crate) struct Memory {
    record: Box<MemoryRecord>,
    reserved: usize,
    limits: Limits,
}

impl Memory {
    /// A memory of the least size; `None` where the system gives none.
    pub(crate) fn new(limits: Limits) -> Option<Memory> {
        let most = limits.most.unwrap_or(MOST_PAGES).min(MOST_PAGES);
        let (base, reserved) = reserve(limits.least.max(1), most.max(1))?;
        let record = Box::new(MemoryRecord {
            base: base.cast(),
            bytes: 0,
        });
        let mut memory = Memory {
            record,
            reserved,
            limits,
        };
        memory.grow(u32::try_from(limits.least).ok()?)?;
        Some(memory)
    }

    /// What compiled code reads. It stays where it is.
    pub(crate) fn record(&self) -> &MemoryRecord {
        &self.record
    }

    /// Its bytes. No compiled code runs while they are borrowed.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: pages up to this length can be read and written, and the memory is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.record.base, self.record.bytes as usize) }
    }

    /// Adds pages: how many there were before. `None` where there may be no more, or the system gives none.
    pub(crate) fn grow(&mut self, pages: u32) -> Option<u32> {
        let before = self.record.bytes / PAGE_BYTES;
        let after = before + u64::from(pages);
        if after > self.limits.most.unwrap_or(MOST_PAGES).min(MOST_PAGES) {
            return None;
        }
        let bytes = (after * PAGE_BYTES) as usize;
        if bytes > self.reserved {
            return None;
        }
        if pages > 0 {
            // SAFETY: the pages lie in what was reserved.
            let granted = unsafe {
                libc::mprotect(
                    self.record.base.cast::<c_void>(),
                    bytes,
                    libc::PROT_READ | libc::PROT_WRITE,
                )
            };
            if granted != 0 {
                return None;
            }
        }
        self.record.bytes = bytes as u64;
        Some(before as u32)
    }

    /// What an import may ask: its size now, and its limit.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            least: self.record.bytes / PAGE_BYTES,
            most: self.limits.most,
        }
    }
}

/// Addresses for a memory of so many pages at least and at most, and how many bytes. Where there are not so many, those that
/// are there are halved: what runs the program needs some, too.
fn reserve(least: u64, most: u64) -> Option<(*mut c_void, usize)> {
    let [least, most] = [least, most].map(|pages| (pages * PAGE_BYTES) as usize);
    let mut reserved = most;
    loop {
        // SAFETY: fresh addresses wherever the system has room.
        let base = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        let half = (reserved / 2)
            .next_multiple_of(PAGE_BYTES as usize)
            .max(least);
        match base == libc::MAP_FAILED {
            false if reserved == most || half >= reserved => return Some((base, reserved)),
            false => {
                // SAFETY: the end of what was just reserved.
                unsafe { libc::munmap(base.byte_add(half), reserved - half) };
                return Some((base, half));
            }
            true if half >= reserved => return None,
            true => reserved = half,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: these addresses were reserved for this memory, and its engine ends.
        unsafe { libc::munmap(self.record.base.cast(), self.reserved) };
    }
}

/// Slots of 8 bytes outside of the heap, which are roots of it if they hold references to objects.
pub(crate) struct Slots {
    slots: Vec<u64>,
    is_managed: bool,
}

impl Slots {
    /// # Panics
    /// If the heap refuses the range: it lies in memory of its own.
    pub(crate) fn new(mutator: &mut Mutator, slots: Vec<u64>, is_managed: bool) -> Slots {
        let mut made = Slots { slots, is_managed };
        made.register(mutator);
        made
    }

    fn range(&mut self) -> Option<RootRange> {
        let slots = self.slots.len();
        let start = Address::new(self.slots.as_mut_ptr() as usize);
        (self.is_managed && slots > 0).then_some(RootRange {
            start,
            slots,
            width: RootWidth::Values,
        })
    }

    fn register(&mut self, mutator: &mut Mutator) {
        if let Some(range) = self.range() {
            // SAFETY: the slots lie there until the range is removed, and hold valid references.
            let added = unsafe { mutator.add_root_range(range) };
            added.unwrap_or_else(|error| panic!("roots of a table: {error}"));
        }
    }

    fn unregister(&mut self, mutator: &mut Mutator) {
        if let Some(range) = self.range() {
            let removed = mutator.remove_root_range(range.start);
            removed.unwrap_or_else(|error| panic!("roots of a table: {error}"));
        }
    }

    /// Changes the slots, which may lie elsewhere then.
    pub(crate) fn change(&mut self, mutator: &mut Mutator, change: impl FnOnce(&mut Vec<u64>)) {
        self.unregister(mutator);
        change(&mut self.slots);
        self.register(mutator);
    }

    pub(crate) fn record(&mut self) -> TableRecord {
        TableRecord {
            base: self.slots.as_mut_ptr(),
            length: self.slots.len() as u64,
        }
    }
}

/// A table.
pub(crate) struct Table {
    record: Box<TableRecord>,
    slots: Slots,
    ty: TableType,
}

impl Table {
    /// A table of the least size; `None` where that is too large.
    pub(crate) fn new(mutator: &mut Mutator, ty: TableType, is_managed: bool) -> Option<Table> {
        if ty.limits.least > MOST_ELEMENTS {
            return None;
        }
        let mut slots = Slots::new(mutator, vec![0; ty.limits.least as usize], is_managed);
        Some(Table {
            record: Box::new(slots.record()),
            slots,
            ty,
        })
    }

    /// What compiled code reads. It stays where it is.
    pub(crate) fn record(&self) -> &TableRecord {
        &self.record
    }

    /// Adds elements with these bits: how many there were before. `None` where there may be no more.
    pub(crate) fn grow(&mut self, mutator: &mut Mutator, count: u32, bits: u64) -> Option<u32> {
        let before = self.record.length;
        let after = before + u64::from(count);
        if after
            > self
                .ty
                .limits
                .most
                .unwrap_or(MOST_ELEMENTS)
                .min(MOST_ELEMENTS)
        {
            return None;
        }
        self.slots
            .change(mutator, |slots| slots.resize(after as usize, bits));
        *self.record = self.slots.record();
        Some(before as u32)
    }

    /// Writes all elements.
    pub(crate) fn fill(&mut self, bits: u64) {
        self.slots.slots.fill(bits);
    }

    /// What an import may ask: its size now, and its limit.
    pub(crate) fn ty(&self) -> TableType {
        TableType {
            limits: Limits {
                least: self.record.length,
                ..self.ty.limits
            },
            ..self.ty
        }
    }
}

/// The references of an element segment. Compiled code does not know them.
pub(crate) struct Segment(Slots);

impl Segment {
    pub(crate) fn new(mutator: &mut Mutator, values: Vec<u64>, is_managed: bool) -> Segment {
        Segment(Slots::new(mutator, values, is_managed))
    }

    pub(crate) fn record(&mut self) -> TableRecord {
        self.0.record()
    }

    /// Drops it: nothing can be copied from it any more.
    pub(crate) fn clear(&mut self, mutator: &mut Mutator) {
        self.0.change(mutator, |slots| *slots = Vec::new());
    }
}

/// A global: 8 bytes that stay where they are.
pub(crate) struct Global {
    slot: Slots,
    pub(crate) ty: GlobalType,
}

impl Global {
    pub(crate) fn new(
        mutator: &mut Mutator,
        ty: GlobalType,
        is_managed: bool,
        bits: u64,
    ) -> Global {
        Global {
            slot: Slots::new(mutator, vec![bits], is_managed),
            ty,
        }
    }

    /// Where it lies.
    pub(crate) fn place(&mut self) -> NonNull<u64> {
        NonNull::from(&mut self.slot.slots[0])
    }

    pub(crate) fn bits(&mut self) -> u64 {
        // SAFETY: its own slot; compiled code that writes it does not run now.
        unsafe { self.place().read_volatile() }
    }
}
