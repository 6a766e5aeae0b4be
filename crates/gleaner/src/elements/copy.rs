//! Bulk copies of array elements, of arrays in pieces run by run (PLDI 2010, section 4.6), and whole arraylets by sharing
//! them (section 4.7, `share.rs`).
//!
//! Slots are copied one by one, each as a mutator would: a thread that reads one meanwhile finds the old value or the
//! new. The barrier dirties the cards of the whole range (I5).

use std::cell::RefCell;
use std::iter::Peekable;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use gleaner_mem::Address;
use gleaner_mem::object_model::element;
use gleaner_mem::shared_bytes;
use gleaner_mem::slot::{Compressed, Value, Wide};
use gleaner_plans::scavenge::arrays::{Contents, Filling};

use super::checks::check_range;
use super::copied::{Copied, Range};
use super::element::Element;
use super::runs::Run;
use super::share::{Found, Sharing};
use super::stock::address;
use crate::body::{OutOfMemory, with_heap};
use crate::mutator::Mutator;

/// How runs are copied.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// From the end.
    downward: bool,
    /// Element by element.
    singly: bool,
    copied: Copied,
}

/// Copies `count` items, which may overlap, as if they were all read before the first is written.
///
/// # Safety
/// `count` items of type `A` lie at `from` and at `to`.
unsafe fn copy_each<A>(from: Address, to: Address, count: usize, copy: impl Fn(&A, &A)) {
    let one = |index: usize| {
        let offset = index * size_of::<A>();
        // SAFETY: one of the items that lie there, as the caller promises.
        unsafe { copy(&*from.add(offset).ptr::<A>(), &*to.add(offset).ptr::<A>()) };
    };
    if to < from {
        (0..count).for_each(one);
    } else {
        (0..count).rev().for_each(one);
    }
}

impl Mutator {
    /// Copies `count` elements from index `from_index` of one array to index `to_index` of the same or another array,
    /// through the barrier. The ranges may overlap. Like an allocation, this may collect, and it fails when there is no
    /// memory.
    ///
    /// It panics if the arrays have different elements, or if a range reaches beyond the end of its array.
    ///
    /// # Safety
    /// Both are valid references. No other thread uses the elements meanwhile, unless they are references. Other
    /// references that this thread holds outside of root slots are not used again.
    pub unsafe fn copy_elements_raw(
        &mut self,
        from: Address,
        from_index: u32,
        to: Address,
        to_index: u32,
        count: u32,
    ) -> Result<(), OutOfMemory> {
        self.assert_may_collect("a copy of elements");
        // SAFETY: valid references, as the caller promises.
        let shape = unsafe { self.same_elements("a copy from", "to", from, to) };
        for (array, index) in [(from, from_index), (to, to_index)] {
            // SAFETY: an array.
            let length = unsafe { self.length_raw(array) };
            check_range("a copy of", length, index as usize, count as usize);
        }
        let copied = match shape {
            Some(log2) => Copied::Numbers(log2),
            None => Copied::Slots,
        };
        let indices = [from_index, to_index, count].map(|number| number as usize);
        // SAFETY: both are arrays of such elements and have these, which was checked, and no other thread uses numbers.
        unsafe { self.copy_between(from, to, indices, copied) }
    }

    /// Copies elements: `[from_index, to_index, count]`.
    ///
    /// # Safety
    /// As for [`Mutator::copy_elements_raw`], for arrays with such elements, which have these ranges.
    pub(super) unsafe fn copy_between(
        &mut self,
        from: Address,
        to: Address,
        indices: [usize; 3],
        copied: Copied,
    ) -> Result<(), OutOfMemory> {
        let log2 = self.log2(copied);
        let [from_offset, to_offset, bytes] = indices.map(|number| number << log2);
        self.count_copy(from_offset, to_offset, bytes);
        let first_n = self.record().pieces.first_n;
        if from_offset + bytes <= first_n && to_offset + bytes <= first_n {
            let (from, to) = (element(from, from_offset, 1), element(to, to_offset, 1));
            // SAFETY: both ranges lie in one piece, behind the lengths.
            unsafe { self.transfer(from, to, bytes, copied) };
            return Ok(());
        }
        let range = Range {
            from: from_offset,
            to: to_offset,
            bytes,
        };
        // SAFETY: both are arrays of such elements and have these ranges, as the caller promises.
        unsafe {
            if bytes < self.record().pieces.arraylet_bytes()
                && self.copy_single_run(from, to, range, copied)
            {
                return Ok(());
            }
            self.copy_far(from, to, range, copied)
        }
    }

