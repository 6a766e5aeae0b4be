//! What the library says on standard error, and how it dies.
//!
//! Nothing here allocates; a line is put together in a fixed buffer and written with one call.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};

use gleaner_base::events::LineBuffer;
use gleaner_os::output::{self, Fd};

use crate::variables::{GC_on_abort, Variable, WarnFn};

/// Standard error.
pub const STDERR: Fd = Fd(2);

/// Writes one line, with the program's name for us in front.
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = LineBuffer::<1024>::new();
    let _ = writeln!(line, "gleaner: {text}");
    output::write_all(STDERR, line.as_bytes());
}

/// Reports a fault through the client's abort function and ends the process.
pub fn die(text: fmt::Arguments<'_>) -> ! {
    let mut line = LineBuffer::<1024>::new();
    let _ = write!(line, "gleaner: {text}\0");
    let bytes = line.as_bytes();
    let message = CStr::from_bytes_until_nul(bytes).unwrap_or(c"gleaner: fatal error");
    if let Some(abort) = GC_on_abort.get() {
        // SAFETY: the client's function, called with a message as its contract says.
        unsafe { abort(message.as_ptr()) };
    }
    std::process::abort()
}

/// The abort function until the client sets one: prints the message.
pub unsafe extern "C-unwind" fn default_abort(message: *const c_char) {
    if !message.is_null() {
        // SAFETY: the contract of abort functions: a string.
        let text = unsafe { CStr::from_ptr(message) };
        output::write_all(STDERR, text.to_bytes());
        output::write_all(STDERR, b"\n");
    }
}

/// The client's warning procedure. Changed under the allocator lock.
pub static WARN: Variable<Option<WarnFn>> = Variable::new(Some(default_warn));

unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, bytes: usize, format: *const c_char, ...) -> c_int;
}

/// The warning procedure until the client sets one: prints on standard error.
pub unsafe extern "C-unwind" fn default_warn(format: *mut c_char, argument: usize) {
    let mut buffer = [0u8; 1024];
    // SAFETY: the contract of warning procedures: a format for one word.
    let length = unsafe { snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, argument) };
    let length = usize::try_from(length).unwrap_or(0).min(buffer.len() - 1);
    output::write_all(STDERR, &buffer[..length]);
}

/// Makes every panic of ours end the process at once, with what broke and the last events.
pub fn install_panic_hook() {
    std::panic::set_hook(alloc::boxed::Box::new(|information| {
        let mut line = LineBuffer::<2048>::new();
        let _ = writeln!(line, "gleaner: broken invariant: {information}");
        output::write_all(STDERR, line.as_bytes());
        crate::state::print_last_events();
        die(format_args!("stopped because an invariant of the collector does not hold"))
    }));
}
