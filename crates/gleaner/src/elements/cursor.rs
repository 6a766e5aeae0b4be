//! Cursors: elements of an array one after the other.
//!
//! What an access has to find out about the array is found out once for each run (PLDI 2010, section 5.1,
//! strip-mining). The end of the run takes the place of the length in the test whether there is another element.

use std::marker::PhantomData;
use std::ops::Range;

use gleaner_mem::Address;
use gleaner_mem::object_model::{TypeId, array_bytes};
use gleaner_plans::scavenge::allocate::Fresh;
use gleaner_plans::scavenge::arrays::{Contents, Filling};
use gleaner_plans::scavenge::tally::Access;

use super::element::Element;
use super::layout::Layout;
use super::runs::{Run, Runs};
use crate::body::OutOfMemory;
use crate::mutator::Mutator;
use crate::new_object::NewObject;

/// An iterator that loads elements of an array one after the other.
///
/// While a cursor exists, its mutator can neither allocate nor poll. [`Cursor::rest`] says where another cursor goes on
/// after that. A poll may move the array, and give it other arraylets, so the new cursor has to find its first element
/// again. That takes as long as going from one piece of the array to the next.
#[derive(Debug)]
pub struct Cursor<'m, E> {
    place: Place<'m>,
    base: Address,
    element: PhantomData<E>,
}

/// Stores into elements of an array one after the other, and loads them.
///
/// The memory that stores may need is taken when the cursor is opened, so no store collects or fails. What was not
/// needed is given back later. In all else it is as [`Cursor`].
#[derive(Debug)]
pub struct CursorMut<'m, E: Element> {
    place: Place<'m>,
    /// Up to where elements may be stored without a look at their run: `place.next` if that run must not be written.
    writable: Address,
    /// Whether the next element lies in a part that is all zero: then a zero is there already.
    zero: bool,
    element: PhantomData<E>,
}

/// A range of so many parts is looked at as a whole when a cursor is opened.
const FEW_PARTS: usize = 8;

/// Where a cursor is.
#[derive(Clone, Copy, Debug)]
struct Place<'m> {
    mutator: &'m Mutator,
    array: Address,
    /// The next element.
    next: Address,
    /// The end of the run in which it lies.
    end: Address,
    /// The index of the element there.
    end_index: usize,
    /// The end of the range.
    last: usize,
}

impl<'m> Place<'m> {
    /// At the start of a range.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies. Nothing may collect as long as
    /// this is used.
    #[inline(always)]
    unsafe fn new<E: Element>(
        mutator: &'m Mutator,
        array: Address,
        index: usize,
        count: usize,
    ) -> Place<'m> {
        let last = index + count;
        // SAFETY: the range lies in the array, as the caller promises.
        let whole = unsafe { mutator.near::<E>(array, index, count) };
        let (next, bytes) = match whole {
            Some(at) => (at, count * E::BYTES),
            // The first run is found here, so that there is one loop and not one for each case.
            None => {
                let run = find_first_run::<E>(mutator, array, index * E::BYTES, count * E::BYTES);
                (run.at, run.bytes)
            }
        };
        Place {
            mutator,
            array,
            next,
            end: next.add(bytes),
            end_index: index + bytes / E::BYTES,
            last,
        }
    }

    /// The index of the next element, of `bytes` bytes.
    #[inline(always)]
    fn index(&self, bytes: usize) -> usize {
        self.end_index - self.end.offset_from(self.next) / bytes
    }

    /// Goes on to the next run; `None` behind the last.
    #[inline(always)]
    fn advance<E: Element>(&mut self) -> Option<Run> {
        let bytes = E::BYTES;
        let (index, last) = (self.end_index, self.last);
        if index == last {
            return None;
        }
        // By value, so that the cursor can be in registers.
        let run = find_run::<E>(
            self.mutator,
            self.array,
            index * bytes,
            (last - index) * bytes,
        );
        self.next = run.at;
        self.end = run.at.add(run.bytes);
        self.end_index = index + run.bytes / bytes;
        Some(run)
    }
}

/// Counts an access to the next element, where accesses are counted.
#[inline(always)]
fn count_next<E: Element>(place: &Place<'_>, access: Access) {
    if E::Layout::COUNTED {
        let index = place.index(E::BYTES);
        place.mutator.count_elements_in::<E>(access, index, 1);
    }
}

/// The run from an offset on. A call, so that the loop that is left is one over the elements of a run: inlined, it
/// makes loops with little in them much slower.
#[cold]
#[inline(never)]
fn find_run<E: Element>(mutator: &Mutator, array: Address, offset: usize, most: usize) -> Run {
    // SAFETY: a cursor is made for a range of a valid array, which stays in place while the mutator is borrowed.
    unsafe { far_runs::<E>(mutator, array).starting_at(offset, most) }
}

