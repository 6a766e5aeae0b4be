//! Elements of arrays in pieces (PLDI 2010, sections 4.3 to 4.7): the far path of an access, runs of elements that lie side
//! by side, and how a mutator comes by arraylets before it writes.
//!
//! # Invariants
//! - Nothing polls between what fills the stock and what uses it.
//! - A part that is tainted is never written. A store of zero bits to a part that is all zero stores nothing.

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::element;
use gleaner_mem::slot::Value;
use gleaner_mem::spine::{Pieces, Pointer};
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::arrays::Filling;
use gleaner_plans::scavenge::collect::Extent;
use std::sync::atomic::Ordering;

use super::{Element, Layout};
use crate::body::{OutOfMemory, with_heap};

use crate::mutator::Mutator;

/// So many arraylets are one run at most.
const MOST_BESIDE: usize = 64;

/// Bytes of an array that lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Where they lie.
    pub at: Address,
    /// How many.
    pub bytes: usize,
    /// The number of their part, if they lie in one whose pointer may change.
    pub part: Option<usize>,
    /// Whether they may be written.
    pub writable: bool,
    /// Whether they are the zero arraylet.
    pub zero: bool,
}

/// An array, as what works on many of its elements sees it: until something may collect.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub array: Address,
    is_spine: bool,
    pieces: Pieces,
}

impl View {
    /// # Safety
    /// `array` is a valid reference to an array of a heap whose arrays are cut so.
    #[inline(always)]
    pub unsafe fn new(array: Address, pieces: Pieces) -> View {
        View {
            array,
            // SAFETY: a valid reference, as asked.
            is_spine: unsafe { is_spine(array) },
            pieces,
        }
    }

    /// Of an array that is known to lie in pieces.
    ///
    /// # Safety
    /// As for [`View::new`], and it does.
    #[inline(always)]
    pub unsafe fn of_spine(array: Address, pieces: Pieces) -> View {
        // SAFETY: a valid reference, as asked.
        debug_assert!(unsafe { is_spine(array) }, "code for arrays in pieces");
        View {
            array,
            is_spine: true,
            pieces,
        }
    }

    /// Whether it lies in pieces.
    pub fn is_spine(&self) -> bool {
        self.is_spine
    }

    /// Where the bytes from `offset` on lie: at most `most`, and no more than lie side by side and may be written alike.
    ///
    /// # Safety
    /// The array is where it was, and has these bytes.
    #[inline]
    pub unsafe fn run(&self, offset: usize, most: usize) -> Run {
        // SAFETY: as this function asks.
        let mut run = unsafe { self.run_of_part(offset, most) };
        if let Some(number) = run.part
            && run.bytes < most
            && run.writable
        {
            // What goes through a long array may be given up after a few elements.
            let most = most.min(MOST_BESIDE << self.pieces.arraylet_shift);
            // SAFETY: the array has `most` bytes from the offset on, as asked.
            run.bytes = unsafe { self.beside(run.at, run.bytes, most, number + 1) }.min(most);
        }
        run
    }

    /// As [`View::run`], and no more than lie in one part: for what goes through two arrays at once, of which the one
    /// with the shorter runs would have those of the other looked for again and again.
    ///
    /// # Safety
    /// As for [`View::run`].
    #[inline(always)]
    pub unsafe fn run_of_part(&self, offset: usize, most: usize) -> Run {
        let first_n = self.pieces.first_n;
        // Behind the last element there is no part.
        if !self.is_spine || offset < first_n || most == 0 {
            let bytes = if self.is_spine && most > 0 {
                most.min(first_n - offset)
            } else {
                most
            };
            return Run {
                at: element(self.array, offset, 1),
                bytes,
                part: None,
                writable: true,
                zero: false,
            };
        }
        let part = self.pieces.part(offset);
        // SAFETY: the spine has this part, as asked.
        let pointer = unsafe { self.pieces.load(self.array, part.number) };
        Run {
            at: self.pieces.target(pointer).add(part.within),
            bytes: most.min(self.pieces.arraylet_bytes() - part.within),
            part: Some(part.number),
            writable: !pointer.is_tainted(),
            zero: pointer == self.pieces.zero,
        }
    }

    /// How many bytes lie side by side from `at` on, where `bytes` do up to part `next`: arraylets are handed out in the
    /// order of their addresses, so those of an array that was filled in one go often follow each other. No more parts are
    /// looked at than `most` bytes take. Those beyond the first are untainted, as it is: each may be written.
    ///
    /// # Safety
    /// As for [`View::run`].
    #[inline(never)]
    unsafe fn beside(&self, at: Address, mut bytes: usize, most: usize, mut next: usize) -> usize {
        while bytes < most {
            // SAFETY: the spine has this part, since the array has so many bytes, as asked.
            let pointer = unsafe { self.pieces.load(self.array, next) };
            // A tainted pointer is another one.
            if pointer != self.pieces.pointer_to(at.add(bytes)) {
                break;
            }
            (bytes, next) = (bytes + self.pieces.arraylet_bytes(), next + 1);
        }
        bytes
    }

