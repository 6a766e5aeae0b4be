//! What is known of the marks that are kept, and of the watch.

use gleaner_base::options::{MarkGenerations, Options, Verify, WriteWatch};
use gleaner_os::written::{Filters, Mechanism, PAGE_BYTES, Unavailable};
use gleaner_spaces::mark_sweep::{Census, MarkSweep};

use crate::mark_sweep::cycle::Cycle;
use crate::mark_sweep::decide::extent::{self, Extent, Run};
use crate::mark_sweep::decide::watching;

/// What is remembered. Bytes are those of live objects as their marks count them.
#[derive(Clone, Copy, Debug)]
pub struct Generations {
    /// Whether the last collection was completed, and knew what was written before it.
    pub(crate) marks_hold: bool,
    /// Whether marks are kept from one collection to the next. Else pages are watched for cycles alone.
    pub(crate) keeps: bool,
    pub(super) live: usize,
    /// What the last collection of everything found.
    pub(super) everything: Census,
    /// Bytes that are expected to have died while the last collection of everything marked them in steps.
    pub(super) floating: usize,
    pub(super) kept: usize,
    /// The share of what was allocated that the last collection of new objects left, in 256ths.
    pub(super) survives: usize,
    /// The same, a little less after each collection of everything.
    pub(super) faded: usize,
    /// Pages that the last question of a collection found written.
    pub(crate) written: usize,
    /// The collections since the last one of everything.
    pub(super) run: Run,
    pub(super) rest: Rest,
    /// Bytes that the last collection of new objects scanned, and of watched pages that were written before it; nothing before
    /// there was one.
    pub(super) last_new: Option<usize>,
    /// Bytes that the last collection of everything scanned.
    pub(super) last_whole: usize,
}

/// For how long marks are not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Collections of everything that are still to pass.
    pub(super) left: u32,
    /// How many there were to be in all; 0 if the last run paid.
    pub(super) whole: u32,
    /// Bytes that lived when this was decided.
    pub(super) live: usize,
}

/// Collections of new objects are cheap that scan less than this part of what those of everything do.
const CHEAP_PART: usize = 8;
/// What is forgotten of what collections of new objects leave, with each one of everything.
const FADING: usize = 8;

impl Generations {
    /// Nothing is known yet.
    pub const fn new() -> Generations {
        Generations {
            marks_hold: false,
            keeps: true,
            live: 0,
            everything: Census::NONE,
            floating: 0,
            kept: 0,
            survives: 128,
            faded: 128,
            written: 0,
            run: Run {
                kept: 0,
                scanned_new: 0,
                written: 0,
                scanned_everything: 0,
            },
            rest: Rest {
                left: 0,
                whole: 0,
                live: 0,
            },
            last_new: None,
            last_whole: 0,
        }
    }

    /// Whether the next collection can build on the marks of the last.
    pub(super) fn has_marks(&self) -> bool {
        self.keeps && self.marks_hold
    }

    /// Whether collections of new objects scan little beside those of everything.
    pub(super) fn is_new_cheap(&self) -> bool {
        self.last_new
            .is_some_and(|new| new.saturating_mul(CHEAP_PART) <= self.last_whole)
    }

    /// How much of what was allocated is expected to live. Bytes.
    pub(crate) fn surviving(&self, allocated: usize) -> usize {
        allocated / 256 * self.survives
    }

    /// How much of what the last collections left may be dead: what the old objects have grown by since everything was
    /// collected. Bytes.
    pub(crate) fn lost(&self) -> usize {
        self.live.saturating_sub(self.everything.live_bytes()) + self.floating
    }

    /// How much of what was allocated a collection of new objects would leave, if the last ones are anything to go by. Bytes.
    pub(super) fn left_by_new(&self, allocated: usize) -> usize {
        allocated / 256 * self.faded
    }

    /// A cycle has ended during which `allocated` bytes were allocated, and `scanned` bytes scanned beside the program. Where as much
    /// dies as is allocated, and as likely before it is marked as after that, half of it is still there.
    pub(crate) fn note_cycle(&mut self, extent: Extent, allocated: usize, scanned: usize) {
        if !extent.is_of_new() {
            self.floating = allocated.min(scanned) / 2;
        }
    }

    /// A collection of `extent` has scanned `bytes` bytes in its last stop, and others in the cycle that it has
    /// `ended`.
    pub(crate) fn note_scanned(&mut self, extent: Extent, ended: &Cycle, bytes: usize) {
        let run = &mut self.run;
        let bytes = bytes
            + if extent.keeps_marks() {
                ended.scanned()
            } else {
                0
            };
        run.written += self.written * PAGE_BYTES;
        if extent.is_of_new() {
            run.kept += 1;
            run.scanned_new += bytes;
            self.last_new = Some(bytes + self.written * PAGE_BYTES);
        } else {
            run.scanned_everything = bytes;
            self.last_whole = bytes;
        }
    }

    /// A collection of everything has ended, after which `live` bytes live.
    pub(super) fn weigh_run(&mut self, live: usize) {
        let run = core::mem::take(&mut self.run);
        let rest = &mut self.rest;
        if run.kept > 0 {
            let whole = extent::rest_after(&run, rest.whole);
            *rest = Rest {
                left: whole,
                whole,
                live,
            };
        } else if live / 2 > rest.live {
            *rest = Rest::default(); // What was found holds for another heap.
        } else {
            rest.left = rest.left.saturating_sub(1);
        }
    }

