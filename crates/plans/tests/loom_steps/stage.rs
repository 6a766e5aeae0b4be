//! What the models run on: a heap with its lock, the kernel, and mutators whose stacks are its roots.
//!
//! Atomics of `core` belong to the collecting thread alone.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::OnceLock;

use gleaner_base::options::{CycleHelper, MarkGenerations, Options};
use gleaner_base::sync::{AtomicBool, Ordering, RawLock, UnsafeCell, share_word, store_shared};
use gleaner_mem::Address;
use gleaner_os::topology::Topology;
use gleaner_os::written::{Mechanism, PAGE_BYTES, Watch};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::collect::{Client, Moment, Outcome, Request};
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::roots::LibraryList;
use gleaner_plans::mark_sweep::stop::protocol::{Station, World};
use gleaner_plans::mark_sweep::stop::signal::Refused;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use gleaner_spaces::mark_sweep::mark::Until;
use gleaner_spaces::mark_sweep::size_classes::class_of;
use gleaner_spaces::mark_sweep::targets::MarkedObject;
use gleaner_work::Crew;
use loom::thread;

use crate::kernel::{Answers, Kernel, MUTATORS};

/// Words of a mutator's stack.
const LOCALS: usize = 4;
/// Words of an object that are modelled.
const WORDS: usize = 2;
/// No clock ends a step.
const LONG_NS: Option<u64> = Some(u64::MAX / 2);

/// What lives as long as a model's execution, lent as long as that needs: heaps expect that such things stay.
struct Lent<T>(*mut T);

impl<T: 'static> Lent<T> {
    fn new(value: T) -> Lent<T> {
        Lent(Box::into_raw(Box::new(value)))
    }

    fn lend(&self) -> &'static T {
        // SAFETY: a box that goes with this; the stage drops this after what it was lent to.
        unsafe { &*self.0 }
    }
}

impl<T: 'static> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.lend()
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        // SAFETY: the box that `new` made.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// What is done in stops. The last two are wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stops {
    Whole,
    /// All but the first wait for no thread.
    WaitForNone,
    /// All but the first scan no stacks.
    SkipRoots,
}

/// Who wants cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The program, as by `GC_enable_incremental`. Marks are kept.
    Asked,
    /// The heap itself, under `generations=auto`: pages are watched for cycles alone.
    Auto,
}

/// What a mutator shares with the thread that stops it.
pub struct Running {
    pub station: Station,
    /// Its stack: its own while it runs, the collecting thread's while it is stopped.
    locals: UnsafeCell<[usize; LOCALS]>,
    /// Whether it is in a blocking region, which it does not leave once it has ended.
    pub rests: AtomicBool,
}

/// The objects of a model at its beginning, each on a page of its own. The first mutator's stack refers to X and Y.
pub const X: usize = 0;
pub const Y: usize = 1;
/// Only the first word of X refers to it.
const T: usize = 2;
pub const SIZES: [usize; 3] = [16, 32, 48];
/// Bytes of objects for which there is no block yet.
pub const FRESH: usize = 64;

/// Words of stacks, behind those that refer to X and Y.
pub const HELD: usize = 2;
pub const BORN: usize = 3;

/// See the file's header.
pub struct Stage {
    /// The allocator lock.
    lock: RawLock,
    /// Used under the lock.
    heap: UnsafeCell<Heap>,
    pub objects: [Address; 3],
    pub mutators: [Running; MUTATORS],
    /// Stops so far. For the collecting thread alone, hence no atomic of loom.
    stopped: core::sync::atomic::AtomicU32,
    stops: Stops,
    wanted: Wanted,
    // Dropped after the heap.
    kernel: Lent<Kernel>,
    world: Lent<World>,
    _crew: Lent<Crew>,
}

