//! Interrupts, by which another thread asks a mutator to run a function of its own at its next poll; and handshakes.
//!
//! A request is a bit of the mutator's poll word, which every poll tests anyway. Several requests before a poll are one.
//! The handler runs on the mutator's thread, inside the gate, in a scope of its own.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::members;
use crate::mutator::Mutator;
use crate::scope::Scope;

/// Requests interrupts of one mutator, on any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interrupter {
    /// No other mutator of the process has, or had, both numbers.
    heap: u32,
    mutator: u32,
}

impl Interrupter {
    /// Of the mutator with these numbers.
    pub(crate) fn new(heap: u32, mutator: u32) -> Interrupter {
        Interrupter { heap, mutator }
    }

    /// Asks for an interrupt: the mutator calls its handler at its next [`poll`](Mutator::poll). An allocation delivers
    /// none. A mutator in a blocking region is interrupted when it polls behind the region. False if the mutator was
    /// detached, or has no handler.
    pub fn request(self) -> bool {
        members::request_interrupt(|member, record| {
            member.body().number == self.heap && record.number == self.mutator
        })
    }
}

impl Mutator {
    /// Sets what this mutator does when an interrupt is requested of it: at its next poll it calls `handler` with a scope
    /// of its own. Roots are what they are at any poll. An interrupt that is requested while the handler runs is delivered by a poll behind it.
    /// A handler that panics is gone, and with it one that it has set.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// let mut mutator = heap.attach().unwrap();
    /// let interrupted = Rc::new(Cell::new(false));
    /// let seen = interrupted.clone();
    /// mutator.set_interrupt_handler(move |_| seen.set(true));
    /// let interrupter = mutator.interrupter();
    /// std::thread::spawn(move || interrupter.request());
    /// while !interrupted.get() {
    ///     mutator.poll();
    /// }
    /// drop(mutator);
    /// assert!(!interrupter.request());
    /// ```
    pub fn set_interrupt_handler(
        &mut self,
        mut handler: impl for<'s> FnMut(&mut Scope<'s>) + 'static,
    ) {
        // A scope, and not the mutator itself, which safe code could put in the place of another.
        let in_scope = move |mutator: &mut Mutator| mutator.scope(|scope| handler(scope));
        self.on_interrupt = Some(Box::new(in_scope));
        self.take_interrupts(true);
    }

    /// What requests interrupts of this mutator.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter::new(self.shared.number, self.record().number)
    }

    /// Calls `function` once for each mutator of the heap, this one among them, and returns when that is done. Mutators
    /// are not stopped for it: each runs the function on its own thread when it next polls or allocates on the slow
    /// path. For one in a blocking region, or one that waits, the calling thread runs it, and the mutator does not leave
    /// the region meanwhile. So the function runs on several threads, and must not use the heap nor wait for another
    /// thread. It is told for which mutator it runs by what requests interrupts of that.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// let heap = gleaner::Heap::builder().limit(1 << 20).build().unwrap();
    /// let mut mutator = heap.attach().unwrap();
    /// let count = AtomicUsize::new(0);
    /// mutator.handshake(|_| {
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// });
    /// assert_eq!(count.into_inner(), 1);
    /// ```
    pub fn handshake(&mut self, function: impl Fn(Interrupter) + Sync) {
        let heap = self.shared.number;
        // SAFETY: the number of a mutator never changes.
        unsafe { self.handshake_raw(|record| function(Interrupter::new(heap, record.number))) };
    }

    /// Calls the handler, if there is one and an interrupt was requested.
    pub(crate) fn deliver_interrupt(&mut self) {
        if self.on_interrupt.is_none() || !self.record().take_interrupt() {
            return;
        }
        if let Some(mut handler) = self.on_interrupt.take() {
            let called = catch_unwind(AssertUnwindSafe(|| handler(self)));
            if let Err(panic) = called {
                self.on_interrupt = None;
                self.take_interrupts(false);
                resume_unwind(panic);
            }
            // Unless it has set another.
            self.on_interrupt.get_or_insert(handler);
        }
    }
}

impl Scope<'_> {
    /// As [`Mutator::handshake`].
    pub fn handshake(&mut self, function: impl Fn(Interrupter) + Sync) {
        self.mutator().handshake(function);
    }
}
