//! Threads: who am I, where is my stack, helpers, and a hook at thread exit.
//!
//! The thread word (see `thread_word`) is re-exported here.

use crate::procfs;
use crate::signals;
use crate::syscall::call;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use gleaner_base::faults::{self, FaultPoint};

pub use crate::thread_word::{set_thread_word, thread_word, thread_word_address};
pub use crate::topology::processors;

/// The kernel's number of a thread. The kernel reuses it after the thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub i32);

/// The C library's name for a thread (`pthread_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pthread(pub usize);

unsafe extern "C" {
    /// Set by the loader: where the stack pointer of the main thread started.
    static __libc_stack_end: usize;
}

/// The calling thread's number, from the kernel (so it is right in a forked child, too).
pub fn current_tid() -> ThreadId {
    // SAFETY: no argument, cannot fail.
    ThreadId(unsafe { call(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as i32)
}

/// The process's number, from the kernel.
pub fn current_process() -> i32 {
    // SAFETY: no argument, cannot fail.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as i32
}

/// The calling thread as the C library names it.
pub fn current_pthread() -> Pthread {
    // SAFETY: reads the thread pointer.
    Pthread(unsafe { libc::pthread_self() } as usize)
}

/// Lets another thread run.
pub fn yield_now() {
    // SAFETY: no argument.
    let _ = unsafe { call(libc::SYS_sched_yield, [0; 6]) };
}

/// Sleeps for so many nanoseconds, or less when a signal arrives.
pub fn sleep_ns(nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    };
    // SAFETY: the time outlives the call.
    let _ = unsafe {
        call(
            libc::SYS_nanosleep,
            [&raw const time as usize, 0, 0, 0, 0, 0],
        )
    };
}

/// Stack of a helper thread; more only where the program's own thread-locals need more.
const HELPER_STACK: usize = 256 << 10;

/// What runs in a helper thread.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// Starts a detached thread that runs `entry(argument)` with all signals blocked, under `name` (15 bytes count).
///
/// The caller's signal mask is the same afterwards. False when the system refuses. Allocates with `malloc` and takes locks of
/// the C library: not in a stopped world, not in a handler, and no lock held that an allocation may want.
pub fn spawn_helper(entry: Entry, argument: *mut c_void, name: &CStr) -> bool {
    if faults::armed(FaultPoint::StartWorker) {
        return false;
    }
    let mask = signals::block_all();
    // A new thread starts with its creator's mask.
    let started =
        create(entry, argument, Some(HELPER_STACK)).or_else(|| create(entry, argument, None));
    signals::restore(mask);
    let Some(thread) = started else {
        return false;
    };
    // SAFETY: joinable until it is detached here, so the handle is valid even if the thread has ended.
    unsafe {
        libc::pthread_setname_np(thread, name.as_ptr());
        libc::pthread_detach(thread);
    }
    true
}

fn create(entry: Entry, argument: *mut c_void, stack: Option<usize>) -> Option<libc::pthread_t> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the attributes are initialised before use and destroyed after; the entry has the type that
    // the C library calls.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        if let Some(bytes) = stack {
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes);
        }
        let result = libc::pthread_create(&mut thread, attributes.as_ptr(), entry, argument);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (result == 0).then_some(thread)
    }
}

/// Where the main thread's stack began: above every frame of `main`.
pub fn main_thread_stack_end() -> usize {
    // SAFETY: written by the loader before any of our code runs, never after.
    unsafe { (&raw const __libc_stack_end).read_volatile() }
}

/// Whether the calling thread runs on the stack that the kernel made for the process.
///
/// After a fork from another thread that thread has the process's number but its own stack, so the number alone
/// does not tell: the control block of a thread lies at the top of its stack, in the same mapping.
fn on_process_stack(here: usize) -> bool {
    if current_tid().0 != current_process() {
        return false;
    }
    let block = current_pthread().0;
    match mapping_around(here) {
        Some((low, high)) => !(low..high).contains(&block),
        None => true,
    }
}

/// The mapping that contains an address, from /proc/self/maps.
fn mapping_around(address: usize) -> Option<(usize, usize)> {
    let mut found = None;
    procfs::lines(c"/proc/self/maps", |line| {
        found = mapping_bounds(line).filter(|&(low, high)| (low..high).contains(&address));
        found.is_none()
    });
    found
}

/// `low-high` at the start of a line of /proc/self/maps.
pub(crate) fn mapping_bounds(line: &[u8]) -> Option<(usize, usize)> {
    let (low, rest) = procfs::hexadecimal(line)?;
    let (high, rest) = procfs::hexadecimal(rest.strip_prefix(b"-")?)?;
    rest.starts_with(b" ").then_some((low, high))
}

