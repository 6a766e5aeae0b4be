//! When the options want snapshots of a heap, and the signal that calls for one.

use std::fmt;
use std::io::{self, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use gleaner_base::options::{Options, SnapshotAt};
use gleaner_os::signals::{self, Information};

/// How often the signal has come. Relaxed: it carries nothing but itself.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Whether the signal is noted: the program does not handle it itself.
static IS_NOTED: LazyLock<bool> =
    LazyLock::new(|| signals::install_note_handler(signals::SNAPSHOT, note));

extern "C" fn note(_: i32, _: *mut Information, _: *mut std::ffi::c_void) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// What a heap does about snapshots that the options ask for.
pub(crate) struct Wanted {
    /// When; `None` if the options ask for none.
    at: Option<SnapshotAt>,
    /// How many signals it has obeyed.
    obeyed: AtomicU32,
}

/// Tells the user something. Who runs the program may have closed standard error.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "gleaner: {text}");
}

impl Wanted {
    /// What the options ask for.
    pub(crate) fn new(options: &Options) -> Wanted {
        let at = options.snapshot.as_str().map(|_| options.snapshot_at);
        if at == Some(SnapshotAt::Signal) && !*IS_NOTED {
            say(format_args!(
                "snapshot-at=signal: the program handles SIGUSR2 itself, so it calls for no snapshot"
            ));
        }
        Wanted {
            at,
            obeyed: AtomicU32::new(SIGNALS.load(Ordering::Relaxed)),
        }
    }

    /// Whether somebody waits for each of them.
    pub(crate) fn are_waited_for(&self) -> bool {
        matches!(self.at, Some(SnapshotAt::Signal | SnapshotAt::Exit))
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        self.at.is_some()
    }

    /// Whether a signal has called for one, once for each heap.
    #[inline]
    pub(crate) fn take_signal(&self) -> bool {
        let signals = SIGNALS.load(Ordering::Relaxed);
        self.at == Some(SnapshotAt::Signal)
            && self.obeyed.swap(signals, Ordering::Relaxed) != signals
    }

    /// Whether the heap is collected as the process exits, and whether a snapshot is written then whatever lives.
    pub(crate) fn at_exit(&self) -> Option<bool> {
        match self.at? {
            SnapshotAt::Exit => Some(true),
            SnapshotAt::Peak => Some(false),
            SnapshotAt::Signal => self.take_signal().then_some(true),
            SnapshotAt::Collection => None,
        }
    }
}
