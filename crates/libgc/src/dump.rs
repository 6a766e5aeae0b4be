//! Dumps of the heap for people who debug (gc.h). The text is ours; only the names of the functions are libgc's.
//!
//! Lines go to standard error through a fixed buffer. The caller of `GC_dump` and its relatives holds the lock by
//! contract, or no other thread runs, so nothing here takes it.

use core::ffi::{CStr, c_char, c_int};

use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::block::State;
use gleaner_spaces::mark_sweep::kinds::MAX_KINDS;

use crate::message::say;
use crate::state::{Locked, is_ready};

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_dump() {
    // SAFETY: no name.
    unsafe { GC_dump_named(core::ptr::null()) };
}

/// As in gc.h.
///
/// # Safety
/// `name` must be a string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn GC_dump_named(name: *const c_char) {
    if !is_ready() {
        say(format_args!("dump: the heap has not started"));
        return;
    }
    if !name.is_null() {
        // SAFETY: `name` is a string, as asked.
        let name = unsafe { CStr::from_ptr(name) };
        say(format_args!(
            "dump {}:",
            name.to_str().unwrap_or("(not UTF-8)")
        ));
    }
    dump(&unsynchronized());
}

/// The heap as these functions see it.
fn unsynchronized() -> Locked {
    // SAFETY: the caller of each of them holds the lock by contract, or no other thread runs.
    unsafe { Locked::by_contract() }
}

/// Writes all of the heap but its objects.
pub fn dump(heap: &Heap) {
    dump_totals(heap);
    dump_roots(heap);
    dump_blocks(heap);
    dump_finalization(heap);
}

fn dump_finalization(heap: &Heap) {
    let finalizers = &heap.weak.finalizers;
    say(format_args!(
        "dump: {} finalizers registered, {} waiting to run",
        finalizers.count(),
        finalizers.ready_count()
    ));
}

fn dump_totals(heap: &Heap) {
    say(format_args!(
        "dump: {} collections, capacity {} bytes, used {}, allocated since the last collection {}, threads {}",
        heap.collections,
        heap.space.capacity,
        heap.space.used_bytes(),
        heap.view()
            .allocated_bytes()
            .wrapping_sub(heap.allocated_before),
        heap.mutators.count()
    ));
}

fn dump_roots(heap: &Heap) {
    heap.roots.for_each(|range| {
        say(format_args!(
            "dump: root {:#x}-{:#x}, {} bytes",
            range.low.word(),
            range.high.word(),
            range.bytes()
        ));
    });
}

/// Blocks, objects and bytes of one kind.
#[derive(Clone, Copy, Default)]
struct Sum {
    blocks: usize,
    objects: usize,
    bytes: usize,
}

fn dump_blocks(heap: &Heap) {
    let mut small = [Sum::default(); MAX_KINDS];
    heap.space.for_each_small_block(|_, block| {
        let sum = &mut small[usize::from(block.kind)];
        sum.blocks += 1;
        sum.objects += usize::from(block.objects);
        sum.bytes += usize::from(block.objects) * block.bytes;
    });
    let mut large = [Sum::default(); MAX_KINDS];
    heap.space.for_each_large(|_, block| {
        if block.state == State::LargeHead {
            let sum = &mut large[usize::from(block.kind)];
            sum.objects += 1;
            sum.bytes += block.bytes;
        }
    });
    for (kind, (small, large)) in small.iter().zip(&large).enumerate() {
        if small.blocks + large.objects > 0 {
            say(format_args!(
                "dump: kind {kind}: {} blocks with room for {} small objects, {} bytes; {} large objects, {} bytes",
                small.blocks, small.objects, small.bytes, large.objects, large.bytes
            ));
        }
    }
}

/// As in gc.h: the memory that the heap uses, block by block.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_dump_regions() {
    if !is_ready() {
        return;
    }
    let heap = unsynchronized();
    let space = &heap.space;
    space.for_each_small_block(|index, block| {
        say(format_args!(
            "dump: block {:#x}: {} objects of {} bytes, kind {}",
            space.start(index).word(),
            block.objects,
            block.bytes,
            block.kind
        ));
    });
    space.for_each_large(|index, block| {
        if block.state == State::LargeHead {
            let start = space.start(index).word();
            say(format_args!(
                "dump: large {start:#x}: {} bytes, kind {}",
                block.bytes, block.kind
            ));
        }
    });
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_dump_finalization() {
    if is_ready() {
        dump_finalization(&unsynchronized());
    }
}

/// As in libgc, in no public header: the free cells of a kind and a size in granules that belong to no thread.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_print_free_list(kind: c_int, granules: usize) {
    if !is_ready() {
        return;
    }
    let heap = unsynchronized();
    let space = &heap.space;
    let (Ok(kind), Some(bytes)) = (usize::try_from(kind), granules.checked_mul(16)) else {
        return;
    };
    if kind >= MAX_KINDS || bytes > gleaner_spaces::mark_sweep::size_classes::LARGEST_SMALL {
        return;
    }
    let mut cell =
        space.shared.heads[kind][gleaner_spaces::mark_sweep::size_classes::class_of(bytes)];
    let mut count = 0;
    while !cell.is_null() {
        say(format_args!("free: {count}: {:#x}", cell.word()));
        count += 1;
        // SAFETY: a cell on a free list links to the next in its first word.
        cell = gleaner_mem::Address::new(unsafe { cell.load() });
    }
    say(format_args!(
        "free: {count} cells of kind {kind} for {bytes} bytes"
    ));
}