// SAFETY: the heap is used under the lock, locals by their thread or in a stopped world; loom checks that.
unsafe impl Sync for Stage {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Stage {}

impl Drop for Stage {
    fn drop(&mut self) {
        self.heap.with_mut(|heap| {
            // SAFETY: no other thread has the stage, and nothing follows that touches objects or engine.
            unsafe {
                (*heap).space.written = None;
                (*heap).engine.unmap();
                (*heap).space.layout.unmap();
            }
        });
    }
}

fn options() -> Options {
    Options {
        reserve: 1,
        ..Options::DEFAULT
    }
}

/// Read once: loom runs a model thousands of times.
fn topology() -> Topology {
    static TOPOLOGY: OnceLock<Topology> = OnceLock::new();
    *TOPOLOGY.get_or_init(Topology::host)
}

fn allocate_in(heap: &mut Heap, bytes: usize) -> Address {
    let object = heap.space.allocate_small(NORMAL, class_of(bytes));
    let object = object.expect("a small heap has room");
    // Before anybody knows the object, which reads as zero.
    (0..WORDS).for_each(|word| share_word(object.add(word * 8).word(), 0));
    object
}

impl Stage {
    pub fn new(answers: Answers, stops: Stops, wanted: Wanted) -> Stage {
        let world = Lent::new(World::new());
        let crew = Lent::new(Crew::new());
        let heap = Heap::new(&options(), false, topology(), crew.lend(), world.lend());
        let mut heap = heap.expect("a small heap can be reserved");
        let objects = SIZES.map(|bytes| allocate_in(&mut heap, bytes));
        store_shared(objects[X].word(), objects[T].word());
        let fresh = heap.space.start(heap.space.small_frontier());
        let page = |at: Address| at.word() / PAGE_BYTES;
        let pages = objects.iter().copied().chain([fresh]).map(page).collect();
        let omitted = match answers {
            Answers::Omits(object) => Some(page(objects[object])),
            _ => None,
        };
        let kernel = Lent::new(Kernel::new(answers, pages, omitted));
        let mechanism = match answers {
            Answers::InTwoCalls => Mechanism::SoftDirty,
            _ => Mechanism::PageScan,
        };
        heap.mode = match wanted {
            Wanted::Asked => MarkGenerations::Incremental,
            Wanted::Auto => MarkGenerations::Auto,
        };
        heap.settings.time_limit_ns = LONG_NS;
        let locals = |mutator| match mutator {
            0 => [objects[X].word(), objects[Y].word(), 0, 0],
            _ => [0; LOCALS],
        };
        let stage = Stage {
            lock: RawLock::new(),
            heap: UnsafeCell::new(heap),
            mutators: core::array::from_fn(|mutator| Running {
                station: Station::new(),
                locals: UnsafeCell::new(locals(mutator)),
                rests: AtomicBool::new(true),
            }),
            objects,
            stopped: Default::default(),
            stops,
            wanted,
            kernel,
            world,
            _crew: crew,
        };
        if wanted == Wanted::Auto {
            stage.prefer_cycles();
        }
        let model = stage.kernel.lend();
        stage.with_heap(|heap| {
            let watched = heap
                .space
                .watch_by(|_| Ok(Watch::modelled(mechanism, model)));
            assert!(watched.is_ok());
        });
        stage
    }

    /// A collection decides that cycles pay, and has pages watched for them. The kernel of this machine is asked for that, and for
    /// nothing else.
    fn prefer_cycles(&self) {
        self.with_heap(|heap| {
            heap.options.cycle_helper = CycleHelper::On;
            heap.settings.markers = 1;
            // There is no helper, and a cycle begins nevertheless.
            heap.options.stress = 1;
        });
        assert_eq!(self.collect(false), Outcome::Done);
        self.with_heap(|heap| assert!(heap.makes_steps(), "{:?}", heap.unwatched));
    }

    /// No clock ends a step or has the kernel asked ahead, and the next stop puts off what there is to mark, or marks all of it.
    fn expect_marking(&self, heap: &mut Heap, is_long: bool) {
        heap.totals.last_question_ns = 0; // On a busy machine the first stop's was long.
        if self.wanted == Wanted::Auto {
            heap.totals.last_scanned = 1;
            heap.totals.last_marking_ns = if is_long { u64::MAX / 2 } else { 0 };
        }
    }

    // For the collecting thread, which is none of the mutators.

