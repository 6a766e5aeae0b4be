//! Checks all live debug objects at each collection, once debugging allocation has begun.
//!
//! The check runs when marking is over and the world stands still, so no header changes under it; what it found is
//! kept in a fixed table and told when the world runs again.

use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_mem::Address;
use gleaner_plans::mark_sweep::Heap;
use gleaner_spaces::mark_sweep::MARKED;
use gleaner_spaces::mark_sweep::block::Block;

use crate::debug_header::{DebugObject, HEADER, Health};
use crate::message::say;
use crate::settings::register_displacement;
use crate::start::with_heap;
use crate::state::table;

/// The most faults told of at one collection.
const MOST: usize = 20;

/// Whether a debug object was ever allocated.
static BEGUN: AtomicBool = AtomicBool::new(false);

struct Faults {
    found: [Option<Fault>; MOST],
    count: usize,
}

#[derive(Clone, Copy)]
struct Fault {
    object: DebugObject,
    kind: usize,
    health: Health,
}

struct FaultCell(core::cell::UnsafeCell<Faults>);
// SAFETY: used under the allocator lock only.
unsafe impl Sync for FaultCell {}
static FAULTS: FaultCell = FaultCell(core::cell::UnsafeCell::new(Faults {
    found: [None; MOST],
    count: 0,
}));

/// Notes that debugging allocation is used: pointers behind a header count from now on.
#[inline]
pub fn begin() {
    // Relaxed: a collection sees it because it comes after an allocation.
    if !BEGUN.load(Ordering::Relaxed) {
        with_heap(|heap| register_displacement(Some(heap), HEADER));
        BEGUN.store(true, Ordering::Relaxed);
    }
}

/// Looks at every live object. In the stopped world, under the lock, after marking.
pub fn check_live(heap: &Heap) {
    if !BEGUN.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the lock is held: the caller has the heap.
    let faults = unsafe { &mut *FAULTS.0.get() };
    faults.count = 0;
    let space = &heap.space;
    space.for_each_small_block(|index, block| {
        let marks = table().marks_of(index);
        for object in 0..usize::from(block.objects) {
            // SAFETY: `object` is below the number of cells.
            if unsafe { (*marks.add(object)).load(Ordering::Relaxed) } == MARKED {
                faults.check(space.start(index).add(object * block.bytes), block);
            }
        }
    });
    space.for_each_large(|index, block| {
        if block.large_mark.load(Ordering::Relaxed) == MARKED {
            faults.check(space.start(index), block);
        }
    });
}

impl Faults {
    fn check(&mut self, base: Address, block: &Block) {
        let Some(object) = DebugObject::new(base, block.bytes) else {
            return;
        };
        let health = object.health();
        if matches!(health, Health::Smashed(_) | Health::WrittenAfterFree(_)) {
            if let Some(place) = self.found.get_mut(self.count) {
                *place = Some(Fault {
                    object,
                    kind: usize::from(block.kind),
                    health,
                });
            }
            self.count += 1;
        }
    }
}

/// Tells of what the last check found. In the running world, under the lock.
pub fn tell(_heap: &Heap) {
    // SAFETY: the lock is held: the caller has the heap.
    let faults = unsafe { &mut *FAULTS.0.get() };
    if faults.count == 0 {
        return;
    }
    say(format_args!(
        "{} smashed objects were found by a collection:",
        faults.count
    ));
    for fault in faults.found.iter().take(faults.count).flatten() {
        let description = fault.object.describe(fault.kind);
        match fault.health {
            Health::WrittenAfterFree(place) => {
                say(format_args!(
                    "  written at {place:?} after it was freed: object {description}"
                ));
            }
            Health::Smashed(place) => say(format_args!(
                "  smashed at {place:?}, in or near object {description}"
            )),
            _ => {}
        }
    }
    faults.count = 0;
}
