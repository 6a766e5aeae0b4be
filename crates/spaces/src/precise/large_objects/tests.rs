//! Runs of pages: where objects lie, what is given back, and what is mapped under a limit on addresses.

use super::*;
use crate::precise::single_thread::{locked, stopped};
use std::vec::Vec;

const PAGES: usize = 64;

fn space() -> (LargeObjects, usize) {
    let start = memory::map(PAGES * PAGE_BYTES).unwrap();
    let space = LargeObjects::new(Address::of(start.as_ptr()), PAGES * PAGE_BYTES, false).unwrap();
    (space, start.as_ptr() as usize)
}

#[test]
fn pages_of_the_dead_are_used_again_when_their_neighbours_are_free_too() {
    let (space, start) = space();
    // SAFETY: there is only this thread.
    unsafe {
        let objects: Vec<Address> = (0..16)
            .map(|_| {
                let (object, clean) = space.allocate(&mut locked(), 4 * PAGE_BYTES - 8).unwrap();
                assert!(clean);
                object.store(1);
                object
            })
            .collect();
        assert!(space.allocate(&mut locked(), 1).is_none());
        assert!(space.is_object(objects[3]) && space.is_young(objects[3]));
        space.sweep(
            &mut stopped(),
            Generation::Young,
            |object, (begins, bytes)| {
                assert_eq!((begins, bytes), (object, 4 * PAGE_BYTES));
                match (object.word() - start) / bytes {
                    3..6 | 9 => Fate::Dies,
                    0 => Fate::Old,
                    _ => Fate::Young,
                }
            },
        );
        assert_eq!(space.used(), 12 * 4 * PAGE_BYTES);
        assert_eq!(space.young_used(), 11 * 4 * PAGE_BYTES);
        assert_eq!(space.resident(), 16 * 4 * PAGE_BYTES);
        assert!(!space.is_young(objects[0]) && !space.is_object(objects[9]));
        let (again, clean) = space.allocate(&mut locked(), 12 * PAGE_BYTES).unwrap();
        assert!(again == objects[3] && !clean && space.is_young(again));
        assert!(
            space.is_resident(&mut locked(), PAGE_BYTES)
                && !space.is_resident(&mut locked(), 5 * PAGE_BYTES)
        );
        space.release_free(&mut locked(), PAGE_BYTES);
        let (again, clean) = space.allocate(&mut locked(), PAGE_BYTES).unwrap();
        assert!(again == objects[9] && clean && again.load() == 0);
        assert!(space.allocate(&mut locked(), 4 * PAGE_BYTES).is_none());
    }
}

#[test]
fn a_clean_run_is_not_clean_when_it_is_joined_with_a_dirty_one() {
    // The one that was given back before its neighbour died lies below it, or above.
    for first in [0, 1] {
        let (space, _) = space();
        // SAFETY: there is only this thread.
        unsafe {
            let objects =
                [0, 1, 2].map(|_| space.allocate(&mut locked(), 2 * PAGE_BYTES).unwrap().0);
            for dies in [first, 1 - first] {
                objects[dies].store(1);
                space.sweep(&mut stopped(), Generation::Young, |object, _| {
                    if object == objects[dies] {
                        Fate::Dies
                    } else {
                        Fate::Young
                    }
                });
                if dies == first {
                    space.release_free(&mut locked(), 2 * PAGE_BYTES);
                    assert_eq!(space.resident(), 4 * PAGE_BYTES);
                }
            }
            assert_eq!(space.resident(), 6 * PAGE_BYTES);
            assert_eq!(
                space.allocate(&mut locked(), 4 * PAGE_BYTES),
                Some((objects[0], false))
            );
        }
    }
}

fn is_mapped(at: Address) -> bool {
    let mut resident = 0u8;
    // SAFETY: the kernel writes one byte for one page, and refuses what is not mapped.
    unsafe { libc::mincore(at.ptr(), PAGE_BYTES, &raw mut resident) == 0 }
}