    /// As [`View::run`], of the bytes before `end`: how many of `most` there are that lie side by side up to there.
    ///
    /// # Safety
    /// As for [`View::run`].
    pub unsafe fn run_before(&self, end: usize, most: usize) -> Run {
        let first_n = self.pieces.first_n;
        let start = if !self.is_spine || end <= first_n {
            0
        } else {
            self.pieces.offset_of(self.pieces.part(end - 1).number)
        };
        let bytes = most.min(end - start);
        // SAFETY: as this function asks.
        unsafe { self.run_of_part(end - bytes, bytes) }
    }

    /// The numbers of the parts that hold arraylets and lie wholly in `bytes` bytes from `offset` on.
    ///
    /// # Safety
    /// As for [`View::run`]; the array has `all` bytes.
    pub fn whole_parts(&self, offset: usize, bytes: usize, all: usize) -> std::ops::Range<usize> {
        let (first_n, shift) = (self.pieces.first_n, self.pieces.arraylet_shift);
        if !self.is_spine || offset + bytes <= first_n {
            return 0..0;
        }
        let first = offset.saturating_sub(first_n).div_ceil(1 << shift);
        let end = ((offset + bytes - first_n) >> shift).min(self.pieces.arraylets(all));
        first..end.max(first)
    }

    /// How many parts of a range would have to be instantiated before all of it is written; those that are all zero only
    /// if `zeros` says so.
    ///
    /// # Safety
    /// As for [`View::run`].
    pub unsafe fn tainted(&self, offset: usize, bytes: usize, zeros: bool) -> usize {
        let (mut at, mut count) = (offset, 0);
        while self.is_spine && at < offset + bytes {
            // SAFETY: as this function asks.
            let run = unsafe { self.run(at, offset + bytes - at) };
            count += usize::from(!run.writable && (zeros || !run.zero));
            at += run.bytes;
        }
        count
    }
}

/// Whether an array lies in pieces.
///
/// # Safety
/// `array` is a valid reference to an array.
#[inline(always)]
unsafe fn is_spine(array: Address) -> bool {
    // SAFETY: an object lies there, as asked, so a header does.
    unsafe { header::load(array, Ordering::Relaxed) }.is_spine()
}

/// The far path: an element that may lie beyond the first N bytes.
impl Mutator {
    /// An array, as what works on many elements sees it.
    ///
    /// # Safety
    /// `array` is a valid reference to an array.
    #[inline]
    pub(super) unsafe fn view(&self, array: Address) -> View {
        // SAFETY: as this function asks; the record has what the heap has.
        unsafe { View::new(array, self.record().pieces) }
    }

    /// Where an element lies, for a load, that does not lie in the first N bytes.
    ///
    /// # Safety
    /// As for [`Mutator::load_element_in`].
    #[inline(always)]
    pub(super) unsafe fn far<E: Element>(&self, array: Address, index: usize) -> Address {
        // SAFETY: a valid reference, as asked.
        if !E::Layout::ALL_CUT && !unsafe { is_spine(array) } {
            return element(array, index, E::BYTES);
        }
        // SAFETY: a spine that has the element, as asked.
        let (pieces, within, pointer) = unsafe { self.in_part::<E>(array, index) };
        pieces.target(pointer).add(within)
    }

    /// Where an element lies, for a store, that does not lie in the first N bytes; `None` if the part may not be written.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[inline(always)]
    pub(super) unsafe fn far_to_write<E: Element>(
        &self,
        array: Address,
        index: usize,
    ) -> Option<Address> {
        // SAFETY: a valid reference, as asked.
        if !E::Layout::ALL_CUT && !unsafe { is_spine(array) } {
            return Some(element(array, index, E::BYTES));
        }
        // SAFETY: a spine that has the element, as asked.
        let (pieces, within, pointer) = unsafe { self.in_part::<E>(array, index) };
        (!pointer.is_tainted()).then(|| pieces.untainted(pointer).add(within))
    }

    /// How arrays are cut, where in its part an element of a spine lies that is beyond the first N bytes, and the pointer to
    /// the part.
    ///
    /// # Safety
    /// `array` is a valid reference to a spine of such elements, which has more than `index`.
    #[inline(always)]
    unsafe fn in_part<E: Element>(&self, array: Address, index: usize) -> (Pieces, usize, Pointer) {
        // SAFETY: a valid reference, as asked.
        debug_assert!(unsafe { is_spine(array) }, "code for arrays in pieces");
        let pieces = E::Layout::pieces(self.record());
        // An array has fewer than 2^32 elements: said so that the number of the part is scaled as it is added to an address,
        // where the compiler would mask it otherwise.
        let part = pieces.part(index as u32 as usize * E::BYTES);
        // SAFETY: the spine has this part, since the array has the element, as asked.
        let pointer = unsafe { pieces.load(array, part.number) };
        (pieces, part.within, pointer)
    }

