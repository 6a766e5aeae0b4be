//! How a worker sends what it found to other nodes.

use gleaner_work::{Outbox, Worker};

use super::{Trace, WorkerState};
use crate::scavenge::nodes::segregated::Mail;

impl Mail {
    /// Sends what waits, as far as there is room; whether nothing waits any more.
    pub fn send<'a>(
        &'a self,
        worker: &Worker<'_>,
        local: &mut WorkerState,
        outbox: &mut Outbox<'a>,
        trace: &dyn Trace,
    ) -> bool {
        while let Some(message) = local.next_message() {
            let node = trace.node_of(message);
            if outbox
                .put(worker, self.boxes(), node, message.word())
                .is_err()
            {
                local.send(message);
                // What is full makes room where it is received.
                outbox.flush(worker);
                return false;
            }
            local.counts.messages[node] += 1;
        }
        true
    }
}
