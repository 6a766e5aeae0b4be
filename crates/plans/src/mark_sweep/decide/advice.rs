//! What to tell the user of a program that has ended (`--stats`): whether a larger heap would have saved time, and how much.
//!
//! A collection that marks everything takes time for roots and for what lives, however much was allocated before it. So
//! in a heap that is larger from the start there are fewer of them, since between two of them the program allocates
//! what the heap has beside what lives. Each is as long as now in the mean, or as long as what lives then takes.
//! Sweeping stays as it is, since it goes with allocation.

use gleaner_base::options::MarkGenerations;

/// A stop from which steps are advised, where stops usually are as long as the other: one that is longer than all others
/// may have waited for a processor. In nanoseconds.
const LONG_STOP_NS: u64 = 100_000_000;
const USUAL_STOP_NS: u64 = 10_000_000;

/// Whether to advise marking in steps: after stops of `longest_ns` and, in the mean, `mean_ns` nanoseconds, where `others`
/// collections were not of everything or not in one stop. Not where the options have it already, and it is not possible.
pub fn advises_steps(longest_ns: u64, mean_ns: u64, others: u64, mode: MarkGenerations) -> bool {
    longest_ns >= LONG_STOP_NS
        && mean_ns >= USUAL_STOP_NS
        && others == 0
        && mode != MarkGenerations::Incremental
}

/// What is known when the program ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements {
    /// Nanoseconds since the heap started, and of them those in which the world was stopped.
    pub elapsed_ns: u64,
    /// See `elapsed_ns`.
    pub stopped_ns: u64,
    /// Collections, and how many of them were not of everything or not in one stop since the options or the program want it so.
    pub collections: u64,
    /// See `collections`.
    pub others: u64,
    /// Collections that the program asked for by name, which it does in any heap.
    pub asked: u64,
    /// Bytes that were allocated in sum.
    pub allocated: u64,
    /// Bytes that lived after each collection, in sum; and the same in the mean over what was allocated.
    pub live_sum: u64,
    /// See `live_sum`.
    pub live_mean: u64,
    /// The largest that the heap was, in bytes.
    pub peak: u64,
    /// What the heap may not exceed, in bytes: the option's limit, 0 for none, and half of what the machine or the control
    /// group has.
    pub limit: u64,
    /// See `limit`.
    pub available: u64,
}

/// What a larger heap would do.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Larger {
    /// Bytes that the heap would start with.
    pub heap: u64,
    /// Collections that there would be.
    pub collections: u64,
    /// Hundredths of all the time that it would save.
    pub saves: u64,
}

/// The advice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Advice {
    /// There is nothing to go by: hardly any collection, or such that say nothing of others.
    Unknown,
    /// Collections take so little of the time that nothing is to be gained.
    Enough,
    /// A larger heap.
    Larger(Larger),
    /// A larger heap would save time, but the limit of the options does not allow it.
    Limited(Larger),
    /// It would, but the machine or the control group does not have the memory.
    NoMemory,
}

/// Fewer collections than this are no basis.
const LEAST_COLLECTIONS: u64 = 4;
/// Hundredths of the time below which nothing is advised, for what collections take and for what could be saved.
const WORTH_SAVING: u64 = 5;
/// The largest heap that is advised, in heaps as it was.
const MOST_TIMES: u64 = 16;

/// Hundredths of the time in which the world was stopped.
pub fn share(m: &Measurements) -> u64 {
    (m.stopped_ns.saturating_mul(100))
        .checked_div(m.elapsed_ns)
        .unwrap_or(0)
        .min(100)
}

/// What a heap of `heap` bytes would do.
fn predict(m: &Measurements, heap: u64) -> Larger {
    let room = heap.saturating_sub(m.live_mean).max(1);
    let collections = m.allocated / room + m.asked;
    let by_number = m.stopped_ns as f64 / m.collections.max(1) as f64;
    let by_bytes = m.stopped_ns as f64 / m.live_sum.max(1) as f64 * m.live_mean as f64;
    let stopped = collections as f64 * by_number.max(by_bytes);
    let saved = (m.stopped_ns as f64 - stopped).max(0.0);
    Larger {
        heap,
        collections,
        saves: (saved * 100.0 / m.elapsed_ns.max(1) as f64) as u64,
    }
}

