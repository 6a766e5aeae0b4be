//! Collections that keep marks: what they scan, what they leave, and when everything is collected after all. What they
//! find is compared with a model in `differential`.
//!
//! Points of failure are one for the whole process, so this is one test after the other.

#![cfg(not(loom))]

mod harness;

use gleaner_base::events::Phase;
use gleaner_base::faults::{FaultPoint, arm};
use gleaner_base::options::MarkGenerations;
use gleaner_mem::Address;
use gleaner_os::written::Mechanism;
use gleaner_plans::mark_sweep::collect::Outcome;
use gleaner_plans::mark_sweep::decide::extent::Extent;
use gleaner_plans::mark_sweep::decide::watching::IN_VAIN;
use gleaner_spaces::mark_sweep::kinds::{Kind, NORMAL, PTRFREE, UNCOLLECTABLE, descriptor};
use gleaner_spaces::mark_sweep::scan::{Entry, MarkContext};
use harness::Bench;
use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const OBJECTS: usize = 4000;

/// A heap that keeps marks, with a list of old objects; nothing where the kernel does not say what is written.
struct Old {
    bench: Bench,
    objects: Vec<usize>,
}

impl Old {
    fn new(options: &str, kind: usize) -> Option<Old> {
        // Marks are kept also where that does not pay.
        let mut bench = Bench::new(&format!("generations=sticky,stress=1000000,{options}"));
        if let Some(unavailable) = bench.heap.unwatched {
            eprintln!("not tested: {unavailable}");
            return None;
        }
        // An array of references, outside of which nothing keeps them.
        let all = bench.allocate(NORMAL, OBJECTS * 8).unwrap();
        bench.keep(all);
        let mut objects = Vec::new();
        for number in 0..OBJECTS {
            let object = bench.allocate(kind, 200).unwrap();
            store(all, number, object.word());
            objects.push(!object.word());
        }
        bench.collect();
        let mut old = Old { bench, objects };
        old.collect_new(); // The array was written before.
        Some(old)
    }

    fn object(&self, number: usize) -> Address {
        Address::new(!self.objects[number])
    }

    fn collect_new(&mut self) {
        assert_eq!(self.bench.collect_new("new"), Outcome::Done);
        self.bench.verify_collected();
    }

    /// The number of an event of the last collection.
    fn last(&self, phase: Phase) -> gleaner_base::events::Event {
        // Tests publish no records: the heap's ring has them.
        *self.bench.events(phase).last().expect("an event")
    }
}

fn store(object: Address, word: usize, value: usize) {
    // SAFETY: an object of the test, and `word` is inside it.
    unsafe { object.add(word * 8).store(value) };
}

#[test]
fn marks_are_kept_and_what_was_written_is_scanned() {
    only_written_pages_are_scanned();
    pointer_free_blocks_are_not_watched();
    what_dies_old_stays_until_everything_is_collected();
    freed_cells_are_not_lost();
    cells_freed_young_are_handed_out_once();
    what_is_known_is_lost_once();
    one_given_up_is_not_built_on();
    changed_marks_are_not_built_on();
    uncollectable_objects_are_scanned_unwritten();
    what_a_mark_procedure_reads_elsewhere_is_found();
    objects_that_bring_their_descriptors_are_scanned_where_they_were_written();
    what_is_written_while_marks_are_not_kept_is_found();
    what_was_written_all_over_is_collected_whole();
    heaps_are_hardly_larger_than_without();
}

/// By itself the heap does not try a collection of new objects that would scan all old ones; who asks for one gets it.
fn what_was_written_all_over_is_collected_whole() {
    let reason_of = |mode, written: usize| {
        let mut old = Old::new("markers=1", NORMAL)?;
        old.bench.heap.mode = mode;
        let array = old.bench.kept_object();
        for number in 0..written {
            store(old.object(number), 1, 0);
            store(array, number, old.object(number).word());
        }
        assert_eq!(old.bench.collect_new("new"), Outcome::Done);
        let written = *old.bench.events(Phase::Written).last().unwrap();
        Some(written.reason)
    };
    let (Some(all), Some(half), Some(asked)) = (
        reason_of(MarkGenerations::Auto, OBJECTS),
        reason_of(MarkGenerations::Auto, OBJECTS / 2),
        reason_of(MarkGenerations::Sticky, OBJECTS),
    ) else {
        return;
    };
    assert_eq!(all, IN_VAIN);
    assert!(half.starts_with("new objects"), "{half}");
    assert!(asked.starts_with("new objects"), "{asked}");
}

