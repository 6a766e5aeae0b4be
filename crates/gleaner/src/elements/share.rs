//! Copies that share whole arraylets instead of copying them (PLDI 2010, section 4.7). How the collector's part does it
//! while other mutators run, `arrays/sharing.rs` of the plan says.
//!
//! # Invariants
//! - A copy that shares at once has written nothing before, and holds the stock for what it copies besides.
//! - A part that was led to a shared arraylet is not copied again: other mutators may have written it since.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::arrays::Contents;

use super::copied::{Copied, Range};
use super::stock::address;
use crate::body::with_heap;
use crate::mutator::Mutator;

/// How the whole arraylets of a range are shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// All of them, since no other mutator is attached.
    Alone,
    /// All of them, while the others are stopped.
    InAStop,
    /// Those that are shared already, or zero, into parts that are; the others are copied.
    OneByOne,
}

impl Sharing {
    /// One after the other is tried. A stop is asked for once more if a collection or another one came first.
    pub const ORDER: [Sharing; 4] = [
        Sharing::Alone,
        Sharing::InAStop,
        Sharing::InAStop,
        Sharing::OneByOne,
    ];
}

/// What a copy does with tainted parts of the array that it writes: found before it writes anything.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Parts that get an arraylet of their own.
    pub to_untaint: Vec<usize>,
    /// Parts that are led to an arraylet which is shared already.
    pub to_lead: Vec<(usize, Address)>,
}

impl Found {
    /// Whether a part was led somewhere. They are in order.
    pub fn was_led(&self, part: usize) -> bool {
        let found = self.to_lead.binary_search_by_key(&part, |&(part, _)| part);
        found.is_ok()
    }
}

impl Mutator {
    /// Where in a range whole arraylets correspond to whole arraylets: bytes before, and bytes.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`].
    pub(super) unsafe fn shareable_range(
        &self,
        from: Address,
        to: Address,
        all: Range,
    ) -> Option<(usize, usize)> {
        let pieces = self.record().pieces;
        if !pieces.cut() || (all.from.wrapping_sub(all.to)) & (pieces.arraylet_bytes() - 1) != 0 {
            return None;
        }
        // SAFETY: valid arrays, as the caller promises.
        unsafe {
            // The arraylets of an immortal array are never those of another.
            if [from, to].iter().any(|&array| self.is_immortal(array)) {
                return None;
            }
            let parts = [(from, all.from), (to, all.to)].map(|(array, offset)| {
                let bytes = self.bytes_of(array);
                let whole = self.runs(array).whole_parts(offset, all.bytes, bytes);
                let relative = |number| pieces.offset_of(number) - offset;
                (!whole.is_empty()).then(|| (relative(whole.start), relative(whole.end)))
            });
            let (Some(one), Some(other)) = (parts[0], parts[1]) else {
                return None;
            };
            let (start, end) = (one.0.max(other.0), one.1.min(other.1));
            (start < end).then(|| (start, end - start))
        }
    }

    /// Bytes of all elements of an array.
    ///
    /// # Safety
    /// `array` is a valid reference to an array.
    unsafe fn bytes_of(&self, array: Address) -> usize {
        // SAFETY: an array, as the caller promises.
        unsafe {
            let log2 = match self.element_raw(array) {
                Some(log2) => log2,
                None => self.log2(Copied::Slots),
            };
            (self.length_raw(array) as usize) << log2
        }
    }

    /// Whether the whole arraylets of a range may be shared at once in this way, as far as that is known before.
    ///
    /// # Safety
    /// As for [`Mutator::share_parts`].
    pub(super) unsafe fn may_share(
        &self,
        sharing: Sharing,
        arrays: [Address; 2],
        range: Range,
    ) -> bool {
        let is_alone = self.shared.mutators.load(Ordering::Relaxed) == 1;
        if sharing == Sharing::Alone {
            return is_alone;
        }
        let arraylet = self.record().pieces.arraylet_bytes();
        // SAFETY: valid arrays that have these ranges, as the caller promises.
        let own = unsafe {
            let [from, to] = arrays.map(|array| self.runs(array));
            let is_own = |&before: &usize| {
                from.in_one_part(range.from + before, arraylet).writable
                    || to.in_one_part(range.to + before, arraylet).writable
            };
            (0..range.bytes).step_by(arraylet).filter(is_own).count()
        };
        with_heap!(&self.shared.kind, heap => heap.stops_to_share(own * arraylet))
    }

    /// Shares the arraylets of a range of whole ones at once. Where the arrays are then, and whether it did: others may have
    /// come in between.
    ///
    /// # Safety
    /// As for [`Mutator::copy_between`]; the range is one of whole arraylets of both, and does not overlap itself.
    pub(super) unsafe fn share_parts(
        &mut self,
        sharing: Sharing,
        arrays: [Value; 2],
        range: Range,
        contents: Contents,
    ) -> ([Value; 2], bool) {
        let pieces = self.record().pieces;
        let count = range.bytes >> pieces.arraylet_shift;
        let (first, to_first) = (pieces.part(range.from).number, pieces.part(range.to).number);
        let [from, to] = arrays.map(address);
        let mut touched = 0;
        let share_all = |mutator: &mut Mutator, roots: &[Cell<Value>; 2]| {
            let done = with_heap!(&mutator.shared.kind, heap => {
                let share = || for index in 0..count {
                    let (part, to_part) = ((from, first + index), (to, to_first + index));
                    // SAFETY: both have these parts, as the caller promises, since nothing was collected if this runs.
                    touched += u64::from(unsafe { heap.share(part, to_part, contents) });
                };
                match sharing {
                    Sharing::Alone => heap.while_alone(share),
                    _ => heap.in_a_stop(mutator.record(), share),
                }
            });
            (roots.each_ref().map(Cell::get), done)
        };
        // SAFETY: valid references, as the caller promises.
        let (arrays, done) = unsafe { self.with_roots(arrays, share_all) };
        if done {
            self.record().count_arrays(|counts| {
                counts.shared += count as u64;
                counts.touched += touched;
                counts.sharing_stops += u64::from(sharing == Sharing::InAStop);
            });
        }
        (arrays, done)
    }

    /// Leads parts of an array to arraylets that are shared already. Where another mutator has made one writable
    /// meanwhile, its elements are copied.
    ///
    /// # Safety
    /// The array has these parts, and nothing polled since tainted pointers to the arraylets were found.
    pub(super) unsafe fn lead_parts(
        &self,
        to: Address,
        parts: &[(usize, Address)],
        copied: Copied,
    ) {
        let contents = Contents::of(copied == Copied::Slots);
        let arraylet_bytes = self.record().pieces.arraylet_bytes();
        let (mut shared, mut touched, mut beyond) = (0, 0, 0);
        for &(part, arraylet) in parts {
            // SAFETY: the array has the part, and the pointer was found inside the gate, as the caller promises.
            let led = with_heap!(&self.shared.kind, heap => unsafe {
                heap.lead_to(arraylet, (to, part), contents)
            });
            match led {
                Ok(was_zero) => (shared, touched) = (shared + 1, touched + u64::from(was_zero)),
                Err(at) => {
                    // SAFETY: arraylets with such elements, as the caller promises; one is written, one is shared.
                    unsafe { self.transfer(arraylet, at, arraylet_bytes, copied) };
                    beyond += arraylet_bytes as u64;
                }
            }
        }
        if !parts.is_empty() {
            self.record().count_arrays(|counts| {
                counts.shared += shared;
                counts.touched += touched;
                counts.copied_bytes += beyond;
            });
        }
    }
}
