//! Starting collections, and what the client hears of them.
//!
//! A callback runs with the allocator lock and is lent the heap (`state::lend`). While a collection runs, the
//! collecting thread's word keeps it off the fast path, so that what its callbacks allocate is born marked.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use gleaner_mem::Address;
use gleaner_os::libraries::{self, Segment};
use gleaner_os::threads::{Placement, Role, SavedRegisters, Thread};
use gleaner_os::{own_ranges, threads};
use gleaner_plans::mark_sweep::Heap;
use gleaner_plans::mark_sweep::collect::{Client, Moment, Outcome, Request};
use gleaner_plans::mark_sweep::mutator::{Mutator, SLOW};
use gleaner_plans::mark_sweep::roots::LibraryList;
use gleaner_plans::mark_sweep::stop::signal::{Cause, Refused, here};
use gleaner_plans::mark_sweep::view::HeapView;
use gleaner_plans::mark_sweep::weak::{Turn, Verdict};
use gleaner_spaces::mark_sweep::targets::MarkedObject;

use crate::callbacks::{CALLBACKS, HasRootsFn, StopFn};
use crate::idle::who::{self, Who};
use crate::message::die;
use crate::records::{self, stack_base};
use crate::start::{start, with_heap};
use crate::state::{
    CREW, LOADER_GATE, Locked, Started, in_collection, is_collecting, is_locked, is_ready,
    is_unlocked, lend, started, view,
};
use crate::variables::{
    GC_dont_gc, GC_find_leak, GC_java_finalization, GC_no_dls, GC_on_heap_resize, Procedure,
    Variable,
};

/// Set while the collection in progress obeys a stop function.
static OBEYS_STOP: AtomicBool = AtomicBool::new(true);
/// Set while the collection in progress is led by a thread that is none of the program's. Written under the lock.
static BESIDE: AtomicBool = AtomicBool::new(false);

const LIBRARY_ATTEMPTS: usize = 64;

/// Whether collections are enabled.
pub fn is_enabled() -> bool {
    GC_dont_gc.get() == 0
}

/// What a collection is to do.
#[derive(Clone, Copy)]
pub struct Order {
    /// Why.
    pub reason: &'static str,
    /// Only if this many collections have been run or begun, none more.
    pub unless_past: Option<u64>,
    /// Whether all free memory goes back to the system.
    pub release_all: bool,
    /// Whether everything is to be collected, also where marks may be kept.
    pub everything: bool,
    /// Whether that may be done in steps, and shall.
    pub in_steps: bool,
    /// Whether the stop function may end it.
    pub obeys_stop: bool,
    /// Whether the program asks for it, or its user.
    pub asked: bool,
    /// Whether a snapshot of the heap is to be written, whatever lives.
    pub snapshot: bool,
}

/// What leads a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leader {
    /// A thread of the program's.
    Program,
    /// The one that watches for idle time: nothing of the program's may run there.
    Watcher,
}

/// Collects unless another thread has since `turns` were counted; `everything`, or what a decider says.
pub fn collect_unless(turns: u64, reason: &'static str, everything: bool) {
    collect(Order {
        reason,
        unless_past: Some(turns),
        release_all: false,
        everything,
        in_steps: false,
        obeys_stop: true,
        asked: false,
        snapshot: false,
    });
}

/// Begins a collection in steps, unless another thread has collected since `turns` were counted.
pub fn begin_unless(turns: u64, reason: &'static str) {
    collect(Order {
        reason,
        unless_past: Some(turns),
        release_all: false,
        everything: false,
        in_steps: true,
        obeys_stop: true,
        asked: false,
        snapshot: false,
    });
}

/// Does a step of the cycle that is under way, if one is due, before an allocation; whether the collection that ends it is due.
/// Collections are enabled. None may run in an inner section.
pub fn is_cycle_ripe(heap: &mut Heap, inner: bool) -> bool {
    if inner || is_collecting() || Mutator::current().is_null() {
        return false;
    }
    step(heap, Heap::step_if_due) && !records::is_on_foreign_stack()
}

