//! Element access in the raw layer (invariant I10): loads, stores, compare-and-swap, cursors, fills, copies and windows.
//!
//! An [`Element`] says what the elements of an array are: numbers, or slots of a format. All accessors are generic over
//! it; those whose names end in `_raw` find the slot format out themselves.
//!
//! A load takes a shared mutator: it neither collects nor fails. A store, a compare-and-swap, a fill, a copy and the
//! opening of a window or cursor for writing take the mutator exclusively and return a `Result`. Each of these counts as
//! an allocation: it may collect, so references that are needed afterwards are in root slots, and it may find no memory.
//! Contiguous arrays, the only ones today, do neither, and all of this compiles to the one instruction; arrays whose
//! elements are allocated when they are first written will do both. What is handed to an accessor need not be in a root.
//!
//! Bounds: an index inside of the array is part of what the caller promises, which debug builds check. Copies check the
//! ranges and the types in all builds, as does the safe layer (`safe.rs`).
//!
//! Nobody else computes where an element lies (`scripts/check_layers.py`).

mod copy;
mod safe;

pub use copy::elements;

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::object_model::{Shape, TypeId, array_bytes, element};
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};

use crate::heap::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

/// What the elements of an array are.
///
/// Slots of a heap with the format `F`: [`Wide`] and [`Compressed`] stand for their values, [`Object`] for references of
/// which none is an immediate. Numbers: the integers of 1, 2, 4 and 8 bytes, `f32` and `f64`; they are read and written
/// whole, so a thread that races for one finds one of the values.
///
/// # Safety
/// `BYTES` are the bytes of an element, the functions touch those alone, and `SLOTS` is true of slots.
pub unsafe trait Element: 'static {
    /// What is loaded and stored.
    type Item: Copy;
    /// Bytes of an element, and its alignment.
    const BYTES: usize;
    /// Whether a store needs the write barrier.
    const SLOTS: bool;

    /// Reads an element of a heap that begins at `base`.
    ///
    /// # Safety
    /// Such an element lies at `at`.
    unsafe fn read_at(at: Address, base: Address) -> Self::Item;

    /// Writes an element; the barrier is not its business.
    ///
    /// # Safety
    /// As for [`Element::read_at`], and the item is valid in that heap.
    unsafe fn write_at(at: Address, base: Address, item: Self::Item);

    /// Writes `new` if the element is `expected`, bit by bit; else the error is what it is.
    ///
    /// # Safety
    /// As for [`Element::write_at`].
    unsafe fn exchange_at(
        at: Address,
        base: Address,
        expected: Self::Item,
        new: Self::Item,
    ) -> Result<(), Self::Item>;

    /// Writes `count` elements.
    ///
    /// # Safety
    /// As for [`Element::write_at`], for so many elements; if they are numbers, no other thread uses them meanwhile.
    #[inline(always)]
    unsafe fn fill_at(first: Address, base: Address, count: usize, item: Self::Item) {
        for number in 0..count {
            // SAFETY: one of so many elements, as this function asks.
            unsafe { Self::write_at(first.add(number * Self::BYTES), base, item) };
        }
    }
}

/// An [`Element`] that is a number: any pattern of bits is one, and a slice may show them.
pub trait Number: Element<Item = Self> + Copy {}

/// References without immediates among them, in slots of format `F`: programs with static types know such arrays, and
/// save a test. The items are objects, or null.
#[derive(Debug)]
pub struct Object<F>(PhantomData<F>);

macro_rules! slots {
    ($($format:ty),+) => {
        $(
            // SAFETY: a slot of this format has `SlotFormat::BYTES` bytes, which its functions read and write.
            unsafe impl Element for $format {
                type Item = Value;
                const BYTES: usize = <$format as SlotFormat>::BYTES;
                const SLOTS: bool = true;

                #[inline(always)]
                unsafe fn read_at(at: Address, base: Address) -> Value {
                    // SAFETY: a slot of this format lies at `at`, as this function asks.
                    unsafe { <$format as SlotFormat>::load(at, base) }
                }

                #[inline(always)]
                unsafe fn write_at(at: Address, base: Address, item: Value) {
                    // SAFETY: a slot of this format lies at `at`, as this function asks.
                    unsafe { <$format as SlotFormat>::store(at, base, item) };
                }

                #[inline(always)]
                unsafe fn exchange_at(
                    at: Address,
                    base: Address,
                    expected: Value,
                    new: Value,
                ) -> Result<(), Value> {
                    // SAFETY: a slot of this format lies at `at`, as this function asks.
                    unsafe { <$format as SlotFormat>::compare_exchange(at, base, expected, new) }
                }
            }
        )+
    };
}

