//! Whether a thread waits, as the kernel has it: for tests in which another goes on only then.

/// Waits until a thread of this process sleeps.
pub fn wait_until_asleep(thread: impl std::fmt::Display) {
    let path = format!("/proc/self/task/{thread}/stat");
    let sleeps = || std::fs::read_to_string(&path).unwrap().contains(") S ");
    while !sleeps() {
        std::thread::yield_now();
    }
}
