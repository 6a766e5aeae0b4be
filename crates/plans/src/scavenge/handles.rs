//! Handles: root slots that live until they are dropped, by any thread.
//!
//! A table with a slot for each handle, reserved for the most there can be. Free slots form a list through
//! their values, which are immediates and so no roots. A handle may be dropped at any time, also while the world is
//! stopped: its number then goes to a list of its own, and the slot is freed when no other is free, or when the
//! collector comes. Collections look at all slots up to the highest that was handed out. Where that one is free again, and
//! half of them are, the collector lowers it to the highest in use, and those that are free below are handed out from the
//! lowest on. Both take as long as looking at all slots does.
//!
//! A byte for each chunk of the table says whether a handle there may refer to a young object. A scavenge goes by the
//! others, so it does not look at handles whose objects are all old, however many there are.
//!
//! # Invariants
//! - A slot is on the free list, on the list of dropped ones, or in use. Only the collector changes a slot in use.
//! - The lock is taken by mutators inside the gate, and by the collector in a stopped world, when no mutator has it.
//! - A handle to a young object lies in a chunk that is marked young. A mutator that makes one marks the chunk; a worker
//!   that has gone through a chunk in a scavenge says what it is from now on. No collection makes an old object young.

extern crate alloc;

use alloc::boxed::Box;
use core::ops::Range;
use core::ptr::NonNull;

use gleaner_base::sync::{
    AtomicBool, AtomicU32, AtomicU64, Ordering, RawLock, UnsafeCell, model_size,
};
use gleaner_mem::Address;
use gleaner_mem::growing::Growing;
use gleaner_mem::slot::{SlotFormat, Value, Wide};

/// How many handles a table can have in a large heap.
pub const MOST_HANDLES: usize = model_size(1 << 22, 3);
/// Handles of one root task: a chunk.
pub const TASK_HANDLES: usize = 4096;

const NONE: u32 = u32::MAX;
/// What `next` of a free slot holds while the highest in use is looked for; no slot has this number.
const FREE: u32 = NONE - 1;
/// Bytes of a slot: 8, but in a model, where the atomic that a slot is read as is larger.
const SLOT_BYTES: usize = size_of::<AtomicU64>();

/// How many handles a table can have in a heap with this limit: two for each of the smallest objects.
pub fn most_handles(limit: usize) -> usize {
    (limit / 8).clamp(TASK_HANDLES, MOST_HANDLES)
}

struct Lists {
    /// The first free slot.
    free: u32,
    /// How many are free.
    free_count: u32,
    /// Slots from here on are not used.
    fresh: u32,
    /// Whether the slot below may be free.
    ends_free: bool,
    /// Where `slots` are, and `next`.
    memory: [Growing; 2],
}

impl Lists {
    /// A handle that was never used; `None` when the table is full, or the system gives no memory.
    fn take_fresh(&mut self) -> Option<u32> {
        let wanted = self.fresh as usize + 1;
        let [slots, next] = &mut self.memory;
        let fits =
            slots.grow_to(wanted * SLOT_BYTES) && next.grow_to(wanted * size_of::<AtomicU32>());
        self.fresh += u32::from(fits);
        self.ends_free &= !fits;
        fits.then_some(self.fresh - 1)
    }
}

/// The table.
pub struct Handles {
    slots: NonNull<AtomicU64>,
    /// How many handles there can be.
    most: usize,
    /// For each chunk, whether a handle in it may refer to a young object.
    young: Box<[AtomicBool]>,
    /// `[i]`: the next number in the list of dropped ones after i, written by the thread that drops i.
    next: NonNull<AtomicU32>,
    /// The number dropped last. Pushed to by compare-and-swap (Release), emptied by a swap (Acquire).
    dropped: AtomicU32,
    lock: RawLock,
    /// Protected by `lock`.
    lists: UnsafeCell<Lists>,
}

