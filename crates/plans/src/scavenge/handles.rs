//! Handles: slots that live until they are dropped, by any thread. What the collector makes of them is its business:
//! global handles are roots, weak references, ephemerons and finalizers are not ([`weak`](super::weak)).
//!
//! A table with one slot or two for each handle, mapped for the most there can be. Free slots form a list through their
//! values, which are immediates and so no roots. A handle may be dropped at any time, also while the world is stopped:
//! its number then goes to a list of its own, and the slot is freed when no other is free, or when the collector comes.
//!
//! # Invariants
//! - A slot is on the free list, on the list of dropped ones, or in use. Only the collector changes a slot in use.
//! - The lock is taken by mutators inside the gate, and by the collector in a stopped world, when no mutator has it.

use core::ptr::NonNull;

use gleaner_base::sync::{AtomicU32, Ordering, RawLock, UnsafeCell};
use gleaner_mem::Address;
use gleaner_mem::slot::{SlotFormat, Value, Wide};
use gleaner_os::memory;

/// How many handles a table can have.
pub const MOST_HANDLES: usize = 1 << 22;
/// Handles of one task, of roots or of ephemerons.
pub const TASK_HANDLES: usize = 4096;

const NONE: u32 = u32::MAX;
const NEXT_BYTES: usize = MOST_HANDLES * size_of::<AtomicU32>();

struct Lists {
    /// The first free slot.
    free: u32,
    /// Slots from here on were never used.
    fresh: u32,
}

/// The table.
pub struct Handles {
    slots: NonNull<u64>,
    /// Slots of each handle.
    width: usize,
    /// `[i]`: the next number in the list of dropped ones after i, written by whoever drops i; before that, in a list of
    /// the table's user.
    next: NonNull<AtomicU32>,
    /// The number dropped last. Pushed to by compare-and-swap (Release), emptied by a swap (Acquire).
    dropped: AtomicU32,
    lock: RawLock,
    /// Protected by `lock`.
    lists: UnsafeCell<Lists>,
}

// SAFETY: see the invariants and the fields.
unsafe impl Sync for Handles {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Handles {}

impl Handles {
    /// No handles, of `width` slots each; `None` when the system gives no memory.
    pub fn new(width: usize) -> Option<Handles> {
        let slot_bytes = MOST_HANDLES * 8 * width;
        let both = memory::map(slot_bytes + NEXT_BYTES)?;
        Some(Handles {
            slots: both.cast(),
            width,
            // SAFETY: inside the mapping.
            next: unsafe { both.add(slot_bytes) }.cast(),
            dropped: AtomicU32::new(NONE),
            lock: RawLock::new(),
            lists: UnsafeCell::new(Lists {
                free: NONE,
                fresh: 0,
            }),
        })
    }

    /// The first slot of a handle, wide in every heap. It holds an immediate exactly while the handle is free.
    pub fn slot(&self, number: u32) -> Address {
        Address::of(self.slots.as_ptr()).add(number as usize * 8 * self.width)
    }

    /// The second slot of a handle of two.
    pub fn second(&self, number: u32) -> Address {
        debug_assert_eq!(self.width, 2);
        self.slot(number).add(8)
    }

    /// A mutator inside the gate: a new handle to these values; `None` when there are [`MOST_HANDLES`].
    pub fn create(&self, values: &[Value]) -> Option<u32> {
        debug_assert_eq!(values.len(), self.width);
        self.lock.lock();
        let number = self.with_lists(|lists| {
            if lists.free == NONE {
                self.free_dropped(lists);
            }
            if lists.free != NONE {
                let number = lists.free;
                lists.free = self
                    .load(number)
                    .as_immediate()
                    .map_or(NONE, |next| next as u32);
                Some(number)
            } else if (lists.fresh as usize) < MOST_HANDLES {
                lists.fresh += 1;
                Some(lists.fresh - 1)
            } else {
                None
            }
        });
        if let Some(number) = number {
            for (index, &value) in values.iter().enumerate() {
                // SAFETY: the slots of this handle.
                unsafe { Wide::store(self.slot(number).add(index * 8), Address::NULL, value) };
            }
        }
        self.lock.unlock();
        number
    }

