//! Contexts: proofs without size that code runs where it may. What may only run there asks for one.
//!
//! | a function that takes | may be called |
//! | --- | --- |
//! | `&mut WorldStopped` | by the collecting thread, between phases: no mutator runs and no worker is at work |
//! | `&WorldStopped` | by a worker of a phase: no mutator runs |
//! | `&mut AllocatorLocked` | by the thread that holds the lock under which the heap's spaces change |
//!
//! That a thread may touch what belongs to the collection in progress needs no type of its own: the list of mutators
//! and the collector's memory are lent by the lock that protects them.
//!
//! Each is made by an unsafe function, where the state begins that it stands for, and is dropped or given back where
//! that state ends; the borrow checker sees to all that lies between. Nobody has one in safe code:
//!
//! ```compile_fail,E0133
//! let stopped = gleaner_base::contexts::WorldStopped::begin();
//! ```
//! ```compile_fail,E0451
//! let stopped = gleaner_base::contexts::WorldStopped { stop: core::marker::PhantomData };
//! ```
//!
//! Nobody keeps one when the mutators go on:
//!
//! ```compile_fail,E0505
//! use gleaner_base::contexts::WorldStopped;
//! fn resume(stopped: WorldStopped<'_>) {}
//! // SAFETY: there are no mutators.
//! let stopped = unsafe { WorldStopped::begin() };
//! let kept = &stopped;
//! resume(stopped);
//! dbg!(kept);
//! ```
//!
//! And nobody changes what is between phases while workers are at work:
//!
//! ```compile_fail,E0502
//! use gleaner_base::contexts::WorldStopped;
//! fn work<'a>(stopped: &'a WorldStopped<'_>) -> &'a WorldStopped<'a> { stopped }
//! fn sweep(stopped: &mut WorldStopped<'_>) {}
//! // SAFETY: there are no mutators.
//! let mut stopped = unsafe { WorldStopped::begin() };
//! let workers = work(&stopped);
//! sweep(&mut stopped);
//! dbg!(workers);
//! ```

use core::marker::PhantomData;

/// No mutator of the heap runs. Borrowed for changing: no worker is at work either.
#[derive(Debug)]
pub struct WorldStopped<'stop> {
    stop: PhantomData<&'stop mut ()>,
}

impl WorldStopped<'_> {
    /// The world has stopped.
    ///
    /// # Safety
    /// Until it is dropped, no mutator of the heap runs that is not blocked outside of the heap, and none gets the lock
    /// under which the spaces change. No other one of this heap is borrowed for changing meanwhile, and this one is given
    /// to parts of this heap alone.
    #[inline(always)]
    pub const unsafe fn begin() -> Self {
        WorldStopped { stop: PhantomData }
    }

    /// The mutators are about to go on: what borrowed the proof is gone.
    #[inline(always)]
    pub const fn end(self) {}

    /// Nobody else gets the allocator's lock while the world is stopped.
    #[inline(always)]
    pub const fn allocator(&mut self) -> AllocatorLocked<'_> {
        AllocatorLocked { held: PhantomData }
    }
}

/// The lock is held under which the heap's spaces change.
#[derive(Debug)]
pub struct AllocatorLocked<'held> {
    held: PhantomData<&'held mut ()>,
}

impl AllocatorLocked<'_> {
    /// The lock was taken.
    ///
    /// # Safety
    /// Until it is dropped, no other thread has the lock of this heap, and no other one is made of it. It is given to
    /// parts of this heap alone.
    #[inline(always)]
    pub const unsafe fn begin() -> Self {
        AllocatorLocked { held: PhantomData }
    }
}
