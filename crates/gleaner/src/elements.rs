//! Element access in the raw layer (invariant I10): loads, stores, compare-and-swap, cursors, fills, copies and windows.
//!
//! An [`Element`] says what the elements of an array are: numbers, or slots of a format. All accessors are generic over
//! it; those whose names end in `_raw` find the slot format out themselves.
//!
//! A load takes a shared mutator: it neither collects nor fails. A store, a compare-and-swap, a fill, a copy and the
//! opening of a window or cursor for writing take the mutator exclusively and return a `Result`. Each of these counts as
//! an allocation: it may collect, so references that are needed afterwards are in root slots, and it may find no memory.
//! What is handed to an accessor need not be in a root.
//!
//! Where an array lies in one piece, all of this compiles to the one instruction, behind a test whether it does; a
//! [`Layout`] that is known when the code is compiled saves the test ([`In`]). What lies beyond the first N bytes of an
//! array in pieces (PLDI 2010, section 5.1) is reached out of line, in `pieces.rs`; a cursor finds out once for each
//! piece, in `cursor.rs`; what works on many elements at once does so piece by piece, in `bulk.rs`, `copy.rs` and
//! `compare.rs`.
//!
//! Bounds: an index inside of the array is part of what the caller promises, which debug builds check. Copies check the
//! ranges and the types in all builds, as does the safe layer (`safe.rs`).
//!
//! Nobody else computes where an element lies (`scripts/check_layers.py`).

mod bulk;
mod compare;
mod copy;
mod counted;
mod cursor;
mod far;
mod pieces;
mod safe;
mod spines;

pub use copy::elements;
pub use counted::Counted;
pub use cursor::{Cursor, CursorMut};
pub use far::Piece;
pub(crate) use spines::Life;

use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::object_model::element;
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};
use gleaner_mem::spine::Pieces;
use gleaner_plans::scavenge::mutator::Mutator as Record;
use gleaner_plans::scavenge::tally::Access;

use crate::body::OutOfMemory;
use crate::mutator::Mutator;

/// How arrays lie in memory, as far as it is known when code that accesses them is compiled.
pub trait Layout: 'static {
    /// Whether every array of more than the first N bytes lies in pieces, so that none needs to be asked.
    const ALL_CUT: bool = false;

    /// Whether accesses are counted.
    const COUNTED: bool = false;

    /// Whether the first `end` bytes of any array, if it has so many, lie in one piece behind its length.
    fn is_whole(record: &Record, end: usize) -> bool;

    /// How arrays are cut.
    fn pieces(record: &Record) -> Pieces;
}

/// Nothing is known: each access asks the mutator's record.
#[derive(Debug)]
pub struct AnyArrays;

/// Every array lies in one piece.
#[derive(Debug)]
pub struct WholeArrays;

/// So many bytes of every array lie in its spine, and arraylets have so many, in a heap with slots of format `F`. It is for
/// arrays that are cut: of larger ones none is pinned, or of a type whose arrays are whole, for which there are
/// [`AnyArrays`] and [`WholeArrays`].
#[derive(Debug)]
pub struct CutArrays<F, const FIRST_N: usize, const ARRAYLET: usize>(PhantomData<F>);

impl Layout for AnyArrays {
    #[inline(always)]
    fn is_whole(record: &Record, end: usize) -> bool {
        end <= record.pieces.first_n
    }

    #[inline(always)]
    fn pieces(record: &Record) -> Pieces {
        record.pieces
    }
}

impl Layout for WholeArrays {
    #[inline(always)]
    fn is_whole(record: &Record, _: usize) -> bool {
        debug_assert!(!record.pieces.cut(), "code for arrays in one piece");
        true
    }

    #[inline(always)]
    fn pieces(_: &Record) -> Pieces {
        Pieces::WHOLE
    }
}

impl<F: SlotFormat, const FIRST_N: usize, const ARRAYLET: usize> Layout
    for CutArrays<F, FIRST_N, ARRAYLET>
{
    const ALL_CUT: bool = true;

    #[inline(always)]
    fn is_whole(_: &Record, end: usize) -> bool {
        end <= FIRST_N
    }

    #[inline(always)]
    fn pieces(record: &Record) -> Pieces {
        let pieces = Pieces {
            first_n: FIRST_N,
            arraylet_shift: ARRAYLET.trailing_zeros(),
            pointer_shift: F::BYTES.trailing_zeros() as u16,
            // In guard mode N is 0.
            fenced: if FIRST_N == 0 {
                record.pieces.fenced
            } else {
                0
            },
            base: if F::BYTES == 8 {
                Address::NULL
            } else {
                record.pieces.base
            },
            zero: record.pieces.zero,
        };
        debug_assert!(
            pieces == record.pieces,
            "code for arrays with {FIRST_N} bytes in the spine and arraylets of {ARRAYLET}"
        );
        pieces
    }
}

