//! A precise heap on a machine of four memory nodes, under every page policy. Programs find in it what they put there,
//! with the verifier on and under every way to collect. What mutators and workers of each node do lands where the
//! policy says.

#![cfg(not(loom))]

mod lists;

use std::ffi::c_int;
use std::ptr::NonNull;
use std::thread;

use gleaner_base::options::{
    HugePages, OldPages, OldPolicy, Options, Pages, Prefetch, TraceOrder, Verify, Zeroing,
};
use gleaner_mem::Address;
use gleaner_mem::header::{self, Header};
use gleaner_mem::object_model::{ELEMENTS, Shape, TypeId, array_bytes};
use gleaner_mem::slot::{Compressed, SlotFormat, Value, Wide};
use gleaner_os::numa;
use gleaner_os::topology::Topology;
use gleaner_plans::scavenge::allocate::{Fresh, Place};
use gleaner_plans::scavenge::collect::Extent;
use gleaner_plans::scavenge::locality::{ByNode, Counts, Sums};
use gleaner_plans::scavenge::mutator::Mutator;
use gleaner_plans::scavenge::{Config, Scavenge};
use gleaner_work::Crew;
use lists::options;

const NODES: usize = 4;
const PAGE: usize = 4096;

/// As many programs as there are nodes, and one more.
fn run<F: SlotFormat>(options: Options) -> Sums {
    run_with::<F>(options, NODES as u64 + 1)
}

/// Runs `programs` programs on four nodes. Gives what the workers did on which.
fn run_with<F: SlotFormat>(options: Options, programs: u64) -> Sums {
    let config = Config::new(&options, Topology::synthetic(NODES, 1));
    let sums = |heap: &_| gleaner_plans::scavenge::Scavenge::<F>::locality(heap);
    *lists::run::<F, _>(config, programs, 6_000, sums).expect("several nodes")
}

/// The standard deviation of the nodes' numbers over their mean.
fn imbalance(all: &ByNode) -> f64 {
    let of_nodes = || all[..NODES].iter().map(|&one| one as f64);
    let mean = of_nodes().sum::<f64>() / NODES as f64;
    let variance = of_nodes().map(|one| (one - mean).powi(2)).sum::<f64>() / NODES as f64;
    variance.sqrt() / mean
}

/// The share of what workers did on other nodes than theirs.
fn remote(sums: &Sums, part: impl Fn(&Counts) -> ByNode) -> f64 {
    let (mut own, mut all) = (0, 0);
    for (node, counts) in sums.by_worker.iter().enumerate() {
        own += part(counts)[node];
        all += part(counts).iter().sum::<u64>();
    }
    assert!(all > 1000, "too little to tell: {all}");
    1.0 - own as f64 / all as f64
}

#[test]
fn lists_live_in_four_fragments() {
    run::<Wide>(options());
    run::<Compressed>(options());
}

#[test]
fn the_same_in_place_with_fixed_sizes_and_prefetching() {
    run::<Wide>(Options {
        old: OldPolicy::MarkSweep,
        resize: false,
        prefetch: Prefetch::Edges,
        tenure: 0,
        ..options()
    });
}

#[test]
fn each_fragment_is_zeroed_by_threads_of_its_own() {
    for zeroing in [
        Zeroing::Concurrent,
        Zeroing::ConcurrentStatic,
        Zeroing::ConcurrentRacing,
    ] {
        run::<Wide>(Options {
            zeroing,
            ..options()
        });
    }
}

#[test]
fn each_fragment_has_its_share_and_no_more() {
    for zeroing in [Zeroing::HotPath, Zeroing::Concurrent] {
        run::<Wide>(Options {
            pages: Pages::FragmentedFixed,
            zeroing,
            ..options()
        });
    }
}

#[test]
fn each_fragment_leaves_where_it_was() {
    run::<Wide>(Options {
        quarantine: 2,
        ..options()
    });
}

/// One worker for each node. They take turns, so that the host's processors do not decide which does how much, and the
/// spaces keep their sizes, which are decided by measured times otherwise.
fn counted(pages: Pages, old_pages: OldPages) -> Options {
    Options {
        workers: NODES as u32,
        lockstep: 16,
        resize: false,
        pages,
        old_pages,
        verify: Verify::Off,
        poison: false,
        ..options()
    }
}