    /// A collection of `extent` has found `census`; `allocated` bytes were allocated before it.
    pub(super) fn note(&mut self, extent: Extent, allocated: usize, census: &Census) {
        let live = census.live_bytes();
        match extent {
            Extent::New(_) | Extent::SteppedNew(_) => {
                self.kept += 1;
                let left = live.saturating_sub(self.live).min(allocated);
                self.survives = (left * 256).checked_div(allocated).unwrap_or(self.survives);
                self.faded = self.survives;
            }
            Extent::Everything(_) | Extent::Stepped(_) => {
                self.faded -= self.faded / FADING;
                if !extent.keeps_marks() {
                    self.floating = 0;
                }
                self.kept = 0;
                self.everything = *census;
                self.weigh_run(live);
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

/// What collections took, under `generations=auto`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighing {
    pub(super) measured: watching::Measurements,
    /// Nanoseconds of the processor's time that the process had used when the last collection ended.
    pub(super) ended_ns: u64,
    /// Whether the kernel was asked since the watch began.
    pub(super) asked: bool,
    /// How long was waited after the last trial that failed.
    pub(super) waited: u32,
    /// Bytes with pointers that lived after the last collection.
    pub(super) lived: usize,
}

impl Weighing {
    /// This process was forked, and its processor's time begins at 0.
    pub(crate) fn begin_in_child(&mut self) {
        self.ended_ns = 0;
    }

    /// A collection of `extent` has ended when the process had used `now` nanoseconds of the processor's time, `took` of them for
    /// it; faults of watched pages took `faults`.
    pub(super) fn note(&mut self, extent: Extent, now: u64, took: u64, faults: u64) {
        let m = &mut self.measured;
        m.elapsed_ns = now.saturating_sub(core::mem::replace(&mut self.ended_ns, now));
        m.wait = m.wait.saturating_sub(1);
        if m.watching {
            // Before the first question no page was watched.
            if self.asked {
                m.faults_ns += faults;
                m.intervals += 1;
            }
            self.asked = true;
        }
        if extent.is_of_new() {
            m.kept += 1;
            m.kept_ns += took + faults;
            return;
        }
        if m.watching {
            m.everything += 1;
            m.everything_ns += took;
        } else {
            (m.everything, m.everything_ns) = (1, took);
        }
    }

    pub(super) fn begin_trial(&mut self) {
        // What a collection of everything took without a watch is what the others are compared with, too.
        self.measured.watching = true;
        (self.measured.kept, self.measured.kept_ns) = (0, 0);
        (self.measured.intervals, self.measured.faults_ns) = (0, 0);
        self.asked = false;
    }

    pub(super) fn give_up(&mut self) {
        self.waited = watching::wait_after(self.waited);
        self.measured = watching::Measurements {
            wait: self.waited,
            ..watching::Measurements::default()
        };
    }
}

/// The mechanism that the options name.
pub(super) fn named(options: &Options) -> Option<Mechanism> {
    match options.write_watch {
        WriteWatch::Auto => None,
        WriteWatch::PageScan => Some(Mechanism::PageScan),
        WriteWatch::SoftDirty => Some(Mechanism::SoftDirty),
    }
}

/// Why a heap that begins watches no pages although it may later.
pub fn before_the_watch(options: &Options) -> &'static str {
    match options.mark_generations {
        MarkGenerations::Auto => watching::NOT_YET,
        _ => "",
    }
}

/// Has writes to a space watched, if the options want marks to be kept.
pub fn watch_writes(space: &mut MarkSweep, options: &Options) -> Result<(), Unavailable> {
    space.verified = options.verify == Verify::Edges;
    match options.mark_generations {
        MarkGenerations::None | MarkGenerations::Asked | MarkGenerations::Auto => Ok(()),
        MarkGenerations::Sticky | MarkGenerations::Incremental => {
            space.watch_writes(named(options), Filters::Ignored)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_forked_child_begins_anew() {
        let mut weighing = Weighing::default();
        let everything = Extent::Everything("");
        weighing.note(everything, 5_000, 400, 0);
        weighing.note(everything, 9_000, 500, 0);
        assert_eq!(weighing.measured.elapsed_ns, 4_000);
        weighing.begin_in_child();
        weighing.note(everything, 700, 600, 0);
        assert_eq!(weighing.measured.elapsed_ns, 700);
        assert_eq!(weighing.measured.everything_ns, 600);
    }

    #[test]
    fn faults_count_from_the_first_question_on() {
        let mut weighing = Weighing::default();
        weighing.note(Extent::Everything(""), 1_000, 100, 0);
        weighing.begin_trial();
        weighing.note(Extent::Everything(""), 2_000, 100, 70);
        assert_eq!(weighing.measured.intervals, 0);
        weighing.note(Extent::Everything(""), 3_000, 100, 30);
        weighing.note(Extent::New(""), 4_000, 10, 20);
        let m = &weighing.measured;
        assert_eq!((m.faults_ns, m.intervals), (50, 2));
        assert_eq!((m.kept_ns, m.kept), (30, 1));
    }

    #[test]
    fn collections_of_new_objects_are_cheap_that_scan_a_small_part() {
        let (mut generations, none) = (Generations::new(), Cycle::new());
        generations.note_scanned(Extent::Everything(""), &none, 80 * PAGE_BYTES);
        assert!(!generations.is_new_cheap(), "there was none");
        generations.written = 6;
        generations.note_scanned(Extent::New(""), &none, 4 * PAGE_BYTES);
        assert!(generations.is_new_cheap());
        generations.written = 7;
        generations.note_scanned(Extent::New(""), &none, 4 * PAGE_BYTES);
        assert!(!generations.is_new_cheap());
    }
}
