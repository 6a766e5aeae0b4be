//! Places apart: addresses far from all that the kernel and the C library map by themselves.
//!
//! The kernel puts mappings below the stack, or, where the stack is unlimited, above a third of the addresses, and programs
//! at two thirds or quite low. Between the last two nothing comes to lie.

/// Places apart start at multiples of this.
pub const APART: usize = 1 << 32;

/// Where the first place apart may be, and how many bytes behind it belong to them.
pub(crate) const FIRST: usize = 0x3000_0000_0000;
/// See [`FIRST`].
pub(crate) const EXTENT: usize = 32 << 40;
/// By how many multiples of [`APART`] the first place differs from run to run, at most.
pub(crate) const MOST_RANDOM: usize = 0xff;

/// All addresses that [`memory::place_apart`](crate::memory::place_apart) may name, and what may grow behind them.
pub(crate) const fn places_apart() -> (usize, usize) {
    (FIRST, FIRST + MOST_RANDOM * APART + EXTENT)
}

/// Whether an address lies in a place apart.
pub(crate) fn is_apart(address: usize) -> bool {
    let (low, high) = places_apart();
    low <= address && address < high
}
