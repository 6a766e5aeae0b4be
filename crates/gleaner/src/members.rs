//! Which thread is a mutator of which heap, and whether it is inside the heap's gate at the moment.
//!
//! A thread asks that of itself before it becomes a mutator twice, and before it waits for another thread that forks:
//! where it is inside it *stands* meanwhile ([`gleaner_plans::scavenge::stop::fork`]). A forked child asks which
//! mutators of the process were those of threads that it does not have.
//!
//! # Invariants
//! - The list of a thread is touched by that thread alone. A member is in it from the moment it is inside the gate for
//!   the first time until it has left it for good.
//! - A mutator's reference to its heap is counted exactly as long as its member is in the list of all: both change under
//!   the lock of that list. So a child knows how many references the threads had that it does not have.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gleaner_mem::Address;
use gleaner_os::signals::{self, Delivery};
use gleaner_os::threads::{self, ThreadId};
use gleaner_plans::scavenge::mutator::Mutator as Record;

use crate::body::{Body, Shared, with_heap};
use crate::collectors::{self, BY_A_COLLECTION};
use crate::guarded::Guarded;

/// Which function of the embedder's the heap has called on a thread and waits for. The mutator counts as outside of the
/// gate meanwhile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callback {
    None,
    /// It visits all objects, in a world that the thread has stopped, and the thread holds the heap's lock.
    Walk,
    /// It is told of the collection that the thread has led.
    Listener,
    /// All mutators are stopped for it, or it is run for one that is at a safepoint.
    Stop,
    /// It visits slots for the collection that the thread leads, in a world that the thread has stopped.
    Collection,
}

impl Callback {
    /// Panics if there is one: `what` is not done there.
    pub(crate) fn assert_none(self, what: &str) {
        let place = match self {
            Callback::None => return,
            Callback::Walk => "by a function that visits all objects: the heap is stopped there",
            Callback::Listener => {
                "by a listener: it is told of a collection of this mutator's, which is not over before"
            }
            Callback::Stop => {
                "by a function for which mutators are stopped: it must not use the heap"
            }
            Callback::Collection => BY_A_COLLECTION,
        };
        panic!("{what} {place}");
    }
}

/// A mutator, as its thread sees it.
pub(crate) struct Member {
    /// The heap. Counted once.
    shared: *const Shared,
    pub(crate) record: NonNull<Record>,
    /// The thread. Changed in a forked child, which has no other.
    thread: Cell<ThreadId>,
    /// How many blocking regions the thread is in, with one for a callback; more than 0: it is outside of the gate.
    pub(crate) outside: Cell<u32>,
    pub(crate) callback: Cell<Callback>,
    /// Whether interrupts may be requested of it: it has a handler, and its record exists. Protected by the lock of the
    /// list of all.
    takes_interrupts: Cell<bool>,
    /// The limit of the allocation buffer while it is outside.
    pub(crate) limit: Cell<Address>,
    /// The next one of this thread.
    next: Cell<*const Member>,
    /// The place in the list of all. Protected by the lock of that list.
    place: Cell<usize>,
}

/// A member in the list of all.
struct Listed(NonNull<Member>);

// SAFETY: under the lock of the list its place is looked at, and after a fork, when there is one thread, the rest.
unsafe impl Send for Listed {}

/// The mutators of all threads. Its holder waits for nobody.
static ALL: Guarded<Vec<Listed>> = Guarded::new(Vec::new());

/// See [`orphans`]. The thread that forks alone has any.
static ORPHANS: Guarded<Vec<Shared>> = Guarded::new(Vec::new());

thread_local! {
    /// The first member of the thread. Without a destructor, so that it is there to the very end.
    static FIRST: Cell<*const Member> = const { Cell::new(ptr::null()) };
}

impl Member {
    /// The heap.
    pub(crate) fn body(&self) -> &Body {
        // SAFETY: the member has a reference that is counted.
        unsafe { &*self.shared }
    }

    /// The record, for the member's own thread.
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: a mutator's record exists as long as its member does, for its own thread.
        unsafe { self.record.as_ref() }
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.outside.get() == 0
    }
}

/// The calling thread is a mutator from now on, inside the gate: its member, and a reference to the heap that goes with
/// it to [`remove`].
pub(crate) fn add(
    shared: &Arc<Shared>,
    record: NonNull<Record>,
) -> (NonNull<Member>, ManuallyDrop<Arc<Shared>>) {
    let member = NonNull::from(Box::leak(Box::new(Member {
        shared: Arc::as_ptr(shared),
        record,
        thread: Cell::new(threads::current_tid()),
        outside: Cell::new(0),
        callback: Cell::new(Callback::None),
        takes_interrupts: Cell::new(false),
        limit: Cell::new(Address::NULL),
        next: Cell::new(FIRST.get()),
        place: Cell::new(0),
    })));
    FIRST.set(member.as_ptr());
    let counted = ALL.with(|all| {
        // SAFETY: just made.
        unsafe { member.as_ref() }.place.set(all.len());
        all.push(Listed(member));
        ManuallyDrop::new(shared.clone())
    });
    (member, counted)
}

