//! Objects of the workloads: structures and arrays of a heap by their offsets, as a compiler would use them.
//!
//! References are plain addresses: what is needed after an allocation, a store into an array, a poll or a lock lies in a
//! [`frame`]. The functions here trust the workloads to give valid objects of the right type, and indices inside of them; `--verify`
//! and the checks of each workload tell when they do not.

use std::cell::Cell;
use std::marker::PhantomData;

use gleaner::raw::{
    Address, Cursor, CursorMut, Element, FIELDS, Fresh, In, Layout, NewObject, Number, Object,
    Shape, SlotFormat, TypeId, Value, array_bytes,
};
use gleaner::report::Access;
use gleaner::{Handle, Heap, Mutator, OutOfMemory, TypeError};

use super::random::{NO_BYTES, hash_on};

/// A fresh object.
pub type Allocated = Result<Address, OutOfMemory>;

/// What is known of the heap where a workload is compiled, as a compiler knows it.
pub trait Code: Copy + Send + Sync + 'static {
    /// Its slots.
    type Slot: SlotFormat;
    /// How its arrays lie in memory.
    type Arrays: Layout;
    /// Bytes of a slot.
    const SLOT_BYTES: usize = Self::Slot::BYTES;
}

/// A heap with slots of format `F`, whose arrays have the layout `L`.
pub struct For<F, L>(PhantomData<fn() -> (F, L)>);

impl<F, L> Clone for For<F, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, L> Copy for For<F, L> {}

impl<F: SlotFormat, L: Layout> Code for For<F, L> {
    type Slot = F;
    type Arrays = L;
}

/// The elements of an array of references.
pub type References<F> = In<<F as Code>::Arrays, Object<<F as Code>::Slot>>;

/// Bytes of a reference.
fn slot_bytes(heap: &Heap) -> usize {
    match heap.references() {
        gleaner::References::Wide => 8,
        gleaner::References::Compressed => 4,
    }
}

/// An object or null, as a value.
#[inline(always)]
pub fn value(object: Address) -> Value {
    Value::from_bits(object.word() as u64)
}

/// The object of a value, or null: the workloads have no immediates, and a compiler with static types would know it.
#[inline(always)]
pub fn address(value: Value) -> Address {
    Address::new(value.bits() as usize)
}

/// The object that a root holds, or null.
#[inline(always)]
pub fn object(root: &Cell<Value>) -> Address {
    address(root.get())
}

/// Runs `body` with roots that hold these objects at first. It puts nothing but valid objects and null there.
#[inline(always)]
pub fn frame<const N: usize, R>(
    mutator: &mut Mutator,
    objects: [Address; N],
    body: impl FnOnce(&mut Mutator, &[Cell<Value>; N]) -> R,
) -> R {
    // SAFETY: the workloads pass valid objects or null, and `body` puts nothing else there.
    unsafe { mutator.with_roots(objects.map(value), body) }
}

/// A handle to an object, for all threads.
pub fn shared(mutator: &mut Mutator, object: Address) -> Handle {
    // SAFETY: the workloads pass a valid object.
    let handle = unsafe { mutator.handle_raw(value(object)) };
    handle.expect("a workload has few handles")
}

/// Stores into the next element of a cursor, which is not behind the last.
#[inline(always)]
pub fn put<E: Element>(cursor: &mut CursorMut<'_, E>, item: E::Item) {
    // SAFETY: the workloads pass items that fit the elements: numbers, or valid objects and null.
    let stored = unsafe { cursor.store(item) };
    debug_assert!(stored, "the cursor is behind the last element");
}

/// Copies elements between arrays of the same kind, or within one. Like an allocation, this may collect.
pub fn copy(
    mutator: &mut Mutator,
    (from, from_index): (Address, usize),
    (to, to_index): (Address, usize),
    count: usize,
) -> Result<(), OutOfMemory> {
    let [from_index, to_index, count] = [from_index, to_index, count].map(|number| number as u32);
    // SAFETY: the workloads pass valid arrays of the same kind, and no other thread uses the numbers that are copied.
    // What the workloads need afterwards is in a frame.
    unsafe { mutator.copy_elements_raw(from, from_index, to, to_index, count) }
}

