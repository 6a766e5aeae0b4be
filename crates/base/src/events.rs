//! Events: what the collector did, one record per phase, for the log, the statistics and crash reports.
//!
//! The parts: [`Phase`] names what happened, in the order of a collection; [`Event`] is one record; [`Ring`] keeps the
//! last ones for a crash report; [`LineBuffer`] and [`Event::write_line`] turn a record into a line of JSON without
//! allocating. Nothing here does I/O: the caller gives the bytes to the port layer.

mod line;
pub mod reasons;
mod ring;

use core::fmt;

pub use line::{LineBuffer, write_json_string};
pub use ring::Ring;

/// Declares the phases once: variant, text, documentation.
macro_rules! phases {
    ($( $(#[$doc:meta])* $variant:ident = $text:literal, )+) => {
        /// What an event is about. The phases of a collection come first, in execution order; then what happens
        /// outside of one.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Phase { $( $(#[$doc])* $variant, )+ }

        impl Phase {
            /// Every phase, in order.
            pub const ALL: &'static [Phase] = &[ $( Phase::$variant, )+ ];

            /// The name that logs use.
            pub const fn as_str(self) -> &'static str {
                match self { $( Phase::$variant => $text, )+ }
            }

            /// The phase of that name in logs.
            pub fn named(name: &str) -> Option<Phase> {
                match name {
                    $( $text => Some(Phase::$variant), )+
                    _ => None,
                }
            }
        }
    };
}

phases! {
    /// A collection was decided on; the reason says why, the bytes were allocated since the collection before.
    Start = "start",
    /// The list of loaded libraries was read, while every thread could still run; the objects are data segments.
    Libraries = "libraries",
    /// All threads were asked to stop, and did.
    StopWorld = "stop-world",
    /// Under sticky marks it was decided what to collect, as the reason says, and the kernel was asked which pages were
    /// written since the collection before: the objects are pages.
    Written = "written",
    /// Another prefetching marks from now on, under prefetch=auto: the reason says which, and why.
    Prefetch = "prefetch",
    /// The marks of the collection before were removed, or kept.
    ClearMarks = "clear-marks",
    /// Registers, stacks, static data and registered roots were searched; and old objects that were written, where marks
    /// are kept.
    Roots = "roots",
    /// With old=mark-region, it was decided which blocks are evacuated while everything is marked, as the reason says; the
    /// objects are blocks, the bytes are room for copies.
    Evacuation = "evacuation",
    /// Everything reachable was marked; with old=mark-region, the bytes are those that were evacuated.
    Mark = "mark",
    /// What lives in the young generation was copied; bytes and objects are those copied.
    Copy = "copy",
    /// Where each live object goes was decided.
    Plan = "plan",
    /// Every reference was replaced by that to the new place.
    Update = "update",
    /// The live objects were moved to their new places; the objects are pieces of 64 KB whose memory went back meanwhile.
    Slide = "slide",
    /// A part was marked in a step beside the program; `objects` has the nanoseconds that it was given.
    MarkStep = "mark-step",
    /// What a helper marked beside the program since the last stop, in as many turns as objects: the duration is that of all
    /// turns, the reason is why it stayed away from some.
    MarkBeside = "mark-beside",
    /// The mark stacks had been full: the heap was re-scanned from the marks.
    Overflow = "overflow",
    /// Weak links were cleared and finalizable objects found.
    Weak = "weak",
    /// A cycle of marking in steps began; the bytes may be allocated until it ends, the objects are the bytes that could be
    /// allocated until a collection in a stop would have begun.
    Pace = "pace",
    /// A cycle of marking in steps is over, as the reason says; its time, the bytes that were allocated meanwhile, the objects
    /// are its steps.
    CycleEnd = "cycle-end",
    /// The verifier ran.
    Verify = "verify",
    /// A snapshot of the heap was written.
    Snapshot = "snapshot",
    /// Empty blocks were freed and the others queued for sweeping.
    Reclaim = "reclaim",
    /// Blocks with dead cells were swept: here under eager sweeping; under lazy sweeping the sum since the
    /// collection before, recorded at the start of this one.
    Sweep = "sweep",
    /// The size of the heap was decided; the objects are pages that were given back to be placed on other nodes.
    Resize = "resize",
    /// Memory went to the fragments of the nodes that lacked it; the bytes are those that threads had found elsewhere.
    Balance = "balance",
    /// How many bytes outside of the heap its objects hold, as the program has told.
    External = "external",
    /// How fresh memory is zeroed was decided, as the reason says; duration and bytes are what mutators took to zero
    /// blocks since the collection before, and how much they zeroed.
    Zeroing = "zeroing",
    /// What zeroing threads did since the collection before: how long they zeroed, and how much.
    ZeroingAhead = "zeroing-ahead",
    /// How long mutators waited for zeroing threads since the collection before; the objects are how often.
    ZeroingStalls = "zeroing-stalls",
    /// How it is found out which pages were written; the duration is what the first write to such a page takes. In the
    /// first collection.
    WriteWatch = "write-watch",
    /// What zeroes blocks of memory, and why that; in the first collection.
    ZeroingKernel = "zeroing-kernel",
    /// The threads run again.
    ResumeWorld = "resume-world",
    /// The collection is over; time, bytes and objects are those of all of it.
    End = "end",
    /// The heap took memory from the system.
    HeapGrow = "heap-grow",
    /// The heap gave memory back to the system.
    HeapShrink = "heap-shrink",
    /// Unused memory went back to the system in idle time, without a stop: bytes of it, in as many pieces as objects; the
    /// duration is that of all pieces together. The heap may hold as much as before.
    GiveBack = "give-back",
    /// A stop had waited as long as option `stop-warning` says; the objects are the mutators that had not stopped, the
    /// reason is where the first of them was last seen. The stop goes on.
    SlowStop = "slow-stop",
    /// An allocation failed for good.
    OutOfMemory = "out-of-memory",
    /// The process was forked after that collection of its parents, whose numbers it goes on from; the line has what that of
    /// `Options` has.
    Fork = "fork",
    /// The heap started with these options; the line has the command, the version and the machine, too.
    Options = "options",
    /// The process ends in order; the bytes are all that it allocated, the reason is what is advised for the next time.
    Exit = "exit",
}

impl Phase {
    /// True for a phase of a collection, false for an event outside of one.
    pub const fn is_of_collection(self) -> bool {
        self as u8 <= Phase::End as u8
    }
}

/// One thing that happened. What `bytes` and `objects` count is said at the phase; 0 when there is nothing to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What happened.
    pub phase: Phase,
    /// The number of the heap among those of its process, from 1; 0 where the process has one heap of this kind.
    pub heap: u32,
    /// The number of the collection, from 1; outside of one, that of the last.
    pub collection: u64,
    /// When it began, in nanoseconds of the monotonic clock.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Bytes concerned.
    pub bytes: u64,
    /// Objects concerned.
    pub objects: u64,
    /// Workers that took part.
    pub workers: u32,
    /// Nanoseconds of the duration for which the thread did not have the processor, where that was measured: in steps.
    pub lost_ns: u64,
    /// Nanoseconds that the stop that began here may take by the time limit, where marking could be put off; else 0.
    pub goal_ns: u64,
    /// The system's number of the thread that waited for a step; 0 elsewhere.
    pub thread: u32,
    /// Why it happened, or what was decided.
    pub reason: &'static str,
}