    /// Cold, so that what a loop has in registers is saved where this is called, and not where each of its stores goes.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn store_far<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        let pieces = E::Layout::pieces(self.record());
        // SAFETY: the array has this element, as asked.
        let run = unsafe { View::new(array, pieces).run_of_part(index * E::BYTES, E::BYTES) };
        let at = if run.writable {
            run.at
        } else if run.zero && E::is_zero(item) {
            return Ok(());
        } else {
            // SAFETY: as this function asks.
            return unsafe { self.store_first::<E>(array, index, item) };
        };
        // SAFETY: such an element lies there, and the item is valid, as this function asks.
        unsafe { E::write_at(at, self.record().base, item) };
        if E::SLOTS {
            self.dirty(at);
        }
        Ok(())
    }

    /// Stores into a part that is tainted.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    #[cold]
    #[inline(never)]
    unsafe fn store_first<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(), OutOfMemory> {
        // SAFETY: as this function asks; the array and the item are rooted while something may collect.
        unsafe {
            let is_stocked = self.has_stock(Contents::of(E::SLOTS), 1);
            let (array, item) = match is_stocked {
                true => (array, item),
                false => self.stock_for_one::<E>(array, index, item)?,
            };
            let at = self.private::<E>(array, index);
            E::write_at(at, self.record().base, item);
            if E::SLOTS {
                self.dirty(at);
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Mutator::compare_exchange_element_in`].
    #[inline(never)]
    pub(super) unsafe fn exchange_far<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        expected: E::Item,
        new: E::Item,
    ) -> Result<Result<(), E::Item>, OutOfMemory> {
        let (mut array, mut expected, mut new) = (array, expected, new);
        // SAFETY: as this function asks; arrays and items are rooted while something may collect.
        unsafe {
            let run = self.view(array).run(index * E::BYTES, E::BYTES);
            let mut at = run.at;
            if !run.writable {
                // What is tainted is not written by others either, but for the first one, who installs a copy.
                if run.zero && !E::is_zero(expected) {
                    return Ok(Err(E::read_at(run.at, self.record().base)));
                }
                if run.zero && E::is_zero(new) {
                    return Ok(Ok(()));
                }
                let values = [Value::reference(array), E::root(expected), E::root(new)];
                let offset = index * E::BYTES;
                let [a, b, c] = self.stock(values, Contents::of(E::SLOTS), |mutator, values| {
                    let view = mutator.view(address(values[0]));
                    view.tainted(offset, E::BYTES, true)
                })?;
                (array, expected, new) = (address(a), E::moved(expected, b), E::moved(new, c));
                at = self.private::<E>(array, index);
            }
            let done = E::exchange_at(at, self.record().base, expected, new);
            if E::SLOTS && done.is_ok() {
                self.dirty(at);
            }
            Ok(done)
        }
    }

    /// Fills the stock for a store into one element; where the array and the item are then.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`].
    unsafe fn stock_for_one<E: Element>(
        &mut self,
        array: Address,
        index: usize,
        item: E::Item,
    ) -> Result<(Address, E::Item), OutOfMemory> {
        let values = [Value::reference(array), E::root(item)];
        let offset = index * E::BYTES;
        // SAFETY: valid values, as this function asks; the array has the element wherever it lies.
        unsafe {
            let [array, root] = self.stock(values, Contents::of(E::SLOTS), |mutator, values| {
                let view = mutator.view(address(values[0]));
                view.tainted(offset, E::BYTES, true)
            })?;
            Ok((address(array), E::moved(item, root)))
        }
    }

    /// Where an element lies whose part is this array's alone from now on.
    ///
    /// # Safety
    /// As for [`Mutator::store_element_in`]; the stock is filled for it.
    unsafe fn private<E: Element>(&self, array: Address, index: usize) -> Address {
        // SAFETY: the array has this element, as asked.
        unsafe {
            let run = self.view(array).run(index * E::BYTES, E::BYTES);
            self.writable(array, &run, Contents::of(E::SLOTS), Filling::Same)
        }
    }
}

/// The reference that a value holds that is no immediate.
pub(super) fn address(value: Value) -> Address {
    Address::new(value.bits() as usize)
}

/// How many values wait while a stock is filled, at most: a place, what is expected there, and what is to be stored.
const MOST_STOCKED: usize = 3;

/// The stock of arraylets.
impl Mutator {
    /// Fills the stock with what `needed` says, whose arrays are among the values: these are rooted meanwhile. Returns what
    /// became of them.
    ///
    /// # Safety
    /// The values are valid; references that this thread holds elsewhere outside of root slots are not used again.
    #[inline]
    pub(super) unsafe fn stock<const N: usize>(
        &mut self,
        values: [Value; N],
        contents: Contents,
        needed: impl Fn(&Mutator, &[Value; N]) -> usize,
    ) -> Result<[Value; N], OutOfMemory> {
        const { assert!(N <= MOST_STOCKED) };
        let mut all = [Value::NULL; MOST_STOCKED];
        all[..N].copy_from_slice(&values);
        let first = |all: &[Value; MOST_STOCKED]| std::array::from_fn(|index| all[index]);
        // SAFETY: the values are valid, as asked; null is.
        let all = unsafe {
            self.stock_for_values(all, contents, &|mutator, all| needed(mutator, &first(all)))
        }?;
        Ok(first(&all))
    }

    /// As [`Mutator::stock`]: compiled once.
    ///
    /// # Safety
    /// As for [`Mutator::stock`].
    #[cold]
    #[inline(never)]
    unsafe fn stock_for_values(
        &mut self,
        values: [Value; MOST_STOCKED],
        contents: Contents,
        needed: &dyn Fn(&Mutator, &[Value; MOST_STOCKED]) -> usize,
    ) -> Result<[Value; MOST_STOCKED], OutOfMemory> {
        self.assert_inside("a store into an array");
        let count = needed(self, &values);
        // SAFETY: inside the gate.
        if count == 0 || unsafe { self.has_stock(contents, count) } {
            return Ok(values);
        }
        self.assert_may_collect("a store into an array");
        let body = |mutator: &mut Mutator, roots: &[std::cell::Cell<Value>; MOST_STOCKED]| {
            let mut next = Some(Extent::Young);
            // SAFETY: inside the gate; what is used again is in the roots.
            unsafe { mutator.before_stock(contents, count) };
            loop {
                let values = roots.each_ref().map(std::cell::Cell::get);
                let count = needed(mutator, &values);
                // SAFETY: inside the gate.
                if unsafe { mutator.fill_stock(contents, count) } {
                    return Ok(values);
                }
                // SAFETY: inside the gate; what is used again is in the roots.
                if !unsafe { mutator.make_room_for_stock(contents, count, &mut next) } {
                    let bytes = count << mutator.record().pieces.arraylet_shift;
                    return Err(OutOfMemory { bytes });
                }
            }
        };
        // SAFETY: the values are valid, as asked.
        unsafe { self.with_roots(values, body) }
    }

    /// Whether nothing needs to be taken. This and the next three are no generic functions, so that what they need of the
    /// collector is compiled once, and not again in each crate that stores.
    ///
    /// # Safety
    /// This thread is inside the gate.
    unsafe fn has_stock(&self, contents: Contents, count: usize) -> bool {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as asked.
        with_heap!(&self.shared.kind, heap => unsafe { heap.has_stock(record, contents, count) })
    }

    /// # Safety
    /// This thread is inside the gate; its references outside of root slots are not used again.
    unsafe fn before_stock(&self, contents: Contents, count: usize) {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as asked.
        with_heap!(&self.shared.kind, heap => unsafe { heap.before_stock(record, contents, count) });
    }

    /// # Safety
    /// This thread is inside the gate.
    unsafe fn fill_stock(&self, contents: Contents, count: usize) -> bool {
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, as asked.
        with_heap!(&self.shared.kind, heap => unsafe { heap.stock(record, contents, count) })
    }

    /// # Safety
    /// As for [`Mutator::before_stock`].
    unsafe fn make_room_for_stock(
        &self,
        contents: Contents,
        count: usize,
        next: &mut Option<Extent>,
    ) -> bool {
        // SAFETY: this thread's mutator is inside the gate, as asked.
        with_heap!(&self.shared.kind, heap => unsafe {
            heap.make_room_for_stock(contents, count, 0, next)
        })
    }

    /// Where a run lies that is to be written: in an arraylet from the stock, if it must not be written where it is.
    ///
    /// # Safety
    /// The run is one of the array, whose elements are slots if `contents` says so; the stock has an arraylet for it if it
    /// is not writable.
    pub(super) unsafe fn writable(
        &self,
        array: Address,
        run: &Run,
        contents: Contents,
        filling: Filling,
    ) -> Address {
        let Some(number) = run.part.filter(|_| !run.writable) else {
            return run.at;
        };
        let within = run.at.word() & (self.record().pieces.arraylet_bytes() - 1);
        let record = self.record_place();
        // SAFETY: this thread's mutator, inside the gate, with a stock; the array is a spine that has this part.
        let arraylet = with_heap!(&self.shared.kind, heap => unsafe {
            heap.instantiate(record, (array, number), contents, filling)
        });
        arraylet.add(within)
    }
}
