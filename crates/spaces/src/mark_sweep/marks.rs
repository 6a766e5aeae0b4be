//! What a mark byte says, and what freed memory holds under poison.

/// Mark of an object that was not reached, or of a cell whose state is not known.
pub const WHITE: u8 = 0;
/// Mark of an object that was reached (grey or black), or that is uncollectable and allocated.
pub const MARKED: u8 = 1;
/// Mark of a cell that is known to be free, in kinds that need to know.
pub const FREE: u8 = 2;

/// What freed memory is overwritten with under `poison=on`; an odd low byte makes it no plausible address.
pub const POISON: usize = 0xfbfb_fbfb_fbfb_fbfb;
