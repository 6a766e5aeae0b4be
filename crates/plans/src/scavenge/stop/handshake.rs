//! Handshakes: a function is run once for each mutator while none is at work with its own, without stopping all.
//!
//! The thread that asks holds the lock `collecting` and is outside of the gate. It leaves each mutator a note. A mutator
//! inside the gate finds the note at its next safepoint and runs the function itself. For a mutator that is outside, in a
//! blocking region perhaps, the asking thread claims its whereabouts, so that the mutator does not come in meanwhile, and
//! runs the function in its place.
//!
//! # Invariants
//! - A note is answered once: inside by the mutator, outside by the thread that has claimed it. The whereabouts say which,
//!   and the exchange of the note decides against a thread that gives up.
//! - The thread that asks waits until every note is answered or taken back, so what a note leads to exists.
//! - The list does not change meanwhile but for mutators whose threads have ended. No stop begins, and no fork gets past
//!   the lock. A thread that stands for a fork counts as outside, so it is not waited for.

use core::ptr;

use gleaner_base::sync::{AtomicPtr, AtomicU32, Ordering, yield_now};

use super::collecting::HANDSHAKE;
use super::fork::Patience;
use super::whereabouts::Whereabouts;

/// What is asked: the function, which is given the mutator.
pub struct Asked<'a> {
    function: &'a (dyn Fn(*const ()) + Sync),
}

/// Where a mutator finds its note.
#[derive(Debug)]
pub struct Post(AtomicPtr<Asked<'static>>);

/// In the place of a note that is being answered by the mutator.
const ANSWERING: *mut Asked<'static> = ptr::without_provenance_mut(1);

impl Post {
    /// No note.
    #[allow(
        clippy::new_without_default,
        reason = "it is a part of a record, and no value of its own"
    )]
    pub fn new() -> Post {
        Post(AtomicPtr::new(ptr::null_mut()))
    }
}

/// What of a mutator takes part in handshakes.
#[derive(Clone, Copy)]
pub struct Partner<'a> {
    /// Its poll word.
    pub poll: &'a AtomicU32,
    /// Where it is.
    pub whereabouts: &'a Whereabouts,
    /// Where it finds its note.
    pub post: &'a Post,
    /// What the function is given.
    pub mutator: *const (),
}

/// A note that is answered, also when the function panics.
struct Answers<'a>(&'a Post);

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        // Release partners the Acquire of the thread that asked: it sees what the function did.
        self.0.0.store(ptr::null_mut(), Ordering::Release);
    }
}

/// The whereabouts of a mutator outside, claimed.
struct Claim<'a>(&'a Whereabouts);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Partner<'_> {
    fn ask(&self, asked: &Asked<'_>) {
        let note = ptr::from_ref(asked).cast_mut().cast::<Asked<'static>>();
        self.post.0.store(note, Ordering::Release);
        // Release partners the Acquire in `answer`: a mutator that sees the bit sees the note.
        self.poll.fetch_or(HANDSHAKE, Ordering::Release);
    }

    /// The mutator, inside at a safepoint: runs the function if it has a note.
    pub fn answer(&self) {
        if self.poll.load(Ordering::Relaxed) & HANDSHAKE == 0 {
            return;
        }
        self.poll.fetch_and(!HANDSHAKE, Ordering::Acquire);
        let note = self.post.0.load(Ordering::Acquire);
        let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
        if note.is_null()
            || self
                .post
                .0
                .compare_exchange(note, ANSWERING, taken, failed)
                .is_err()
        {
            return;
        }
        let _answers = Answers(self.post);
        // SAFETY: the thread that asked waits until the note is answered.
        unsafe { ((*note).function)(self.mutator) };
    }

    /// The thread that asks: whether the note is answered, which it does itself if the mutator is outside.
    fn is_answered(&self, asked: &Asked<'_>) -> bool {
        // Acquire partners the Release in `Answers`.
        if self.post.0.load(Ordering::Acquire).is_null() {
            return true;
        }
        if !self.whereabouts.claim() {
            return false;
        }
        let _claim = Claim(self.whereabouts);
        // Looked at before the claim, when the mutator may have been inside.
        if !self.post.0.load(Ordering::Acquire).is_null() {
            let _answers = Answers(self.post);
            self.poll.fetch_and(!HANDSHAKE, Ordering::Relaxed);
            (asked.function)(self.mutator);
        }
        true
    }

    /// The thread that asks gives up.
    fn take_back(&self) {
        let note = self.post.0.load(Ordering::Acquire);
        if note.is_null() || note == ANSWERING {
            while !self.post.0.load(Ordering::Acquire).is_null() {
                yield_now();
            }
            return;
        }
        let (taken, failed) = (Ordering::Acquire, Ordering::Relaxed);
        let nothing = ptr::null_mut();
        if self
            .post
            .0
            .compare_exchange(note, nothing, taken, failed)
            .is_err()
        {
            self.take_back();
        }
    }
}

/// The mutators that are asked. When the function panics, the notes that were not answered are taken back.
struct Asking<'a, S, E: Fn(&S, &mut dyn FnMut(Partner<'_>))> {
    state: &'a mut S,
    each: E,
}

impl<S, E: Fn(&S, &mut dyn FnMut(Partner<'_>))> Drop for Asking<'_, S, E> {
    fn drop(&mut self) {
        (self.each)(self.state, &mut |partner| partner.take_back());
    }
}

/// Runs `function` once for each mutator that `each` names. The caller is outside of the gate and holds the lock that
/// protects `state`. `bury` takes out mutators whose threads have ended, when one is overdue.
pub fn handshake<S>(
    state: &mut S,
    each: impl Fn(&S, &mut dyn FnMut(Partner<'_>)),
    bury: impl Fn(&mut S),
    function: &(dyn Fn(*const ()) + Sync),
) {
    let asked = Asked { function };
    let asking = Asking { state, each };
    (asking.each)(asking.state, &mut |partner| partner.ask(&asked));
    let mut patience = Patience::new();
    loop {
        let mut all = true;
        (asking.each)(asking.state, &mut |partner| {
            all &= partner.is_answered(&asked)
        });
        if all {
            return;
        }
        if patience.wait() {
            bury(&mut *asking.state);
        }
    }
}
