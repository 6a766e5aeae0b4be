//! `Slack`: free memory that stays backed beyond the capacity, where small and large objects need it in turn.
//!
//! The idea: neither part of the space can use free memory of the other. Once what is backed is as much as the capacity, one part gives
//! memory back to the system so that the other may take as much, for a system call and page faults on both sides. A program whose
//! needs go to and fro pays that between any two collections. So as much as moved between the last two may stay, and less of it each
//! time that nobody comes so far.
//!
//! All of it runs under the allocator lock.

/// At most this part of the capacity.
const PART: usize = 8;
/// What nobody came to goes by this part of the whole.
const FADES: usize = 8;

/// See the module. All in bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Slack {
    /// How much may be backed beyond the capacity.
    bytes: usize,
    /// The most that was, since the last collection.
    reached: usize,
    /// What went back since then, so that as much could be taken.
    moved: usize,
}

impl Slack {
    /// None.
    pub const NONE: Slack = Slack {
        bytes: 0,
        reached: 0,
        moved: 0,
    };

    /// What may still be backed where `backed` bytes are.
    pub fn room(&self, backed: usize, capacity: usize) -> usize {
        capacity.saturating_add(self.bytes).saturating_sub(backed)
    }

    /// `backed` bytes are about to be: how many are to go back before that.
    pub fn note_wanted(&mut self, backed: usize, capacity: usize) -> usize {
        let beyond = backed.saturating_sub(capacity);
        let excess = beyond.saturating_sub(self.bytes);
        self.reached = self.reached.max(beyond - excess);
        excess
    }

    /// So many went back: free runs go as a whole.
    pub fn note_moved(&mut self, bytes: usize) {
        self.moved = self.moved.saturating_add(bytes);
    }

    /// The capacity has changed, and limits leave `left` bytes beyond it.
    pub fn bound(&mut self, left: usize) {
        self.bytes = self.bytes.min(left);
    }

    /// A collection has ended, with which `capacity` bytes may be in use. Limits leave `left` bytes beyond that.
    pub fn note_collection(&mut self, capacity: usize, left: usize) {
        let kept = self.reached.max(self.bytes - self.bytes.div_ceil(FADES));
        let bytes = kept.saturating_add(self.moved);
        *self = Slack {
            bytes: bytes.min(capacity / PART).min(left),
            ..Slack::NONE
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 80;
    const ENOUGH: usize = usize::MAX;

    fn after(slack: &mut Slack, wanted: &[usize], left: usize) -> usize {
        let mut moved = 0;
        for &backed in wanted {
            let excess = slack.note_wanted(backed, CAPACITY);
            slack.note_moved(excess);
            moved += excess;
        }
        slack.note_collection(CAPACITY, left);
        moved
    }

    #[test]
    fn what_moved_once_stays_the_next_time() {
        let mut slack = Slack::NONE;
        assert_eq!(slack.room(70, CAPACITY), 10);
        assert_eq!(after(&mut slack, &[79, 80, 83, 81], ENOUGH), 4);
        assert_eq!(slack.room(80, CAPACITY), 4);
        assert_eq!(slack.room(90, CAPACITY), 0);
        assert_eq!(after(&mut slack, &[83, 84, 82], ENOUGH), 0);
        assert_eq!(slack.room(80, CAPACITY), 4, "it was needed");
        assert_eq!(after(&mut slack, &[86], ENOUGH), 2);
        assert_eq!(slack.room(80, CAPACITY), 6);
    }

    #[test]
    fn it_fades_where_nobody_needs_it() {
        let mut slack = Slack::NONE;
        after(&mut slack, &[90], ENOUGH);
        assert_eq!(slack.room(CAPACITY, CAPACITY), 10);
        let mut left = 10;
        while left > 0 {
            assert_eq!(after(&mut slack, &[CAPACITY], ENOUGH), 0);
            let now = slack.room(CAPACITY, CAPACITY);
            assert!(now < left, "{now} {left}");
            left = now;
        }
        assert_eq!(slack, Slack::NONE);
    }

    #[test]
    fn it_is_a_part_of_the_capacity_and_keeps_to_limits() {
        let mut slack = Slack::NONE;
        assert_eq!(after(&mut slack, &[CAPACITY + 50], ENOUGH), 50);
        assert_eq!(slack.room(CAPACITY, CAPACITY), CAPACITY / PART);
        after(&mut slack, &[CAPACITY + 50], 3);
        assert_eq!(slack.room(CAPACITY, CAPACITY), 3);
        after(&mut slack, &[CAPACITY + 50], 0);
        assert_eq!(slack, Slack::NONE);
        // What limits leave becomes less between two collections, too, and more only with the next one.
        after(&mut slack, &[CAPACITY + 50], ENOUGH);
        for left in [3, ENOUGH] {
            slack.bound(left);
            assert_eq!(slack.room(CAPACITY, CAPACITY), 3);
        }
    }
}
