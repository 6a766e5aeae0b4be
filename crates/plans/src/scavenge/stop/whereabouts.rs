//! Where a mutator is, as another thread sees it: whether it is inside the gate, and what it did when it was last seen
//! there. A thread may claim a mutator that is outside, which then does not come in before it is released.
//!
//! # Invariants
//! - The words are written by the mutator's own thread, by the thread that has claimed it, and by the one thread of a
//!   forked child.
//! - A mutator is claimed by one thread at a time, which holds the lock `collecting`. A claim is Acquire and partners the
//!   Release with which the mutator went out; its end is Release and partners the Acquire with which it comes in.
//! - For messages that is more than is needed: a thread that has just passed the gate may be taken for one that has not.

use gleaner_base::sync::{AtomicU32, Ordering, futex_wait, futex_wake};
use gleaner_os::threads::{self, ThreadId};

/// What a mutator did when it was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Passage {
    /// It attached.
    Attached,
    /// It allocated, off the fast path.
    Allocation,
    /// It polled when it was asked to stop.
    Poll,
    /// It asked for a collection.
    Collection,
    /// It stopped the others for something else.
    Stop,
    /// It was in a blocking region.
    Region,
    /// It forked, or waited for a fork.
    Fork,
}

impl Passage {
    const ALL: [Passage; 7] = [
        Passage::Attached,
        Passage::Allocation,
        Passage::Poll,
        Passage::Collection,
        Passage::Stop,
        Passage::Region,
        Passage::Fork,
    ];

    /// What the event of a slow stop says.
    pub const fn text(self) -> &'static str {
        match self {
            Passage::Attached => "last seen when it attached",
            Passage::Allocation => "last seen in an allocation",
            Passage::Poll => "last seen in a poll",
            Passage::Collection => "last seen when it asked for a collection",
            Passage::Stop => "last seen when it stopped the others, for a walk perhaps",
            Passage::Region => "last seen at the end of a blocking region",
            Passage::Fork => "last seen in a fork",
        }
    }
}

/// Beside a passage: the mutator is inside the gate.
const INSIDE: u32 = 1 << 31;
/// Beside a passage: the mutator is outside, and must not come in.
const CLAIMED: u32 = 1 << 30;

/// The words of one mutator.
#[derive(Debug)]
pub struct Whereabouts {
    thread: AtomicU32,
    seen: AtomicU32,
}

impl Whereabouts {
    /// The calling thread attaches, and is outside yet.
    pub fn of_calling_thread() -> Whereabouts {
        Whereabouts {
            thread: AtomicU32::new(threads::current_tid().0 as u32),
            seen: AtomicU32::new(Passage::Attached as u32),
        }
    }

    /// In a forked child: the thread has another number.
    pub fn set_calling_thread(&self) {
        let thread = threads::current_tid().0 as u32;
        self.thread.store(thread, Ordering::Relaxed);
    }

    /// The mutator's thread.
    pub fn thread(&self) -> ThreadId {
        ThreadId(self.thread.load(Ordering::Relaxed) as i32)
    }

    /// The mutator is inside, where it does this.
    #[inline]
    pub fn note_inside(&self, passage: Passage) {
        self.seen.store(passage as u32 | INSIDE, Ordering::Relaxed);
    }

    /// The mutator goes out.
    #[inline]
    pub fn note_outside(&self, passage: Passage) {
        self.seen.store(passage as u32, Ordering::Release);
    }

    /// The mutator comes in, when nobody has claimed it any more.
    pub fn come_in(&self, passage: Passage) {
        let mut seen = self.seen.load(Ordering::Relaxed);
        loop {
            if seen & CLAIMED != 0 {
                futex_wait(&self.seen, seen);
                seen = self.seen.load(Ordering::Relaxed);
                continue;
            }
            let inside = passage as u32 | INSIDE;
            let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
            match self.seen.compare_exchange(seen, inside, taken, failed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Another thread claims the mutator; false if that is inside.
    pub fn claim(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
        seen & (INSIDE | CLAIMED) == 0
            && self
                .seen
                .compare_exchange(seen, seen | CLAIMED, taken, failed)
                .is_ok()
    }

    /// Ends a claim.
    pub fn release(&self) {
        self.seen.fetch_and(!CLAIMED, Ordering::Release);
        futex_wake(&self.seen, 1);
    }

    /// What the mutator did when it was last seen, if it is inside.
    pub fn inside(&self) -> Option<Passage> {
        let seen = self.seen.load(Ordering::Relaxed);
        let passage = Passage::ALL
            .get((seen & !(INSIDE | CLAIMED)) as usize)
            .copied();
        passage.filter(|_| seen & INSIDE != 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mutator_is_where_it_was_last_seen() {
        let whereabouts = Whereabouts::of_calling_thread();
        assert_eq!(whereabouts.thread(), threads::current_tid());
        assert_eq!(whereabouts.inside(), None);
        for passage in Passage::ALL {
            whereabouts.note_inside(passage);
            assert_eq!(whereabouts.inside(), Some(passage));
            whereabouts.note_outside(passage);
            assert_eq!(whereabouts.inside(), None);
        }
    }

    #[test]
    fn a_mutator_that_is_claimed_comes_in_when_it_is_released() {
        let whereabouts = Whereabouts::of_calling_thread();
        assert!(whereabouts.claim() && !whereabouts.claim());
        assert_eq!(whereabouts.inside(), None);
        std::thread::scope(|scope| {
            let comes = scope.spawn(|| whereabouts.come_in(Passage::Region));
            whereabouts.release();
            comes.join().unwrap();
        });
        assert_eq!(whereabouts.inside(), Some(Passage::Region));
        assert!(!whereabouts.claim());
    }
}
