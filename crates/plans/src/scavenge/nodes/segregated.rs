//! Segregated spaces (`pages=segregated`; ASPLOS 2013, section 3.2.3): a worker copies and scans only young objects of
//! its own memory node. A slot that leads to another node's object goes there as a message.
//!
//! The worker that gets the message treats the slot as if it had found it: it copies the object, stores the new place
//! in the slot and dirties the slot's card. So nothing is to be answered. Messages are words, which travel in batches
//! (`work/src/mailbox.rs`); a phase is not over before all are received. Workers steal from their own node's only.
//!
//! What finds no memory in its node's to-space is promoted early, and lies on another node if there is no room in the old
//! space either; after that collection memory goes to where it was lacking.
//!
//! Where a node has no worker, since there are fewer than nodes or the system refused some, the leader gets its
//! messages and copies to its own node. Values of ephemerons and objects that are to be finalized are kept by the worker
//! that finds them, wherever they lie: who asks needs the new place at once. From there on it is as above.
//!
//! # Invariants
//! - A slot that was sent is touched by its receiver alone. What the sender wrote of it before, the box orders.
//! - What waits to be sent counts as work: a worker offers when it has nothing to send.

use core::ptr::NonNull;

use gleaner_mem::Address;
use gleaner_os::memory;
use gleaner_work::MAX_WORKERS;
use gleaner_work::Mailboxes;
use gleaner_work::mailbox::BatchMemory;

use crate::scavenge::config::Homes;
use crate::scavenge::trace::grey::SEGMENT_ITEMS;

/// The most messages of a worker that wait to be sent: 32 segments of a stack. They are sent after each item and each
/// task, so only those with more references have more; the worker that finds them then follows the rest by itself.
pub(in crate::scavenge) const MOST_WAITING: usize = 32 * SEGMENT_ITEMS;

/// What a message is about: a slot, and what the receiver must know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// A slot of an object, and whether that object is old.
    Slot(Address, bool),
    /// A root slot, which is wide.
    Root(Address),
}

const OLD: usize = 1;
const ROOT: usize = 2;

impl Message {
    /// As a word: slots lie at multiples of 4.
    pub fn word(self) -> u64 {
        let word = match self {
            Message::Slot(slot, is_old) => slot.word() | if is_old { OLD } else { 0 },
            Message::Root(slot) => slot.word() | ROOT,
        };
        word as u64
    }

    /// Of such a word.
    pub fn of(word: u64) -> Message {
        let word = word as usize;
        let slot = Address::new(word & !(OLD | ROOT));
        if word & ROOT != 0 {
            Message::Root(slot)
        } else {
            Message::Slot(slot, word & OLD != 0)
        }
    }
}

/// The boxes of a heap, with their memory.
pub(in crate::scavenge) struct Mail {
    boxes: Mailboxes<'static>,
    memory: (NonNull<u8>, usize),
    /// `[i]`: a bit for each worker of node i.
    colleagues: [u64; MAX_WORKERS],
}

impl Mail {
    /// For `workers` workers at these homes; `None` when the system gives no memory.
    pub fn new(workers: usize, nodes: usize, homes: Homes) -> Option<Mail> {
        // Each worker fills one for each node while as many are under way.
        let batches = 2 * workers * nodes;
        let bytes = memory::whole_pages(batches * size_of::<BatchMemory>())?;
        let memory = memory::map(bytes)?;
        // SAFETY: zeroed memory for `batches` batches, which lasts as long as the boxes.
        let mut boxes = unsafe { Mailboxes::from_raw(memory.cast(), batches, nodes) };
        let mut colleagues = [0; MAX_WORKERS];
        for worker in 0..workers {
            let home = homes.of_worker(worker);
            boxes.set_home(worker, home);
            colleagues[home] |= 1 << worker;
        }
        Some(Mail {
            boxes,
            memory: (memory, bytes),
            colleagues,
        })
    }

    /// The boxes.
    pub fn boxes(&self) -> &Mailboxes<'static> {
        &self.boxes
    }

    /// The leader lives on this node from now on. Between phases.
    pub fn lead_on(&mut self, node: usize) {
        let leader = 1;
        for colleagues in &mut self.colleagues {
            *colleagues &= !leader;
        }
        self.colleagues[node] |= leader;
        self.boxes.set_home(0, node);
    }

    /// A bit for each worker that lives where this one does.
    pub fn colleagues(&self, worker: usize) -> u64 {
        self.colleagues[self.boxes.home(worker)]
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // SAFETY: `new` mapped this memory, and no phase uses the boxes any more.
        unsafe { memory::unmap(self.memory.0, self.memory.1) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_it_was_told() {
        let slot = Address::new(0x1234_5678_9abc);
        for message in [
            Message::Slot(slot, false),
            Message::Slot(slot, true),
            Message::Root(slot.add(4)),
        ] {
            assert_eq!(Message::of(message.word()), message);
        }
    }
}
