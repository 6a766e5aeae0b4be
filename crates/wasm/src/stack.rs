//! The compiler's stack. A function may be compiled when the program's own stack is nearly used up, and the compiler needs
//! more of it than the reserve behind the limit of compiled code. So it runs on a stack of its own.

use std::any::Any;
use std::arch::naked_asm;
use std::ffi::c_void;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;

const BYTES: usize = 8 << 20;

/// Below the stack lie so many bytes without access.
const GUARD_BYTES: usize = 64 << 10;

/// A stack beside that of the thread. Memory is taken as it is used.
pub(crate) struct Stack {
    guard: NonNull<c_void>,
}

impl Stack {
    /// A stack of 8 MB. The error is the system's.
    pub(crate) fn new() -> io::Result<Stack> {
        let all = GUARD_BYTES + BYTES;
        // SAFETY: fresh pages wherever the system has room, of which the lowest become the guard.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let guard = libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0);
            if guard == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            let stack = Stack {
                guard: NonNull::new(guard).expect("the first page is never mapped"),
            };
            match libc::mprotect(guard, GUARD_BYTES, libc::PROT_NONE) {
                0 => Ok(stack),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Runs `body` there: its result. A panic goes on in the caller.
    pub(crate) fn run<R>(&mut self, body: impl FnOnce() -> R) -> R {
        let mut task = Task {
            body: Some(body),
            result: None,
        };
        // SAFETY: the stack is borrowed, so nothing else runs there; `start` gets the task, which outlives the call, and
        // does not unwind.
        unsafe {
            let top = self.guard.byte_add(GUARD_BYTES + BYTES);
            let run: unsafe extern "C" fn(*mut c_void) = start_of(&task);
            switch(top.as_ptr(), run, (&raw mut task).cast());
        }
        match task.result.expect("the body ran") {
            Ok(result) => result,
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: these pages were mapped for this stack, on which nothing runs.
        unsafe { libc::munmap(self.guard.as_ptr(), GUARD_BYTES + BYTES) };
    }
}

struct Task<F, R> {
    body: Option<F>,
    result: Option<Result<R, Box<dyn Any + Send>>>,
}

/// The function that runs a task of this type.
fn start_of<F: FnOnce() -> R, R>(_: &Task<F, R>) -> unsafe extern "C" fn(*mut c_void) {
    start::<F, R>
}

/// Runs a task.
///
/// # Safety
/// It is given a task of its type, which nothing else uses.
unsafe extern "C" fn start<F: FnOnce() -> R, R>(task: *mut c_void) {
    // SAFETY: the caller's promise.
    let task = unsafe { &mut *task.cast::<Task<F, R>>() };
    if let Some(body) = task.body.take() {
        task.result = Some(catch_unwind(AssertUnwindSafe(body)));
    }
}

/// Calls a function on another stack.
///
/// # Safety
/// `top` is the upper end of a stack that nothing uses, a multiple of 16; the function may be called with the argument,
/// and does not unwind.
#[unsafe(naked)]
unsafe extern "C" fn switch(
    top: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}

#[cfg(test)]
impl Stack {
    /// Whether something lies there.
    pub(crate) fn holds(&self, place: *const u8) -> bool {
        let distance = place.addr().wrapping_sub(self.guard.addr().get());
        (GUARD_BYTES..GUARD_BYTES + BYTES).contains(&distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses so many kilobytes of stack.
    fn dig(kilobytes: usize) -> usize {
        let bytes = std::hint::black_box([1u8; 1024]);
        match kilobytes {
            0 => usize::from(bytes[0]),
            _ => dig(kilobytes - 1) + usize::from(bytes[kilobytes % 1024]),
        }
    }

    #[test]
    fn the_stack_is_deeper_than_a_threads_and_is_used_again() {
        let digs = || {
            let mut stack = Stack::new().unwrap();
            [stack.run(|| dig(2000)), stack.run(|| dig(2000))]
        };
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let dug = small.spawn(digs).unwrap().join().unwrap();
        assert_eq!(dug, [2001, 2001]);
    }

    #[test]
    fn a_panic_goes_on_in_the_caller() {
        let mut stack = Stack::new().unwrap();
        let panics = AssertUnwindSafe(|| stack.run(|| panic!("out of cheese")));
        let payload = catch_unwind(panics).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"out of cheese"));
        assert_eq!(stack.run(|| 7), 7);
    }
}
