//! A hook that runs late in the end of a thread.
//!
//! The C library calls the destructors of a thread's keys in rounds, for as long as keys have values, at
//! most four times. The hook's key arms itself again until the last round, so the program's own
//! destructors, which may still use the collector, come first. Runs in the ending thread, with all its
//! locks free.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What runs when a thread ends; it gets the value that the thread armed.
pub type ExitHook = extern "C" fn(usize);

/// The key of the exit hook plus one, 0 before there is one. Release by the creator, acquire by users, so
/// that the function below is seen.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);
/// The function to call at thread exit. Written once, before `EXIT_KEY`.
static EXIT_HOOK: AtomicUsize = AtomicUsize::new(0);
/// Set by whoever creates the key. Relaxed: the exchange decides between callers, and orders nothing else.
static EXIT_CLAIMED: AtomicU32 = AtomicU32::new(0);

/// How often the C library goes over the keys of an ending thread (PTHREAD_DESTRUCTOR_ITERATIONS).
const DESTRUCTOR_ROUNDS: usize = 4;
/// The low bits of an armed value count rounds.
const ROUND_BITS: usize = 7;

/// Chooses the function that runs when an armed thread ends; once per process. False afterwards, or when no
/// key is left.
///
/// The key's destructor arms itself again until the last round, so the function runs after the destructors
/// of the program's own keys: they may still use the collector. It does not run for the process's first
/// thread when that returns from `main`.
pub fn set_thread_exit_key(hook: ExitHook) -> bool {
    if EXIT_CLAIMED.swap(1, Ordering::Relaxed) != 0 {
        return false;
    }
    let mut key: libc::pthread_key_t = 0;
    EXIT_HOOK.store(hook as usize, Ordering::Relaxed);
    // SAFETY: the destructor has the type that the C library calls.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_exit)) } != 0 {
        EXIT_CLAIMED.store(0, Ordering::Relaxed);
        return false;
    }
    EXIT_KEY.store(key + 1, Ordering::Release);
    true
}

/// Arms the hook for the calling thread, which will get `value` (a multiple of 8; 0 disarms).
///
/// False before the hook is chosen, for another value, and when the C library refuses. May allocate with
/// `malloc` when the program has more than 32 keys.
pub fn arm_thread_exit(value: usize) -> bool {
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key == 0 || value & ROUND_BITS != 0 {
        return false;
    }
    // SAFETY: the key exists and is never deleted.
    unsafe { libc::pthread_setspecific(key - 1, value as *const c_void) == 0 }
}

unsafe extern "C" fn at_exit(armed: *mut c_void) {
    let round = (armed as usize & ROUND_BITS) + 1;
    let value = armed as usize & !ROUND_BITS;
    let key = EXIT_KEY.load(Ordering::Acquire);
    if round < DESTRUCTOR_ROUNDS {
        let again = (value | round) as *const c_void;
        // SAFETY: the key exists; its value is this thread's. When the C library refuses, end now.
        if unsafe { libc::pthread_setspecific(key - 1, again) } == 0 {
            return;
        }
    }
    let hook = EXIT_HOOK.load(Ordering::Relaxed);
    // SAFETY: stored from a function of this type before the key was published.
    let hook: ExitHook = unsafe { core::mem::transmute(hook) };
    hook(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// What the exit hook and the key destructors of the program did, in order.
    static LOG: Mutex<Vec<(&str, usize)>> = Mutex::new(Vec::new());
    static CLIENT_KEY: AtomicU32 = AtomicU32::new(0);

    extern "C" fn hook(value: usize) {
        LOG.lock().unwrap().push(("hook", value));
    }

    unsafe extern "C" fn client(value: *mut c_void) {
        LOG.lock().unwrap().push(("client", value as usize));
        if value as usize > 1 {
            let key = CLIENT_KEY.load(Ordering::Relaxed);
            // SAFETY: the key exists.
            unsafe { libc::pthread_setspecific(key, (value as usize - 1) as *mut c_void) };
        }
    }

    #[test]
    fn the_exit_hook_runs_after_the_programs_destructors() {
        assert!(!arm_thread_exit(8), "nothing to arm yet");
        assert!(set_thread_exit_key(hook));
        assert!(!set_thread_exit_key(hook), "once only");
        std::thread::spawn(|| {
            let mut key = 0;
            // SAFETY: a key with a destructor of the right type.
            unsafe {
                assert_eq!(libc::pthread_key_create(&mut key, Some(client)), 0);
                CLIENT_KEY.store(key, Ordering::Relaxed);
                assert_eq!(libc::pthread_setspecific(key, 3 as *mut c_void), 0);
            }
            assert!(!arm_thread_exit(9), "not a multiple of 8");
            assert!(arm_thread_exit(64));
            assert!(arm_thread_exit(128));
        })
        .join()
        .unwrap();
        std::thread::spawn(|| {
            assert!(arm_thread_exit(256));
            assert!(arm_thread_exit(0), "disarmed");
        })
        .join()
        .unwrap();
        let expected = [("client", 3), ("client", 2), ("client", 1), ("hook", 128)];
        assert_eq!(*LOG.lock().unwrap(), expected);
    }
}
