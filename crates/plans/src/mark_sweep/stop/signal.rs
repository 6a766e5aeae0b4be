//! The stopper that works by signals: for threads that cannot be asked to poll (I8).
//!
//! Each registered thread that is not in a blocking region is sent the suspend signal; its handler stops there. The
//! stopper holds the allocator lock, so no thread stops inside it. A thread that has ended without unregistering (the
//! kernel does not know it any more) is reported, so that the caller forgets it. Signals that seem lost are sent again.
//! Before they are sent the handler is installed again if the program has replaced it.
//!
//! The kernel may give the number of such a thread to a new one. If that one registers, its record takes the number
//! from the old record (`Mutators::occupy`). If it does not, its handler finds no record, and says so in `STRAY`: a
//! thread that the stopper waits for has a record as long as the stopper holds the lock.
//!
//! The handler uses the thread word and raw futexes only.

use core::ffi::{c_int, c_void};
use core::fmt::Write as _;

use gleaner_base::contexts::WorldStopped;
use gleaner_base::events::LineBuffer;
use gleaner_base::faults::{self, FaultPoint};
use gleaner_base::sync::Ordering;
use gleaner_mem::Address;
use gleaner_os::clock;
use gleaner_os::output::STDERR;
use gleaner_os::signals::{self, Delivery, Information};
use gleaner_os::threads::{self, ThreadId};

use super::protocol::World;
use crate::mark_sweep::mutator::{Mutator, Mutators};

const RESEND_AFTER_NS: u64 = 100_000_000;
/// How many times signals seem lost before threads that do not stop are named, once in a stop: some seconds.
const TELL_AFTER: u32 = 30;
/// How many times they seem lost before a stop that nobody needs is given up: half a second.
const GIVE_UP_AFTER: u32 = 5;
/// How often a stop looks at most whether threads have left sections of the client's, and its sleep in between.
const LOOKS: u32 = 10_000;
const BETWEEN_LOOKS_NS: u64 = 20_000;

/// The last thread that got the signal without having a record; 0 if none did since the stop began. Stored by handlers.
/// Relaxed: a number that the stopper misses is stored again after the next signal. No model has signals, so it is no
/// part of any.
static STRAY: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Whether a thread was ever sent the signal twice in a stop, as happens where it does not run for long: the second may still be
/// on its way when the world runs again. Stored by stoppers before they resume the world, relaxed: read by threads that have
/// seen it resumed. No part of any model, as above.
static SENT_AGAIN: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

/// A thread that cannot be stopped, now or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The thread.
    pub thread: ThreadId,
    /// Why not.
    pub cause: Cause,
}

/// Why a thread cannot be stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The system refuses to send the suspend signal, with this error number.
    System(c_int),
    /// The suspend signal would come, but too late ([`signals::are_kept_back`]).
    KeptBack,
}

/// What became of the signals to all threads that are waited for.
type Sent = Result<(), Refused>;

/// The handler of the suspend signal.
pub extern "C" fn on_suspend(signal: c_int, _information: *mut Information, _context: *mut c_void) {
    let record = Mutator::current();
    if record.is_null() {
        // Not registered, or no longer: nobody waits for this thread, at most for one that had its number.
        STRAY.store(threads::current_tid().0 as u32, Ordering::Relaxed);
        return;
    }
    if faults::armed(FaultPoint::SuspendAckLate) {
        threads::sleep_ns(2 * RESEND_AFTER_NS); // The stopper sends again meanwhile.
    }
    let stack_pointer = 0usize;
    // SAFETY: the thread word leads to a record that stays mapped; its world outlives it.
    unsafe {
        let world = (*record).world;
        if !world.is_null() {
            (*world).stop_here(&(*record).station, &raw const stack_pointer as usize);
            // What was sent again is answered here: the program may put another handler in the place of this one as soon as the
            // world runs, or none, and would die of it.
            while SENT_AGAIN.load(Ordering::Relaxed) && signals::take_pending(signal) {
                (*world).stop_here(&(*record).station, &raw const stack_pointer as usize);
            }
        }
    }
}