// SAFETY: `lists` is used with the lock or by the collector in a stopped world (see the invariants); slots and `next`
// are atomics in memory that this table owns.
unsafe impl Sync for Handles {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Handles {}

impl Handles {
    /// No handles, and `most` at most; `None` when the system gives no memory.
    pub fn new(most: usize) -> Option<Handles> {
        let mut memory = [
            Growing::new(most * SLOT_BYTES)?,
            Growing::new(most * size_of::<AtomicU32>())?,
        ];
        let slots = memory[0].start().cast::<AtomicU64>();
        let next = memory[1].start().cast::<AtomicU32>();
        if model_size(0, 1) == 1 {
            assert!(memory.iter_mut().all(|memory| memory.grow_to(1)));
            // SAFETY: below `most`: a model's few slots lie in the step that was committed. Outside of models zeroed
            // memory is what is written here.
            (0..most).for_each(|index| unsafe { slots.add(index).write(AtomicU64::new(0)) });
            // SAFETY: below `most`: a model's few numbers lie in the step that was committed.
            (0..most).for_each(|index| unsafe { next.add(index).write(AtomicU32::new(0)) });
        }
        Some(Handles {
            slots,
            most,
            young: (0..most.div_ceil(TASK_HANDLES))
                .map(|_| AtomicBool::new(false))
                .collect(),
            next,
            dropped: AtomicU32::new(NONE),
            lock: RawLock::new(),
            lists: UnsafeCell::new(Lists {
                free: NONE,
                free_count: 0,
                fresh: 0,
                ends_free: false,
                memory,
            }),
        })
    }

    /// The slot of a handle, wide in every heap.
    pub fn slot(&self, number: u32) -> Address {
        Address::of(self.slots.as_ptr()).add(number as usize * SLOT_BYTES)
    }

    /// A mutator inside the gate: a new handle to a value; `None` when there are as many as there can be.
    pub fn create(&self, value: Value) -> Option<u32> {
        self.lock.lock();
        let number = self.with_lists(|lists| {
            if lists.free == NONE {
                self.free_dropped(lists);
            }
            if lists.free != NONE {
                let number = lists.free;
                lists.free_count -= 1;
                lists.free = self
                    .load(number)
                    .as_immediate()
                    .map_or(NONE, |next| next as u32);
                Some(number)
            } else if (lists.fresh as usize) < self.most {
                lists.take_fresh()
            } else {
                None
            }
        });
        if let Some(number) = number {
            self.put(number, value);
        }
        self.lock.unlock();
        number
    }

    /// Whether a handle of a chunk may refer to a young object.
    pub fn is_young(&self, chunk: usize) -> bool {
        self.young[chunk].load(Ordering::Relaxed)
    }

    /// A mutator that made or set a handle, or the worker that goes through the chunk: whether a handle there refers to a
    /// young object from now on.
    pub fn set_young(&self, chunk: usize, young: bool) {
        self.young[chunk].store(young, Ordering::Relaxed);
    }

