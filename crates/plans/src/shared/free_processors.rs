//! How many processors a collection could have: those that were idle lately, and those that this process used itself,
//! whose mutators stand still meanwhile.
//!
//! The kernel counts idle time in hundredths of seconds, so it is asked a few times a second at most. Under the lock of
//! the heap that it belongs to.

use gleaner_os::{clock, contention};

/// The least time between two looks, in nanoseconds.
const LOOK: u64 = 250_000_000;

/// What was seen when it was looked last.
#[derive(Clone, Debug, Default)]
pub struct FreeProcessors {
    /// When; 0 for never.
    at_ns: u64,
    /// Of all processors of the machine together.
    idle_ns: u64,
    /// What this process had used.
    own_ns: u64,
    /// How many there were between the last two looks.
    found: Option<usize>,
    /// What a helper beside the program has used since: without it, the processor would have been idle.
    beside_ns: u64,
    /// Whether half a processor or more was idle between the last two looks.
    is_any_idle: Option<bool>,
}

impl FreeProcessors {
    /// A process that has not begun. Whether somebody will look is known here: what is looked at is opened now, for a
    /// program may not open files later.
    pub fn new(is_asked: bool) -> FreeProcessors {
        if is_asked {
            contention::watch_idle();
        }
        FreeProcessors::default()
    }

    /// Looks if that is due.
    pub fn look(&mut self) {
        let now_ns = clock::monotonic_ns();
        if self.at_ns > 0 && now_ns - self.at_ns < LOOK {
            return;
        }
        match contention::idle_ns() {
            Some(idle_ns) => self.compare(now_ns, idle_ns, clock::process_cpu_ns()),
            None => (self.at_ns, self.found, self.is_any_idle) = (now_ns, None, None),
        }
    }

    /// Of `processors`, those that were free when it was looked last; at least one, and all as long as nobody knows.
    pub fn among(&self, processors: usize) -> usize {
        self.found.unwrap_or(processors).clamp(1, processors.max(1))
    }

    /// A thread of the collector's that works where a processor is idle has used one for so long.
    pub fn note_beside(&mut self, nanoseconds: u64) {
        self.beside_ns += nanoseconds;
    }

    /// Whether a processor was idle when it was looked last, but for those that work where one is; true as long as nobody knows.
    pub fn is_any_idle(&self) -> bool {
        self.is_any_idle.unwrap_or(true)
    }

    fn compare(&mut self, now_ns: u64, idle_ns: u64, own_ns: u64) {
        let passed = now_ns.saturating_sub(self.at_ns);
        // A forked child has used less than its parent.
        if self.at_ns > 0 && passed > 0 && own_ns >= self.own_ns {
            let free = idle_ns.saturating_sub(self.idle_ns) + own_ns.saturating_sub(self.own_ns);
            self.found = Some(((free + passed / 2) / passed) as usize);
            let idle = idle_ns.saturating_sub(self.idle_ns) + self.beside_ns;
            self.is_any_idle = Some(idle >= passed / 2);
        }
        self.beside_ns = 0;
        (self.at_ns, self.idle_ns, self.own_ns) = (now_ns, idle_ns, own_ns);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_idle_and_what_is_ours_is_free() {
        let mut free = FreeProcessors::new(true);
        free.compare(SECOND, 0, 0);
        assert_eq!(free.found, None);
        // Of four, one is ours and two are idle.
        free.compare(2 * SECOND, 2 * SECOND, SECOND);
        assert_eq!(free.found, Some(3));
        // Others take half of one, and we the other three and a half.
        free.compare(3 * SECOND, 2 * SECOND, SECOND + 3_500_000_000);
        assert_eq!(free.found, Some(4));
        // Others take all.
        free.compare(4 * SECOND, 2 * SECOND, SECOND + 3_500_000_000);
        assert_eq!(free.found, Some(0));
        // In a child that was forked then, which has used next to nothing.
        free.compare(5 * SECOND, 3 * SECOND, 1000);
        assert_eq!(free.found, Some(0), "nothing is learned of that");
        free.compare(6 * SECOND, 3 * SECOND, 1000 + 2 * SECOND);
        assert_eq!(free.found, Some(2));
        // Rounded to the nearest: 1.4 and 1.6 of them.
        free.compare(7 * SECOND, 4_400_000_000, 1000 + 2 * SECOND);
        assert_eq!(free.found, Some(1));
        free.compare(8 * SECOND, 6 * SECOND, 1000 + 2 * SECOND);
        assert_eq!(free.found, Some(2));
    }

    #[test]
    fn it_is_looked_now_and_then_alone() {
        let mut free = FreeProcessors::new(true);
        free.look();
        let first = free.at_ns;
        assert!(first > 0);
        free.look();
        assert_eq!(free.at_ns, first, "a second look at once");
        free.at_ns -= LOOK;
        free.look();
        assert!(free.at_ns >= first, "a second look a while later");
    }

    #[test]
    fn a_processor_that_only_a_helper_uses_counts_as_idle() {
        let mut free = FreeProcessors::new(true);
        assert!(free.is_any_idle(), "nothing is known at first");
        free.compare(SECOND, 0, 0);
        assert!(free.is_any_idle());
        // The program has one of two, a helper the other one.
        free.note_beside(SECOND);
        free.compare(2 * SECOND, 0, 2 * SECOND);
        assert!(free.is_any_idle());
        // The program has both.
        free.compare(3 * SECOND, 0, 4 * SECOND);
        assert!(!free.is_any_idle());
        // Half of one is left.
        free.compare(4 * SECOND, SECOND / 2, 4 * SECOND + 3 * SECOND / 2);
        assert!(free.is_any_idle());
        free.note_beside(SECOND / 4);
        free.compare(5 * SECOND, SECOND / 2 + SECOND / 8, 7 * SECOND);
        assert!(!free.is_any_idle());
    }

    #[test]
    fn there_is_always_one_and_never_more_than_may_be_used() {
        let mut free = FreeProcessors::new(true);
        assert_eq!(free.among(8), 8, "nothing is known at first");
        free.found = Some(0);
        assert_eq!(free.among(8), 1);
        free.found = Some(64);
        assert_eq!(free.among(8), 8);
        assert_eq!(free.among(0), 1);
    }
}
