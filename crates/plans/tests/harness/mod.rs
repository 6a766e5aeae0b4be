//! A heap in a test: one registered mutator, one range of roots, and an allocation path like that of a door.
//!
//! The idea: nothing but what the test registers keeps an object alive. The mutator's stack is scanned as an empty
//! range, and no library's data is scanned. So whatever is marked after a collection was reachable from `roots`, from
//! an uncollectable object, or from weak processing. A model can say exactly which objects those are.
//!
//! Threads: each test makes its own heap on its own thread. Helpers of the crew only mark.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod rng;

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::{FreedCells, Options};
use gleaner_mem::Address;
use gleaner_os::threads::{self, Placement, Role, Thread};
use gleaner_os::topology::Topology;
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::collect::{Client, Moment, Outcome, Request};
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_plans::mark_sweep::heap::{Remedy, prefetch_settings};
use gleaner_plans::mark_sweep::mutator::Mutator;
use gleaner_plans::mark_sweep::roots::{LibraryList, Range};
use gleaner_plans::mark_sweep::stop::protocol::World;
use gleaner_plans::mark_sweep::stop::signal::Refused;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::block::Block;
use gleaner_spaces::mark_sweep::cache::LISTED_KINDS;
use gleaner_spaces::mark_sweep::explicit_free::{push_cell, push_magazine};
use gleaner_spaces::mark_sweep::kinds::ThreadLists;
use gleaner_spaces::mark_sweep::mark::MarkEngine;
use gleaner_spaces::mark_sweep::scan::MarkMode;
use gleaner_spaces::mark_sweep::size_classes::{CELL_BYTES, LARGEST_SMALL, class_of};
use gleaner_spaces::mark_sweep::targets::MarkedObject;
use gleaner_spaces::mark_sweep::{MARKED, Stage};
use gleaner_work::Crew;

/// Words of the root range.
pub const ROOTS: usize = 256;

/// A client that counts what it is told of, and gives collections up on demand.
#[derive(Default)]
pub struct Quiet {
    pub moments: AtomicUsize,
    /// Whether it was told of a start, and of no end since.
    pub is_collecting: AtomicBool,
    pub resized: AtomicUsize,
    pub awaited: AtomicUsize,
    /// The n-th time that the client is asked from now on, it gives the collection up; 0 for never.
    pub abandon_when_asked: AtomicUsize,
    /// Stands for the stack of the mutator, if there is something in it.
    pub stack: Vec<usize>,
    /// Where a test wants to know: how far the collection was at each callback.
    pub seen: Option<Mutex<Vec<Seen>>>,
    /// The count of what was allocated, as the last stop left it.
    pub counted_in_stop: AtomicUsize,
}

/// What a client is called for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Moment(Moment),
    OtherRoots,
    WantsToStop,
}

/// How far a collection was when it called the client, and how it marked.
pub type Seen = (Call, Stage, MarkMode);

impl Quiet {
    fn note(&self, heap: &Heap, call: Call) {
        if let Some(seen) = &self.seen {
            let mut seen = seen.lock().unwrap();
            seen.push((call, heap.space.stage, heap.context.mode));
        }
    }
}

impl Client for Quiet {
    fn describe(&self, _: &MarkedObject, _: &mut dyn std::fmt::Write) -> bool {
        false
    }