#[test]
fn counts_repeat() {
    for pages in [
        Pages::FirstTouch,
        Pages::Interleaved,
        Pages::Fragmented,
        Pages::FragmentedFixed,
        Pages::Segregated,
    ] {
        let sums = || run_with::<Wide>(counted(pages, OldPages::Interleaved), 1);
        let (first, again) = (sums(), sums());
        assert_eq!(first, again, "{pages:?}");
        let scanned = |node: usize| first.by_worker[node].scanned.iter().sum::<u64>();
        // In segregated spaces the young objects are where the only mutator is.
        let all_take_part = (0..NODES).all(|node| scanned(node) > 0);
        assert!(
            pages == Pages::Segregated || all_take_part,
            "{pages:?}: {first:?}"
        );
    }
}

#[test]
fn under_first_touch_all_of_eden_is_where_the_one_mutator_is() {
    let sums = run_with::<Wide>(counted(Pages::FirstTouch, OldPages::FirstTouch), 1);
    assert!(imbalance(&sums.eden_pages) > 1.7, "{:?}", sums.eden_pages);
    assert_eq!(sums.nodes, NODES);
}

#[test]
fn interleaved_pages_are_everybodys() {
    let sums = run::<Wide>(counted(Pages::Interleaved, OldPages::Interleaved));
    for pages in [sums.eden_pages, sums.old_pages] {
        // Few are used at a time, always from the first.
        assert!(pages[..NODES].iter().all(|&of_node| of_node > 0));
    }
    for share in [
        remote(&sums, |counts| counts.scanned),
        remote(&sums, |counts| counts.copied),
        remote(&sums, |counts| counts.copied_from),
        remote(&sums, |counts| counts.updated),
    ] {
        // Three quarters, by few pages.
        assert!((0.5..0.95).contains(&share), "{share}");
    }
}

#[test]
fn workers_copy_to_the_fragments_of_their_nodes() {
    let sums = run::<Wide>(counted(Pages::Fragmented, OldPages::Interleaved));
    let elsewhere = remote(&sums, |counts| counts.copied);
    assert!(elsewhere < 0.2, "{elsewhere}");
    let from = remote(&sums, |counts| counts.copied_from);
    assert!(from > 0.5, "they are found anywhere: {from}");
    let fixed = run::<Wide>(counted(Pages::FragmentedFixed, OldPages::FirstTouch));
    assert_eq!(remote(&fixed, |counts| counts.copied), 0.0);
}

#[test]
fn workers_of_segregated_spaces_touch_young_objects_of_their_own_nodes_alone() {
    let sums = run::<Wide>(counted(Pages::Segregated, OldPages::Interleaved));
    assert_eq!(remote(&sums, |counts| counts.copied_from), 0.0);
    // What found no room in the fragment of its node was promoted.
    let elsewhere = remote(&sums, |counts| counts.copied);
    let scanned = remote(&sums, |counts| counts.scanned_young);
    assert_eq!((elsewhere, scanned), (0.0, 0.0));
    let sent = |node: usize| sums.by_worker[node].messages;
    assert!(
        (0..NODES).all(|node| sent(node)[node] == 0),
        "nobody sends to himself"
    );
    assert!((0..NODES).any(|node| sent(node).iter().sum::<u64>() > 0));
}

#[test]
fn stolen_items_are_counted_by_the_node_that_they_were_taken_from() {
    let sums = run::<Wide>(counted(Pages::Fragmented, OldPages::Interleaved));
    // Each node has one worker, which takes nothing from itself.
    let stolen = |node: usize| sums.by_worker[node].stolen;
    assert!((0..NODES).all(|node| stolen(node)[node] == 0));
    assert!((0..NODES).any(|node| stolen(node).iter().sum::<u64>() > 0));
}

