//! The allocator lock, and what its holder may do inside.
//!
//! libgc takes no lock while the program has one thread, so programs call the library from its own callbacks and from
//! `GC_call_with_alloc_lock`. Here the lock is always taken; a thread that holds it already enters again, if the
//! section that it is in permits that and it is the only registered thread. Where libgc would wait for itself for
//! ever, the process ends with a message.
//!
//! # Invariants
//! - `section` says which client code the holder runs with the lock held; `Own` means our own code, which never asks
//!   for the lock again: a call then comes from a mark or disclaim procedure or from a signal handler. A collection is
//!   `Own` also inside another section.
//! - An inner section starts no collection and runs no finalizer, unless the client asks for one by name.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::message::die;
use gleaner_base::sync::{AtomicU32, HeldLock};
use gleaner_os::threads::thread_word_address;

/// What runs with the lock held.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Section {
    /// Code of this library.
    Own,
    /// A callback of a collection.
    Callback,
    /// What the client gave to `GC_call_with_alloc_lock`, or runs between `GC_alloc_lock` and `GC_alloc_unlock`.
    Client,
    /// What the client runs between `GC_stop_world_external` and `GC_start_world_external`.
    StoppedWorld,
}

impl Section {
    fn of(number: u8) -> Section {
        match number {
            1 => Section::Callback,
            2 => Section::Client,
            3 => Section::StoppedWorld,
            _ => Section::Own,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Section::Own => "a mark procedure, a disclaim procedure or a signal handler",
            Section::Callback => "a callback of a collection",
            Section::Client => "GC_call_with_alloc_lock or after GC_alloc_lock",
            Section::StoppedWorld => "a world that GC_stop_world_external stopped",
        }
    }
}

/// See the module. A bare lock without guards: see [`crate::state`].
pub struct AllocatorLock {
    lock: HeldLock,
    /// A [`Section`]. Written by the holder, read by it alone.
    section: AtomicU8,
}

/// The calling thread's number for the lock: an address of its own that is never null.
#[inline(always)]
fn own() -> usize {
    thread_word_address() as usize
}

impl AllocatorLock {
    /// A free lock.
    pub const fn new() -> AllocatorLock {
        AllocatorLock {
            lock: HeldLock::new(),
            section: AtomicU8::new(Section::Own as u8),
        }
    }

    /// Takes the lock, or enters again if the calling thread has it. `is_alone` is asked in a section of the client's
    /// only: whether the calling thread is the one registered thread.
    #[inline]
    pub fn lock(&self, is_alone: impl FnOnce() -> bool) {
        if !self.lock.lock(own()) {
            self.enter_again(is_alone);
        }
    }

    /// Takes the lock if no thread has it, the calling one included, or one who yields gives it back at once.
    pub fn try_lock(&self) -> bool {
        self.lock.try_lock(own())
    }

    /// Takes the lock if no thread has it or waits for it. The calling thread looks at [`AllocatorLock::waiting`] often, and gives
    /// the lock back with [`AllocatorLock::unlock_yielding`] as soon as that is not 0.
    pub fn try_lock_to_yield(&self) -> bool {
        self.lock.try_lock_to_yield(own())
    }

    /// Undoes `try_lock_to_yield`.
    pub fn unlock_yielding(&self) {
        self.lock.unlock_yielding();
    }

    /// How many threads wait for the lock.
    pub fn waiting(&self) -> &AtomicU32 {
        self.lock.waiting()
    }

    /// Whether the lock seems free, and nobody waits for it.
    pub fn is_unwanted(&self) -> bool {
        self.lock.is_unwanted()
    }

    /// In a forked child: threads that waited exist in the parent only.
    pub fn forget_waiting_after_fork(&self) {
        self.lock.forget_waiting_after_fork();
    }

    /// Undoes one `lock`.
    #[inline]
    pub fn unlock(&self) {
        self.lock.unlock();
    }

    /// Wakes all who wait for the lock: one that an earlier holder woke may never come to take it.
    pub fn wake_all(&self) {
        self.lock.wake_all();
    }

    /// Whether the calling thread holds the lock.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.lock.is_held_by(own())
    }

    /// Whether the calling thread holds the lock for code of this library's, which never asks for it again.
    pub fn is_in_own_code(&self) -> bool {
        self.is_own() && self.section.load(Ordering::Relaxed) == Section::Own as u8
    }

    /// What the calling thread runs, if it holds the lock.
    pub fn own_section(&self) -> Option<&'static str> {
        self.is_own()
            .then(|| Section::of(self.section.load(Ordering::Relaxed)).describe())
    }

    /// Calls `body` as a section of a kind. The calling thread holds the lock. If `body` is left by `longjmp`, the lock
    /// stays held and the section open: such a program goes on as it does without a lock.
    pub fn run<R>(&self, section: Section, body: impl FnOnce() -> R) -> R {
        let outer = self.open(section);
        let result = body();
        self.open(outer);
        result
    }

    /// From now on the holder runs code of a kind; returns what it ran before. Nobody else writes, so this is no swap, which
    /// would take as long as the lock: some programs look up each entry of a table in a section.
    pub fn open(&self, section: Section) -> Section {
        let outer = self.section.load(Ordering::Relaxed);
        self.section.store(section as u8, Ordering::Relaxed);
        Section::of(outer)
    }

    /// After a `lock` of the client's own: opens its section, unless it is inside another one.
    pub fn open_outermost(&self, section: Section) {
        if !self.lock.is_inner() {
            self.open(section);
        }
    }

    #[cold]
    fn enter_again(&self, is_alone: impl FnOnce() -> bool) {
        let section = Section::of(self.section.load(Ordering::Relaxed));
        let reason = match section {
            Section::Own => "that is forbidden, and",
            _ if is_alone() => return self.lock.enter_again(),
            _ => "a program with several threads may not do that, and",
        };
        die(format_args!(
            "the library was called in {}, where {reason} the calling thread would wait for itself for ever: \
             it holds the allocator lock. Make that call before that section or after it",
            section.describe(),
        ));
    }
}
