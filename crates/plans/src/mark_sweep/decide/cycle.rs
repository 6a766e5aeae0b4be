//! Incremental marking: whether a collection of everything is stretched over a cycle of steps, how fast the steps follow
//! each other, and when the cycle must end (ISMM 2000, section 6, *incremental*).
//!
//! A cycle begins in a stop: what was written is asked, marks are cleared, and what roots refer to becomes grey. Steps inside
//! allocation calls scan what is grey, while the program goes on. When nothing is grey, pages that were written meanwhile
//! are looked at once more beside the program, until few are left; a last stop does what a collection of new objects
//! does. The heap grows while a cycle is under way, since nothing is swept: by [`ALLOWANCE`] of what a program allocates
//! between two collections, in which the steps are to get through.

/// The share of the interval between two collections that is allocated while a cycle is under way.
pub const ALLOWANCE: usize = 3;
/// A cycle that is not marked when this many times its allowance was allocated ends in a stop.
const PATIENCE: usize = 3;
/// A step takes this share of the time limit, as long as that is not too short for a step: calling helpers takes time.
const STEPS_IN_LIMIT: u64 = 16;
const SHORTEST_STEP_NS: u64 = 250_000;
/// Pages that are left to the last stop.
const FEW_PAGES: usize = 64;
/// Rounds in which written pages are looked at beside the program.
const MOST_ROUNDS: u32 = 4;
/// Nanoseconds that marking a byte takes, until it was measured.
const USUAL_RATE: f64 = 1.0;

/// What is known when a collection of everything begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Nanoseconds that the program may be stopped for; `None` for no limit (`GC_TIME_UNLIMITED`).
    pub limit_ns: Option<u64>,
    /// Bytes that are expected to be scanned.
    pub expected: usize,
    /// Bytes that the last marking scanned, and how long it took; 0 if there was none.
    pub scanned: usize,
    /// See `scanned`.
    pub took_ns: u64,
    /// Whether marking may begin here and end later.
    pub possible: bool,
    /// Whether the program asked for steps (`GC_start_incremental_collection`).
    pub steps_asked: bool,
}

/// How a collection of everything is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marking {
    /// In the stop, however long that takes.
    InStop,
    /// In the stop, as long as this many nanoseconds are enough; else the rest is marked in steps.
    For(u64),
}

/// Decides how a collection of everything is marked.
pub fn begin(m: &Measurements) -> Marking {
    let Some(limit) = m.limit_ns.filter(|_| m.possible) else {
        return Marking::InStop;
    };
    let rate = if m.scanned == 0 {
        USUAL_RATE
    } else {
        m.took_ns as f64 / m.scanned as f64
    };
    let expected = (m.expected as f64 * rate) as u64;
    // Nothing is lost where the limit is reached, since steps go on with the rest; but the stop was as long as the limit.
    Marking::For(if m.steps_asked || expected > limit {
        0
    } else {
        limit
    })
}

/// How a cycle stands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    /// Bytes that are expected to be scanned in all.
    pub expected: usize,
    /// Bytes that steps have scanned.
    pub scanned: usize,
    /// Bytes that are to be allocated in the meantime.
    pub allowance: usize,
    /// Bytes that were allocated since the cycle began.
    pub allocated: usize,
}

/// Whether a step is due.
pub fn is_step_due(p: &Progress) -> bool {
    let done = p.scanned as f64 * p.allowance as f64;
    let due = p.expected as f64 * p.allocated as f64;
    done <= due
}

/// Whether the cycle has had its chance.
pub fn is_overdue(p: &Progress) -> bool {
    p.allocated >= p.allowance.saturating_mul(PATIENCE)
}

/// How long a step may take, in nanoseconds. A limit that is shorter than the shortest step is not kept, since nothing
/// would be marked.
pub fn step_ns(limit_ns: u64) -> u64 {
    (limit_ns / STEPS_IN_LIMIT).max(SHORTEST_STEP_NS)
}

/// Whether written pages are looked at again beside the program, after `rounds` such rounds, of which the last found
/// `pages`.
pub fn looks_again(rounds: u32, pages: usize) -> bool {
    rounds == 0 || rounds < MOST_ROUNDS && pages > FEW_PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_into_the_limit_is_marked_in_the_stop() {
        let m = Measurements {
            limit_ns: Some(10_000_000),
            expected: 4 << 20,
            possible: true,
            ..Measurements::default()
        };
        assert_eq!(begin(&m), Marking::For(10_000_000));
        let large = Measurements {
            expected: 40 << 20,
            ..m
        };
        assert_eq!(begin(&large), Marking::For(0));
        let fast = Measurements {
            scanned: 100 << 20,
            took_ns: 10_000_000,
            ..large
        };
        assert_eq!(begin(&fast), Marking::For(10_000_000));
        for stopped in [
            Measurements {
                possible: false,
                ..large
            },
            Measurements {
                limit_ns: None,
                ..large
            },
        ] {
            assert_eq!(begin(&stopped), Marking::InStop);
        }
    }

    #[test]
    fn steps_keep_pace_with_allocation() {
        let progress = |scanned, allocated| Progress {
            expected: 1000,
            allowance: 100,
            scanned,
            allocated,
        };
        assert!(is_step_due(&progress(0, 0)));
        assert!(!is_step_due(&progress(101, 10)));
        assert!(is_step_due(&progress(100, 10)));
        // What lives is more than was expected: the pace stays.
        assert!(is_step_due(&progress(1000, 150)));
        assert!(!is_overdue(&progress(0, 299)) && is_overdue(&progress(5000, 300)));
        let huge = Progress {
            expected: usize::MAX,
            scanned: usize::MAX,
            allowance: usize::MAX,
            allocated: 1,
        };
        assert!(!is_step_due(&huge) && !is_overdue(&huge));
    }

    #[test]
    fn a_step_is_a_part_of_the_limit_and_never_too_short_for_work() {
        assert_eq!(step_ns(50_000_000), 3_125_000);
        assert_eq!(step_ns(1_000_000), SHORTEST_STEP_NS);
        assert_eq!(step_ns(0), SHORTEST_STEP_NS);
    }

    #[test]
    fn written_pages_are_looked_at_until_few_are_left() {
        assert!(looks_again(0, 0));
        assert!(!looks_again(1, FEW_PAGES) && looks_again(1, FEW_PAGES + 1));
        assert!(!looks_again(MOST_ROUNDS, usize::MAX));
    }
}