#[test]
fn objects_are_counted_once_for_each_time_that_they_are_copied() {
    const LEAST_BYTES: u64 = 24;
    let config = Config::new(
        &counted(Pages::Interleaved, OldPages::Interleaved),
        Topology::synthetic(NODES, 1),
    );
    lists::run::<Wide, _>(config, 3, 6_000, |heap| {
        let (sums, totals) = (heap.locality().unwrap(), heap.totals());
        let all = |part: fn(&Counts) -> ByNode| {
            let by_worker = sums.by_worker.iter();
            by_worker
                .map(|counts| part(counts).iter().sum::<u64>())
                .sum::<u64>()
        };
        for (objects, bytes) in [
            (all(|counts| counts.copied), totals.survived_bytes),
            (all(|counts| counts.copied_from), totals.survived_bytes),
            (all(|counts| counts.promoted), totals.promoted_bytes),
        ] {
            // Most are nodes of lists, the smallest objects.
            let least = objects * LEAST_BYTES;
            assert!(
                least <= bytes && bytes <= 2 * least,
                "{objects} objects: {bytes}"
            );
        }
        // Old objects are scanned, too.
        assert!(all(|counts| counts.scanned_young) < all(|counts| counts.scanned));
    });
}

#[test]
fn segregated_spaces_hold_what_programs_put_there() {
    let apart = Options {
        pages: Pages::Segregated,
        old_pages: OldPages::Interleaved,
        workers: NODES as u32 + 2,
        ..options()
    };
    run::<Wide>(apart);
    run::<Compressed>(Options {
        // The leader gets the messages of the nodes without a worker.
        workers: 2,
        prefetch: Prefetch::Edges,
        ..apart
    });
    run::<Wide>(Options {
        old: OldPolicy::MarkSweep,
        tenure: 0,
        trace_order: TraceOrder::Breadth,
        ..apart
    });
}

#[test]
fn residency_is_within_the_sizes_of_the_spaces() {
    let fragmented = [Pages::Fragmented, Pages::FragmentedFixed, Pages::Segregated];
    // A huge page would reach beyond the end of a fragment.
    let huge = [HugePages::Off, HugePages::On];
    for (pages, huge_pages) in fragmented
        .into_iter()
        .flat_map(|one| huge.map(|on| (one, on)))
    {
        let options = Options {
            huge_pages,
            ..counted(pages, OldPages::Interleaved)
        };
        let config = Config::new(&options, Topology::synthetic(NODES, 1));
        lists::run::<Wide, _>(config, NODES as u64 + 1, 6_000, |heap| {
            assert!(is_within_its_size(heap) > 0, "{pages:?}");
        });
    }
}

/// Bytes of the nursery that are resident, no more than the sizes of its spaces; all that there may be if the kernel does
/// not say.
fn is_within_its_size(heap: &Scavenge<Wide>) -> usize {
    let capacity = heap.nursery.capacity();
    let resident = resident(heap.nursery.ranges()).unwrap_or(capacity);
    assert!(resident <= capacity, "{resident} of {capacity}");
    resident
}

/// The same of eden alone.
fn eden_is_within_its_size(heap: &Scavenge<Wide>) {
    let (eden, nodes) = (&heap.nursery.eden, heap.config.cut.nodes);
    let resident = resident(heap.nursery.ranges().take(nodes)).unwrap_or(0);
    assert!(resident <= eden.bytes(), "{resident} of {}", eden.bytes());
}

/// How many bytes of these are resident, if the kernel says it.
fn resident(ranges: impl Iterator<Item = (usize, Address, usize)>) -> Option<usize> {
    let mut resident = 0;
    for (_, start, bytes) in ranges {
        let start = NonNull::new(start.ptr::<u8>()).unwrap();
        let count = |_, node: Option<_>| resident += usize::from(node.is_some()) * PAGE;
        if let Err(refusal) = numa::nodes_of_range(start, bytes / PAGE, count) {
            eprintln!("not tried: {refusal}");
            return None;
        }
    }
    Some(resident)
}

/// Every node has a little of the memory of eden, none enough for a larger object.
#[test]
fn an_empty_heap_has_room_for_an_object_whatever_its_nodes_had_before() {
    const MOST: usize = 16;
    for pages in [Pages::Fragmented, Pages::FragmentedFixed, Pages::Segregated] {
        for (limit, young) in [(1 << 20, 0), (1 << 20, 192 << 10), (32 << 20, 192 << 10)] {
            for resize in [true, false] {
                let options = Options {
                    heap_limit: limit,
                    young,
                    tlab: 1024,
                    resize,
                    pages,
                    workers: 1,
                    ..Options::DEFAULT
                };
                let config = Config::new(&options, Topology::synthetic(MOST, 1));
                let crew: &'static Crew = Box::leak(Box::new(Crew::new()));
                let heap = Scavenge::<Wide>::new(config, crew).unwrap();
                let bytes = heap.register(Shape::Primitives { log2: 0 }).unwrap();
                for size in [64; MOST].into_iter().chain([13 << 10]) {
                    let record = heap.attach().unwrap();
                    // SAFETY: the record and what it allocates are this thread's; the object is complete.
                    unsafe {
                        let (place, fresh) = (Place::Anywhere, Fresh::Zeroed);
                        let object = heap.allocate_slowly(record, size, place, fresh);
                        let object =
                            object.unwrap_or_else(|| panic!("{pages:?}, {limit}, {young}"));
                        object.add(8).store(size - 16);
                        header::store(object, Header::fresh(bytes));
                        heap.leave_for_good(record);
                        heap.detach(record);
                    }
                }
                is_within_its_size(&heap);
            }
        }
    }
}