    /// Anyone, at any time: the handle is not used again.
    pub fn discard(&self, number: u32) {
        let next = self.next(number);
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

    fn next(&self, number: u32) -> &AtomicU32 {
        // SAFETY: the number of a handle is below `most`; zeroed memory is an atomic.
        unsafe { self.next.add(number as usize).as_ref() }
    }

    /// Collector, in a stopped world: frees what was dropped, and says how many slots to look at.
    pub fn prepare(&self) -> usize {
        self.with_lists(|lists| {
            self.free_dropped(lists);
            let half_is_free = lists.free_count >= lists.fresh / 2;
            if lists.ends_free && half_is_free && lists.fresh as usize > TASK_HANDLES {
                self.lower(lists);
            }
            lists.fresh as usize
        })
    }

    /// In a stopped world: no slot above the highest in use is looked at any more, and free ones below are in order.
    ///
    /// Other threads may drop handles meanwhile. Those are in use as far as this is concerned, and it writes to nothing
    /// of a slot in use.
    fn lower(&self, lists: &mut Lists) {
        let mut number = lists.free;
        while number != NONE {
            self.next(number).store(FREE, Ordering::Relaxed);
            let next = self.load(number).as_immediate();
            number = next.map_or(NONE, |next| next as u32);
        }
        let is_free = |&number: &u32| self.next(number).load(Ordering::Relaxed) == FREE;
        let in_use = (0..lists.fresh).rev().find(|number| !is_free(number));
        let end = in_use.map_or(0, |number| number + 1);
        (lists.free, lists.free_count) = (NONE, 0);
        for number in (0..lists.fresh).rev().filter(is_free) {
            self.next(number).store(NONE, Ordering::Relaxed);
            if number < end {
                self.store(number, Value::immediate(i64::from(lists.free)));
                lists.free = number;
                lists.free_count += 1;
            }
        }
        (lists.fresh, lists.ends_free) = (end, false);
    }

    /// With the lock, or in a stopped world.
    fn free_dropped(&self, lists: &mut Lists) {
        let mut number = self.dropped.swap(NONE, Ordering::Acquire);
        while number != NONE {
            let next = self.next(number).load(Ordering::Relaxed);
            self.store(number, Value::immediate(i64::from(lists.free)));
            lists.free = number;
            lists.free_count += 1;
            lists.ends_free |= number + 1 == lists.fresh;
            number = next;
        }
    }

    fn with_lists<R>(&self, body: impl FnOnce(&mut Lists) -> R) -> R {
        // SAFETY: the callers hold the lock or have stopped the world.
        self.lists.with_mut(|lists| body(unsafe { &mut *lists }))
    }

    /// What a handle holds: an immediate exactly while it is free, but for those that a program puts there.
    pub fn load(&self, number: u32) -> Value {
        // SAFETY: the number of a handle is below `most`, so its slot is in the mapping.
        unsafe { Wide::load(self.slot(number), Address::NULL) }
    }

    /// A mutator inside the gate: the handle keeps another value, which may be young.
    pub fn put(&self, number: u32, value: Value) {
        self.set_young(number as usize / TASK_HANDLES, true);
        self.store(number, value);
    }

    fn store(&self, number: u32, value: Value) {
        // SAFETY: the number of a handle is below `most`, so its slot is in the mapping.
        unsafe { Wide::store(self.slot(number), Address::NULL, value) };
    }
}

/// The handles of a chunk, of `count` in all.
pub fn chunk(number: usize, count: usize) -> Range<u32> {
    let first = number * TASK_HANDLES;
    first as u32..(first + TASK_HANDLES).min(count) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn dropped_handles_are_used_again_and_are_no_roots() {
        let handles = Handles::new(1 << 16).unwrap();
        let object = Value::reference(Address::new(0x100));
        let numbers: Vec<u32> = (0..10).map(|_| handles.create(object).unwrap()).collect();
        assert_eq!(handles.prepare(), 10);
        numbers.iter().for_each(|&number| handles.discard(number));
        assert_eq!(handles.prepare(), 10);
        assert!(
            numbers
                .iter()
                .all(|&number| handles.load(number).as_object().is_none())
        );
        let mut again: Vec<u32> = (0..10).map(|_| handles.create(object).unwrap()).collect();
        again.sort_unstable();
        assert_eq!(again, numbers);
    }

    #[test]
    fn there_are_as_many_as_the_limit_says() {
        for most in [most_handles(64 << 10), TASK_HANDLES + 1] {
            let handles = Handles::new(most).unwrap();
            let create = || handles.create(Value::NULL);
            let made = core::iter::from_fn(create).count();
            assert_eq!(made, most);
            handles.discard(7);
            assert_eq!((create(), create()), (Some(7), None));
        }
        assert_eq!(most_handles(64 << 10), 8192);
    }

    #[test]
    fn slots_above_the_highest_in_use_are_not_looked_at() {
        let handles = Handles::new(1 << 16).unwrap();
        let create = || handles.create(Value::immediate(7)).unwrap();
        let numbers: Vec<u32> = (0..20_000).map(|_| create()).collect();
        for &number in numbers.iter().rev().filter(|&&number| number != 12_345) {
            handles.discard(number);
        }
        assert_eq!(handles.prepare(), 12_346);
        // One that holds an immediate is no free one.
        assert_eq!(handles.load(12_345), Value::immediate(7));
        assert!((0..12_345).all(|number| create() == number));
        assert_eq!(create(), 12_346);
        (0..12_347).for_each(|number| handles.discard(number));
        assert_eq!(handles.prepare(), 0);
        assert_eq!((create(), create()), (0, 1));
    }

    #[test]
    fn a_handle_has_one_user_whatever_is_dropped_in_between() {
        let handles = Handles::new(1 << 16).unwrap();
        let mut used: Vec<(u32, u64)> = Vec::new();
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut lowered, mut before) = (0, 0);
        for round in 0..60 {
            let wanted = random(12_000) as usize;
            while used.len() < wanted {
                let bits = random(1 << 20) << 3 | random(2);
                let number = handles.create(Value::from_bits(bits)).unwrap();
                used.push((number, bits));
            }
            while used.len() > wanted {
                let place = random(used.len() as u64) as usize;
                handles.discard(used.swap_remove(place).0);
            }
            let fresh = handles.prepare();
            lowered += usize::from(fresh < before);
            before = fresh;
            let mut numbers: Vec<u32> = used.iter().map(|&(number, _)| number).collect();
            numbers.sort_unstable();
            assert!(numbers.is_sorted_by(|a, b| a < b), "round {round}");
            assert!(numbers.last().is_none_or(|&last| (last as usize) < fresh));
            assert!(
                used.iter()
                    .all(|&(number, bits)| handles.load(number).bits() == bits)
            );
        }
        assert!(lowered > 5);
    }

