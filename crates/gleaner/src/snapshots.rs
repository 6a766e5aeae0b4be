//! Snapshots that an option or a call asks for, and what the user is told of them.
//!
//! Options `snapshot` and `snapshot-at` have them written in collections of everything; on SIGUSR2, by the next mutator
//! that needs the collector to allocate; and as the process exits, by the thread that ends it, if that is a mutator of
//! the heap: others may be at work.

use std::path::Path;

use gleaner_plans::scavenge::memory::counts::Count;
use gleaner_plans::shared::snapshot::News;

use crate::body::{Body, with_heap};
use crate::mutator::Mutator;
use crate::scope::Scope;
use crate::wanted::say;

pub use gleaner_plans::scavenge::SnapshotError;

impl Body {
    /// Behind a collection: tells what became of a snapshot, if somebody waits for it or it could not be written. There may be
    /// many that nobody waits for, of which the last one is told of in the end. The calling thread is no mutator inside
    /// the gate.
    pub(crate) fn tell_of_snapshots(&self) {
        let is_waited_for = self.wanted.are_waited_for();
        let is_wanted = |news: &News| is_waited_for || news.has.is_none();
        if let Some(news) = with_heap!(&self.kind, heap => heap.snapshot_news(is_wanted)) {
            say(format_args!("{news}"));
        }
    }
}

impl Mutator {
    /// Collects everything, and writes what lives and what keeps it to a file, which `gleaner heap` reads. How many objects
    /// and bytes it has. All mutators are stopped meanwhile.
    ///
    /// ```
    /// # let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// # let path = std::env::temp_dir().join(format!("gleaner-doc-{}.heap", std::process::id()));
    /// let mut mutator = heap.attach()?;
    /// let found = mutator.snapshot(&path)?;
    /// assert_eq!(found.objects, 0);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&mut self, path: impl AsRef<Path>) -> Result<Count, SnapshotError> {
        self.assert_may_collect("a snapshot");
        // What is no UTF-8 is refused as a path with a byte 0 is.
        let path = path.as_ref().to_str().unwrap_or("\0");
        with_heap!(&self.shared.kind, heap => heap.snapshot(self.record(), path))
    }

    /// Writes the snapshot that a signal has called for.
    #[cold]
    pub(crate) fn obey_signal(&mut self) {
        let reason = "a signal calls for a snapshot";
        with_heap!(&self.shared.kind, heap => heap.write_wanted_snapshot(self.record(), reason));
    }
}

impl Scope<'_> {
    /// See [`Mutator::snapshot`].
    pub fn snapshot(&mut self, path: impl AsRef<Path>) -> Result<Count, SnapshotError> {
        self.mutator().snapshot(path)
    }
}
