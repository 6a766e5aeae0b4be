//! The one place that makes threads: a thread of the collector's has a role, an index that the thread that starts it
//! gives, a name from both, and a placement.
//!
//! A thread names itself, as the first thing that it does: to name another, the C library opens a file, and a program that
//! has confined itself may not open files any more.
//!
//! No handler of the program's may run on such a thread, and a thread of the program's that waits for a signal must not
//! lose it to one: each blocks signals from its first instruction. The thread that starts it does not: meanwhile it may
//! wait for a lock of the loader that a stopped thread has, and must be able to stop, too.

use core::ffi::{c_int, c_void};
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use gleaner_base::events::LineBuffer;
use gleaner_base::faults::{self, FaultPoint};

use crate::own_ranges;
use crate::signals::Mask;
use crate::threads::{current_process, name_current, stack_top};
use crate::topology::ProcessorSet;

/// What a thread of the collector's is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Works in the collections of a precise heap: `gleaner-1`.
    Worker,
    /// Zeroes memory of a precise heap before it is allocated: `gleaner-zero-1`.
    Zeroer,
    /// Marks in the collections of the libgc heap: `gleaner-mark-1`.
    Marker,
    /// Looks whether the program of the libgc heap is idle: `gleaner-idle-1`.
    Watcher,
    /// Marks beside the program of the libgc heap: `gleaner-cycle-1`.
    CycleHelper,
}

impl Role {
    /// What its threads' names have before the index.
    const fn prefix(self) -> &'static str {
        match self {
            Role::Worker => "gleaner-",
            Role::Zeroer => "gleaner-zero-",
            Role::Marker => "gleaner-mark-",
            Role::Watcher => "gleaner-idle-",
            Role::CycleHelper => "gleaner-cycle-",
        }
    }

    /// Bytes of stack. Functions of an embedder's run on workers, so these have what Rust gives its threads.
    const fn stack_bytes(self) -> usize {
        match self {
            Role::Worker | Role::Zeroer => 2 << 20,
            Role::Marker | Role::Watcher | Role::CycleHelper => 256 << 10,
        }
    }

    /// What its threads block. Accesses of the precise heap's threads may be watched ([`crate::access`]).
    const fn blocked_signals(self) -> Mask {
        match self {
            Role::Worker | Role::Zeroer => Mask::ALL_BUT_FAULTS,
            Role::Marker | Role::Watcher | Role::CycleHelper => Mask::ALL,
        }
    }

    /// Names the calling thread, which is thread `index` of this role, from 1. The stack of one that marks or watches is full of addresses
    /// that keep nothing alive: it is the collector's own memory from now on, which others can tell ([`own_ranges`]). These
    /// threads never end.
    pub fn name_current(self, index: usize) {
        name_current(&self.name(index));
        let slot = match self {
            Role::Worker | Role::Zeroer => return,
            Role::Marker => index,
            Role::Watcher => WATCHERS_SLOT,
            Role::CycleHelper => CYCLE_HELPERS_SLOT,
        };
        let high = stack_top();
        // The C library takes some of the stack for thread-locals.
        MARKERS.add(slot, high - self.stack_bytes() / 4 * 3, high);
    }

    /// The name of thread `index`, with zeroes behind it. The kernel keeps 15 bytes.
    pub fn name(self, index: usize) -> [u8; 16] {
        let mut text = LineBuffer::<15>::new();
        // A buffer that truncates takes everything.
        let _ = write!(text, "{}{index}", self.prefix());
        let mut name = [0; 16];
        name[..text.as_bytes().len()].copy_from_slice(text.as_bytes());
        name
    }
}

/// Where the stacks of markers are, by index, before them that of the watcher, and behind them that of the helper of cycles. Written by each marker for itself, and in a forked child by its only thread.
struct Stacks([[AtomicUsize; 2]; MOST_MARKERS + 1]);

static MARKERS: Stacks = Stacks([const { [const { AtomicUsize::new(0) }; 2] }; MOST_MARKERS + 1]);
/// The stacks of more are searched as memory of the program's.
const MOST_MARKERS: usize = 64;
/// Markers count from 1, and there is one watcher and one helper of cycles.
const WATCHERS_SLOT: usize = 0;
const CYCLE_HELPERS_SLOT: usize = MOST_MARKERS;

impl Stacks {
    fn add(&self, index: usize, low: usize, high: usize) {
        if let Some([start, end]) = self.0.get(index) {
            own_ranges::add(low, high - low);
            // Relaxed: a fork that comes between leaves the child a range that it never gives back.
            start.store(low, Ordering::Relaxed);
            end.store(high, Ordering::Relaxed);
        }
    }
}

/// In a forked child, which has none of the parent's markers and watchers: the C library gives their stacks to other threads, or back.
pub fn forget_markers_after_fork() {
    for [start, end] in &MARKERS.0 {
        let low = start.swap(0, Ordering::Relaxed);
        let high = end.swap(0, Ordering::Relaxed);
        if low < high {
            own_ranges::remove(low, high - low);
        }
    }
}

