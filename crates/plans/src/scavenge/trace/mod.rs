//! The parallel trace of the precise heap: what workers do until nothing is grey.
//!
//! Workers first take tasks (roots, strips of cards) from one queue. Grey objects are items on each worker's own stack
//! (`grey`). If others wait, a worker moves its oldest items to its deque, from which they steal. A large array of
//! references is cut into chunks, so that several workers scan it.
//!
//! # Invariants
//! - An item is on one stack or in one deque, or being scanned (I3: at the end nothing is left in either).
//! - An object is made grey once, by the worker that won it.
//!
//! Each worker runs this on its own [`WorkerState`]; the leader makes and reads the states between phases.

pub(in crate::scavenge) mod derived;
pub mod edges;
pub(super) mod grey;
pub mod mark;
mod posting;
pub mod roots;
mod turns;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ops::Range;
use core::ptr::NonNull;

use crate::scavenge::config::Homes;
use crate::scavenge::edges::Edges;

use crate::scavenge::locality::Counts;
use crate::scavenge::nodes::lockstep::Lockstep;
use crate::scavenge::nodes::segregated::{MOST_WAITING, Mail, Message};
use crate::scavenge::refused::Refused;
pub use crate::scavenge::trace::grey::Item;
use crate::scavenge::trace::grey::{Arena, Stack, Stacks};
use crate::scavenge::weak::worker::WeakState;
use gleaner_base::options::TraceOrder;
use gleaner_base::sync::{AtomicU64, yield_now};
use gleaner_mem::Address;
use gleaner_mem::header::Header;
use gleaner_mem::object_model::ObjectModel;
use gleaner_mem::slot::SlotFormat;
use gleaner_os::memory;
use gleaner_spaces::precise::bump::LocalBuffer;
use gleaner_spaces::precise::tenured::BlockBuffer;
use gleaner_work::{Crew, Deque, Phase, Steal, Verdict, Worker};
use gleaner_work::{Mailboxes, Outbox};

/// Slots of an array that are one item.
pub const CHUNK_SLOTS: usize = 512;
/// Pointers of a spine that are one item: more of them take less of the stacks, and lead to 64 KB as a rule.
pub const CHUNK_POINTERS: usize = 64;
/// Items that a deque holds.
const DEQUE_ITEMS: usize = 1024;
/// What one worker has to itself during a phase.
pub struct WorkerState {
    stack: Stacks,
    /// Where the stack has its segments from: the engine's.
    arena: NonNull<Arena>,
    /// The memory node to whose fragment of the to-space it copies, counted from 0.
    pub node: usize,
    /// Where it copies survivors to.
    pub survivor_plab: LocalBuffer,
    /// Where it promotes to. It is kept from one scavenge to the next.
    pub old_buffer: BlockBuffer,
    /// What the old space has no room for in this scavenge.
    pub refused: Refused,
    /// Where it evacuates to while everything is marked.
    pub evacuation: LocalBuffer,
    /// Bytes that it evacuated.
    pub evacuated: usize,
    /// Bytes of objects of the old space that stay where it marked them by their lines.
    pub lived: usize,
    /// Bytes that it copied to the survivor space.
    pub survived: usize,
    /// Bytes that it promoted.
    pub promoted: usize,
    /// Objects that it made grey.
    pub objects: usize,
    /// How often it looked at an old object because of a dirty card, where new objects lie in the old space.
    pub looked: u64,
    /// What it has found that is weak.
    pub weak: WeakState,
    /// What waits for the cache.
    pub edges: Edges,
    /// What it did on each memory node, where that is counted.
    pub counts: Counts,
    /// Arraylets that it took back because all in them was zero.
    pub compressed: u64,
    /// Messages, as words, that wait to be sent to workers of other nodes.
    pub(super) remote: Stack,
    /// How many there are.
    waiting: usize,
}

