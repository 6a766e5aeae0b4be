//! A trace whose workers take turns on one thread.

use gleaner_work::{MAX_WORKERS, Outbox, Verdict, Worker};

use super::{Run, Turn};
use crate::scavenge::nodes::lockstep::Lockstep;
use crate::scavenge::nodes::segregated::Mail;

impl Run<'_> {
    /// Leader, of a phase that it runs alone: does the work of all workers until nothing is left.
    #[cold]
    #[inline(never)]
    pub(in crate::scavenge) fn work_in_turns(
        &self,
        leader: &Worker<'_>,
        lockstep: &Lockstep,
        mail: Option<&Mail>,
    ) {
        let mut order = lockstep.order(self.workers);
        let mut outboxes = [const { Outbox::EMPTY }; MAX_WORKERS];
        loop {
            let mut anything = false;
            for index in order.round() {
                let worker = leader.stand_in(index);
                worker.set_waiting(false);
                let mut left = lockstep.objects;
                let more = || {
                    left = left.wrapping_sub(1);
                    left != u32::MAX
                };
                let turn = match mail {
                    Some(mail) => self.turn_apart(&worker, mail, &mut outboxes[index], more),
                    None if self.turn(&worker, more) => Turn::Found,
                    None => Turn::Nothing,
                };
                worker.set_waiting(turn == Turn::Nothing);
                anything |= turn != Turn::Nothing;
            }
            // In a round without work, batches may be sent to a worker that had its turn.
            if !anything && leader.offer(|| true) != Verdict::WorkAgain {
                return;
            }
        }
    }
}