    fn moment(&self, heap: &mut Heap, moment: Moment) {
        self.note(heap, Call::Moment(moment));
        self.moments.fetch_add(1, Ordering::Relaxed);
        // Starts and ends take turns.
        match moment {
            Moment::Start => assert!(!self.is_collecting.swap(true, Ordering::Relaxed)),
            Moment::End => assert!(self.is_collecting.swap(false, Ordering::Relaxed)),
            Moment::PreStartWorld => {
                let counted = heap.allocated_before;
                self.counted_in_stop.store(counted, Ordering::Relaxed);
            }
            _ => assert!(self.is_collecting.load(Ordering::Relaxed)),
        }
    }
    fn thread_moment(&self, _heap: &mut Heap, _moment: Moment, _thread: *mut Mutator) {}
    fn settle_toggle_refs(&self, _heap: &mut Heap) {}
    fn push_other_roots(&self, heap: &mut Heap) {
        self.note(heap, Call::OtherRoots);
    }
    fn stack_of(&self, thread: &Mutator, pointer: Address) -> (Address, Address) {
        if !self.stack.is_empty() {
            let low = Address::of(self.stack.as_ptr());
            return (low, low.add(size_of_val(&*self.stack)));
        }
        // A thread without a base has no stack to scan: it ends where it begins.
        let base = if thread.stack_base.is_null() {
            Address::new(thread.station.stack_pointer())
        } else {
            thread.stack_base
        };
        (pointer, base)
    }
    fn wants_to_stop(&self, heap: &mut Heap) -> bool {
        self.note(heap, Call::WantsToStop);
        let left = self.abandon_when_asked.load(Ordering::Relaxed);
        self.abandon_when_asked
            .store(left.saturating_sub(1), Ordering::Relaxed);
        left == 1
    }
    fn awaits_finalization(&self, _heap: &mut Heap, _object: Address) {
        self.awaited.fetch_add(1, Ordering::Relaxed);
    }
    fn heap_resized(&self, _heap: &mut Heap, _capacity: usize) {
        self.resized.fetch_add(1, Ordering::Relaxed);
    }
    fn cannot_stop(&self, refused: Refused) -> ! {
        panic!("{refused:?}")
    }
}

/// Why an allocation failed for good.
#[derive(Debug, PartialEq, Eq)]
pub struct Exhausted(pub &'static str);

/// A heap with the calling thread as its only mutator.
pub struct Bench {
    pub heap: Box<Heap>,
    pub record: *mut Mutator,
    pub roots: &'static mut [usize],
    kept: &'static mut [usize],
    pub client: Quiet,
    /// Whether small objects come from the mutator's own lists.
    pub thread_lists: bool,
    /// Whether allocation makes steps.
    pub steps: bool,
    /// Whether what begins is to be marked in steps.
    asks_for_steps: bool,
    /// What steps had marked when the last cycle was ended.
    pub stepped: BTreeSet<usize>,
    /// Cells that were on a list when the last collection began, or were freed since: they may be marked.
    pub listed_before: BTreeSet<usize>,
}

/// The crew that the heaps of one test thread share.
pub fn crew() -> &'static Crew {
    Box::leak(Box::new(Crew::new()))
}

/// Makes helpers.
pub fn grow(crew: &'static Crew, helpers: usize) -> usize {
    crew.ensure_helpers(helpers, &mut |index| {
        let helper = Box::into_raw(Box::new((crew, index))).cast();
        threads::spawn(Role::Marker, Placement::Anywhere, help, helper)
            .map(Thread::detach)
            .is_some()
    })
}

