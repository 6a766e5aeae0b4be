//! A list of mappings that the system breaks off, in a process of its own: a fault point is one for the whole process.

use gleaner_base::faults::{FaultPoint, arm, left};
use gleaner_os::mappings::{can_be_read, for_each_piece};
use std::ffi::c_void;

/// Mappings of a page each, more than the system tells of in one piece.
fn make_mappings() {
    const PAGE: usize = 4096;
    const PAGES: usize = 400;
    // SAFETY: a new mapping, which disturbs nothing.
    unsafe {
        let low = libc::mmap(
            std::ptr::null_mut(),
            PAGES * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(low, libc::MAP_FAILED);
        for page in (0..PAGES).step_by(2) {
            let page = low.cast::<u8>().add(page * PAGE).cast::<c_void>();
            assert_eq!(libc::mprotect(page, PAGE, libc::PROT_NONE), 0);
        }
    }
}

/// What is behind the break may be a stack: so half a list counts as none.
#[test]
fn a_list_of_mappings_that_breaks_off_is_none() {
    make_mappings();
    let reads = (1..)
        .find(|&visit| {
            arm(FaultPoint::ReadSystemFile, visit);
            let is_told = for_each_piece((0, 0), &mut |_, _, _| {});
            let was_met = left(FaultPoint::ReadSystemFile) == 0;
            assert_eq!(is_told, !was_met, "broken off at read {visit}");
            is_told
        })
        .unwrap();
    assert!(reads > 4, "the list came in {reads} pieces");
    arm(FaultPoint::ReadSystemFile, 1);
    assert!(!can_be_read());
    assert!(can_be_read());
}