/// A type of objects with `REFERENCES` references, then `DATA` bytes of numbers, in a heap of `F`: as a
/// compiler knows it, sizes and offsets are constants.
pub struct Record<F, const REFERENCES: usize, const DATA: usize> {
    id: TypeId,
    slots: PhantomData<fn() -> F>,
}

/// One with two references and two numbers of 4 bytes.
pub type Pair<F> = Record<F, 2, 8>;

impl<F, const REFERENCES: usize, const DATA: usize> Clone for Record<F, REFERENCES, DATA> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, const REFERENCES: usize, const DATA: usize> Copy for Record<F, REFERENCES, DATA> {}

impl<F: Code, const REFERENCES: usize, const DATA: usize> Record<F, REFERENCES, DATA> {
    /// Offset of the numbers.
    const NUMBERS: usize = FIELDS + REFERENCES * F::SLOT_BYTES;
    const BYTES: usize = {
        let bytes = (Self::NUMBERS + DATA).next_multiple_of(8);
        if bytes < 16 { 16 } else { bytes }
    };

    /// Registers the type.
    pub fn register(heap: &Heap) -> Result<Self, TypeError> {
        assert_eq!(F::SLOT_BYTES, slot_bytes(heap), "the heap has other slots");
        let references: [u32; REFERENCES] =
            std::array::from_fn(|index| (FIELDS + index * F::SLOT_BYTES) as u32);
        let id = heap.register_raw(Shape::Structure {
            bytes: Self::BYTES,
            references: &references,
        })?;
        Ok(Record {
            id,
            slots: PhantomData,
        })
    }

    /// A fresh one, all null and zero.
    #[inline(always)]
    pub fn fresh(&self, mutator: &mut Mutator) -> Allocated {
        // SAFETY: the type and its size.
        unsafe { mutator.allocate_raw(NewObject::structure(self.id, Self::BYTES), Fresh::Zeroed) }
    }

    /// What a reference refers to, or null.
    #[inline(always)]
    pub fn get(&self, mutator: &Mutator, object: Address, index: usize) -> Address {
        debug_assert!(index < REFERENCES);
        // SAFETY: the workloads pass a valid object of this type, which has a reference of this index.
        unsafe { mutator.load_reference_in::<F::Slot>(object, FIELDS + index * F::SLOT_BYTES) }
    }

    /// Sets a reference.
    #[inline(always)]
    pub fn set(&self, mutator: &Mutator, object: Address, index: usize, to: Address) {
        debug_assert!(index < REFERENCES);
        // SAFETY: the workloads pass a valid object of this type, which has a reference of this index, and a valid
        // object or null to refer to.
        unsafe {
            mutator.store_reference_in::<F::Slot>(object, FIELDS + index * F::SLOT_BYTES, to)
        };
    }

    /// Sets a reference of an object that is fresh: nothing was allocated since.
    #[inline(always)]
    pub fn initialize(&self, mutator: &Mutator, object: Address, index: usize, to: Address) {
        debug_assert!(index < REFERENCES);
        // SAFETY: the workloads pass a fresh object of this type, which has a reference of this index, and a valid
        // object or null to refer to.
        unsafe {
            mutator.initialize_reference_in::<F::Slot>(object, FIELDS + index * F::SLOT_BYTES, to)
        };
    }

    /// The `index`-th number of 4 bytes.
    #[inline(always)]
    pub fn number(&self, object: Address, index: usize) -> u32 {
        debug_assert!(4 * index + 4 <= DATA);
        let place = object.add(Self::NUMBERS + 4 * index).ptr::<u32>();
        // SAFETY: the workloads pass a valid object of this type, and the number lies inside of it.
        unsafe { place.read() }
    }