/// Stops every registered thread but the calling one. Or says which thread cannot be stopped; then the stop has begun and
/// does not end. The caller holds the allocator lock until [`resume_world`].
///
/// Records whose thread no longer exists are flagged as gone.
///
/// # Safety
/// The world runs, and the caller holds the allocator lock until [`resume_world`] has got the proof.
pub unsafe fn stop_world<'a>(
    world: &'a World,
    mutators: &Mutators,
    signal: c_int,
) -> Result<WorldStopped<'a>, Refused> {
    loop {
        // SAFETY: as asked of the caller.
        if let Some(stopped) = unsafe { attempt(world, mutators, signal, u32::MAX) }? {
            return Ok(stopped);
        }
    }
}

/// As [`stop_world`], for a collection that nobody waits for: if a thread cannot be stopped, or does not answer for half a second,
/// the stop is given up and every thread goes on. A thread that blocks the signal gets it later, and does nothing then.
///
/// # Safety
/// As for [`stop_world`].
pub unsafe fn try_stop_world<'a>(
    world: &'a World,
    mutators: &Mutators,
    signal: c_int,
) -> Option<WorldStopped<'a>> {
    // SAFETY: as asked of the caller.
    match unsafe { attempt(world, mutators, signal, GIVE_UP_AFTER) } {
        Ok(stopped) => stopped,
        Err(_) => {
            world.resume();
            None
        }
    }
}

/// Stops the world, unless signals seem lost `most_losses` times: then it goes on.
///
/// # Safety
/// As for [`stop_world`].
unsafe fn attempt<'a>(
    world: &'a World,
    mutators: &Mutators,
    signal: c_int,
    most_losses: u32,
) -> Result<Option<WorldStopped<'a>>, Refused> {
    STRAY.store(0, Ordering::Relaxed);
    let_threads_leave(mutators);
    let own = Mutator::current();
    let station = match own.is_null() {
        true => core::ptr::null(),
        // SAFETY: the calling thread's own record, which stays mapped.
        false => unsafe { &raw const (*own).station },
    };
    let epoch = world.begin(station);
    send_all(world, mutators, signal, epoch)?;
    let (mut losses, mut quiet_since) = (0, clock::monotonic_ns());
    loop {
        let ticket = world.ticket();
        if !any_running(world, mutators, epoch) {
            // SAFETY: each registered thread waits at its station, is blocked, or is the calling one, until the world is
            // resumed; others need the allocator lock, which the caller holds, to become registered.
            return Ok(Some(unsafe { WorldStopped::begin() }));
        }
        world.sleep(ticket, RESEND_AFTER_NS);
        // A signal of the program's ends a sleep early.
        let now = clock::monotonic_ns();
        if world.ticket() != ticket {
            quiet_since = now;
        } else if now - quiet_since >= RESEND_AFTER_NS {
            quiet_since = now;
            losses += 1;
            if losses >= most_losses {
                world.resume();
                return Ok(None);
            }
            if losses == TELL_AFTER {
                tell_of_running(world, mutators, signal, epoch);
            }
            flag_stray(world, mutators, epoch);
            SENT_AGAIN.store(true, Ordering::Relaxed);
            send_all(world, mutators, signal, epoch)?;
        }
    }
}

/// Every thread goes on.
pub fn resume_world(world: &World, stopped: WorldStopped<'_>) {
    stopped.end();
    world.resume();
}

/// Waits until no thread is just leaving a section of the client's. What such a section changed may fit together only a
/// few instructions behind it, and waking the thread that now stops the world may have taken the processor away there.
/// These threads wait for nothing, unless a signal handler of the client's runs on one: hence not without end.
fn let_threads_leave(mutators: &Mutators) {
    let own = threads::current_tid();
    for _ in 0..LOOKS {
        let leaves = |thread: &Mutator| {
            let station = &thread.station;
            thread.tid != own && station.is_leaving() && !station.is_held() && !thread.gone
        };
        if mutators.find(leaves).is_none() {
            return;
        }
        threads::sleep_ns(BETWEEN_LOOKS_NS);
    }
}