/// The calling thread is this mutator no more. What it was if this was the last reference to the heap.
pub(crate) fn remove(member: NonNull<Member>, counted: Arc<Shared>) -> Option<Shared> {
    let mut link = None;
    for one in own() {
        if ptr::eq(one, member.as_ptr()) {
            let next = one.next.get();
            link.map_or_else(|| FIRST.set(next), |link: &Member| link.next.set(next));
            break;
        }
        link = Some(one);
    }
    let last = ALL.with(|all| {
        // SAFETY: in the list until now.
        let place = unsafe { member.as_ref() }.place.get();
        all.swap_remove(place);
        if let Some(Listed(moved)) = all.get(place) {
            // SAFETY: what is in the list exists.
            unsafe { moved.as_ref() }.place.set(place);
        }
        Arc::into_inner(counted)
    });
    // SAFETY: leaked by `add`, and in no list any more.
    drop(unsafe { Box::from_raw(member.as_ptr()) });
    last
}

/// The members of the calling thread.
pub(crate) fn own() -> impl Iterator<Item = &'static Member> {
    let mut at: *const Member = FIRST.get();
    std::iter::from_fn(move || {
        // SAFETY: null, or a member of this thread, which no other takes off the list; the callers use none that they
        // have removed.
        let member = unsafe { at.as_ref() }?;
        at = member.next.get();
        Some(member)
    })
}

/// Runs a function of the embedder's for a mutator that is at a safepoint. If that is one of the calling thread's, its
/// uses are refused meanwhile.
pub(crate) fn serve(record: &Record, function: impl FnOnce(&Record)) {
    let member = own().find(|member| ptr::eq(member.record.as_ptr(), record));
    let member = member.filter(|member| member.is_inside());
    let _runs = member.map(|member| Runs::new(member, Callback::Stop));
    function(record);
}

/// The member by which the calling thread is inside the gate of this heap.
pub(crate) fn inside(heap: u32) -> Option<&'static Member> {
    own().find(|member| member.is_inside() && member.body().number == heap)
}

/// The calling thread's next allocation by each mutator of this heap goes to the collector: no room is left in the
/// buffer. Outside of the gate that is so when the thread is inside again.
pub(crate) fn allocate_slowly_next(heap: u32) {
    for member in own().filter(|member| member.body().number == heap) {
        // SAFETY: a mutator of the calling thread, whose record exists as long as it does.
        let buffer = unsafe { &member.record.as_ref().tlab };
        if member.is_inside() {
            buffer.limit.set(buffer.cursor.get());
        } else {
            member.limit.set(buffer.cursor.get());
        }
    }
}

/// Panics where the calling thread has stopped the world of a heap, by any of its mutators, or works for one that has:
/// `what` would wait for the thread itself.
pub(crate) fn assert_world_runs(heap: u32, what: &str) {
    collectors::assert_none(what);
    let of_heap = own().filter(|member| member.body().number == heap);
    let stops = of_heap.map(|member| member.callback.get());
    stops
        .filter(|&callback| callback != Callback::Listener)
        .for_each(|callback| callback.assert_none(what));
}

/// Panics when `what` is over, in which the calling thread was outside of the heap's gate, if it has attached there again:
/// `remedy` says what to do instead.
pub(crate) fn assert_no_second(heap: u32, what: &str, remedy: &str) {
    assert!(
        inside(heap).is_none(),
        "{what} inside which this thread attached to the same heap again, and that mutator is still attached: each \
         collection would wait for it for ever; {remedy}"
    );
}

/// The thread whose mutator has this record; `None` if there is no such mutator. For messages.
pub(crate) fn owner_of(record: NonNull<Record>) -> Option<ThreadId> {
    ALL.with(|all| {
        // SAFETY: what is in the list exists; the number of its thread changes in a forked child alone.
        let members = all
            .iter()
            .map(|Listed(member)| unsafe { &*member.as_ptr() });
        let owned = members.filter(|member| member.record == record);
        owned.map(|member| member.thread.get()).next()
    })
}

/// Whether interrupts may be requested of a mutator of the calling thread from now on.
pub(crate) fn take_interrupts(member: &Member, takes: bool) {
    ALL.with(|_| member.takes_interrupts.set(takes));
}

