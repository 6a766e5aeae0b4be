//! Under `generations=auto`: whether it pays to know what is written, so that collections can keep marks.
//!
//! It pays where much lives from one collection to the next: then a collection of new objects takes a fraction of the
//! time of one of everything. It costs a fault for each page that the program writes for the first time after a
//! collection. So the watch is tried where collections of everything take a good part of the time and what lives has
//! not grown much since the one before. It is given up where collections of new objects, faults included, do not take
//! clearly less. Each trial that failed makes the next wait twice as long.

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
    /// Live bytes with pointers.
    pub composite: usize,
    /// By how many bytes that has grown since the collection before.
    pub grown: usize,
    /// Bytes of roots, which are scanned in any case.
    pub roots: usize,
    /// Collections that are still to pass before another trial.
    pub wait: u32,
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
/// collections of new objects have as much to mark as those of everything.
const GROWING: usize = 4;
/// Collections by which a trial is judged.
const TRIAL: u32 = 4;
/// A trial has failed when this many collections were of everything, and fewer than [`TRIAL`] of new objects.
const MOST_OF_EVERYTHING: u32 = 6;
/// Collections after the first trial that failed before the next.
pub const FIRST_WAIT: u32 = 16;
/// After many of them.
const LONGEST_WAIT: u32 = 1024;

/// Decides whether writes are watched.
pub fn decide(m: &Measurements) -> Decision {
    if !m.watching {
        let large = m.composite >= LEAST_COMPOSITE && m.composite > m.roots.saturating_mul(2);
        let costly = m.everything_ns.saturating_mul(LEAST_SHARE) >= m.elapsed_ns;
        let settled = m.grown <= m.composite / GROWING;
        return if m.wait == 0 && large && costly && settled && m.everything > 0 {
            Decision::Watch("collections of everything take a twentieth of the time or more")
        } else {
            Decision::Stay
        };
    }
    let average = |ns: u64, count: u32| ns as f64 / f64::from(count.max(1));
    let kept = average(m.kept_ns, m.kept);
    let everything = average(m.everything_ns, m.everything);
    match () {
        () if m.kept < TRIAL && m.everything >= MOST_OF_EVERYTHING => {
            Decision::Stop("marks could hardly ever be kept")
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
            grown: 5 << 20,
            roots: 1 << 20,
            ..Measurements::default()
        }
    }

    #[test]
    fn watches_where_much_lives_and_collections_cost() {
        assert!(matches!(decide(&costly()), Decision::Watch(_)));
        let changes: [fn(&mut Measurements); 6] = [
            |m| m.grown = (5 << 20) + 1,
            |m| m.everything_ns = 4_000_000,
            |m| m.composite = LEAST_COMPOSITE - 1,
            |m| m.roots = 10 << 20,
            |m| m.wait = 1,
            |m| m.everything = 0,
        ];
        for change in changes {
            let mut m = costly();
            change(&mut m);
            assert_eq!(decide(&m), Decision::Stay, "{m:?}");
        }
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
        // Too few to judge by.
        let early = Measurements {
            kept: TRIAL - 1,
            ..slow
        };
        assert_eq!(decide(&early), Decision::Stay);
        let never = Measurements {
            kept: 0,
            kept_ns: 0,
            everything: MOST_OF_EVERYTHING,
            ..watching
        };
        assert!(matches!(decide(&never), Decision::Stop(_)));
    }

    #[test]
    fn waits_longer_after_each_trial_that_failed() {
        assert_eq!(wait_after(0), FIRST_WAIT);
        assert_eq!(wait_after(FIRST_WAIT), 32);
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