    /// Sets a number of 4 bytes.
    #[inline(always)]
    pub fn set_number(&self, object: Address, index: usize, to: u32) {
        debug_assert!(4 * index + 4 <= DATA);
        let place = object.add(Self::NUMBERS + 4 * index).ptr::<u32>();
        // SAFETY: the workloads pass a valid object of this type, and the number lies inside of it.
        unsafe { place.write(to) };
    }

    /// The `index`-th number of 8 bytes. They follow references of 4 bytes without a gap.
    #[inline(always)]
    pub fn long(&self, object: Address, index: usize) -> u64 {
        debug_assert!(8 * index + 8 <= DATA);
        let place = object.add(Self::NUMBERS + 8 * index).ptr::<u64>();
        // SAFETY: the workloads pass a valid object of this type, and the number lies inside of it.
        unsafe { place.read_unaligned() }
    }

    /// Sets a number of 8 bytes.
    #[inline(always)]
    pub fn set_long(&self, object: Address, index: usize, to: u64) {
        debug_assert!(8 * index + 8 <= DATA);
        let place = object.add(Self::NUMBERS + 8 * index).ptr::<u64>();
        // SAFETY: the workloads pass a valid object of this type, and the number lies inside of it.
        unsafe { place.write_unaligned(to) };
    }

    /// Adds to a number of 8 bytes.
    #[inline(always)]
    pub fn add_long(&self, object: Address, index: usize, more: u64) {
        self.set_long(object, index, self.long(object, index).wrapping_add(more));
    }
}

/// A type of arrays of references, in a heap of `F`.
pub struct Slots<F> {
    id: TypeId,
    slots: PhantomData<fn() -> F>,
}

impl<F> Clone for Slots<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Slots<F> {}

impl<F: Code> Slots<F> {
    /// Registers the type.
    pub fn register(heap: &Heap) -> Result<Self, TypeError> {
        assert_eq!(F::SLOT_BYTES, slot_bytes(heap), "the heap has other slots");
        Ok(Slots {
            id: heap.register_raw(Shape::References)?,
            slots: PhantomData,
        })
    }

    /// A fresh one, all null.
    #[inline(always)]
    pub fn fresh(&self, mutator: &mut Mutator, length: usize) -> Allocated {
        let length = length as u32;
        let bytes = array_bytes(length, F::SLOT_BYTES.trailing_zeros());
        // SAFETY: the type, and the bytes that follow from it.
        unsafe { mutator.allocate_raw(NewObject::array(self.id, length, bytes), Fresh::Zeroed) }
    }

    /// A fresh one, all null, and then what `fill` makes of it. What `fill` looks at besides is in roots.
    #[inline(always)]
    pub fn filled(
        &self,
        mutator: &mut Mutator,
        length: usize,
        fill: impl FnOnce(&mut CursorMut<'_, References<F>>),
    ) -> Allocated {
        // SAFETY: the type is registered in this heap, with elements that are references. What the workloads need
        // afterwards is in a frame.
        unsafe { mutator.allocate_array_by_cursor(self.id, length as u32, fill) }
    }

    /// An element.
    #[inline(always)]
    pub fn get(&self, mutator: &Mutator, array: Address, index: usize) -> Address {
        // SAFETY: the workloads pass a valid array of references, which has an element of this index.
        unsafe { mutator.load_element_in::<References<F>>(array, index) }
    }

    /// Sets an element.
    #[inline(always)]
    pub fn set(
        &self,
        mutator: &mut Mutator,
        array: Address,
        index: usize,
        to: Address,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the workloads pass a valid array of references, which has an element of this index, and a valid
        // object or null to store. What they need afterwards is in a frame.
        unsafe { mutator.store_element_in::<References<F>>(array, index, to) }
    }

    /// The elements from `index` on, one after the other.
    #[inline(always)]
    pub fn cursor<'m>(
        &self,
        mutator: &'m Mutator,
        array: Address,
        index: usize,
        count: usize,
    ) -> Cursor<'m, References<F>> {
        // SAFETY: the workloads pass a valid array of references, in which these elements lie.
        unsafe { mutator.cursor(array, index, count) }
    }

    /// How many elements.
    #[inline(always)]
    pub fn length(&self, mutator: &Mutator, array: Address) -> usize {
        // SAFETY: the workloads pass a valid array.
        unsafe { mutator.length_raw(array) as usize }
    }
}

