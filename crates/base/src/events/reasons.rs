//! Reasons of events by which readers of logs tell what happened; what is written elsewhere is text alone.

/// Of a step that took too long because its thread lost the processor.
pub const PROCESSOR_LOST: &str = "the processor was lost meanwhile";

/// Of a step in which nothing is marked: it asks the kernel which pages were written.
pub const ASKED_AHEAD: &str = "the kernel is asked ahead of a stop which pages were written";

/// Of a cycle's plan: why it begins.
pub const IN_TIME: &str = "so that marking in steps ends before memory is used up";
/// Of the plan of a cycle that begins too late for that, since it was asked for, or was not foreseen.
pub const LATE: &str = "memory is used up before marking in steps ends";

/// Of the end of a cycle whose steps have marked everything that the last stop does not find by itself.
pub const MARKED: &str = "everything was marked in steps";
/// Of the end of a cycle that has used up its memory: the rest was marked in its last stop.
pub const OVERTAKEN: &str = "memory was used up before everything was marked";
/// Of the end of a cycle whose marks are dropped, since the program has switched collections off.
pub const DISABLED: &str = "given up: collections are disabled";
/// Of the end of a cycle in a child of a fork that came in the middle of a helper's turn.
pub const CUT_OFF: &str = "given up: the process was forked while the helper marked";
/// Of the end of a cycle whose last stop was given up, by the client or since stacks were hidden.
pub const ABANDONED: &str = "given up: its last stop was";

/// Of the end of a collection that was given up since a thread did not stop in time.
pub const UNANSWERED: &str = "given up: a thread did not stop";
/// Of the end of a collection that was given up in its stop: the client wanted it to end, or stacks were hidden.
pub const NOTHING_FREED: &str = "given up: nothing was freed";

/// Of what is done since a thread that watches has seen no allocation.
pub const NOTHING_ALLOCATED: &str = "nothing was allocated for a while";
/// Of a collection by the first call after a time without any.
pub const HAD_BEEN_IDLE: &str = "nothing had been allocated for a while";
/// Of what is done since calls that allocate have become rare.
pub const LITTLE_ALLOCATED: &str = "little is allocated any more";

/// Collections that the program asks for, or its user, and that are finished in one stop whatever the time limit is.
const ASKED: [&str; 5] = [
    "GC_gcollect",
    "GC_gcollect_and_unmap",
    "GC_try_to_collect",
    "SIGUSR2",
    "exit",
];

/// Whether a collection of that reason was asked for in words, to be finished in one stop.
pub fn is_asked(reason: &str) -> bool {
    ASKED.contains(&reason)
}

/// Whether the end of a collection with that reason is that of one which was given up. The next collection has its number.
pub fn is_given_up(reason: &str) -> bool {
    [UNANSWERED, NOTHING_FREED].contains(&reason)
}

/// Whether a collection of that reason was made because the program was idle.
pub fn is_idle(reason: &str) -> bool {
    [NOTHING_ALLOCATED, HAD_BEEN_IDLE, LITTLE_ALLOCATED].contains(&reason)
}
