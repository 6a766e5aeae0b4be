//! Checks of what an embedder of the raw layer promises when it allocates, under `quarantine`: every allocation comes
//! off the fast path then, and what is wrong ends the process by name.
//!
//! - The type was registered, and the size is what the type, and the length of an array, say.
//! - An object that its caller was to write was written: it begins with a pattern, and none of that is left.
//! - Nothing was written past the end of an object of eden: a guard lies behind each.
//!
//! The object that a mutator allocated last is checked when the mutator allocates again, and when the world is stopped.
//! The guards of all objects of eden are checked when a collection begins. When it is over, words are found that are no
//! slots but hold an address which was just evacuated: their type, or its trace function, forgets a slot.
//!
//! # Invariants
//! - A guard is a filler of `GUARD_BYTES` with a word that fillers do not have. In eden above `guarded_from` each
//!   object has one behind it.
//! - The owner of a mutator and the leader of a stopped world look at what it allocated last.

pub(super) mod found;
mod last;
pub(super) mod quarantine;
pub mod verify;
pub mod walk;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::options::Verify;
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{
    ELEMENTS, FIELDS, LEAST_BYTES, Shape, TypeId, array_bytes, tailed_bytes,
};
use gleaner_mem::slot::SlotFormat;
use gleaner_mem::traced::Size;
use gleaner_mem::zero;
use gleaner_spaces::precise::regions::Kind;

use crate::scavenge::allocate::Fresh;
use crate::scavenge::mutator::Mutator;
use crate::scavenge::walk::Edge;
use crate::scavenge::{Scavenge, State};

pub(super) use last::Last;

/// Bytes behind each object of eden.
pub(super) const GUARD_BYTES: usize = 16;
/// The second word of a guard: a filler of length 0, and a pattern that no filler has.
const GUARD: usize = 0x6a2d_6a2d << 32;
/// Both halves of a word that was not written. The low bit makes an immediate of a slot.
const UNWRITTEN: u32 = 0xd1d1_d1d1;

impl<F: SlotFormat> Scavenge<F> {
    /// Whether allocations are checked.
    #[inline]
    pub(super) fn checks(&self) -> bool {
        self.config.options.quarantine > 0
    }

    /// Whether uses of the heap are checked that cost something to check: under `quarantine`, and under `verify`.
    pub fn checks_use(&self) -> bool {
        self.checks() || self.config.options.verify == Verify::Edges
    }

    /// Bytes behind each object of eden.
    pub(super) fn guard_bytes(&self) -> usize {
        if self.checks() { GUARD_BYTES } else { 0 }
    }

    /// A mutator asks for an object: where allocations are checked, as [`Scavenge::check_size`].
    pub fn check_request(&self, id: TypeId, length: Option<u32>, bytes: usize) {
        if self.checks() {
            self.check_size("allocation", id, length, bytes);
        }
    }

    /// Ends the process if a type says that an object has not `bytes` bytes, or not with this length, or has no length.
    /// `what` is done, for the message.
    pub fn check_size(&self, what: &str, id: TypeId, length: Option<u32>, bytes: usize) {
        let number = id.get();
        let known = self.model.types.has(id);
        let Some(shape) = known.then(|| self.model.shape(id)).flatten() else {
            no_type(what, id);
        };
        let wanted = match (shape, length) {
            (Shape::Structure { bytes, .. }, None) => bytes,
            (
                Shape::Weak {
                    head, element: 0, ..
                },
                None,
            ) => head,
            (Shape::Weak { element: 0, .. }, _) => wrong_kind(what, number, length),
            (Shape::References, Some(length)) => array_bytes(length, F::BYTES.trailing_zeros()),
            (Shape::Primitives { log2 }, Some(length)) => array_bytes(length, log2),
            (
                Shape::Tailed { head, element, .. } | Shape::Weak { head, element, .. },
                Some(length),
            ) => tailed_bytes(head, length, element),
            (Shape::Traced { size, .. }, _) => match (size, length) {
                (Size::Fixed(bytes), None) => bytes,
                (Size::Tailed { head, element }, Some(length)) => {
                    tailed_bytes(head, length, element)
                }
                // The function is asked when the object is there.
                (Size::Function(_), _) => bytes.max(LEAST_BYTES),
                _ => wrong_kind(what, number, length),
            },
            _ => wrong_kind(what, number, length),
        };
        let wanted = wanted.next_multiple_of(8);
        assert!(
            wanted == bytes,
            "{what}: type {number} has {wanted} bytes{}, and {bytes} were asked for: pass the size with which the type was \
             registered",
            if length.is_some() {
                " with this length"
            } else {
                ""
            }
        );
    }

    /// The mutator has allocated an object, whose header its caller writes.
    ///
    /// # Safety
    /// The memory is the calling mutator's alone; if it is guarded, with the guard behind it.
    pub(super) unsafe fn note_last(
        &self,
        mutator: &Mutator,
        (object, bytes): (Address, usize),
        fresh: Fresh,
        guarded: bool,
    ) {
        let unwritten = fresh == Fresh::Unwritten;
        let pattern = UNWRITTEN as usize;
        // SAFETY: `bytes` bytes from `object`, and the guard behind them if there is one, are the calling mutator's
        // alone, as asked.
        unsafe {
            if unwritten {
                zero::fill(object.add(FIELDS), bytes - FIELDS, pattern << 32 | pattern);
            }
            if guarded {
                write_guard(object.add(bytes));
            }
        }
        mutator.last.set(Last {
            object,
            bytes,
            unwritten,
            guarded,
        });
    }

