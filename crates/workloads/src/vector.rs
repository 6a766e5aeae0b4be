//! A list in an array of references that is larger than what it holds and grows by copying, as the lists of most standard
//! libraries do.

use std::cell::Cell;

use gleaner::raw::{Address, Value};
use gleaner::{Heap, Mutator, OutOfMemory, TypeError};

use super::objects::{Allocated, Code, Record, Slots, copy, frame, object};

/// Elements of the first array.
const FIRST: usize = 16;

/// The types of such lists.
pub struct Vector<F> {
    /// The array; how many elements of it are used.
    list: Record<F, 1, 4>,
    /// The array's type.
    pub slots: Slots<F>,
}

impl<F> Clone for Vector<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Vector<F> {}

impl<F: Code> Vector<F> {
    /// Registers the types.
    pub fn register(heap: &Heap) -> Result<Self, TypeError> {
        Ok(Vector {
            list: Record::register(heap)?,
            slots: Slots::register(heap)?,
        })
    }

    /// An empty one.
    pub fn fresh(&self, mutator: &mut Mutator) -> Allocated {
        let array = self.slots.fresh(mutator, FIRST)?;
        frame(mutator, [array], |mutator, [array]| {
            let list = self.list.fresh(mutator)?;
            self.list.initialize(mutator, list, 0, object(array));
            Ok(list)
        })
    }

    /// How many elements it has.
    pub fn length(&self, list: Address) -> usize {
        self.list.number(list, 0) as usize
    }

    /// The array that has them, and may have more.
    pub fn array(&self, mutator: &Mutator, list: Address) -> Address {
        self.list.get(mutator, list, 0)
    }

    /// An element.
    pub fn get(&self, mutator: &Mutator, list: Address, index: usize) -> Address {
        debug_assert!(index < self.length(list));
        self.slots.get(mutator, self.array(mutator, list), index)
    }

    /// Adds an element at the end.
    pub fn push(
        &self,
        mutator: &mut Mutator,
        list: &Cell<Value>,
        element: Address,
    ) -> Result<(), OutOfMemory> {
        frame(mutator, [element], |mutator, [element]| {
            let length = self.length(object(list));
            let array = self.array(mutator, object(list));
            if length == self.slots.length(mutator, array) {
                let grown = self.slots.fresh(mutator, 2 * length)?;
                frame(mutator, [grown], |mutator, [grown]| {
                    let array = self.array(mutator, object(list));
                    copy(mutator, (array, 0), (object(grown), 0), length)?;
                    self.list.set(mutator, object(list), 0, object(grown));
                    Ok(())
                })?;
            }
            self.list.set_number(object(list), 0, length as u32 + 1);
            let array = self.array(mutator, object(list));
            self.slots.set(mutator, array, length, object(element))
        })
    }

    /// Takes an element out; those behind it go forward.
    pub fn remove(
        &self,
        mutator: &mut Mutator,
        list: &Cell<Value>,
        index: usize,
    ) -> Result<(), OutOfMemory> {
        let last = self.length(object(list)) - 1;
        let array = self.array(mutator, object(list));
        copy(mutator, (array, index + 1), (array, index), last - index)?;
        self.list.set_number(object(list), 0, last as u32);
        let array = self.array(mutator, object(list));
        self.slots.set(mutator, array, last, Address::NULL)
    }
}