slots!(Wide, Compressed);

// SAFETY: a slot of this format has `SlotFormat::BYTES` bytes, which its functions read and write.
unsafe impl<F: SlotFormat> Element for Object<F> {
    type Item = Address;
    const BYTES: usize = F::BYTES;
    const SLOTS: bool = true;

    #[inline(always)]
    unsafe fn read_at(at: Address, base: Address) -> Address {
        // SAFETY: a slot of this format lies at `at`, and no array of such elements holds an immediate.
        unsafe { F::load_reference(at, base) }
    }

    #[inline(always)]
    unsafe fn write_at(at: Address, base: Address, item: Address) {
        // SAFETY: a slot of this format lies at `at`, as this function asks.
        unsafe { F::store_reference(at, base, item) };
    }

    #[inline(always)]
    unsafe fn exchange_at(
        at: Address,
        base: Address,
        expected: Address,
        new: Address,
    ) -> Result<(), Address> {
        let [expected, new] = [expected, new].map(Value::reference);
        // SAFETY: a slot of this format lies at `at`, as this function asks.
        unsafe { F::compare_exchange(at, base, expected, new) }
            .map_err(|found| Address::new(found.bits() as usize))
    }
}

macro_rules! numbers {
    ($($number:ty, $atomic:ty, $to:expr, $from:expr;)+) => {
        $(
            // SAFETY: the atomic has the bytes of the number, and no slot is a number.
            unsafe impl Element for $number {
                type Item = $number;
                const BYTES: usize = size_of::<$number>();
                const SLOTS: bool = false;

                #[inline(always)]
                unsafe fn read_at(at: Address, _: Address) -> $number {
                    // SAFETY: an aligned element of this size lies at `at`, as this function asks.
                    let word = unsafe { &*at.ptr::<$atomic>() }.load(Ordering::Relaxed);
                    $from(word)
                }

                #[inline(always)]
                unsafe fn write_at(at: Address, _: Address, item: $number) {
                    // SAFETY: an aligned element of this size lies at `at`, as this function asks.
                    unsafe { &*at.ptr::<$atomic>() }.store($to(item), Ordering::Relaxed);
                }

                #[inline(always)]
                unsafe fn exchange_at(
                    at: Address,
                    _: Address,
                    expected: $number,
                    new: $number,
                ) -> Result<(), $number> {
                    // SAFETY: an aligned element of this size lies at `at`, as this function asks.
                    unsafe { &*at.ptr::<$atomic>() }
                        .compare_exchange(
                            $to(expected),
                            $to(new),
                            Ordering::AcqRel,
                            Ordering::Acquire,
                        )
                        .map(|_| ())
                        .map_err($from)
                }

                #[inline(always)]
                unsafe fn fill_at(first: Address, _: Address, count: usize, item: $number) {
                    // SAFETY: so many elements lie at `first`, and nobody else uses them, as this function asks.
                    unsafe { slice::from_raw_parts_mut(first.ptr(), count) }.fill(item);
                }
            }

            impl Number for $number {}
        )+
    };
}

numbers! {
    u8, AtomicU8, u8::from, u8::from;
    u16, AtomicU16, u16::from, u16::from;
    u32, AtomicU32, u32::from, u32::from;
    u64, AtomicU64, u64::from, u64::from;
    i8, AtomicU8, i8::cast_unsigned, u8::cast_signed;
    i16, AtomicU16, i16::cast_unsigned, u16::cast_signed;
    i32, AtomicU32, i32::cast_unsigned, u32::cast_signed;
    i64, AtomicU64, i64::cast_unsigned, u64::cast_signed;
    f32, AtomicU32, f32::to_bits, f32::from_bits;
    f64, AtomicU64, f64::to_bits, f64::from_bits;
}

/// Runs a body once with `$element` as the slot format of a mutator.
macro_rules! with_format {
    ($mutator:expr, $element:ident => $body:expr) => {
        if $mutator.compressed {
            type $element = Compressed;
            $body
        } else {
            type $element = Wide;
            $body
        }
    };
}

/// The offset of the elements of an array that was just allocated: its allocator writes them all, before it is
/// anybody's.
#[inline]
pub(crate) const fn fresh_offset() -> usize {
    element(Address::NULL, 0, 1).word()
}

/// One element.
impl Mutator {
    /// Where `count` elements from `index` on lie, in a contiguous array.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline(always)]
    unsafe fn elements_at<E: Element>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Address {
        if cfg!(debug_assertions) {
            // SAFETY: an array, as this function asks, which has a length.
            let length = unsafe { self.length_raw(array) };
            copy::check_range("an access to", length, index, count);
        }
        element(array, index, E::BYTES)
    }

