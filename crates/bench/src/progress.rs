//! How far a long measurement is, on standard error: one line, rewritten on a terminal, with the time left.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Counts steps of about equal length per client.
pub struct Progress {
    start: Instant,
    total: usize,
    done: usize,
    terminal: bool,
}

impl Progress {
    /// A measurement of that many steps.
    pub fn new(total: usize) -> Progress {
        Progress {
            start: Instant::now(),
            total,
            done: 0,
            terminal: stderr().is_terminal(),
        }
    }

    /// Says what begins; `finished` steps are behind.
    pub fn step(&mut self, what: &str) {
        let spent = self.start.elapsed().as_secs_f64();
        let left = match self.done {
            0 => String::new(),
            done => format!(
                ", about {:.0} s left",
                spent / done as f64 * (self.total - done) as f64
            ),
        };
        let (before, after) = if self.terminal {
            ("\r\x1b[K", "")
        } else {
            ("", "\n")
        };
        let mut out = stderr().lock();
        let _ = write!(
            out,
            "{before}[{}/{}] {what}{left}{after}",
            self.done + 1,
            self.total
        );
        let _ = out.flush();
        self.done = (self.done + 1).min(self.total.saturating_sub(1));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