    /// Copies a range of less than an arraylet if it lies side by side in both arrays and may be written; whether it
    /// does.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`].
    unsafe fn copy_single_run(
        &self,
        from: Address,
        to: Address,
        all: Range,
        copied: Copied,
    ) -> bool {
        // SAFETY: the arrays have these ranges, as the caller promises.
        unsafe {
            let read = self.runs(from).in_one_part(all.from, all.bytes);
            let write = self.runs(to).in_one_part(all.to, all.bytes);
            let is_one = read.bytes.min(write.bytes) == all.bytes && write.writable;
            if !is_one || self.copies_singly() {
                return false;
            }
            self.transfer(read.at, write.at, all.bytes, copied);
            if write.part.is_some() {
                self.record()
                    .count_arrays(|counts| counts.copied_bytes += all.bytes as u64);
            }
        }
        true
    }

    /// Whether copies of arrays in pieces go element by element.
    fn copies_singly(&self) -> bool {
        with_heap!(&self.shared.kind, heap => heap.config.cutting)
            .is_some_and(|cutting| !cutting.fast_copy)
    }

    pub(super) fn log2(&self, copied: Copied) -> u32 {
        match copied {
            Copied::Slots => self.record().slot_bytes.trailing_zeros(),
            Copied::Numbers(log2) | Copied::SharedNumbers(log2) => log2,
        }
    }

    /// Copies bytes that lie side by side, as if all were read before the first is written.
    ///
    /// # Safety
    /// `bytes` bytes of such elements lie at both places.
    #[inline]
    pub(super) unsafe fn transfer(&self, from: Address, to: Address, bytes: usize, copied: Copied) {
        macro_rules! copy_as {
            ($atomic:ty, $load:ident, $store:ident) => {
                // SAFETY: `bytes` bytes of elements of this width lie at both places, as the caller promises.
                unsafe {
                    copy_each(
                        from,
                        to,
                        bytes / size_of::<$atomic>(),
                        |from: &$atomic, to: &$atomic| {
                            to.store(from.load(Ordering::$load), Ordering::$store);
                        },
                    )
                }
            };
        }
        macro_rules! copy_numbers {
            ($atomic:ty) => {
                // SAFETY: `bytes` bytes of numbers of this width lie at both places, as the caller promises, and other
                // threads use them by atomic accesses of this width.
                unsafe {
                    shared_bytes::copy_numbers(from, to, bytes, |from: &$atomic, to: &$atomic| {
                        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                    })
                }
            };
        }
        match copied {
            // SAFETY: `bytes` bytes lie at both places, and no other thread uses them, as the caller promises.
            Copied::Numbers(_) => unsafe { from.ptr::<u8>().copy_to(to.ptr(), bytes) },
            // SAFETY: `bytes` bytes lie at both places, and other threads use them byte by byte.
            Copied::SharedNumbers(0) => unsafe { shared_bytes::copy(from, to, bytes) },
            Copied::SharedNumbers(1) => copy_numbers!(AtomicU16),
            Copied::SharedNumbers(2) => copy_numbers!(AtomicU32),
            Copied::SharedNumbers(_) => copy_numbers!(AtomicU64),
            // A slot acquires and releases, so that the objects behind the values are seen as they are.
            Copied::Slots => {
                if self.compressed {
                    copy_as!(AtomicU32, Acquire, Release);
                } else {
                    copy_as!(AtomicU64, Acquire, Release);
                }
                self.dirty_range(to, to.add(bytes));
            }
        }
    }

