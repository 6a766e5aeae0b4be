//! Objects of the workloads by what they have: their sizes and offsets are constants, as they are to a compiler.
//!
//! What is needed after an allocation, a poll or a lock lies in a root. The functions here trust the workloads to give
//! valid objects of the right type.

use crate::context::{Context, Mode};
use crate::object::{FIELDS, References, record_header};

/// A type of objects with `references` references, then `data` bytes of numbers.
#[derive(Clone, Copy)]
pub struct Record {
    references: usize,
    data: usize,
}

impl Record {
    /// The type.
    pub const fn new(references: usize, data: usize) -> Record {
        Record { references, data }
    }

    /// Offset of the numbers.
    #[inline(always)]
    const fn numbers<R: References>(self) -> usize {
        FIELDS + self.references * R::BYTES
    }

    #[inline(always)]
    const fn bytes<R: References>(self) -> usize {
        let bytes = (self.numbers::<R>() + self.data).next_multiple_of(8);
        if bytes < 16 { 16 } else { bytes }
    }

    /// A fresh one, all null and zero.
    #[inline(always)]
    pub fn fresh<R: References, M: Mode>(self, context: &mut Context<R, M>) -> usize {
        let bytes = self.bytes::<R>();
        context.object(record_header(self.references, bytes), bytes)
    }

    /// The `index`-th number of 4 bytes.
    #[inline(always)]
    pub fn number<R: References, M: Mode>(
        self,
        _: &Context<R, M>,
        object: usize,
        index: usize,
    ) -> u32 {
        let place = object + self.numbers::<R>() + 4 * index;
        // SAFETY: the workloads give a valid object of this type, and the number lies inside of it.
        unsafe { (place as *const u32).read() }
    }

    /// Sets a number of 4 bytes.
    #[inline(always)]
    pub fn set_number<R: References, M: Mode>(
        self,
        _: &Context<R, M>,
        object: usize,
        index: usize,
        to: u32,
    ) {
        let place = object + self.numbers::<R>() + 4 * index;
        // SAFETY: the workloads give a valid object of this type, and the number lies inside of it.
        unsafe { (place as *mut u32).write(to) };
    }

    /// The `index`-th number of 8 bytes. They follow references of 4 bytes without a gap.
    #[inline(always)]
    pub fn long<R: References, M: Mode>(
        self,
        _: &Context<R, M>,
        object: usize,
        index: usize,
    ) -> u64 {
        let place = object + self.numbers::<R>() + 8 * index;
        // SAFETY: the workloads give a valid object of this type, and the number lies inside of it.
        unsafe { (place as *const u64).read_unaligned() }
    }

    /// Sets a number of 8 bytes.
    #[inline(always)]
    pub fn set_long<R: References, M: Mode>(
        self,
        _: &Context<R, M>,
        object: usize,
        index: usize,
        to: u64,
    ) {
        let place = object + self.numbers::<R>() + 8 * index;
        // SAFETY: the workloads give a valid object of this type, and the number lies inside of it.
        unsafe { (place as *mut u64).write_unaligned(to) };
    }

    /// Adds to a number of 8 bytes.
    #[inline(always)]
    pub fn add_long<R: References, M: Mode>(
        self,
        context: &Context<R, M>,
        object: usize,
        index: usize,
        more: u64,
    ) {
        let sum = self.long(context, object, index).wrapping_add(more);
        self.set_long(context, object, index, sum);
    }
}

/// A fresh array of these bytes.
#[inline(always)]
pub fn copied<R: References, M: Mode>(context: &mut Context<R, M>, from: &[u8]) -> usize {
    let array = context.bytes(from.len());
    context.change(array, |bytes: &mut [u8]| bytes.copy_from_slice(from));
    array
}
