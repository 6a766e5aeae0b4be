//! Structures whose layout the compiler of the program knows: what an access to them checks, it checks when the program
//! is compiled.

use std::marker::PhantomData;

use gleaner_mem::object_model::{FIELDS, TypeId};
use gleaner_mem::slot::{Compressed, SlotFormat, Wide};

use crate::types::{Id, Layout, Registered, Structure, of_heap};

/// What is known of the slots of a heap when the program is compiled: [`AnySlots`], or a format.
pub trait Slots: Copy + 'static + format::Format {}

/// Nothing is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnySlots {}

impl Slots for AnySlots {}
impl Slots for Wide {}
impl Slots for Compressed {}

/// What the trait promises inside of this crate.
pub(crate) mod format {
    use super::*;

    /// Bytes of a slot.
    pub trait Format {
        /// Bytes of a slot, if they are known.
        const BYTES: Option<usize>;
    }

    impl Format for AnySlots {
        const BYTES: Option<usize> = None;
    }

    impl Format for Wide {
        const BYTES: Option<usize> = Some(<Wide as SlotFormat>::BYTES);
    }

    impl Format for Compressed {
        const BYTES: Option<usize> = Some(<Compressed as SlotFormat>::BYTES);
    }
}

/// A registered structure whose layout the compiler of the program knows: `REFERENCES` references and `BYTES` bytes. An
/// access to a [`Local`](crate::Local) of it costs what it does in the raw layer: its type and index are checked when
/// the program is compiled. [`Heap::fields`](crate::Heap::fields) registers it.
///
/// ```
/// use gleaner::{Fields, Heap, Local, OutOfMemory, Scope};
///
/// type Pair = Fields<2, 8>;
///
/// fn number_of(scope: &Scope<'_>, pair: Local<'_, Pair>) -> u64 {
///     scope.read_u64(pair, 0)
/// }
///
/// let heap = Heap::builder().limit(1 << 20).build().unwrap();
/// let pair: Pair = heap.fields().unwrap();
/// heap.attach().unwrap().scope(|scope| {
///     let [one, other] = [scope.allocate(pair)?, scope.allocate(pair)?];
///     scope.write_u64(other, 0, 7)?;
///     scope.set(one, 1, other)?;
///     let found = scope.get_as(one, 1, pair).expect("a pair");
///     assert_eq!(number_of(scope, found), 7);
///     Ok::<(), OutOfMemory>(())
/// }).unwrap();
/// ```
///
/// Such objects may move. `F` is what is known of the slots of the heap: nothing, or that they are
/// [`Wide`](crate::raw::Wide) or [`Compressed`](crate::raw::Compressed). That saves a test for each access, and the heap
/// refuses the type if it has other slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields<const REFERENCES: usize, const BYTES: usize, F = AnySlots>(Id, PhantomData<F>);

impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Fields<REFERENCES, BYTES, F> {
    /// The structure.
    pub(crate) const STRUCTURE: Structure = Structure {
        references: REFERENCES as u32,
        bytes: BYTES as u32,
    };

    /// The type with this number.
    pub(crate) fn new(id: Id) -> Self {
        Fields(id, PhantomData)
    }

    /// The number of the type in its heap.
    pub fn id(&self) -> TypeId {
        self.0.number
    }

    #[inline(always)]
    pub(crate) fn layout(slot_bytes: usize) -> Layout {
        // Two constants to choose from, and not numbers to compute.
        if F::BYTES.unwrap_or(slot_bytes) == 8 {
            const { Self::STRUCTURE.layout(8) }
        } else {
            const { Self::STRUCTURE.layout(4) }
        }
    }

    /// Where reference `index` lies, if there is one.
    #[inline(always)]
    pub(crate) fn reference_offset(slot_bytes: usize, index: usize) -> Option<usize> {
        let slot_bytes = F::BYTES.unwrap_or(slot_bytes);
        (index < REFERENCES).then(|| FIELDS + index * slot_bytes)
    }

    /// Where item `index` of `bytes` bytes lies, if there is one.
    #[inline(always)]
    pub(crate) fn item_offset(slot_bytes: usize, index: usize, bytes: usize) -> Option<usize> {
        let start = Self::layout(slot_bytes).data as usize;
        (index < BYTES / bytes).then(|| start + index * bytes)
    }
}

impl<const REFERENCES: usize, const BYTES: usize, F: Slots> Registered
    for Fields<REFERENCES, BYTES, F>
{
}

impl<const REFERENCES: usize, const BYTES: usize, F: Slots> of_heap::Registered
    for Fields<REFERENCES, BYTES, F>
{
    #[inline(always)]
    fn id(self) -> Id {
        self.0
    }
}
