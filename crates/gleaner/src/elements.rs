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
//! If all arrays of a heap lie in one piece, an access is one instruction behind a test that always succeeds. A
//! [`Layout`] that is known when the code is compiled saves the test ([`In`]).
//!
//! # Terms
//! - An element of an array in pieces is *near* if it lies within the first N bytes, which follow the length. Beyond them
//!   it is *far* (PLDI 2010, section 5.1).
//! - A *part* of an array is the far elements that lie in one arraylet. A part is *tainted* while its arraylet must
//!   not be written: other arrays share the arraylet, or it is the zero arraylet. To *untaint* a part is to give it an
//!   arraylet of its own.
//! - The *stock* of a mutator is the arraylets that it has taken from the heap and not used yet.
//! - A *run* is bytes of an array that lie side by side, and are all tainted or all untainted. Embedders see a run as a
//!   [`Piece`].
//!
//! # What an array store does, in order
//! [`Mutator::store_element_in`](crate::Mutator::store_element_in) goes down this list until the element is written:
//!
//! 1. `near` (`place.rs`): the element is near, or the layout says that all arrays lie in one piece. It is written behind
//!    the length.
//! 2. `far_untainted` (`place.rs`): the array lies in one piece after all, or the part of the element is untainted. It is
//!    written there. The steps up to here are inlined, the others are not.
//! 3. `store_where_tainted` (`store.rs`): the part is tainted. If all of it is zero, a zero need not be written.
//! 4. `store_after_untainting` (`store.rs`): the part needs an arraylet. Most often the stock has one.
//! 5. `fill_stock_for_one`, `fill_stock_or_collect` (`stock.rs`): the stock is empty. The mutator takes an arraylet from the
//!    heap, which collects if it has none. If there is no memory, the store fails here, and nothing is written.
//! 6. `untaint_element`, `untaint_run` (`stock.rs`): the arraylet gets the contents of the part and becomes the array's
//!    (`instantiate` of the plan). The element is written there.
//!
//! The barrier (`dirty`) follows each write of a slot. A load has only steps 1 and 2; its step 2 is `far`, which reads
//! tainted parts, too. What works on many elements fills the stock for all of them first, and then goes from run to run
//! (`runs.rs`).
//!
//! Bounds: an index inside of the array is part of what the caller promises, which debug builds check. Copies check the
//! ranges and the types in all builds, as does the safe layer (`safe.rs`).
//!
//! Nobody else computes where an element lies (`scripts/check_layers.py`).

mod buffers;
mod checks;
mod compare;
mod copied;
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
mod share;
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
