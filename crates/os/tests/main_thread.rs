//! The process's first thread: a program of its own without the test runner, which would start a thread per
//! test.

use gleaner_os::threads::{
    arm_thread_exit, main_thread_stack_end, set_thread_exit_key, stack_of_current_thread,
    stack_top, thread_word,
};

extern "C" fn hook(_: usize) {
    // SAFETY: leaves at once; the first thread's return from `main` must not come here.
    unsafe { libc::_exit(1) };
}

fn main() {
    let local = 0u8;
    let here = &raw const local as usize;
    let (low, high) = stack_of_current_thread().unwrap();
    assert!(low < here && here < high);
    assert_eq!(high, stack_top());
    assert_eq!(high, main_thread_stack_end());
    assert_eq!(low % 4096, 0);
    let first = std::env::args_os().next().unwrap();
    assert!(!first.is_empty());
    assert_eq!(thread_word(), 0);

    let (other_low, other_high) = std::thread::spawn(|| {
        assert_ne!(stack_top(), main_thread_stack_end());
        stack_of_current_thread().unwrap()
    })
    .join()
    .unwrap();
    assert!(
        other_high <= low || high <= other_low,
        "stacks do not overlap"
    );

    // SAFETY: the child makes system calls only, then leaves.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::_exit(if stack_top() == high { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        assert_eq!(status, 0);
    }
    assert!(set_thread_exit_key(hook));
    assert!(arm_thread_exit(64));
    println!("test the_first_thread ... ok");
}
