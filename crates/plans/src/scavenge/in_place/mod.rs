//! The young generation in place (`nursery=in-place`): new objects lie in free lines and free blocks of the old space, and
//! those that live stay there (sticky mark bits; Demers and others, POPL 1990; on lines, sticky Immix, PLDI 2008).
//!
//! What is old is said by a mark, not by an address: the start bit of an object in the table of objects. A new object of the
//! old space has none. A collection of new objects (`trace`) begins at roots and dirty cards, sets the start bit of each new
//! object that it reaches, and marks its lines. It then sweeps the blocks that had an owner (`collect`). As a rule nothing is
//! copied. But where few objects live of each block that was free as a whole, they are copied together, as far as blocks are
//! free, or each of them would keep two lines from others; what finds no room stays, so no collection fails for lack of it.
//! All that was reached is old from then on, so no card is dirty afterwards,
//! and old objects on clean cards are not looked at. A collection of everything is that of `old=mark-region`, which may
//! evacuate, or slides. When there is one, [`decide::in_place`](crate::scavenge::decide::in_place) says, and whether it slides,
//! [`decide::sliding`](crate::scavenge::decide::sliding).
//!
//! Where "young" was an address, and what says it here:
//!
//! - `Scavenge::is_young`: a new object of the old space has no start bit. Large objects are young by their byte, as before;
//!   pinned ones and constants are never young.
//! - The barrier dirties the card of every slot that is stored to, also those of new objects. A card whose lines were all
//!   handed out since the last collection is left out: nothing old lies there.
//! - Walks find old objects by their start bits, and new ones piece by piece: the lines of a piece say where it begins. Each
//!   piece ends with a filler when its owner gives it up.
//! - A collection is due when so many bytes of pieces were taken as the [`InPlace`](state::InPlace) allows, not when eden is full.
//! - Eden and the survivor spaces are there and have no bytes.
//!
//! # Invariants
//! - In the old space: an object has a start bit, or lies in a piece that was handed out since the last collection.
//! - A piece has one owner. Mutators give theirs up before a collection, and before a walk.

pub mod allocate;
mod collect;
mod sizes;
pub mod state;
mod switch;
mod trace;

/// The reason of a [`Phase::Mark`](gleaner_base::events::Phase::Mark) that is not of everything.
pub const NEW_OBJECTS: &str = "new objects";
