//! The one heap of the process and its lock: who may touch the heap, and when.
//!
//! The heap is reached through a [`Locked`], which exists where the calling thread holds the allocator lock, or is the
//! one that starts the heap. It is no guard: the thread that takes the lock gives it back by hand on every way out,
//! since frames that call client code may be left by any route. The lock is never held while finalizers or other client
//! code runs, except in the callbacks that libgc defines as running with it ([`crate::lock`]).
//!
//! # Invariants
//! - At most one reference to the heap is in use. A `Locked` gives references for as long as it is borrowed itself, and
//!   client code runs either in [`Locked::run_client`], which borrows it, or in [`lend`], which borrows the reference
//!   of the collection in progress, or after [`Locked::leave_to_client`], which ends it. Only in these sections the
//!   holder gets a second `Locked`: elsewhere taking the lock again ends the process.
//! - This file knows none of those that use the heap; [`crate::start`] puts the heap in place.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::Gate;
use gleaner_mem::Address;
use gleaner_os::{environment, fork, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::stop::protocol::World;
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_spaces::mark_sweep::beside::BesideProgram;
use gleaner_spaces::mark_sweep::block::BlockTable;
use gleaner_spaces::mark_sweep::scan::MarkContext;
use gleaner_work::Crew;

use crate::lock::{AllocatorLock, Section};
use crate::message::{self, die};

/// How long the fault `section-end-late` holds a thread up.
const HELD_UP_NS: u64 = 20_000_000;

/// The allocator lock.
static LOCK: AllocatorLock = AllocatorLock::new();
/// Passed by threads that take locks of the loader or the C library, without the allocator lock; closed by [`Started::lock_all`].
pub static LOADER_GATE: Gate = Gate::new();
/// Helper threads of the heap.
pub static CREW: Crew = Crew::new();
/// The words by which threads are stopped.
pub static WORLD: World = World::new();

struct HeapCell(UnsafeCell<MaybeUninit<Heap>>);
// SAFETY: references to the heap come from a `Locked` only, so one thread at a time has any.
unsafe impl Sync for HeapCell {}
static HEAP: HeapCell = HeapCell(UnsafeCell::new(MaybeUninit::uninit()));
/// The heap while a collection lends it to a callback, else null. It is always the one in `HEAP`: what differs is that
/// a callback reaches it through the reference that the collection works with. Written under the lock.
static LENT: AtomicPtr<Heap> = AtomicPtr::new(core::ptr::null_mut());
/// Set while a collection is in progress. Written under the lock.
static COLLECTING: AtomicBool = AtomicBool::new(false);

/// What readers without the lock need; set once at the start, before `PROGRESS` says so.
static CONTEXT: AtomicPtr<MarkContext> = AtomicPtr::new(core::ptr::null_mut());
/// What the helper's turns share with the heap; set with `CONTEXT`.
static BESIDE: AtomicPtr<BesideProgram> = AtomicPtr::new(core::ptr::null_mut());
/// The record of the process's first thread.
pub static MAIN_THREAD: AtomicPtr<Mutator> = AtomicPtr::new(core::ptr::null_mut());

const UNTOUCHED: u32 = 0;
const STARTING: u32 = 1;
const READY: u32 = 2;
static PROGRESS: AtomicU32 = AtomicU32::new(UNTOUCHED);

/// The right to put the heap in place. There is one in the life of the process.
pub struct Starting(());

impl Starting {
    /// Nothing if a thread has this right already.
    pub fn claim() -> Option<Starting> {
        PROGRESS
            .compare_exchange(UNTOUCHED, STARTING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
            .then_some(Starting(()))
    }

    /// Puts the heap in place. No other thread reaches it before [`Locked::publish`].
    #[inline(always)]
    pub fn install(self, heap: Heap) -> Locked {
        // SAFETY: only the owner of the one `Starting` comes here, once; the heap is not read before `publish`.
        Locked(unsafe { NonNull::from((*HEAP.0.get()).write(heap)) })
    }
}

/// Proof that the heap has started.
#[derive(Clone, Copy)]
pub struct Started(());

impl Started {
    /// Takes the allocator lock, or enters again if the calling thread has it and is in a section of the client's.
    #[inline]
    pub fn lock(self) -> Locked {
        take_lock();
        locked()
    }

    /// The same, but a turn goes on in which the helper marks beside the program. Until `end_turn_beside` of the heap, the caller does
    /// nothing but get cells for a list of the calling thread's, look up or change the tables of finalizers and links, or run
    /// client code.
    #[inline]
    pub fn lock_beside_turn(self) -> Locked {
        take_lock();
        Locked(heap_pointer())
    }

    /// Takes the allocator lock if no thread has it, the calling one included, or one that marks in the background gives it back
    /// at once.
    pub fn try_lock(self) -> Option<Locked> {
        LOCK.try_lock().then(locked)
    }

    /// Takes the allocator lock if no thread has it or waits for it, to give it back with [`Locked::unlock_yielding`] as soon as
    /// one waits ([`waiting`]).
    pub fn try_lock_to_yield(self) -> Option<Locked> {
        LOCK.try_lock_to_yield().then(|| Locked(heap_pointer()))
    }

    /// As [`Started::lock`], and no other thread holds any lock of ours or has one of the loader's or the C library's on
    /// our behalf: for a fork, and before a thread is held up. Nothing can be allocated.
    pub fn lock_all(self) -> Locked {
        notice_fork(); // Threads that are inside the gate may exist in the parent only.
        LOADER_GATE.close();
        let heap = self.lock();
        crate::ARENA.lock();
        heap
    }
}

/// The heap, where the calling thread holds the allocator lock or starts the heap. See the module.
#[must_use = "the lock stays held until `unlock`"]
pub struct Locked(NonNull<Heap>);

impl Locked {
    /// The heap where the interface makes the lock the caller's affair.
    ///
    /// # Safety
    /// The calling thread must hold the lock and be in a section of the client's, or no other thread may use the heap
    /// meanwhile. No frame of ours below may have a reference to the heap in use.
    pub unsafe fn by_contract() -> Locked {
        if !is_ready() {
            // A second libgc has its calls of the functions that it exports come here, as the loader binds them.
            die(format_args!(
                "the heap was used before it started. A program that opens libgc by a path, as in \
                 dlopen(\"/usr/lib/.../libgc.so.1\"), has two libraries whose calls mix: let it open \
                 libgc.so.1 without a directory, or put Gleaner's in the place of that file (docs/install.md)"
            ));
        }
        locked()
    }

    /// Gives the lock back, once for each time it was taken.
    #[inline]
    pub fn unlock(self) {
        LOCK.unlock();
    }

    /// Gives a lock back that was taken with [`Started::try_lock_to_yield`].
    pub fn unlock_yielding(self) {
        LOCK.unlock_yielding();
    }

    /// Ends what [`Started::lock_all`] began. All who wait for the lock are woken: the one that was woken last may be held up.
    pub fn unlock_all(self) {
        crate::ARENA.unlock();
        LOCK.unlock();
        LOCK.wake_all();
        LOADER_GATE.open();
    }

    /// Runs client code with the lock held. If it is left by `longjmp`, the lock stays held and the section open: such
    /// a program goes on as it does without a lock.
    pub fn run_client<R>(&mut self, body: impl FnOnce() -> R) -> R {
        LOCK.run(Section::Client, body)
    }

    /// The lock stays held, by client code that goes on in a section of this kind.
    pub fn leave_to_client(self, section: Section) {
        LOCK.open_outermost(section);
    }

    /// Ends the client's section that `leave_to_client` began, and gives the lock back.
    pub fn end_of_client(self) {
        LOCK.open_outermost(Section::Own);
        self.unlock_behind_client();
    }

    /// Gives the lock back where a section of the client's has ended. Who takes it and stops the world waits until the
    /// calling thread returns from here.
    #[inline]
    pub fn unlock_behind_client(self) {
        let record = Mutator::current();
        if record.is_null() {
            return LOCK.unlock();
        }
        // SAFETY: the calling thread's record stays mapped, and the words of a station are atomic.
        let station = unsafe { &(*record).station };
        station.begin_leaving();
        LOCK.unlock();
        if faults::armed(FaultPoint::SectionEndLate) {
            threads::sleep_ns(HELD_UP_NS);
        }
        station.end_leaving();
    }

    /// The lock stays held by our own code, which comes back with [`Locked::by_contract`].
    pub fn keep(self) {}

    /// The heap has started: from now on other threads find it.
    pub fn publish(mut self) {
        CONTEXT.store(&raw mut *self.context, Ordering::Relaxed);
        BESIDE.store(&raw mut *self.beside, Ordering::Relaxed);
        // Release: partner of the Acquire in `is_ready`.
        PROGRESS.store(READY, Ordering::Release);
    }
}

impl Deref for Locked {
    type Target = Heap;

    #[inline(always)]
    fn deref(&self) -> &Heap {
        // SAFETY: the heap is in place before the first `Locked`, and no other reference to it is in use (see the
        // module).
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Locked {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Heap {
        // SAFETY: the heap is in place before the first `Locked`, and no other reference to it is in use (see the
        // module).
        unsafe { self.0.as_mut() }
    }
}

#[inline]
fn heap_pointer() -> NonNull<Heap> {
    NonNull::new(LENT.load(Ordering::Relaxed)).unwrap_or_else(|| {
        // SAFETY: the address of a static.
        unsafe { NonNull::new_unchecked(HEAP.0.get().cast()) }
    })
}

/// The heap for the holder of the lock, and nothing of it for anybody else: a turn of the helper's ends first.
#[inline]
fn locked() -> Locked {
    let mut locked = Locked(heap_pointer());
    if has_turn() {
        locked.end_turn_beside();
    }
    locked
}

/// Whether a helper may be in a turn beside the program. Under the lock. Where the heap is in use, as in a callback of a
/// collection, none is.
#[inline]
fn has_turn() -> bool {
    let beside = BESIDE.load(Ordering::Relaxed);
    // SAFETY: set at the start, and stays where it is.
    !beside.is_null() && unsafe { (*beside).has_begun() }
}

/// Makes the heap whole where this process is the child of a fork by a system call of the program's own, of which no hook knew, or
/// of one that was not to be handled. Before the lock is taken, and before anybody is waited for who may exist in the parent only.
#[inline]
pub fn notice_fork() {
    if fork::is_new_process() {
        begin_in_child();
    }
}

#[cold]
fn begin_in_child() {
    // Where the calling thread has the lock, no other had it at the fork. Our own code never asks for it again, and is told so.
    let is_own = LOCK.is_own();
    if !is_ready() || LOCK.is_in_own_code() {
        return;
    }
    if !fork::claim_new_process() {
        // Another thread of this process came first. It has the lock before it says that the process is whole.
        while fork::is_new_process() {
            gleaner_base::sync::yield_now();
        }
        return;
    }
    if !is_own && (crate::ARENA.is_locked() || !LOCK.try_lock()) {
        fork::mark_process(); // It is said once, whatever the client does then.
        die(format_args!(
            "this process was forked by a system call, without the functions of pthread_atfork, while another thread was inside the \
             library: what that thread changed is not whole here. Fork with fork()"
        ));
    }
    let mut heap = Locked(heap_pointer());
    (crate::BEGIN_IN_CHILD)(&mut heap);
    if !is_own {
        heap.unlock();
    }
}

#[inline]
fn take_lock() {
    notice_fork();
    LOCK.lock(|| {
        // SAFETY: asked in a section of the client's, where no reference to the heap is in use; a registered thread has
        // found the heap started, and holds the lock here.
        !Mutator::current().is_null() && unsafe { heap_pointer().as_ref() }.mutators.count() == 1
    });
}

/// Runs `body` under the lock, on the heap if it has started: does not start it.
pub fn guarded<R>(body: impl FnOnce(Option<&mut Heap>) -> R) -> R {
    take_lock();
    let mut heap = started().map(|_| locked());
    let result = body(heap.as_deref_mut());
    LOCK.unlock();
    result
}

/// Runs client code in the middle of a collection: the functions that it calls reach the heap through `heap`, and may
/// take the lock again.
pub fn lend<R>(heap: &mut Heap, body: impl FnOnce() -> R) -> R {
    let outer = LENT.swap(heap, Ordering::Relaxed);
    let result = LOCK.run(Section::Callback, body);
    LENT.store(outer, Ordering::Relaxed);
    result
}

/// Whether the calling thread holds the lock.
#[inline]
pub fn is_locked() -> bool {
    LOCK.is_own()
}

/// How many threads wait for the allocator lock.
pub fn waiting() -> &'static AtomicU32 {
    LOCK.waiting()
}

/// Whether the allocator lock seems free, and nobody waits for it.
pub fn is_unwanted() -> bool {
    LOCK.is_unwanted()
}

/// In a forked child: threads that waited for the allocator lock exist in the parent only.
pub fn forget_waiting_after_fork() {
    LOCK.forget_waiting_after_fork();
}

/// What the calling thread runs, if it holds the lock.
pub fn own_section() -> Option<&'static str> {
    LOCK.own_section()
}

/// Whether no thread holds the lock at this moment.
pub fn is_unlocked() -> bool {
    let free = LOCK.try_lock();
    if free {
        LOCK.unlock();
    }
    free
}

/// Runs a collection or a step of one, with the lock held: our own code, also where the client's code holds it.
pub fn in_collection<R>(body: impl FnOnce() -> R) -> R {
    LOCK.run(Section::Own, || {
        COLLECTING.store(true, Ordering::Relaxed);
        let result = body();
        COLLECTING.store(false, Ordering::Relaxed);
        result
    })
}

/// Whether the calling thread runs a callback of a collection.
pub fn is_collecting() -> bool {
    is_locked() && COLLECTING.load(Ordering::Relaxed)
}

/// The heap as it may be seen without the lock; nothing before it has started.
#[inline]
pub fn view() -> Option<HeapView> {
    // SAFETY: the heap stands in a static.
    is_ready().then(|| unsafe { HeapView::new((*HEAP.0.get()).as_ptr()) })
}

/// Proof that the heap has started, if it has.
#[inline]
pub fn started() -> Option<Started> {
    is_ready().then_some(Started(()))
}

/// Whether the heap has started.
#[inline]
pub fn is_ready() -> bool {
    // Acquire: partner of the Release in `publish`.
    PROGRESS.load(Ordering::Acquire) == READY
}

/// Whether the heap has started, or is just starting.
pub fn is_started() -> bool {
    PROGRESS.load(Ordering::Acquire) != UNTOUCHED
}

/// The marking context, for readers without the lock. The heap must have started.
#[inline]
pub fn context() -> &'static MarkContext {
    // SAFETY: set before READY and never freed; what readers use of it does not change.
    unsafe { &*CONTEXT.load(Ordering::Relaxed) }
}

/// Where objects are, for readers without the lock.
#[inline]
pub fn table() -> &'static BlockTable {
    &context().table
}

/// Writes the last events to standard error.
pub fn print_last_events() {
    if !is_ready() {
        return;
    }
    // SAFETY: the process is about to end; the ring may be read at any time.
    let heap = unsafe { (*HEAP.0.get()).assume_init_ref() };
    for event in heap.events.iter() {
        let mut line = LineBuffer::<512>::new();
        let _ = core::fmt::Write::write_fmt(&mut line, format_args!("gleaner:   {event}\n"));
        message::write_error(line.as_bytes());
    }
}

/// Reads an environment variable.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    environment::variable(name)
}

/// A pointer as an address.
#[inline(always)]
pub fn address(pointer: *const c_void) -> Address {
    Address::of(pointer)
}
