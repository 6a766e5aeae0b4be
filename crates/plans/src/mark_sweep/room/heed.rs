//! How a heap heeds the limits.

use gleaner_os::headroom::Headroom;

use super::state::Room;
use crate::mark_sweep::decide::heap_size::{LEAST_GROWTH, Measurements, enough};
use crate::mark_sweep::heap::Heap;

/// At most this part of what limits leave is held beyond the capacity.
const PART_FOR_SLACK: usize = 4;

impl Heap {
    /// Has the heap's size respect limits from now on, its first size, too.
    pub fn heed(&mut self, limits: Headroom) {
        self.room.limits.close();
        self.room = Room {
            limits,
            ..Room::NONE
        };
        self.room.ask(self.held(), usize::MAX);
        self.space.initial_capacity = self.within_room(self.space.initial_capacity);
        self.space.capacity = self.space.capacity.min(self.space.initial_capacity);
    }

    /// Bytes of memory that the heap holds.
    pub(crate) fn held(&self) -> usize {
        self.space.used_bytes() + self.space.dirty_bytes()
    }

    /// What the limits leave the process, as far as it is known; `None` if nothing is limited.
    pub(crate) fn left(&self) -> Option<usize> {
        self.room.left(self.held())
    }

    /// As [`Heap::left`], asked now.
    pub(crate) fn ask_left(&mut self) -> Option<usize> {
        let held = self.held();
        self.room.ask(held, held);
        self.room.left(held)
    }

    /// Before the heap grows as measured.
    pub(crate) fn ask_room_if_due(&mut self, measured: &Measurements) -> Option<usize> {
        let held = self.held();
        if self.room.is_outdated(held) {
            self.room.ask(held, enough(measured));
        }
        self.room.left(held)
    }

    /// After a collection. Capacity that was never used is taken back where there is no memory for it.
    pub(crate) fn ask_room(&mut self) {
        if !self.room.limits.is_limited() {
            return;
        }
        let held = self.held();
        self.room.ask(held, enough(&self.measure(0, 0)));
        if let Some(left) = self.room.left(held) {
            let least = self.space.used_bytes().saturating_add(LEAST_GROWTH);
            let most = held.saturating_add(left).max(least);
            self.space.capacity = self.space.capacity.min(most);
        }
    }

    /// After a collection: as much as small and large objects need in turn may be held beyond the capacity, where limits leave it.
    pub(crate) fn allow_slack(&mut self) {
        let left = self.left_for_slack();
        self.space.slack.note_collection(self.space.capacity, left);
    }

    /// After the capacity was raised.
    pub(crate) fn bound_slack(&mut self) {
        let left = self.left_for_slack();
        self.space.slack.bound(left);
    }

    fn left_for_slack(&self) -> usize {
        let within_limit = match self.settings.limit {
            0 => usize::MAX,
            limit => limit.saturating_sub(self.space.capacity),
        };
        let left = self.left().map_or(usize::MAX, |left| left / PART_FOR_SLACK);
        left.min(within_limit)
    }

    /// Of a capacity that is to be used without a collection, what half of what is left allows.
    pub fn within_room(&self, capacity: usize) -> usize {
        match self.left() {
            Some(left) => capacity.min(self.held().saturating_add((left / 2).max(LEAST_GROWTH))),
            None => capacity,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_heap_takes_is_not_left_and_an_eighth_of_it_makes_it_ask() {
        let room = Room {
            left: Some(800),
            held: 100,
            ..Room::NONE
        };
        assert_eq!(room.left(150), Some(750));
        assert_eq!(room.left(50), Some(850));
        assert_eq!(room.left(1000), Some(0));
        assert!(!room.is_outdated(200) && room.is_outdated(201));
        assert_eq!(Room::NONE.left(100), None);
        assert!(!Room::NONE.is_outdated(usize::MAX));
    }
}