    /// An object of `bytes` bytes has only `left` of them from now on. If a guard is behind it, the guard moves along; how
    /// many bytes it has, or 0.
    ///
    /// # Safety
    /// The bytes from `left` to `bytes` and the guard behind them are nobody else's.
    pub(super) unsafe fn move_guard(
        &self,
        mutator: &Mutator,
        object: Address,
        bytes: usize,
        left: usize,
    ) -> usize {
        let last = mutator.last.get();
        if last.object == object {
            mutator.last.set(Last {
                bytes: left,
                ..last
            });
        }
        if !self.in_nursery(object) || !is_guard(object.add(bytes)) {
            return 0;
        }
        // SAFETY: the tail and the guard are nobody else's, as asked; a guard has room where both were.
        unsafe { write_guard(object.add(left)) };
        GUARD_BYTES
    }

    /// Looks at what a mutator allocated last: its owner, or the leader of a stopped world.
    pub(super) fn check_last(&self, mutator: &Mutator) {
        let last = mutator.last.take();
        if last.object == Address::NULL {
            return;
        }
        if last.guarded {
            self.check_guard(last.object, last.bytes);
        }
        if last.unwritten {
            self.check_written(last.object, last.bytes);
        }
    }

    fn check_guard(&self, object: Address, bytes: usize) {
        let guard = object.add(bytes);
        // SAFETY: the guard is memory of the heap; the object before it is complete.
        let (first, second, number) = unsafe {
            let number = header::load(object, Ordering::Relaxed).type_id().get();
            (
                header::load(guard, Ordering::Relaxed),
                guard.add(8).load(),
                number,
            )
        };
        let whole = first == Header::fresh(TypeId::FILLER) && second == GUARD;
        assert!(
            whole,
            "an object was written past its end: type {number}, {bytes} bytes at {object:?}; behind it lie {:#018x} and \
             {second:#018x}",
            first.word()
        );
    }

    fn check_written(&self, object: Address, bytes: usize) {
        // SAFETY: the object is complete, as far as its header goes.
        let id = unsafe { header::load(object, Ordering::Relaxed) }.type_id();
        // Between length and elements may be bytes that belong to nothing.
        let first = match self.model.shape(id) {
            Some(
                Shape::Structure { .. }
                | Shape::Weak { element: 0, .. }
                | Shape::Traced {
                    size: Size::Fixed(_),
                    ..
                },
            ) => FIELDS,
            _ => ELEMENTS,
        };
        for offset in (first..bytes).step_by(4) {
            // SAFETY: `offset` is below `bytes`, those of the object.
            let half = unsafe { object.add(offset).ptr::<u32>().read() };
            assert!(
                half != UNWRITTEN,
                "an object whose fields were all to be written was not: type {}, {bytes} bytes at {object:?}, offset \
                 {offset}",
                id.get()
            );
        }
    }

    /// Leader, when a collection begins: what mutators allocated last, and the guards of eden.
    pub(super) fn check_before(&self, state: &mut State, world: &WorldStopped<'_>) {
        if !self.checks() {
            return;
        }
        for mutator in state.mutators.stopped(world).iter() {
            self.check_last(mutator);
        }
        for (fragment, &from) in self
            .nursery
            .eden
            .fragments()
            .iter()
            .zip(&state.guarded_from)
        {
            let (mut at, top) = (from.max(fragment.start()), fragment.top());
            while at < top {
                let found = self.found(Edge::Before, Kind::Eden, at, top);
                at = at.add(found.bytes);
                if !found.header.type_id().is_filler() {
                    self.check_guard(found.object, found.bytes);
                    at = at.add(GUARD_BYTES);
                }
            }
        }
    }

    /// Leader, when a collection is over, and the evacuated spaces were left.
    pub(super) fn check_after(&self, state: &mut State, world: &mut WorldStopped<'_>) {
        for (from, fragment) in state
            .guarded_from
            .iter_mut()
            .zip(self.nursery.eden.fragments())
        {
            *from = fragment.top();
        }
        if !self.checks() || F::BYTES != 8 {
            return;
        }
        self.for_each_object(world, Edge::After, &mut |found| {
            let id = found.header.type_id();
            if let Some(Shape::References | Shape::Primitives { .. }) | None = self.model.shape(id) {
                return;
            }
            for offset in (FIELDS..found.bytes).step_by(8) {
                // SAFETY: inside an object that was walked over.
                let word = Address::new(unsafe { found.object.add(offset).load() });
                assert!(
                    !self.was_just_evacuated(word),
                    "a word that is no slot holds a reference: type {}, offset {offset} of the object at {:?}, {word:?}, \
                     where this collection evacuated the nursery; its type lacks the slot, or its trace function does not \
                     visit it",
                    id.get(),
                    found.object
                );
            }
        });
    }
}

/// # Safety
/// The memory is of the heap, and nobody else uses it.
unsafe fn write_guard(guard: Address) {
    // SAFETY: memory of the heap that nobody else uses, as asked.
    unsafe {
        header::store(guard, Header::fresh(TypeId::FILLER));
        guard.add(8).store(GUARD);
    }
}

/// Whether a guard lies at an address of the nursery.
fn is_guard(at: Address) -> bool {
    // SAFETY: the callers ask about the end of an object of eden, behind which memory of the heap is.
    unsafe {
        header::load(at, Ordering::Relaxed) == Header::fresh(TypeId::FILLER)
            && at.add(8).load() == GUARD
    }
}

/// The end of a process that does `what` with the number of no type.
#[cold]
pub fn no_type(what: &str, id: TypeId) -> ! {
    panic!(
        "{what}: no type {} was registered with this heap: pass a number that a registration answered",
        id.get()
    );
}

fn wrong_kind(what: &str, number: u32, length: Option<u32>) -> ! {
    match length {
        Some(_) => panic!("{what}: type {number} is no array, and was allocated with a length"),
        None => panic!("{what}: type {number} is an array, and was allocated without a length"),
    }
}