/// Objects that die old are no reason to grow: a ring of objects, of which the oldest dies each time.
fn heaps_are_hardly_larger_than_without() {
    const RING: usize = 20_000;
    let peak_of = |mode: &str| {
        let mut bench = Bench::new(&format!("generations={mode}"));
        if let Some(unavailable) = bench.heap.unwatched {
            eprintln!("not tested: {unavailable}");
            return None;
        }
        let ring = bench.allocate(NORMAL, RING * 8).unwrap();
        bench.keep(ring);
        for number in 0..30 * RING {
            let object = bench.allocate(NORMAL, 200).unwrap();
            store(ring, number % RING, object.word());
        }
        Some((
            bench.heap.totals.peak_capacity,
            bench.heap.totals.kept_marks,
        ))
    };
    let (Some((without, none)), Some((peak, kept))) = (peak_of("none"), peak_of("sticky")) else {
        return;
    };
    assert!(none == 0 && kept > 0, "{kept} kept marks");
    assert!(
        peak <= without + without / 8,
        "{peak} bytes, {without} without"
    );
}

fn only_written_pages_are_scanned() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    old.collect_new();
    assert!(old.bench.kept_marks());
    assert_eq!(old.last(Phase::Written).objects, 0);
    let roots = old.last(Phase::Mark).bytes;
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    old.collect_new();
    let nothing = old.last(Phase::Mark).bytes;
    store(old.object(1234), 3, young.word());
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    store(old.object(1234), 4, young.word());
    old.collect_new();
    assert!(old.bench.is_marked(young), "a reference was missed");
    // One page of old objects, the block of the young one, and roots.
    assert!(old.last(Phase::Written).objects <= 9);
    let scanned = old.last(Phase::Mark).bytes;
    assert!(scanned > nothing, "{scanned} {nothing}");
    assert!(scanned < roots + (64 << 10), "{scanned} beside {roots}");
    old.bench.collect();
    assert!(!old.bench.kept_marks());
    assert!(old.last(Phase::Mark).bytes >= (OBJECTS * 208) as u64);
}

fn pointer_free_blocks_are_not_watched() {
    let Some(mut old) = Old::new("", PTRFREE) else {
        return;
    };
    old.collect_new();
    for number in 0..OBJECTS {
        store(old.object(number), 5, number);
    }
    old.collect_new();
    assert!(old.bench.kept_marks());
    assert_eq!(old.last(Phase::Written).objects, 0);
}

fn what_dies_old_stays_until_everything_is_collected() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    let live = old.bench.heap.space.census.objects;
    assert!(live >= OBJECTS);
    let all = old.bench.allocate(NORMAL, OBJECTS * 8).unwrap();
    let kept = old.object(7);
    store(all, 0, kept.word());
    // Another array takes the place of the one that had them all.
    old.bench.replace_kept(all);
    old.collect_new();
    assert!(old.bench.heap.space.census.objects > OBJECTS);
    old.bench.collect();
    let left = old.bench.heap.space.census.objects;
    assert!(left < OBJECTS / 10, "{left} objects are left");
    assert!(old.bench.is_marked(kept));
}

/// Cells that were old and were freed explicitly are on a list, or handed out, but never neither.
fn freed_cells_are_not_lost() {
    for options in ["poison=off", "poison=on"] {
        let Some(mut old) = Old::new(options, NORMAL) else {
            return;
        };
        for kept in [false, true] {
            let used = old.bench.heap.space.used_bytes();
            let all = old.bench.kept_object();
            for number in 0..OBJECTS {
                store(all, number, 0);
                old.bench.free(old.object(number));
            }
            if kept {
                old.collect_new();
                old.collect_new();
            }
            for number in 0..OBJECTS {
                let object = old.bench.allocate(NORMAL, 200).unwrap();
                store(all, number, object.word());
                old.objects[number] = !object.word();
            }
            old.collect_new();
            assert!((0..OBJECTS).all(|number| old.bench.is_marked(old.object(number))));
            let now = old.bench.heap.space.used_bytes();
            assert!(
                now <= used + (64 << 10),
                "{now} bytes in use, {used} before"
            );
        }
    }
}

