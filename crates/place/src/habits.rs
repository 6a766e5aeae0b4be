//! What threads did lately, for `placement=auto`: one that the kernel moves again and again is better pinned, and one that
//! waits for the processor that it is pinned to is better free.
//!
//! The paper finds no answer that is right for all programs (sections 4.5 and 6): pinning costs some of them much, and
//! gains others as much. So each thread is watched: nobody is pinned before the kernel has moved it often, and where
//! pinning hurts, a thread is let go, for longer each time.

use std::time::Duration;

/// What a thread is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Habit {
    /// Nothing is known that speaks for pinning it.
    #[default]
    Settled,
    /// It runs much, and is moved often.
    Moved,
    /// It waited for the processor that it was pinned to.
    Waited,
}

/// What a thread has done since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deeds {
    /// For how long it ran.
    pub(crate) ran: Duration,
    /// For how long it could have run, but others did.
    pub(crate) waited: Duration,
    /// How often the kernel moved it to another processor.
    pub(crate) moves: u64,
}

/// A shorter time says nothing.
const LEAST: Duration = Duration::from_millis(300);
/// How often in a second a thread is moved that is moved often. A move costs about what the caches hold: tens of
/// microseconds where they are shared, hundreds between sockets.
const OFTEN: f64 = 8.0;
/// Of the time that passes: a thread is busy that runs or waits for that share, and waits much that waits for this one.
const BUSY: f64 = 0.5;
const MUCH: f64 = 0.1;
/// Looks until one that was let go can be pinned again: at first, and at most. It doubles each time.
const SHORT_REST: u32 = 8;
const LONG_REST: u32 = 1024;

/// One thread, as it is watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Option<(Duration, Deeds)>,
    habit: Habit,
    /// Whether it ran or waited for most of the time between the last two looks.
    is_busy: bool,
    /// The share of that time that it waited, and moves in a second of it.
    waiting: f64,
    moving: f64,
    rest: u32,
    next_rest: u32,
}

impl Watch {
    /// Takes in what the thread has done until `now`, a time since any beginning. True when there is something to
    /// [decide](Watch::decide).
    pub(crate) fn look(&mut self, now: Duration, deeds: Deeds) -> bool {
        let Some((then, before)) = self.last else {
            self.last = Some((now, deeds));
            return false;
        };
        let passed = now.saturating_sub(then);
        if passed < LEAST {
            return false;
        }
        let share = |part: Duration| part.as_secs_f64() / passed.as_secs_f64();
        self.waiting = share(deeds.waited.saturating_sub(before.waited));
        self.is_busy = share(deeds.ran.saturating_sub(before.ran)) + self.waiting >= BUSY;
        self.moving = deeds.moves.saturating_sub(before.moves) as f64 / passed.as_secs_f64();
        self.last = Some((now, deeds));
        true
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    pub(crate) fn habit(&self) -> Habit {
        self.habit
    }

    /// Decides after a look. `has_room` says that there are no more busy threads than cores: where there are, the kernel
    /// has to move them.
    pub(crate) fn decide(&mut self, has_room: bool) {
        self.rest = self.rest.saturating_sub(1);
        match self.habit {
            Habit::Moved if self.waiting > MUCH => {
                self.habit = Habit::Waited;
                self.rest = self.next_rest.max(SHORT_REST);
                self.next_rest = (self.rest * 2).min(LONG_REST);
            }
            Habit::Moved => {}
            _ if has_room && self.rest == 0 && self.is_busy && self.moving >= OFTEN => {
                self.habit = Habit::Moved;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_millis(500);

    /// A thread that is looked at every half second.
    #[derive(Default)]
    struct Life {
        watch: Watch,
        now: Duration,
        deeds: Deeds,
    }

    impl Life {
        fn new() -> Life {
            let mut life = Life::default();
            assert!(
                !life.watch.look(life.now, life.deeds),
                "the first look has nothing to compare"
            );
            life
        }

        /// Half a second in which it ran for `ran` milliseconds, waited for `waited`, and was moved `moves` times.
        fn half_second(&mut self, ran: u64, waited: u64, moves: u64, has_room: bool) -> Habit {
            self.now += LOOK;
            self.deeds.ran += Duration::from_millis(ran);
            self.deeds.waited += Duration::from_millis(waited);
            self.deeds.moves += moves;
            assert!(self.watch.look(self.now, self.deeds));
            self.watch.decide(has_room);
            self.watch.habit()
        }
    }

    #[test]
    fn only_busy_threads_that_are_moved_often_are_pinned() {
        for (ran, waited, moves, has_room, habit) in [
            (450, 10, 4, true, Habit::Moved),
            (450, 10, 3, true, Habit::Settled),
            (200, 10, 40, true, Habit::Settled),
            (450, 10, 40, false, Habit::Settled),
            (150, 100, 4, true, Habit::Moved),
        ] {
            let found = Life::new().half_second(ran, waited, moves, has_room);
            assert_eq!(found, habit, "{ran}, {waited}, {moves}, {has_room}");
        }
    }

    #[test]
    fn pinned_threads_stay_until_they_wait() {
        let mut life = Life::new();
        life.half_second(450, 0, 9, true);
        assert_eq!(
            life.half_second(0, 0, 0, false),
            Habit::Moved,
            "an idle one stays"
        );
        assert_eq!(
            life.half_second(450, 50, 0, true),
            Habit::Moved,
            "a tenth is not much"
        );
        assert_eq!(life.half_second(450, 51, 0, true), Habit::Waited);
    }

    #[test]
    fn each_time_it_rests_for_longer() {
        let mut life = Life::new();
        let mut rests = Vec::new();
        for _ in 0..11 {
            let mut rest = 0;
            while life.half_second(400, 0, 9, true) != Habit::Moved {
                rest += 1;
            }
            rests.push(rest);
            assert_eq!(life.half_second(400, 100, 0, true), Habit::Waited);
        }
        assert_eq!(rests, [0, 7, 15, 31, 63, 127, 255, 511, 1023, 1023, 1023]);
    }

    #[test]
    fn looks_that_follow_at_once_say_nothing() {
        let mut watch = Watch::default();
        let deeds = |moves| Deeds {
            moves,
            ran: LOOK,
            ..Deeds::default()
        };
        watch.look(Duration::ZERO, Deeds::default());
        assert!(!watch.look(Duration::from_millis(299), deeds(900)));
        assert!(
            watch.look(Duration::from_millis(300), deeds(900)),
            "and are not lost"
        );
        assert!(watch.is_busy());
    }
}
