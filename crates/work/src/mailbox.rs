//! Words sent from one memory node to another in batches (segregated spaces, ASPLOS 2013, section 3.3): each node has a
//! box, and one worker of the node serves it.
//!
//! The idea: the paper sends each reference as a message of its own. Here a sender fills a batch, which has a fixed
//! number of words, and posts it when it is full, or when the sender has nothing else to do. A batch that is posted and
//! not received is counted in the word that says when a phase is finished ([`crate::termination`]). A sender cannot
//! know that the box of the receiver is empty, so the phase stays open until it is. The worker that serves the box is
//! called back if it waits for work; one that has not joined yet was called when the phase began, its call cannot be
//! lost, and it can join, since the phase is open.
//!
//! The memory of batches is the caller's, and there is no other: a batch is free, held by one worker, or in a box.
//!
//! # Which worker serves
//! Each worker has a home node; without [`Mailboxes::set_home`], worker i lives on node i modulo the number of nodes. In
//! a phase of w workers (the leader and the helpers that exist, at most as many as are wanted) the box of a node is
//! served by the first of them that lives there. If none does, because the node has fewer workers or the system refused
//! to start them, the leader serves it: messages then arrive at a worker of another node, which treats them as its own.
//! [`Mailboxes::worker_of`] says before the phase which case it is, so a collector that wants all or nothing can refuse.
//!
//! # Invariants
//! - A batch that was counted and not delivered lies in a box, or is about to: the sender counts first, then posts; the
//!   receiver takes, then delivers. Both are active meanwhile. So a phase that is closed has no batch in a box.
//! - In a phase one worker takes from a box. So a batch that is first in a box stays there until that worker takes it,
//!   and taking needs no tag. Free batches have many takers, and a tag.
//! - A batch is written by the one who holds it. Release in `post` partners Acquire in `take`; those of the free list
//!   partner each other.
//!
//! Workers of the phase run it; the leader opens the boxes before the phase and closes them after it.

use core::fmt;
use core::ptr::NonNull;

use gleaner_base::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, UnsafeCell, model_size};

use crate::termination::{LEADER, MAX_WORKERS};

/// The most nodes that have a box.
pub const MOST_BOXES: usize = model_size(16, 2);

/// The words of a batch: with what is beside them, 512 bytes. A batch costs some six atomic operations, which all its
/// messages share; a message has a word or more. What a worker holds back for 16 nodes is 8 KB.
pub const BATCH_WORDS: usize = model_size(63, 2);

/// The end of a list of batches; a batch is named by its index plus one.
const NONE: u32 = 0;

/// The memory of one batch. All zeros are a new one.
#[repr(C, align(64))]
pub struct BatchMemory {
    /// The next batch of the list that this one is in. Written by the one who holds it.
    next: AtomicU32,
    /// How many words it has. Written by the one who holds it.
    length: AtomicU32,
    words: UnsafeCell<[u64; BATCH_WORDS]>,
}

// SAFETY: the words are accessed by the one who holds the batch.
unsafe impl Sync for BatchMemory {}

impl Default for BatchMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchMemory {
    /// A batch without words.
    pub fn new() -> Self {
        Self {
            next: AtomicU32::new(NONE),
            length: AtomicU32::new(0),
            words: UnsafeCell::new([0; BATCH_WORDS]),
        }
    }
}

/// The box of a node, on a cache line pair of its own.
#[repr(align(128))]
struct MailBox {
    /// The batch that was posted last.
    first: AtomicU32,
    /// The worker that takes from it. Written by the leader before the phase is open.
    server: AtomicU32,
}

/// The boxes of all nodes, and the batches.
#[repr(align(128))]
pub struct Mailboxes<'a> {
    /// The first free batch, and above it how often the list has changed, wrapping: a thread that takes one finds its
    /// successor still right, or the number changed.
    free: AtomicU64,
    boxes: [MailBox; MOST_BOXES],
    batches: &'a [BatchMemory],
    /// Whether a phase has them.
    is_open: AtomicBool,
    nodes: usize,
    /// `[i]` is the node of worker i.
    homes: [u8; MAX_WORKERS],
    /// `[i]` has a bit for each box that worker i serves. Written by the leader before the phase is open.
    served: [AtomicU32; MAX_WORKERS],
}

