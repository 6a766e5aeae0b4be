//! Roots of the heap in which a program keeps what its frames hold, too: two ranges, one of each width.

use std::cell::UnsafeCell;

use gleaner::raw::{Address, Compressed, RootRange, RootWidth, SlotFormat, Value, Wide};
use gleaner::{Mutator, References};

/// Two slots of 8 bytes, and two as those of objects.
pub struct Globals(Box<[UnsafeCell<u64>; 4]>);

impl Globals {
    /// What `values` are, until [`Globals::unregister`].
    pub fn register(mutator: &mut Mutator, values: [Value; 2]) -> Globals {
        let globals = Globals(Box::new([const { UnsafeCell::new(0) }; 4]));
        for width in [RootWidth::Values, RootWidth::Slots] {
            for (index, value) in values.into_iter().enumerate() {
                globals.with(mutator, width, index, |slot, base, is_narrow| {
                    // SAFETY: a slot of that format, and a value that the caller has in a root.
                    unsafe {
                        if is_narrow {
                            Compressed::store(slot, base, value);
                        } else {
                            Wide::store(slot, base, value);
                        }
                    }
                });
            }
            let range = globals.range(width);
            // SAFETY: the slots hold valid values, and remain until they are unregistered.
            unsafe { mutator.add_root_range(range) }.unwrap();
        }
        globals
    }

    /// The slots are no roots any more; what they held, by width.
    pub fn unregister(self, mutator: &mut Mutator) -> [[Value; 2]; 2] {
        [RootWidth::Values, RootWidth::Slots].map(|width| {
            mutator.remove_root_range(self.range(width).start).unwrap();
            [0, 1].map(|index| {
                self.with(mutator, width, index, |slot, base, is_narrow| {
                    // SAFETY: a slot of that format.
                    unsafe {
                        if is_narrow {
                            Compressed::load(slot, base)
                        } else {
                            Wide::load(slot, base)
                        }
                    }
                })
            })
        })
    }

    fn range(&self, width: RootWidth) -> RootRange {
        RootRange {
            start: Address::of(self.0[2 * width as usize].get()),
            slots: 2,
            width,
        }
    }

    /// Calls `body` with the place of a slot, what slots count from, and whether the slot has 4 bytes.
    fn with<R>(
        &self,
        mutator: &mut Mutator,
        width: RootWidth,
        index: usize,
        body: impl FnOnce(Address, Address, bool) -> R,
    ) -> R {
        let compressed = mutator.heap().references() == References::Compressed;
        let is_narrow = compressed && width == RootWidth::Slots;
        let bytes = if is_narrow { 4 } else { 8 };
        // SAFETY: the record of this mutator.
        let base = unsafe { (*mutator.published()).base };
        body(self.range(width).start.add(index * bytes), base, is_narrow)
    }
}
