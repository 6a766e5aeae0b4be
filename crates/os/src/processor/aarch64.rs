//! What the port layer does by instructions or registers of a 64-bit Arm processor.
//!
//! Any thread, any state of the world, also in a signal handler.

use core::arch::{asm, global_asm};
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What [`page_size`] found, or 0. All threads write the same number, which stands for nothing else, so relaxed ordering does.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Bytes in a page: 4096, 16,384 or 65,536, as the kernel was built.
#[inline(always)]
pub fn page_size() -> usize {
    match PAGE.load(Ordering::Relaxed) {
        0 => ask_page_size(),
        bytes => bytes,
    }
}

#[cold]
fn ask_page_size() -> usize {
    // SAFETY: reads what the kernel told the process at its start.
    let bytes = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    PAGE.store(bytes, Ordering::Relaxed);
    bytes
}

/// Bytes of a thread's control block, and of the thread-locals above it that most programs have, surplus included: all that
/// lies at the top of its stack.
pub const CONTROL_BLOCK: usize = 64 << 10;

/// How many registers a function must preserve for its caller: `x19` to `x29`, and `d8` to `d15`.
pub const CALLEE_SAVED: usize = 11 + 8;

/// Makes system call `number`; the kernel's answer.
///
/// # Safety
/// The arguments must be valid for that system call, pointers included.
#[inline]
pub unsafe fn system_call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    // SAFETY: the arguments are valid for this call, pointers included, as asked; the kernel changes x0 alone.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a as isize => result,
            in("x1") b,
            in("x2") c,
            in("x3") d,
            in("x4") e,
            in("x5") f,
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
        asm!("mov {}, sp", out(reg) here, options(nomem, nostack, preserves_flags));
    }
    here
}

/// Stores the registers that a function must preserve for its caller. Compilers also keep integers in those for numbers.
#[inline(always)]
pub fn save_registers(place: &mut [usize; CALLEE_SAVED]) {
    // SAFETY: stores nineteen registers into the nineteen words.
    unsafe {
        asm!(
            "stp x19, x20, [{0}]", "stp x21, x22, [{0}, 16]", "stp x23, x24, [{0}, 32]",
            "stp x25, x26, [{0}, 48]", "stp x27, x28, [{0}, 64]", "str x29, [{0}, 80]",
            "stp d8, d9, [{0}, 88]", "stp d10, d11, [{0}, 104]",
            "stp d12, d13, [{0}, 120]", "stp d14, d15, [{0}, 136]",
            in(reg) place.as_mut_ptr(), options(nostack, preserves_flags)
        );
    }
}

/// Ticks of the virtual counter, whose pace is the same on all processors and does not change.
#[inline(always)]
pub fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets every program read the counter.
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
    }
    ticks
}

/// The address of ThreadSanitizer's first function, or 0 without that runtime.
pub fn thread_sanitizer() -> usize {
    let runtime: usize;
    // SAFETY: reads the word in which the loader puts the address of that runtime's function, or 0 without one.
    unsafe {
        asm!(
            ".weak __tsan_init",
            "adrp {runtime}, :got:__tsan_init",
            "ldr {runtime}, [{runtime}, :got_lo12:__tsan_init]",
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
    // SAFETY: the kernel gives a handler the registers of the interrupted thread, as asked.
    let machine = unsafe { &raw const (*context.cast::<libc::ucontext_t>()).uc_mcontext };
    // SAFETY: the same record, which has the instruction's address.
    let instruction = unsafe { (*machine).pc } as usize;
    // SAFETY: the records follow the last register in the same structure.
    let syndrome = unsafe { syndrome((&raw const (*machine).pstate).add(1)) };
    (instruction, syndrome & WRITES != 0)
}

/// In the syndrome of a data abort: a write.
const WRITES: u64 = 1 << 6;

/// What the processor said of the fault (the register `ESR_EL1`), from the records that follow the registers of a signal's
/// context; 0 where it is not among them.
///
/// # Safety
/// The records lie in the 4096 bytes from the next multiple of 16 on.
unsafe fn syndrome(behind: *const u64) -> u64 {
    /// The kernel's mark of a record with the syndrome, and its bytes.
    const SYNDROME: (u32, u32) = (0x4553_5201, 16);
    /// Bytes of all records.
    const RECORDS: usize = 4096;
    let first = (behind as usize).next_multiple_of(16);
    let mut at = 0;
    while at + 16 <= RECORDS {
        // SAFETY: 16 bytes of the records, as asked: mark, bytes, and 8 bytes of the contents.
        let (mark, bytes, word) = unsafe {
            let record = (first + at) as *const u32;
            (
                record.read(),
                record.add(1).read(),
                record.add(2).cast::<u64>().read(),
            )
        };
        match (mark, bytes) {
            SYNDROME => return word,
            (0, _) | (_, 0..16) => break,
            _ => at += bytes as usize,
        }
    }
    0
}

global_asm!(
    ".pushsection .tbss.gleaner_thread_word,\"awT\",%nobits",
    ".globl gleaner_thread_word",
    ".hidden gleaner_thread_word",
    ".type gleaner_thread_word,%object",
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
            "mrs {thread}, tpidr_el0",
            "adrp {word}, :gottprel:gleaner_thread_word",
            "ldr {word}, [{word}, :gottprel_lo12:gleaner_thread_word]",
            "ldr {word}, [{thread}, {word}]",
            thread = out(reg) _,
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
            "mrs {thread}, tpidr_el0",
            "adrp {offset}, :gottprel:gleaner_thread_word",
            "ldr {offset}, [{offset}, :gottprel_lo12:gleaner_thread_word]",
            "str {word}, [{thread}, {offset}]",
            word = in(reg) word,
            thread = out(reg) _,
            offset = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// The address of the calling thread's word.
#[inline(always)]
pub fn thread_word_address() -> *mut usize {
    let address: *mut usize;
    // SAFETY: adds the word's offset to the thread pointer.
    unsafe {
        asm!(
            "mrs {thread}, tpidr_el0",
            "adrp {address}, :gottprel:gleaner_thread_word",
            "ldr {address}, [{address}, :gottprel_lo12:gleaner_thread_word]",
            "add {address}, {address}, {thread}",
            thread = out(reg) _,
            address = out(reg) address,
            options(nostack, preserves_flags, readonly, pure),
        );
    }
    address
}

/// Writes a function that returns 42, by the C convention: `mov w0, 42; ret`. Its bytes go to memory, and the processor forgets
/// what it fetched there.
///
/// # Safety
/// Sixteen bytes that are the caller's lie there, at a multiple of 16.
#[cfg(all(test, not(loom)))]
pub unsafe fn write_function(at: *mut u8) {
    // SAFETY: the bytes are the caller's, as asked; they lie in one cache line.
    unsafe {
        at.cast::<[u32; 2]>().write([0x5280_0540, 0xd65f_03c0]);
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) at, options(nostack));
    }
}