/// The bounds of the calling thread's stack, low and high address; the high one is where scanning ends.
///
/// For the process's first thread: the start that the loader noted, and as low as the stack limit lets it
/// grow; no allocation. For others the C library is asked, which allocates and frees a little with `malloc`: no
/// lock may be held that an allocation wants. See [`stack_top`] for the high bound alone without that.
pub fn stack_of_current_thread() -> Option<(usize, usize)> {
    let here = stack_pointer();
    if on_process_stack(here) {
        let high = main_thread_stack_end();
        return Some((lowest_of_process_stack(high, here), high));
    }
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut bytes): (*mut c_void, usize) = (ptr::null_mut(), 0);
    // SAFETY: the attributes are filled by the first call, read by the second, destroyed by the third.
    let known = unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut bytes) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        known
    };
    known.then_some((low as usize, low as usize + bytes))
}

/// Roughly the stack pointer of the caller.
#[inline(always)]
fn stack_pointer() -> usize {
    let here: usize;
    // SAFETY: copies a register.
    unsafe {
        core::arch::asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags));
    }
    here
}

/// The largest stack that the first thread is believed to have when its limit is off.
const PROCESS_STACK_MAX: u64 = 1 << 30;

fn lowest_of_process_stack(high: usize, here: usize) -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: PROCESS_STACK_MAX,
        rlim_max: PROCESS_STACK_MAX,
    };
    let place = &raw mut limit as usize;
    // SAFETY: the kernel fills the struct; a null new limit changes nothing.
    let _ = unsafe {
        let stack = libc::RLIMIT_STACK as usize;
        call(libc::SYS_prlimit64, [0, stack, 0, place, 0, 0])
    };
    let bytes = limit.rlim_cur.min(PROCESS_STACK_MAX) as usize;
    high.saturating_sub(bytes).min(here) & !(crate::memory::page_size() - 1)
}

/// Bytes of the control block in the C library of Debian 12; it lies at the top of a thread's stack.
const CONTROL_BLOCK: usize = 2368;

/// The high end of the calling thread's stack, without allocation, lock or (as a rule) reading files.
///
/// For a thread other than the first it covers the thread's thread-locals, its control block and the values of its
/// keys, which programs use as roots. The caller runs on the thread's own stack, not on one that a program
/// switched to.
pub fn stack_top() -> usize {
    if on_process_stack(stack_pointer()) {
        return main_thread_stack_end();
    }
    let page = crate::memory::page_size();
    let block = current_pthread().0;
    let near = (block + 1).next_multiple_of(page);
    let far = (block + CONTROL_BLOCK).next_multiple_of(page);
    if near == far {
        return near;
    }
    // A stack whose top is not at a page's end: the program made it. See how far its memory reaches.
    match mapping_around(block) {
        Some((_, end)) => far.min(end),
        None => near,
    }
}

/// What runs when a thread ends; it gets the value that the thread armed.
pub type ExitHook = extern "C" fn(usize);

/// The key of the exit hook plus one, 0 before there is one. Release by the creator, acquire by users, so that
/// the function below is seen.
static EXIT_KEY: AtomicU32 = AtomicU32::new(0);
/// The function to call at thread exit. Written once, before `EXIT_KEY`.
static EXIT_HOOK: AtomicUsize = AtomicUsize::new(0);
/// Set by whoever creates the key.
static EXIT_CLAIMED: AtomicU32 = AtomicU32::new(0);

/// How often the C library goes over the keys of an ending thread (PTHREAD_DESTRUCTOR_ITERATIONS).
const DESTRUCTOR_ROUNDS: usize = 4;
/// The low bits of an armed value count rounds.
const ROUND_BITS: usize = 7;

/// Chooses the function that runs when an armed thread ends; once per process. False afterwards, or when no key is left.
///
/// The key's destructor arms itself again until the last round, so the function runs after the
/// destructors of the program's own keys: they may still use the collector. It does not run for the process's first thread
/// when that returns from `main`.
pub fn set_thread_exit_key(hook: ExitHook) -> bool {
    if EXIT_CLAIMED.swap(1, Ordering::AcqRel) != 0 {
        return false;
    }
    let mut key: libc::pthread_key_t = 0;
    EXIT_HOOK.store(hook as usize, Ordering::Relaxed);
    // SAFETY: the destructor has the type that the C library calls.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_exit)) } != 0 {
        EXIT_CLAIMED.store(0, Ordering::Release);
        return false;
    }
    EXIT_KEY.store(key + 1, Ordering::Release);
    true
}

