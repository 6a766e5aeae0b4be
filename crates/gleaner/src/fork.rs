//! Fork: the child has one thread, its heaps whole, and no helpers until a collection needs them.
//!
//! This is the only place that has hooks, and the list of all heaps, the one thing that heaps share. The thread that
//! forks stands where it is a mutator, so nothing that it holds moves, neither in the parent nor in the child.
//!
//! # The order of the locks
//! 1. [`HEAPS`]: a thread forks, a heap comes or goes, or a thread that found a fork under way waits for its end.
//!    Who waits for this lock stands in all gates that it is inside of.
//! 2. All heaps ([`gleaner_plans::scavenge::stop::fork`]): first all are told, so that nobody inside one waits for
//!    another; then all are waited for. Afterwards nobody is inside a gate who does not stand, and nobody stops a
//!    world.
//! 3. Locks whose holders wait for nobody: of each heap its threads, its listeners, its types; at last the list of all
//!    mutators.
//!
//! All of them are given back on both sides. In the child the helpers and zeroing threads are forgotten first, and the
//! mutators of other threads with the references that these had to their heaps.

use std::ptr::NonNull;
use std::sync::LazyLock;

use gleaner_os::fork;
use gleaner_plans::scavenge::stop::fork::Patience;
use gleaner_plans::scavenge::stop::whereabouts::Passage;

use crate::body::{Body, with_heap};
use crate::guarded::Guarded;

use crate::{collectors, members, threads};

/// A heap in the list of all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Listed(NonNull<Body>);

// SAFETY: heaps are made for sharing.
unsafe impl Send for Listed {}

impl Listed {
    fn body(&self) -> &Body {
        // SAFETY: a heap takes itself off the list before it ends.
        unsafe { self.0.as_ref() }
    }
}

/// All heaps. Who waits for the lock stands.
static HEAPS: Guarded<Vec<Listed>> = Guarded::new(Vec::new());

/// Whether the C library has the hooks.
static HAS_HOOKS: LazyLock<bool> =
    LazyLock::new(|| fork::register(before, after_in_parent, after_in_child));

/// Takes the lock of the list. The calling thread is outside of the gate of `except`.
fn lock(except: Option<u32>) {
    members::stand(except);
    HEAPS.lock();
    members::go_on(except);
}

/// A heap comes. False when the C library has no room for the hooks.
pub(crate) fn add(body: &Body) -> bool {
    let known = *HAS_HOOKS;
    lock(None);
    // SAFETY: the lock is held.
    unsafe { HEAPS.held() }.push(Listed(NonNull::from(body)));
    HEAPS.unlock();
    known
}

/// A heap goes: from now on no fork looks at it.
pub(crate) fn remove(body: &Body) {
    lock(None);
    // SAFETY: the lock is held.
    unsafe { HEAPS.held() }.retain(|&one| one != Listed(NonNull::from(body)));
    HEAPS.unlock();
}

/// A thread outside of the gate of `heap` found that another one forks: this returns when that may be over.
pub(crate) fn stand_aside(heap: u32) {
    lock(Some(heap));
    HEAPS.unlock();
}

/// Runs `body` for each heap; none ends meanwhile. It waits for no other thread.
pub(crate) fn for_each_heap(body: impl Fn(&Body)) {
    lock(None);
    heaps().for_each(body);
    HEAPS.unlock();
}

/// All heaps, for a thread that has the lock.
fn heaps() -> impl Iterator<Item = &'static Body> {
    // SAFETY: the callers hold the lock, and none of them changes the list meanwhile.
    let heaps: &'static Vec<Listed> = unsafe { HEAPS.held() };
    heaps.iter().map(Listed::body)
}

/// Asks all heaps, also when one does not hold still: a thread inside that perhaps waits for another.
fn all_hold_still(overdue: bool) -> bool {
    let moves = |body: &&Body| !with_heap!(&body.kind, heap => heap.hold_still(overdue));
    heaps().filter(moves).count() == 0
}

extern "C" fn before() {
    // A thread of a heap's own is a mutator of none.
    collectors::assert_none("a fork");
    members::own().for_each(|member| members::assert_world_runs(member.body().number, "a fork"));
    members::stand(None);
    HEAPS.lock();
    for body in heaps() {
        with_heap!(&body.kind, heap => heap.begin_fork());
    }
    let (mut patience, mut overdue) = (Patience::new(), false);
    while !all_hold_still(overdue) {
        overdue = patience.wait();
    }
    for body in heaps() {
        body.helpers.threads.lock();
        body.zeroers.threads.lock();
        body.listeners.lock_for_fork();
        with_heap!(&body.kind, heap => heap.lock_for_fork());
    }
    members::lock_for_fork();
}

extern "C" fn after_in_parent() {
    members::unlock_in_parent();
    for body in heaps() {
        with_heap!(&body.kind, heap => heap.after_fork_in_parent());
        unlock(body);
    }
    members::go_on(None);
    let orphans = members::orphans();
    HEAPS.unlock();
    drop(orphans);
}

extern "C" fn after_in_child() {
    for body in heaps() {
        // They exist in the parent only.
        // SAFETY: both locks were taken before the fork, by this thread.
        unsafe {
            threads::forget(body.helpers.threads.held());
            threads::forget(body.zeroers.threads.held());
        }
        let own = || members::own().filter(|member| std::ptr::eq(member.body(), body));
        let inside = own().filter(|member| member.is_inside()).count() as u32;
        with_heap!(&body.kind, heap => heap.after_fork_in_child(
            &|record| own().any(|member| member.record == record),
            inside,
        ));
        own()
            .filter(|member| member.is_inside())
            .for_each(|member| member.record().whereabouts.come_in(Passage::Fork));
        body.note_forked(own().count());
        unlock(body);
    }
    members::unlock_in_child();
    let orphans = members::orphans();
    HEAPS.unlock();
    drop(orphans);
}

/// The locks of one heap whose holders wait for nobody, but those of its lower layers.
fn unlock(body: &Body) {
    body.listeners.unlock_after_fork();
    body.zeroers.threads.unlock();
    body.helpers.threads.unlock();
}