/// The elements `E` in a heap of which it is known that its arrays have the layout `L`. To be used in no other heap.
#[derive(Debug)]
pub struct In<L, E>(PhantomData<(L, E)>);

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
    /// How arrays lie in memory.
    type Layout: Layout;

    /// Whether all bits of an element with this item are zero.
    fn is_zero(item: Self::Item) -> bool;

    /// What the collector has to know of an item that nobody else holds: a reference, or null.
    fn root(item: Self::Item) -> Value;

    /// The item, and what became of it if it is a reference.
    fn moved(item: Self::Item, root: Value) -> Self::Item;

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
                type Layout = AnyArrays;

                #[inline(always)]
                fn is_zero(item: Value) -> bool {
                    item.is_null()
                }

                #[inline(always)]
                fn root(item: Value) -> Value {
                    item
                }

                #[inline(always)]
                fn moved(_: Value, root: Value) -> Value {
                    root
                }

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
    type Layout = AnyArrays;

    #[inline(always)]
    fn is_zero(item: Address) -> bool {
        item.is_null()
    }

    #[inline(always)]
    fn root(item: Address) -> Value {
        Value::reference(item)
    }

    #[inline(always)]
    fn moved(_: Address, root: Value) -> Address {
        Address::new(root.bits() as usize)
    }

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
                type Layout = AnyArrays;

                #[inline(always)]
                fn is_zero(item: $number) -> bool {
                    $to(item) == 0
                }

                #[inline(always)]
                fn root(_: $number) -> Value {
                    Value::NULL
                }

                #[inline(always)]
                fn moved(item: $number, _: Value) -> $number {
                    item
                }

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

// SAFETY: all that is touched is what `E` touches.
unsafe impl<L: Layout, E: Element> Element for In<L, E> {
    type Item = E::Item;
    const BYTES: usize = E::BYTES;
    const SLOTS: bool = E::SLOTS;
    type Layout = L;

    #[inline(always)]
    fn is_zero(item: E::Item) -> bool {
        E::is_zero(item)
    }

    #[inline(always)]
    fn root(item: E::Item) -> Value {
        E::root(item)
    }

    #[inline(always)]
    fn moved(item: E::Item, root: Value) -> E::Item {
        E::moved(item, root)
    }

    #[inline(always)]
    unsafe fn read_at(at: Address, base: Address) -> E::Item {
        // SAFETY: as this function asks.
        unsafe { E::read_at(at, base) }
    }

    #[inline(always)]
    unsafe fn write_at(at: Address, base: Address, item: E::Item) {
        // SAFETY: as this function asks.
        unsafe { E::write_at(at, base, item) };
    }

    #[inline(always)]
    unsafe fn exchange_at(
        at: Address,
        base: Address,
        expected: E::Item,
        new: E::Item,
    ) -> Result<(), E::Item> {
        // SAFETY: as this function asks.
        unsafe { E::exchange_at(at, base, expected, new) }
    }

    #[inline(always)]
    unsafe fn fill_at(first: Address, base: Address, count: usize, item: E::Item) {
        // SAFETY: as this function asks.
        unsafe { E::fill_at(first, base, count, item) };
    }
}

/// Runs a body once with `$element` as the slot format of a mutator.
macro_rules! with_format {
    ($mutator:expr, $element:ident => $body:expr) => {
        if $mutator.compressed {
            type $element = gleaner_mem::slot::Compressed;
            $body
        } else {
            type $element = gleaner_mem::slot::Wide;
            $body
        }
    };
}

/// The offset of the elements of an array in one piece that was just allocated: its allocator writes them all, before it
/// is anybody's.
#[inline]
pub(crate) const fn fresh_offset() -> usize {
    element(Address::NULL, 0, 1).word()
}

