//! Stops by signal, with real threads: many more than there are processors, coming and going, allocating and sleeping
//! in blocking regions, while the world is stopped thousands of times.
//!
//! The threads share one counter each with the stopper: a thread raises it all the time, and it must not move while
//! the world is stopped. A door's lock is played by a `RawLock`.

#![cfg(not(loom))]

use core::ffi::{c_int, c_void};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gleaner_base::contexts::WorldStopped;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::RawLock;
use gleaner_mem::Address;
use gleaner_os::signals::{Delivery, Information};
use gleaner_os::{signals, threads};
use gleaner_plans::mark_sweep::mutator::{Mutator, Mutators};
use gleaner_plans::mark_sweep::stop::protocol::World;
use gleaner_plans::mark_sweep::stop::signal::{
    self, Cause, Refused, here, hold_thread, on_suspend, resume_world,
};

/// As a collector does.
fn stop_world<'a>(
    world: &'a World,
    mutators: &Mutators,
    signal: i32,
) -> Result<WorldStopped<'a>, Refused> {
    // SAFETY: each test holds the door's lock from here until the world is resumed.
    unsafe { signal::stop_world(world, mutators, signal) }
}

const SIGNAL: i32 = signals::DEFAULT_SUSPEND;

/// What a door owns.
struct Door {
    lock: RawLock,
    world: World,
    /// Under the lock.
    mutators: UnsafeCell<Mutators>,
    over: AtomicBool,
    /// Threads that were registered over time.
    registered: AtomicUsize,
    blocked: AtomicUsize,
}

// SAFETY: the list is used under the lock.
unsafe impl Sync for Door {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Door {}

impl Door {
    fn new() -> &'static Door {
        assert!(signals::install_suspend_handler(SIGNAL, on_suspend));
        Box::leak(Box::new(Door {
            lock: RawLock::new(),
            world: World::new(),
            mutators: UnsafeCell::new(Mutators::new()),
            over: AtomicBool::new(false),
            registered: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
        }))
    }

    #[allow(clippy::mut_from_ref, reason = "under the lock")]
    fn mutators(&self) -> &mut Mutators {
        assert!(self.lock.is_locked());
        // SAFETY: the caller holds the lock.
        unsafe { &mut *self.mutators.get() }
    }

    fn register(&'static self) -> *mut Mutator {
        self.lock.lock();
        let mutators = self.mutators();
        // SAFETY: fresh memory that is never freed, or a record of the list.
        let record = unsafe {
            if mutators.unused().is_none() {
                mutators.add(Box::into_raw(Box::<Mutator>::new_uninit()).cast());
            }
            let record = mutators.unused().unwrap();
            mutators.occupy(
                record,
                &raw const self.world,
                Address::new(threads::stack_top()),
                false,
            );
            record
        };
        threads::set_thread_word(record as usize);
        self.lock.unlock();
        signals::unblock(SIGNAL);
        self.registered.fetch_add(1, Ordering::Relaxed);
        record
    }

    fn leave(&self, record: *mut Mutator) {
        self.lock.lock();
        threads::set_thread_word(0);
        // SAFETY: the calling thread's own record.
        unsafe { self.mutators().vacate(record) };
        self.lock.unlock();
    }

