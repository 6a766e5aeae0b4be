//! Which bytes of an array lie side by side? What works on many elements goes from run to run (PLDI 2010, section 4.6).

use std::ops::Range;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::header;
use gleaner_mem::object_model::element;
use gleaner_mem::spine::Pieces;

use crate::mutator::Mutator;

/// The most arraylets that are one run.
const MOST_ARRAYLETS: usize = 64;

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
pub(super) struct Runs {
    pub array: Address,
    is_spine: bool,
    pieces: Pieces,
}

impl Runs {
    /// # Safety
    /// `array` is a valid reference to an array of a heap whose arrays are cut so.
    #[inline(always)]
    pub unsafe fn new(array: Address, pieces: Pieces) -> Runs {
        Runs {
            array,
            // SAFETY: a valid reference, as the caller promises.
            is_spine: unsafe { is_spine(array) },
            pieces,
        }
    }

    /// Of an array that is known to lie in pieces.
    ///
    /// # Safety
    /// As for [`Runs::new`], and it does.
    #[inline(always)]
    pub unsafe fn of_spine(array: Address, pieces: Pieces) -> Runs {
        // SAFETY: a valid reference, as the caller promises.
        debug_assert!(unsafe { is_spine(array) }, "code for arrays in pieces");
        Runs {
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
    pub unsafe fn starting_at(&self, offset: usize, most: usize) -> Run {
        // SAFETY: the array is where it was and has these bytes, as the caller promises.
        let mut run = unsafe { self.in_one_part(offset, most) };
        if let Some(number) = run.part
            && run.bytes < most
            && run.writable
        {
            // What goes through a long array may be given up after a few elements.
            let most = most.min(MOST_ARRAYLETS << self.pieces.arraylet_shift);
            // SAFETY: the array has `most` bytes from the offset on, as the caller promises.
            run.bytes =
                unsafe { self.bytes_side_by_side(run.at, run.bytes, most, number + 1) }.min(most);
        }
        run
    }

    /// As [`Runs::starting_at`], and no more than lie in one part. This is for loops over two arrays at once: longer
    /// runs of one array would be looked for again and again, since the shorter runs of the other cut them.
    ///
    /// # Safety
    /// As for [`Runs::starting_at`].
    #[inline(always)]
    pub unsafe fn in_one_part(&self, offset: usize, most: usize) -> Run {
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
        // SAFETY: the spine has this part, as the caller promises.
        let pointer = unsafe { self.pieces.load(self.array, part.number) };
        Run {
            at: self.pieces.target(pointer).add(part.within),
            bytes: most.min(self.pieces.arraylet_bytes() - part.within),
            part: Some(part.number),
            writable: !pointer.is_tainted(),
            zero: pointer == self.pieces.zero,
        }
    }

    /// How many bytes lie side by side from `at` on, where `bytes` do up to part `next`. Arraylets are handed out in
    /// the order of their addresses, so those of an array that was filled in one go often follow each other.
    ///
    /// No more parts are looked at than `most` bytes take. Those beyond the first are untainted, as it is: each may be
    /// written.
    ///
    /// # Safety
    /// As for [`Runs::starting_at`].
    #[inline(never)]
    unsafe fn bytes_side_by_side(
        &self,
        at: Address,
        mut bytes: usize,
        most: usize,
        mut next: usize,
    ) -> usize {
        while bytes < most {
            // SAFETY: the spine has this part, since the array has `most` bytes from the run's offset on.
            let pointer = unsafe { self.pieces.load(self.array, next) };
            // A tainted pointer is another one.
            if pointer != self.pieces.pointer_to(at.add(bytes)) {
                break;
            }
            (bytes, next) = (bytes + self.pieces.arraylet_bytes(), next + 1);
        }
        bytes
    }

    /// As [`Runs::starting_at`], of the bytes before `end`: how many of `most` there are that lie side by side up to
    /// there.
    ///
    /// # Safety
    /// As for [`Runs::starting_at`].
    pub unsafe fn ending_at(&self, end: usize, most: usize) -> Run {
        let first_n = self.pieces.first_n;
        let start = if !self.is_spine || end <= first_n {
            0
        } else {
            self.pieces.offset_of(self.pieces.part(end - 1).number)
        };
        let bytes = most.min(end - start);
        // SAFETY: the array is where it was and has these bytes, as the caller promises.
        unsafe { self.in_one_part(end - bytes, bytes) }
    }

    /// The numbers of the parts that hold arraylets and lie wholly in `bytes` bytes from `offset` on.
    ///
    /// # Safety
    /// As for [`Runs::starting_at`]; the array has `all` bytes.
    pub fn whole_parts(&self, offset: usize, bytes: usize, all: usize) -> Range<usize> {
        let (first_n, shift) = (self.pieces.first_n, self.pieces.arraylet_shift);
        if !self.is_spine || offset + bytes <= first_n {
            return 0..0;
        }
        let first = offset.saturating_sub(first_n).div_ceil(1 << shift);
        let end = ((offset + bytes - first_n) >> shift).min(self.pieces.arraylets(all));
        first..end.max(first)
    }

    /// How many parts of a range would have to be instantiated before all of it is written.
    ///
    /// # Safety
    /// As for [`Runs::starting_at`].
    pub unsafe fn count_tainted(&self, offset: usize, bytes: usize) -> usize {
        let (mut at, mut count) = (offset, 0);
        while self.is_spine && at < offset + bytes {
            // SAFETY: the array is where it was and has these bytes, as the caller promises.
            let run = unsafe { self.starting_at(at, offset + bytes - at) };
            count += usize::from(!run.writable);
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
pub(super) unsafe fn is_spine(array: Address) -> bool {
    // SAFETY: an object lies there, as the caller promises, so a header does.
    unsafe { header::load(array, Ordering::Relaxed) }.is_spine()
}

impl Mutator {
    /// An array, as what works on many elements sees it.
    ///
    /// # Safety
    /// `array` is a valid reference to an array.
    #[inline]
    pub(super) unsafe fn runs(&self, array: Address) -> Runs {
        // SAFETY: a valid reference to an array, as the caller promises; the record says how the heap cuts arrays.
        unsafe { Runs::new(array, self.record().pieces) }
    }

    /// Visits the runs of a range of bytes, in order.
    ///
    /// # Safety
    /// `array` is a valid reference to an array that has this range, and stays where it is.
    pub(super) unsafe fn for_each_run(
        &self,
        array: Address,
        offset: usize,
        bytes: usize,
        mut visit: impl FnMut(&Run),
    ) {
        // SAFETY: an array, as the caller promises.
        let runs = unsafe { self.runs(array) };
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            // SAFETY: the array has this range, as the caller promises.
            let run = unsafe { runs.starting_at(at, end - at) };
            visit(&run);
            at += run.bytes;
        }
    }
}