/// What a helper's thread runs.
extern "C" fn help(helper: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `grow` made for this thread.
    let (crew, index) = *unsafe { Box::from_raw(helper.cast::<(&'static Crew, usize)>()) };
    // SAFETY: the crew gave the index to `grow`, which started this thread alone for it.
    unsafe { crew.serve(index) };
    ptr::null_mut()
}

impl Bench {
    pub fn new(options: &str) -> Bench {
        Bench::with_crew(options, crew())
    }

    pub fn with_crew(options: &str, crew: &'static Crew) -> Bench {
        Bench::on(Topology::host(), options, crew)
    }

    pub fn on(topology: Topology, options: &str, crew: &'static Crew) -> Bench {
        let mut chosen = Options::DEFAULT;
        chosen.reserve = 32 << 20;
        chosen
            .parse_list(options)
            .unwrap_or_else(|error| panic!("{options}: {error}"));
        let world: &'static World = Box::leak(Box::new(World::new()));
        let heap = Heap::new(&chosen, false, topology, crew, world);
        let mut heap = Box::new(heap.expect("a small heap can be reserved"));
        let roots = Box::leak(vec![0usize; ROOTS].into_boxed_slice());
        let kept = Box::leak(vec![0usize; ROOTS].into_boxed_slice());
        for words in [&*roots, &*kept] {
            let low = Address::of(words.as_ptr());
            heap.roots.add(Range {
                low,
                high: low.add(ROOTS * 8),
            });
        }
        let record = Box::into_raw(Box::<Mutator>::new_uninit()).cast::<Mutator>();
        // SAFETY: fresh memory that lives as long as the heap; the base is also the stack pointer given later.
        unsafe {
            heap.mutators.add(record);
            heap.mutators
                .occupy(record, world, Address::new(STACK), false);
        }
        let thread_lists = !chosen.poison;
        Bench {
            heap,
            record,
            roots,
            kept,
            client: Quiet::default(),
            thread_lists,
            steps: true,
            asks_for_steps: false,
            stepped: BTreeSet::new(),
            listed_before: BTreeSet::new(),
        }
    }

    /// Keeps an object alive for good.
    pub fn keep(&mut self, object: Address) {
        let free = self.kept.iter_mut().find(|word| **word == 0);
        *free.expect("not so many are kept") = object.word();
    }

    /// The first object that is kept.
    pub fn kept_object(&self) -> Address {
        Address::new(self.kept[0])
    }

    /// Keeps another object in its place.
    pub fn replace_kept(&mut self, object: Address) {
        self.kept[0] = object.word();
    }

    /// Gives each worker a mark stack of one page.
    pub fn shrink_mark_stacks(&mut self) {
        self.shrink_mark_stacks_and_queues(None);
    }

    /// And as many objects or references wait until the cache has them.
    pub fn shrink_mark_stacks_and_queues(&mut self, waiting: Option<usize>) {
        let mut settings = prefetch_settings(&self.heap.options);
        settings.fifo_length = waiting.unwrap_or(settings.fifo_length);
        settings.edges_length = waiting.unwrap_or(settings.edges_length);
        self.heap.engine = MarkEngine::new(settings, 1);
        let context = &raw const *self.heap.context;
        assert_eq!(self.heap.engine.equip(1, context), 1);
    }

    /// Allocates as a door does: from the thread's list, under the lock, after growing, after collecting.
    pub fn allocate(&mut self, kind: usize, bytes: usize) -> Result<Address, Exhausted> {
        self.allocate_with(kind, bytes, 16, false)
    }

    pub fn allocate_with(
        &mut self,
        kind: usize,
        bytes: usize,
        alignment: usize,
        off_page: bool,
    ) -> Result<Address, Exhausted> {
        let mut attempts = 0;
        if self.steps && self.heap.step_if_due() {
            let outcome = self.collect_new("everything is marked");
            assert!(matches!(outcome, Outcome::Done | Outcome::Begun));
        }
        if self.steps
            && let Some(reason) = self.heap.begins_cycle()
        {
            let outcome = self.collect_new(reason);
            assert!(matches!(outcome, Outcome::Done | Outcome::Begun));
        }
        loop {
            let found = if bytes > LARGEST_SMALL || alignment > 16 {
                let bytes = bytes.max(LARGEST_SMALL + 1);
                self.heap
                    .space
                    .allocate_large(kind, bytes, alignment, off_page)
            } else {
                self.allocate_small(kind, class_of(bytes))
            };
            let shortage = match found {
                Ok(object) => return Ok(object),
                Err(shortage) => shortage,
            };
            match self.heap.remedy(shortage, attempts, false) {
                Remedy::TryAgain => {}
                Remedy::Collect(reason) => {
                    let outcome = self.collect_new(reason);
                    assert!(matches!(outcome, Outcome::Done | Outcome::Begun));
                    attempts += 1;
                }
                Remedy::CollectEverything(reason) => {
                    assert_eq!(self.collect_for(reason), Outcome::Done);
                    attempts += 1;
                }
                Remedy::OutOfMemory(reason) => return Err(Exhausted(reason)),
            }
        }
    }

    /// Allocates as a door does where a helper marks beside the program: cells alone.
    pub fn allocate_small(&mut self, kind: usize, class: usize) -> Result<Address, Shortage> {
        let described = *self.heap.space.kinds.get(kind).unwrap();
        let lists = described.thread_lists();
        if !self.thread_lists || lists == ThreadLists::None {
            return self.heap.space.allocate_small(kind, class);
        }
        // SAFETY: the record is this thread's.
        unsafe {
            let cache = &raw mut (*self.record).cache;
            if (*cache).heads[kind][class].is_null() {
                self.heap.space.refill(cache, kind, class)?;
            }
            let cell = (*cache).heads[kind][class];
            (*cache).heads[kind][class] = Address::new(cell.load());
            cell.store(0);
            cell.add(8).store(0);
            if lists != ThreadLists::Plain {
                let found = self.heap.space.object_base(cell.word());
                (*found.expect("a cell").mark).store(MARKED, Ordering::Relaxed);
            }
            if lists == ThreadLists::Uncollectable {
                let bytes = &mut self.heap.space.uncollectable_bytes;
                *bytes = bytes.wrapping_add(usize::from(CELL_BYTES[class]));
            }
            Ok(cell)
        }
    }

    /// Frees explicitly, onto the thread's list where a door would, which takes a few only.
    pub fn free(&mut self, object: Address) {
        self.listed_before.insert(object.word());
        let found = self
            .heap
            .space
            .object_base(object.word())
            .expect("an object");
        // SAFETY: a resolved object's block.
        let (small, kind, class) = unsafe {
            let block = &*found.block;
            (
                block.bytes <= LARGEST_SMALL,
                usize::from(block.kind),
                usize::from(block.class),
            )
        };
        let described = *self.heap.space.kinds.get(kind).unwrap();
        if !small || !self.thread_lists || kind >= LISTED_KINDS {
            self.heap.space.free(object).unwrap();
            return;
        }
        // SAFETY: the record is this thread's, and the test gives the object up.
        unsafe {
            let cache = &raw mut (*self.record).cache;
            if (*cache).foreign[kind][class] < 8 {
                push_cell(cache, kind, class, object, described.clear, false);
            } else if self.heap.options.freed_cells == FreedCells::Shared {
                self.heap.space.free(object).unwrap();
                return;
            } else if push_magazine(cache, kind, class, object, described.clear) == 5 {
                self.heap.space.share_magazine(cache, kind, class);
            }
        }
        if described.uncollectable {
            let bytes = &mut self.heap.space.uncollectable_bytes;
            *bytes = bytes.wrapping_sub(usize::from(CELL_BYTES[class]));
        }
    }

    pub fn collect(&mut self) {
        assert_eq!(self.collect_for("test"), Outcome::Done);
    }

    pub fn collect_for(&mut self, reason: &'static str) -> Outcome {
        self.collect_with(reason, false)
    }

    /// Collects what the decider says.
    pub fn collect_new(&mut self, reason: &'static str) -> Outcome {
        self.collect_of(reason, false, false)
    }

    pub fn collect_with(&mut self, reason: &'static str, release_all: bool) -> Outcome {
        self.collect_of(reason, release_all, true)
    }

    /// Begins a cycle of steps, or ends the one that is under way.
    pub fn begin(&mut self) -> Outcome {
        self.asks_for_steps = true;
        let outcome = self.collect_new("GC_start_incremental_collection");
        self.asks_for_steps = false;
        outcome
    }

    fn collect_of(&mut self, reason: &'static str, release_all: bool, everything: bool) -> Outcome {
        if self.heap.cycle.is_under_way() {
            self.stepped = self.marked();
        }
        self.listed_before = self.listed();
        let workers = self.heap.workers();
        let wanted = workers.0.min(self.heap.crew.helpers() + 1);
        let context = &raw const *self.heap.context;
        self.heap.engine.equip(wanted, context);
        for attempt in 1..=4 {
            let mut libraries = LibraryList::read(0, |_| false);
            let request = Request {
                reason,
                libraries: &mut libraries,
                workers,
                stack_pointer: Address::new(STACK),
                release_all,
                everything,
                in_steps: self.asks_for_steps,
                finds_leaks: false,
                again: attempt > 1,
                asked: false,
                snapshot: false,
                last_attempt: attempt == 4,
            };
            let outcome = self.heap.collect(request, &self.client);
            if outcome != Outcome::LibrariesChanged {
                return outcome;
            }
        }
        unreachable!("the last attempt bears an outdated list")
    }

    /// The base of every marked object, free cells that are marked to be kept left out.
    pub fn marked(&self) -> BTreeSet<usize> {
        // Nearly sorted: a set that is made of all at once takes less time than one that grows.
        let mut found = Vec::new();
        let space = &self.heap.space;
        space.for_each_small_block(|index, block| {
            for object in 0..usize::from(block.objects) {
                // SAFETY: a mark of this block.
                let mark = unsafe {
                    (*space.layout.table.marks_of(index).add(object)).load(Ordering::Relaxed)
                };
                if mark == MARKED {
                    found.push(space.start(index).add(object * block.bytes).word());
                }
            }
        });
        space.for_each_large(|index, block| {
            if block.large_mark.load(Ordering::Relaxed) == MARKED {
                found.push(space.start(index).word());
            }
        });
        let mut marked = BTreeSet::from_iter(found);
        for cell in self.listed() {
            marked.remove(&cell);
        }
        marked
    }

    /// The cells on the mutator's lists and on the shared ones.
    pub fn listed(&self) -> BTreeSet<usize> {
        let mut listed = BTreeSet::new();
        // SAFETY: the record is this thread's; a listed cell links to the next in its first word.
        unsafe {
            let own = (*self.record).cache.heads.iter().flatten();
            let magazines = (*self.record).cache.magazines.iter().flatten();
            let shared = self.heap.space.shared.heads.iter().flatten();
            let magazines = magazines.map(|magazine| &magazine.head);
            for head in own.chain(magazines).chain(shared) {
                let mut cell = *head;
                while !cell.is_null() {
                    assert!(
                        listed.insert(cell.word()),
                        "a cell is listed twice: {cell:?}"
                    );
                    cell = Address::new(cell.load());
                }
            }
        }
        listed
    }

    /// Checks what must hold between any two operations.
    pub fn verify(&self) {
        let space = &self.heap.space;
        space
            .verify_structure()
            .unwrap_or_else(|fault| panic!("{fault:?}"));
        assert!(
            space.used_bytes() <= space.capacity,
            "{} of {} bytes",
            space.used_bytes(),
            space.capacity
        );
    }

    /// Checks in addition what must hold right after a collection.
    pub fn verify_collected(&self) {
        self.verify();
        // SAFETY: the record is this thread's.
        unsafe {
            self.heap
                .space
                .verify_cache(&raw const (*self.record).cache)
        }
        .unwrap_or_else(|fault| panic!("{fault:?}"));
        self.heap
            .space
            .verify_marks(&self.heap.context, Address::NULL)
            .unwrap_or_else(|fault| panic!("{fault:?}"));
    }

    /// Whether the object at `base` is marked.
    pub fn is_marked(&self, base: Address) -> bool {
        let found = self.heap.space.object_base(base.word()).expect("an object");
        // SAFETY: the mark of a resolved object.
        unsafe { (*found.mark).load(Ordering::Relaxed) == MARKED }
    }

    /// Whether the last collection kept marks: of the one before, or those that steps had made.
    pub fn kept_marks(&self) -> bool {
        self.heap.extent.keeps_marks()
    }

    /// Whether most of what the last collection marked was marked in steps.
    pub fn was_stepped(&self) -> bool {
        matches!(self.heap.extent, Extent::Stepped(_) | Extent::SteppedNew(_))
    }

    /// The descriptor of the object at `base`.
    pub fn block(&self, base: Address) -> &Block {
        let found = self.heap.space.object_base(base.word()).expect("an object");
        // SAFETY: a resolved object's block.
        unsafe { &*found.block }
    }

    /// The events of one phase that the ring still holds.
    pub fn events(&self, phase: Phase) -> Vec<Event> {
        self.heap
            .events
            .iter()
            .filter(|event| event.phase == phase)
            .collect()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: nobody uses this heap any more, and it gave no addresses back.
        unsafe { self.heap.space.layout.unmap() };
    }
}

/// Stack pointer and stack base of the mutator: an empty stack.
const STACK: usize = 0x1000;