/// As [`find_run`], of one part if the range is long: such a cursor may be given up after a few elements. One over a row of a
/// matrix goes to its end.
#[cold]
#[inline(never)]
fn find_first_run<E: Element>(
    mutator: &Mutator,
    array: Address,
    offset: usize,
    most: usize,
) -> Run {
    let few = FEW_PARTS << E::Layout::pieces(mutator.record()).arraylet_shift;
    // SAFETY: a cursor is made for a range of a valid array, which stays in place while the mutator is borrowed.
    unsafe {
        let runs = far_runs::<E>(mutator, array);
        if most <= few {
            runs.starting_at(offset, most)
        } else {
            runs.in_one_part(offset, most)
        }
    }
}

/// Where all of a range lies, if it lies side by side and may be written: no memory is taken then.
#[inline(never)]
fn find_run_to_write<E: Element>(
    mutator: &Mutator,
    array: Address,
    offset: usize,
    bytes: usize,
) -> Option<Address> {
    // SAFETY: a cursor is made for a range of a valid array.
    let run = unsafe { far_runs::<E>(mutator, array).starting_at(offset, bytes) };
    (run.writable && run.bytes == bytes).then_some(run.at)
}

/// An array with a range that goes beyond N, or it would have been one piece.
///
/// # Safety
/// `array` is a valid reference to such an array.
#[inline(always)]
unsafe fn far_runs<E: Element>(mutator: &Mutator, array: Address) -> Runs {
    let pieces = E::Layout::pieces(mutator.record());
    // SAFETY: a valid reference to an array of a heap with this layout, as the caller promises.
    unsafe {
        if E::Layout::ALL_CUT {
            Runs::of_spine(array, pieces)
        } else {
            Runs::new(array, pieces)
        }
    }
}

impl Mutator {
    /// A cursor over `count` elements from `index` on, for loads.
    ///
    /// # Safety
    /// `array` is a valid reference to an array of such elements, in which the range lies.
    #[inline(always)]
    pub unsafe fn cursor<E: Element>(
        &self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Cursor<'_, E> {
        Cursor {
            // SAFETY: the range lies in the array, as the caller promises; the mutator is borrowed.
            place: unsafe { Place::new::<E>(self, array, index, count) },
            base: self.record().base,
            element: PhantomData,
        }
    }

    /// A cursor over `count` elements from `index` on, for stores. Like an allocation, this may collect, and it fails
    /// when there is no memory.
    ///
    /// # Safety
    /// As for [`Mutator::cursor`]; and other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn cursor_mut<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        count: usize,
    ) -> Result<CursorMut<'_, E>, OutOfMemory> {
        let bytes = count * E::BYTES;
        // SAFETY: the range lies in the array, as the caller promises.
        let near = unsafe { self.near::<E>(array, index, count) };
        let at_once = near.or_else(|| find_run_to_write::<E>(self, array, index * E::BYTES, bytes));
        let (place, writable) = match at_once {
            Some(next) => {
                let place = Place {
                    mutator: self,
                    array,
                    next,
                    end: next.add(bytes),
                    end_index: index + count,
                    last: index + count,
                };
                (place, place.end)
            }
            // The first store finds out what may be written.
            None => {
                // SAFETY: the range lies in the array, as the caller promises; it is rooted meanwhile.
                let place = unsafe {
                    let array = self.fill_stock_for_elements::<E>(array, index, count)?;
                    Place::new::<E>(self, array, index, count)
                };
                (place, place.next)
            }
        };
        Ok(CursorMut {
            place,
            writable,
            zero: false,
            element: PhantomData,
        })
    }

    /// Allocates an array of `length` elements, which `fill` writes before anybody else sees the array. The elements
    /// are null or zero at first. `fill` may do what a [`CursorMut`] lets it: nothing that would collect.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks of an array; `id` has elements of `E`.
    #[inline(always)]
    pub unsafe fn allocate_array_by_cursor<E: Element>(
        &mut self,
        id: TypeId,
        length: u32,
        fill: impl FnOnce(&mut CursorMut<'_, E>),
    ) -> Result<Address, OutOfMemory> {
        let bytes = array_bytes(length, E::BYTES.trailing_zeros());
        // SAFETY: the type and the bytes that follow from it; other references are not used again, as the caller
        // promises.
        let array =
            unsafe { self.allocate_raw(NewObject::array(id, length, bytes), Fresh::Zeroed) }?;
        // SAFETY: all elements of the fresh array.
        let mut cursor = unsafe { self.cursor_mut(array, 0, length as usize) }?;
        fill(&mut cursor);
        Ok(cursor.place.array)
    }
}

