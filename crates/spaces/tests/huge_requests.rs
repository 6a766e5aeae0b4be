//! Requests and alignments that no heap can meet are refused, without overflow and without a trace.
#![cfg(not(loom))]

mod support;

use gleaner_spaces::mark_sweep::SweepMode;
use gleaner_spaces::mark_sweep::allocate::Shortage;
use gleaner_spaces::mark_sweep::kinds::NORMAL;
use support::{SPAN, Space};

#[test]
fn sizes_up_to_the_largest_word_are_refused() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = usize::MAX;
    for shift in 24..64 {
        for bytes in [
            1usize << shift,
            (1 << shift) - 1,
            (1usize << shift).wrapping_add(1 << 14),
            usize::MAX,
        ] {
            if bytes > SPAN / 2 {
                let result = space.0.allocate_large(NORMAL, bytes, 16, false);
                assert_eq!(result, Err(Shortage::Range), "{bytes:#x}");
            }
        }
    }
    space.verify();
    assert_eq!(space.0.used_bytes(), 0);
}

#[test]
fn alignments_up_to_the_largest_power_are_refused_or_kept() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = usize::MAX;
    for shift in 4..64 {
        let alignment = 1usize << shift;
        match space.0.allocate_large(NORMAL, 20_000, alignment, false) {
            Ok(object) => {
                assert!(alignment < SPAN, "{alignment:#x}");
                assert_eq!(object.word() % alignment, 0);
                space.verify();
                space.0.free(object).unwrap();
            }
            Err(shortage) => assert_eq!(
                (shortage, alignment > SPAN / 4),
                (Shortage::Range, true),
                "{alignment:#x}"
            ),
        }
    }
    space.verify();
    assert_eq!(space.0.used_bytes(), 0);
}

/// A shortage that only more capacity cures is told apart from one that nothing cures.
#[test]
fn what_would_fit_the_range_asks_for_capacity() {
    let mut space = Space::new(SweepMode::Lazy, false);
    space.0.capacity = 1 << 20;
    assert_eq!(
        space.0.allocate_large(NORMAL, 2 << 20, 16, false),
        Err(Shortage::Capacity(2 << 20))
    );
    assert_eq!(
        space.0.allocate_large(NORMAL, 1 << 40, 16, false),
        Err(Shortage::Range)
    );
}