#[test]
fn a_range_that_is_taken_as_it_is_used_follows_its_frontier() {
    const MANY: usize = 4096;
    let start = Address::of(memory::place_apart(MANY * PAGE_BYTES).unwrap().as_ptr());
    let space = LargeObjects::new(start, MANY * PAGE_BYTES, true).unwrap();
    let page = |number: usize| start.add(number * PAGE_BYTES);
    assert!(!is_mapped(start));
    // Somebody else's, in the way.
    let other = NonNull::new(page(1000).ptr::<u8>()).unwrap();
    memory::map_at(other, PAGE_BYTES, Access::Write).unwrap();
    let all_die = |_, _| Fate::Dies;
    // SAFETY: there is only this thread.
    unsafe {
        let first = space.allocate(&mut locked(), 600 * PAGE_BYTES).unwrap();
        assert!(first == (start, true) && is_mapped(page(599)) && !is_mapped(page(999)));
        start.store(1);
        page(599).store(1);
        assert!(
            space.has_room(&mut locked(), 400 * PAGE_BYTES)
                && !space.has_room(&mut locked(), 401 * PAGE_BYTES)
        );
        assert_eq!(space.allocate(&mut locked(), 401 * PAGE_BYTES), None);
        space.sweep(&mut stopped(), Generation::Young, all_die);
        // What died makes room at the frontier, and reads as zero.
        assert_eq!(space.resident(), 600 * PAGE_BYTES);
        assert_eq!(
            space.allocate(&mut locked(), 999 * PAGE_BYTES),
            Some((start, true))
        );
        assert_eq!(
            (start.load(), page(599).load(), space.resident()),
            (0, 0, 999 * PAGE_BYTES)
        );
        space.sweep(&mut stopped(), Generation::Young, all_die);
        space.release_free(&mut locked(), usize::MAX);
        assert!(!is_mapped(start) && !is_mapped(page(998)) && space.reached(&mut locked()) == 0);
        memory::unmap(other, PAGE_BYTES);
        assert!(space.allocate(&mut locked(), 2000 * PAGE_BYTES).is_some());
        assert!(space.allocate(&mut locked(), 3000 * PAGE_BYTES).is_none());
        space.sweep(&mut stopped(), Generation::Young, all_die);
        space.release_free(&mut locked(), usize::MAX);
    }
}

#[test]
fn of_what_is_free_at_the_frontier_no_more_goes_back_than_is_wanted() {
    let (space, start) = space();
    // SAFETY: there is only this thread.
    unsafe {
        let low = space.allocate(&mut locked(), 2 * PAGE_BYTES).unwrap().0;
        let kept = space.allocate(&mut locked(), PAGE_BYTES).unwrap().0;
        let high = space.allocate(&mut locked(), 8 * PAGE_BYTES).unwrap().0;
        (0..8).for_each(|page| high.add(page * PAGE_BYTES).store(1));
        low.store(1);
        space.sweep(&mut stopped(), Generation::Young, |object, _| {
            if object == kept {
                Fate::Young
            } else {
                Fate::Dies
            }
        });
        space.release_free(&mut locked(), 2 * PAGE_BYTES + 1);
        assert_eq!(space.resident(), (1 + 2 + 5) * PAGE_BYTES);
        assert_eq!(space.reached(&mut locked()), 8 * PAGE_BYTES);
        let again = space.allocate(&mut locked(), 5 * PAGE_BYTES).unwrap();
        assert_eq!(again, (high, false));
        // Those behind it read as zero, and count as used.
        let behind = space.allocate(&mut locked(), 3 * PAGE_BYTES).unwrap();
        assert_eq!(behind, (high.add(5 * PAGE_BYTES), true));
        assert_eq!(behind.0.load(), 0);
        space.sweep(&mut stopped(), Generation::Young, |object, _| {
            if object == kept {
                Fate::Young
            } else {
                Fate::Dies
            }
        });
        // All there is: what lies below, too.
        space.release_free(&mut locked(), 9 * PAGE_BYTES);
        assert_eq!(space.resident(), PAGE_BYTES);
        assert_eq!(space.reached(&mut locked()), 3 * PAGE_BYTES);
        assert!(low.word() == start && low.load() == 0);
    }
}

