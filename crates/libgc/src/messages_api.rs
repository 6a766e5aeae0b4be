//! Warnings, the log and the printing functions that libgc exports.
//!
//! The printing functions take any number of arguments, which Rust cannot define. Each is a few instructions that
//! save the argument registers in the layout of a `va_list` (System V ABI, x86-64, section 3.5.7) and call the same
//! function of ours with it.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use gleaner_os::output::{self, Fd};

use crate::message::{STREAMS, die};

unsafe extern "C" {
    fn vsnprintf(
        buffer: *mut c_char,
        bytes: usize,
        format: *const c_char,
        arguments: *mut c_void,
    ) -> c_int;
}

/// Formats into a fixed buffer and writes it with one call; what does not fit is cut off, as libgc does.
///
/// # Safety
/// As for `vprintf`, of which `arguments` is the `va_list`.
unsafe fn print(stream: &AtomicI32, format: *const c_char, arguments: *mut c_void) {
    let mut buffer = [0u8; 1024];
    // SAFETY: `format` and `arguments` fit together, as asked; the buffer has that many bytes.
    let length = unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len() - 1);
    output::write_all(Fd(stream.load(Ordering::Relaxed)), &buffer[..length]);
}

/// # Safety
/// As for [`print`].
unsafe extern "C" fn print_output(format: *const c_char, arguments: *mut c_void) {
    // SAFETY: `format` and `arguments` fit together, as asked.
    unsafe { print(&STREAMS.output, format, arguments) };
}

/// # Safety
/// As for [`print`].
unsafe extern "C" fn print_error(format: *const c_char, arguments: *mut c_void) {
    // SAFETY: `format` and `arguments` fit together, as asked.
    unsafe { print(&STREAMS.error, format, arguments) };
}

/// # Safety
/// As for [`print`].
unsafe extern "C" fn print_log(format: *const c_char, arguments: *mut c_void) {
    // SAFETY: `format` and `arguments` fit together, as asked.
    unsafe { print(&STREAMS.log, format, arguments) };
}

macro_rules! printing {
    ($( $name:ident => $target:ident; )+) => {
        $(
            /// As in libgc, in no public header: printf without its stream.
            ///
            /// # Safety
            /// As for `printf`.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name(format: *const c_char) {
                // The frame: the va_list at 0 (24 bytes), its register area at 32 (176 bytes), 8 bytes to align the
                // stack. The arguments on the stack begin above the return address, at 224.
                naked_asm!(
                    ".cfi_startproc",
                    "sub rsp, 216",
                    ".cfi_def_cfa_offset 224",
                    "mov [rsp + 40], rsi",
                    "mov [rsp + 48], rdx",
                    "mov [rsp + 56], rcx",
                    "mov [rsp + 64], r8",
                    "mov [rsp + 72], r9",
                    "test al, al",
                    "je 2f",
                    "movaps [rsp + 80], xmm0",
                    "movaps [rsp + 96], xmm1",
                    "movaps [rsp + 112], xmm2",
                    "movaps [rsp + 128], xmm3",
                    "movaps [rsp + 144], xmm4",
                    "movaps [rsp + 160], xmm5",
                    "movaps [rsp + 176], xmm6",
                    "movaps [rsp + 192], xmm7",
                    "2:",
                    "mov dword ptr [rsp], 8",
                    "mov dword ptr [rsp + 4], 48",
                    "lea rax, [rsp + 224]",
                    "mov [rsp + 8], rax",
                    "lea rax, [rsp + 32]",
                    "mov [rsp + 16], rax",
                    "mov rsi, rsp",
                    "call {target}",
                    "add rsp, 216",
                    ".cfi_def_cfa_offset 8",
                    "ret",
                    ".cfi_endproc",
                    target = sym $target,
                )
            }
        )+
    };
}

printing! {
    GC_printf => print_output;
    GC_err_printf => print_error;
    GC_log_printf => print_log;
}

/// As in gc.h: from now on the log goes to this descriptor.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_set_log_fd(descriptor: c_int) {
    STREAMS.log.store(descriptor, Ordering::Relaxed);
}

/// As in gc.h: a warning procedure that drops warnings.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_ignore_warn_proc(_format: *mut c_char, _argument: usize) {}

/// As in libgc, in no public header: what its malloc replacement calls when memory is out.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_abort_on_oom() {
    die(format_args!("memory is exhausted"));
}
