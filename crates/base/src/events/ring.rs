//! The last events, kept for crash reports.
//!
//! Writers are serialised by the allocator's lock, but a crash may strike any thread at any instant, so a reader takes
//! no lock and trusts nothing. Each place carries the number of its event, odd while it is being written, and a reader
//! that sees the number change drops the place.
//!
//! Invariants: a reader returns only events that were written whole. A writer that finds its place in use by another
//! (no lock held, or a crash report written from inside `push`) drops its event instead of waiting.

use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use super::{Event, Phase};

/// How many events are kept.
const PLACES: usize = 64;

/// The last 64 events.
pub struct Ring {
    /// Number of the next event. Changed by fetch_add only.
    next: AtomicU64,
    places: [Place; PLACES],
}

/// One event, taken apart into words that can be read while they are written.
struct Place {
    /// 0 never written; 2n + 1 event n is being written; 2n + 2 event n is there. A writer owns the place from its
    /// compare-and-swap to an odd number until its release store of the even one.
    version: AtomicU64,
    phase: AtomicU64,
    /// collection, start, duration, bytes, objects, heap and workers, nanoseconds lost, goal, thread.
    numbers: [AtomicU64; 9],
    /// Address and length of the reason, both from one `&'static str` when the version is even.
    reason: AtomicPtr<u8>,
    reason_length: AtomicUsize,
}

impl Place {
    const fn new() -> Place {
        Place {
            version: AtomicU64::new(0),
            phase: AtomicU64::new(0),
            numbers: [const { AtomicU64::new(0) }; 9],
            reason: AtomicPtr::new(core::ptr::null_mut()),
            reason_length: AtomicUsize::new(0),
        }
    }

    /// Puts event number `n` here, unless another thread is writing here.
    fn write(&self, n: u64, event: &Event) {
        let version = self.version.load(Ordering::Relaxed);
        let claimed = version.is_multiple_of(2)
            && self
                .version
                // Acquire: with the release store of the writer before, so that its words come before ours.
                .compare_exchange(version, 2 * n + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !claimed {
            return;
        }
        // Release: with the reader's acquire fence. A thread that reads a word of ours then also reads our odd version.
        fence(Ordering::Release);
        self.store(event);
        // Release: with the reader's acquire load. A thread that reads this version reads all our words.
        self.version.store(2 * n + 2, Ordering::Release);
    }

    fn store(&self, event: &Event) {
        let numbers = [
            event.collection,
            event.start_ns,
            event.duration_ns,
            event.bytes,
            event.objects,
            u64::from(event.heap) << 32 | u64::from(event.workers),
            event.lost_ns,
            event.goal_ns,
            u64::from(event.thread),
        ];
        // Relaxed throughout: the version orders them.
        self.phase.store(event.phase as u64, Ordering::Relaxed);
        for (word, number) in self.numbers.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        let reason = event.reason;
        self.reason
            .store(reason.as_ptr().cast_mut(), Ordering::Relaxed);
        self.reason_length.store(reason.len(), Ordering::Relaxed);
    }

    /// Event number `n`, if it is here and whole.
    fn read(&self, n: u64) -> Option<Event> {
        self.read_while(n, || ())
    }

    /// As [`Place::read`]; `meanwhile` runs when the words are read and not yet believed.
    #[inline(always)]
    fn read_while(&self, n: u64, meanwhile: impl FnOnce()) -> Option<Event> {
        // Acquire: with the writer's release store of the version.
        if self.version.load(Ordering::Acquire) != 2 * n + 2 {
            return None;
        }
        let phase = self.phase.load(Ordering::Relaxed);
        let numbers =
            [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|at: usize| self.numbers[at].load(Ordering::Relaxed));
        let reason = self.reason.load(Ordering::Relaxed);
        let reason_length = self.reason_length.load(Ordering::Relaxed);
        meanwhile();
        // Acquire: with the writer's release fence.
        fence(Ordering::Acquire);
        if self.version.load(Ordering::Relaxed) != 2 * n + 2 {
            return None;
        }
        // SAFETY: The version was that of event n before and after the loads, so address and length were stored
        // together by the one writer of event n, which took them from a `&'static str`.
        let reason = unsafe {
            core::str::from_utf8_unchecked(core::slice::from_raw_parts(reason, reason_length))
        };
        let [
            collection,
            start_ns,
            duration_ns,
            bytes,
            objects,
            both,
            lost_ns,
            goal_ns,
            thread,
        ] = numbers;
        Some(Event {
            phase: *Phase::ALL.get(phase as usize)?,
            collection,
            start_ns,
            duration_ns,
            bytes,
            objects,
            workers: both as u32,
            heap: (both >> 32) as u32,
            lost_ns,
            goal_ns,
            thread: thread as u32,
            reason,
        })
    }
}

impl Default for Ring {
    fn default() -> Self {
        Ring::new()
    }
}

impl Ring {
    /// A ring without events.
    pub const fn new() -> Ring {
        Ring {
            next: AtomicU64::new(0),
            places: [const { Place::new() }; PLACES],
        }
    }

