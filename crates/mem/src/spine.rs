//! Arrays in pieces: what a spine holds, and which piece an element lies in (PLDI 2010, sections 4.1 and 4.3).
//!
//! ```text
//!  spine:  header | length | the first N bytes | pointer ... pointer, pointer | remainder
//!                                                  |            |         |     ^
//!                                                  v            v         +-----+
//!                                              arraylet     arraylet
//! ```
//!
//! An array of more than N bytes is a spine. What is beyond N is cut into arraylets of one size, which have no header and
//! lie elsewhere; what does not fill one is the remainder, inline behind the pointers, with a pointer of its own. So every
//! element beyond N is reached in the same way. The length is that of the whole array. An array of up to N bytes lies in
//! one piece, and so does one of a type that is excluded, or pinned: the header says what an array is.
//!
//! An array that shrinks stays where it is, and stays a spine, though it may have no more than N bytes then. Elements never
//! move to another piece: where the last ones do not fill the arraylet in which they lie, there is no remainder, and the
//! last pointer leads to that arraylet.
//!
//! Pointers are as wide as slots. Their low bit is the taint: what the pointer leads to may not be written, since it is
//! shared, or is the zero arraylet, for which all of it is zero. So a store tests one bit.
//!
//! In guard mode (section 5.3) none of the elements lie behind the length, so that pages without access can: the *fence*.
//! The spine lies below it, with its pointers in descending order:
//!
//! ```text
//!  remainder | pointer, pointer ... pointer | header | length | fence: as many pages as all elements would have
//!                                  number 0 |        a page ends
//! ```
//!
//! # Invariants
//! - A pointer is that of the zero arraylet, of a live arraylet, or of the spine's own remainder. All spines lie below the
//!   zero arraylet, and all other arraylets above it: so the last pointer says whether there is a remainder.
//! - Who moves a spine sets the pointer to its remainder ([`Pieces::moved`]).
//! - Mutators race for pointers by compare-and-swap, from tainted to untainted or to another tainted one; all other changes
//!   are made while no other mutator runs.

use gleaner_base::sync::{AtomicU32, AtomicU64, Ordering};

use crate::Address;
use crate::object_layout::{ELEMENTS, LENGTH, whole_granules};

/// Of a pointer in a spine: what it leads to may not be written.
pub const TAINT: u64 = 1;

/// How the arrays of a heap are cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Pieces {
    /// How many bytes of an array lie in its spine and are accessed directly; [`usize::MAX`] where no array is cut.
    pub first_n: usize,
    /// The logarithm of an arraylet's bytes.
    pub arraylet_shift: u32,
    /// The logarithm of a pointer's bytes: 2 or 3.
    pub pointer_shift: u16,
    /// -1 in guard mode, where N is 0 and spines are fenced; 0 otherwise. (All bits of a word, so that no access to a
    /// pointer needs a branch.)
    pub fenced: i16,
    /// What pointers of 4 bytes count from, in units of 4 bytes; null for wide ones.
    pub base: Address,
    /// A tainted pointer to the zero arraylet.
    pub zero: Pointer,
}

/// A pointer in a spine, as it is stored there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Pointer(u64);

impl Pointer {
    /// As it is stored.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Whether what it leads to may not be written.
    #[inline(always)]
    pub const fn is_tainted(self) -> bool {
        self.0 & TAINT != 0
    }

    /// The same, and what it leads to may not be written.
    pub const fn tainted(self) -> Pointer {
        Pointer(self.0 | TAINT)
    }
}

/// Where an element beyond the first N bytes lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The number of the pointer.
    pub number: usize,
    /// Bytes from where the pointer leads.
    pub within: usize,
}

/// What lies beyond the first N bytes of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Beyond {
    /// How many pointers of the spine lead to arraylets, the zero arraylet among them.
    pub arraylets: usize,
    /// Bytes of the remainder.
    pub remainder: usize,
}

impl Pieces {
    /// Where no array is cut.
    pub const WHOLE: Pieces = Pieces {
        first_n: usize::MAX,
        arraylet_shift: 12,
        pointer_shift: 3,
        fenced: 0,
        base: Address::NULL,
        zero: Pointer(TAINT),
    };