    /// A blocking region: the thread is not stopped in it, and comes back through the lock.
    fn block(&self, record: *mut Mutator, inside: impl FnOnce()) {
        self.lock.lock();
        // SAFETY: the calling thread's own record, under the lock.
        unsafe { (*record).blocked_at = here() };
        self.lock.unlock();
        inside();
        self.lock.lock();
        // SAFETY: the calling thread's own record, under the lock.
        unsafe { (*record).blocked_at = Address::NULL };
        self.lock.unlock();
        // A thread that was put on hold meanwhile got no signal.
        // SAFETY: the calling thread's own record.
        unsafe { self.world.stop_here(&(*record).station, here().word()) };
        self.blocked.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread's visible work, by slot.
type Work = [AtomicU64; THREADS];
const THREADS: usize = 32;

/// Works, blocks from time to time, and ends after a while.
fn mutate(door: &'static Door, work: &Work, slot: usize, turns: u64) {
    let record = door.register();
    for turn in 0..turns {
        if door.over.load(Ordering::Relaxed) {
            break;
        }
        work[slot].fetch_add(1, Ordering::Relaxed);
        match turn % 64 {
            13 => door.block(record, threads::yield_now),
            37 => threads::yield_now(),
            _ => {}
        }
    }
    door.leave(record);
}

/// Starts a thread again each time it has ended.
fn keep_going(door: &'static Door, work: Arc<Work>, slot: usize) {
    let mut turns = 50 + slot as u64;
    while !door.over.load(Ordering::Relaxed) {
        let work = work.clone();
        std::thread::spawn(move || mutate(door, &work, slot, turns))
            .join()
            .unwrap();
        turns = turns % 3000 + 700;
    }
}

fn snapshot(work: &Work) -> Vec<u64> {
    work.iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn nothing_moves_in_a_stopped_world() {
    const STOPS: u64 = 5_000;
    let door = Door::new();
    let own = door.register();
    let work: Arc<Work> = Arc::new([const { AtomicU64::new(0) }; THREADS]);
    let keepers: Vec<_> = (0..THREADS)
        .map(|slot| {
            let work = work.clone();
            std::thread::spawn(move || keep_going(door, work, slot))
        })
        .collect();
    let (mut stopped, mut moved, mut before) = (0, 0, snapshot(&work));
    let blocked_often = || door.blocked.load(Ordering::Relaxed) > 100;
    let came_and_went = || door.registered.load(Ordering::Relaxed) > THREADS;
    // Until the test saw enough: threads stopped, worked between stops, came and went, and blocked. However long that
    // takes: on a machine with other work the threads get to run now and then only.
    let mut stop = 0;
    while stop < STOPS || stopped <= STOPS || moved <= 10 || !blocked_often() || !came_and_went() {
        door.lock.lock();
        let stopped_world = stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
        assert_eq!(u64::from(door.world.epoch()), stop * 2 + 1);
        // Blocked threads run, but only through the lock do they come back to work.
        let first = snapshot(&work);
        door.mutators().for_each(|record| {
            // SAFETY: records stay mapped, and the thread is stopped, blocked or this one.
            let thread = unsafe { &*record };
            assert!(!thread.gone, "every thread unregisters before it ends");
            if record != own && !thread.is_blocked() {
                let (low, high) = (thread.station.stack_pointer(), thread.stack_base.word());
                assert!(
                    low != 0 && low < high,
                    "a stopped thread's stack is known: {low:#x}..{high:#x}"
                );
                stopped += 1;
            }
        });
        threads::yield_now();
        assert_eq!(snapshot(&work), first, "a thread worked in stop {stop}");
        moved += u64::from(first != before);
        before = first;
        resume_world(&door.world, stopped_world);
        door.lock.unlock();
        threads::yield_now();
        stop += 1;
        if stop > STOPS {
            threads::sleep_ns(1_000_000);
        }
    }
    door.over.store(true, Ordering::Relaxed);
    keepers
        .into_iter()
        .for_each(|keeper| keeper.join().unwrap());
    door.leave(own);
}

/// A thread that is held stays where it is, through stops, until it is let go.
#[test]
fn a_held_thread_stays_held_through_stops() {
    let door = Door::new();
    let own = door.register();
    let work: Arc<Work> = Arc::new([const { AtomicU64::new(0) }; THREADS]);
    let thread = {
        let work = work.clone();
        std::thread::spawn(move || mutate(door, &work, 0, u64::MAX))
    };
    while work[0].load(Ordering::Relaxed) == 0 {
        threads::yield_now();
    }
    for round in 0..500 {
        door.lock.lock();
        let record = door
            .mutators()
            .find(|record| !std::ptr::eq(record, own))
            .unwrap();
        // SAFETY: a record of the list, under the lock.
        let record = unsafe { &*record };
        hold_thread(&door.world, record, SIGNAL).unwrap();
        let count = work[0].load(Ordering::Relaxed);
        if round % 3 == 0 {
            stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
            door.world.resume();
        }
        door.lock.unlock();
        threads::yield_now();
        door.lock.lock();
        assert_eq!(work[0].load(Ordering::Relaxed), count, "round {round}");
        record.station.release();
        door.lock.unlock();
        if round % 2 == 0 {
            threads::yield_now();
        }
    }
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// A record that is used again knows nothing of the thread before: a hold that was never answered holds nobody.
#[test]
fn a_record_used_again_is_not_held() {
    let door = Door::new();
    let record = door.register();
    // SAFETY: the calling thread's own record.
    unsafe { (*record).station.hold() };
    door.leave(record);
    let again = door.register();
    assert_eq!(again, record);
    // SAFETY: the record is the calling thread's again.
    assert!(unsafe { !(*again).station.is_on_hold() && !(*again).station.is_held() });
    door.leave(again);
}

/// A thread that ended without a word is reported, and nobody waits for it.
#[test]
fn a_thread_that_is_gone_is_reported() {
    let door = Door::new();
    let own = door.register();
    let lost = std::thread::spawn(move || door.register() as usize)
        .join()
        .unwrap();
    door.lock.lock();
    stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
    let gone = door
        .mutators()
        .find(|record| record.gone)
        .map(|record| record as usize);
    door.world.resume();
    door.lock.unlock();
    assert_eq!(gone, Some(lost));
    door.leave(own);
}

/// The kernel gives the number of an ended thread to a new one. If that one registers, the old record is flagged at
/// once.
#[test]
fn a_record_whose_number_a_new_thread_has_is_gone() {
    let door = Door::new();
    let own = door.register();
    let old = std::thread::spawn(move || door.register() as usize)
        .join()
        .unwrap();
    let newcomer = std::thread::spawn(move || {
        // SAFETY: a record of the list, whose thread has ended.
        unsafe { (*(old as *mut Mutator)).tid = threads::current_tid() };
        let record = door.register();
        // SAFETY: records are never freed, and the thread of `old` has ended.
        assert!(unsafe { (*(old as *mut Mutator)).gone && !(*record).gone });
        door.lock.lock();
        stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
        door.world.resume();
        door.lock.unlock();
        door.leave(record);
    });
    newcomer.join().unwrap();
    door.leave(own);
}

/// If the new thread does not register, the stopper learns from it that the record is stale, and does not wait for it.
#[test]
fn a_record_whose_number_an_unregistered_thread_has_is_reported() {
    let door = Door::new();
    let own = door.register();
    let old = std::thread::spawn(move || door.register() as usize)
        .join()
        .unwrap();
    let tid = Arc::new(AtomicUsize::new(0));
    let stranger = {
        let tid = tid.clone();
        std::thread::spawn(move || {
            tid.store(threads::current_tid().0 as usize, Ordering::Relaxed);
            // Not a limit that passes or fails the test: it only ends it when somebody waits for this thread.
            for _ in 0..600 {
                threads::sleep_ns(100_000_000);
                if door.over.load(Ordering::Relaxed) {
                    return true;
                }
            }
            false
        })
    };
    while tid.load(Ordering::Relaxed) == 0 {
        threads::yield_now();
    }
    let stale = old as *mut Mutator;
    door.lock.lock();
    // SAFETY: a record of the list, whose thread has ended; under the lock.
    unsafe { (*stale).tid = threads::ThreadId(tid.load(Ordering::Relaxed) as i32) };
    stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
    // SAFETY: a record of the list, whose thread has ended; the lock is held.
    assert!(unsafe { (*stale).gone });
    door.world.resume();
    // SAFETY: a record of the list, whose thread has ended; the lock is held.
    unsafe { (*stale).gone = false };
    // SAFETY: a record of the list, which is never freed; the lock is held, so nobody changes it.
    let record = unsafe { &*stale };
    hold_thread(&door.world, record, SIGNAL).unwrap();
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    assert!(stranger.join().unwrap(), "the stranger was waited for");
    door.leave(own);
}

/// Works, and never blocks, until the test is over.
fn spin(door: &'static Door, work: &AtomicU64) {
    let record = door.register();
    while !door.over.load(Ordering::Relaxed) {
        work.fetch_add(1, Ordering::Relaxed);
        threads::yield_now();
    }
    door.leave(record);
}

/// A signal that the system will not send is an answer, not a wait without end.
#[test]
fn a_refused_signal_ends_the_stop() {
    let door = Door::new();
    let own = door.register();
    let work = Arc::new(AtomicU64::new(0));
    let thread = {
        let work = work.clone();
        std::thread::spawn(move || spin(door, &work))
    };
    while work.load(Ordering::Relaxed) == 0 {
        threads::yield_now();
    }
    let tid = door_thread(door, own);
    door.lock.lock();
    let refused = stop_world(&door.world, door.mutators(), 1000).unwrap_err();
    assert_eq!((refused.thread, refused.cause), (tid, Cause::System(22)));
    door.world.resume();
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// How many signals the handler below lost.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// Takes the first signal for nothing.
extern "C" fn lose_one(signal: c_int, information: *mut Information, context: *mut c_void) {
    if LOST.fetch_add(1, Ordering::Relaxed) > 0 {
        on_suspend(signal, information, context);
    }
}

/// A signal that was lost is sent again, and the stop goes on as soon as it arrives.
#[test]
fn lost_signals_are_sent_again() {
    let door = Door::new();
    let signal = signals::DEFAULT_RESTART;
    assert!(signals::install_suspend_handler(signal, lose_one));
    let own = door.register();
    let work = Arc::new(AtomicU64::new(0));
    let (started, stopped) = (work.clone(), Arc::new(AtomicBool::new(false)));
    let thread = std::thread::spawn(move || {
        signals::unblock(signals::DEFAULT_RESTART);
        spin(door, &started);
    });
    while work.load(Ordering::Relaxed) == 0 {
        threads::yield_now();
    }
    // Not a limit that passes or fails the test: it only ends it when nobody sends the signal again.
    let rescuer = {
        let stopped = stopped.clone();
        let tid = door_thread(door, own);
        std::thread::spawn(move || {
            for _ in 0..600 {
                threads::sleep_ns(100_000_000);
                if stopped.load(Ordering::Relaxed) {
                    return false;
                }
            }
            signals::send(tid, signal);
            true
        })
    };
    door.lock.lock();
    stop_world(&door.world, door.mutators(), signal).unwrap();
    stopped.store(true, Ordering::Relaxed);
    assert!(LOST.load(Ordering::Relaxed) > 1);
    door.world.resume();
    door.lock.unlock();
    assert!(!rescuer.join().unwrap(), "the signal was not sent again");
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// Whether the handler below does nothing.
static IS_DEAF: AtomicBool = AtomicBool::new(true);

extern "C" fn suspend_unless_deaf(
    signal: c_int,
    information: *mut Information,
    context: *mut c_void,
) {
    if !IS_DEAF.load(Ordering::Relaxed) {
        on_suspend(signal, information, context);
    }
}

/// A stop that nobody needs is given up where a thread cannot be told, or does not answer: the world goes on.
#[test]
fn a_stop_that_nobody_needs_is_given_up() {
    const REAL_TIME: c_int = 42;
    let door = Door::new();
    assert!(signals::install_suspend_handler(
        REAL_TIME,
        suspend_unless_deaf
    ));
    let own = door.register();
    let (thread, work) = start_worker(door, move |work| {
        signals::unblock(REAL_TIME);
        spin(door, work);
    });
    door.lock.lock();
    // SAFETY: the lock is held until the world goes on.
    let try_stop = |signal| unsafe { signal::try_stop_world(&door.world, door.mutators(), signal) };
    for signal in [1000, REAL_TIME] {
        assert!(try_stop(signal).is_none() && !door.world.is_stopped());
        let before = work.load(Ordering::Relaxed);
        while work.load(Ordering::Relaxed) == before {
            threads::yield_now();
        }
    }
    IS_DEAF.store(false, Ordering::Relaxed);
    // On a machine that is busy an answer may come too late.
    let stopped = loop {
        if let Some(stopped) = try_stop(REAL_TIME) {
            break stopped;
        }
    };
    assert!(door.world.is_stopped());
    resume_world(&door.world, stopped);
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// The number of the one registered thread that is not the calling one.
fn door_thread(door: &Door, own: *mut Mutator) -> threads::ThreadId {
    door.lock.lock();
    let record = door
        .mutators()
        .find(|record| !std::ptr::eq(record, own))
        .unwrap();
    door.lock.unlock();
    // SAFETY: records stay mapped, and the thread is alive.
    unsafe { (*record).tid }
}

/// Starts a thread that works until the test is over, and waits until it does.
fn start_worker(
    door: &'static Door,
    run: impl FnOnce(&AtomicU64) + Send + 'static,
) -> (std::thread::JoinHandle<()>, Arc<AtomicU64>) {
    let work = Arc::new(AtomicU64::new(0));
    let own_work = work.clone();
    let thread = std::thread::spawn(move || run(&own_work));
    while work.load(Ordering::Relaxed) == 0 {
        assert!(!door.over.load(Ordering::Relaxed));
        threads::yield_now();
    }
    (thread, work)
}

/// The record of the one registered thread that is not the calling one.
fn other_record(door: &'static Door, own: *mut Mutator) -> &'static Mutator {
    door.lock.lock();
    let record = door
        .mutators()
        .find(|record| !std::ptr::eq(record, own))
        .unwrap();
    door.lock.unlock();
    // SAFETY: records stay mapped, and the thread is alive.
    unsafe { &*record }
}

/// A thread that got a signal before it was registered is one to wait for as soon as it is: what it said then is forgotten.
#[test]
fn a_thread_that_was_a_stray_is_waited_for() {
    let door = Door::new();
    let own = door.register();
    let (thread, _) = start_worker(door, move |work| {
        signals::unblock(SIGNAL);
        assert_eq!(
            signals::send(threads::current_tid(), SIGNAL),
            Delivery::Sent
        );
        spin(door, work);
    });
    let record = other_record(door, own);
    door.lock.lock();
    hold_thread(&door.world, record, SIGNAL).unwrap();
    assert!(record.station.is_held(), "it runs");
    record.station.release();
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    // The same of a stop, in which a thread that takes its time is sent the signal again.
    door.over.store(false, Ordering::Relaxed);
    let (thread, work) = start_worker(door, move |work| {
        assert_eq!(
            signals::send(threads::current_tid(), SIGNAL),
            Delivery::Sent
        );
        spin(door, work);
    });
    let record = other_record(door, own);
    faults::arm(FaultPoint::SuspendAckLate, 1);
    door.lock.lock();
    let stopped_world = stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
    assert!(door.world.has_stopped(&record.station, door.world.epoch()) && !record.gone);
    let before = work.load(Ordering::Relaxed);
    threads::yield_now();
    assert_eq!(work.load(Ordering::Relaxed), before);
    resume_world(&door.world, stopped_world);
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// As a thread that gets no processor for a while.
extern "C" fn stop_late(signal: c_int, information: *mut Information, context: *mut c_void) {
    threads::sleep_ns(250_000_000);
    on_suspend(signal, information, context);
}

/// How often the handler of a program ran that it put in the place of the collector's.
static REPLACED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_replaced(_: c_int, _: *mut Information, _: *mut c_void) {
    REPLACED.fetch_add(1, Ordering::Relaxed);
}

/// A signal that was sent again, to a thread that took its time, is not left to what the program installs when the world runs:
/// the default of the suspend signal ends the process.
#[test]
fn a_signal_that_was_sent_again_reaches_no_other_handler() {
    const REAL_TIME: c_int = 41;
    let door = Door::new();
    let own = door.register();
    let (thread, work) = start_worker(door, move |work| {
        signals::unblock(REAL_TIME);
        spin(door, work);
    });
    let record = other_record(door, own);
    for is_held in [false, true] {
        assert!(signals::install_suspend_handler(REAL_TIME, stop_late));
        let replace = || assert!(signals::install_suspend_handler(REAL_TIME, count_replaced));
        door.lock.lock();
        if is_held {
            hold_thread(&door.world, record, REAL_TIME).unwrap();
            replace();
            record.station.release();
        } else {
            let stopped = stop_world(&door.world, door.mutators(), REAL_TIME).unwrap();
            replace();
            resume_world(&door.world, stopped);
        }
        door.lock.unlock();
        let before = work.load(Ordering::Relaxed);
        while work.load(Ordering::Relaxed) == before {
            threads::yield_now();
        }
        assert_eq!(REPLACED.load(Ordering::Relaxed), 0, "held: {is_held}");
    }
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

unsafe extern "C" {
    fn getrlimit(resource: c_int, limits: *mut [u64; 2]) -> c_int;
    fn setrlimit(resource: c_int, limits: *const [u64; 2]) -> c_int;
}
const RLIMIT_SIGPENDING: c_int = 11;

/// How many signals may wait in queues.
fn queue_limits() -> [u64; 2] {
    let mut limits = [0; 2];
    // SAFETY: a place for two numbers.
    assert_eq!(unsafe { getrlimit(RLIMIT_SIGPENDING, &mut limits) }, 0);
    limits
}

fn set_queue_limits(limits: [u64; 2]) {
    // SAFETY: two numbers.
    assert_eq!(unsafe { setrlimit(RLIMIT_SIGPENDING, &limits) }, 0);
}

/// A full queue of signals passes, so it is no refusal. Only signals of real time are lost by it.
#[test]
fn a_full_queue_of_signals_passes() {
    const REAL_TIME: c_int = 40;
    const EAGAIN: c_int = 11;
    let door = Door::new();
    assert!(signals::install_suspend_handler(REAL_TIME, on_suspend));
    let own = door.register();
    let (thread, work) = start_worker(door, move |work| {
        signals::unblock(REAL_TIME);
        spin(door, work);
    });
    let record = other_record(door, own);
    let limits = queue_limits();
    for is_held in [false, true] {
        // It has left the stop before.
        let before = work.load(Ordering::Relaxed);
        while work.load(Ordering::Relaxed) == before {
            threads::yield_now();
        }
        set_queue_limits([0, limits[1]]);
        let sent = signals::send(record.tid, REAL_TIME);
        assert_eq!(sent, Delivery::Failed(EAGAIN));
        let station = &record.station;
        let clearer = std::thread::spawn(move || {
            while !door.world.is_stopped() && !station.is_on_hold() {
                threads::yield_now();
            }
            // The first signal fails meanwhile. If it comes later, it is one like others.
            threads::sleep_ns(30_000_000);
            set_queue_limits(limits);
        });
        door.lock.lock();
        if is_held {
            hold_thread(&door.world, record, REAL_TIME).unwrap();
            assert!(record.station.is_held());
            record.station.release();
        } else {
            stop_world(&door.world, door.mutators(), REAL_TIME).unwrap();
            door.world.resume();
        }
        door.lock.unlock();
        clearer.join().unwrap();
    }
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
}

/// A thread in a blocking region is to be held where it leaves that, and nobody waits for it.
#[test]
fn a_thread_in_a_blocking_region_is_held_behind_it() {
    let door = Door::new();
    let own = door.register();
    let is_behind = Arc::new(AtomicBool::new(false));
    let behind = is_behind.clone();
    let (thread, work) = start_worker(door, move |work| {
        let record = door.register();
        door.block(record, || {
            while !door.over.load(Ordering::Relaxed) {
                work.fetch_add(1, Ordering::Relaxed);
                threads::yield_now();
            }
        });
        behind.store(true, Ordering::Relaxed);
        door.leave(record);
    });
    let record = other_record(door, own);
    door.lock.lock();
    hold_thread(&door.world, record, SIGNAL).unwrap();
    assert!(!record.station.is_held(), "it was stopped in its region");
    door.lock.unlock();
    let before = work.load(Ordering::Relaxed);
    while work.load(Ordering::Relaxed) == before {
        threads::yield_now();
    }
    door.over.store(true, Ordering::Relaxed);
    while !record.station.is_held() {
        threads::yield_now();
    }
    assert!(!is_behind.load(Ordering::Relaxed));
    record.station.release();
    thread.join().unwrap();
    door.leave(own);
}

/// How often the calling thread has slept.
fn sleeps() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.unwrap().trim().parse().unwrap()
}

/// A thread that is held on its way out of a section of the client's does not leave it: a stop does not wait for that.
#[test]
fn a_held_thread_that_was_leaving_is_not_waited_for() {
    let door = Door::new();
    let own = door.register();
    let (thread, _) = start_worker(door, move |work| spin(door, work));
    let record = other_record(door, own);
    door.lock.lock();
    record.station.begin_leaving();
    hold_thread(&door.world, record, SIGNAL).unwrap();
    let before = sleeps();
    stop_world(&door.world, door.mutators(), SIGNAL).unwrap();
    let slept = sleeps() - before;
    door.world.resume();
    record.station.end_leaving();
    record.station.release();
    door.lock.unlock();
    door.over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    door.leave(own);
    // It looks ten thousand times before it gives up.
    assert!(slept < 5_000, "{slept} sleeps");
}