    /// Adds an event in the place of the oldest. Meant for one writer at a time (the allocator's lock); never waits.
    pub fn push(&self, event: &Event) {
        // Relaxed: the places are ordered by their versions.
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.places[n as usize % PLACES].write(n, event);
    }

    /// The kept events, oldest first. Any thread may ask at any time, also from a signal handler.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        // Relaxed: a stale number only means fewer events.
        let next = self.next.load(Ordering::Relaxed);
        (next.saturating_sub(PLACES as u64)..next)
            .filter_map(|n| self.places[n as usize % PLACES].read(n))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    fn numbered(n: u64) -> Event {
        const REASONS: [&str; 3] = ["", "because", "a longer reason"];
        Event {
            start_ns: n,
            duration_ns: n,
            bytes: n,
            objects: n,
            workers: n as u32,
            lost_ns: n,
            goal_ns: n,
            thread: n as u32,
            reason: REASONS[n as usize % 3],
            ..Event::new(Phase::ALL[n as usize % Phase::ALL.len()], n)
        }
    }

    #[test]
    fn keeps_the_last_ones_oldest_first() {
        let ring = Ring::new();
        assert_eq!(ring.iter().count(), 0);
        for n in 0..150 {
            ring.push(&numbered(n));
        }
        let kept: Vec<Event> = ring.iter().collect();
        let expected: Vec<Event> = (86..150).map(numbered).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn an_event_being_written_is_not_read_and_not_overwritten() {
        let ring = Ring::new();
        ring.push(&numbered(0));
        ring.push(&numbered(1));
        ring.places[1].version.store(3, Ordering::Relaxed);
        assert_eq!(ring.iter().collect::<Vec<_>>(), [numbered(0)]);
        for n in 2..66 {
            ring.push(&numbered(n));
        }
        let kept: Vec<Event> = ring.iter().collect();
        let expected: Vec<Event> = (2..65).map(numbered).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn an_event_that_is_overwritten_while_it_is_read_is_dropped() {
        let place = Place::new();
        place.write(1, &numbered(1));
        assert_eq!(place.read_while(1, || ()), Some(numbered(1)));
        let overwrite = || place.write(65, &numbered(65));
        assert_eq!(place.read_while(1, overwrite), None);
        assert_eq!(place.read(65), Some(numbered(65)));
    }

    #[test]
    fn readers_see_whole_events_while_a_writer_runs() {
        let ring = Ring::new();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) || seen == 0 {
                    for event in ring.iter() {
                        assert_eq!(event, numbered(event.collection));
                        seen += 1;
                    }
                }
            });
            for n in 0..20_000 {
                ring.push(&numbered(n));
            }
            done.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        assert_eq!(ring.iter().count(), 64);
    }
}