impl fmt::Debug for Mailboxes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailboxes")
            .field("nodes", &self.nodes)
            .field("batches", &self.batches.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Mailboxes<'a> {
    /// Boxes for `nodes` nodes, from 1 to [`MOST_BOXES`]. All batches are free.
    pub fn new(batches: &'a [BatchMemory], nodes: usize) -> Self {
        assert!((1..=MOST_BOXES).contains(&nodes), "{nodes} boxes");
        assert!(batches.len() < u32::MAX as usize, "numbers have 32 bits");
        for (index, batch) in batches.iter().enumerate() {
            batch.next.store(index as u32, Ordering::Relaxed); // the one before
        }
        Self {
            free: AtomicU64::new(batches.len() as u64),
            boxes: core::array::from_fn(|_| MailBox {
                first: AtomicU32::new(NONE),
                server: AtomicU32::new(LEADER as u32),
            }),
            batches,
            is_open: AtomicBool::new(false),
            nodes,
            homes: core::array::from_fn(|worker| (worker % nodes) as u8),
            served: core::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// As [`Mailboxes::new`], with memory that the caller mapped.
    ///
    /// # Safety
    /// `first` points to zeroed memory for `count` batches that nobody else uses while the boxes or a batch exist.
    pub unsafe fn from_raw(first: NonNull<BatchMemory>, count: usize, nodes: usize) -> Self {
        // SAFETY: zeroed memory for `count` batches, as asked, and zeros are a valid batch.
        Self::new(
            unsafe { core::slice::from_raw_parts(first.as_ptr(), count) },
            nodes,
        )
    }

    /// How many nodes have a box.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The node on which worker `worker` lives.
    pub fn home(&self, worker: usize) -> usize {
        usize::from(self.homes[worker])
    }

    /// Worker `worker` lives on this node from now on: the leader, say, which runs where its caller does.
    pub fn set_home(&mut self, worker: usize, node: usize) {
        assert!(node < self.nodes, "node {node} of {}", self.nodes);
        self.homes[worker] = node as u8;
    }

    /// The worker that would serve the box of a node in a phase of `workers` workers, the leader included; `None` if no
    /// worker of the node takes part, and so the leader serves it.
    pub fn worker_of(&self, node: usize, workers: usize) -> Option<usize> {
        (0..workers.min(MAX_WORKERS)).find(|&worker| self.home(worker) == node)
    }

    /// Leader, before it begins a phase with `workers` workers: says who serves which box. Panics if the boxes are
    /// those of another phase, which is open.
    pub fn open(&self, workers: usize) {
        // Acquire partners the Release of `close`.
        let is_open = self.is_open.swap(true, Ordering::Acquire);
        assert!(!is_open, "two phases with the same mailboxes");
        for served in &self.served {
            served.store(0, Ordering::Relaxed);
        }
        for (node, mailbox) in self.boxes[..self.nodes].iter().enumerate() {
            debug_assert_eq!(mailbox.first.load(Ordering::Relaxed), NONE);
            let server = self.worker_of(node, workers).unwrap_or(LEADER);
            mailbox.server.store(server as u32, Ordering::Relaxed);
            self.served[server].fetch_or(1 << node, Ordering::Relaxed);
        }
    }

    /// Leader, after the phase.
    pub fn close(&self) {
        self.is_open.store(false, Ordering::Release);
    }

    /// The worker that serves the box of a node in this phase.
    pub fn server(&self, node: usize) -> usize {
        self.boxes[node].server.load(Ordering::Relaxed) as usize
    }

    /// A free batch, without words; `None` while all are held or in boxes.
    pub fn batch(&self) -> Option<Batch<'_>> {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            let number = free as u32;
            let next = self.batches[(number as usize).checked_sub(1)?]
                .next
                .load(Ordering::Relaxed);
            match self.change_free(free, next) {
                Ok(_) => return Some(Batch::new(self, number, 0)),
                Err(now) => free = now,
            }
        }
    }

    fn release(&self, number: u32) {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            let batch = &self.batches[number as usize - 1];
            batch.next.store(free as u32, Ordering::Relaxed);
            match self.change_free(free, number) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }

    /// Replaces the first of the free batches, if the list is still as it was seen.
    fn change_free(&self, seen: u64, first: u32) -> Result<u64, u64> {
        let changes = (seen >> 32).wrapping_add(1) << 32;
        let new = changes | u64::from(first);
        self.free
            .compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// A worker that has counted the batch puts it into the box of a node; the worker that serves the box. Workers of a
    /// phase call [`Worker::send`](crate::Worker::send).
    pub fn post(&self, node: usize, batch: Batch<'_>) -> usize {
        let mailbox = &self.boxes[..self.nodes][node];
        let memory = batch.memory();
        memory.length.store(batch.length as u32, Ordering::Relaxed);
        let mut first = mailbox.first.load(Ordering::Relaxed);
        loop {
            memory.next.store(first, Ordering::Relaxed);
            // Release partners the Acquire of `take`; it covers earlier batches of the box, too, whose own posts head
            // release sequences that this one continues.
            match mailbox.first.compare_exchange_weak(
                first,
                batch.number,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        core::mem::forget(batch); // it is the receiver's
        self.server(node)
    }

    /// Whether there is something in a box that this worker serves.
    #[inline]
    pub fn has_mail(&self, worker: usize) -> bool {
        self.boxes_of(worker)
            .any(|mailbox| mailbox.first.load(Ordering::Relaxed) != NONE)
    }

    /// The worker takes a batch from a box that it serves. It tells [`crate::termination`] afterwards. Workers of a phase
    /// call [`Worker::receive`](crate::Worker::receive).
    ///
    /// # Safety
    /// The boxes are open, and no other thread takes as this worker meanwhile.
    pub unsafe fn take(&self, worker: usize) -> Option<Batch<'_>> {
        self.boxes_of(worker)
            .find_map(|mailbox| self.take_from(mailbox))
    }

    fn take_from(&self, mailbox: &MailBox) -> Option<Batch<'_>> {
        let mut first = mailbox.first.load(Ordering::Acquire);
        while first != NONE {
            let memory = &self.batches[first as usize - 1];
            let next = memory.next.load(Ordering::Relaxed);
            match mailbox.first.compare_exchange_weak(
                first,
                next,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let length = memory.length.load(Ordering::Relaxed) as usize;
                    return Some(Batch::new(self, first, length));
                }
                Err(now) => first = now,
            }
        }
        None
    }

    /// The boxes that a worker serves.
    fn boxes_of(&self, worker: usize) -> impl Iterator<Item = &MailBox> {
        let mut left = self.served[worker].load(Ordering::Relaxed);
        core::iter::from_fn(move || {
            let node = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(&self.boxes[node])
        })
    }
}