/// Makes a step. The helper hears of it that has waited for one.
fn step<R>(heap: &mut Heap, make: impl FnOnce(&mut Heap) -> R) -> R {
    let waited = heap.helper_waits();
    let result = below_callbacks(heap, make);
    if waited && !heap.helper_waits() {
        crate::cycle_helper::state::stir();
    }
    result
}

/// Why a cycle is to begin before an allocation, if it is. None may begin in an inner section, nor where leaks are looked
/// for.
#[cold]
pub fn begins_cycle(heap: &mut Heap, inner: bool) -> Option<&'static str> {
    if inner || is_collecting() || Mutator::current().is_null() || crate::leaks::is_armed() {
        return None;
    }
    crate::settings::read_variables(heap);
    heap.begins_cycle()
        .filter(|_| !records::is_on_foreign_stack())
}

/// Collects; false if collections are disabled or this one was given up. Never inlined, for [`SavedRegisters`].
#[inline(never)]
pub fn collect(order: Order) -> bool {
    let heap = start();
    if !is_enabled() || is_collecting() {
        return false;
    }
    let mut registers = SavedRegisters::keeping(0);
    let frame = Address::new(registers.save());
    let done = collect_below(heap, order, frame, Leader::Program);
    registers.address();
    if done {
        report();
    }
    done
}

/// Collects everything on the calling thread, which is none of the program's and refers to no object; whether it did. Not if a
/// thread has the lock, or something of the program's would run here. What the client hears after a collection waits for its
/// next call.
#[inline(never)]
pub fn collect_beside(reason: &'static str) -> bool {
    let order = Order {
        reason,
        unless_past: None,
        release_all: false,
        everything: true,
        in_steps: false,
        obeys_stop: false,
        asked: false,
        snapshot: false,
    };
    started().is_some_and(|heap| collect_below(heap, order, here(), Leader::Watcher))
}

/// Who may collect in idle time. Under the lock.
pub fn who_collects_in_idle_time(heap: &Heap) -> Who {
    who::may_collect(heap, has_other_roots())
}

/// Whether the client pushes roots of its own.
fn has_other_roots() -> bool {
    let default = default_push_other_roots as Procedure;
    GC_push_other_roots
        .get()
        .is_some_and(|push| !core::ptr::fn_addr_eq(push, default))
}

/// The heap, for a collection with this leader: the watcher does not wait for it.
fn lock_for(started: Started, leader: Leader) -> Option<Locked> {
    if leader == Leader::Program {
        return Some(started.lock());
    }
    let heap = started.try_lock()?;
    if who_collects_in_idle_time(&heap) == Who::Watcher {
        return Some(heap);
    }
    heap.unlock();
    None
}

/// What the client hears after a collection, once the world runs and the lock is free.
#[inline(never)]
fn report() {
    crate::leaks::report();
    crate::snapshot::report();
    crate::finalize::warn_of_cycle();
    crate::finalize::run_if_ready();
}

