//! Batches: entries on their way from one worker's mark stack to another's.
//!
//! Each worker has an [`Outbox`]: buffers that it fills, and a deque of the numbers of full ones, from which others
//! steal. A number is the owner's index and the buffer's. The [`Inbox`] of the leader has the numbers of buffers with
//! entries that only the leader may scan; it is a stack linked through the buffers. The thread that takes a number
//! copies the entries out and frees the buffer.
//!
//! # Invariants
//! - A buffer is written by its owner while it is reserved and its number not published, then read by the one thread
//!   that took the number, then free.
//! - Only the leader takes from the inbox, and it takes all numbers at once. So no number comes back to the inbox while
//!   another thread compares with it.
//!
//! Runs in the stopped world on the collecting thread and the helpers; nothing here allocates (I1). Models at the end
//! run this code under loom.

use gleaner_base::sync::{AtomicBool, AtomicU32, Ordering, UnsafeCell, model_size};
use gleaner_work::{Deque, Steal};

use super::entry::Entry;

/// Entries that a buffer has room for.
pub(super) const BATCH_ENTRIES: usize = model_size(256, 2);
/// Buffers of a worker.
pub(super) const BATCHES: usize = model_size(64, 2);
/// No buffer.
pub(super) const NO_BATCH: u32 = u32::MAX;

/// A buffer.
pub(super) struct Batch {
    /// Set by the owner when it reserves the buffer, cleared by the thread that has copied the entries (Release,
    /// partner of the owner's Acquire).
    in_use: AtomicBool,
    /// The number below it in the inbox. Written by the owner before it posts the buffer, read by the leader.
    next: AtomicU32,
    /// Touched by the owner while it has the buffer reserved, then by the thread that took the number.
    contents: UnsafeCell<Contents>,
}

struct Contents {
    length: usize,
    /// [`BATCH_ENTRIES`] of them.
    entries: *mut Entry,
}

// SAFETY: the contents go from the owner to one other thread through the deque or the inbox, and back through `in_use`.
unsafe impl Sync for Batch {}

impl Batch {
    /// A free buffer in memory for [`BATCH_ENTRIES`] entries.
    ///
    /// # Safety
    /// The memory is used through this buffer only, as long as the buffer exists.
    pub unsafe fn new(entries: *mut Entry) -> Batch {
        Batch {
            in_use: AtomicBool::new(false),
            next: AtomicU32::new(NO_BATCH),
            contents: UnsafeCell::new(Contents { length: 0, entries }),
        }
    }
}

/// A worker's buffers, and what it offers to others. Only the owner reserves, appends, offers and takes back.
pub(super) struct Outbox<'a> {
    /// The owner's index.
    owner: usize,
    /// [`BATCHES`] of them.
    batches: &'a [Batch],
    offered: Deque<'a, AtomicU32>,
}

