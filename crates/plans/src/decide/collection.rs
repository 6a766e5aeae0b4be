//! Whether the next collection of the precise heap is of the young generation or of everything.
//!
//! A scavenge that finds no room in the old space has copied in vain. So when scavenges lately promoted more than is
//! free there, the next collection is a full one at once (as Parallel Scavenge decides, ASPLOS 2013, section 2.4).

/// What is known.
#[derive(Clone, Copy, Debug)]
pub struct Measurements {
    /// Bytes that are free in the old space.
    pub old_free: usize,
    /// Bytes that scavenges promoted lately, by [`moving_average`].
    pub promoted_lately: usize,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The next collection is of everything.
    pub full: bool,
    /// Why.
    pub reason: &'static str,
}

/// Decides.
pub fn next_extent(found: &Measurements) -> Decision {
    let full = found.promoted_lately > found.old_free;
    Decision {
        full,
        reason: if full {
            "scavenges promote more than is free in the old space"
        } else {
            "the old space has room"
        },
    }
}

/// Thousandths that `part` is of a whole.
pub fn share(part: u64, whole: u64) -> usize {
    (part.saturating_mul(1000) / whole.max(1)).min(1000) as usize
}

/// The average with a new value that weighs a quarter; the first value counts whole.
pub fn moving_average(average: usize, value: usize) -> usize {
    if average == 0 {
        value
    } else {
        average - average / 4 + value / 4
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_full_collection_comes_when_promotion_would_fail() {
        let found = |old_free, promoted_lately| Measurements {
            old_free,
            promoted_lately,
        };
        assert!(!next_extent(&found(100, 100)).full);
        let decision = next_extent(&found(99, 100));
        assert!(decision.full && decision.reason.contains("promote"));
    }

    #[test]
    fn the_average_follows_slowly() {
        let mut average = moving_average(0, 1000);
        assert_eq!(average, 1000);
        for _ in 0..20 {
            average = moving_average(average, 0);
        }
        assert!(average < 10);
    }
}
