//! The world: which threads are mutators, which of them run, and the stop.
//!
//! A thread runs, or it has left: for a lock, at a poll, or since it asked for a collection. The world is stopped when
//! nobody runs, and nobody enters it before it is resumed. A thread that asked for a collection waits until one has
//! ended: it cannot have been over before the thread left.
//!
//! No thread calls MMTk with the lock of the world.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mmtk::util::VMMutatorThread;

/// What precedes the roots of a call, on the stack of its thread.
#[repr(C)]
pub struct Frame {
    /// The frame of the caller.
    pub previous: *mut Frame,
    /// How many roots follow.
    pub count: usize,
}

/// What the collector knows of a mutator's thread: MMTk's name for the thread is the address of this.
#[repr(C)]
pub struct Thread {
    /// The innermost frame.
    pub frames: *mut Frame,
    /// MMTk's side of it.
    pub mutator: *mut (),
}

/// What collections cost the mutators.
#[derive(Clone, Copy)]
pub struct Pauses {
    /// How many there were.
    pub collections: u64,
    /// How many of them were of everything.
    pub full: u64,
    /// How long they took, from when the first thread waited for each.
    pub total: Duration,
    /// The longest time of them.
    pub longest: Duration,
}

struct World {
    threads: Vec<VMMutatorThread>,
    /// How many threads have not left.
    running: usize,
    stopping: bool,
    /// When the first thread began to wait for the next collection.
    asked: Option<Instant>,
    pauses: Pauses,
}

static WORLD: Mutex<World> = Mutex::new(World {
    threads: Vec::new(),
    running: 0,
    stopping: false,
    asked: None,
    pauses: Pauses {
        collections: 0,
        full: 0,
        total: Duration::ZERO,
        longest: Duration::ZERO,
    },
});
/// Nobody runs any more.
static STILL: Condvar = Condvar::new();
/// The world is not stopped any more.
static RESUMED: Condvar = Condvar::new();
/// A copy of [`World::stopping`]. Who reads it late stops late; what the threads know of each other comes with the
/// lock.
static STOPPING: AtomicBool = AtomicBool::new(false);

fn world() -> MutexGuard<'static, World> {
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_while(
    condition: &Condvar,
    world: MutexGuard<'static, World>,
    still: impl Fn(&World) -> bool,
) -> MutexGuard<'static, World> {
    condition
        .wait_while(world, |world| still(world))
        .unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn leave(&mut self) {
        self.running -= 1;
        if self.stopping && self.running == 0 {
            STILL.notify_one();
        }
    }

    fn set_stopping(&mut self, stopping: bool) {
        self.stopping = stopping;
        STOPPING.store(stopping, Ordering::Relaxed);
    }
}

fn enter_from(world: MutexGuard<'static, World>) {
    wait_while(&RESUMED, world, |world| world.stopping).running += 1;
}

/// Whether threads are to leave.
#[inline(always)]
pub fn is_stopping() -> bool {
    STOPPING.load(Ordering::Relaxed)
}

/// The calling thread leaves the world: it does not touch the heap before it enters.
pub fn leave() {
    world().leave();
}

/// The calling thread enters the world when that is not stopped.
pub fn enter() {
    enter_from(world());
}

/// The calling thread, which has entered, is a mutator from now on.
pub fn add(name: VMMutatorThread) {
    world().threads.push(name);
}

/// The calling thread is a mutator no more, and leaves.
pub fn remove(name: VMMutatorThread) {
    let mut world = world();
    world.threads.retain(|&other| other != name);
    world.leave();
}

/// The calling thread asked for a collection. It leaves, and enters when one has ended.
pub fn await_collection() {
    let mut world = world();
    world.asked.get_or_insert_with(Instant::now);
    let before = world.pauses.collections;
    world.leave();
    enter_from(wait_while(&RESUMED, world, |world| {
        world.pauses.collections == before
    }));
}

/// A worker stops the world, and gets all mutators.
pub fn stop() -> Vec<VMMutatorThread> {
    let mut world = world();
    world.set_stopping(true);
    wait_while(&STILL, world, |world| world.running > 0)
        .threads
        .clone()
}

/// A worker resumes the world after a collection, of everything or not.
pub fn resume(everything: bool) {
    let mut world = world();
    world.set_stopping(false);
    let time = world.asked.take().map_or(Duration::ZERO, |at| at.elapsed());
    let pauses = &mut world.pauses;
    pauses.collections += 1;
    pauses.full += u64::from(everything);
    pauses.total += time;
    pauses.longest = pauses.longest.max(time);
    drop(world);
    RESUMED.notify_all();
}

/// All mutators.
pub fn threads() -> Vec<VMMutatorThread> {
    world().threads.clone()
}

/// How many mutators there are.
pub fn count() -> usize {
    world().threads.len()
}

/// What collections cost so far.
pub fn pauses() -> Pauses {
    world().pauses
}
