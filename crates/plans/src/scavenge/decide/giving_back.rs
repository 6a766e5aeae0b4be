//! Which free memory goes back to the system when more is about to be used than the limit allows: that of the old space, or
//! that of what lies beside it.
//!
//! Memory moves between the two as a program needs more of the one or the other. What goes back is faulted in again when it is
//! needed, so each part keeps what it needed lately between two collections, while the other one holds more than that. Where
//! neither does, as little goes back as the limit asks for; but never less at once than a call to the system is worth.

/// Free memory of one part, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Part {
    /// What it holds and nobody uses.
    pub free: usize,
    /// What it is about to need, as far as the last collections know: of that it keeps as much as it holds.
    pub needed: usize,
}

impl Part {
    fn surplus(&self) -> usize {
        self.free.saturating_sub(self.needed)
    }
}

/// How many bytes of each part go back, at least; no more than it has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Decision {
    /// Of the old space.
    pub old: usize,
    /// Of what is beside it.
    pub beside: usize,
}

/// A call to the system gives back as many bytes, if there are as many: each one stops the other processors for a moment.
pub const AT_ONCE: usize = 256 << 10;

/// Decides what goes back, so that it is `excess` bytes, or all there is.
pub fn decide(excess: usize, old: Part, beside: Part) -> Decision {
    if excess == 0 {
        return Decision::default();
    }
    let wanted = excess.max(AT_ONCE);
    let mut decided = Decision {
        old: wanted.min(old.surplus()),
        beside: 0,
    };
    decided.beside = (wanted - decided.old).min(beside.surplus());
    // What is needed soon goes back only as far as the limit asks for it.
    let lacking = excess.saturating_sub(decided.old + decided.beside);
    if lacking > 0 {
        let wanted = lacking.max(AT_ONCE);
        let more = wanted.min(old.free - decided.old);
        decided.old += more;
        if more < lacking {
            decided.beside += (wanted - more).min(beside.free - decided.beside);
        }
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scavenge::decide::collection::fading_most;

    const MB: usize = 1 << 20;

    fn part(free: usize, needed: usize) -> Part {
        Part { free, needed }
    }

    fn of(excess: usize, old: Part, beside: Part) -> (usize, usize) {
        let decided = decide(excess, old, beside);
        assert!(decided.old <= old.free && decided.beside <= beside.free);
        let free = old.free + beside.free;
        assert!(decided.old + decided.beside >= excess.min(free));
        (decided.old, decided.beside)
    }

    #[test]
    fn nothing_goes_back_below_the_limit() {
        assert_eq!(of(0, part(9 * MB, 0), part(9 * MB, 0)), (0, 0));
    }

    #[test]
    fn what_is_not_needed_goes_back_first() {
        let (old, beside) = (part(9 * MB, 0), part(9 * MB, 0));
        assert_eq!(of(2 * MB, old, beside), (2 * MB, 0));
        assert_eq!(of(10 * MB, old, beside), (9 * MB, MB));
        // The old space needs all that it holds, or all but one.
        assert_eq!(of(2 * MB, part(9 * MB, 20 * MB), beside), (0, 2 * MB));
        assert_eq!(of(2 * MB, part(9 * MB, 8 * MB), beside), (MB, MB));
        assert_eq!(
            of(2 * MB, part(9 * MB, 0), part(9 * MB, 9 * MB)),
            (2 * MB, 0)
        );
    }

    #[test]
    fn the_limit_weighs_more_than_what_is_needed() {
        let needed = part(2 * MB, 2 * MB);
        assert_eq!(of(MB, needed, needed), (MB, 0));
        assert_eq!(of(3 * MB, needed, needed), (2 * MB, MB));
        assert_eq!(of(9 * MB, needed, needed), (2 * MB, 2 * MB));
        assert_eq!(
            of(4 * MB, part(2 * MB, MB), part(3 * MB, MB)),
            (2 * MB, 2 * MB)
        );
        assert_eq!(of(MB, part(0, 5 * MB), needed), (0, MB));
    }

    #[test]
    fn a_call_gives_back_as_much_as_makes_it_worth() {
        let page = 4096;
        assert_eq!(of(page, part(9 * MB, 0), part(0, 0)), (AT_ONCE, 0));
        assert_eq!(of(page, part(0, 0), part(9 * MB, 0)), (0, AT_ONCE));
        assert_eq!(of(page, part(9 * MB, 9 * MB), part(MB, MB)), (AT_ONCE, 0));
        assert_eq!(of(page, part(0, 0), part(9 * MB, 9 * MB)), (0, AT_ONCE));
        assert_eq!(
            of(2 * page, part(2 * page, 9 * MB), part(MB, MB)),
            (2 * page, 0)
        );
        assert_eq!(of(page, part(2 * page, 0), part(0, 0)), (2 * page, 0));
    }

    /// A heap of 46 MB, as it fills between two collections: of each 20 MB some are large objects.
    fn given_back(large: impl Fn(usize) -> usize) -> usize {
        const LIMIT: usize = 46 * MB;
        const LIVE: usize = 20 * MB;
        const STEP: usize = 32 << 10;
        let (mut held, mut most, mut sum) = ([LIVE, 0], [LIVE, 0], 0);
        for cycle in 0..100 {
            let mut used = [LIVE, 0];
            let young = [22 * MB - large(cycle), large(cycle)];
            while used[0] < LIVE + young[0] || used[1] < young[1] {
                for kind in [0, 1] {
                    if used[kind] >= young[kind] + [LIVE, 0][kind] {
                        continue;
                    }
                    used[kind] += STEP;
                    if used[kind] <= held[kind] {
                        continue;
                    }
                    let excess = (held[0] + held[1] + STEP).saturating_sub(LIMIT);
                    let parts = [0, 1].map(|kind: usize| Part {
                        free: held[kind].saturating_sub(used[kind]),
                        needed: most[kind].saturating_sub(used[kind]),
                    });
                    let decided = decide(excess, parts[0], parts[1]);
                    held[kind] += STEP;
                    held[0] -= decided.old;
                    held[1] -= decided.beside;
                    sum += decided.old + decided.beside;
                    assert!(held[0] + held[1] <= LIMIT);
                }
            }
            for kind in [0, 1] {
                most[kind] = fading_most(most[kind], used[kind]);
            }
        }
        sum
    }

    #[test]
    fn a_program_that_goes_on_as_before_gives_nothing_back() {
        assert_eq!(given_back(|_| 8 * MB), 0);
        // Between 7 and 9 MB of large objects: 2 MB more than there is room for at most.
        assert_eq!(given_back(|cycle| 7 * MB + cycle % 3 * MB), 0);
    }

    #[test]
    fn memory_follows_a_program_that_changes() {
        // Large objects alone, after none: what they take is given back once.
        let changed = given_back(|cycle| if cycle < 50 { 0 } else { 20 * MB });
        assert!((16 * MB..20 * MB).contains(&changed), "{changed}");
        // To and fro each time it is no more than the difference.
        let swings = given_back(|cycle| cycle % 2 * 10 * MB);
        assert!(swings < 100 * 7 * MB, "{swings}");
    }
}
