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

/// Whether somebody registered the hooks or is about to. Relaxed: the exchange decides between callers, and
/// orders nothing else.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::{current_process, current_tid};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicU32;

    /// The order in which the hooks of the forking thread ran, one decimal digit each.
    static ORDER: AtomicU32 = AtomicU32::new(0);
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn note(digit: u32) {
        let before = ORDER.load(Ordering::SeqCst);
        ORDER.store(before * 10 + digit, Ordering::SeqCst);
    }
    extern "C" fn prepare() {
        note(1);
    }
    extern "C" fn parent() {
        note(2);
    }
    extern "C" fn child() {
        note(3);
    }
    extern "C" fn later_prepare() {
        note(4);
    }
    extern "C" fn later_parent() {
        note(5);
    }
    extern "C" fn later_child() {
        note(6);
    }

    #[test]
    fn hooks_run_in_the_documented_order() {
        let _one = ONE_AT_A_TIME.lock().unwrap();
        assert!(register(prepare, parent, child));
        assert!(!register(prepare, parent, child), "once only");
        // SAFETY: as in `register`.
        let later =
            unsafe { pthread_atfork(Some(later_prepare), Some(later_parent), Some(later_child)) };
        assert_eq!(later, 0);
        let (process, thread) = (current_process(), current_tid());
        // SAFETY: the child calls only what is safe after a fork of a process with threads.
        let status = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let fresh = current_process() != process && current_tid() != thread;
                let right = ORDER.load(Ordering::SeqCst) == 4136 && fresh;
                libc::_exit(if right { 0 } else { 1 });
            }
            assert!(pid > 0);
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            status
        };
        assert_eq!(status, 0);
        assert_eq!(ORDER.load(Ordering::SeqCst), 4125);
    }
}
