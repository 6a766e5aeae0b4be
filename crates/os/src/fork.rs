//! Hooks around `fork`, and how a child knows itself where no hook ran.
//!
//! `prepare` runs in the forking thread before the fork, then `parent` or `child` in the same thread on
//! either side. The C library runs `prepare` hooks in the reverse of the order of registration and the
//! other two in that order. So hooks registered later (by the program, by libraries that load later) run
//! outside ours: before our `prepare` and after our `parent` and `child`, where they may still allocate.
//! Hooks registered earlier run inside ours, while `prepare` may hold the collector's locks, and must not
//! allocate: register early.
//!
//! In the child only the forking thread is left; it has a new [`ThreadId`](crate::threads::ThreadId).
//!
//! No hook runs where the program makes the system call by itself. A process that has a memory of its own is told by a page that
//! the kernel zeroes in the child of each fork. The number of the process would not do: a child that borrows the memory of its
//! parent (`vfork`) has another number, and the first one of a container has its parent's.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::memory;

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

/// In a process that cannot tell.
static ALWAYS_MARKED: AtomicU32 = AtomicU32::new(MARKED);
/// A word that is `MARKED` in a process that [`mark_process`] was called in, and 0 in a new one. The address is relaxed: each thread that
/// reads it either sees the process's own word, or is not told yet. The word is left with Release by the thread that has made the
/// process whole, or holds what it needs for that, and read with Acquire.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const ALWAYS_MARKED).cast_mut());
const MARKED: u32 = 1;
/// A thread of a new process has seen that it is one.
const CLAIMED: u32 = 2;

/// From now on this process is no new one, and the child of each later fork is. False where the kernel cannot zero pages of children
/// (before Linux 4.14), or there is no memory: then nobody can tell. The first call comes before other threads fork.
pub fn mark_process() -> bool {
    let mark = MARK.load(Ordering::Relaxed);
    if mark.cast_const() != &raw const ALWAYS_MARKED {
        // SAFETY: the page stays mapped.
        unsafe { (*mark).store(MARKED, Ordering::Release) };
        return true;
    }
    let bytes = memory::page_size();
    let Some(page) = memory::map(bytes) else {
        return false;
    };
    // SAFETY: whole pages of this function's own; in a child they are to be zero.
    if unsafe { memory::advise(page, bytes, libc::MADV_WIPEONFORK) }.is_err() {
        // SAFETY: nobody has seen the page.
        unsafe { memory::unmap(page, bytes) };
        return false;
    }
    let mark = page.cast::<AtomicU32>();
    // SAFETY: a page of zeroes, of which nobody else knows yet.
    unsafe { mark.as_ref() }.store(MARKED, Ordering::Relaxed);
    // Release: who reads the address by way of another word finds the page mapped; it is data-dependent there.
    MARK.store(mark.as_ptr(), Ordering::Release);
    true
}

/// Whether this process has come from a fork since [`mark_process`] was called, with a memory of its own. Two loads.
#[inline]
pub fn is_new_process() -> bool {
    // SAFETY: a static, or a page that stays mapped.
    unsafe { (*MARK.load(Ordering::Relaxed)).load(Ordering::Acquire) != MARKED }
}

/// Whether the calling thread is the one that calls [`mark_process`] in this new process: the first that asks. Others wait until it has.
pub fn claim_new_process() -> bool {
    // SAFETY: as in `is_new_process`.
    let mark = unsafe { &*MARK.load(Ordering::Relaxed) };
    // Relaxed: what the winner writes it publishes by `mark_process`.
    mark.compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::ffi::c_void;

    /// What the child of a system call with these flags exits with: whether it is new, and new again after it was marked.
    fn asks_in_child(flags: i32) -> i32 {
        // SAFETY: the child makes system calls only, then leaves.
        unsafe {
            let pid = libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if pid == 0 {
                let before = i32::from(is_new_process() && claim_new_process());
                let again = i32::from(claim_new_process() || !is_new_process());
                mark_process();
                let after = i32::from(is_new_process() || claim_new_process());
                libc::_exit(before * 2 + after + again * 4);
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert!(libc::WIFEXITED(status));
            libc::WEXITSTATUS(status)
        }
    }

    #[test]
    fn a_child_is_new_until_it_is_marked() {
        assert!(mark_process() && !is_new_process());
        assert!(mark_process(), "once more");
        for _ in 0..3 {
            assert_eq!(asks_in_child(0), 2);
        }
        assert!(!is_new_process());
    }

    #[test]
    fn a_child_of_a_child_is_new() {
        assert!(mark_process());
        // SAFETY: the child makes system calls only, then leaves.
        unsafe {
            let pid = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if pid == 0 {
                mark_process();
                libc::_exit(asks_in_child(0));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(libc::WEXITSTATUS(status), 2);
        }
    }

    #[test]
    fn a_child_that_borrows_its_parents_memory_is_not_new() {
        extern "C" fn ask(_: *mut c_void) -> c_int {
            c_int::from(is_new_process())
        }
        assert!(mark_process());
        let mut stack = vec![0u128; 4096];
        // SAFETY: the child has a stack of its own, and its parent waits until it has left.
        unsafe {
            let top = stack.as_mut_ptr_range().end.cast();
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            let pid = libc::clone(ask, top, flags, core::ptr::null_mut());
            let mut status = -1;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(libc::WEXITSTATUS(status), 0);
        }
    }
}