    fn with_heap<R>(&self, body: impl FnOnce(&mut Heap) -> R) -> R {
        self.lock.lock();
        // SAFETY: the lock is held.
        let result = self.heap.with_mut(|heap| body(unsafe { &mut *heap }));
        self.lock.unlock();
        result
    }

    fn collect(&self, in_steps: bool) -> Outcome {
        self.with_heap(|heap| {
            let request = Request {
                reason: "model",
                libraries: &mut LibraryList::read(0, |_| false),
                workers: (1, ""),
                stack_pointer: Address::NULL,
                release_all: false,
                everything: false,
                in_steps,
                finds_leaks: false,
                again: false,
                asked: false,
                snapshot: false,
                last_attempt: true,
            };
            heap.collect(request, &Door { stage: self })
        })
    }

    pub fn begin(&self) {
        assert_eq!(self.collect(true), Outcome::Begun);
        self.with_heap(|heap| {
            heap.options.stress = 0; // From now on no clock ends a step.
            self.expect_marking(heap, true);
        });
    }

    pub fn step(&self) {
        self.with_heap(|heap| heap.step());
    }

    /// A step that asks the kernel ahead of the last stop.
    pub fn step_and_ask(&self) {
        self.with_heap(|heap| {
            heap.totals.last_question_ns = u64::MAX;
            heap.step();
        });
    }

    /// For a helper that marks beside the program: a turn, unless another thread has the lock.
    pub fn help(&self) {
        if self.lock.try_lock() {
            // SAFETY: the lock is held.
            self.heap
                .with_mut(|heap| unsafe { (*heap).mark_turn(Until::time(u64::MAX / 2)) });
            self.lock.unlock();
        }
    }

    /// Whether T is marked by now.
    pub fn has_found_t(&self) -> bool {
        self.with_heap(|heap| is_marked(heap, self.objects[T]))
    }

    /// Ends a cycle.
    pub fn end(&self) {
        self.with_heap(|heap| self.expect_marking(heap, false));
        assert_eq!(self.collect(false), Outcome::Done);
        let extent = self.with_heap(|heap| heap.extent);
        assert!(
            matches!(extent, Extent::Stepped(_) | Extent::SteppedNew(_)),
            "{extent:?}"
        );
    }

    /// Collects new objects.
    pub fn collect_new(&self) {
        assert_eq!(self.collect(false), Outcome::Done);
        let extent = self.with_heap(|heap| heap.extent);
        assert!(matches!(extent, Extent::New(_)), "{extent:?}");
    }

    /// A stop that takes no time for marking: where anything is to be marked, that is done beside the program. Whether that
    /// was so; else the cycle has ended, or the collection.
    pub fn put_off(&self) -> bool {
        self.with_heap(|heap| heap.settings.time_limit_ns = Some(0));
        let outcome = self.collect(false);
        self.with_heap(|heap| heap.settings.time_limit_ns = LONG_NS);
        if outcome == Outcome::Begun {
            self.step();
            return true;
        }
        assert_eq!(outcome, Outcome::Done);
        false
    }

    fn wait_for_mutators(&self) {
        let stopped = self.stopped.fetch_add(1, Ordering::Relaxed);
        let epoch = 2 * stopped + 1; // Raised at both ends of a stop.
        self.kernel.is_stopped.store(true, Ordering::Relaxed);
        if stopped > 0 && self.stops == Stops::WaitForNone {
            return;
        }
        for mutator in &self.mutators {
            while !mutator.rests.load(Ordering::Acquire)
                && !self.world.has_stopped(&mutator.station, epoch)
            {
                thread::yield_now();
            }
        }
    }

    /// Calls `visit` with each word of a stack, in a stopped world.
    fn for_each_root(&self, mut visit: impl FnMut(usize)) {
        for mutator in &self.mutators {
            // SAFETY: the thread is stopped or rests; loom checks that it touches none.
            mutator
                .locals
                .with(|locals| unsafe { *locals }.into_iter().for_each(&mut visit));
        }
    }

