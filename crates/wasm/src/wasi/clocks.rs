//! Clocks, random bytes, and giving up the processor.

use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use super::context::Context;
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};

/// The clock of Linux for a number of WASI.
pub(super) fn clock(number: u32) -> Result<ClockId, Errno> {
    match number {
        0 => Ok(ClockId::Realtime),
        1 => Ok(ClockId::Monotonic),
        2 => Ok(ClockId::ProcessCPUTime),
        3 => Ok(ClockId::ThreadCPUTime),
        _ => Err(Errno::INVAL),
    }
}

/// In nanoseconds.
pub(super) fn now(clock: ClockId) -> Result<u64, Errno> {
    nanoseconds(clock_gettime(clock))
}

fn nanoseconds(time: Timespec) -> Result<u64, Errno> {
    let seconds = u64::try_from(time.tv_sec).ok();
    seconds
        .and_then(|seconds| seconds.checked_mul(1_000_000_000))
        .and_then(|sum| sum.checked_add(time.tv_nsec as u64))
        .ok_or(Errno::OVERFLOW)
}

pub(super) fn clock_res_get(_: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    guest.write_u64(of.u32(1), nanoseconds(clock_getres(clock(of.u32(0))?))?)
}

pub(super) fn clock_time_get(_: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    guest.write_u64(of.u32(2), now(clock(of.u32(0))?)?)
}

pub(super) fn random_get(_: &mut Context, guest: &mut Guest<'_>, of: &Arguments<'_>) -> Answer {
    let mut rest = guest.bytes_mut(of.u32(0), of.u32(1))?;
    while !rest.is_empty() {
        let filled = rustix::io::retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()))?;
        rest = &mut rest[filled..];
    }
    Ok(())
}

pub(super) fn sched_yield(_: &mut Context, _: &mut Guest<'_>, _: &Arguments<'_>) -> Answer {
    std::thread::yield_now();
    Ok(())
}
