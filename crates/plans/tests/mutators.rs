//! Several mutators that allocate and free from their own lists without a lock, stopped at any instruction, while
//! another thread collects: nothing that they hold is lost, and no cell is given to two of them (I8).
//!
//! Each thread keeps chains of objects in a range of roots of its own. An object carries the number of its thread and a
//! sum over its words, so a cell that two threads use, or that was swept while in use, shows.

#![cfg(not(loom))]

mod harness;

use std::cell::UnsafeCell;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use gleaner_base::sync::RawLock;
use gleaner_mem::Address;
use gleaner_os::{signals, threads};
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::roots::Range;
use gleaner_plans::mark_sweep::stop::signal::on_suspend;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::explicit_free::{push_cell, push_magazine};
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, class_of};
use harness::rng::Rng;
use harness::{Bench, crew, grow};

const THREADS: usize = 6;
const CHAINS: usize = 128;
const COLLECTIONS: usize = 300;

/// The heap and its lock.
struct Shared {
    lock: RawLock,
    bench: UnsafeCell<Bench>,
    over: AtomicBool,
    allocated: AtomicUsize,
}

// SAFETY: the heap is used under the lock.
unsafe impl Sync for Shared {}
// SAFETY: nothing in it belongs to a thread, but for the heap, which goes from holder to holder of the lock.
unsafe impl Send for Shared {}

impl Shared {
    #[allow(clippy::mut_from_ref, reason = "under the lock")]
    fn bench(&self) -> &mut Bench {
        assert!(self.lock.is_locked());
        // SAFETY: the caller holds the lock.
        unsafe { &mut *self.bench.get() }
    }

    fn register(&self, roots: &[usize]) -> *mut Mutator {
        let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
        self.lock.lock();
        let heap = &mut self.bench().heap;
        let low = Address::of(roots.as_ptr());
        heap.roots.add(Range {
            low,
            high: low.add(roots.len() * 8),
        });
        // SAFETY: fresh memory that is never freed.
        unsafe {
            heap.mutators.add(record);
            heap.mutators.occupy(
                record,
                heap.world,
                Address::new(threads::stack_top()),
                false,
            );
        }
        threads::set_thread_word(record as usize);
        self.lock.unlock();
        signals::unblock(signals::DEFAULT_SUSPEND);
        record
    }

    fn leave(&self, record: *mut Mutator) {
        self.lock.lock();
        threads::set_thread_word(0);
        // SAFETY: the calling thread's own record; it does not use it again.
        unsafe { self.bench().heap.retire(record) };
        self.lock.unlock();
    }

    /// Takes the first cell of the thread's list; the door's fast path.
    fn allocate(&self, record: *mut Mutator, class: usize) -> Address {
        loop {
            // SAFETY: the calling thread's own record; a listed cell links to the next in its first word.
            unsafe {
                let head = &raw mut (*record).cache.heads[NORMAL][class];
                let cell = head.read_volatile();
                if !cell.is_null() {
                    head.write_volatile(Address::new(cell.load()));
                    // A pause between the two must not find a list that ends here.
                    compiler_fence(Ordering::Release);
                    cell.store(0);
                    cell.add(8).store(0);
                    return cell;
                }
            }
            self.lock.lock();
            let heap = &mut self.bench().heap;
            // SAFETY: the calling thread's own record, and the lock is held.
            let refilled = unsafe { heap.space.refill(&raw mut (*record).cache, NORMAL, class) };
            if let Err(Shortage::Capacity(bytes)) = refilled {
                heap.grow_to(
                    heap.space.capacity + bytes.max(1 << 20),
                    "the collector is on its way",
                );
            }
            self.lock.unlock();
            let full = matches!(refilled, Err(Shortage::System | Shortage::Range));
            assert!(!full, "chains are short");
        }
    }
}

/// Words of an object: the next one, the owner, the sum, then data.
fn check(object: Address, owner: usize) -> Address {
    // SAFETY: an object of this thread, at least four words long.
    unsafe {
        let words = object.add(24).load();
        assert_eq!(
            object.add(8).load(),
            owner,
            "another thread's object at {object:?}"
        );
        let sum = (4..words).fold(owner, |sum, word| {
            sum.wrapping_mul(31) ^ object.add(word * 8).load()
        });
        assert_eq!(
            object.add(16).load(),
            sum,
            "the object at {object:?} changed"
        );
        Address::new(object.load())
    }
}

