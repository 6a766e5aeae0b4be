//! Builtins that allocate, and those for arrays.

use gleaner::raw::{Address, Fresh, NewObject, Number, TypeId, Value, array_bytes};
use gleaner::{Mutator, OutOfMemory};

use super::{Active, answer, lies_in};
use crate::error::TrapKind;
use crate::layout::{Cell, Layout};
use crate::registry::Registry;
use crate::state::Ending;
use crate::types::Number as TypeNumber;

pub(super) unsafe extern "C" fn allocate(context: *const u64, heap: u32, bytes: u32) -> u64 {
    // SAFETY: compiled code calls this, with a structure's type and bytes, and writes all fields at once.
    unsafe {
        answer(context, |active| {
            let new = NewObject::structure(TypeId::new(heap), bytes as usize);
            let object = active.state.mutator.allocate_raw(new, Fresh::Unwritten);
            object
                .map(|object| object.word() as u64)
                .map_err(|full| active.full(full))
        })
    }
}

/// How an array of a type lies.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    heap: TypeId,
    cell: Cell,
    log2: u32,
}

pub(crate) fn kind(registry: &Registry, number: TypeNumber) -> Kind {
    let entry = registry.get(number);
    match *entry.layout() {
        Layout::Array { cell, log2 } => Kind {
            heap: entry.heap(),
            cell,
            log2,
        },
        Layout::Struct { .. } => unreachable!("validation asks for an array"),
    }
}

/// A fresh array of zeros or nulls.
pub(crate) fn fresh(
    mutator: &mut Mutator,
    kind: Kind,
    length: u32,
) -> Result<Address, OutOfMemory> {
    let new = NewObject::array(kind.heap, length, array_bytes(length, kind.log2));
    // SAFETY: an array type with elements of these bytes; callers keep references in roots.
    unsafe { mutator.allocate_raw(new, Fresh::Zeroed) }
}

/// Fills a range of an array with what has these bits.
///
/// # Safety
/// The range lies in the array, which is of this kind, and the bits are a value of its elements.
pub(crate) unsafe fn fill_range(
    mutator: &mut Mutator,
    kind: Kind,
    array: Address,
    range: [u32; 2],
    bits: u64,
) -> Result<(), OutOfMemory> {
    let [index, count] = range.map(|number| number as usize);
    // SAFETY: as asked.
    unsafe {
        match (kind.cell, kind.log2) {
            (Cell::Slot { .. }, _) => {
                mutator.fill_elements_raw(array, index, count, Value::from_bits(bits))
            }
            (_, 0) => mutator.fill_elements_in::<u8>(array, index, count, bits as u8),
            (_, 1) => mutator.fill_elements_in::<u16>(array, index, count, bits as u16),
            (_, 2) => mutator.fill_elements_in::<u32>(array, index, count, bits as u32),
            _ => mutator.fill_elements_in::<u64>(array, index, count, bits),
        }
    }
}

pub(super) unsafe extern "C" fn new(
    context: *const u64,
    number: u32,
    bits: u64,
    length: u32,
) -> u64 {
    // SAFETY: compiled code calls this, with bits of an element. A reference is in a root across the allocation.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let is_slot = matches!(kind.cell, Cell::Slot { .. });
            let root = if is_slot {
                Value::from_bits(bits)
            } else {
                Value::NULL
            };
            let array = active.state.mutator.with_roots([root], |mutator, roots| {
                let array = fresh(mutator, kind, length)?;
                let bits = if is_slot { roots[0].get().bits() } else { bits };
                fill_range(mutator, kind, array, [0, length], bits)?;
                Ok(array)
            });
            array
                .map(|array| array.word() as u64)
                .map_err(|full| active.full(full))
        })
    }
}

pub(super) unsafe extern "C" fn new_default(context: *const u64, number: u32, length: u32) -> u64 {
    // SAFETY: compiled code calls this.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let array = fresh(&mut active.state.mutator, kind, length);
            array
                .map(|array| array.word() as u64)
                .map_err(|full| active.full(full))
        })
    }
}

pub(super) unsafe extern "C" fn new_data(
    context: *const u64,
    number: u32,
    data: u32,
    from: u32,
    length: u32,
) -> u64 {
    // SAFETY: compiled code calls this; the range of the segment is checked.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let bytes = data_range(active, data, from, length, kind)?;
            let array =
                fresh(&mut active.state.mutator, kind, length).map_err(|full| active.full(full))?;
            copy_bytes(active, data, bytes, array, 0, kind).map_err(|full| active.full(full))?;
            Ok(array.word() as u64)
        })
    }
}

/// The range of a data segment that has so many elements; the error is a trap.
fn data_range(
    active: &mut Active<'_>,
    data: u32,
    from: u32,
    count: u32,
    kind: Kind,
) -> Result<std::ops::Range<usize>, Ending> {
    let length = active.instance().datas[data as usize].len() as u64;
    let end = u64::from(from) + (u64::from(count) << kind.log2);
    if end > length {
        return Err(active.trap(TrapKind::MemoryBounds));
    }
    Ok(from as usize..end as usize)
}

/// Copies bytes of a data segment to elements of an array, which lies in one piece and has room for them. The bytes are
/// aligned in the array alone, so they go there by a buffer.
fn copy_bytes(
    active: &mut Active<'_>,
    data: u32,
    bytes: std::ops::Range<usize>,
    array: Address,
    index: u32,
    kind: Kind,
) -> Result<(), OutOfMemory> {
    let segment = active.instance().datas[data as usize].clone();
    let (bytes, index, mutator) = (&segment[bytes], index as usize, &mut active.state.mutator);
    // SAFETY: the array has such elements, and this range.
    unsafe {
        match kind.log2 {
            0 => mutator.write_elements::<u8>(array, index, bytes),
            1 => write_by_buffer(mutator, array, index, bytes, u16::from_le_bytes),
            2 => write_by_buffer(mutator, array, index, bytes, u32::from_le_bytes),
            _ => write_by_buffer(mutator, array, index, bytes, u64::from_le_bytes),
        }
    }
}

