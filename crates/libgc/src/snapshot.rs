//! Snapshots of the heap (`snapshot=FILE`): when the program's end or a signal calls for one, and what the user is told.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use gleaner_base::options::SnapshotAt;
use gleaner_os::signals::{self, Information};
use gleaner_os::threads;
use gleaner_plans::mark_sweep::snapshot::News;

use crate::message::say;
use crate::start::with_heap;

/// Set by the signal's handler, taken by the thread that collects for it. Relaxed: it carries nothing but itself.
static ASKED: AtomicBool = AtomicBool::new(false);

/// When snapshots are written, if any are.
fn at() -> Option<SnapshotAt> {
    with_heap(|heap| heap.snapshots.as_ref().map(|snapshots| snapshots.at()))
}

/// Whether the exit of the process may call for a snapshot.
pub fn watches_exit() -> bool {
    !matches!(at(), None | Some(SnapshotAt::Collection))
}

/// Whether the heap is collected once more as the process exits, since what lives then may call for a snapshot.
pub fn is_wanted_at_exit() -> bool {
    at() == Some(SnapshotAt::Peak) || is_due_at_exit()
}

/// Whether that collection writes one, whatever lives.
pub fn is_due_at_exit() -> bool {
    match at() {
        Some(SnapshotAt::Exit) => true,
        Some(SnapshotAt::Signal) => is_asked(),
        _ => false,
    }
}

/// The process that wants snapshots by itself and has none yet; 0 for none. Relaxed: a stale value costs a word to the user.
static NONE_YET: AtomicI32 = AtomicI32::new(0);

/// Remembers that snapshots are wanted.
pub fn watch() {
    if !matches!(at(), None | Some(SnapshotAt::Signal)) {
        NONE_YET.store(threads::current_process(), Ordering::Relaxed);
    }
    watch_signal();
}

/// Listens to the signal that calls for a snapshot, if it is to be obeyed and the program does not use it.
fn watch_signal() {
    if at() == Some(SnapshotAt::Signal) && !signals::install_note_handler(signals::SNAPSHOT, note) {
        say(format_args!(
            "snapshot-at=signal: the program handles SIGUSR2 itself, so it calls for no snapshot"
        ));
    }
}

/// At the end of the process, when everything of the program has run: tells of the snapshots that were written by
/// themselves, or that there are none.
pub fn report_at_exit() {
    if NONE_YET.load(Ordering::Relaxed) == threads::current_process() {
        say(format_args!(
            "no snapshot was written, since nothing was collected: are collections disabled (GC_disable, GC_DONT_GC)?"
        ));
    } else if at().is_some() {
        tell(|_| true);
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

/// Whether it has, once: the caller writes the snapshot.
pub fn take_asked() -> bool {
    ASKED.swap(false, Ordering::Relaxed)
}

/// After a collection: tells what became of a snapshot that somebody waits for, or that could not be written. There may be
/// many that nobody does, of which the last one is told of at the end.
pub fn report() {
    let is_waited_for = !matches!(at(), Some(SnapshotAt::Peak | SnapshotAt::Collection));
    tell(|news| is_waited_for || news.has.is_none());
}

/// Tells what became of the last snapshot, once, if it is wanted.
fn tell(is_wanted: impl FnOnce(&News) -> bool) {
    let news = with_heap(|heap| {
        let snapshots = heap.snapshots.as_mut();
        snapshots.and_then(|snapshots| {
            if snapshots.has_news() {
                NONE_YET.store(0, Ordering::Relaxed);
            }
            snapshots.take_news(is_wanted)
        })
    });
    let Some(news) = news else {
        return;
    };
    say(format_args!("{news}"));
    if news.missing > 0 {
        say(format_args!(
            "{} references found no room on a mark stack and are not in it: a larger mark-arena has room",
            news.missing
        ));
    }
}
