//! Snapshots of the heap (`snapshot=FILE`): when the program's end or a signal calls for one, and what the user is told.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_base::options::SnapshotAt;
use gleaner_os::signals::{self, Information};

use crate::collect::{Order, collect};
use crate::message::say;
use crate::start::with_heap;

/// Set by the signal's handler, taken by the thread that collects for it. Relaxed: it carries nothing but itself.
static ASKED: AtomicBool = AtomicBool::new(false);

/// When snapshots are written, if any are.
fn at() -> Option<SnapshotAt> {
    with_heap(|heap| heap.snapshots.as_ref().map(|snapshots| snapshots.at()))
}

/// Whether the heap is collected once more as the process exits, since what lives then may call for a snapshot.
pub fn is_wanted_at_exit() -> bool {
    matches!(at(), Some(SnapshotAt::Exit | SnapshotAt::Peak))
}

/// Whether that collection writes one, whatever lives.
pub fn is_due_at_exit() -> bool {
    at() == Some(SnapshotAt::Exit)
}

/// Listens to the signal that calls for a snapshot, if it is to be obeyed.
pub fn watch_signal() {
    if at() == Some(SnapshotAt::Signal) && !signals::install_note_handler(signals::SNAPSHOT, note) {
        say(format_args!(
            "snapshot-at=signal: the system refuses a handler for SIGUSR2"
        ));
    }
}

extern "C" fn note(_: c_int, _: *mut Information, _: *mut c_void) {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether the signal has called for a snapshot that nobody has begun to write.
#[inline]
pub fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Writes the snapshot that the signal called for, unless another thread has.
#[cold]
pub fn obey() {
    if ASKED.swap(false, Ordering::Relaxed) {
        collect(Order {
            reason: "SIGUSR2",
            unless_past: None,
            release_all: false,
            everything: true,
            in_steps: false,
            obeys_stop: false,
            asked: true,
            snapshot: true,
        });
    }
}

/// Tells what became of the last snapshot, once.
pub fn report() {
    let news = with_heap(|heap| heap.snapshots.as_mut().and_then(|them| them.take_news()));
    let Some(news) = news else {
        return;
    };
    let path = news.path.as_str();
    match news.has {
        Some((objects, bytes)) => say(format_args!(
            "a snapshot of {objects} objects, {} KiB, is in {path}: gleaner heap {path}",
            bytes >> 10
        )),
        None => say(format_args!(
            "the snapshot {path} cannot be written: is its directory there, and not full?"
        )),
    }
}
