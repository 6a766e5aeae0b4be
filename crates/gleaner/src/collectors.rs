//! Which threads are a heap's own. All that they run of the embedder's are functions that a collection calls: trace
//! functions, size functions and root visitors, which must not use the heap.

use std::cell::Cell;

/// What is said of such a function, on the heap's own threads and on the one that leads.
pub(crate) const BY_A_COLLECTION: &str = "by a trace function, a size function or a root visitor: the heap is stopped \
                                          there, and such a function may only visit slots";

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// The calling thread is a heap's own from now on.
pub(crate) fn note() {
    IS_OWN.set(true);
}

/// Panics on a heap's own thread: `what` is not done there.
pub(crate) fn assert_none(what: &str) {
    assert!(!IS_OWN.get(), "{what} {BY_A_COLLECTION}");
}
