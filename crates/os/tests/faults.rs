//! The fault points of the port layer, in a process of their own: a fault point is one for the whole
//! process.

use gleaner_base::faults::{FaultPoint, arm};
use gleaner_os::memory;
use gleaner_os::threads::{self, Placement, Role};
use std::ffi::c_void;
use std::ptr;

extern "C" fn nothing(_: *mut c_void) -> *mut c_void {
    ptr::null_mut()
}

#[test]
fn every_point_fails_once_at_the_chosen_visit() {
    arm(FaultPoint::ReserveMemory, 2);
    let start = memory::reserve(8192, 1 << 20).unwrap();
    assert_eq!(memory::reserve(8192, 1 << 20), None);
    assert!(memory::reserve(8192, 1 << 20).is_some());
    arm(FaultPoint::ReserveMemory, 1);
    assert_eq!(memory::map(4096), None);

    arm(FaultPoint::CommitMemory, 1);
    // SAFETY: the reservation is this test's.
    unsafe {
        assert!(!memory::commit(start, 8192));
        assert!(memory::commit(start, 8192));
        arm(FaultPoint::CommitMemory, 1);
        assert!(!memory::commit_executable(start, 8192));
        assert_eq!(start.read(), 0);
    }

    arm(FaultPoint::StartWorker, 1);
    let start = || threads::spawn(Role::Worker, Placement::Anywhere, nothing, ptr::null_mut());
    assert!(start().is_none());
    start().expect("the second one starts").join();
}
