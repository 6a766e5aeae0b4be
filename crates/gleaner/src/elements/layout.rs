//! How do arrays lie, as far as code that accesses them knows when it is compiled?

use std::marker::PhantomData;

use gleaner_mem::Address;
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::spine::Pieces;
use gleaner_plans::scavenge::mutator::Mutator as Record;

/// How arrays lie in memory, as far as that is known when the code that accesses them is compiled.
pub trait Layout: 'static {
    /// Whether every array of more than the first N bytes lies in pieces, so that none needs to be asked.
    const ALL_CUT: bool = false;

    /// Whether accesses are counted.
    const COUNTED: bool = false;

    /// Whether the first `end` elements of `bytes` bytes of any array that has as many lie in one piece behind its length.
    fn is_whole(record: &Record, end: usize, bytes: usize) -> bool;

    /// How arrays are cut.
    fn pieces(record: &Record) -> Pieces;
}

/// Nothing is known: each access asks the mutator's record.
#[derive(Debug)]
pub struct AnyArrays;

/// Every array lies in one piece.
#[derive(Debug)]
pub struct WholeArrays;

/// Arrays are cut behind `FIRST_N` bytes, into arraylets of `ARRAYLET` bytes, in a heap with slots of format `F`.
///
/// Every longer array that the code accesses is cut. For pinned arrays, and arrays of a type that is excluded from
/// cutting, there are [`AnyArrays`] and [`WholeArrays`].
#[derive(Debug)]
pub struct CutArrays<F, const FIRST_N: usize, const ARRAYLET: usize>(PhantomData<F>);

impl Layout for AnyArrays {
    #[inline(always)]
    fn is_whole(record: &Record, end: usize, bytes: usize) -> bool {
        // SAFETY: an array has fewer than 2^32 elements, of up to 8 bytes each.
        unsafe { end.unchecked_mul(bytes) <= record.pieces.first_n }
    }

    #[inline(always)]
    fn pieces(record: &Record) -> Pieces {
        record.pieces
    }
}

impl Layout for WholeArrays {
    #[inline(always)]
    fn is_whole(record: &Record, _: usize, _: usize) -> bool {
        debug_assert!(!record.pieces.cut(), "code for arrays in one piece");
        true
    }

    #[inline(always)]
    fn pieces(_: &Record) -> Pieces {
        Pieces::WHOLE
    }
}

impl<F: SlotFormat, const FIRST_N: usize, const ARRAYLET: usize> Layout
    for CutArrays<F, FIRST_N, ARRAYLET>
{
    const ALL_CUT: bool = true;

    #[inline(always)]
    fn is_whole(_: &Record, end: usize, bytes: usize) -> bool {
        end <= FIRST_N / bytes
    }

    #[inline(always)]
    fn pieces(record: &Record) -> Pieces {
        let pieces = Pieces {
            first_n: FIRST_N,
            arraylet_shift: ARRAYLET.trailing_zeros(),
            pointer_shift: F::BYTES.trailing_zeros() as u16,
            // In guard mode N is 0.
            fenced: if FIRST_N == 0 {
                record.pieces.fenced
            } else {
                0
            },
            base: if F::BYTES == 8 {
                Address::NULL
            } else {
                record.pieces.base
            },
            zero: record.pieces.zero,
        };
        debug_assert!(
            pieces == record.pieces,
            "code for arrays with {FIRST_N} bytes in the spine and arraylets of {ARRAYLET}"
        );
        pieces
    }
}
