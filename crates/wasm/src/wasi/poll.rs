//! `poll_oneoff`: waits for clocks and descriptors.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::clocks;
use super::context::Context;
use super::errno::{Answer, Errno};
use super::guest::{Arguments, Guest};

const SUBSCRIPTION_BYTES: u32 = 48;
const EVENT_BYTES: u32 = 32;

const READ: u8 = 1;
const WRITE: u8 = 2;
/// The time is one of the clock, and no time from now.
const ABSOLUTE: u16 = 1;

/// What the program waits for.
enum Wanted {
    After(Duration),
    Ready(u32),
    Wrong(Errno),
}

struct Subscription {
    user: u64,
    kind: u8,
    wanted: Wanted,
}

pub(super) fn poll_oneoff(
    context: &mut Context,
    guest: &mut Guest<'_>,
    of: &Arguments<'_>,
) -> Answer {
    let (from, into, count) = (of.u32(0), of.u32(1), of.u32(2));
    let bytes = count.checked_mul(SUBSCRIPTION_BYTES).ok_or(Errno::FAULT)?;
    guest.bytes(from, bytes)?;
    guest.bytes(into, count * EVENT_BYTES)?;
    if count == 0 {
        return Err(Errno::INVAL);
    }
    let subscriptions: Vec<Subscription> = (0..count)
        .map(|index| subscription(context, guest, from + index * SUBSCRIPTION_BYTES))
        .collect::<Result<_, _>>()?;
    let happened = wait(context, &subscriptions)?;
    let mut place = into;
    for &(index, error) in &happened {
        let mut event = [0; EVENT_BYTES as usize];
        event[..8].copy_from_slice(&subscriptions[index].user.to_le_bytes());
        event[8..10].copy_from_slice(&error.to_le_bytes());
        event[10] = subscriptions[index].kind;
        guest.write(place, &event)?;
        place = place.wrapping_add(EVENT_BYTES);
    }
    guest.write_u32(of.u32(3), happened.len() as u32)
}

fn subscription(context: &Context, guest: &Guest<'_>, at: u32) -> Result<Subscription, Errno> {
    let kind = guest.u8(at + 8)?;
    let wanted = match kind {
        0 => time(guest, at).map(Wanted::After),
        READ | WRITE => {
            let number = guest.u32(at + 16)?;
            context.file(number).map(|_| Wanted::Ready(number))
        }
        _ => return Err(Errno::INVAL),
    };
    Ok(Subscription {
        user: guest.u64(at)?,
        kind,
        wanted: wanted.unwrap_or_else(Wanted::Wrong),
    })
}

/// How long the program wants to wait. Only clocks that go on while it waits can be waited for.
fn time(guest: &Guest<'_>, at: u32) -> Result<Duration, Errno> {
    let number = guest.u32(at + 16)?;
    if number > 1 {
        return Err(Errno::INVAL);
    }
    let time = guest.u64(at + 24)?;
    let from_now = match guest.u16(at + 40)? & ABSOLUTE {
        0 => time,
        _ => time.saturating_sub(clocks::now(clocks::clock(number)?)?),
    };
    Ok(Duration::from_nanos(from_now))
}

/// Waits until something happens: what it is, by the subscription's index, with an error number or 0.
fn wait(context: &Context, subscriptions: &[Subscription]) -> Result<Vec<(usize, u16)>, Errno> {
    let start = Instant::now();
    let mut wrong = Vec::new();
    let (mut files, mut indices, mut soonest) = (Vec::new(), Vec::new(), None);
    for (index, subscription) in subscriptions.iter().enumerate() {
        match subscription.wanted {
            Wanted::After(time) => {
                soonest = Some(soonest.map_or(time, |soonest: Duration| soonest.min(time)));
            }
            Wanted::Ready(number) => {
                let flags = match subscription.kind {
                    READ => PollFlags::IN,
                    _ => PollFlags::OUT,
                };
                files.push(PollFd::from_borrowed_fd(context.file(number)?, flags));
                indices.push(index);
            }
            Wanted::Wrong(error) => wrong.push((index, error.0)),
        }
    }
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    loop {
        let rest = soonest.map(|time| time.saturating_sub(start.elapsed()));
        let timeout = rest.map(|rest| Timespec {
            tv_sec: rest.as_secs() as i64,
            tv_nsec: rest.subsec_nanos().into(),
        });
        match poll(&mut files, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        let ready = files.iter().zip(&indices);
        let mut happened: Vec<(usize, u16)> = ready
            .filter(|(file, _)| !file.revents().is_empty())
            .map(|(_, &index)| (index, 0))
            .collect();
        let passed = start.elapsed();
        for (index, subscription) in subscriptions.iter().enumerate() {
            if matches!(subscription.wanted, Wanted::After(time) if time <= passed) {
                happened.push((index, 0));
            }
        }
        if !happened.is_empty() {
            return Ok(happened);
        }
    }
}
