//! What the code of a phase sees: the worker that it runs on.
//!
//! The idea: a worker that has run out of work *offers*. It looks around for a short while, unless that takes the
//! processor from a worker that has work ([`Crew::expect_processors`](crate::Crew::expect_processors)). If nothing
//! turns up, the leader sleeps inside the phase, but a helper goes out of it (`StandBy`) and is called back when work
//! is announced. So a sleeping helper never holds up the end of a phase, and the leader never waits for one to be woken
//! and scheduled.
//!
//! # Invariants
//! - A worker that offers makes itself visible (parking, then idle mask, then a SeqCst fence) before
//!   it looks a last time; a worker that announces publishes first, then fences, then reads the
//!   mask. So either the one sees the work or the other sees the sleeper.
//! - Missing an announcement costs parallelism and never work: see [`crate::termination`].
//!
//! Workers run it, each on its own `Worker`.

use core::cell::Cell;

use gleaner_base::sync::{Ordering, fence, spin_hint, spin_rounds};

use crate::mailbox::{Batch, Mailboxes};
use crate::shared::Shared;
use crate::termination::{LEADER, PhaseNumber};

/// Rounds of looking around in `offer`. The pauses between grow to `LONGEST_PAUSE`, some fifty
/// microseconds in all: what it costs to be woken.
const OFFER_ROUNDS: u32 = 32;
const LONGEST_PAUSE: u32 = 64;

/// What a worker that offered has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The phase is finished: no worker holds work and none exists. Return from `work`.
    Finished,
    /// There may be work: look for it.
    WorkAgain,
    /// (Helpers only.) Nothing to do at the moment: return from `work`; the phase goes on and
    /// `work` is called again if work is announced.
    StandBy,
}

/// A worker inside a phase; its index is 0 on the collecting thread.
#[derive(Debug)]
pub struct Worker<'a> {
    shared: &'a Shared,
    index: usize,
    phase: PhaseNumber,
    /// The boxes of the phase, if it has some.
    mail: Option<&'a Mailboxes<'a>>,
    /// Whether the leader does this worker's share (`stand_in`).
    is_stand_in: bool,
    /// For how many workers the leader receives, itself included: one, unless it runs alone.
    receives_for: usize,
    /// Whether this worker counts as active. Touched by its own thread only.
    active: Cell<bool>,
    lost_races: Cell<u32>,
}

impl<'a> Worker<'a> {
    /// The worker `index` inside `phase`, just joined.
    pub(crate) fn new(
        shared: &'a Shared,
        index: usize,
        phase: PhaseNumber,
        mail: Option<&'a Mailboxes<'a>>,
    ) -> Self {
        Self {
            shared,
            index,
            phase,
            mail,
            is_stand_in: false,
            receives_for: 1,
            active: Cell::new(true),
            lost_races: Cell::new(0),
        }
    }

    /// The leader inside a phase that it runs alone for `workers` workers.
    pub(crate) fn alone(self, workers: usize) -> Self {
        Self {
            receives_for: workers,
            ..self
        }
    }

