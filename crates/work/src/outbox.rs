//! What a worker sends to other nodes, word by word, until it fills a batch.

use crate::mailbox::{Batch, MOST_BOXES, Mailboxes};
use crate::worker::Worker;

/// The batches that one worker fills, one for each node.
#[derive(Debug, Default)]
pub struct Outbox<'a>([Option<Batch<'a>>; MOST_BOXES]);

impl<'a> Outbox<'a> {
    /// Without batches.
    pub const EMPTY: Self = Self([const { None }; MOST_BOXES]);

    /// Puts a word into the batch for a node, and sends the batch if it is full. The word comes back when there is no
    /// room: too many batches are undelivered, or none is free. The worker then keeps the word, receives, sends what it
    /// has ([`Outbox::flush`]), so that batches become free, and tries again.
    pub fn put(
        &mut self,
        worker: &Worker<'_>,
        mail: &'a Mailboxes<'a>,
        node: usize,
        word: u64,
    ) -> Result<(), u64> {
        let slot = &mut self.0[node];
        if slot.as_ref().is_some_and(Batch::is_full) && !Self::send(worker, node, slot) {
            return Err(word);
        }
        if slot.is_none() {
            *slot = mail.batch();
        }
        match slot {
            Some(batch) => batch.push(word)?,
            None => return Err(word),
        }
        if slot.as_ref().is_some_and(Batch::is_full) {
            Self::send(worker, node, slot);
        }
        Ok(())
    }

    /// Sends all that has words; whether all of it could be sent. A worker does this before it offers.
    pub fn flush(&mut self, worker: &Worker<'_>) -> bool {
        let mut all = true;
        for (node, slot) in self.0.iter_mut().enumerate() {
            all &= Self::send(worker, node, slot);
        }
        all
    }

    /// Sends the batch of a node if there is one; whether none is left.
    fn send(worker: &Worker<'_>, node: usize, slot: &mut Option<Batch<'a>>) -> bool {
        if let Some(batch) = slot.take() {
            *slot = worker.send(node, batch).err();
        }
        slot.is_none()
    }
}
