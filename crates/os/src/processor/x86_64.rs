//! What the port layer does by instructions or registers of an x86-64 processor.
//!
//! Any thread, any state of the world, also in a signal handler.

use core::arch::{asm, global_asm};
use core::ffi::c_void;

/// Bytes in a page: fixed on this processor.
#[inline(always)]
pub fn page_size() -> usize {
    4096
}

/// Bytes of the control block in the C library of Debian 12; it lies at the top of a thread's stack.
pub const CONTROL_BLOCK: usize = 2368;

/// How many registers a function must preserve for its caller: `rbx`, `rbp`, and `r12` to `r15`.
pub const CALLEE_SAVED: usize = 6;

/// Makes system call `number`; the kernel's answer.
///
/// # Safety
/// The arguments must be valid for that system call, pointers included.
#[inline]
pub unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the arguments are valid for this call, pointers included, as asked; the kernel clobbers rcx and r11 only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Roughly the stack pointer of the caller.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let here: usize;
    // SAFETY: copies a register.
    unsafe {
        asm!("mov {}, rsp", out(reg) here, options(nomem, nostack, preserves_flags));
    }
    here
}

/// Stores the registers that a function must preserve for its caller.
#[inline(always)]
pub fn save_registers(place: &mut [usize; CALLEE_SAVED]) {
    // SAFETY: stores six registers into the six words.
    unsafe {
        asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) place.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
}

/// Ticks of the time-stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The address of ThreadSanitizer's first function, or 0 without that runtime.
pub fn thread_sanitizer() -> usize {
    let runtime: usize;
    // SAFETY: reads the word in which the loader puts the address of that runtime's function, or 0 without one.
    unsafe {
        asm!(
            ".weak __tsan_init",
            "mov {runtime}, qword ptr [rip + __tsan_init@GOTPCREL]",
            runtime = out(reg) runtime,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    runtime
}

/// The instruction at which a thread got its SIGSEGV, and whether that was a write.
///
/// # Safety
/// `context` is what the kernel gave the handler of the signal.
pub unsafe fn fault(context: *const c_void) -> (usize, bool) {
    /// In the processor's error code of a page fault.
    const WRITES: i64 = 1 << 1;
    // SAFETY: the kernel gives a handler the registers of the interrupted thread, as asked.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    (
        registers[libc::REG_RIP as usize] as usize,
        registers[libc::REG_ERR as usize] & WRITES != 0,
    )
}

global_asm!(
    ".pushsection .tbss.gleaner_thread_word,\"awT\",@nobits",
    ".globl gleaner_thread_word",
    ".hidden gleaner_thread_word",
    ".type gleaner_thread_word,@object",
    ".size gleaner_thread_word,8",
    ".p2align 3",
    "gleaner_thread_word:",
    ".zero 8",
    ".popsection",
);

/// The calling thread's word.
#[inline(always)]
pub fn thread_word() -> usize {
    let word: usize;
    // SAFETY: reads the calling thread's own word at its fixed offset from the thread pointer.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + gleaner_thread_word@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    word
}

/// Sets the calling thread's word, by one store.
#[inline(always)]
pub fn set_thread_word(word: usize) {
    // SAFETY: writes the calling thread's own word, which nothing else refers to.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + gleaner_thread_word@GOTTPOFF]",
            "mov qword ptr fs:[{offset}], {word}",
            word = in(reg) word,
            offset = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// The address of the calling thread's word.
#[inline(always)]
pub fn thread_word_address() -> *mut usize {
    let address: *mut usize;
    // SAFETY: word 0 of the thread control block holds its own address; adding the offset touches no
    // memory.
    unsafe {
        asm!(
            "mov {address}, qword ptr fs:[0]",
            "add {address}, qword ptr [rip + gleaner_thread_word@GOTTPOFF]",
            address = out(reg) address,
            options(nostack, readonly, pure),
        );
    }
    address
}

/// Writes a function that returns 42, by the C convention: `mov eax, 42; ret`.
///
/// # Safety
/// Sixteen bytes that are the caller's lie there.
#[cfg(all(test, not(loom)))]
pub unsafe fn write_function(at: *mut u8) {
    // SAFETY: the bytes are the caller's, as asked.
    unsafe { at.cast::<[u8; 6]>().write([0xb8, 42, 0, 0, 0, 0xc3]) };
}