    /// Loads element `index` of an array of `E`.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, which has more than `index`.
    #[inline(always)]
    pub unsafe fn load_element_in<E: Element>(&self, array: Address, index: usize) -> E::Item {
        // SAFETY: the array has this element, as this function asks.
        unsafe { E::read_at(self.elements_at::<E>(array, index, 1), self.record().base) }
    }

    /// As [`Mutator::load_element_in`], of an array of references.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of references, which has more than `index`.
    #[inline(always)]
    pub unsafe fn load_element_raw(&self, array: Address, index: usize) -> Value {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.load_element_in::<F>(array, index) })
    }

    /// Stores into element `index` of an array of `E`, through the barrier. Like an allocation, this may collect, and may
    /// find no memory.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, which has more than `index`; `item` is valid and, as an
    /// immediate, fits the slot format. Other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn store_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has this element, as this function asks.
        let at = unsafe { self.elements_at::<E>(array, index, 1) };
        // SAFETY: such an element lies there, and the item is valid, as this function asks.
        unsafe { E::write_at(at, self.record().base, item) };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// As [`Mutator::store_element_in`], into an array of references.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of an array of references.
    #[inline(always)]
    pub unsafe fn store_element_raw(
        &mut self,
        array: Address,
        index: usize,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.store_element_in::<F>(array, index, value) })
    }

    /// Writes an element of an array of [`Mutator::allocate_array_initialized_raw`] without a barrier: a young array needs
    /// none. This neither collects nor fails.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks of array, index and item; this mutator has allocated the array so, and since
    /// then has done nothing that may collect.
    #[inline(always)]
    pub unsafe fn initialize_element_in<E: Element>(
        &self,
        array: Address,
        index: usize,
        item: E::Item,
    ) {
        // SAFETY: the array has this element, and the item is valid, as this function asks.
        unsafe {
            E::write_at(
                self.elements_at::<E>(array, index, 1),
                self.record().base,
                item,
            );
        }
    }

    /// Stores `new` into element `index` of an array of `E` if it is `expected`, through the barrier; else the inner error
    /// is what it is. An acquire and a release. Like an allocation, this may collect, and may find no memory.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of `expected` too.
    #[inline(always)]
    pub unsafe fn compare_exchange_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        expected: E::Item,
        new: E::Item,
    ) -> Result<Result<(), E::Item>, OutOfMemory> {
        // SAFETY: the array has this element, as this function asks.
        let at = unsafe { self.elements_at::<E>(array, index, 1) };
        // SAFETY: such an element lies there, and the items are valid, as this function asks.
        let done = unsafe { E::exchange_at(at, self.record().base, expected, new) };
        if E::SLOTS && done.is_ok() {
            self.dirty(at);
        }
        Ok(done)
    }

    /// As [`Mutator::compare_exchange_element_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::compare_exchange_element_in`] asks, of an array of references.
    #[inline(always)]
    pub unsafe fn compare_exchange_element_raw(
        &mut self,
        array: Address,
        index: usize,
        expected: Value,
        new: Value,
    ) -> Result<Result<(), Value>, OutOfMemory> {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe {
            self.compare_exchange_element_in::<F>(array, index, expected, new)
        })
    }
}