/// A type of arrays of numbers of `T`, in a heap of `F`.
pub struct Numbers<F, T> {
    id: TypeId,
    element: PhantomData<fn() -> (F, T)>,
}

impl<F, T> Clone for Numbers<F, T> {
    fn clone(&self) -> Numbers<F, T> {
        *self
    }
}

impl<F, T> Copy for Numbers<F, T> {}

impl<F: Code, T: Number> Numbers<F, T> {
    const LOG2: u32 = size_of::<T>().trailing_zeros();

    /// Registers the type.
    pub fn register(heap: &Heap) -> Result<Numbers<F, T>, TypeError> {
        Ok(Numbers {
            id: heap.register_raw(Shape::Primitives { log2: Self::LOG2 })?,
            element: PhantomData,
        })
    }

    /// A fresh one, all zero.
    #[inline(always)]
    pub fn fresh(&self, mutator: &mut Mutator, length: usize) -> Allocated {
        let length = length as u32;
        // SAFETY: the type, and the bytes that follow from it.
        unsafe {
            mutator.allocate_raw(
                NewObject::array(self.id, length, array_bytes(length, Self::LOG2)),
                Fresh::Zeroed,
            )
        }
    }

    /// A fresh one with these elements.
    #[inline(always)]
    pub fn copied(&self, mutator: &mut Mutator, from: &[T]) -> Allocated {
        self.filled(mutator, from.len(), |_, elements| {
            elements.copy_from_slice(from)
        })
    }

    /// A fresh one, all zero, and then what `fill` makes of it. What `fill` looks at besides is in roots.
    #[inline(always)]
    pub fn filled(
        &self,
        mutator: &mut Mutator,
        length: usize,
        fill: impl FnOnce(&Mutator, &mut [T]),
    ) -> Allocated {
        mutator.count_elements_in::<In<F::Arrays, T>>(Access::Store, 0, length);
        // SAFETY: the type is registered in this heap, with elements of `T`. What the workloads need afterwards is in a
        // frame.
        unsafe { mutator.allocate_array_by_window(self.id, length as u32, fill) }
    }

    /// How many elements.
    #[inline(always)]
    pub fn length(&self, mutator: &Mutator, array: Address) -> usize {
        // SAFETY: the workloads pass a valid array.
        unsafe { mutator.length_raw(array) as usize }
    }

    /// An element.
    #[inline(always)]
    pub fn get(&self, mutator: &Mutator, array: Address, index: usize) -> T {
        // SAFETY: the workloads pass a valid array of `T`, which has an element of this index.
        unsafe { mutator.load_element_in::<In<F::Arrays, T>>(array, index) }
    }

    /// Sets an element.
    #[inline(always)]
    pub fn set(
        &self,
        mutator: &mut Mutator,
        array: Address,
        index: usize,
        to: T,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the workloads pass a valid array of `T`, which has an element of this index. What they need
        // afterwards is in a frame.
        unsafe { mutator.store_element_in::<In<F::Arrays, T>>(array, index, to) }
    }

    /// Sets an element to what `change` makes of it.
    #[inline(always)]
    pub fn update(
        &self,
        mutator: &mut Mutator,
        array: Address,
        index: usize,
        change: impl FnOnce(T) -> T,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the workloads pass a valid array of `T`, which has an element of this index. What they need
        // afterwards is in a frame.
        unsafe { mutator.update_element_in::<In<F::Arrays, T>>(array, index, change) }
    }

