//! How far the command is, on a terminal, once it has taken two seconds.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, Read, Write as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes no longer needs no words.
const QUIET: Duration = Duration::from_secs(2);

/// A line on standard error, if that is a terminal, which goes away at the end.
pub(crate) struct Progress {
    bar: ProgressBar,
    began: Instant,
    is_shown: Cell<bool>,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
            began: Instant::now(),
            is_shown: Cell::new(false),
        }
    }

    /// Says what the command does from now on, which takes about as long as what came before.
    pub(crate) fn say(&self, what: impl Into<Cow<'static, str>>) {
        self.set_style("{msg}");
        self.bar.set_message(what);
        self.show_after(QUIET / 2);
        self.bar.tick();
    }

    /// Prints to standard error, above the line.
    pub(crate) fn print(&self, text: &str) {
        // Where nobody can be told, the work goes on.
        let print = || io::stderr().write_all(text.as_bytes());
        let _ = self.bar.suspend(print);
    }

    /// A file of `bytes` bytes that shows how much of it was read.
    pub(crate) fn watch<R: Read>(&self, file: R, bytes: u64) -> Watched<'_, R> {
        self.say("reading the snapshot");
        if bytes > 0 {
            self.set_style("{msg} {bar:24} {percent} %, {eta} left");
            self.bar.set_length(bytes);
            self.bar.set_position(0);
        }
        Watched {
            file,
            progress: self,
        }
    }

    fn set_style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
        self.show_after(QUIET);
    }

    fn show_after(&self, time: Duration) {
        if !self.is_shown.get() && self.began.elapsed() >= time {
            self.is_shown.set(true);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// See [`Progress::watch`].
pub(crate) struct Watched<'a, R> {
    file: R,
    progress: &'a Progress,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.advance(read as u64);
        Ok(read)
    }
}
