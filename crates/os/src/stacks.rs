//! Where the calling thread's stack is, without asking more than needed.
//!
//! A collector scans a stack from the stack pointer to its high end. For the process's first thread the
//! loader noted that end; the stack of any other thread has the thread's control block at its top (on Arm with the
//! thread-locals above it), so the thread pointer tells. Everything here concerns the calling thread, which runs on its own stack, not on
//! one that the program switched to (a coroutine, an alternate signal stack).

use crate::processor::{self, CALLEE_SAVED, CONTROL_BLOCK, stack_pointer};
use crate::procfs;
use crate::syscall::call;
use crate::threads::{current_process, current_pthread, current_tid};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr;

unsafe extern "C" {
    /// Set by the loader: where the stack pointer of the main thread started.
    static __libc_stack_end: usize;
}

/// Where the main thread's stack began: above every frame of `main`.
pub fn main_thread_stack_end() -> usize {
    // SAFETY: written by the loader before any of our code runs, never after.
    unsafe { (&raw const __libc_stack_end).read_volatile() }
}

/// Whether the calling thread runs on the stack that the kernel made for the process.
///
/// After a fork from another thread that thread has the process's number but its own stack, so the number
/// alone does not tell: the control block of a thread lies at the top of its stack, in the same mapping.
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

/// Writes the path of the file that is mapped at an address; false if there is none. Any state of the world.
pub fn write_mapped_file(address: usize, out: &mut dyn core::fmt::Write) -> bool {
    let mut found = false;
    procfs::lines(c"/proc/self/maps", |line| {
        let here = mapping_bounds(line).is_some_and(|(low, high)| (low..high).contains(&address));
        if here && let Some(at) = line.iter().position(|&byte| byte == b'/') {
            let path = core::str::from_utf8(&line[at..]);
            found = path.is_ok_and(|path| out.write_str(path).is_ok());
        }
        !here
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
/// grow; no allocation. For others the C library is asked, which allocates and frees a little with
/// `malloc`: no lock may be held that an allocation wants. See [`stack_top`] for the high bound alone
/// without that.
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

/// The registers that a function must preserve for its caller, on the stack, where a scan finds pointers in them.
///
/// Make it a local of a function that is never inlined: then all that its callers need, their frames and registers,
/// lies at or above [`SavedRegisters::address`]. What the function itself spills may lie below.
#[repr(C)]
pub struct SavedRegisters {
    callee_saved: [usize; CALLEE_SAVED],
    kept: usize,
}

impl SavedRegisters {
    /// A place for the registers, and a word that is to be found beside them.
    #[inline(always)]
    pub const fn keeping(word: usize) -> SavedRegisters {
        SavedRegisters {
            callee_saved: [0; CALLEE_SAVED],
            kept: word,
        }
    }

    /// Stores the registers; returns where a scan of the stack starts.
    #[inline(always)]
    pub fn save(&mut self) -> usize {
        processor::save_registers(&mut self.callee_saved);
        self.address()
    }

    /// Replaces the word that is to be found beside the registers.
    #[inline(always)]
    pub fn keep(&mut self, word: usize) {
        self.kept = word;
        core::hint::black_box(self);
    }

    /// Where a scan of the stack starts. Called last in the function, it keeps the registers in place until there.
    #[inline(always)]
    pub fn address(&self) -> usize {
        core::hint::black_box(self) as *const SavedRegisters as usize
    }
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

/// The high end of the calling thread's stack, without allocation, lock or (as a rule) reading files.
///
/// For a thread other than the first it covers the thread's thread-locals, its control block and the values
/// of its keys, which programs use as roots. The caller runs on the thread's own stack, not on one that a
/// program switched to.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_threads_stack_contains_its_frames_and_its_locals() {
        let check = || {
            let local = 0u8;
            let here = &raw const local as usize;
            let (low, high) = stack_of_current_thread().unwrap();
            assert!(low < here && here < high);
            let page = crate::memory::page_size();
            assert_eq!(stack_top(), high.next_multiple_of(page));
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
            usize::from(top >= high && top < high + CONTROL_BLOCK.max(crate::memory::page_size()))
                as *mut c_void
        }
        let memory = crate::memory::map(256 << 10).unwrap();
        for odd in [0, 64, 1024, 2048, 2304, 2368, 2432, 2944] {
            // SAFETY: the memory outlives the thread, which is joined; the attributes are initialised
            // first.
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
}