/// A heap whose spaces keep their sizes. This thread is all of its mutators, one after the other.
struct InTurns {
    heap: Box<Scavenge<Wide>>,
    bytes: TypeId,
    references: TypeId,
}

impl InTurns {
    fn new(nodes: usize, options: Options, crew: &'static Crew) -> InTurns {
        let options = Options {
            heap_limit: 4 << 20,
            resize: false,
            ..options
        };
        let config = Config::new(&options, Topology::synthetic(nodes, 1));
        let heap = Scavenge::<Wide>::new(config, crew).unwrap();
        InTurns {
            bytes: heap.register(Shape::Primitives { log2: 0 }).unwrap(),
            references: heap.register(Shape::References).unwrap(),
            heap,
        }
    }

    /// A mutator on that node does something.
    fn on<R>(&self, node: usize, work: impl FnOnce(NonNull<Mutator>) -> R) -> R {
        let leave = |record| {
            // SAFETY: attached below, and not used again.
            unsafe {
                self.heap.leave_for_good(record);
                self.heap.detach(record);
            }
        };
        loop {
            let record = self.heap.attach().unwrap();
            // SAFETY: attached until it leaves.
            let number = unsafe { record.as_ref() }.number as usize;
            if number % self.heap.config.cut.nodes == node {
                let result = work(record);
                leave(record);
                return result;
            }
            leave(record);
        }
    }

    /// An array of `bytes` bytes, which were all zero and are not any more.
    fn array(&self, record: NonNull<Mutator>, bytes: usize) -> Address {
        // SAFETY: the record is this thread's, and so is what it allocates.
        unsafe {
            let (place, fresh) = (Place::Anywhere, Fresh::Zeroed);
            let array = self.heap.allocate_slowly(record, bytes, place, fresh);
            let array = array.expect("there is room");
            for word in (0..bytes).step_by(8).map(|offset| array.add(offset)) {
                assert_eq!(word.load(), 0, "fresh memory is zero (I2)");
                word.store(usize::MAX);
            }
            array.add(8).store(bytes - ELEMENTS);
            header::store(array, Header::fresh(self.bytes));
            array
        }
    }

    /// A mutator on that node fills eden with what is garbage at once.
    fn fill_eden(&self, node: usize) {
        self.on(node, |record| {
            while self.heap.nursery.eden.free() > 0 {
                self.array(record, PAGE);
            }
        });
    }

    fn scavenge(&self) {
        // SAFETY: attached meanwhile.
        let collect = |record: NonNull<Mutator>| unsafe {
            self.heap
                .collect(record.as_ref(), Extent::Young, "the test");
        };
        self.on(0, collect);
        let totals = self.heap.totals();
        assert_eq!(totals.full_collections, 0, "{totals:?}");
    }

    /// Eden was full of what a mutator on node 0 wrote, and then of what one on node 1 did, which had no other memory: what
    /// node 0 has is any node's again.
    fn move_from_node_0_to_1(&self) {
        for node in 0..2 {
            self.fill_eden(node);
            self.scavenge();
        }
        let given_up = &self.heap.nursery.eden.fragments()[0];
        assert_eq!(given_up.bytes(), 0);
    }
}

/// A crew without helpers.
fn alone() -> &'static Crew {
    Box::leak(Box::new(Crew::new()))
}

const SMALL: Options = Options {
    pages: Pages::Fragmented,
    young: 1 << 20,
    tlab: PAGE,
    workers: 1,
    ..Options::DEFAULT
};

#[test]
fn memory_that_a_fragment_gives_up_goes_back() {
    let turns = InTurns::new(2, SMALL, alone());
    turns.move_from_node_0_to_1();
    turns.fill_eden(1);
    eden_is_within_its_size(&turns.heap);
}

