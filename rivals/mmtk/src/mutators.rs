//! Mutator threads: the same body on each, and locks that hold up no collection.
//!
//! A thread that waits for a lock or for others has left the world: a collection goes on without it. A thread that has
//! a lock may allocate and be stopped.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use crate::context::{Context, Mode};
use crate::object::References;

/// Runs `body` on `threads` mutators, with their numbers from 0, and gives what it returns in that order. A single
/// mutator is the calling one; otherwise the calling one waits.
pub fn run<R: References, M: Mode, T: Send>(
    context: &mut Context<R, M>,
    threads: u32,
    body: impl Fn(&mut Context<R, M>, u32) -> T + Sync,
) -> Vec<T> {
    if threads == 1 {
        return vec![body(context, 0)];
    }
    assert!(!M::ALONE, "the mode is for one mutator");
    let (mmtk, body) = (context.mmtk(), &body);
    context.blocking(|| {
        thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads)
                .map(|number| scope.spawn(move || body(&mut Context::bind(mmtk), number)))
                .collect();
            let joined = spawned.into_iter().map(|thread| thread.join());
            joined
                .map(|result| result.expect("a panic ends the process"))
                .collect()
        })
    })
}

/// Runs `body` on `threads` mutators, each with data of its own; the sum of what they return.
pub fn own<R: References, M: Mode>(
    context: &mut Context<R, M>,
    threads: u32,
    body: impl Fn(&mut Context<R, M>, u32) -> u64 + Sync,
) -> u64 {
    let results = run(context, threads, body);
    results.into_iter().fold(0, u64::wrapping_add)
}

/// Takes a lock. A poll.
pub fn lock<'a, R: References, M: Mode, T>(
    context: &mut Context<R, M>,
    mutex: &'a Mutex<T>,
) -> MutexGuard<'a, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(_) => context.blocking(|| mutex.lock().expect("no thread panicked with the lock")),
    }
}

/// Waits until somebody notifies. A poll.
pub fn wait<'a, R: References, M: Mode, T>(
    context: &mut Context<R, M>,
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    let waited = context.blocking(|| condition.wait(guard));
    waited.expect("no thread panicked with the lock")
}
