//! The raw layer: what a compiler targets.
//!
//! References are plain addresses here. A reference is valid until its mutator next allocates, polls, or stores into an
//! array ([`Mutator::store_element_in`] and its like). A reference in a root slot stays valid beyond that. Root slots are
//! the frames of the shadow stack, handles, root ranges, what a compiler's [`RootVisitor`] and a [`HeapRootVisitor`] find,
//! and the slots of objects that are reached from these.
//!
//! The fast paths are inlined here. [`FastPaths`] has what generated code needs to emit them.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use gleaner_base::options::References;
use gleaner_base::sync::Ordering;
use gleaner_mem::header;
use gleaner_plans::scavenge::collect::Extent;

pub use crate::elements::{
    AnyArrays, Counted, Cursor, CursorMut, CutArrays, Element, In, Layout, Number, Object, Piece,
    WholeArrays, elements,
};
pub use crate::fast_paths::{Arrays, Barrier, FastPaths};
pub use crate::new_object::NewObject;
pub use gleaner_mem::Address;
pub use gleaner_mem::cards::{CARD_SHIFT, DIRTY};
pub use gleaner_mem::header::VERSION;
pub use gleaner_mem::object_model::{
    FIELDS, LENGTH, Shape, Slots, TypeId, array_bytes, array_bytes_of, tailed_bytes, whole_granules,
};
pub use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};
pub use gleaner_mem::traced::{Size, SizeFunction, Trace, TraceFunction, Visitor};
pub use gleaner_plans::scavenge::LARGE_BYTES;
pub use gleaner_plans::scavenge::allocate::Fresh;
pub use gleaner_plans::scavenge::heap_roots::{
    HeapRootVisitor, RootRange, RootRangeError, RootWidth,
};
pub use gleaner_plans::scavenge::mutator::{
    Anchor, Frame, Mutator as Record, RootVisitor, offsets,
};
pub use gleaner_plans::scavenge::pins::errors::{WordRange, WordRangeError};

use gleaner_plans::scavenge::walk::Found;

use crate::body::with_heap;
use crate::handle::Handle;
use crate::heap::Heap;
use crate::local::Local;
use crate::mutator::{IN_A_FRAME, Mutator};
use crate::scope::Scope;
use crate::types::TypeError;
use crate::{collectors, members};

impl Heap {
    /// Registers a type by its layout. Objects of [`Shape::Tailed`] and [`Size::Tailed`], and those of [`Shape::Weak`] with elements, are allocated as arrays are,
    /// with the bytes that [`tailed_bytes`] says.
    ///
    /// The functions of [`Shape::Traced`] keep what [`traced`](gleaner_mem::traced) asks. Where a function says the
    /// size of an object, the allocator writes what that function reads. It does so before its next allocation or poll.
    ///
    /// It fails where `GLEANER_OPTIONS` changed how objects lie in memory, and the program did not say by
    /// [`Builder::outside_layout`](crate::Builder::outside_layout) that its code follows.
    pub fn register_raw(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        self.assert_known_layout()?;
        self.register(shape)
    }

    /// As [`Heap::register_raw`], for a type of arrays each of which lies in one piece, whatever option `arrays` says.
    /// Arrays that native code is handed are of such types.
    pub fn register_whole_raw(&self, shape: Shape<'_>) -> Result<TypeId, TypeError> {
        self.assert_known_layout()?;
        with_heap!(&self.shared.kind, heap => heap.register_whole(shape))
    }

    fn assert_known_layout(&self) -> Result<(), TypeError> {
        self.shared
            .unknown_layout
            .map_or(Ok(()), |option| Err(TypeError::Layout(option)))
    }