/// Cells that were freed before any collection saw them bear no mark. On the shared list they stay off those of blocks.
fn cells_freed_young_are_handed_out_once() {
    for options in ["poison=off,freed-cells=shared", "poison=on"] {
        let Some(mut old) = Old::new(&format!("initial-heap=16m,{options}"), NORMAL) else {
            return;
        };
        let collections = old.bench.heap.collections;
        let young: Vec<Address> = (0..OBJECTS)
            .map(|_| old.bench.allocate(NORMAL, 400).unwrap())
            .collect();
        let all = old.bench.kept_object();
        for (number, object) in young.iter().enumerate() {
            // Every second one keeps its block in use.
            if number % 2 == 0 {
                store(all, number, object.word());
            } else {
                old.bench.free(*object);
            }
        }
        assert_eq!(old.bench.heap.collections, collections);
        old.collect_new();
        assert!(old.bench.kept_marks());
        let mut in_use: BTreeSet<Address> = young.into_iter().step_by(2).collect();
        for _ in 0..OBJECTS {
            let object = old.bench.allocate(NORMAL, 400).unwrap();
            assert!(in_use.insert(object), "{object:?} is in use: {options}");
        }
    }
}

/// The kernel fails to answer once: everything is collected, and what comes after builds on that.
fn what_is_known_is_lost_once() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    store(old.object(99), 3, young.word());
    arm(FaultPoint::WatchWrites, 1);
    old.collect_new();
    let reason = "everything: the kernel no longer knew what was written";
    assert_eq!(old.bench.heap.extent, Extent::Everything(reason));
    assert_eq!(old.last(Phase::Written).reason, reason);
    assert!(old.bench.is_marked(young));
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    store(old.object(77), 3, young.word());
    old.collect_new();
    assert!(old.bench.kept_marks() && old.bench.is_marked(young));
    // It fails again when it is started anew: from now on everything is collected. Soft-dirty bits take no memory for it.
    let written = old.bench.heap.space.written.as_ref().unwrap();
    if written.watch.mechanism() != Mechanism::PageScan {
        return;
    }
    arm(FaultPoint::WatchWrites, 1);
    arm(FaultPoint::ReserveMemory, 1);
    old.collect_new();
    assert!(old.bench.heap.space.written.is_none());
    old.collect_new();
    assert!(!old.bench.kept_marks());
    arm(FaultPoint::ReserveMemory, 0);
}

fn one_given_up_is_not_built_on() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    store(old.object(99), 3, young.word());
    // Asked before marks are touched, and when all is marked.
    for (asked, builds) in [(1, true), (2, false)] {
        old.bench
            .client
            .abandon_when_asked
            .store(asked, Ordering::Relaxed);
        assert_eq!(old.bench.collect_new("given up"), Outcome::Abandoned);
        old.collect_new();
        assert_eq!(old.bench.kept_marks(), builds);
        assert!(old.bench.is_marked(young));
    }
}

fn changed_marks_are_not_built_on() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    old.collect_new();
    assert!(old.bench.kept_marks());
    old.bench
        .heap
        .context
        .disturbed
        .store(true, Ordering::Relaxed);
    old.collect_new();
    assert!(!old.bench.kept_marks());
    old.collect_new();
    assert!(old.bench.kept_marks());
}

fn uncollectable_objects_are_scanned_unwritten() {
    let Some(mut old) = Old::new("", NORMAL) else {
        return;
    };
    let holder = old.bench.allocate(UNCOLLECTABLE, 100).unwrap();
    let held = old.bench.allocate(NORMAL, 64).unwrap();
    store(holder, 2, held.word());
    old.collect_new();
    old.collect_new();
    assert!(old.bench.kept_marks() && old.bench.is_marked(held));
}

/// What the mark procedure finds beside the object that it is called for.
static BESIDE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" fn beside(
    _: *mut usize,
    top: *mut Entry,
    limit: *mut Entry,
    _: usize,
) -> *mut Entry {
    let context = CONTEXT.load(Ordering::Relaxed);
    // SAFETY: the context of the heap that is collected, and the collector's own stack.
    unsafe { (*context).mark_and_push(BESIDE.load(Ordering::Relaxed), top, limit) }
}

/// The context that the mark procedure marks in.
static CONTEXT: AtomicPtr<MarkContext> = AtomicPtr::new(ptr::null_mut());

