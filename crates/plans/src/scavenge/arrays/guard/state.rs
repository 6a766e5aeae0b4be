//! What a heap needs to watch fences.

use core::fmt::Write;

use gleaner_base::events::LineBuffer;
use gleaner_base::sync::{AtomicBool, Ordering};
use gleaner_os::access::Watch;
use gleaner_os::memory;
use gleaner_os::output::STDERR;

/// What a heap needs for it.
#[derive(Default)]
pub struct Guard {
    /// The addresses of the large space are watched as long as this is here.
    pub(super) watch: Option<Watch>,
    /// Whether it was said that the system refuses fences.
    pub(super) said_refused: AtomicBool,
}

impl Guard {
    /// Faults have no message from now on.
    pub(in crate::scavenge) fn end(&mut self) {
        self.watch = None;
    }

    /// Says once why there is no memory for arrays, although little is used.
    pub(in crate::scavenge) fn say_refused(&self) {
        if !self.said_refused.swap(true, Ordering::Relaxed) {
            let mut line = LineBuffer::<512>::new();
            // It cannot fail: what does not fit is cut off.
            let _ = writeln!(
                line,
                "gleaner: array-guard=on: the system refuses to take access to memory away behind an array: {}; or have \
                 fewer arrays cut, with a larger first-n",
                memory::refusal().text()
            );
            STDERR.write_all(line.as_bytes());
        }
    }
}
