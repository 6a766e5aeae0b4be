//! `Turns`: a background thread works on a part of what a lock protects, while others have that lock.
//!
//! The idea: a [`RawLock`] of its own protects that part during a turn. The background thread begins a turn under the outer lock, and
//! ends it without. Who has taken the outer lock and touches nothing of the part lets the turn go on; anybody else waits for its end.
//! While nobody has begun a turn, that costs a look at one word.
//!
//! Invariants: a turn begins under the outer lock only, so none begins while another thread has it. `is_begun` is false where none
//! has begun since the holder of the outer lock waited last. `wanted` is a hint for the background thread: it ends its turn soon.

use super::{AtomicBool, AtomicU32, Ordering, RawLock};

/// See the module.
#[derive(Debug)]
pub struct Turns {
    /// Held during a turn.
    turn: RawLock,
    /// Whether a turn has begun that nobody has waited for. Protected by the outer lock; relaxed, so that others may look.
    is_begun: AtomicBool,
    /// 1 while somebody waits for the end of a turn. Relaxed: a hint.
    wanted: AtomicU32,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new()
    }
}

impl Turns {
    crate::sync_const_fn! {
        /// None has begun.
        pub fn new() -> Self {
            Self {
                turn: RawLock::new(),
                is_begun: AtomicBool::new(false),
                wanted: AtomicU32::new(0),
            }
        }
    }

    /// Begins a turn. The background thread has the outer lock, and has waited for its last turn ([`Turns::wait`]).
    pub fn begin(&self) {
        let taken = self.turn.try_lock();
        assert!(taken, "a turn within a turn");
        self.is_begun.store(true, Ordering::Relaxed);
    }

    /// Ends the turn, on the background thread.
    pub fn end(&self) {
        self.turn.unlock();
    }

    /// Whether a turn has begun that nobody has waited for. Under the outer lock that is sure; elsewhere it is a hint.
    #[inline]
    pub fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Relaxed)
    }

    /// Whether that turn goes on at this moment. Where it does not, it takes no time to wait for it.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.is_begun() && self.turn.is_locked()
    }

    /// Has the turn end, and waits for that. The calling thread has the outer lock, so none begins before it gives that back.
    #[cold]
    pub fn wait(&self) {
        self.wanted.store(1, Ordering::Relaxed);
        self.turn.lock();
        self.turn.unlock();
        self.wanted.store(0, Ordering::Relaxed);
        self.is_begun.store(false, Ordering::Relaxed);
    }

    /// In a forked child, which does not have the background thread: forgets a turn that was under way, and whether one was. Nobody
    /// ends that.
    pub fn forget_after_fork(&self) -> bool {
        let was_under_way = self.is_under_way();
        if was_under_way {
            self.turn.reset_after_fork();
            self.is_begun.store(false, Ordering::Relaxed);
        }
        self.wanted.store(0, Ordering::Relaxed);
        was_under_way
    }

    /// Not 0 while somebody waits for the end of the turn.
    pub fn wanted(&self) -> &AtomicU32 {
        &self.wanted
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::yield_now;

    #[test]
    fn who_waits_has_the_turn_end() {
        let (outer, turns) = (RawLock::new(), Turns::new());
        assert!(!turns.is_begun());
        turns.begin();
        assert!(turns.is_begun() && turns.is_under_way());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                outer.lock();
                turns.wait();
                outer.unlock();
            });
            while turns.wanted().load(Ordering::Relaxed) == 0 {
                yield_now();
            }
            assert!(turns.is_begun(), "it has not ended");
            turns.end();
        });
        assert!(!turns.is_begun() && turns.wanted().load(Ordering::Relaxed) == 0);
        turns.begin();
        turns.end();
        assert!(
            turns.is_begun() && !turns.is_under_way(),
            "nobody has waited"
        );
        turns.wait();
        assert!(!turns.is_begun() && !turns.is_under_way());
    }

    #[test]
    fn a_child_forgets_a_turn_that_nobody_ends() {
        let turns = Turns::new();
        assert!(!turns.forget_after_fork());
        turns.begin();
        turns.wanted.store(1, Ordering::Relaxed);
        assert!(turns.forget_after_fork());
        assert!(!turns.is_begun() && turns.wanted().load(Ordering::Relaxed) == 0);
        turns.begin();
        turns.end();
        assert!(
            !turns.forget_after_fork() && turns.is_begun(),
            "what it did is still to be counted"
        );
        turns.wait();
        assert!(!turns.is_begun());
    }

    #[test]
    #[should_panic(expected = "a turn within a turn")]
    fn a_turn_has_none_in_it() {
        let turns = Turns::new();
        turns.begin();
        turns.begin();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;

    struct Heap {
        outer: RawLock,
        turns: Turns,
        /// Touched in turns, or under the outer lock where none is under way.
        part: UnsafeCell<u64>,
        /// Touched under the outer lock.
        rest: UnsafeCell<u64>,
    }

    // SAFETY: the values are accessed as the fields say; loom checks that.
    unsafe impl Sync for Heap {}

    fn bump(value: &UnsafeCell<u64>) {
        // SAFETY: nobody else touches it, as the fields of `Heap` say; loom checks that.
        value.with_mut(|value| unsafe { *value += 1 });
    }

    /// Turns of a background thread, one that leaves them alone and one that waits for their end.
    #[test]
    fn a_part_belongs_to_the_turn_or_to_who_has_waited() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let heap = Arc::new(Heap {
                outer: RawLock::new(),
                turns: Turns::new(),
                part: UnsafeCell::new(0),
                rest: UnsafeCell::new(0),
            });
            let background = heap.clone();
            let background = thread::spawn(move || {
                for _ in 0..2 {
                    background.outer.lock();
                    if background.turns.is_begun() {
                        background.turns.wait();
                    }
                    background.turns.begin();
                    bump(&background.rest);
                    background.outer.unlock();
                    bump(&background.part);
                    background.turns.end();
                }
            });
            let allocates = heap.clone();
            let allocates = thread::spawn(move || {
                allocates.outer.lock();
                bump(&allocates.rest);
                allocates.outer.unlock();
            });
            heap.outer.lock();
            if heap.turns.is_begun() {
                heap.turns.wait();
            }
            bump(&heap.part);
            bump(&heap.rest);
            heap.outer.unlock();
            background.join().unwrap();
            allocates.join().unwrap();
            // SAFETY: the other threads have ended.
            let read = |value: &UnsafeCell<u64>| value.with(|value| unsafe { *value });
            assert_eq!((read(&heap.part), read(&heap.rest)), (3, 4));
        });
    }
}