#[test]
fn a_fence_takes_no_memory_and_is_open_when_its_object_is_dead() {
    let (space, start) = space();
    let page = |number: usize| Address::new(start + number * PAGE_BYTES);
    // SAFETY: there is only this thread.
    unsafe {
        let (plain, _) = space.allocate(&mut locked(), PAGE_BYTES).unwrap();
        let (object, clean) = space
            .allocate_fenced(&mut locked(), 2 * PAGE_BYTES - 8, 10 * PAGE_BYTES - 1)
            .unwrap();
        assert_eq!((object, clean), (page(3).sub(ELEMENTS), true));
        let (next, _) = space.allocate(&mut locked(), PAGE_BYTES).unwrap();
        assert_eq!(next, page(13));
        assert_eq!(space.used(), 4 * PAGE_BYTES);
        assert_eq!(space.young_used(), 4 * PAGE_BYTES);
        assert!(space.is_object(object) && space.is_young(object));
        assert!(!space.is_object(page(2)) && !space.is_object(page(3)));
        object.store(1);
        page(1).store(1);
        let is_readable = |number: usize| {
            let at = page(number).word();
            memory::readable_end(at, at + 1) > at
        };
        for number in 0..14 {
            let in_fence = (3..13).contains(&number);
            assert_eq!(is_readable(number), !in_fence, "{number}");
            let found = space.fenced_object(page(number).add(8));
            assert_eq!(found, in_fence.then_some(object), "{number}");
        }
        assert_eq!(space.fenced_object(page(13).sub(1)), Some(object));
        let mut seen = Vec::new();
        space.sweep(&mut stopped(), Generation::Young, |object, memory| {
            seen.push((object, memory));
            Fate::Old
        });
        assert_eq!(seen[1], (object, (page(1), 2 * PAGE_BYTES)));
        assert!(space.is_object(object) && !space.is_young(object) && !is_readable(3));
        assert_eq!(space.cut_into_strips(&mut stopped(), |_| true), 3);
        assert_eq!(space.strip(1), (object, page(1), page(3)));
        let resident = space.resident();
        space.sweep(&mut stopped(), Generation::Old, |at, _| {
            if at == object { Fate::Dies } else { Fate::Old }
        });
        assert_eq!(space.resident(), resident - 2 * PAGE_BYTES);
        assert!((1..13).all(is_readable) && space.fenced_object(page(5)).is_none());
        assert_eq!(
            space.allocate(&mut locked(), 12 * PAGE_BYTES),
            Some((page(1), true))
        );
        assert_eq!((page(1).load(), object.load(), page(12).load()), (0, 0, 0));
        assert!(space.is_object(plain));
    }
}

#[test]
fn old_objects_are_cut_into_strips() {
    let (space, _) = space();
    // SAFETY: there is only this thread.
    unsafe {
        let (first, _) = space.allocate(&mut locked(), 20 * PAGE_BYTES).unwrap();
        let (second, _) = space.allocate(&mut locked(), 5 * PAGE_BYTES).unwrap();
        space.sweep(&mut stopped(), Generation::Young, |_, _| Fate::Old);
        space.allocate(&mut locked(), 5 * PAGE_BYTES).unwrap();
        assert_eq!(
            space.cut_into_strips(&mut stopped(), |object| object != second),
            2
        );
        let middle = first.add(STRIP_BYTES);
        assert_eq!(space.strip(0), (first, first, middle));
        assert_eq!(space.strip(1), (first, middle, second));
        assert_eq!(space.cut_into_strips(&mut stopped(), |_| true), 3);
    }
}