impl<'a> Outbox<'a> {
    /// The outbox of worker `owner`; `ring` has as many cells as there are buffers.
    pub fn new(owner: usize, batches: &'a [Batch], ring: &'a [AtomicU32]) -> Outbox<'a> {
        assert!(batches.len() == BATCHES && ring.len() == BATCHES);
        Outbox {
            owner,
            batches,
            offered: Deque::new(ring),
        }
    }

    /// The index of the worker whose buffer has this number.
    pub fn owner_of(number: u32) -> usize {
        number as usize / BATCHES
    }

    fn batch(&self, number: u32) -> &'a Batch {
        debug_assert_eq!(Self::owner_of(number), self.owner);
        &self.batches[number as usize % BATCHES]
    }

    /// Whether there is an empty buffer, between phases.
    pub fn has_room(&self) -> bool {
        self.empty().is_some()
    }

    fn empty(&self) -> Option<usize> {
        // Acquire: partner of the Release in `unpack`.
        let free = |batch: &Batch| !batch.in_use.load(Ordering::Acquire);
        self.batches.iter().position(free)
    }

    /// Owner: an empty buffer that others have done with.
    pub fn reserve(&self) -> Option<u32> {
        let slot = self.empty()?;
        let batch = &self.batches[slot];
        batch.in_use.store(true, Ordering::Relaxed);
        // SAFETY: the buffer was free, so it is its owner's.
        batch
            .contents
            .with_mut(|contents| unsafe { (*contents).length = 0 });
        Some((self.owner * BATCHES + slot) as u32)
    }

    /// Owner: adds entries to a buffer that it has reserved and not published, which has room for them. Returns how
    /// many the buffer has now.
    pub fn append(&self, number: u32, entries: &[Entry]) -> usize {
        // SAFETY: until its number is published, a reserved buffer is its owner's.
        self.batch(number).contents.with_mut(|contents| unsafe {
            let length = (*contents).length + entries.len();
            assert!(length <= BATCH_ENTRIES);
            let end = (*contents).entries.add((*contents).length);
            end.copy_from_nonoverlapping(entries.as_ptr(), entries.len());
            (*contents).length = length;
            length
        })
    }

    /// Owner: publishes a buffer to all workers.
    pub fn offer(&self, number: u32) {
        // The deque has room for every buffer there is.
        let offered = self.offered.push(number);
        debug_assert!(offered.is_ok());
    }

    /// Owner: the buffer that it offered last, if nobody has taken it.
    pub fn take_back(&self) -> Option<u32> {
        self.offered.pop()
    }

    /// Anyone: the buffer that was offered first.
    pub fn steal(&self) -> Steal<u32> {
        self.offered.steal()
    }

    /// Whether nothing seems to be offered.
    pub fn is_empty(&self) -> bool {
        self.offered.is_empty()
    }

    /// The one that took the number: hands out the entries, then frees the buffer.
    pub fn unpack(&self, number: u32, entry: impl FnMut(Entry)) {
        let batch = self.batch(number);
        // SAFETY: the caller alone took the number, and the owner wrote `length` entries before it published it.
        batch.contents.with(|contents| unsafe {
            let entries = core::slice::from_raw_parts((*contents).entries, (*contents).length);
            entries.iter().copied().for_each(entry);
        });
        // Release: partner of the owner's Acquire in `reserve`.
        batch.in_use.store(false, Ordering::Release);
    }
}

/// The buffers whose entries only the leader may scan.
pub(super) struct Inbox {
    /// The number posted last. Changed by compare-and-swap of those who post (Release) and the leader's swap (Acquire).
    first: AtomicU32,
    /// What the leader took and has not unpacked. Touched by the leader only.
    taken: AtomicU32,
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Inbox {
        Inbox {
            first: AtomicU32::new(NO_BATCH),
            taken: AtomicU32::new(NO_BATCH),
        }
    }

    /// The owner of a reserved buffer publishes it to the leader.
    pub fn post(&self, outbox: &Outbox, number: u32) {
        let next = &outbox.batch(number).next;
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            // Release: partner of the Acquire in `take`.
            match self.first.compare_exchange_weak(
                first,
                number,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Leader: one of the buffers that were posted, to be unpacked by it. `outbox` finds the outbox of a worker.
    pub fn take<'a>(&self, outbox: impl FnOnce(usize) -> &'a Outbox<'a>) -> Option<u32> {
        let mut number = self.taken.load(Ordering::Relaxed);
        if number == NO_BATCH {
            // Acquire: partner of the Release in `post`, also of those below the first: each went on from the one
            // before by a read-modify-write.
            number = self.first.swap(NO_BATCH, Ordering::Acquire);
        }
        if number == NO_BATCH {
            return None;
        }
        let next = &outbox(Outbox::owner_of(number)).batch(number).next;
        self.taken
            .store(next.load(Ordering::Relaxed), Ordering::Relaxed);
        Some(number)
    }

    /// Leader: whether there seems to be something that was posted and not unpacked. While others post it is a hint: missing
    /// it costs parallelism, never work, since the leader looks again when the phase is over.
    pub fn seems_filled(&self) -> bool {
        self.taken.load(Ordering::Relaxed) != NO_BATCH
            || self.first.load(Ordering::Relaxed) != NO_BATCH
    }
}

/// An outbox whose memory stays as long as the process.
#[cfg(test)]
fn lasting_outbox(owner: usize) -> Outbox<'static> {
    use std::boxed::Box;
    use std::vec::Vec;