    /// Arrays with `first_n` bytes in the spine and arraylets of 2^`arraylet_shift` bytes, in a heap whose slots count from `base`
    /// and has slots of `slot_bytes`; the zero arraylet lies at `zero`.
    pub fn new(
        first_n: usize,
        arraylet_shift: u32,
        slot_bytes: usize,
        base: Address,
        zero: Address,
    ) -> Pieces {
        let is_wide = slot_bytes == 8;
        let mut pieces = Pieces {
            first_n,
            arraylet_shift,
            pointer_shift: slot_bytes.trailing_zeros() as u16,
            fenced: 0,
            base: if is_wide { Address::NULL } else { base },
            zero: Pointer(0),
        };
        pieces.zero = pieces.pointer_to(zero).tainted();
        pieces
    }

    /// The same in guard mode.
    pub const fn in_guard_mode(self) -> Pieces {
        Pieces {
            first_n: 0,
            fenced: -1,
            ..self
        }
    }

    /// Whether spines are fenced.
    #[inline(always)]
    pub const fn is_fenced(&self) -> bool {
        self.fenced != 0
    }

    /// Whether any array is cut.
    pub const fn cut(&self) -> bool {
        self.first_n != usize::MAX
    }

    /// Bytes of an arraylet.
    #[inline(always)]
    pub const fn arraylet_bytes(&self) -> usize {
        1 << self.arraylet_shift
    }

    /// How many pointers the spine of an array with `bytes` bytes of elements has.
    pub const fn pointers(&self, bytes: usize) -> usize {
        bytes
            .saturating_sub(self.first_n)
            .div_ceil(self.arraylet_bytes())
    }