/// The thread that got a signal without having a record is not the one whose record has its number.
fn flag_stray(world: &World, mutators: &Mutators, epoch: u32) {
    let stray = STRAY.load(Ordering::Relaxed);
    for_each_running(world, mutators, epoch, |thread| {
        thread.gone |= thread.tid.0 as u32 == stray;
    });
}

/// Calls `visit` with each thread that the stop in `epoch` still waits for.
fn for_each_running(
    world: &World,
    mutators: &Mutators,
    epoch: u32,
    mut visit: impl FnMut(&mut Mutator),
) {
    let own = threads::current_tid();
    mutators.for_each(|record| {
        // SAFETY: records stay mapped, and the stopper holds the lock that guards them.
        let thread = unsafe { &mut *record };
        if thread.tid != own
            && !thread.is_blocked()
            && !thread.gone
            && !world.has_stopped(&thread.station, epoch)
        {
            visit(thread);
        }
    });
}

/// Names the threads that a stop waits for. The usual cause is one that blocks the signal, and a program that hangs does
/// not show it.
#[cold]
fn tell_of_running(world: &World, mutators: &Mutators, signal: c_int, epoch: u32) {
    for_each_running(world, mutators, epoch, |thread| {
        tell_of("a collection", thread.tid, signal);
    });
}

fn tell_of(waiting: &str, thread: ThreadId, signal: c_int) {
    let mut line = LineBuffer::<200>::new();
    // A buffer that truncates takes everything.
    let _ = writeln!(
        line,
        "gleaner: {waiting} waits for thread {}, which has not stopped for seconds: does it block signal {signal}?",
        thread.0
    );
    STDERR.write_all(line.as_bytes());
}

fn any_running(world: &World, mutators: &Mutators, epoch: u32) -> bool {
    let mut any = false;
    for_each_running(world, mutators, epoch, |_| any = true);
    any
}

fn send_all(world: &World, mutators: &Mutators, signal: c_int, epoch: u32) -> Sent {
    let mut sent = Ok(());
    let mut is_handled = false;
    for_each_running(world, mutators, epoch, |thread| {
        if !is_handled {
            signals::keep_suspend_handler(signal);
            is_handled = true;
        }
        match send(thread.tid, signal) {
            Ok(gone) => thread.gone = gone,
            Err(refused) => sent = Err(refused),
        };
    });
    sent
}

/// Sends the signal; whether the thread is gone. A full queue of signals passes, so that is no refusal.
fn send(thread: ThreadId, signal: c_int) -> Result<bool, Refused> {
    const EAGAIN: c_int = 11;
    let refuse = |cause| Err(Refused { thread, cause });
    if signals::are_kept_back() {
        return refuse(Cause::KeptBack);
    }
    match signals::send(thread, signal) {
        Delivery::Sent | Delivery::Failed(EAGAIN) => Ok(false),
        Delivery::Gone => Ok(true),
        Delivery::Failed(error) => refuse(Cause::System(error)),
    }
}

/// Sends one thread to its station and waits until it is held (`GC_suspend_thread`).
pub fn hold_thread(world: &World, thread: &Mutator, signal: c_int) -> Sent {
    thread.station.hold();
    STRAY.store(0, Ordering::Relaxed);
    signals::keep_suspend_handler(signal);
    let (mut losses, mut since) = (0, clock::monotonic_ns());
    SENT_AGAIN.store(true, Ordering::Relaxed); // It may be: whatever wakes this thread lets it send another.
    while !thread.station.is_held() && !thread.is_blocked() {
        let now = clock::monotonic_ns();
        if now - since >= RESEND_AFTER_NS {
            since = now;
            losses += 1;
            if losses == TELL_AFTER {
                tell_of("GC_suspend_thread", thread.tid, signal);
            }
        }
        let ticket = world.ticket();
        let stray = STRAY.load(Ordering::Relaxed) == thread.tid.0 as u32;
        if stray || send(thread.tid, signal)? {
            break;
        }
        if !thread.station.is_held() {
            world.sleep(ticket, RESEND_AFTER_NS);
        }
    }
    Ok(())
}

/// The address of the caller's frame, roughly: everything older lies above.
#[inline(never)]
pub fn here() -> Address {
    let mark = 0usize;
    Address::of(&raw const mark)
}