/// Runs below `frame`, where the scan of this thread's stack starts: the collector's own frames are large and hold
/// what was there before, the entries of an earlier mark stack not least.
#[inline(never)]
fn collect_below(started: Started, order: Order, frame: Address, leader: Leader) -> bool {
    for attempt in 1..=LIBRARY_ATTEMPTS {
        let known = attempt == 1 && crate::fork::is_child();
        let chosen = match leader {
            Leader::Program => CALLBACKS.has_roots.get(),
            Leader::Watcher => None,
        };
        let read = match known {
            true => Some(LibraryList::empty()),
            false => read_libraries(chosen, leader),
        };
        let Some(mut libraries) = read else {
            return false;
        };
        make_helpers(leader);
        let Some(mut heap) = lock_for(started, leader) else {
            return false;
        };
        if order.unless_past.is_some_and(|seen| seen != heap.turns) {
            heap.unlock();
            return true;
        }
        if known {
            libraries = heap.roots.take_libraries(chooser(chosen));
        }
        crate::settings::read_variables(&mut heap);
        let request = Request {
            reason: order.reason,
            workers: heap.workers(),
            libraries: &mut libraries,
            stack_pointer: frame,
            release_all: order.release_all,
            everything: order.everything,
            in_steps: order.in_steps,
            finds_leaks: crate::leaks::is_armed(),
            asked: order.asked,
            snapshot: order.snapshot,
            again: attempt > 1,
            last_attempt: attempt == LIBRARY_ATTEMPTS,
        };
        BESIDE.store(leader == Leader::Watcher, Ordering::Relaxed);
        let outcome = collect_locked(&mut heap, request, order.obeys_stop);
        BESIDE.store(false, Ordering::Relaxed);
        crate::non_gc_bytes::sync_variables(&heap);
        heap.unlock();
        match outcome {
            Outcome::Done | Outcome::Begun => return true,
            Outcome::Abandoned => return false,
            Outcome::LibrariesChanged => threads::yield_now(),
        }
    }
    false
}

/// Runs what may call the client: it is inside a collection then, and takes no fast path.
fn below_callbacks<R>(heap: &mut Heap, body: impl FnOnce(&mut Heap) -> R) -> R {
    let word = threads::thread_word();
    threads::set_thread_word(word | SLOW);
    let result = in_collection(|| body(heap));
    threads::set_thread_word(word);
    result
}

fn collect_locked(heap: &mut Heap, request: Request<'_>, obeys_stop: bool) -> Outcome {
    if Mutator::current().is_null() && !BESIDE.load(Ordering::Relaxed) {
        die(format_args!(
            "a collection was started by thread {}, which is not registered: call GC_register_my_thread first, \
             or create the thread with GC_pthread_create",
            threads::current_tid().0
        ));
    }
    let wanted = request.workers.0.min(CREW.helpers() + 1);
    CREW.expect_processors(heap.topology.processors);
    heap.engine.equip(wanted, &raw const *heap.context);
    heap.settings.java_finalization = GC_java_finalization.get() != 0;
    heap.context.procs_on_helpers = crate::registration::procs_may_run_on_helpers();
    OBEYS_STOP.store(obeys_stop, Ordering::Relaxed);
    let outcome = below_callbacks(heap, |heap| heap.collect(request, &Door));
    crate::settings::show_collections(heap);
    crate::idle::state::stir();
    crate::cycle_helper::state::note_collection(heap.wants_helper());
    if outcome == Outcome::Begun {
        crate::cycle_helper::state::stir();
    }
    crate::finalize::note_ready(heap);
    crate::finalize::note_cycle(heap);
    if outcome == Outcome::Done {
        crate::report::after_collection(heap);
    }
    outcome
}

/// Helper threads are made when the heap first is large enough to use them; pthread_create may call malloc.
fn make_helpers(leader: Leader) {
    // The number is a hint: read without the lock.
    let wanted = view().map_or(1, HeapView::workers);
    if CREW.helpers() + 1 < wanted {
        through_gate_as(leader, || {
            CREW.ensure_helpers(wanted - 1, &mut |index| {
                let argument = ptr::without_provenance_mut(index);
                threads::spawn(Role::Marker, Placement::Anywhere, help, argument)
                    .map(Thread::detach)
                    .is_some()
            })
        });
    }
}

/// As [`through_gate`]. The watcher does not wait at the gate: who has closed it waits for the allocator lock, perhaps for that of a
/// thread that ends the process and waits for the watcher.
fn through_gate_as<R>(leader: Leader, body: impl FnOnce() -> R) -> Option<R> {
    if leader == Leader::Program {
        return Some(through_gate(body));
    }
    LOADER_GATE.try_enter().then(|| {
        let result = body();
        LOADER_GATE.leave();
        result
    })
}

