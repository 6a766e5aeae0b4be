//! What one process did, summed up while its events come.
//!
//! A collection stops the program once, or, where it is marked in steps, twice and more. A *span* is a time in which the
//! program waited: a stop, from asking the threads to stop to letting them go on, or a step of marking, for which the thread
//! waits that allocates. The events of a process come in the order of time, but for those that are sums.
//!
//! Writing a snapshot stops the program for as long as a user asked for, and is no cost of collecting. So all times here are
//! those of a clock that stands still meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use gleaner_base::events::Phase;
use gleaner_base::events::reasons::{self, PROCESSOR_LOST};
use gleaner_base::goals::{self, Goals, Steps, Stop};

use crate::cycles::Cycles;
use crate::{Cycle, Event, Spread, Utilisation};

/// Names and reasons that are kept apart. A log that Gleaner wrote has fewer; in another one there may be any number.
const MOST_NAMES: usize = 500;
/// What stands for those beyond.
const OTHERS: &str = "(others)";

/// A time in which the program waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The collection that it belongs to.
    pub collection: u64,
    /// First nanosecond.
    pub start: u64,
    /// Last nanosecond.
    pub end: u64,
    /// A step of marking beside the program, not a stop.
    pub is_step: bool,
    /// Nanoseconds of it until all threads had stopped.
    pub stopping: u64,
}

impl Span {
    /// How long it is.
    pub fn duration(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// What ran, with which options, on what.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Head {
    /// The command that started it, its words apart by spaces; the end of a long one is missing.
    pub command: String,
    /// The options that differ from the default, as a list.
    pub options: String,
    /// The version of Gleaner.
    pub version: String,
    /// The system, its version and the architecture.
    pub system: String,
    /// Processors that it might use.
    pub processors: u64,
    /// Bytes of memory that it might use.
    pub memory: u64,
    /// It was forked, and the number of its parents' last collection is this one.
    pub forked_after: Option<u64>,
}

/// What a phase took.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PhaseTotal {
    /// Events of that name.
    pub count: u64,
    /// Nanoseconds of all.
    pub all_ns: u64,
    /// Nanoseconds of those in stops.
    pub stopped_ns: u64,
    /// Nanoseconds of the longest.
    pub longest_ns: u64,
}

/// How often an event had a reason.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Events with that reason.
    pub count: u64,
    /// Nanoseconds of these.
    pub all_ns: u64,
}

/// One collection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Collection {
    /// Which of [`Process::reasons`] it has.
    reason: Option<usize>,
    /// Nanoseconds of the whole, if its end is in the log.
    pub whole_ns: Option<u64>,
}

/// Something that was done since the program was idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdleAction {
    /// When memory began to go back, or the collection was over.
    pub at: u64,
    /// Bytes that went back to the system without a collection; nothing of a collection.
    pub given_back: Option<u64>,
}

/// What one process did.
#[derive(Default)]
pub struct Process {
    /// Which of the heaps of the process it is, from 1; 0 where it has one alone.
    heap: u64,
    head: Option<Head>,
    /// What the process advised as it ended.
    advice: String,
    /// Bytes that it allocated in all, if it said so when it ended.
    allocated: Option<u64>,
    /// Snapshots that were written in stops.
    snapshots: u64,
    /// Nanoseconds that writing them took.
    snapshots_ns: u64,
    /// The last collection in which some were written, and for how long.
    written_in: (u64, u64),
    /// By name, in the order of the alphabet.
    phases: BTreeMap<String, PhaseTotal>,
    /// By name and reason.
    decisions: BTreeMap<(String, String), Decision>,
    reasons: Vec<String>,
    spans: Vec<Span>,
    collections: BTreeMap<u64, Collection>,
    /// The last number of a collection that ended.
    ended: u64,
    /// The threads were stopped and do not run yet.
    is_stopped: bool,
    /// Steps, and those among them that took more than one and a half times what they were given although their thread
    /// had the processor.
    steps: u64,
    /// See `steps`.
    long_steps: u64,
    cycles: Cycles,
    /// The stop that is in progress, and what those before it did with their goals.
    stop: Stop,
    /// See `stop`.
    goals: Goals,
    idle: Vec<IdleAction>,
    /// First and last nanosecond of what the log tells.
    time: Option<(u64, u64)>,
    /// Bytes that lived at the end of a collection.
    live: Vec<(u64, u64)>,
    /// Bytes of the heap; until it is known, what it grew by.
    capacity: Vec<(u64, u64)>,
    is_capacity_known: bool,
    moves: bool,
}

