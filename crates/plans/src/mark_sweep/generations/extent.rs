//! What a collection is of, and how the watch begins and ends.

use core::sync::atomic::Ordering;

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::MarkGenerations;
use gleaner_os::written::{Filters, PAGE_BYTES, Reason, Unavailable};
use gleaner_os::{clock, memory};
use gleaner_spaces::mark_sweep::Census;
use gleaner_spaces::mark_sweep::sticky::Asked;

use super::state::named;
use crate::mark_sweep::cycle::{Cycle, Ended};
use crate::mark_sweep::decide::cycle::Marking;
use crate::mark_sweep::decide::extent::{self, Extent, Measurements};
use crate::mark_sweep::decide::watching;
use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::request::{Request, Wish};
use crate::shared::record::Record;

/// Under `auto`: the program could miss what a watch takes.
const LIMITED: &str = "addresses are limited (ulimit -v), and a watch takes some";

impl Heap {
    /// What lived when everything was collected last: old objects that died since are no reason to collect less often.
    pub(crate) fn surely_live(&self) -> &Census {
        match self.space.written {
            Some(_) => &self.generations.everything,
            None => &self.space.census,
        }
    }

    /// How it is found out what was written, and what that costs; or why the watch begins or ends.
    pub(crate) fn record_watch(&self, record: &mut Record, reason: &'static str) {
        if let Some(written) = &self.space.written {
            let reason = match reason {
                "" => written.watch.mechanism().as_str(),
                given => given,
            };
            add_watch_event(record, reason, written.watch.cost.write_ns);
        }
    }

    /// Decides what the collection that begins is to be of and how it is marked, and asks which pages were written.
    /// Everything, without an event, where marks are never kept.
    pub(crate) fn decide_extent(
        &mut self,
        record: &mut Record,
        request: &Request<'_>,
    ) -> (Extent, Marking, Cycle) {
        if self.space.written.is_none() {
            return (Extent::Everything(""), Marking::InStop, Cycle::new());
        }
        let cycle = core::mem::take(&mut self.cycle);
        let mut is_asked = false;
        let (extent, marking) = record.step(Phase::Written, |event| {
            let wish = request.wish();
            let mut extent = self.expect_extent(wish, &cycle);
            // A cycle for which nothing was asked when it began is expected to end as the one before.
            let before = match self.generations.keeps {
                true => self.generations.written,
                false => self.auto.written,
            };
            let mut marking = self.decide_marking(wish, extent, &cycle, before);
            let asked = match marking {
                Marking::For(_) if self.generations.keeps || extent.keeps_marks() => Asked::All,
                Marking::For(_) => Asked::Begun,
                Marking::InStop if self.generations.keeps => Asked::Old,
                Marking::InStop => Asked::Last,
            };
            // Else what is written until the next question counts for that.
            self.generations.written = 0;
            let builds_on = self.generations.keeps && extent::is_built_on(self.rest());
            if extent.keeps_marks() || marking != Marking::InStop || builds_on {
                is_asked = true;
                match self.space.ask_written(&self.context, asked) {
                    Ok(pages) => {
                        event.objects = pages as u64;
                        self.generations.written = pages;
                        if asked == Asked::Last {
                            self.auto.written = pages;
                        }
                        if self.is_in_vain(extent, pages) {
                            extent = Extent::Everything(watching::IN_VAIN);
                            self.weighing.measured.in_vain = true;
                        }
                    }
                    Err(reason) => extent = Extent::Everything(self.watch_anew(reason)),
                }
            }
            // Also where the kernel does not answer any more: then nothing goes on beside the program.
            if marking != Marking::InStop {
                let written = self.generations.written;
                marking = self.decide_marking(wish, extent, &cycle, written);
            }
            self.space.marked_in_steps = false;
            // Until this collection is completed there is nothing to build on.
            self.generations.marks_hold = false;
            self.context.disturbed.store(false, Ordering::Relaxed);
            event.reason = extent.reason();
            (extent, marking)
        });
        if is_asked {
            self.note_question(record.duration(Phase::Written));
        }
        match cycle.ended() {
            Ended::None => {}
            Ended::Early if extent.keeps_marks() => self.totals.cycles_cut_short += 1,
            _ if extent.keeps_marks() => {}
            _ => {
                self.engine.forget_grey(&self.context);
                self.record_end(record, &cycle, extent.reason());
            }
        }
        (extent, marking, cycle)
    }

