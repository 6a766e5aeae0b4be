//! A system that misbehaves on demand, for the tests of the layers above.
//!
//! [`Memory`] is the kernel's memory with a budget: when it is used up, growth fails as it does at a real
//! limit. [`Libraries`] is a list of libraries that changes at chosen moments. Both are values, so tests
//! that run side by side do not disturb each other, unlike the fault points, of which the process has one
//! set.

use crate::libraries::{Counters, Fingerprint, LibraryList, List, Overflow, Segment};
use crate::memory::{self, VirtualMemory};
use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Real memory with limits that a test sets.
#[derive(Debug)]
pub struct Memory {
    /// Bytes that may still be reserved. Atomics, relaxed: plain counters that any thread may change.
    addresses: AtomicUsize,
    /// Bytes that may still be committed or mapped. As above.
    storage: AtomicUsize,
}

impl Memory {
    /// Memory that grants so many bytes of addresses and of storage, in all.
    pub const fn new(addresses: usize, storage: usize) -> Memory {
        Memory {
            addresses: AtomicUsize::new(addresses),
            storage: AtomicUsize::new(storage),
        }
    }

    /// Bytes of storage that are left to grant.
    pub fn storage_left(&self) -> usize {
        self.storage.load(Ordering::Relaxed)
    }

    /// Grants more storage from now on: the moment when another process ends.
    pub fn add_storage(&self, bytes: usize) {
        self.storage.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Takes `bytes` from a budget that has them.
fn take(budget: &AtomicUsize, bytes: usize) -> bool {
    budget
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes)
        })
        .is_ok()
}

/// Gives back what `take` took when the kernel said no after all.
fn keep_if<T>(granted: Option<T>, budget: &AtomicUsize, bytes: usize) -> Option<T> {
    if granted.is_none() {
        budget.fetch_add(bytes, Ordering::Relaxed);
    }
    granted
}

// SAFETY: what is granted is the kernel's memory, which keeps the contract; the rest is refused.
unsafe impl VirtualMemory for Memory {
    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if !take(&self.addresses, bytes) {
            return None;
        }
        keep_if(memory::reserve(bytes, align), &self.addresses, bytes)
    }

    unsafe fn commit(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise is the same.
        let commit = || unsafe { memory::commit(start, bytes) }.then_some(());
        take(&self.storage, bytes) && keep_if(commit(), &self.storage, bytes).is_some()
    }

    fn map(&self, bytes: usize) -> Option<NonNull<u8>> {
        if !take(&self.storage, bytes) {
            return None;
        }
        keep_if(memory::map(bytes), &self.storage, bytes)
    }

    unsafe fn release(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise is the same.
        unsafe { memory::release(start, bytes) }
    }

    unsafe fn unmap(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // SAFETY: the caller's promise is the same.
        unsafe { memory::unmap(start, bytes) }
    }
}

/// A list of libraries from a script.
///
/// The list at time t is `moments[t]`, the last one for ever; None stands for a loader in the middle of a
/// change (a reading then sees the moment before). Time advances by one with every look, locked or not.
#[derive(Debug)]
pub struct Libraries<'t> {
    moments: &'t [Option<&'t [Segment]>],
    /// One thread uses a fake.
    time: Cell<usize>,
}

impl<'t> Libraries<'t> {
    /// A loader that goes through `moments`, of which the first is a list.
    pub fn new(moments: &'t [Option<&'t [Segment]>]) -> Libraries<'t> {
        assert!(
            matches!(moments.first(), Some(Some(_))),
            "a fake loader starts with a list"
        );
        Libraries {
            moments,
            time: Cell::new(0),
        }
    }

    /// How many looks were taken.
    pub fn looks(&self) -> usize {
        self.time.get()
    }

    fn look(&self) -> usize {
        let now = self.time.get();
        self.time.set(now + 1);
        now.min(self.moments.len() - 1)
    }

    fn fingerprint(list: &[Segment]) -> Fingerprint {
        let mut fingerprint = Fingerprint::EMPTY;
        for segment in list {
            // SAFETY: a null name.
            unsafe { fingerprint.add(segment.object_base, segment.low, core::ptr::null()) };
        }
        fingerprint
    }
}