/// Each node has two pages of eden, and used them itself. As that is too little for some objects, it is all any node's again.
#[test]
fn memory_that_is_gathered_goes_back() {
    const MOST: usize = 16;
    let young = 256 << 10;
    let turns = InTurns::new(MOST, Options { young, ..SMALL }, alone());
    let eden = &turns.heap.nursery.eden;
    for node in (0..MOST).cycle().take(eden.bytes() / PAGE) {
        turns.on(node, |record| turns.array(record, PAGE));
    }
    assert!(eden.fragments().iter().all(|one| one.used() == 2 * PAGE));
    turns.scavenge();
    assert!(eden.fragments().iter().all(|one| one.bytes() == 0));
    turns.fill_eden(0);
    eden_is_within_its_size(&turns.heap);
}

unsafe extern "C" {
    fn mlock(start: *const u8, bytes: usize) -> c_int;
}

/// The system takes no memory back that the program has locked.
#[test]
fn memory_that_was_given_up_and_stays_is_zeroed() {
    let zeroing = Zeroing::Concurrent;
    let turns = InTurns::new(2, Options { zeroing, ..SMALL }, alone());
    let start = turns.heap.nursery.eden.fragments()[0].start();
    // SAFETY: a page of the heap's, which stays what it is.
    if unsafe { mlock(start.ptr(), PAGE) } != 0 {
        eprintln!("not tried: no page can be locked");
        return;
    }
    turns.move_from_node_0_to_1();
    // SAFETY: a page of the heap's.
    assert_eq!(unsafe { start.add(16).load() }, usize::MAX, "it stayed");
    turns.fill_eden(0);
}

/// A worker on node 1 has taken all memory of both survivor spaces: a survivor on node 0 is promoted then, and later ones
/// find some.
#[test]
fn survivors_without_memory_on_their_node_are_promoted() {
    const EACH: usize = 512;
    const LARGER: usize = 12 << 10;
    let options = Options {
        pages: Pages::Segregated,
        workers: 2,
        tenure: 8,
        tlab: EACH,
        ..SMALL
    };
    let crew = alone();
    let mut helper = None;
    crew.ensure_helpers(1, &mut |index| {
        // SAFETY: the crew gave out the index, and this thread alone was started for it.
        helper = Some(thread::spawn(move || unsafe { crew.serve(index) }));
        true
    });
    let turns = InTurns::new(2, options, crew);
    let nursery = &turns.heap.nursery;
    // Where an object is when only one of the mutator's locals refers to it and there was a scavenge.
    let survive = |record: NonNull<Mutator>, object: Address| {
        // SAFETY: the record is this thread's, and the object is complete.
        unsafe {
            let mutator = record.as_ref();
            let local = mutator.first_local();
            Wide::store(local, Address::NULL, Value::reference(object));
            mutator.free_local.set(local.add(8));
            turns.heap.collect(mutator, Extent::Young, "the test");
            Wide::load(local, Address::NULL).as_object().unwrap()
        }
    };
    turns.on(1, |record| {
        for _ in 0..2 {
            // With the array more than a survivor space.
            let count = nursery.to().bytes() / EACH;
            let all = turns.array(record, array_bytes(count as u32, 3));
            // SAFETY: fresh memory of this thread's.
            unsafe {
                all.add(8).store(count);
                header::store(all, Header::fresh(turns.references));
                for slot in (0..count).map(|index| all.add(ELEMENTS + index * 8)) {
                    let object = turns.array(record, EACH);
                    Wide::store(slot, Address::NULL, Value::reference(object));
                }
            }
            let node = nursery.turn_of(survive(record, all)).map(|found| found.1);
            assert_eq!(node, Some(1));
        }
    });
    for space in [nursery.to(), nursery.from()] {
        let taken = space.fragments()[1].bytes();
        assert!(space.bytes() - taken < LARGER, "{taken}");
    }
    // The spaces take turns.
    for expected in [None, None, Some(0), Some(0)] {
        let survivor = turns.on(0, |record| survive(record, turns.array(record, LARGER)));
        assert_eq!(nursery.turn_of(survivor).map(|found| found.1), expected);
    }
    crew.dismiss();
    helper.unwrap().join().unwrap();
}
