//! The stop protocol under loom: the shipped words of `stop::protocol`, through the sync facade. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p gleaner-plans --release --test loom_stop`.
//!
//! A signal that reaches a thread is modelled as the thread calling `stop_here`, at moments of its own choice and as
//! often as it likes: that is what the handler does. A signal that comes late is a thread that calls late. What the
//! stopper may rely on is in `Stage`: between `has_stopped` and `resume` the thread's words belong to the stopper, and
//! loom fails the model if the thread touches them meanwhile.
//!
//! The crates below are built under loom, too; they take the constructors and cells that depend on it from the facade.
#![cfg(loom)]

use std::sync::Arc;

use gleaner_base::sync::{
    AtomicBool, AtomicU32, Ordering, RawLock, UnsafeCell, futex_wait, futex_wake,
};
use gleaner_plans::mark_sweep::stop::protocol::{Station, World};
use loom::thread;

fn check(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// A world with one mutator.
struct Stage {
    world: World,
    station: Station,
    /// What the mutator works on while it runs, and the collector while it is stopped.
    heap: UnsafeCell<usize>,
    /// Set when no stop will come any more; then the mutator stops answering.
    over: AtomicBool,
}

// SAFETY: the protocol decides who may touch the heap; loom checks that it does.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

impl Stage {
    fn new() -> Arc<Stage> {
        Arc::new(Stage {
            world: World::new(),
            station: Station::new(),
            heap: UnsafeCell::new(0),
            over: AtomicBool::new(false),
        })
    }

    /// The mutator: works, and takes the signals that reach it, until it is told that none will come.
    fn mutate(&self) {
        let mut word = 1;
        loop {
            let over = self.over.load(Ordering::Acquire);
            // SAFETY: the thread runs, so the heap is its own.
            self.heap.with_mut(|heap| unsafe { *heap += 1 });
            if over {
                return;
            }
            self.world.stop_here(&self.station, word);
            word += 1;
            thread::yield_now();
        }
    }

    /// The stopper: waits until the mutator has stopped in this epoch.
    fn stop(&self) -> u32 {
        self.stop_with(1)
    }

    /// As `stop`, by sleeps of at most this many nanoseconds.
    fn stop_with(&self, nanoseconds: u64) -> u32 {
        let epoch = self.world.begin(std::ptr::null());
        while !self.world.has_stopped(&self.station, epoch) {
            let ticket = self.world.ticket();
            if !self.world.has_stopped(&self.station, epoch) {
                self.world.sleep(ticket, nanoseconds);
            }
        }
        epoch
    }

    /// What a collection does in the stopped world.
    fn collect(&self) {
        assert!(self.world.is_stopped());
        assert!(
            self.station.stack_pointer() > 0,
            "the stack pointer is published before the acknowledgement"
        );
        // SAFETY: the mutator is stopped.
        self.heap.with_mut(|heap| unsafe { *heap += 100 });
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn total(&self) -> usize {
        // SAFETY: the mutator has been joined.
        self.heap.with(|heap| unsafe { *heap })
    }
}

fn start(stage: &Arc<Stage>) -> thread::JoinHandle<()> {
    let stage = stage.clone();
    thread::spawn(move || stage.mutate())
}

/// The thread is stopped, sees what the collector did, and goes on.
#[test]
fn a_stop_and_a_resume() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        stage.stop();
        stage.collect();
        stage.end();
        stage.world.resume();
        mutator.join().unwrap();
        assert!(stage.total() >= 101);
    });
}

/// The acknowledgement wakes the stopper: it need not wait until it would send signals again.
#[test]
fn an_acknowledgement_wakes_the_stopper() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        stage.stop_with(u64::MAX);
        stage.collect();
        stage.end();
        stage.world.resume();
        mutator.join().unwrap();
    });
}

/// The second stop begins while the thread may still be on its way out of the first: the number tells it.
#[test]
fn a_thread_that_leaves_late_stops_again() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        let first = stage.stop();
        stage.collect();
        stage.world.resume();
        let second = stage.stop();
        assert_eq!(second, first + 2);
        stage.collect();
        stage.end();
        stage.world.resume();
        mutator.join().unwrap();
        assert!(stage.total() >= 201);
    });
}

/// A thread that gets one signal, and stops once.
struct Signalled {
    station: Station,
    signal: AtomicU32,
}

/// Two threads: nobody's acknowledgement stands for the other's.
#[test]
fn two_threads_are_both_awaited() {
    check(Some(2), || {
        let stage = Stage::new();
        let others = [0, 1].map(|_| {
            Arc::new(Signalled {
                station: Station::new(),
                signal: AtomicU32::new(0),
            })
        });
        let threads = others.clone().map(|own| {
            let stage = stage.clone();
            thread::spawn(move || {
                while own.signal.load(Ordering::Acquire) == 0 {
                    futex_wait(&own.signal, 0);
                }
                stage.world.stop_here(&own.station, 7);
            })
        });
        let epoch = stage.world.begin(std::ptr::null());
        for other in &others {
            other.signal.store(1, Ordering::Release);
            futex_wake(&other.signal, 1);
        }
        while !others
            .iter()
            .all(|other| stage.world.has_stopped(&other.station, epoch))
        {
            thread::yield_now();
        }
        assert!(
            others
                .iter()
                .all(|other| other.station.stack_pointer() == 7)
        );
        stage.world.resume();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

/// A held thread counts as stopped; it runs again only when it is let go and the world runs.
#[test]
fn a_held_thread_is_stopped_until_it_is_released() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        stage.station.hold();
        while !stage.station.is_held() {
            thread::yield_now();
        }
        stage.stop();
        stage.collect();
        stage.end();
        stage.world.resume();
        stage.station.release();
        mutator.join().unwrap();
    });
}