impl WorkerState {
    /// Whether there is anything to do while the cache fetches something.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        self.has_items() || !self.edges.is_empty()
    }

    /// Whether anything is left that it has to do.
    fn has_work(&self) -> bool {
        self.is_busy() || self.weak.found != 0 || self.waiting > 0
    }

    /// Whether something grey is on its stack.
    #[inline(always)]
    pub fn has_items(&self) -> bool {
        !self.stack.is_empty()
    }

    /// A message is to go to a worker of another node; whether there was room for it.
    #[inline]
    pub(super) fn send(&mut self, message: Message) -> bool {
        if self.waiting == MOST_WAITING {
            return false;
        }
        self.waiting += 1;
        let word = Item(message.word());
        // SAFETY: the engine's arena outlives its workers' states.
        self.remote.push(unsafe { self.arena.as_ref() }, word);
        true
    }

    /// The message that is to go next.
    pub(super) fn next_message(&mut self) -> Option<Message> {
        let word = self.remote.pop()?;
        self.waiting -= 1;
        Some(Message::of(word.0))
    }

    /// Makes an object grey; the caller has won it.
    #[inline(always)]
    pub fn grey(&mut self, item: Item) {
        // SAFETY: the engine's arena outlives its workers' states.
        self.stack.push(unsafe { self.arena.as_ref() }, item);
    }

    /// Makes a spine grey; the caller has won it.
    #[cold]
    pub fn grey_spine(&mut self, item: Item) {
        // SAFETY: the engine's arena outlives its workers' states.
        self.stack.push_spine(unsafe { self.arena.as_ref() }, item);
    }
}

/// What is done with tasks and grey objects: scavenging, marking, updating.
pub trait Trace: Sync {
    /// Does a task of the queue.
    fn task(&self, local: &mut WorkerState, task: usize);
    /// Scans a grey object.
    fn item(&self, local: &mut WorkerState, item: Item);
    /// Does what waits in the worker's queue of edges, and makes the values of ephemerons grey whose keys it won. When
    /// the stack is empty afterwards, nothing waits in either.
    fn settle(&self, _: &mut WorkerState) {}
    /// Whether workers send to those of other nodes.
    fn is_segregated(&self) -> bool {
        false
    }
    /// The node to which a message goes.
    fn node_of(&self, _: Message) -> usize {
        0
    }
    /// Does what a message asks for.
    fn receive(&self, _: &mut WorkerState, _: Message) {}
}

/// Tasks of another kind in a trace, whose grey objects are scanned as in that.
pub(super) struct WithTasks<'a, T> {
    /// Does a task.
    pub task: T,
    pub trace: &'a dyn Trace,
}

impl<T: Fn(&mut WorkerState, usize) + Sync> Trace for WithTasks<'_, T> {
    fn task(&self, local: &mut WorkerState, task: usize) {
        (self.task)(local, task);
    }

    fn item(&self, local: &mut WorkerState, item: Item) {
        self.trace.item(local, item);
    }

    fn settle(&self, local: &mut WorkerState) {
        self.trace.settle(local);
    }

    fn is_segregated(&self) -> bool {
        self.trace.is_segregated()
    }

    fn node_of(&self, message: Message) -> usize {
        self.trace.node_of(message)
    }

    fn receive(&self, local: &mut WorkerState, message: Message) {
        self.trace.receive(local, message);
    }
}

/// Visits the strong slots of an item; of a large array, makes the other chunks grey first. Of an object with weak slots,
/// which have to be [discovered](crate::scavenge::weak::objects::discover), it answers the elements.
///
/// # Safety
/// An object of the model lies at `object`, and `header` is its header, not that of an object that moved: in
/// the normal or the self-forwarded state.
#[inline(always)]
pub unsafe fn scan_item<F: SlotFormat>(
    model: &ObjectModel<F>,
    header: Header,
    item: Item,
    object: Address,
    chunk: usize,
    local: &mut WorkerState,
    mut visit: impl FnMut(&mut WorkerState, Address),
) -> Option<Range<u32>> {
    // SAFETY: an object of the model lies at `object`, and `header` is its header, not that of an object that moved, as
    // asked.
    if let Some((first, slots)) = unsafe { model.array_slots(header, object) }
        && slots > CHUNK_SLOTS
    {
        if chunk == 0 {
            (1..slots.div_ceil(CHUNK_SLOTS)).for_each(|number| local.grey(item.chunk(number)));
        }
        let start = chunk * CHUNK_SLOTS;
        for index in start..(start + CHUNK_SLOTS).min(slots) {
            visit(local, first.add(index * F::BYTES));
        }
        return None;
    }
    // SAFETY: an object of the model lies at `object`, and `header` is its header, not that of an object that moved, as
    // asked.
    unsafe { model.scan(header, object, |slot| visit(local, slot)) }
}

