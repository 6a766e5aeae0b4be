//! The collector's threads start in a program whose thread-locals have no room on the stack that their role asks for. A
//! process of its own: its thread-locals are those of all its threads.

use std::cell::Cell;
use std::ffi::c_void;

use gleaner_os::threads::{Placement, Role, spawn};

const LARGE: usize = 4 << 20;

thread_local! {
    static TABLE: Cell<[u8; LARGE]> = const { Cell::new([0; LARGE]) };
}

extern "C" fn use_the_table(argument: *mut c_void) -> *mut c_void {
    TABLE.with(|table| {
        // SAFETY: the last byte of this thread's own table.
        unsafe { table.as_ptr().cast::<u8>().add(LARGE - 1).write_volatile(1) };
    });
    // SAFETY: the flag of the test, which waits for this thread.
    unsafe { argument.cast::<bool>().write(true) };
    std::ptr::null_mut()
}

#[test]
fn a_thread_of_each_role_has_room_for_large_thread_locals() {
    for role in [
        Role::Worker,
        Role::Zeroer,
        Role::Marker,
        Role::Watcher,
        Role::CycleHelper,
    ] {
        let mut ran = false;
        let place = (&raw mut ran).cast();
        let thread = spawn(role, Placement::Anywhere, use_the_table, place);
        thread.unwrap_or_else(|| panic!("{role:?}")).join();
        assert!(ran);
    }
}