impl<E: Element> Cursor<'_, E> {
    /// The index of the next element.
    pub fn index(&self) -> usize {
        self.place.index(E::BYTES)
    }

    /// The indices that are left: where another cursor goes on behind a poll, or an allocation.
    ///
    /// ```
    /// use gleaner::{Elements, Heap};
    ///
    /// let heap = Heap::builder().limit(16 << 20).build().unwrap();
    /// let words = heap.array(Elements::Words).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let array = scope.allocate_array(words, 1_000_000).unwrap();
    ///     let (mut sum, mut rest) = (0_u64, 0..1_000_000);
    ///     while !rest.is_empty() {
    ///         let mut numbers = scope.numbers::<u32>(array, rest.start, rest.len());
    ///         sum += numbers.by_ref().take(10_000).map(u64::from).sum::<u64>();
    ///         rest = numbers.rest();
    ///         // Others that wait for a collection do not wait for all of this.
    ///         scope.poll();
    ///     }
    ///     assert_eq!(sum, 0);
    /// });
    /// ```
    pub fn rest(&self) -> Range<usize> {
        self.index()..self.place.last
    }
}

impl<E: Element> Iterator for Cursor<'_, E> {
    type Item = E::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<E::Item> {
        if self.place.next == self.place.end {
            self.place.advance::<E>()?;
        }
        count_next::<E>(&self.place, Access::Load);
        let at = self.place.next;
        self.place.next = at.add(E::BYTES);
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed.
        Some(unsafe { E::read_at(at, self.base) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.place.last - self.index();
        (left, Some(left))
    }
}

impl<E: Element> ExactSizeIterator for Cursor<'_, E> {}

impl<'m, E: Element> CursorMut<'m, E> {
    /// The mutator, for loads, and for cursors over other arrays beside this one.
    #[inline(always)]
    pub fn mutator(&self) -> &'m Mutator {
        self.place.mutator
    }

    /// The index of the next element.
    pub fn index(&self) -> usize {
        self.place.index(E::BYTES)
    }

    /// The indices that are left: where another cursor goes on behind a poll, or an allocation.
    pub fn rest(&self) -> Range<usize> {
        self.index()..self.place.last
    }

    /// The item of the next element, where the cursor stays; `None` behind the last element.
    #[inline(always)]
    pub fn load(&self) -> Option<E::Item> {
        let mut place = self.place;
        if place.next == place.end {
            place.advance::<E>()?;
        }
        count_next::<E>(&place, Access::Load);
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed.
        Some(unsafe { E::read_at(place.next, place.mutator.record().base) })
    }

    /// Stores into the next element, through the barrier, and goes on to the one after it. Behind the last element it
    /// stores nothing, and the result is false.
    ///
    /// # Safety
    /// The item is valid and, as an immediate, fits the slot format.
    #[inline(always)]
    pub unsafe fn store(&mut self, item: E::Item) -> bool {
        if self.place.next == self.writable {
            if self.place.next == self.place.end || !self.zero {
                if self.place.next == self.place.end && self.place.end_index == self.place.last {
                    return false;
                }
                (self.place, self.writable, self.zero) = next_run_to_write::<E>(self.place);
            }
            if self.zero {
                if E::is_zero(item) {
                    count_next::<E>(&self.place, Access::Store);
                    self.place.next = self.place.next.add(E::BYTES);
                    self.writable = self.place.next;
                    return true;
                }
                (self.place, self.writable) = untaint_rest_of_run::<E>(self.place);
                self.zero = false;
            }
        }
        count_next::<E>(&self.place, Access::Store);
        let at = self.place.next;
        self.place.next = at.add(E::BYTES);
        // SAFETY: an element of the range, which stays in place while the mutator is borrowed, in a part that is the
        // array's alone; the item is valid, as the caller promises.
        unsafe { E::write_at(at, self.place.mutator.record().base, item) };
        if E::SLOTS {
            self.place.mutator.dirty(at);
        }
        true
    }
}

/// The run of the next element, up to where it may be written, and whether all of it is zero and must not be. What is
/// shared is the array's alone then.
#[cold]
#[inline(never)]
fn next_run_to_write<E: Element>(mut place: Place<'_>) -> (Place<'_>, Address, bool) {
    let index = place.index(E::BYTES);
    let bytes = (place.last - index) * E::BYTES;
    let run = find_run::<E>(place.mutator, place.array, index * E::BYTES, bytes);
    place.next = run.at;
    place.end = run.at.add(run.bytes);
    place.end_index = index + run.bytes / E::BYTES;
    if run.zero {
        return (place, place.next, true);
    }
    if !run.writable {
        let (place, writable) = untaint_rest_of_run::<E>(place);
        return (place, writable, false);
    }
    (place, place.end, false)
}

/// The place in a part that is the array's alone from now on, and up to where it may be written.
#[cold]
#[inline(never)]
fn untaint_rest_of_run<E: Element>(mut place: Place<'_>) -> (Place<'_>, Address) {
    let index = place.index(E::BYTES);
    let bytes = place.end.offset_from(place.next);
    let run = find_run::<E>(place.mutator, place.array, index * E::BYTES, bytes);
    let contents = Contents::of(E::SLOTS);
    // SAFETY: the run is one of the array; the cursor was opened with a stock for the range.
    place.next = unsafe {
        place
            .mutator
            .untaint_run(place.array, &run, contents, Filling::Same)
    };
    place.end = place.next.add(bytes);
    (place, place.end)
}
