//! A collection touches neither pointer-free nor empty blocks: the processor's own record says so.
//!
//! The idea: the heap's address range is cut into mappings by kind of block, the referenced bits of the process are
//! cleared, a collection is run, and the bits are read. Pages of objects that are scanned must be referenced, or the
//! measurement shows nothing. A process of its own, because the bits are cleared for the whole process.

#![cfg(not(loom))]

mod harness;

use std::ptr::NonNull;

use gleaner_mem::Address;
use gleaner_os::residency;
use gleaner_spaces::mark_sweep::block::{BLOCK_BYTES, State};
use gleaner_spaces::mark_sweep::kinds::{NORMAL, PTRFREE};
use harness::Bench;

const SMALL: usize = 512;
const CELLS: usize = BLOCK_BYTES / SMALL;
const BLOCKS: usize = 64;
const LARGE: usize = 1 << 20;

/// A part of the heap of which it is known whether a collection reads it.
struct Part {
    name: &'static str,
    start: Address,
    bytes: usize,
}

impl Part {
    fn pointer(&self) -> NonNull<u8> {
        NonNull::new(self.start.ptr()).unwrap()
    }

    fn isolate(&self) {
        // SAFETY: whole pages of the heap's range, which belongs to this test.
        let isolated = unsafe { residency::isolate(self.pointer(), self.bytes) };
        assert!(isolated, "{}", self.name);
    }

    fn referenced(&self) -> usize {
        residency::referenced_bytes(self.pointer(), self.bytes)
            .expect("the kernel counts referenced pages")
    }
}

/// A block that nobody watches, so that the kernel does not join the parts on both sides.
fn gap(bench: &mut Bench, bytes: usize) {
    (0..BLOCK_BYTES / bytes).for_each(|_| drop(bench.allocate(PTRFREE, bytes)));
}

/// Fills whole neighbouring blocks with cells of one kind, all written, and returns where they lie.
fn blocks(bench: &mut Bench, name: &'static str, kind: usize, objects: &mut Vec<Address>) -> Part {
    gap(bench, BLOCK_BYTES / 2);
    let first = objects.len();
    for _ in 0..BLOCKS * CELLS {
        let object = bench.allocate(kind, SMALL).unwrap();
        // SAFETY: the test's own object. Written all over, so that every page is the heap's own.
        (0..SMALL / 8).for_each(|word| unsafe { object.add(word * 8).store(7) });
        objects.push(object);
    }
    let mine = &objects[first..];
    let (low, high) = (
        mine.iter().min().unwrap(),
        mine.iter().max().unwrap().add(SMALL),
    );
    let bytes = high.offset_from(*low);
    assert_eq!(
        (low.word() % BLOCK_BYTES, bytes),
        (0, BLOCKS * BLOCK_BYTES),
        "{name}: blocks of their own"
    );
    Part {
        name,
        start: *low,
        bytes,
    }
}

fn large(bench: &mut Bench, name: &'static str, kind: usize) -> Part {
    gap(bench, BLOCK_BYTES);
    let start = bench.allocate(kind, LARGE).unwrap();
    // SAFETY: the test's own object.
    (0..LARGE / 8).for_each(|word| unsafe { start.add(word * 8).store(7) });
    Part {
        name,
        start,
        bytes: LARGE,
    }
}

/// An object that refers to all of `objects`.
fn holder(bench: &mut Bench, objects: &[Address]) {
    let holder = bench.allocate(NORMAL, objects.len() * 8).unwrap();
    for (word, object) in objects.iter().enumerate() {
        // SAFETY: the test's own object has a word for each.
        unsafe { holder.add(word * 8).store(object.word()) };
    }
    bench.keep(holder);
}

fn check(policy: &str) {
    let mut bench = Bench::new(&format!("initial-heap=16m,huge-pages=off,{policy}"));
    let mut live = Vec::new();
    let mut dead = Vec::new();
    let scanned = blocks(&mut bench, "scanned objects", NORMAL, &mut live);
    let pointer_free = blocks(&mut bench, "pointer-free objects", PTRFREE, &mut live);
    let empty = blocks(&mut bench, "dead objects", NORMAL, &mut dead);
    let empty_pointer_free = blocks(&mut bench, "dead pointer-free objects", PTRFREE, &mut dead);
    let large_scanned = large(&mut bench, "a large scanned object", NORMAL);
    let large_pointer_free = large(&mut bench, "a large pointer-free object", PTRFREE);
    let large_dead = large(&mut bench, "a large dead object", NORMAL);
    live.extend([large_scanned.start, large_pointer_free.start]);
    holder(&mut bench, &live);
    let read = [scanned, large_scanned];
    let unread = [
        pointer_free,
        empty,
        empty_pointer_free,
        large_pointer_free,
        large_dead,
    ];
    read.iter().chain(&unread).for_each(Part::isolate);

    assert!(residency::clear_referenced());
    read.iter()
        .chain(&unread)
        .for_each(|part| assert_eq!(part.referenced(), 0, "{}", part.name));
    bench.collect();
    for part in &read {
        assert!(
            part.referenced() >= part.bytes,
            "{policy}: {} were read: {}",
            part.name,
            part.referenced()
        );
    }
    for part in &unread {
        assert_eq!(
            part.referenced(),
            0,
            "{policy}: {} were left alone",
            part.name
        );
    }

    // The collection did its work: dead objects are free, live ones are marked.
    let marked = bench.marked();
    assert!(live.iter().all(|object| marked.contains(&object.word())));
    for part in &unread[1..3] {
        let index = bench.heap.context.table.index_of(part.start);
        // SAFETY: a block of the heap.
        let state = unsafe { (*bench.heap.context.table.block(index)).state };
        assert_eq!(state, State::Free);
    }
    // The same pages count as soon as they are used: the measurement can fail.
    assert!(bench.allocate(NORMAL, LARGE).is_ok());
    assert!(
        unread[4].referenced() > 0,
        "a dead object's place was used again"
    );
}

/// `fifo` and `edges` prefetch what they are going to scan and `on-grey` what looks like a pointer. A prefetch that
/// misses the translation buffer may set the bit of a page that is not read, so pointer-free pages are watched without
/// it.
#[test]
fn pointer_free_and_empty_blocks_are_left_alone() {
    for policy in [
        "prefetch=none,sweep=lazy",
        "prefetch=none,sweep=eager",
        "prefetch=fifo,sweep=lazy",
        "prefetch=edges,sweep=lazy",
    ] {
        check(policy);
    }
}
