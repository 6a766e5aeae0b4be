//! Memory that the system does not take back, since it is locked: the heap says that it holds it.

use std::ffi::{c_int, c_uint, c_void};

use gleaner::{Elements, Heap, OldPolicy, Structure};

unsafe extern "C" {
    fn mlock2(start: *const c_void, bytes: usize, flags: c_uint) -> c_int;
    fn munlock(start: *const c_void, bytes: usize) -> c_int;
}

/// Pages are locked when they come, not all at once.
const ON_FAULT: c_uint = 1;
const PAGE: usize = 4096;
const MB: usize = 1 << 20;

/// A heap with small objects, pinned and large ones, most of which die while all of its spaces are locked. Whether the system
/// allows that.
fn holds_what_is_locked(old: OldPolicy) -> bool {
    let builder = Heap::builder().limit(32 * MB).old(old).verify(true);
    let builder = builder.ignore_environment().options("release-after=1");
    let heap = builder.unwrap().build().unwrap();
    let structure = Structure {
        references: 1,
        bytes: 16,
    };
    let node = heap.structure(structure).unwrap();
    let bytes = heap.array(Elements::Bytes).unwrap();
    let mut mutator = heap.attach().unwrap();
    mutator.scope(|scope| {
        let [lowest, highest, list] = [(); 3].map(|()| scope.null());
        let made = scope.allocate_array(bytes.pinned(), 100).unwrap();
        scope.assign(lowest, made);
        scope.nested(|scope| {
            for _ in 0..100_000 {
                scope.nested(|scope| {
                    let made = scope.allocate(node).unwrap();
                    scope.set(made, 0, list).unwrap();
                    scope.assign(list, made);
                });
            }
            for _ in 0..40 {
                scope.nested(|scope| {
                    scope.allocate_array(bytes.pinned(), 10_000).unwrap();
                });
            }
            scope.allocate_array(bytes, 2 * MB as u32).unwrap();
            let made = scope.allocate_array(bytes, 100_000).unwrap();
            scope.assign(highest, made);
            // All is old, and eden was used.
            scope.collect(true);
            for _ in 0..1000 {
                scope.nested(|scope| {
                    scope.allocate_array(bytes, 1000).unwrap();
                });
            }
        });
        let full = heap.resident();
        assert!(full > 4 * MB, "{full}");
        let [low, high] = [lowest, highest].map(|local| {
            let (first, _) = scope.pinned_elements(local).unwrap();
            first.as_ptr() as usize & !(PAGE - 1)
        });
        let range = (low as *const c_void, high - low + 100_000);
        // SAFETY: pages of the heap, of which nothing changes but that they stay where they are.
        if unsafe { mlock2(range.0, range.1, ON_FAULT) } != 0 {
            return false;
        }
        let nothing = scope.null();
        // Nothing lives below the object that was made last, as a rule.
        scope.set(list, 0, nothing).unwrap();
        for _ in 0..3 {
            scope.collect(true);
            let held = heap.resident();
            assert!(held >= full, "{old:?}: {full} before, {held} after");
        }
        scope.assign(list, nothing);
        for _ in 0..3 {
            assert_eq!(scope.trim(), 0, "{old:?}");
            let held = heap.resident();
            assert!(held >= full, "{old:?}: {full} before, {held} after");
        }
        // SAFETY: as before.
        assert_eq!(unsafe { munlock(range.0, range.1) }, 0);
        let held = heap.resident();
        let given = scope.trim();
        let left = heap.resident();
        assert!(left < MB && given == held - left, "{old:?}: {left}");
        // The list lies where memory was given back and comes anew.
        scope.nested(|scope| {
            for number in 0..10_000 {
                scope.nested(|scope| {
                    let made = scope.allocate(node).unwrap();
                    assert!(scope.is_a(made, node) && scope.read_u64(made, 0) == 0);
                    scope.write_u64(made, 0, number).unwrap();
                    scope.set(made, 0, list).unwrap();
                    scope.assign(list, made);
                });
            }
        });
        scope.collect(true);
        for number in (0..10_000).rev() {
            assert_eq!(scope.read_u64(list, 0), number);
            scope.load(list, 0, list);
        }
        assert!(scope.is_null(list));
        true
    })
}

#[test]
fn locked_memory_counts_as_resident() {
    for old in [
        OldPolicy::MarkCompact,
        OldPolicy::MarkSweep,
        OldPolicy::MarkRegion,
    ] {
        if !holds_what_is_locked(old) {
            return;
        }
    }
}