    let none = Entry {
        start: 0,
        descriptor: 8,
    };
    let batches: Vec<Batch> = (0..BATCHES)
        .map(|_| {
            let entries = Box::leak(Box::new([none; BATCH_ENTRIES]));
            // SAFETY: nobody else knows the memory.
            unsafe { Batch::new(entries.as_mut_ptr()) }
        })
        .collect();
    let ring: Vec<AtomicU32> = (0..BATCHES).map(|_| AtomicU32::new(0)).collect();
    Outbox::new(owner, Vec::leak(batches), Vec::leak(ring))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_leader_took_and_did_not_unpack_is_left() {
        let (inbox, outbox) = (Inbox::new(), lasting_outbox(0));
        assert!(!inbox.seems_filled());
        for _ in 0..3 {
            inbox.post(&outbox, outbox.reserve().unwrap());
        }
        for left in [true, true, false] {
            assert!(inbox.take(|_| &outbox).is_some());
            assert_eq!(inbox.seems_filled(), left);
        }
    }
}

/// The shipped code under loom. The contents of a buffer are a cell: loom fails a model if two threads touch one at the
/// same time, or one that does not see what the other did before.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;
    use std::vec::Vec;

    fn check(body: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(body);
    }

    fn entry(start: usize) -> Entry {
        Entry {
            start,
            descriptor: 8,
        }
    }

    /// All entries of a buffer.
    fn unpacked(outbox: &Outbox, number: u32) -> Vec<usize> {
        let mut entries = Vec::new();
        outbox.unpack(number, |entry| entries.push(entry.start));
        entries
    }

    /// An owner fills and offers its buffers again and again while another steals. Each entry comes out once, as it was
    /// written.
    #[test]
    fn offered_entries_are_unpacked_once() {
        check(|| {
            let shared = Arc::new(lasting_outbox(0));
            let thief = {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut seen = Vec::new();
                    for _ in 0..2 {
                        if let Steal::Taken(number) = shared.steal() {
                            seen.extend(unpacked(&shared, number));
                        }
                    }
                    seen
                })
            };
            let mut seen = Vec::new();
            for first in [10, 20, 30] {
                // With all buffers in use, a worker keeps its entries.
                let Some(number) = shared.reserve() else {
                    seen.extend([first, first + 1]);
                    continue;
                };
                assert_eq!(shared.append(number, &[entry(first)]), 1);
                assert_eq!(shared.append(number, &[entry(first + 1)]), 2);
                shared.offer(number);
            }
            while let Some(number) = shared.take_back() {
                seen.extend(unpacked(&shared, number));
            }
            seen.extend(thief.join().unwrap());
            seen.sort_unstable();
            assert_eq!(seen, [10, 11, 20, 21, 30, 31]);
        });
    }

    /// Two workers post for the leader, which takes meanwhile and when they are done. Buffers come back to their
    /// owners.
    #[test]
    fn the_leader_gets_each_posted_entry_once() {
        struct Shared {
            inbox: Inbox,
            outboxes: [Outbox<'static>; 2],
        }
        impl Shared {
            fn post(&self, owner: usize, start: usize) -> bool {
                let outbox = &self.outboxes[owner];
                let number = outbox.reserve();
                if let Some(number) = number {
                    outbox.append(number, &[entry(start)]);
                    self.inbox.post(outbox, number);
                }
                number.is_some()
            }

            fn take(&self) -> Option<usize> {
                let number = self.inbox.take(|owner| &self.outboxes[owner])?;
                let entries = unpacked(&self.outboxes[Outbox::owner_of(number)], number);
                assert_eq!(entries.len(), 1);
                Some(entries[0])
            }
        }
        check(|| {
            let shared = Arc::new(Shared {
                inbox: Inbox::new(),
                outboxes: [lasting_outbox(0), lasting_outbox(1)],
            });
            let posters = [0, 1].map(|owner| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let mut posted = Vec::new();
                    for start in 1..4 {
                        let start = owner * 10 + start;
                        if (owner == 0 || start == 11) && shared.post(owner, start) {
                            posted.push(start);
                        }
                    }
                    posted
                })
            });
            let mut taken: Vec<usize> = (0..2).filter_map(|_| shared.take()).collect();
            let mut posted: Vec<usize> = posters
                .into_iter()
                .flat_map(|poster| poster.join().unwrap())
                .collect();
            while let Some(start) = shared.take() {
                taken.push(start);
            }
            taken.sort_unstable();
            posted.sort_unstable();
            assert_eq!(taken, posted);
        });
    }
}