/// A batch that the holder fills, or has received. It is free again when it is dropped.
pub struct Batch<'a> {
    mail: &'a Mailboxes<'a>,
    number: u32,
    length: usize,
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.words()).finish()
    }
}

impl<'a> Batch<'a> {
    fn new(mail: &'a Mailboxes<'a>, number: u32, length: usize) -> Self {
        Self {
            mail,
            number,
            length,
        }
    }

    fn memory(&self) -> &BatchMemory {
        &self.mail.batches[self.number as usize - 1]
    }

    /// Whether it is one of these boxes' batches.
    pub(crate) fn is_of(&self, mail: &Mailboxes<'_>) -> bool {
        core::ptr::eq(core::ptr::from_ref(self.mail).cast(), mail)
    }

    /// Adds a word, or gives it back if the batch is full.
    pub fn push(&mut self, word: u64) -> Result<(), u64> {
        if self.is_full() {
            return Err(word);
        }
        let length = self.length;
        self.memory().words.with_mut(|words| {
            // SAFETY: the batch is this value's alone: it came from the free list or from a box, which gave it to
            // nobody else.
            unsafe { (*words)[length] = word }
        });
        self.length += 1;
        Ok(())
    }

    /// Its words, the first that was pushed first.
    pub fn words(&self) -> impl Iterator<Item = u64> {
        (0..self.length).map(|index| {
            self.memory().words.with(|words| {
                // SAFETY: the batch is this value's alone, so nobody writes to it meanwhile.
                unsafe { (*words)[index] }
            })
        })
    }