impl Event {
    /// An event with that phase and collection number, all else 0 or empty.
    pub const fn new(phase: Phase, collection: u64) -> Event {
        Event {
            phase,
            heap: 0,
            collection,
            start_ns: 0,
            duration_ns: 0,
            bytes: 0,
            objects: 0,
            workers: 0,
            lost_ns: 0,
            goal_ns: 0,
            thread: 0,
            reason: "",
        }
    }

    /// Writes the event as one line of JSON with its newline.
    pub fn write_json(&self, out: &mut dyn fmt::Write, pid: u32) -> fmt::Result {
        self.write_json_with(out, pid, self.reason)
    }

    /// Writes the event as one line of JSON into `buffer` and returns it. A line is always complete JSON: when it does
    /// not fit, it goes without its reason, and the bytes are empty when even that does not fit.
    pub fn write_line<'a, const N: usize>(
        &self,
        pid: u32,
        buffer: &'a mut LineBuffer<N>,
    ) -> &'a [u8] {
        for reason in [self.reason, ""] {
            buffer.clear();
            if self.write_json_with(buffer, pid, reason).is_ok() && !buffer.is_truncated() {
                return buffer.as_bytes();
            }
        }
        buffer.clear();
        buffer.as_bytes()
    }

    fn write_json_with(&self, out: &mut dyn fmt::Write, pid: u32, reason: &str) -> fmt::Result {
        write!(out, "{{\"event\":\"{}\",\"pid\":{pid}", self.phase.as_str())?;
        if self.heap > 0 {
            write!(out, ",\"heap\":{}", self.heap)?;
        }
        for (name, value) in [
            ("collection", self.collection),
            ("start_ns", self.start_ns),
            ("duration_ns", self.duration_ns),
            ("bytes", self.bytes),
            ("objects", self.objects),
            ("workers", u64::from(self.workers)),
        ] {
            write!(out, ",\"{name}\":{value}")?;
        }
        for (name, value) in [
            ("lost_ns", self.lost_ns),
            ("goal_ns", self.goal_ns),
            ("thread", u64::from(self.thread)),
        ] {
            if value > 0 {
                write!(out, ",\"{name}\":{value}")?;
            }
        }
        out.write_str(",\"reason\":")?;
        write_json_string(out, reason)?;
        out.write_str("}\n")
    }
}