/// The workers' states and deques.
pub struct Engine {
    /// The segments of the workers' stacks.
    arena: NonNull<Arena>,
    /// `[i]` is touched by worker i during a phase, and by the leader between phases.
    states: Vec<UnsafeCell<WorkerState>>,
    /// `[i]` belongs to worker i; others steal.
    deques: Vec<Deque<'static, AtomicU64>>,
    /// Memory of the deques.
    rings: NonNull<u8>,
    /// Which memory nodes the workers belong to.
    homes: Homes,
    /// How workers send to those of other nodes, if they do.
    mail: Option<Mail>,
    /// Whether one thread does the work of all, in turns.
    lockstep: Option<Lockstep>,
}

// SAFETY: a worker's state is touched by one worker at a time (see the field).
unsafe impl Sync for Engine {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Engine {}

impl Engine {
    /// States for `workers` workers, which belong to these memory nodes. There is room for `items` grey items, all
    /// workers' together; `None` when the system gives no memory.
    pub fn new(workers: usize, homes: Homes, items: usize, order: TraceOrder) -> Option<Engine> {
        let arena = Box::new(Arena::new(workers, items)?);
        let ring = DEQUE_ITEMS * size_of::<AtomicU64>();
        let rings = memory::map(workers * ring)?;
        let deques = (0..workers)
            .map(|index| {
                // SAFETY: zeroed memory of this engine, a piece for each deque; it lives as long as they do.
                unsafe { Deque::from_raw(rings.add(index * ring).cast().as_ptr(), DEQUE_ITEMS) }
            })
            .collect();
        let arena = NonNull::from(Box::leak(arena));
        let mut engine = Engine {
            arena,
            states: Vec::new(),
            deques,
            rings,
            homes,
            mail: None,
            lockstep: None,
        };
        for index in 0..workers {
            engine.states.push(UnsafeCell::new(WorkerState {
                node: homes.of_worker(index),
                stack: Stacks::new(order),
                arena,
                survivor_plab: LocalBuffer::default(),
                old_buffer: BlockBuffer::default(),
                refused: Refused::NONE,
                evacuation: LocalBuffer::default(),
                evacuated: 0,
                lived: 0,
                survived: 0,
                promoted: 0,
                objects: 0,
                looked: 0,
                weak: WeakState::NEW,
                edges: Edges::default(),
                counts: Counts::default(),
                compressed: 0,
                remote: Stack::new(TraceOrder::Depth),
                waiting: 0,
            }));
        }
        Some(engine)
    }

    /// How many workers there are at most.
    pub fn workers(&self) -> usize {
        self.states.len()
    }

    /// The workers of `nodes` nodes send to each other from now on; `None` when the system gives no memory.
    pub fn segregate(&mut self, nodes: usize) -> Option<()> {
        self.mail = Some(Mail::new(self.workers(), nodes, self.homes)?);
        Some(())
    }

    /// One thread does the work of all workers from now on, in turns.
    pub fn take_turns(&mut self, lockstep: Lockstep) {
        self.lockstep = Some(lockstep);
    }

    /// The leader of the next phases runs on a memory node.
    pub fn lead_on(&mut self, node: usize) {
        if let Some(mail) = &mut self.mail {
            mail.lead_on(node);
        }
        if let Some(leader) = self.states.first_mut() {
            leader.get_mut().node = node;
        }
    }

    /// The workers' states; between phases.
    pub fn worker_states(&mut self) -> impl Iterator<Item = &mut WorkerState> {
        self.states.iter_mut().map(UnsafeCell::get_mut)
    }