/// Ends the far path of an access, and is no instruction. Compilers merge the ends of paths that are the same: an access
/// within the first N bytes would compute an address in a register and jump to the far path's.
#[inline(always)]
fn apart() {
    // SAFETY: nothing happens.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}

/// One element.
impl Mutator {
    /// Where `count` elements from `index` on lie, if it is known that they lie in one piece behind the length.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline(always)]
    unsafe fn whole<E: Element>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Option<Address> {
        if cfg!(debug_assertions) {
            // SAFETY: an array, as this function asks, which has a length.
            let length = unsafe { self.length_raw(array) };
            copy::check_range("an access to", length, index, count);
        }
        // SAFETY: an array has fewer than 2^32 elements, of up to 8 bytes each.
        let end = unsafe { index.unchecked_add(count).unchecked_mul(E::BYTES) };
        let is_whole = E::Layout::is_whole(self.record(), end);
        is_whole.then_some(element(array, index, E::BYTES))
    }

    /// Loads element `index` of an array of `E`.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, which has more than `index`.
    #[inline(always)]
    pub unsafe fn load_element_in<E: Element>(&self, array: Address, index: usize) -> E::Item {
        self.count_elements_in::<E>(Access::Load, index, 1);
        // SAFETY: the array has this element, as this function asks.
        unsafe {
            match self.whole::<E>(array, index, 1) {
                Some(at) => E::read_at(at, self.record().base),
                None => {
                    let item = E::read_at(self.far::<E>(array, index), self.record().base);
                    apart();
                    item
                }
            }
        }
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
    /// find no memory; then nothing is stored.
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
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, as this function asks.
        let whole = unsafe { self.whole::<E>(array, index, 1) };
        let base = self.record().base;
        let at = if let Some(at) = whole {
            // SAFETY: such an element lies there, and the item is valid, as this function asks.
            unsafe { E::write_at(at, base, item) };
            at
        } else {
            // SAFETY: as this function asks.
            let Some(at) = (unsafe { self.far_to_write::<E>(array, index) }) else {
                // SAFETY: as this function asks.
                return unsafe { self.store_far::<E>(array, index, item) };
            };
            // SAFETY: such an element lies there, and the item is valid, as this function asks.
            unsafe { E::write_at(at, base, item) };
            apart();
            at
        };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// Stores into element `index` of an array of `E` what `change` makes of it, through the barrier: where the element lies
    /// is found once. Other threads may store between the load and the store. Like an allocation, this may collect, and may
    /// find no memory; then nothing is stored.
    ///
    /// # Safety
    /// What [`Mutator::store_element_in`] asks, of what `change` returns.
    #[inline(always)]
    pub unsafe fn update_element_in<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        change: impl FnOnce(E::Item) -> E::Item,
    ) -> Result<(), OutOfMemory> {
        for access in [Access::Load, Access::Store] {
            self.count_elements_in::<E>(access, index, 1);
        }
        let base = self.record().base;
        // SAFETY: the array has this element, as this function asks.
        let whole = unsafe { self.whole::<E>(array, index, 1) };
        // Compiled for each path by itself, or all would wait for where the element lies.
        let at = if let Some(at) = whole {
            // SAFETY: such an element lies there, and the item is valid, as this function asks.
            unsafe { E::write_at(at, base, change(E::read_at(at, base))) };
            at
        } else {
            // SAFETY: as this function asks.
            let Some(at) = (unsafe { self.far_to_write::<E>(array, index) }) else {
                // SAFETY: as this function asks.
                return unsafe {
                    let item = change(E::read_at(self.far::<E>(array, index), base));
                    self.store_far::<E>(array, index, item)
                };
            };
            // SAFETY: such an element lies there, and the item is valid, as this function asks.
            unsafe { E::write_at(at, base, change(E::read_at(at, base))) };
            apart();
            at
        };
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

    /// Writes an element of an array that was allocated [`Fresh::Unwritten`](crate::raw::Fresh::Unwritten) without a barrier: a young array needs
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
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, and the item is valid, as this function asks. What such an allocation gives
        // has arraylets of its own, which may be written.
        unsafe {
            let at = match self.whole::<E>(array, index, 1) {
                Some(at) => at,
                None => self.far::<E>(array, index),
            };
            E::write_at(at, self.record().base, item);
        }
    }

    /// As [`Mutator::initialize_element_in`], of an array of references.
    ///
    /// # Safety
    /// What [`Mutator::initialize_element_in`] asks, of an array of references.
    pub(crate) unsafe fn initialize_element_raw(&self, array: Address, index: usize, value: Value) {
        // SAFETY: the array has this element, and the heap's slots this format.
        with_format!(self, F => unsafe { self.initialize_element_in::<F>(array, index, value) });
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
        self.count_elements_in::<E>(Access::Store, index, 1);
        // SAFETY: the array has this element, as this function asks.
        let Some(at) = (unsafe { self.whole::<E>(array, index, 1) }) else {
            // SAFETY: as this function asks.
            return unsafe { self.exchange_far::<E>(array, index, expected, new) };
        };
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

use with_format;
