//! What a panic is to an embedder in C, who made a mistake or met one of ours: a line that says so, and the end of the
//! process. With `RUST_BACKTRACE` set, where it was, too.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use gleaner_os::output::STDERR;

/// Relaxed: it decides between callers, and orders nothing else.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Has every panic of this library end the process by [`end`]. The library has a standard library of its own, so no other
/// panic comes there.
pub fn install_hook() {
    if !INSTALLED.swap(true, Ordering::Relaxed) {
        panic::set_hook(Box::new(end));
    }
}

fn end(information: &PanicHookInfo<'_>) {
    let payload = information.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let message = message.unwrap_or("a panic");
    let mut text = match information.location() {
        Some(location) => format!("gleaner: {message} ({location})\n"),
        None => format!("gleaner: {message}\n"),
    };
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text += &backtrace.to_string();
    }
    STDERR.write_all(text.as_bytes());
    process::abort();
}
