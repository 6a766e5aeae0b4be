//! The loops of the microbenchmarks: accesses of one kind to a range of an array, and as little beside them as
//! possible.
//!
//! Each is a function of its own for each layout of arrays and each element, which is never inlined: so its machine
//! code can be looked at and measured by itself. The address of the array is hidden from the compiler in each pass, so
//! that no pass is left out.

use std::hint::black_box;
use std::slice;

use gleaner::raw::{Address, Number};
use gleaner::{Mutator, OutOfMemory};

use super::ground::Measured;

/// A range of an array, and how often it is gone through.
pub struct Task {
    pub array: Address,
    /// The first element.
    pub first: usize,
    pub count: usize,
    /// For random access: elements from the first one on, in the order of access.
    pub order: Vec<u32>,
    pub passes: usize,
    /// Whether zeros are stored.
    pub zero: bool,
}

/// A loop; a checksum of what it loaded, or nothing.
///
/// # Safety
/// The array of the task is a valid one of the elements that the loop is compiled for, in a heap with the layout that
/// it is compiled for. The range lies in the array, and so does all of `order`. Nothing of the range has to be
/// instantiated, unless zeros are stored. So nothing collects.
pub type Kernel = unsafe fn(&mut Mutator, &Task) -> Result<u64, OutOfMemory>;

impl Task {
    /// Accesses of a pass in order, or at random.
    pub fn accesses(&self, at_random: bool) -> usize {
        if at_random {
            self.order.len()
        } else {
            self.count
        }
    }

    fn item<E: Measured>(&self) -> E::Item {
        let item = if self.zero {
            E::zero()
        } else {
            E::one(self.array)
        };
        black_box(item)
    }
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn load_in_order<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let mut sum = 0;
    for _ in 0..task.passes {
        let array = black_box(task.array);
        for index in task.first..task.first + task.count {
            // SAFETY: an element of the range ([`Kernel`]).
            sum ^= E::bits(unsafe { mutator.load_element_in::<E>(array, index) });
        }
    }
    Ok(sum)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn load_at_random<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let mut sum = 0;
    for _ in 0..task.passes {
        let array = black_box(task.array);
        for &place in &task.order {
            // SAFETY: an element of the range ([`Kernel`]).
            let item = unsafe { mutator.load_element_in::<E>(array, task.first + place as usize) };
            sum ^= E::bits(item);
        }
    }
    Ok(sum)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn store_in_order<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let item = task.item::<E>();
    for _ in 0..task.passes {
        let array = black_box(task.array);
        for index in task.first..task.first + task.count {
            // SAFETY: an element of the range; nothing collects, so the item stays valid ([`Kernel`]).
            unsafe { mutator.store_element_in::<E>(array, index, item) }?;
        }
    }
    Ok(0)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn store_at_random<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let item = task.item::<E>();
    for _ in 0..task.passes {
        let array = black_box(task.array);
        for &place in &task.order {
            let index = task.first + place as usize;
            // SAFETY: an element of the range; nothing collects, so the item stays valid ([`Kernel`]).
            unsafe { mutator.store_element_in::<E>(array, index, item) }?;
        }
    }
    Ok(0)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn load_by_cursor<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let mut sum = 0;
    for _ in 0..task.passes {
        let array = black_box(task.array);
        // SAFETY: the range lies in the array ([`Kernel`]).
        for item in unsafe { mutator.cursor::<E>(array, task.first, task.count) } {
            sum ^= E::bits(item);
        }
    }
    Ok(sum)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn store_by_cursor<E: Measured>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let item = task.item::<E>();
    for _ in 0..task.passes {
        let array = black_box(task.array);
        // SAFETY: the range lies in the array; nothing collects, so the item stays valid ([`Kernel`]).
        unsafe {
            let mut cursor = mutator.cursor_mut::<E>(array, task.first, task.count)?;
            while cursor.store(item) {}
        }
    }
    Ok(0)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn load_by_slice<T: Measured + Number>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let mut sum = 0;
    for _ in 0..task.passes {
        let array = black_box(task.array);
        let (mut index, end) = (task.first, task.first + task.count);
        while index < end {
            // SAFETY: the rest of the range lies in the array, and nobody else uses it ([`Kernel`]).
            let items = unsafe {
                let piece = mutator.piece_raw(array, index, end - index, T::BYTES);
                slice::from_raw_parts(
                    piece.at.ptr::<T>(),
                    piece.end.offset_from(piece.at) / T::BYTES,
                )
            };
            sum = items.iter().fold(sum, |sum, &item| sum ^ T::bits(item));
            index += items.len();
        }
    }
    Ok(sum)
}

/// # Safety
/// See [`Kernel`].
#[inline(never)]
pub unsafe fn store_by_slice<T: Measured + Number>(
    mutator: &mut Mutator,
    task: &Task,
) -> Result<u64, OutOfMemory> {
    let item = task.item::<T>();
    for _ in 0..task.passes {
        let (mut index, end) = (task.first, task.first + task.count);
        let array = black_box(task.array);
        // SAFETY: the range lies in the array ([`Kernel`]), which is used nowhere but where it is then.
        let array = unsafe { mutator.fill_stock_raw(array, index, task.count, T::BYTES) }?;
        while index < end {
            // SAFETY: the rest of the range, for which the stock is filled; nobody else uses it, and the item is not
            // zero or the part is one that may be written ([`Kernel`]).
            let items = unsafe {
                let piece = mutator.piece_to_write_raw(array, index, end - index, T::BYTES, false);
                slice::from_raw_parts_mut(
                    piece.at.ptr::<T>(),
                    piece.end.offset_from(piece.at) / T::BYTES,
                )
            };
            items.fill(item);
            index += items.len();
        }
    }
    Ok(0)
}