    /// The leader, active in a phase that it runs alone ([`Crew::run_alone`](crate::Crew::run_alone)), does the share of worker `index` for a
    /// while: takes its tasks, and sends and receives for it. The stand-in counts as active for as long as the leader
    /// is, so it never offers: where the leader finds nothing to do for any worker, it offers itself.
    pub fn stand_in(&self, index: usize) -> Worker<'a> {
        assert!(
            self.is_leader() && self.active.get() && index < self.receives_for,
            "the leader stands in for workers of a phase that it runs alone"
        );
        Worker {
            is_stand_in: true,
            ..Worker::new(self.shared, index, self.phase, self.mail)
        }
    }

    /// Says of a stand-in whether its worker waits for work, so that others publish some for it.
    pub fn set_waiting(&self, waits: bool) {
        debug_assert!(self.is_stand_in);
        let idle = &self.shared.idle;
        if waits {
            idle.fetch_or(self.bit(), Ordering::Relaxed);
        } else {
            idle.fetch_and(!self.bit(), Ordering::Relaxed);
        }
    }

    /// 0 on the collecting thread, else the helper's number; below the `workers` of the run.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Whether this is the collecting thread (client callbacks run only there).
    #[inline]
    pub fn is_leader(&self) -> bool {
        self.index == LEADER
    }

    /// The number of the phase.
    #[inline]
    pub fn phase(&self) -> PhaseNumber {
        self.phase
    }

    /// Whether some worker of this phase seems to wait for work. A relaxed read: cheap enough for
    /// a hot loop, and it may miss a worker that has just begun to wait.
    #[inline]
    pub fn anyone_waiting(&self) -> bool {
        self.anyone_waits_of(u64::MAX)
    }

    /// Takes one of the tasks that the phase began with ([`Phase::tasks`](crate::Phase::tasks)); they come in ascending
    /// order.
    pub fn take_task(&self) -> Option<usize> {
        self.shared.take_task(self.phase, &self.lost_races)
    }

    /// How often this worker aimed at a task and another one took it: compare-and-swaps that failed.
    pub(crate) fn lost_races(&self) -> u32 {
        self.lost_races.get()
    }

    /// Whether a task that the phase began with seems to be left. Once false it stays false.
    pub fn has_tasks(&self) -> bool {
        !self.shared.tasks.is_empty(self.phase)
    }

    /// Calls a waiting worker back, or more, after this worker published work. One publication, one
    /// announcement: a worker called back that finds more than it needs announces in turn.
    #[inline]
    pub fn announce(&self) {
        self.announce_to(u64::MAX);
    }

    /// As [`Worker::anyone_waiting`], of the workers whose bits are set.
    #[inline]
    pub fn anyone_waits_of(&self, workers: u64) -> bool {
        self.shared.idle.load(Ordering::Relaxed) & workers != 0
    }

    /// As [`Worker::announce`], to the workers whose bits are set: others have no use for what was published.
    #[inline]
    pub fn announce_to(&self, workers: u64) {
        debug_assert!(self.active.get(), "only an active worker publishes work");
        // Partners the fence in `offer`: of a publisher and a worker about to wait, at least one
        // sees the other.
        fence(Ordering::SeqCst);
        if self.anyone_waits_of(workers) {
            self.call_back(workers);
        }
    }

    #[cold]
    fn call_back(&self, wanted: u64) {
        if self.is_stand_in {
            return; // the worker looks around in its next turn
        }
        let parking = self.shared.parking();
        parking.call_back(wanted, &self.shared.idle, self.phase);
    }

    /// Sends a batch to the box of a node, in a phase that has boxes ([`Phase::mail`](crate::Phase::mail)), and calls the
    /// worker back that serves it. The phase is not finished before the batch is received. The batch comes back if
    /// [`MOST_UNDELIVERED`](crate::termination::MOST_UNDELIVERED) are on their way: the worker receives what there is
    /// for itself, so that two workers do not wait for each other, and tries again. It stays active meanwhile.
    pub fn send<'b>(&self, node: usize, batch: Batch<'b>) -> Result<(), Batch<'b>> {
        debug_assert!(self.active.get(), "only an active worker sends");
        let mail = self.mail.filter(|mail| batch.is_of(mail));
        let mail = mail.expect("a batch is sent in the phase that has its box");
        assert!(node < mail.nodes(), "node {node} of {}", mail.nodes());
        if !self.shared.termination.dispatch(self.phase) {
            return Err(batch);
        }
        // The worker that serves the box sees the batch, or this one sees that it waits.
        self.announce_to(1 << mail.post(node, batch));
        Ok(())
    }

    /// Takes a batch that was sent to a node whose box this worker serves.
    pub fn receive(&self) -> Option<Batch<'a>> {
        debug_assert!(self.active.get(), "only an active worker receives");
        self.take_mail_of(self.index)
    }

    fn take_mail_of(&self, index: usize) -> Option<Batch<'a>> {
        // SAFETY: the phase has these boxes to itself, and this thread alone is worker `index` of it, or the leader of
        // a phase that has no other thread.
        let batch = unsafe { self.mail?.take(index) }?;
        let counted = self.shared.termination.deliver(self.phase);
        debug_assert!(counted, "a batch is counted before it is posted");
        Some(batch)
    }

    /// Whether there is something to receive.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.mail.is_some_and(|mail| mail.has_mail(self.index))
    }

    /// The boxes of the phase.
    pub(crate) fn mail(&self) -> Option<&'a Mailboxes<'a>> {
        self.mail
    }

    /// The leader, not active any more, drops what was sent to it, and is called back when more is: after a panic the
    /// phase must end, and otherwise there is nothing.
    pub(crate) fn refuse_mail(&self) {
        if self.mail.is_none() {
            return;
        }
        self.shared.parking().rest(self.index, self.phase);
        self.shared.idle.fetch_or(self.bit(), Ordering::AcqRel);
        fence(Ordering::SeqCst); // partners the fence in `send`
        for index in 0..self.receives_for {
            while self.take_mail_of(index).is_some() {}
        }
    }

    /// Whether the phase has boxes and this worker returned from `work` without a last offer, after which it would miss
    /// what is sent to it.
    pub(crate) fn forgot_its_mail(&self) -> bool {
        self.mail.is_some() && self.is_active()
    }

    /// A worker that found nothing to do asks what next. It must hold no work, and must have
    /// looked, after its last publication, into every place where it published (see
    /// [`crate::termination`]), the boxes of other workers excepted; the leader also where work lay when the phase began.
    ///
    /// `work_seems_available` is a hint and may be wrong in both directions; it is called while
    /// this worker is not active, so it may look and not take.
    pub fn offer(&self, mut work_seems_available: impl FnMut() -> bool) -> Verdict {
        debug_assert!(self.active.get() && !self.is_stand_in, "no offer is due");
        let parking = self.shared.parking();
        parking.rest(self.index, self.phase);
        self.shared.idle.fetch_or(self.bit(), Ordering::AcqRel);
        self.active.set(false);
        if self.shared.termination.step_down(self.phase) {
            if !self.is_leader() {
                parking.tell_leader(self.phase);
            }
            return Verdict::Finished;
        }
        fence(Ordering::SeqCst); // partners the fence in `announce_to`
        let mut pause = 1;
        for round in 0.. {
            if self.shared.termination.is_finished(self.phase) {
                return Verdict::Finished;
            }
            if parking.is_called(self.index) || self.has_mail() || work_seems_available() {
                return self.step_up();
            }
            if round >= spin_rounds(OFFER_ROUNDS) || !self.shared.may_poll() {
                break;
            }
            (0..pause).for_each(|_| spin_hint());
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        if !self.is_leader() {
            return Verdict::StandBy;
        }
        // Called by an announcement, or by the worker that finishes the phase.
        parking.wait(self.phase, &|| {
            self.shared.termination.is_finished(self.phase)
        });
        self.step_up()
    }

    /// Becomes active again, unless the phase is finished.
    fn step_up(&self) -> Verdict {
        self.shared.idle.fetch_and(!self.bit(), Ordering::AcqRel);
        self.shared.parking().rise(self.index, self.phase);
        self.active.set(self.shared.termination.step_up(self.phase));
        if self.active.get() {
            Verdict::WorkAgain
        } else {
            Verdict::Finished
        }
    }

    /// Whether this worker returned from `work` without a last offer.
    pub(crate) fn is_active(&self) -> bool {
        self.active.get()
    }

    fn bit(&self) -> u64 {
        1 << self.index
    }
}
