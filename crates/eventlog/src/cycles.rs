//! Cycles of marking in steps, put together while events come.
//!
//! A cycle lasts from the stop in which it began to the one that ended it. `pace` says that marking goes on, `cycle-end`
//! that it is over. Older logs have neither: there the first step says that a cycle is under way, and the `end` of its
//! collection that it is over. A log that was cut off may end in the middle of one.

use std::collections::BTreeMap;

use gleaner_base::events::reasons::{self, OVERTAKEN, PROCESSOR_LOST};

use crate::Event;

/// One cycle. Times in nanoseconds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// The collection that it belongs to.
    pub collection: u64,
    /// When the stop began in which it began.
    pub start: u64,
    /// When the stop was over that ended it, or the last that the log tells of it.
    pub end: u64,
    /// Stops that belong to it, as far as they are in the log.
    pub stops: u64,
    /// Steps, how long they took together, and the longest.
    pub steps: u64,
    /// See `steps`.
    pub stepped_ns: u64,
    /// See `steps`.
    pub longest_step_ns: u64,
    /// For how long its steps did not have the processor.
    pub lost_ns: u64,
    /// Workers that took part in one step or stop at the most.
    pub workers: u64,
    /// Threads of the program that waited for steps, as far as the log names them, and for how long.
    pub payers: BTreeMap<u64, u64>,
    /// Bytes that the program was to allocate until its end, if the log has its plan.
    pub planned: Option<u64>,
    /// Bytes that it has allocated, if the log has its end.
    pub allocated: Option<u64>,
    /// Why it began, if the log says it.
    pub began: String,
    /// Why it ended, if the log says it: not of one that is under way where the log ends.
    pub ended: Option<String>,
}

impl Cycle {
    /// How long it lasted.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether its memory was used up before everything was marked.
    pub fn is_overtaken(&self) -> bool {
        self.ended.as_deref() == Some(OVERTAKEN)
    }

    fn extend(&mut self, event: &Event<'_>) {
        self.end = self.end.max(event.end_ns());
    }

    fn add_step(&mut self, event: &Event<'_>) {
        let took = event.duration_ns;
        self.steps += 1;
        self.stepped_ns = self.stepped_ns.saturating_add(took);
        self.longest_step_ns = self.longest_step_ns.max(took);
        self.lost_ns = self.lost_ns.saturating_add(event.lost_ns);
        if event.thread > 0 {
            let paid = self.payers.entry(event.thread).or_default();
            *paid = paid.saturating_add(took);
        }
    }
}

/// The cycles of one process.
#[derive(Default)]
pub(crate) struct Cycles {
    /// The last one is under way if `is_open` says so.
    list: Vec<Cycle>,
    is_open: bool,
    /// The collection whose beginning was seen last, and why it was made.
    begun: (u64, String),
    /// When the last stop began, of which collection.
    stop: (u64, u64),
    /// Why the stop was made that may end the one that is under way.
    last_reason: String,
    /// Steps that took too long because they lost the processor, and for how long all were without it.
    lost: (u64, u64),
}

impl Cycles {
    /// All, in the order of time.
    pub(crate) fn all(&self) -> &[Cycle] {
        &self.list
    }

    /// Steps that took too long because they lost the processor, and the nanoseconds for which all steps were without it.
    pub(crate) fn lost(&self) -> (u64, u64) {
        self.lost
    }

    /// Takes in an event of a collection. The world was stopped before it or not.
    pub(crate) fn note(&mut self, event: &Event<'_>, was_stopped: bool) {
        if self
            .open()
            .is_some_and(|it| it.collection != event.collection)
        {
            self.close(None);
        }
        match &*event.name {
            "start" => self.note_start(event),
            "stop-world" => self.note_stop(event),
            "pace" => {
                let planned = event.bytes;
                let cycle = self.begin(event);
                cycle.planned.get_or_insert(planned);
                cycle.extend(event);
            }
            "mark-step" if !was_stopped => {
                self.lost.0 += u64::from(event.reason == PROCESSOR_LOST);
                self.lost.1 = self.lost.1.saturating_add(event.lost_ns);
                let cycle = self.begin(event);
                cycle.add_step(event);
                cycle.workers = cycle.workers.max(event.workers);
                cycle.extend(event);
            }
            "mark" => {
                if let Some(cycle) = self.open() {
                    cycle.workers = cycle.workers.max(event.workers);
                }
            }
            "cycle-end" => self.note_end(event, was_stopped),
            "resume-world" => {
                if let Some(cycle) = self.open() {
                    cycle.extend(event);
                    if cycle.ended.is_some() {
                        self.close(None);
                    }
                }
            }
            "end" if !reasons::is_given_up(&event.reason) => {
                let reason = std::mem::take(&mut self.last_reason);
                self.close((!reason.is_empty()).then_some(reason));
            }
            _ => {}
        }
    }

    /// Whether one is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.is_open
    }

    fn open(&mut self) -> Option<&mut Cycle> {
        self.list.last_mut().filter(|_| self.is_open)
    }

    /// The cycle that is under way, or one that begins with this event.
    fn begin(&mut self, event: &Event<'_>) -> &mut Cycle {
        if !self.is_open {
            let collection = event.collection;
            let has_stop = self.stop.0 == collection;
            let has_reason = self.begun.0 == collection;
            self.list.push(Cycle {
                collection,
                start: if has_stop {
                    self.stop.1
                } else {
                    event.start_ns
                },
                stops: u64::from(has_stop),
                began: if has_reason {
                    self.begun.1.clone()
                } else {
                    String::new()
                },
                ..Cycle::default()
            });
            self.is_open = true;
            self.last_reason.clear();
        }
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    fn note_start(&mut self, event: &Event<'_>) {
        if self.is_open {
            self.last_reason = event.reason.to_string();
        } else {
            self.begun = (event.collection, event.reason.to_string());
        }
    }

    fn note_stop(&mut self, event: &Event<'_>) {
        self.stop = (event.collection, event.start_ns);
        if let Some(cycle) = self.open() {
            cycle.stops += 1;
            cycle.extend(event);
        }
    }

    fn note_end(&mut self, event: &Event<'_>, was_stopped: bool) {
        let Some(cycle) = self.open() else { return };
        cycle.extend(event);
        cycle.allocated = Some(event.bytes);
        cycle.ended = Some(event.reason.to_string());
        if !was_stopped {
            self.close(None);
        }
    }

    /// The one that is under way is over, for this reason if none is known.
    fn close(&mut self, reason: Option<String>) {
        let Some(cycle) = self.open() else { return };
        if cycle.ended.is_none() {
            cycle.ended = reason;
        }
        self.is_open = false;
    }
}