    /// Sets the function that visits the roots in compiled frames from now on. The collector calls it for each stopped
    /// mutator, whose record has the [`Anchor`]. It is best set before the first thread attaches. A mutator does not
    /// call this outside of [`Mutator::blocking`].
    ///
    /// # Safety
    /// The function keeps what [`RootVisitor`] asks, and the slots that it visits hold valid values at every allocation
    /// and poll.
    pub unsafe fn set_root_visitor(&self, visitor: Option<RootVisitor>) {
        members::assert_world_runs(self.shared.number, "a root visitor is set");
        // SAFETY: the function keeps what `RootVisitor` asks, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.set_root_visitor(visitor) });
    }
}

impl Mutator {
    /// Whether an array lies in pieces. Then not all of its elements are behind its length.
    pub fn is_cut(&self, array: Address) -> bool {
        // SAFETY: what a program calls an array is one, whose header lies there.
        unsafe { header::load(array, Ordering::Relaxed) }.is_spine()
    }

    /// Whether an object stays where it is as long as it lives, since it was pinned or is large.
    ///
    /// # Safety
    /// `object` is a valid reference.
    pub unsafe fn is_pinned_raw(&self, object: Address) -> bool {
        with_heap!(&self.shared.kind, heap => heap.never_moves(object))
    }

    /// Stops all other mutators and visits every object once. Nothing moves or dies during the walk.
    ///
    /// The walk begins with a poll: another thread may collect first, and move objects that this thread refers to.
    /// Objects that died since the last collection may be visited, too. Where that matters, call [`Mutator::collect`]
    /// first. `visit` must not wait for another thread.
    pub fn walk(&mut self, visit: &mut dyn FnMut(&Found)) {
        self.assert_may_collect("a walk");
        self.walk_outside(visit);
    }

    /// Reads the slot at `offset` of an object.
    ///
    /// # Safety
    /// `object` is a valid reference, and a slot of its type lies at `offset`.
    #[inline(always)]
    pub unsafe fn load_raw(&self, object: Address, offset: usize) -> Value {
        if self.compressed {
            // SAFETY: a slot of the object lies there, as the caller promises, and this heap's are compressed.
            unsafe { self.load_in::<Compressed>(object, offset) }
        } else {
            // SAFETY: a slot of the object lies there, as the caller promises, and this heap's are wide.
            unsafe { self.load_in::<Wide>(object, offset) }
        }
    }

    /// Writes the slot at `offset` of an object, through the barrier.
    ///
    /// # Safety
    /// As for [`Mutator::load_raw`]; the value is valid and fits the slot format.
    #[inline(always)]
    pub unsafe fn store_raw(&self, object: Address, offset: usize, value: Value) {
        if self.compressed {
            // SAFETY: a slot of the object lies there, as the caller promises, and this heap's are compressed; the
            // value fits.
            unsafe { self.store_in::<Compressed>(object, offset, value) };
        } else {
            // SAFETY: a slot of the object lies there, as the caller promises, and this heap's are wide.
            unsafe { self.store_in::<Wide>(object, offset, value) };
        }
    }

    /// As [`Mutator::load_raw`], in a heap whose slots are known to have format `F`.
    ///
    /// # Safety
    /// As for [`Mutator::load_raw`], and the heap has such slots.
    #[inline(always)]
    pub unsafe fn load_in<F: SlotFormat>(&self, object: Address, offset: usize) -> Value {
        // SAFETY: a slot of format `F` lies at this offset of the object, as the caller promises.
        unsafe { F::load(object.add(offset), self.record().base) }
    }

    /// As [`Mutator::store_raw`], in a heap whose slots are known to have format `F`.
    ///
    /// # Safety
    /// As for [`Mutator::store_raw`], and the heap has such slots.
    #[inline(always)]
    pub unsafe fn store_in<F: SlotFormat>(&self, object: Address, offset: usize, value: Value) {
        let at = object.add(offset);
        // SAFETY: a slot of format `F` lies there, as the caller promises, and the value is valid.
        unsafe { F::store(at, self.record().base, value) };
        self.dirty(at);
    }

