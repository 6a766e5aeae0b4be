//! Allocation with all fields given, in the safe layer: nothing is zeroed first (invariant I2 allows it, since every
//! field is written before the object is anybody's).

use gleaner_mem::Address;
use gleaner_mem::object_model::{FIELDS, array_bytes};
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::allocate::Fresh;

use crate::body::OutOfMemory;
use crate::elements;
use crate::local::Local;
use crate::new_object::NewObject;
use crate::scope::Scope;
use crate::types::{Array, Id, ReferenceArray, Type};

/// Writes `bytes` and then zeros up to `end`.
///
/// # Safety
/// The range is memory of a fresh object of the calling mutator.
unsafe fn write(start: Address, bytes: &[u8], end: Address) {
    debug_assert!(bytes.len() <= end.offset_from(start));
    let rest = start.add(bytes.len());
    // SAFETY: the bytes, and the rest of the range up to `end`, are the fresh object's. No other thread has it before
    // the slot is stored that leads to it, which releases what is written here.
    unsafe {
        start
            .ptr::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        rest.ptr::<u8>().write_bytes(0, end.offset_from(rest));
    }
}

impl<'s> Scope<'s> {
    /// Allocates an object with these references and bytes. It panics when they are not as many as the type has.
    ///
    /// ```
    /// # use gleaner::{Heap, Structure};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// let node = heap.structure(Structure { references: 2, bytes: 8 }).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let leaf = scope.allocate(node)?;
    ///     let top = scope.allocate_with(node, &[leaf, leaf], &7_u64.to_ne_bytes())?;
    ///     assert_eq!(scope.read_u64(top, 0), 7);
    ///     Ok::<(), gleaner::OutOfMemory>(())
    /// }).unwrap();
    /// ```
    pub fn allocate_with(
        &mut self,
        of: Type,
        references: &[Local<'_>],
        bytes: &[u8],
    ) -> Result<Local<'s>, OutOfMemory> {
        let layout = of.layout;
        assert!(
            references.len() == layout.references as usize && bytes.len() == layout.bytes as usize,
            "{} references and {} bytes for an object of {} and {}",
            references.len(),
            bytes.len(),
            layout.references,
            layout.bytes
        );
        let total = layout.total;
        let new = NewObject::structure(self.own(of.id), total);
        // SAFETY: `total` is the size of the type; all of the object is written below.
        let object = unsafe { self.new_object(of.id.pinned, new, Fresh::Unwritten) }?;
        self.write_slots(object, FIELDS, layout.data as usize, references);
        // SAFETY: the fresh object, from its bytes to its end.
        unsafe { write(object.add(layout.data as usize), bytes, object.add(total)) };
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// Allocates an array with these references.
    pub fn allocate_references_with(
        &mut self,
        of: ReferenceArray,
        references: &[Local<'_>],
    ) -> Result<Local<'s>, OutOfMemory> {
        let log2 = self.slot_bytes().trailing_zeros();
        let bytes = array_bytes(length(references.len()), log2);
        let object = self.unwritten_array(of.0, references.len() as u32, bytes)?;
        if self.shared().is_cut(object) {
            for (index, &local) in references.iter().enumerate() {
                let value = self.value(local);
                // SAFETY: an element of the fresh array, which is not pinned; locals hold what fits.
                unsafe { self.shared().initialize_element_raw(object, index, value) };
            }
        } else {
            self.write_slots(object, elements::fresh_offset(), bytes, references);
        }
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// Allocates an array whose elements are these bytes, as they lie in memory. It panics when the bytes are no whole
    /// number of elements.
    pub fn allocate_array_with(
        &mut self,
        of: Array,
        bytes: &[u8],
    ) -> Result<Local<'s>, OutOfMemory> {
        let element = 1 << of.1 as u32;
        assert!(
            bytes.len().is_multiple_of(element),
            "{} bytes for an array with elements of {element}",
            bytes.len()
        );
        let count = length(bytes.len() / element);
        let total = array_bytes(count, of.1 as u32);
        let object = self.unwritten_array(of.0, count, total)?;
        // SAFETY: the fresh array, from its elements to its end.
        unsafe {
            if self.shared().is_cut(object) {
                self.shared().write_fresh(object, bytes);
            } else {
                // Behind the last element the last granule is zero: `Fresh::Unwritten` leaves it so.
                let first = object.add(elements::fresh_offset()).ptr::<u8>();
                first.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        };
        // SAFETY: nothing is said of the object.
        unsafe { self.try_local(Value::reference(object)) }
    }

    /// A new array in `bytes` bytes, all of which are to be written behind its length.
    fn unwritten_array(
        &mut self,
        of: Id,
        length: u32,
        bytes: usize,
    ) -> Result<Address, OutOfMemory> {
        let new = NewObject::array(self.own(of), length, bytes);
        // SAFETY: `bytes` follows from type and length; the caller of this writes all elements.
        unsafe { self.new_object(of.pinned, new, Fresh::Unwritten) }
    }

    /// Writes the slots of a fresh object from offset `start` on, and zeros behind them up to `end`.
    fn write_slots(&mut self, object: Address, start: usize, end: usize, references: &[Local<'_>]) {
        let slot_bytes = self.slot_bytes();
        for (index, &local) in references.iter().enumerate() {
            let value = self.value(local);
            // SAFETY: a slot of the fresh object; locals hold what fits.
            unsafe {
                self.shared()
                    .store_raw(object, start + index * slot_bytes, value)
            };
        }
        let rest = start + references.len() * slot_bytes;
        // SAFETY: inside the fresh object.
        unsafe { write(object.add(rest), &[], object.add(end)) };
    }
}

/// As the length of an array.
fn length(elements: usize) -> u32 {
    let length = u32::try_from(elements);
    length.unwrap_or_else(|_| {
        panic!(
            "an array of {elements} elements: it has at most {}",
            u32::MAX
        )
    })
}