impl Process {
    /// Takes in the next event.
    pub fn add(&mut self, event: &Event<'_>) {
        if event.name == "snapshot" && self.is_stopped {
            self.note_snapshot(event);
            return;
        }
        self.heap = event.heap;
        let event = &self.without_snapshots(event);
        let (first, last) = self.time.unwrap_or((event.start_ns, event.end_ns()));
        self.time = Some((first.min(event.start_ns), last.max(event.end_ns())));
        match &*event.name {
            "options" | "fork" => self.head = Some(head_of(event)),
            "exit" => {
                self.advice = event.reason.to_string();
                self.allocated = (event.bytes > 0).then_some(event.bytes);
            }
            _ => self.note(event),
        }
    }

    /// Takes in an event of the heap.
    fn note(&mut self, event: &Event<'_>) {
        self.moves |= match &*event.name {
            "copy" | "slide" | "evacuation" => true,
            // Under `nursery=in-place`, where most collections move nothing.
            "mark" => event.reason == "new objects",
            _ => false,
        };
        self.note_heap(event);
        let was_stopped = self.is_stopped;
        self.is_stopped = match &*event.name {
            "stop-world" => true,
            "start" | "resume-world" | "end" => false,
            _ => was_stopped,
        };
        let is_paused = event.is_of_collection() && self.is_pause(event, was_stopped);
        let is_step = event.name == "mark-step" && !was_stopped;
        if event.is_of_collection() {
            self.cycles.note(event, was_stopped);
            self.note_collection(event);
        }
        if is_paused {
            self.note_pause(event, is_step, was_stopped);
        }
        if event.is_of_collection() {
            self.note_goal(event);
        }
        self.note_idle(event);
        let counts = was_stopped && !event.is_sum();
        let in_stop = is_paused && !is_step || counts;
        self.note_phase(event, in_stop);
    }

    /// Whether the event is of another process, or of another heap of this one, than those before it: collections are
    /// counted from 1 again. The system gives numbers of processes to others when they have ended.
    pub fn begins_anew(&self, event: &Event<'_>) -> bool {
        let is_first = match &*event.name {
            "start" => event.collection == 1,
            "fork" => true,
            _ => event.collection == 0 && !event.is_of_collection(),
        };
        is_first && self.ended > 0
    }

    /// Whether the program waits meanwhile. An event that this version does not know is taken for a part of a stop if
    /// there is one.
    fn is_pause(&self, event: &Event<'_>, was_stopped: bool) -> bool {
        event.is_paused() && (was_stopped || event.is_known())
    }

    fn note_pause(&mut self, event: &Event<'_>, is_step: bool, was_stopped: bool) {
        let begins = is_step || event.name == "stop-world" && !was_stopped;
        let (start, end) = (event.start_ns, event.end_ns());
        let collection = event.collection;
        let stopping = match &*event.name {
            "stop-world" => event.duration_ns,
            _ => 0,
        };
        match self.spans.last_mut() {
            Some(span) if !begins && span.collection == collection && !span.is_step => {
                span.start = span.start.min(start);
                span.end = span.end.max(end);
                span.stopping = span.stopping.saturating_add(stopping);
            }
            _ => self.spans.push(Span {
                collection,
                start,
                end,
                is_step,
                stopping,
            }),
        }
    }

    /// Takes in an event of a stop that may have a goal. It is over when the threads run again.
    fn note_goal(&mut self, event: &Event<'_>) {
        let Some(phase) = Phase::named(&event.name) else {
            return;
        };
        if phase == Phase::Start {
            self.stop = Stop::default();
        }
        self.stop
            .add(phase, event.duration_ns, event.goal_ns, &event.reason);
        if phase == Phase::ResumeWorld {
            let took = self.spans.last().map_or(0, Span::duration);
            self.goals.note(&std::mem::take(&mut self.stop), took);
        }
    }

    fn note_idle(&mut self, event: &Event<'_>) {
        let given_back = match &*event.name {
            "give-back" => Some(event.bytes),
            "end" if reasons::is_idle(&event.reason) => None,
            _ => return,
        };
        let at = event.start_ns;
        self.idle.push(IdleAction { at, given_back });
    }

    /// Stops the clock for as long as writing a snapshot took.
    fn note_snapshot(&mut self, event: &Event<'_>) {
        let took = event.duration_ns;
        self.snapshots += 1;
        self.snapshots_ns = self.snapshots_ns.saturating_add(took);
        let (collection, before) = self.written_in;
        let before = if collection == event.collection {
            before
        } else {
            0
        };
        self.written_in = (event.collection, took.saturating_add(before));
        self.note_phase(event, false);
    }