    /// Runs a phase with the tasks `0..tasks` until nothing is grey.
    pub fn run(&mut self, crew: &Crew, workers: usize, tasks: usize, trace: &dyn Trace) {
        let workers = workers.min(self.workers());
        if let Some(lockstep) = &mut self.lockstep {
            lockstep.begin();
        }
        let run = Run {
            engine: self,
            workers,
            tasks,
            trace,
        };
        match self.lockstep {
            None => crew.run(workers, &run),
            Some(_) => crew.run_alone(workers, &run),
        }
        for local in self.worker_states() {
            local.stack.forget();
            local.remote.forget();
        }
        // SAFETY: leaked by `new`, and freed by `drop` alone.
        unsafe { self.arena.as_ref() }.release();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: leaked by `new`; no phase runs any more, so no worker asks it for a segment.
        drop(unsafe { Box::from_raw(self.arena.as_ptr()) });
        let bytes = self.deques.len() * DEQUE_ITEMS * size_of::<AtomicU64>();
        self.deques.clear();
        // SAFETY: `new` mapped a ring for each deque, and the deques are gone.
        unsafe { memory::unmap(self.rings, memory::whole_pages(bytes).unwrap_or(bytes)) };
    }
}

pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) workers: usize,
    /// How many there are at the start.
    tasks: usize,
    trace: &'a dyn Trace,
}

/// What came of a turn of a worker in segregated spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It found something to do.
    Found,
    /// It found nothing it could do, and what it has for other nodes waits for room.
    Full,
    /// It found nothing, and has nothing.
    Nothing,
}