    /// # Safety
    /// As for [`Mutator::copy_between`].
    #[inline(never)]
    unsafe fn copy_far(
        &mut self,
        from: Address,
        to: Address,
        all: Range,
        copied: Copied,
    ) -> Result<(), OutOfMemory> {
        let cutting = with_heap!(&self.shared.kind, heap => heap.config.cutting);
        let copies = Copies {
            // Elements of one array are copied as if all were read first.
            downward: from == to && all.from < all.to,
            singly: self.copies_singly(),
            copied,
        };
        let overlaps = from == to && all.from.abs_diff(all.to) < all.bytes;
        let shares = !overlaps && cutting.is_some_and(|cutting| cutting.copy_on_write);
        let contents = Contents::of(copied == Copied::Slots);
        let whole = match shares {
            // SAFETY: the arrays have these ranges, as the caller promises.
            true => unsafe { self.shareable_range(from, to, all) },
            false => None,
        };
        let mut values = [from, to].map(Value::reference);
        let found = RefCell::new(Found::default());
        // A way that was declined is not asked for again: what is copied instead is counted once.
        let mut declined = None;
        for sharing in Sharing::ORDER {
            if declined == Some(sharing) {
                continue;
            }
            let at_once = whole.filter(|_| sharing != Sharing::OneByOne);
            // SAFETY: valid references, as the caller promises; the arrays have these ranges wherever they lie, and
            // nothing polls behind what fills the stock.
            unsafe {
                if sharing != Sharing::OneByOne
                    && !at_once.is_some_and(|range| {
                        self.may_share(sharing, values.map(address), all.part(range))
                    })
                {
                    declined = Some(sharing);
                    continue;
                }
                let ranges = all.without(at_once);
                values = self.fill_stock_for(values, contents, |mutator, values| {
                    let [from, to] = values.map(address);
                    let mut found = found.borrow_mut();
                    *found = Found::default();
                    for range in ranges {
                        mutator.find_tainted(from, to, range, &copies, whole.is_some(), &mut found);
                    }
                    found.to_untaint.len()
                })?;
                // Nothing was written yet, so that all or nothing is copied.
                if let Some(range) = at_once {
                    let done;
                    (values, done) = self.share_parts(sharing, values, all.part(range), contents);
                    if !done {
                        continue;
                    }
                }
                let [from, to] = values.map(address);
                self.copy_found(from, to, ranges, &copies, found.into_inner());
            }
            return Ok(());
        }
        unreachable!("what is not shared at once is shared or copied one by one")
    }

    /// Copies ranges, for which the stock is filled: first leads parts to what is shared already, then copies the rest.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`]; `found` is what [`Mutator::find_tainted`] found for these ranges, and the stock is
    /// filled for it.
    unsafe fn copy_found(
        &mut self,
        from: Address,
        to: Address,
        ranges: [Range; 2],
        copies: &Copies,
        mut found: Found,
    ) {
        // SAFETY: the arrays have these ranges, and the stock is filled, as the caller promises.
        unsafe {
            self.lead_parts(to, &found.to_lead, copies.copied);
            found.to_lead.sort_unstable();
            if copies.singly {
                found.to_untaint.sort_unstable();
                for range in ranges {
                    self.copy_singly(from, to, range, copies, &found);
                }
            } else {
                let mut to_untaint = found.to_untaint.iter().copied().peekable();
                for range in ranges {
                    self.copy_runs(from, to, range, copies, &mut to_untaint, &found);
                }
            }
        }
    }

    /// Adds the parts that a copy of a range makes private, and where it `leads` parts to what is shared, those: neither
    /// those that are all zero, and are to be.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`].
    #[inline(never)]
    unsafe fn find_tainted(
        &self,
        from: Address,
        to: Address,
        range: Range,
        copies: &Copies,
        leads: bool,
        found: &mut Found,
    ) {
        let arraylet_bytes = self.record().pieces.arraylet_bytes();
        // SAFETY: both arrays have this range, as the caller promises.
        unsafe {
            self.for_pairs(from, to, range, copies, |read, write| {
                if write.writable || write.zero && read.zero {
                    return;
                }
                let part = write.part.expect("what may not be written is a part");
                if leads && !read.writable && write.bytes == arraylet_bytes {
                    found.to_lead.push((part, read.at));
                } else if found.to_untaint.last() != Some(&part) {
                    found.to_untaint.push(part);
                }
            });
        }
    }

    /// # Safety
    /// As for [`Mutator::copy_between`]; the stock is filled for the parts `to_untaint`, which are given in the order
    /// of the copy; those that `found` says were led somewhere hold what they are to hold.
    #[inline(never)]
    unsafe fn copy_runs(
        &self,
        from: Address,
        to: Address,
        range: Range,
        copies: &Copies,
        to_untaint: &mut Peekable<impl Iterator<Item = usize>>,
        found: &Found,
    ) {
        let contents = Contents::of(copies.copied == Copied::Slots);
        let (mut beyond, mut last) = (0, None);
        // SAFETY: both arrays have this range, and the stock is filled for it, as the caller promises.
        unsafe {
            self.for_pairs(from, to, range, copies, |read, write| {
                if write.part.is_some_and(|part| found.was_led(part)) {
                    return;
                }
                if write.part.is_some() {
                    beyond += write.bytes as u64;
                }
                if to_untaint.peek().copied() == write.part && write.part.is_some() {
                    last = to_untaint.next();
                }
                // What was all zero when the stock was filled may stay so, even if another thread writes it meanwhile.
                if !write.writable && write.part != last {
                    return;
                }
                let filling = self.filling(write, copies.copied);
                let at = self.untaint_run(to, write, contents, filling);
                self.transfer(read.at, at, write.bytes, copies.copied);
            });
        }
        self.record()
            .count_arrays(|counts| counts.copied_bytes += beyond);
    }