/// A client's mark procedure may read memory that nobody watches: it is called for an old object that was not written.
fn what_a_mark_procedure_reads_elsewhere_is_found() {
    let Some(mut old) = Old::new("markers=1", NORMAL) else {
        return;
    };
    CONTEXT.store(&raw mut *old.bench.heap.context, Ordering::Relaxed);
    old.bench.heap.context.procs[0] = Some(beside);
    let kind = Kind {
        descriptor: descriptor::PROC,
        add_size: false,
        clear: true,
        uncollectable: false,
        disclaim: None,
        mark_unconditionally: false,
        unlocked: true,
    };
    let kind = old.bench.heap.space.kinds.add(kind).unwrap();
    let reader = old.bench.allocate(kind, 64).unwrap();
    old.bench.keep(reader);
    // Old, and in a block of which the kernel is asked by now.
    old.collect_new();
    old.collect_new();
    let young = old.bench.allocate(NORMAL, 64).unwrap();
    BESIDE.store(young.word(), Ordering::Relaxed);
    old.collect_new();
    assert!(old.bench.kept_marks() && old.bench.is_marked(young));
}

/// A descriptor that stands in the object, or in its type outside of the heap: of old objects only those that were written
/// are scanned. Where the type has changed since they were scanned, all are, once.
fn objects_that_bring_their_descriptors_are_scanned_where_they_were_written() {
    const SECOND: usize = 1 << 62 | descriptor::BITMAP;
    for by_type in [false, true] {
        let Some(mut old) = Old::new("", NORMAL) else {
            return;
        };
        let its_type = AtomicUsize::new(SECOND);
        let described = match by_type {
            true => 0usize.wrapping_sub(descriptor::INDIRECT_BIAS) | descriptor::PER_OBJECT,
            false => descriptor::PER_OBJECT,
        };
        let kind = Kind {
            descriptor: described,
            add_size: false,
            clear: true,
            uncollectable: false,
            disclaim: None,
            mark_unconditionally: false,
            unlocked: false,
        };
        let kind = old.bench.heap.space.kinds.add(kind).unwrap();
        let first_word = match by_type {
            true => its_type.as_ptr().addr(),
            false => SECOND,
        };
        for number in 0..OBJECTS {
            let object = old.bench.allocate(kind, 64).unwrap();
            store(object, 0, first_word);
            store(old.object(number), 2, object.word());
            old.objects[number] = !object.word();
        }
        old.bench
            .heap
            .context
            .disturbed
            .store(true, Ordering::Relaxed);
        old.bench.collect();
        // The blocks are asked about from now on.
        old.collect_new();
        old.collect_new();
        let young = old.bench.allocate(NORMAL, 64).unwrap();
        store(old.object(1234), 1, young.word());
        old.collect_new();
        assert!(old.bench.kept_marks() && old.bench.is_marked(young));
        let scanned = old.last(Phase::Mark).objects as usize;
        assert!(scanned < OBJECTS / 4, "{scanned} {by_type}");
        // Pointers to the second word and to the third now.
        its_type.store(SECOND | 1 << 61, Ordering::Relaxed);
        let all: Vec<bool> = (0..3)
            .map(|_| {
                old.collect_new();
                assert!(old.bench.kept_marks());
                old.last(Phase::Mark).objects as usize >= OBJECTS
            })
            .collect();
        assert_eq!(all, [by_type, false, false]);
    }
}

/// Where it does not pay to keep marks, nobody asks for some collections what is written.
fn what_is_written_while_marks_are_not_kept_is_found() {
    let mut bench = Bench::new("generations=sticky,verify=edges,initial-heap=16m");
    if bench.heap.unwatched.is_some() {
        return;
    }
    let all = bench.allocate(NORMAL, 100 * 8).unwrap();
    bench.keep(all);
    let mut kept = 0;
    for number in 0..100 {
        // Most of what is marked dies at once.
        bench.roots.fill(0);
        for root in 0..64 {
            bench.roots[root] = bench.allocate(NORMAL, 64 << 10).unwrap().word();
        }
        let young = bench.allocate(NORMAL, 64).unwrap();
        store(all, number, young.word());
        assert_eq!(bench.collect_new("new"), Outcome::Done);
        bench.verify_collected();
        kept += usize::from(bench.kept_marks());
        for word in 0..=number {
            // SAFETY: a word of the array.
            let object = unsafe { all.add(word * 8).load() };
            assert!(bench.is_marked(Address::new(object)), "{word} of {number}");
        }
    }
    assert!((2..20).contains(&kept), "{kept} collections kept marks");
}
