//! Allocation in the raw layer. It has these steps, in order:
//!
//! 1. [`Mutator::allocate_raw`] takes memory from the mutator's buffer, its TLAB (`take_from_buffer`). This step is
//!    inlined where it is called. There, type and size of the object, and [`Fresh`], are constants most often.
//! 2. If the TLAB has no room for an array, `allocate_array_slowly` asks whether the array lies in pieces. If it does,
//!    `allocate_spine` (`elements/spines.rs`) takes memory for the spine as this file does for any object.
//! 3. Everything else goes to `refill_or_collect`. The collector gives a fresh TLAB, or a place outside of it, and
//!    collects first if it must (`allocate` of the plan).
//! 4. `begin` writes the header and the length. From then on the memory is an object.
//!
//! [`Mutator::allocate_pinned_raw`] begins with step 3. [`Mutator::allocate_immortal_raw`] takes all steps, and then
//! makes a handle that is never dropped.
//!
//! # Invariants
//! - Steps 1 and 3 give memory without a header. Nothing polls between them and step 4.

use std::cell::Cell;

use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::object_model::{FIELDS, Shape, TypeId};
use gleaner_mem::slot::Value;
use gleaner_mem::zero;
use gleaner_plans::scavenge::LARGE_BYTES;
use gleaner_plans::scavenge::allocate::{Fresh, Place};
use gleaner_plans::scavenge::arrays::Contents;
use gleaner_plans::scavenge::checks::no_type;
use gleaner_plans::scavenge::weak::own_types::OwnType;

use crate::body::{OutOfMemory, with_heap};
use crate::elements::Life;
use crate::mutator::Mutator;
use crate::new_object::NewObject;

/// Each allocation asks the cache for the line this many bytes ahead: eden is larger than the near caches, and the
/// objects that come next are written there soon. A little more or less is as good.
const PREFETCHED_AHEAD: usize = 512;

impl Mutator {
    /// Allocates an object that may move. With [`Fresh::Zeroed`] its fields or elements are zero or null.
    ///
    /// With [`Fresh::Unwritten`] they hold anything, and the caller writes all of them. It writes references by
    /// [`Mutator::store_raw`], [`Mutator::initialize_in`] or [`Mutator::initialize_element_in`].
    ///
    /// # Safety
    /// The type is one of this heap. A [`NewObject::structure`] is of a type without a length, whose instances have
    /// `bytes` bytes. A [`NewObject::array`] is of a type with a length, and `bytes` follows from the length. With
    /// [`Fresh::Unwritten`] all bytes from [`FIELDS`] on, or all elements of an array, are written before the next
    /// allocation or poll. Other references that this thread holds outside of root slots are not used again.
    #[inline(always)]
    pub unsafe fn allocate_raw(
        &mut self,
        new: NewObject,
        fresh: Fresh,
    ) -> Result<Address, OutOfMemory> {
        let object = match new.length {
            // The size of a structure is a constant to the compiler of the call.
            None => self.take_or_refill(new, fresh)?,
            Some(length) => {
                let (bytes, most) = (new.bytes, self.record().whole_bytes);
                let Some(object) = self.take_from_buffer(bytes, most, fresh) else {
                    // SAFETY: type, length and size belong together, as the caller promises.
                    return unsafe { self.allocate_array_slowly(new.id, length, bytes, fresh) };
                };
                object
            }
        };
        // SAFETY: fresh memory of this mutator, `new.bytes` bytes.
        unsafe { self.begin(new, object, fresh) };
        Ok(object)
    }

    /// Allocates an object that never moves, however small it is. Its fields or elements are zero or null. An array lies
    /// in one piece, whatever option `arrays` says.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks with [`Fresh::Zeroed`].
    #[inline(always)]
    pub unsafe fn allocate_pinned_raw(&mut self, new: NewObject) -> Result<Address, OutOfMemory> {
        let NewObject { id, length, bytes } = new;
        // SAFETY: type, length and size belong together, as the caller promises.
        unsafe { self.allocate_pinned(id, length, bytes) }
    }

    /// Allocates a constant: an object that never moves, lives as long as its heap, and is not looked at by collections.
    /// A reference to it costs a collection a comparison. Its fields or elements are zero or null. An array lies in one
    /// piece, whatever option `arrays` says.
    ///
    /// Constants have an eighth of the heap's limit, as far as addresses allow, and count toward the limit
    /// ([`Heap::constants_left`](crate::Heap::constants_left)). It fails where that is used up: then nothing is collected,
    /// and the object may be allocated pinned instead, and kept by a handle, which costs each full collection a look at it.
    /// Where the heap is full this collects, and fails if what lives leaves no room.
    ///
    /// # Panics
    /// If type, length and size do not belong together; and if objects of the type have weak slots or ephemerons, since only
    /// a collection that looks at the object clears these.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks with [`Fresh::Zeroed`]. References that are stored into the object lead to
    /// other constants, or to objects that never move and never die.
    pub unsafe fn allocate_constant_raw(&mut self, new: NewObject) -> Result<Address, OutOfMemory> {
        self.assert_may_collect("an allocation");
        let NewObject { id, bytes, .. } = new;
        self.check_constant(new);
        let record = self.record_place();
        let room = with_heap!(&self.shared.kind, heap => {
            // SAFETY: this thread's mutator, inside the gate, which was asserted.
            unsafe { heap.allocate_constant(record, bytes) }
        });
        let object = room.ok_or(OutOfMemory { bytes })?;
        // SAFETY: fresh memory of this mutator, `bytes` bytes, all zero.
        unsafe { self.begin(new, object, Fresh::Zeroed) };
        with_heap!(&self.shared.kind, heap => heap.note_type(id, bytes, true));
        self.count_array(new, bytes);
        Ok(object)
    }