/// The advice: the smallest heap that saves two thirds of what can be saved, or the largest that there can be.
pub fn advise(m: &Measurements) -> Advice {
    if m.collections < LEAST_COLLECTIONS || m.others > 0 || m.asked > m.collections / 4 {
        return Advice::Unknown;
    }
    let share = share(m);
    if share < WORTH_SAVING {
        return Advice::Enough;
    }
    let rounded = |bytes: u64| bytes.next_multiple_of(1 << 20);
    let mut times = 2;
    let mut larger = predict(m, rounded(m.peak * times));
    while larger.saves * 3 < share * 2 && times < MOST_TIMES {
        times *= 2;
        larger = predict(m, rounded(m.peak * times));
    }
    if larger.heap > m.available {
        larger = predict(m, m.available >> 20 << 20);
        if larger.heap <= m.peak {
            return Advice::NoMemory;
        }
    }
    match () {
        () if larger.saves < WORTH_SAVING => Advice::Enough,
        () if m.limit != 0 && larger.heap > m.limit => Advice::Limited(larger),
        () => Advice::Larger(larger),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn steps_are_advised_after_long_stops_but_not_where_the_options_have_them() {
        let (long, usual) = (LONG_STOP_NS, USUAL_STOP_NS);
        let none = MarkGenerations::None;
        assert!(advises_steps(long, usual, 0, none));
        assert!(advises_steps(long, usual, 0, MarkGenerations::Sticky));
        assert!(!advises_steps(long - 1, usual, 0, none));
        assert!(!advises_steps(long, usual - 1, 0, none));
        assert!(!advises_steps(long, usual, 1, none));
        assert!(!advises_steps(long, usual, 0, MarkGenerations::Incremental));
    }

    /// Ten megabytes live in a heap of thirty: twenty are allocated between two collections.
    fn usual() -> Measurements {
        Measurements {
            elapsed_ns: 1_000_000_000,
            stopped_ns: 480_000_000,
            collections: 48,
            allocated: 960 * MIB,
            live_sum: 480 * MIB,
            live_mean: 10 * MIB,
            peak: 30 * MIB,
            available: 8 << 30,
            ..Measurements::default()
        }
    }

    #[test]
    fn a_heap_with_room_is_collected_less_often() {
        assert_eq!(share(&usual()), 48);
        // 60 MiB leave 50 to allocate: 19 collections. 120 MiB leave 110: 8, and 0.4 of the time is saved.
        let larger = Larger {
            heap: 120 * MIB,
            collections: 8,
            saves: 40,
        };
        assert_eq!(advise(&usual()), Advice::Larger(larger));
    }

    #[test]
    fn what_is_left_of_a_limit_or_of_the_machine_counts() {
        let limited = Measurements {
            limit: 100 * MIB,
            ..usual()
        };
        assert!(matches!(advise(&limited), Advice::Limited(larger) if larger.heap == 120 * MIB));
        let wide = Measurements {
            limit: 120 * MIB,
            ..usual()
        };
        assert!(matches!(advise(&wide), Advice::Larger(_)));
        let small = Measurements {
            available: 70 * MIB,
            ..usual()
        };
        let larger = Larger {
            heap: 70 * MIB,
            collections: 16,
            saves: 32,
        };
        assert_eq!(advise(&small), Advice::Larger(larger));
        let full = Measurements {
            available: 29 * MIB,
            ..usual()
        };
        assert_eq!(advise(&full), Advice::NoMemory);
    }

    #[test]
    fn nothing_is_advised_where_nothing_is_known_or_to_be_gained() {
        for unknown in [
            Measurements {
                collections: 3,
                ..usual()
            },
            Measurements {
                others: 1,
                ..usual()
            },
            Measurements {
                asked: 13,
                ..usual()
            },
            Measurements::default(),
        ] {
            assert_eq!(advise(&unknown), Advice::Unknown);
        }
        let quick = Measurements {
            stopped_ns: 49_000_000,
            ..usual()
        };
        assert_eq!(advise(&quick), Advice::Enough);
        // As much lives as the heap holds at its peak, for most of the time: nearly all of it was marked but once.
        let grown = Measurements {
            collections: 4,
            allocated: 1000 * MIB,
            live_sum: 1000 * MIB,
            live_mean: 800 * MIB,
            peak: 900 * MIB,
            ..usual()
        };
        assert!(matches!(advise(&grown), Advice::Larger(larger) if larger.collections <= 1));
    }

    #[test]
    fn what_is_asked_for_and_roots_stay() {
        // Hardly anything lives: each collection takes ten milliseconds for its roots.
        let roots = Measurements {
            live_sum: 48,
            live_mean: 1,
            ..usual()
        };
        let larger = Larger {
            heap: 60 * MIB,
            collections: 16,
            saves: 32,
        };
        assert_eq!(advise(&roots), Advice::Larger(larger));
        let asked = Measurements {
            asked: 10,
            ..usual()
        };
        assert!(matches!(advise(&asked), Advice::Larger(larger) if larger.collections > 12));
    }

    #[test]
    fn extremes_are_no_overflow() {
        let extreme = Measurements {
            elapsed_ns: u64::MAX,
            stopped_ns: u64::MAX,
            collections: u64::MAX,
            allocated: u64::MAX,
            live_sum: u64::MAX,
            live_mean: u64::MAX >> 8,
            peak: u64::MAX >> 8,
            available: u64::MAX,
            ..Measurements::default()
        };
        advise(&extreme);
        assert_eq!(share(&extreme), 1);
    }
}