    /// How many arraylets such an array fills. [`Pieces::beyond`] says how many pointers lead to arraylets.
    pub const fn arraylets(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.first_n) >> self.arraylet_shift
    }

    /// Bytes of its elements that fill no arraylet.
    pub const fn remainder_bytes(&self, bytes: usize) -> usize {
        bytes.saturating_sub(self.first_n) & (self.arraylet_bytes() - 1)
    }

    /// Bytes of a spine without its remainder.
    const fn remainder_offset(&self, bytes: usize) -> usize {
        let near = if bytes < self.first_n {
            bytes
        } else {
            self.first_n
        };
        whole_granules(ELEMENTS + near + (self.pointers(bytes) << self.pointer_shift))
    }

    /// Where the remainder of a new array lies. One that has shrunk has its remainder there, too, if it has one; but in
    /// guard mode it lies where it was.
    pub const fn remainder(&self, spine: Address, bytes: usize) -> Address {
        if self.is_fenced() {
            return spine.add(ELEMENTS).sub(self.spine_bytes(bytes));
        }
        spine.add(self.remainder_offset(bytes))
    }

    /// Bytes of the spine of a new array, without its fence, with `bytes` bytes of elements, which are more than N.
    pub const fn spine_bytes(&self, bytes: usize) -> usize {
        whole_granules(self.remainder_offset(bytes) + self.remainder_bytes(bytes))
    }

    /// What lies beyond the first N bytes of an array with `bytes` bytes of elements. The number says it, unless the array
    /// has shrunk.
    ///
    /// # Safety
    /// A spine of `bytes` bytes of elements lies there. Its pointer to the remainder may still lead to where the spine was
    /// before it moved.
    pub unsafe fn beyond(&self, spine: Address, bytes: usize) -> Beyond {
        let (arraylets, remainder) = (self.arraylets(bytes), self.remainder_bytes(bytes));
        // SAFETY: what fills no arraylet has a pointer, the last one of the spine.
        if remainder > 0 && self.is_arraylet(unsafe { self.load(spine, arraylets) }) {
            return Beyond {
                arraylets: arraylets + 1,
                remainder: 0,
            };
        }
        Beyond {
            arraylets,
            remainder,
        }
    }

    /// Whether a pointer leads to an arraylet, and not to a remainder.
    const fn is_arraylet(&self, pointer: Pointer) -> bool {
        pointer.0 >= self.zero.0 & !TAINT
    }

    /// Bytes of a spine without its fence.
    ///
    /// # Safety
    /// As for [`Pieces::beyond`].
    pub unsafe fn size(&self, spine: Address, bytes: usize) -> usize {
        // SAFETY: a spine of `bytes` bytes of elements lies there, as asked.
        let beyond = unsafe { self.beyond(spine, bytes) };
        whole_granules(self.remainder_offset(bytes) + beyond.remainder)
    }

    /// The lowest address of a spine.
    ///
    /// # Safety
    /// As for [`Pieces::beyond`].
    pub unsafe fn start(&self, spine: Address, bytes: usize) -> Address {
        if self.is_fenced() {
            // SAFETY: a spine of `bytes` bytes of elements lies there, as asked.
            return spine.add(ELEMENTS).sub(unsafe { self.size(spine, bytes) });
        }
        spine
    }

    /// Where the remainder of a spine lies, and its bytes: none if there is no remainder.
    ///
    /// # Safety
    /// As for [`Pieces::beyond`], and the spine has its remainder where its pointer leads.
    pub unsafe fn remainder_of(&self, spine: Address, bytes: usize) -> (Address, usize) {
        // SAFETY: a spine of `bytes` bytes of elements lies there, as asked; a remainder has a pointer.
        unsafe {
            match self.beyond(spine, bytes) {
                Beyond { remainder: 0, .. } => (spine, 0),
                Beyond {
                    arraylets,
                    remainder,
                } => (self.target(self.load(spine, arraylets)), remainder),
            }
        }
    }

    /// Where the byte at an offset beyond N lies.
    #[inline(always)]
    pub const fn part(&self, offset: usize) -> Part {
        if self.first_n.trailing_zeros() >= self.arraylet_shift {
            // The same, and where both are known when code is compiled the difference is a part of an address.
            return Part {
                number: (offset >> self.arraylet_shift) - (self.first_n >> self.arraylet_shift),
                within: offset & (self.arraylet_bytes() - 1),
            };
        }
        let beyond = offset - self.first_n;
        Part {
            number: beyond >> self.arraylet_shift,
            within: beyond & (self.arraylet_bytes() - 1),
        }
    }

    /// As [`Pieces::part`], of an element beyond N by its index, of elements of `bytes` bytes: `within` counts elements, not
    /// bytes. Where the sizes are known when code is compiled, number and place are scaled as they are added to addresses.
    #[inline(always)]
    pub const fn part_of_element(&self, index: u32, bytes: usize) -> Part {
        let shift = self.arraylet_shift - bytes.trailing_zeros();
        let mask = (1 << shift) - 1;
        if self.first_n.trailing_zeros() >= self.arraylet_shift {
            return Part {
                number: (index >> shift) as usize - (self.first_n >> self.arraylet_shift),
                within: (index & mask) as usize,
            };
        }
        let beyond = index - (self.first_n / bytes) as u32;
        Part {
            number: (beyond >> shift) as usize,
            within: (beyond & mask) as usize,
        }
    }

    /// The offset of the first byte of a part.
    pub const fn offset_of(&self, number: usize) -> usize {
        self.first_n + (number << self.arraylet_shift)
    }

    /// Where pointer `number` of a spine lies: behind the first N bytes, or the number's complement, which is negative,
    /// before the header.
    #[inline(always)]
    const fn pointer_at(&self, spine: Address, number: usize) -> Address {
        let below = self.fenced as isize as usize;
        spine
            .add((ELEMENTS & !below) + self.first_n)
            .add((number ^ below) << self.pointer_shift)
    }

    /// An untainted pointer to an address of the heap.
    #[inline(always)]
    pub const fn pointer_to(&self, to: Address) -> Pointer {
        Pointer((to.offset_from(self.base) >> self.scale()) as u64)
    }

    /// Where a pointer leads.
    #[inline(always)]
    pub const fn target(&self, pointer: Pointer) -> Address {
        self.base
            .add(((pointer.0 & !TAINT) as usize) << self.scale())
    }

    /// Where a pointer leads that is not tainted.
    #[inline(always)]
    pub const fn untainted(&self, pointer: Pointer) -> Address {
        debug_assert!(!pointer.is_tainted());
        self.base.add((pointer.0 as usize) << self.scale())
    }

    /// 2 for pointers of 4 bytes, 0 for those of 8.
    #[inline(always)]
    const fn scale(&self) -> u16 {
        (3 - self.pointer_shift) * 2
    }

    /// Reads pointer `number` of a spine. An acquire: what it leads to is seen as it was when the pointer was set.
    ///
    /// # Safety
    /// A spine that has this pointer lies there.
    #[inline(always)]
    pub unsafe fn load(&self, spine: Address, number: usize) -> Pointer {
        let at = self.pointer_at(spine, number);
        // SAFETY: a pointer of this width lies there, aligned to it, since N and the offset of elements are multiples of
        // 8.
        Pointer(unsafe {
            if self.pointer_shift == 2 {
                u64::from((*at.ptr::<AtomicU32>()).load(Ordering::Acquire))
            } else {
                (*at.ptr::<AtomicU64>()).load(Ordering::Acquire)
            }
        })
    }

    /// Sets pointer `number` of a spine.
    ///
    /// # Safety
    /// As for [`Pieces::load`]; no other mutator runs, or none knows the array, and no other worker sets it.
    pub unsafe fn store(&self, spine: Address, number: usize, pointer: Pointer) {
        let at = self.pointer_at(spine, number);
        // SAFETY: the spine has this pointer, as asked, and it is aligned to its size.
        unsafe {
            if self.pointer_shift == 2 {
                (*at.ptr::<AtomicU32>()).store(pointer.0 as u32, Ordering::Release);
            } else {
                (*at.ptr::<AtomicU64>()).store(pointer.0, Ordering::Release);
            }
        }
    }

    /// Sets pointer `number` of a spine to `new` if it is `expected`; else the error is what it is.
    ///
    /// # Safety
    /// As for [`Pieces::load`].
    pub unsafe fn exchange(
        &self,
        spine: Address,
        number: usize,
        expected: Pointer,
        new: Pointer,
    ) -> Result<(), Pointer> {
        let at = self.pointer_at(spine, number);
        // SAFETY: the spine has this pointer, as asked, and it is aligned to its size.
        unsafe {
            if self.pointer_shift == 2 {
                (*at.ptr::<AtomicU32>())
                    .compare_exchange(
                        expected.0 as u32,
                        new.0 as u32,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    )
                    .map(drop)
                    .map_err(|found| Pointer(u64::from(found)))
            } else {
                (*at.ptr::<AtomicU64>())
                    .compare_exchange(expected.0, new.0, Ordering::AcqRel, Ordering::Acquire)
                    .map(drop)
                    .map_err(Pointer)
            }
        }
    }

    /// Bytes of all elements of an array whose elements have 2^`log2` bytes.
    ///
    /// # Safety
    /// An array of such elements lies there.
    #[inline(always)]
    pub unsafe fn bytes_of(&self, array: Address, log2: u32) -> usize {
        // SAFETY: an array lies there, as asked.
        let length = unsafe { array.add(LENGTH).ptr::<u32>().read() };
        (length as usize) << log2
    }

    /// Makes fresh memory a spine of an array with `bytes` bytes of elements: all beyond N is the zero arraylet but for
    /// the remainder.
    ///
    /// # Safety
    /// The memory is the caller's, has [`Pieces::spine_bytes`] bytes, and reads as zero where elements lie.
    pub unsafe fn begin(&self, spine: Address, bytes: usize) {
        for number in 0..self.arraylets(bytes) {
            // SAFETY: the spine has a pointer for each of its arraylets, and nobody else knows it.
            unsafe { self.store(spine, number, self.zero) };
        }
        if self.remainder_bytes(bytes) > 0 {
            // SAFETY: as before.
            unsafe { self.lead_to_remainder(spine, bytes) };
        }
    }

    /// A spine lies here from now on: its remainder does, too.
    ///
    /// # Safety
    /// A spine of `bytes` bytes of elements lies there, and nobody else uses it meanwhile.
    pub unsafe fn moved(&self, spine: Address, bytes: usize) {
        // SAFETY: a spine of `bytes` bytes of elements lies there, and nobody else uses it, as asked.
        unsafe {
            if self.beyond(spine, bytes).remainder > 0 {
                self.lead_to_remainder(spine, bytes);
            }
        }
    }

    /// # Safety
    /// As for [`Pieces::moved`], and the spine has a remainder.
    unsafe fn lead_to_remainder(&self, spine: Address, bytes: usize) {
        let remainder = self.pointer_to(self.remainder(spine, bytes));
        // SAFETY: the last pointer of the spine is that of the remainder, as asked.
        unsafe { self.store(spine, self.arraylets(bytes), remainder) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn pieces(slot_bytes: usize, base: Address) -> Pieces {
        Pieces::new(64, 8, slot_bytes, base, base.add(4096))
    }

    #[test]
    fn every_byte_lies_in_one_place_and_none_overlap() {
        for slot_bytes in [4, 8] {
            let mut memory: Vec<u64> = std::vec![0; 1024];
            let base = Address::of(memory.as_mut_ptr());
            let pieces = pieces(slot_bytes, base);
            for bytes in [65, 72, 319, 320, 321, 576, 577, 1000, 1023, 1024] {
                let (pointers, arraylets) = (pieces.pointers(bytes), pieces.arraylets(bytes));
                let remainder = pieces.remainder_bytes(bytes);
                assert_eq!(64 + arraylets * 256 + remainder, bytes);
                assert_eq!(pointers, arraylets + usize::from(remainder > 0));
                let end = ELEMENTS + 64 + pointers * slot_bytes;
                let offset = pieces.remainder(base, bytes).offset_from(base);
                assert!(offset >= end && offset.is_multiple_of(8) && offset < end + 8);
                assert_eq!(
                    pieces.spine_bytes(bytes),
                    (offset + remainder).next_multiple_of(8)
                );
                // SAFETY: the memory is this test's, and large enough.
                unsafe { pieces.begin(base, bytes) };
                for offset in 64..bytes {
                    let part = pieces.part(offset);
                    assert!(part.number < pointers && part.within < 256);
                    assert_eq!(pieces.offset_of(part.number) + part.within, offset);
                    for size in [1, 2, 4, 8].into_iter().filter(|size| offset % size == 0) {
                        let index = (offset / size) as u32;
                        let within = part.within / size;
                        assert_eq!(pieces.part_of_element(index, size), Part { within, ..part });
                    }
                    // SAFETY: a spine of `bytes` bytes of elements lies there.
                    let pointer = unsafe { pieces.load(base, part.number) };
                    if part.number < arraylets {
                        assert_eq!(pointer, pieces.zero);
                        assert!(pointer.is_tainted());
                        assert_eq!(pieces.target(pointer), base.add(4096));
                    } else {
                        assert!(!pointer.is_tainted());
                        assert_eq!(pieces.target(pointer), pieces.remainder(base, bytes));
                        assert!(part.within < remainder);
                    }
                }
            }
        }
    }

    #[test]
    fn a_fenced_spine_has_nothing_behind_its_length() {
        for slot_bytes in [4, 8] {
            let mut memory: Vec<u64> = std::vec![0; 1024];
            let base = Address::of(memory.as_mut_ptr());
            let spine = base.add(4096);
            let pieces = pieces(slot_bytes, base).in_guard_mode();
            for bytes in [1, 8, 255, 256, 257, 1000, 1023, 1024, 5000] {
                let arraylets = pieces.arraylets(bytes);
                let remainder = pieces.remainder(spine, bytes);
                assert!(remainder > base);
                assert_eq!(
                    remainder.add(pieces.spine_bytes(bytes)),
                    spine.add(ELEMENTS)
                );
                let mut ends = spine;
                for number in 0..pieces.pointers(bytes) {
                    let at = pieces.pointer_at(spine, number);
                    assert_eq!(at.add(slot_bytes), ends);
                    ends = at;
                }
                assert!(remainder.add(pieces.remainder_bytes(bytes)) <= ends);
                // SAFETY: the memory is this test's, and large enough on both sides of the spine's header.
                unsafe {
                    pieces.begin(spine, bytes);
                    assert_eq!(pieces.start(spine, bytes), remainder);
                    assert_eq!(pieces.size(spine, bytes), pieces.spine_bytes(bytes));
                }
                for offset in 0..bytes {
                    let part = pieces.part(offset);
                    // SAFETY: a spine of `bytes` bytes of elements lies there.
                    let pointer = unsafe { pieces.load(spine, part.number) };
                    if part.number < arraylets {
                        assert_eq!(pointer, pieces.zero);
                    } else {
                        assert_eq!(pieces.target(pointer), remainder);
                        assert!(part.within < pieces.remainder_bytes(bytes));
                    }
                }
            }
            assert!(memory[512..].iter().all(|&word| word == 0));
        }
    }

    #[test]
    fn a_spine_that_has_shrunk_keeps_the_pieces_of_its_elements() {
        for slot_bytes in [4, 8] {
            let mut memory: Vec<u64> = std::vec![0; 1024];
            let base = Address::of(memory.as_mut_ptr());
            let pieces = pieces(slot_bytes, base);
            let own = pieces.pointer_to(base.add(6144));
            let beyond = |arraylets, remainder| Beyond {
                arraylets,
                remainder,
            };
            // SAFETY: the memory is this test's: for a spine of three arraylets and a remainder, and for another one.
            unsafe {
                let all = 64 + 3 * 256 + 100;
                pieces.begin(base, all);
                pieces.store(base, 2, own);
                assert_eq!(pieces.beyond(base, all), beyond(3, 100));
                assert_eq!(pieces.size(base, all), pieces.spine_bytes(all));
                let remainder = pieces.remainder(base, all);
                assert_eq!(pieces.remainder_of(base, all), (remainder, 100));
                for (bytes, expected) in [
                    (all - 60, beyond(3, 40)),
                    (all - 100, beyond(3, 0)),
                    // The arraylet of its own, and the zero arraylet.
                    (all - 101, beyond(3, 0)),
                    (64 + 2 * 256 + 1, beyond(3, 0)),
                    (64 + 2 * 256, beyond(2, 0)),
                    (64 + 256 + 8, beyond(2, 0)),
                    (64 + 1, beyond(1, 0)),
                    (64, beyond(0, 0)),
                    (10, beyond(0, 0)),
                    (0, beyond(0, 0)),
                ] {
                    assert_eq!(pieces.beyond(base, bytes), expected, "{bytes} bytes");
                    let pointers = expected.arraylets + usize::from(expected.remainder > 0);
                    let end = ELEMENTS + bytes.min(64) + pointers * slot_bytes;
                    assert_eq!(
                        pieces.size(base, bytes),
                        (end.next_multiple_of(8) + expected.remainder).next_multiple_of(8)
                    );
                    let has_remainder = expected.remainder > 0;
                    let found = pieces.remainder_of(base, bytes);
                    assert_eq!(
                        found,
                        (
                            if has_remainder { remainder } else { base },
                            expected.remainder
                        )
                    );
                    // It moves with what it has.
                    let to = base.add(2048);
                    let words = pieces.size(base, bytes) / 8;
                    base.ptr::<u64>().copy_to(to.ptr(), words);
                    pieces.moved(to, bytes);
                    assert_eq!(pieces.beyond(to, bytes), expected);
                    for number in 0..expected.arraylets {
                        assert_eq!(pieces.load(to, number), pieces.load(base, number));
                    }
                    if has_remainder {
                        let moved = pieces.load(to, expected.arraylets);
                        assert_eq!(pieces.target(moved), pieces.remainder(to, bytes));
                    }
                }
            }
        }
    }

    #[test]
    fn pointers_of_4_bytes_reach_as_far_as_slots() {
        use crate::slot::{Compressed, SlotFormat};
        let base = Address::new(1 << 30);
        let pieces = pieces(4, base);
        for offset in [256, Compressed::SPAN / 2, Compressed::SPAN - 256] {
            let pointer = pieces.pointer_to(base.add(offset)).tainted();
            assert!(u32::try_from(pointer.0).is_ok());
            assert_eq!(pieces.target(pointer), base.add(offset));
        }
    }

    #[test]
    fn a_pointer_is_exchanged_once() {
        for slot_bytes in [4, 8] {
            let mut memory: Vec<u64> = std::vec![0; 1024];
            let base = Address::of(memory.as_mut_ptr());
            let pieces = pieces(slot_bytes, base);
            let own = pieces.pointer_to(base.add(2048));
            assert_eq!(pieces.target(own), base.add(2048));
            assert_eq!(pieces.target(own.tainted()), base.add(2048));
            // SAFETY: the memory is this test's, and large enough for a spine of two arraylets.
            unsafe {
                pieces.begin(base, 64 + 512);
                assert_eq!(pieces.exchange(base, 1, pieces.zero, own), Ok(()));
                assert_eq!(pieces.exchange(base, 1, pieces.zero, own), Err(own));
                assert_eq!(pieces.load(base, 0), pieces.zero);
                assert_eq!(pieces.load(base, 1), own);
            }
        }
    }

    #[test]
    fn nothing_is_cut_where_all_arrays_are_whole() {
        assert!(!Pieces::WHOLE.cut());
        assert!(pieces(8, Address::new(1 << 20)).cut());
    }
}