    /// How many words it has.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether it has no room.
    pub fn is_full(&self) -> bool {
        self.length == BATCH_WORDS
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.mail.release(self.number);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn memory(count: usize) -> Vec<BatchMemory> {
        (0..count).map(|_| BatchMemory::new()).collect()
    }

    fn take<'a>(mail: &'a Mailboxes<'_>, worker: usize) -> Option<Batch<'a>> {
        // SAFETY: the boxes are open, and only this thread takes in a test.
        unsafe { mail.take(worker) }
    }

    #[test]
    fn a_box_has_another_server_when_the_leader_moved() {
        let memory: Vec<BatchMemory> = (0..2).map(|_| BatchMemory::new()).collect();
        let mut mail = Mailboxes::new(&memory, 2);
        mail.open(2);
        assert_eq!(mail.post(1, mail.batch().unwrap()), 1);
        assert!(mail.has_mail(1) && !mail.has_mail(0));
        // SAFETY: the boxes are open, and this thread is the only one.
        drop(unsafe { mail.take(1) });
        mail.close();
        mail.set_home(0, 1);
        mail.open(2);
        assert_eq!(mail.post(1, mail.batch().unwrap()), 0);
        assert!(mail.has_mail(0) && !mail.has_mail(1));
        // SAFETY: the boxes are open, and this thread is the only one.
        assert!(unsafe { mail.take(1) }.is_none());
    }

    #[test]
    fn a_batch_has_its_words_and_goes_to_the_box_of_its_node() {
        let memory = memory(2);
        let mail = Mailboxes::new(&memory, 3);
        mail.open(3);
        let mut batch = mail.batch().unwrap();
        let words: Vec<u64> = (0..BATCH_WORDS as u64).collect();
        words.iter().for_each(|&word| batch.push(word).unwrap());
        assert_eq!((batch.push(7), batch.len()), (Err(7), BATCH_WORDS));
        assert_eq!(mail.post(2, batch), 2);
        assert!(mail.has_mail(2) && !mail.has_mail(1) && take(&mail, 1).is_none());
        let taken = take(&mail, 2).unwrap();
        assert_eq!(taken.words().collect::<Vec<_>>(), words);
        assert!(!mail.has_mail(2));
        let other = mail.batch().unwrap();
        assert!(other.is_empty() && mail.batch().is_none());
        drop(taken);
        assert!(mail.batch().unwrap().is_empty());
    }

    #[test]
    fn a_node_is_served_by_its_first_worker_or_by_the_leader() {
        let memory = memory(1);
        let mut mail = Mailboxes::new(&memory, 4);
        assert_eq!(mail.worker_of(3, 48), Some(3));
        assert_eq!(mail.worker_of(3, 3), None);
        mail.open(3);
        assert_eq!([0, 1, 2, 3].map(|node| mail.server(node)), [0, 1, 2, 0]);
        mail.post(3, mail.batch().unwrap());
        assert!(mail.has_mail(0) && take(&mail, 0).is_some());
        // The leader runs on another node this time.
        mail.close();
        mail.set_home(0, 3);
        mail.open(48);
        assert_eq!([0, 1, 2, 3].map(|node| mail.server(node)), [4, 1, 2, 0]);
    }

    #[test]
    fn no_batch_is_lost_or_held_twice() {
        const BATCHES: usize = 12;
        const SENDERS: u64 = 7;
        const EACH: u64 = 20_000;
        let memory = memory(BATCHES);
        let mail = Mailboxes::new(&memory, 1);
        mail.open(1);
        let mut sums = [0; SENDERS as usize];
        std::thread::scope(|scope| {
            for sender in 0..SENDERS {
                let mail = &mail;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let mut batch = loop {
                            match mail.batch() {
                                Some(batch) => break batch,
                                None => std::thread::yield_now(),
                            }
                        };
                        batch.push(sender).unwrap();
                        batch.push(number).unwrap();
                        mail.post(0, batch);
                    }
                });
            }
            for _ in 0..SENDERS * EACH {
                let batch = loop {
                    match take(&mail, 0) {
                        Some(batch) => break batch,
                        None => std::thread::yield_now(),
                    }
                };
                let words: Vec<u64> = batch.words().collect();
                sums[words[0] as usize] += words[1];
            }
        });
        assert_eq!(sums, [EACH * (EACH - 1) / 2; SENDERS as usize]);
        let all: Vec<_> = std::iter::from_fn(|| mail.batch()).collect();
        assert_eq!(all.len(), BATCHES);
    }
}
