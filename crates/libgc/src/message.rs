//! Messages, warnings and fatal errors, and what the client is asked when memory is exhausted.
//!
//! Nothing here allocates; a line is put together in a fixed buffer and written with one call. Warnings go through the
//! client's procedure and have libgc's form: a format of printf and its one argument.
//!
//! The buffers never become part of a caller's frame: frames above a collection are scanned for pointers.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_os::output::{self, Fd};
use gleaner_os::threads;

use crate::variables::{AbortFn, GC_oom_fn, Variable, WarnFn};

/// As in libgc: the client's abort function.
#[unsafe(no_mangle)]
pub static GC_on_abort: Variable<Option<AbortFn>> = Variable::new(Some(default_abort));

/// Where output, errors and the log go, as libgc has it; each may be sent to a file. Changed at the start and by
/// `GC_set_log_fd`; a stale value only means that a line goes where lines went before.
pub struct Streams {
    /// What `GC_printf` writes to.
    pub output: AtomicI32,
    /// What messages are written to.
    pub error: AtomicI32,
    /// What statistics and `GC_log_printf` are written to.
    pub log: AtomicI32,
}

/// Where messages go.
pub static STREAMS: Streams = Streams {
    output: AtomicI32::new(1),
    error: AtomicI32::new(2),
    log: AtomicI32::new(2),
};

/// Whether the process waits for a debugger instead of ending (`GC_LOOP_ON_ABORT`).
pub static WAITS_FOR_DEBUGGER: AtomicBool = AtomicBool::new(false);

/// Writes bytes to standard error, or wherever messages go.
pub fn write_error(bytes: &[u8]) {
    output::write_all(Fd(STREAMS.error.load(Ordering::Relaxed)), bytes);
}

/// Writes bytes to the log.
pub fn write_log(bytes: &[u8]) {
    output::write_all(Fd(STREAMS.log.load(Ordering::Relaxed)), bytes);
}

/// Writes one line, with the program's name for us in front.
#[cold]
#[inline(never)]
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = LineBuffer::<1024>::new();
    let _ = writeln!(line, "gleaner: {text}");
    write_error(line.as_bytes());
}

/// Writes one line to the log, without our name: statistics, in a form that other programs read.
#[cold]
#[inline(never)]
pub fn log(text: fmt::Arguments<'_>) {
    let mut line = LineBuffer::<1024>::new();
    let _ = writeln!(line, "{text}");
    write_log(line.as_bytes());
}

/// Reports a fault through the client's abort function and ends the process.
#[cold]
#[inline(never)]
pub fn die(text: fmt::Arguments<'_>) -> ! {
    let mut line = LineBuffer::<1024>::new();
    let _ = write!(line, "gleaner: {text}\0");
    let bytes = line.as_bytes();
    let message = CStr::from_bytes_until_nul(bytes).unwrap_or(c"gleaner: fatal error");
    if let Some(abort) = GC_on_abort.get() {
        // SAFETY: the client's function, called with a message as its contract says.
        unsafe { abort(message.as_ptr()) };
    }
    if WAITS_FOR_DEBUGGER.load(Ordering::Relaxed) {
        say(format_args!(
            "GC_LOOP_ON_ABORT is set: process {} waits for a debugger",
            threads::current_process()
        ));
        loop {
            threads::sleep_ns(1_000_000_000);
        }
    }
    std::process::abort()
}

/// The abort function until the client sets one: prints the message.
pub unsafe extern "C-unwind" fn default_abort(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: the contract of abort functions: a string.
        let text = unsafe { CStr::from_ptr(message) };
        write_error(text.to_bytes());
        write_error(b"\n");
    }
}

/// The client's warning procedure. Changed under the allocator lock.
pub static WARN: Variable<Option<WarnFn>> = Variable::new(Some(default_warn));

unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, bytes: usize, format: *const c_char, ...) -> c_int;
}

/// Warns through the client's procedure. `text` is a format with at most one conversion, which `argument` fits.
#[cold]
#[inline(never)]
pub fn warn(text: fmt::Arguments<'_>, argument: usize) {
    let Some(procedure) = WARN.get() else { return };
    let mut line = LineBuffer::<512>::new();
    let _ = write!(line, "gleaner: warning: {text}\n\0");
    let mut format = [0u8; 512];
    let length = line.as_bytes().len().min(format.len() - 1);
    format[..length].copy_from_slice(&line.as_bytes()[..length]);
    // SAFETY: the client's procedure, called with a format that ends and its argument; this frame holds no guard.
    unsafe { procedure(format.as_mut_ptr().cast(), argument) };
}

/// Asks the client's function what to return when memory is exhausted.
pub fn out_of_memory(bytes: usize) -> *mut c_void {
    match GC_oom_fn.get() {
        // SAFETY: the client's function, called with the bytes that were asked for; this frame holds no guard.
        Some(function) => unsafe { function(bytes) },
        None => core::ptr::null_mut(),
    }
}

/// The warning procedure until the client sets one: prints the warning.
pub unsafe extern "C-unwind" fn default_warn(format: *mut c_char, argument: usize) {
    let mut buffer = [0u8; 1024];
    // SAFETY: the contract of warning procedures: a format for one word.
    let length = unsafe { snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, argument) };
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len() - 1);
    write_error(&buffer[..length]);
}