fn build(object: Address, owner: usize, next: usize, bytes: usize, rng: &mut Rng) {
    // SAFETY: a fresh object of this thread.
    unsafe {
        assert!(
            (0..bytes / 8).all(|word| object.add(word * 8).load() == 0),
            "fresh is zero"
        );
        let mut sum = owner;
        for word in 4..bytes / 8 {
            let value = rng.below(1 << 32);
            object.add(word * 8).store(value);
            sum = sum.wrapping_mul(31) ^ value;
        }
        object.add(24).store(bytes / 8);
        object.add(16).store(sum);
        object.add(8).store(owner);
        object.store(next);
    }
}

fn mutate(shared: &Shared, owner: usize) {
    let roots: &'static mut [usize] = Box::leak(vec![0usize; CHAINS].into_boxed_slice());
    let record = shared.register(roots);
    let mut rng = Rng::new(owner as u64);
    while !shared.over.load(Ordering::Relaxed) {
        let chain = &raw mut roots[rng.below(CHAINS)];
        // SAFETY: this thread's own roots; volatile, because the collector reads them.
        let first = unsafe { chain.read_volatile() };
        match rng.below(16) {
            0..10 => {
                let class = class_of(32 + rng.below(400));
                let object = shared.allocate(record, class);
                build(
                    object,
                    owner,
                    first,
                    usize::from(CELL_BYTES[class]),
                    &mut rng,
                );
                // SAFETY: a slot of this thread's own roots, which it alone writes.
                unsafe { chain.write_volatile(object.word()) };
                shared.allocated.fetch_add(1, Ordering::Relaxed);
            }
            10..12 if first != 0 => {
                let object = Address::new(first);
                let next = check(object, owner);
                // SAFETY: a slot of this thread's own roots, which it alone writes; the object is given up, and is of
                // the class that its length says.
                unsafe {
                    let class = class_of(object.add(24).load() * 8);
                    chain.write_volatile(next.word());
                    if object.word() & 64 == 0 {
                        push_cell(&raw mut (*record).cache, NORMAL, class, object, true, false);
                    } else {
                        push_magazine(&raw mut (*record).cache, NORMAL, class, object, true);
                    }
                }
            }
            // SAFETY: a slot of this thread's own roots, which it alone writes.
            12 => unsafe { chain.write_volatile(0) },
            _ => {
                let mut object = Address::new(first);
                while !object.is_null() {
                    object = check(object, owner);
                }
            }
        }
    }
    roots.fill(0);
    shared.leave(record);
}

/// A failed check may leave the lock held or the world stopped: the other threads would wait for ever.
fn end_the_process_at_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let _ = writeln!(std::io::stderr(), "{panic}");
        std::process::abort();
    }));
}

fn run(policy: &str) {
    end_the_process_at_a_panic();
    assert!(signals::install_suspend_handler(
        signals::DEFAULT_SUSPEND,
        on_suspend
    ));
    let crew = crew();
    assert_eq!(grow(crew, 1), 1);
    let bench = Bench::with_crew(
        &format!("reserve=512m,markers=2,verify=edges,{policy}"),
        crew,
    );
    threads::set_thread_word(bench.record as usize);
    let shared = Shared {
        lock: RawLock::new(),
        bench: UnsafeCell::new(bench),
        over: AtomicBool::new(false),
        allocated: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        for owner in 1..=THREADS {
            let shared = &shared;
            scope.spawn(move || mutate(shared, owner));
        }
        for collection in 0..COLLECTIONS {
            // Let the threads work between collections, however few processors there are.
            let goal = shared.allocated.load(Ordering::Relaxed) + 200;
            while shared.allocated.load(Ordering::Relaxed) < goal {
                threads::yield_now();
            }
            shared.lock.lock();
            shared.bench().collect();
            if collection % 8 == 0 {
                shared.bench().verify();
            }
            shared.lock.unlock();
        }
        shared.over.store(true, Ordering::Relaxed);
    });
    threads::set_thread_word(0);
    let mut bench = shared.bench.into_inner();
    bench.collect();
    bench.collect();
    assert_eq!(bench.heap.mutators.count(), 1);
    assert_eq!(
        bench.marked().len(),
        0,
        "nothing is left when the threads are gone"
    );
    bench.verify_collected();
    crew.dismiss();
}

#[test]
fn lists_without_locks_under_lazy_sweeping() {
    run("sweep=lazy");
}

#[test]
fn lists_without_locks_under_eager_sweeping() {
    run("sweep=eager,prefetch=fifo");
}
