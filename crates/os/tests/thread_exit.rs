//! The hook at the end of a thread, exact: it runs in whatever round of destructors a thread arms it first, as far as
//! there is a round left. A process of its own: there is one hook in each.

use core::ffi::c_void;
use gleaner_os::threads::{arm_thread_exit, set_exact_thread_exit_key};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// What the hook was given, and how often it ran.
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static RAN: AtomicU32 = AtomicU32::new(0);
/// What arming said in a destructor.
static ARMED: AtomicU32 = AtomicU32::new(0);
/// The program's destructors that had run when the hook did.
static ROUNDS: AtomicU32 = AtomicU32::new(0);
static ROUNDS_BEFORE_HOOK: AtomicU32 = AtomicU32::new(0);
/// A key that was made before the hook's, so that its destructor comes first in each round; and one after.
static KEYS: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

extern "C" fn hook(value: usize) {
    GIVEN.store(value, Ordering::Relaxed);
    RAN.fetch_add(1, Ordering::Relaxed);
    ROUNDS_BEFORE_HOOK.store(ROUNDS.load(Ordering::Relaxed), Ordering::Relaxed);
    assert!(!arm_thread_exit(8), "it does not run twice");
}

fn set(key: usize, value: usize) {
    let key = KEYS[key].load(Ordering::Relaxed);
    // SAFETY: a key of this program.
    let failed = unsafe { libc::pthread_setspecific(key, value as *const c_void) };
    assert_eq!(failed, 0);
}

/// Counts rounds down, and arms the hook in the last one.
fn count_down(key: usize, value: usize) {
    ROUNDS.fetch_add(1, Ordering::Relaxed);
    if value > 1 {
        set(key, value - 1);
    } else {
        ARMED.store(u32::from(arm_thread_exit(64)), Ordering::Relaxed);
    }
}

unsafe extern "C" fn earlier(value: *mut c_void) {
    count_down(0, value as usize);
}

unsafe extern "C" fn later(value: *mut c_void) {
    count_down(1, value as usize);
}

/// A thread does `body` and ends; how often the hook ran, and what arming in a destructor said.
fn thread(body: fn(usize, usize), key: usize, rounds: usize) -> (u32, u32) {
    for count in [&RAN, &ARMED, &ROUNDS, &ROUNDS_BEFORE_HOOK] {
        count.store(0, Ordering::Relaxed);
    }
    std::thread::spawn(move || body(key, rounds))
        .join()
        .unwrap();
    (RAN.load(Ordering::Relaxed), ARMED.load(Ordering::Relaxed))
}

#[test]
fn the_hook_runs_whenever_it_was_armed_in_time() {
    // SAFETY: keys with destructors of the right type.
    let make = |place: usize, destructor| unsafe {
        let mut key = 0;
        assert_eq!(libc::pthread_key_create(&mut key, Some(destructor)), 0);
        KEYS[place].store(key, Ordering::Relaxed);
    };
    make(0, earlier);
    assert!(set_exact_thread_exit_key(hook));
    make(1, later);

    for (key, last) in [(0, 4), (1, 3)] {
        for rounds in 1..=last {
            // Armed for the first time in a destructor of that round.
            let found = thread(set, key, rounds);
            assert_eq!(found, (1, 1), "key {key}, round {rounds}");
            assert_eq!(GIVEN.load(Ordering::Relaxed), 64);
            // Armed before: in the last round, whatever happens in between.
            let found = thread(
                |key, rounds| {
                    assert!(arm_thread_exit(128));
                    set(key, rounds);
                },
                key,
                rounds,
            );
            assert_eq!(found, (1, 1), "key {key}, round {rounds}");
            assert_eq!(GIVEN.load(Ordering::Relaxed), 64, "the later value");
            assert_eq!(ROUNDS_BEFORE_HOOK.load(Ordering::Relaxed), rounds as u32);
            // Armed and disarmed before, and armed again in a destructor.
            let found = thread(
                |key, rounds| {
                    assert!(arm_thread_exit(128) && arm_thread_exit(0));
                    set(key, rounds);
                },
                key,
                rounds,
            );
            assert_eq!(found, (1, 1), "key {key}, round {rounds}");
        }
    }
    // In the last round, after its turn: arming says no where it was seen, and the hook has run where it was armed.
    let found = thread(
        |key, rounds| {
            assert!(arm_thread_exit(128));
            set(key, rounds);
        },
        1,
        4,
    );
    assert_eq!(found, (1, 0));
    assert_eq!(GIVEN.load(Ordering::Relaxed), 128);
    let disarmed = thread(
        |_, _| assert!(arm_thread_exit(8) && arm_thread_exit(0)),
        0,
        0,
    );
    assert_eq!(disarmed, (0, 0));
    assert_eq!(thread(|_, _| (), 0, 0), (0, 0));
}