/// # Safety
/// The array has numbers of `N` bytes, and as many from `index` on as the bytes have.
unsafe fn write_by_buffer<T: Number, const N: usize>(
    mutator: &mut Mutator,
    array: Address,
    index: usize,
    bytes: &[u8],
    read: fn([u8; N]) -> T,
) -> Result<(), OutOfMemory> {
    let (numbers, _) = bytes.as_chunks::<N>();
    let mut written = index;
    for piece in numbers.chunks(64) {
        let mut buffer = [read([0; N]); 64];
        for (place, &number) in buffer.iter_mut().zip(piece) {
            *place = read(number);
        }
        // SAFETY: as asked.
        unsafe { mutator.write_elements(array, written, &buffer[..piece.len()])? };
        written += piece.len();
    }
    Ok(())
}

pub(super) unsafe extern "C" fn new_element(
    context: *const u64,
    number: u32,
    element: u32,
    from: u32,
    length: u32,
) -> u64 {
    // SAFETY: compiled code calls this; the range of the segment is checked.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            check_element_range(active, element, from, length)?;
            let array =
                fresh(&mut active.state.mutator, kind, length).map_err(|full| active.full(full))?;
            copy_elements(active, element, array, [0, from, length], kind)
                .map_err(|full| active.full(full))?;
            Ok(array.word() as u64)
        })
    }
}

fn check_element_range(
    active: &mut Active<'_>,
    element: u32,
    from: u32,
    count: u32,
) -> Result<(), Ending> {
    let length = active.instance().elements[element as usize].record().length;
    match lies_in(from, count, length) {
        true => Ok(()),
        false => Err(active.trap(TrapKind::TableBounds)),
    }
}

/// Copies references of a segment to an array: `[index in the array, index in the segment, count]`. Nothing collects: the
/// array lies in one piece.
fn copy_elements(
    active: &mut Active<'_>,
    element: u32,
    array: Address,
    [index, from, count]: [u32; 3],
    kind: Kind,
) -> Result<(), OutOfMemory> {
    let segment = active.instance().elements[element as usize].record();
    let mutator = &mut active.state.mutator;
    for step in 0..count as usize {
        // SAFETY: both ranges were checked. References go through the barrier; functions are numbers to the heap.
        unsafe {
            let bits = *segment.base.add(from as usize + step);
            let index = index as usize + step;
            match kind.cell {
                Cell::Slot { .. } => {
                    mutator.store_element_raw(array, index, Value::from_bits(bits))?
                }
                _ => mutator.store_element_in::<u64>(array, index, bits)?,
            }
        }
    }
    Ok(())
}

/// The array that a reference leads to, if it has such a range; the error is a trap.
fn array_range(active: &Active<'_>, array: u64, index: u32, count: u32) -> Result<Address, Ending> {
    if array == 0 {
        return Err(active.trap(TrapKind::NullReference));
    }
    let array = Address::new(array as usize);
    // SAFETY: a reference to an array that is not null.
    let length = unsafe { active.state.mutator.length_raw(array) };
    match lies_in(index, count, length.into()) {
        true => Ok(array),
        false => Err(active.trap(TrapKind::ArrayBounds)),
    }
}

pub(super) unsafe extern "C" fn fill(
    context: *const u64,
    number: u32,
    array: u64,
    index: u32,
    bits: u64,
    count: u32,
) {
    // SAFETY: compiled code calls this, with bits of an element; the range is checked.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let array = array_range(active, array, index, count)?;
            fill_range(&mut active.state.mutator, kind, array, [index, count], bits)
                .map_err(|full| active.full(full))
        });
    }
}

pub(super) unsafe extern "C" fn copy(
    context: *const u64,
    to: u64,
    to_index: u32,
    from: u64,
    from_index: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this, with arrays of the same elements; the ranges are checked.
    unsafe {
        answer(context, |active| {
            if to == 0 || from == 0 {
                return Err(active.trap(TrapKind::NullReference));
            }
            let to = array_range(active, to, to_index, count)?;
            let from = array_range(active, from, from_index, count)?;
            let mutator = &mut active.state.mutator;
            let copied = mutator.copy_elements_raw(from, from_index, to, to_index, count);
            copied.map_err(|full| active.full(full))
        });
    }
}

pub(super) unsafe extern "C" fn init_data(
    context: *const u64,
    number: u32,
    data: u32,
    array: u64,
    index: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this; the ranges are checked.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let array = array_range(active, array, index, count)?;
            let bytes = data_range(active, data, from, count, kind)?;
            copy_bytes(active, data, bytes, array, index, kind).map_err(|full| active.full(full))
        });
    }
}

pub(super) unsafe extern "C" fn init_element(
    context: *const u64,
    number: u32,
    element: u32,
    array: u64,
    index: u32,
    from: u32,
    count: u32,
) {
    // SAFETY: compiled code calls this; the ranges are checked.
    unsafe {
        answer(context, |active| {
            let kind = kind(&active.state.registry, number);
            let array = array_range(active, array, index, count)?;
            check_element_range(active, element, from, count)?;
            copy_elements(active, element, array, [index, from, count], kind)
                .map_err(|full| active.full(full))
        });
    }
}