    /// Under `auto`: whether it would gain nothing to collect new objects alone, where old ones lie on `pages` that were written.
    fn is_in_vain(&self, extent: Extent, pages: usize) -> bool {
        self.mode == MarkGenerations::Auto
            && matches!(extent, Extent::New(_))
            && watching::is_in_vain(pages * PAGE_BYTES, self.space.census.composite_bytes)
    }

    /// Collections of everything that are still to pass before marks are kept; none where tests want them kept.
    fn rest(&self) -> u32 {
        match self.options.stress {
            0 => self.generations.rest.left,
            _ => 0,
        }
    }

    /// What a collection would be of that began now, after this `cycle`.
    pub(crate) fn expect_extent(&self, wish: Wish, cycle: &Cycle) -> Extent {
        extent::decide(&self.measure_extent(wish, cycle))
    }

    /// Whether a collection that began now would keep marks and take little of the time of one of everything, under
    /// `generations=auto`.
    pub(crate) fn is_new_cheap(&self) -> bool {
        self.mode == MarkGenerations::Auto
            && self.generations.has_marks()
            && self.rest() == 0
            && self.generations.is_new_cheap()
    }

    fn measure_extent(&self, wish: Wish, cycle: &Cycle) -> Measurements {
        let generations = &self.generations;
        Measurements {
            everything_asked: wish.everything,
            cycle_asked: wish.in_steps,
            marks_hold: generations.has_marks(),
            stepped: matches!(cycle.ended(), Ended::Marked | Ended::Early),
            stepped_new: cycle.is_of_new(),
            disturbed: self.context.disturbed.load(Ordering::Relaxed),
            finds_leaks: wish.finds_leaks,
            composite: self.space.census.composite_bytes,
            roots: self.root_bytes,
            even_if_small: self.options.stress != 0,
            interval: self.interval_within_limits(&self.measure(0, 0)),
            lost: generations.lost(),
            surviving: generations.left_by_new(self.space.account.net_allocated()),
            rest: self.rest(),
            kept: generations.kept,
            most_kept: self.settings.full_frequency,
        }
    }