/// Runs what takes locks of the loader or of the C library, while nobody forks or holds this thread up: they would stay
/// locked. Where this thread holds the allocator lock, who has closed the gate waits for that.
pub fn through_gate<R>(body: impl FnOnce() -> R) -> R {
    if is_locked() {
        return body();
    }
    LOADER_GATE.enter();
    let result = body();
    LOADER_GATE.leave();
    result
}

/// What the thread of helper `index` runs.
extern "C" fn help(index: *mut c_void) -> *mut c_void {
    Role::Marker.name_current(index.addr());
    // SAFETY: the crew gave the index to `make_helpers`, which started this thread alone for it.
    unsafe { CREW.serve(index.addr()) };
    ptr::null_mut()
}

/// Stands for what the client wants of libraries: nothing, all, or what its callback chooses. The client may change it.
fn chooser(chosen: Option<HasRootsFn>) -> usize {
    match chosen {
        _ if GC_no_dls.get() != 0 => 1,
        Some(wanted) => wanted as usize,
        None => 0,
    }
}

/// Reads the list of libraries for the first time, so that the first collection, too, comes when it pays beside the roots that
/// it will scan. Without them a small program would collect before its runtime has initialised what its callbacks use.
pub fn expect_roots() {
    if let Some(mut libraries) = read_libraries(CALLBACKS.has_roots.get(), Leader::Program) {
        with_heap(|heap| heap.expect_roots(&mut libraries));
    }
}

/// The list of libraries, as far as the client's callback chooses them. Nothing where the leader would have to wait.
fn read_libraries(chosen: Option<HasRootsFn>, leader: Leader) -> Option<LibraryList> {
    let all = GC_no_dls.get() == 0;
    through_gate_as(leader, || {
        LibraryList::read(chooser(chosen), |segment| {
            !is_own(segment) && all && is_wanted(segment, chosen)
        })
    })
}

/// Whether a segment is our own data, which are no roots.
fn is_own(segment: &Segment) -> bool {
    if segment.object_base != libraries::own_base() {
        return false;
    }
    let (low, high) = (segment.low, segment.high);
    if own_ranges::first_above(low).is_none_or(|(start, _)| start > low) {
        own_ranges::add(low, high - low);
    }
    true
}

/// Whether the client wants a segment to be scanned, as its callback says.
fn is_wanted(segment: &Segment, chosen: Option<HasRootsFn>) -> bool {
    match chosen {
        // SAFETY: the client's function, called with the library's name and data as its contract says.
        Some(wanted) => unsafe {
            wanted(
                segment.name,
                segment.low as *mut c_void,
                segment.high - segment.low,
            ) != 0
        },
        None => true,
    }
}

/// Writes the snapshot that the signal called for, unless another thread has.
#[cold]
pub fn obey_signal() {
    if crate::snapshot::take_asked() {
        collect(Order {
            reason: "SIGUSR2",
            unless_past: None,
            release_all: false,
            everything: true,
            in_steps: false,
            obeys_stop: false,
            asked: true,
            snapshot: true,
        });
    }
}

/// Tells the client that the heap grew; called without the lock, which libgc would hold.
pub fn tell_of_growth() {
    if let Some(resized) = GC_on_heap_resize.get() {
        let capacity = with_heap(|heap| heap.space.capacity);
        // SAFETY: the client's function, called with the new size.
        unsafe { resized(capacity) };
    }
}

/// What the client is told and asked.
struct Door;

impl Client for Door {
    fn moment(&self, heap: &mut Heap, moment: Moment) {
        match moment {
            Moment::MarkEnd => crate::debug_check::check_live(heap),
            Moment::End => crate::debug_check::tell(heap),
            _ => {}
        }
        if moment == Moment::Start
            && let Some(start) = CALLBACKS.start.get()
        {
            // SAFETY: the client's function; libgc calls it with the lock held.
            lend(heap, || unsafe { start() });
        }
        if let Some(event) = CALLBACKS.collection_event.get() {
            // SAFETY: the client's function; libgc calls it with the lock held.
            lend(heap, || unsafe { event(moment) });
        }
    }