/// Many elements.
impl Mutator {
    /// Stores `item` into `count` elements from `index` on, through the barrier. Like an allocation, this may collect, and
    /// may find no memory; then some of the elements may be written.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks; the range lies in the array. If the elements are numbers, no other thread
    /// uses them meanwhile.
    pub unsafe fn fill_elements_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the range lies in the array, as this function asks.
        let first = unsafe { self.elements_at::<E>(array, index, count) };
        // SAFETY: such elements lie there, and the item is valid, as this function asks.
        unsafe { E::fill_at(first, self.record().base, count, item) };
        if E::SLOTS {
            self.dirty_range(first, first.add(count * E::BYTES));
        }
        Ok(())
    }

    /// As [`Mutator::fill_elements_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::fill_elements_in`] asks, of an array of references.
    pub unsafe fn fill_elements_raw(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        value: Value,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the array has these elements, and the heap's slots this format.
        with_format!(self, F => unsafe { self.fill_elements_in::<F>(array, index, count, value) })
    }

    /// Copies numbers from `index` on to a buffer of the caller's.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as the buffer. No other
    /// thread writes them meanwhile.
    #[inline(always)]
    pub unsafe fn read_elements<T: Number>(&self, array: Address, index: usize, into: &mut [T]) {
        // SAFETY: the range lies in the array, as this function asks; the heap and the buffer do not overlap.
        unsafe {
            self.elements_at::<T>(array, index, into.len())
                .ptr::<T>()
                .copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
    }

    /// Copies numbers of the caller's to the elements from `index` on. Like an allocation, this may collect, and may find
    /// no memory; then some of the elements may be written.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, which has as many from `index` on as `from`. No other
    /// thread uses them meanwhile. Other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn write_elements<T: Number>(
        &mut self,
        array: Address,
        index: usize,
        from: &[T],
    ) -> Result<(), OutOfMemory> {
        // SAFETY: the range lies in the array, as this function asks; the heap and the buffer do not overlap.
        unsafe {
            self.elements_at::<T>(array, index, from.len())
                .ptr::<T>()
                .copy_from_nonoverlapping(from.as_ptr(), from.len());
        }
        Ok(())
    }

    /// Runs `look` with a view of `count` numbers from `index` on. The view may be a copy, so it costs as much as copying
    /// them. This neither collects nor fails, and `look` can do nothing that would collect.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, in which the range lies. No other thread writes them
    /// meanwhile.
    #[inline(always)]
    pub unsafe fn window<T: Number, R>(
        &self,
        array: Address,
        index: usize,
        count: usize,
        look: impl FnOnce(&[T]) -> R,
    ) -> R {
        // SAFETY: the range lies in the array, as this function asks. It stays in place until the mutator is used
        // exclusively, which `look` cannot do while it is borrowed.
        look(unsafe {
            slice::from_raw_parts(self.elements_at::<T>(array, index, count).ptr(), count)
        })
    }

    /// Runs `change` with a view of `count` numbers from `index` on, and with the mutator, for loads and other views. The
    /// view may be a copy that is written back. Like an allocation, this may collect, and may find no memory, before
    /// `change` runs; `change` itself can do nothing that would collect.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such numbers, in which the range lies. Nobody else uses them meanwhile,
    /// `change` not by another view either. Other references that this thread holds outside of root slots are not used
    /// again.
    #[inline(always)]
    pub unsafe fn window_mut<T: Number, R>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
        change: impl FnOnce(&Mutator, &mut [T]) -> R,
    ) -> Result<R, OutOfMemory> {
        // SAFETY: the range lies in the array, as this function asks. It stays in place until the mutator is used
        // exclusively, which `change` cannot do while it is borrowed.
        let view = unsafe {
            slice::from_raw_parts_mut(self.elements_at::<T>(array, index, count).ptr(), count)
        };
        Ok(change(self, view))
    }

    /// A new array of `length` numbers, which are zero, and then what `fill` makes of them before anybody else sees the
    /// array. The view that `fill` is given is that of [`Mutator::window_mut`].
    ///
    /// # Safety
    /// As for [`Mutator::allocate_array_raw`], and `id` has elements of `T`.
    #[inline(always)]
    pub unsafe fn allocate_array_with<T: Number>(
        &mut self,
        id: TypeId,
        length: u32,
        fill: impl FnOnce(&Mutator, &mut [T]),
    ) -> Result<Address, OutOfMemory> {
        let bytes = array_bytes(length, T::BYTES.trailing_zeros());
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as this function asks.
        let array = unsafe { self.allocate_array_raw(id, length, bytes) }?;
        // SAFETY: all elements of the fresh array, which nobody else knows.
        unsafe { self.window_mut(array, 0, length as usize, fill) }?;
        Ok(array)
    }

    /// Where the elements of an array without references lie, and how many bytes they have, if the array never moves: for
    /// calls that fill or read a buffer. The pointer is good as long as the array lives.
    ///
    /// # Safety
    /// `array` is a valid reference.
    pub unsafe fn pinned_elements_raw(&self, array: Address) -> Option<(NonNull<u8>, usize)> {
        // SAFETY: a valid reference, as this function asks.
        let id = unsafe { self.type_raw(array) };
        let shape = with_heap!(&self.shared.kind, heap => heap.model.shape(id).map(|shape| match shape {
            Shape::Primitives { log2 } => Some(log2),
            _ => None,
        }));
        let log2 = shape.flatten()?;
        // SAFETY: a valid reference, and this shape is an array.
        let (pinned, length) = unsafe { (self.is_pinned_raw(array), self.length_raw(array)) };
        let first = NonNull::new(element(array, 0, 1).ptr::<u8>())?;
        pinned.then_some((first, (length as usize) << log2))
    }
}

/// Loads elements of an array one after the other; an iterator. What a load has to find out about the array is found out
/// once. While it exists nothing can be allocated or polled; [`Cursor::index`] is where the next one goes on.
#[derive(Debug)]
pub struct Cursor<'m, E> {
    place: Place,
    base: Address,
    borrow: PhantomData<(&'m Mutator, E)>,
}

