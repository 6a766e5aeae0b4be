//! Mutator threads: the same body on each, and locks that hold up no collection.
//!
//! A thread that waits for a lock or for others does so in a blocking region: a collection goes on without it. A thread
//! that has a lock may allocate and be stopped.

use std::io::Write;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use gleaner::{Mutator, OutOfMemory};

/// The mutator threads of a run.
pub struct Mutators {
    /// How many.
    pub threads: u32,
    /// Bytes that those did allocate which are gone.
    pub allocated: AtomicU64,
}

impl Mutators {
    /// `threads` of them.
    pub fn new(threads: u32) -> Mutators {
        Mutators {
            threads,
            allocated: AtomicU64::new(0),
        }
    }

    /// Runs `body` on all of them, with their numbers from 0, and gives what it returns in that order. One thread is
    /// the calling one; otherwise that one waits in a blocking region.
    pub fn run<R: Send>(
        &self,
        mutator: &mut Mutator,
        body: impl Fn(&mut Mutator, u32) -> Result<R, OutOfMemory> + Sync,
    ) -> Result<Vec<R>, OutOfMemory> {
        if self.threads == 1 {
            return Ok(vec![body(mutator, 0)?]);
        }
        let results: Vec<_> = (0..self.threads).map(|_| Mutex::new(None)).collect();
        self.run_each(mutator, &|mutator, number| {
            let result = body(mutator, number);
            *results[number as usize]
                .lock()
                .expect("nobody panics with it") = Some(result);
        });
        let results = results.into_iter().map(|result| {
            let result = result.into_inner().expect("nobody panicked with it");
            result.expect("each thread has ended")
        });
        results.collect()
    }

    /// Runs `body` on so many threads of their own. Compiled once: starting threads is much code, and each workload has bodies.
    fn run_each(&self, mutator: &mut Mutator, body: &(dyn Fn(&mut Mutator, u32) + Sync)) {
        let heap = mutator.heap();
        let one = |number| {
            let mut mutator = heap.attach().unwrap_or_else(|full| give_up(number, &full));
            body(&mut mutator, number);
            self.allocated
                .fetch_add(mutator.allocated_bytes(), Ordering::Relaxed);
        };
        let one = &one;
        mutator.blocking(|| {
            thread::scope(|scope| {
                let threads: Vec<_> = (0..self.threads)
                    .map(|number| {
                        let started =
                            thread::Builder::new().spawn_scoped(scope, move || one(number));
                        started.unwrap_or_else(|error| give_up(number, &error))
                    })
                    .collect();
                let joined: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
                for result in joined {
                    result.unwrap_or_else(|panic| panic::resume_unwind(panic));
                }
            });
        });
    }
}

/// Ends the process: the other mutators may wait for this one, and would for ever.
fn give_up(number: u32, error: &dyn std::error::Error) -> ! {
    let _ = writeln!(std::io::stderr(), "mutator {number} cannot start: {error}");
    std::process::exit(2);
}

/// Takes a lock. A poll.
pub fn lock<'a, T>(mutator: &mut Mutator, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(_) => mutator.blocking(|| mutex.lock().expect("no thread panicked with the lock")),
    }
}

/// Waits until somebody notifies. A poll.
pub fn wait<'a, T>(
    mutator: &mut Mutator,
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    let waited = mutator.blocking(|| condition.wait(guard));
    waited.expect("no thread panicked with the lock")
}
