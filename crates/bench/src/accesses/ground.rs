//! Heaps for microbenchmarks of element access: one with arrays in one piece, one with arrays in pieces, and arrays in
//! them that stay where they are.
//!
//! # Invariants
//! - One mutator uses such a heap. After [`Ground::settle`] it allocates nothing, and polls nowhere, so nothing is
//!   collected and no array moves.

use gleaner::raw::{
    Address, CutArrays, Element, Fresh, In, Layout, NewObject, Object, Shape, SlotFormat, TypeId,
    Value, Wide, array_bytes,
};
use gleaner::{Handle, Heap, Mutator, OutsideLayout};
use gleaner_workloads::failed;

use gleaner_workloads::failure::{Failure, Result};

/// Bytes in the spine (PLDI 2010, section 7.1.1).
pub const FIRST_N: usize = 4096;
/// Bytes of an arraylet.
pub const ARRAYLET: usize = 1024;
/// Bytes of the remainder: not quite an arraylet.
pub const REMAINDER: usize = ARRAYLET - 8;

/// Arrays in pieces, as they are cut here.
pub type Cut = CutArrays<Wide, FIRST_N, ARRAYLET>;

/// Elements that are measured.
pub trait Measured: Element {
    /// What arrays of them are.
    const SHAPE: Shape<'static>;

    /// What an item adds to a checksum, so that it has to be loaded.
    fn bits(item: Self::Item) -> u64;

    /// An item that is not zero: 1, or a reference.
    fn one(object: Address) -> Self::Item;

    /// The item whose bits are zero.
    fn zero() -> Self::Item;
}

macro_rules! numbers {
    ($($number:ty, $one:expr, $zero:expr, $bits:expr;)+) => {
        $(
            impl Measured for $number {
                const SHAPE: Shape<'static> = Shape::Primitives {
                    log2: size_of::<$number>().trailing_zeros(),
                };

                #[inline(always)]
                fn bits(item: $number) -> u64 {
                    $bits(item)
                }

                fn one(_: Address) -> $number {
                    $one
                }

                fn zero() -> $number {
                    $zero
                }
            }
        )+
    };
}

numbers! {
    u8, 1, 0, u64::from;
    u16, 1, 0, u64::from;
    u32, 1, 0, u64::from;
    u64, 1, 0, u64::from;
    f64, 1.0, 0.0, f64::to_bits;
}

impl<F: SlotFormat> Measured for Object<F> {
    const SHAPE: Shape<'static> = Shape::References;

    #[inline(always)]
    fn bits(item: Address) -> u64 {
        item.word() as u64
    }

    fn one(object: Address) -> Address {
        object
    }

    fn zero() -> Address {
        Address::NULL
    }
}

impl<L: Layout, E: Measured> Measured for In<L, E> {
    const SHAPE: Shape<'static> = E::SHAPE;

    #[inline(always)]
    fn bits(item: E::Item) -> u64 {
        E::bits(item)
    }

    fn one(object: Address) -> E::Item {
        E::one(object)
    }

    fn zero() -> E::Item {
        E::zero()
    }
}

/// A heap and its mutator.
pub struct Ground {
    pub mutator: Mutator,
    heap: Heap,
}

/// An array of a [`Ground`].
pub struct Rooted(Handle);

impl Rooted {
    /// Where it lies; for good after [`Ground::settle`].
    pub fn address(&self) -> Address {
        Address::new(self.0.get_raw().bits() as usize)
    }
}

impl Ground {
    /// A heap with room for arrays of `bytes` bytes in all, which are cut or not.
    pub fn new(is_cut: bool, bytes: usize) -> Result<Ground> {
        let builder = Heap::builder()
            .limit((64 << 20) + 3 * bytes)
            .workers(1)
            .outside_layout(OutsideLayout::Followed)
            .options(if is_cut {
                "arrays=zray"
            } else {
                "arrays=contiguous"
            });
        let heap = builder.and_then(|one| one.build()).map_err(failed)?;
        let cut = is_cut.then_some((FIRST_N, ARRAYLET));
        if heap.cut_arrays() != cut {
            return Err(Failure::new(
                "GLEANER_OPTIONS says how arrays are cut, which this command chooses itself",
            ));
        }
        let mutator = heap.attach().map_err(failed)?;
        Ok(Ground { mutator, heap })
    }

    /// An array of `length` elements, all zero. `is_whole`: in one piece, whatever the heap does with others.
    pub fn array<E: Measured>(&mut self, length: usize, is_whole: bool) -> Result<Rooted> {
        let shape = E::SHAPE;
        let id = if is_whole {
            self.heap.register_whole_raw(shape)
        } else {
            self.heap.register_raw(shape)
        };
        self.allocated(
            id.map_err(failed)?,
            length as u32,
            E::BYTES.trailing_zeros(),
        )
    }

    fn allocated(&mut self, id: TypeId, length: u32, log2: u32) -> Result<Rooted> {
        let bytes = array_bytes(length, log2);
        // SAFETY: the type is one of arrays of elements of 2^`log2` bytes in this heap, from which `bytes` follows; no
        // reference is held outside of handles.
        let array = unsafe {
            self.mutator
                .allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed)
        }
        .map_err(failed)?;
        let value = Value::from_bits(array.word() as u64);
        // SAFETY: the array was just allocated.
        let handle = unsafe { self.mutator.handle_raw(value) };
        let handle = handle.ok_or_else(|| Failure::new("the heap has too many handles"))?;
        Ok(Rooted(handle))
    }

    /// Makes all elements of an array 1, or references to `object`.
    pub fn fill<E: Measured>(
        &mut self,
        array: &Rooted,
        length: usize,
        object: &Rooted,
    ) -> Result<()> {
        let item = E::one(object.address());
        // SAFETY: the array has `length` elements of this kind; both objects are held by handles, and their addresses
        // are not used again.
        unsafe {
            self.mutator
                .fill_elements_in::<E>(array.address(), 0, length, item)
        }
        .map_err(failed)
    }

    /// Makes all arrays old.
    pub fn settle(&mut self) {
        self.mutator.collect(true);
    }
}