    /// The event as the clock that stands still has it.
    fn without_snapshots<'a>(&self, event: &Event<'a>) -> Event<'a> {
        let mut event = event.clone();
        event.start_ns = event.start_ns.saturating_sub(self.snapshots_ns);
        if event.name == "end" && self.written_in.0 == event.collection {
            event.duration_ns = event.duration_ns.saturating_sub(self.written_in.1);
        }
        event
    }

    fn note_collection(&mut self, event: &Event<'_>) {
        let known = self.collections.entry(event.collection).or_default();
        match &*event.name {
            "start" if known.reason.is_none() && !event.reason.is_empty() => {
                known.reason = Some(index_of(&mut self.reasons, &event.reason));
            }
            // The next one has its number. A cycle that goes on is still there for its reason.
            "end" if reasons::is_given_up(&event.reason) => {
                known.reason = known.reason.filter(|_| self.cycles.is_under_way());
            }
            "end" => {
                known.whole_ns = Some(event.duration_ns);
                self.ended = self.ended.max(event.collection);
            }
            "mark-step" => {
                self.steps += 1;
                let is_long = event.duration_ns.saturating_mul(2) > event.objects.saturating_mul(3);
                self.long_steps += u64::from(is_long && event.reason != PROCESSOR_LOST);
            }
            _ => (),
        }
    }

    fn note_heap(&mut self, event: &Event<'_>) {
        let now = self.capacity.last().map_or(0, |(_, bytes)| *bytes);
        let at = event.end_ns();
        match &*event.name {
            "end" if !reasons::is_given_up(&event.reason) => self.live.push((at, event.bytes)),
            "heap-grow" => self.capacity.push((at, now.saturating_add(event.bytes))),
            "heap-shrink" => self.capacity.push((at, now.saturating_sub(event.bytes))),
            "resize" => {
                if !self.is_capacity_known {
                    let before = event.bytes.saturating_sub(now);
                    for (_, bytes) in &mut self.capacity {
                        *bytes = bytes.saturating_add(before);
                    }
                    self.is_capacity_known = true;
                }
                self.capacity.push((at, event.bytes));
            }
            _ => (),
        }
    }

    fn note_phase(&mut self, event: &Event<'_>, in_stop: bool) {
        let took = event.duration_ns;
        let total = entry_of(&mut self.phases, event.name.to_string(), OTHERS.to_string());
        total.count += 1;
        total.all_ns = total.all_ns.saturating_add(took);
        total.longest_ns = total.longest_ns.max(took);
        if in_stop {
            total.stopped_ns = total.stopped_ns.saturating_add(took);
        }
        if event.reason.is_empty() {
            return;
        }
        let both = (event.name.to_string(), event.reason.to_string());
        let others = (OTHERS.to_string(), OTHERS.to_string());
        let decision = entry_of(&mut self.decisions, both, others);
        decision.count += 1;
        decision.all_ns = decision.all_ns.saturating_add(took);
    }

    /// How often it collected.
    pub fn count(&self) -> u64 {
        let paused: BTreeSet<u64> = self.spans.iter().map(|span| span.collection).collect();
        let whole = self
            .collections
            .iter()
            .filter(|(number, found)| found.whole_ns.is_some() && !paused.contains(number));
        (paused.len() + whole.count()) as u64
    }

    /// The times in which the program waited.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How long the pauses are: the spans, or, of a log that tells of no phases, the whole collections.
    pub fn pauses(&self) -> Vec<u64> {
        if self.spans.is_empty() {
            let whole = self.collections.values().filter_map(|found| found.whole_ns);
            return whole.collect();
        }
        self.spans.iter().map(Span::duration).collect()
    }

    /// How long the stops are, or the steps of marking beside the program.
    pub fn spread(&self, of_steps: bool) -> Spread {
        let chosen = self.spans.iter().filter(|span| span.is_step == of_steps);
        Spread::new(chosen.map(Span::duration))
    }

    /// How long it took in each stop until all threads had stopped.
    pub fn stopping(&self) -> Spread {
        let stops = self.spans.iter().filter(|span| !span.is_step);
        Spread::new(stops.map(|span| span.stopping))
    }

    /// Cycles of marking in steps, in the order of time.
    pub fn cycles(&self) -> &[Cycle] {
        self.cycles.all()
    }

    /// What was done in idle time, in the order of the log.
    pub fn idle(&self) -> &[IdleAction] {
        &self.idle
    }

    /// Stops that had a goal, as far as the log tells it.
    pub fn goals(&self) -> &Goals {
        &self.goals
    }

    /// What to say of goals that were missed, a line for each.
    pub fn missed(&self) -> String {
        let (lost, lost_ns) = self.cycles.lost();
        let steps = Steps {
            cycles: self.cycles().len() as u64,
            steps: self.steps,
            lost,
            lost_ns,
        };
        let mut text = String::new();
        // A string takes all that is written to it.
        let _ = goals::write_sentences(&mut text, &self.goals, &steps);
        text
    }

    /// How stops and steps lie in time.
    pub fn utilisation(&self) -> Utilisation {
        Utilisation::new(self.spans.iter().map(|span| (span.start, span.end)))
    }

    /// What ran, if the log says it.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// What the process advised as it ended, a line for each piece; nothing of one that did not exit in order.
    pub fn advice(&self) -> &str {
        &self.advice
    }

    /// How many snapshots were written in stops, and the nanoseconds that it took, which are no part of any other number.
    pub fn snapshots(&self) -> (u64, u64) {
        (self.snapshots, self.snapshots_ns)
    }

    /// What each phase took, by its name.
    pub fn phases(&self) -> impl Iterator<Item = (&str, &PhaseTotal)> {
        self.phases.iter().map(|(name, total)| (&**name, total))
    }

    /// What was decided how often: the name of the event, the reason, the numbers.
    pub fn decisions(&self) -> impl Iterator<Item = (&str, &str, &Decision)> {
        self.decisions
            .iter()
            .map(|((name, reason), found)| (&**name, &**reason, found))
    }

    /// Each collection that began or ended: its number, its reason if the log has one, and itself.
    pub fn collections(&self) -> impl Iterator<Item = (u64, Option<&str>, &Collection)> {
        self.collections.iter().map(|(number, found)| {
            let reason = found.reason.map(|index| &*self.reasons[index]);
            (*number, reason, found)
        })
    }

    /// Steps of marking, and those among them that took more than one and a half times what they were given although their
    /// thread had the processor.
    pub fn steps(&self) -> (u64, u64) {
        (self.steps, self.long_steps)
    }

    /// Which of the heaps of its process it is, from 1: a heap that is built into the program. 0 for the one that a process has
    /// behind `libgc.so.1`.
    pub fn heap(&self) -> u64 {
        self.heap
    }

    /// Bytes allocated in all, as the process said when it ended. One that did not end in order does not say it, nor
    /// does the precise heap.
    pub fn allocated(&self) -> Option<u64> {
        self.allocated
    }

    /// First and last nanosecond of what the log tells of it.
    pub fn time(&self) -> (u64, u64) {
        self.time.unwrap_or((0, 0))
    }

    /// Moments, and the bytes that lived then: at the end of each collection.
    pub fn live(&self) -> &[(u64, u64)] {
        &self.live
    }

    /// Moments, and the bytes of the heap from then on. Empty if the log does not tell how large it was: then there are no
    /// more than differences.
    pub fn capacity(&self) -> &[(u64, u64)] {
        if self.is_capacity_known {
            &self.capacity
        } else {
            &[]
        }
    }

    /// Whether objects may be moved, as in the precise heap, where the size that is logged is that of the young generation.
    pub fn moves(&self) -> bool {
        self.moves
    }
}

fn head_of(event: &Event<'_>) -> Head {
    Head {
        command: event.command.to_string(),
        options: event.reason.to_string(),
        version: event.version.to_string(),
        system: event.system.to_string(),
        processors: event.processors,
        memory: event.memory_bytes,
        forked_after: (event.name == "fork").then_some(event.collection),
    }
}

/// What stands under a key, or under `others` if there are too many.
fn entry_of<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, others: K) -> &mut V {
    let is_full = map.len() >= MOST_NAMES && !map.contains_key(&key);
    map.entry(if is_full { others } else { key }).or_default()
}

/// The place of a reason in the list, to which it is added.
fn index_of(reasons: &mut Vec<String>, reason: &str) -> usize {
    let is_full = reasons.len() >= MOST_NAMES;
    if let Some(index) = reasons.iter().position(|known| known == reason) {
        return index;
    }
    if is_full && reasons[reasons.len() - 1] == OTHERS {
        return reasons.len() - 1;
    }
    reasons.push(if is_full { OTHERS } else { reason }.to_string());
    reasons.len() - 1
}

#[cfg(test)]
mod tests;
