//! What a heap does when it ends or its process exits: the last snapshot, statistics, the last line of its log.
//!
//! The process may exit while other threads use a heap. So nothing here waits for them, but in a collection for a
//! snapshot, which the exiting thread leads if it is a mutator of the heap; a heap at whose state another thread is at
//! work has no statistics.

use std::fmt::Write;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use gleaner_os::program;
use gleaner_plans::scavenge::Totals;

use crate::body::{Body, with_heap};
use crate::wanted::say;
use crate::{fork, members};

/// Whether the C library calls [`at_exit`].
static IS_CALLED: LazyLock<bool> = LazyLock::new(|| program::at_exit(at_exit));

/// A heap comes that has something to do as the process exits.
pub(crate) fn watch() -> bool {
    *IS_CALLED
}

extern "C" fn at_exit() {
    for member in members::own().filter(|member| member.is_inside()) {
        let body = member.body();
        if let Some(whatever) = body.wanted.at_exit() {
            with_heap!(&body.kind, heap => heap.snapshot_at_exit(member.record(), whatever));
        }
    }
    fork::for_each_heap(Body::end);
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

impl Body {
    /// The heap ends, or the process does: the user is told, once.
    pub(crate) fn end(&self) {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return;
        }
        let Some(over) = with_heap!(&self.kind, heap => heap.last_words()) else {
            return;
        };
        if let Some(news) = over.news {
            say(format_args!("{news}"));
        } else if over.snapshots == Some(0) {
            say(format_args!(
                "no snapshot was written: none was due in a collection of everything, and the thread that ended the \
                 process, or the heap, was no mutator of the heap"
            ));
        }
        let options = with_heap!(&self.kind, heap => heap.config.options);
        if options.stats {
            self.print_statistics(&over.totals);
        }
    }

    fn print_statistics(&self, totals: &Totals) {
        let (used, resident, limit) = with_heap!(&self.kind, heap => {
            (heap.used() as u64, heap.resident() as u64, heap.limit() as u64)
        });
        let stops = totals.scavenges + totals.full_collections;
        let mean = totals.stopped_ns.checked_div(stops).unwrap_or(0);
        let mut text = format!(
            "statistics of heap {} of process {}\n",
            self.number + 1,
            std::process::id()
        );
        let lines = [
            (
                "collections",
                format!(
                    "{:>12} of the young generation, {} of everything",
                    totals.scavenges, totals.full_collections
                ),
            ),
            (
                "pauses",
                format!(
                    "{:>12.6} s total, {:.6} s longest, {:.6} s mean",
                    seconds(totals.stopped_ns),
                    seconds(totals.longest_stop_ns),
                    seconds(mean)
                ),
            ),
            (
                "allocated",
                format!("{:>12.1} MiB", mebibytes(totals.allocated_bytes)),
            ),
            (
                "survived",
                format!(
                    "{:>12.1} MiB in the young generation, {:.1} MiB were promoted",
                    mebibytes(totals.survived_bytes),
                    mebibytes(totals.promoted_bytes)
                ),
            ),
            (
                "final heap",
                format!(
                    "{:>12.1} MiB in use, {:.1} MiB resident, a limit of {:.1} MiB",
                    mebibytes(used),
                    mebibytes(resident),
                    mebibytes(limit)
                ),
            ),
        ];
        for (name, line) in lines {
            let _ = writeln!(text, "  {name:<15}{line}");
        }
        say(format_args!("{}", text.trim_end()));
    }
}
