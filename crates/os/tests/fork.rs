//! The order of fork hooks, in a process of its own: every fork of a process runs them.

use gleaner_os::fork::register;
use gleaner_os::threads::{current_process, current_tid};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

/// The order in which the hooks of the forking thread ran, one decimal digit each.
static ORDER: AtomicU32 = AtomicU32::new(0);

fn note(digit: u32) {
    let before = ORDER.load(Ordering::SeqCst);
    ORDER.store(before * 10 + digit, Ordering::SeqCst);
}
extern "C" fn prepare() {
    note(1);
}
extern "C" fn parent() {
    note(2);
}
extern "C" fn child() {
    note(3);
}
extern "C" fn later_prepare() {
    note(4);
}
extern "C" fn later_parent() {
    note(5);
}
extern "C" fn later_child() {
    note(6);
}

#[test]
fn hooks_run_in_the_documented_order() {
    assert!(register(prepare, parent, child));
    assert!(!register(prepare, parent, child), "once only");
    // SAFETY: functions of this program.
    let later =
        unsafe { pthread_atfork(Some(later_prepare), Some(later_parent), Some(later_child)) };
    assert_eq!(later, 0);
    let (process, thread) = (current_process(), current_tid());
    // SAFETY: the child calls only what is safe after a fork of a process with threads.
    let status = unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let fresh = current_process() != process && current_tid() != thread;
            let right = ORDER.load(Ordering::SeqCst) == 4136 && fresh;
            libc::_exit(if right { 0 } else { 1 });
        }
        assert!(pid > 0);
        let mut status = -1;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        status
    };
    assert_eq!(status, 0);
    assert_eq!(ORDER.load(Ordering::SeqCst), 4125);
}
