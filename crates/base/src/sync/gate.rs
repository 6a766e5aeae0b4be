//! A gate: many may be inside at once, and the thread that closes it waits until they are out.
//!
//! The idea: a fork must not copy the process while a thread holds a lock of the C library that the child cannot
//! release. Threads pass through the gate while they call such functions; the fork handler closes it. Unlike a lock,
//! the gate does not make those inside wait for each other, so it adds no order between them and the library's locks.
//!
//! Any thread uses it; closing and opening are done by the forking thread, opening in the child as well.

use super::{AtomicU32, Ordering, futex_wait, futex_wake};

const CLOSED: u32 = 1 << 31;

/// See the module.
#[derive(Debug)]
pub struct Gate {
    /// How many are inside, and `CLOSED`. Changed by compare-and-swap and by subtraction.
    word: AtomicU32,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    crate::sync_const_fn! {
        /// An open gate with nobody inside.
        pub fn new() -> Self {
            Self { word: AtomicU32::new(0) }
        }
    }

    /// Goes inside; waits while the gate is closed.
    pub fn enter(&self) {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & CLOSED != 0 {
                futex_wait(&self.word, seen);
            } else if self.exchange(seen, seen + 1) {
                return;
            }
        }
    }

    /// The calling thread leaves the gate.
    pub fn leave(&self) {
        // Release: partner of the Acquire in `close`; what was done inside is over for the thread that closes.
        let before = self.word.fetch_sub(1, Ordering::Release);
        if before == CLOSED | 1 {
            futex_wake(&self.word, u32::MAX);
        }
    }

    /// Closes the gate and waits until nobody is inside; waits first while another has it closed.
    pub fn close(&self) {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & CLOSED != 0 {
                futex_wait(&self.word, seen);
            } else if self.exchange(seen, seen | CLOSED) {
                break;
            }
        }
        loop {
            let seen = self.word.load(Ordering::Acquire);
            if seen == CLOSED {
                return;
            }
            futex_wait(&self.word, seen);
        }
    }

    /// Closes the gate if it is open and nobody is inside; whether it did.
    pub fn try_close(&self) -> bool {
        self.exchange(0, CLOSED)
    }

    /// Goes inside unless the gate is closed.
    pub fn try_enter(&self) -> bool {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if seen & CLOSED != 0 {
                return false;
            }
            if self.exchange(seen, seen + 1) {
                return true;
            }
        }
    }

    /// Opens the gate that the caller closed, or that its parent process closed.
    pub fn open(&self) {
        // Release: partner of the Acquire in `exchange`. Nobody is inside, so the count is zero.
        self.word.store(0, Ordering::Release);
        futex_wake(&self.word, u32::MAX);
    }

    fn exchange(&self, seen: u32, new: u32) -> bool {
        self.word
            .compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn nobody_is_inside_a_closed_gate() {
        let gate = Gate::new();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        gate.enter();
                        inside.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        gate.leave();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        gate.close();
                        assert_eq!(inside.load(Ordering::SeqCst), 0);
                        gate.open();
                    }
                });
            }
        });
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::UnsafeCell;
    use loom::thread;
    use std::sync::Arc;

    struct Guarded {
        gate: Gate,
        value: UnsafeCell<u64>,
    }

    // SAFETY: the value is written by the one thread inside, and read when nobody is; loom checks that.
    unsafe impl Sync for Guarded {}

    fn check(body: impl Fn(Arc<Guarded>) + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            body(Arc::new(Guarded {
                gate: Gate::new(),
                value: UnsafeCell::new(0),
            }));
        });
    }

    #[test]
    fn closing_waits_for_those_inside_and_keeps_others_out() {
        check(|guarded| {
            let other = {
                let guarded = guarded.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        guarded.gate.enter();
                        // SAFETY: only this thread goes inside.
                        guarded.value.with_mut(|value| unsafe { *value += 1 });
                        guarded.gate.leave();
                    }
                })
            };
            guarded.gate.close();
            // SAFETY: the gate is closed, so nobody writes.
            let seen = guarded.value.with(|value| unsafe { *value });
            assert!(seen <= 2);
            guarded.gate.open();
            other.join().unwrap();
            guarded.gate.close();
            // SAFETY: the gate is closed, so nobody writes.
            assert_eq!(guarded.value.with(|value| unsafe { *value }), 2);
        });
    }

    #[test]
    fn nobody_waits_at_a_gate_that_is_only_tried() {
        check(|guarded| {
            let other = {
                let guarded = guarded.clone();
                thread::spawn(move || {
                    let mut times = 0;
                    for _ in 0..2 {
                        if guarded.gate.try_enter() {
                            // SAFETY: only this thread goes inside.
                            guarded.value.with_mut(|value| unsafe { *value += 1 });
                            guarded.gate.leave();
                            times += 1;
                        }
                    }
                    times
                })
            };
            if guarded.gate.try_close() {
                // SAFETY: the gate is closed, so nobody writes.
                let seen = guarded.value.with(|value| unsafe { *value });
                assert!(seen <= 2);
                guarded.gate.open();
            }
            let times = other.join().unwrap();
            assert!(
                guarded.gate.try_close() && !guarded.gate.try_enter() && !guarded.gate.try_close()
            );
            // SAFETY: the gate is closed, so nobody writes.
            assert_eq!(guarded.value.with(|value| unsafe { *value }), times);
        });
    }
}