/// Where a thread is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement<'a> {
    /// Where the thread that starts it may.
    Anywhere,
    /// On one of these processors.
    On(&'a ProcessorSet),
}

/// What runs in a thread.
pub type Entry = extern "C" fn(*mut c_void) -> *mut c_void;

/// A thread that was started. It is to be joined or detached, or keeps its stack when it has ended.
#[derive(Debug)]
#[must_use = "a thread is joined or detached"]
pub struct Thread {
    /// Of a thread that was neither joined nor detached.
    handle: libc::pthread_t,
    /// The process that the thread is in.
    process: i32,
    is_placed: bool,
}

impl Thread {
    /// Whether it runs where its placement says; otherwise the system refused that, and it runs anywhere.
    pub fn is_placed(&self) -> bool {
        self.is_placed
    }

    /// Waits until it has ended. In a forked child, which does not have the thread, this does nothing.
    pub fn join(self) {
        if self.process == current_process() {
            // SAFETY: a thread of this process that was neither joined nor detached: either consumes the only handle.
            unsafe { libc::pthread_join(self.handle, core::ptr::null_mut()) };
        }
    }

    /// Lets it end by itself. In a forked child, which does not have the thread, this does nothing.
    pub fn detach(self) {
        if self.process == current_process() {
            // SAFETY: a thread of this process that was neither joined nor detached: either consumes the only handle.
            unsafe { libc::pthread_detach(self.handle) };
        }
    }
}

/// Starts a thread of a role, which runs `entry(argument)` and calls [`Role::name_current`] there first. `None` when the
/// system refuses; where it refuses the placement alone, the thread runs anywhere and [`Thread::is_placed`] says so.
///
/// Allocates with `malloc` and takes locks of the C library: not in a stopped world, not in a handler, and no lock held
/// that an allocation may want.
pub fn spawn(
    role: Role,
    placement: Placement<'_>,
    entry: Entry,
    argument: *mut c_void,
) -> Option<Thread> {
    if faults::armed(FaultPoint::StartWorker) {
        return None;
    }
    // A program whose own thread-locals leave no room on that stack gets the system's.
    let start = |processors| {
        let what = (entry, argument, role.blocked_signals());
        create(what, Some(role.stack_bytes()), processors)
            .or_else(|| create(what, None, processors))
    };
    let started = match placement {
        Placement::Anywhere => start(None).map(|handle| (handle, true)),
        Placement::On(processors) => start(Some(processors))
            .map(|handle| (handle, true))
            .or_else(|| start(None).map(|handle| (handle, false))),
    };
    let (handle, is_placed) = started?;
    Some(Thread {
        handle,
        process: current_process(),
        is_placed,
    })
}

unsafe extern "C" {
    /// Since version 2.32 of the C library.
    fn pthread_attr_setsigmask_np(
        attributes: *mut libc::pthread_attr_t,
        mask: *const libc::sigset_t,
    ) -> c_int;
}