/// The form of crash reports: one line to read.
impl fmt::Display for Event {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "collection {} {} at {} ns for {} ns: {} bytes, {} objects, {} workers",
            self.collection,
            self.phase.as_str(),
            self.start_ns,
            self.duration_ns,
            self.bytes,
            self.objects,
            self.workers
        )?;
        if !self.reason.is_empty() {
            write!(out, " ({})", self.reason)?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn event(reason: &'static str) -> Event {
        Event {
            start_ns: 17,
            duration_ns: 4,
            bytes: u64::MAX,
            objects: 3,
            workers: 2,
            reason,
            ..Event::new(Phase::Mark, 12)
        }
    }

    #[test]
    fn an_event_is_one_line_of_json() {
        let mut buffer = LineBuffer::<512>::new();
        let line = event("heap \"full\"\n").write_line(99, &mut buffer);
        assert_eq!(
            core::str::from_utf8(line).unwrap(),
            "{\"event\":\"mark\",\"pid\":99,\"collection\":12,\"start_ns\":17,\"duration_ns\":4,\
             \"bytes\":18446744073709551615,\"objects\":3,\"workers\":2,\
             \"reason\":\"heap \\\"full\\\"\\u000a\"}\n"
        );
    }

    #[test]
    fn a_step_says_for_how_long_it_was_without_the_processor() {
        let mut buffer = LineBuffer::<512>::new();
        let lost = Event {
            lost_ns: 3,
            ..event("")
        };
        let line = core::str::from_utf8(lost.write_line(9, &mut buffer)).unwrap();
        assert!(
            line.ends_with("\"workers\":2,\"lost_ns\":3,\"reason\":\"\"}\n"),
            "{line}"
        );
    }

    #[test]
    fn a_stop_has_its_goal_and_a_step_its_thread() {
        let mut buffer = LineBuffer::<512>::new();
        let both = Event {
            goal_ns: 5,
            thread: 8,
            ..event("")
        };
        let line = core::str::from_utf8(both.write_line(9, &mut buffer)).unwrap();
        assert!(
            line.ends_with("\"workers\":2,\"goal_ns\":5,\"thread\":8,\"reason\":\"\"}\n"),
            "{line}"
        );
    }

    #[test]
    fn a_line_that_does_not_fit_goes_without_its_reason() {
        let mut buffer = LineBuffer::<160>::new();
        let line = event("a reason so long that it cannot fit here").write_line(9, &mut buffer);
        assert!(line.ends_with(b"\"reason\":\"\"}\n"), "{line:?}");
        let mut small = LineBuffer::<50>::new();
        assert!(event("").write_line(9, &mut small).is_empty());
    }

    #[test]
    fn the_longest_numbers_fit_the_usual_buffer() {
        let mut longest = event("");
        longest.phase = Phase::OutOfMemory;
        longest.heap = u32::MAX;
        longest.collection = u64::MAX;
        longest.start_ns = u64::MAX;
        longest.duration_ns = u64::MAX;
        longest.objects = u64::MAX;
        longest.workers = u32::MAX;
        longest.lost_ns = u64::MAX;
        longest.goal_ns = u64::MAX;
        longest.thread = u32::MAX;
        let mut buffer = LineBuffer::<384>::new();
        assert!(!longest.write_line(u32::MAX, &mut buffer).is_empty());
    }

    #[test]
    fn phases_are_in_order_and_named_apart() {
        for (index, phase) in Phase::ALL.iter().enumerate() {
            assert_eq!(*phase as usize, index);
            assert_eq!(phase.is_of_collection(), index <= Phase::End as usize);
            let earlier = &Phase::ALL[..index];
            assert!(earlier.iter().all(|other| other.as_str() != phase.as_str()));
            assert_eq!(Phase::named(phase.as_str()), Some(*phase));
        }
        assert_eq!(Phase::ALL.len(), 41);
        assert_eq!(Phase::named("compact"), None);
    }

    #[test]
    fn display_is_one_line_to_read() {
        assert_eq!(
            Event::new(Phase::Start, 1).to_string(),
            "collection 1 start at 0 ns for 0 ns: 0 bytes, 0 objects, 0 workers"
        );
        assert!(event("why").to_string().ends_with("(why)"));
    }
}
