//! A heap with arrays that are kept by index: what the microbenchmarks of holes and of pauses are made of.

use gleaner::raw::{Address, AnyArrays, Fresh, In, NewObject, Shape, TypeId, Value, array_bytes};
use gleaner::{Builder, Handle, Heap, Mutator, OutOfMemory, OutsideLayout, References};
use gleaner_workloads::failed;

use crate::native::crew_of;
use gleaner_workloads::failure::{Failure, Result};

/// The elements of arrays of numbers here.
pub type Bytes = In<AnyArrays, u8>;

/// What an allocation comes to.
pub type Allocated<T> = std::result::Result<T, OutOfMemory>;

/// A heap, a mutator, and a list of what lives.
pub struct Kept {
    pub mutator: Mutator,
    bytes: TypeId,
    references: TypeId,
    list: Handle,
    /// The logarithm of the size of a reference.
    log2: u32,
    /// It ends when the mutator has.
    _heap: Heap,
}

impl Kept {
    /// A heap of `mb` MB, with lists of options, that keeps up to `count` arrays.
    pub fn new(mb: u32, workers: usize, options: &[String], count: usize) -> Result<Kept> {
        let builder = Heap::builder()
            .limit((mb as usize) << 20)
            .workers(workers)
            .crew(crew_of(workers))
            .outside_layout(OutsideLayout::Followed);
        let heap = options
            .iter()
            .try_fold(builder, |builder, list| builder.options(list))
            .and_then(Builder::build)
            .map_err(failed)?;
        let whole = heap.register_whole_raw(Shape::References).map_err(failed)?;
        let references = heap.register_raw(Shape::References).map_err(failed)?;
        let bytes = heap.register_raw(Shape::Primitives { log2: 0 });
        let mut mutator = heap.attach().map_err(failed)?;
        let log2 = match heap.references() {
            References::Wide => 3,
            References::Compressed => 2,
        };
        // SAFETY: the type is one of arrays of references, from whose slots the bytes follow; the array is given to a
        // handle at once.
        let list = unsafe {
            let length = count as u32;
            let array = mutator.allocate_raw(
                NewObject::array(whole, length, array_bytes(length, log2)),
                Fresh::Zeroed,
            );
            mutator.handle_raw(Value::reference(array.map_err(failed)?))
        };
        Ok(Kept {
            mutator,
            bytes: bytes.map_err(failed)?,
            references,
            list: list.ok_or_else(|| Failure::new("the heap has no room for a handle"))?,
            log2,
            _heap: heap,
        })
    }

    /// A fresh array of `bytes` bytes, each of them 1.
    pub fn numbers(&mut self, bytes: usize) -> Allocated<Value> {
        let (id, length) = (self.bytes, bytes as u32);
        // SAFETY: the type is one of arrays of bytes; the fresh array is in a root while it is filled, and no other
        // reference is held outside of handles.
        unsafe {
            let array = self.mutator.allocate_raw(
                NewObject::array(id, length, array_bytes(length, 0)),
                Fresh::Zeroed,
            )?;
            self.mutator
                .with_roots([Value::reference(array)], |mutator, [root]| {
                    mutator.fill_elements_in::<Bytes>(reference(root.get()), 0, bytes, 1)?;
                    Ok(root.get())
                })
        }
    }

    /// A fresh array of references, of `bytes` bytes, all to one fresh object.
    pub fn references(&mut self, bytes: usize) -> Allocated<Value> {
        let (id, length) = (self.references, self.references_in(bytes));
        let size = array_bytes(length as u32, self.log2);
        let object = self.numbers(8)?;
        // SAFETY: the type is one of arrays of references, from whose slots the bytes follow; the object and the fresh array
        // are in roots while something may collect.
        unsafe {
            self.mutator
                .with_roots([object, Value::NULL], |mutator, [object, root]| {
                    let array = mutator
                        .allocate_raw(NewObject::array(id, length as u32, size), Fresh::Zeroed)?;
                    root.set(Value::reference(array));
                    for index in 0..length {
                        mutator.store_element_raw(reference(root.get()), index, object.get())?;
                    }
                    Ok(root.get())
                })
        }
    }

    /// How many references an array of `bytes` bytes has.
    pub fn references_in(&self, bytes: usize) -> usize {
        bytes >> self.log2
    }

    /// Keeps an array at an index, or nothing.
    pub fn put(&mut self, index: usize, array: Value) -> Allocated<()> {
        let list = reference(self.list.get_raw());
        // SAFETY: an array of references that has this index; the address is not used again.
        unsafe { self.mutator.store_element_raw(list, index, array) }
    }

    /// What is kept at an index, until something may collect.
    pub fn at(&self, index: usize) -> Address {
        // SAFETY: an array of references that has this index.
        reference(unsafe {
            self.mutator
                .load_element_raw(reference(self.list.get_raw()), index)
        })
    }
}

/// The object that a value refers to.
fn reference(value: Value) -> Address {
    Address::new(value.bits() as usize)
}
