//! What weak processing asks of the marker.
//!
//! The idea: weak processing decides, the marker acts. All knowledge of object layout, mark bits and the heap's limits
//! stays behind this trait, and so does every access to memory, which leaves the deciding code free of `unsafe`.
//!
//! Invariant: no method allocates from the client's heap or calls malloc (the world is stopped).
//!
//! Threads: called by the collecting thread; `drain` may employ the other markers and returns when all are done.

use gleaner_mem::address::Address;

/// A marker between its main trace and the sweep.
///
/// Addresses handed in as `object` come from the client's registrations. An address that is not the start of a heap
/// object must be borne: it counts as marked, and tracing it does nothing.
pub trait Tracer {
    /// Whether `object` has been reached; true for whatever is not the start of a heap object.
    fn is_marked(&self, object: Address) -> bool;

    /// The start of the heap cell in which `address` lies, allocated or not; `None` outside the heap.
    fn base(&self, address: Address) -> Option<Address>;

    /// Marks `object`; what it reaches is marked by the next [`Tracer::drain`]. Does nothing if it is marked.
    fn mark(&mut self, object: Address);

    /// Marks what `object` refers to, but not `object` itself, unless it refers to itself; completed by
    /// [`Tracer::drain`].
    fn trace_children(&mut self, object: Address);

    /// As [`Tracer::trace_children`], but passes over every pointer from `object` into itself, interior ones included.
    /// A way back through another object still counts.
    fn trace_children_except_self(&mut self, object: Address);

    /// Finishes the trace: on return everything reachable from what was pushed is marked.
    fn drain(&mut self);

    /// Stores null in the word at `link`, which its registrant has promised to be writable.
    fn clear_link(&mut self, link: Address);
}