    /// Starts the watch again after it was lost; returns what is to be said of the collection that follows.
    fn watch_anew(&mut self, lost: Reason) -> &'static str {
        let started = self.begin_watch();
        match started.map(|()| self.space.ask_written(&self.context, Asked::All)) {
            Err(Unavailable::FILTERED) | Ok(Err(Reason::Filtered)) => {
                self.space.written = None;
                self.stay_unwatched(Unavailable::FILTERED);
                "everything, from now on: a filter of system calls is in force"
            }
            Ok(Ok(_)) if lost == Reason::Forked => "everything: the process has forked",
            Ok(Ok(_)) => "everything: the kernel no longer knew what was written",
            _ => {
                self.space.written = None;
                self.unwatched_since = "the kernel does not say any more what is written";
                "everything, from now on: the kernel does not say what is written"
            }
        }
    }

    /// Has writes watched as the mode wants it: under `auto`, of which the program knows nothing, not where it has confined itself.
    fn begin_watch(&mut self) -> Result<(), Unavailable> {
        let filters = match self.mode {
            MarkGenerations::Auto => Filters::Heeded,
            _ => Filters::Ignored,
        };
        let options = self.options;
        self.space.watch_writes(named(&options), filters)
    }

    /// Under `auto`: pages are not watched from now on, unless the program asks for it.
    fn stay_unwatched(&mut self, unavailable: Unavailable) {
        self.mode = MarkGenerations::Asked;
        (self.unwatched, self.unwatched_since) = match unavailable {
            Unavailable::FILTERED => (None, Reason::Filtered.as_str()),
            other => (Some(other), ""),
        };
    }

    /// The program asks for incremental collection. True if writes are watched from now on; false if the options forbid it.
    pub fn enable_incremental(&mut self) -> Result<bool, Unavailable> {
        if matches!(self.mode, MarkGenerations::Asked | MarkGenerations::Auto) {
            // What was written since one began under `auto` is lost with its watch.
            self.give_up_cycle();
            let options = self.options;
            self.space
                .watch_writes(named(&options), Filters::Ignored)
                .inspect_err(|&unavailable| self.unwatched = Some(unavailable))?;
            self.generations.marks_hold = false;
            self.generations.keeps = true;
            self.unwatched_since = "";
            self.mode = MarkGenerations::Incremental;
            self.pacing.look_at = 0;
        }
        Ok(self.space.written.is_some())
    }

    /// Under `generations=auto`: weighs a collection, whose stop took `took` nanoseconds of the processor's time, and begins or
    /// ends the watch.
    pub(crate) fn weigh_watch(&mut self, record: &mut Record, request: &Request<'_>, took: u64) {
        if self.mode != MarkGenerations::Auto {
            return;
        }
        let now = clock::process_cpu_ns();
        let faults = self.space.written.as_ref().map_or(0, |written| {
            record.objects(Phase::Written) * written.watch.cost.write_ns
        });
        let turned = self.take_turned();
        self.weighing
            .note(self.extent, now, took + turned.0, faults);
        let composite = self.space.census.composite_bytes;
        let lived = core::mem::replace(&mut self.weighing.lived, composite);
        let makes_steps = self.makes_steps();
        let measured = &mut self.weighing.measured;
        measured.watching = self.space.written.is_some() && self.generations.keeps;
        measured.composite = composite;
        measured.changed = composite.abs_diff(lived);
        measured.roots = self.root_bytes;
        measured.finds_leaks = request.finds_leaks;
        measured.promising = match watching::is_promising(measured) {
            // Collections that are marked beside the program have no long stops.
            true if makes_steps => 0,
            true => measured.promising.saturating_add(1),
            false => 0,
        };
        let decision = watching::decide(measured);
        measured.in_vain = false;
        match decision {
            watching::Decision::Stay => {}
            watching::Decision::Watch(_) if memory::address_limit().is_some() => {
                self.weighing.give_up();
                self.unwatched_since = LIMITED;
                add_watch_event(record, LIMITED, 0);
            }
            watching::Decision::Watch(reason) => {
                self.weighing.begin_trial();
                self.begin_watch_for(record, true, reason);
            }
            watching::Decision::Stop(reason) => {
                self.weighing.give_up();
                self.end_watch(record, reason);
            }
        }
        self.weigh_cycles(record, took, turned);
    }

    /// Under `auto`: has writes watched from now on, so that marks are kept or only for cycles, and says why.
    pub(crate) fn begin_watch_for(
        &mut self,
        record: &mut Record,
        keeps: bool,
        reason: &'static str,
    ) {
        match self.begin_watch() {
            Ok(()) => {
                self.generations.marks_hold = false;
                self.generations.keeps = keeps;
                self.unwatched_since = "";
                self.record_watch(record, reason);
            }
            Err(unavailable) => {
                self.stay_unwatched(unavailable);
                let reason = match self.unwatched_since {
                    "" => "the kernel does not say what is written",
                    since => since,
                };
                add_watch_event(record, reason, 0);
            }
        }
    }

    /// Under `auto`: writes are watched no longer, and why.
    pub(crate) fn end_watch(&mut self, record: &mut Record, reason: &'static str) {
        self.record_watch(record, reason);
        self.space.written = None;
        self.unwatched_since = reason;
        self.generations.marks_hold = false;
    }

    /// Where addresses are short they stay with the heap as long as pages are watched: gives the watch up, but not in a cycle.
    /// Whether there was one, whose own memory went back with it.
    fn give_up_watch(&mut self) -> bool {
        if !self.space.layout.is_in_pieces() || self.cycle.is_under_way() {
            return false;
        }
        self.generations.marks_hold = false;
        let watched = self.space.written.take().is_some();
        if watched {
            self.weighing.give_up();
            self.unwatched_since = "addresses are short, and the watch needs some";
        }
        watched
    }

    /// Gives back the addresses that no object needs, where they are short; whether there were any.
    pub(crate) fn give_addresses_back(&mut self) -> bool {
        self.give_up_watch() | self.space.give_back_end() | self.space.give_back_between()
    }

    /// Remembers what a completed collection left; `allocated` is what was allocated before it.
    pub(crate) fn note_extent(&mut self, extent: Extent, allocated: usize) {
        self.generations.note(extent, allocated, &self.space.census);
        self.totals.kept_marks += u64::from(extent.is_of_new());
    }
}

/// How it is found out what was written, or why it is no longer or not; a write to a watched page takes `write_ns` nanoseconds.
fn add_watch_event(record: &mut Record, reason: &'static str, write_ns: u64) {
    let mut event = Event::new(Phase::WriteWatch, record.collection());
    event.start_ns = clock::monotonic_ns();
    event.duration_ns = write_ns;
    event.reason = reason;
    record.add(event);
}
