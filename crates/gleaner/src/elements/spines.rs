//! Allocation of arrays in pieces (PLDI 2010, section 5.1): a spine, and the arraylets that are not left for the first
//! store. All of it is there, or the array is none. Immortal arrays (section 5.2) have all arraylets, and keep them.

use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_plans::scavenge::LARGE_BYTES;
use gleaner_plans::scavenge::allocate::{Fresh, Place};
use gleaner_plans::scavenge::arrays::{Contents, Filling};
use gleaner_plans::scavenge::collect::Extent;

use crate::body::{OutOfMemory, with_heap};
use crate::mutator::Mutator;
use crate::new_object::NewObject;

/// How long an array lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// As long as it is reachable.
    Mortal,
    /// As long as its heap, with all its arraylets (PLDI 2010, section 5.2).
    Immortal,
}

impl Mutator {
    /// An array in pieces (PLDI 2010, section 5.1, array allocation): `whole` bytes if it were in one, `elements` bytes
    /// of elements.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks, of an array that is cut; its elements take `elements` bytes, and are slots if
    /// `contents` says so.
    pub(crate) unsafe fn allocate_spine(
        &mut self,
        new: NewObject,
        (elements, contents): (usize, Contents),
        fresh: Fresh,
        life: Life,
    ) -> Result<Address, OutOfMemory> {
        let NewObject {
            id,
            length,
            bytes: whole,
        } = new;
        let (pieces, record) = (self.record().pieces, self.record_place());
        let bytes = pieces.spine_bytes(elements);
        let place = with_heap!(&self.shared.kind, heap => heap.spine_place(elements));
        // Who writes all of it needs all arraylets; where none is allocated lazily, everybody does.
        let lazy = with_heap!(&self.shared.kind, heap => heap.config.cutting)
            .is_some_and(|cutting| cutting.lazy);
        let own = if lazy && fresh == Fresh::Zeroed && life == Life::Mortal {
            0
        } else {
            pieces.arraylets(elements)
        };
        let (mut next, mut is_first) = (Some(Extent::Young), true);
        loop {
            if own > 0 && is_first {
                self.assert_may_collect("an allocation");
                // SAFETY: this thread's mutator, inside the gate; other references are not used again, as the caller
                // promises.
                with_heap!(&self.shared.kind, heap => unsafe {
                    heap.before_stock(record, contents, own);
                });
            }
            let in_buffer = match place {
                Place::Anywhere => self.take_from_buffer(bytes, LARGE_BYTES, Fresh::Zeroed),
                _ => None,
            };
            let spine = match in_buffer {
                Some(spine) => spine,
                None => {
                    with_heap!(&self.shared.kind, heap => heap.check_request(id, length, whole));
                    if is_first {
                        self.refill_for_spine(bytes, place)?
                    } else {
                        // SAFETY: this thread's mutator, inside the gate.
                        with_heap!(&self.shared.kind, heap => unsafe {
                            heap.allocate_again(record, bytes, place, Fresh::Zeroed)
                        })
                        .ok_or(OutOfMemory { bytes: whole })?
                    }
                }
            };
            is_first = false;
            // SAFETY: fresh memory of this mutator, with room for the spine, which reads as zero.
            unsafe {
                new.write_head(spine, Header::fresh_spine(id));
                pieces.begin(spine, elements);
            }
            // SAFETY: this thread's mutator, inside the gate; the spine is its own, and has `own` arraylets. Nothing
            // collects between here and the end, so it is young.
            let is_complete = with_heap!(&self.shared.kind, heap => unsafe {
                let filling = if fresh == Fresh::Unwritten {
                    Filling::Unwritten
                } else {
                    Filling::Same
                };
                let found = own == 0 || heap.stock(record, contents, own);
                for number in (0..own).filter(|_| found) {
                    heap.instantiate(record, (spine, number), contents, filling);
                }
                found
            });
            if is_complete {
                let apart = place != Place::Anywhere;
                with_heap!(&self.shared.kind, heap => heap.note_type(id, bytes, apart));
                if life == Life::Immortal {
                    // SAFETY: the spine is this mutator's own, and has all its arraylets.
                    unsafe { header::store(spine, Header::fresh_spine(id).immortal()) };
                }
                self.record().count_arrays(|counts| {
                    counts.spines += 1;
                    counts.parts += pieces.arraylets(elements) as u64;
                });
                self.count_array(new, bytes);
                return Ok(spine);
            }
            // SAFETY: this thread's mutator, inside the gate; the spine is not used again.
            let goes_on = with_heap!(&self.shared.kind, heap => unsafe {
                heap.make_room_for_stock(self.record(), contents, own, bytes, &mut next)
            });
            if !goes_on {
                return Err(OutOfMemory { bytes: whole });
            }
        }
    }

    /// Memory for a spine that the buffer does not have, as `refill_or_collect` gives it. The array was checked.
    #[cold]
    fn refill_for_spine(&mut self, bytes: usize, place: Place) -> Result<Address, OutOfMemory> {
        self.assert_may_collect("an allocation");
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, which was asserted.
        with_heap!(&self.shared.kind, heap => unsafe {
            heap.allocate_slowly(record, bytes, place, Fresh::Zeroed)
        })
        .ok_or(OutOfMemory { bytes })
    }

    /// Whether an array in pieces is immortal.
    ///
    /// # Safety
    /// `array` is a valid reference to an array.
    pub(super) unsafe fn is_immortal(&self, array: Address) -> bool {
        // SAFETY: an array, as the caller promises.
        unsafe { header::load(array, Ordering::Relaxed) }.is_immortal()
    }
}