/// Stores into elements of an array one after the other, and loads them. What that may take of memory was taken when it
/// was opened, so it neither collects nor fails. Otherwise as [`Cursor`].
#[derive(Debug)]
pub struct CursorMut<'m, E> {
    place: Place,
    /// Borrowed exclusively when the cursor was opened, and as long as it lives.
    mutator: &'m Mutator,
    element: PhantomData<E>,
}

/// Where a cursor is.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The next element.
    next: Address,
    index: usize,
    end: usize,
}

impl Place {
    /// The next element, of `bytes` bytes; `None` behind the last.
    #[inline(always)]
    fn step(&mut self, bytes: usize) -> Option<Address> {
        if self.index == self.end {
            return None;
        }
        let at = self.next;
        self.index += 1;
        self.next = at.add(bytes);
        Some(at)
    }
}

impl Mutator {
    /// A cursor over `count` elements from `index` on, for loads.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline(always)]
    pub unsafe fn cursor<E: Element>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Cursor<'_, E> {
        Cursor {
            place: Place {
                // SAFETY: the range lies in the array, as this function asks.
                next: unsafe { self.elements_at::<E>(array, index, count) },
                index,
                end: index + count,
            },
            base: self.record().base,
            borrow: PhantomData,
        }
    }

    /// A cursor over `count` elements from `index` on, for stores. Like an allocation, this may collect, and may find no
    /// memory.
    ///
    /// # Safety
    /// As for [`Mutator::cursor`]; and other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn cursor_mut<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Result<CursorMut<'_, E>, OutOfMemory> {
        Ok(CursorMut {
            place: Place {
                // SAFETY: the range lies in the array, as this function asks.
                next: unsafe { self.elements_at::<E>(array, index, count) },
                index,
                end: index + count,
            },
            mutator: self,
            element: PhantomData,
        })
    }
}

impl Mutator {
    /// A new array of `length` elements, which are null or zero, and then what `fill` makes of them before anybody else
    /// sees the array. What `fill` may do is what a [`CursorMut`] lets it: nothing that would collect.
    ///
    /// # Safety
    /// As for [`Mutator::allocate_array_raw`], and `id` has elements of `E`.
    #[inline(always)]
    pub unsafe fn allocate_array_by<E: Element>(
        &mut self,
        id: TypeId,
        length: u32,
        fill: impl FnOnce(&mut CursorMut<'_, E>),
    ) -> Result<Address, OutOfMemory> {
        let bytes = array_bytes(length, E::BYTES.trailing_zeros());
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as this function asks.
        let array = unsafe { self.allocate_array_raw(id, length, bytes) }?;
        // SAFETY: all elements of the fresh array.
        fill(&mut unsafe { self.cursor_mut(array, 0, length as usize) }?);
        Ok(array)
    }
}

impl<E> Cursor<'_, E> {
    /// The index of the next element.
    pub fn index(&self) -> usize {
        self.place.index
    }
}

impl<E: Element> Iterator for Cursor<'_, E> {
    type Item = E::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<E::Item> {
        let at = self.place.step(E::BYTES)?;
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed.
        Some(unsafe { E::read_at(at, self.base) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.place.end - self.place.index;
        (left, Some(left))
    }
}

impl<E: Element> ExactSizeIterator for Cursor<'_, E> {}

impl<'m, E: Element> CursorMut<'m, E> {
    /// The mutator, for loads, and for cursors over other arrays beside this one.
    #[inline(always)]
    pub fn mutator(&self) -> &'m Mutator {
        self.mutator
    }

    /// The index of the next element.
    pub fn index(&self) -> usize {
        self.place.index
    }

    /// What the next element is; `None` behind the last. The cursor stays.
    #[inline(always)]
    pub fn load(&self) -> Option<E::Item> {
        let at = { self.place }.step(E::BYTES)?;
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed.
        Some(unsafe { E::read_at(at, self.mutator.record().base) })
    }

    /// Stores into the next element, through the barrier, and goes on. False behind the last: nothing is stored.
    ///
    /// # Safety
    /// The item is valid and, as an immediate, fits the slot format.
    #[inline(always)]
    pub unsafe fn store(&mut self, item: E::Item) -> bool {
        let Some(at) = self.place.step(E::BYTES) else {
            return false;
        };
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed; the item is valid, as this
        // function asks.
        unsafe { E::write_at(at, self.mutator.record().base, item) };
        if E::SLOTS {
            self.mutator.dirty(at);
        }
        true
    }
}