    /// Allocates an object that may move and lives as long as its heap. Its fields or elements are zero or null.
    ///
    /// An array in pieces has all its arraylets from the start, and keeps them to itself (PLDI 2010, section 5.2). So
    /// no store into it takes memory, whatever it holds. Each immortal object takes one of the heap's handles, of which
    /// there are some four million.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks with [`Fresh::Zeroed`].
    pub unsafe fn allocate_immortal_raw(&mut self, new: NewObject) -> Result<Address, OutOfMemory> {
        let cut = new.length.and_then(|length| {
            // SAFETY: a type of this heap with a length, as the caller promises.
            with_heap!(&self.shared.kind, heap => unsafe { heap.cut(new.id, length) })
        });
        // SAFETY: type, length and size belong together, as the caller promises; an array that is cut has a length.
        let object = unsafe {
            match cut {
                Some((elements, slots)) => {
                    let elements = (elements, Contents::of(slots));
                    self.allocate_spine(new, elements, Fresh::Zeroed, Life::Immortal)
                }
                None => self.allocate_raw(new, Fresh::Zeroed),
            }
        }?;
        self.keep(object, new.bytes)
    }

    /// Has an object of `bytes` bytes live as long as the heap, by a handle that is never dropped.
    pub(crate) fn keep(&mut self, object: Address, bytes: usize) -> Result<Address, OutOfMemory> {
        let value = Value::reference(object);
        let kept = with_heap!(&self.shared.kind, heap => heap.handles.create(value));
        kept.map(|_| object).ok_or(OutOfMemory { bytes })
    }

    /// Allocates an object of a type of the heap's own. `begin` fills its slots, from the values of the frame, and is the last
    /// step: what it answers, unless that is `None` for lack of room.
    ///
    /// # Safety
    /// The values are valid. Other references that this thread holds outside of root slots are not used again. `begin`
    /// neither allocates nor polls.
    pub(crate) unsafe fn allocate_own<const N: usize, R>(
        &mut self,
        of: OwnType,
        values: [Value; N],
        begin: impl FnOnce(&mut Mutator, Address, [Value; N]) -> Option<R>,
    ) -> Result<R, OutOfMemory> {
        let kind = &self.shared.kind;
        let (id, bytes) = with_heap!(kind, heap => (heap.own_type(of), heap.own_bytes(of)));
        let full = OutOfMemory { bytes };
        let new = NewObject::structure(id.ok_or(full)?, bytes);
        // SAFETY: the values are valid, as the caller promises, and in the frame while the object is allocated, whose type
        // and size belong together.
        unsafe {
            self.with_roots(values, |mutator, roots| {
                let object = mutator.allocate_raw(new, Fresh::Zeroed)?;
                let values = roots.each_ref().map(Cell::get);
                begin(mutator, object, values).ok_or(full)
            })
        }
    }

    /// Panics if an object of the type, with `length` elements if it has some, has not `bytes` bytes: what `quarantine`
    /// does for each allocation. It panics, too, if the embedder registered no such type. More bytes than the heap may have
    /// are no mistake. `what` is done, for the message.
    pub fn check_size(&self, what: &str, id: TypeId, length: Option<u32>, bytes: usize) {
        with_heap!(&self.shared.kind, heap => {
            if !heap.has_type(id) {
                no_type(what, id);
            }
            if bytes <= heap.config.limit {
                heap.check_size(what, id, length, bytes);
            }
        });
    }

    /// Panics if the object cannot be a constant.
    fn check_constant(&self, NewObject { id, length, bytes }: NewObject) {
        const WHAT: &str = "allocation of a constant";
        self.check_size(WHAT, id, length, bytes);
        let shape = with_heap!(&self.shared.kind, heap => heap.model.shape(id));
        assert!(
            !matches!(shape, Some(Shape::Weak { .. })),
            "{WHAT}: type {} has weak slots or ephemerons, and no collection looks at constants to clear them: allocate it as \
             other objects, and keep it by a handle",
            id.get()
        );
    }

