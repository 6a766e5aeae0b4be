//! Whether the next collection of the precise heap is of the young generation or of everything, and how much of the
//! room that scavenges promote into large objects may take meanwhile.
//!
//! A scavenge that finds no room in the old space has copied in vain. So when scavenges lately promoted more than is
//! free there, the next collection is a full one at once (as Parallel Scavenge decides, ASPLOS 2013, section 2.4).
//! Large objects are young at first but lie beside the nursery, where only the end of a scavenge frees dead ones: they
//! leave what the scavenge will promote, or a scavenge comes before eden is full.

/// What is known. All are bytes.
#[derive(Clone, Copy, Debug)]
pub struct Measurements {
    /// Free in the old generation, up to what it is to be filled.
    pub old_free: usize,
    /// What scavenges promoted lately, by [`moving_average`].
    pub promoted_lately: usize,
    /// What survived the last scavenge in the young generation.
    pub survivors: usize,
    /// What the old generation and large objects may take together until the limit is reached.
    pub left: usize,
    /// Free in holes beside that, where nothing large fits.
    pub holes: usize,
    /// Eden.
    pub eden: usize,
}

/// What is decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The next collection is of everything.
    pub full: bool,
    /// Why.
    pub reason: &'static str,
    /// How many bytes young large objects take at most before the next scavenge.
    pub young_large: usize,
}

/// Large objects may take as many bytes as one part of eden in this many at least: fewer are not worth a scavenge.
const LEAST_LARGE: usize = 8;

/// Decides whether the next collection is of everything, and how much young large objects may take before it.
pub fn next_extent(found: &Measurements) -> Decision {
    let least_large = found.eden / LEAST_LARGE;
    let promoted = found.promoted_lately;
    let full = promoted > found.old_free;
    let reason = if full {
        "scavenges promote more than is free in the old space"
    } else {
        "the old space has room"
    };
    // Some scavenges promote more than others, and survivors are promoted next if they still live.
    let reserve = (promoted + promoted / 2).max(found.survivors);
    let left = found
        .left
        .saturating_sub(reserve.saturating_sub(found.holes));
    Decision {
        full,
        reason,
        young_large: left.clamp(least_large, found.eden),
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

/// An average of which nothing is left in the end, if it fades by a quarter each time.
pub fn faded(average: usize) -> usize {
    average - average.div_ceil(4)
}

/// The most of what was seen, which fades by a quarter each time: what comes once is soon forgotten.
pub fn fading_most(most: usize, value: usize) -> usize {
    value.max(most - most / 4)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_taken_at_once_and_fades() {
        assert_eq!(fading_most(0, 0), 0);
        assert_eq!(fading_most(100, 300), 300);
        assert_eq!(fading_most(400, 0), 300);
        assert_eq!(fading_most(400, 299), 300);
        assert_eq!(fading_most(400, 301), 301);
        let left = (0..9).fold(1 << 20, |most, _| fading_most(most, 1));
        assert!(left < 1 << 17, "{left}");
    }

    /// An old generation with `old_free` bytes, and room for as many large ones.
    fn found(old_free: usize, promoted_lately: usize) -> Measurements {
        Measurements {
            old_free,
            promoted_lately,
            survivors: 0,
            left: old_free,
            holes: 0,
            eden: 800,
        }
    }

    #[test]
    fn a_full_collection_comes_when_promotion_would_fail() {
        assert!(!next_extent(&found(100, 100)).full);
        let decision = next_extent(&found(99, 100));
        assert!(decision.full && decision.reason.contains("promote"));
    }

    /// Behind collections of everything alone, for lack of any room in the old generation: scavenges come back.
    #[test]
    fn where_nothing_is_free_what_was_promoted_is_forgotten_in_the_end() {
        let mut promoted = 10 << 20;
        let collections = (0..100)
            .take_while(|_| {
                let full = next_extent(&found(0, promoted)).full;
                promoted = faded(promoted);
                full
            })
            .count();
        assert!((20..60).contains(&collections), "{collections}");
        assert_eq!([faded(100), faded(4), faded(1), faded(0)], [75, 3, 0, 0]);
    }

    #[test]
    fn large_objects_leave_what_is_promoted() {
        let mut found = found(600, 200);
        assert_eq!(next_extent(&found).young_large, 600 - 300);
        found.survivors = 350;
        assert_eq!(next_extent(&found).young_large, 600 - 350);
        found.holes = 400;
        assert_eq!(next_extent(&found).young_large, 600);
        found.left = 2000;
        assert_eq!(next_extent(&found).young_large, 800, "as much as eden");
    }

    #[test]
    fn large_objects_get_a_share_of_eden_at_least() {
        let found = found(250, 200);
        assert_eq!(next_extent(&found).young_large, 100);
        assert!(!next_extent(&found).full);
    }

    #[test]
    fn the_average_follows_slowly() {
        let mut average = moving_average(0, 1000);
        assert_eq!(average, 1000);
        // One odd collection weighs a quarter, up and down.
        assert_eq!(moving_average(average, 0), 750);
        assert_eq!(moving_average(average, 2000), 1250);
        for _ in 0..20 {
            average = moving_average(average, 0);
        }
        assert!(average < 10);
    }
}
