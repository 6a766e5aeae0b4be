//! Marking beside the program without the allocator lock: a helper marks in turns, while threads of the program get cells for their
//! lists.
//!
//! The paper makes its steps in allocations (ISMM 2000, section 6). A turn is such a step on another thread. It begins under the
//! lock, and has the marking engine. Who takes the lock for anything else than cells waits for its end, which is near ([`Turns`]).
//! What it may meet meanwhile is little:
//!
//! - Objects that were there when it began stay: in a cycle no block becomes free, and a large object that is freed goes when the
//!   cycle ends.
//! - A free block becomes one of small objects. It is that when its cells have been linked ([`super::block`]), so what is found there
//!   is a cell. What is found there or not does not matter: a word that leads to a new object was written since the cycle
//!   began, and the last stop looks at it again. No page of such a block counts as written before that.
//! - A block that waits to be swept is settled ([`super::settle`]): its free cells have a mark that no marker changes, until they are
//!   linked. Who sweeps it looks for these alone.
//! - Words change, as they do beside a step.
//!
//! Kinds that mark free cells, or whose dead are asked about, are not served meanwhile.
//!
//! # Invariants
//! - The marking engine and what a turn has done belong to the turn; between turns to who has the allocator lock and has waited.
//! - A turn leaves what is grey where the next phase finds it, as each phase does that has had its time.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use gleaner_base::sync::Turns;
use gleaner_os::clock;
use gleaner_work::Crew;

use super::mark_engine::{MarkEngine, MarkOutcome, Until};
use super::scan::MarkContext;
use super::space::MarkSweep;

/// What a turn did.
#[derive(Clone, Copy, Default, Debug)]
pub struct Done {
    /// What was scanned.
    pub outcome: MarkOutcome,
    /// Whether nothing is grey any more but what waits for mark procedures.
    pub is_all: bool,
    /// Whether anything does.
    pub has_left_procs: bool,
    /// How many nanoseconds it took.
    pub took_ns: u64,
    /// For how many the helper had a processor meanwhile.
    pub own_ns: u64,
    /// Nanoseconds of the processor's time that the helper has used in its life.
    pub cpu_ns: u64,
}

/// What a heap and its helper share.
#[derive(Default)]
pub struct BesideProgram {
    turns: Turns,
    /// What the last turn did, until somebody takes it. Protected by the turn.
    done: UnsafeCell<Option<Done>>,
}

// SAFETY: `done` is protected by the turn, as the invariants say.
unsafe impl Sync for BesideProgram {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for BesideProgram {}

/// A turn that has begun. It ends in [`Turn::mark`], which has to follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a turn that does not end is waited for without end"]
pub struct Turn {
    beside: NonNull<BesideProgram>,
    marking: Marking,
    most_ns: u64,
}

/// What a turn marks with. All of it stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marking {
    /// With at least one worker.
    pub engine: NonNull<MarkEngine>,
    /// Where objects are.
    pub space: NonNull<MarkSweep>,
    /// In a mode in which the world runs.
    pub context: NonNull<MarkContext>,
    /// Whose helpers are not called.
    pub crew: NonNull<Crew>,
}

// SAFETY: any thread may mark in a turn, once; what it points to is shared as the module says.
unsafe impl Send for Turn {}

impl BesideProgram {
    /// Nothing was done.
    pub fn new() -> BesideProgram {
        BesideProgram::default()
    }

    /// Begins a turn of `most_ns` nanoseconds at most. Under the allocator lock, on the helper, where nobody has begun one since
    /// [`BesideProgram::end_turn`].
    pub fn begin_turn(&self, marking: Marking, most_ns: u64) -> Turn {
        self.turns.begin();
        Turn {
            beside: NonNull::from(self),
            marking,
            most_ns,
        }
    }

    /// Whether a turn has begun since the last [`BesideProgram::end_turn`]. Without the allocator lock that is a hint.
    #[inline]
    pub fn has_begun(&self) -> bool {
        self.turns.is_begun()
    }

    /// Whether that turn goes on. What one did that is over counts when [`BesideProgram::end_turn`] is called.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.turns.is_under_way()
    }

    /// Has the turn end that was begun, waits for that, and says what it did. Under the allocator lock.
    pub fn end_turn(&self) -> Done {
        self.turns.wait();
        // SAFETY: no turn is under way, and the allocator lock is held, so nobody else uses it.
        unsafe { (*self.done.get()).take() }.unwrap_or_default()
    }

    /// In a forked child, which does not have the helper: whether that was in a turn. Then what is grey is not whole.
    pub fn forget_turn_after_fork(&self) -> bool {
        let was_under_way = self.turns.forget_after_fork();
        if was_under_way {
            // SAFETY: this process has one thread.
            unsafe { *self.done.get() = None };
        }
        was_under_way
    }
}

impl Turn {
    /// Marks until nothing is grey, time is over, or somebody waits for the end of the turn; and ends it. On the helper, without the
    /// allocator lock.
    ///
    /// # Safety
    /// The turn is marked in once, by one thread.
    pub unsafe fn mark(self) {
        let Marking {
            engine,
            space,
            context,
            crew,
        } = self.marking;
        // SAFETY: these stay where they are, as asked. While the turn lasts, nobody uses the engine and the crew. Of the space and
        // the context others change nothing but what the module says.
        let (beside, engine, space, context, crew) = unsafe {
            (
                self.beside.as_ref(),
                engine.as_ref(),
                space.as_ref(),
                context.as_ref(),
                crew.as_ref(),
            )
        };
        let (began, own_began) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let deadline = began.saturating_add(self.most_ns);
        let until = Until::time_or_waiting(deadline, beside.turns.wanted());
        let is_all = engine.mark_until(until, crew, 1, space, context);
        let cpu_ns = clock::thread_cpu_ns();
        let done = Done {
            outcome: engine.finish(context),
            is_all,
            has_left_procs: engine.has_left_procs(),
            took_ns: clock::monotonic_ns().saturating_sub(began),
            own_ns: cpu_ns.saturating_sub(own_began),
            cpu_ns,
        };
        // SAFETY: it is protected by the turn, which has not ended.
        unsafe { *beside.done.get() = Some(done) };
        beside.turns.end();
    }
}