    /// In a stopped world in which everything was marked.
    fn compare(&self, heap: &Heap) {
        let mut found = BTreeSet::new();
        let mut left = Vec::new();
        self.for_each_root(|word| left.push(word));
        while let Some(word) = left.pop() {
            if word == 0 || !found.insert(word) {
                continue;
            }
            let object = Address::new(word);
            assert!(is_marked(heap, object), "a reachable object is not marked");
            // SAFETY: a word of an object of the heap.
            left.extend((0..WORDS).map(|word| unsafe { object.add(word * 8).load_shared() }));
        }
    }

    // For mutators.

    pub fn poll(&self, own: usize) {
        self.world.stop_here(&self.mutators[own].station, 1);
    }

    fn set_local(&self, own: usize, local: usize, value: usize) {
        let locals = &self.mutators[own].locals;
        // SAFETY: the thread runs.
        locals.with_mut(|locals| unsafe { (*locals)[local] = value });
    }

    pub fn local(&self, own: usize, local: usize) -> Address {
        let locals = &self.mutators[own].locals;
        // SAFETY: the thread runs.
        Address::new(locals.with(|locals| unsafe { (*locals)[local] }))
    }

    /// Reads a word of an object into a local.
    pub fn load(&self, own: usize, object: Address, word: usize, local: usize) {
        // SAFETY: a word of an object of the heap.
        let value = unsafe { object.add(word * 8).load_shared() };
        self.set_local(own, local, value);
    }

    pub fn store(&self, own: usize, object: Address, word: usize, value: Address) {
        self.kernel.store(own, object.add(word * 8), value.word());
        self.poll(own);
    }

    pub fn forget(&self, own: usize, local: usize) {
        self.set_local(own, local, 0);
    }

    /// A thread that waits for the lock is stopped there.
    pub fn allocate(&self, own: usize, bytes: usize, local: usize) {
        while !self.lock.try_lock() {
            self.poll(own);
            thread::yield_now();
        }
        // SAFETY: the lock is held.
        let object = self
            .heap
            .with_mut(|heap| allocate_in(unsafe { &mut *heap }, bytes));
        self.set_local(own, local, object.word());
        self.lock.unlock();
    }
}

fn is_marked(heap: &Heap, object: Address) -> bool {
    let found = heap.space.object_base(object.word()).expect("an object");
    // SAFETY: the mark of a resolved object.
    unsafe { &*found.mark }.load(Ordering::Relaxed) == MARKED
}

/// What does for the heap what the door does: it waits for the mutators, and scans their stacks.
struct Door<'a> {
    stage: &'a Stage,
}

impl Client for Door<'_> {
    fn moment(&self, heap: &mut Heap, moment: Moment) {
        match moment {
            Moment::PostStopWorld => self.stage.wait_for_mutators(),
            Moment::MarkEnd => self.stage.compare(heap),
            Moment::PreStartWorld => self.stage.kernel.is_stopped.store(false, Ordering::Relaxed),
            _ => {}
        }
    }
    fn push_other_roots(&self, heap: &mut Heap) {
        let is_first = self.stage.stopped.load(Ordering::Relaxed) == 1;
        if is_first || self.stage.stops != Stops::SkipRoots {
            self.stage.for_each_root(|word| heap.engine.visit_any(word));
        }
    }
    fn thread_moment(&self, _heap: &mut Heap, _moment: Moment, _thread: *mut Mutator) {}
    fn settle_toggle_refs(&self, _heap: &mut Heap) {}
    fn stack_of(&self, _thread: &Mutator, pointer: Address) -> (Address, Address) {
        (pointer, Address::NULL)
    }
    fn describe(&self, _object: &MarkedObject, _out: &mut dyn core::fmt::Write) -> bool {
        false
    }
    fn wants_to_stop(&self, _heap: &mut Heap) -> bool {
        false
    }
    fn awaits_finalization(&self, _heap: &mut Heap, _object: Address) {}
    fn heap_resized(&self, _heap: &mut Heap, _capacity: usize) {}
    fn cannot_stop(&self, refused: Refused) -> ! {
        panic!("{refused:?}")
    }
}
