//! Where a mutator is, as far as the thread that waits for it can tell: whether it is inside the gate, and what it did when
//! it was last seen there.
//!
//! # Invariants
//! - The words are written by the mutator's own thread, and by the one thread of a forked child. Relaxed: they are for
//!   messages, and order nothing. A thread that has just passed the gate may be taken for one that has not.

use gleaner_base::sync::{AtomicU32, Ordering};
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
}

impl Passage {
    const ALL: [Passage; 6] = [
        Passage::Attached,
        Passage::Allocation,
        Passage::Poll,
        Passage::Collection,
        Passage::Stop,
        Passage::Region,
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
        }
    }
}

/// Beside a passage: the mutator is inside the gate.
const INSIDE: u32 = 1 << 31;

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

    /// The mutator is inside, where it does this, or came in behind it.
    #[inline]
    pub fn note_inside(&self, passage: Passage) {
        self.seen.store(passage as u32 | INSIDE, Ordering::Relaxed);
    }

    /// The mutator goes out.
    #[inline]
    pub fn note_outside(&self, passage: Passage) {
        self.seen.store(passage as u32, Ordering::Relaxed);
    }

    /// What the mutator did when it was last seen, if it is inside.
    pub fn inside(&self) -> Option<Passage> {
        let seen = self.seen.load(Ordering::Relaxed);
        let passage = Passage::ALL.get((seen & !INSIDE) as usize).copied();
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
}
