//! The signals that this process gets while a program runs: that a child has ended, which wakes it, and that it is asked
//! to end, which it does after it has said what is known.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::inherited;

/// What has come.
pub(super) struct Signals {
    /// Readable when a signal came. The handler writes to the other end.
    wake: UnixStream,
    is_asked: Arc<AtomicBool>,
}

impl Signals {
    /// From now on these signals do not end this process.
    pub(super) fn new() -> io::Result<Signals> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let is_asked = Arc::new(AtomicBool::new(false));
        let ending = inherited::heeded(&[SIGINT, SIGTERM, SIGHUP]);
        for &signal in &ending {
            // A flag is set before the pipe wakes this thread: handlers run in the order in which they came.
            flag::register(signal, Arc::clone(&is_asked))?;
            pipe::register(signal, write.try_clone()?)?;
        }
        pipe::register(SIGCHLD, write)?;
        inherited::let_in(&[&ending[..], &[SIGCHLD]].concat());
        Ok(Signals { wake, is_asked })
    }

    /// To be waited for; to be emptied then.
    pub(super) fn wake(&self) -> &UnixStream {
        &self.wake
    }

    /// So that the next signal wakes again.
    pub(super) fn empty(&self) {
        while matches!((&self.wake).read(&mut [0; 64]), Ok(1..)) {}
    }

    /// Whether this process is to end.
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::SeqCst)
    }
}