    /// As [`Mutator::load_in`], for a slot that holds no immediate. The result is the object, or null.
    ///
    /// # Safety
    /// As for [`Mutator::load_in`], and the slot holds no immediate.
    #[inline(always)]
    pub unsafe fn load_reference_in<F: SlotFormat>(
        &self,
        object: Address,
        offset: usize,
    ) -> Address {
        // SAFETY: a slot of format `F` without an immediate lies at this offset of the object, as the caller promises.
        unsafe { F::load_reference(object.add(offset), self.record().base) }
    }

    /// As [`Mutator::store_in`], for an object or null.
    ///
    /// # Safety
    /// As for [`Mutator::store_in`].
    #[inline(always)]
    pub unsafe fn store_reference_in<F: SlotFormat>(
        &self,
        object: Address,
        offset: usize,
        to: Address,
    ) {
        let at = object.add(offset);
        // SAFETY: a slot of format `F` lies there, as the caller promises, and `to` is null or an object of this heap.
        unsafe { F::store_reference(at, self.record().base, to) };
        self.dirty(at);
    }

    /// Writes a slot of a new object without a barrier, in a heap whose slots are known to have format `F`. A young
    /// object needs no barrier.
    ///
    /// # Safety
    /// As for [`Mutator::store_in`]; this mutator has allocated the object, not pinned, and since then has not
    /// allocated, polled or blocked.
    #[inline(always)]
    pub unsafe fn initialize_in<F: SlotFormat>(
        &self,
        object: Address,
        offset: usize,
        value: Value,
    ) {
        self.debug_assert_inside("a store");
        // SAFETY: a slot of format `F` lies there, as the caller promises, and the object is young, so no card is due.
        unsafe { F::store(object.add(offset), self.record().base, value) };
    }

    /// As [`Mutator::initialize_in`], with an object or null.
    ///
    /// # Safety
    /// As for [`Mutator::initialize_in`].
    #[inline(always)]
    pub unsafe fn initialize_reference_in<F: SlotFormat>(
        &self,
        object: Address,
        offset: usize,
        to: Address,
    ) {
        self.debug_assert_inside("a store");
        // SAFETY: a slot of format `F` lies there, as the caller promises, and the object is young, so no card is due.
        unsafe { F::store_reference(object.add(offset), self.record().base, to) };
    }

    /// The write barrier for a slot at `at`: after the store, or before.
    #[inline(always)]
    pub(crate) fn dirty(&self, at: Address) {
        self.debug_assert_inside("a store");
        let card = self.record().cards.wrapping_add(at.word() >> CARD_SHIFT);
        // SAFETY: the address is in the heap, so it has a card.
        unsafe { &*(card as *const gleaner_base::sync::AtomicU8) }.store(DIRTY, Ordering::Relaxed);
    }

    /// The length of an array.
    ///
    /// # Safety
    /// `object` is a valid reference to an array.
    #[inline(always)]
    pub unsafe fn length_raw(&self, object: Address) -> u32 {
        // SAFETY: an array lies at `object`, as the caller promises. Its length changes when it shrinks: another thread finds
        // either.
        unsafe { object.add(LENGTH).ptr::<u32>().read() }
    }

    /// The type of an object.
    ///
    /// # Safety
    /// `object` is a valid reference.
    #[inline(always)]
    pub unsafe fn type_raw(&self, object: Address) -> TypeId {
        // SAFETY: an object lies there, as the caller promises, so a header does.
        unsafe { header::load(object, Ordering::Relaxed) }.type_id()
    }

    /// Stops here if the collector asks for it.
    #[inline(always)]
    pub fn poll(&mut self) {
        if self.record().poll.load(Ordering::Relaxed) != 0 {
            self.poll_slowly();
        }
    }

    /// Does what [`Mutator::poll`] does when the collector asks for a stop, without looking whether the collector does.
    #[cold]
    pub fn poll_slowly(&mut self) {
        self.stop_if_asked();
        self.deliver_interrupt();
    }

    /// As [`Mutator::poll_slowly`], for a door that calls the handler of interrupts itself, which uses the mutator by its
    /// record: whether one was requested.
    pub fn poll_for_interrupt(&mut self) -> bool {
        self.stop_if_asked();
        self.record().take_interrupt()
    }

