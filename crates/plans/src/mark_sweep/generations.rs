//! Sticky marks: what the heap remembers from one collection to the next to decide whether marks are kept.
//!
//! A collection first asks which pages were written, also where it is going to be of everything: then the next one can
//! build on it. Where the kernel does not answer any more, everything is collected and the watch is started anew; where
//! that is refused, everything is collected from then on.
//!
//! Runs under the allocator lock, on the collecting thread.

use core::sync::atomic::Ordering;

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::{MarkGenerations, Options, Verify, WriteWatch};
use gleaner_os::clock;
use gleaner_os::written::{Mechanism, Reason, Unavailable};
use gleaner_spaces::mark_sweep::{Census, MarkSweep};

use crate::mark_sweep::collect::Request;
use crate::mark_sweep::decide::extent::{self, Extent, Found, Measurements};
use crate::mark_sweep::decide::heap_size;
use crate::mark_sweep::heap::Heap;
use crate::shared::record::Record;

/// What is remembered. Bytes are those of live objects as their marks count them.
#[derive(Clone, Copy, Debug)]
pub struct Generations {
    /// Whether the last collection was completed, and knew what was written before it.
    marks_hold: bool,
    live: usize,
    /// What the last collection of everything found.
    everything: Census,
    patience: usize,
    kept: usize,
    /// The share of what was allocated that the last collection of new objects left, in 256ths.
    survives: usize,
}

impl Generations {
    /// Nothing is known yet.
    pub const fn new() -> Generations {
        Generations {
            marks_hold: false,
            live: 0,
            everything: Census::NONE,
            patience: 1,
            kept: 0,
            survives: 128,
        }
    }

    /// A collection of `extent` has found `census`; `allocated` bytes were allocated before it.
    fn note(&mut self, extent: Extent, allocated: usize, census: &Census) {
        let live = census.live_bytes();
        match extent {
            Extent::New(_) => {
                self.kept += 1;
                let left = live.saturating_sub(self.live).min(allocated);
                self.survives = (left * 256).checked_div(allocated).unwrap_or(self.survives);
            }
            Extent::Everything(_) => {
                let young = allocated / 256 * self.survives;
                self.patience = extent::patience_after(&Found {
                    patience: self.patience,
                    grown: self.live.saturating_sub(self.everything.live_bytes()),
                    before: self.live,
                    after: live.saturating_sub(young),
                });
                self.kept = 0;
                self.everything = *census;
            }
        }
        self.live = live;
        self.marks_hold = true;
    }
}

impl Default for Generations {
    fn default() -> Generations {
        Generations::new()
    }
}

/// The mechanism that the options name.
fn named(options: &Options) -> Option<Mechanism> {
    match options.write_watch {
        WriteWatch::Auto => None,
        WriteWatch::PageScan => Some(Mechanism::PageScan),
        WriteWatch::SoftDirty => Some(Mechanism::SoftDirty),
    }
}

/// Has writes to a space watched, if the options want marks to be kept.
pub fn watch_writes(space: &mut MarkSweep, options: &Options) -> Result<(), Unavailable> {
    space.verified = options.verify == Verify::Edges;
    match options.mark_generations {
        MarkGenerations::None => Ok(()),
        MarkGenerations::Sticky => space.watch_writes(named(options)),
    }
}

impl Heap {
    /// What lived when everything was collected last: old objects that died since are no reason to collect less often.
    pub(crate) fn surely_live(&self) -> &Census {
        match self.space.written {
            Some(_) => &self.generations.everything,
            None => &self.space.census,
        }
    }

    /// How it is found out what was written, and what that costs: once.
    pub(crate) fn record_watch(&self, record: &mut Record) {
        if let Some(written) = &self.space.written {
            let mut event = Event::new(Phase::WriteWatch, record.collection());
            event.start_ns = clock::monotonic_ns();
            event.duration_ns = written.watch.cost.write_ns;
            event.reason = written.watch.mechanism().as_str();
            record.add(event);
        }
    }

    /// Decides what the collection that begins is to be of, and asks which pages were written. Everything, without an
    /// event, where marks are never kept.
    pub(crate) fn decide_extent(&mut self, record: &mut Record, request: &Request<'_>) -> Extent {
        if self.space.written.is_none() {
            return Extent::Everything("");
        }
        record.step(Phase::Written, |event| {
            let mut extent = extent::decide(&self.measure_extent(request));
            match self.space.ask_written(&self.context) {
                Ok(pages) => event.objects = pages as u64,
                Err(reason) => extent = Extent::Everything(self.watch_anew(reason)),
            }
            // Until this collection is completed there is nothing to build on.
            self.generations.marks_hold = false;
            self.context.disturbed.store(false, Ordering::Relaxed);
            event.reason = match extent {
                Extent::New(reason) | Extent::Everything(reason) => reason,
            };
            extent
        })
    }

    fn measure_extent(&self, request: &Request<'_>) -> Measurements {
        let generations = &self.generations;
        Measurements {
            everything_asked: request.everything,
            marks_hold: generations.marks_hold,
            disturbed: self.context.disturbed.load(Ordering::Relaxed),
            finds_leaks: request.finds_leaks,
            live: generations.live,
            live_after_everything: generations.everything.live_bytes(),
            composite: self.space.census.composite_bytes,
            roots: self.root_bytes,
            even_if_small: self.options.stress != 0,
            interval: heap_size::least_between_collections(&self.measure(0, 0, false)),
            patience: generations.patience,
            kept: generations.kept,
            most_kept: self.settings.full_frequency,
        }
    }

    /// Starts the watch again after it was lost; returns what is to be said of the collection that follows.
    fn watch_anew(&mut self, lost: Reason) -> &'static str {
        let options = self.options;
        let started = self.space.watch_writes(named(&options));
        match started.map(|()| self.space.ask_written(&self.context)) {
            Ok(Ok(_)) if lost == Reason::Forked => "everything: the process has forked",
            Ok(Ok(_)) => "everything: the kernel no longer knew what was written",
            _ => {
                self.space.written = None;
                "everything, from now on: the kernel does not say what is written"
            }
        }
    }

    /// Remembers what a completed collection left; `allocated` is what was allocated before it.
    pub(crate) fn note_extent(&mut self, extent: Extent, allocated: usize) {
        self.generations.note(extent, allocated, &self.space.census);
        self.totals.kept_marks += u64::from(matches!(extent, Extent::New(_)));
    }

    /// Pushes what old objects may have been written to refer to since they were scanned.
    pub(crate) fn push_written(&self) {
        self.space
            .for_each_written(&self.context, |start, descriptor| {
                self.push_entry(start, descriptor)
            });
    }
}