impl Run<'_> {
    /// How workers send to those of other nodes, if they do in this phase.
    fn boxes(&self) -> Option<&Mail> {
        let mail = self.engine.mail.as_ref();
        mail.filter(|_| self.trace.is_segregated())
    }

    /// The worker's own next item.
    #[inline(always)]
    fn next(&self, local: &mut WorkerState, deque: &Deque<'_, AtomicU64>) -> Option<Item> {
        if let Some(item) = local.stack.pop() {
            return Some(item);
        }
        self.trace.settle(local);
        local.stack.pop().or_else(|| deque.pop().map(Item))
    }

    /// Of one of these workers, as bits.
    fn steal(&self, own: usize, local: &mut WorkerState, among: u64) -> Option<Item> {
        let deques = &self.engine.deques;
        let others = (1..deques.len()).map(|step| (own + step) % deques.len());
        for victim in others.filter(|&other| among >> other & 1 != 0) {
            loop {
                match deques[victim].steal() {
                    Steal::Taken(item) => {
                        local.counts.stolen[self.engine.homes.of_worker(victim)] += 1;
                        return Some(Item(item));
                    }
                    Steal::Empty => break,
                    Steal::Retry => {}
                }
            }
        }
        None
    }

    fn something_is_left(&self, worker: &Worker<'_>, among: u64) -> bool {
        let has_items = |(index, deque): (usize, &Deque<'_, AtomicU64>)| {
            among >> index & 1 != 0 && !deque.is_empty()
        };
        worker.has_tasks() || self.engine.deques.iter().enumerate().any(has_items)
    }

    /// A worker does what is grey on its stack as long as there is `more` to do, or else a task, or takes something
    /// grey from another; whether it found anything.
    #[inline(always)]
    pub(super) fn turn(&self, worker: &Worker<'_>, mut more: impl FnMut() -> bool) -> bool {
        let own = worker.index();
        let deque = &self.engine.deques[own];
        // SAFETY: during a phase the state belongs to the worker of its index, or to the leader that stands in for it.
        let local = unsafe { &mut *self.engine.states[own].get() };
        let mut found = false;
        while more()
            && let Some(item) = self.next(local, deque)
        {
            found = true;
            self.trace.item(local, item);
            if worker.anyone_waiting() && deque.is_empty() && local.stack.share(deque) {
                worker.announce();
            }
        }
        found || self.task_or_theft(worker, local, ANYBODY)
    }

    /// A worker that has nothing grey does a task, or takes something grey from one of these workers, as bits; whether
    /// it found anything.
    fn task_or_theft(&self, worker: &Worker<'_>, local: &mut WorkerState, among: u64) -> bool {
        if let Some(task) = worker.take_task() {
            self.trace.task(local, task);
            if worker.has_tasks() {
                worker.announce();
            }
        } else if let Some(item) = self.steal(worker.index(), local, among) {
            local.grey(item);
        } else {
            return false;
        }
        true
    }

    /// As `turn`, in segregated spaces; also what others sent. What was found for other nodes waits to be sent while
    /// there is no room: then nothing more is scanned.
    #[inline(always)]
    pub(super) fn turn_apart<'a>(
        &self,
        worker: &Worker<'_>,
        mail: &'a Mail,
        outbox: &mut Outbox<'a>,
        mut more: impl FnMut() -> bool,
    ) -> Turn {
        let own = worker.index();
        let deque = &self.engine.deques[own];
        let colleagues = mail.colleagues(own);
        // SAFETY: during a phase the state belongs to the worker of its index, or to the leader that stands in for it.
        let local = unsafe { &mut *self.engine.states[own].get() };
        let mut found = false;
        while (local.waiting == 0 || mail.send(worker, local, outbox, self.trace))
            && more()
            && let Some(item) = self.next(local, deque)
        {
            found = true;
            self.trace.item(local, item);
            if worker.anyone_waits_of(colleagues) && deque.is_empty() && local.stack.share(deque) {
                worker.announce_to(colleagues);
            }
        }
        if found && local.waiting == 0 {
            return Turn::Found;
        }
        let is_sent = outbox.flush(worker);
        // Also what comes while there is no room to send: so that two do not wait for each other.
        if self.receive(worker, local) {
            return Turn::Found;
        }
        if local.waiting > 0 {
            return Turn::Full;
        }
        match self.task_or_theft(worker, local, colleagues) {
            true => Turn::Found,
            false if !is_sent => Turn::Full,
            false => {
                assert!(
                    !local.has_work(),
                    "phase trace: a worker that has work offers"
                );
                Turn::Nothing
            }
        }
    }

    /// What a worker does until nothing is left.
    fn work_together(&self, worker: &Worker<'_>) {
        loop {
            if !self.turn(worker, || true) {
                match worker.offer(|| self.something_is_left(worker, ANYBODY)) {
                    Verdict::WorkAgain => {}
                    Verdict::Finished | Verdict::StandBy => return,
                }
            }
        }
    }

    /// The work of a worker in segregated spaces.
    fn work_apart(&self, worker: &Worker<'_>, mail: &Mail) {
        let colleagues = mail.colleagues(worker.index());
        let mut outbox = Outbox::default();
        loop {
            match self.turn_apart(worker, mail, &mut outbox, || true) {
                Turn::Found => {}
                Turn::Full => yield_now(),
                Turn::Nothing => {
                    match worker.offer(|| self.something_is_left(worker, colleagues)) {
                        Verdict::WorkAgain => {}
                        Verdict::Finished | Verdict::StandBy => return,
                    }
                }
            }
        }
    }

    /// Does what a batch asks for; whether there was one.
    fn receive(&self, worker: &Worker<'_>, local: &mut WorkerState) -> bool {
        let Some(batch) = worker.receive() else {
            return false;
        };
        for word in batch.words() {
            self.trace.receive(local, Message::of(word));
        }
        true
    }
}

/// All workers, as bits.
const ANYBODY: u64 = u64::MAX;

impl Phase for Run<'_> {
    fn tasks(&self) -> usize {
        self.tasks
    }

    fn mail(&self) -> Option<&Mailboxes<'_>> {
        self.boxes().map(Mail::boxes)
    }

    fn work(&self, worker: &Worker<'_>) {
        match (&self.engine.lockstep, self.boxes()) {
            (Some(lockstep), mail) => self.work_in_turns(worker, lockstep, mail),
            (None, Some(mail)) => self.work_apart(worker, mail),
            (None, None) => self.work_together(worker),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