    /// For such a door: interrupts may be requested from now on.
    pub fn handle_interrupts(&mut self) {
        self.take_interrupts(true);
    }

    fn stop_if_asked(&mut self) {
        self.assert_may_collect("a poll");
        with_heap!(&self.shared.kind, heap => heap.poll(self.record()));
    }

    /// Collects everything, or the young generation alone.
    pub fn collect(&mut self, everything: bool) {
        let extent = if everything {
            Extent::Full
        } else {
            Extent::Young
        };
        self.assert_may_collect("a collection");
        with_heap!(&self.shared.kind, heap => heap.collect(self.record(), extent, "asked for"));
    }

    /// Makes `frame` the newest frame of the shadow stack; null for an empty stack.
    ///
    /// # Safety
    /// The frame, and those that it leads to, stay in place and hold valid values at every allocation and poll, until
    /// another frame is set.
    #[inline(always)]
    pub unsafe fn set_frame(&mut self, frame: *mut Frame) {
        self.record().frames.set(frame);
    }

    /// The newest frame of the shadow stack.
    #[inline(always)]
    pub fn frame(&self) -> *mut Frame {
        self.record().frames.get()
    }

    /// Runs `body` with a frame that holds `values`. The values stay valid in the frame, where `body` finds them.
    ///
    /// # Safety
    /// The values are valid references of this heap, immediates or null, and so is all that `body` puts there.
    #[inline(always)]
    pub unsafe fn with_roots<const N: usize, R>(
        &mut self,
        values: [Value; N],
        body: impl FnOnce(&mut Mutator, &[Cell<Value>; N]) -> R,
    ) -> R {
        /// A frame with its values behind it, as the collector expects them.
        #[repr(C)]
        struct Rooted<const N: usize> {
            frame: Frame,
            values: [Cell<Value>; N],
        }
        struct Unlink(*const Cell<*mut Frame>, *mut Frame);
        impl Drop for Unlink {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the record outlives the borrow of the mutator.
                unsafe { (*self.0).set(self.1) };
            }
        }
        let previous = self.record().frames.get();
        let mut rooted = Rooted {
            frame: Frame { previous, count: N },
            values: values.map(Cell::new),
        };
        let here = &raw mut rooted;
        let _unlink = Unlink(&raw const self.record().frames, previous);
        self.record().frames.set(here.cast());
        // SAFETY: the values are cells, which the collector may change while they are borrowed.
        body(self, unsafe { &(*here).values })
    }

    /// The identity hash of an object, from 1 to 2^28 - 1. It stays the same as long as the object lives.
    ///
    /// # Safety
    /// `object` is a valid reference.
    pub unsafe fn identity_hash_raw(&mut self, object: Address) -> u32 {
        self.assert_inside("an identity hash is asked for");
        // SAFETY: an object lies there, as the caller promises, so a header does; its word is atomic.
        let word = unsafe { header::word_of(object) };
        header::identity_hash(word, || self.next_hash())
    }

    /// Whether a slot of this heap can hold an immediate of this number.
    pub fn fits(&self, number: i64) -> bool {
        match self.shared.kind.references() {
            References::Wide => Wide::fits(number),
            References::Compressed => Compressed::fits(number),
        }
    }

    /// The record with the published fields. It stays where it is as long as the mutator is attached.
    pub fn published(&mut self) -> *mut Record {
        self.record_place().as_ptr()
    }

    /// Panics in a blocking region, and in functions of the embedder that the heap calls: `what` uses the heap. For
    /// generated code that is checked.
    pub fn check_use(&self, what: &str) {
        self.assert_inside(what);
    }

    /// Panics if frames are open on the shadow stack: to detach forgets them. With options `quarantine` and
    /// `verify=edges` each detaching asks this.
    pub fn assert_no_frames(&self) {
        assert!(!self.has_frames(), "{IN_A_FRAME}");
    }

    /// Begins a region in which the thread may block. Prefer [`Mutator::blocking`].
    ///
    /// Regions nest: the heap may be used again when the outermost region has ended. Functions that use the heap inside
    /// a region panic, except for the few that only load or store. This panics where the calling thread has stopped the
    /// world. A region that a listener begins ends in it.
    ///
    /// # Safety
    /// The mutator is not used until [`Mutator::blocking_end`], but it may be dropped. The slots of its frames stay
    /// where they are as long as it is attached, since others may collect.
    pub unsafe fn blocking_begin(&mut self) {
        self.leave_openly();
    }

    /// Ends the region that [`Mutator::blocking_begin`] began. It panics if no region was begun.
    ///
    /// # Safety
    /// References from before the region that were not in root slots are not used again.
    pub unsafe fn blocking_end(&mut self) {
        self.enter();
    }

    /// Gives up the roots of a mutator that is dropped later. Collections do not wait for it any more.
    ///
    /// A thread that ends with several mutators abandons all of them before it drops the first. To detach one mutator
    /// may mean to wait for a collection of its heap, and that must not hold up the other heaps.
    ///
    /// # Safety
    /// Nothing follows but the drop.
    pub unsafe fn abandon(&mut self) {
        self.leave_for_good();
    }

    /// Panics if no object of this heap can lie there, or outside of the gate: `what` needs one.
    #[inline]
    pub(crate) fn assert_own(&self, object: Address, what: &str) {
        self.assert_inside(what);
        self.assert_holds(object, what);
    }

    /// Panics if no object of this heap can lie there: `what` needs one. For a door that is given addresses; it may be called
    /// outside of the gate.
    #[inline]
    pub fn assert_holds(&self, object: Address, what: &str) {
        let is_own = with_heap!(&self.shared.kind, heap => heap.can_hold(object));
        assert!(
            is_own,
            "{what} for {object:?}, where no object of this heap lies: it is NULL, an integer, or of another heap"
        );
    }

    /// As [`Mutator::assert_own`], if the value is a reference.
    #[inline]
    pub(crate) fn assert_own_value(&self, value: Value, what: &str) {
        if let Some(object) = value.as_object() {
            self.assert_own(object, what);
        }
    }

    /// Makes a handle to a value. `None` when the heap has as many handles as it can.
    ///
    /// # Safety
    /// The value is valid.
    pub unsafe fn handle_raw(&mut self, value: Value) -> Option<Handle> {
        self.assert_inside("a handle is made");
        self.assert_own_value(value, "a handle is made");
        let shared = Arc::clone(&self.counted);
        Handle::create(shared, value)
    }
}