/// Asks the mutator that `is_meant` finds for an interrupt; false if there is none that has a handler.
pub(crate) fn request_interrupt(is_meant: impl Fn(&Member, &Record) -> bool) -> bool {
    ALL.with(|all| {
        // SAFETY: what is in the list exists.
        let members = all
            .iter()
            .map(|Listed(member)| unsafe { &*member.as_ptr() });
        let mut takers = members.filter(|member| member.takes_interrupts.get());
        // SAFETY: the record of a member that takes interrupts exists as long as the lock is held.
        let found = takers.find(|member| is_meant(member, unsafe { member.record.as_ref() }));
        // SAFETY: as in the line above.
        found
            .map(|member| unsafe { member.record.as_ref() }.request_interrupt())
            .is_some()
    })
}

/// The calling thread stands in all gates that it is inside of, but not in that of `except`, of whose gate it is outside
/// for the moment.
pub(crate) fn stand(except: Option<u32>) {
    for member in own().filter(|member| member.is_inside()) {
        if Some(member.body().number) != except {
            with_heap!(&member.body().kind, heap => heap.stand(member.record()));
        }
    }
}

/// Ends what [`stand`] began, under the lock under which processes fork.
pub(crate) fn go_on(except: Option<u32>) {
    for member in own().filter(|member| member.is_inside()) {
        if Some(member.body().number) != except {
            with_heap!(&member.body().kind, heap => heap.go_on(member.record()));
        }
    }
}

/// The mutators inside the gate of a heap whose threads have ended without a word: they are members no more. A thread
/// that attaches when it has all but ended, or loses its mutator, comes to that. The caller collects, and has a
/// reference to the heap; or it forks, has the lock under which heaps end, and frees the [`orphans`] later.
pub(crate) fn bury(heap: u32) -> Vec<NonNull<Record>> {
    let mut buried = Vec::new();
    ALL.with(|all| {
        let mut place = 0;
        while let Some(Listed(member)) = all.get(place) {
            // SAFETY: what is in the list exists. What its thread alone touches is read when that has ended.
            let member = unsafe { &*member.as_ptr() };
            let ended = || signals::send(member.thread.get(), 0) == Delivery::Gone;
            if member.body().number != heap || !ended() || !member.is_inside() {
                place += 1;
                continue;
            }
            buried.push(member.record);
            member.body().mutators.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: the member's reference is counted, and its owner has ended.
            let counted = unsafe { Arc::from_raw(member.shared) };
            if let Some(orphan) = Arc::into_inner(counted) {
                ORPHANS.with(|orphans| orphans.push(orphan));
            }
            all.swap_remove(place);
            if let Some(Listed(moved)) = all.get(place) {
                // SAFETY: what is in the list exists.
                unsafe { moved.as_ref() }.place.set(place);
            }
        }
    });
    buried
}

/// Heaps whose last mutators were buried before a fork: to be dropped by who asks next, without a lock.
pub(crate) fn orphans() -> Vec<Shared> {
    ORPHANS.with(std::mem::take)
}

/// Before a fork: nobody becomes a mutator, or ceases to be one.
pub(crate) fn lock_for_fork() {
    ALL.lock();
}

/// After a fork, in the parent.
pub(crate) fn unlock_in_parent() {
    ALL.unlock();
}

/// After a fork, in the child: the mutators of other threads are gone, and their references to heaps count no more.
pub(crate) fn unlock_in_child() {
    // SAFETY: taken before the fork, by this thread.
    let all = unsafe { ALL.held() };
    for Listed(member) in std::mem::take(all) {
        if let Some(own) = own().find(|&one| ptr::eq(one, member.as_ptr())) {
            own.place.set(all.len());
            own.thread.set(threads::current_tid());
            all.push(Listed(member));
            continue;
        }
        // SAFETY: a member of a thread that does not exist here, which nobody refers to.
        let gone = unsafe { Box::from_raw(member.as_ptr()) };
        // SAFETY: its reference is counted, and not dropped again but here.
        let counted = unsafe { Arc::from_raw(gone.shared) };
        // A heap that only such threads had is not ended: what their stacks held is not freed either.
        if Arc::strong_count(&counted) == 1 {
            std::mem::forget(counted);
        }
    }
    ALL.unlock();
}

/// A member that was inside runs a callback of the embedder's: what uses the heap there is refused.
pub(crate) struct Runs<'a>(&'a Member);

impl Runs<'_> {
    pub(crate) fn new(member: &Member, callback: Callback) -> Runs<'_> {
        member.outside.set(member.outside.get() + 1);
        member.callback.set(callback);
        Runs(member)
    }

    /// Panics at the end of a callback, `what`, if a blocking region is open that it began.
    pub(crate) fn assert_no_region(&self, what: &str) {
        assert!(
            self.0.outside.get() == 1,
            "{what} inside a blocking region that it began: end the region first"
        );
    }
}

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.outside.set(self.0.outside.get() - 1);
        self.0.callback.set(Callback::None);
    }
}