/// Starts a joinable thread that blocks these signals, with `stack` bytes of stack and on these processors. `None`: the
/// stack, or the choice of processors, is the system's.
fn create(
    (entry, argument, blocked): (Entry, *mut c_void, Mask),
    stack: Option<usize>,
    processors: Option<&ProcessorSet>,
) -> Option<libc::pthread_t> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the attributes are initialised before use and destroyed after; the C library reads as many bytes of the
    // set as it is told; the entry has the type that it calls.
    unsafe {
        if libc::pthread_attr_init(attributes.as_mut_ptr()) != 0 {
            return None;
        }
        if let Some(bytes) = stack {
            libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), bytes);
        }
        let is_set = processors.is_none_or(|set| {
            let (words, bytes) = (set.words().as_ptr().cast(), size_of_val(set.words()));
            libc::pthread_attr_setaffinity_np(attributes.as_mut_ptr(), bytes, words) == 0
        });
        let is_set =
            is_set && pthread_attr_setsigmask_np(attributes.as_mut_ptr(), &blocked.set()) == 0;
        let made =
            is_set && libc::pthread_create(&mut thread, attributes.as_ptr(), entry, argument) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        made.then_some(thread)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::signals;
    use crate::threads::stack_of_current_thread;
    use crate::topology::{PROCESSORS_MAX, Topology, allowed_processors};
    use std::sync::mpsc::{Sender, channel};

    /// What a thread sees of itself.
    struct Seen {
        name: String,
        mask: Mask,
        stack: usize,
        processors: ProcessorSet,
        processor: usize,
    }

    extern "C" fn look(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the box that `seen_by` made for this thread.
        let (role, say) = *unsafe { Box::from_raw(argument.cast::<(Role, Sender<Seen>)>()) };
        role.name_current(1);
        let mut name = [0u8; 16];
        // SAFETY: the kernel writes 16 bytes.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        let seen = Seen {
            name: text(name),
            mask: signals::blocked(),
            stack: stack_of_current_thread().map_or(0, |(low, high)| high - low),
            processors: allowed_processors(),
            processor: Topology::host().place().processor,
        };
        say.send(seen).unwrap();
        core::ptr::null_mut()
    }

    fn text(name: [u8; 16]) -> String {
        let end = name.iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8(name[..end].to_vec()).unwrap()
    }

    /// Starts a thread, which names itself and looks at itself; also whether it is placed.
    fn seen_by(role: Role, placement: Placement<'_>) -> (Seen, bool) {
        let (say, hear) = channel::<Seen>();
        let argument = Box::into_raw(Box::new((role, say)));
        let thread = spawn(role, placement, look, argument.cast()).expect("a thread");
        let is_placed = thread.is_placed();
        thread.join();
        (hear.recv().unwrap(), is_placed)
    }

    #[test]
    fn each_role_has_a_name_signals_and_a_stack() {
        let before = signals::blocked();
        for (role, name, stack, also_faults) in [
            (Role::Worker, "gleaner-1", 2 << 20, false),
            (Role::Zeroer, "gleaner-zero-1", 2 << 20, false),
            (Role::Marker, "gleaner-mark-1", 256 << 10, true),
            (Role::Watcher, "gleaner-idle-1", 256 << 10, true),
            (Role::CycleHelper, "gleaner-cycle-1", 256 << 10, true),
        ] {
            let (seen, is_placed) = seen_by(role, Placement::Anywhere);
            assert_eq!(seen.name, name);
            assert!(seen.mask.contains(libc::SIGTERM) && seen.mask.contains(libc::SIGPROF));
            assert!(!seen.mask.contains(32) && !seen.mask.contains(33));
            assert_eq!(seen.mask.contains(libc::SIGSEGV), also_faults);
            assert_eq!(seen.mask.contains(libc::SIGBUS), also_faults);
            // The C library may reuse the stack of a thread that has ended, which is up to four times as large.
            assert!((stack..5 * stack).contains(&seen.stack), "{}", seen.stack);
            assert_eq!(seen.processors, allowed_processors());
            assert!(is_placed);
            assert_eq!(signals::blocked(), before);
        }
    }

    extern "C" fn is_own(argument: *mut c_void) -> *mut c_void {
        // SAFETY: the role that the test passes.
        let role = unsafe { *argument.cast::<Role>() };
        role.name_current(63);
        let here = 0usize;
        let address = (&raw const here).addr();
        let is_own = || own_ranges::first_above(address).is_some_and(|(start, _)| start <= address);
        let before = is_own();
        if role != Role::Worker {
            forget_markers_after_fork();
        }
        core::ptr::without_provenance_mut(usize::from(before) + 2 * usize::from(is_own()))
    }

    /// A search of the process's memory leaves it out, until a forked child forgets its parent's markers and watchers.
    #[test]
    fn a_markers_stack_is_the_collectors_own() {
        for (mut role, expected) in [
            (Role::Marker, 1),
            (Role::Watcher, 1),
            (Role::CycleHelper, 1),
            (Role::Worker, 0),
        ] {
            let argument = (&raw mut role).cast::<c_void>();
            let thread = spawn(role, Placement::Anywhere, is_own, argument).unwrap();
            let mut answer = core::ptr::null_mut();
            // SAFETY: a thread that was neither joined nor detached.
            unsafe { libc::pthread_join(thread.handle, &raw mut answer) };
            assert_eq!(answer.addr(), expected, "{role:?}");
        }
    }

    #[test]
    fn a_name_ends_with_the_index_as_far_as_the_kernel_keeps_it() {
        assert_eq!(text(Role::Worker.name(63)), "gleaner-63");
        assert_eq!(text(Role::Zeroer.name(16)), "gleaner-zero-16");
        assert_eq!(text(Role::Marker.name(63)), "gleaner-mark-63");
        assert_eq!(text(Role::Marker.name(123)), "gleaner-mark-12");
    }

    #[test]
    fn a_thread_runs_on_the_processor_that_it_is_placed_on() {
        for processor in allowed_processors().iter() {
            let one = ProcessorSet::range(processor, processor + 1);
            let (seen, is_placed) = seen_by(Role::Worker, Placement::On(&one));
            assert!(is_placed);
            assert_eq!(seen.processors, one);
            assert_eq!(seen.processor, processor);
        }
    }

    #[test]
    fn a_thread_runs_anywhere_when_its_placement_is_refused() {
        // Of no machine, and of none.
        let last = ProcessorSet::range(PROCESSORS_MAX - 1, PROCESSORS_MAX);
        for set in [last, ProcessorSet::EMPTY] {
            let (seen, is_placed) = seen_by(Role::Marker, Placement::On(&set));
            assert!(!is_placed);
            assert_eq!(seen.processors, allowed_processors());
            assert_eq!(seen.name, "gleaner-mark-1");
        }
    }
}
