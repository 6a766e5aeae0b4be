//! The threads of a heap: each runs a closure, and is joined before the heap ends. The system makes them, or a function of
//! the embedder's ([`Builder::thread_factory`](crate::Builder::thread_factory)).

use core::ffi::c_void;
use std::fmt;
use std::process;
use std::ptr;
use std::sync::Arc;

use gleaner_os::threads::{Placement, Role, Thread, spawn};

use gleaner_plans::scavenge::Config;

use crate::collectors;
use crate::guarded::Guarded;

/// A thread that a heap wants: the embedder's factory starts one that calls [`NewThread::run`] once.
pub struct NewThread {
    name: String,
    body: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for NewThread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NewThread")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl NewThread {
    /// The name that the thread gives itself in [`NewThread::run`]: `gleaner-1` works in collections, `gleaner-zero-1`
    /// zeroes memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the thread does. It returns when the heap ends.
    pub fn run(self) {
        /// A panic of the collector's leaves a heap that nobody can use.
        struct Aborts;
        impl Drop for Aborts {
            fn drop(&mut self) {
                process::abort();
            }
        }
        let aborts = Aborts;
        (self.body)();
        std::mem::forget(aborts);
    }
}

/// Waits for the end of a thread that a factory started.
pub type Join = Box<dyn FnOnce() + Send>;

type Start = dyn Fn(NewThread) -> Option<Join> + Send + Sync;

/// Who makes the threads of a heap: the embedder's function, or the system.
#[derive(Clone, Default)]
pub(crate) struct Factory(Option<Arc<Start>>);

impl fmt::Debug for Factory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.0 {
            Some(_) => "the embedder",
            None => "the system",
        };
        write!(out, "Factory({who})")
    }
}

/// A thread that was started and is to be joined.
pub(crate) enum Started {
    BySystem(Thread),
    /// By a factory. A forked child has forgotten it.
    ByFactory(Join),
}

impl Started {
    /// Waits until it has ended.
    fn join(self) {
        match self {
            Started::BySystem(thread) => thread.join(),
            Started::ByFactory(join) => join(),
        }
    }
}

/// Threads that were started and are to be joined. Its holder waits for the system at most, which starts one, or for a
/// factory.
pub(crate) type Threads = Guarded<Vec<Started>>;

impl Factory {
    pub(crate) fn new(
        start: impl Fn(NewThread) -> Option<Join> + Send + Sync + 'static,
    ) -> Factory {
        Factory(Some(Arc::new(start)))
    }

    /// Starts thread `index` of a role, counted from 1. The system starts it on the processors of a memory node, where
    /// the heap places threads and the node has some; a factory starts it where it likes. `None` when there is none.
    pub(crate) fn start<B: FnOnce() + Send + 'static>(
        &self,
        config: &Config,
        node: usize,
        (role, index): (Role, usize),
        body: B,
    ) -> Option<Started> {
        let body = move || {
            role.name_current(index);
            collectors::note();
            body();
        };
        let Some(factory) = &self.0 else {
            return start_on(config, node, role, body).map(Started::BySystem);
        };
        let join = factory(NewThread {
            name: name_of(role, index),
            body: Box::new(body),
        });
        join.map(Started::ByFactory)
    }
}

/// The name of thread `index` of a role.
fn name_of(role: Role, index: usize) -> String {
    let name = role.name(index);
    String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_owned()
}

/// Starts a thread of a role; `None` when the system refuses. A panic in `body` ends the process.
fn start<B: FnOnce() + Send + 'static>(
    role: Role,
    placement: Placement<'_>,
    body: B,
) -> Option<Thread> {
    extern "C" fn run<B: FnOnce()>(body: *mut c_void) -> *mut c_void {
        // SAFETY: the box that `start` made for this thread alone.
        let body = unsafe { Box::from_raw(body.cast::<B>()) };
        body();
        ptr::null_mut()
    }
    let body = Box::into_raw(Box::new(body));
    let started = spawn(role, placement, run::<B>, body.cast());
    if started.is_none() {
        // SAFETY: made above, and there is no thread that has it.
        drop(unsafe { Box::from_raw(body) });
    }
    started
}

/// Starts a thread of a role on the processors of a memory node, where the heap places threads and the node has some.
fn start_on<B: FnOnce() + Send + 'static>(
    config: &Config,
    node: usize,
    role: Role,
    body: B,
) -> Option<Thread> {
    let processors = config
        .places_threads()
        .then(|| config.topology.processors_of_node(node));
    let placement = match &processors {
        Some(processors) if !processors.is_empty() => Placement::On(processors),
        _ => Placement::Anywhere,
    };
    start(role, placement, body)
}

/// In a forked child, which has none of them: they are neither joined nor dropped.
pub(crate) fn forget(threads: &mut Vec<Started>) {
    threads.drain(..).for_each(std::mem::forget);
}

/// Waits until all of them have ended.
pub(crate) fn join(threads: &Threads) {
    threads
        .with(std::mem::take)
        .into_iter()
        .for_each(Started::join);
}
