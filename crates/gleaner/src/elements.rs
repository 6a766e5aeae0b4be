//! Element access in the raw layer (invariant I10): loads, stores, compare-and-swap, cursors, fills, copies and windows.
//!
//! An [`Element`] says what the elements of an array are: numbers, or slots of a format. All accessors are generic over
//! it; those whose names end in `_raw` find the slot format out themselves.
//!
//! A load takes a shared mutator: it neither collects nor fails. A store, a compare-and-swap, a fill, a copy and the
//! opening of a window or cursor for writing take the mutator exclusively and return a `Result`. Each of these counts as
//! an allocation: it may collect, so references that are needed afterwards are in root slots, and it may find no memory.
//! What is handed to an accessor need not be in a root.
//!
//! Where an array lies in one piece, all of this compiles to the one instruction, behind a test whether it does; a
//! [`Layout`] that is known when the code is compiled saves the test ([`In`]).
//!
//! # Terms
//! - An element of an array in pieces is *near* within the first N bytes, and *far* beyond them (PLDI 2010, section 5.1).
//! - A *part* of an array is what one arraylet holds of its far elements. It is *tainted* while the arraylet must not
//!   be written, since other arrays share it or it is the zero arraylet. To *untaint* a part gives it an arraylet of
//!   its own.
//! - The *stock* of a mutator is what it has taken of arraylets and not used yet.
//! - A *run* is bytes of an array that lie side by side and are all tainted or all not. Embedders see it as a [`Piece`].
//!
//! # What an array store does, in order
//! [`Mutator::store_element_in`](crate::Mutator::store_element_in) goes down this list until the element is written:
//!
//! 1. `near` (`place.rs`): the element lies behind the length of its array, near or in an array that is known to be in
//!    one piece. It is written there.
//! 2. `far_untainted` (`place.rs`): the element may be far, and its part is not tainted. It is written there. What
//!    comes next is no more inlined.
//! 3. `store_where_tainted` (`store.rs`): the part is tainted. A zero among zeros is there already.
//! 4. `store_after_untainting` (`store.rs`): the part needs an arraylet of its own, which the stock has most often.
//! 5. `fill_stock_for_one`, `fill_stock_or_collect` (`stock.rs`): the stock has none. One is taken, after a collection if
//!    there is no memory; without memory the store fails here, and nothing is written.
//! 6. `untaint_element`, `untaint_run` (`stock.rs`): the arraylet is filled with what the part holds and installed
//!    (`instantiate` of the plan). The element is written there.
//!
//! Each of the writes of a slot is followed by the barrier, `dirty`. A load stops at step 2, where `far` asks for no
//! taint. What works on many elements fills the stock for all of them first, and then goes from run to run (`runs.rs`).
//!
//! Bounds: an index inside of the array is part of what the caller promises, which debug builds check. Copies check the
//! ranges and the types in all builds, as does the safe layer (`safe.rs`).
//!
//! Nobody else computes where an element lies (`scripts/check_layers.py`).

mod buffers;
mod checks;
mod compare;
mod copy;
mod counted;
mod cursor;
mod element;
mod emitted;
mod exchange;
mod fill;
mod layout;
mod load;
mod place;
mod runs;
mod safe;
mod spines;
mod stock;
mod store;
mod window;

pub use checks::elements;
pub use counted::Counted;
pub use cursor::{Cursor, CursorMut};
pub use element::{Element, In, Number, Object};
pub use emitted::Piece;
pub use layout::{AnyArrays, CutArrays, Layout, WholeArrays};
pub(crate) use place::fresh_offset;
pub(crate) use spines::Life;