/// Held, let go, and held again at once: the thread may still be leaving the first hold. A stopper that sees it as held
/// may rely on that, also a stop that counts it as stopped.
#[test]
fn a_thread_held_again_at_once_does_not_slip_through() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        stage.station.hold();
        while !stage.station.is_held() {
            thread::yield_now();
        }
        stage.station.release();
        stage.station.hold();
        while !stage.station.is_held() {
            thread::yield_now();
        }
        // SAFETY: the mutator is held.
        stage.heap.with_mut(|heap| unsafe { *heap += 100 });
        stage.end();
        stage.station.release();
        mutator.join().unwrap();
        assert!(stage.total() >= 101);
    });
}

/// A stop begins while the thread is leaving a hold.
#[test]
fn a_thread_released_just_before_a_stop_is_awaited() {
    check(Some(3), || {
        let stage = Stage::new();
        let mutator = start(&stage);
        stage.station.hold();
        while !stage.station.is_held() {
            thread::yield_now();
        }
        stage.station.release();
        stage.stop();
        stage.collect();
        stage.end();
        stage.world.resume();
        mutator.join().unwrap();
    });
}

/// A mutator that blocks: in a region it answers no signal and leaves the heap alone, and the one that stops does not
/// wait for it. The lock is the allocator's; it is held from the beginning of a stop to its end.
struct Regions {
    stage: Arc<Stage>,
    lock: RawLock,
    /// Protected by the lock.
    is_blocked: UnsafeCell<bool>,
}

// SAFETY: `is_blocked` is used under the lock, the heap of the stage by the running mutator or in a stopped world; loom
// checks that.
unsafe impl Sync for Regions {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Regions {}

impl Regions {
    fn new() -> Arc<Regions> {
        Arc::new(Regions {
            stage: Stage::new(),
            lock: RawLock::new(),
            is_blocked: UnsafeCell::new(false),
        })
    }

    /// Enters a region, or goes back to it from an active section. A signal comes through while the thread waits.
    fn block(&self) {
        while !self.lock.try_lock() {
            self.stage.world.stop_here(&self.stage.station, 1);
            thread::yield_now();
        }
        // SAFETY: the lock is held.
        self.is_blocked
            .with_mut(|is_blocked| unsafe { *is_blocked = true });
        self.lock.unlock();
    }

    /// Leaves a region, or begins an active section in it.
    fn go_on(&self) {
        self.lock.lock();
        // SAFETY: the lock is held.
        self.is_blocked
            .with_mut(|is_blocked| unsafe { *is_blocked = false });
        self.lock.unlock();
        let stage = &self.stage;
        if stage.station.is_on_hold() {
            stage.world.stop_here(&stage.station, 1);
        }
    }

    fn start(self: &Arc<Self>) -> thread::JoinHandle<()> {
        let regions = self.clone();
        thread::spawn(move || {
            regions.block();
            regions.go_on();
            // SAFETY: the thread runs, in an active section.
            regions.stage.heap.with_mut(|heap| unsafe { *heap += 1 });
            regions.block();
            regions.go_on();
            regions.stage.mutate();
        })
    }

    /// Waits until the thread is in a region or `is_still`; the caller holds the lock.
    fn wait(&self, is_still: impl Fn() -> bool) {
        let world = &self.stage.world;
        loop {
            let ticket = world.ticket();
            // SAFETY: the lock is held.
            if is_still() || self.is_blocked.with(|is_blocked| unsafe { *is_blocked }) {
                return;
            }
            world.sleep(ticket, 1);
        }
    }
}

/// A collection finds the thread before its region, in it, in an active section of it, or behind it.
#[test]
fn a_stop_leaves_blocking_regions_alone() {
    check(Some(2), || {
        let regions = Regions::new();
        let mutator = regions.start();
        let stage = &regions.stage;
        regions.lock.lock();
        let epoch = stage.world.begin(std::ptr::null());
        regions.wait(|| stage.world.has_stopped(&stage.station, epoch));
        // SAFETY: the mutator is stopped, or blocked and comes back through the lock.
        stage.heap.with_mut(|heap| unsafe { *heap += 100 });
        stage.world.resume();
        regions.lock.unlock();
        stage.end();
        mutator.join().unwrap();
        assert!(stage.total() >= 102);
    });
}

/// A thread that is to be held while it blocks stays where it leaves its region, or where a section in it begins.
#[test]
fn a_thread_held_in_a_region_stays_when_it_leaves() {
    check(Some(2), || {
        let regions = Regions::new();
        let mutator = regions.start();
        let stage = &regions.stage;
        regions.lock.lock();
        stage.station.hold();
        regions.wait(|| stage.station.is_held());
        regions.lock.unlock();
        // SAFETY: the mutator is held, or will be before it touches the heap.
        stage.heap.with_mut(|heap| unsafe { *heap += 100 });
        stage.end();
        stage.station.release();
        mutator.join().unwrap();
        assert!(stage.total() >= 102);
    });
}
