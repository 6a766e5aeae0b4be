//! What is an element of an array? A number, or a slot of a format.

use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};

use super::layout::{AnyArrays, Layout};

/// The elements `E` of arrays in heaps that are known to have the layout `L`. It must not be used in other heaps.
#[derive(Debug)]
pub struct In<L, E>(PhantomData<(L, E)>);

/// What the elements of an array are: slots or numbers.
///
/// Slots are those of a heap with format `F`. [`Wide`] and [`Compressed`] stand for their values. [`Object`] stands for
/// references of which none is an immediate.
///
/// Numbers are the integers of 1, 2, 4 and 8 bytes, `f32` and `f64`. Each is read and written as a whole, so a thread
/// that races for one finds one of the values that were written.
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

    /// The value that keeps the item valid in a root slot: the item's reference, or null for a number.
    fn root(item: Self::Item) -> Value;

    /// The item after a collection, whose root slot now holds `root`.
    fn moved(item: Self::Item, root: Value) -> Self::Item;

    /// Reads an element of a heap that begins at `base`.
    ///
    /// # Safety
    /// Such an element lies at `at`.
    unsafe fn read_at(at: Address, base: Address) -> Self::Item;

    /// Writes an element. The caller takes care of the barrier.
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
    /// As for [`Element::write_at`], for `count` elements from `first` on; if they are numbers, no other thread uses
    /// them meanwhile.
    #[inline(always)]
    unsafe fn fill_at(first: Address, base: Address, count: usize, item: Self::Item) {
        for number in 0..count {
            // SAFETY: one of the `count` elements, as the caller promises.
            unsafe { Self::write_at(first.add(number * Self::BYTES), base, item) };
        }
    }
}

/// An [`Element`] that is a number. Any pattern of bits is a number, so a slice may show such elements.
pub trait Number: Element<Item = Self> + Copy {}

/// References without immediates among them, in slots of format `F`. An item is an object, or null. A program with
/// static types knows such arrays, and saves a test for each access.
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
                    // SAFETY: a slot of this format lies at `at`, as the caller promises.
                    unsafe { <$format as SlotFormat>::load(at, base) }
                }

                #[inline(always)]
                unsafe fn write_at(at: Address, base: Address, item: Value) {
                    // SAFETY: a slot of this format lies at `at`, as the caller promises.
                    unsafe { <$format as SlotFormat>::store(at, base, item) };
                }

                #[inline(always)]
                unsafe fn exchange_at(
                    at: Address,
                    base: Address,
                    expected: Value,
                    new: Value,
                ) -> Result<(), Value> {
                    // SAFETY: a slot of this format lies at `at`, as the caller promises.
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
        // SAFETY: a slot of this format lies at `at`, as the caller promises.
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
        // SAFETY: a slot of this format lies at `at`, as the caller promises.
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
                    // SAFETY: an aligned element of this size lies at `at`, as the caller promises.
                    let word = unsafe { &*at.ptr::<$atomic>() }.load(Ordering::Relaxed);
                    $from(word)
                }

                #[inline(always)]
                unsafe fn write_at(at: Address, _: Address, item: $number) {
                    // SAFETY: an aligned element of this size lies at `at`, as the caller promises.
                    unsafe { &*at.ptr::<$atomic>() }.store($to(item), Ordering::Relaxed);
                }

                #[inline(always)]
                unsafe fn exchange_at(
                    at: Address,
                    _: Address,
                    expected: $number,
                    new: $number,
                ) -> Result<(), $number> {
                    // SAFETY: an aligned element of this size lies at `at`, as the caller promises.
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
                    // SAFETY: `count` elements lie at `first`, and nobody else uses them, as the caller promises.
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
        // SAFETY: an element of `E` lies at `at`, as the caller promises.
        unsafe { E::read_at(at, base) }
    }

    #[inline(always)]
    unsafe fn write_at(at: Address, base: Address, item: E::Item) {
        // SAFETY: an element of `E` lies at `at`, and the item is valid, as the caller promises.
        unsafe { E::write_at(at, base, item) };
    }

    #[inline(always)]
    unsafe fn exchange_at(
        at: Address,
        base: Address,
        expected: E::Item,
        new: E::Item,
    ) -> Result<(), E::Item> {
        // SAFETY: an element of `E` lies at `at`, and the items are valid, as the caller promises.
        unsafe { E::exchange_at(at, base, expected, new) }
    }

    #[inline(always)]
    unsafe fn fill_at(first: Address, base: Address, count: usize, item: E::Item) {
        // SAFETY: `count` elements of `E` lie at `first`, and the item is valid, as the caller promises.
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
pub(super) use with_format;