    /// Copies the elements from `index` on, which nobody changes meanwhile.
    #[inline(always)]
    pub fn read(&self, mutator: &Mutator, array: Address, index: usize, into: &mut [T]) {
        mutator.count_elements_in::<In<F::Arrays, T>>(Access::Load, index, into.len());
        // SAFETY: the workloads pass a valid array of `T`, in which these elements lie, and no other thread writes
        // them.
        unsafe { mutator.read_elements(array, index, into) };
    }

    /// Sets the elements from `index` on, which nobody else uses meanwhile.
    #[inline(always)]
    pub fn write(
        &self,
        mutator: &mut Mutator,
        array: Address,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        mutator.count_elements_in::<In<F::Arrays, T>>(Access::Store, index, from.len());
        // SAFETY: the workloads pass a valid array of `T`, in which these elements lie, and no other thread uses them.
        // What they need afterwards is in a frame.
        unsafe { mutator.write_elements(array, index, from) }
    }

    /// Sets `count` elements from `index` on, which nobody else uses meanwhile, to one number.
    #[inline(always)]
    pub fn fill(
        &self,
        mutator: &mut Mutator,
        array: Address,
        index: usize,
        count: usize,
        to: T,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the workloads pass a valid array of `T`, in which these elements lie, and no other thread uses them.
        // What they need afterwards is in a frame.
        unsafe { mutator.fill_elements_in::<In<F::Arrays, T>>(array, index, count, to) }
    }

    /// The elements from `index` on, one after the other.
    #[inline(always)]
    pub fn cursor<'m>(
        &self,
        mutator: &'m Mutator,
        array: Address,
        index: usize,
        count: usize,
    ) -> Cursor<'m, In<F::Arrays, T>> {
        // SAFETY: the workloads pass a valid array of `T`, in which these elements lie.
        unsafe { mutator.cursor(array, index, count) }
    }

    /// The elements from `index` on, to be set one after the other.
    #[inline(always)]
    pub fn cursor_mut<'m>(
        &self,
        mutator: &'m mut Mutator,
        array: Address,
        index: usize,
        count: usize,
    ) -> Result<CursorMut<'m, In<F::Arrays, T>>, OutOfMemory> {
        // SAFETY: the workloads pass a valid array of `T`, in which these elements lie. What they need afterwards is in
        // a frame.
        unsafe { mutator.cursor_mut(array, index, count) }
    }

    /// Looks at the elements, which nobody changes meanwhile.
    #[inline(always)]
    pub fn look<R>(&self, mutator: &Mutator, array: Address, look: impl FnOnce(&[T]) -> R) -> R {
        let length = self.length(mutator, array);
        mutator.count_elements_in::<In<F::Arrays, T>>(Access::Load, 0, length);
        // SAFETY: the workloads pass a valid array of `T`. All its elements are meant, and no other thread writes them.
        unsafe { mutator.window(array, 0, length, look) }
    }

    /// Changes the elements, which nobody else looks at meanwhile. What `change` looks at besides is in roots.
    #[inline(always)]
    pub fn change<R>(
        &self,
        mutator: &mut Mutator,
        array: Address,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<R, OutOfMemory> {
        let length = self.length(mutator, array);
        mutator.count_elements_in::<In<F::Arrays, T>>(Access::Store, 0, length);
        // SAFETY: the workloads pass a valid array of `T`. All its elements are meant, and nobody else uses them. What
        // the workloads need afterwards is in a frame.
        unsafe { mutator.window_mut(array, 0, length, change) }
    }
}

impl<F: Code> Numbers<F, u8> {
    /// The number of all bytes, as [`hash_of`](crate::random::hash_of) makes it.
    pub fn hash(&self, mutator: &Mutator, array: Address) -> u64 {
        let bytes = self.cursor(mutator, array, 0, self.length(mutator, array));
        bytes.fold(NO_BYTES, |hash, byte| hash_on(hash, &[byte]))
    }
}