    fn thread_moment(&self, heap: &mut Heap, moment: Moment, thread: *mut Mutator) {
        if let Some(event) = CALLBACKS.thread_event.get() {
            // SAFETY: the client's function, called with the lock held; records stay mapped.
            lend(heap, || unsafe {
                event(moment, (*thread).pthread as *mut c_void)
            });
        }
    }

    fn settle_toggle_refs(&self, heap: &mut Heap) {
        let Some(decide) = CALLBACKS.toggle.get() else {
            return;
        };
        let mut turn = Turn::default();
        while let Some(object) = heap.weak.toggle_refs.object_at(turn) {
            // SAFETY: the client's function, called with a registered object.
            let verdict = match lend(heap, || unsafe { decide(object.ptr()) }) {
                0 => Verdict::Drop,
                1 => Verdict::Strong,
                _ => Verdict::Weak,
            };
            heap.weak.toggle_refs.decide(&mut turn, verdict);
        }
    }

    fn push_other_roots(&self, heap: &mut Heap) {
        if let Some(push) = GC_push_other_roots.get() {
            // SAFETY: the client's function; it pushes through GC_push_all and its relatives.
            lend(heap, || unsafe { push() });
        }
    }

    fn stack_of(&self, thread: &Mutator, pointer: Address) -> (Address, Address) {
        let mut corrected = pointer.ptr::<c_void>();
        if let Some(correct) = CALLBACKS.sp_corrector.get() {
            // SAFETY: the client's function, called with the lock held, of a thread that is stopped or the calling one.
            unsafe { correct(&mut corrected, thread.pthread as *mut c_void) };
        }
        (Address::of(corrected), stack_base(thread))
    }

    fn wants_to_stop(&self, heap: &mut Heap) -> bool {
        // Variables of the client's may have changed up to the stop.
        if BESIDE.load(Ordering::Relaxed)
            && (!who::is_collected_by_itself() || who::runs_client_code(heap, has_other_roots()))
        {
            return true;
        }
        if !OBEYS_STOP.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: the client's function; libgc calls it with the lock held.
        let asks = |stop: StopFn| lend(heap, || unsafe { stop() }) != 0;
        CALLBACKS.stop.get().is_some_and(asks)
    }

    fn awaits_finalization(&self, heap: &mut Heap, object: Address) {
        if let Some(tell) = CALLBACKS.await_finalize.get() {
            // SAFETY: the client's function, called with an object that is alive again.
            lend(heap, || unsafe { tell(object.ptr()) });
        }
    }

    fn describe(&self, object: &MarkedObject, out: &mut dyn core::fmt::Write) -> bool {
        crate::debug_header::describe_briefly(object, out)
    }

    fn heap_resized(&self, heap: &mut Heap, capacity: usize) {
        if let Some(resized) = GC_on_heap_resize.get()
            && !BESIDE.load(Ordering::Relaxed)
        {
            // SAFETY: the client's function, called with the new size in the stopped world, as libgc does.
            lend(heap, || unsafe { resized(capacity) });
        }
    }

    fn waits_for_threads(&self) -> bool {
        !BESIDE.load(Ordering::Relaxed)
    }

    fn cannot_stop(&self, refused: Refused) -> ! {
        die_of_refusal(refused)
    }
}

/// Ends the process: a thread cannot be stopped.
pub fn die_of_refusal(refused: Refused) -> ! {
    let thread = refused.thread.0;
    match refused.cause {
        Cause::System(error) => die(format_args!(
            "thread {thread} cannot be stopped: the system refuses to send it a signal (tgkill: error {error}); \
             a filter of system calls, such as a sandbox sets, must allow tgkill"
        )),
        Cause::KeptBack => die(format_args!(
            "thread {thread} cannot be stopped: the program is built with ThreadSanitizer, which keeps signals back; run it \
             without collections (GC_DONT_GC=1), or build it without -fsanitize=thread"
        )),
    }
}