/// Arms the hook for the calling thread, which will get `value` (a multiple of 8; 0 disarms).
///
/// False before the hook is chosen, for another value, and when the C library refuses. May allocate with `malloc` when
/// the program has more than 32 keys.
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
    use std::sync::mpsc;

    #[test]
    fn threads_have_numbers_and_names_of_their_own() {
        let mine = (current_tid(), current_pthread());
        let its = std::thread::spawn(|| (current_tid(), current_pthread()));
        let its = its.join().unwrap();
        assert_ne!(mine.0, its.0);
        assert_ne!(mine.1, its.1);
        assert_eq!(current_process() as u32, std::process::id());
    }

    extern "C" fn tell(argument: *mut c_void) -> *mut c_void {
        let (mut low, mut name) = (0usize, [0u8; 16]);
        if let Some((l, h)) = stack_of_current_thread() {
            low = h - l;
        }
        // SAFETY: PR_GET_NAME fills 16 bytes; the argument is the sender that the test leaked.
        unsafe {
            libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            let say =
                Box::from_raw(argument.cast::<mpsc::Sender<(signals::Mask, usize, [u8; 16])>>());
            while name[..4] != *b"gc-m" {
                yield_now();
                libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
            }
            say.send((signals::blocked(), low, name)).unwrap();
        }
        ptr::null_mut()
    }

    #[test]
    fn a_helper_blocks_signals_and_has_a_small_stack_and_a_name() {
        let before = signals::blocked();
        let (say, hear) = mpsc::channel::<(signals::Mask, usize, [u8; 16])>();
        let argument = Box::into_raw(Box::new(say)).cast();
        assert!(spawn_helper(tell, argument, c"gc-mark-1"));
        let (mask, stack, name) = hear.recv().unwrap();
        assert!(name.starts_with(b"gc-mark-1\0"));
        assert!(mask.contains(libc::SIGTERM) && mask.contains(libc::SIGSEGV));
        assert!(!mask.contains(32) && !mask.contains(33));
        assert!((HELPER_STACK..2 * HELPER_STACK).contains(&stack));
        assert_eq!(signals::blocked(), before);
    }

    #[test]
    fn a_threads_stack_contains_its_frames_and_its_locals() {
        let check = || {
            let local = 0u8;
            let here = &raw const local as usize;
            let (low, high) = stack_of_current_thread().unwrap();
            assert!(low < here && here < high);
            assert_eq!(stack_top(), high);
            assert!(high > current_pthread().0);
        };
        std::thread::spawn(check).join().unwrap();
        for kilobytes in [64, 100, 256, 3000] {
            let thread = std::thread::Builder::new().stack_size(kilobytes << 10);
            thread.spawn(check).unwrap().join().unwrap();
        }
    }

    #[test]
    fn a_stack_that_the_program_made_is_covered_to_its_top() {
        extern "C" fn check(_: *mut c_void) -> *mut c_void {
            let (_, high) = stack_of_current_thread().unwrap();
            let top = stack_top();
            usize::from(top >= high && top < high + crate::memory::page_size()) as *mut c_void
        }
        let memory = crate::memory::map(256 << 10).unwrap();
        for odd in [0, 64, 1024, 2048, 2304, 2368, 2432, 2944] {
            // SAFETY: the memory outlives the thread, which is joined; the attributes are initialised first.
            let answer = unsafe {
                let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
                let mut thread = 0;
                let mut answer = ptr::null_mut();
                libc::pthread_attr_init(&mut attributes);
                let bytes = (256 << 10) - 4096 + odd;
                libc::pthread_attr_setstack(&mut attributes, memory.as_ptr().cast(), bytes);
                let made = libc::pthread_create(&mut thread, &attributes, check, ptr::null_mut());
                assert_eq!(made, 0);
                assert_eq!(libc::pthread_join(thread, &mut answer), 0);
                libc::pthread_attr_destroy(&mut attributes);
                answer
            };
            assert_eq!(answer as usize, 1, "top {odd} bytes into the last page");
        }
        // SAFETY: the threads are gone.
        unsafe { crate::memory::unmap(memory, 256 << 10) };
    }

    #[test]
    fn a_forked_child_of_a_thread_still_knows_its_stack() {
        let status = std::thread::spawn(|| {
            let before = (stack_top(), stack_of_current_thread().unwrap().1);
            // SAFETY: the child makes system calls only, then leaves.
            unsafe {
                let pid = libc::fork();
                if pid == 0 {
                    libc::_exit(if stack_top() == before.0 { 0 } else { 1 });
                }
                let mut status = -1;
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                assert_eq!(before.0, before.1);
                status
            }
        });
        assert_eq!(status.join().unwrap(), 0);
    }

    #[test]
    fn the_process_stack_is_found_in_the_maps() {
        let end = main_thread_stack_end();
        let (low, high) = mapping_around(end).unwrap();
        assert!(low < end && end <= high);
        assert_eq!(mapping_bounds(b"10-2f r"), Some((0x10, 0x2f)));
        assert_eq!(mapping_bounds(b"Size: 4 kB"), None);
        assert_eq!(mapping_bounds(b"ab"), None);
    }

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