    /// Anyone, at any time: the handle is not used again.
    pub fn discard(&self, number: u32) {
        // SAFETY: below MOST_HANDLES; zeroed memory is an atomic.
        let next = unsafe { self.next.add(number as usize).as_ref() };
        let mut first = self.dropped.load(Ordering::Relaxed);
        loop {
            next.store(first, Ordering::Relaxed);
            match self.dropped.compare_exchange_weak(
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

    /// The handle after this one, in a list of the table's user. A handle in such a list is not dropped.
    pub fn next(&self, number: u32) -> u32 {
        // SAFETY: below MOST_HANDLES; zeroed memory is an atomic.
        unsafe { self.next.add(number as usize).as_ref() }.load(Ordering::Relaxed)
    }

    /// Sets the handle after this one.
    pub fn set_next(&self, number: u32, next: u32) {
        // SAFETY: as above.
        unsafe { self.next.add(number as usize).as_ref() }.store(next, Ordering::Relaxed);
    }

    /// Collector, in a stopped world: frees what was dropped, and says how many slots to look at.
    pub fn prepare(&self) -> usize {
        self.with_lists(|lists| {
            self.free_dropped(lists);
            lists.fresh as usize
        })
    }

    /// With the lock, or in a stopped world.
    fn free_dropped(&self, lists: &mut Lists) {
        let mut number = self.dropped.swap(NONE, Ordering::Acquire);
        while number != NONE {
            // SAFETY: as in `discard`.
            let next = unsafe { self.next.add(number as usize).as_ref() }.load(Ordering::Relaxed);
            self.store(number, Value::immediate(i64::from(lists.free)));
            lists.free = number;
            number = next;
        }
    }

    fn with_lists<R>(&self, body: impl FnOnce(&mut Lists) -> R) -> R {
        // SAFETY: the callers hold the lock or have stopped the world.
        self.lists.with_mut(|lists| body(unsafe { &mut *lists }))
    }

    /// What the first slot of a handle holds.
    pub fn load(&self, number: u32) -> Value {
        // SAFETY: a slot of the table.
        unsafe { Wide::load(self.slot(number), Address::NULL) }
    }

    /// Sets the first slot of a handle.
    pub fn store(&self, number: u32, value: Value) {
        // SAFETY: a slot of the table.
        unsafe { Wide::store(self.slot(number), Address::NULL, value) };
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        let bytes = MOST_HANDLES * 8 * self.width + NEXT_BYTES;
        // SAFETY: `new` mapped so much, in one piece.
        unsafe { memory::unmap(self.slots.cast(), bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn dropped_handles_are_used_again_and_are_no_roots() {
        let handles = Handles::new(1).unwrap();
        let object = Value::reference(Address::new(0x100));
        let numbers: Vec<u32> = (0..10)
            .map(|_| handles.create(&[object]).unwrap())
            .collect();
        assert_eq!(handles.prepare(), 10);
        numbers.iter().for_each(|&number| handles.discard(number));
        assert_eq!(handles.prepare(), 10);
        assert!(
            numbers
                .iter()
                .all(|&number| handles.load(number).as_object().is_none())
        );
        let mut again: Vec<u32> = (0..10)
            .map(|_| handles.create(&[object]).unwrap())
            .collect();
        again.sort_unstable();
        assert_eq!(again, numbers);
    }

    #[test]
    fn threads_may_drop_at_the_same_time() {
        let handles = Handles::new(1).unwrap();
        let numbers: Vec<u32> = (0..4000)
            .map(|_| handles.create(&[Value::NULL]).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for part in numbers.chunks(1000) {
                scope.spawn(|| part.iter().for_each(|&number| handles.discard(number)));
            }
        });
        for _ in 0..4000 {
            assert!(handles.create(&[Value::NULL]).unwrap() < 4000);
        }
        assert_eq!(handles.create(&[Value::NULL]), Some(4000));
    }
}