/// The thread whose mutator has this record, by the kernel's number; `None` if there is no such mutator. A door that hands
/// out records asks it before it refuses one.
pub fn thread_of(record: NonNull<Record>) -> Option<i32> {
    members::owner_of(record).map(|thread| thread.0)
}

/// Asks the mutator that has this record for an interrupt; false if there is no such mutator, or if it has no handler. On
/// any thread. The record is not looked at before it is known.
pub fn request_interrupt(record: NonNull<Record>) -> bool {
    members::request_interrupt(|member, _| member.record == record)
}

/// Panics on a heap's own thread: all that it runs of the embedder's are functions that collections call, where `what` is
/// not done.
pub fn assert_no_collector(what: &str) {
    collectors::assert_none(what);
}

impl<'s> Scope<'s> {
    /// A new local that holds `value`.
    ///
    /// # Safety
    /// The value is valid.
    pub unsafe fn local_raw(&mut self, value: Value) -> Local<'s> {
        self.local(value)
    }

    /// What a local holds. It is valid until the next allocation or poll of this mutator.
    pub fn get_raw(&self, local: Local<'_>) -> Value {
        self.value(local)
    }
}

impl Handle {
    /// What it refers to, valid until the next allocation or poll of the calling mutator, which is inside its heap.
    pub fn get_raw(&self) -> Value {
        self.held()
    }
}
