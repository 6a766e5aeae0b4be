//! Threads of the program: each is a mutator of the one heap, and runs a machine of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use gleaner::{Local, Scope};

use crate::machine::Machine;
use crate::objects::{Done, Failure, Scheme, World};

/// Threads that were started, each until it is joined. A thread that holds the lock neither allocates nor polls: a collection
/// that waits for its holder must not wait for a thread that wants it.
#[derive(Default)]
pub struct Threads(Mutex<Vec<Option<JoinHandle<()>>>>);

impl Threads {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<JoinHandle<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the threads that nobody joined. Collections go on meanwhile.
    pub fn join_all(&self, scope: &mut Scope<'_>) {
        loop {
            let left = self.lock().iter_mut().find_map(Option::take);
            let Some(left) = left else { return };
            // What it failed with is in its object.
            let _ = scope.blocking(|| left.join());
        }
    }
}

/// The bytes of a thread's object: its number, and whether it failed.
const NUMBER: usize = 0;
const FAILED: usize = 1;

/// Starts a thread that calls a function without arguments.
pub fn spawn(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    function: Local<'_>,
    into: Local<'_>,
) -> Done {
    scheme.make(scope, scheme.types.thread, [function], &[0, 0], into)?;
    // A handle goes to the other thread; a local could not.
    let handle = scope.handle(into).ok_or("no room for a handle")?;
    let world = Arc::clone(&scheme.world);
    let started = thread::Builder::new().spawn(move || {
        let Ok(mut mutator) = world.heap.attach() else {
            eprintln!("scheme: no memory for a thread");
            std::process::exit(1);
        };
        mutator.scope(|scope| {
            let thread = scope.open(&handle);
            run(world, scope, thread);
        });
        drop(handle);
    });
    let started = started.map_err(|_| Failure::from("no thread can be started"))?;
    let mut threads = scheme.world.threads.lock();
    threads.push(Some(started));
    scope.write_u64(into, NUMBER, threads.len() as u64 - 1)?;
    Ok(())
}

/// The thread itself: what its function returns takes the function's place in the object.
fn run<'s>(world: Arc<World>, scope: &mut Scope<'s>, thread: Local<'s>) {
    let scheme = Scheme::new(world, scope);
    scope.nested(|scope| {
        let outcome = scope.get(thread, 0);
        let machine = Machine::new(&scheme, scope);
        let done = machine.call(scope, outcome, outcome).or_else(|failure| {
            scope.write_u64(thread, FAILED, 1)?;
            scheme.string(scope, &failure.0, outcome)
        });
        if done.is_err() {
            scope.assign(outcome, scheme.unspecified);
        }
        // A structure's reference: such a store takes no memory.
        let _ = scope.set(thread, 0, outcome);
    });
}

/// Waits for a thread; its value, or its error.
pub fn join(
    scheme: &Scheme<'_>,
    scope: &mut Scope<'_>,
    thread: Local<'_>,
    into: Local<'_>,
) -> Done {
    let otherwise = "join of what is no thread";
    scheme.expect(scope, thread, scheme.types.thread, otherwise)?;
    let number = scope.read_u64(thread, NUMBER) as usize;
    let handle = scheme.world.threads.lock()[number].take();
    let handle = handle.ok_or("a thread is joined once")?;
    scope
        .blocking(|| handle.join())
        .map_err(|_| Failure::from("a thread panicked"))?;
    scope.load(thread, 0, into);
    if scope.read_u64(thread, FAILED) != 0 {
        return Err(Failure(scheme.show(scope, into)?));
    }
    Ok(())
}
