//! The stopper that works by signals: for threads that cannot be asked to poll (I8).
//!
//! Each registered thread that is not in a blocking region is sent the suspend signal; its handler stops there. The
//! stopper holds the allocator lock, so no thread stops inside it. A thread that has ended without a word (the kernel
//! does not know it any more) is reported, so that the caller forgets it. Signals that seem lost are sent again.
//!
//! The handler uses the thread word and raw futexes only.

use core::ffi::{c_int, c_void};

use gleaner_base::faults::{self, FaultPoint};
use gleaner_mem::Address;
use gleaner_os::signals::{self, Delivery, Information};
use gleaner_os::threads;

use super::protocol::World;
use crate::mutator::{Mutator, Mutators};

const RESEND_AFTER_NS: u64 = 100_000_000;

/// The handler of the suspend signal.
pub extern "C" fn on_suspend(
    _signal: c_int,
    _information: *mut Information,
    _context: *mut c_void,
) {
    let record = Mutator::current();
    if record.is_null() {
        return; // Not registered, or no longer: nobody waits for this thread.
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
        }
    }
}

/// Stops every registered thread but the calling one. Returns the epoch.
///
/// Records whose thread no longer exists are flagged as gone.
pub fn stop_world(world: &World, mutators: &Mutators, signal: c_int) -> u32 {
    let epoch = world.begin();
    send_all(world, mutators, signal, epoch);
    loop {
        let ticket = world.ticket();
        if !any_running(world, mutators, epoch) {
            return epoch;
        }
        world.sleep(ticket, RESEND_AFTER_NS);
        if world.ticket() == ticket {
            send_all(world, mutators, signal, epoch);
        }
    }
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

fn any_running(world: &World, mutators: &Mutators, epoch: u32) -> bool {
    let mut any = false;
    for_each_running(world, mutators, epoch, |_| any = true);
    any
}

fn send_all(world: &World, mutators: &Mutators, signal: c_int, epoch: u32) {
    for_each_running(world, mutators, epoch, |thread| {
        thread.gone = matches!(signals::send(thread.tid, signal), Delivery::Gone);
    });
}

/// Sends one thread to its station and waits until it is held (`GC_suspend_thread`).
pub fn hold_thread(world: &World, thread: &Mutator, signal: c_int) {
    thread.station.hold();
    while !thread.station.is_held() && !thread.is_blocked() {
        let ticket = world.ticket();
        if matches!(signals::send(thread.tid, signal), Delivery::Gone) {
            return;
        }
        if !thread.station.is_held() {
            world.sleep(ticket, RESEND_AFTER_NS);
        }
    }
}

/// The address of the caller's frame, roughly: everything older lies above.
#[inline(never)]
pub fn here() -> Address {
    let mark = 0usize;
    Address::of(&raw const mark)
}