impl LibraryList for Libraries<'_> {
    fn read(&self, buffer: &mut [Segment]) -> Result<List, Overflow> {
        let now = self.look();
        let mut before = self.moments[..=now].iter().rev();
        let list = before.find_map(|moment| *moment).unwrap_or(&[]);
        let Some(place) = buffer.get_mut(..list.len()) else {
            return Err(Overflow { needed: list.len() });
        };
        place.copy_from_slice(list);
        Ok(List {
            segments: list.len(),
            fingerprint: Self::fingerprint(list),
            counters: Counters {
                added: list.len() as u64,
                removed: 0,
            },
        })
    }

    unsafe fn fingerprint_unlocked(&self) -> Option<Fingerprint> {
        self.moments[self.look()].map(Self::fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libraries::stop_with_list;

    #[test]
    fn growth_fails_when_the_budget_is_used_up() {
        let memory = Memory::new(1 << 20, 8192);
        assert_eq!(memory.reserve(2 << 20, 4096), None);
        let start = memory.reserve(1 << 20, 4096).unwrap();
        assert_eq!(memory.reserve(4096, 4096), None);
        // SAFETY: the reservation is this test's.
        unsafe {
            assert!(memory.commit(start, 4096));
            assert!(!memory.commit(start.add(4096), 8192));
            assert_eq!(memory.storage_left(), 4096);
            assert!(memory.commit(start.add(4096), 4096));
            assert_eq!(memory.map(4096), None);
            memory.add_storage(4096);
            let more = memory.map(4096).unwrap();
            more.write(1);
            assert!(memory.release(more, 4096));
            assert_eq!(more.read(), 0);
            assert!(memory.unmap(more, 4096) && memory.unmap(start, 1 << 20));
            memory.add_storage(4096);
            // Addresses of the kernel itself, which it never hands out.
            let refused = NonNull::new(0xffff_8000_0000_0000_usize as *mut u8).unwrap();
            assert!(!memory.commit(refused, 4096), "the kernel says no");
            assert_eq!(memory.storage_left(), 4096);
        }
    }

    fn segment(base: usize) -> Segment {
        Segment {
            object_base: base,
            low: base + 64,
            high: base + 128,
            ..Segment::EMPTY
        }
    }

    /// Stops with a scripted loader; the number of segments, confirmed or not, and stops less resumes.
    fn stop(
        moments: &[Option<&[Segment]>],
        room: usize,
        attempts: u32,
    ) -> Result<(usize, bool, usize), Overflow> {
        let libraries = Libraries::new(moments);
        let mut buffer = [Segment::EMPTY; 8];
        let (stops, resumes) = (Cell::new(0), Cell::new(0));
        // SAFETY: no thread uses the fake but this one.
        let stopped = unsafe {
            stop_with_list(
                &libraries,
                &mut buffer[..room],
                attempts,
                || stops.set(stops.get() + 1),
                || resumes.set(resumes.get() + 1),
            )
        };
        let running = stops.get() == resumes.get();
        assert_eq!(
            running,
            stopped.is_err(),
            "stopped unless there was an error"
        );
        stopped.map(|s| (s.list.segments, s.confirmed, stops.get()))
    }

    #[test]
    fn the_stop_is_repeated_until_the_list_holds() {
        let (one, two) = ([segment(0x1000)], [segment(0x1000), segment(0x9000)]);
        let moved = [segment(0x5000)];
        let (one, two, moved) = (Some(&one[..]), Some(&two[..]), Some(&moved[..]));
        assert_eq!(stop(&[one], 8, 9), Ok((1, true, 1)));
        assert_eq!(stop(&[one, two], 8, 9), Ok((2, true, 2)));
        assert_eq!(stop(&[one, moved, moved], 8, 9), Ok((1, true, 2)));
        assert_eq!(stop(&[one, None, None, None, two], 8, 9), Ok((2, true, 3)));
        assert_eq!(stop(&[one, None], 8, 3), Ok((1, false, 3)));
        assert_eq!(stop(&[one, two], 1, 9), Err(Overflow { needed: 2 }));
    }
}