    /// Takes `bytes` bytes from the buffer; `None` if they are more than `most`, or more than the buffer has.
    #[inline(always)]
    pub(crate) fn take_from_buffer(
        &mut self,
        bytes: usize,
        most: usize,
        fresh: Fresh,
    ) -> Option<Address> {
        if bytes > most {
            return None;
        }
        let object = self.record().tlab.allocate(bytes)?;
        object.add(PREFETCHED_AHEAD).prefetch();
        if fresh == Fresh::Zeroed && self.record().zeroes.get() != 0 {
            // SAFETY: fresh memory of this mutator, `bytes` bytes; the caller writes the header.
            unsafe { zero::zero_fresh(object.add(FIELDS), bytes - FIELDS) };
        }
        Some(object)
    }

    /// Takes memory for an object in one piece from the buffer, or has the collector give some.
    #[inline(always)]
    fn take_or_refill(&mut self, new: NewObject, fresh: Fresh) -> Result<Address, OutOfMemory> {
        match self.take_from_buffer(new.bytes, LARGE_BYTES, fresh) {
            Some(object) => Ok(object),
            None => self.refill_or_collect(new, Place::Anywhere, fresh),
        }
    }

    /// Makes an object of the memory that was taken for it. What its caller is to write is left to the caller.
    ///
    /// # Safety
    /// `object` is fresh memory of this mutator, as many bytes as the object has.
    #[inline(always)]
    unsafe fn begin(&self, new: NewObject, object: Address, fresh: Fresh) {
        // SAFETY: fresh memory of this mutator with room for all of the object, as the caller promises.
        unsafe {
            new.write_head(object, Header::fresh(new.id));
            if fresh == Fresh::Unwritten {
                new.zero_last_granule(object);
            }
        }
    }

    /// An array for which the buffer has no room, or which has more bytes than the inlined code takes from the buffer.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks, of an array.
    #[cold]
    #[inline(never)]
    unsafe fn allocate_array_slowly(
        &mut self,
        id: TypeId,
        length: u32,
        bytes: usize,
        fresh: Fresh,
    ) -> Result<Address, OutOfMemory> {
        let new = NewObject::array(id, length, bytes);
        // SAFETY: a type of this heap with a length, as the caller promises.
        let cut = with_heap!(&self.shared.kind, heap => unsafe { heap.cut(id, length) });
        if let Some((elements, slots)) = cut {
            let elements = (elements, Contents::of(slots));
            // SAFETY: type, length and size belong together, as the caller promises, and the array is cut.
            return unsafe { self.allocate_spine(new, elements, fresh, Life::Mortal) };
        }
        let object = self.take_or_refill(new, fresh)?;
        self.count_array(new, bytes);
        // SAFETY: fresh memory of this mutator, `bytes` bytes.
        unsafe { self.begin(new, object, fresh) };
        Ok(object)
    }

    /// See [`Mutator::allocate_pinned_raw`]. A [`NewObject`] that is no constant would lie in memory for this call.
    ///
    /// # Safety
    /// What [`Mutator::allocate_raw`] asks with [`Fresh::Zeroed`].
    unsafe fn allocate_pinned(
        &mut self,
        id: TypeId,
        length: Option<u32>,
        bytes: usize,
    ) -> Result<Address, OutOfMemory> {
        let new = NewObject { id, length, bytes };
        let object = self.refill_or_collect(new, Place::Pinned, Fresh::Zeroed)?;
        self.count_array(new, bytes);
        // SAFETY: fresh memory of this mutator, `bytes` bytes.
        unsafe { self.begin(new, object, Fresh::Zeroed) };
        Ok(object)
    }

    /// Memory that the buffer does not have: the collector gives a fresh buffer, or a place outside of it.
    #[inline(always)]
    fn refill_or_collect(
        &mut self,
        new: NewObject,
        place: Place,
        fresh: Fresh,
    ) -> Result<Address, OutOfMemory> {
        let NewObject { id, length, bytes } = new;
        match self.refill_or_collect_or_null(id, length, bytes, place, fresh) {
            Address::NULL => Err(OutOfMemory { bytes }),
            object => Ok(object),
        }
    }

    /// As [`Mutator::refill_or_collect`], with null and no error where there is no room: null is tested behind the
    /// call, an error by the code that allocates.
    #[cold]
    #[inline(never)]
    fn refill_or_collect_or_null(
        &mut self,
        id: TypeId,
        length: Option<u32>,
        bytes: usize,
        place: Place,
        fresh: Fresh,
    ) -> Address {
        self.assert_may_collect("an allocation");
        if self.shared.wanted.take_signal() {
            self.obey_signal();
        }
        let record = self.record_place();
        let kind = &self.shared.kind;
        with_heap!(kind, heap => heap.check_request(id, length, bytes));
        // SAFETY: this thread's mutator, inside the gate, which was asserted.
        with_heap!(kind, heap => unsafe { heap.allocate_slowly(record, bytes, place, fresh) })
            .inspect(|_| {
                let apart = place != Place::Anywhere;
                with_heap!(kind, heap => heap.note_type(id, bytes, apart));
            })
            .unwrap_or(Address::NULL)
    }
}
