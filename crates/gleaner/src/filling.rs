//! Objects that are filled while they are allocated: no barrier and no check of a local stands between their fields and
//! what is written there.

use std::marker::PhantomData;

use gleaner_mem::Address;
use gleaner_mem::slot::{Compressed, Value, Wide};

use crate::elements::Number;
use crate::fields::{Fields, Slots};
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;

/// An object that is being allocated: [`Scope::allocate_filled`](crate::Scope::allocate_filled).
#[derive(Debug)]
pub struct New<'a, const REFERENCES: usize, const BYTES: usize, F> {
    mutator: &'a Mutator,
    object: Address,
    slots: PhantomData<F>,
}

impl<'a, const REFERENCES: usize, const BYTES: usize, F: Slots> New<'a, REFERENCES, BYTES, F> {
    /// # Safety
    /// The mutator has just allocated the object, which has these fields and is not pinned, and the heap has such slots.
    #[inline(always)]
    pub(crate) unsafe fn of(mutator: &'a Mutator, object: Address) -> Self {
        New {
            mutator,
            object,
            slots: PhantomData,
        }
    }

    /// Sets reference `index` to what a local holds.
    #[inline(always)]
    pub fn set(&mut self, index: usize, to: Local<'_, impl Holds>) {
        let value = self.mutator.value_of(to);
        let offset =
            Fields::<REFERENCES, BYTES, F>::reference_offset(self.mutator.slot_bytes(), index);
        let Some(offset) = offset else {
            panic!("reference {index} of a new object that has {REFERENCES}");
        };
        // SAFETY: a slot of the fresh object, which is young, so no barrier is due; locals hold what fits.
        unsafe { initialize::<F>(self.mutator, self.object, offset, value) };
    }

    /// Writes item `index` of the size of `number` among the bytes.
    #[inline(always)]
    pub fn write<N: Number>(&mut self, index: usize, number: N) {
        let offset =
            Fields::<REFERENCES, BYTES, F>::item_offset(self.mutator.slot_bytes(), index, N::BYTES);
        let Some(offset) = offset else {
            panic!(
                "item {index} of {} bytes of a new object that has {BYTES} bytes",
                N::BYTES
            );
        };
        // SAFETY: such an item lies there. It is aligned; a number needs no base.
        unsafe { N::write_at(self.object.add(offset), Address::NULL, number) };
    }
}

/// Writes a slot of a fresh object.
///
/// # Safety
/// As for [`Mutator::initialize_in`], in a heap with such slots.
#[inline(always)]
unsafe fn initialize<F: Slots>(mutator: &Mutator, object: Address, offset: usize, value: Value) {
    // SAFETY: a slot of this format lies at the offset of the fresh object, as the caller promises.
    unsafe {
        if F::BYTES.unwrap_or(mutator.slot_bytes()) == 8 {
            mutator.initialize_in::<Wide>(object, offset, value);
        } else {
            mutator.initialize_in::<Compressed>(object, offset, value);
        }
    }
}
