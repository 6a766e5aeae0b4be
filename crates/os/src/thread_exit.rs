//! A hook that runs late in the end of a thread.
//!
//! The C library calls the destructors of a thread's keys in rounds, for as long as keys have values, at
//! most four times. The hook's key arms itself again until the last round, so the program's own
//! destructors, which may still use the collector, come first. Runs in the ending thread, with all its
//! locks free.
//!
//! # Which round it is
//! Nobody tells a destructor that. A thread that armed the hook before it began to end counts from
//! the first round. One that arms it for the first time in a destructor does not know how many are left: then the hook,
//! if it is to be exact, runs in the next round that there is, and not in the last. What tells the two apart is a
//! destructor of C++'s kind (`thread_local`), registered with the first arming: those all run before the rounds begin,
//! or, registered later, never. If the first arming comes in the last round, after the turn of the hook's key, the hook
//! does not run.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What runs when a thread ends; it gets the value that the thread armed.
pub type ExitHook = extern "C" fn(usize);

/// The key of the exit hook plus one, 0 before there is one. Release by the creator, acquire by users, so
/// that the function below is seen.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);
/// The function to call at thread exit. Written once, before `EXIT_KEY`.
static EXIT_HOOK: AtomicUsize = AtomicUsize::new(0);
/// Whether a thread that arms it late has it run at once. Written once, before `EXIT_KEY`.
static EXACT: AtomicBool = AtomicBool::new(false);
/// Set by the thread that creates the key. Relaxed: the exchange decides between callers, and orders nothing else.
static EXIT_CLAIMED: AtomicU32 = AtomicU32::new(0);

/// How often the C library goes over the keys of an ending thread (PTHREAD_DESTRUCTOR_ITERATIONS).
const DESTRUCTOR_ROUNDS: usize = 4;
/// The low bits of an armed value say how far the end of the thread is: 0 to 3 rounds, and `COUNTED`.
const STATE_BITS: usize = 7;
const ROUND_BITS: usize = 3;
/// Of an exact hook: rounds are counted from the first.
const COUNTED: usize = 4;
/// Of an exact hook whose thread was not seen to end: in the place of rounds, so that a disarmed value is not null.
const KNOWN: usize = 1;
/// Of an exact hook, in the place of a value: it has run, or can run no more.
const OVER: usize = usize::MAX;

unsafe extern "C" {
    /// Registers a destructor of C++'s kind for the calling thread; 0 for success. `object` is any address of the
    /// library that has the function, which stays loaded until it has run.
    fn __cxa_thread_atexit_impl(
        destructor: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        object: *const c_void,
    ) -> c_int;
}

/// Chooses the function that runs when an armed thread ends; once per process. False afterwards, or when no
/// key is left.
///
/// The key's destructor arms itself again until the last round, so the function runs after the destructors
/// of the program's own keys: they may still use the collector. It does not run for the process's first
/// thread when that returns from `main`, nor in a thread that arms it for the first time in such a destructor.
pub fn set_thread_exit_key(hook: ExitHook) -> bool {
    create_key(hook, false)
}

/// As [`set_thread_exit_key`], and in a thread that arms it late the function runs, too: in the next round that there
/// is. Arming says no after it has run. The first arming of a thread takes a lock of the loader, and allocates with
/// `malloc`.
pub fn set_exact_thread_exit_key(hook: ExitHook) -> bool {
    create_key(hook, true)
}

fn create_key(hook: ExitHook, exact: bool) -> bool {
    if EXIT_CLAIMED.swap(1, Ordering::Relaxed) != 0 {
        return false;
    }
    let mut key: libc::pthread_key_t = 0;
    EXIT_HOOK.store(hook as usize, Ordering::Relaxed);
    EXACT.store(exact, Ordering::Relaxed);
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
/// False before the hook is chosen, for another value, and when the C library refuses; of an exact hook also when it
/// has run. May allocate with `malloc` when the program has more than 32 keys.
pub fn arm_thread_exit(value: usize) -> bool {
    let key = EXIT_KEY.load(Ordering::Acquire);
    if key == 0 || value & STATE_BITS != 0 {
        return false;
    }
    if !EXACT.load(Ordering::Relaxed) {
        return set(key, value);
    }
    match get(key) {
        OVER => value == 0,
        0 if value == 0 => true,
        0 => {
            let object = (&raw const EXIT_KEY).cast();
            // SAFETY: a function of the right type, and an address of the library that it is in.
            let registered =
                unsafe { __cxa_thread_atexit_impl(count_rounds, core::ptr::null_mut(), object) };
            registered == 0 && set(key, value | KNOWN)
        }
        before => set(key, value | before & STATE_BITS),
    }
}

fn get(key: u32) -> usize {
    // SAFETY: the key exists and is never deleted.
    unsafe { libc::pthread_getspecific(key - 1) as usize }
}

fn set(key: u32, armed: usize) -> bool {
    // SAFETY: the key exists and is never deleted; its value is this thread's.
    unsafe { libc::pthread_setspecific(key - 1, armed as *const c_void) == 0 }
}

/// The thread begins to end: the rounds come now.
extern "C" fn count_rounds(_: *mut c_void) {
    let key = EXIT_KEY.load(Ordering::Acquire);
    let armed = get(key);
    if armed != 0 && armed != OVER && armed & COUNTED == 0 {
        // If the C library refuses, the hook runs in the first round.
        set(key, armed & !STATE_BITS | COUNTED);
    }
}

unsafe extern "C" fn at_exit(armed: *mut c_void) {
    let (armed, key) = (armed as usize, EXIT_KEY.load(Ordering::Acquire));
    let exact = EXACT.load(Ordering::Relaxed);
    if armed == OVER {
        // So that arming is refused in the rounds that follow, too.
        set(key, OVER);
        return;
    }
    let value = armed & !STATE_BITS;
    let round = (armed & ROUND_BITS) + 1;
    let counted = !exact || armed & COUNTED != 0;
    // When the C library refuses, end now.
    if counted
        && round < DESTRUCTOR_ROUNDS
        && set(key, value | armed & COUNTED & STATE_BITS | round)
    {
        return;
    }
    if exact {
        set(key, OVER);
        if value == 0 {
            return;
        }
    }
    let hook = EXIT_HOOK.load(Ordering::Relaxed);
    // SAFETY: stored from a function of this type before the key was published.
    let hook: ExitHook = unsafe { core::mem::transmute(hook) };
    hook(value);
}

#[cfg(all(test, not(loom)))]
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
