//! What is asked of a collection, by whom, and what became of it.

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::targets::MarkedObject;

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::mutator::Mutator;
use crate::mark_sweep::roots::LibraryList;
use crate::mark_sweep::stop::signal;

/// A moment of a collection that a client may be told of (`GC_EventType`, in its order).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Moment {
    Start,
    MarkStart,
    MarkEnd,
    ReclaimStart,
    ReclaimEnd,
    End,
    PreStopWorld,
    PostStopWorld,
    PreStartWorld,
    PostStartWorld,
    ThreadSuspended,
    ThreadUnsuspended,
}

/// What the door does during a collection. Frames that lead here hold no guard: a callback may leave by any route.
///
/// Each callback is lent the heap: the client may allocate and free in it, but not collect. Between the clearing of
/// marks and reclaiming, what it allocates is born marked (`Stage::is_born_marked`).
pub trait Client {
    /// Tells the client of a moment.
    fn moment(&self, heap: &mut Heap, moment: Moment);
    /// Tells the client that a thread was suspended or goes on.
    fn thread_moment(&self, heap: &mut Heap, moment: Moment, thread: *mut Mutator);
    /// Settles the toggle references, in the running world.
    fn settle_toggle_refs(&self, heap: &mut Heap);
    /// Lets the client push roots of its own, through the leader's scanner. What it has to say of stacks
    /// ([`Client::stack_of`]) is asked afterwards, or when it calls [`Heap::push_stacks`] itself.
    fn push_other_roots(&self, heap: &mut Heap);
    /// The stack pointer of a thread, found to be `pointer`, and the cold end of its stack: as found, or as the client says.
    fn stack_of(&self, thread: &Mutator, pointer: Address) -> (Address, Address);
    /// Whether the collection is to be given up.
    fn wants_to_stop(&self, heap: &mut Heap) -> bool;
    /// Tells the client that an object was queued for finalization.
    fn awaits_finalization(&self, heap: &mut Heap, object: Address);
    /// Writes what is known of an object besides its size and kind, such as where the program allocated it; false if nothing.
    fn describe(&self, object: &MarkedObject, out: &mut dyn core::fmt::Write) -> bool;
    /// Tells the client that the heap's size changed.
    fn heap_resized(&self, heap: &mut Heap, capacity: usize);
    /// Whether a stop waits for threads however long they take. If not, a stop is given up where one does not answer, and nothing is
    /// collected.
    fn waits_for_threads(&self) -> bool {
        true
    }
    /// A thread cannot be stopped: the system refused the signal, with this error number. Ends the process.
    fn cannot_stop(&self, refused: signal::Refused) -> !;
}

/// What is asked of the extent of a collection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wish {
    /// See [`Request::everything`].
    pub everything: bool,
    /// See [`Request::in_steps`].
    pub in_steps: bool,
    /// See [`Request::finds_leaks`].
    pub finds_leaks: bool,
}

impl Request<'_> {
    /// What it asks of the extent.
    pub(crate) fn wish(&self) -> Wish {
        Wish {
            everything: self.everything,
            in_steps: self.in_steps,
            finds_leaks: self.finds_leaks,
        }
    }
}

/// Why a collection is run, and with what.
pub struct Request<'a> {
    /// Why.
    pub reason: &'static str,
    /// The list of libraries, read before the lock was taken; replaced by the old list, to be dropped later.
    pub libraries: &'a mut LibraryList,
    /// How many workers are to mark, and why: what [`Heap::workers`] said, for which the engine is equipped.
    pub workers: (usize, &'static str),
    /// The collecting thread's stack pointer; its registers stand there or above.
    pub stack_pointer: Address,
    /// Whether all free memory goes back to the system, and its addresses where they are short.
    pub release_all: bool,
    /// Whether everything is to be collected, also where marks may be kept.
    pub everything: bool,
    /// Whether that is to be done in steps, if it can.
    pub in_steps: bool,
    /// Whether the client looks for leaks.
    pub finds_leaks: bool,
    /// Whether the program asks for it, or its user: a heap of another size would not make it needless.
    pub asked: bool,
    /// Whether a snapshot of the heap is to be written, whatever lives.
    pub snapshot: bool,
    /// Whether an attempt before this one found its list of libraries outdated: the client heard of the start then.
    pub again: bool,
    /// Whether an outdated list of libraries is to be used nevertheless.
    pub last_attempt: bool,
}

/// How a collection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was completed.
    Done,
    /// Everything is collected, and marking goes on in steps beside the program; the next collection ends it.
    Begun,
    /// The list of libraries had changed: read it again and retry.
    LibrariesChanged,
    /// The client wanted it to stop.
    Abandoned,
}
