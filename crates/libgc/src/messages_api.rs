//! Warnings, the log and the printing functions that libgc exports.
//!
//! The printing functions take any number of arguments, which Rust cannot define. Each is a few instructions that
//! save the argument registers in the layout of a `va_list` and call the same function of ours with it
//! (`messages_api/`).

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, Ordering};

use gleaner_os::output::{self, Fd};

use crate::message::{STREAMS, die};

#[cfg(target_arch = "aarch64")]
#[path = "messages_api/aarch64.rs"]
mod arguments;
#[cfg(target_arch = "x86_64")]
#[path = "messages_api/x86_64.rs"]
mod arguments;

use arguments::call_with_arguments;

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
                call_with_arguments!($target)
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
