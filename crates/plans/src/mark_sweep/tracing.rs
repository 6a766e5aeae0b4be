//! The marker as weak processing sees it.
//!
//! A program keeps its links side by side in tables of its own, which are large objects. So what the last address lay in is likely
//! to be what the next one lies in: it is remembered, and looked at first.
//!
//! The collecting thread runs it in the stopped world. No block changes meanwhile; marks do, and are read each time.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_spaces::mark_sweep::block::{IGNORE_OFF_PAGE, Resolved, State};
use gleaner_spaces::mark_sweep::scan::Entry;
use gleaner_spaces::mark_sweep::{MARKED, WHITE};

use crate::mark_sweep::heap::Heap;
use crate::mark_sweep::weak;

/// A large object that was found.
#[derive(Clone, Copy)]
struct Large {
    found: Resolved,
    bytes: usize,
}

/// A heap between its main trace and the sweep.
pub(super) struct Tracing<'a> {
    heap: &'a mut Heap,
    last_large: Cell<Option<Large>>,
}

impl<'a> Tracing<'a> {
    pub(super) fn new(heap: &'a mut Heap) -> Tracing<'a> {
        Tracing {
            heap,
            last_large: Cell::new(None),
        }
    }

    /// What an address that the client registered lies in: it may bear a tag of the client's.
    fn found(&self, object: Address) -> Option<Resolved> {
        let word = object.word();
        if let Some(Large { found, bytes }) = self.last_large.get() {
            let displacement = word.wrapping_sub(found.base.word());
            if displacement < bytes {
                return Some(Resolved {
                    displacement,
                    ..found
                });
            }
        }
        let found = self.heap.space.object_at(word)?;
        // SAFETY: a resolved object's block.
        let block = unsafe { &*found.block };
        // Of others the rest counts for nothing.
        if block.state == State::LargeHead && !block.has_flag(IGNORE_OFF_PAGE) {
            let bytes = block.bytes;
            self.last_large.set(Some(Large { found, bytes }));
        }
        Some(found)
    }
}

impl weak::Tracer for Tracing<'_> {
    fn is_marked(&self, object: Address) -> bool {
        self.found(object).is_none_or(|found| {
            // SAFETY: the mark of a resolved object.
            unsafe { &*found.mark }.load(Ordering::Relaxed) != WHITE
        })
    }

    fn base(&self, address: Address) -> Option<Address> {
        self.found(address).map(|found| found.base)
    }

    fn mark(&mut self, object: Address) {
        self.heap.engine.visit_any(object.word());
    }

    fn trace_children(&mut self, object: Address) {
        if let Some(found) = self.found(object) {
            // SAFETY: a resolved object's block.
            let descriptor = unsafe { (*found.block).descriptor };
            if descriptor != 0 {
                let start = found.base.word();
                // SAFETY: the descriptor is the object's; the world is stopped.
                unsafe { self.heap.engine.scan_entry(Entry { start, descriptor }) };
            }
        }
    }

    fn trace_children_except_self(&mut self, object: Address) {
        let Some(found) = self.found(object) else {
            return;
        };
        // SAFETY: a resolved object's block.
        let descriptor = unsafe { (*found.block).descriptor };
        if descriptor == 0 {
            return;
        }
        // Marked while its own words are visited, the object is not found through them.
        // SAFETY: the mark of a resolved object; the world is stopped.
        unsafe {
            (*found.mark).store(MARKED, Ordering::Relaxed);
            self.heap.engine.scan_now(found.base, descriptor);
            (*found.mark).store(WHITE, Ordering::Relaxed);
        }
    }

    fn drain(&mut self) {
        let Heap {
            engine,
            crew,
            space,
            context,
            ..
        } = &*self.heap;
        // Most objects that are finalized lead to nothing that is not marked, and a phase of marking takes longer than a look.
        if engine.has_grey() {
            engine.drain(crew, 1, space, context);
        }
    }

    fn clear_link(&mut self, link: Address) {
        // SAFETY: a registered link is a word of the client's; if it lies in the heap, its object is alive.
        unsafe { link.store(0) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::mark_sweep::stop::protocol::World;
    use gleaner_base::options::Options;
    use gleaner_os::topology::Topology;
    use gleaner_spaces::mark_sweep::kinds::PTRFREE;
    use gleaner_work::Crew;
    use std::boxed::Box;
    use weak::Tracer;

    const BYTES: usize = 48 << 10;

    fn heap() -> Box<Heap> {
        let options = Options {
            reserve: 32 << 20,
            ..Options::DEFAULT
        };
        let (crew, world) = (Box::new(Crew::new()), Box::new(World::new()));
        let (crew, world) = (Box::leak(crew), Box::leak(world));
        Box::new(Heap::new(&options, false, Topology::host(), crew, world).unwrap())
    }

    /// Neighbours, of which each address lies in one; whichever was asked about before.
    #[test]
    fn each_address_lies_in_its_own_object() {
        let mut heap = heap();
        heap.grow_to(16 << 20, "a test");
        let mut large = |off_page| {
            heap.space
                .allocate_large(PTRFREE, BYTES, 16, off_page)
                .unwrap()
        };
        let objects = [large(false), large(false), large(true)];
        for object in objects {
            let found = heap.space.object_at(object.word()).unwrap();
            // SAFETY: the mark of a resolved object.
            unsafe { &*found.mark }.store(WHITE, Ordering::Relaxed);
        }
        let places = [0, 8, 4088, 4096, BYTES - 8, BYTES - 1];
        let tracing = Tracing::new(&mut heap);
        let base = |address: Address| tracing.base(address);
        for _ in 0..3 {
            for place in places {
                for object in objects {
                    let counts = object != objects[2] || place < 4096;
                    assert_eq!(base(object.add(place)), counts.then_some(object), "{place}");
                }
            }
            for object in objects {
                for place in places {
                    let counts = object != objects[2] || place < 4096;
                    assert_eq!(base(object.add(place)), counts.then_some(object), "{place}");
                }
            }
        }
        // Marks are those of now.
        let inside = objects[0].add(BYTES - 8);
        assert!(!tracing.is_marked(inside) && !tracing.is_marked(objects[0]));
        let found = tracing.heap.space.object_at(inside.word()).unwrap();
        // SAFETY: the mark of a resolved object.
        unsafe { &*found.mark }.store(MARKED, Ordering::Relaxed);
        assert!(tracing.is_marked(inside) && tracing.is_marked(objects[0]));
        assert!(!tracing.is_marked(objects[1]));
    }
}
