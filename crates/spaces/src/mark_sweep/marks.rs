//! What a mark byte says, who may write it, and what freed memory holds under poison.
//!
//! Any thread may read a mark. These write marks:
//!
//! - A marker marks what it reaches, in the stopped world or in a step of a cycle, while the leader holds the allocator
//!   lock. Two markers may mark the same object at once (I4).
//! - The holder of the allocator lock clears marks before marking, and afterwards settles what a disclaim procedure
//!   keeps. It marks cells that threads have on their lists and objects that are born marked, and keeps [`FREE`] up to
//!   date. A client that holds the lock may set and clear marks by libgc's functions for mark bits.
//! - A thread without the lock marks a cell that it takes off its own list, if the cell is of a kind that marks free
//!   cells. The collector leaves such a cell alone: its block is the thread's own, or it is marked already.

/// Mark of an object that was not reached, or of a cell whose state is not known.
pub const WHITE: u8 = 0;
/// Mark of an object that was reached (grey or black), or that is uncollectable and allocated.
pub const MARKED: u8 = 1;
/// Mark of a cell that is known to be free: in kinds that need to know, and in blocks that are settled (`settle`).
pub const FREE: u8 = 2;

/// What freed memory is overwritten with under `poison=on`; an odd low byte makes it no plausible address.
pub const POISON: usize = 0xfbfb_fbfb_fbfb_fbfb;