    /// Copies a range as a loop of loads and stores does.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`]; the stock is filled for what `found` says, which is in order.
    unsafe fn copy_singly(
        &self,
        from: Address,
        to: Address,
        range: Range,
        copies: &Copies,
        found: &Found,
    ) {
        // SAFETY: both are arrays of such elements and have this range, and the stock is filled for it, as the caller
        // promises.
        unsafe {
            match self.log2(copies.copied) {
                3 if copies.copied == Copied::Slots => {
                    self.copy_elements_singly::<Wide>(from, to, range, copies, found)
                }
                _ if copies.copied == Copied::Slots => {
                    self.copy_elements_singly::<Compressed>(from, to, range, copies, found);
                }
                0 => self.copy_elements_singly::<u8>(from, to, range, copies, found),
                1 => self.copy_elements_singly::<u16>(from, to, range, copies, found),
                2 => self.copy_elements_singly::<u32>(from, to, range, copies, found),
                _ => self.copy_elements_singly::<u64>(from, to, range, copies, found),
            }
        }
        let first_n = self.record().pieces.first_n;
        let beyond = (range.to + range.bytes).saturating_sub(range.to.max(first_n));
        let led = found.to_lead.len() << self.record().pieces.arraylet_shift;
        // SAFETY: a valid array, as the caller promises.
        if unsafe { self.runs(to) }.is_spine() {
            self.record()
                .count_arrays(|counts| counts.copied_bytes += beyond.saturating_sub(led) as u64);
        }
    }

    /// # Safety
    /// As for [`Mutator::copy_singly`], of arrays of `E`.
    #[inline(never)]
    unsafe fn copy_elements_singly<E: Element>(
        &self,
        from: Address,
        to: Address,
        range: Range,
        copies: &Copies,
        found: &Found,
    ) {
        let (contents, base) = (Contents::of(E::SLOTS), self.record().base);
        // SAFETY: valid arrays, as the caller promises.
        let (source, target) = unsafe { (self.runs(from), self.runs(to)) };
        let one = |offset: usize| {
            // SAFETY: both arrays have the element, as the caller promises, and the stock is filled.
            unsafe {
                let read = source.in_one_part(range.from + offset, E::BYTES);
                let item = E::read_at(read.at, base);
                let write = target.in_one_part(range.to + offset, E::BYTES);
                if write.part.is_some_and(|part| found.was_led(part)) {
                    return;
                }
                let was_tainted = |part| found.to_untaint.binary_search(&part).is_ok();
                // As in `copy_runs`, what was all zero when the stock was filled may stay so, also if another thread has led
                // it elsewhere meanwhile.
                if !write.writable && !write.part.is_some_and(was_tainted)
                    || write.zero && E::is_zero(item)
                {
                    return;
                }
                let at = self.untaint_run(to, &write, contents, Filling::Same);
                E::write_at(at, base, item);
                if E::SLOTS {
                    self.dirty(at);
                }
            }
        };
        let offsets = (0..range.bytes).step_by(E::BYTES);
        if copies.downward {
            offsets.rev().for_each(one);
        } else {
            offsets.for_each(one);
        }
    }

    /// Visits what of a range lies side by side in both arrays, from below or from above.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`]; nothing moves meanwhile.
    unsafe fn for_pairs(
        &self,
        from: Address,
        to: Address,
        range: Range,
        copies: &Copies,
        mut visit: impl FnMut(&Run, &Run),
    ) {
        // SAFETY: valid arrays, as the caller promises.
        let (from, to) = unsafe { (self.runs(from), self.runs(to)) };
        let mut done = 0;
        while done < range.bytes {
            let left = range.bytes - done;
            // SAFETY: the arrays have these ranges, as the caller promises.
            let (mut read, mut write) = unsafe {
                if copies.downward {
                    let read = from.ending_at(range.from + left, left);
                    let write = to.ending_at(range.to + left, read.bytes);
                    let skipped = read.bytes - write.bytes;
                    let at = read.at.add(skipped);
                    (Run { at, ..read }, write)
                } else {
                    let read = from.in_one_part(range.from + done, left);
                    (read, to.in_one_part(range.to + done, read.bytes))
                }
            };
            let bytes = read.bytes.min(write.bytes);
            (read.bytes, write.bytes) = (bytes, bytes);
            visit(&read, &write);
            done += bytes;
        }
    }
}
