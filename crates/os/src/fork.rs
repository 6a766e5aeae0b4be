//! Hooks around `fork`.
//!
//! `prepare` runs in the forking thread before the fork, then `parent` or `child` in the same thread on
//! either side. The C library runs `prepare` hooks in the reverse of the order of registration and the
//! other two in that order. So hooks registered later (by the program, by libraries that load later) run
//! outside ours: before our `prepare` and after our `parent` and `child`, where they may still allocate.
//! Hooks registered earlier run inside ours, while `prepare` may hold the collector's locks, and must not
//! allocate: register early.
//!
//! In the child only the forking thread is left; it has a new [`ThreadId`](crate::threads::ThreadId).

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// Whether a thread has registered the hooks or is about to. Relaxed: the exchange decides between callers, and orders
/// nothing else.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Registers the three hooks, once for the life of the process; false the second time and when the C
/// library refuses. May allocate with `malloc` and takes a lock of the C library: not in a stopped world.
pub fn register(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> bool {
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return false;
    }
    // SAFETY: three functions that stay for as long as the library does; the C library forgets them when it
    // goes.
    let done = unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) == 0 };
    if !done {
        REGISTERED.store(false, Ordering::Relaxed);
    }
    done
}
