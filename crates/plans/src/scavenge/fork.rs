//! Forking: what a heap does before, and after in the parent and in the child ([`crate::scavenge::stop::fork`] has the
//! protocol).
//!
//! In the child the mutators of all other threads are gone, with their roots; their buffers are filled, so that the
//! heap can be walked. Helpers and zeroing threads are gone, too. The one that has started them starts others when a
//! collection needs them, and until then the leader works alone and mutators zero for themselves. Option `child-old` says
//! how the old generation is collected there.
//!
//! Runs on the thread that forks. It may be a mutator inside the gate, which stands then; nothing that it holds moves.

use alloc::boxed::Box;
use core::ptr::NonNull;

use gleaner_base::events::{Event, Phase};
use gleaner_base::options::Generations;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::clock;

use super::collect::publish_event;
use super::mutator::Mutator;
use super::old;
use super::{Scavenge, State};
use crate::scavenge::stop::collecting;
use crate::scavenge::stop::poll::StandAside;
use crate::scavenge::stop::whereabouts::Whereabouts;

/// Asks all mutators to stop, or none any more.
fn set_polls(state: &State, stop: bool) {
    match stop {
        true => collecting::tell(state.mutators.polls()),
        false => collecting::take_back(state.mutators.polls()),
    }
}

impl<F: SlotFormat> Scavenge<F> {
    /// Says what threads do that want to collect, to come in, to attach or to detach while another one forks, and the
    /// number by which they know this heap. Before the heap is shared.
    pub fn set_stand_aside(&mut self, stand_aside: StandAside, heap: u32) {
        self.gate.set_stand_aside(stand_aside, heap);
    }

    /// Before the fork, in all heaps first: the one that would wait for this one stands aside.
    pub fn begin_fork(&self) {
        self.collecting.begin_fork(&self.gate);
    }

    /// Before the fork, until it is true of all heaps: whether no thread touches the heap but those that
    /// [`stand`](crate::scavenge::stop::poll::PollGate::stand). Threads that ended inside are looked for when one is
    /// `overdue`.
    pub fn hold_still(&self, overdue: bool) -> bool {
        let bury = |state: &mut State| self.bury(state);
        self.collecting
            .hold_still(&self.gate, set_polls, overdue, bury)
    }

    /// When all heaps hold still: the locks whose holders wait for nobody.
    pub fn lock_for_fork(&self) {
        self.model.types.lock_for_fork();
    }

    /// In the parent: all threads go on.
    pub fn after_fork_in_parent(&self) {
        self.model.types.unlock_after_fork();
        self.collecting.let_go(&self.gate, set_polls);
    }

    /// In the child: the pages of what lives are shared with the parent until one of them writes there. So by default it is
    /// not slid any more, and the young generation is collected by itself again.
    fn keep_pages_shared(&self, state: &mut State) {
        state.old = self.config.options.child_old;
        state.evacuates = false;
        let is_open = self.config.options.generations != Generations::Never;
        if is_open && !old::policy::<F>(state.old).slides() {
            state.bring_scavenges_back();
        }
    }

    /// In the child: the mutators that `is_own` knows are this thread's, and `inside` of them are inside the gate. All
    /// others are gone.
    pub fn after_fork_in_child(&self, is_own: &dyn Fn(NonNull<Mutator>) -> bool, inside: u32) {
        self.model.types.unlock_after_fork();
        self.crew.forget_helpers_after_fork();
        self.zeroing.forget_threads_after_fork();
        self.collecting
            .let_go_in_child(&self.gate, inside, |state| {
                set_polls(state, false);
                let mut mutators = core::mem::take(&mut state.mutators);
                mutators.split(is_own, |record| {
                    // SAFETY: leaked by `attach` and off the list; its thread does not exist in this process, and had left
                    // its buffer at a poll.
                    let gone = unsafe { Box::from_raw(record.as_ptr()) };
                    // SAFETY: the mutator's thread does not exist in this process, so nobody else uses its buffer.
                    unsafe { self.keep_of(state, &gone) };
                });
                let own = mutators.whereabouts();
                own.for_each(Whereabouts::set_calling_thread);
                state.mutators = mutators;
                self.keep_pages_shared(state);
                if let Some(snapshots) = &mut state.snapshots {
                    snapshots.begin_in_child();
                }
                let mut event = Event::new(Phase::Fork, self.epoch());
                event.start_ns = clock::monotonic_ns();
                publish_event(state, &event);
            });
    }
}
