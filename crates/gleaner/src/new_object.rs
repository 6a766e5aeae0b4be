//! An object that is to be allocated, and what its allocator writes of it before anybody has it.

use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{GRANULE, LEAST_BYTES, LENGTH, TypeId};

/// An object to allocate: its type, its length if objects of the type have one, and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewObject {
    pub(crate) id: TypeId,
    pub(crate) length: Option<u32>,
    pub(crate) bytes: usize,
}

impl NewObject {
    /// A structure of `bytes` bytes, its header included.
    #[inline(always)]
    pub const fn structure(id: TypeId, bytes: usize) -> NewObject {
        NewObject {
            id,
            length: None,
            bytes,
        }
    }

    /// An array of `length` elements, or an object with a head and `length` elements. It takes `bytes` bytes with its
    /// header: see [`array_bytes`](crate::raw::array_bytes) and [`tailed_bytes`](crate::raw::tailed_bytes).
    #[inline(always)]
    pub const fn array(id: TypeId, length: u32, bytes: usize) -> NewObject {
        NewObject {
            id,
            length: Some(length),
            bytes,
        }
    }

    /// Writes the header, and the length if there is one.
    ///
    /// # Safety
    /// Fresh memory of the calling mutator lies at `object`, with room for both.
    #[inline(always)]
    pub(crate) unsafe fn write_head(self, object: Address, header: Header) {
        // SAFETY: fresh memory of the calling mutator, with room for header and length.
        unsafe {
            header::store(object, header);
            if let Some(length) = self.length {
                object.add(LENGTH).ptr::<u32>().write(length);
            }
        }
    }

    /// Zeroes the last granule of an array whose elements the caller writes: it may have bytes behind the last element,
    /// which nobody writes. A caller writes all of a structure.
    ///
    /// # Safety
    /// Fresh memory of the calling mutator lies at `object`, as many bytes as the object has.
    #[inline(always)]
    pub(crate) unsafe fn zero_last_granule(self, object: Address) {
        if self.length.is_some() && self.bytes > LEAST_BYTES {
            // SAFETY: the last granule of the fresh object, behind its length since it has more than the least bytes.
            unsafe { object.add(self.bytes - GRANULE).ptr::<u64>().write(0) };
        }
    }
}