    #[test]
    fn threads_may_drop_at_the_same_time() {
        let handles = Handles::new(1 << 16).unwrap();
        let numbers: Vec<u32> = (0..4000)
            .map(|_| handles.create(Value::NULL).unwrap())
            .collect();
        std::thread::scope(|scope| {
            for part in numbers.chunks(1000) {
                scope.spawn(|| part.iter().for_each(|&number| handles.discard(number)));
            }
        });
        for _ in 0..4000 {
            assert!(handles.create(Value::NULL).unwrap() < 4000);
        }
        assert_eq!(handles.create(Value::NULL), Some(4000));
    }
}

/// The shipped code under loom.
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::thread;
    use std::sync::Arc;
    use std::vec::Vec;

    struct Shared {
        handles: Handles,
        /// `[i]`: whether handle i is in use; touched by the one that has it, before it is discarded.
        in_use: [UnsafeCell<bool>; MOST_HANDLES],
    }

    // SAFETY: a handle belongs to one thread until that discards it; loom checks that.
    unsafe impl Sync for Shared {}
    // SAFETY: nothing in it belongs to a thread.
    unsafe impl Send for Shared {}

    impl Shared {
        fn create(&self) -> Option<u32> {
            let number = self.handles.create(object())?;
            // SAFETY: the handle is the caller's.
            let before = self.in_use[number as usize]
                .with_mut(|in_use| core::mem::replace(unsafe { &mut *in_use }, true));
            assert!(!before, "handle {number} is given out twice");
            assert_eq!(self.handles.load(number), object());
            Some(number)
        }

        fn discard(&self, number: u32) {
            // SAFETY: the handle is still the caller's.
            self.in_use[number as usize].with_mut(|in_use| unsafe { *in_use = false });
            self.handles.discard(number);
        }
    }

    fn object() -> Value {
        Value::reference(Address::new(0x100))
    }

    /// Threads discard handles while another creates some. No handle has two users, each is used again, and what is
    /// free is no root.
    #[test]
    fn discarded_handles_are_used_again_one_at_a_time() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new(Shared {
                handles: Handles::new(MOST_HANDLES).unwrap(),
                in_use: core::array::from_fn(|_| UnsafeCell::new(false)),
            });
            let all: Vec<u32> = (0..3).map(|_| shared.create().unwrap()).collect();
            assert_eq!(shared.create(), None);
            let others = [0, 1].map(|index| {
                let (shared, number) = (shared.clone(), all[index]);
                thread::spawn(move || shared.discard(number))
            });
            let again = shared.create();
            if let Some(number) = again {
                shared.discard(number);
            }
            others.into_iter().for_each(|other| other.join().unwrap());
            // The world is stopped: a collector looks for roots.
            assert_eq!(shared.handles.prepare(), 3);
            let free = |number: &&u32| shared.handles.load(**number).as_object().is_none();
            assert_eq!(all.iter().filter(free).count(), 2);
            assert_eq!(shared.handles.load(all[2]), object());
            assert!(shared.create().is_some() && shared.create().is_some());
            assert_eq!(shared.create(), None);
        });
    }
}