/// As in gc_mark.h.
#[unsafe(no_mangle)]
pub static GC_push_other_roots: Variable<Option<Procedure>> =
    Variable::new(Some(default_push_other_roots));

/// What `GC_push_other_roots` holds at first: scans the stacks of all threads, as far as a collection is pushing roots.
/// A client's function that calls this one says before where the stacks are; without such a call they are scanned after
/// it.
unsafe extern "C-unwind" fn default_push_other_roots() {
    if is_ready() && is_locked() {
        // SAFETY: the calling thread holds the lock, in a callback of a collection or in a section of the client's.
        unsafe { Locked::by_contract() }.push_stacks(&Door);
    }
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_gcollect() {
    collect(Order {
        reason: "GC_gcollect",
        unless_past: None,
        everything: true,
        in_steps: false,
        release_all: crate::settings::unmaps_on_gcollect(),
        obeys_stop: true,
        asked: true,
        snapshot: false,
    });
}

/// As in gc.h.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_gcollect_and_unmap() {
    collect(Order {
        reason: "GC_gcollect_and_unmap",
        unless_past: None,
        everything: true,
        in_steps: false,
        release_all: true,
        obeys_stop: false,
        asked: true,
        snapshot: false,
    });
}

/// As in gc.h: the collection is given up when `stop` returns nonzero.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_try_to_collect(stop: Option<StopFn>) -> c_int {
    let before = CALLBACKS.stop.get();
    CALLBACKS.stop.set(stop);
    let done = collect(Order {
        reason: "GC_try_to_collect",
        unless_past: None,
        everything: true,
        in_steps: false,
        release_all: false,
        obeys_stop: true,
        asked: true,
        snapshot: false,
    });
    CALLBACKS.stop.set(before);
    c_int::from(done)
}

/// As in gc.h: does a step of a cycle that is under way, or collects if that is due, which may begin a cycle; says
/// whether one is under way afterwards.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn GC_collect_a_little() -> c_int {
    let (due, seen) = with_heap(|heap| {
        let under_way = heap.cycle.is_under_way();
        if under_way && is_enabled() && !Mutator::current().is_null() {
            crate::settings::read_variables(heap);
            step(heap, Heap::step);
        }
        let due = if under_way {
            heap.cycle.can_end()
        } else {
            heap.is_collection_due()
        };
        (due, heap.turns)
    });
    if due {
        collect(Order {
            reason: "GC_collect_a_little",
            unless_past: Some(seen),
            release_all: false,
            everything: false,
            in_steps: false,
            obeys_stop: true,
            asked: true,
            snapshot: false,
        });
    }
    c_int::from(with_heap(|heap| heap.cycle.is_under_way()))
}

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C-unwind" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
}

/// Looks for leaks once more when the process exits, and writes a snapshot if one is wanted then.
pub fn watch_exit() {
    if crate::leaks::is_armed() || crate::snapshot::watches_exit() {
        // SAFETY: the function stays loaded, since this library is never unloaded.
        unsafe { __cxa_atexit(check_at_exit, core::ptr::null_mut(), core::ptr::null_mut()) };
    }
}

extern "C-unwind" fn check_at_exit(_argument: *mut c_void) {
    // A callback that runs with the lock may have called exit.
    crate::idle::state::end();
    crate::cycle_helper::state::end();
    let wanted = GC_find_leak.get() != 0 || crate::snapshot::is_wanted_at_exit();
    if !wanted || Mutator::current().is_null() || !is_unlocked() {
        return;
    }
    collect(Order {
        reason: "exit",
        unless_past: None,
        everything: true,
        in_steps: false,
        release_all: false,
        obeys_stop: false,
        asked: true,
        snapshot: crate::snapshot::is_due_at_exit(),
    });
}
