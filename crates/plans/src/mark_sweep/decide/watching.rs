//! Under `generations=auto`: whether it pays to know what is written, so that collections can keep marks.
//!
//! It pays where much lives from one collection to the next: then a collection of new objects takes a fraction of the
//! time of one of everything. It costs a fault for each page that the program writes for the first time after a
//! collection, and huge pages are broken up. So the watch is tried where some collections of everything, one after the other,
//! took a good part of the time, and what lives had hardly changed between them: a program that makes few collections, or is on
//! its way to another size, gains nothing. It is given up where collections of new objects, faults included, do not take
//! clearly less. Each trial that failed makes the next wait twice as long.
//!
//! Times are the processor's, of all threads of the process: others on the machine change nothing in them.

/// What is known when a collection has ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Whether writes are watched.
    pub watching: bool,
    /// Nanoseconds from the end of the collection before to the end of this one.
    pub elapsed_ns: u64,
    /// Nanoseconds of collections of everything since this was decided last, and how many there were.
    pub everything_ns: u64,
    /// See `everything_ns`.
    pub everything: u32,
    /// Nanoseconds of collections that kept marks since the watch began, faults included, and how many there were.
    pub kept_ns: u64,
    /// See `kept_ns`.
    pub kept: u32,
    /// Nanoseconds of faults of watched pages since the watch began, and between how many collections these were.
    pub faults_ns: u64,
    /// See `faults_ns`.
    pub intervals: u32,
    /// Live bytes with pointers.
    pub composite: usize,
    /// By how many bytes that has become more or less since the collection before.
    pub changed: usize,
    /// Bytes of roots, which are scanned in any case.
    pub roots: usize,
    /// Collections that are still to pass before another trial.
    pub wait: u32,
    /// How many collections, one after the other and this one the last, were [promising](is_promising).
    pub promising: u32,
    /// Whether leaks are looked for: then every collection is of everything.
    pub finds_leaks: bool,
    /// Whether this collection was of everything since [as much was written](is_in_vain) as lives.
    pub in_vain: bool,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// All stays as it is.
    Stay,
    /// Writes are watched from now on, and why.
    Watch(&'static str),
    /// Writes are watched no longer, and why.
    Stop(&'static str),
}

/// Below this much that lives and has pointers, collections are short.
const LEAST_COMPOSITE: usize = 4 << 20;
/// Collections of everything take at least this part of the time.
const LEAST_SHARE: u64 = 20;
/// Where what lives has grown by more than this part of it from one collection to the next, most of what is new lives, and
/// collections of new objects have as much to mark as those of everything. Where it has shrunk so, what is old dies.
const CHANGING: usize = 4;
/// Collections in a row that are to be promising before a trial.
const IN_A_ROW: u32 = 4;
/// Collections of new objects by which a trial is judged, and after which it is given up that takes longer than without.
const TRIAL: u32 = 4;
const SHORT_TRIAL: u32 = 1;
/// A trial has failed when this many collections were of everything, and fewer than [`TRIAL`] of new objects.
const MOST_OF_EVERYTHING: u32 = 6;
/// Collections after the first trial that failed before the next.
pub const FIRST_WAIT: u32 = 16;
/// After many of them.
const LONGEST_WAIT: u32 = 1024;

/// Whether a collection that ended without a watch speaks for one.
pub fn is_promising(m: &Measurements) -> bool {
    let large = m.composite >= LEAST_COMPOSITE && m.composite > m.roots.saturating_mul(2);
    let costly = m.everything_ns.saturating_mul(LEAST_SHARE) >= m.elapsed_ns;
    let settled = m.changed <= m.composite / CHANGING;
    !m.watching && large && costly && settled && m.everything > 0 && !m.finds_leaks
}

/// Whether a collection of new objects would scan as much as one of everything or more: `written` bytes of pages with old objects, and
/// what is new. That is known before it begins, and need not be tried.
pub fn is_in_vain(written: usize, composite: usize) -> bool {
    written >= composite
}

/// What is said of a collection of everything in place of such a one.
pub const IN_VAIN: &str = "everything: as much was written as lives";

/// Why pages are not watched before the first such decision.
pub const NOT_YET: &str = "collections of everything take too little time, or there were too few";

/// Decides whether writes are watched.
pub fn decide(m: &Measurements) -> Decision {
    if !m.watching {
        return if m.wait == 0 && m.promising >= IN_A_ROW {
            Decision::Watch("collections of everything take a twentieth of the time or more")
        } else {
            Decision::Stay
        };
    }
    let average = |ns: u64, count: u32| ns as f64 / f64::from(count.max(1));
    let kept = average(m.kept_ns, m.kept);
    let everything = average(m.everything_ns, m.everything);
    let faults = average(m.faults_ns, m.intervals);
    match () {
        () if m.finds_leaks => {
            Decision::Stop("leaks are looked for, so that everything is collected each time")
        }
        () if m.everything > 0 && faults > everything / 2.0 => {
            Decision::Stop("faults of watched pages take half as long as collections of everything")
        }
        () if m.in_vain && m.kept == 0 => {
            Decision::Stop("as much is written from one collection to the next as lives")
        }
        () if m.kept < TRIAL && m.everything >= MOST_OF_EVERYTHING => {
            Decision::Stop("marks could hardly ever be kept")
        }
        () if m.kept >= SHORT_TRIAL && m.everything > 0 && kept > everything => {
            Decision::Stop("collections of new objects take longer than those of everything")
        }
        () if m.kept >= TRIAL && m.everything > 0 && kept > everything * 0.75 => {
            Decision::Stop("collections of new objects take hardly less than those of everything")
        }
        () => Decision::Stay,
    }
}

/// How many collections pass before the next trial, after one that failed.
pub fn wait_after(before: u32) -> u32 {
    before.saturating_mul(2).clamp(FIRST_WAIT, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costly() -> Measurements {
        Measurements {
            elapsed_ns: 100_000_000,
            everything_ns: 8_000_000,
            everything: 1,
            composite: 20 << 20,
            changed: 5 << 20,
            roots: 1 << 20,
            ..Measurements::default()
        }
    }

    #[test]
    fn some_collections_in_a_row_speak_for_a_watch() {
        assert!(is_promising(&costly()));
        let changes: [fn(&mut Measurements); 7] = [
            |m| m.changed = (5 << 20) + 1,
            |m| m.everything_ns = 4_000_000,
            |m| m.composite = LEAST_COMPOSITE - 1,
            |m| m.roots = 10 << 20,
            |m| m.everything = 0,
            |m| m.watching = true,
            |m| m.finds_leaks = true,
        ];
        for change in changes {
            let mut m = costly();
            change(&mut m);
            assert!(!is_promising(&m), "{m:?}");
        }
        let after = |promising, wait| {
            decide(&Measurements {
                promising,
                wait,
                ..costly()
            })
        };
        assert!(matches!(after(IN_A_ROW, 0), Decision::Watch(_)));
        assert_eq!(after(IN_A_ROW - 1, 0), Decision::Stay);
        assert_eq!(after(IN_A_ROW, 1), Decision::Stay);
    }

    #[test]
    fn stops_where_it_does_not_pay() {
        let watching = Measurements {
            watching: true,
            everything: 1,
            everything_ns: 8_000_000,
            kept: TRIAL,
            kept_ns: u64::from(TRIAL) * 5_900_000,
            ..costly()
        };
        assert_eq!(decide(&watching), Decision::Stay);
        let slow = Measurements {
            kept_ns: u64::from(TRIAL) * 6_100_000,
            ..watching
        };
        assert!(matches!(decide(&slow), Decision::Stop(_)));
        // Too few to judge by, unless they are worse than none.
        let early = |each: u64| {
            decide(&Measurements {
                kept: SHORT_TRIAL,
                kept_ns: u64::from(SHORT_TRIAL) * each,
                ..slow
            })
        };
        assert_eq!(early(8_000_000), Decision::Stay);
        assert!(matches!(early(8_000_001), Decision::Stop(_)));
        let faults = |each: u64| {
            decide(&Measurements {
                kept: 0,
                kept_ns: 0,
                faults_ns: 2 * each,
                intervals: 2,
                ..watching
            })
        };
        assert_eq!(faults(4_000_000), Decision::Stay);
        assert!(matches!(faults(4_000_001), Decision::Stop(_)));
        let never = Measurements {
            kept: 0,
            kept_ns: 0,
            everything: MOST_OF_EVERYTHING,
            ..watching
        };
        assert!(matches!(decide(&never), Decision::Stop(_)));
        let in_vain = |kept| {
            decide(&Measurements {
                in_vain: true,
                kept,
                ..watching
            })
        };
        assert!(matches!(in_vain(0), Decision::Stop(_)));
        assert_eq!(in_vain(TRIAL), Decision::Stay, "that was once");
        let leaks = Measurements {
            finds_leaks: true,
            ..watching
        };
        assert!(matches!(decide(&leaks), Decision::Stop(_)));
    }

    #[test]
    fn waits_longer_after_each_trial_that_failed() {
        assert_eq!(wait_after(0), FIRST_WAIT);
        assert_eq!(wait_after(FIRST_WAIT), 32);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
