//! Roots that belong to a heap: handles that are set, ranges of root slots, and the heap's own root visitor.

use std::sync::Arc;

use gleaner_mem::Address;
use gleaner_mem::slot::Value;
use gleaner_plans::scavenge::heap_roots::{HeapRootVisitor, RootRange, RootRangeError};

use crate::body::with_heap;
use crate::handle::Handle;
use crate::known::Holds;
use crate::local::Local;
use crate::mutator::Mutator;
use crate::scope::Scope;

impl Scope<'_> {
    /// Makes a handle of this heap keep what `local` holds, in the place of what it kept. Other threads that open the
    /// handle at the same time find either.
    ///
    /// ```
    /// # use gleaner::{Heap, Structure};
    /// # let heap = Heap::builder().limit(1 << 20).build().unwrap();
    /// # let node = heap.structure(Structure { references: 0, bytes: 8 }).unwrap();
    /// heap.attach().unwrap().scope(|scope| {
    ///     let (one, other) = (scope.allocate(node)?, scope.allocate(node)?);
    ///     let handle = scope.handle(one).unwrap();
    ///     scope.set_handle(&handle, other);
    ///     let open = scope.open(&handle);
    ///     assert!(scope.same(open, other));
    ///     Ok::<(), gleaner::OutOfMemory>(())
    /// }).unwrap();
    /// ```
    pub fn set_handle(&mut self, handle: &Handle, local: Local<'_, impl Holds>) {
        self.own_handle(&handle.shared);
        let value = self.value(local);
        // SAFETY: locals hold valid values of this heap, whose handle it is.
        handle.put(value);
    }
}

impl Mutator {
    /// Makes a handle keep another value. It panics if the handle is another heap's.
    ///
    /// # Safety
    /// The value is valid.
    pub unsafe fn set_handle_raw(&mut self, handle: &Handle, value: Value) {
        self.assert_inside("a handle is set");
        assert!(
            Arc::ptr_eq(&self.counted, &handle.shared),
            "a handle of another heap"
        );
        self.assert_own_value(value, "a handle is set");
        // SAFETY: the value is valid, as the caller promises, and the handle is this heap's.
        handle.put(value);
    }

    /// Makes the slots of a range roots of the heap, until [`Mutator::remove_root_range`] or until the heap ends. The
    /// collector cuts all ranges of a heap into tasks for its workers. Slots of [`RootWidth::Values`] are as those of
    /// the shadow stack; slots of [`RootWidth::Slots`] are as those of objects, and [`Mutator::load_raw`] and
    /// [`SlotFormat::store`](crate::raw::SlotFormat::store) read and write them. Stores need no barrier.
    ///
    /// [`RootWidth::Values`]: crate::raw::RootWidth::Values
    /// [`RootWidth::Slots`]: crate::raw::RootWidth::Slots
    ///
    /// # Safety
    /// As long as the slots are roots they lie there, and hold valid values at every poll and allocation of any mutator.
    pub unsafe fn add_root_range(&mut self, range: RootRange) -> Result<(), RootRangeError> {
        self.assert_inside("a root range is registered");
        // SAFETY: such slots lie there and hold valid values, as the caller promises.
        with_heap!(&self.shared.kind, heap => unsafe { heap.add_root_range(range) })
    }

    /// The slots of the range that begins at `start` are no roots any more. The result is the range.
    pub fn remove_root_range(&mut self, start: Address) -> Result<RootRange, RootRangeError> {
        self.assert_inside("a root range is unregistered");
        with_heap!(&self.shared.kind, heap => heap.heap_roots.remove(start))
    }

    /// Sets the function that visits roots of the heap, or takes it back. Collections call it once for each of its
    /// parts, beside the [`RootVisitor`](crate::raw::RootVisitor) that they call for each mutator.
    ///
    /// # Safety
    /// The function keeps what [`HeapRootVisitor`] asks, and what it visits holds valid values at every poll and
    /// allocation of any mutator.
    pub unsafe fn set_heap_root_visitor(&mut self, visitor: Option<HeapRootVisitor>) {
        self.assert_inside("a heap's root visitor is set");
        let parts = visitor.map_or(0, |visitor| visitor.parts);
        assert!(
            u32::try_from(parts).is_ok(),
            "a heap's root visitor has {parts} parts: cut the roots so that a part has some thousand of them"
        );
        with_heap!(&self.shared.kind, heap => heap.heap_roots.set_visitor(visitor));
    }
}
